"""The exact search over live sets against the plain one, against Revolve, and against the hand; golden optima."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.ir.graph import ComputationGraph
from remat_algos.search.solve import solve
from tests.benchmarks.random_dags import COUNT, FAMILIES, golden, random_dags
from tests.ladders import counterexample, ladder, skip_ladder, zigzag
from tests.oracles import live_sets, search
from tests.oracles.revolve import least_ladder_compute
from tests.oracles.simulation import slow_simulation
from tests.strategies import graphs


@st.composite
def small(draw, min_nodes):
    """So few values that the search need not be compiled; two nodes have at most 6, and 2 that run once."""
    for most in (6, 4, 2):
        graph = draw(graphs(min_nodes=min_nodes, max_nodes=most))
        if graph.n_values + graph.once.sum() <= 9:
            break
    return graph


@given(graph=small(min_nodes=0))
def test_least_peak_is_what_the_plain_search_finds(graph):
    peak, order = live_sets.least_peak(graph)
    assert peak == search.least_peak(graph)[0] == slow_simulation(graph, order).peak


@given(graph=small(min_nodes=1), more=st.integers(-1, 6))
def test_least_compute_is_what_the_plain_search_finds(graph, more):
    limit = live_sets.least_peak(graph)[0] + more
    found, wanted = live_sets.least_compute(graph, limit), search.least_compute(graph, limit)
    if more < 0:
        assert found is wanted is None
    else:
        slow = slow_simulation(graph, found[1])
        assert found[0] == wanted[0] == slow.compute
        assert slow.peak <= limit


def test_an_output_that_runs_again_has_a_second_copy():
    """A makes x, an output, and y, 2 bytes each; B reads x and makes b, 1 byte; C reads y and b and makes 1 byte.

    A 4, B with its workspace x 2 + y 2 + b 1 + 3 = 8, C 6. Without y B needs 6; but A again needs both copies of x:
    x 2 + b 1 + x 2 + y 2 = 7.
    """
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 3],
        read_indices=[0, 1, 2],
        value_indptr=[0, 2, 3, 4],
        memory=[2, 2, 1, 1],
        workspace=[0, 3, 0],
        output=[True, False, False, True],
    )
    assert live_sets.least_compute(graph, 8) == (3, [0, 1, 2])
    assert live_sets.least_compute(graph, 7) == (4, [0, 1, 0, 2])
    assert live_sets.least_compute(graph, 6) is None
    assert live_sets.least_peak(graph) == (7, [0, 1, 0, 2])


def test_more_than_22_values_are_refused():
    with pytest.raises(ValueError, match="24 values"):
        live_sets.least_peak(ladder(11))


# ---------------------------------------------------------------- random graphs and their golden optima


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_optima_are_what_the_search_finds(family):
    optima = golden()[family]
    assert len(optima) == COUNT
    first = list(islice(zip(random_dags(family), optima, strict=True), 20))
    for graph, optimum in sorted(first, key=lambda pair: pair[0].n_nodes)[:5]:
        assert live_sets.least_peak(graph)[0] == optimum


@pytest.mark.parametrize("family", FAMILIES)
def test_no_plan_is_below_the_golden_optimum(family):
    for graph, optimum in islice(zip(random_dags(family), golden()[family], strict=True), 10):
        assert solve(graph, "least", effort="fast").peak_memory >= optimum


# ---------------------------------------------------------------- ladders


@pytest.mark.parametrize("length", range(5))
def test_revolve_is_optimal_for_ladders(length):
    graph = ladder(length)
    for limit in range(2, length + 4):
        found = live_sets.least_compute(graph, limit)
        assert least_ladder_compute(length, limit) == (found and found[0])


def test_costs_of_the_ladder_of_22_nodes():
    """At limit 3: 11 runs up to f10 and 10 up to f9, one of them kept; then 9 + .. + 1 from f0, and 11 backward."""
    assert [least_ladder_compute(10, limit) for limit in range(3, 8)] == [67, 36, 30, 28, 27]


@pytest.mark.slow
@pytest.mark.parametrize("length", range(5, 11))
def test_revolve_is_optimal_for_longer_ladders(length):
    """Here the search is compiled."""
    test_revolve_is_optimal_for_ladders(length)


def test_peaks_of_graphs_that_are_hard_to_run_again():
    """A node with two inputs needs 3 units, one with three 4: no schedule does with less, and these need no more."""
    assert live_sets.least_peak(ladder(5))[0] == 3
    assert live_sets.least_peak(skip_ladder(5))[0] == 4
    assert live_sets.least_peak(counterexample())[0] == 3
    assert zigzag(2, 4).hash != ladder(3).hash  # only the names and what is forward differ:
    assert [zigzag(2, 4).reads(v) for v in range(8)] == [ladder(3).reads(v) for v in range(8)]


def test_nodes_of_a_zigzag_read_the_one_before_and_the_one_beside():
    graph = zigzag(3, 3)
    reads = {graph.labels[v]: [graph.labels[x] for x in graph.reads(v)] for v in range(graph.n_nodes)}
    assert reads["s0.1"] == ["s0.0"]
    assert reads["s1.2"] == ["s0.2"]
    assert reads["s1.0"] == ["s1.1", "s0.0"]
    assert reads["s2.1"] == ["s2.0", "s1.1"]
