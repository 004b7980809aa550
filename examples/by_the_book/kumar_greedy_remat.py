"""Greedy rematerialization within a memory limit: GreedyRemat of kumar2019, section 4.

The paper describes the algorithm in four sentences, which are the comments of `greedy_remat`.

Input
    in_indptr, in_ids  int64[n + 1], int32[m]  in_ids[in_indptr[v]:in_indptr[v + 1]] is in(v), the nodes that v reads
    s                  int64[n]                s(v), bytes of the tensor that node v computes
    sigma              int64[n]                a topological order of all nodes
    limit              int64                   memory limit, in bytes
    t_max              int64                   maximum length of the schedule

Output
    sigma              int64[t]                the schedule with its rematerializations

Differences from the text
    The text does not define the reduction of memory usage at the current step. Here it is s(u) minus the bytes of the
    inputs of u that are not in U_i: they must stay in memory until u runs again.
    Ties go to the node whose last run before step i comes first. A node runs again directly before its next reader.
    Two nodes can displace each other without end, so nothing is rematerialized once the schedule has t_max nodes.
    The paper has one final node f. Here all nodes that no node reads are final, and stay in memory after their run.
"""

import numpy as np
from numba import njit


@njit
def final_nodes(n, in_ids):
    final = np.ones(n, np.bool_)
    final[in_ids] = False
    return final


@njit
def tensors_in_memory(in_indptr, in_ids, sigma, i):
    """Return U_i of section 2.1 and the final nodes that have run, bool[n]."""
    U = np.zeros(in_indptr.size - 1, np.bool_)
    final = final_nodes(U.size, in_ids)
    for j in range(i + 1):
        U[sigma[j]] = final[sigma[j]]
    # The inputs of later steps j with prev(u', j) <= i, from the last step to the first.
    for j in range(len(sigma) - 1, i, -1):
        U[sigma[j]] = False
        U[in_ids[in_indptr[sigma[j]] : in_indptr[sigma[j] + 1]]] = True
    U[in_ids[in_indptr[sigma[i]] : in_indptr[sigma[i] + 1]]] = True
    U[sigma[i]] = True
    return U


@njit
def next_reader(in_indptr, in_ids, sigma, i, u):
    """Return the first step after step i that reads the tensor of node u."""
    j = i + 1
    while not (in_ids[in_indptr[sigma[j]] : in_indptr[sigma[j] + 1]] == u).any():
        j += 1
    return j


@njit
def choose(in_indptr, in_ids, s, sigma, i, U):
    """Return the scheduled node whose rematerialization reduces the memory usage of step i most; -1 if none does."""
    best, maximum = -1, 0
    # Tensors that step i computes or reads must stay, and final ones.
    candidate = U & ~final_nodes(U.size, in_ids)
    candidate[sigma[i]] = False
    candidate[in_ids[in_indptr[sigma[i]] : in_indptr[sigma[i] + 1]]] = False
    # From the last run of each node back: among equal reductions, the first of these runs is taken.
    for j in range(i - 1, -1, -1):
        u = sigma[j]
        if not candidate[u]:
            continue
        candidate[u] = False
        reduction = s[u]
        for x in in_ids[in_indptr[u] : in_indptr[u + 1]]:
            reduction -= 0 if U[x] else s[x]
        if reduction > 0 and reduction >= maximum:
            best, maximum = u, reduction
    return best


@njit
def greedy_remat(in_indptr, in_ids, s, sigma, limit, t_max):
    """Return the schedule with rematerializations."""
    # "Starting with a topological sort of all operations,
    sigma = list(sigma)
    i = 0
    # it processes each operation sequentially.
    while i < len(sigma):
        U = tensors_in_memory(in_indptr, in_ids, sigma, i)
        # At each stage, if the current memory usage is over a specified memory limit,
        while s[U].sum() > limit and len(sigma) < t_max:
            # the algorithm attempts to rematerialize an already scheduled operation. In particular, the operation whose
            # rematerialization maximizes the amount of reduction in memory usage is chosen greedily at each step.
            u = choose(in_indptr, in_ids, s, sigma, i, U)
            if u < 0:
                break
            sigma.insert(next_reader(in_indptr, in_ids, sigma, i, u), u)
            U = tensors_in_memory(in_indptr, in_ids, sigma, i)
        # If the memory usage cannot be reduced, the algorithm moves on to the next operation."
        i += 1
    return np.array(sigma)


@njit
def peak_memory(in_indptr, in_ids, s, sigma):
    """Return M(sigma), the maximum of M(sigma, i)."""
    return max([s[tensors_in_memory(in_indptr, in_ids, sigma, i)].sum() for i in range(len(sigma))])


def main():
    # Figure 1: A -> B -> D -> E, A -> C -> D, A -> E
    in_indptr, in_ids = np.array([0, 0, 1, 2, 4, 6]), np.array([0, 0, 1, 2, 0, 3], np.int32)
    s, sigma = np.ones(5, np.int64), np.arange(5)
    for limit in (4, 3, 2):
        t = greedy_remat(in_indptr, in_ids, s, sigma, limit, 12)
        print(f"limit {limit}: peak {peak_memory(in_indptr, in_ids, s, t)}  {' '.join('ABCDE'[v] for v in t)}")


if __name__ == "__main__":
    main()
