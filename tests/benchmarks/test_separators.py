"""Elimination orders, and recursion on separators: how long they take, how narrow and how low they come."""

import functools
import os
import time
from pathlib import Path

import pytest
from remat_algos.kernels.twremat import PLAIN

from remat_algos.formats.pace import read_gr
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.polishing import polish
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.recursion import Part
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph, eliminate
from remat_algos.structure.separators import SeparatorTree
from remat_algos.structure.treewidth import width_bounds
from remat_algos.zoo.registry import build

nx = pytest.importorskip("networkx", reason="networkx is not installed (extra graphs)")
TRANSFORMER = "model:transformer_base?granularity=primitive&optimizer=adam"
RESNET = "model:resnet?depth=1301&optimizer=sgd"
PACE = Path(__file__).parents[3] / "shared" / "treewidth"
PIPELINE = "model:resnet?depth=1001&optimizer=sgd&cost=unit"


@functools.cache
def network(reference):
    graph = build(reference).graph
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
        times_faster=round(networkx_s / benchmark.stats.stats.median),
        wanted_times_faster=800,
    )


def test_least_fill_in_on_a_residual_network(benchmark):
    graph = undirected(RESNET)
    found = benchmark.pedantic(eliminate, (graph,), rounds=5, warmup_rounds=1)
    describe(benchmark, graph, width=found.width, **of_seeds(graph))


@pytest.mark.parametrize("name", ["he150", "ex001", "ex015", "ex057"])
def test_least_fill_in_on_a_public_instance(benchmark, name):
    graph = instance(name)
    found = benchmark.pedantic(eliminate, (graph,), rounds=5, warmup_rounds=1)
    wanted = {"wanted_width": 138, "wanted_width_of_10_seeds": 129} if name == "he150" else {}
    describe(benchmark, graph, width=found.width, **of_seeds(graph), **wanted)


# greedy_remat


@pytest.mark.parametrize("reference", ["model:resnet50", "model:googlenet", "model:resnet200?optimizer=sgd"])
def test_greedy_remat(benchmark, reference):
    graph = network(reference)
    plan = benchmark.pedantic(solve, (graph, "50%"), {"solver": "greedy_remat"}, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_nodes, **of_base(graph, plan.simulation))


# twremat


def pipeline(graph):
    """Elimination order, bags, separators, plain recursion, the simulator, the passes: each once."""
    part = Part(graph, simplified=True)
    bags = TreeDecomposition.of(eliminate(part.undirected)).reduce()
    tree = SeparatorTree.balanced(bags, part.nodes.size)
    return polish(graph, simulate(graph, part.schedule(tree, 1, PLAIN, 30 * part.nodes.size)), None)


def test_the_whole_pipeline_of_twremat(benchmark):
    graph = network(PIPELINE)
    simulation = benchmark.pedantic(pipeline, (graph,), rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_nodes, **of_base(graph, simulation))


GOALS = {  # share of the peak of one pass, length in passes
    ("model:resnet200?optimizer=sgd&cost=unit", "10%"): (0.10, 1.4),
    ("model:resnet200?optimizer=sgd", "10%"): (0.10, 1.4),
    (
        "model:transformer_base?optimizer=sgd&words=512&dropout=single&granularity=primitive&cost=unit",
        "10%",
    ): (0.10, 1.6),
    ("model:transformer_base?optimizer=sgd&cost=unit", "least"): (0.10, 1.6),
    ("model:feed_forward?depth=200&optimizer=sgd&cost=unit", "6%"): (0.06, 1.7),
    ("model:feed_forward?depth=200&cost=unit", "6%"): (0.06, 1.7),
}


@pytest.mark.parametrize(("reference", "budget"), GOALS)
def test_twremat_with_passes(benchmark, reference, budget):
    graph = network(reference)
    plan = benchmark.pedantic(solve, (graph, budget), {"solver": "twremat"}, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        **of_base(graph, plan.simulation),
        wanted_peak_share=GOALS[reference, budget][0],
        wanted_length=GOALS[reference, budget][1],
    )


def of_base(graph, simulation):
    """Peak, length and compute, in those of one pass."""
    base = baseline(graph)
    return {
        "peak_share": simulation.peak_memory / base.peak_memory,
        "length": round(len(simulation.schedule) / len(base.schedule), 3),
        "compute": round(simulation.compute / graph.needed_compute, 3),
    }
