"""Bounds with a link: never above the time that any plan with copies needs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.bounds import link_bound, tuning
from remat_algos.bounds.bound import TIME, LowerBound, Prices
from remat_algos.bounds.closure import cuts_of, overhead_bound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.moments import choose_moments, moment_bound
from remat_algos.bounds.rising import prove, rising
from remat_algos.cost.links import LinkTimes
from remat_algos.errors import ArgumentError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import baseline_peak
from remat_algos.zoo.random import chain, layered_dag
from tests import strategies
from tests.oracles import copies_exhaustive, live_sets
from tests.raising import raises
from tests.test_bounds_moments import chains

STATES = 3000  # of the exhaustive search; about half a second


def small_graphs():
    """Up to four forward nodes with their gradients, or seven nodes; `once`, outputs, workspaces, several values."""
    training = strategies.graphs(max_nodes=4, min_nodes=2, room=9, seeded=True).map(differentiate)
    either = training | strategies.graphs(max_nodes=7, min_nodes=1, room=16)
    return either.filter(lambda graph: graph.needed.any() and graph.n_nodes <= 9)


@st.composite
def timed_graphs(draw):
    """A graph and the times of its copies; some in a unit so fine that HiGHS computes in another."""
    graph = draw(small_graphs())
    times = draw(link_times(graph))
    if draw(st.booleans()):
        finer = draw(st.integers(10**5, 10**6))
        times = LinkTimes(times.out_time * finer, times.in_time * finer)
        noise = draw(st.lists(st.integers(0, 9), min_size=graph.n_nodes, max_size=graph.n_nodes))
        graph = replace(graph, compute=graph.compute * finer + noise)
    return graph, times


@st.composite
def link_times(draw, graph):
    """Two rates and a latency, or any times."""
    if draw(st.booleans()):
        times = st.lists(st.integers(0, 12), min_size=graph.n_values, max_size=graph.n_values)
        return LinkTimes(draw(times), draw(times))
    latency = draw(st.integers(0, 2))
    rates = [draw(st.sampled_from([0.25, 0.5, 1.0, 4.0])) for _ in range(2)]
    leaves = (graph.memory > 0) & ~graph.output
    return LinkTimes(*(np.where(leaves, np.ceil(graph.memory / rate + latency), 0).astype(int) for rate in rates))


def limits(graph):
    """From below what no plan keeps within to what one pass needs."""
    most = baseline_peak(graph)
    return st.integers(max(0, min(most, live_sets.least_peak(graph)[0]) - 2), most)


def least_time(graph, limit, times=None):
    """The oracle's least time; None if nothing fits. Examples that take too long are left out."""
    arrays = () if times is None else (times.out_time.tolist(), times.in_time.tolist())
    try:
        return copies_exhaustive.least_time(graph, limit, *arrays, most=STATES)
    except RuntimeError:
        assume(False)


@given(data=st.data(), timed=timed_graphs())
def test_no_plan_with_copies_takes_less(data, timed):
    graph, times = timed
    limit, chain = data.draw(limits(graph)), data.draw(chains(graph, most=3))
    best = least_time(graph, limit, times)
    found = moment_bound(graph, limit, chain, times=times)
    assert found.amount >= graph.needed_compute
    if best is not None:
        assert found.amount <= best
        assert not found.infeasible
        assert not found.stopped


@given(data=st.data(), graph=small_graphs())
def test_the_oracle_without_copies_is_that_of_live_sets(data, graph):
    limit = data.draw(limits(graph))
    found = live_sets.least_compute(graph, limit)
    assert least_time(graph, limit) == (None if found is None else found[0])


@given(data=st.data(), timed=timed_graphs())
def test_a_link_never_raises_a_bound(data, timed):
    graph, times = timed
    limit, chain = data.draw(limits(graph)), data.draw(chains(graph))
    without, found = moment_bound(graph, limit, chain), moment_bound(graph, limit, chain, times=times)
    assert without.infeasible or (found.amount <= without.amount and not found.infeasible)


@given(data=st.data(), graph=small_graphs())
def test_a_slow_link_is_no_link(data, graph):
    limit, chain = data.draw(limits(graph)), data.draw(chains(graph))
    slow = LinkTimes(*np.full((2, graph.n_values), 10**6))
    without, found = moment_bound(graph, limit, chain), moment_bound(graph, limit, chain, times=slow)
    if not without.infeasible and not (without.stopped or found.stopped) and without.amount < 10**5:
        assert found.amount == without.amount


