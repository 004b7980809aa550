"""All private names of PyTorch that this package uses; if a version lacks one, the ImportError states the remedy."""

import contextlib
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import torch
from torch.fx import traceback
from torch.nn.functional import linear
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import stateless
from torch.utils import checkpoint

from remat_algos.interop.torch.stable_names import FakeTensor, FakeTensorMode, tree_map

OLDEST, NEWEST = "2.12", "2.14"
"""Oldest and newest version of PyTorch with which tests/interop passes; older ones do not mark checkpoint regions."""


def _sentence(fact: str) -> str:
    remedy = f"python -m pip install 'torch=={NEWEST}.*', or use plan_checkpoints, which supports 2.6 and newer"
    versions = f"PyTorch {OLDEST} to {NEWEST}"
    return f"capture, rematerialize and the backend of torch.compile need {versions}, and {fact}: {remedy}"


def _moved(error: Exception) -> ImportError:
    what = str(error).partition(" from ")[0]
    return ImportError(_sentence(f"PyTorch {torch.__version__} lacks a name that they use ({what})"))


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


if _release(torch.__version__) < _release(OLDEST):
    raise ImportError(_sentence(f"this is PyTorch {torch.__version__}"))
if _release(torch.__version__) > _release(NEWEST):
    warnings.warn(_sentence(f"PyTorch {torch.__version__} is not tested"), stacklevel=2)

try:
    from torch._decomp import decompositions
    from torch._dynamo import config as _dynamo_config
    from torch._dynamo.backends.common import aot_autograd as aot_autograd
    from torch._dynamo.eval_frame import OptimizeContext as _CompiledCalls
    from torch._dynamo.eval_frame import dynamo_tls as _dynamo_state
    from torch._dynamo.eval_frame import innermost_backend as _innermost_backend
    from torch._dynamo.external_utils import wrap_inline as _in_frame
    from torch._dynamo.trace_rules import check as _is_skipped
    from torch._dynamo.utils import counters as _counters
    from torch._dynamo.utils import graph_break_reasons as _graph_break_reasons
    from torch._functorch._aot_autograd import descriptors
    from torch._functorch.aot_autograd import aot_compile_joint_with_descriptors as compile_joint  # noqa: F401
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors as _export_joint
    from torch._guards import CompileContext as CompileContext
    from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
    from torch._inductor.custom_graph_pass import CustomPartitionerFn as CustomPartitioner  # noqa: F401
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._subclasses import fake_tensor
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    from torch.fx.graph import _BoxedCodeGen as BoxedCode  # noqa: F401
    from torch.utils._pytree import keystr as path_text  # noqa: F401
    from torch.utils._pytree import tree_flatten_with_path as leaves_with_paths  # noqa: F401

    InputMutation = descriptors.InputMutationAOTOutput
    Parameter = descriptors.ParamAOTInput
    Buffer = descriptors.BufferAOTInput
    PlainInput = descriptors.PlainAOTInput
    OUTSIDE = descriptors.TangentAOTInput, descriptors.BackwardTokenAOTInput
    _BACKWARD = descriptors.GradAOTOutput, descriptors.BackwardTokenAOTOutput
    _SUBCLASS_PARTS = descriptors.SubclassGetAttrAOTInput, descriptors.SubclassGetAttrAOTOutput
    Saved = descriptors.SavedForBackwardsAOTOutput
    SavedUnchecked = descriptors.SavedForBackwardsNoVcCheckAOTOutput
    DataDependent = (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        GuardOnDataDependentSymNode,
    )
    _fake_settings = fake_tensor.fake_tensor_tls
    _rnn_layers, _lstm_layer = decompositions._rnn_helper, decompositions.one_layer_lstm
    _READ_LATER = (
        *(decompositions.select_one_layer_lstm_function, decompositions.gru_cell, torch.compiler._is_compiling_flag),
        *(checkpoint._checkpoint_without_reentrant_generator, stateless._reparametrize_module),
        DistributedDataParallel._get_active_ddp_module,
    )
