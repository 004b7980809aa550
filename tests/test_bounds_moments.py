"""The moment bound: never above what a schedule within the limit needs, whatever the moments."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.bounds.closure import overhead_bound
from remat_algos.bounds.moments import _MomentChoice, _rows_of_bytes, choose_moments, moment_bound
from remat_algos.bounds.rising import rising
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.parts import KEEP
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.structure.reachability import descendants
from remat_algos.zoo.registry import build
from tests import strategies
from tests.oracles import live_sets
from tests.oracles.plain import plain
from tests.raising import raises


@st.composite
def chains(draw, graph, most=4):
    """Up to `most` needed nodes, each an ancestor of the next."""
    allowed, chain = graph.needed, []
    while allowed.any() and len(chain) < most:
        chain.append(draw(st.sampled_from(np.flatnonzero(allowed).tolist())))
        allowed = allowed & descendants(graph, chain[-1])
        allowed[chain[-1]] = False
    return chain


def small_graphs():
    """Graphs that the oracle can search, with `once`, read outputs, workspaces, several values."""
    return (strategies.graphs(max_nodes=9, min_nodes=1, room=24) | strategies.training_graphs(max_nodes=12)).filter(
        lambda graph: 0 < useful_bits(graph) <= 12
    )


def useful_bits(graph):
    """Values that the oracle keeps count of, 0 without outputs."""
    g = plain(graph)
    needed = g.needed()
    useful = g.outputs.union(*(g.reads[v] for v in needed))
    return len(useful) + sum(g.once[v] for v in needed)


@given(data=st.data(), graph=small_graphs())
def test_no_schedule_within_the_limit_needs_less(data, graph):
    chain = data.draw(chains(graph))
    least, _ = live_sets.least_peak(graph)
    limit = data.draw(st.integers(max(0, least - 2), max(least, baseline_peak(graph))))
    best = live_sets.least_compute(graph, limit)
    found = moment_bound(graph, limit, chain)
    if best is None:
        assert found.amount >= graph.needed_compute
    else:
        assert graph.needed_compute <= found.amount <= best[0]
        assert not found.infeasible
        assert not found.stopped


@given(data=st.data(), graph=small_graphs())
def test_it_is_never_below_the_closure_bound_of_its_moment(data, graph):
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    closure = overhead_bound(graph, limit)
    if closure.nodes and not closure.infeasible:
        assert moment_bound(graph, limit, closure.nodes).amount >= closure.amount


@given(data=st.data(), graph=small_graphs())
def test_it_never_falls_when_a_moment_is_added(data, graph):
    chain = data.draw(chains(graph))
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    left_out = data.draw(st.sets(st.sampled_from(chain), max_size=len(chain) - 1))
    fewer = [v for v in chain if v not in left_out]
    assert moment_bound(graph, limit, fewer).amount <= moment_bound(graph, limit, chain).amount


@given(data=st.data(), graph=strategies.graphs(max_nodes=12, min_nodes=1) | strategies.training_graphs())
def test_it_holds_for_every_schedule(data, graph):
    order = data.draw(strategies.orders(graph))
    simulation = simulate(graph, order)
    if graph.needed.any():
        found = moment_bound(graph, simulation.peak_memory, data.draw(chains(graph)))
        assert found.amount <= simulation.compute
        assert not found.infeasible


@given(data=st.data(), graph=small_graphs())
def test_without_time_it_is_one_pass_or_what_follows_at_once(data, graph):
    chain = data.draw(chains(graph))
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    found = moment_bound(graph, limit, chain, seconds=0)
    assert graph.needed_compute <= found.amount <= moment_bound(graph, limit, chain).amount


@given(data=st.data(), graph=small_graphs())
def test_a_keep_mark_counts_like_once(data, graph):
    chain = data.draw(chains(graph))
    limit = data.draw(st.integers(0, baseline_peak(graph)))
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=graph.n_nodes, max_size=graph.n_nodes)))
    marked = replace(graph, mark=np.where(kept, KEEP, 0))
    single = replace(graph, once=graph.once | kept, derivation=None)
    assert moment_bound(marked, limit, chain) == moment_bound(single, limit, chain)


def test_a_read_output_is_pinned():
    """2 holds 0, 1 and its own value: the output 0 stays, whatever runs again."""
    graph = ra.ComputationGraph.from_edges(
        [(0, 1), (1, 2), (2, 3)], memory=[4, 2, 2, 1], output=[True, False, False, True]
    )
    assert moment_bound(graph, 7, [2]).infeasible
    assert not moment_bound(graph, 8, [2]).infeasible


@pytest.mark.parametrize(
    ("nodes", "fields"),
    [
        ([], {"n_chain": 0}),
        ([0, 1, 2, 3, 4], {"n_chain": 5}),
        ([9], {"node": 9}),
        ([-1], {"node": -1}),
        ([2, 1], {"u": 2, "v": 1}),
    ],
)
def test_moments_that_are_no_chain_are_refused(nodes, fields):
    graph = ra.ComputationGraph.from_edges([(v, v + 1) for v in range(5)])
    with raises(ArgumentError, **fields):
        moment_bound(graph, 9, nodes)


@pytest.mark.parametrize(
    ("model", "share", "nodes", "percent"),
    [
        ("unet", 50, [68], 3.262),
        ("unet", 50, [65, 68], 3.5439),
        ("gpt2_small", 25, [307], 21.590),
        ("vit_b_16", 50, [228], 1.684),
    ],
)
def test_networks_reach_the_figures_of_the_study(model, share, nodes, percent):
    graph = ra.differentiate(build(model).graph)
    found = moment_bound(graph, baseline_peak(graph) * share // 100, nodes)
    assert not found.stopped
    assert 100 * (found.amount - graph.needed_compute) >= percent * graph.needed_compute


@given(data=st.data(), graph=small_graphs())
def test_a_choice_only_rises_and_stays_below_the_optimum(data, graph):
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], baseline_peak(graph)))
    first = data.draw(st.sampled_from(np.flatnonzero(graph.needed).tolist()))
    bounds = list(choose_moments(graph, limit, first))
    computes = [found.amount for found in bounds]
    assert computes == sorted(set(computes))
    assert computes[-1] <= live_sets.least_compute(graph, limit)[0]
    assert bounds[0].nodes == (first,)
    assert all(first in found.nodes for found in bounds)
    assert moment_bound(graph, limit, bounds[-1].nodes) == bounds[-1]


@given(data=st.data())
def test_rounded_rows_of_bytes_leave_out_nothing_that_fits(data):
    memory = np.array(data.draw(st.lists(st.integers(0, 40) | st.integers(0, 2**40), max_size=8)), np.int64)
    live = np.array(data.draw(st.lists(st.booleans(), min_size=memory.size, max_size=memory.size)), bool)
    slack = int(memory[live].sum()) + data.draw(st.integers(0, 3))
    for amounts in _rows_of_bytes(memory, slack):
        assert amounts.shape == memory.shape
        assert amounts[live].sum() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("memory", "slack", "rounded"),
    [
        # Two of three values of 3 bytes fit into 8.
        ([3, 3, 3], 8, [[0.5, 0.5, 0.5]]),
        # A value of 4 counts as one unit of 4 and as two of 2; 11 bytes are two units of 4 and five of 2.
        ([4, 4, 4, 2], 11, [[0.4, 0.4, 0.4, 0.2], [0.5, 0.5, 0.5, 0.0]]),
        ([5, 3], 7, []),
        ([3, 3, 3], 9, []),
    ],
)
def test_rounded_rows_of_bytes_by_hand(memory, slack, rounded):
    first, *rows = [row.tolist() for row in _rows_of_bytes(np.array(memory, np.int64), slack)]
    assert first == [each / slack for each in memory]
    assert rows == rounded
    assert list(_rows_of_bytes(np.array(memory, np.int64), 0)) == []


def test_a_choice_finds_the_second_moment_of_a_network():
    graph = ra.differentiate(build("unet").graph)
    *_, found = choose_moments(graph, baseline_peak(graph) // 2, 68, count=2)
    assert 100 * (found.amount - graph.needed_compute) >= 3.5439 * graph.needed_compute


def test_after_a_search_there_are_more_moments():
    graph = ra.differentiate(build("unet").graph)
    limit = baseline_peak(graph) // 2
    counts = [[len(bound.nodes) for bound in rising(graph, limit, last=last)][-1] for last in (False, True)]
    assert counts == [1, 2]


def test_a_program_gets_more_time_on_a_busy_machine():
    graph = ra.ComputationGraph.from_edges([(v, v + 1) for v in range(5)])
    choice = _MomentChoice(graph, 9, 20.0, Clock())
    choice.stopwatch = SimpleNamespace(passed=10, spent=5)
    assert 1.9 < choice._seconds(1.0) < 2.1
    assert 29 < choice._seconds(100.0) < 31
    assert not choice.late
    choice.stopwatch = SimpleNamespace(passed=30, spent=20)
    assert choice.late
    choice.clock = Clock(1.0)
    choice.stopwatch = SimpleNamespace(passed=10, spent=1)
    assert choice._seconds(1.0) <= 1.0


def test_a_choice_ends_with_its_time_and_with_its_caller():
    graph = ra.differentiate(build("resnet50").graph)
    bounds = list(choose_moments(graph, baseline_peak(graph) // 4, 181, seconds=0))
    assert [found.nodes for found in bounds] == [(181,)]

    def interrupt(*_):
        raise KeyboardInterrupt

    clock = Clock(progress=interrupt)
    clock.stage(2, "programs")
    with pytest.raises(KeyboardInterrupt):
        next(choose_moments(graph, baseline_peak(graph) // 4, 181, clock=clock))


def test_a_schedule_of_exactly_as_many_bytes_as_fit_is_not_cut_off():
    """Sizes of some hundred million bytes, and a loss of four: HiGHS takes what differs by 1e-6 for equal."""
    graph = ra.differentiate(build("vit", depth=1).graph)
    node = next(v for v in range(graph.n_nodes) if graph.labels[v] == "grad(encoder.layers.0.mlp.gelu)")
    for solver in ("approximate_dp", "chen_greedy", "twremat"):
        plan = ra.solve(graph, "least", solver=solver, effort="fast")
        assert moment_bound(graph, plan.peak_memory, [node]).amount <= plan.simulation.compute
