"""Lower-set solvers under a deadline, and those that look at a part of large families."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import BudgetError, GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.solve import solve
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import chain_program, formula_chains
from remat_algos.solvers.candidates import Task, rank
from remat_algos.solvers.formula_chains import formula_frontier, least_budget
from remat_algos.solvers.methods import liveness_dp
from remat_algos.solvers.registry import get_solver, list_candidates
from remat_algos.structure.lower_set_families import lower_set_family
from remat_algos.zoo.random import parallel_chains
from tests.raising import raises
from tests.strategies import training_graphs

FORMULAS = ("exact_dp", "approximate_dp", "exhaustive_lower_sets")
ALL = (*FORMULAS, "liveness_dp")


class Stopped(Clock):
    """A clock whose time is over after some looks at it."""

    def __init__(self, looks):
        super().__init__()
        self.looks = looks

    @property
    def late(self):
        self.looks -= 1
        return self.looks < 0


@pytest.fixture(scope="module")
def branches():
    """Three parallel chains of 7 nodes between a fork and a join, seeded: 514 lower sets."""
    random, graph = np.random.default_rng(0), parallel_chains(3, 7)
    sizes = {"memory": random.integers(1, 100, graph.n_values), "compute": random.integers(1, 20, graph.n_nodes)}
    return differentiate(graph.with_costs(**sizes))


@pytest.fixture(scope="module")
def graph_of(branches):
    """By solver: one that it can serve in a moment."""
    return {name: differentiate(parallel_chains(2, 3)) if name.startswith("exhaust") else branches for name in ALL}


def found_until(graph, name, limit, looks, **options):
    """Candidates, and whether the deadline ended them."""
    stream, found = get_solver(name).candidates(graph, Task(limit), Stopped(looks), options), []
    try:
        for candidate in stream:
            found.append(candidate)
    except OutOfTime:
        return found, True
    return found, False


@pytest.mark.parametrize("name", ALL)
def test_one_block_comes_before_any_look_at_the_deadline(graph_of, name):
    graph = graph_of[name]
    found, stopped = found_until(graph, name, None, 0)
    assert stopped
    assert {simulate(graph, each.schedule).overhead for each in found} == {0}


@pytest.mark.parametrize("limit", [None, "80%"])
@pytest.mark.parametrize("name", ALL)
def test_what_is_found_before_a_deadline_is_the_beginning_of_what_is_found_without(graph_of, name, limit):
    graph = graph_of[name]
    limit = limit and int(0.8 * baseline_peak(graph))
    orders = [each.schedule.order.tolist() for each in list_candidates(graph, name, limit)]
    for looks in (0, 3, 10, 30):
        found, stopped = found_until(graph, name, limit, looks)
        assert stopped == (len(found) < len(orders))
        assert [each.schedule.order.tolist() for each in found] == orders[: len(found)]


@pytest.mark.parametrize("name", FORMULAS)
def test_with_a_formula_budget_the_chain_is_the_best_or_there_is_none(graph_of, name):
    graph = graph_of[name]
    budget = int(1.5 * least_budget(graph, "wide" if name == "approximate_dp" else "exact"))
    whole = list_candidates(graph, name, formula_budget=budget)
    assert {each.details["formula_budget"] for each in whole} == {budget}
    for looks in (0, 3, 10):
        found, stopped = found_until(graph, name, None, looks, formula_budget=budget)
        assert [each.details for each in found] == ([] if stopped else [each.details for each in whole])


@pytest.mark.parametrize("name", FORMULAS)
def test_below_the_least_formula_budget_there_is_an_error_and_no_candidate(graph_of, name):
    graph = graph_of[name]
    least = least_budget(graph, "wide" if name == "approximate_dp" else "exact")
    with pytest.raises(BudgetError, match="the minimum is"):
        next(iter(get_solver(name).candidates(graph, Task(), Clock(), {"formula_budget": least - 1})))


@given(data=st.data(), graph=training_graphs(max_nodes=16))
def test_in_large_families_the_chain_near_a_limit_is_the_best_of_the_curve(data, graph):
    sets, base = liveness_dp._sets(graph, "wide", 100), baseline_peak(graph)
    limit = data.draw(st.integers(1, max(1, base)))
    curve = liveness_dp._program(sets, True, base, Clock()).frontier()
    *_, last = liveness_dp._best_of_many(sets, True, base, limit, Clock())
    within = [point for point in curve if point.peak <= limit]
    if within:
        assert (last.peak <= limit, last.cost) == (True, min(point.cost for point in within))
    else:
        assert last.peak == curve[0].peak


@given(data=st.data(), graph=training_graphs(max_nodes=16))
def test_near_a_limit_the_best_promise_is_that_of_the_whole_curve(data, graph):
    """Small families are enumerated; here they are not."""
    limit = data.draw(st.integers(1, max(1, baseline_peak(graph))))
    whole = list_candidates(graph, "liveness_dp", limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(liveness_dp, "TINY", 0)
        near = list_candidates(graph, "liveness_dp", limit)

    def best(candidates):
        fits = [each.details["promised_overhead"] for each in candidates if each.details["promise"] <= limit]
        return min(fits, default=None)

    assert best(near) == best(whole)


@pytest.mark.parametrize("name", ["exact_dp", "approximate_dp"])
@pytest.mark.parametrize("share", [0.9, 0.8, 0.7, 0])
def test_budgets_near_a_limit_are_nearly_as_good_as_all(branches, monkeypatch, name, share):
    limit = max(1, int(share * baseline_peak(branches)))

    def best():
        found = list_candidates(branches, name, limit)
        return len(found), min((rank(each.figures, limit) for each in found), default=None)

    monkeypatch.setattr(formula_chains, "FEW_PAIRS", 10**9)
    n_all, (misses_all, *figures) = best()
    monkeypatch.setattr(formula_chains, "FEW_PAIRS", 0)
    n_near, (misses, *near) = best()
    assert n_near < n_all
    assert misses == misses_all
    assert near[0] <= 1.05 * figures[0]


def test_large_families_keep_the_limit_too(branches, monkeypatch):
    whole = solve(branches, "80%", solver="approximate_dp", raw=True)
    monkeypatch.setattr(formula_chains, "FEW_PAIRS", 0)
    grid = solve(branches, "80%", solver="approximate_dp", raw=True)
    assert grid.peak_memory <= grid.limit
    assert grid.details["lower_sets"] == whole.details["lower_sets"]


def test_steps_that_are_not_stored_are_those_that_are(branches, monkeypatch):
    stored = formula_frontier(branches, "wide")
    monkeypatch.setattr(chain_program, "STORED", 0)
    found = formula_frontier(branches, "wide")
    assert [point[:2] for point in found] == [point[:2] for point in stored]


def test_a_family_can_be_made_of_some_of_the_nodes(branches):
    whole = {tuple(nodes) for nodes in lower_set_family(branches, "wide").sets()}
    some = lower_set_family(branches, "wide", max_sets=20)
    assert some.thinned
    assert len(some) == 20
    assert {tuple(nodes) for nodes in some.sets()} < whole
    assert not lower_set_family(branches, "wide", max_sets=10_000).thinned
    assert repr(some) == "<LowerSetFamily: 20 lower sets of 23 nodes>"


def test_plans_from_some_of_the_sets_are_marked_as_thinned(branches, monkeypatch):
    monkeypatch.setattr(formula_chains, "MAX_SETS", 20)
    plan = solve(branches, "100%", solver="approximate_dp", raw=True)
    assert (plan.details["lower_sets"], plan.details["thinned"]) == (20, True)


def test_too_many_pairs_to_simulate_are_refused():
    wide = differentiate(parallel_chains(4, 9))
    with raises(GraphError, n_sets=10_002):
        solve(wide, "60%", solver="liveness_dp", family="exact")


def test_nodes_that_must_run_once_are_named_where_the_chain_says_otherwise():
    graph = ComputationGraph.from_edges([(i, i + 1) for i in range(9)], once=[0 < i < 9 for i in range(10)])
    graph = differentiate(graph)
    plan = solve(graph, solver="exact_dp", formula_budget=least_budget(graph), keep_last=False, raw=True)
    assert plan.details["kept_besides"]
    more = f"{len(plan.details['kept_besides'])} more nodes kept, which must not be recomputed"
    assert f"formulas     peak {plan.details['formula_peak']} B" in str(plan)
    assert more in " ".join(str(plan).split())
    assert (plan.simulation.runs[graph.once] == 1).all()


def test_the_unit_of_rounded_costs_is_in_the_details():
    graph = ComputationGraph.from_edges([(i, i + 1) for i in range(11)], compute=[10**9 + 7 * i * i for i in range(12)])
    plan = solve(differentiate(graph), solver="exact_dp", formula_budget=9, raw=True)
    assert plan.details["costs_rounded_to"] > 1
    even = ComputationGraph.from_edges([(i, i + 1) for i in range(11)], compute=10**9)
    assert "costs_rounded_to" not in solve(differentiate(even), solver="exact_dp", formula_budget=9, raw=True).details


def test_an_empty_forward_part_has_no_overhead():
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 0], read_indices=[], output=[False, True], forward_of=[-1, 0], compute=[3, 5]
    )
    assert [point[:2] for point in formula_frontier(graph, keep_last=True)] == [(0, 0)]
