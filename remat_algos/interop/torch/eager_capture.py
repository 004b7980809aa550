"""Capture of an eager training step without a compiler: operators, storages, and the lifetimes of storages."""

import contextlib
import re
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from remat_algos.allocate.pools import CHUNK
from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import AnyDevice, Cost
from remat_algos.errors import GraphError, PlanError
from remat_algos.interop import tuning
from remat_algos.interop.torch.costs import Call, Layout, price
from remat_algos.interop.torch.fake_step import Attributes, FakeStep, assumed, fake_step, python_generators
from remat_algos.interop.torch.stable_names import (
    DATA_DEPENDENT,
    DispatchMode,
    FakeTensor,
    arguments_by_name,
    is_view,
    schema_of,
    without_modes,
    writes_into_arguments,
)
from remat_algos.interop.torch.storages import mapped, named_tensors, stored_bytes, tensors
from remat_algos.ir.arrays import from_lists, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels, Resident
from remat_algos.plan.blocks import KEEP, Blocks, Holds, block_signature

# For these operators oneDNN allocates memory on the CPU, which PyTorch does not report.
ONEDNN = re.compile("convolution|mkldnn|bfloat16|float16")
FREE = (torch.ops.prim.device.default,)  # operators that read only attributes
# Namespaces of operators that are never recomputed: a process that recomputed one alone would wait for the others.
COLLECTIVES = ("_c10d_functional", "c10d_functional", "c10d")
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
FORWARD, NO_OWNER = -1, -2  # entries of `forward_of`


@dataclass(slots=True, eq=False)
class _Storage:
    """The storage of a resident or a value; a value that an in-place write creates has 0 bytes of its own."""

    size: int
    row: int = -1  # node; -1 for a resident
    name: str = ""
    role: str = ""  # of a resident
    # `base` is the storage that this value overwrites; `version` is the last value that overwrites this storage.
    base: "_Storage | None" = None
    version: "_Storage | None" = None
    # Id of PyTorch's storage while it exists, if the forward part created it; else 0.
    key: int = 0
    viewed: bool = False
    # Last node during which a tensor in this storage is alive, not counting tensors that autograd saved.
    live_until: int = -1
    # Key: block. Entry: the last node during which autograd holds this storage for the block, first without and then
    # with a rerun of the block (the last two columns of `Holds.saved`).
    saved: "dict[_Block | None, list[int]]" = field(default_factory=dict)
    number: Any = None  # assumed value, or None

    @property
    def latest(self) -> "list[_Storage]":
        """Values that a reader of this storage reads: the original value, and the last one written in place."""
        return [each for each in (None if self.role else self, self.version) if each is not None]


@dataclass(slots=True, eq=False)
class _Block:
    path: str
    calls: int = 0
    counts: Counter = field(default_factory=Counter)
    inputs: list[_Storage] = field(default_factory=list)
    arguments: dict[_Storage, list[str]] = field(default_factory=dict)  # key: input; entry: names
    results: set[_Storage] = field(default_factory=set)
    constants: set[_Storage] = field(default_factory=set)  # tensors created from numbers
    rerun_end: int = 0
    trigger: int = -1
    release: int = -1
    refusal: str = ""

    def refuse(self, why: str) -> None:
        self.refusal = self.refusal or why


@dataclass(slots=True, eq=False)
class _OperatorRow:
    operator: Any
    path: str
    count: int  # earlier calls in the block
    block: _Block | None
    reads: list[_Storage]
    residents: list[_Storage]
    values: list[_Storage]
    call: Call
    draw: bool
    once: bool
    cached: bool  # in autocast's cache
    owner: int


@dataclass(eq=False)
class _Handle:
    """Placeholder that autograd saves instead of a tensor."""

    layout: Layout
    storage: _Storage
    block: _Block | None
    finalizer: Any = None


