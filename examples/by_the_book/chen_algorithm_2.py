"""Memory optimized gradient graph construction: chen2016, section 4.1, algorithm 2.

The algorithm adds copies of forward nodes (mirrors) and one gradient per node to a computation graph. A gradient reads
the newest copies. The logical execution order runs a copy right before the first gradient that needs it.

Input
    pred_indptr   int64[n + 1]  the predecessors of node v are pred_indices[pred_indptr[v] : pred_indptr[v + 1]]
    pred_indices  int64[e]      node ids are a topological order, so predecessors have smaller ids
    succ_indptr, succ_indices   the successors of each node in the same form
    m             int64[n]      mirror count: 0 keeps the output of v; otherwise v is copied m(v) times

Output
    operator      int64[n']     for each node of G': v for node v and its copies, n + v for the gradient of v
    indptr        int64[n' + 1] and indices int64[...], the predecessors in G', where n' = 2 n + sum of m
    order         int64[t]      V', the logical execution order of G', t <= n'

Differences from the text
    The symbolic gradient function is fixed: a gradient reads all arguments that the function has in the text.
    The text allows any topological order of the ancestors of a gradient; here they are in depth-first postorder.
"""

import numpy as np
from numba import njit


@njit
def mirror_nodes(pred_indptr, pred_indices, m, operator, indptr, indices):
    """Add the mirrors to G', which has V already; return a, the newest copy of each node, and the number of nodes."""
    n = m.size
    # a[v] <- v for v in V
    a = np.arange(n)
    new = n
    # for k = 1 to max m(v) do
    for k in range(1, m.max() + 1):
        # for v in topological-order(V) do
        for v in range(n):
            # if k <= m(v) then
            if k <= m[v]:
                # a[v] <- new node, same operator as v
                a[v] = new
                operator[new] = v
                # pred[a[v]] <- union of {a[u]} for u in pred[v]
                row = pred_indices[pred_indptr[v] : pred_indptr[v + 1]]
                indptr[new + 1] = indptr[new] + row.size
                indices[indptr[new] : indptr[new + 1]] = a[row]
                new += 1
    return a, new


@njit
def gradient(node, succ, v, pred, indptr, indices):
    """Add node = gradient(succ, v, pred) to G': the gradients of the successors, the output and the inputs."""
    indptr[node + 1] = indptr[node] + succ.size + 1 + pred.size
    row = indices[indptr[node] : indptr[node + 1]]
    row[: succ.size] = succ
    row[succ.size] = v
    row[succ.size + 1 :] = pred


@njit
def append_ancestors(node, indptr, indices, done, order, t):
    """Append topological-order(ancestors(node)) - V' and the node itself to V', which has t nodes; return its size."""
    stack = [node]
    while len(stack) > 0:
        v = stack[-1]
        missing = -1
        for j in range(indptr[v + 1] - 1, indptr[v] - 1, -1):
            if not done[indices[j]]:
                missing = indices[j]
        if missing >= 0:
            stack.append(missing)
        else:
            stack.pop()
            done[v] = True
            order[t] = v
            t += 1
    return t


@njit
def algorithm_2(pred_indptr, pred_indices, succ_indptr, succ_indices, m):
    """Return the graph G' as operator, indptr and indices, and its execution order V'."""
    n = m.size
    size = 2 * n + m.sum()
    operator, indptr = np.arange(size), np.zeros(size + 1, np.int64)
    # Every copy has the predecessors of its node; the gradients read every edge twice and every node once.
    degree = pred_indptr[1:] - pred_indptr[:-1]
    indices = np.empty((degree * (m + 1)).sum() + 2 * pred_indices.size + n, np.int64)
    indptr[: n + 1] = pred_indptr
    indices[: pred_indices.size] = pred_indices
    a, new = mirror_nodes(pred_indptr, pred_indices, m, operator, indptr, indices)
    # V' <- topological-order(V)
    order, done, t = np.arange(size), np.arange(size) < n, n
    g = np.empty(n, np.int64)
    # for v in reverse-topological-order(V) do
    for v in range(n - 1, -1, -1):
        # g[v] <- gradient([g[w] for w in successor(v)], a[v], [a[u] for u in pred[v]])
        pred = pred_indices[pred_indptr[v] : pred_indptr[v + 1]]
        succ = succ_indices[succ_indptr[v] : succ_indptr[v + 1]]
        gradient(new, g[succ], a[v], a[pred], indptr, indices)
        g[v] = new
        operator[new] = n + v
        # V' <- append(V', topological-order(ancestors(g[v])) - V')
        t = append_ancestors(new, indptr, indices, done, order, t)
        new += 1
    return operator, indptr, indices, order[:t]


def main():
    pred_indptr, pred_indices = np.array([0, 0, 1, 2, 3]), np.array([0, 1, 2])
    succ_indptr, succ_indices = np.array([0, 1, 2, 3, 3]), np.array([1, 2, 3])
    for m in ([0, 0, 0, 0], [1, 0, 1, 0], [2, 1, 0, 1]):
        operator, _, _, order = algorithm_2(pred_indptr, pred_indices, succ_indptr, succ_indices, np.array(m))
        names = [f"f{v}" if v < 4 else f"g{v - 4}" for v in operator[order]]
        print(f"chain of 4 nodes, m = {m}: {' '.join(names)}")


if __name__ == "__main__":
    main()
