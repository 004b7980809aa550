"""Time of the decisions of echo, and of the decisions with the simulation."""

import functools
import os

import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.echo import MODES
from remat_algos.zoo.registry import build
from tests.echo_cases import echoed

PAPER = {"echo2020, on each of its models:": "less than 300 ms"}
GRAPHS = {"nmt": "model:nmt", "resnet of 1,301 layers": "model:resnet?depth=1301"}


@functools.cache
def training(name):
    return differentiate(build(GRAPHS[name]).graph, parameter_gradients=True)


def describe(benchmark, graph, **more):
    benchmark.extra_info.update(cores=os.cpu_count(), nodes=graph.n_nodes, reads=graph.read_indices.size, **more)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mode", MODES)
def test_decide(benchmark, name, mode):
    graph = training(name)
    details = benchmark.pedantic(echoed, (graph,), {"mode": mode}, rounds=5, warmup_rounds=1).details
    describe(benchmark, graph, not_run_here=PAPER, stash_share=details["stash"] / details["stash_without"])


@pytest.mark.parametrize("name", GRAPHS)
def test_decide_and_simulate(benchmark, name):
    graph = training(name)
    plan = benchmark.pedantic(solve, (graph,), {"solver": "echo", "raw": True}, rounds=5, warmup_rounds=1)
    describe(benchmark, graph, not_run_here=PAPER, overhead_share=plan.overhead / graph.needed_compute)
