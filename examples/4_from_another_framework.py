"""A plan for a framework of your own: arrays in, actions out.

You learn to pass a graph that already has its gradients, as arrays of ids, and to execute the
actions of its plan. The picture shows the graph: the nodes that are kept, and those recomputed.

Usage: python examples/4_from_another_framework.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

import numpy as np

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
N = 16  # layers, in blocks of four

reads = [[v - 1] * (v > 0) + [v - 4] * (v > 0 and v % 4 == 0) for v in range(N)]
# Node 2 N - 1 - v is the gradient of v.
for v in reversed(range(N)):
    reads.append([v, *(2 * N - 1 - w for w in range(N) if v in reads[w])])
memory = np.repeat([400, 300, 200, 100, 100, 200, 300, 400], 4)
graph = ra.ComputationGraph.from_arrays(
    read_indptr=np.cumsum([0, *map(len, reads)]),
    read_indices=np.concatenate(reads).astype(np.int32),
    memory=memory,
    compute=np.repeat([1, 2], N),
    forward_of=[-1] * N + list(reversed(range(N))),
)
plan = ra.solve(graph, "60%")
print(plan)

arrays, peak = {}, 0  # by id, of nodes and values
for action, v in plan.actions():
    if action == "compute":
        assert all(x in arrays for x in reads[v])
        arrays[v] = np.zeros(memory[v], np.uint8)
        peak = max(peak, sum(array.nbytes for array in arrays.values()))
    else:
        del arrays[v]
assert peak == plan.peak_memory
print(f"peak {peak} bytes, as planned; arrays at the end: {sorted(arrays)}")

ra.plot.save(ra.plot.graph(plan), FOLDER / "from_another_framework.svg")
