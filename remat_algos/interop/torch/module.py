"""A model that runs within a budget, as a module in its place."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError, warn
from remat_algos.interop.torch.compiled import box, export
from remat_algos.interop.torch.draws import is_draw
from remat_algos.interop.torch.planning import GraphReport, Partitioner, Request
from remat_algos.interop.torch.private import FakeTensor, compile_joint, leaves_with_paths, path_text, tree_leaves
from remat_algos.ir.budget import Amount, Budget
from remat_algos.plan.plan import Plan
from remat_algos.text.wording import LONGEST_PATH, counted, shortened

SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
"""What a module is made of; ours has those of the model."""
DEVICES = ("cpu", "cuda")  # whose autocast is part of what is captured
CLOSE, CLOSE_HALF = 100, 4
"""How many units in the last place of its largest number a result may be off; of half precision few."""
ELSEWHERE = 100  # times as many on other devices than the CPU
SEED = 0  # of the pass that is compared


class Rematerialized(nn.Module):
    """A model with inputs of fixed shapes, as a module; parameters, buffers and submodules are those of the model.

    Where the mode of a submodule, `requires_grad` or type of a parameter, or autocast is another one than before, it is
    captured and planned anew. Without gradients (`torch.no_grad`) the model itself runs, for inputs of any shape. A
    copy, or one out of a pickle, is planned at its first call. What else submodules have, hooks too, is that of the
    capture.

    Parameters
    ----------
    model : torch.nn.Module
    request : Request
        What to plan for.
    like : list of (str, str)
        The inputs: names, and what they are.
    check : bool
        Whether each capture is compared with the model.
    """

    def __init__(self, model: nn.Module, request: Request, like: list[tuple[str, str]], check: bool) -> None:
        training = model.training
        self.__dict__["_original"] = model  # no submodule
        super().__init__()
        self.__dict__.update({name: getattr(model, name) for name in SHARED})
        model.training = training
        self._request, self._like, self._check = request, like, check
        self._planned: dict[Any, tuple[Callable[..., Any], list[str], GraphReport | None]] = {}
        self._last: GraphReport | None = None

    def __repr__(self) -> str:
        budget = str(Budget.of(self._request.budget))
        return f"Rematerialized(budget {budget!r}, {counted(len(self._planned), 'plan')})\n{self.original!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.original, self._request, self._like, self._check)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_original" not in self.__dict__:
                raise
            return getattr(self._original, name)

    @property
    def original(self) -> nn.Module:
        """The model."""
        return self.__dict__["_original"]

    @property
    def training(self) -> bool:
        """That of the model."""
        return self.original.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.original.training = mode

    @property
    def report(self) -> GraphReport:
        """How the graph of the last call with gradients was planned."""
        if self._last is None:
            raise GraphError("a copy is planned at its first call; call it")
        return self._last

    @property
    def plan(self) -> Plan:
        """The plan of the last call with gradients."""
        return self.report.plan

    def train(self, mode: bool = True) -> "Rematerialized":
        """Put the model into training, or into evaluation."""
        self.original.train(mode)
        return self

    def _replicate_for_data_parallel(self) -> Any:
        raise GraphError("a planned model has no replicas for DataParallel; use DistributedDataParallel")

    def _apply(self, *args: Any, **kwargs: Any) -> "Rematerialized":
        self.original._apply(*args, **kwargs)  # what moves a module, or changes the type of its parameters
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model."""
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Into the model."""
        return self.original.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.original._load_from_state_dict(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; GraphError for inputs that differ from those it was planned for."""
        if not torch.is_grad_enabled():
            return self.original(*args, **kwargs)
        actual = describe(args, kwargs)
        if actual != self._like:
            raise GraphError(
                f"{_difference(actual, self._like)}; plan for these inputs: rematerialize(model, inputs, budget)"
            )
        mode = _mode(self.original)
        if mode not in self._planned:
            self.plan_mode(args, kwargs)
        call, names, report = self._planned[mode]
        self._last = report or self._last
        state = dict(self.original.named_parameters(remove_duplicate=False))
        state |= self.original.named_buffers(remove_duplicate=False)
        return call(*(state[name] for name in names), *args, **kwargs)

    def plan_mode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> GraphReport | None:
        """Capture and plan the model in its mode; None if nothing of it has a gradient, so that it runs as it is."""
        partitioner, mode, last = Partitioner(self._request), _mode(self.original), self._last
        with contextlib.ExitStack() as stack:
            joint = export(stack, self.original, args, kwargs)
            call = compile_joint(joint, partition_fn=partitioner, fw_compiler=box, bw_compiler=box)
        report = partitioner.reports[0] if partitioner.reports else None
        self._planned[mode] = (call, [*joint.params_spec, *joint.buffers_spec], report)
        if report is not None and self._check:
            try:
                _check_pass(self, args, kwargs, any(is_draw(node) for node in joint.graph_module.graph.nodes))
            except BaseException:
                del self._planned[mode]
                self._last = last
                raise
        self._last = report or last
        return report


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
    """A model that runs within a budget, for inputs of these shapes, as a module that shares its parameters.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : sequence
        Arguments, of which shapes, dtypes, devices and `requires_grad` are kept to.
    budget, **options
        As of `backend`.
    keywords : mapping, optional
        Arguments by name.
    check : bool
        Compare one forward pass with that of the model, from one seed; buffers, inputs and PyTorch's default generators
        stay as they are. On a GPU models that draw are not compared.

    Returns
    -------
    Rematerialized
        With a `plan` and a `report`.

    Raises
    ------
    GraphError
        For Python that depends on data, which torch.compile splits; and where the results of both passes differ.
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
    planned = Rematerialized(model, Request.of(budget, **options), describe(args, kwargs), check)
    if planned.plan_mode(args, kwargs) is None:
        raise GraphError("nothing of the model has a gradient; there is nothing to plan")
    return planned


def _mode(model: nn.Module) -> Any:
    """All that a capture depends on, beside the inputs."""
    return (
        tuple(module.training for module in model.modules()),
        tuple(
            (each.requires_grad, each.dtype, each.device, each.shape)
            for each in (*model.parameters(), *model.buffers())
        ),
        tuple(torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) for device in DEVICES),
    )


# ---------------------------------------------------------------- one pass of both


def _check_pass(planned: Rematerialized, args: Sequence[Any], kwargs: Mapping[str, Any], draws: bool) -> None:
    """GraphError unless one forward pass gives what the model gives: a capture may have left something out.

    Nothing is compared on fake tensors, nor on a GPU where operators draw: there they draw other numbers where nothing
    has a gradient.
    """
    model = planned.original
    tensors = [*model.parameters(), *model.buffers(), *_tensors(args, kwargs)]
    devices = {tensor.device for tensor in tensors}
    on_cpu = {device.type for device in devices} == {"cpu"}
    if any(isinstance(tensor, FakeTensor) for tensor in tensors) or torch.device("meta") in devices:
        return
    if draws and not on_cpu:
        return

    def difference(gradients: bool) -> str | None:
        expected = _one_pass(model, model, args, kwargs, gradients)
        found = _one_pass(model, planned.forward, args, kwargs, True)
        if [name for name, _ in found] != [name for name, _ in expected]:
            return "has other results"
        for (name, ours), (_, its) in zip(found, expected, strict=True):
            if not _near(ours, its, _tolerance(its)):
                return f"gives {name} {_distance(ours, its)}"
        return None

    try:
        # without gradients it fits where a step does not; with them there are no faster ways that differ
        said = difference(False) and difference(True)
    except torch.OutOfMemoryError as error:
        warn(f"the planned model was not compared with the model, for which memory ran out: {error}")
        return
    if said:
        raise GraphError(
            f"the planned model {shortened(said, LONGEST_PATH)}: the capture left something out, or the model's "
            "Python depends on more than its inputs; use torch.compile(model, backend='remat'), or check=False"
        )


def _one_pass(
    model: nn.Module, call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], gradients: bool
) -> list[tuple[str, Any]]:
    """Results, buffers and the CPU's generator after a pass, by name; the model and the inputs are as before then."""
    slots = [(module, name) for module in model.modules() for name, each in module._buffers.items() if each is not None]
    given = _tensors(args, kwargs)
    buffers = [module._buffers[name] for module, name in slots]
    before = [tensor.detach().clone() for tensor in (*buffers, *given)]
    cuda = {tensor.device.index for tensor in (*model.parameters(), *before) if tensor.device.type == "cuda"}
    try:
        with torch.random.fork_rng(devices=sorted(cuda)), torch.set_grad_enabled(gradients):
            torch.manual_seed(SEED)
            leaves = tree_leaves(call(*args, **kwargs))
            found = [(f"result {place}", _detached(each)) for place, each in enumerate(leaves)]
            found.append(("a random number", torch.get_rng_state()))
        found += [(f"buffer {shortened(name)}", _detached(each)) for name, each in model.named_buffers()]
    finally:
        with torch.no_grad():
            for tensor, value in zip((*buffers, *given), before, strict=True):
                if not _near(tensor, value, 0):
                    tensor.copy_(value)
        for (module, name), buffer in zip(slots, buffers, strict=True):
            module._buffers[name] = buffer
    return found


