"""Echo's high-level workflow as printed: echo2020, section V-A, algorithm 1.

The pass decides which cheap forward nodes are recomputed for the gradients. It partitions the graph at heavy nodes,
puts all cheap nodes on the recomputation path, and removes those whose recomputation does not reduce the footprint.

Input: the graph G, a tuple of these arrays, and the heavy nodes
    in_indptr, in_edges     int64  node s reads the edges (tensors) in_edges[in_indptr[s] : in_indptr[s + 1]]
    out_indptr              int64  node s computes the edges out_indptr[s] to out_indptr[s + 1] - 1
    ref_indptr, ref_nodes   int64  the forward nodes that reference each edge as input, in the same form
    size                    int64[edges]  bytes
    saved                   bool[edges]   True if the gradient graph references the edge: a feature map
    heavy                   bool[n]       True if the operator is one of ComputeHeavyOps

Output
    path                    bool[n]       the nodes that stay on the recomputation path

Differences from the text
    Node ids are a topological order. Input placeholders are not in G, as they are always in memory.
    Lines 14 to 18 find the inputs that the gradient of a heavy node reads; here `saved` contains them.
    Line 20, the 1-bit encoding of binarizable operators, is left out.
    Line 23 looks at the gradients of S; here it looks at all gradients, because `saved` does not name their nodes.
    The subgraphs S may overlap. A node is removed if one of its subgraphs removes it.
"""

import numpy as np
from numba import njit


@njit
def input_nodes(s, G):
    """Return s.InputNodes, the nodes that compute the edges which s reads."""
    in_indptr, in_edges, out_indptr, _, _, _, _ = G
    return np.searchsorted(out_indptr, in_edges[in_indptr[s] : in_indptr[s + 1]], side="right") - 1


@njit
def footprint(s, S, G):
    """Return Rel and Alloc, the bytes that are released and allocated if s is not recomputed (lines 21 to 29)."""
    in_indptr, in_edges, out_indptr, ref_indptr, ref_nodes, size, saved = G
    # 21: edges set AllocEdges = RelEdges = {}
    AllocEdges, RelEdges = set(), set()
    # 22: for e in s.InputEdges do
    for e in in_edges[in_indptr[s] : in_indptr[s + 1]]:
        # 23: for n in S or S.GradientGraph that references e as input do
        for n in ref_nodes[ref_indptr[e] : ref_indptr[e + 1]]:
            # 24: if n in S then
            if S[n]:
                # 25: AllocEdges.insert(n.OutputEdges); an edge without a reference needs no memory
                for o in range(out_indptr[n], out_indptr[n + 1]):
                    if saved[o] or ref_indptr[o] < ref_indptr[o + 1]:
                        AllocEdges.add(o)
                # 26: RelEdges.insert(n.InputEdges)
                RelEdges.update(set(in_edges[in_indptr[n] : in_indptr[n + 1]]))
        # 27: else AllocEdges.insert(e)
        if saved[e]:
            AllocEdges.add(e)
    Rel = Alloc = 0
    # 28: for e in AllocEdges do Alloc += e.Size
    for e in AllocEdges:
        Alloc += size[e]
    # 29: for e in RelEdges do Rel += e.Size
    for e in RelEdges:
        Rel += size[e]
    return Rel, Alloc


@njit
def algorithm_1(G, heavy):
    """Return the recomputation path."""
    n, ref_indptr = heavy.size, G[3]
    # 11: all cheap nodes are on the recomputation paths of their subgraphs
    path = ~heavy
    # 1: worklist H = [G.OutputNodes]
    H = [v for v in range(n) if ref_indptr[G[2][v]] == ref_indptr[G[2][v + 1]]]
    queued = np.zeros(n, np.bool_)
    # 2: while !H.empty() do
    while len(H) > 0:
        # 3: h = H.pop(); 5: subgraph S = {h}, worklist W
        h = H.pop()
        S = np.zeros(n, np.bool_)
        S[h] = True
        W = [h]
        # 6: while !W.empty() do
        while len(W) > 0:
            for w in input_nodes(W.pop(), G):
                # 9: if w.op in ComputeHeavyOps then H.append(w)
                if heavy[w] and not queued[w]:
                    queued[w] = True
                    H.append(w)
                # 10: S.insert(w), W.append(w.InputNodes)
                elif not heavy[w] and not S[w]:
                    S[w] = True
                    W.append(w)
        # 12: for s in S.TopologicalOrderView do
        for s in np.flatnonzero(S):
            # 13: heavy nodes are not on the path
            if path[s]:
                # 30: if Rel >= Alloc then remove s from the recomputation path
                Rel, Alloc = footprint(s, S, G)
                if Rel >= Alloc:
                    path[s] = False
    return path


def main():
    # Figure 12: heavy X and Y of N bytes, s = X + Y, and tanh(s), whose gradient reads its output, for a heavy end.
    in_indptr, in_edges, out_indptr = np.array([0, 0, 0, 2, 3, 4]), np.array([0, 1, 2, 3]), np.arange(6)
    ref_indptr, ref_nodes = np.array([0, 1, 2, 3, 4, 4]), np.array([2, 2, 3, 4])
    saved, heavy = np.array([0, 0, 0, 1, 0]) > 0, np.array([1, 1, 0, 0, 1]) > 0
    names = ("X", "Y", "X + Y", "tanh", "end")
    for N in (1, 2, 4):
        size = np.array([N, N, 4, 4, 0])
        path = algorithm_1((in_indptr, in_edges, out_indptr, ref_indptr, ref_nodes, size, saved), heavy)
        recomputed = ", ".join(names[v] for v in np.flatnonzero(path)) or "none"
        print(f"X and Y of {N} bytes, the others of 4 bytes; recomputed: {recomputed}")


if __name__ == "__main__":
    main()
