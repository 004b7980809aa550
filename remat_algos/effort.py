"""The levels of `effort`: all limits on the work of searches and lower bounds, in one table.

Limits count work, not seconds, so a busy machine gives the same plan; only the integer programs of bounds also have
time limits. Seconds below were measured on one x86-64 core.
"""

from dataclasses import dataclass
from types import MappingProxyType

from remat_algos.errors import ArgumentError

FAST, DEFAULT, BEST = EFFORTS = ("fast", "default", "best")
UNLIMITED = 2**62
# Default gap in points of overhead at which a search ends.
NEAR = 0.005
# Nodes: smaller graphs can often be solved to a proven optimum, so their searches end only at the bound.
SMALL = 64
# Nodes: smaller graphs are planned in a fraction of a second; on larger ones the work of `search` rises up to HUGE.
LARGE, HUGE = 1_000, 20_000


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of one level of effort; higher ones trade time for better plans or bounds."""

    # Work of `search` within one limit: changes of its memory profile, plus eight per move; a core does 30 million/s.
    search_work: int
    # Factor on `search_work` for graphs of `HUGE` nodes; it rises from 1 at `LARGE` nodes.
    search_work_when_large: int
    # Maximum work per node; it limits graphs below 120 (fast), 360 (default) and 150 (best) nodes.
    search_work_of_node: int
    # Work of the search with copies within one limit; two simulated slots of a timeline count one.
    copies_work: int
    # Searches from seeds in the first round; the best go on.
    first_searches: int
    # Factor on `search_work_of_node` for the lowest peak.
    lowest_work: int
    # Factor on the work within one limit for a whole frontier.
    frontier_work: float
    # Sets of live values that the exact search stores: one twentieth of it on graphs of more than 64 values, half of
    # it for the lowest peak, twice as many for a frontier. A core visits about a million a second.
    live_sets: int
    # Solvers that take more seconds than this for 1,000 nodes are left out, unless they improve results of others.
    solver_price: float
    # First runs of nodes at which the moment bound counts memory; 0: closure bounds only. Adding a fourth takes as
    # long as the first three and raises few bounds.
    moments: int
    # The same for the bound computed after a search, which aims to prove the best plan.
    last_moments: int
    # Largest graph that gets a moment bound.
    moment_nodes: int
    # CPU seconds for its integer programs. On networks of 300 to 800 nodes one moment takes 0.02 to 0.2 s, and
    # choosing three takes a few seconds.
    moment_seconds: float
    # Points of overhead above the lower bound at which a search ends on graphs of `LARGE` nodes or more.
    gap: float
    # Share of the remaining time for the search; the rest is for the bound after it.
    search_share: float

    @property
    def bounds_first(self) -> bool:
        """True if the search may end at a moment bound, which is then computed before it."""
        return self.moments > 0

    @property
    def bounds_last(self) -> bool:
        """True if the bound is raised after the search, regardless of bounds before it."""
        return self.last_moments > self.moments or self.search_share < 1

    def near(self, n_nodes: int) -> float:
        """Points of overhead above the lower bound at which a search ends, unless `gap` is given."""
        return 0.0 if n_nodes <= SMALL else NEAR if n_nodes < LARGE else self.gap

    def work_within(self, n_nodes: int) -> int:
        """Work of `search` within one limit, before `search_work_of_node`."""
        larger = min(1.0, max(0, n_nodes - LARGE) / (HUGE - LARGE))
        return int(self.search_work * (1 + larger * (self.search_work_when_large - 1)))

    @classmethod
    def of(cls, name: str) -> "Effort":
        """Return the level of that name; ValueError if unknown."""
        if name not in EFFORTS:
            raise ArgumentError("effort is {name!r}; use {known!l}", name=name, known=EFFORTS)
        return TABLE[name]


TABLE = MappingProxyType(
    {
        FAST: Effort(
            search_work=6_000_000,
            search_work_when_large=6,
            search_work_of_node=50_000,
            copies_work=20_000_000,
            first_searches=8,
            lowest_work=2,
            frontier_work=3,
            live_sets=1_250_000,
            solver_price=0.1,
            moments=0,
            last_moments=0,
            moment_nodes=0,
            moment_seconds=0.0,
            gap=0.1,
            search_share=1.0,
        ),
        DEFAULT: Effort(
            search_work=90_000_000,
            search_work_when_large=4,
            search_work_of_node=250_000,
            copies_work=350_000_000,
            first_searches=8,
            lowest_work=1,
            frontier_work=2.5,
            live_sets=2_000_000,
            solver_price=UNLIMITED,
            moments=1,
            last_moments=3,
            moment_nodes=3_000,
            moment_seconds=5.0,
            gap=NEAR,
            search_share=1.0,
        ),
        BEST: Effort(
            search_work=150_000_000,
            search_work_when_large=7,
            search_work_of_node=1_000_000,
            copies_work=1_000_000_000,
            first_searches=24,
            lowest_work=1,
            frontier_work=2.5,
            live_sets=4_000_000,
            solver_price=UNLIMITED,
            moments=3,
            last_moments=3,
            moment_nodes=UNLIMITED,
            moment_seconds=6.0,
            gap=NEAR,
            search_share=0.6,
        ),
    }
)
