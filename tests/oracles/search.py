"""The true optimum, over any order and any number of runs, by Dijkstra's algorithm over sets of live values.

For graphs of up to about nine needed nodes. The wishes in `mark` are not looked at.
"""

import heapq
import itertools

from tests.oracles.plain import plain


def least_peak(graph):
    """(peak, schedule): the least peak memory of any schedule, and one that has it."""
    return cheapest(plain(graph), lambda so_far, held, compute: max(so_far, held))


def least_compute(graph, limit):
    """(compute, schedule) of the cheapest schedule that never holds more than `limit` bytes; None: there is none."""
    return cheapest(plain(graph), lambda so_far, held, compute: None if held > limit else so_far + compute)


def cheapest(g, cost):
    """The least `cost(so far, bytes held in the step, compute of the step)` on the way to all outputs."""
    start = (frozenset(), frozenset())  # live values, `once` nodes that have run
    number = itertools.count()  # sets do not compare: ties go to the older entry
    queue, settled = [(0, next(number), start, None)], {}
    while queue:
        so_far, _, state, how = heapq.heappop(queue)
        if state in settled:
            continue
        settled[state] = how
        if g.outputs <= state[0]:
            return so_far, schedule_to(state, settled)
        for node, held, compute, after in moves(g, *state):
            new = so_far if node is None else cost(so_far, held, compute)
            if new is not None and after not in settled:
                heapq.heappush(queue, (new, next(number), after, (state, node)))
    return None


def moves(g, live, ran):
    """(node, bytes held, compute, state after it); node None: a value is dropped."""
    needed = g.needed()
    for v in needed - ran:
        if all(x in live for x in g.reads[v]):
            own = set(g.values[v])
            rest = live - (own - g.outputs)  # an older copy is of no use any more, a pinned one stays beside the new
            held = sum(g.memory[x] for x in rest) + sum(g.memory[x] for x in own) + g.workspace[v]
            useful = {x for x in own if x in g.outputs or any(x in g.reads[w] for w in needed)}
            yield v, held, g.compute[v], (rest | useful, ran | {v} if g.once[v] else ran)
    for x in live - g.outputs:
        yield None, 0, 0, (live - {x}, ran)


def schedule_to(state, settled):
    order = []
    while settled[state] is not None:
        state, node = settled[state]
        if node is not None:
            order.append(node)
    return order[::-1]
