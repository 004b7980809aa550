"""Tree decomposition of a computation graph: kumar2019, sections 2.2 and 3.

Vertices are eliminated in the order of the minimum fill-in heuristic, and the bags of this order become a tree.

Input
    in_indptr, in_ids  int64[n + 1], int32[m]  in_ids[in_indptr[v]:in_indptr[v + 1]] is in(v), the nodes that v reads

Output of minimum_fill_in
    order              int64[n]                the elimination order
    bag_indptr, bags   int64[n + 1], int64[k]  bag i, ascending: order[i] and its neighbours when it is eliminated

Output of tree_of_bags
    parent             int64[n]                the tree T on the bags, -1 for the root

Differences from the text
    The paper cites the heuristic. Here ties go to the vertex of smaller degree, then to the smaller id.
    If G is not connected, the bags form a forest. The later roots become children of the first root.
"""

import numpy as np
from numba import njit


@njit
def fill_in(adjacent, v):
    """Return the number of pairs of neighbours of v that are not adjacent."""
    N = np.flatnonzero(adjacent[v])
    missing = 0
    for i in range(N.size):
        for j in range(i):
            missing += not adjacent[N[i], N[j]]
    return missing


@njit
def minimum_fill_in(in_indptr, in_ids):
    """Eliminate the vertex with the minimum fill-in, until none is left."""
    n = in_indptr.size - 1
    # Forget the direction of every edge.
    adjacent = np.zeros((n, n), np.bool_)
    for v in range(n):
        for u in in_ids[in_indptr[v] : in_indptr[v + 1]]:
            adjacent[u, v] = adjacent[v, u] = True
    fill = np.array([fill_in(adjacent, v) for v in range(n)])
    degree = np.array([adjacent[v].sum() for v in range(n)])
    left = np.ones(n, np.bool_)
    order, bag_indptr = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    bags = [0][:0]  # empty list of integers
    for i in range(n):
        v = -1
        for u in np.flatnonzero(left):
            if v < 0 or (fill[u], degree[u]) < (fill[v], degree[v]):
                v = u
        N = np.flatnonzero(adjacent[v])
        order[i], left[v] = v, False
        bags.extend(np.sort(np.append(N, v)))
        bag_indptr[i + 1] = len(bags)
        # The neighbours become a clique, and v is removed.
        for a in N:
            adjacent[a, N] = True
            adjacent[a, a] = adjacent[a, v] = adjacent[v, a] = False
        # The fill-in changes only for neighbours of v and for their neighbours.
        for a in N:
            degree[a], fill[a] = adjacent[a].sum(), fill_in(adjacent, a)
            for u in np.flatnonzero(adjacent[a]):
                fill[u] = fill_in(adjacent, u)
    return order, bag_indptr, np.array(bags)


@njit
def tree_of_bags(order, bag_indptr, bags):
    """Return the parents: bag i is a child of the bag of the first eliminated vertex among its other vertices."""
    n = order.size
    position, parent, root = np.empty(n, np.int64), np.full(n, -1), -1
    for i in range(n):
        position[order[i]] = i
    for i in range(n):
        for v in bags[bag_indptr[i] : bag_indptr[i + 1]]:
            if position[v] > i and (parent[i] < 0 or position[v] < parent[i]):
                parent[i] = position[v]
        if parent[i] < 0:
            parent[i], root = root, i if root < 0 else root
    return parent


def main():
    # The forward chain 0 1 2 3, the loss 4, and the gradients 5 6 7 8; the gradient 8 - v reads v.
    in_indptr = np.array([0, 0, 1, 2, 3, 4, 6, 8, 10, 12])
    in_ids = np.array([0, 1, 2, 3, 3, 4, 2, 5, 1, 6, 0, 7], np.int32)
    order, bag_indptr, bags = minimum_fill_in(in_indptr, in_ids)
    parent = tree_of_bags(order, bag_indptr, bags)
    print("elimination order", *order)
    print(f"{parent.size} bags of width {np.diff(bag_indptr).max() - 1}")
    for i in range(parent.size):
        print(f"bag {i}: nodes {bags[bag_indptr[i] : bag_indptr[i + 1]]}, parent {parent[i]}")


if __name__ == "__main__":
    main()
