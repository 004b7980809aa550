"""A flipped decision of a schedule, by hand: which steps go, which come."""

import itertools

from tests.oracles.plain import plain
from tests.oracles.simulation import serving_run, slow_simulation


def kept(graph, order, node):
    """Steps that stay when only the first run of a node stays, and then no later run that nobody reads."""
    g = plain(graph)
    steps = [s for s, v in enumerate(order) if v != node or v not in order[:s]]
    while True:
        left = [order[s] for s in steps]
        idle = [i for i, v in enumerate(left) if v in left[:i] and not is_read(g, left, i)]
        if not idle:
            return steps
        del steps[idle[-1]]


def is_read(g, order, step):
    """Whether a later step reads a copy that this step makes."""
    return any(
        serving_run(g, order, later, x) == step
        for later in range(step + 1, len(order))
        for x in g.reads[order[later]]
        if g.producer[x] == order[step]
    )


def idle_time(graph, order, node):
    """(from, to) of the longest time without a read of what is not pinned of a node that runs once; None if unread."""
    g = plain(graph)
    waits = [x for x in g.values[node] if x not in g.outputs]
    uses = [order.index(node), *(s for s, v in enumerate(order) if any(x in g.reads[v] for x in waits))]
    return max(itertools.pairwise(uses), key=lambda gap: gap[1] - gap[0], default=None)


def add_second_run(graph, order, node):
    """Each way to run a node a second time, as pairs (old step or None, node); none if it is never idle."""
    gap = idle_time(graph, order, node)
    if gap is None or gap[1] - gap[0] < 2:
        return []
    g, place = plain(graph), gap[1]
    held = {x for begin, x, end in slow_simulation(unmarked(g), order).lifetimes if begin < place < end}
    lacking = {node}
    while (
        more := {
            g.producer[x]
            for v in lacking
            for x in g.reads[v]
            if x not in held and not g.once[g.producer[x]] and g.mark[g.producer[x]] != 1
        }
        - lacking
    ):
        lacking |= more
    steps = list(enumerate(order))

    def with_inserted(nodes, rest):
        return steps[:place] + [(None, v) for v in nodes] + rest

    ways = [with_inserted([node], steps[place:])]
    if lacking != {node}:
        ways.append(with_inserted(sorted(lacking), steps[place:]))
        moved = {next((s for s, v in steps[place:] if v == u), None) for u in lacking - {node}}
        if moved != {None}:
            ways.append(with_inserted(sorted(lacking), [(s, v) for s, v in steps[place:] if s not in moved]))
    return ways


def unmarked(g):
    return type(g)(**{**vars(g), "mark": [0] * len(g.mark)})
