"""A graph of your own, from its edges, sizes and costs.

You learn to make a graph in Python, to simulate decisions of your own, and to see why a plan keeps
a value. The picture shows the node of each step, and how long its values are live.

Usage: python examples/2_own_edge_list.py [FOLDER for the picture]
"""

import sys
from itertools import pairwise
from pathlib import Path

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"
MIB = 2**20

block = ["conv1", "relu1", "conv2", "relu2", "conv3", "add", "pool"]
head = ["conv4", "relu4", "conv5", "relu5", "dense", "loss"]
# Each node reads the previous one; "add" also reads "relu1".
edges = [*pairwise(block + head), ("relu1", "add")]
memory = [16 * MIB] * 6 + [4 * MIB] + [8 * MIB] * 4 + [1 * MIB, 4]
compute = [20, 1, 40, 1, 40, 1, 1, 40, 1, 40, 1, 5, 1]
training = ra.differentiate(ra.ComputationGraph.from_edges(edges, memory, compute))

convolutions = [name for name in block + head if name.startswith("conv")]
for keep in (convolutions, ["pool"]):
    simulation = ra.simulate(training, ra.what_if(training, keep=keep))
    peak, overhead = simulation.peak_memory / MIB, simulation.overhead / training.needed_compute
    print(f"keep {', '.join(keep)}: {peak:.0f} MiB, {overhead:.1%} overhead")

plan = ra.solve(training, "80%")
print(plan)
print(ra.explain(plan, "relu1"))

ra.plot.save(ra.plot.schedule(plan), FOLDER / "own_edge_list.svg")
