"""The closure bound: the relaxation that it claims to be, and never above what a schedule costs."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.closure import ClosureSearch

import remat_algos as ra
from remat_algos.bounds.bound import LowerBound, Prices
from remat_algos.bounds.closure import closure_cut, overhead_bound
from remat_algos.bounds.memory import (
    bytes_in_id_order,
    forced_bytes,
    least_peak_bound,
    one_pass_bound,
    one_pass_cuts,
)
from remat_algos.bounds.rising import prove
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.registry import build
from tests import strategies
from tests.benchmarks.layered_graphs import layered_graph
from tests.fuzz import bounds as fuzz
from tests.fuzz.campaign import run_case
from tests.fuzz.random_graphs import random_graph
from tests.oracles import closure, live_sets
from tests.oracles.plain import plain
from tests.raising import raises

GRAPHS = strategies.graphs(max_nodes=12, min_nodes=1) | strategies.training_graphs(max_nodes=16)
SMALL = strategies.graphs(max_nodes=6, min_nodes=1, room=16) | strategies.training_graphs(max_nodes=8)


@st.composite
def marked(draw, graphs):
    """Graphs of which some nodes are marked to be kept."""
    graph = draw(graphs)
    marks = st.lists(st.sampled_from([0, 0, KEEP]), min_size=graph.n_nodes, max_size=graph.n_nodes)
    return replace(graph, mark=draw(marks))


def marks_as_once(graph):
    """The same graph for those who do not read marks: what is to be kept must not run again."""
    kept = np.zeros(graph.n_nodes, bool) if graph.mark is None else graph.mark == KEEP
    return replace(graph, once=graph.once | kept, mark=None, derivation=None)


def any_graph(number):
    """A random graph of up to 40 nodes with every feature."""
    for attempt in range(100):
        try:
            graph = random_graph(random.Random(f"{number}/{attempt}"))
        except GraphError:
            continue
        if graph.n_nodes <= 40:
            return graph
    raise AssertionError(f"no graph comes of {number}")


def limits_of(graph):
    """Limits from below the forced bytes to one pass's peak, falling."""
    low, high = least_peak_bound(graph)[0], baseline_peak(graph)
    some = {high, high - 1, (low + high) // 2, (3 * low + high) // 4, low, low - 1}
    return sorted((limit for limit in some if limit >= 0), reverse=True)


def chain(n=4, **arrays):
    """A chain of n nodes and its backward pass."""
    return ra.differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(n - 1)], n_nodes=n, **arrays))


def priced(price):
    """The price p / 2**k of a byte."""
    return Prices(Fraction(price[0], 2 ** price[1]))


def proven(graph, limit, node, price):
    """The bound that a node and a price prove."""
    return prove(graph, limit, LowerBound(0, (node,), priced(price))).amount


def hand_example():
    """Nine nodes; (bytes, cost):

    conv1 (8, 10) -> gelu1 (8, 2) -> conv2 (4, 10) -> gelu2 (4, 2) -> loss (1, 2)
    loss -> d_gelu2 (2, 4) -> d_conv2 (2, 20) -> d_gelu1 (2, 4) -> d_conv1 (2, 20)
    d_gelu2 also reads conv2, d_conv2 gelu1, d_gelu1 conv1
    """
    nodes = ["conv1", "gelu1", "conv2", "gelu2", "loss", "d_gelu2", "d_conv2", "d_gelu1", "d_conv1"]
    edges = [*pairwise(nodes), ("conv2", "d_gelu2"), ("gelu1", "d_conv2"), ("conv1", "d_gelu1")]
    memory = dict(zip(nodes, [8, 8, 4, 4, 1, 2, 2, 2, 2], strict=True))
    compute = dict(zip(nodes, [10, 2, 10, 2, 2, 4, 20, 4, 20], strict=True))
    return ComputationGraph.from_edges(edges, memory, compute)


# ---------------------------------------------------------------- the relaxation


