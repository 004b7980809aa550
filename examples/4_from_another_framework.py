"""From a framework of your own: arrays in, actions out.

You learn to hand over a graph that has its gradients already, as arrays of ids, and to run the
plan that comes back. The picture shows the graph, with what is kept and what is recomputed.

Usage: python examples/4_from_another_framework.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

import numpy as np

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
N = 16  # layers; each reads the one before it, every fourth one also what its block began with

reads = [[v - 1] * (v > 0) + [v - 4] * (v > 0 and v % 4 == 0) for v in range(N)]
for v in reversed(range(N)):  # the gradient of v, node 2 N - 1 - v, reads v and later gradients
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

held, most = {}, 0  # the framework: its arrays by id, and the most bytes that they took
for action, v in plan.actions():  # each node makes one value, so that both have the same id
    if action == "compute":
        assert all(x in held for x in reads[v])
        held[v] = np.zeros(memory[v], np.uint8)
        most = max(most, sum(array.nbytes for array in held.values()))
    else:
        del held[v]
assert most == plan.peak_memory
print(f"held {most} bytes at most, as promised; in the end {sorted(held)}")

ra.plot.save(ra.plot.graph(plan), FOLDER / "from_another_framework.svg")
