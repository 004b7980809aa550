"""Efficient rematerialization via tree decomposition: kumar2019, algorithm 1 (TWRemat) and section 4.3 (TwRemat(k)).

The recursion schedules the nodes of a balanced separator one by one. Before each node it computes the inputs of the
node in the components that remain without the separator.

Input
    in_indptr, in_ids  int64[n + 1], int32[m]  in_ids[in_indptr[v]:in_indptr[v + 1]] is in(v), the nodes that v reads;
                                               node ids are a topological order
    end                int64[b]                balanced separators, numbered in preorder: separator s divides the
                                               component of the separators s, s + 1, ..., end[s] - 1
    owner              int64[n]                the first separator that contains a node
    S                  bool[n]                 nodes to compute, {f} in the paper
    k                  int64                   recursion limit; 1 for algorithm 1
    as_printed         bool                    True to schedule all nodes of X* in every call

Output
    schedule           list of int             nodes in the order in which they run

Differences from the text
    Algorithm 1 schedules every node of X* in every call. Such a node may read a node of a separator above that has not
    run yet, so the printed algorithm can give an invalid schedule; the example of this file is one. Lemma 4 considers
    only predecessors of S'. Here, unless as_printed, a call schedules only nodes from which S is reachable inside V'.
    A call with an empty S returns at once. The recursion is plain Python; Numba compiles the loops in a call.
    The schedule has no annotations. A value is freed after its last read before its node runs again.
    kumar_lemma_1.py and kumar_balanced_separators.py compute `end` and `owner`: X* is {v in V' : owner[v] = s}.
"""

import numpy as np
from numba import njit


@njit
def reaching(in_indptr, in_ids, V, S):
    """Return the nodes in V' from which a node in S is reachable inside V'."""
    R = S.copy()
    # In descending order of ids, each node comes after the nodes that read it.
    for v in range(S.size - 1, -1, -1):
        if R[v]:
            for u in in_ids[in_indptr[v] : in_indptr[v + 1]]:
                R[u] |= V[u]
    return R


@njit
def subgraph(end, owner, s):
    """Return V', the nodes of the component that separator s divides."""
    return (s <= owner) & (owner < end[s])


@njit
def children(end, s):
    """Return the first separators of the components that remain without the bag of separator s."""
    components = [0][:0]  # empty list of integers
    child = s + 1
    while child < end[s]:
        components.append(child)
        child = end[child]
    return components


@njit
def inputs(in_indptr, in_ids, v):
    """Return in(v), bool[n]."""
    read = np.zeros(in_indptr.size - 1, np.bool_)
    read[in_ids[in_indptr[v] : in_indptr[v + 1]]] = True
    return read


def twremat(in_indptr, in_ids, end, owner, S, k, as_printed, s=0):
    """Return the schedule TWRemat(G, V', (X, T), S) of the component of separator s."""
    if not S.any():
        return []
    V = subgraph(end, owner, s)
    R = reaching(in_indptr, in_ids, V, S)
    # Section 4.3: the base case schedules the required nodes in a topological order.
    if end[s] - s < k:
        return np.flatnonzero(R).tolist()
    schedule, components = [], children(end, s)
    # for node v in X* in any topological order do
    for v in np.flatnonzero((owner == s) & (V if as_printed else R)).tolist():
        # for connected component (X', T') in C do: S' = in(v) & V''
        for component in components:
            S_component = inputs(in_indptr, in_ids, v) & subgraph(end, owner, component)
            schedule += twremat(in_indptr, in_ids, end, owner, S_component, k, as_printed, component)
        # Add v to schedule.
        schedule.append(v)
    # for connected component (X', T') in C do: S' = (S - X*) & V''
    for component in components:
        S_component = S & subgraph(end, owner, component)
        schedule += twremat(in_indptr, in_ids, end, owner, S_component, k, as_printed, component)
    return schedule


@njit
def is_valid(in_indptr, in_ids, schedule):
    """Return True if each node runs after its predecessors (section 2.1)."""
    done = np.zeros(in_indptr.size - 1, np.bool_)
    for v in schedule:
        if not done[in_ids[in_indptr[v] : in_indptr[v + 1]]].all():
            return False
        done[v] = True
    return True


def main():
    # c -> b -> a -> v -> q -> f, p -> v, p -> q, and the bags {f, q} - {p, q, v} - {v, a} - {a, b} - {b, c}
    names = "cbapvqf"
    in_indptr, in_ids = np.array([0, 0, 1, 2, 2, 4, 6, 7]), np.array([0, 1, 2, 3, 3, 4, 5], np.int32)
    # The separators are {v, a}; {f, q} and {p, q, v}; {a, b} and {b, c}.
    end, owner = np.array([5, 3, 3, 5, 5]), np.array([4, 3, 0, 2, 0, 1, 1])
    S = np.arange(7) == 6
    for k, as_printed in ((1, True), (1, False), (3, False), (6, False)):
        schedule = twremat(in_indptr, in_ids, end, owner, S, k, as_printed)
        text = "as printed" if as_printed else f"TwRemat({k})"
        valid = "valid" if is_valid(in_indptr, in_ids, np.array(schedule)) else "invalid"
        print(f"{text:10}  {' '.join(names[v] for v in schedule):25}  {valid}")


if __name__ == "__main__":
    main()