@given(GRAPHS | marked(GRAPHS))
def test_forced_bytes_are_those_of_the_oracle(graph):
    forced = forced_bytes(graph)
    assert {v: int(forced[v]) for v in np.flatnonzero(graph.needed)} == closure.forced_bytes(graph)
    assert not forced[~graph.needed].any()


def test_the_bound_is_that_of_the_linear_program_it_relaxes():
    """On some of the 5,000 graphs of `python -m tests.fuzz bounds --count 5000`, at five limits each."""
    for number in range(20):
        report = run_case(fuzz.relaxations, 20, number)
        assert report.faults == []


def test_a_nine_node_example_by_hand():
    """When the loss runs, gelu2 and the loss are live, 5 bytes; conv1, gelu1 and conv2, 20 bytes, are read later.

    A byte below 25 costs a quarter where gelu1 (2 for 8 bytes) is recomputed; below 17 five quarters, conv1 (10 for 8
    bytes); below 9 ten quarters, conv2 (10 for 4 bytes). Overheads are even: so are all costs.
    """
    graph, one_pass = hand_example(), 74
    assert (baseline_peak(graph), least_peak_bound(graph)) == (25, (16, [1]))
    expected = {24: 2, 20: 2, 17: 4, 16: 6}  # below 20 conv2 has gelu1 beside it, and conv1 if that is to be live
    assert {limit: overhead_bound(graph, limit).amount - one_pass for limit in expected} == expected
    by_price = {(1, 2): {24: 2, 17: 2, 9: 4}, (5, 2): {17: 2, 16: 4, 9: 12}, (5, 1): {9: 12, 8: 16, 5: 22}}
    for price, overheads in by_price.items():
        for limit, overhead in overheads.items():
            assert proven(graph, limit, 4, price) - one_pass == overhead, (price, limit)
    names = ["conv1", "gelu1", "conv2"]
    for price, again in (((1, 3), []), ((1, 0), ["gelu1"]), ((2, 0), ["conv1", "gelu1"]), ((3, 0), names)):
        cut = closure_cut(graph, LowerBound(0, (4,), priced(price)))
        assert (cut.forced, cut.forced_values.tolist()) == (5, [3, 4])
        assert [graph.labels[v] for v in cut.recomputed] == again
        assert [graph.labels[x] for x in cut.kept] == [name for name in names if name not in again]


# ---------------------------------------------------------------- below every schedule


@given(data=st.data(), graph=GRAPHS | marked(GRAPHS))
def test_no_schedule_costs_less(data, graph):
    order = data.draw(strategies.orders(marks_as_once(graph)))
    found = simulate(graph, order)
    bound = overhead_bound(graph, found.peak_memory)
    assert not bound.infeasible
    assert graph.needed_compute <= bound.amount <= found.compute
    assert least_peak_bound(graph)[0] <= found.peak_memory


@given(SMALL | marked(SMALL))
def test_the_optimum_is_not_less(graph):
    try:
        moves = live_sets.Moves.of(marks_as_once(graph))
    except ValueError:  # too many values
        return
    for limit in limits_of(graph):
        bound, best = overhead_bound(graph, limit), live_sets.cheapest(moves, limit)
        if best is not None:
            assert not bound.infeasible
            assert bound.amount <= best[0]


@pytest.mark.parametrize("number", range(12))
def test_no_solver_is_better(number):
    """A slice of `python -m tests.fuzz bounds --count 5000`."""
    assert run_case(fuzz.case, 1, number).faults == []


# ---------------------------------------------------------------- limits


@given(GRAPHS | marked(GRAPHS))
def test_a_lower_limit_has_no_lower_bound(graph):
    bounds = [overhead_bound(graph, limit) for limit in limits_of(graph)]
    for above, below in pairwise(bounds):
        assert below.infeasible or (not above.infeasible and below.amount >= above.amount)


@given(GRAPHS)
def test_with_the_peak_of_one_pass_the_bound_is_one_pass(graph):
    for limit in (None, baseline_peak(graph), baseline_peak(graph) + 5, 2**62):
        assert overhead_bound(graph, limit).amount == graph.needed_compute
        assert not overhead_bound(graph, limit).nodes


