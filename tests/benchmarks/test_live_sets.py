"""The exact search over live sets: how long it takes, and how many sets it visits."""

import os

import numpy as np
import pytest

from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.registry import list_candidates
from remat_algos.structure.live_sets import live_set_graph
from tests.benchmarks.optima import golden, graph_of

ENTRIES = {entry["name"]: entry for entry in golden()}


def proved(graph, limit):
    return list_candidates(graph, "live_set_search", limit)[-1]


@pytest.mark.parametrize(
    "name",
    ["chain 9", "near dag 7", "attention 1", "residual 18", "chain 25", "u-shape 16", "lstm 3", "two towers 8"],
)
def test_live_set_search_at_the_lowest_golden_limit(benchmark, name):
    """The lowest limit that has a schedule."""
    entry = ENTRIES[name]
    graph = graph_of(entry)
    limit, compute = min(pair for pair in entry["optima"] if pair[1] is not None)
    found = benchmark.pedantic(proved, (graph, limit), rounds=3, warmup_rounds=1)
    assert found.figures[1] == compute
    overhead = 100 * (compute / graph.needed_compute - 1)
    benchmark.extra_info.update(
        cores=os.cpu_count(), nodes=graph.n_nodes, sets=found.details["states"], overhead=f"{overhead:.1f}%"
    )


def test_a_million_sets_of_live_values(benchmark):
    """A search of the kernel that does not end, at half of the peak of one pass: time and bytes of a set."""
    graph = graph_of(ENTRIES["u-shape 16"])
    arrays = live_set_graph(graph, np.arange(graph.n_nodes, dtype=np.int32))

    def run():
        search = arrays.start(baseline_peak(graph) // 2, 2**62)
        search.advance(2**40, 1_000_000)
        return search

    search = benchmark.pedantic(run, rounds=3)
    assert search.n_states >= 1_000_000
    benchmark.extra_info.update(
        cores=os.cpu_count(),
        nodes=graph.n_nodes,
        sets=search.n_states,
        bytes_of_a_set=round(search.state_bytes / search.n_states),
    )
