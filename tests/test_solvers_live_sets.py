"""The exact search over sets of live values: its optima are the oracle's, whatever the graph has."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from remat_algos.bounds.closure import overhead_bound
from remat_algos.context import Clock
from remat_algos.errors import BudgetError, GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Resident
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.live_set_search import (
    OPTIMAL,
    PRICE_BITS,
    STOPPED,
    few_values,
    live_set_search,
    moment_potentials,
)
from remat_algos.solvers.registry import Candidate, Task, evaluated, get_solver, list_candidates
from remat_algos.structure.live_sets import live_set_graph
from tests.oracles import live_sets
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.small_graphs import training_chain
from tests.strategies import graphs, training_graphs

SEARCH = get_solver("live_set_search")
FEW = 11  # values, and nodes that run once, of the graphs that the oracle searches


@st.composite
def small(draw):
    """Graphs of several values, workspaces, outputs that are read, `once`, and updates; of few values."""
    graph = draw(graphs(max_nodes=7, min_nodes=1) | training_graphs(max_nodes=10))
    if draw(st.booleans()):
        once = draw(st.lists(st.booleans(), min_size=graph.n_nodes, max_size=graph.n_nodes))
        graph = replace(graph, once=graph.once | once, derivation=None)
    assume(graph.n_values + graph.once.sum() <= FEW)
    return graph


def found_within(graph, limit, **options):
    """The best of the search's candidates within a limit, None if none is."""
    within = [each for each in list_candidates(graph, SEARCH.name, limit, **options) if each.figures[0] <= limit]
    return min(within, key=lambda each: (each.figures[1], each.bound is None), default=None)


def optimum(graph, limit):
    """By the oracle; None: nothing fits."""
    best = live_sets.least_compute(graph, limit)
    return None if best is None else best[0]


def permuted(graph, seed):
    """The same nodes, numbered in another topological order; all are forward."""
    rng, g = np.random.default_rng(seed), plain(graph)
    order, left = [], set(g.nodes)
    while left:
        ready = sorted(v for v in left if not set(g.predecessors(v)) & left)
        order.append(int(rng.choice(ready)))
        left.remove(order[-1])
    place = {v: i for i, v in enumerate(order)}
    edges = [(place[u], place[v]) for v in g.nodes for u in g.predecessors(v)]
    arrays = (np.array(row)[order] for row in (g.memory, g.compute, g.workspace))
    memory, compute, workspace = arrays
    return ComputationGraph.from_edges(edges, memory, compute, workspace=workspace, n_nodes=len(order))


# ---------------------------------------------------------------- against the oracle


@settings(max_examples=25)
@given(graph=small(), more=st.integers(0, 12))
def test_the_optimum_is_the_oracles_at_every_limit(graph, more):
    lowest, _ = live_sets.least_peak(graph)
    limit = lowest + more
    best = found_within(graph, limit)
    slow = slow_simulation(graph, best.schedule.order)
    assert slow.peak <= limit
    assert best.bound == slow.compute == optimum(graph, limit)
    assert (best.scope, best.details["proof"]) == ("any order", OPTIMAL)


@settings(max_examples=25)
@given(graph=small(), less=st.integers(1, 5))
def test_nothing_fits_where_the_oracle_finds_nothing(graph, less):
    lowest, _ = live_sets.least_peak(graph)
    assume(lowest >= less)
    *_, last = list_candidates(graph, SEARCH.name, lowest - less)
    assert last.peak_bound == last.figures[0] == lowest
    assert last.figures[1] == optimum(graph, lowest)
    assert solve(graph, "least", solver=SEARCH.name, raw=True).peak_memory == lowest
    with pytest.raises(BudgetError) as error:
        solve(graph, lowest - less, solver=SEARCH.name, raw=True)
    assert error.value.reached == lowest


@given(graph=small())
def test_the_frontier_is_the_oracles(graph):
    curve = {}
    for found in list_candidates(graph, SEARCH.name):
        curve[found.figures[0]] = min(found.figures[1], curve.get(found.figures[0], found.figures[1]))
    lowest, _ = live_sets.least_peak(graph)
    for limit in range(max(0, lowest - 1), baseline_peak(graph) + 1):
        within = [compute for peak, compute in curve.items() if peak <= limit]
        assert min(within, default=None) == optimum(graph, limit)


