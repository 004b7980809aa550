"""The true optimum, over any order and any number of runs, of graphs of up to 22 values.

Dijkstra's algorithm over sets of live values, as in `search.py`, but a set is an integer: its k-th bit stands for the
k-th value that is an output or that a needed node reads. A node that must run only once has a bit too, which says that
it has run. A node that reads a parameter does not run while the output of a node that changes it is live: it stays so.
Numba compiles the search where the sets are many. The wishes in `mark` are not looked at.
"""

import bisect
import functools
import heapq
from dataclasses import dataclass

import numpy as np
import pytest

from tests.oracles.plain import plain
from tests.oracles.simulation import changeable_reads, is_update, peak_memory

MOST_BITS = 22
FEW = 1 << 12  # sets that Python goes through in less time than Numba takes to compile
FAR = np.iinfo(np.int64).max


def least_peak(graph):
    """(peak, schedule): the least peak memory of any schedule, and the cheapest one that has it."""
    moves = Moves.of(graph)
    low = int((moves.weight[moves.reads] + moves.own).max(initial=0))  # what a node needs while it runs
    high = peak_memory(graph, moves.nodes)
    peak = bisect.bisect_left(range(high), True, lo=low, key=lambda limit: cheapest(moves, limit) is not None)
    return peak, cheapest(moves, peak)[1]


def least_compute(graph, limit):
    """(compute, schedule) of the cheapest schedule that never holds more than `limit` bytes; None: there is none."""
    return cheapest(Moves.of(graph), limit)


@dataclass(frozen=True)
class Moves:
    """What each needed node asks of the live values and does to them, as sets of bits, and what a set weighs."""

    nodes: np.ndarray  # ids of the needed nodes; the arrays below have an entry for each
    reads: np.ndarray  # must be live
    blocked: np.ndarray  # must not be
    replaced: np.ndarray  # an older copy is of no use any more; of an output the first stays
    made: np.ndarray  # live afterwards
    own: np.ndarray  # bytes that its run adds: all its values and its workspace
    compute: np.ndarray
    pinned: int  # never freed
    outputs: int
    weight: np.ndarray  # bytes of each set

    @classmethod
    def of(cls, graph):
        g = plain(graph)
        needed = sorted(g.needed())
        useful = sorted(g.outputs.union(*(g.reads[v] for v in needed)))
        single = [v for v in needed if g.once[v]]
        bit = {name: 1 << k for k, name in enumerate([*useful, *((v, "has run") for v in single)])}
        if len(bit) > MOST_BITS:
            raise ValueError(f"there are {len(bit)} values and nodes to keep count of; {MOST_BITS} is the most")

        def bits(names):
            return sum(bit.get(name, 0) for name in names)

        ran = [bits([(v, "has run")]) for v in needed]
        changes = {v: changeable_reads(g, v) for v in needed if is_update(g, v)}
        changed = [
            bits(x for u in changes if v not in changes and changes[u] & changeable_reads(g, v) for x in g.values[u])
            for v in needed
        ]
        weight = np.zeros(1, np.int64)
        for memory in [g.memory[x] for x in useful] + [0] * len(single):
            weight = np.concatenate([weight, weight + memory])
        return cls(
            nodes=integers(needed),
            reads=integers(bits(g.reads[v]) for v in needed),
            blocked=integers(own + late for own, late in zip(ran, changed, strict=True)),
            replaced=integers(bits(set(g.values[v]) - g.outputs) for v in needed),
            made=integers(bits(g.values[v]) + own for v, own in zip(needed, ran, strict=True)),
            own=integers(sum(g.memory[x] for x in g.values[v]) + g.workspace[v] for v in needed),
            compute=integers(g.compute[v] for v in needed),
            pinned=bits(g.outputs) + sum(ran),
            outputs=bits(g.outputs),
            weight=weight,
        )


def integers(numbers):
    return np.array(list(numbers), np.int64)


def cheapest(moves, limit):
    """(compute, schedule) of the cheapest way to all outputs within a limit, or None."""
    m, run = moves, dijkstra if moves.weight.size <= FEW else compiled()
    live, compute, before, move = run(
        m.reads, m.blocked, m.replaced, m.made, m.own, m.compute, m.pinned, m.outputs, m.weight, limit
    )
    if live < 0:
        return None
    order = []
    while live:
        if move[live] >= 0:
            order.append(int(m.nodes[move[live]]))
        live = before[live]
    return int(compute), order[::-1]


@functools.cache
def compiled():
    return pytest.importorskip("numba").njit(dijkstra)  # plain Python would take minutes


def dijkstra(reads, blocked, replaced, made, own, compute, pinned, outputs, weight, limit):
    """(set with all outputs or -1, its compute, the set before each set, the move that led there; -1: a drop)."""
    cost = np.full(weight.size, FAR)
    before = np.zeros(weight.size, np.int32)
    move = np.full(weight.size, -1, np.int8)
    cost[0] = 0
    queue = [(np.int64(0), np.int64(0))]
    while len(queue) > 0:
        so_far, live = heapq.heappop(queue)
        if so_far > cost[live]:
            continue
        if live & outputs == outputs:
            return live, so_far, before, move
        for v in range(reads.size):
            rest = live & ~replaced[v]
            if live & reads[v] == reads[v] and live & blocked[v] == 0 and weight[rest] + own[v] <= limit:
                after, new = rest | made[v], so_far + compute[v]
                if new < cost[after]:
                    cost[after], before[after], move[after] = new, live, v
                    heapq.heappush(queue, (new, after))
        free = live & ~pinned
        while free:
            after = live & ~(free & -free)
            free &= free - 1
            if so_far < cost[after]:
                cost[after], before[after], move[after] = so_far, live, -1
                heapq.heappush(queue, (so_far, after))
    return -1, FAR, before, move