except (ImportError, AttributeError) as _error:
    raise _moved(_error) from _error

# In PyTorch 2.14, `checkpoint` passes its options to this function by keyword instead of by position.
_BY_NAME = hasattr(checkpoint, "_checkpoint_without_reentrant_generator_impl")
_REGIONS = "_checkpoint_without_reentrant_generator" + ("_impl" if _BY_NAME else "")

_ATTENTION = flex_attention, flex_attention_backward

COMPILE_MORE = "raise torch._dynamo.config.recompile_limit"
ONE_GRAPH_OF_DDP = "torch._dynamo.config.optimize_ddp = False makes one graph of them"
RECOMPUTE, REGION = "recompute", "ac_graph_id"
"""Keys in `meta`: whether `torch.utils.checkpoint` recomputes a node, and the checkpoint regions around it."""

CALLERS = "nn_module_stack"
"""Key in `meta` for the modules that call a node, by the names that PyTorch gives them."""
_MODEL, _SLOT = re.compile(r"^[LG](\[[^\]]*\])+(\.__self__)?"), re.compile(r"\._modules\['([^']*)'\]")


def inductor() -> tuple[Any, Any]:
    """Import inductor's compile function and its configuration when they are needed, because the import is slow."""
    try:
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx
    except ImportError as error:
        raise _moved(error) from error
    return compile_fx, config


def origin(descriptor: Any) -> Any:
    """Return a descriptor; if it is for a part of a tensor subclass, return the descriptor of the whole tensor."""
    while isinstance(descriptor, _SUBCLASS_PARTS):
        descriptor = descriptor.base
    return descriptor


def n_forward(outputs: Any) -> int:
    """Return the number of forward outputs; `outputs` contains None for each missing gradient."""
    places = (
        i
        for i, descriptor in enumerate(map(origin, outputs))
        if descriptor is None or isinstance(descriptor, _BACKWARD)
    )
    return next(places, len(outputs))


def runs_modules(node: Any) -> bool:
    """Return True if a call runs modules of the graph, as torch.cond does, unless it is flex attention."""
    if not isinstance(node.target, HigherOrderOperator) or node.target in _ATTENTION:
        return False
    return any(read.op == "get_attr" and "val" not in read.meta for read in node.all_input_nodes)


SYMBOLS = torch.SymInt | torch.SymFloat | torch.SymBool


def specialize_sizes(inputs: Any) -> None:
    """Specialize the current compilation to the sizes of these inputs, so that PyTorch recompiles for other sizes."""
    for each in inputs:
        if isinstance(each, torch.SymInt):
            int(each)


def constant_size(symbol: Any) -> int | None:
    """Return the value of a specialized symbolic size, or None for anything else."""
    return symbol.node.maybe_as_int() if isinstance(symbol, torch.SymInt) else None


def export_joint(stack: contextlib.ExitStack, model: Any, inputs: Any, keywords: Any) -> Any:
    """Export the joint graph of a model; meanwhile `torch.compiler.is_compiling()` is true, as in torch.compile."""
    with _meta_on_cpu(model, (inputs, keywords)) as (args, kwargs), warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        # A tensor that is not an input, a parameter or a buffer becomes a constant of the graph.
        constants = _replaced(_fake_settings, allow_non_fake_inputs_override=True)
        compiling = _replaced(torch.compiler, _is_compiling_flag=True)
        with compiling, constants, checkpoint_regions(), _calls_noted(model), _each_once(model):
            joint = _export_joint(stack, model, args, kwargs)
    for each in messages:
        if _NO_AUTOGRAD in str(each.message):
            operator = str(each.message).partition(":  ")[0].partition(f": {_NO_AUTOGRAD}")[0]
            raise NoGradient(operator, _without_gradient(joint.graph_module.graph))
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return joint


_NO_AUTOGRAD = "an autograd kernel was not registered"


class NoGradient(Exception):
    """Error that names an operator for which PyTorch has no gradient, and the parameters that get none as a result."""


