"""The task of a solver."""

from dataclasses import dataclass

from remat_algos.arguments import as_seed
from remat_algos.bounds.compute import ComputeBound
from remat_algos.effort import DEFAULT, Effort
from remat_algos.schedule.constraints import Constraints
from remat_algos.solvers.candidates import Candidate


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The task of a solver, in addition to the graph and its own options.

    limit : bytes of peak that a schedule should fit; None for the whole frontier
    bound : lower bound on the compute of schedules that fit; a search that meets it can stop
    slack : compute above the bound at which a search can stop all the same
    closure : the closure bound of the limit, if known
    sought : peak that the first searches for the lowest one should reach: they end at it, and no others follow
    budgets : for a whole frontier, number of limits at which a search for one limit is run; else 0
    constraints : solvers may ignore them: candidates that violate them are dropped
    effort : how much work searches may do, "fast", "default" or "best": caps on states and on integer programs
    candidates : of the solvers that ran before

    Examples
    --------
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