@given(graph=small(), max_states=st.integers(1, 60), more=st.integers(0, 6))
def test_the_bound_of_a_search_that_was_stopped_is_a_bound(graph, max_states, more):
    limit = live_sets.least_peak(graph)[0] + more
    for found in list_candidates(graph, SEARCH.name, limit, max_states=max_states):
        assert found.bound is None or found.bound <= optimum(graph, limit)
        assert found.peak_bound is None or found.peak_bound <= limit
        assert found.details.get("proof") != OPTIMAL or found.figures[1] == optimum(graph, limit)


@settings(max_examples=25)
@given(graph=small(), more=st.integers(0, 8))
def test_potentials_change_no_optimum(graph, more):
    """Every search that is not over after one set begins anew with potentials."""
    limit = live_sets.least_peak(graph)[0] + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.solvers.tuning.MAX_STATES_ALONE", 1)
        assert found_within(graph, limit).bound == optimum(graph, limit)
        for found in list_candidates(graph, SEARCH.name, limit, max_states=9):
            assert found.bound is None or found.bound <= optimum(graph, limit)


def test_a_potential_takes_a_share_for_each_node():
    search = live_set_graph(training_chain(2), np.arange(4, dtype=np.int32)).start(9, 9)
    with pytest.raises(ValueError, match="one share for each node"):
        search.add_potential(0, 1, np.zeros(3, np.int64), 0)


def test_potentials_are_lower_bounds_that_the_closure_bound_knows():
    """The potential of the empty set is the closure bound before it is rounded up."""
    graph = training_chain(
        12, memory=[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], compute=[2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5]
    )
    n_stronger = 0
    for limit in range(30, baseline_peak(graph)):
        arrays = live_set_graph(graph, np.arange(24, dtype=np.int32))
        potentials = moment_potentials(arrays, limit, 3)
        closure = overhead_bound(graph, limit).amount - graph.needed_compute
        need = max((each.need for each in potentials), default=0) / 2**PRICE_BITS
        assert closure - 1 <= need <= closure + 1e-3
        assert all((each.share <= graph.compute * 2**PRICE_BITS).all() for each in potentials)
        n_stronger += need > 0
    assert n_stronger > 5


def test_updates_come_after_the_last_run_that_reads_what_they_change():
    """0 reads a parameter; 2, the gradient of 1, reads x of 0; 3 changes the parameter and frees the gradient.

    Value x is dropped while 1 runs with its workspace, so node 0 runs again: not after 3.
    """
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 3, 4],
        read_indices=[0, 0, 1, 2],
        memory=[4, 1, 2, 0],
        workspace=[0, 2, 0, 0],
        output=[False, False, False, True],
        once=[False, False, False, True],
        forward_of=[-1, -1, 0, 0],
        resident=Resident(memory=[1], role=[1], read_indptr=[0, 1, 1, 1, 2], read_indices=[0, 0], names=["w"]),
    )
    assert graph.updates.tolist() == [False, False, False, True]
    for limit in range(7, 10):
        best = found_within(graph, limit)
        assert best.bound == optimum(graph, limit) == slow_simulation(graph, best.schedule.order).compute


@given(data=st.data())
def test_what_an_update_changes_is_not_read_afterwards(data):
    """Two layers with a parameter each; values and gradients of any size."""
    memory = data.draw(st.lists(st.integers(0, 4), min_size=6, max_size=6))
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 3, 5, 6, 8, 9],
        read_indices=[0, 0, 1, 0, 2, 2, 3, 0, 5],
        memory=[*memory, 0],
        workspace=data.draw(st.lists(st.integers(0, 3), min_size=7, max_size=7)),
        output=[False, False, False, False, True, False, True],
        once=[False] * 6 + [True],
        forward_of=[-1, -1, 1, 0, 0, 1, 1],
        resident=Resident(
            memory=[1], role=[1], read_indptr=[0, 1, 2, 2, 3, 3, 3, 4], read_indices=[0] * 4, names=["w"]
        ),
    )
    lowest, _ = live_sets.least_peak(graph)
    for limit in range(lowest, lowest + 4):
        best = found_within(graph, limit)
        assert best.bound == optimum(graph, limit) == slow_simulation(graph, best.schedule.order).compute


# ---------------------------------------------------------------- examples


def hard_for_two_runs():
    return differentiate(
        ComputationGraph.from_edges(
            [(0, 1), (1, 2), (1, 3), (1, 4), (2, 4), (4, 5)], [1, 8, 5, 6, 5, 8], [5, 6, 6, 5, 6, 7], n_nodes=6
        )
    )


def test_six_nodes_that_auto_did_not_solve():
    """80 % of 47 B: no other solver finds a schedule within 37 B."""
    plan = solve(hard_for_two_runs(), "80%")
    assert (plan.limit, plan.peak_memory, plan.simulation.compute, plan.bound.amount, plan.gap) == (
        37,
        37,
        146,
        146,
        0,
    )
    least = solve(hard_for_two_runs(), "least")
    assert (least.peak_memory, least.simulation.compute) == (36, 156)