def _without_gradient(graph: Any) -> list[str]:
    read = {origin(node.meta["desc"]) for node in graph.find_nodes(op="placeholder") if node.users}
    output = graph.output_node()
    pairs = zip(output.args[0], map(origin, output.meta["desc"]), strict=True)
    missing = [about.grad_of for result, about in pairs if result is None and isinstance(about, _BACKWARD[:1])]
    return [each.target for each in map(origin, missing) if isinstance(each, Parameter) and each in read]


@contextlib.contextmanager
def _meta_on_cpu(model: Any, inputs: Any) -> Iterator[Any]:
    """Replace tensors on "meta" with fake tensors on the CPU, because some operators have no gradient on "meta"."""
    slots = [slot for module in model.modules() for slot in (module._parameters, module._buffers)]
    before = [dict(slot) for slot in slots]
    mode, copies = FakeTensorMode(allow_non_fake_inputs=True), dict[int, Any]()

    def on_cpu(each: Any) -> Any:
        if not isinstance(each, torch.Tensor) or each.device.type != "meta" or isinstance(each, FakeTensor):
            return each
        if id(each) not in copies:
            with mode:
                copy = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cpu")
            is_parameter = isinstance(each, torch.nn.Parameter)
            copy = torch.nn.Parameter(copy, each.requires_grad) if is_parameter else copy
            copies[id(each)] = copy.requires_grad_(each.requires_grad)
        return copies[id(each)]

    try:
        for slot in slots:
            slot.update({name: on_cpu(each) for name, each in slot.items()})
        yield tree_map(on_cpu, inputs)
    finally:
        for slot, contents in zip(slots, before, strict=True):
            slot.update(contents)


@contextlib.contextmanager
def _replaced(owner: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def _each_once(model: Any) -> Iterator[None]:
    """Make each parameter or buffer a single input of the graph, with one gradient, even if it has several names."""
    slots = [(slot, dict(slot)) for module in model.modules() for slot in (module._parameters, module._buffers)]
    named = {"named_parameters": model.named_parameters, "named_buffers": model.named_buffers}
    own = {name: vars(model)[name] for name in named if name in vars(model)}
    name_of = {id(tensor): name for call in named.values() for name, tensor in call()}
    original = stateless._reparametrize_module

    def restore(tensors: Any) -> None:
        for (slot, _), before in zip(slots, tensors, strict=True):
            slot.clear()
            slot.update(before)

    def unique(call: Any, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **{**kwargs, "remove_duplicate": True})

    @contextlib.contextmanager
    def replaced(module: Any, tensors: Any, **options: Any) -> Iterator[None]:
        if module is not model:
            with original(module, tensors, **options):
                yield
            return
        # Restore these instead of the original contents, because a model may call itself with other tensors.
        present = [dict(slot) for slot, _ in slots]
        try:
            for slot, before in slots:
                canonical = {key: name_of.get(id(each)) for key, each in before.items()}
                slot.update({key: tensors[name] for key, name in canonical.items() if name in tensors})
            yield
        finally:
            restore(present)

    try:
        vars(model).update({name: partial(unique, call) for name, call in named.items()})
        stateless._reparametrize_module = replaced
        yield
    finally:
        stateless._reparametrize_module = original
        for name in named:
            del vars(model)[name]
        vars(model).update(own)
        restore(before for _, before in slots)


@contextlib.contextmanager
def _calls_noted(model: Any) -> Iterator[None]:
    """Mark each operator with the submodule that calls it, for `module_of`."""
    names = {module: name for name, module in model.named_modules()}
    outer: list[tuple[Any, Any]] = []
    thread = threading.get_ident()

    def enter(module: Any, inputs: Any) -> None:
        if module in names and threading.get_ident() == thread:
            outer.append((module, traceback.current_meta.get(CALLERS)))
            traceback.current_meta[CALLERS] = {names[module]: (names[module], type(module))}

    def leave(module: Any, inputs: Any, result: Any) -> None:
        if threading.get_ident() != thread or module not in [called for called, _ in outer]:
            return
        while True:
            called, before = outer.pop()
            traceback.current_meta[CALLERS] = before
            if called is module:
                return

    entering = register_module_forward_pre_hook(enter)
    leaving = register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        entering.remove()
        leaving.remove()
        traceback.current_meta.pop(CALLERS, None)


def module_of(meta: Any) -> str:
    """Return the path of the submodule that calls an operator or its forward operator; "" for the model itself."""
    callers = meta.get(CALLERS) or meta.get(f"fwd_{CALLERS}")
    path = list(callers.values())[-1][0] if callers else ""
    return _SLOT.sub(r".\1", _MODEL.sub("", path)).strip(".")


@contextlib.contextmanager
def checkpoint_regions() -> Iterator[None]:
    """Mark operators that `torch.utils.checkpoint` runs; `checkpoint_region` reads the marks."""
    original, numbers = getattr(checkpoint, _REGIONS), count()
    entered: list[tuple[int, ...]] = [()]

    def innermost(kind: Any) -> Any:
        """Return a subclass of `kind`, a class of dispatch modes, that adds the regions around the current operator."""
        return type(kind.__name__, (kind,), {REGION: property(lambda mode: entered[-1])})

    def marked(function: Any, *args: Any, **options: Any) -> Iterator[None]:
        region = (*entered[-1], next(numbers))
        context_fn = options["context_fn"] if _BY_NAME else args[1]

        def contexts() -> Any:
            selective = checkpoint.create_selective_checkpoint_contexts
            forward, again = selective(_recompute) if context_fn is checkpoint.noop_context_fn else context_fn()
            forward.__class__ = innermost(type(forward))
            return forward, again

        keys = (RECOMPUTE, REGION)
        before = {key: traceback.current_meta[key] for key in keys if key in traceback.current_meta}
        if _BY_NAME:
            options["context_fn"] = contexts
        else:
            args = (args[0], contexts, *args[2:])
        entered.append(region)
        try:
            yield from original(function, *args, **options)
        finally:
            entered.pop()
            for key in keys:
                traceback.current_meta.pop(key, None)
            traceback.current_meta.update(before)

    with _replaced(checkpoint, **{_REGIONS: marked, "CheckpointFunction": _NotReentrant}):
        yield


class _NotReentrant:
    """Equivalent replacement for reentrant checkpoints, which cannot be captured."""

    @staticmethod
    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        return checkpoint.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=preserve)


