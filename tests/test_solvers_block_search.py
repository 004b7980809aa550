"""Blocks searched exactly and combined along the chain: never below the optimum, and equal blocks searched once."""

from dataclasses import replace

import numpy as np
import pytest

import remat_algos.solvers.block_search as module
from remat_algos.context import SearchContext
from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.models.registry import build
from remat_algos.plan.solve import solve
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.block_search import block_search
from remat_algos.solvers.registry import list_candidates


def diamonds(count, once=()):
    """Blocks in a row, each of two branches: entry, left and right, exit."""
    edges, node = [], 0
    for _ in range(count):
        edges += [(node, node + 1), (node, node + 2), (node + 1, node + 3), (node + 2, node + 3), (node + 3, node + 4)]
        node += 4
    memory = [2, 5, 3, 4] * count + [1]
    compute = [1, 6, 2, 3] * count + [1]
    flags = np.isin(np.arange(node + 1), list(once))
    return differentiate(ComputationGraph.from_edges(edges, memory, compute, once=flags))


@pytest.mark.parametrize("once", [(), (1,), (6,), (1, 2, 6)], ids=str)
def test_schedules_of_blocks_are_sound_and_above_the_optimum(once):
    graph, n_optimal = diamonds(2, once), 0
    for limit in range(baseline_peak(graph) * 6 // 10, baseline_peak(graph), 3):
        optimum = list_candidates(graph, "live_set_search", limit)[-1]
        for found in list_candidates(graph, "block_search", limit):
            assert found.bound is None
            assert (simulate(graph, found.schedule).runs[graph.once] <= 1).all()
            if found.figures[0] <= limit:
                assert found.figures[1] >= optimum.figures[1]
                n_optimal += found.figures[1] == optimum.figures[1]
    assert n_optimal > 0


def test_equal_blocks_are_searched_once(monkeypatch):
    calls = []

    def counted(graph, *rest):
        calls.append(graph.n_nodes)
        return search(graph, *rest)

    search = module.best_within
    monkeypatch.setattr(module, "best_within", counted)
    counts = []
    for blocks in (4, 5, 6):
        calls.clear()
        list(block_search(diamonds(blocks), None, SearchContext()))
        counts.append(len(calls))
    assert counts[0] == counts[1] == counts[2] > 0


def test_blocks_that_are_too_large_run_in_order_of_their_ids(monkeypatch):
    monkeypatch.setattr(module, "MAX_VALUES", 0)
    monkeypatch.setattr(module, "best_within", None)
    graph = diamonds(4)
    figures = [found.figures for found in block_search(graph, None, SearchContext()) if found.simulation]
    assert min(figures)[0] < baseline_peak(graph)


def test_a_transformer_with_masks_that_are_drawn_once():
    graph = differentiate(build("gpt2", sequence=16, depth=2, width=8, heads=2).graph)
    assert graph.once.any()
    recomputed = 0
    for found in list_candidates(graph, "block_search", max_states=300):
        runs = simulate(graph, found.schedule).runs
        assert (runs[graph.once] == 1).all()
        recomputed += (runs > 1).any()
    assert recomputed > 0


def test_optimizers_run_after_the_last_reader():
    graph = build("feed_forward", depth=4, optimizer="sgd").graph
    for found in list_candidates(graph, "block_search"):
        simulate(graph, found.schedule)  # refuses a read after the update


def test_graphs_that_are_no_chain_of_blocks_are_refused():
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]))
    with pytest.raises(GraphError, match="the forward part is no chain"):
        solve(graph, solver="block_search")
    with pytest.raises(GraphError, match="the forward part is no chain"):
        list(block_search(graph, None, SearchContext()))
    marked = replace(diamonds(2), mark=[1] + [0] * (diamonds(2).n_nodes - 1), derivation=None)
    with pytest.raises(GraphError, match="does not serve graphs with marks; remove them"):
        solve(marked, solver="block_search")
    with pytest.raises(ValueError, match="max_states"):
        solve(diamonds(2), solver="block_search", max_states=0)


def test_a_block_may_keep_less_than_the_value_that_passes():
    reads = [[], [0], [1], [0, 2], [2], [1], [4, 5], [0], [6, 7]]
    graph = ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0, *map(len, reads)]),
        read_indices=[x for row in reads for x in row],
        memory=[9, 6, 3, 8, 3, 6, 6, 9, 9],
        compute=[6, 3, 2, 1, 0, 0, 7, 0, 0],
        workspace=[0, 0, 0, 0, 0, 0, 5, 0, 0],
        once=np.arange(9) == 3,
        output=np.isin(np.arange(9), [0, 1, 2, 8]),
        forward_of=[-1, -1, -1, -1, 2, 1, 1, 0, 0],
    )
    for limit in (25, None):
        for found in list_candidates(graph, "block_search", limit):
            simulate(graph, found.schedule)
