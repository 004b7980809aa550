"""Plans of checkpoints per block, run by PyTorch's trainers."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.files import write_whole
from remat_algos.interop.torch.selective import (
    KEEP_ALL,
    Saved,
    TrainedBlocks,
    batch_norms,
    next_contexts,
    run_block,
    savable,
)
from remat_algos.ir.arrays import is_count
from remat_algos.plan.blocks import DECISIONS, KEEP, OFFLOAD
from remat_algos.plan.policy import Treatment
from remat_algos.plan.record import from_file
from remat_algos.wording import format_bytes, one_line

FORMAT, VERSION = "remat-checkpoints", 1


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The treatment of each block of a PyTorch model, for eager training.

    A checkpointed block keeps its inputs and the outputs of its saved operators, and runs again before its first
    gradient. `plan_checkpoints` makes plans for a budget; plans that are made by hand have no figures.

    Parameters
    ----------
    treatments : sequence of Treatment
        By module path, in the order in which the blocks run. Each saved operator is written as the path of its module
        below the block, the overload, and how often this overload came before in the call of the block:
        "mlp.up::aten.mm.default#4".
    peak_memory : int, optional
        Bytes of the predicted peak, parameters and inputs apart.
    overhead, bound : int or float, optional
        Cost beyond one pass, and its lower bound for every schedule within the budget, in the unit of the graph.
    gap : float, optional
        Distance to the bound, as a share of the bound on the whole cost.
    report : str
        Text of `print(plan)`.

    Examples
    --------
    >>> from remat_algos.plan.policy import Treatment
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    >>> saved = ("::aten.addmm.default#0",)
    >>> plan = CheckpointPlan([Treatment("0", "recompute", saved), Treatment("1", "keep")])
    >>> with plan.apply(model):
    ...     model(torch.ones(2, 4)).sum().backward()
    >>> model[0].weight.grad.shape
    torch.Size([4, 4])
    """

    treatments: tuple[Treatment, ...]
    peak_memory: int | None = None
    overhead: int | float | None = None
    bound: int | float | None = None
    gap: float | None = None
    report: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "treatments", tuple(self.treatments))
        names = [each.name for each in self.treatments]
        for each in self.treatments:
            if each.decision not in DECISIONS:
                raise PlanError(
                    "block {block!r} has decision {decision!r}; expected {known!l}",
                    block=each.name,
                    decision=each.decision,
                    known=list(DECISIONS),
                )
            if names.count(each.name) > 1:
                raise PlanError("block {block!r} has two treatments; give one", block=each.name)
            for operator in each.saved:
                _parsed(operator)

    def __repr__(self) -> str:
        peak = "" if self.peak_memory is None else f"peak {format_bytes(self.peak_memory)}"
        counts = (sum(each.decision == decision for each in self.treatments) for decision in DECISIONS)
        return one_line(self, *(f"{n} {each}" for n, each in zip(counts, DECISIONS, strict=True) if n), peak)

    def __str__(self) -> str:
        return self.report or repr(self)

    @checked_arguments
    def apply(self, model: nn.Module) -> "AppliedPlan":
        """Wrap the forward of each block that is not kept.

        The result has `remove()`, which undoes it, and is a context that undoes it at its end.
        Blocks are checkpointed whenever gradients are recorded, with `torch.compile` and `fully_shard` before or after
        it too. Copies of the model, and its pickles, have the plan as well; its `state_dict` does not change.

        Raises
        ------
        PlanError
            If the model has no such blocks or operators, has a plan already, or its trainer checkpoints it. The model
            is unchanged then.
        """
        modules = dict(model.named_modules())
        missing = [each.name for each in self.treatments if each.name not in modules]
        if missing:
            raise PlanError(
                "the model has no blocks {missing!l}; plan for this model, and apply the plan to the module that was "
                "planned, before DistributedDataParallel or other wrappers",
                missing=missing,
            )
        for name, module in modules.items():
            if getattr(module, "gradient_checkpointing", False):
                raise PlanError(
                    "the trainer checkpoints {module!r} already; switch its gradient checkpointing off, or give it "
                    "plan.kwargs instead of plan.apply(model)",
                    module=name or type(model).__name__,
                )
            if _is_wrapped(module):
                raise PlanError("block {block!r} has a plan already; remove that first", block=name)
        wrapped = []
        for each in self.treatments:
            block = modules[each.name]
            for operator in each.saved:
                path, overload, _ = _parsed(operator)
                if path and path not in dict(block.named_modules()):
                    raise PlanError("block {block!r} has no module {path!r}", block=each.name, path=path)
                if not savable(overload):
                    raise PlanError(
                        "block {block!r} cannot save {operator!r}: it is a view or changes a tensor in place",
                        block=each.name,
                        operator=operator,
                    )
            if each.decision != KEEP:
                wrapped.append((block, _wrapped(block, each)))
        return AppliedPlan(wrapped)

    @property
    def kwargs(self) -> dict[str, Any]:
        """`gradient_checkpointing_kwargs` of transformers, for a trainer that checkpoints each block in the plan.

        They count the calls of one model; read them anew for another.
        """
        offloaded = [each.name for each in self.treatments if each.decision == OFFLOAD]
        if offloaded:
            raise PlanError(
                "a trainer's context_fn cannot offload the inputs of {blocks!l}; use plan.apply(model), or plan with "
                "no link",
                blocks=offloaded,
            )
        trained = TrainedBlocks([KEEP_ALL if each.decision == KEEP else _saved(each) for each in self.treatments])
        return {"use_reentrant": False, "context_fn": partial(next_contexts, trained)}

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        figures = {name: getattr(self, name) for name in FIGURES}
        blocks = [each.record() for each in self.treatments]
        return {"format": FORMAT, "version": VERSION, **figures, "report": self.report.split("\n"), "blocks": blocks}

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, whole or not at all; `load_checkpoints` reads it."""
        write_whole(Path(path), (json.dumps(self.record(), indent=1) + "\n").encode())


FIGURES = tuple(each.name for each in fields(CheckpointPlan) if each.name not in ("treatments", "report"))


@checked_arguments
def load_checkpoints(path: str | os.PathLike[str]) -> CheckpointPlan:
    """Read a plan that `CheckpointPlan.save` wrote.

    Raises
    ------
    PlanError
        If the file is damaged or holds anything else.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from remat_algos.plan.policy import Treatment
    >>> file = Path(mkdtemp()) / "policy.json"
    >>> CheckpointPlan([Treatment("layers.0", "keep")]).save(file)
    >>> load_checkpoints(file)
    <CheckpointPlan: 1 keep>
    """
    return from_file(path, _loaded)


class AppliedPlan:
    """A plan on the blocks of a model, until `remove()`; as a context, until its end."""

    def __init__(self, blocks: Sequence[tuple[nn.Module, partial[Any]]]) -> None:
        self._blocks = [(block, wrapped, block.__dict__.get("forward")) for block, wrapped in blocks]
        for block, wrapped in blocks:
            block.forward = wrapped

    def remove(self) -> None:
        """Give the blocks their own forward back; PlanError, with nothing changed, if one has been replaced since."""
        for block, wrapped, _ in self._blocks:
            if block.__dict__.get("forward") is not wrapped:
                raise PlanError(
                    "the forward of a {kind} was replaced after the plan was applied; undo that first",
                    kind=type(block).__name__,
                )
        for block, _, before in self._blocks:
            del block.forward
            if before is not None:
                block.forward = before
        self._blocks = []

    def __enter__(self) -> "AppliedPlan":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _wrapped(block: nn.Module, treatment: Treatment) -> partial[Any]:
    offload = treatment.decision == OFFLOAD
    return partial(run_block, block.forward, _saved(treatment), offload, batch_norms(block))


def _is_wrapped(module: nn.Module) -> bool:
    forward = module.__dict__.get("forward")
    return isinstance(forward, partial) and forward.func is run_block


def _parsed(operator: str) -> tuple[str, str, int]:
    """Return the module path, the overload and the place of a saved operator."""
    path, _, rest = operator.partition("::")
    overload, _, place = rest.partition("#")
    if overload.count(".") != 2 or not place.isdecimal():
        raise PlanError(
            'saved operator {operator!r} is not like "mlp.up::aten.mm.default#4": path below the block, overload, '
            "how often it came before",
            operator=operator,
        )
    return path, overload, int(place)


def _saved(treatment: Treatment) -> Saved:
    return tuple(_parsed(operator)[1:] for operator in treatment.saved)


def _loaded(record: Mapping[str, Any]) -> CheckpointPlan:
    """Return the plan of a record whose entries are of their kinds."""
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise PlanError("not a plan of checkpoints of version {version}", version=VERSION)
    for name, holds, expected in (
        ("blocks", _are_blocks, "a list of blocks, each with name, decision and figures"),
        ("report", _is_texts, "a list of texts"),
        *((name, _is_figure, "a number or null") for name in FIGURES),
    ):
        if name not in record or not holds(record[name]):
            raise PlanError(
                '"{name}" of the plan is missing or damaged; expected {expected!w}', name=name, expected=expected
            )
    blocks = [Treatment(**{**each, "saved": tuple(each.get("saved", ()))}) for each in record["blocks"]]
    return CheckpointPlan(tuple(blocks), **{name: record[name] for name in FIGURES}, report="\n".join(record["report"]))


def _is_texts(entry: Any) -> bool:
    return isinstance(entry, list) and all(isinstance(each, str) for each in entry)


def _is_figure(entry: Any) -> bool:
    return entry is None or (isinstance(entry, int | float) and not isinstance(entry, bool))


def _are_blocks(entry: Any) -> bool:
    kinds: dict[str, Callable[[Any], bool]] = {
        "name": lambda each: isinstance(each, str),
        "decision": lambda each: isinstance(each, str),
        "saved": _is_texts,
        "memory": is_count,
        "compute": is_count,
        "copies": lambda each: each is not None and _is_figure(each),
    }
    return isinstance(entry, list) and all(
        isinstance(each, dict)
        and each.keys() | {"saved"} == kinds.keys()
        and all(kinds[name](value) for name, value in each.items())
        for each in entry
    )
