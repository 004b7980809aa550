"""How long moment bounds take on networks of the zoo, and what they prove."""

import functools
import os

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.bounds.closure import overhead_bound
from remat_algos.bounds.moments import choose_moments, moment_bound
from remat_algos.schedule.emission import baseline_peak
from remat_algos.zoo.registry import build

ONE_MOMENT = {  # overheads that are to be proved at the node of the closure bound, in per cent of one pass
    ("vit_b_16", 25): 14.709,
    ("vit_b_16", 50): 1.684,
    ("gpt2_small", 25): 21.590,
    ("gpt2_small", 50): 1.6169,
    ("transformer_base", 50): 14.975,
    ("mobilenet_v2", 50): 3.144,
    ("resnet50", 50): 0.79,
}
MOMENTS = {
    ("unet", 50, (65, 68)): 3.5439,
    ("resnet50", 35, (181, 329)): 3.2299,
    ("resnet50", 25, (181, 329, 340)): 7.33,
    ("googlenet_bn", 25, (174, 470)): 5.192,
}


@functools.cache
def network(name):
    return ra.differentiate(build(name).graph)


def note(benchmark, graph, bound, wanted):
    overhead = 100 * (bound.amount - graph.needed_compute) / graph.needed_compute
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        reads=graph.read_indices.size,
        overhead_percent=round(overhead, 4),
        wanted_overhead_percent=wanted,
    )


@pytest.mark.parametrize(
    ("name", "percent"), ONE_MOMENT, ids=lambda part: part if isinstance(part, str) else f"{part}%"
)
def test_one_moment(benchmark, name, percent):
    """The closure bound included."""
    graph = network(name)
    limit = baseline_peak(graph) * percent // 100

    def run():
        return moment_bound(graph, limit, overhead_bound(graph, limit).nodes[:1])

    note(benchmark, graph, benchmark.pedantic(run, rounds=3, warmup_rounds=1), ONE_MOMENT[name, percent])


@pytest.mark.parametrize(
    ("name", "percent", "nodes"),
    MOMENTS,
    ids=[f"{name}-{percent}%-{len(nodes)} moments" for name, percent, nodes in MOMENTS],
)
def test_moments(benchmark, name, percent, nodes):
    graph = network(name)
    limit = baseline_peak(graph) * percent // 100
    bound = benchmark.pedantic(moment_bound, (graph, limit, nodes), rounds=1)
    note(benchmark, graph, bound, MOMENTS[name, percent, nodes])


def test_every_single_moment(benchmark):
    """Of README's U-Net."""
    graph = ra.differentiate(ra.read_graph("examples/graphs/unet.nodes.csv"))
    limit = baseline_peak(graph) * 70 // 100

    def run():
        bounds = [moment_bound(graph, limit, [int(v)]) for v in np.flatnonzero(graph.needed)]
        return max(bounds, key=lambda bound: bound.amount)

    note(benchmark, graph, benchmark.pedantic(run, rounds=1), 0.457)


def test_choosing_two_moments(benchmark):
    graph = network("unet")
    limit = baseline_peak(graph) // 2

    def run():
        *_, bound = choose_moments(graph, limit, overhead_bound(graph, limit).nodes[0], count=2)
        return bound

    note(benchmark, graph, benchmark.pedantic(run, rounds=1), 3.5439)
