"""A drop-in replacement for a model that trains within a memory budget."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError, warn
from remat_algos.interop.torch.calls import is_draw
from remat_algos.interop.torch.capture_model import BY_NAME, export
from remat_algos.interop.torch.outside import hooked_modules
from remat_algos.interop.torch.planning import Partitioner, TrainingRequest, box, check_before_backward
from remat_algos.interop.torch.private_names import (
    InputMutation,
    Parameter,
    compile_joint,
    leaves_with_paths,
    origin,
    path_text,
)
from remat_algos.interop.torch.report import GraphReport
from remat_algos.interop.torch.stable_names import FakeTensor, tree_leaves
from remat_algos.interop.torch.storages import tensors
from remat_algos.ir.budget import Amount, Budget
from remat_algos.plan.plan import Plan
from remat_algos.wording import counted, shortened

SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
"""Attributes with the contents of a module; `Rematerialized` shares those of the model."""
DEVICES = ("cpu", "cuda")  # devices with autocast


class _OfMode(NamedTuple):
    """Compiled code and reports of one mode; `reread` lists inputs, each with the nodes recomputed from it."""

    call: Callable[..., Any]
    names: list[str]
    reports: list[GraphReport]
    reread: list[tuple[str, Sequence[str]]]


class Rematerialized(nn.Module):
    """A planned model for inputs of fixed shapes; it shares the model's parameters, buffers and submodules.

    The model is captured and planned again if a submodule changes its mode, if a parameter changes its type or
    `requires_grad`, or if autocast changes. Changes of other attributes and of hooks have no effect. Without gradients
    (`torch.no_grad`) the model itself runs, and its inputs may have any shape. Copies and unpickled modules are planned
    at their first call.
    """

    def __init__(self, model: nn.Module, request: TrainingRequest, specs: list[tuple[str, str]], check: bool) -> None:
        training = model.training
        self.__dict__["_original"] = model  # not registered as a submodule
        super().__init__()
        self.__dict__.update({name: getattr(model, name) for name in SHARED})
        model.training = training
        self._request, self._specs, self._check = request, specs, check
        self._planned: dict[Any, _OfMode] = {}
        self._last: list[GraphReport] = []

    def __repr__(self) -> str:
        budget = str(self._request.budget)
        return f"Rematerialized(budget {budget!r}, {counted(len(self._planned), 'plan')})\n{self.original!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self._request, self._specs, self._check)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_original" not in self.__dict__:
                raise
            return getattr(self._original, name)

    @property
    def original(self) -> nn.Module:
        return self.__dict__["_original"]

    @property
    def training(self) -> bool:
        return self.original.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.original.training = mode

    @property
    def report(self) -> GraphReport:
        if not self._last:
            raise GraphError("a copy of a planned model is planned at its first call; call the copy first")
        return self._last[-1]

    @property
    def plan(self) -> Plan:
        return self.report.plan

    def train(self, mode: bool = True) -> "Rematerialized":
        self.original.train(mode)
        return self

    def _replicate_for_data_parallel(self) -> Any:
        raise GraphError("a planned model has no replicas for DataParallel; use DistributedDataParallel")

    def _apply(self, *args: Any, **kwargs: Any) -> "Rematerialized":
        self.original._apply(*args, **kwargs)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.original._load_from_state_dict(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; raise GraphError if the inputs differ from those of the plan."""
        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        actual = describe(args, kwargs)
        if actual != self._specs:
            raise _other_inputs(actual, self._specs)
        mode = _mode(self.original)
        if mode not in self._planned:
            self.plan_mode(args, kwargs)
        planned = self._planned[mode]
        self._last = planned.reports or self._last
        state = dict(self.original.named_parameters(remove_duplicate=False))
        state |= self.original.named_buffers(remove_duplicate=False)
        results = planned.call(*(state[name] for name in planned.names), *args, **kwargs)
        if planned.reread:
            available = state | {f"input {name}": leaf for name, leaf in _named_leaves(args, kwargs)}
            check_before_backward(results, [(name, available[name], again) for name, again in planned.reread])
        return results

    def plan_mode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> GraphReport | None:
        """Capture and plan the model in its current mode; return the report, or None if there is no gradient."""
        partitioner, mode, last = Partitioner(self._request), _mode(self.original), self._last
        with contextlib.ExitStack() as stack:
            joint = export(stack, self.original, args, kwargs)
            constants = vars(joint.graph_module) | dict(joint.graph_module.named_buffers())

            def backward(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
                # PyTorch passes a deep copy of the module, whose constants would miss updates of the model's tensors.
                for node in module.graph.find_nodes(op="get_attr"):
                    if isinstance(constants.get(node.target), torch.Tensor):
                        setattr(module, node.target, constants[node.target])
                return box(module, inputs)

            forward = partitioner.compile_forward
            call = compile_joint(joint, partition_fn=partitioner, fw_compiler=forward, bw_compiler=backward)
        reports = partitioner.reports
        inputs = [f"input {name}" for name, _ in _named_leaves(args, kwargs)]
        reread = [(inputs[k] if isinstance(k, int) else k, again) for k, again in partitioner.reread.items()]
        self._planned[mode] = _OfMode(call, [*joint.params_spec, *joint.buffers_spec], reports, reread)
        if reports and self._check:
            nodes = joint.graph_module.graph.nodes
            returned = map(origin, joint.graph_module.graph.output_node().meta["desc"])
            written = [origin(each.mutated_input).target for each in returned if _writes_parameter(each)]
            try:
                _check_pass(self, args, kwargs, any(is_draw(node) for node in nodes), written)
            except BaseException:
                del self._planned[mode]
                self._last = last
                raise
        self._last = reports or last
        return reports[-1] if reports else None


@checked_arguments
def rematerialize(
    model: nn.Module,
    inputs: Sequence[Any],
    budget: Budget | Amount,
    *,
    keywords: Mapping[str, Any] | None = None,
    check: bool = True,
    **options: Any,
) -> Rematerialized:
    """Return a module that trains a model within a budget, with inputs of these shapes and the model's parameters.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : sequence
        Arguments of the model. Later calls must have the same shapes, dtypes, devices and `requires_grad`.
    budget, **options
        As for `backend`.
    keywords : mapping, optional
        Keyword arguments of the model.
    check : bool
        Compare one forward pass with that of the model, from the same seed. Buffers, inputs and PyTorch's default
        generators are restored. On a GPU, models with random operators are not compared.

    Returns
    -------
    Rematerialized
        Its attributes `plan` and `report` describe the plan.

    Raises
    ------
    GraphError
        If the model's Python code depends on data (`backend` and torch.compile support that), or the results of the two
        forward passes differ.
    BudgetError
        With `infeasible="raise"`, if no plan within the budget is found.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> planned = rematerialize(model, (torch.ones(2, 8),), "100%")
    >>> planned(torch.ones(2, 8)).sum().backward()
    >>> planned.plan.peak_memory
    416
    """
    args, kwargs = tuple(inputs), dict(keywords or {})
    if hooked := hooked_modules(model):
        warn(
            "full backward hooks of {hooked!l} do not run in the planned model; use Tensor.register_hook for gradients",
            hooked=hooked,
        )
    planned = Rematerialized(model, TrainingRequest.of(budget, **options), describe(args, kwargs), check)
    if planned.plan_mode(args, kwargs) is None:
        raise GraphError("the model computes no gradient, so there is nothing to plan")
    return planned


def _mode(model: nn.Module) -> Any:
    """Return everything that a capture depends on, except the inputs."""
    return (
        tuple(module.training for module in model.modules()),
        tuple(
            (each.requires_grad, each.dtype, each.device, each.shape)
            for each in (*model.parameters(), *model.buffers())
        ),
        tuple(torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) for device in DEVICES),
    )


