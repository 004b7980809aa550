"""The consumer of solvers: what it simulates, keeps, polishes, reports; played with solvers made for that."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.context import Clock, OutOfTime, Stop
from remat_algos.errors import ArgumentTypeError, BudgetError, GraphError, PlanError, ScheduleError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.verify import verify
from remat_algos.schedule.emission import checkpoint_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search import solver_run as run_module
from remat_algos.search import tuning
from remat_algos.search.limits import Limits
from remat_algos.search.solve import solve
from remat_algos.search.solver_run import NOT_TRIED, SolverRun
from remat_algos.solvers.registry import Candidate, Solver, any_graph, evaluated, pareto, training_graph
from remat_algos.zoo.random import chain
from tests.raising import raises

GRAPH = differentiate(chain(12))


def keeping(distance, graph=GRAPH):
    """The schedule that keeps one node in every few."""
    return checkpoint_schedule(graph, np.arange(graph.n_nodes) % distance == 0)


SCHEDULES = [keeping(distance) for distance in range(1, 9)]


PARETO = [  # peaks rise, computes fall, and so do lengths
    checkpoint_schedule(GRAPH, (np.arange(GRAPH.n_nodes) % 3 == 0) | (np.arange(GRAPH.n_nodes) < kept))
    for kept in (0, 2, 3, 5, 6)
]


def solver_of(function, **facts):
    return Solver(function, **({"paper": "", "needs": any_graph, "optimal_in": None} | facts))


def yielding(*things, name="toy"):
    """A solver that yields candidates, and raises what is an error."""

    def toy(graph, task, clock):
        for thing in things:
            if isinstance(thing, BaseException):
                raise thing
            yield thing

    toy.__name__ = name
    return solver_of(toy)


def asked(*solvers, budget="70%", graph=GRAPH, polish=False, clock=None, **options):
    found = SolverRun(Limits.of(graph, Budget.of(budget)), clock or Clock(), polish=polish, **options)
    found.run(solvers)
    return found


# ---------------------------------------------------------------- what is kept


@given(st.lists(st.sampled_from(SCHEDULES), max_size=20))
def test_the_pareto_set_of_what_was_yielded_is_kept(schedules):
    found = asked(yielding(*schedules))
    simulated = [simulate(GRAPH, schedule) for schedule in schedules]
    wanted = pareto([(each.peak_memory, each.compute) for each in simulated], lambda figures: figures)
    assert [candidate.figures for candidate in found.candidates] == wanted
    assert {candidate.solver for candidate in found.candidates} <= {"toy"}
    result = found.outcomes["toy"]
    assert (result.simulated, result.stop, result.reason) == (len(schedules), Stop.DONE, "")


def test_nothing_is_simulated_twice(monkeypatch):
    calls = []
    monkeypatch.setattr(run_module, "simulate", lambda *given: calls.append(given) or simulate(*given))
    found = asked(yielding(evaluated(GRAPH, SCHEDULES[0]), Candidate(SCHEDULES[1]), SCHEDULES[2]))
    assert len(calls) == 2
    assert found.outcomes["toy"].simulated == 3
    other = simulate(differentiate(chain(12)), SCHEDULES[3])  # of another graph, so it says nothing
    asked(yielding(Candidate(other.schedule, simulation=other)))
    assert len(calls) == 3


def test_a_plan_says_how_many_were_simulated_and_skipped():
    def skipping(graph, task, clock):
        clock.skipped["too long"] += 1
        yield Candidate(SCHEDULES[0], {"chosen": 1})

    found = asked(solver_of(skipping))
    result = found.outcomes["skipping"]
    report = {"simulated": 1, "complete": True, "skipped": {"too long": 1}}
    assert result.report("skipping").record() == found.report(found.candidates[0]).record() == report


def test_many_candidates_are_thinned_and_the_best_stays():
    graph = differentiate(chain(400))
    schedules = [keeping(distance, graph) for distance in range(1, 200)]
    problem = Limits.of(graph, Budget("50%"))
    found = asked(yielding(*schedules), budget="50%", graph=graph)
    everything = [evaluated(graph, schedule) for schedule in schedules]
    assert len(found.candidates) <= tuning.MAX_KEPT
    assert found.best().figures == min(everything, key=problem.rank).figures


@pytest.mark.parametrize("place", range(len(PARETO)))
def test_thinning_keeps_the_best_of_any_place(monkeypatch, place):
    monkeypatch.setattr("remat_algos.search.tuning.MAX_KEPT", len(PARETO) - 1)
    found = asked(yielding(*PARETO), budget=simulate(GRAPH, PARETO[place]).peak_memory)
    assert len(found.candidates) == (len(PARETO) + (place % 2 == 0)) // 2
    assert found.best().schedule is PARETO[place]


# ---------------------------------------------------------------- how solvers end


def test_what_was_yielded_before_the_time_was_over_stays():
    found = asked(yielding(*SCHEDULES[:2], OutOfTime()), yielding(SCHEDULES[2], name="next"))
    result = found.outcomes["toy"]
    assert (result.simulated, result.stop, result.reason) == (2, Stop.DEADLINE, "")
    assert found.outcomes["next"].stop.complete


def test_a_late_solver_is_not_run_where_there_is_a_candidate():
    found = asked(yielding(SCHEDULES[0]), yielding(SCHEDULES[1], name="zlate"), clock=Clock(0))
    assert found.outcomes["toy"].simulated == 1
    assert found.reasons == {"zlate": NOT_TRIED}
    assert found.n_tried == 1


def test_the_time_is_looked_at_after_each_schedule_that_is_simulated():
    def staged(graph, task, clock):
        clock.stage(9)
        yield from SCHEDULES

    assert asked(solver_of(staged), clock=Clock(0)).outcomes["staged"].simulated == 1


def test_schedules_of_large_graphs_are_simulated_while_there_is_time(monkeypatch):
    monkeypatch.setattr("remat_algos.search.tuning.LARGE_SIMULATION", 0)
    result = asked(yielding(*SCHEDULES), clock=Clock(60)).outcomes["toy"]
    assert (result.simulated, result.stop.complete) == (len(SCHEDULES), True)


def test_of_equals_that_violate_a_constraint_the_first_is_remembered():
    found = SolverRun(Limits.of(GRAPH, Budget("100%"), constraints={"max_runs": 1}), Clock(), polish=False)
    found.run([yielding(SCHEDULES[1], SCHEDULES[2], Schedule(SCHEDULES[1].order))])
    assert found.dropped[0].schedule is SCHEDULES[1]
    assert found.candidates == []
    assert found.reasons == {"toy": "its schedules violate a constraint"}


def test_what_is_neither_candidate_nor_schedule_is_refused():
    with raises(ArgumentTypeError, name="toy", kind="int"):
        asked(yielding(5))


def test_a_run_is_not_complete_if_the_time_limit_left_a_solver_out():
    clock = Clock(60)

    def first(graph, limit, own):
        yield SCHEDULES[0]
        clock.deadline = clock.started  # the time of the run is over, not that of this solver

    found = asked(solver_of(first), yielding(SCHEDULES[1], name="zlate"), clock=clock)
    assert found.outcomes["first"].stop.complete
    assert found.reasons == {"zlate": NOT_TRIED}
    assert found.report(found.best()).stop is Stop.DEADLINE


@pytest.mark.parametrize("needed", [50, 200, 10_000], ids=["its share", "what others leave", "more than there is"])
def test_a_search_is_late_only_if_it_used_its_time(needed, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slow(graph, task, clock):
        yield SCHEDULES[0]
        for _ in range(needed):
            now[0] += 1
            clock.check()
        yield SCHEDULES[1]

    solvers = [solver_of(slow), *(yielding(SCHEDULES[0], name=name) for name in ("t", "u", "v"))]
    found = asked(*solvers, clock=Clock(400))
    found.rerun(solvers)
    result = found.outcomes["slow"]
    assert result.stop is (Stop.DONE if needed < 400 else Stop.DEADLINE)
    assert found.stop is result.stop
    assert needed <= now[0] or now[0] > 300


def test_after_an_interrupt_no_solver_runs_again(monkeypatch):
    now, runs = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slow(graph, task, clock):
        runs.append("slow")
        yield SCHEDULES[0]
        while True:
            now[0] += 1
            clock.check()

    def stopped(graph, task, clock):
        yield SCHEDULES[0]
        raise KeyboardInterrupt

    solvers = [solver_of(slow), solver_of(stopped)]
    found = asked(*solvers, clock=Clock(400))
    found.rerun(solvers)
    assert (runs, found.stop, found.outcomes["slow"].stop) == (["slow"], Stop.INTERRUPTED, Stop.DEADLINE)


@pytest.mark.parametrize("error", [GraphError("too wide"), BudgetError("nothing fits", 9, 5, [0])])
def test_an_error_of_one_solver_is_its_reason(error):
    found = asked(yielding(SCHEDULES[0], error), yielding(SCHEDULES[1], name="next"))
    assert (found.outcomes["toy"].simulated, found.outcomes["toy"].error) == (1, error)
    assert found.reasons == {"toy": str(error)}
    assert found.outcomes["next"].stop.complete
    report = found.outcomes["toy"].report("toy")
    failed = not isinstance(error, BudgetError)  # which is an answer: no other schedule fits
    assert (report.stop, report.stop.complete) == ((Stop.FAILED, False) if failed else (Stop.DONE, True))
    words = "stopped a solver failed; this is the best plan found"
    assert (words in " ".join(str(replace(solve(GRAPH, "70%"), report=report)).split())) == failed


def test_a_proof_for_the_lower_bound_is_asked_again_for_what_it_names():
    limits = []

    def prover(graph, task, clock):
        limits.append(task.limit)
        if task.limit < 9:
            raise BudgetError("the least peak is 9", 9, 5, [])
        yield SCHEDULES[0]

    found = asked(solver_of(prover), budget="least")
    assert limits == [found.limits.solver_limit, 9]
    assert found.reasons == {}
    asked(solver_of(prover), budget=8)
    assert limits[2:] == [8]


def test_a_schedule_against_a_mark_is_passed_over_and_is_the_reason_if_it_was_all():
    marked = replace(GRAPH, mark=[2] + [0] * (GRAPH.n_nodes - 1), derivation=None)
    against, honouring = keeping(1, GRAPH), Schedule([*range(12), 0, *range(12, 24)])
    simulate(marked, honouring)
    found = asked(yielding(against, honouring), yielding(against, name="alone"), graph=marked, budget="200%")
    assert (found.outcomes["toy"].simulated, found.outcomes["toy"].reason) == (1, "")
    assert "it cannot honour a mark" in found.reasons["alone"]
    assert isinstance(found.outcomes["alone"].error, ScheduleError)


def test_who_cannot_serve_is_not_asked():
    def never(graph, task, clock):
        raise AssertionError
        yield

    found = asked(solver_of(never, needs=training_graph), graph=chain(4))
    assert "call differentiate(graph) first" in found.reasons["never"]
    assert found.n_tried == 0


def test_after_an_interrupt_nobody_is_asked_and_what_was_found_stays():
    found = asked(yielding(*SCHEDULES[:3], KeyboardInterrupt()), yielding(SCHEDULES[3], name="znext"))
    assert found.stop is Stop.INTERRUPTED
    assert list(found.outcomes) == ["toy"]
    assert found.outcomes["toy"].simulated == 3


def test_cheap_solvers_come_first_and_those_that_improve_last():
    order = []

    def noting(name, **facts):
        def toy(graph, task, clock):
            order.append(name)
            yield SCHEDULES[0]

        toy.__name__ = name
        return solver_of(toy, **facts)

    asked(noting("a", improves=True), noting("b"), noting("c", price=0.1))
    assert order == ["c", "b", "a"]


# ---------------------------------------------------------------- polishing, the guard, reports


@pytest.fixture
def polished(monkeypatch):
    """(schedule, limit) of each run of the passes, which change nothing."""
    runs = []
    monkeypatch.setattr(run_module, "polish", lambda graph, run, limit: runs.append((run.schedule, limit)) or run)
    return runs


@pytest.mark.parametrize("budget", ["50%", "70%", "least", Budget(overhead="30%")], ids=str)
@given(data=st.data())
def test_polishing_and_more_candidates_are_never_worse(budget, data):
    """There is room to polish all."""
    schedules = data.draw(st.lists(st.sampled_from(SCHEDULES), min_size=1, max_size=6))
    more = [*schedules, *data.draw(st.lists(st.sampled_from(SCHEDULES), max_size=3))]
    plain = asked(yielding(*schedules), budget=budget)
    polished = asked(yielding(*schedules), budget=budget, polish=True)
    with_more = asked(yielding(*more), budget=budget, polish=True)
    rank = plain.limits.rank
    assert rank(polished.best()) <= rank(plain.best())
    assert rank(with_more.best()) <= rank(polished.best())


def test_what_was_polished_says_so_and_drops_a_bound_that_it_beats():
    wasteful = Schedule([*range(12), *range(12), *range(12, 24)])
    compute = simulate(GRAPH, wasteful).compute
    found = asked(yielding(Candidate(wasteful, bound=compute, scope="canonical")), budget="100%", polish=True)
    best = found.best()
    assert best.details["polished"]
    assert (best.bound, best.scope) == (None, None)


def test_a_candidate_that_its_solver_proves_optimal_ends_the_search():
    proven = Candidate(SCHEDULES[0], bound=simulate(GRAPH, SCHEDULES[0]).compute, scope="any order")
    found = asked(yielding(proven), yielding(SCHEDULES[1], name="zweite"), budget="100%", bound=0)
    assert [candidate.solver for candidate in found.candidates] == ["toy"]


def test_a_candidate_that_meets_the_bound_ends_the_search():
    least = simulate(GRAPH, SCHEDULES[0]).compute
    for bound, run in ((least, ["toy"]), (least - 1, ["toy", "zweite"])):
        found = asked(yielding(SCHEDULES[0]), yielding(SCHEDULES[1], name="zweite"), budget="100%", bound=bound)
        assert list(found.outcomes) == run


@pytest.mark.parametrize(
    ("budget", "limits"),
    [(8, [8]), (12, [12]), (7, [0, 8]), ("least", [0, 8]), (Budget(overhead="1%"), [8]), (Budget(8, "1%"), [8])],
    ids=str,
)
def test_a_candidate_is_polished_within_the_limit_or_else_its_own_peak(polished, budget, limits):
    """What is above the limit is lowered first, and so it is where only the peak counts."""
    asked(yielding(PARETO[0]), budget=budget, polish=True)
    assert polished == [(PARETO[0], limit) for limit in limits]


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_as_many_are_polished_as_there_are_steps_for_and_the_best_always(monkeypatch, polished, room, spare):
    lengths = [len(schedule) for schedule in PARETO]
    monkeypatch.setattr("remat_algos.search.tuning.MAX_POLISHED_STEPS", sum(lengths[:room]) + spare)
    asked(yielding(*PARETO), budget="least", polish=True)
    assert [schedule for schedule, limit in polished if limit] == PARETO[: max(1, room - (spare < 0))]


def test_polishing_ends_where_the_bound_is_met(monkeypatch):
    once, runs = simulate(GRAPH, SCHEDULES[0]), []
    monkeypatch.setattr(run_module, "polish", lambda graph, run, limit: runs.append(run) or once)
    found = asked(yielding(*PARETO), budget="100%", polish=True, bound=once.compute)
    assert (len(runs), found.best().figures) == (1, (once.peak_memory, once.compute))


def test_along_a_frontier_the_best_of_each_budget_come_first_then_all_then_others(monkeypatch, polished):
    """Half of the steps of all is what one limit may take."""
    one_limit = [(PARETO[4], 14), (PARETO[2], 10)]  # of the budgets 14, 10, 7 and 3
    everything = list(zip(PARETO, range(8, 13), strict=True))
    others = [(PARETO[i], limit) for limit, last in ((14, 3), (10, 1)) for i in range(last, -1, -1)]
    steps = sum(len(each) for each, limit in one_limit + everything + others if limit)
    monkeypatch.setattr("remat_algos.search.tuning.MAX_POLISHED_STEPS", steps // 2 + 1)
    asked(yielding(*PARETO), budget=None, polish=True, budgets=4)
    assert polished == one_limit + everything + others


@pytest.mark.parametrize("budget", ["70%", "least", Budget(overhead="100%")])
def test_what_one_run_finds_is_kept_and_polished_whatever_another_finds(polished, budget):
    """A second run adds nothing to the first, nor takes anything from it, whichever finds more."""
    sets = PARETO, SCHEDULES, PARETO[2:], SCHEDULES[:1], PARETO[:3]
    for first in sets:
        for second in sets:
            wanted, kept = [], []
            for i, schedules in enumerate((first, second)):
                polished.clear()
                run = asked(yielding(*[Candidate(each, run=i) for each in schedules]), budget=budget, polish=True)
                wanted += polished
                kept += run.outcomes["toy"].kept
            polished.clear()
            both = [Candidate(each, run=i) for i, schedules in enumerate((first, second)) for each in schedules]
            found = asked(yielding(*both), budget=budget, polish=True)
            assert polished == wanted
            assert [(each.schedule, each.run) for each in found.outcomes["toy"].kept] == [
                (each.schedule, each.run) for each in kept
            ]


def test_what_takes_longer_than_is_left_is_not_polished(monkeypatch, polished):
    lengths = [len(schedule) for schedule in PARETO]
    # There is time for the shortest alone.
    monkeypatch.setattr("remat_algos.search.tuning.POLISHED_A_SECOND", lengths[-1] / 39)
    asked(yielding(*PARETO), budget="100%", polish=True, clock=Clock(40))
    assert [schedule for schedule, _ in polished] == PARETO[-1:]


def test_the_guard_is_the_run_without_rematerialization_unless_a_mark_forbids_it():
    found = asked()
    found.guard()
    assert [candidate.solver for candidate in found.candidates] == ["no_remat"]
    marked = asked(graph=replace(GRAPH, mark=[2] + [0] * (GRAPH.n_nodes - 1), derivation=None))
    marked.guard()
    assert marked.candidates == []


def test_progress_names_the_solver_and_the_best_so_far():
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    asked(yielding(SCHEDULES[2]), yielding(SCHEDULES[3], name="zweite"), clock=clock)
    first, *_, last = (what for _, _, what in told)
    assert first.startswith("method 1 of 2, toy: candidates 1 · best ")
    assert last.startswith("method 2 of 2, zweite: ")


# ---------------------------------------------------------------- lack of memory


def test_what_a_solver_yields_before_it_runs_out_of_memory_is_kept():
    found = asked(yielding(SCHEDULES[0], MemoryError(), name="large"), yielding(SCHEDULES[1], name="small"))
    assert found.outcomes["large"].candidates
    assert not found.outcomes["large"].stop.complete
    assert found.report(found.outcomes["large"].candidates[0]).out_of_memory == ("large",)
    assert found.reasons["large"] == "it ran out of memory"
    assert found.outcomes["small"].stop.complete


def test_a_solver_without_memory_for_a_candidate_has_an_error_and_others_go_on():
    found = asked(yielding(MemoryError(), name="large"), yielding(SCHEDULES[1], name="small"))
    assert isinstance(found.outcomes["large"].error, MemoryError)
    assert str(found.outcomes["large"].error).startswith("not enough memory for large on ")
    assert found.outcomes["small"].candidates


def test_passes_that_run_out_of_memory_leave_the_candidates_and_say_so(monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr("remat_algos.search.solver_run.polish", exhausted)
    found = asked(yielding(SCHEDULES[0]), polish=True)
    assert found.outcomes["toy"].candidates
    assert found.outcomes["toy"].report("toy").out_of_memory == ("toy",)
    assert found.report(found.candidates[0]).stop is Stop.OUT_OF_MEMORY


@pytest.mark.parametrize("entry", [True, 7, "large", {"large": 1}])
def test_an_odd_entry_of_what_ran_out_is_refused(entry):
    record = solve(GRAPH, "70%", solver="chen_sqrt").record()
    with raises(PlanError, name="out_of_memory", entry=entry):
        verify(GRAPH, {**record, "details": {**record["details"], "complete": False, "out_of_memory": entry}})