@given(st.randoms(use_true_random=False), st.integers(0, 10**6))
def test_another_order_of_the_nodes_has_the_same_bound(rng, number):
    graph = any_graph(number)
    other = shuffled(graph, rng)
    for limit in limits_of(graph):
        one, two = overhead_bound(graph, limit), overhead_bound(other, limit)
        assert (one.amount, one.infeasible) == (two.amount, two.infeasible)
        assert not one.infeasible or min(one.forced, two.forced) > limit


def shuffled(graph, rng):
    """The graph with its nodes in another topological order; marks, values and residents are left out or kept apart."""
    g, order = plain(graph), []
    while len(order) < graph.n_nodes:
        ready = [v for v in g.nodes if v not in order and all(u in order for u in g.predecessors(v))]
        order.append(rng.choice(ready))
    values = [x for v in order for x in g.values[v]]
    place = {x: i for i, x in enumerate(values)}
    return ComputationGraph.from_arrays(
        **strategies.rows("read", [[place[x] for x in g.reads[v]] for v in order]),
        value_indptr=np.cumsum([0, *(len(g.values[v]) for v in order)]),
        memory=graph.memory[values],
        compute=graph.compute[order],
        workspace=graph.workspace[order],
        once=marks_as_once(graph).once[order],
        output=graph.output[values],
    )


@given(GRAPHS)
def test_below_the_forced_bytes_nothing_fits(graph):
    forced = forced_bytes(graph)
    bound = int(forced.max())
    if bound:
        found = overhead_bound(graph, bound - 1)
        assert (found.infeasible, found.forced, found.nodes) == (True, bound, (int(forced.argmax()),))
        assert found.amount == graph.needed_compute
        assert overhead_bound(graph, 0).infeasible


@given(GRAPHS)
def test_below_the_forced_bytes_no_cut_is_searched(graph):
    def look():
        raise AssertionError("a cut is searched")

    forced = int(forced_bytes(graph).max())
    assert forced == 0 or overhead_bound(graph, forced - 1, look=look).forced == forced


def test_what_nodes_that_run_once_force_together_is_a_proof_too():
    """When 4 runs, 1 and 2 are live, or 0, from which they are recomputed: it runs only once. Bytes:

    0 (5) -> 1 (4), 2 (4) -> 3 (1) -> 4 (9 of workspace) -> 5 (1) -> 6 (1)        5 reads 1 too, 6 reads 2
    """
    graph = ComputationGraph.from_edges(
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6), (2, 6)],
        memory=[5, 4, 4, 1, 0, 1, 1],
        workspace=[0, 0, 0, 0, 9, 0, 0],
        once=[True, *[False] * 6],
    )
    assert forced_bytes(graph)[4] == 10  # 3 and 4
    proof = overhead_bound(graph, 14)
    assert (proof.infeasible, proof.nodes, proof.forced) == (True, (4,), 15)
    assert not overhead_bound(graph, 15).infeasible
    assert live_sets.least_peak(graph)[0] >= 15


def test_graphs_at_the_edge():
    one = ComputationGraph.from_edges([], memory=[3], compute=[7], n_nodes=1)
    assert [overhead_bound(one, limit).infeasible for limit in (0, 2, 3)] == [True, True, False]
    assert overhead_bound(one, 3).amount == 7
    empty = ComputationGraph.from_arrays(read_indptr=[0], read_indices=[])
    assert least_peak_bound(empty) == (0, [])
    assert (overhead_bound(empty, 0).amount, overhead_bound(empty, 0).infeasible) == (0, False)
    free = chain(compute=0)
    assert overhead_bound(free, least_peak_bound(free)[0]).amount == 0