def _writes_parameter(result: Any) -> bool:
    return isinstance(result, InputMutation) and isinstance(origin(result.mutated_input), Parameter)


def _check_pass(
    planned: Rematerialized, args: Sequence[Any], kwargs: Mapping[str, Any], draws: bool, written: Sequence[str]
) -> None:
    """Raise GraphError if one forward pass differs from that of the model, because the capture missed something.

    Passes on fake tensors are not compared. Passes with random operators on a GPU are not compared either, because
    there a pass without gradients and a pass with gradients draw different numbers. `written` lists the names of the
    parameters that a pass writes.
    """
    model = planned.original
    present = [*model.parameters(), *model.buffers(), *tensors((args, kwargs))]
    devices = {tensor.device for tensor in present}
    on_cpu = {device.type for device in devices} == {"cpu"}
    if any(isinstance(tensor, FakeTensor) for tensor in present) or torch.device("meta") in devices:
        return
    if draws and not on_cpu:
        return

    try:
        ours = _one_pass(model, planned.forward, args, kwargs, written, gradients=True)
        difference = _difference_of(ours, _one_pass(model, model, args, kwargs, written, gradients=False))
        if difference:
            difference = _difference_of(ours, _one_pass(model, model, args, kwargs, written, gradients=True))
    except torch.OutOfMemoryError as error:
        warn(
            "the planned model was not compared with the original model, which ran out of memory: {error!w}",
            error=error,
        )
        return
    if difference:
        raise GraphError(
            "the planned model differs from the original model in {difference!p}: the capture missed something, or the "
            "model's Python code depends on more than its inputs; use {by_name!w}, or check=False",
            difference=difference,
            by_name=BY_NAME,
        )


