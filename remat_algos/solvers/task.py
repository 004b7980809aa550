"""What a solver is asked."""

from dataclasses import dataclass

from remat_algos.arguments import as_seed
from remat_algos.effort import DEFAULT, Effort
from remat_algos.schedule.constraints import Constraints
from remat_algos.solvers.candidates import Candidate


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a solver is asked, beside the graph and its own options.

    Parameters
    ----------
    limit : int, optional
        Bytes of peak that a schedule should fit; None for the whole frontier.
    bound : int, optional
        Lower bound on the compute of what fits: a search that meets it has nothing more to find.
    budgets : int
        For a whole frontier: number of limits at which a search of one limit looks for the best; 0 elsewhere.
    constraints : Constraints, optional
        What schedules must keep to beside the limit. A solver that reads them may keep to them; of the others those
        candidates are dropped that do not.
    seed : int
        For random choices.
    effort : {"fast", "default", "best"}
        How much work searches may do: caps on states and on integer programs.
    candidates : tuple of Candidate
        What the solvers before it found.

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
    """

    limit: int | None = None
    bound: int | None = None
    budgets: int = 0
    constraints: Constraints | None = None
    seed: int = 0
    effort: str = DEFAULT
    candidates: tuple[Candidate, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))
        Effort.of(self.effort)
