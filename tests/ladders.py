"""Ladders, zigzags and a counterexample: graphs that are hard to run again, all sizes and costs 1."""

from itertools import pairwise

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels


def ladder(length, skips=()):
    """A chain f0 .. fL and its gradients: b(i) reads b(i+1) and f(i). 2 L + 2 nodes, the output is b0.

    f0 -> f1 -> ... -> fL
    |     |            |        fL is the loss; `zoo.random.ladder` has a node more for it
    b0 <- b1 <- ... <- bL
    """
    last = 2 * length + 1
    names = [*(f"f{i}" for i in range(length + 1)), *(f"b{i}" for i in range(length, -1, -1))]
    forward_of = [-1] * (length + 1) + list(range(length, -1, -1))
    across = [(i, last - i) for i in range(length)]
    return _graph(names, [*pairwise(range(last + 1)), *across, *skips], forward_of=forward_of)


def skip_ladder(length):
    """A ladder whose f(i) reads f(i-2) too."""
    return ladder(length, [(i - 2, i) for i in range(2, length + 1)])


def zigzag(strands, positions):
    """Chains that run to and fro over the same positions; a node reads the one beside it on the chain before, too.

    s0.0 -> s0.1 -> s0.2
     |       |       |
    s1.0 <- s1.1 <- s1.2        the nodes of a position are a separator, which every chain crosses;
     |       |       |          two chains are a ladder
    s2.0 -> s2.1 -> s2.2
    """
    places = [(s, p) for s in range(strands) for p in range(positions)[:: -1 if s % 2 else 1]]
    node = {place: v for v, place in enumerate(places)}
    beside = [(node[s - 1, p], v) for (s, p), v in node.items() if s > 0]
    return _graph([f"s{s}.{p}" for s, p in places], [*pairwise(range(len(places))), *beside])


def counterexample():
    """The graph on which algorithm 1 of kumar2019, taken literally, runs q before v0.

        c -> b -> a -> v0 -> q -> f
                       ^     ^
                  p ---+-----+

    A path of bags for it is {q, f} - {p, q, v0} - {v0, a} - {a, b} - {b, c}; the bag in the middle separates {c, b}
    from {p, q, f}. The recursion that is right runs c b a p v0 p q f.
    """
    return _graph(("c", "b", "a", "p", "v0", "q", "f"), [(0, 1), (1, 2), (2, 4), (3, 4), (3, 5), (4, 5), (5, 6)])


def _graph(names, edges, **arrays):
    pairs = np.array(edges, np.int32).reshape(-1, 2)  # a pair that stands twice counts once
    return ComputationGraph.from_edges(pairs, n_nodes=len(names), labels=Labels(names=tuple(names)), **arrays)
