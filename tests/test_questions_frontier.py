"""What memory costs in compute: curves that hold the best of every solver, and nothing that another plan beats."""

import json
import math
import os
import signal
import threading
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos import context as context_module
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.errors import ArgumentError, BudgetError, ScheduleError
from remat_algos.ir.budget import Budget, even_limits
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.plan.plan import Plan, cells
from remat_algos.plan.verify import verify
from remat_algos.questions import tuning
from remat_algos.questions.compare import compare
from remat_algos.questions.fit import fit
from remat_algos.questions.frontier import Frontier, frontier, undominated
from remat_algos.schedule.annealing import Annealer, SearchKernel
from remat_algos.schedule.emission import baseline, baseline_peak, checkpoint_schedule, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search import solver_run as run_module
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.solvers import candidate_rows
from remat_algos.solvers.methods.search import bends, search
from remat_algos.solvers.registry import Task, evaluated, training_graph
from remat_algos.zoo.random import chain, layered_dag
from remat_algos.zoo.registry import build
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.small_graphs import small_graph
from tests.strategies import graphs, rows, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

PLAYED = settings(max_examples=8)
CHEN = ["chen_greedy", "chen_recursive", "chen_sqrt"]
THAT_RECOMPUTE = [solver.name for solver in default_solvers() if solver.name != "no_remat"]
each_chen = pytest.mark.parametrize("solver", CHEN)
served = training_graphs(max_nodes=12)
CHAIN = differentiate(chain(12))


def figures(plan):
    return plan.peak_memory, plan.simulation.compute


def keeping(graph, distance):
    """Every so many nodes kept."""
    return checkpoint_schedule(graph, np.arange(graph.n_nodes) % distance == 0)


# ---------------------------------------------------------------- curves


def dominated(one, other):
    return other != one and all(b <= a for a, b in zip(one, other, strict=True))


@PLAYED
@given(served)
def test_curves_rise_in_peak_and_fall_in_compute_and_the_plans_are_what_none_of_them_beats(graph):
    found = frontier(graph)
    for plans in (*found.curves.values(), found.plans):
        points = [figures(plan) for plan in plans]
        assert points
        assert points == sorted(points)
        assert len({peak for peak, _ in points}) == len({compute for _, compute in points}) == len(points)
        assert not any(dominated(one, other) for one in points for other in points)
    everything = [plan for curve in found.curves.values() for plan in curve]
    points = {figures(plan) for plan in everything}
    wanted = {one for one in points if not any(dominated(one, other) for other in points)}
    assert [figures(plan) for plan in found.plans] == sorted(wanted)
    for best in found.plans:
        equal = [plan for plan in everything if figures(plan) == figures(best)]
        tightest = max(equal, key=lambda plan: plan.bound.amount)
        assert best is next((plan for plan in equal if plan.method == "no_remat"), tightest)
    assert min(plan.overhead for plan in found.plans) == 0  # no rematerialization is a plan, too


@PLAYED
@given(served)
def test_every_plan_can_be_verified_and_is_what_the_oracle_says(graph):
    found = frontier(graph)
    assert found.bound_memory == least_peak_bound(graph)[0]
    assert found.bound_compute == graph.needed_compute
    assert found.base == baseline_peak(graph)
    assert (found.stop.complete, found.reasons) == (True, {})
    for name, curve in found.curves.items():
        for plan in curve:
            verify(graph, plan)
            slow = slow_simulation(graph, plan.schedule.order)
            assert (slow.peak, slow.compute) == figures(plan)
            assert (plan.solver, plan.method, plan.limit) == (name, name, slow.peak)
            assert found.bound_memory <= slow.peak
            assert found.bound_compute <= slow.compute


@PLAYED
@given(served)
def test_each_curve_begins_with_the_lowest_peak_that_its_solver_finds(graph):
    found = frontier(graph)
    for solver in default_solvers():
        # passes may have lowered it further
        assert figures(found.curves[solver.name][0]) <= figures(solve(graph, "least", solver=solver.name, raw=True))


