"""Parameter sweeps: yield every candidate of a sweep, or only the candidates near a memory limit.

A row is the sequence of candidates in one sweep.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import WORST, Candidate, Details, Item, evaluated, rank

Decision = Int64 | Schedule | None
"""How often each node is recomputed (mirror counts, int64[n]), or a schedule. None if the schedule was too long."""
Recipe = tuple[Callable[[], Decision], Details]
"""A function that computes a decision, and the details of the candidate that this decision gives."""

# Maximum number of segments or splits. It is small enough that products with it are exact in int64.
MAX_COUNT = 2**31


def near(
    graph: ComputationGraph, rows: Sequence[Sequence[Recipe]], limit: int | None, clock: Clock
) -> Iterator[Candidate]:
    """Yield candidates of several sweeps. Long sweeps yield 24 spread evenly, then more near the limit."""
    builder = _RowBuilder(graph, clock)
    max_simulated = max(tuning.MIN_SIMULATED, tuning.MAX_SIMULATED_STEPS // max(1, graph.n_nodes))
    if limit is None or all(len(row) <= max_simulated for row in rows):
        together = coarse_first([recipe for row in rows for recipe in row])
        clock.stage(len(together))
        for done, recipe in enumerate(together):
            candidate = builder.candidate(recipe)
            if candidate is not None:
                yield candidate
            clock.progress(done + 1)
        return
    yield from _searched(builder, rows, limit, max_simulated)


def _searched(
    builder: "_RowBuilder", rows: Sequence[Sequence[Recipe]], limit: int, max_simulated: int
) -> Iterator[Candidate]:
    """Search all rows for candidates near a limit. All rows are searched in turn, since a deadline may come early."""
    clock = builder.clock
    ranks: list[dict[int, tuple[int, int, int]]] = [{} for _ in rows]
    last = tuning.FIRST_PLACES - 1
    waiting = [sorted({round(i * (len(row) - 1) / last) for i in range(last + 1)}) for row in rows]
    clock.stage(sum(min(len(row), max_simulated) for row in rows))
    while any(waiting):
        together = coarse_first([(at, place) for at, places in enumerate(waiting) for place in places])
        for at, place in together:
            candidate = builder.candidate(rows[at][place], evaluate=True)
            ranks[at][place] = WORST if builder.figures is None else rank(builder.figures, limit)
            if candidate is not None:
                yield candidate
            clock.advance(1)
        waiting = [_between(tried, tuning.BEST_PLACES) if len(tried) < max_simulated else [] for tried in ranks]


def _between(ranks: Mapping[int, tuple[int, int, int]], best: int) -> list[int]:
    """Return the untried positions halfway between the `best` highest-ranked positions and their neighbours."""
    places = sorted(ranks)
    middles = set[int]()
    for place in sorted(places, key=ranks.__getitem__)[:best]:
        at = places.index(place)
        middles |= {(place + other) // 2 for other in places[max(0, at - 1) : at + 2]}
    return sorted(middles - ranks.keys())


class _RowBuilder:
    """Builds at most one candidate for the same mirror counts; `figures` are (peak, compute) of the last decision."""

    def __init__(self, graph: ComputationGraph, clock: Clock) -> None:
        self.graph = graph
        self.clock = clock
        self.seen: dict[bytes, tuple[int, int] | None] = {}
        self.figures: tuple[int, int] | None = None

    def candidate(self, recipe: Recipe, evaluate: bool = False) -> Candidate | None:
        graph, (make, details) = self.graph, recipe
        decision, key, self.figures = make(), b"", None
        if decision is None:
            self.clock.skipped["too long"] += 1
            return None
        if not isinstance(decision, Schedule):
            counts = clamp_counts(graph, decision).astype(np.int32)
            key = hashlib.blake2b(counts.tobytes(), digest_size=16).digest()
            if key in self.seen:
                self.figures = self.seen[key]
                return None
            decision = mirror_schedule(graph, counts)
        built = evaluated(graph, decision, details) if evaluate else Candidate(decision, details)
        if built.simulation is not None:
            self.figures = built.figures
        if key:
            self.seen[key] = self.figures
        return built


def longest_row(graph: ComputationGraph) -> int:
    """Return the maximum length of a row of candidates. To save simulations, it is smaller for larger graphs."""
    return max(100, min(tuning.LONGEST_ROW, tuning.MAX_ROW_STEPS // max(1, graph.n_nodes)))


def thinned(items: Sequence[Item], max_items: int) -> list[Item]:
    """Keep at most `max_items` items, including the first and the last, with geometrically increasing distances."""
    if len(items) <= max_items:
        return list(items)
    places = np.unique(np.geomspace(1, len(items), max_items).round().astype(np.int64)) - 1
    return [items[int(place)] for place in places]


def coarse_first(items: Sequence[Item]) -> list[Item]:
    """Reorder items so that the first k of them are spread evenly over the whole sequence, for every k.

    >>> coarse_first("abcdefgh")
    ['a', 'e', 'c', 'g', 'b', 'd', 'f', 'h']
    """
    stride = 1 << max(0, len(items) - 1).bit_length()
    places = list(range(0, len(items), stride))
    while stride > 1:
        places += range(stride // 2, len(items), stride)
        stride //= 2
    return [items[place] for place in places]


def cost_per_byte(graph: ComputationGraph) -> NDArray[np.float64]:
    """Return the compute of each node per byte of its values, float64[n]; infinite if it has no bytes."""
    memory = graph.node_memory
    cost = np.full(graph.n_nodes, np.inf)
    return np.divide(graph.compute / float(graph.labels.compute_scale), memory, out=cost, where=memory > 0)


def both(keep_last: bool | None) -> tuple[bool, ...]:
    """Return the values of `keep_last` to try: both if it is None."""
    if keep_last not in (None, True, False):
        raise ArgumentError("keep_last is {keep_last!r}; use True, False or None", keep_last=keep_last)
    return (True, False) if keep_last is None else (bool(keep_last),)


def check_positive(**options: Any) -> None:
    """Raise ValueError unless each option is None or a whole number of 1 or more."""
    for name, option in options.items():
        if option is not None and (not hasattr(option, "__index__") or isinstance(option, bool) or option < 1):
            raise ArgumentError("{name} is {given!r}; give a whole number of 1 or more", name=name, given=option)
        if option is not None and option > MAX_COUNT:
            raise ArgumentError(
                "{name} is {given}; give at most {max_count}", name=name, given=option, max_count=MAX_COUNT
            )
