"""Approximate dynamic program over a small family of lower sets: kusumoto2019, section 4.3.

The program finds an increasing sequence of lower sets {L_1 < ... < L_k = V} that minimizes the overhead, formula (1),
among the sequences of sets L_v (v and its ancestors) whose peak, formula (2), is at most the budget B.

Input
    d_indptr, d  int64[n + 1], int32[m]  d[d_indptr[v]:d_indptr[v + 1]] is d-({v}), the nodes that v reads;
                                         node ids are a topological order, V has no backward nodes
    T, M         int64[n], int64[n]      computation cost T_v in integer units, memory cost M_v in bytes
    B            int64                   memory budget, in bytes

Output
    t            int64                   the minimum overhead t*, or -1 if no sequence has a peak of at most B
    sequence     list of bool[n]         L_1, ..., L_k

Differences from the text
    L_Pruned = {L_v} lacks the empty set, at which a sequence starts, and V if G has several sinks. Both are added.
    The text skips opt[L, t'] if an entry opt[L, t] with t < t' is smaller. Here it is also skipped if they are equal.
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
def pruned_lower_sets(d_indptr, d):
    """Return the empty set, L_v for each v, and V, each set once and after its subsets."""
    n = d_indptr.size - 1
    family = [np.zeros(n, np.bool_)]
    for v in range(n):
        L_v = np.zeros(n, np.bool_)
        for u in d[d_indptr[v] : d_indptr[v + 1]]:
            L_v |= family[u + 1]
        L_v[v] = True
        family.append(L_v)
    if not family[-1].all():
        family.append(np.ones(n, np.bool_))
    return family


@njit
def approximate_dp(d_indptr, d, T, M, B):
    """Return the overhead and the sequence of lower sets."""
    family = pruned_lower_sets(d_indptr, d)
    count, width = len(family), T.sum() + 1
    # opt[L, t] is the minimum m = M(U_i) of all sequences that end with L and have the overhead t.
    opt = np.full((count, width), INFINITY)
    optarg = np.full((count, width), -1)
    opt[0, 0] = 0
    for j in range(1, count):
        boundary = predecessors(~family[j], d_indptr, d) & family[j]
        after = successors(family[j], d_indptr, d)
        # Terms (iii) and (iv) of formula (2): M(d+(L') - L') + M(d-(d+(L')) - L').
        terms_iii_iv = M[after & ~family[j]].sum() + M[predecessors(after, d_indptr, d) & ~family[j]].sum()
        for i in range(j):
            if (family[i] & ~family[j]).any():  # not a subset
                continue
            V = family[j] & ~family[i]
            dt, dm = T[V & ~boundary].sum(), M[V & boundary].sum()
            need = 2 * M[V].sum() + terms_iii_iv
            best = INFINITY
            for t in range(width - dt):
                m = opt[i, t]
                # Section 4.2: an entry with more overhead is useless unless it caches fewer bytes.
                # Term (i) of formula (2) is m = M(U_{i-1}).
                if m < best and m + need <= B and m + dm < opt[j, t + dt]:
                    opt[j, t + dt] = m + dm
                    optarg[j, t + dt] = i
                best = min(best, m)
    for t in range(width):
        if opt[count - 1, t] < INFINITY:
            return t, trace_back(family, optarg, t, d_indptr, d, T)
    return -1, family[:0]


@njit
def trace_back(family, optarg, t, d_indptr, d, T):
    """Follow the pointers of optarg from opt[V, t*] back to the empty set."""
    sequence, j = [family[-1]], len(family) - 1
    while optarg[j, t] > 0:
        L = family[optarg[j, t]]
        j, t = optarg[j, t], t - T[family[j] & ~L & ~predecessors(~family[j], d_indptr, d)].sum()
        sequence.append(L)
    return sequence[::-1]


def main():
    # a -> b -> c -> d -> f, a -> e -> f
    d_indptr, d = np.array([0, 0, 1, 2, 3, 4, 6]), np.array([0, 1, 2, 0, 3, 4], np.int32)
    T, M = np.array([1, 10, 1, 10, 10, 1]), np.array([4, 4, 4, 2, 2, 1])
    family = pruned_lower_sets(d_indptr, d)
    print(f"{len(family)} lower sets of {M.size} nodes")
    for B in (34, 24, 22, 20):
        t, sequence = approximate_dp(d_indptr, d, T, M, B)
        names = ["".join("abcdef"[v] for v in np.flatnonzero(L)) for L in sequence]
        print(f"B {B}: minimum overhead {t:2d}  {' < '.join(names)}")


if __name__ == "__main__":
    main()
