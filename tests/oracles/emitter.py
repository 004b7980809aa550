"""From decisions about nodes to a schedule: mirror counts, kept nodes, lower sets."""

import itertools

from tests.oracles.plain import plain


def mirror(graph, m):
    """chen2016, algorithm 2: `m[v]` runs of the forward node v beyond the first, each right before its need."""
    g = plain(graph)
    needed = g.needed()
    if any(m[v] > 0 and g.once[v] for v in g.forward()):
        raise ValueError("a node that must not run again is mirrored")
    order = [v for v in g.forward() if v in needed]
    done = {(v, 0) for v in order}

    def emit(v, copy):
        if (v, copy) not in done:
            done.add((v, copy))
            for u in to_be_had(g, v):
                emit(u, min(copy, m[u]))
            order.append(v)

    for v in g.backward():
        if v in needed:
            for u in to_be_had(g, v):
                emit(u, m[u])
            order.append(v)
    return order


def to_be_had(g, v):
    """Forward nodes that v reads, in read order; a pinned value is there and asks for no run."""
    return [g.producer[x] for x in g.reads[v] if x not in g.outputs and not g.is_backward(g.producer[x])]


def checkpoint(graph, kept):
    """Every forward node outside the set `kept` runs once more where it is missing."""
    g = plain(graph)
    return mirror(g, [0 if v in kept or g.once[v] else 1 for v in g.nodes])


def canonical(graph, lower_sets, keep_last=True, lazy=True):
    """kusumoto2019, section 3: block by block, from a growing list of sets of forward nodes."""
    g = plain(graph)
    needed = g.needed()
    blocks = [after - before for before, after in itertools.pairwise([set(), *lower_sets])]
    inside = set().union(*lower_sets)
    if any(v not in inside for v in g.forward() if v in needed):
        raise ValueError("the last lower set lacks a needed node")
    never_again = {v for v in g.nodes if g.once[v]}
    kept = {v for lower_set in lower_sets for v in boundary(g, lower_set)} | never_again
    if keep_last and blocks:
        kept |= blocks[-1]
    order = [v for block in blocks for v in sorted(block) if v in needed]
    gradients, left = set(), set()  # gradients run so far; what the block before leaves, kept nodes aside

    def emit(v):
        for x in g.reads[v]:
            u = g.producer[x]
            if x not in g.outputs and u not in kept | gradients | left:
                emit(u)
        order.append(v)
        (gradients if g.is_backward(v) else left).add(v)

    for i in reversed(range(len(blocks))):
        for v in sorted(blocks[i]):
            pinned = all(x in g.outputs for x in g.values[v])
            if not lazy and v in needed and v not in kept | left and not pinned:
                emit(v)
        for v in g.backward():
            if v in needed and g.owner(v) in blocks[i] and v not in gradients:
                emit(v)
        beside = co_inputs(g, lower_sets[i - 1] if i else set())
        left &= beside
        if not lazy:  # to the letter: what is kept is dropped with its block
            kept -= {v for v in kept - never_again if not any(v in block for block in blocks[:i])} - beside
    return order


def boundary(g, lower_set):
    """Nodes of a lower set that a forward node outside it reads."""
    return {u for v in g.forward() if v not in lower_set for u in g.predecessors(v) if u in lower_set}


def co_inputs(g, lower_set):
    """What is read beside a lower set: predecessors of its successors, outside it."""
    successors = [v for v in g.forward() if any(u in lower_set for u in g.predecessors(v))]
    return {u for v in successors for u in g.predecessors(v)} - lower_set
