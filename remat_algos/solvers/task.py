"""The task of a solver."""

from dataclasses import dataclass

from remat_algos.arguments import as_seed
from remat_algos.bounds.compute import ComputeBound
from remat_algos.effort import DEFAULT, Effort
from remat_algos.schedule.constraints import Constraints
from remat_algos.solvers.candidates import Candidate


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The task of a solver, beside the graph and its own options.

    Parameters
    ----------
    limit : int, optional
        Bytes of peak that a schedule should fit; None for the whole frontier.
    bound : int, optional
        Lower bound on the compute of schedules that fit; a search that meets it can stop.
    slack : int
        Compute above the bound at which a search can stop all the same.
    closure : ComputeBound, optional
        The closure bound of the limit, if known.
    sought : int, optional
        Peak that the first searches for the lowest one should reach: they end at it, and no others follow.
    budgets : int
        For a whole frontier: number of limits at which a search for one limit is run; else 0.
    constraints : Constraints, optional
        Constraints on schedules beside the limit. Solvers may ignore them: candidates that violate them are dropped.
    seed : int
        Seed of random choices.
    effort : {"fast", "default", "best"}
        How much work searches may do: caps on states and on integer programs.
    candidates : tuple of Candidate
        Candidates of the solvers that ran before.

    Raises
    ------
    TypeError
        If the seed is not a number.
    ValueError
        If the seed is below 0, or the effort is unknown.

    Examples
    --------
    >>> Task(4_000).limit, Task().effort
    (4000, 'default')
    >>> Task(4_000, bound=20, slack=3).goal
    23
    """

    limit: int | None = None
    bound: int | None = None
    slack: int = 0
    closure: ComputeBound | None = None
    sought: int | None = None
    budgets: int = 0
    constraints: Constraints | None = None
    seed: int = 0
    effort: str = DEFAULT
    candidates: tuple[Candidate, ...] = ()

    @property
    def goal(self) -> int | None:
        """Compute at which a search can stop; None without a bound."""
        return None if self.bound is None else self.bound + self.slack

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))
        Effort.of(self.effort)