def test_costs_and_bytes_near_2_to_the_53():
    """The same as with small numbers, times what leaves the sums below 2**53."""
    small = chain(6, memory=[3, 1, 4, 1, 5, 9], compute=[2, 7, 1, 8, 2, 8])
    b, c = (2**53 // int(amount.sum() + 1) for amount in (small.memory, small.compute))
    large = small.with_costs(small.memory * b, small.compute * c)
    expensive, heavy = small.with_costs(compute=small.compute * c), small.with_costs(small.memory * b)
    for limit in range(least_peak_bound(small)[0], baseline_peak(small)):
        exact = closure.relaxed_overhead(small, limit)
        for graph, unit, factor in ((large, b, c), (expensive, 1, c), (heavy, b, 1)):
            overhead = overhead_bound(graph, limit * unit).amount - graph.needed_compute
            assert overhead == pytest.approx(closure.whole_steps(graph, exact * factor), rel=1e-9)


@pytest.mark.parametrize("size", [10, 10_000])
def test_bytes_that_must_stay_may_be_worth_more_than_all_nodes_together(size):
    """When 3 runs, 1 is live, or it is recomputed and 0 is live, which has a byte less. That byte costs what 1 does:

    0 (size, once) -> 1 (size + 1) -> 2 (1) -> 3 (1) -> 4 (1)        4 reads 1 too; every node costs 1
    """
    once, memory = [True, *[False] * 4], [size, size + 1, 1, 1, 1]
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)], memory=memory, once=once)
    assert [proven(graph, size + room, 3, (1, 0)) for room in (3, 2)] == [5, 6]


