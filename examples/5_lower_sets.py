"""Lower sets by hand: eight nodes, all their lower sets, and the chain of the optimum.

You learn to list the lower sets of a graph, to read formula (2) of kusumoto2019 term by term, and
to see the memory that a chain of lower sets needs. The pictures show the lattice and the terms.

Usage: python examples/5_lower_sets.py [FOLDER for the pictures]
"""

import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"

edges = ["ab", "bc", "ad", "de", "cf", "ef", "fg", "gh"]  # two branches between a and f
memory, compute = [4, 2, 2, 1, 2, 4, 6, 1], [6, 5, 1, 6, 3, 1, 4, 1]
graph = ra.ComputationGraph.from_edges(map(tuple, edges), memory, compute)
inputs_only = ra.ir.Backward(graph.read_indptr, graph.read_indices, graph.memory, [-1] * 8, [0] * 8)
training = ra.differentiate(replace(graph, backward=inputs_only))

family = ra.structure.lower_set_family(training)
print(f"{len(family)} lower sets of {graph.n_nodes} nodes:")
for size, sets in groupby(family.sets(), len):
    print(f"  {size}:", *("".join(graph.labels[v] for v in nodes) or "{}" for nodes in sets))

overhead, peak, chain = min(ra.solvers.formula_frontier(training), key=lambda point: point[1])
print(f"lowest budget {peak} B by formula (2), lowest overhead there {overhead} by formula (1)")
print("block adds    (i)  (ii) (iii)  (iv)   sum")
block = chain.blocks(training).tolist()
for i, terms in enumerate(chain.terms(training).tolist()):
    adds = "".join(graph.labels[v] for v in range(graph.n_nodes) if block[v] == i)
    print(f"{i:>5} {adds:<5}", *(f"{amount:5}" for amount in [*terms, sum(terms)]))

simulation = ra.simulate(training, ra.schedule.canonical_schedule(training, chain))
print(f"after liveness: {simulation.peak_memory} B for an overhead of {simulation.overhead}")

ra.plot.save(ra.plot.lattice(family, chain), FOLDER / "lower_sets_lattice.svg")
ra.plot.save(ra.plot.terms(training, chain), FOLDER / "lower_sets_terms.svg")
