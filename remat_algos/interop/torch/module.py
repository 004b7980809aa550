"""A model that runs within a budget, as a module in its place."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError, warn
from remat_algos.interop.torch.compiled import boxed, exported
from remat_algos.interop.torch.draws import is_draw
from remat_algos.interop.torch.planning import GraphReport, Partitioner, Request
from remat_algos.interop.torch.private import FakeTensor, compile_joint, tree_leaves
from remat_algos.ir.budget import Amount, Budget
from remat_algos.plan.plan import Plan
from remat_algos.text.units import percent
from remat_algos.text.wording import LONGEST_PATH, counted, shortened

SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
"""What a module is made of; ours has those of the model."""
DEVICES = ("cpu", "cuda")  # whose autocast is part of what is captured
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2}
"""Of the largest number of a result, how far a planned one may be off; else `CLOSE`."""
CLOSE = 1e-3
SEED = 0  # of the pass that is compared


class Rematerialized(nn.Module):
    """A model with inputs of fixed shapes, as a module; parameters, buffers and submodules are those of the model.

    Where the mode of a submodule, `requires_grad` or type of a parameter, or autocast is another one than before, it is
    captured and planned anew. Without gradients (`torch.no_grad`) the model itself runs, for inputs of any shape. A
    copy, or one out of a pickle, is planned at its first call.

    Parameters
    ----------
    model : torch.nn.Module
    request : Request
        What to plan for.
    like : list of str
        The inputs, described.
    check : bool
        Whether each capture is compared with the model.
    """

    model: nn.Module

    def __init__(self, model: nn.Module, request: Request, like: list[str], check: bool) -> None:
        training = model.training
        self.__dict__["model"] = model
        super().__init__()
        self.__dict__.update({name: getattr(model, name) for name in SHARED})
        model.training = training
        self._request, self._like, self._check = request, like, check
        self._captured: dict[Any, tuple[Callable[..., Any], list[str], GraphReport | None]] = {}
        self._last: GraphReport | None = None

    def __repr__(self) -> str:
        budget = str(Budget.of(self._request.budget))
        return f"Rematerialized(budget {budget!r}, {counted(len(self._captured), 'plan')})\n{self.model!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self._request, self._like, self._check)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["model"], name)

    @property
    def training(self) -> bool:
        """That of the model."""
        return self.model.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.model.training = mode

    @property
    def report(self) -> GraphReport:
        """How the graph of the last call was planned."""
        if self._last is None:
            raise GraphError("a copy is planned at its first call; call it")
        return self._last

    @property
    def plan(self) -> Plan:
        """The plan of the last call."""
        return self.report.plan

    def train(self, mode: bool = True) -> "Rematerialized":
        """Put the model into training, or into evaluation."""
        self.model.train(mode)
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> "Rematerialized":
        self.model._apply(*args, **kwargs)  # what moves a module, or changes the type of its parameters
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model."""
        return self.model.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Into the model."""
        return self.model.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.model._load_from_state_dict(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; GraphError for inputs that differ from those it was planned for."""
        if not torch.is_grad_enabled():
            return self.model(*args, **kwargs)
        actual = described(args, kwargs)
        if actual != self._like:
            raise GraphError(
                f"{_difference(actual, self._like)}; plan for these inputs: rematerialize(model, inputs, budget)"
            )
        mode = _mode(self.model)
        if mode not in self._captured:
            self.capture(args, kwargs)
        call, names, report = self._captured[mode]
        self._last = report or self._last
        state = dict(self.model.named_parameters(remove_duplicate=False))
        state |= self.model.named_buffers(remove_duplicate=False)
        return call(*(state[name] for name in names), *args, **kwargs)

    def capture(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> GraphReport | None:
        """Capture and plan the model as it is now; None if nothing of it has a gradient, so that it runs as it is."""
        partitioner = Partitioner(self._request)
        with contextlib.ExitStack() as stack:
            joint = exported(stack, self.model, args, kwargs)
            call = compile_joint(joint, partition_fn=partitioner, fw_compiler=boxed, bw_compiler=boxed)
        names = [*joint.params_spec, *joint.buffers_spec]
        report = partitioner.reports[0] if partitioner.reports else None
        self._captured[_mode(self.model)] = (call, names, report)
        self._last = report or self._last
        if report is not None and self._check:
            draws = any(is_draw(node) for node in joint.graph_module.graph.nodes)
            _compare(self, args, kwargs, draws)
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
        Compare one forward pass with that of the model, from one seed; buffers and generators stay as they are.

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
    planned = Rematerialized(model, Request.of(budget, **options), described(args, kwargs), check)
    if planned.capture(args, kwargs) is None:
        raise GraphError("nothing of the model has a gradient; there is nothing to plan")
    return planned


def _mode(model: nn.Module) -> Any:
    """All that a capture depends on, beside the inputs."""
    return (
        tuple(module.training for module in model.modules()),
        tuple((each.requires_grad, each.dtype, each.device) for each in (*model.parameters(), *model.buffers())),
        tuple(torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) for device in DEVICES),
    )


