"""Orders of one pass, against all of them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from remat_algos.bounds.memory import least_peak_bound, lowest_one_pass, one_pass_bound
from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.annealing import SearchKernel
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.one_pass import lower_passes, lowest_pass
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import layered_dag
from remat_algos.zoo.registry import build
from tests.benchmarks.layered_graphs import layered_graph
from tests.public import refusal
from tests.strategies import graphs, training_graphs

LAYERED = layered_graph(250, 0.43, seed=0)


def topological_orders(graph: ComputationGraph, begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    needed = {v for v in range(graph.n_nodes) if graph.needed[v]}
    if len(begun) == len(needed):
        yield begun
    for v in sorted(needed - set(begun)):
        if {int(graph.producer[x]) for x in graph.reads(v)} <= set(begun):
            yield from topological_orders(graph, (*begun, v))


@given(graphs(max_nodes=6))
def test_no_order_of_one_pass_is_lower_where_the_beam_holds_all_sets(graph):
    found = simulate(graph, lowest_pass(graph, beam=2**6))
    assert sorted(found.schedule.order.tolist()) == [v for v in range(graph.n_nodes) if graph.needed[v]]
    assert found.peak_memory == min(simulate(graph, order).peak_memory for order in topological_orders(graph))


@given(graphs(max_nodes=6))
def test_the_bound_of_one_pass_is_the_minimum_of_all_orders_and_its_order_has_it(graph):
    found = simulate(graph, lowest_pass(graph, beam=0, search=True))
    assert sorted(found.schedule.order.tolist()) == [v for v in range(graph.n_nodes) if graph.needed[v]]
    lowest = min(simulate(graph, order).peak_memory for order in topological_orders(graph))
    assert least_peak_bound(graph)[0] <= one_pass_bound(graph)[0] == lowest == found.peak_memory


@given(graphs(max_nodes=6))
def test_the_search_by_moves_reaches_the_minimum_of_all_orders(graph):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.bounds.memory.lowest_one_pass", lambda graph, above, known, look: (above, None))
        found = simulate(graph, lowest_pass(graph, beam=0, search=True, max_moves=3000))
        assert one_pass_bound(graph)[0] <= found.peak_memory
    assert found.peak_memory == min(simulate(graph, order).peak_memory for order in topological_orders(graph))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_nodes", [12, 20, 30])
def test_orders_of_up_to_30_nodes_are_proven(n_nodes, seed):
    for graph in (layered_graph(n_nodes, 0.4, seed), layered_dag(n_nodes, seed=seed)):
        found = simulate(graph, lowest_pass(graph, search=True, max_moves=1))
        assert found.peak_memory == one_pass_bound(graph)[0] <= simulate(graph, lowest_pass(graph)).peak_memory


def test_a_search_that_is_not_ended_has_a_bound(monkeypatch):
    """So is that of more values than the search takes, which is the bound by cuts alone."""
    graph = layered_dag(30, seed=4)
    above, known, lowest = least_peak_bound(graph)[0], baseline_peak(graph), one_pass_bound(graph)[0]
    found = []
    for states in (0, 20, 10**6):
        monkeypatch.setattr("remat_algos.bounds.tuning.MAX_STATES", states)
        found.append(lowest_one_pass(graph, above, known))
    assert [order is None for _, order in found] == [True, True, False]
    assert above <= found[0][0] <= found[1][0] <= found[2][0] == lowest
    assert lowest_one_pass(LAYERED, 5, 9) == (5, None)


def test_an_interrupt_ends_the_proof():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lowest_one_pass(layered_dag(30, seed=4), 0, 2**40, interrupt)


@given(training_graphs(max_nodes=12))
def test_each_order_of_the_search_is_lower_than_the_one_before(graph):
    unmarked = replace(graph, mark=None)
    peaks = [
        simulate(unmarked, each.schedule).peak_memory
        for each in lower_passes(graph, Clock(), np.random.SeedSequence(0))
    ]
    assert peaks == sorted(set(peaks), reverse=True)
    assert peaks[0] == baseline_peak(graph)
    assert least_peak_bound(unmarked)[0] <= peaks[-1] <= simulate(unmarked, lowest_pass(graph)).peak_memory


def test_the_search_is_lower_than_the_beam_on_a_layered_graph():
    beam = simulate(LAYERED, lowest_pass(LAYERED)).peak_memory
    searched = simulate(LAYERED, lowest_pass(LAYERED, search=True, max_moves=500_000)).peak_memory
    assert 100 * searched < 82 * baseline_peak(LAYERED) < 100 * beam


def test_the_same_seed_gives_the_same_order():
    first, again, other = (
        lowest_pass(LAYERED, search=True, max_moves=50_000, seed=seed).order.tolist() for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_the_search_keeps_updates_behind_the_last_read_of_a_parameter():
    graph = build("model:resnet18?optimizer=sgd").graph
    found = simulate(graph, lowest_pass(graph, search=True, max_moves=20_000))
    assert found.peak_memory <= baseline_peak(graph)


def test_sizes_whose_sum_is_above_32_bits():
    large = replace(LAYERED, memory=LAYERED.memory * 2**30)
    searched = simulate(large, lowest_pass(large, search=True, max_moves=100_000)).peak_memory
    assert searched < simulate(large, lowest_pass(large)).peak_memory
    free = replace(LAYERED, compute=np.zeros_like(LAYERED.compute))
    assert simulate(free, lowest_pass(free, search=True, max_moves=100_000)).peak_memory < baseline_peak(free)


def test_an_interrupt_or_a_deadline_keeps_the_best_order_so_far():
    def interrupt(done: int, total: int, stage: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = simulate(LAYERED, lowest_pass(LAYERED, search=True, progress=interrupt))
    assert found.peak_memory < baseline_peak(LAYERED)
    late = lowest_pass(LAYERED, search=True, time_limit=0)
    assert sorted(late.order.tolist()) == list(range(LAYERED.n_nodes))


@pytest.mark.parametrize("moves", [0, -1, 2.5, "many"])
def test_a_number_of_moves_below_one_is_refused(moves):
    with pytest.raises(refusal(moves, ValueError), match="give a whole number"):
        lowest_pass(LAYERED, search=True, max_moves=moves)


def test_runs_of_nodes_that_are_not_needed_are_left_out_of_a_start():
    graph = ComputationGraph.from_edges([(0, 1), (0, 2)], memory=[1, 1, 1], output=[False, True, False])
    kernel = SearchKernel.of(graph, max_runs=2)
    assert kernel.start(Schedule([0, 2, 1]), 9, goal=-1)
    assert kernel.best.order.tolist() == [0, 1]
    assert not kernel.start(Schedule([1, 0]), 9, goal=-1)
