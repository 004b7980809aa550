"""How long each solver takes."""

import os

import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain, layered_dag
from remat_algos.zoo.registry import build

GRAPHS = {
    "chain of 1,000 nodes": (lambda: chain(1000), "20%"),
    "layered graph of 500 nodes": (lambda: layered_dag(500, width=5, reach=20), "90%"),
}
SMALL = {"live_set_search"}  # solvers of small graphs, with benchmarks of their own
KEEPING = ("no_remat", "drop_cheap", "echo")  # where operations have no names and cost the same, these keep them


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("solver", sorted({solver.name for solver in default_solvers()} - SMALL))
def test_solve(benchmark, solver, name):
    make, budget = GRAPHS[name]
    graph = differentiate(make())
    if solver in KEEPING:
        budget = "100%"
    plan = benchmark.pedantic(solve, (graph, budget), {"solver": solver, "raw": True}, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        reads=graph.read_indices.size,
        budget=budget,
        overhead_share=plan.overhead / graph.needed_compute,
        plans_simulated=plan.report.simulated or 1,
    )
    assert plan.peak_memory <= plan.limit


@pytest.mark.parametrize("budget", ["70%", "50%", "25%"])
def test_deep(benchmark, budget):
    """80 equal layers, as adapters plan them; each time a graph of which nothing is known yet."""
    forward = build("llama_7b", depth=80).graph
    plan = benchmark.pedantic(
        lambda graph: solve(graph, budget, effort="fast"), setup=lambda: ((differentiate(forward),), {}), rounds=3
    )
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=plan.graph.n_nodes,
        budget=budget,
        overhead_share=plan.overhead / plan.graph.needed_compute,
    )
    assert plan.bound.gap(plan.graph.needed_compute + plan.overhead) <= 0.001
