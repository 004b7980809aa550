"""What can go wrong, in words a user can act on."""

from collections.abc import Sequence


class RematError(Exception):
    """Base of the errors that bad input can cause; its text is one sentence with the remedy."""


class GraphError(RematError, ValueError):
    """A graph, or a file that should hold one, breaks a rule of the format."""


class ScheduleError(RematError, ValueError):
    """A schedule cannot be run.

    Parameters
    ----------
    message : str
        Which law is broken, in words.
    step : int
        The step that breaks it; the schedule's length if something is missing at the end.
    node : int
        The node concerned, -1 if there is none.
    """

    def __init__(self, message: str, step: int, node: int) -> None:
        super().__init__(message)
        self.step = step
        self.node = node


class BudgetError(RematError):
    """No schedule within the budget was found, or none exists.

    Parameters
    ----------
    message : str
        What was asked, what was reached, and what forces the bound.
    reached : int
        The least peak, in bytes, that a solver reached.
    lower_bound : int
        Bytes that no schedule can go below.
    nodes : sequence of int
        The nodes that force `lower_bound`.
    """

    def __init__(self, message: str, reached: int, lower_bound: int, nodes: Sequence[int]) -> None:
        super().__init__(message)
        self.reached = reached
        self.lower_bound = lower_bound
        self.nodes = tuple(nodes)


class PlanError(RematError, ValueError):
    """A plan cannot be read, or belongs to another graph."""


class ClaimError(PlanError):
    """A plan claims what the judge does not find."""


class AllocationError(RematError, ValueError):
    """Buffers that cannot be, or addresses at which they overlap."""


class GraphWarning(UserWarning):
    """Something in a file was ignored or rounded; said once per file."""
