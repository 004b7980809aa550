"""The local search: moves a second, on training graphs and on random layered ones."""

import os

import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.annealing import SearchKernel
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.zoo.registry import build
from tests.benchmarks.layered_graphs import layered_graph

GRAPHS = {
    "resnet50-50%": (50, 100_000),
    "resnet152-50%": (50, 100_000),
    "lstm-50%": (50, 50_000),
    "nmt-25%": (25, 20_000),
    "layered1000-80%": (80, 50_000),
}


def graph_of(name):
    network = name.partition("-")[0]
    return layered_graph(1_000, 0.31, 0) if network == "layered1000" else differentiate(build(network).graph)


@pytest.mark.parametrize("name", GRAPHS)
def test_moves(benchmark, name):
    """From one pass, after as many moves that are not timed; at a tenth of the mean cost of a node."""
    graph, (share, moves) = graph_of(name), GRAPHS[name]
    kernel = SearchKernel.of(graph, max_runs=30)
    kernel.start(baseline(graph).schedule, baseline_peak(graph) * share // 100, goal=-1)
    kernel.cool(0.1, 0.1, 0)
    benchmark.pedantic(kernel.state.advance, (moves,), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        moves=moves,
        taken=f"{100 * kernel.state.n_accepted / kernel.state.n_moves:.0f} %",
        per_second=f"{moves / benchmark.stats.stats.median / 1e6:.2f} M",
    )
