"""Least cuts by trying all sets of vertices."""

from itertools import combinations


def least_cuts(edges, weight, sources, sinks):
    """(least weight, all sets of vertices of that weight that no path from a source to a sink avoids), or None.

    A weight below 0: the vertex may not be cut.
    """
    may = [v for v in range(len(weight)) if weight[v] >= 0]
    sets = [set(cut) for size in range(len(may) + 1) for cut in combinations(may, size)]
    cuts = [cut for cut in sets if not reached(edges, set(sources) - cut, cut) & set(sinks)]
    if not cuts:
        return None
    least = min(sum(weight[v] for v in cut) for cut in cuts)
    return least, [cut for cut in cuts if sum(weight[v] for v in cut) == least]


def reached(edges, start, cut):
    """Vertices that can be reached around a cut."""
    found, todo = set(start), list(start)
    while todo:
        v = todo.pop()
        for tail, head in edges:
            if tail == v and head not in cut | found:
                found.add(head)
                todo.append(head)
    return found