def _recompute(*args: Any, **kwargs: Any) -> Any:
    return checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_region(meta: Any) -> tuple[tuple[int, ...], bool]:
    """Return the checkpoint regions around an operator, outermost first, and whether it is recomputed."""
    again = (checkpoint.CheckpointPolicy.MUST_RECOMPUTE, checkpoint.CheckpointPolicy.PREFER_RECOMPUTE)
    # PyTorch's own mark is the number of one region, without the regions around it.
    region = meta.get(REGION)
    return (region,) if isinstance(region, int) else region or (), meta.get(RECOMPUTE) in again


@contextlib.contextmanager
def recurrent_layers() -> Iterator[None]:
    """Capture nn.LSTM, nn.GRU and nn.RNN as elementary operators.

    PyTorch's own decompositions omit the dropout between layers, use oneDNN's LSTM, which has no gradient, and round
    the gates of a GRU differently.
    """
    with _replaced(
        decompositions,
        _rnn_helper=_rnn_by_layers,
        select_one_layer_lstm_function=lambda *tensors: _lstm_layer,
        gru_cell=_gru_cell,
    ):
        yield


def _rnn_by_layers(
    x: Any,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer: Any,
) -> tuple[Any, list[Any]]:
    """Compute a recurrent network layer by layer with PyTorch's function, and with dropout between layers."""
    n_directions, last = 1 + bidirectional, []
    x = x.transpose(0, 1) if batch_first else x
    for i in range(num_layers):
        part = slice(i * n_directions, (i + 1) * n_directions)
        x, states = _rnn_layers(x, hidden[part], params[part], has_biases, 1, 0.0, train, bidirectional, False, layer)
        last += states
        if dropout and train and i < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    return x.transpose(0, 1) if batch_first else x, last


