"""Errors between processes: what is raised in one arrives in another."""

import copy
import multiprocessing
import pickle

import pytest

import remat_algos as ra
from remat_algos.errors import RematError
from remat_algos.solvers.registry import list_solvers

ERRORS = {
    "RematError": lambda: ra.RematError("text"),
    "ArgumentError": lambda: ra.errors.ArgumentError("node {name}", name="a"),
    "ArgumentTypeError": lambda: ra.errors.ArgumentTypeError("text"),
    "GraphError": lambda: ra.GraphError("text"),
    "ScheduleError": lambda: ra.ScheduleError("text", 3, 4),
    "BudgetError": lambda: ra.BudgetError("text", 9, 5, [1, 2]),
    "PlanError": lambda: ra.PlanError("text"),
    "ClaimError": lambda: ra.errors.ClaimError("text"),
    "AllocationError": lambda: ra.errors.AllocationError("text"),
    "CapacityError": lambda: ra.errors.CapacityError("text", [1, 2], True),
    "BackendError": lambda: ra.errors.BackendError("text"),
    "OutOfMemoryError": lambda: ra.errors.OutOfMemoryError("text", 1, 2, 3, 4),
    "StaleValueError": lambda: ra.errors.StaleValueError("text", 1, 2, 3),
    "SweepError": lambda: ra.errors.SweepError("text"),
    "GraphWarning": lambda: ra.errors.GraphWarning("text"),
}


def test_all_public_errors_are_here():
    assert set(ra.errors.__all__) == set(ERRORS)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("way", [copy.deepcopy, copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_pickle_and_copy(name, way):
    error = ERRORS[name]()
    error.add_note("said on the way")
    again = way(error)
    assert type(again) is type(error)
    assert (str(again), again.args, again.__dict__) == (str(error), error.args, error.__dict__)


def test_an_error_of_ones_own_survives_too():
    again = pickle.loads(pickle.dumps(Refusal("node", 7)))
    assert (str(again), again.node) == ("node refused", 7)


class Refusal(RematError):
    """An error with a constructor of its own."""

    def __init__(self, what, node):
        super().__init__(f"{what} refused")
        self.node = node


def solved(graph, budget):
    return ra.solve(graph, budget, solver="no_remat")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_pool_answers_with_plans_and_with_the_error_of_an_infeasible_budget(start):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([("a", "b"), ("b", "c")], memory=[4, 2, 1]))
    with multiprocessing.get_context(start).Pool(1) as pool:
        plan = pool.apply_async(solved, (graph, "100%")).get(60)
        with pytest.raises(ra.BudgetError) as caught:
            pool.apply_async(solved, (graph, 1)).get(60)
    assert plan.graph.hash == graph.hash
    assert ra.verify(graph, plan).peak_memory == plan.peak_memory
    assert caught.value.lower_bound > 1
    assert caught.value.reached >= caught.value.lower_bound


@pytest.mark.parametrize("solver", ["exact_dp", "approximate_dp", "exhaustive_lower_sets"])
def test_what_a_formula_budget_reached_is_a_simulated_peak(solver):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    with pytest.raises(ra.BudgetError, match="no_remat has a peak of") as caught:
        ra.solve(graph, solver=solver, formula_budget=1)
    assert caught.value.reached == ra.solve(graph, solver="no_remat").peak_memory >= caught.value.lower_bound


@pytest.mark.parametrize("solver", ["auto", *(solver.name for solver in list_solvers())])
def test_a_budget_beyond_all_memory_is_no_bound(solver):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    for budget in (2**63, 2**200):
        plan = ra.solve(graph, budget, solver=solver)
        assert plan.peak_memory < budget
        assert "limit" in str(plan)


@pytest.mark.parametrize("allocator", ["arena", "cupy_pool"])
def test_such_a_budget_holds_for_an_arena_and_an_allocator_too(allocator):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    assert ra.solve(graph, 2**63, allocator=allocator).overhead == 0


@pytest.mark.parametrize("storage", [[-1, 0], [0, 2**40], [0], [0.5, 1]])
def test_blocks_side_by_side_are_numbered_from_0(storage):
    with pytest.raises(ra.errors.AllocationError):
        ra.allocate.Allocation.side_by_side(ra.allocate.Buffers([0, 1], [1, 2], [4, 2]), storage, "by hand")