def _one_pass(
    model: nn.Module,
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    written: Sequence[str],
    *,
    gradients: bool,
) -> list[tuple[str, Any]]:
    slots = [(module, name) for module in model.modules() for name, each in module._buffers.items() if each is not None]
    buffers = [module._buffers[name] for module, name in slots]
    parameters = {name: model.get_parameter(name) for name in written}
    restored = (*buffers, *parameters.values(), *tensors((args, kwargs)))
    before = [tensor.detach().clone() for tensor in restored]
    cuda = {tensor.device.index for tensor in (*model.parameters(), *before) if tensor.device.type == "cuda"}
    try:
        with torch.random.fork_rng(devices=sorted(cuda)), torch.set_grad_enabled(gradients):
            torch.manual_seed(0)
            leaves = tree_leaves(call(*args, **kwargs))
            results = [(f"result {place}", _detached(each)) for place, each in enumerate(leaves)]
            results.append(("the state of the random generator", torch.get_rng_state()))
        results += [(f"buffer {shortened(name)}", _detached(each)) for name, each in model.named_buffers()]
        results += [(f"parameter {shortened(name)}", _detached(each)) for name, each in parameters.items()]
    finally:
        with torch.no_grad():
            for tensor, value in zip(restored, before, strict=True):
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for (module, name), buffer in zip(slots, buffers, strict=True):
            module._buffers[name] = buffer
    return results


def _detached(result: Any) -> Any:
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _difference_of(ours: Sequence[tuple[str, Any]], theirs: Sequence[tuple[str, Any]]) -> str:
    if [name for name, _ in ours] != [name for name, _ in theirs]:
        return "the number of its results"
    for (name, actual), (_, expected) in zip(ours, theirs, strict=True):
        if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
            if type(actual) is not type(expected) or actual != expected:
                return f"{name}: {shortened(actual)} for {shortened(expected)}"
            continue
        try:
            torch.testing.assert_close(actual, expected, rtol=0, atol=_tolerance(expected), equal_nan=True)
        except AssertionError as error:
            return f"{name}: {' '.join(str(error).split())}"
    return ""


def _tolerance(expected: torch.Tensor) -> float:
    """Return the allowed error of a result: 100 units in the last place of its largest element, 4 in half precision."""
    if not (expected.is_floating_point() or expected.is_complex()) or not expected.numel():
        return 0.0
    unit = torch.finfo(expected.dtype).eps
    ulps = 100 if unit < torch.finfo(torch.float16).eps else 4
    largest = torch.where(expected.isfinite(), expected, 0).abs().max().item()
    return unit * ulps * largest * (1 if expected.device.type == "cpu" else 100)  # GPUs sum differently


def describe(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, description) of each input; a plan is valid for inputs with equal descriptions."""
    return [(name, _described(leaf)) for name, leaf in _named_leaves(args, dict(sorted(kwargs.items())))]


def _named_leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    leaves, _ = leaves_with_paths((tuple(args), dict(kwargs)))
    return [(_name(path[1:]), leaf) for path, leaf in leaves]


def _name(path: Sequence[Any]) -> str:
    first, *inner = path
    return (str(first.idx) if hasattr(first, "idx") else repr(first.key)) + path_text(inner)


def _described(leaf: Any) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    gradient = ", requires_grad" if leaf.requires_grad else ""
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device}{gradient}"


def _other_inputs(actual: list[tuple[str, str]], expected: list[tuple[str, str]]) -> GraphError:
    if len(actual) != len(expected):
        return GraphError(
            "the model is called with {inputs:input}, but was planned for {planned}; plan for these inputs: "
            "rematerialize(model, inputs, budget)",
            inputs=len(actual),
            planned=len(expected),
        )
    (name, found), (its, planned) = next(pair for pair in zip(actual, expected, strict=True) if pair[0] != pair[1])
    if name != its:
        return GraphError(
            "input {name} is passed where the plan expects {planned}; plan for these inputs: "
            "rematerialize(model, inputs, budget)",
            name=name,
            planned=its,
        )
    return GraphError(
        "input {name} is {found!p}, but was planned as {planned!p}; plan for these inputs: "
        "rematerialize(model, inputs, budget)",
        name=name,
        found=found,
        planned=planned,
    )
