"""The optimum of larger graphs, over any order and any number of runs: best first over sets of live values.

For graphs in which every node has one value, without workspace and `once`. A set is an integer. Its estimate is the
compute of all nodes that have to run from there on, which no way avoids. Nothing is left out but frees where all that
could run fits, and values that no output rests on any more.
"""

import heapq

from tests.oracles.plain import plain


def least_compute(graph, limit, below=None, most=10**9):
    """Compute of the cheapest schedule within a limit, None if there is none (of less than `below`).

    RuntimeError after `most` sets.
    """
    g = plain(graph)
    reads, outputs = [sum(1 << u for u in row) for row in g.reads], sum(1 << v for v in g.outputs)
    rests = [1 << v & outputs for v in g.nodes]  # outputs that rest on each node
    for v in reversed(g.nodes):
        for u in g.reads[v]:
            rests[u] |= rests[v]
    estimates = {}

    def estimate(live):
        found = estimates.get(live)
        if found is None:
            needed = outputs & ~live
            for v in reversed(g.nodes):
                if needed >> v & 1:
                    needed |= reads[v] & ~live
            found = estimates[live] = sum(g.compute[v] for v in bits(needed))
        return found

    def swept(live):
        missing = outputs & ~live
        return sum(1 << v for v in bits(live) if outputs >> v & 1 or rests[v] & missing & ~(1 << v))

    cost, queue, closed = {0: 0}, [(estimate(0), 0, 0)], set()
    while queue:
        _, order, live = heapq.heappop(queue)
        if live in closed:
            continue
        if live == outputs:
            return cost[live]
        closed.add(live)
        if len(closed) > most:
            raise RuntimeError(f"more than {most} sets")
        bytes_live, free, nexts = sum(g.memory[v] for v in bits(live)), False, []
        for v in g.nodes:
            if not live >> v & 1 and reads[v] & ~live == 0 and rests[v] & ~live:
                if bytes_live + g.memory[v] <= limit:
                    nexts.append((swept(live | 1 << v), cost[live] + g.compute[v]))
                else:
                    free = True
        if free:
            nexts += [(live & ~(1 << v), cost[live]) for v in bits(live & ~outputs)]
        for after, so_far in nexts:
            total = so_far + estimate(after)
            if so_far < cost.get(after, float("inf")) and (below is None or total < below):
                cost[after] = so_far
                heapq.heappush(queue, (total, order - 1, after))
    return None


def bits(members):
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1