@pytest.mark.parametrize("solver", THAT_RECOMPUTE)
@PLAYED
@given(graph=served, data=st.data())
def test_a_curve_answers_every_limit_as_well_as_its_solver_does(solver, graph, data):
    found = frontier(graph, solvers=[solver])
    lowest = solve(graph, "least", solver=solver, raw=True).peak_memory
    limit = data.draw(st.integers(lowest, max(lowest, found.base + 3)))
    assert found.best(limit).simulation.compute <= solve(graph, limit, solver=solver, raw=True).simulation.compute


@PLAYED
@given(graphs(max_nodes=8))
def test_without_a_backward_part_those_that_need_one_give_reasons(graph):
    found = frontier(graph)
    need_one = {solver.name for solver in default_solvers() if solver.needs(graph)}
    assert set(found.reasons) == need_one
    assert all("call differentiate" in reason for reason in found.reasons.values())
    assert set(found.curves) == {solver.name for solver in default_solvers()} - need_one
    assert found.stop.complete
    assert [figures(plan) for plan in found.curves["no_remat"]] == [(found.base, graph.needed_compute)]


def test_of_no_solver_there_is_no_plan():
    found = frontier(CHAIN, solvers=[])
    assert (found.plans, found.sampled(), list(found.rows()), found.best("100%"), found.best("least")) == (
        (),
        (),
        [],
        None,
        None,
    )


@PLAYED
@given(served, st.data())
def test_marks_are_honoured_by_every_plan(graph, data):
    wish = [data.draw(st.sampled_from([0, 0, KEEP, RECOMPUTE])) if forward else 0 for forward in graph.forward]
    marked = replace(graph, mark=np.where(graph.once & (np.array(wish) == RECOMPUTE), KEEP, wish), derivation=None)
    found = frontier(marked)
    for curve in found.curves.values():
        for plan in curve:
            slow_simulation(marked, plan.schedule.order)  # raises where a mark is broken
    for reason in found.reasons.values():
        assert "mark" in reason
    assert set(found.curves) | set(found.reasons) == {solver.name for solver in default_solvers()}


def test_a_mark_that_one_solver_cannot_honour_is_its_reason():
    marked = replace(differentiate(chain(6)), mark=[RECOMPUTE] + [0] * 11, derivation=None)
    found = frontier(marked)
    assert list(found.reasons) == ["no_remat", "live_set_search"]
    assert "marked to be recomputed" in found.reasons["no_remat"]
    assert "recompute marks" in found.reasons["live_set_search"]
    assert set(found.curves) == set(THAT_RECOMPUTE) - {"live_set_search"}


def test_a_mark_that_forbids_all_leaves_only_reasons():
    """The gradient reads a pinned value that is marked to be recomputed."""
    training = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]), keep_outputs=True)
    output = int(np.flatnonzero(training.output & training.forward)[0])
    mark = np.where(np.arange(training.n_nodes) == output, RECOMPUTE, 0)
    found = frontier(replace(training, mark=mark, derivation=None))
    assert found.curves == {}
    assert set(found.reasons) == {solver.name for solver in default_solvers()}
    assert found.plans == ()


# ---------------------------------------------------------------- how solvers are asked


@each_chen
def test_equal_candidates_of_a_run_are_simulated_once(monkeypatch, solver):
    """There are two runs: for the lowest peak, and for the whole frontier."""
    decisions, simulated = [], []

    def emitted(graph, count):
        decisions.append(tuple(count))
        return mirror_schedule(graph, count)

    def counted(graph, schedule):
        simulated.append(schedule)
        return simulate(graph, schedule)

    monkeypatch.setattr(candidate_rows, "mirror_schedule", emitted)
    monkeypatch.setattr(run_module, "simulate", counted)
    found = frontier(CHAIN, solvers=[solver])
    assert {plan.report.simulated for plan in found.plans} == {len(simulated)}
    assert len(simulated) == len(decisions) == 2 * len(set(decisions)) > 2 * len(found.plans)


def test_a_solver_is_run_for_the_lowest_peak_then_for_its_whole_frontier(plant):
    limits = []

    def climbing(graph, task, clock):
        limits.append(task.limit)
        yield from (keeping(graph, distance) for distance in range(1, graph.n_nodes + 1))

    plant(climbing)
    found = frontier(CHAIN, solvers=["climbing"])
    assert limits == [least_peak_bound(CHAIN)[0], None]
    for distance in range(1, CHAIN.n_nodes + 1):
        each = simulate(CHAIN, keeping(CHAIN, distance))
        assert found.best(each.peak_memory).simulation.compute <= each.compute


