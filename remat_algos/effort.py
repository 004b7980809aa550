"""The levels of `effort`: all limits on the work of searches and lower bounds, in one table.

Limits count work, not seconds, so the load of a machine does not change the plan. Only the integer programs of bounds
also have time limits. Seconds in the comments were measured on one x86-64 core.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from remat_algos.errors import ArgumentError

FAST, DEFAULT, BEST = EFFORTS = ("fast", "default", "best")
UNLIMITED = 2**62
# Default gap above the lower bound at which a search ends, in percentage points of overhead.
NEAR = 0.005
# Number of nodes. Smaller graphs can often be solved to a proven optimum, so their searches end only at the bound.
SMALL = 64
# Numbers of nodes. Graphs with fewer than LARGE nodes are planned in a fraction of a second. From LARGE to HUGE nodes,
# the work of `search` rises.
LARGE, HUGE = 1_000, 20_000


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of one level of effort; higher limits mean better plans or bounds, and more time."""

    # Work of `search` within one limit. A change of the memory profile counts as one unit, and a move as eight. A core
    # does 30 million units per second.
    search_work: int
    # Factor on `search_work` for graphs of `HUGE` nodes. For smaller graphs the factor decreases, to 1 at `LARGE`
    # nodes.
    search_work_when_large: int
    # Maximum work per node. It is stricter than `search_work` for graphs of fewer than 120 (fast), 360 (default) or 150
    # (best) nodes.
    search_work_of_node: int
    # Work of the search with copies within one limit. Two simulated runs or copies count as one unit.
    copies_work: int
    # Number of searches in the first round, each with its own seed; the best of them continue.
    first_searches: int
    # Factor on `search_work_of_node` for the lowest peak.
    lowest_work: int
    # Factor on the work within one limit for a whole frontier.
    frontier_work: float
    # Maximum number of live sets that the exact search stores. The number is divided by 20 on graphs of more than 64
    # values, and by 2 for the lowest peak. It is doubled for a frontier. A core visits about a million sets per second.
    live_sets: int
    # Solvers that need more seconds than this for 1,000 nodes do not run, unless they improve the results of others.
    solver_price: float
    # Number of steps (moments) at which the moment bound counts memory. Each moment is the first run of a node. At 0,
    # only closure bounds are computed. A fourth moment takes as long as the first three and improves few bounds.
    moments: int
    # The same for the bound after a search, which aims to prove the best plan optimal.
    last_moments: int
    # Maximum number of nodes of a graph for which a moment bound is computed.
    moment_nodes: int
    # Limit in CPU seconds on the integer programs of the moment bound. On networks of 300 to 800 nodes one moment takes
    # 0.02 to 0.2 s, and choosing three takes a few seconds.
    moment_seconds: float
    # Gap above the lower bound at which a search ends on graphs of `LARGE` nodes or more, in percentage points.
    gap: float
    # Share of the remaining time for the search; the rest is for the bound after it.
    search_share: float

    @property
    def bounds_first(self) -> bool:
        """True if `moment_bound` runs before the search, which may then end as soon as it reaches this bound."""
        return self.moments > 0

    @property
    def bounds_last(self) -> bool:
        """True if the bound is improved after the search, regardless of the bound before it."""
        return self.last_moments > self.moments or self.search_share < 1

    def near(self, n_nodes: int) -> float:
        """Return the default gap above the lower bound at which a search ends, in percentage points of overhead."""
        return 0.0 if n_nodes <= SMALL else NEAR if n_nodes < LARGE else self.gap

    def work_within(self, n_nodes: int) -> int:
        """Return the work of `search` within one limit, before `search_work_of_node` is applied."""
        larger = min(1.0, max(0, n_nodes - LARGE) / (HUGE - LARGE))
        return int(self.search_work * (1 + larger * (self.search_work_when_large - 1)))

    @classmethod
    def of(cls, name: str) -> "Effort":
        """Return the level called `name`. Raise ValueError if it is unknown."""
        if name not in EFFORTS:
            raise ArgumentError("effort is {name!r}; use {known!l}", name=name, known=EFFORTS)
        return TABLE[name]


# One row per limit: its values at the efforts fast, default and best.
_LIMITS: dict[str, tuple[Any, Any, Any]] = {
    "search_work": (6_000_000, 90_000_000, 150_000_000),
    "search_work_when_large": (6, 4, 7),
    "search_work_of_node": (50_000, 250_000, 1_000_000),
    "copies_work": (20_000_000, 350_000_000, 1_000_000_000),
    "first_searches": (8, 8, 24),
    "lowest_work": (2, 1, 1),
    "frontier_work": (3, 2.5, 2.5),
    "live_sets": (1_250_000, 2_000_000, 4_000_000),
    "solver_price": (0.1, UNLIMITED, UNLIMITED),
    "moments": (0, 1, 3),
    "last_moments": (0, 3, 3),
    "moment_nodes": (0, 3_000, UNLIMITED),
    "moment_seconds": (0.0, 5.0, 6.0),
    "gap": (0.1, NEAR, NEAR),
    "search_share": (1.0, 1.0, 0.6),
}
TABLE = MappingProxyType(
    {name: Effort(**{limit: row[level] for limit, row in _LIMITS.items()}) for level, name in enumerate(EFFORTS)}
)
