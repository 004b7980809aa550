"""The golden optima of small graphs: what the search, the oracles and `auto` say of them today."""

import pytest

from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.live_set_search import OPTIMAL
from remat_algos.solvers.registry import list_candidates
from tests.benchmarks.optima import LIMITS, MOST_DIJKSTRA, entry_of, golden, graph_of, graphs, searched
from tests.oracles import live_sets

ENTRIES = golden()
each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])


def test_there_are_400_points_of_graphs_with_up_to_six_limits():
    assert len({entry["name"] for entry in ENTRIES}) == len(ENTRIES) >= 70
    assert all(len(dict(entry["optima"])) == len(entry["optima"]) <= LIMITS for entry in ENTRIES)
    assert sum(len(entry["optima"]) for entry in ENTRIES) >= 400
    sizes = sorted(len(entry["reads"]) for entry in ENTRIES)
    assert sizes[0] <= 13
    assert sizes[-1] >= 50


def test_the_file_has_the_graphs_that_are_made():
    for (name, graph), entry in zip(graphs(), ENTRIES, strict=True):
        assert entry_of(name, graph).items() <= entry.items()


@each
def test_optima_never_fall_as_the_limit_falls(entry):
    computes = [float("inf") if compute is None else compute for _, compute in sorted(entry["optima"])]
    assert computes == sorted(computes, reverse=True)


@each
def test_the_search_proves_the_golden_optimum(entry):
    """A witness is simulated for each; the hardest limit of each graph is searched in the slow suite."""
    graph = graph_of(entry)
    feasible = [(limit, compute) for limit, compute in sorted(entry["optima"], reverse=True) if compute is not None]
    for limit, compute in feasible[: LIMITS - 2]:
        last = list_candidates(graph, "live_set_search", limit)[-1]
        simulation = simulate(graph, last.schedule)
        assert (simulation.compute, last.details["proof"]) == (compute, OPTIMAL)
        assert simulation.peak_memory <= limit


@pytest.mark.slow
@each
def test_the_search_proves_the_golden_optimum_at_every_limit(entry):
    graph = graph_of(entry)
    for limit, compute in entry["optima"]:
        assert searched(graph, limit)[:2] == (compute, True)


@pytest.mark.slow  # compiled, the oracle takes seconds to start
@each
def test_the_oracle_of_all_sets_agrees(entry):
    graph = graph_of(entry)
    if graph.n_values > MOST_DIJKSTRA:
        return
    for limit, compute in entry["optima"]:
        found = live_sets.least_compute(graph, limit)
        assert compute == (None if found is None else found[0])


@pytest.mark.parametrize("entry", [e for e in ENTRIES if len(e["reads"]) <= 20][::3], ids=lambda entry: entry["name"])
def test_auto_proves_the_optimum_of_graphs_of_up_to_20_nodes(entry):
    limit, compute = sorted(entry["optima"])[1]
    plan = solve(graph_of(entry), limit)
    assert (plan.simulation.compute, plan.bound.amount, plan.gap) == (compute, compute, 0)