def test_an_impossible_budget_is_proved_to_be():
    """No step and no two paths need more than 15 bytes, but no schedule does with less than 16."""
    edges = [(0, 1), (1, 2), (0, 3), (2, 3), (1, 4), (3, 4)]
    graph = differentiate(ComputationGraph.from_edges(edges, memory=[2, 1, 1, 3, 4]))
    with pytest.raises(BudgetError, match="none exists in any order, as live_set_search proved") as error:
        solve(graph, 15)
    assert (error.value.reached, error.value.lower_bound) == (16, 15)


def test_a_plan_of_auto_is_optimal_whoever_found_it_first():
    graph = training_chain(6)
    plan = solve(graph, 6)
    assert plan.gap == 0
    assert plan.bound.amount == plan.simulation.compute > graph.needed_compute


@pytest.mark.parametrize("seed", range(4))
def test_other_ids_have_the_same_optimum(seed):
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(max(0, v - 3), v)), v) for v in range(1, 7)] + [(0, 4), (2, 6)]
    graph = ComputationGraph.from_edges(
        sorted(set(edges)), rng.integers(1, 9, 7), rng.integers(1, 9, 7), workspace=rng.integers(0, 3, 7), n_nodes=7
    )
    graph = differentiate(graph)
    curves = []
    for each in graph, permuted(graph, seed), permuted(graph, seed + 9):
        plans = frontier(each, solvers=[SEARCH.name]).plans
        curves.append([(plan.peak_memory, plan.simulation.compute) for plan in plans])
    assert curves[0] == curves[1] == curves[2]


def test_candidates_of_others_are_upper_bounds():
    """What is optimal already is only proved, with fewer sets."""
    graph = training_chain(12)
    alone = found_within(graph, 8)
    others = (evaluated(graph, alone.schedule),)
    *_, proved = live_set_search(graph, Task(8, candidates=others), Clock())
    assert proved.schedule is alone.schedule
    assert (proved.bound, proved.details["proof"]) == (alone.bound, OPTIMAL)
    assert proved.details["states"] < alone.details["states"]


def test_a_keep_mark_is_honoured_and_a_recompute_mark_refused():
    graph = training_chain(5)
    kept = replace(graph, mark=[1] + [0] * 9, derivation=None)
    within = baseline_peak(graph) - 2
    assert found_within(kept, within).bound == optimum(replace(kept, once=kept.mark == 1, mark=None), within)
    marked = replace(graph, mark=[2] + [0] * 9, derivation=None)
    with pytest.raises(GraphError, match="recompute marks"):
        solve(marked, "90%", solver=SEARCH.name)


def test_too_many_values_are_refused():
    assert few_values(training_chain(64)) is None
    with pytest.raises(GraphError, match="130 values"):
        solve(training_chain(65), solver=SEARCH.name)


def test_sets_of_more_than_64_values():
    graph = training_chain(40)
    assert graph.n_values == 80
    limit = baseline_peak(graph) - 3
    best = found_within(graph, limit)
    assert best.details["proof"] == OPTIMAL
    assert simulate(graph, best.schedule).compute == best.bound


def test_keys_of_more_than_32_bits():
    """Costs near 2**53 in all: the search is the same as with small ones."""
    compute = np.arange(1, 9)
    small, large = (
        training_chain(8, compute=compute * factor, memory=[3, 1, 2, 5, 1, 4, 2, 2]) for factor in (1, 2**45)
    )
    for limit in range(14, 24):
        one, other = found_within(small, limit), found_within(large, limit)
        assert (one is None) == (other is None)
        assert one is None or one.bound * 2**45 == other.bound


def test_a_search_that_is_stopped_keeps_what_is_known():
    graph = training_chain(30, memory=np.arange(30) % 7 + 1)
    limit = baseline_peak(graph) // 2
    known = Candidate(baseline(graph).schedule, simulation=baseline(graph))
    *_, last = live_set_search(graph, Task(limit, candidates=(known,)), Clock(), max_states=50)
    assert STOPPED in last.details["proof"]
    assert last.peak_bound <= last.figures[0] <= baseline_peak(graph)


def test_a_plan_says_what_was_proved():
    plan = solve(training_chain(9), 5, solver=SEARCH.name)  # above the closure bound
    assert "sets of live values; optimal" in str(plan)
    assert json.loads(json.dumps(plan.record()))["bound_source"] == SEARCH.name
