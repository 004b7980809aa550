"""What a plan must keep to, and which candidate is taken: ranks, bounds of other limits."""

from dataclasses import replace
from types import SimpleNamespace

from remat_algos.bounds.bound import LowerBound, Prices
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.simulation import simulate
from remat_algos.search.limits import Limits
from remat_algos.search.pool import compute_bound
from remat_algos.solvers.registry import Candidate
from remat_algos.zoo.random import chain

GRAPH = chain(4, memory=[1, 4, 2, 1], compute=[1, 3, 1, 1])


def candidate(order, solver="some", **facts):
    """The candidate of a solver that gives an order."""
    simulation = simulate(GRAPH, order)
    return Candidate(simulation.schedule, simulation=simulation, solver=solver, **facts)


def limits(memory=None, **budget):
    return Limits.of(GRAPH, Budget(memory, **budget))


PLAIN = candidate([0, 1, 2, 3], "no_remat")  # 6 bytes, compute 6
SAME = candidate([0, 1, 2, 3])
LAST_TWICE = candidate([0, 1, 2, 3, 2])  # no lower, and dearer


def other_figures(peak, compute):
    """A candidate with other figures, of no schedule."""
    return Candidate(PLAIN.schedule, simulation=SimpleNamespace(peak_memory=peak, compute=compute), solver="some")


def ranked(limits, *candidates):
    """Figures of candidates, the best first."""
    return [each.figures for each in sorted(candidates, key=limits.rank)]


LOW, CHEAP = other_figures(4, 9), other_figures(7, 5)
CHEAP_AND_LOWER = other_figures(5, 5)


def test_of_those_within_a_limit_the_cheapest_is_taken_and_of_these_the_lowest():
    candidates = [LOW, CHEAP, CHEAP_AND_LOWER, PLAIN]
    assert ranked(limits(7), *candidates) == [(5, 5), (7, 5), (6, 6), (4, 9)]
    assert ranked(limits(6), *candidates) == [(5, 5), (6, 6), (4, 9), (7, 5)]  # the last does not fit
    assert ranked(limits(4), *candidates) == [(4, 9), (5, 5), (6, 6), (7, 5)]  # what does not fit, the lowest first


def test_where_the_lowest_is_wanted_it_is_taken_and_of_the_lowest_the_cheapest():
    candidates = [CHEAP, LOW, other_figures(4, 8), PLAIN]
    for lowest in limits(None), limits("least"):
        assert ranked(lowest, *candidates) == [(4, 8), (4, 9), (6, 6), (7, 5)]


def test_an_overhead_that_is_not_allowed_comes_last():
    assert ranked(limits(overhead="50%"), LOW, other_figures(4, 10), PLAIN) == [(4, 9), (6, 6), (4, 10)]


def test_of_equals_the_run_without_rematerialization_is_taken():
    for budget in None, "least", 100:
        assert min([SAME, PLAIN], key=limits(budget).rank) is PLAIN
        assert min([PLAIN, SAME], key=limits(budget).rank) is PLAIN
        assert min([SAME, LAST_TWICE], key=limits(budget).rank) is SAME


def test_a_bound_counts_for_the_limit_that_it_was_found_for():
    def bound_of(limit):
        found = candidate([0, 1, 2, 3], bound=7, scope="any order")
        bound = LowerBound(GRAPH.needed_compute)
        plan = limits(limit).plan(found, solver="some", options={}, seconds=0.0, report=SearchReport(), bound=bound)
        return plan.bound.amount, plan.bound.scope, plan.bound.source

    assert bound_of(8) == (7, "any order", "some")
    for limit in (None, "least"):  # its peak is the lower bound, which solvers are given as their limit
        assert bound_of(limit) == (7, "any order", "some")


def test_where_the_lowest_peak_is_wanted_a_bound_must_be_for_the_peak_of_the_candidate():
    above = replace(other_figures(7, 9), bound=8, scope="any order")
    for lowest in limits(None), limits("least"):
        assert lowest.own_bound(above) is None
        assert lowest.own_bound(replace(above, peak_bound=7)) == 8
    assert limits(7).own_bound(above) == 8


def test_the_larger_of_two_bounds_counts_and_a_narrower_one_stands_beside_it():
    def plan_of(scope, own, given):
        found = candidate([0, 1, 2, 3], bound=own, scope=scope)
        bound = LowerBound(given, (3,), Prices(1))
        return limits(8).plan(found, solver="some", options={}, seconds=0.0, report=SearchReport(), bound=bound)

    given, own = plan_of("any order", 7, 8), plan_of("any order", 9, 8)
    assert (given.bound.amount, given.bound.source, given.bound.nodes, given.bound.prices) == (
        8,
        "closure",
        (3,),
        Prices(1),
    )
    assert given.record()["details"] == {"bound": {"nodes": [3], "price": "1/2^0"}}
    assert (own.bound.amount, own.bound.source, own.bound.nodes) == (9, "some", ())
    assert own.record()["details"] == {}
    plan = plan_of("chain", 9, 8)
    assert (plan.bound.amount, plan.bound.scope) == (8, "any order")
    assert (plan.narrower.amount, plan.narrower.scope, plan.narrower.proven) == (9, "chain", True)


def test_solvers_are_given_bytes_the_lower_bound_or_nothing():
    assert limits(8).solver_limit == 8
    assert limits(2**80).solver_limit < 2**63
    lower_bound = least_peak_bound(GRAPH)[0]
    assert limits("least").solver_limit == limits(None).solver_limit == lower_bound
    assert limits(overhead="50%").solver_limit is None
    assert limits("least", overhead="50%").solver_limit is None
    assert limits(8, overhead="50%").solver_limit == 8


def test_a_bound_that_meets_its_goal_ends_the_search():
    """On this chain the bounds are 25, one pass, and then 29."""
    limits = Limits.of(differentiate(chain(9)), Budget(7))
    found = [compute_bound(limits, Clock(), effort="best", goal=goal)[0].amount for goal in (25, 26, 29, None)]
    assert found == [25, 29, 29, 29]
