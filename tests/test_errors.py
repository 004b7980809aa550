"""Errors between processes: what is raised in one arrives in another."""

import copy
import multiprocessing
import pickle

import pytest

import remat_algos as ra
from remat_algos.errors import RematError

ERRORS = {
    "RematError": lambda: ra.RematError("text"),
    "GraphError": lambda: ra.GraphError("text"),
    "ScheduleError": lambda: ra.ScheduleError("text", 3, 4),
    "BudgetError": lambda: ra.BudgetError("text", 9, 5, [1, 2]),
    "PlanError": lambda: ra.PlanError("text"),
    "ClaimError": lambda: ra.ClaimError("text"),
    "AllocationError": lambda: ra.AllocationError("text"),
    "BackendError": lambda: ra.BackendError("text"),
    "OutOfMemoryError": lambda: ra.OutOfMemoryError("text", 1, 2, 3, 4),
    "StaleValueError": lambda: ra.StaleValueError("text", 1, 2, 3),
    "GraphWarning": lambda: ra.GraphWarning("text"),
}


def test_all_public_errors_are_here():
    public = {name for name in ra.__all__ if isinstance(getattr(ra, name), type)}
    assert {name for name in public if issubclass(getattr(ra, name), BaseException)} == set(ERRORS)


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
