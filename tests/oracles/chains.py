"""Chains of stages the slow way: the recurrence of beaumont2019 by recursion, and all schedules of two classes.

Operations are pairs (operation, stage), as in `remat_algos.solvers.chain_stages`.
"""

import heapq
import math
from functools import cache

from remat_algos.solvers.chain_stages import stages_of
from tests.oracles.simulation import slow_simulation

SWEEP, EVERY, LEAF, BACKWARD = range(4)


def recurrence(costs, memory, slots, most, unit=1, up=True):
    """The entry [0][n - 1][slots] of the table of `most` slots; the arguments are those of `kernels.chain_table`."""
    sweep, every_cost, leaf_cost = ([int(x) for x in row] for row in costs)
    memory = [[int(x) for x in row] for row in memory]
    link, keep, first, following, every, leaf, backward, gradients, fixed, first_once, following_once, every_once = (
        memory
    )
    n = len(link)

    def in_slots(size):
        return math.ceil(size / unit) if up else math.floor(size / unit)

    @cache
    def least(a, b, m):
        m = min(m, most)
        room = m >= max(0, in_slots(backward[a]))
        once = b == n - 1
        beside = gradients[b] + (0 if once else sum(fixed[a : b + 1]))
        if a == b:
            return leaf_cost[a] if room and m >= in_slots(leaf[a] + beside) else math.inf
        best = math.inf
        if room and m >= in_slots((every_once if once else every)[a] + beside):
            best = every_cost[a] + least(a + 1, b, m - in_slots(keep[a]))
        for j in range(a + 1, b + 1):
            if once:
                peak = max([first_once[a], *(following_once[i] + sum(fixed[a:i]) for i in range(a + 1, j))])
            else:
                peak = max([first[a], *following[a + 1 : j]])
            rest = m - in_slots(link[j - 1] + sum(fixed[a:j]))
            if m >= in_slots(peak + beside) and rest >= 0:
                best = min(best, sum(sweep[a:j]) + least(j, b, rest) + least(a, j - 1, m))
        return best

    return least(0, n - 1, slots)


def every_schedule(n):
    """All lists of operations of the class for n stages: 1, 2, 6, 22, 90, 394 of them."""

    @cache
    def of(a, b):
        if a == b:
            return [((LEAF, a), (BACKWARD, a))]
        found = [((EVERY, a), *rest, (BACKWARD, a)) for rest in of(a + 1, b)]
        for j in range(a + 1, b + 1):
            sweep = tuple((SWEEP, i) for i in range(a, j))
            found += [(*sweep, *late, *early) for late in of(j, b) for early in of(a, j - 1)]
        return found

    return of(0, n - 1)


def every_figure(graph):
    """[(peak, compute, operations)] of all schedules of the class."""
    stages, found = stages_of(graph), []
    for operations in every_schedule(len(stages)):
        run = slow_simulation(graph, stages.schedule(operations).order.tolist())
        found.append((run.peak, run.compute, operations))
    return found


def least_compute(graph, limit):
    """(compute, operations) of the cheapest schedule of the class within a limit; None: none fits."""
    fitting = [(compute, operations) for peak, compute, operations in every_figure(graph) if peak <= limit]
    return min(fitting, default=None)


def is_exact(graph):
    """Whether the peaks of the class can be predicted to the byte."""
    stages = stages_of(graph)
    return stages is not None and stages.exact and stages.upper.same_as(stages.lower)


def least_persistent(stages, limit):
    """The least compute of any persistent schedule within a limit, inf without one: Dijkstra's algorithm over sets.

    `stages` are rows (link, keep, compute, gradient, run, backward) of bytes and costs, for stages 1 to n. A vertex is
    the stage whose gradients are next, what is kept, and the link that a sweep passes on, 0 for none.
    """
    rows = [(0,) * 6, *stages]
    link, keep, compute, gradient, run, backward = zip(*rows, strict=True)
    n = len(stages)
    queue, settled = [(0, (n, (), 0))], set()
    while queue:
        cost, vertex = heapq.heappop(queue)
        if vertex in settled:
            continue
        settled.add(vertex)
        last, kept, passed = vertex
        if last == 0:
            return cost
        live = gradient[last] + sum(keep[i] if every else link[i] for i, every in kept)
        is_kept = {0, *(i for i, _ in kept)}
        moves = []
        if passed:
            moves = [(0, live, last, kept, 0), (0, live, last, (*kept, (passed, False)), 0)]
        for i in range(1, last + 1):
            if i in is_kept:
                continue
            if i < last and (passed == i - 1 if passed else i - 1 in is_kept):
                moves.append((compute[i], live + link[passed] + link[i] + run[i], last, kept, i))
            if not passed and i - 1 in is_kept:
                moves.append((compute[i], live + keep[i] + run[i], last, (*kept, (i, True)), 0))
        if not passed and (last, True) in kept and last - 1 in is_kept:
            rest = [each for each in kept if each not in ((last, True), (last - 1, False))]
            moves.append((0, live + backward[last], last - 1, rest, 0))
        for more, needs, *after in moves:
            if needs <= limit:
                heapq.heappush(queue, (cost + more, (after[0], tuple(sorted(after[1])), after[2])))
    return math.inf