# ---------------------------------------------------------------- one pass of both


def _compare(planned: Rematerialized, args: Sequence[Any], kwargs: Mapping[str, Any], draws: bool) -> None:
    """GraphError unless one forward pass gives what the model gives: a capture may have left something out."""
    model = planned.model
    given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    tensors = [*model.parameters(), *model.buffers(), *given]
    devices = {tensor.device for tensor in tensors}
    if any(isinstance(tensor, FakeTensor) for tensor in tensors) or torch.device("meta") in devices:
        return
    if draws and any(device.type != "cpu" for device in devices):
        return  # there operators draw other numbers where nothing has a gradient
    kept = [*model.buffers(), *given]

    def one_pass(call: Callable[..., Any], *, gradients: bool) -> list[Any]:
        before = [tensor.detach().clone() for tensor in kept]
        with torch.random.fork_rng(), torch.set_grad_enabled(gradients):
            torch.manual_seed(SEED)
            results = [_detached(each) for each in tree_leaves(call(*args, **kwargs))]
        results += [buffer.detach().clone() for buffer in model.buffers()]
        with torch.no_grad():
            for tensor, value in zip(kept, before, strict=True):
                if not _near(tensor, value, 0):
                    tensor.copy_(value)
        return results

    try:
        expected = one_pass(model, gradients=False)  # without gradients it fits where a step does not
    except torch.OutOfMemoryError as error:
        warn(f"the planned model was not compared with the model, which does not fit alone: {error}")
        return
    for place, (ours, its) in enumerate(zip(one_pass(planned, gradients=True), expected, strict=True)):
        if not _near(ours, its, TOLERANCE.get(getattr(its, "dtype", None), CLOSE)):
            raise GraphError(
                f"result {place} of the planned model is {_distance(ours, its)}: the capture left something out, or "
                "its Python depends on more than its inputs; use torch.compile(model, backend='remat'), or check=False"
            )


def _detached(result: Any) -> Any:
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _near(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two results differ by no more than a part of the largest number; NaN are equal."""
    if not isinstance(other, torch.Tensor):
        return bool(one == other)
    if one.shape != other.shape or not (other.is_floating_point() or other.is_complex()):
        return torch.equal(one, other)
    return bool(_off(one, other) <= tolerance) if other.numel() else True


def _off(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, as a part of the largest number."""
    same = (one == other) | (one.isnan() & other.isnan())
    size = torch.where(other.isfinite(), other, 0).abs().max().item()
    return torch.where(same, 0, one - other).abs().max().nan_to_num(torch.inf).item() / (size or 1)


def _distance(one: Any, other: Any) -> str:
    numbers = isinstance(other, torch.Tensor) and one.shape == other.shape and other.is_floating_point()
    if not numbers:
        return f"not what the model's is, {shortened(other)}"
    return f"off by {percent(min(_off(one, other), 1e9), 1)} of its largest number"


# ---------------------------------------------------------------- inputs


def described(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Arguments in words, by which they are compared."""
    return [_described(leaf) for leaf in tree_leaves((tuple(args), dict(kwargs)))]


def _described(leaf: Any) -> str:
    """Shape, dtype, device and `requires_grad` of a tensor; other things as they are."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    gradient = ", requires_grad" if leaf.requires_grad else ""
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device}{gradient}"


def _difference(actual: list[str], expected: list[str]) -> str:
    """What differs first."""
    if len(actual) != len(expected):
        return f"the model is called with {counted(len(actual), 'input')}, and was planned for {len(expected)}"
    place = next(i for i, (one, other) in enumerate(zip(actual, expected, strict=True)) if one != other)
    found, planned = (shortened(each[place], LONGEST_PATH) for each in (actual, expected))
    return f"input {place} is {found}, and was planned for as {planned}"
