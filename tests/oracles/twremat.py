"""Schedules by recursion on separators (kumar2019, algorithm 1), and in batches.

A tree of separators is a tuple (own vertices, all vertices of the part, bags of the part, children), its parts sets.
`reads[v]` is the set of vertices that v reads; ids are topological.
"""

import numpy as np


def separator_tree(tree, s=0):
    """A SeparatorTree, from separator s down, in sets."""
    if not tree.end.size:
        return (), set(), 0, []
    children = tree.children[tree.child_indptr[s] : tree.child_indptr[s + 1]]
    own = tree.own[tree.own_indptr[s] : tree.own_indptr[s + 1]]
    part = {v for v, owner in enumerate(tree.owner) if s <= owner < tree.end[s]}
    return set(own.tolist()), part, int(tree.n_bags[s]), [separator_tree(tree, c) for c in children]


def needed_for(targets, reads, inside):
    """The targets and all that they rest on inside a set."""
    needed, todo = set(), [*targets]
    while todo:
        v = todo.pop()
        if v not in needed:
            needed.add(v)
            todo += reads[v] & inside
    return needed


def plain(pred_indptr, pred, tree, targets, recursion_limit=1, as_printed=False):
    """Algorithm 1, corrected or as printed, by the file of examples/by_the_book; without numba the test is skipped."""
    from tests.test_by_the_book import book

    computed = np.zeros(pred_indptr.size - 1, bool)
    computed[targets] = True
    arrays = [np.array(pred_indptr), np.array(pred), tree.end.astype(np.int64), tree.owner.astype(np.int64)]
    return book("kumar_twremat").twremat(*arrays, computed, recursion_limit, as_printed)


def batched(reads, tree, targets, memory, batch=None, recursion_limit=1, live=frozenset(), visits=None):
    """Like algorithm 1, but a visit to a component also computes what later readers request, as far as it can by then.

    batch : bytes that a visit may bring beyond what is requested at once; None: any
    live : what calls above keep for a reader to come
    visits : a list that is given, for each call that divides its part, (nodes of the separator that it runs, the
        numbers of the readers for which each component is visited)
    """
    own, part, n_bags, children = tree
    needed = needed_for(targets, reads, part - live)
    if not children or n_bags < recursion_limit:
        return sorted(needed)
    row = sorted(own & needed)
    level = {v: last_below(v, row, reads, needed) for v in needed}
    requests = [(reads[v] & part) - own - live for v in row] + [targets - own]
    first = {u: min(i for i, request in enumerate(requests) if u in request) for u in set().union(*requests)}
    last = {u: max(i for i, request in enumerate(requests) if u in request) for u in first}
    order, kept, calls = [], set(), [[] for _ in children]
    for i, request in enumerate(requests):
        for child, numbers in zip(children, calls, strict=True):
            if any(first[u] == i for u in request & child[1]):
                now = (request & child[1]) - kept
                now |= extra(child[1] & set(first) - kept - now, i, first, level, memory, batch)
                order += batched(reads, child, now, memory, batch, recursion_limit, live | kept, visits)
                kept |= now
                numbers.append(i)
        order += row[i : i + 1]
        kept -= {u for u in kept if last[u] == i}
    if visits is not None:
        visits.append((row, calls))
    return order


def last_below(v, row, reads, needed):
    """The number of the last node of a row that v rests on, or is; -1 if there is none."""
    below = needed_for({v}, reads, needed)
    return max((i for i, x in enumerate(row) if x in below), default=-1)


def extra(vertices, i, first, level, memory, batch):
    """What reader i adds of the vertices of a component: what can be computed by then, early readers first."""
    added, bytes_added = set(), 0
    for u in sorted(vertices, key=lambda u: (first[u], u)):
        if first[u] > i > level[u] and (batch is None or bytes_added + memory[u] <= batch):
            added.add(u)
            bytes_added += memory[u]
    return added