@given(data=st.data(), timed=timed_graphs())
def test_a_choice_of_moments_rises(data, timed):
    graph, times = timed
    limit = data.draw(limits(graph))
    first = data.draw(st.sampled_from(np.flatnonzero(graph.needed).tolist()))
    bounds = list(choose_moments(graph, limit, first, times=times, count=2))
    assert bounds[0] == moment_bound(graph, limit, [first], times=times)
    assert bounds[-1] == moment_bound(graph, limit, bounds[-1].nodes, times=times)
    computes = [found.amount for found in bounds if not found.infeasible]
    assert computes == sorted(set(computes))


def test_what_leaves_takes_its_time():
    """3 reads 0 and 2; when 2 runs, 0 does not fit. It is stored while 1 runs and loaded after 2, or runs again."""
    graph = ra.ComputationGraph.from_edges(
        [(0, 1), (1, 2), (2, 3), (0, 3)], memory=[2, 1, 1, 1], compute=10, workspace=[0, 0, 2, 0]
    )
    for time, least, bound in ((4, 44, 40), (8, 48, 40), (10, 50, 40), (11, 50, 42), (25, 50, 50)):
        times = LinkTimes([time] * 4, [time] * 4)
        assert least_time(graph, 4, times) == least
        assert moment_bound(graph, 4, [2], times=times).amount == bound


def test_link_times_of_another_graph_are_refused():
    graph = ra.ComputationGraph.from_edges([(0, 1)])
    for times in (LinkTimes([1], [1]), LinkTimes([1, -1], [1, 1])):
        with raises(ArgumentError, shape=times.out_time.shape):
            moment_bound(graph, 9, [1], times=times)


@given(data=st.data(), timed=timed_graphs())
def test_no_plan_takes_less_than_prices_prove(data, timed):
    graph, times = timed
    limit = data.draw(limits(graph))
    best = least_time(graph, limit, times)
    bounds = [LowerBound(graph.needed_compute, of=TIME), *cuts_of(graph, times).bounds(limit, None, bool)]
    found = bounds[-1]
    assert [each.amount for each in bounds[:-1]] == sorted({each.amount for each in bounds[:-1]})
    assert best is None or (found.amount <= best and not found.infeasible)
    assert found.infeasible or prove(graph, limit, found, times=times).amount >= found.amount


@pytest.mark.parametrize("many", [0, 10**6])
def test_every_bound_is_proven_again_from_its_node_and_prices_alone(monkeypatch, many):
    """Of large graphs begins of stores are counted in a part, which must not depend on the node."""
    monkeypatch.setattr("remat_algos.bounds.tuning.MANY_NODES", many)
    rising = 0
    for seed in (0, 4, 7):
        graph = differentiate(layered_dag(16, reach=8, seed=seed))
        times = LinkTimes(10 * graph.memory, graph.memory)
        for share in (0.5, 0.6):
            limit = int(share * baseline_peak(graph))
            found = cuts_of(graph, times).bounds(limit, None, bool)
            bounds = [each for each in found if each.prices is not None]
            assert [prove(graph, limit, each, times=times).amount for each in bounds] == [
                each.amount for each in bounds
            ]
            rising += len({each.nodes for each in bounds}) > 1
    assert rising > 2


@given(data=st.data(), timed=timed_graphs())
def test_no_plan_takes_less_than_any_prices_prove(data, timed):
    graph, times = timed
    limit = data.draw(limits(graph))
    best = least_time(graph, limit, times)
    node = data.draw(st.sampled_from(np.flatnonzero(graph.needed).tolist()))
    share = st.floats(0, 1)
    out = [
        (data.draw(st.integers(0, graph.needed_compute)), data.draw(share)) for _ in range(data.draw(st.integers(0, 3)))
    ]
    prices = Prices(
        data.draw(st.floats(0, 10)) * graph.needed_compute,
        tuple((start, price / max(1, len(out))) for start, price in out),
        data.draw(share),
    )
    proven = prove(graph, limit, LowerBound(0, (node,), prices, TIME), times=times).amount
    assert best is None or proven <= best


