"""Lower-set solvers that are cut short, and those that look at a part of large families."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import BudgetError, GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.models.random import parallel_chains
from remat_algos.plan.solve import solve
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import approximate_dp, chains, exact_dp, exhaustive_lower_sets, formula_plans, liveness_dp
from remat_algos.solvers.formula_budgets import formula_frontier, least_budget
from remat_algos.solvers.registry import Interrupted
from remat_algos.structure.lower_set_families import lower_set_family
from tests.strategies import training_graphs

FORMULAS = ("exact_dp", "approximate_dp", "exhaustive_lower_sets")


@pytest.fixture(scope="module")
def branches():
    """Three parallel chains of 7 nodes between a fork and a join, seeded: 514 lower sets."""
    random, graph = np.random.default_rng(0), parallel_chains(3, 7)
    sizes = {"memory": random.integers(1, 100, graph.n_values), "compute": random.integers(1, 20, graph.n_nodes)}
    return differentiate(graph.with_costs(**sizes))


@pytest.fixture
def late(monkeypatch):
    """The first look at the watch of a stage that takes long comes after its limit."""
    monkeypatch.setattr(chains.Watch, "late", property(lambda self: self.deadline is not None))


@pytest.fixture
def interrupted(monkeypatch):
    """The user presses Ctrl-C as soon as chains of a family are searched for a second time."""
    searches = []

    def run(self, search, what, whole=chains.Chains._run):
        searches.append(what)
        if len(searches) == 3:
            raise KeyboardInterrupt
        whole(self, search, what)

    monkeypatch.setattr(chains.Chains, "_run", run)
    return searches


@pytest.mark.parametrize("name", ["exact_dp", "approximate_dp", "liveness_dp"])
def test_without_time_the_lowest_that_is_known_is_judged(branches, late, name):
    plan = solve(branches, "80%", solver=name, raw=True, time_limit=1e-9)
    assert plan.peak_memory <= plan.limit
    assert plan.details["complete"] is False


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("share", [1.0, 1.5])
def test_a_formula_budget_is_kept_or_the_error_says_that_the_time_was_short(branches, name, share):
    budget = int(least_budget(branches, "wide" if name == "approximate_dp" else "exact") * share)
    try:
        plan = solve(branches, solver=name, formula_budget=budget, raw=True, time_limit=1e-9)
    except BudgetError as error:
        said = str(error)
    else:
        assert plan.details["formula_peak"] <= budget == plan.details["formula_budget"]
        return
    assert "the time limit was reached before" in said


@pytest.mark.parametrize("module", [exact_dp, approximate_dp, liveness_dp])
def test_what_was_found_before_an_interrupt_goes_with_it(branches, interrupted, module):
    with pytest.raises(Interrupted) as stop:
        module.frontier(branches)
    assert stop.value.found
    assert all(simulate(branches, found.schedule).peak_memory for found in stop.value.found)
    assert len(interrupted) == 3


@given(data=st.data(), graph=training_graphs(max_nodes=16))
@settings(max_examples=40)
def test_near_a_limit_a_chain_keeps_its_promise_and_the_best_of_the_curve_is_no_cheaper(data, graph):
    plans = [liveness_dp._Plans(graph, "wide", True, 100, chains.Watch()) for _ in range(2)]
    curve = plans[0].curve()
    limit = data.draw(st.none() | st.integers(1, max(1, plans[0].base)))
    if limit is None:
        assert plans[1].near(None).best(None).details["promise"] == curve.candidates[-1].describe()["promise"]
        return
    found = plans[1].near(limit).best(limit)
    within = [c.describe() for c in curve.candidates if c.describe()["promise"] <= limit]
    if within:
        assert found.details["promise"] <= limit
        assert found.details["promised_overhead"] == min(each["promised_overhead"] for each in within)
    assert simulate(graph, found.schedule).peak_memory <= found.details["promise"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, exhaustive_lower_sets.OutOfTime])
def test_chains_that_were_visited_before_the_end_are_chosen_from(branches, monkeypatch, stop):
    def reached(self, done):
        if done == 8:
            raise stop

    monkeypatch.setattr(chains.Watch, "reached", reached)
    budget = 2 * int(branches.node_memory[branches.forward].sum())
    search = exhaustive_lower_sets._Search(branches, None, True, True, chains.Watch())
    sweep = search.at(budget)
    assert (sweep.complete, sweep.interrupted) == (False, stop is KeyboardInterrupt)
    chain = sweep.candidates[0].chain
    assert len(chain) > 1  # the sets of the first 8 rows are chosen from
    assert chain.peak(branches) <= budget


def test_on_large_families_a_grid_of_budgets_keeps_the_limit(branches, monkeypatch):
    whole = solve(branches, "80%", solver="approximate_dp", raw=True)
    monkeypatch.setattr(formula_plans, "MOST_PAIRS", 0)
    grid = solve(branches, "80%", solver="approximate_dp", raw=True)
    assert grid.peak_memory <= grid.limit
    assert grid.details["lower_sets"] == whole.details["lower_sets"]


def test_steps_that_are_not_stored_are_those_that_are(branches, monkeypatch):
    stored = formula_frontier(branches, "wide")
    monkeypatch.setattr(chains, "STORED", 0)
    found = formula_frontier(branches, "wide")
    assert [point[:2] for point in found] == [point[:2] for point in stored]


def test_a_family_can_be_made_of_some_of_the_nodes(branches):
    whole = {tuple(nodes) for nodes in lower_set_family(branches, "wide").sets()}
    some = lower_set_family(branches, "wide", most=20)
    assert some.thinned
    assert len(some) == 20
    assert {tuple(nodes) for nodes in some.sets()} < whole
    assert not lower_set_family(branches, "wide", most=10_000).thinned
    assert repr(some) == "<LowerSetFamily: 20 lower sets of 23 nodes>"


def test_solvers_say_that_they_looked_at_some_sets_only(branches, monkeypatch):
    monkeypatch.setattr(approximate_dp, "MOST_SETS", 20)
    plan = solve(branches, "100%", solver="approximate_dp", raw=True)
    assert (plan.details["lower_sets"], plan.details["thinned"]) == (20, True)


def test_too_many_pairs_to_simulate_are_refused():
    wide = differentiate(parallel_chains(4, 9))
    with pytest.raises(GraphError, match=r"10,002 lower sets are too many for this solver; use the family wide"):
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


def test_costs_that_were_rounded_are_said_to_be():
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
