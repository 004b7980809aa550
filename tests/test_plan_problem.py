"""What a plan must keep to, and which attempt is taken: ranks, bounds of other limits."""

from types import SimpleNamespace

from remat_algos.ir.budget import Budget
from remat_algos.models.random import chain
from remat_algos.plan.problem import Attempt, Problem
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.registry import Solution

GRAPH = chain(4, memory=[1, 4, 2, 1], compute=[1, 3, 1, 1])


def attempt(order, method="some", limit=None, **solution):
    """The attempt of a solver that gives an order."""
    simulation = simulate(GRAPH, order)
    return Attempt(method, Solution(simulation.schedule, **solution), simulation, limit)


def problem(memory=None, **budget):
    return Problem.of(GRAPH, Budget(memory, **budget))


PLAIN = attempt([0, 1, 2, 3], "no_remat")  # 6 bytes, compute 6
SAME = attempt([0, 1, 2, 3])
LAST_TWICE = attempt([0, 1, 2, 3, 2])  # no lower, and dearer


def other_figures(peak, compute):
    """An attempt with other figures, of no schedule."""
    figures = {"peak_memory": peak, "compute": compute, "overhead": compute - GRAPH.needed_compute}
    return Attempt("some", PLAIN.solution, SimpleNamespace(**figures))


def ranked(problem, *attempts):
    """Attempts, the one that is taken first, by their figures."""
    return [a.figures for a in sorted(attempts, key=problem.rank)]


LOW, CHEAP = other_figures(4, 9), other_figures(7, 5)
CHEAP_AND_LOWER = other_figures(5, 5)


def test_of_those_within_a_limit_the_cheapest_is_taken_and_of_these_the_lowest():
    attempts = [LOW, CHEAP, CHEAP_AND_LOWER, PLAIN]
    assert ranked(problem(7), *attempts) == [(5, 5), (7, 5), (6, 6), (4, 9)]
    assert ranked(problem(6), *attempts) == [(5, 5), (6, 6), (4, 9), (7, 5)]  # the last does not fit
    assert ranked(problem(4), *attempts) == [(4, 9), (5, 5), (7, 5), (6, 6)]


def test_where_the_lowest_is_wanted_it_is_taken_and_of_the_lowest_the_cheapest():
    attempts = [CHEAP, LOW, other_figures(4, 8), PLAIN]
    for lowest in problem(None), problem("least"):
        assert ranked(lowest, *attempts) == [(4, 8), (4, 9), (6, 6), (7, 5)]


def test_an_overhead_that_is_not_allowed_comes_last():
    assert ranked(problem(overhead="50%"), LOW, other_figures(4, 10), PLAIN) == [(4, 9), (6, 6), (4, 10)]


def test_of_equals_the_run_without_rematerialization_is_taken():
    for budget in None, "least", 100:
        assert min([SAME, PLAIN], key=problem(budget).rank) is PLAIN
        assert min([PLAIN, SAME], key=problem(budget).rank) is PLAIN
        assert min([SAME, LAST_TWICE], key=problem(budget).rank) is SAME


def test_a_bound_counts_for_the_limit_that_it_was_found_for():
    def bound_of(limit, attempt_limit):
        tried = attempt([0, 1, 2, 3], limit=attempt_limit, bound=6, scope="canonical")
        plan = problem(limit).plan(tried, solver="some", options={}, seconds=0.0)
        return plan.bound, plan.scope, plan.bound_source

    assert bound_of(8, 8) == (6, "canonical", "some")
    for limits in (8, 7), (8, None), (None, None), ("least", 6):
        assert bound_of(*limits) == (6, "any order", "one pass")
