"""Exact dynamic program over lower sets: kusumoto2019, section 4.2, and section 4.4 for the memory-centric strategy.

The program finds an increasing sequence of lower sets {L_1 < ... < L_k = V} that minimizes the overhead, formula (1),
among all sequences whose peak, formula (2), is at most the budget B.

Input
    d_indptr, d     int64[n + 1], int32[m]  d[d_indptr[v]:d_indptr[v + 1]] is d-({v}), the nodes that v reads;
                                            node ids are a topological order, V has no backward nodes
    T, M            int64[n], int64[n]      computation cost T_v in integer units, memory cost M_v in bytes
    B               int64                   memory budget, in bytes
    memory_centric  bool                    True for the strategy of section 4.4, which maximizes the overhead

Output
    t               int64                   the overhead t*, or -1 if no sequence has a peak of at most B
    sequence        list of bool[n]         L_1, ..., L_k

Differences from the text
    The file follows the words of section 4.2. The pseudo code in the appendix was not used.
    The text loops over entries (L, t), then over L'. Here the loop over t is innermost, because the increments of t and
    m, and formula (2) without M(U_{i-1}), depend only on L and L'.
    The table is dense. kusumoto_approximate_dp.py skips entries as section 4.2 suggests.
"""

import numpy as np
from numba import njit

INFINITY = np.iinfo(np.int64).max


@njit
def successors(S, d_indptr, d):
    """d+(S), the nodes to which there is an edge from a node in S."""
    after = np.zeros(S.size, np.bool_)
    for v in range(S.size):
        after[v] = S[d[d_indptr[v] : d_indptr[v + 1]]].any()
    return after


@njit
def predecessors(S, d_indptr, d):
    """d-(S), the nodes from which there is an edge to a node in S."""
    before = np.zeros(S.size, np.bool_)
    for v in np.flatnonzero(S):
        before[d[d_indptr[v] : d_indptr[v + 1]]] = True
    return before


@njit
def all_lower_sets(d_indptr, d):
    """Return a list of all lower sets, each after its subsets. L is a lower set if d-(L) is inside L.

    The lower sets of the first v + 1 nodes are those of the first v nodes, and these with v if they contain d-({v}).
    """
    n = d_indptr.size - 1
    L_G = [np.zeros(n, np.bool_)]
    for v in range(n):
        for i in range(len(L_G)):
            if L_G[i][d[d_indptr[v] : d_indptr[v + 1]]].all():
                L_G.append(L_G[i].copy())
                L_G[-1][v] = True
    return L_G


@njit
def exact_dp(d_indptr, d, T, M, B, memory_centric):
    """Return the overhead and the sequence of lower sets."""
    L_G = all_lower_sets(d_indptr, d)
    count, width = len(L_G), T.sum() + 1
    # opt[L, t] is the minimum m = M(U_i) of all sequences that end with L and have the overhead t.
    opt = np.full((count, width), INFINITY)
    optarg = np.full((count, width), -1)
    opt[0, 0] = 0
    for j in range(1, count):
        boundary = predecessors(~L_G[j], d_indptr, d) & L_G[j]
        after = successors(L_G[j], d_indptr, d)
        # Terms (iii) and (iv) of formula (2): M(d+(L') - L') + M(d-(d+(L')) - L').
        terms_iii_iv = M[after & ~L_G[j]].sum() + M[predecessors(after, d_indptr, d) & ~L_G[j]].sum()
        for i in range(j):
            if (L_G[i] & ~L_G[j]).any():  # not a subset
                continue
            V = L_G[j] & ~L_G[i]
            dt, dm = T[V & ~boundary].sum(), M[V & boundary].sum()
            need = 2 * M[V].sum() + terms_iii_iv
            for t in range(width - dt):
                m = opt[i, t]
                # Term (i) of formula (2) is m = M(U_{i-1}).
                if m < INFINITY and m + need <= B and m + dm < opt[j, t + dt]:
                    opt[j, t + dt] = m + dm
                    optarg[j, t + dt] = i
    overheads = np.flatnonzero(opt[count - 1] < INFINITY)
    if overheads.size == 0:
        return -1, L_G[:0]
    t = overheads[-1] if memory_centric else overheads[0]
    return t, trace_back(L_G, optarg, t, d_indptr, d, T)


@njit
def trace_back(L_G, optarg, t, d_indptr, d, T):
    """Follow the pointers of optarg from opt[V, t*] back to the empty set."""
    sequence, j = [L_G[-1]], len(L_G) - 1
    while optarg[j, t] > 0:
        L = L_G[optarg[j, t]]
        j, t = optarg[j, t], t - T[L_G[j] & ~L & ~predecessors(~L_G[j], d_indptr, d)].sum()
        sequence.append(L)
    return sequence[::-1]


def main():
    # a -> b -> c -> d -> f, a -> e -> f
    d_indptr, d = np.array([0, 0, 1, 2, 3, 4, 6]), np.array([0, 1, 2, 0, 3, 4], np.int32)
    T, M = np.array([1, 10, 1, 10, 10, 1]), np.array([4, 4, 4, 2, 2, 1])
    print(f"{len(all_lower_sets(d_indptr, d))} lower sets of {M.size} nodes")
    for B, centric in ((34, False), (24, False), (22, False), (22, True), (20, False)):
        t, sequence = exact_dp(d_indptr, d, T, M, B, centric)
        names = ["".join("abcdef"[v] for v in np.flatnonzero(L)) for L in sequence]
        print(f"B {B}: {'maximum' if centric else 'minimum'} overhead {t:2d}  {' < '.join(names)}")


if __name__ == "__main__":
    main()
