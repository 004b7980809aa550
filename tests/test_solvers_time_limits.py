"""Time limits: whatever the solver, there is a plan or an error of ours, and large graphs do not take longer."""

import contextlib
import time

import pytest

import remat_algos as ra
from remat_algos.solvers.registry import list_solvers

FORK = [edge for i in range(12) for edge in (("s", f"a{i}"), (f"a{i}", f"b{i}"), (f"b{i}", "t"))]


@pytest.mark.parametrize("time_limit", [0, 1e-3, 0.05])
@pytest.mark.parametrize("solver", [solver.name for solver in list_solvers()])
def test_a_solver_whose_time_is_over_gives_a_plan_or_a_sentence(solver, time_limit):
    graph = ra.differentiate(ra.ComputationGraph.from_edges(FORK))
    with contextlib.suppress(ra.BudgetError, ra.GraphError):
        assert ra.solve(graph, "80%", solver=solver, time_limit=time_limit).schedule


@pytest.mark.parametrize("shape", ["chain", "fan-out"])
def test_a_time_limit_is_kept_on_large_graphs(shape, monkeypatch):
    monkeypatch.setattr(time, "monotonic", time.process_time)  # as on an idle machine
    n = 100_000
    edges = [(i, i + 1) for i in range(n - 1)] if shape == "chain" else [(0, i) for i in range(1, n)]
    graph = ra.differentiate(ra.ComputationGraph.from_edges(edges))
    started = time.process_time()
    ra.solve(graph, "100%", time_limit=1)
    assert time.process_time() - started < 2
