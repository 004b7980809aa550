"""Elimination orders, and recursion on separators: how long they take, how narrow and how low they come."""

import functools
import os
import time
from pathlib import Path

import networkx as nx
import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.models.reference import build_reference
from remat_algos.plan.solve import solve
from remat_algos.structure.elimination import eliminate
from remat_algos.structure.pace import read_gr
from remat_algos.structure.treewidth import width_bounds
from remat_algos.structure.undirected import UndirectedGraph

TRANSFORMER = "model:transformer_base?granularity=primitive&optimizer=adam"
RESNET = "model:resnet?depth=1301&optimizer=sgd"
PACE = Path(__file__).parents[3] / "shared" / "treewidth"
PIPELINE = "model:resnet?depth=1001&optimizer=sgd&cost=unit"


@functools.cache
def network(reference):
    graph = build_reference(reference).graph
    return graph if graph.is_training else differentiate(graph)


@functools.cache
def undirected(reference):
    return UndirectedGraph.of(network(reference))


@functools.cache
def instance(name):
    file = PACE / f"{name}.gr"
    if not file.exists():
        pytest.skip("the public instances are not in this checkout")
    return read_gr(file)


def describe(benchmark, graph, **more):
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_vertices, reads=graph.n_edges, **more)


def of_seeds(graph, count=10):
    """Least fill-in with ten random ties, and the bound that no width is below."""
    found = width_bounds(graph, seeds=count)
    return {"width_of_10_seeds": found.width, "lower_bound": found.lower_bound}


# least fill-in


def test_least_fill_in_on_a_transformer(benchmark):
    """Beside networkx."""
    graph = undirected(TRANSFORMER)
    found = benchmark.pedantic(eliminate, (graph,), rounds=9, warmup_rounds=1)
    peer = nx.Graph(graph.edges().tolist())
    begin = time.process_time()
    width, _ = nx.approximation.treewidth_min_fill_in(peer)
    networkx_s = time.process_time() - begin
    assert found.width <= width
    describe(
        benchmark,
        graph,
        width=found.width,
        networkx_width=width,
        networkx_s=networkx_s,
        times_faster=networkx_s / benchmark.stats.stats.median,
        wanted_times=500,
    )


def test_least_fill_in_on_a_residual_network(benchmark):
    graph = undirected(RESNET)
    found = benchmark.pedantic(eliminate, (graph,), rounds=5, warmup_rounds=1)
    describe(benchmark, graph, wanted_s=0.15, width=found.width, **of_seeds(graph))


@pytest.mark.parametrize("name", ["he150", "ex001", "ex015", "ex057"])
def test_least_fill_in_on_a_public_instance(benchmark, name):
    graph = instance(name)
    found = benchmark.pedantic(eliminate, (graph,), rounds=5, warmup_rounds=1)
    wanted = {"wanted_s": 0.5, "wanted_width": 138, "wanted_of_seeds": 129} if name == "he150" else {}
    describe(benchmark, graph, width=found.width, **of_seeds(graph), **wanted)


# greedy_remat


@pytest.mark.parametrize("reference", ["model:resnet50", "model:googlenet", "model:resnet200?optimizer=sgd"])
def test_greedy_remat(benchmark, reference):
    graph = network(reference)
    plan = benchmark.pedantic(solve, (graph, "50%"), {"solver": "greedy_remat"}, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_nodes, **of_base(graph, plan))


# twremat


def test_the_whole_pipeline_of_twremat(benchmark):
    """One elimination order, one tree, one schedule, judged and polished."""
    graph = network(PIPELINE)
    one = {"recursion_limit": 1, "batching": False, "orders": 1}
    plan = benchmark.pedantic(solve, (graph, "least"), {"solver": "twremat", **one}, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(
        cores=os.cpu_count(), nodes=graph.n_nodes, wanted_s=1, **of_base(graph, plan), runs=len(plan.schedule)
    )


@pytest.mark.parametrize(
    ("reference", "budget", "wanted"),
    [
        ("model:resnet200?optimizer=sgd&cost=unit", "10%", (0.10, 1.4)),
        ("model:resnet200?optimizer=sgd", "10%", (0.10, 1.4)),
        (
            "model:transformer_base?optimizer=sgd&words=512&dropout=single&granularity=primitive&cost=unit",
            "10%",
            (0.10, 1.6),
        ),
        ("model:transformer_base?optimizer=sgd&cost=unit", "least", (0.10, 1.6)),
        ("model:feed_forward?depth=200&optimizer=sgd&cost=unit", "6%", (0.06, 1.7)),
        ("model:feed_forward?depth=200&cost=unit", "6%", (0.06, 1.7)),
    ],
)
def test_twremat_with_passes(benchmark, reference, budget, wanted):
    graph = network(reference)
    plan = benchmark.pedantic(solve, (graph, budget), {"solver": "twremat"}, rounds=1)
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        **of_base(graph, plan),
        wanted_share=wanted[0],
        wanted_length=wanted[1],
    )


def of_base(graph, plan):
    """Peak and length beside one pass."""
    base = solve(graph, solver="no_remat", raw=True)
    return {
        "peak_share": plan.peak_memory / base.peak_memory,
        "length": len(plan.schedule) / len(base.schedule),
        "compute": plan.simulation.compute / graph.needed_compute,
    }
