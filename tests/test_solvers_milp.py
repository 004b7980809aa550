"""The integer program of Checkmate: the optimum of its class, and its bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.context import Clock, OutOfTime
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.milp import few_nodes, milp
from remat_algos.solvers.registry import Task, evaluated
from remat_algos.zoo.registry import build
from tests import strategies
from tests.oracles import live_sets, staged
from tests.small_graphs import training_chain

small = strategies.graphs(max_nodes=6, min_nodes=1, room=14) | strategies.training_graphs(max_nodes=8)


def test_an_order_may_cost_more_than_another():
    """Two branches, listed in turn: docs/theory/fixed_order.md."""
    edges = [(0, 2), (2, 4), (4, 6), (1, 3), (3, 5), (5, 6)]
    graph = ra.ComputationGraph.from_edges(edges, memory=[4, 4, 4, 4, 1, 1, 1], compute=[9, 9, 1, 1, 1, 1, 1])
    assert best(graph, 9).figures == (9, 52)
    assert staged.least_compute(graph, 9)[0] == 52
    assert live_sets.least_compute(graph, 9)[0] == 23


def best(graph, limit, **options):
    """The last candidate, simulated, with its bound."""
    *_, found = milp(graph, Task(limit), Clock(), **options)
    return replace(evaluated(graph, found.schedule), bound=found.bound, scope=found.scope, details=found.details)


@given(data=st.data(), graph=small)
def test_it_is_the_optimum_of_its_order_and_its_bound_says_so(data, graph):
    limit = data.draw(st.integers(0, baseline_peak(graph)))
    optimum = staged.least_compute(graph, limit)
    found = best(graph, limit)
    if optimum is None:
        assert found.figures[0] > limit
        assert found.bound is None
    else:
        assert found.figures[0] <= limit
        assert found.figures[1] == optimum[0]
        assert found.scope == "fixed order"
        assert graph.needed_compute <= found.bound <= optimum[0]


@given(data=st.data(), graph=small)
def test_it_is_never_below_the_optimum_of_any_order(data, graph):
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    found = best(graph, limit)
    if found.figures[0] <= limit:
        assert found.figures[1] >= live_sets.least_compute(graph, limit)[0]


@given(data=st.data())
def test_it_is_the_optimum_of_any_order_where_the_order_does_not_matter(data):
    n = data.draw(st.integers(2, 5))
    memory = data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    graph = training_chain(n, memory=memory, compute=data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    assert best(graph, limit).figures[1] == live_sets.least_compute(graph, limit)[0]


def test_the_bound_is_the_optimum_where_costs_are_small_whole_numbers():
    found = best(training_chain(6), 5)
    assert found.bound == found.figures[1] == staged.least_compute(training_chain(6), 5)[0]


def test_sizes_of_real_networks_fit_to_the_byte():
    graph = ra.differentiate(build("feed_forward", depth=5).graph)
    for share in 90, 80, 70:
        limit = baseline_peak(graph) * share // 100
        found = best(graph, limit)
        assert found.figures[0] <= limit
        assert found.bound is None or found.bound <= found.figures[1]


def test_a_gap_may_end_the_search_early():
    graph = training_chain(8)
    found = best(graph, 6, mip_gap=0.5)
    assert found.figures[0] <= 6
    assert graph.needed_compute <= found.bound <= best(graph, 6).figures[1] <= found.figures[1]
    assert 0 <= found.details["mip_gap"] <= 0.5


def test_time_over_leaves_one_pass():
    search = milp(training_chain(20), Task(10), Clock(0))
    assert next(search).figures == (22, 58)
    with pytest.raises(OutOfTime):
        next(search)


def test_large_graphs_and_recompute_marks_are_refused_in_a_sentence():
    large = ra.ComputationGraph.from_edges([(v, v + 1) for v in range(60)])
    assert "61 needed nodes" in few_nodes(large)
    with pytest.raises(ra.GraphError, match="60 is the maximum"):
        ra.solve(large, "100%", solver="milp")
    marked = replace(training_chain(4), mark=[RECOMPUTE] + [0] * 7, derivation=None)
    assert "recompute marks" in few_nodes(marked)
    assert few_nodes(replace(training_chain(4), mark=np.ones(8), derivation=None)) is None


def test_updates_change_parameters_when_nothing_reads_them_any_more():
    graph = build("feed_forward", depth=2, optimizer="sgd").graph
    limit = baseline_peak(graph) * 9 // 10
    for found in milp(graph, Task(limit), Clock()):
        simulate(graph, found.schedule)
