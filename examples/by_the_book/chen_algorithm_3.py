"""Memory planning with a budget: chen2016, section 4.3, algorithm 3, and appendix A.

Algorithm 3 divides a network into segments. It walks along the nodes in topological order and ends a segment at the
first candidate at which the segment has more than B bytes. Appendix A tries several budgets B.

Input
    memory     int64[n]  size-of-output(v) in bytes; node ids are a topological order
    candidate  bool[n]   True for the candidate stage splitting points, the set C of the paper
    B          float64   approximate memory budget of a segment, in bytes

Output
    x          int64     approximate bytes to store inter-stage feature maps
    y          int64     approximate bytes of the largest sub-stage
    m          int64[n]  mirror plan for algorithm 2: 0 keeps the output of a node, 1 recomputes it

Differences from the text
    Algorithm 3 has none. The nodes after the last split add nothing to x or y, as in the text.
    Appendix A does not give the size or the spacing of its grid. Here the grid has six budgets with equal ratios.
    Appendix A gets the exact cost of a plan from a static allocator. Here `chain_peak` counts the bytes that are live,
    for a chain, without gradients.
"""

import numpy as np
from numba import njit


@njit
def algorithm_3(memory, candidate, B):
    """Return x, y and m for the budget B."""
    n = memory.size
    m = np.empty(n, np.int64)
    temp = x = y = 0
    # for v in topological-order(V) do
    for v in range(n):
        # temp <- temp + size-of-output(v)
        temp += memory[v]
        # if v in C and temp > B then
        if candidate[v] and temp > B:
            # x <- x + size-of-output(v), y <- max(y, temp)
            x += memory[v]
            y = max(y, temp)
            # m(v) = 0, temp <- 0
            m[v] = 0
            temp = 0
        else:
            m[v] = 1
    return x, y, m


@njit
def budget_grid(memory, candidate, points):
    """Return the budgets of appendix A: 0, B = sqrt(x y), and a grid around B."""
    # First run: B = 0.
    x, y, _ = algorithm_3(memory, candidate, 0.0)
    # Second run: B = sqrt(x y).
    B = np.sqrt(float(x) * float(y))
    budgets = np.empty(2 + points)
    budgets[0] = 0.0
    budgets[1] = B
    # The grid runs from B / sqrt(2) to B sqrt(2).
    for i in range(points):
        budgets[2 + i] = B / np.sqrt(2.0) * 2.0 ** (i / (points - 1))
    return budgets


@njit
def chain_peak(memory, m):
    """Return the peak bytes of a chain whose gradients have no bytes and read the input and output of their node.

    While the gradients of a segment run, the kept outputs of all segments up to this one are live, and the whole
    segment.
    """
    peak = kept = segment = 0
    for v in range(memory.size):
        segment += memory[v]
        peak = max(peak, kept + segment)
        if m[v] == 0:
            kept += memory[v]
            segment = 0
    return peak


@njit
def search_over_budget(memory, candidate, points):
    """Return the budget with the lowest peak of a chain, the first of equal ones, and its peak."""
    budgets = budget_grid(memory, candidate, points)
    best, best_peak = budgets[0], -1
    for B in budgets:
        _, _, m = algorithm_3(memory, candidate, B)
        peak = chain_peak(memory, m)
        if best_peak < 0 or peak < best_peak:
            best, best_peak = B, peak
    return best, best_peak


def main():
    memory = np.array([8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1] * 3)
    candidate = np.ones(memory.size, np.bool_)
    print(f"chain of {memory.size} nodes, {memory.sum()} bytes")
    for B in budget_grid(memory, candidate, 6):
        x, y, m = algorithm_3(memory, candidate, B)
        kept = ",".join(str(v) for v in np.flatnonzero(m == 0))
        print(f"B {B:5.2f}: x {x:3d}, y {y:2d}, peak {chain_peak(memory, m):3d}, kept {kept}")
    B, peak = search_over_budget(memory, candidate, 6)
    print(f"best budget {B:.2f}: peak {peak} bytes")


if __name__ == "__main__":
    main()
