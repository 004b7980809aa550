"""Tree decompositions by hand: a chain of five nodes and its gradients, cut by separators.

You learn to decompose a graph into bags on a tree, to find separators in it, and to see how
twremat computes one half, frees it, and recomputes it. The pictures show the bags and the schedule.

Usage: python examples/6_tree_decompositions.py [FOLDER for the pictures]
"""

import sys
from pathlib import Path

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"

reads = ["ab", "bc", "cd", "de", "eE", "ED", "DC", "CB", "BA", "dD", "cC", "bB", "aA"]
# Capital letters are gradients.
graph = ra.ComputationGraph.from_edges(map(tuple, reads))
undirected = ra.structure.UndirectedGraph.of(graph)

bags = ra.structure.TreeDecomposition.of(ra.structure.eliminate(undirected)).reduce()
bags.verify(undirected)
low = ra.structure.width_bounds(undirected).lower_bound
print(f"{bags.n_bags} bags of width {bags.width}; no decomposition has less than {low}")

tree = ra.structure.SeparatorTree.balanced(bags, graph.n_nodes)
print(f"separators in {tree.depth} levels:")
for s in range(bags.n_bags):
    owned = tree.own[tree.own_indptr[s] : tree.own_indptr[s + 1]]
    cut = [v for v in range(graph.n_nodes) if s <= tree.owner[v] < tree.end[s]]
    if len(cut) > len(owned):
        letters = ("".join(graph.labels[v] for v in nodes) for nodes in (owned, cut))
        print("  {} cuts {}".format(*letters))

for batching in (False, True):
    options = {"recursion_limit": 1, "orders": 1, "batching": batching}
    plan = ra.solve(graph, solver="twremat", raw=True, **options)
    how = "in batches" if batching else "one by one"
    run = "".join(plan.schedule.names(graph))
    print(f"{how}: {run}, {plan.peak_memory} bytes for {len(run)} runs")
    if not batching:
        ra.plot.save(ra.plot.schedule(plan), FOLDER / "twremat_schedule.svg")

picture = ra.plot.decomposition(bags, graph=graph, separators=tree)
ra.plot.save(picture, FOLDER / "twremat_decomposition.svg")
