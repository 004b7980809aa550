"""The gap of `solve`: a search ends at a plan that is near its bound, which proves nothing."""

import pytest

from remat_algos.context import Stop
from remat_algos.effort import NEAR, Effort
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build
from tests.benchmarks.layered_graphs import layered_graph
from tests.small_graphs import small_graphs

GRAPH = differentiate(build("resnet18").graph)


@pytest.mark.parametrize("solver", ["auto", "search"])
def test_a_search_ends_near_its_bound_and_proves_nothing(solver):
    far, near = (solve(GRAPH, "55%", solver=solver, effort="fast", gap=each) for each in (0, 3))
    assert near.overhead <= near.bound.amount - GRAPH.needed_compute + 0.03 * GRAPH.needed_compute
    assert (near.report.stop, near.report.stop.complete, near.report.stop.reason) == (Stop.NEAR, True, "")
    assert far.report.stop is Stop.DONE
    assert near.overhead > far.overhead
    assert "above it" in str(near)
    assert "optimal" not in str(near)


def test_so_it_does_on_the_command_line(remat):
    words = ("solve", "model:resnet18", "--budget", "50%", "--effort", "fast", "--gap")
    near, record = remat(*words, "3"), remat(*words, "3", "--json").record
    python = solve(GRAPH, "50%", effort="fast", gap=3)
    assert (near.code, record["compute"]) == (0, python.simulation.compute)
    assert record["details"]["complete"] is True
    assert "above it" in near.flat
    assert "stopped" not in near.out


@pytest.mark.parametrize(
    ("effort", "nodes", "gap"),
    [
        ("fast", 64, 0.0),
        ("fast", 65, 0.005),
        ("fast", 999, 0.005),
        ("fast", 1_000, 0.1),
        ("default", 1_000, 0.005),
        ("best", 64, 0.0),
        ("best", 20_000, 0.005),
    ],
)
def test_the_gap_by_effort_and_size(effort, nodes, gap):
    assert Effort.of(effort).near(nodes) == gap


@pytest.mark.parametrize("gap", [-1, float("nan"), float("inf")])
def test_a_gap_is_points_of_overhead(gap):
    with pytest.raises(ValueError, match="give points of overhead, 0 or more"):
        solve(GRAPH, "50%", gap=gap)


BEST_CASES = dict(small_graphs(12, 20, 60)) | {
    "layers": layered_graph(110, 0.4, 1),
    "resnet18": GRAPH,
    "unet": differentiate(build("unet").graph),
}


@pytest.mark.slow
@pytest.mark.parametrize("share", [80, 60])
@pytest.mark.parametrize("name", BEST_CASES)
def test_best_is_no_worse_than_default(name, share):
    graph, overheads = BEST_CASES[name], []
    for effort in ("default", "best"):
        try:
            overheads.append(solve(graph, f"{share}%", effort=effort).overhead)
        except BudgetError:
            overheads.append(LARGEST_SUM)
    assert overheads[1] <= overheads[0] + NEAR / 100 * graph.needed_compute