class _Recorder(DispatchMode):
    """Records the table rows of a step's graph while its operators run on fake tensors.

    PyTorch adds a gradient to an earlier one in place if nothing else refers to the earlier one. Under a dispatch mode
    it adds out of place, so a sum is recorded as in place if the earlier gradient is freed right after the addition.
    """

    def __init__(self, step: FakeStep, paths: Mapping[nn.Module, str], blocks: Sequence[str]) -> None:
        super().__init__()
        self.step = step
        self.rows: list[_OperatorRow] = []
        self.residents: list[_Storage] = []
        self.storages: dict[int, _Storage] = {}  # key: id of PyTorch's storage
        self.handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        # Weak references to the last results, whose autograd nodes are created only after the dispatch.
        self.last: list[Any] = []
        # Set only right after an addition of gradients: ids of the storages of the earlier gradient and of the sum.
        self.sum: tuple[int, int] | None = None
        self.quiet = self.backward = False
        # Forward row whose autograd node is running; NO_OWNER while the engine adds gradients.
        self.owner = NO_OWNER
        self.paths, self.outer = paths, [""]
        # A rerun does not update the statistics of these modules.
        self.norms = {path for module, path in paths.items() if isinstance(module, NORMS)}
        self.blocks = {path: _Block(path) for path in blocks}
        self.block: _Block | None = None
        self.attributes: Attributes | None = None  # before the call
        self.generators = python_generators()
        self.swapped = {*step.fakes, *map(id, step.fakes.values())}
        self.assumed = False  # an assumed number was read
        # Forward rows whose gradients trigger reruns of the model's own checkpoints.
        self.reruns: set[int] = set()
        self.names = {id(fake): name for name, fake in reversed(step.parameters.items())}
        for fake in step.fakes.values():
            name = self.names.get(id(fake))
            role = "input" if name is None else "parameter" if isinstance(fake, nn.Parameter) else "state"
            self._add_resident(fake, name or f"input_{sum(each.role == 'input' for each in self.residents)}", role)

    def _add_resident(self, tensor: torch.Tensor, name: str, role: str) -> _Storage:
        storage = tensor.untyped_storage()
        if id(storage) not in self.storages:
            self.storages[id(storage)] = _Storage(self._bytes(int(storage.nbytes())), name=name, role=role)
            self.residents.append(self.storages[id(storage)])
            # Remove a freed storage, because another one can then get its id.
            weakref.finalize(storage, self.storages.pop, id(storage), None)
        return self.storages[id(storage)]

    def storage_of(self, tensor: torch.Tensor) -> _Storage:
        """Return the storage of a tensor; a storage that was created outside of the step becomes a resident."""
        stored = self.storages.get(id(tensor.untyped_storage()))
        return self._add_resident(tensor, f"constant_{len(self.residents)}", "state") if stored is None else stored

    def _bytes(self, size: int) -> int:
        return -(-size // CHUNK) * CHUNK if self.step.on_gpu else size

    def _track(self, tensor: torch.Tensor, stored: _Storage) -> None:
        storage = tensor.untyped_storage()
        self.storages[id(storage)] = stored
        weakref.finalize(storage, self._freed, id(storage))

    def _freed(self, key: int) -> None:
        """Record that a storage is freed; if it is the first term of the latest sum, mark the sum as in place."""
        stored = self.storages.pop(key, None)
        if stored is None or stored.role:
            return
        stored.key = 0 if stored.key == key else stored.key
        if self.sum is not None and key == self.sum[0]:
            total, self.sum = self.sum[1], None
            if total in self.storages:
                added = self.storages[total]
                added.size, added.base, self.storages[total], stored.version = 0, stored, stored, added
                return
        stored.live_until = max(stored.live_until, len(self.rows) - 1)

    def close(self) -> None:
        self.sum = None
        for stored in self.storages.values():
            stored.live_until = len(self.rows) - 1
        for handle in self.handles:
            handle.finalizer()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if operator in FREE or self.quiet:
            return operator(*args, **kwargs)
        if operator is torch.ops.aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            number = self.storage_of(args[0]).number
            if number is not None:
                self.assumed = True
                return number
        self._attach()
        result = self._result_of(operator, args, kwargs)
        self._record(operator, args, kwargs, result)
        results = list(tensors(result))
        inputs = {id(each.untyped_storage()) for each in tensors((args, kwargs))}
        views = [each for each in results if id(each.untyped_storage()) in inputs]
        if writes_into_arguments(operator):
            # `_attach` must not read `grad_fn` of a view whose base was written, because PyTorch would run operators to
            # create this `grad_fn`.
            if any(self.storage_of(each).viewed for each in results):
                return result
        else:
            for each in views:
                self.storage_of(each).viewed = True
        self.last = [weakref.ref(each) for each in results]
        return result

    def _result_of(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on fake tensors, or on real ones if its arguments are small and independent of parameters."""
        arguments = list(tensors((args, kwargs)))
        real = [each for each in arguments if not isinstance(each, FakeTensor)]
        written = _written(operator, args, kwargs)
        if len(real) < len(arguments) or torch.Tag.nondeterministic_seeded in operator.tags:
            if any(each is other for each in real for other in written):
                raise GraphError("the model writes values that depend on parameters into integers; use a new tensor")
            return self._fake_result(operator, args, kwargs)
        if not writes_into_arguments(operator):
            try:
                result = self._fake_result(operator, args, kwargs)
            except DATA_DEPENDENT:
                result = None
            results = list(tensors(result))
            if any(each.numel() > tuning.KNOWN_ELEMENTS for each in (*results, *arguments)):
                return result
            if not arguments and any(each.is_floating_point() or each.is_complex() for each in results):
                return result
        kwargs = {name: torch.device("cpu") if name == "device" else each for name, each in kwargs.items()}
        with without_modes():
            for each in written:
                stored = self.storages.get(id(each.untyped_storage()))
                if stored is None or stored.role:
                    self.step.overwritten.append((each, each.detach().clone()))
            return operator(*args, **kwargs)

    def _fake_result(self, operator: Any, args: Any, kwargs: Any) -> Any:
        empty = self.step.empty
        if str(operator) == "aten._ctc_loss.Tensor" and not isinstance(args[3], FakeTensor):
            # There is no fake kernel for this operator, because the shape of its second result depends on elements.
            with without_modes():
                longest = max(args[3].tolist(), default=0)
            batch = args[0].shape[1:-1]
            shape = *(batch or (1,)), args[0].shape[0], 2 * longest + 1
            return self._contiguous(batch, args[0]), self._contiguous(shape, args[0])
        if str(operator) == "aten._ctc_loss_backward.Tensor":
            return self._contiguous(args[1].shape, args[1])
        args, kwargs = mapped(self._twin, args), mapped(self._twin, dict(kwargs))
        if self.step.on is not None and kwargs.get("device") == torch.device("cpu"):
            kwargs["device"] = self.step.on
        if str(operator) == "aten._grouped_mm.default" and args[0].dtype != torch.bfloat16:
            # The fake kernel accepts only bfloat16; the real kernel accepts other types too.
            halves = (empty(each.shape, each.stride(), torch.bfloat16, each.device) for each in args[:2])
            result = operator(*halves, *args[2:], **kwargs)
            return empty(result.shape, result.stride(), args[0].dtype, result.device)
        result = operator(*args, **kwargs)
        if operator is torch.ops.aten.mkldnn_rnn_layer.default:
            # The last result needs its real size, because it is an argument when the gradient's workspace is measured.
            *results, workspace = result
            return *results, self._contiguous(stored_bytes(operator, args, kwargs, result)[-1:], workspace)
        return result

    def _contiguous(self, shape: Any, like: torch.Tensor) -> torch.Tensor:
        stride = [prod(shape[i + 1 :]) for i in range(len(shape))]
        return self.step.empty(shape, stride, like.dtype, like.device)

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor):
            return tensor
        twin = self.step.empty(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        self._track(twin, self.storage_of(tensor))
        return twin

    def _record(self, operator: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.sum = None
        block = None if self.backward else self.block
        cached = is_cached_cast(operator, args)
        count = 0
        if block is not None and not cached:
            count = block.counts[operator]
            block.counts[operator] += 1
        inputs = list(tensors((args, kwargs)))
        places = list(dict.fromkeys(map(self.storage_of, inputs)))
        if operator is torch.ops.aten.lift_fresh.default and block is not None:  # called by torch.tensor(1)
            block.constants |= {*places}
        if self.backward:
            self._check_saved(inputs)
        sizes = stored_bytes(operator, args, kwargs, result)
        new = {
            id(each.untyped_storage()): (each, size)
            for each, size in zip(tensors(result), sizes, strict=True)
            if id(each.untyped_storage()) not in self.storages
        }
        written = _written(operator, args, kwargs)
        effect = next(tensors(result), None) is None or operator.namespace in COLLECTIVES
        if not new and not written and not effect:
            return
        numbers = [self.storage_of(each).number for each in inputs]
        number = None if written else assumed(operator, args, kwargs, numbers)
        reads = list(dict.fromkeys(x for place in places for x in place.latest))
        values = []
        for key, (each, size) in new.items():
            values.append(_Storage(self._bytes(size), len(self.rows), key=0 if self.backward else key))
            self._track(each, values[-1])
            values[-1].number = number
        for place in dict.fromkeys(map(self.storage_of, written)):
            place.version = _Storage(0, len(self.rows), base=place)
            values.append(place.version)
            place.number = number
        if block is not None:
            self._check_written(block, written)
            if any(isinstance(each, torch.Generator) for each in (*args, *kwargs.values())):
                block.refuse("it draws from a generator of its own, which checkpoints do not restore")
        self.rows.append(
            _OperatorRow(
                operator,
                self.outer[-1],
                count,
                block,
                reads,
                [place for place in places if place.role],
                values or [_Storage(0, len(self.rows))],
                Call.of(operator, args, kwargs, result),
                draws(operator, args, kwargs),
                effect or (self.outer[-1] not in self.norms and _updates_state(operator, args, kwargs)),
                cached,
                self.owner if self.backward else FORWARD,
            )
        )
        adds = self.backward and self.owner == NO_OWNER and operator is torch.ops.aten.add.Tensor
        whole = torch.ops.aten.is_non_overlapping_and_dense.default
        if adds and new and whole(args[0]) and not is_view(args[0]):
            self.sum = id(args[0].untyped_storage()), next(iter(new))

    def _check_saved(self, arguments: Sequence[torch.Tensor]) -> None:
        """Refuse a block if a gradient reads one of its unsaved values, or if it already contains a checkpoint."""
        for each in arguments:
            key = id(each.untyped_storage())
            stored = self.storages[key]
            block = self.rows[stored.row].block if stored.key == key else None
            if block is not None:
                block.refuse("a gradient reads one of its tensors that was not saved by save_for_backward")
        if torch.is_grad_enabled() and self.owner >= 0:
            self.reruns.add(self.owner)
            owner = self.rows[self.owner].block
            if owner is not None:
                owner.refuse("it already contains a checkpoint: switch that off to plan it")

    def _check_written(self, block: _Block, written: Sequence[torch.Tensor]) -> None:
        """Refuse a block that writes into a tensor from outside, except into the counter of a batch norm."""
        for tensor in written:
            place = self.storage_of(tensor)
            if place.role:
                inside = place in block.constants or self._counts_batches(tensor)
            else:
                inside = place.row == len(self.rows) or self.rows[place.row].block is block
            if not inside:
                what = "a buffer" if place.role not in ("", "input") else "one of its inputs"
                block.refuse(f"it writes into {what}, and recomputing it would change that again")

    def _counts_batches(self, tensor: torch.Tensor) -> bool:
        module, _, name = self.names.get(id(tensor), "").rpartition(".")
        return name == "num_batches_tracked" and isinstance(self.step.model.get_submodule(module), NORMS)

    def start_backward(self) -> None:
        self._attach()
        self.backward = True

    def _attach(self) -> None:
        """Make the last row the owner of rows that are added while autograd computes gradients of the last results."""
        for each in () if self.backward else self.last:
            tensor = each()
            node = None if tensor is None else tensor.grad_fn
            if node is not None:
                owner = len(self.rows) - 1 if self.rows else NO_OWNER
                node.register_prehook(partial(self._set_owner, owner))
                node.register_hook(partial(self._set_owner, NO_OWNER))
                break
        self.last = []

    def _set_owner(self, owner: int, *gradients: Any) -> None:
        self.owner = owner
        if self.block is not None and not self.backward:
            self.block.refuse("it computes gradients in its forward part, and recomputing it would repeat that")

    def pack(self, tensor: torch.Tensor) -> Any:
        if tensor.layout is not torch.strided:
            raise GraphError(
                "autograd saves a sparse tensor; a plan needs dense ones: remove sparse=True from the layer"
            )
        handle = _Handle(Layout.of(tensor), self.storage_of(tensor), self.block)
        handle.finalizer = weakref.finalize(handle, self._release, handle.storage, self.block, 2)
        self.handles.add(handle)
        if self.block is not None:
            self.block.rerun_end = len(self.rows)
        return handle

    def unpack(self, handle: Any) -> torch.Tensor:
        if handle.block is not None and not self.backward:
            handle.block.refuse("torch.autograd.grad reads its values before backward(), and each would recompute it")
        elif handle.block is not None and handle.block.trigger < 0:
            handle.block.trigger = len(self.rows)
        quiet, self.quiet = self.quiet, True
        try:
            layout = handle.layout
            tensor = self.step.empty(layout.shape, layout.stride, layout.dtype, layout.device)
        finally:
            self.quiet = quiet
        # Autograd keeps the storage alive, not this Python object, so the finalizers are set on the storage.
        storage = tensor.untyped_storage()
        self.storages[id(storage)] = handle.storage
        weakref.finalize(storage, self.storages.pop, id(storage), None)
        weakref.finalize(storage, self._release, handle.storage, handle.block, 2)
        handle.finalizer.detach()
        handle.finalizer = weakref.finalize(handle, self._release, handle.storage, handle.block, 1)
        return tensor

    def _release(self, stored: _Storage, block: _Block | None, count: int) -> None:
        """Record that a saved tensor's life ends at this node; if `count` is 2, also if the block is rerun."""
        last = len(self.rows) - 1
        stored.saved.setdefault(block, [-1, -1])[:count] = [last] * count
        if block is not None:
            block.release = last

    def enter_module(self, module: nn.Module, args: Any) -> None:
        path = self.paths.get(module)
        if path is None:
            return
        self.outer.append(path)
        block = self.blocks.get(path)
        if self.backward:
            inside = [each for each in self.blocks.values() if f"{path}.".startswith(f"{each.path}.")]
            for each in inside or [each for each in self.blocks.values() if each.path.startswith(f"{path}.")]:
                each.refuse("it already contains a checkpoint: switch that off to plan it")
        elif block is not None and self.block is None:
            self.block = block
            block.calls += 1
            block.counts.clear()

    def enter_block(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        block = self.blocks[self.paths[module]]
        if self.block is block:
            self.attributes = Attributes(module, [*args, *kwargs.values()], self.swapped)
        if not self.backward:
            block.inputs += map(self.storage_of, tensors((args, kwargs)))
            for name, tensor in named_tensors(args, kwargs):
                block.arguments.setdefault(self.storage_of(tensor), []).append(name)

    def leave_module(self, module: nn.Module, args: Any, result: Any) -> None:
        path = self.paths.get(module)
        if path is None or path not in self.outer:
            return
        # Remove calls that ended in an exception too: they are still on the stack.
        while self.outer.pop() != path:
            pass
        block = self.block
        if block is not None and block.path == path:
            block.results |= set(map(self.storage_of, tensors(result)))
            change = self.attributes.change() if self.attributes is not None else ""
            if change:
                block.refuse(change)
            self.block = self.attributes = None


def is_cached_cast(operator: Any, args: Any) -> bool:
    """Return True for a cast of a parameter; its result may still be in autocast's cache when a block is recomputed."""
    return operator is torch.ops.aten._to_copy.default and args[0].is_leaf and args[0].requires_grad


def _written(operator: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    if not writes_into_arguments(operator):
        return []
    named = arguments_by_name(operator, args, kwargs)
    writes = [each.name for each in schema_of(operator).arguments if each.alias_info and each.alias_info.is_write]
    return list(tensors([named[name] for name in writes if name in named]))


def _updates_state(operator: Any, args: Any, kwargs: Any) -> bool:
    """Return True for normalization in training; it writes running statistics, which its schema does not declare."""
    named = arguments_by_name(operator, args, kwargs)
    if named.get("running_mean") is None or "save_mean" in named:
        return False
    return bool(named.get("training", named.get("train", True)))


def draws(operator: Any, args: Any, kwargs: Any) -> bool:
    """Return True if an operator draws from a generator; attention and dropout do so if their probability is not 0."""
    if torch.Tag.nondeterministic_seeded not in getattr(operator, "tags", ()):
        return False
    named = arguments_by_name(operator, args, kwargs)
    return named.get("dropout_p", 1.0) != 0 and named.get("train", True) is not False


@dataclass(frozen=True, slots=True, eq=False)
class EagerCapture:
    """One training step as eager PyTorch runs it.

    graph : one node for each operator that stores or writes something; a view is part of its base, and a node that
        writes in place has a value of 0 bytes
    holds : how long PyTorch keeps values alive
    overloads : operator of each node, such as "aten.mm.default"
    paths : path of the module that calls each node, or that calls the forward node of a gradient
    counts : for each node, the number of earlier calls of its overload in the same call of the block; int32
    arguments : for each block, a mapping from input values to the names of arguments that share their storage
    checkpoints : number of checkpoints in the model itself
    state : bytes of generator state that a checkpoint saves, 0 on a GPU
    notes : assumptions behind the figures, as sentences
    """

    graph: ComputationGraph
    blocks: Blocks
    holds: Holds
    overloads: tuple[str, ...]
    paths: tuple[str, ...]
    counts: Any
    arguments: tuple[Mapping[int, tuple[str, ...]], ...]
    checkpoints: int
    state: int
    notes: tuple[str, ...]

    def stashed(self, treatments: Sequence[Any]) -> int:
        """Return the bytes of generator states: each checkpoint saves one, and a rerun saves the current one."""
        count = self.checkpoints + sum(each.decision != KEEP for each in treatments)
        return (count + 1) * self.state if count else 0

    def __repr__(self) -> str:
        return f"EagerCapture({self.graph!r}, {len(self.blocks.names)} blocks)"


@checked_arguments
def capture_step(
    model: nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    on: torch.device | str | None = None,
    blocks: str | Sequence[str] | None = None,
    cost: Any = "roofline",
    device: AnyDevice | None = None,
    workspace: bool = False,
) -> EagerCapture:
    """Capture a training step, forward and backward, on fake tensors; nothing is computed or allocated.

    The arguments are those of `plan_checkpoints`. Attributes of the model's modules are restored afterwards. Raise
    GraphError if the result is not a loss, a parameter would get no gradient, or the model reads elements of a tensor.
    """
    paths = {module: name for name, module in model.named_modules()}
    chosen = _chosen(model, blocks)
    with fake_step(model, inputs, keywords, on) as step, contextlib.ExitStack() as hooks:
        recorder = _Recorder(step, paths, chosen)
        hooks.callback(register_module_forward_pre_hook(recorder.enter_module).remove)
        hooks.callback(register_module_forward_hook(recorder.leave_module, always_call=True).remove)
        for path in chosen:
            module = model.get_submodule(path)
            hooks.callback(module.register_forward_pre_hook(recorder.enter_block, with_kwargs=True).remove)
        with recorder, saved_tensors_hooks(recorder.pack, recorder.unpack), _without_kernels() as operators:
            scalar = step.run(loss, recorder.start_backward)
            recorder.close()
        _check_gradients(recorder, scalar, operators)
        return _assembled(recorder, scalar, cost, device, workspace)


def _chosen(model: nn.Module, patterns: str | Sequence[str] | None) -> list[str]:
    names = [name for name, _ in model.named_modules() if name]
    if patterns is None:
        lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
        outer = [name for name in lists if not any(name.startswith(f"{each}.") for each in lists)]
        return [f"{name}.{i}" for name in outer for i in range(len(model.get_submodule(name)))]
    texts = [patterns] if isinstance(patterns, str) else list(patterns)
    requested = [part.strip().split(".") for text in texts for part in text.split(",")]
    unmatched = [each for each in requested if not any(_matches(name.split("."), each) for name in names)]
    if unmatched or not requested:
        raise PlanError(
            "no module has the path {pattern!r}; the modules are {modules!l}"
            if unmatched
            else "blocks is empty, so there is nothing to checkpoint; the modules are {modules!l}",
            pattern=".".join(unmatched[0]) if unmatched else "",
            modules=list(dict.fromkeys(re.sub(r"(?<![^.])\d+(?![^.])", "*", name) for name in names)) or ["none"],
        )
    return [name for name in names if any(_matches(name.split("."), each) for each in requested)]


def _matches(parts: list[str], pattern: list[str]) -> bool:
    pairs = zip(parts, pattern, strict=False)
    return len(parts) == len(pattern) and all(expected in ("*", part) for part, expected in pairs)


@contextlib.contextmanager
def _without_kernels() -> Iterator[list[str]]:
    """Collect the operators for which PyTorch warns that they have no gradient; issue other warnings again."""
    operators: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield operators
    for each in caught:
        operator, mark, _ = str(each.message).partition(": an autograd kernel was not registered")
        if mark:
            operators.append(operator)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def no_gradient(operator: str, names: Sequence[str]) -> GraphError:
    """Return the error for parameters that get no gradient because PyTorch has none for the operator."""
    return GraphError(
        "PyTorch has no gradient for {operator}, so {names!l} would have no gradient; use an operator with a gradient, "
        "or register one (torch.library.register_autograd)",
        operator=operator,
        names=list(names) or ["parameters before it"],
    )


def _check_gradients(recorder: _Recorder, loss: torch.Tensor, operators: Sequence[str]) -> None:
    trained = [each for each in recorder.step.fakes.values() if each.requires_grad]
    lacking = {id(each): recorder.names.get(id(each), "an input") for each in trained if each.grad is None}
    names, seen, pending = set(), set(), [(loss.grad_fn, False)]
    while pending and lacking:
        node, is_cut = pending.pop()
        if node is None or (node, is_cut) in seen:
            continue
        seen.add((node, is_cut))
        is_cut = is_cut or "NotImplemented" in node.name()
        if is_cut:
            names |= {lacking[key] for key in {id(getattr(node, "variable", None))} & lacking.keys()}
        pending += [(each, is_cut) for each, _ in node.next_functions]
    if names:
        raise no_gradient(next(iter(operators), "an operator"), sorted(names))


def _assembled(
    recorder: _Recorder, loss: torch.Tensor, cost: Cost, device: AnyDevice | None, workspace: bool
) -> EagerCapture:
    rows, n = recorder.rows, len(recorder.rows)
    gradients = [each.grad for each in recorder.step.fakes.values() if each.grad is not None]
    outputs = {x for each in [*gradients, loss] for x in recorder.storage_of(each).latest}
    read = {x for row in rows for x in row.reads}
    # PyTorch also runs operators whose results nothing reads. An output of 0 bytes keeps such a row in every plan.
    for v, row in enumerate(rows):
        if read.isdisjoint(row.values) and outputs.isdisjoint(row.values):
            if all(x.size for x in row.values):
                row.values.append(_Storage(0, v))
            outputs |= {x for x in row.values if not x.size}
    values = [x for row in rows for x in row.values]
    number = {x: i for i, x in enumerate(values)}
    forward = np.array([row.owner == FORWARD for row in rows])
    compute, extra, unit = price([row.call for row in rows], cost, workspace, device)
    indptr, indices = from_lists([[number[x] for x in row.reads] for row in rows])
    place = {each: i for i, each in enumerate(recorder.residents)}
    resident_indptr, resident_indices = from_lists([sorted(place[each] for each in row.residents) for row in rows])
    names, paths = _names(rows)
    used = set(names)
    graph = ComputationGraph.from_arrays(
        value_indptr=indptr_of([len(row.values) for row in rows]),
        read_indptr=indptr,
        read_indices=indices,
        memory=[x.size for x in values],
        compute=compute,
        workspace=extra,
        once=[row.once for row in rows],
        output=[x in outputs for x in values],
        forward_of=[row.owner for row in rows],
        resident=Resident(
            np.array([each.size for each in recorder.residents], np.int64),
            np.array([ROLES.index(each.role) for each in recorder.residents], np.int8),
            resident_indptr,
            resident_indices,
            tuple(f"{each.name} (resident)" if each.name in used else each.name for each in recorder.residents),
        ),
        labels=Labels(tuple(names), ops=tuple(str(row.operator) for row in rows), compute_unit=unit),
    )
    # For each value, the last node that reads it in its own part, forward or backward.
    last_read = graph.producer.copy()
    for v, row in enumerate(rows):
        last_read[[number[x] for x in row.reads if forward[v] == forward[x.row]]] = v
    live_until = np.minimum([x.live_until for x in values], n - 1)
    # A rerun of a block keeps a value alive as long as the forward part did, even if the rerun omits the value's last
    # reader.
    inside = np.array([row.block is not None for row in rows])[graph.producer]
    live_until = np.where(((live_until > last_read) | inside) & ~graph.output, live_until, -1)
    blocks = _blocks(rows, graph, number)
    first = {row.block: v for v, row in reversed([*enumerate(rows)])} | {None: -1}
    saved = [(number[x], first.get(block, -1), *last) for x in values for block, last in x.saved.items()]
    return EagerCapture(
        graph,
        blocks,
        Holds(live_until, tuple(np.array(saved, np.int32).reshape(-1, 4).T)),
        tuple(str(row.operator) for row in rows),
        tuple(paths),
        np.array([row.count for row in rows], np.int32),
        tuple(
            {number[x]: tuple(names) for x, names in recorder.blocks[path].arguments.items() if x in number}
            for path in blocks.names
        ),
        len(recorder.reruns),
        0 if recorder.step.on_gpu else torch.get_rng_state().nbytes,
        tuple(_notes(recorder, workspace)),
    )


def _notes(recorder: _Recorder, workspace: bool) -> Iterator[str]:
    if recorder.assumed:
        yield "where elements decide what runs, they are assumed to be finite, and uniform random numbers to be 0.5"
    if recorder.generators != python_generators():
        yield "Python's and NumPy's random numbers are assumed to be the same as during the capture"
    if recorder.step.on_gpu and any(isinstance(each, nn.RNNBase) for each in recorder.paths):
        yield "the buffers that cuDNN keeps for nn.LSTM, nn.GRU and nn.RNN are not counted"
    calls = (f"{row.operator} {row.call.dtype}" for row in recorder.rows)
    if not (workspace or recorder.step.on_gpu) and any(map(ONEDNN.search, calls)):
        yield "the peak does not include memory that oneDNN allocates on the CPU; workspace=True counts it"


def _names(rows: Sequence[_OperatorRow]) -> tuple[list[str], list[str]]:
    used: Counter[str] = Counter()
    names, paths = [], []
    for row in rows:
        path = rows[row.owner].path if row.owner >= 0 else "" if row.owner == NO_OWNER else row.path
        name = ".".join(filter(None, (path, row.operator.overloadpacket.__name__)))
        used[name] += 1
        names.append(f"{name}_{used[name] - 1}" if used[name] > 1 else name)
        paths.append(path)
    return names, paths


def _blocks(rows: Sequence[_OperatorRow], graph: ComputationGraph, number: Mapping[_Storage, int]) -> Blocks:
    """Return the blocks in the order in which they ran, and why some cannot be checkpointed."""
    ran: dict[_Block, list[int]] = {}
    for v, row in enumerate(rows):
        if row.block is not None:
            ran.setdefault(row.block, []).append(v)
        for x in row.reads if row.owner == FORWARD else ():
            source, stored = rows[x.row], x.base or x
            escapes = source.block is not row.block and not source.cached and not stored.role
            if source.block is not None and escapes and stored not in source.block.results:
                source.block.refuse("a value leaves it other than through its result")
    draws, fixed, inputs = [], [], []
    for block, members in ran.items():
        if block.calls > 1:
            block.refuse(f"it is called {block.calls} times in a step")
        read = {x for v in members for x in rows[v].reads} | {x for x in block.inputs if not x.role}
        inputs.append(np.array(sorted(number[x] for x in read if rows[x.row].block is not block), np.int32))
        draws += [v for v in members if rows[v].draw]
        fixed += [v for v in members if _is_fixed(rows[v])]
        if any(rows[v].once and _is_fixed(rows[v]) for v in members):
            block.refuse("it changes in place the output of an operator that must not be recomputed")
    refusals = {i: block.refusal for i, block in enumerate(ran) if block.refusal}
    kinds: dict[Any, int] = {}
    numbers = []
    for i, (block, members) in enumerate(ran.items()):
        marks = set(draws), set(fixed)
        signature = block_signature(graph, np.array(members), inputs[i], block.rerun_end, marks)
        numbers.append(kinds.setdefault((signature, block.trigger >= 0, block.refusal), len(kinds)))
    return Blocks(
        names=tuple(block.path for block in ran),
        members=tuple(np.array(members, np.int32) for members in ran.values()),
        kinds=np.array(numbers, np.int32),
        rerun_end=np.array([block.rerun_end for block in ran], np.int32),
        inputs=tuple(inputs),
        trigger=np.array([block.trigger for block in ran], np.int32),
        release=np.array([block.release if block.trigger >= 0 else -1 for block in ran], np.int32),
        draws=np.array(draws, np.int32),
        fixed=np.array(fixed, np.int32),
        refusals=refusals,
    )


def _is_fixed(row: _OperatorRow) -> bool:
    """Return True if no policy can save a node's outputs: they are written in place, overwritten, or cached casts."""
    return row.cached or any(x.base is not None or x.version is not None for x in row.values)
