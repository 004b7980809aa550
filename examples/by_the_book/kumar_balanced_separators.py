"""Balanced separators of a tree decomposition: kumar2019, theorem 2 and lemma 3.

Lemma 3 finds a bag X* whose removal leaves components with at most half of the bags. The components are divided in the
same way. The result is a tree of separators: those that algorithm 1 finds, stored as the proof of theorem 5 requires.
kumar_twremat.py reads this tree.

Input
    bag_indptr, bags  int64[b + 1], int64[k]  the vertices of bag i are bags[bag_indptr[i]:bag_indptr[i + 1]]
    parent            int64[b]                the tree T on the bags, -1 for the root
    n                 int64                   number of vertices

Output, with the separators numbered in preorder
    bag               int64[b]                the bag X* of separator s
    end               int64[b]                separator s divides the component of the separators s, ..., end[s] - 1
    owner             int64[n]                the first separator that contains a vertex

Differences from the text
    Lemma 3 does not choose between two possible bags. Here it is the first.
    Algorithm 1 removes the nodes of X* from the other bags. Here the owner of a node tells whether it was removed.
"""

import numpy as np
from numba import njit


@njit
def component(near, removed, start):
    """Return the bags of the component of (X, T) that contains a bag, and their parents if this bag is the root."""
    order, above, i = [start], [-1], 0
    while i < len(order):
        for y in near[order[i]]:
            if not removed[y] and y != above[i]:
                order.append(y)
                above.append(order[i])
        i += 1
    return order, above


@njit
def balanced_separator(near, removed, start):
    """Return the first bag whose removal leaves components of at most half of the bags, and the number of bags."""
    order, above = component(near, removed, start)
    # The bags of the subtree of each bag, and of the largest component that its removal leaves.
    size, largest = np.ones(removed.size, np.int64), np.zeros(removed.size, np.int64)
    # Each bag comes after its parent.
    for i in range(len(order) - 1, -1, -1):
        x, y = order[i], above[i]
        largest[x] = max(largest[x], len(order) - size[x])
        if y >= 0:
            size[y] += size[x]
            largest[y] = max(largest[y], size[x])
    return min([x for x in order if 2 * largest[x] <= len(order)]), len(order)


@njit
def separators(bag_indptr, bags, parent, n):
    """Return the tree of separators."""
    b = parent.size
    near = [np.array([y for y in range(b) if parent[x] == y or parent[y] == x]) for x in range(b)]
    bag, end, owner = np.empty(b, np.int64), np.empty(b, np.int64), np.full(n, -1)
    # The components that are not divided yet, each by one of its bags; the last is the next in preorder.
    stack, removed = [0], np.zeros(b, np.bool_)
    for s in range(b):
        X, size = balanced_separator(near, removed, stack.pop())
        removed[X], bag[s], end[s] = True, X, s + size
        for v in bags[bag_indptr[X] : bag_indptr[X + 1]]:
            if owner[v] < 0:
                owner[v] = s
        for y in near[X][::-1]:
            if not removed[y]:
                stack.append(y)
    return bag, end, owner


def main():
    # The bags {0, 1} - {1, 2} - ... - {6, 7}
    bag_indptr, bags = np.arange(0, 15, 2), np.repeat(np.arange(8), 2)[1:-1]
    parent = np.array([1, 2, 3, 4, 5, 6, -1])
    bag, end, owner = separators(bag_indptr, bags, parent, 8)
    for s in range(bag.size):
        X = bags[bag_indptr[bag[s]] : bag_indptr[bag[s] + 1]]
        print(f"separator {s}: X* = {X}, divides {end[s] - s} bags, owns {np.flatnonzero(owner == s)}")


if __name__ == "__main__":
    main()