@pytest.mark.parametrize(
    ("network", "effort"),
    [
        ("unet", "fast"),
        *(pytest.param(name, "default", marks=pytest.mark.slow) for name in ("resnet18", "mobilenet_v2")),
    ],
)
def test_a_frontier_is_hardly_worse_than_a_plan_for_the_budget(network, effort):
    """At any of its budgets: at most 0.1 points."""
    graph = differentiate(build(network).graph)
    found = frontier(graph, effort=effort)
    one_pass = graph.needed_compute
    for budget in "50%", "70%", "90%":
        overhead = solve(graph, budget, effort=effort).overhead / one_pass
        assert found.best(budget).overhead / one_pass <= overhead + tuning.NEAR_SOLVED


@pytest.mark.parametrize("kind", ["towers", "encoders", "twice", "forward dag"])
def test_no_point_of_a_small_frontier_is_above_a_plan_for_the_budget(kind):
    graph = small_graph(kind, 1, 24)
    found = frontier(graph, effort="fast", points=6)
    for limit in even_limits(found.plans[0].peak_memory, found.base, 6):
        assert found.best(limit).overhead <= solve(graph, limit, effort="fast").overhead


@pytest.mark.parametrize("error", [BudgetError("nothing fits", 9, 5, [0]), ScheduleError("it is broken", 0, 0)])
def test_an_error_of_one_solver_is_its_reason_and_the_others_go_on(plant, error):
    def failing(graph, task, clock):
        raise error
        yield

    plant(failing)
    found = frontier(CHAIN, solvers=["failing", "no_remat"])
    assert found.reasons == {"failing": str(error)}
    assert list(found.curves) == ["no_remat"]
    assert found.stop.complete


def test_a_frontier_shows_nothing_below_the_lowest_peak(plant):
    """Though a search within a limit may come upon a lower one."""
    least = solve(CHAIN, "least", solver="no_remat")

    def lower(graph, task, clock):
        if task.limit is None:  # the frontier, not the lowest peak
            yield keeping(graph, 3)
        yield baseline(graph).schedule

    plant(lower)
    found = frontier(CHAIN, solvers=["lower", "no_remat"])
    assert simulate(CHAIN, keeping(CHAIN, 3)).peak_memory < least.peak_memory
    assert [plan.peak_memory for plan in found.plans] == [least.peak_memory]


def test_what_was_found_before_an_error_stays(plant):
    def stumbling(graph, task, clock):
        yield keeping(graph, 3)
        raise BudgetError("too high for me", 9, 5, [])

    plant(stumbling)
    found = frontier(CHAIN, solvers=["stumbling"])
    assert found.plans[0].peak_memory <= simulate(CHAIN, keeping(CHAIN, 3)).peak_memory
    assert (found.stop.complete, found.reasons) == (True, {"stumbling": "too high for me"})


def test_those_who_improve_come_last_and_get_what_others_found(plant):
    given = {}

    def a_better(graph, task, clock):
        given.update(seed=task.seed, left=clock.left, candidates=task.candidates)
        yield Schedule(range(graph.n_nodes))

    plant(a_better, improves=True, needs=training_graph)
    told = []
    found = frontier(CHAIN, solvers=["a_better", "chen_sqrt"], seed=7, progress=lambda *call: told.append(call))
    assert (given["seed"], given["left"]) == (7, None)
    assert {each.figures for each in given["candidates"]} >= {figures(plan) for plan in found.curves["chen_sqrt"]}
    assert told
    assert all(0 <= done <= listed for done, listed, _ in told)


def test_without_time_a_frontier_says_that_it_is_not_complete():
    found = frontier(CHAIN, time_limit=0)
    assert found.stop is Stop.DEADLINE
    assert found.plans
    assert set(found.curves) | set(found.reasons) == {solver.name for solver in default_solvers()}
    assert set(found.reasons.values()) == {"not tried within the time limit"}


