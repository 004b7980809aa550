"""The order of copies to the host: a store that can wait is moved behind a later one that cannot."""

from collections.abc import Iterator

import numpy as np

from remat_algos.cost.links import Link
from remat_algos.ir.arrays import Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import Timeline, linger, timeline

TRIALS = 64
"""Orders of stores that are simulated for one schedule."""


def with_late_stores(
    graph: ComputationGraph, schedule: Schedule, link: Link, limit: int, trials: int = TRIALS
) -> Timeline:
    """Play a schedule with memory lingering as far as it fits, and with stores moved back while that takes less time.

    By default values are stored as they are made. Where compute waits for a store, one of those right before it in the
    queue, whose memory is freed later, begins after it: the step of Carlier's algorithm for one machine with release
    and due dates. The result is never slower than that of `linger`.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule
        Its `lingering` is not looked at.
    link : Link
    limit : int
        Bytes.
    trials : int
        Maximum number of simulated orders.

    Examples
    --------
    Value 0 is stored at once, and its copy is not over when value 1 must leave.

    >>> from remat_algos.ir.labels import Labels
    >>> labels, memory = Labels(compute_unit="us"), [16, 8, 2, 8, 2, 20, 1, 1]
    >>> reads = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5), (5, 6), (6, 7), (1, 7), (0, 7)]
    >>> graph = ComputationGraph.from_edges(reads, memory=memory, compute=[10, 10, 8, 16, 4, 10, 40, 9], labels=labels)
    >>> schedule, link = Schedule(range(8), loads=[(6, 1), (6, 0)]), Link(1e6, 1e6, 0, share=1)
    >>> timeline(simulate(graph, linger(graph, schedule, link, 27)), link).time
    113
    >>> played = with_late_stores(graph, schedule, link, 27)
    >>> played.time, played.simulation.schedule.stores.tolist()
    (107, [[2, 0]])
    """

    def play(stores: Int32) -> Timeline:
        placed = Schedule(schedule.order, schedule.loads, stores=stores)
        return timeline(simulate(graph, linger(graph, placed, link, limit)), link)

    best = play(schedule.stores)
    if best.stores.size < 2:
        return best
    bare = simulate(graph, Schedule(schedule.order, schedule.loads)).lifetimes
    release = np.zeros(graph.n_values, np.int64)  # where the first instance of each value is freed
    value, first = np.unique(bare.value, return_index=True)
    release[value] = bare.end[first]
    while trials > 0:
        for stores in _moved_back(best, release):
            trials -= 1
            found = play(stores)
            fits = found.simulation.peak_memory <= max(limit, best.simulation.peak_memory)
            if fits and found.last < best.last:
                best = found
                break
            if trials <= 0:
                return best
        else:
            return best
    return best


def _moved_back(played: Timeline, release: Int64) -> Iterator[Int32]:
    """Rows of stores, each time with another one moved behind a store for which something waits."""
    values, begin, end = played.stores.tolist(), played.store_begin, played.store_end
    steps = played.simulation.store_instances[1].tolist()
    awaited = np.concatenate([played.begin[played.waits > 0], played.load_begin, [played.last]])
    rows = played.simulation.schedule.stores.tolist()
    for urgent in np.flatnonzero(np.isin(end, awaited)).tolist():
        at = urgent - 1
        while at >= 0 and begin[at + 1] == end[at]:
            if release[values[at]] > release[values[urgent]]:
                yield _behind(rows, values[at], (steps[urgent], values[urgent]))
            at -= 1


def _behind(rows: list[list[int]], moved: int, urgent: tuple[int, int]) -> Int32:
    """The rows with the store of a value right behind another one, which has a row or is where it is by default."""
    left = [row for row in rows if row[1] != moved]
    place = next((i + 1 for i, row in enumerate(left) if row[1] == urgent[1]), None)
    if place is None:
        place = sum(row[0] < urgent[0] for row in left)
    left.insert(place, [urgent[0], moved])
    return np.array(left, np.int32)