@pytest.mark.parametrize("total", [2**20, 2**53 - 1])
@given(graph=strategies.graphs(max_nodes=5, min_nodes=1))
def test_sums_of_costs_and_of_caps_are_those_that_the_kernel_allows(total, graph):
    """Those that its docstring states, below which no sum of flows overflows."""
    graph, made = graph.with_costs(compute=total // graph.n_nodes), []

    def search(arrays, single, cost, **units):
        made.append((cost, units["most"]))
        return ClosureSearch(arrays, single, cost, **units)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.bounds.closure.ClosureSearch", search)
        patch.setattr("remat_algos.bounds.memory.ClosureSearch", search)
        one_pass_bound(graph)
        proven(graph, 9, int(np.flatnonzero(graph.needed)[0]), (1, 0))
    assert len(made) == 2
    for cost, most in made:
        assert max(int(cost.sum()) + 1, most) * (graph.n_values + 2) <= 2**61


# ---------------------------------------------------------------- what proves a bound


@given(GRAPHS | marked(GRAPHS))
def test_node_and_price_prove_the_bound_again(graph):
    for limit in limits_of(graph):
        bound = overhead_bound(graph, limit)
        if bound.prices is None:
            assert closure_cut(graph, bound) is None or bound.infeasible
            continue
        assert prove(graph, limit, bound).amount == bound.amount
        cut = closure_cut(graph, bound)
        p, k = bound.prices.fraction
        live = cut.forced + int(graph.memory[cut.kept].sum())
        assert cut.forced == forced_bytes(graph)[bound.nodes[0]]
        overhead = int(graph.compute[cut.recomputed].sum()) * 2**k + p * (live - limit)
        assert overhead >= (bound.amount - graph.needed_compute - 1) * 2**k - 1  # one step is rounded up


@given(data=st.data(), graph=GRAPHS)
def test_every_node_and_price_prove_a_bound(data, graph):
    """However odd the price is."""
    order = data.draw(strategies.orders(graph))
    found = simulate(graph, order)
    node = data.draw(st.sampled_from(np.flatnonzero(graph.needed).tolist()))
    price = data.draw(st.tuples(st.integers(0, 2**70), st.integers(0, 200)))
    assert graph.needed_compute <= proven(graph, found.peak_memory, node, price) <= found.compute


def test_a_limit_of_any_size_proves_something():
    graph = chain()
    for limit in (-1, 0, 2**62, 2**80):
        assert proven(graph, limit, 2, (2**53, 0)) == graph.needed_compute


def test_a_moment_that_is_none_is_refused():
    graph = chain()
    with raises(ArgumentError, node=99):
        proven(graph, 3, 99, (1, 0))
    with raises(ArgumentError, price="-1"):
        proven(graph, 3, 0, (-1, 0))


@given(GRAPHS)
def test_a_start_does_no_harm(graph):
    before = None
    for limit in limits_of(graph):
        alone, after = overhead_bound(graph, limit), overhead_bound(graph, limit, start=before)
        assert (alone.amount, alone.infeasible) == (after.amount, after.infeasible)
        before = after


def test_the_search_can_be_stopped_between_its_portions():
    class Stopped(Exception):
        pass

    def look():
        raise Stopped

    graph = chain()
    with pytest.raises(Stopped):
        overhead_bound(graph, baseline_peak(graph) - 1, look=look)


@given(strategies.graphs(max_nodes=9, min_nodes=1))
def test_bytes_in_id_order_are_those_of_the_run_in_id_order(graph):
    run = simulate(replace(graph, mark=None), np.flatnonzero(graph.needed).tolist())
    assert bytes_in_id_order(graph)[graph.needed].tolist() == run.memory_trace.tolist()
    assert not bytes_in_id_order(graph)[~graph.needed].any()


@given(strategies.graphs(max_nodes=7, min_nodes=1))
def test_the_bound_of_one_pass_is_the_largest_over_nodes_of_the_least_over_what_has_run(graph):
    g = plain(graph)
    least = {}
    for chosen in range(2**graph.n_nodes):
        run = {v for v in g.needed() if chosen >> v & 1}
        if any(u not in run for v in run for u in g.predecessors(v)):
            continue
        waits = {
            x for v in run for x in g.values[v] if x in g.outputs or any(x in g.reads[w] for w in g.needed() - run)
        }
        for v in run:
            if not any(v in g.predecessors(w) for w in run):
                live = g.workspace[v] + sum(g.memory[x] for x in waits.union(g.values[v], g.reads[v]))
                least[v] = min(least.get(v, live), live)
    paths = least_peak_bound(replace(graph, mark=None, once=np.ones(graph.n_nodes, bool)))[0]
    assert max(one_pass_cuts(graph, Clock())) == max([*least.values(), paths])


def test_a_layered_graph_needs_more_than_one_pass_at_80_percent():
    """Nearly all of the bound comes from nodes that may run before or after its step."""
    graph = layered_graph(250, 0.43, 1)
    limit = baseline_peak(graph) * 8 // 10
    bound = overhead_bound(graph, limit)
    assert 100 * (bound.amount / graph.needed_compute - 1) == pytest.approx(0.534, abs=0.001)
    cut = closure_cut(graph, bound)
    needs = closure.ancestors(plain(graph), cut.node)
    assert cut.run_before.size
    assert not needs & {cut.node, *cut.run_before.tolist()}


def test_a_bound_of_8000_nodes():
    graph = ra.differentiate(build("lstm").graph)
    limit = baseline_peak(graph) // 2
    calls = []
    bound = overhead_bound(graph, limit, look=lambda: calls.append(1))
    overhead = 100 * (bound.amount - graph.needed_compute) / graph.needed_compute
    assert overhead == pytest.approx(4.605, abs=0.001)
    assert len(calls) > 1
    assert prove(graph, limit, bound).amount == bound.amount


@pytest.mark.parametrize("price", [None, (3, 2)])
def test_a_record_has_the_nodes_and_the_price_and_both_are_checked(price):
    graph = chain()
    bound = LowerBound(13, (2, 3), price and priced(price))
    again = LowerBound.claimed(graph, 13, bound.record(graph))
    assert again == bound
    with raises(ArgumentError, node=99):
        LowerBound(13, (2, 99), bound.prices).record(graph)
    with raises(ArgumentError, price="1/3"):
        LowerBound(13, (2,), Prices(Fraction(1, 3))).record(graph)


def test_a_bound_of_one_pass_has_no_cut():
    assert closure_cut(chain(), LowerBound(12)) is None