def test_a_solver_stops_when_its_time_is_over(plant):
    made = []

    def slow(graph, task, clock):
        for distance in range(1, graph.n_nodes + 1):
            made.append(distance)
            yield keeping(graph, distance)

    plant(slow)
    assert not frontier(CHAIN, solvers=["slow"], time_limit=0).stop.complete
    assert made == [1]


@pytest.mark.parametrize("points", [1, 0, -3])
def test_one_budget_is_no_curve(points):
    with raises(ArgumentError, points=points):
        frontier(CHAIN, points=points)


QUESTIONS = {
    "frontier": lambda solvers: frontier(CHAIN, solvers=solvers),
    "compare": lambda solvers: compare(CHAIN, 9, solvers=solvers),
    "fit": lambda solvers: fit(lambda depth: pytest.fail("built"), 9, solvers=solvers),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_an_unknown_solver_is_named(ask):
    with pytest.raises(ValueError, match=r"unknown solver 'chen'; did you mean chen_sqrt\?"):
        ask(["chen"])


# ---------------------------------------------------------------- the best under a limit


@PLAYED
@given(served, st.data())
def test_the_best_under_a_limit_is_the_cheapest_that_fits(graph, data):
    found = frontier(graph)
    limit = data.draw(st.integers(0, found.base + 2))
    fitting = [figures(plan) for curve in found.curves.values() for plan in curve if plan.peak_memory <= limit]
    best = found.best(limit)
    assert (best and best.simulation.compute) == min((compute for _, compute in fitting), default=None)
    assert best is None or best.peak_memory == min(
        peak for peak, compute in fitting if compute == best.simulation.compute
    )


def test_a_limit_is_given_as_everywhere():
    graph = differentiate(chain(12, memory=1000))
    found = frontier(graph, effort="fast")
    assert found.best("100%").overhead == 0
    assert found.best("50%") is found.best(found.base // 2)
    assert found.best("9kB") is found.best(9000)
    assert found.best("least") is found.plans[0]
    assert found.best(found.plans[0].peak_memory - 1) is None
    with pytest.raises(TypeError, match="50%"):
        found.best(0.5)


# ---------------------------------------------------------------- of equal plans, thinning, rows, the record


def plans_of(points):
    """Plans of given peaks and computes: a node that holds and costs so much."""
    made = []
    for peak, compute in points:
        graph = ComputationGraph.from_arrays(**rows("read", [[]]), memory=peak, compute=compute)
        made.append(Plan(graph, Budget(peak), peak, simulate(graph, [0]), "mine", "mine", {}, None, 0.0))
    return made


points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@PLAYED
@given(points)
def test_of_equals_the_first_is_kept(points):
    plans = plans_of(points)
    kept = undominated(plans)
    assert [figures(plan) for plan in kept] == sorted({p for p in points if not any(dominated(p, q) for q in points)})
    for plan in kept:
        assert plan is next(other for other in plans if figures(other) == figures(plan))


@PLAYED
@given(st.sets(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 12))
def test_thinned_plans_are_the_best_ones_at_evenly_spaced_budgets(peaks, points):
    peaks = sorted(peaks)
    plans = plans_of([(peak, 1000 - peak) for peak in peaks])
    found = Frontier(plans[0].graph, {}, 0, 0, 1)
    object.__setattr__(found, "curves", {"s": tuple(plans)})  # each is of a graph of its own
    sampled = [plan.peak_memory for plan in found.sampled(points)]
    if len(peaks) <= 2 * points:
        assert sampled == peaks
        return
    least, most = peaks[0], peaks[-1]
    budgets = [least + (most - least) * i // max(1, points - 1) for i in range(points)]
    assert sampled == sorted({max(peak for peak in peaks if peak <= budget) for budget in budgets})
    assert len(sampled) <= points
    assert sampled[0] == least
    assert points == 1 or sampled[-1] == most


@PLAYED
@given(served)
def test_the_rows_say_what_the_plans_are(graph):
    found = frontier(graph)
    table = list(found.rows())
    assert len(table) == len(found.sampled())
    for row, plan in zip(table, found.sampled(), strict=True):
        assert len(row) == len(found.COLUMNS)
        share = 100 * plan.peak_memory / max(1, found.base)
        over = 100 * plan.overhead / max(1, found.bound_compute)
        extra_runs = len(plan.schedule) - len(set(plan.schedule.order.tolist()))
        together = plan.peak_memory + graph.resident_memory
        gains_by_order = extra_runs == 0 and plan.peak_memory < found.base
        assert row == (
            f"{plan.peak_memory} B",
            f"{share:.1f} %",
            f"{together} B" if graph.resident_memory else "",
            f"{over:.1f} %",
            *cells(plan, ("bound", "gap")),
            str(extra_runs),
            f"{plan.method} (reordered)" if gains_by_order else plan.method,
        )


@PLAYED
@given(served)
def test_the_record_is_json_and_has_every_point_of_every_curve(graph):
    found = frontier(graph)
    record = json.loads(json.dumps(found.record()))
    curves = [(name, plan) for name, curve in found.curves.items() for plan in curve]
    assert [(p["solver"], p["peak_memory"], p["compute"]) for p in record["points"]] == [
        (name, *figures(plan)) for name, plan in curves
    ]
    assert [p["best"] for p in record["points"]] == [any(plan is best for best in found.plans) for _, plan in curves]
    assert all(p["overhead"] == p["compute"] - record["compute_bound"] for p in record["points"])
    assert record["graph_hash"] == graph.source_hash
    assert (record["least_peak_bound"], record["peak_without_rematerialization"]) == (found.bound_memory, found.base)
    assert (record["complete"], record["interrupted"], record["reasons"]) == (True, False, {})
    assert record["resident_memory"] == graph.resident_memory


def test_a_long_chain_costs_ever_more_to_hold_less():
    """From 2 n values without rematerialization down to about 2 sqrt(2 n), each step with its price."""
    found = frontier(differentiate(chain(32)), effort="fast")
    assert len(found.plans) >= 12
    assert found.plans[-1].overhead == 0
    assert found.plans[0].peak_memory <= 16 < found.base
    assert all(plan.method != "no_remat" for plan in found.plans[:-1])


# ---------------------------------------------------------------- the search along the frontier


def answers(found, points):
    """The minimum compute within each of some budgets, from the lowest peak that any plan has to that of one pass."""
    lowest = found.plans[0].peak_memory
    budgets = [lowest + (found.base - lowest) * i // (points - 1) for i in range(points)]
    return {budget: found.best(budget).simulation.compute for budget in budgets}


SEARCHED = {
    "chain": CHAIN,
    "layered": differentiate(layered_dag(8, seed=2)),
}


@pytest.mark.parametrize("graph", SEARCHED.values(), ids=SEARCHED)
def test_with_the_search_no_budget_costs_more_and_tight_ones_cost_less(graph):
    without = frontier(graph, solvers=[name for name in THAT_RECOMPUTE if name != "search"], effort="fast")
    found = frontier(graph, solvers=THAT_RECOMPUTE, effort="fast")
    assert found.plans[0].peak_memory <= without.plans[0].peak_memory
    for budget, compute in answers(without, 10).items():
        assert found.best(budget).simulation.compute <= compute
    computes = list(answers(found, 10).values())
    assert computes == sorted(computes, reverse=True)


def test_the_search_goes_along_the_frontier_the_same_way_each_time():
    graph = differentiate(layered_dag(60, seed=1))
    first, again, other = (
        [evaluated(graph, each.schedule).figures for each in search(graph, task, Clock(), max_moves=20_000)]
        for task in (Task(budgets=8, seed=seed) for seed in (0, 0, 1))
    )
    assert first == again
    assert len(first) > 8
    assert first != other
    assert min(compute for _, compute in first) == min(compute for _, compute in other) == graph.needed_compute


@pytest.mark.parametrize("points", [2, 3, 50])
def test_the_search_yields_plans_within_each_of_the_budgets(points):
    task = Task(budgets=points, effort="fast")
    yielded = [simulate(CHAIN, each.schedule) for each in search(CHAIN, task, Clock())]
    lowest = min(each.peak_memory for each in yielded)
    greedy = {each.peak_memory: each.simulation.compute for each in frontier(CHAIN, solvers=["greedy_remat"]).plans}
    for i in range(points):
        budget = lowest + (baseline_peak(CHAIN) - lowest) * i // (points - 1)
        compute = min(each.compute for each in yielded if each.peak_memory <= budget)
        assert compute <= min((other for peak, other in greedy.items() if peak <= budget), default=compute)


def test_a_number_of_moves_is_kept_along_the_frontier(monkeypatch):
    kernels, make = [], SearchKernel.of

    def kept(*arguments, **options):
        kernels.append(make(*arguments, **options))
        return kernels[-1]

    monkeypatch.setattr(SearchKernel, "of", kept)
    graph = differentiate(layered_dag(60, seed=1))
    assert list(search(graph, Task(budgets=10), Clock(), max_moves=60_000))
    assert 60_000 < sum(kernel.state.n_moves for kernel in kernels) < 180_000


def test_the_number_of_threads_changes_nothing(monkeypatch):
    graph, yielded, names = differentiate(layered_dag(60, seed=1)), [], set()
    anneal = Annealer._search

    def noted(*arguments, **options):
        names.add(threading.current_thread().name)
        return anneal(*arguments, **options)

    monkeypatch.setattr(Annealer, "_search", noted)
    for n_threads in (1, 2, 5):
        names.clear()
        monkeypatch.setattr(context_module, "n_cores", lambda n=n_threads: n)
        candidates = search(graph, Task(budgets=9), Clock(), max_moves=40_000)
        yielded.append([each.schedule.order.tolist() for each in candidates])
        assert (len(names) > 1) == (n_threads > 1)
    assert yielded[0] == yielded[1] == yielded[2]
    assert len(yielded[0]) > 9


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("part", [0.4, 0.7, 0.96])
def test_an_interrupt_ends_all_threads_and_keeps_what_was_found(monkeypatch, n_threads, part):
    """The parts are of the searches: while the evenly spaced limits are searched, and where the curve bends."""
    monkeypatch.setattr(context_module, "n_cores", lambda: n_threads)
    graph, cool, n_portions = differentiate(layered_dag(60, seed=1)), SearchKernel.cool, count()
    when = math.inf

    def counted(*arguments):
        if next(n_portions) == when:
            os.kill(os.getpid(), signal.SIGINT)
        cool(*arguments)

    monkeypatch.setattr(SearchKernel, "cool", counted)
    whole = list(search(graph, Task(budgets=10), Clock(), max_moves=100_000))
    n_whole = next(n_portions)
    n_portions, when, yielded = count(), int(part * n_whole), []
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with until_stopped() as ending:
            yielded.extend(search(graph, Task(budgets=10), Clock(), max_moves=100_000))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ending.stop is Stop.INTERRUPTED
    assert when < next(n_portions) < when + n_whole / 4
    assert [each.figures for each in yielded[:5]] == [each.figures for each in whole[:5]]
    for each in yielded[1:]:
        assert simulate(graph, each.schedule).peak_memory == each.figures[0]
    for thread in threading.enumerate():
        # interrupted as it began: no pool waits for it, and it may never have noted that it started
        if thread.name.startswith("ThreadPool") and thread.is_alive():
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("curve", "count", "wanted"),
    [
        ([(0, 8), (100, 0)], 3, [25, 50, 75]),
        ([(0, 8), (100, 0)], 0, []),
        ([(0, 9), (50, 9), (100, 9)], 5, []),  # flat
        ([(0, 3), (1, 2), (2, 1)], 5, []),  # no byte between
        ([(0, 100), (40, 10), (80, 0)], 4, [10, 20, 30, 60]),
        ([(7, 4)], 3, []),
        ([], 3, []),
    ],
)
def test_limits_are_added_where_the_curve_bends(curve, count, wanted):
    assert bends(curve, count) == wanted


def test_an_interrupted_search_along_the_frontier_keeps_what_it_found():
    def interrupt(done, total, stage):
        if "search: " in stage and done > 300:
            raise KeyboardInterrupt

    found = frontier(CHAIN, solvers=["no_remat", "search"], progress=interrupt)
    assert found.stop is Stop.INTERRUPTED
    assert found.plans[-1].peak_memory == found.base
    assert found.plans[0].peak_memory < found.base
