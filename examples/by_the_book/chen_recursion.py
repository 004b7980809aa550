"""Recursive checkpointing: chen2016, section 4.4, formulas (2) and (3).

A segment is viewed as one operator whose gradient runs a sub-graph. The same scheme is applied inside each segment: k
results are stored at equal distances, which leaves k + 1 shorter segments. Each level of the recursion adds one
recomputation of the nodes inside. With k = 1, a chain of n layers needs memory for log2(n) results.

Input
    n     int64     number of layers of a chain
    k     int64     number of results that each level stores in a segment, from 1 to n

Output
    m     int64[n]  mirror plan for algorithm 2: the level of the recursion that stores the result of each layer
    g(n)  int64     maximum number of forward results in memory at a time

Differences from the text
    The text has formulas and figure 4, no pseudo code. Algorithm 2 with these mirror counts runs the recursion.
    Formula (2) divides n exactly. Here n / (k + 1) is rounded down, which is the length of the longest segment.
    The recursion ends at segments of at most k layers, all of which are stored.
"""

import numpy as np
from numba import njit


@njit
def places(begin, end, k):
    """Return the stored layers: the last of the first ceil(j (end - begin) / (k + 1)) layers, for j = 1 to k."""
    stored = begin - 1 + (np.arange(1, k + 1) * (end - begin) + k) // (k + 1)
    # In a segment of fewer than k layers some places occur twice.
    return np.unique(stored)


@njit
def mirror_counts(n, k):
    """Return the mirror plan of a chain of n layers."""
    m = np.zeros(n, np.int64)
    # Segments that are not divided yet, with their level.
    segments = [(0, n, 0)]
    while len(segments) > 0:
        begin, end, level = segments.pop()
        for v in places(begin, end, k):
            m[v] = level
            if begin < v:
                segments.append((begin, v, level + 1))
            begin = v + 1
        if begin < end:
            segments.append((begin, end, level + 1))
    return m


@njit
def g(n, k):
    """Return the memory of formula (2): g(n) = k + g(n / (k + 1))."""
    memory = 0
    while n > k:
        memory += k
        n = n // (k + 1)
    return memory + n


@njit
def formula_3(n, k):
    """Return k log_(k + 1)(n + 1), formula (3) for the chains of (k + 1)^d - 1 layers, which divide exactly."""
    return k * np.log(n + 1) / np.log(k + 1)


def main():
    for n, k in ((7, 1), (15, 1), (15, 3), (26, 2), (1023, 1), (1023, 31)):
        m = mirror_counts(n, k)
        print(f"{n} layers, k = {k}: {g(n, k)} results in memory, formula (3) {formula_3(n, k):.2f}")
        print(f"    at most {n + m.sum()} forward runs; recomputations per layer {m[:31].tolist()}")


if __name__ == "__main__":
    main()
