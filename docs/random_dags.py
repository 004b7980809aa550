"""Random graphs of docs/theory/fixed_order.md, free and bound to the order of their ids."""

import numpy as np

import remat_algos as ra


def random_dag(seed, n=20):
    """Each node reads one or two of the eight before it; the last reads what nobody else does."""
    rng = np.random.default_rng(seed)
    edges = {(int(rng.integers(max(0, v - 8), v)), v) for v in range(1, n) for _ in range(2)}
    edges |= {(u, n - 1) for u in range(n - 1) if u not in {tail for tail, _ in edges}}
    return sorted(edges), rng.integers(1, 9, n), rng.integers(1, 9, n)


def in_order_of_ids(edges, memory, compute):
    """Value 2 v is that of node v; value 2 v + 1 has no bytes, and node v + 1 reads it."""
    n = len(memory)
    reads = [[2 * u for u, head in edges if head == v] + ([2 * v - 1] if v else []) for v in range(n)]
    return ra.ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0] + [len(row) for row in reads]),
        read_indices=np.concatenate(reads),
        value_indptr=2 * np.arange(n + 1),
        memory=np.stack([memory, np.zeros(n, int)], axis=1).ravel(),
        compute=compute,
        output=np.stack([np.arange(n) == n - 1, np.ones(n, bool)], axis=1).ravel(),
    )
