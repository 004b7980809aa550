"""How long the dynamic programs over lower sets take: on the networks of kusumoto2019, and on wider graphs."""

import functools
import os
import subprocess
import sys
import time

import pytest

from remat_algos.context import Clock
from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve
from remat_algos.solvers.chain_program import ChainProgram
from remat_algos.solvers.formula_chains import formula_frontier, least_budget
from remat_algos.structure.lower_sets import lower_set_family
from remat_algos.zoo.random import parallel_chains
from remat_algos.zoo.registry import build

NETWORKS = ("vgg19", "resnet50", "resnet152", "densenet161", "googlenet", "unet", "pspnet")
BY_FORMULAS = {"keep_last": False, "lazy": False, "strategy": "time", "raw": True}
GROWTH = """
import resource, sys
from tests.benchmarks.test_lower_sets import exact, network
graph, small = network("googlenet"), network("vgg19")
exact(small, int(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
exact(graph, int(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@functools.cache
def network(name):
    """As the paper counts: one value per operation, 10 for a convolution and 1 for anything else."""
    return differentiate(build(name, counting="paper", cost="paper", dropout="single").graph)


@functools.cache
def chains(count, length):
    """Chains between a fork and a join, of sizes and costs between 1 and 100."""
    return differentiate(parallel_chains(count, length, seed=0))


def exact(graph, budget):
    return solve(graph, solver="exact_dp", formula_budget=budget, **BY_FORMULAS)


def describe(benchmark, graph, **more):
    sizes = {"nodes": int(graph.forward.sum()), "reads": int(graph.predecessors[0][graph.forward.sum()])}
    benchmark.extra_info.update(cores=os.cpu_count(), **sizes, **more)


def growth_mib(budget):
    """By how much a fresh process grows while it solves GoogLeNet.

    A shell starts it: the high-water mark of whoever starts a process outlives `exec`.
    """
    program = [sys.executable, "-c", GROWTH, str(least_budget(network("vgg19"))), str(budget)]
    command = ["sh", "-c", '"$@"; exit $?', "sh", *program]
    growth = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return growth >> (10 if sys.platform == "linux" else 20)  # counted in KiB there, in bytes on macOS


# exact_dp


@pytest.mark.parametrize("name", NETWORKS)
def test_exact_dp_at_its_least_budget(benchmark, name):
    graph = network(name)
    budget = least_budget(graph)
    plan = benchmark.pedantic(exact, (graph, budget), rounds=3, warmup_rounds=1)
    assert plan.details["formula_peak"] == budget
    found = {"lower_sets": plan.details["lower_sets"], "formula_overhead": plan.details["formula_overhead"]}
    if name != "googlenet":
        return describe(benchmark, graph, **found)
    assert found == {"lower_sets": 27_358, "formula_overhead": 44}
    describe(benchmark, graph, **found, growth_mib=growth_mib(budget), wanted_growth_mib=30)


def test_exact_dp_on_three_chains_of_22_nodes(benchmark):
    graph = chains(3, 22)
    budget = least_budget(graph)
    plan = benchmark.pedantic(exact, (graph, budget), rounds=3, warmup_rounds=1)
    assert plan.details["formula_peak"] == budget
    describe(
        benchmark,
        graph,
        lower_sets=plan.details["lower_sets"],
        formula_overhead=plan.details["formula_overhead"],
    )


def test_exact_dp_on_three_chains_of_3_nodes(benchmark):
    """Beside the walk through all chains of lower sets."""
    graph = chains(3, 3)
    budget = least_budget(graph)
    plan = benchmark.pedantic(exact, (graph, budget), rounds=3, warmup_rounds=1)
    peer = {"solver": "exhaustive_lower_sets", "formula_budget": budget}
    begin = time.process_time()
    walked = solve(graph, **peer, **BY_FORMULAS)
    exhaustive = time.process_time() - begin
    assert walked.details["formula_overhead"] == plan.details["formula_overhead"]
    describe(
        benchmark,
        graph,
        lower_sets=plan.details["lower_sets"],
        exhaustive_s=exhaustive,
        of_exhaustive_share=benchmark.stats.stats.median / exhaustive,
    )


# least budgets


@pytest.mark.parametrize("name", ["googlenet", "pspnet"])
def test_least_budget(benchmark, name):
    graph = network(name)
    benchmark.pedantic(least_budget, (graph,), rounds=3, warmup_rounds=1)
    describe(benchmark, graph, lower_sets=len(lower_set_family(graph)))


def bisected(graph):
    """The least budget as the paper finds it: halve the range by whole solves."""
    program = ChainProgram.by_formulas(lower_set_family(graph), Clock(), keep_last=False)
    low, high, solves = 0, 2 * int(graph.node_memory[graph.forward].sum()), 0
    while high - low > 1:
        middle, solves = (low + high) // 2, solves + 1
        low, high = (middle, high) if program.cheapest(middle) is None else (low, middle)
    return high, solves


def test_least_budget_of_resnet50_beside_bisection(benchmark):
    graph = network("resnet50")
    budget = benchmark.pedantic(least_budget, (graph,), rounds=5, warmup_rounds=1)
    begin = time.process_time()
    found, solves = bisected(graph)
    bisection = time.process_time() - begin
    assert found == budget
    share = benchmark.stats.stats.median / bisection
    describe(benchmark, graph, solves=solves, bisection_s=bisection, of_bisection_share=share)


# small families


@pytest.mark.parametrize("times", [1, 1.1, 1.5], ids="{} times the least budget".format)
@pytest.mark.parametrize("name", ["googlenet", "resnet50", "densenet161"])
def test_approximate_dp(benchmark, name, times):
    graph = network(name)
    budget = int(least_budget(graph, "wide") * times)
    options = {"solver": "approximate_dp", "formula_budget": budget, **BY_FORMULAS}
    plan = benchmark.pedantic(solve, (graph,), options, rounds=5, warmup_rounds=1)
    pruned = solve(graph, **{**options, "family": "pruned"})
    assert plan.details["formula_overhead"] <= pruned.details["formula_overhead"]
    describe(
        benchmark,
        graph,
        lower_sets=plan.details["lower_sets"],
        formula_overhead=plan.details["formula_overhead"],
    )


@pytest.mark.parametrize("family", ["pruned", "wide"])
@pytest.mark.parametrize("name", ["resnet152", "densenet161"])
def test_formula_frontier(benchmark, name, family):
    graph = network(name)
    points = benchmark.pedantic(formula_frontier, (graph, family), rounds=1, warmup_rounds=1)
    assert points[-1][1] == least_budget(graph, family)
    describe(benchmark, graph, lower_sets=len(lower_set_family(graph, family)), points=len(points))


@pytest.mark.parametrize("name", NETWORKS)
def test_liveness_dp(benchmark, name):
    graph = network(name)
    options = {"solver": "liveness_dp", "raw": True}
    plan = benchmark.pedantic(solve, (graph, "60%"), options, rounds=3, warmup_rounds=1)
    assert plan.peak_memory <= min(plan.limit, plan.details["promise"])
    describe(
        benchmark,
        graph,
        budget="60%",
        lower_sets=plan.details["lower_sets"],
        overhead_share=plan.overhead / graph.needed_compute,
    )
