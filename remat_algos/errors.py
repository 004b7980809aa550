"""Errors and warnings; each message contains a remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

from remat_algos.wording import sendable, sentence

__all__ = [
    "AllocationError",
    "ArgumentError",
    "ArgumentTypeError",
    "BackendError",
    "BudgetError",
    "CapacityError",
    "ClaimError",
    "GraphError",
    "GraphWarning",
    "OutOfMemoryError",
    "PlanError",
    "RematError",
    "ScheduleError",
    "StaleValueError",
    "SweepError",
]


def __dir__() -> list[str]:
    return __all__


class Sentence(Exception):
    """Base of errors and warnings: a sentence made from a template (`remat_algos.wording.sentence`) and its fields."""

    template: str
    fields: dict[str, Any]

    def __init__(self, template: str, /, **fields: Any) -> None:
        self.template, self.fields = template, fields
        super().__init__(sentence(template, fields))

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.__dict__ | {"fields": {name: sendable(value) for name, value in self.fields.items()}}
        return _again, (type(self), str(self), state)


def _again(kind: type[Exception], text: str, state: dict[str, Any]) -> Exception:
    """Restore a pickled error without calling its constructor, which may require arguments that are not fields."""
    error = kind.__new__(kind, text)
    error.__dict__.update(state)
    return error


class RematError(Sentence):
    """Base of the errors that invalid input can cause; the message is one sentence with the remedy."""


class ArgumentError(RematError, ValueError):
    """An argument of the right kind has a value that cannot be used."""


class ArgumentTypeError(RematError, TypeError):
    """An argument is of a kind that cannot be used."""


Error = TypeVar("Error", bound=Exception)


def about(parameter: str, error: Error) -> Error:
    """Set the parameter that an error is about; the command line prints the option of that name before the message."""
    error.parameter = parameter  # type: ignore[attr-defined]
    return error


Extended = TypeVar("Extended", bound=Sentence)


def extended(error: Extended, before: str, after: str = "", /, **fields: Any) -> Extended:
    """Return the error with a template before and after its own; its fields and attributes are kept."""
    if fields.keys() & error.fields.keys():
        before, after, fields = _literal(sentence(before, fields)), _literal(sentence(after, fields)), {}
    fields |= error.fields
    own = _literal(error.template) if fields and str(error) == error.template else error.template
    template = before + own + after
    whole = _again(type(error), sentence(template, fields), error.__dict__ | {"template": template, "fields": fields})
    return whole  # type: ignore[return-value]


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


class GraphError(RematError, ValueError):
    """A graph or its file violates a rule of the format."""


class ScheduleError(RematError, ValueError):
    """A schedule cannot be run.

    Parameters
    ----------
    template : str
        The rule that the schedule violates.
    step : int
        The step that violates it; the length of the schedule if something is missing at the end.
    node : int
        The node of that step, or -1.
    **fields
        Other fields of the template.
    """

    def __init__(self, template: str, /, step: int, node: int, **fields: Any) -> None:
        super().__init__(template, step=step, node=node, **fields)
        self.step = step
        self.node = node


class BudgetError(RematError):
    """No schedule within the budget was found, or none exists.

    Parameters
    ----------
    template : str
        The request, the best result, and what forces the bound.
    reached : int
        The lowest simulated peak of any solver, in bytes. With a budget of reserved bytes, it may be below the budget.
    lower_bound : int
        Lower bound on the peak of every schedule, in bytes.
    nodes : sequence of int
        The nodes that force `lower_bound`.
    plan : Plan, optional
        The plan with the lowest peak or, with an allocator, the lowest reserved memory. None if there is no plan.
    names : sequence of str
        The names of `nodes`; empty if the graph has only ids.
    reasons : sequence of str
        Why solvers have no plan, as in the message.
    **fields
        Other fields of the template.
    """

    def __init__(
        self,
        template: str,
        /,
        reached: int,
        lower_bound: int,
        nodes: Sequence[int],
        plan: Any | None = None,
        names: Sequence[str] = (),
        reasons: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        super().__init__(template, reached=reached, lower_bound=lower_bound, **fields)
        self.reached = reached
        self.lower_bound = lower_bound
        self.nodes = tuple(nodes)
        self.plan = plan
        self.names = tuple(names)
        self.reasons = tuple(reasons)


class PlanError(RematError, ValueError):
    """A plan cannot be read, or belongs to another graph."""


class SweepError(RematError, ValueError):
    """The jobs of a sweep, its folder or its executor cannot be used."""


class ClaimError(PlanError):
    """The figures in a plan differ from its simulation, or a bound in it is not proven."""


class AllocationError(RematError, ValueError):
    """Buffers, limits or alignments are invalid, or addresses of buffers overlap."""


class CapacityError(AllocationError):
    """Buffers do not fit into arenas of limited capacity, or no assignment to the arenas was found.

    Parameters
    ----------
    template : str
        The buffers that do not fit, the arena, and the remedy.
    buffers : sequence of int
        The buffers that do not fit: each is too large for every arena, they are too large together at one step, or they
        remain after the others were placed.
    proven : bool
        True if no assignment exists, and False if the search ended without one.
    **fields
        Other fields of the template.
    """

    def __init__(self, template: str, /, buffers: Sequence[int], proven: bool, **fields: Any) -> None:
        super().__init__(template, buffers=tuple(buffers), proven=proven, **fields)
        self.buffers = tuple(buffers)
        self.proven = proven


class BackendError(RematError):
    """The backend or operators for a run are unavailable, or do not suit the graph."""


class OutOfMemoryError(BackendError):
    """Memory ran out while a schedule was run; all its arrays have been released.

    Parameters
    ----------
    template : str
        The step, the bytes requested and the bytes left.
    step, node : int
        The step that requested memory, and its node; -1 before the first step.
    requested, free : int
        Requested and free bytes; `free` is -1 if unknown.
    **fields
        Other fields of the template.
    """

    def __init__(
        self, template: str, /, step: int = -1, node: int = -1, requested: int = 0, free: int = -1, **fields: Any
    ) -> None:
        super().__init__(template, step=step, node=node, requested=requested, free=free, **fields)
        self.step = step
        self.node = node
        self.requested = requested
        self.free = free


class StaleValueError(RematError):
    """A step read a value that was freed or overwritten.

    Parameters
    ----------
    template : str
        The value, and whether it was freed or overwritten.
    step, node, value : int
        The step, the node that it runs, and the value that it read.
    **fields
        Other fields of the template.
    """

    def __init__(self, template: str, /, step: int, node: int, value: int, **fields: Any) -> None:
        super().__init__(template, step=step, node=node, value=value, **fields)
        self.step = step
        self.node = node
        self.value = value


class GraphWarning(Sentence, UserWarning):
    """Input was ignored or rounded, or a missing size or cost counts as 1."""


def warn(template: str, /, *, skipped: Sequence[str] = (), **fields: Any) -> None:
    """Warn at the line that called this package; code in the packages `skipped` counts as part of this package."""
    ours = __name__.partition(".")[0]
    packages = (ours, *skipped)
    frame, level = sys._getframe(1), 2
    # Generated code of PyTorch has no module.
    while frame.f_back is not None and frame.f_globals.get("__name__", ours).partition(".")[0] in packages:
        frame, level = frame.f_back, level + 1
    warnings.warn(GraphWarning(template, **fields), stacklevel=level)
