"""The moment at which a node runs first, as sets and as a linear program; and the bytes that are forced there."""

from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import ceil, gcd

import numpy as np
from scipy.optimize import linprog

from tests.oracles.plain import plain


def forced_bytes(graph):
    """Bytes that are live when each needed node runs first, in every schedule."""
    g = plain(graph)
    return {
        v: g.workspace[v] + sum(g.memory[x] for x in forced_values(g, *around(g, v), v)) for v in sorted(g.needed())
    }


def around(g, v):
    """All that a node needs, and all needed nodes that need it."""
    needed = g.needed()
    above = ancestors(g, v)
    return above, {w for w in needed if v in ancestors(g, w)}


def ancestors(g, v):
    found, todo = set(), g.predecessors(v)
    while todo:
        u = todo.pop()
        if u not in found:
            found.add(u)
            todo += g.predecessors(u)
    return found


def forced_values(g, above, below, v):
    passed = {x for w in below for x in g.reads[w] if g.producer[x] in above}
    pinned = {x for x in g.outputs if g.producer[x] in above}
    return {*g.values[v], *g.reads[v], *pinned, *(x for x in passed if runs_once(g, g.producer[x]))}


def two_path_bound(graph):
    """The most bytes that are live while one of two nodes runs, in every schedule; 0 without two paths to a third."""
    g = plain(graph)
    needed = sorted(g.needed())
    around = {v: {*g.values[v], *g.reads[v]} for v in needed}
    pinned = {v: {x for x in g.outputs if g.producer[x] in ancestors(g, v)} for v in needed}
    live = {v: g.workspace[v] + sum(g.memory[x] for x in around[v] | pinned[v]) for v in needed}

    def widest(source, v, avoided):
        """The smallest value on the path where it is largest, without outputs and what is avoided; 0: no path."""
        passed = [x for x in g.reads[v] if x not in avoided and x not in g.outputs]
        return max(
            (
                g.memory[x] if g.producer[x] == source else min(g.memory[x], widest(source, g.producer[x], avoided))
                for x in passed
            ),
            default=0,
        )

    best = 0
    for s, t in combinations(needed, 2):
        for v in needed:
            beside_s, beside_t = widest(t, v, around[s]), widest(s, v, around[t])
            if beside_s and beside_t:
                best = max(best, min(live[s] + beside_s, live[t] + beside_t))
    return best


def result_bytes(graph):
    """The fewest bytes that are live when the last output is made, over the nodes that may make it; 0 without any."""
    g = plain(graph)
    makers = {g.producer[x] for x in g.outputs}
    last = [v for v in makers if not any(v in ancestors(g, w) for w in makers)]
    forced = forced_bytes(graph)
    results = {v: {*g.outputs, *g.values[v], *g.reads[v]} for v in last}
    return min((max(forced[v], g.workspace[v] + sum(g.memory[x] for x in results[v])) for v in last), default=0)


def runs_once(g, v):
    return g.once[v] or g.mark[v] == 1


def relaxed_overhead(graph, limit):
    """The maximum over v of the linear program's value; None where it has no solution for some v."""
    g = plain(graph)
    values = [moment(g, v, limit) for v in g.needed()]
    return None if None in values else max(values, default=0.0)


def moment(g, v, limit):
    """The least compute to run again later so that what is live when v runs first keeps within a limit, in fractions.

    Minimise the cost of what runs before and after over 0 <= k, before, after <= 1: k_x says that value x is live.
    Ancestors run before, descendants after, other nodes at least once: before v only where all that they need does.
    k_x + after_producer(x) >= after_i if node i reads x; an output is live if its node runs before.
    """
    above, below = around(g, v)
    forced = forced_values(g, above, below, v)
    free = g.needed() - above - below - {v}
    values = sorted({x for i in above | free for x in g.values[i]} - forced)
    names = [*(("after", i) for i in sorted(above | free)), *(("before", i) for i in sorted(free))]
    column = {name: i for i, name in enumerate([*names, *(("k", x) for x in values)])}
    rows, most = [], []

    def at_least(terms, number):
        """A sum of variables, with 1 for each whose value is known, and numbers."""
        row = np.zeros(len(column))
        for name, factor in terms:
            if name in column:
                row[column[name]] -= factor
            else:
                assert name[1] in (above if name[0] == "before" else below)
                number -= factor
        rows.append(row)
        most.append(-number)

    for x in values:
        p = g.producer[x]
        for i in (above | free | below) if x not in g.outputs else ():
            if x in g.reads[i]:
                at_least([(("k", x), 1), (("after", p), 1), (("after", i), -1)], 0)
        if x in g.outputs:
            at_least([(("k", x), 1), (("before", p), -1)], 0)
    for i in free:
        at_least([(("before", i), 1), (("after", i), 1)], 1)
        if runs_once(g, i):
            at_least([(("before", i), -1), (("after", i), -1)], -1)
        for j in g.predecessors(i):
            if j in free:
                at_least([(("before", j), 1), (("before", i), -1)], 0)
    room = limit - g.workspace[v] - sum(g.memory[x] for x in forced)
    at_least([(("k", x), -g.memory[x]) for x in values], -room)
    cost = [g.compute[i] for _, i in names] + [0] * len(values)
    ends = [(0, 0 if kind == "after" and i in above and runs_once(g, i) else 1) for kind, i in names]
    if not column:
        return 0.0 if room >= 0 else None
    unit, size = max(1, *cost), max(1, *(abs(number) for number in most))  # HiGHS goes by tolerances near 1
    rows[-1], most[-1] = rows[-1] / size, most[-1] / size
    found = linprog(np.array(cost) / unit, np.array(rows), most, bounds=ends + [(0, 1)] * len(values), method="highs")
    return None if found.status == 2 else found.fun * unit - sum(g.compute[i] for i in free)


def whole_steps(graph, overhead):
    """The least sum of costs of nodes that may run again that is no less, going by their common divisor."""
    g = plain(graph)
    step = reduce(gcd, (g.compute[v] for v in g.needed() if not runs_once(g, v)), 0) or 1
    return ceil(Fraction(overhead) / step) * step
