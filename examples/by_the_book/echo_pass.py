"""Echo's pass with the two steps that figure 13 requires: echo2020, section V-A, figures 11 to 13.

At first all cheap forward nodes are on the recomputation path. The pass removes nodes from the beginning of the path
while that releases at least as many bytes as it allocates; the others are recomputed for the gradients. In the example
of figure 13, algorithm 1 as printed (`echo_algorithm_1.py`) recomputes nothing.

Input: the graph G, a tuple of these arrays, and the heavy nodes
    in_indptr, in_edges     int64  node s reads the edges (tensors) in_edges[in_indptr[s] : in_indptr[s + 1]]
    out_indptr              int64  node s computes the edges out_indptr[s] to out_indptr[s + 1] - 1
    ref_indptr, ref_nodes   int64  the forward nodes that reference each edge as input, in the same form
    size                    int64[edges]  bytes
    saved                   bool[edges]   True if the gradient graph references the edge: a feature map
    heavy                   bool[n]       True if the operator is one of ComputeHeavyOps

Output
    path                    bool[n]       the nodes that stay on the recomputation path

Differences from algorithm 1
    Frontier: only nodes whose inputs are all off the path may be removed, as in figure 12.
    Groups: nodes of the frontier that share input edges are removed together, as the text describes for figure 13.
    Both steps are in apache/mxnet#18228. An edge with a reference outside the frontier is allocated, not released.
"""

import numpy as np
from numba import njit


@njit
def frontier_of(path, G):
    """Return the nodes on the path without an input from the path, bool[n]."""
    in_indptr, in_edges, out_indptr, _, _, _, _ = G
    frontier = path.copy()
    for s in np.flatnonzero(path):
        producers = np.searchsorted(out_indptr, in_edges[in_indptr[s] : in_indptr[s + 1]], side="right") - 1
        frontier[s] = not path[producers].any()
    return frontier


@njit
def group_of(s, frontier, G):
    """Return the nodes of the frontier that share input edges with s, directly or through others, bool[n]."""
    in_indptr, in_edges, _, ref_indptr, ref_nodes, _, _ = G
    group = np.zeros(frontier.size, np.bool_)
    group[s] = True
    W = [s]
    while len(W) > 0:
        w = W.pop()
        for e in in_edges[in_indptr[w] : in_indptr[w + 1]]:
            for n in ref_nodes[ref_indptr[e] : ref_indptr[e + 1]]:
                if frontier[n] and not group[n]:
                    group[n] = True
                    W.append(n)
    return group


@njit
def footprint(group, frontier, G):
    """Return Rel and Alloc, the bytes that are released and allocated if the group is not recomputed."""
    in_indptr, in_edges, out_indptr, ref_indptr, ref_nodes, size, saved = G
    AllocEdges, RelEdges = np.zeros(size.size, np.bool_), np.zeros(size.size, np.bool_)
    for s in np.flatnonzero(group):
        # Outputs of the group are stashed, if anything references them.
        for o in range(out_indptr[s], out_indptr[s + 1]):
            AllocEdges[o] = saved[o] or ref_indptr[o] < ref_indptr[o + 1]
        # Inputs of the group are released, unless another reference needs them.
        for e in in_edges[in_indptr[s] : in_indptr[s + 1]]:
            RelEdges[e] = not saved[e] and frontier[ref_nodes[ref_indptr[e] : ref_indptr[e + 1]]].all()
            AllocEdges[e] = not RelEdges[e]
    return size[RelEdges].sum(), size[AllocEdges].sum()


@njit
def echo_pass(G, heavy):
    """Return the recomputation path."""
    path = ~heavy
    while True:
        frontier = frontier_of(path, G)
        for s in np.flatnonzero(frontier):
            group = group_of(s, frontier, G)
            Rel, Alloc = footprint(group, frontier, G)
            if Rel >= Alloc:
                path &= ~group
                break
        else:
            return path


@njit
def stash(path, G):
    """Return the bytes that stay in memory for the gradients and for the nodes that are recomputed."""
    in_indptr, in_edges, out_indptr, _, _, size, saved = G
    needed, total = saved.copy(), 0
    for s in range(path.size - 1, -1, -1):
        outputs = slice(out_indptr[s], out_indptr[s + 1])
        if not path[s]:
            total += (size[outputs] * needed[outputs]).sum()
        elif needed[outputs].any():
            needed[in_edges[in_indptr[s] : in_indptr[s + 1]]] = True
    return total


def rows(lists):
    return np.cumsum([0, *map(len, lists)]), np.array([e for row in lists for e in row])


def main():
    # Figures 8 and 13: X of T bytes is added to T values of one byte each; the sums, of T bytes each, go through tanh.
    for T in (1, 2, 3, 5, 8):
        sums = [[0, 1 + t] for t in range(T)]
        reads = [*[[]] * (T + 1), *sums, *([1 + T + t] for t in range(T)), [1 + 2 * T + t for t in range(T)]]
        references = [[s for s, row in enumerate(reads) if e in row] for e in range(3 * T + 2)]
        size = np.array([T] + [1] * T + [T] * 2 * T + [0])
        saved, heavy = np.array([[0] * (2 * T + 1) + [1] * T + [0], [1] * (T + 1) + [0] * 2 * T + [1]]) > 0
        G = (*rows(reads), np.arange(3 * T + 3), *rows(references), size, saved)
        path = echo_pass(G, heavy)
        print(f"T = {T}: {path.sum()} nodes recomputed, stash {stash(path, G)} bytes, without recomputation {T * T}")


if __name__ == "__main__":
    main()