def _tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    return [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]


def _detached(result: Any) -> Any:
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _tolerance(expected: Any) -> float:
    """How far a result may be off, as a part of its largest number."""
    if not isinstance(expected, torch.Tensor) or not (expected.is_floating_point() or expected.is_complex()):
        return 0.0
    unit = torch.finfo(expected.dtype).eps
    places = CLOSE if unit < torch.finfo(torch.float16).eps else CLOSE_HALF
    return unit * places * (1 if expected.device.type == "cpu" else ELSEWHERE)


def _near(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two results differ by no more than a part of the largest number; NaN are equal."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (other.is_floating_point() or other.is_complex()):
        return torch.equal(one, other)
    return torch.equal(one, other) or _off(one, other) <= tolerance


def _off(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, as a part of the largest number."""
    if not other.numel():
        return 0.0
    same = (one == other) | (one.isnan() & other.isnan())
    size = torch.where(other.isfinite(), other, 0).abs().max().item()
    return torch.where(same, 0, one - other).abs().max().nan_to_num(torch.inf).item() / (size or 1)


def _distance(one: Any, other: Any) -> str:
    numbers = isinstance(other, torch.Tensor) and isinstance(one, torch.Tensor) and one.shape == other.shape
    if not numbers or not other.is_floating_point():
        return "that the model does not"
    return f"off by {100 * _off(one, other):.2g} % of its largest number"


# ---------------------------------------------------------------- inputs


def describe(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names of the inputs, where they stand in lists and mappings, and what they are, by which they are compared."""
    leaves, _ = leaves_with_paths((tuple(args), dict(sorted(kwargs.items()))))
    return [(_name(path[1:]), _described(leaf)) for path, leaf in leaves]


def _name(path: Sequence[Any]) -> str:
    """0 for the first argument, 'scale' for one by name, 0['x'] for what it contains."""
    first, *inner = path
    return (str(first.idx) if hasattr(first, "idx") else repr(first.key)) + path_text(inner)


def _described(leaf: Any) -> str:
    """Shape, dtype, device and `requires_grad` of a tensor; other things as they are."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    gradient = ", requires_grad" if leaf.requires_grad else ""
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device}{gradient}"


def _difference(actual: list[tuple[str, str]], expected: list[tuple[str, str]]) -> str:
    """What differs first."""
    if len(actual) != len(expected):
        return f"the model is called with {counted(len(actual), 'input')}, and was planned for {len(expected)}"
    (name, found), (its, planned) = next(pair for pair in zip(actual, expected, strict=True) if pair[0] != pair[1])
    if name != its:
        return f"input {shortened(name)} stands where {shortened(its)} did when the model was planned"
    return (
        f"input {shortened(name)} is {shortened(found, LONGEST_PATH)}, "
        f"and was planned for as {shortened(planned, LONGEST_PATH)}"
    )
