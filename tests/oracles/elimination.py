"""Elimination and treewidth by sets, as the definitions say."""

from functools import cache
from itertools import combinations


def neighbours(graph):
    """Vertex to the set of its neighbours."""
    return {v: set(graph.neighbours(v)) for v in range(graph.n_vertices)}


def fill(near, v):
    """How many pairs of neighbours of v are not joined."""
    return sum(b not in near[a] for a, b in combinations(near[v], 2))


def without(near, v):
    """The graph after the elimination of v."""
    left = {u: set(others) for u, others in near.items() if u != v}
    for a in near[v]:
        left[a] |= near[v] - {a}
        left[a].discard(v)
    return left


def contracted(near, v, u):
    """The graph after v was contracted into u."""
    left = {w: others - {v} for w, others in near.items() if w != v}
    for w in near[v] - {u}:
        left[w].add(u)
        left[u].add(w)
    return left


def is_safe(near, v, low):
    """Whether v is simplicial, or of degree `low` or less and simplicial but for one neighbour."""
    rest = [near[v] - {u} for u in near[v]] if len(near[v]) <= low else []
    return any(all(b in near[a] for a, b in combinations(others, 2)) for others in [near[v], *rest])


def bags(graph, order):
    """Each vertex of the order with its neighbours at that time."""
    near, found = neighbours(graph), []
    for v in order:
        found.append({v} | near[v])
        near = without(near, v)
    return found


def width(graph, order):
    return max(map(len, bags(graph, order)), default=0) - 1


def treewidth(graph):
    """The least width over all orders; what is left does not depend on the order in which the others went."""
    whole = neighbours(graph)

    @cache
    def least(gone):
        near = whole
        for v in sorted(gone):
            near = without(near, v)
        return min((max(len(near[v]), least(gone | {v})) for v in near), default=-1)

    return least(frozenset())


def components(near, v):
    """How many components remain without v and its neighbours."""
    left, count = set(near) - near[v] - {v}, 0
    while left:
        count, reached = count + 1, {left.pop()}
        while reached:
            reached = left & set().union(*(near[u] for u in reached))
            left -= reached
    return count


def key(near, v, rule, eliminated=0):
    """What a rule wants least."""
    degree, missing = len(near[v]), fill(near, v)
    if callable(rule):
        return rule(degree, missing, components(near, v), eliminated)
    return {
        "fill": missing,
        "degree": degree,
        "ratio": missing / (degree + 1),
        "steep_ratio": missing / (degree + 1) ** 1.5,
        "density": missing / (degree + 1) ** 2,
    }[rule]
