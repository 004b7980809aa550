"""The two cuts: what they choose, and where the search ends at them."""

import pytest

from remat_algos.bounds.bound import LowerBound
from remat_algos.bounds.closure import overhead_bound
from remat_algos.effort import FAST, Effort
from remat_algos.errors import ArgumentError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.two_cuts import closure_sides
from remat_algos.solvers.registry import list_candidates
from remat_algos.zoo.random import chain
from remat_algos.zoo.registry import build
from tests.raising import raises


@pytest.fixture(scope="module")
def deep():
    """80 equal layers."""
    return differentiate(build("llama_7b", depth=80).graph)


@pytest.mark.parametrize("budget", ["70%", "50%", "25%"])
def test_a_deep_transformer_is_planned_within_the_gap_of_its_bound(deep, budget):
    plan = solve(deep, budget, effort=FAST)
    assert plan.overhead <= plan.bound.amount - deep.needed_compute + Effort.of(FAST).gap * deep.needed_compute
    assert plan.peak_memory <= plan.limit
    assert "search" not in plan.report.overheads  # it ended before


def test_what_is_recomputed_moves_from_the_first_block_on():
    """Equal blocks of a large and a small value: the fewest large values that make the rest fit."""
    graph = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(59)], memory=[8, 1] * 30))
    found = [each for each in list_candidates(graph, "two_cuts", baseline_peak(graph) // 2) if "until" in each.details]
    by_place = sorted(found, key=lambda each: each.details["until"])
    peaks = [each.figures[0] for each in by_place]
    assert peaks == sorted(peaks, reverse=True)
    fitting = [each for each in by_place if each.figures[0] <= baseline_peak(graph) // 2]
    runs = fitting[0].simulated.runs
    assert all(runs[v] == 1 for v in range(fitting[0].details["until"] + 1, 60))


def test_a_limit_that_asks_for_nothing_has_the_run_without_rematerialization():
    graph = differentiate(chain(9))
    assert [each.figures for each in list_candidates(graph, "two_cuts", 10**9)] == [
        (baseline_peak(graph), graph.needed_compute)
    ]


def test_a_bound_without_a_price_has_no_sides():
    with raises(ArgumentError, source="one pass"):
        closure_sides(chain(3), LowerBound(3))


def test_the_cut_at_the_higher_price_keeps_fewer_bytes(deep):
    limit = baseline_peak(deep) // 2
    few, many = closure_sides(deep, overhead_bound(deep, limit))
    compute = [int(deep.compute[each].sum()) for each in (few, many)]
    assert compute[0] < compute[1]
