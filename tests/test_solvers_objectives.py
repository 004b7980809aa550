"""Objectives of one's own: optima against brute force over all chains and all schedules of a class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels import chain_table

from remat_algos.errors import ArgumentError, BudgetError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline
from remat_algos.search.solve import solve
from remat_algos.solvers.chain_program import OBJECTIVES
from remat_algos.solvers.chain_stages import stages_of
from remat_algos.solvers.registry import get_solver, list_candidates
from remat_algos.zoo.random import layered_dag
from remat_algos.zoo.registry import build
from tests.oracles import chains as all_schedules
from tests.oracles import lower_sets as oracle
from tests.oracles.simulation import slow_simulation
from tests.small_graphs import training_chain
from tests.strategies import stage_chains, training_graphs

GRAPH = differentiate(layered_dag(8, seed=3))
CHAIN = training_chain(12, memory=[7, 3, 5, 8, 2, 9, 4, 6, 7, 5, 3, 8], compute=[5, 2, 8, 3, 9, 1, 7, 4, 6, 2, 8, 3])


def energy(cost, kept):
    return 2 * cost + 3 * kept


def with_the_peak(cost, kept, peak):
    return cost + kept * kept + 0.5 * peak


def constant_price(cost, peak):
    return 1 + 0 * cost


SLOW = {
    "energy": lambda cost, kept, peak: energy(cost, kept),
    "with_the_peak": with_the_peak,
    "constant_price": lambda cost, kept, peak: 1,
    "compute": lambda cost, kept, peak: cost,
}
COMPILED = {rule.__name__: OBJECTIVES.rule(rule) for rule in (energy, with_the_peak, constant_price)}
COMPILED["compute"] = OBJECTIVES.rule("compute")
NAMES = sorted(SLOW)


def whole(value):
    return int(np.rint(value))


def value_of_chain(part, chain, rule):
    """The sum over the blocks; the last one is kept, so nothing of it is computed again."""
    total, before = 0, frozenset()
    for lower_set, row in zip(chain, oracle.terms(part, chain), strict=True):
        kept = part.boundary(lower_set) - before
        cost = 0 if lower_set == part.nodes else part.compute(lower_set - before - part.boundary(lower_set))
        total += whole(rule(cost, part.memory(kept), sum(row[1:])))
        before = lower_set
    return total


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), graph=training_graphs(max_nodes=12))
def test_a_chain_of_lower_sets_has_the_least_objective_within_the_budget(name, data, graph):
    rule = SLOW[name]
    part = oracle.forward(graph)
    found = [
        (oracle.peak(part, chain), value_of_chain(part, chain, rule))
        for chain in oracle.chains(part, oracle.all_lower_sets(part))
    ]
    budget = data.draw(st.sampled_from(sorted({peak for peak, _ in found})))
    candidates = list_candidates(graph, "exact_dp", formula_budget=budget, objective=COMPILED[name])
    least = min(value for peak, value in found if peak <= budget)
    for candidate in candidates:
        assert candidate.details["objective"] == name
        assert candidate.details["formula_peak"] <= budget
        assert candidate.details["objective_value"] == least
        assert candidate.bound is None


def value_of_operations(stages, operations, rule):
    memory, (sweep, every, leaf, _) = stages.upper, stages.costs()
    rows = {
        chain_table.SWEEP: (sweep, 0 * memory.keep, memory.again.first),
        chain_table.EVERY: (every, memory.keep, memory.again.every),
        chain_table.LEAF: (leaf, 0 * memory.keep, memory.leaf),
    }
    runs = [[max(0, int(row[stage])) for row in rows[code]] for code, stage in operations if code in rows]
    return sum(whole(rule(*arguments)) for arguments in runs)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), graph=stage_chains().filter(lambda graph: get_solver("chain_dp").needs(graph) is None))
def test_a_schedule_of_stages_has_the_least_objective_of_its_class(name, data, graph):
    stages, rule = stages_of(graph), SLOW[name]
    every = all_schedules.every_schedule(len(stages))
    peaks = [slow_simulation(graph, stages.schedule(each).order.tolist()).peak for each in every]
    limit = data.draw(st.sampled_from(sorted(set(peaks))))
    values = [value_of_operations(stages, each, rule) for each, peak in zip(every, peaks, strict=True) if peak <= limit]
    for found in list_candidates(graph, "chain_dp", limit, objective=COMPILED[name]):
        assert found.figures[0] <= limit
        assert found.details["objective"] == name
        assert found.bound is None
        if all_schedules.is_exact(graph):
            assert found.details["objective_value"] == min(values)
        else:
            assert found.details["objective_value"] >= min(values)


def test_what_is_rounded_is_no_proven_minimum():
    limit = baseline(CHAIN).peak_memory * 2 // 3
    exact, rounded = (
        list_candidates(CHAIN, "chain_dp", limit, objective="compute", slots=slots)[0] for slots in (None, 7)
    )
    assert exact.details["objective_error"] == 0
    assert "objective_error" not in rounded.details
    assert exact.details["objective_value"] <= rounded.details["objective_value"]
    [row] = get_solver("chain_dp").describe(CHAIN, rounded.details)
    assert "with rounded sizes or costs the minimum over the schedules of the class" in row[1]


def test_an_objective_does_not_go_with_a_link():
    graph = differentiate(build("lstm?steps=3&cost=roofline&device=a100-80gb").graph)
    with pytest.raises(ArgumentError, match="raw"):
        solve(graph, "80%", solver="approximate_dp", objective=energy, link="1GB/s")


def test_the_report_of_a_plan_says_for_which_objective_it_is_optimal():
    plan = solve(GRAPH, solver="exact_dp", formula_budget=10**6, objective=energy)
    assert "objective    energy" in str(plan)
    assert "the minimum over the chains of the family exact for which" in " ".join(str(plan).split())
    assert plan.method == "exact_dp"
    assert "polished" not in plan.details


def negative(cost):
    return -1.0


def tiny(cost):
    return 1e-6 * (1 + cost)


def infinite(cost):
    return 1 / 1e-320 if cost >= 0 else 1.0


def nan(peak):
    return np.nan


REFUSED = [
    ({"objective": negative}, "the objective negative is -1 for cost="),
    ({"objective": infinite}, "return 0 or more, and less than 1,125,899,906,842,624"),
    ({"objective": nan}, "the objective nan returned nan for peak="),
    ({"objective": "energy"}, "there is no objective 'energy'; use compute"),
    ({"objective": tiny}, "all values of the objective tiny round to 0"),
    ({"objective": energy, "polish": True}, "polishing reduces compute, not the objective"),
    ({"objective": energy, "strategy": "time"}, "give an objective or a strategy, not both"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_a_bad_objective_ends_in_one_sentence(options, sentence):
    with pytest.raises(ArgumentError) as caught:
        solve(GRAPH, solver="exact_dp", formula_budget=10**6, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("solver", ["exact_dp", "approximate_dp", "chain_dp"])
def test_an_objective_needs_a_limit(solver):
    graph = differentiate(layered_dag(1, seed=0)) if solver != "chain_dp" else GRAPH
    if get_solver(solver).needs(graph) is None:
        with pytest.raises(ArgumentError, match="an objective needs a limit in bytes"):
            list_candidates(graph, solver, objective="compute")


def test_below_the_least_formula_budget_an_objective_ends_in_the_same_sentence_as_none():
    sentences = []
    for objective in (None, "compute"):
        with pytest.raises(BudgetError) as caught:
            list_candidates(GRAPH, "exact_dp", formula_budget=1, objective=objective)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
