"""Size of a tree decomposition: kumar2019, lemma 1.

Adjacent bags are merged if one is a subset of the other. At most n bags remain, and the width does not change.

Input and output
    bag_indptr, bags  int64[b + 1], int64[k]  the vertices of bag i are bags[bag_indptr[i]:bag_indptr[i + 1]]
    parent            int64[b]                the tree T on the bags, -1 for the root

Differences from the text
    The lemma does not name the bag that remains of two equal bags. Here it is the first.
"""

import numpy as np
from numba import njit


@njit
def find(merged, i):
    """Return the bag into which bag i has been merged (union-find)."""
    while merged[i] != i:
        merged[i] = merged[merged[i]]
        i = merged[i]
    return i


@njit
def shrink(bag_indptr, bags, parent):
    """Merge every adjacent pair of bags for which one bag is a subset of the other (lemma 1)."""
    b = parent.size
    X = [bags[bag_indptr[i] : bag_indptr[i + 1]] for i in range(b)]
    merged, new = np.arange(b), np.full(b, -1)
    # A single pass over all edges in T.
    for i in np.flatnonzero(parent >= 0):
        x, y = find(merged, i), find(merged, parent[i])
        # Let y be the larger bag; of two bags of equal size, the first.
        if (X[x].size, -x) > (X[y].size, -y):
            x, y = y, x
        # The larger bag is put in a hash set, and each vertex of the smaller bag is looked up.
        members = set(X[y])
        if np.array([v in members for v in X[x]]).all():
            merged[x] = y
    kept = np.flatnonzero(merged == np.arange(b))
    new[kept] = np.arange(kept.size)
    new_parent = np.full(kept.size, -1)
    for i in np.flatnonzero(parent >= 0):
        x, y = find(merged, i), find(merged, parent[i])
        if x != y:
            new_parent[new[x]] = new[y]
    new_indptr = np.zeros(kept.size + 1, np.int64)
    new_bags = [0][:0]  # empty list of integers
    for i in range(kept.size):
        new_bags.extend(X[kept[i]])
        new_indptr[i + 1] = len(new_bags)
    return new_indptr, np.array(new_bags), new_parent


def main():
    # The bags {0, 1} - {1} - {1, 2} - {2, 3} - {3} - {3, 4}
    bag_indptr, bags = np.array([0, 2, 3, 5, 7, 8, 10]), np.array([0, 1, 1, 1, 2, 2, 3, 3, 3, 4])
    parent = np.array([1, 2, 3, 4, 5, -1])
    for _ in range(2):
        print(f"{parent.size} bags of width {np.diff(bag_indptr).max() - 1}")
        for i in range(parent.size):
            print(f"    bag {i}: {bags[bag_indptr[i] : bag_indptr[i + 1]]}, parent {parent[i]}")
        bag_indptr, bags, parent = shrink(bag_indptr, bags, parent)


if __name__ == "__main__":
    main()
