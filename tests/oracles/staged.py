"""The true optimum of schedules in stages: stage t may recompute earlier nodes, in id order, then runs node t first."""

import heapq

from tests.oracles.plain import plain


def least_compute(graph, limit):
    """(compute, schedule) of the cheapest schedule of stages within `limit` bytes; None: there is none.

    Dijkstra's algorithm over (stage, place in it, live values); a needed node is its place among them.
    """
    g = plain(graph)
    nodes = sorted(g.needed())
    kept = {x for v in nodes for x in g.reads[v]} | g.outputs
    queue, settled = [(0, 0, 0, frozenset(), ())], set()
    while queue:
        cost, t, k, live, order = heapq.heappop(queue)
        if t == len(nodes):
            return cost, list(order)
        if (t, k, live) in settled:
            continue
        settled.add((t, k, live))
        for x in live - g.outputs:
            heapq.heappush(queue, (cost, t, k, live - {x}, order))
        v = nodes[k]
        if k < t:
            heapq.heappush(queue, (cost, t, k + 1, live, order))
        if set(g.reads[v]) <= live and (k == t or not g.once[v]):
            before = live - (set(g.values[v]) - g.outputs)
            bytes_live = sum(g.memory[x] for x in before) + sum(g.memory[x] for x in g.values[v]) + g.workspace[v]
            if bytes_live <= limit:
                after = before | (set(g.values[v]) & kept)
                place = (t + 1, 0) if k == t else (t, k + 1)
                heapq.heappush(queue, (cost + g.compute[v], *place, after, (*order, v)))
    return None