@given(data=st.data(), timed=timed_graphs())
def test_prices_prove_no_more_than_the_integer_program(data, timed):
    graph, times = timed
    limit = data.draw(limits(graph))
    found = overhead_bound(graph, limit, link=times)
    if found.nodes:
        whole = moment_bound(graph, limit, found.nodes, times=times)
        assert whole.infeasible == found.infeasible
        assert found.infeasible or found.amount <= whole.amount * (1 + 1e-6) + 1


@given(data=st.data(), graph=small_graphs())
def test_prices_of_a_slow_link_prove_what_the_closure_does(data, graph):
    limit = data.draw(limits(graph))
    closure = overhead_bound(graph, limit)
    slow = LinkTimes(*np.full((2, graph.n_values), 10**6))
    if closure.nodes and not closure.infeasible:
        found = overhead_bound(graph, limit, link=slow)
        assert found.amount >= closure.amount - max(1, graph.needed_compute // 10)


@given(data=st.data(), timed=timed_graphs())
def test_a_search_that_starts_at_a_bound_proves_as_much(data, timed):
    graph, times = timed
    limit = data.draw(limits(graph))
    found = overhead_bound(graph, limit, link=times)
    if found.prices is not None:
        assert overhead_bound(graph, limit, link=times, start=found).amount >= found.amount


def test_each_start_of_late_stores_raises_the_bound_of_a_moment(monkeypatch):
    """A chain with large values in the middle, whose stores cannot begin early."""
    memory, compute = [9, 10, 15, 19, 1, 3, 16, 19], [8, 10, 26, 13, 8, 25, 8, 12]
    graph = differentiate(chain(8, memory=memory, compute=compute))
    times, limit = LinkTimes(3 * graph.memory, graph.memory), baseline_peak(graph) // 2
    found = []
    for starts in (0, 1, 2, tuning.LATE_STARTS):
        monkeypatch.setattr("remat_algos.bounds.tuning.LATE_STARTS", starts)
        found.append(moment_bound(graph, limit, [7], times=times).amount)
    assert found[0] <= found[1] < found[2] <= found[3] == 318


def test_a_cut_by_hand_pays_for_an_output_that_runs_before_the_moment():
    """Node 1 runs before the moment of node 0 for 0.5 * 10 and 4 bytes at 0.5, or after it for 10."""
    graph = ra.ComputationGraph.from_arrays(read_indptr=[0, 0, 0], read_indices=[], memory=[1, 4], compute=10)
    moment = link_bound._PricedMoment(graph, 1, LinkTimes([1, 1], [1, 1]), 0, np.zeros(2, np.int64))
    bound, line = moment.cut(Prices(0.5, ((0, 0.5),)))
    assert (bound, line.before, line.after, line.over) == (17, 10, 0, 4)


def test_prices_above_those_of_a_link_are_refused():
    graph = ra.ComputationGraph.from_edges([(0, 1)])
    times = LinkTimes([1, 1], [1, 1])
    for prices in (Prices(1.0, ((0, 0.6), (0, 0.6))), Prices(1.0, into=1.5)):
        with pytest.raises(ValueError, match="prices"):
            prove(graph, 1, LowerBound(0, (1,), prices, TIME), times=times)


@given(data=st.data(), timed=timed_graphs())
def test_bounds_of_every_effort_rise_and_stay_below_the_least_time(data, timed):
    graph, times = timed
    limit, effort = data.draw(limits(graph)), data.draw(st.sampled_from(["fast", "default", "best"]))
    best = least_time(graph, limit, times)
    bounds = list(rising(graph, limit, times=times, effort=effort, last=data.draw(st.booleans())))
    none_fits = limit < least_peak_bound(graph, copies=True)[0]
    assert bounds[0] == LowerBound(graph.needed_compute, of=TIME, infeasible=none_fits)
    assert len(bounds) == 1 or not none_fits
    amounts = [each.amount for each in bounds if not each.infeasible]
    assert amounts == sorted(set(amounts))
    assert best is None or (amounts[-1] <= best and not bounds[-1].infeasible)


def test_no_limit_needs_no_more_than_one_pass():
    graph = ra.ComputationGraph.from_edges([(0, 1)])
    assert list(rising(graph, None, times=LinkTimes([1, 1], [1, 1]))) == [LowerBound(2, of=TIME)]