def _gru_cell(x: Any, h: Any, ih_weight: Any, ih_bias: Any, hh_weight: Any, hh_bias: Any) -> Any:
    """Compute a GRU cell and round its gates as PyTorch's kernel does; `x` is already multiplied by its weights."""
    of_h = linear(h, hh_weight, hh_bias)
    size = of_h.shape[-1] // 3
    reset, update = (gate.sigmoid() for gate in (of_h[..., : 2 * size] + x[..., : 2 * size]).chunk(2, -1))
    new = (x[..., 2 * size :] + of_h[..., 2 * size :] * reset).tanh()
    return (h - new) * update + new


def compile_id() -> tuple[int, int] | None:
    """Return the frame that is being compiled and the number of its earlier compilations, or None if there is none."""
    compiled = CompileContext.current_compile_id()
    if compiled is None or compiled.frame_id is None:
        return None
    return compiled.frame_id, compiled.frame_compile_id


class Break(NamedTuple):
    """A graph break of torch.compile: its `reason` or "", and `frames` of (file, line, function, source line)."""

    reason: str
    frames: list[tuple[str, int, str, str]]


def record_breaks(recurrent: bool) -> Callable[[], list[Break]]:
    """Start to record graph breaks on this thread. The returned function ends the recording and returns the breaks."""
    allow = _dynamo_config.allow_rnn
    _dynamo_config.allow_rnn = allow or recurrent
    is_outer = getattr(_dynamo_state, "skip_reasons", None) is None
    if is_outer:
        _dynamo_state.skip_reasons = []
    n_skipped, n_broken = len(_dynamo_state.skip_reasons), len(_graph_break_reasons)
    before = dict(_counters["unimplemented"])

    def end() -> list[Break]:
        _dynamo_config.allow_rnn = allow
        skipped = (_dynamo_state.skip_reasons or [])[n_skipped:]
        if is_outer:
            _dynamo_state.skip_reasons = None
        broken = _graph_break_reasons[n_broken:]
        breaks = [_break(each) for each in broken if each.graph_break and not _only_decides(each.reason)]
        frames = [[_skipped_frame(text)] for text in skipped if _SUPPRESSED in text]
        reasons = [text for text, n in _counters["unimplemented"].items() if n > before.get(text, 0)]
        named = [each for each in breaks if each.reason == _STEP] + [Break("", each) for each in frames]
        unnamed = [each for each in breaks if each.reason != _STEP]
        if not broken and not _RECORDS_SKIPPED:
            named = [Break("", [(inspect.getfile(_in_frame), 0, "", "")]) for _ in reasons]
        # PyTorch records locations and reasons separately: combine them only if it is clear which belong together.
        if len(reasons) == 1:
            reasons *= len(named)
        if len(reasons) != len(named):
            reasons = [""] * len(named)
        named = [each._replace(reason=reason) for each, reason in zip(named, reasons, strict=True)]
        return [*unnamed, *named]

    return end


# If no part of a function is captured, PyTorch before 2.13 does not record the location of the function.
_RECORDS_SKIPPED = hasattr(_dynamo_state, "skip_reasons")
_STEP, _SUPPRESSED = "step_unsupported", "an error was suppressed during compilation"
_SKIPPED = re.compile(r"^(.*) \((.*):(\d+)\): ")
_TRACED = re.compile(r'File "(.*)", line (\d+), in (.*)\n *(.*)')


def _break(reason: Any) -> Break:
    frames = [(each.filename, each.lineno, each.name, each.line) for each in reason.user_stack]
    return Break(str(reason.reason), frames)


def _only_decides(reason: str) -> bool:
    """Return True for a break after which all code is still captured: a branch on a tensor, or DDP's split."""
    return reason.startswith(("generic_jump", "DDPOptimizer"))


def _skipped_frame(text: str) -> tuple[str, int, str, str]:
    match = _SKIPPED.match(text)
    return (match[2], int(match[3]), match[1], "") if match else ("", 0, text, "")


def inner_gradient(module: Any) -> Break | None:
    """Return the first call of torch.func that computes gradients inside a captured graph, or None."""
    nodes = list(module.graph.nodes)
    begins = (i for i, node in enumerate(nodes) if getattr(node.target, "__name__", "") == "_grad_increment_nesting")
    if (first := next(begins, None)) is None:
        return None
    traces = [node.meta["stack_trace"] for node in nodes[first:] if node.meta.get("stack_trace")]
    frames = _TRACED.findall(traces[0]) if traces else []
    return Break("torch.func.grad", [(file, int(line), name, code) for file, line, name, code in frames])


def at_compiled_calls(monitor_of: Callable[[Any, Any, Any], Any]) -> None:
    """Install a hook on calls of models that are compiled by torch.compile.

    `monitor_of(backend, options, model)` returns None, or a function that is called before each call to the model and
    returns a function to call afterwards.
    """
    original = _CompiledCalls.__call__

    def attach(context: Any, function: Any) -> Any:
        backend = _innermost_backend(context.callback)
        options = keywords_of(backend).get("options")
        monitor = monitor_of(getattr(backend, "compiler_fn", backend), options, getattr(function, "__self__", function))
        if monitor is None:
            return original(context, function)
        if not getattr(context, "_remat", False):
            context._remat = True
            context.enter_exit_hooks.append(monitor)
        return original(context, _captured_whole(function))

    _CompiledCalls.__call__ = attach


def keywords_of(backend: Any) -> dict[str, Any]:
    """Return the keyword arguments stored in a backend; {} if its attribute `kwargs` is not a dictionary."""
    keywords = getattr(backend, "kwargs", None)
    return keywords if isinstance(keywords, dict) else {}


def _captured_whole(function: Any) -> Any:
    """Wrap a function in a Python frame of its own if torch.compile would skip the function's frame.

    torch.compile skips modules of torch.nn's own classes after `net.compile()`. `torch.compile(net)` runs all such
    modules in one shared frame, whose compilations count together against the limit; a separate frame has its own
    limit.
    """
    module, code = getattr(function, "__self__", None), getattr(function, "__code__", None)
    skipped = isinstance(module, torch.nn.Module) and function.__name__ == "_call_impl" and _is_skipped(module.forward)
    shared = _in_frame(len).__code__
    if not skipped and code is not shared:
        return function
    framed = _in_frame(function) if skipped else function
    framed.__code__ = framed.__code__.replace(co_varnames=framed.__code__.co_varnames)
    return framed


def recompile_limit() -> int:
    """Return the number of times that PyTorch compiles a frame before it runs the frame uncompiled."""
    return int(_dynamo_config.recompile_limit)


def parallel_gradients() -> int:
    """Return the bytes of all gradients of the DistributedDataParallel module being compiled, or 0."""
    parallel = DistributedDataParallel._get_active_ddp_module()
    trained = () if parallel is None else (each for each in parallel.parameters() if each.requires_grad)
    return sum(each.numel() * each.itemsize for each in trained)


class Gather(NamedTuple):
    """Size in bytes of a parameter group of FSDP2; `kept` is true if it stays gathered after the forward part."""

    size: int
    kept: bool


def gathers(model: Any) -> dict[int, Gather]:
    """Return the parameter groups of FSDP2 in a model, by id; there are none before the model's first call."""
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    states = [module._get_fsdp_state() for module in modules if hasattr(type(module), "_get_fsdp_state")]
    return {id(group): _gather(group) for state in states for group in state._fsdp_param_groups}


def _gather(group: Any) -> Gather:
    n_shards = getattr(group.mesh_info, "shard_mesh_size", 1)
    dtypes = [group.mp_policy.param_dtype or each.sharded_param.dtype for each in group.fsdp_params]
    shards = [each._sharded_param_data.numel() for each in group.fsdp_params]
    size = n_shards * sum(n * dtype.itemsize for n, dtype in zip(shards, dtypes, strict=True))
    return Gather(size, group.post_forward_mesh_info is not group.mesh_info)
