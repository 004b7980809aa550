"""Ctrl-C: what was found by then is given, and says so; where nothing was, the interrupt goes on."""

import json
from contextlib import suppress

import numpy as np
import pytest

from remat_algos.allocate import offsets
from remat_algos.allocate.allocators import Allocator
from remat_algos.context import Interrupted, Stop
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import compare
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.emission import baseline_peak, checkpoint_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search import limits
from remat_algos.search import pool as bounding
from remat_algos.search import solver_run as run_module
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import solve
from remat_algos.search.solver_run import SolverRun
from remat_algos.solvers import registry
from remat_algos.zoo.random import chain

pytestmark = pytest.mark.usefixtures("short_searches")

GRAPH = differentiate(chain(9))
CHEN = ["chen_sqrt", "chen_greedy", "chen_recursive"]  # in the order in which they run
STOPPED = "stopped interrupted; this is the best plan found"
each_sweep = pytest.mark.parametrize("solver", [*CHEN, "approximate_dp", "liveness_dp"])


class Simulator:
    """The simulator, as a run and solvers call it: remembers what it simulated, stops at a given call."""

    def __init__(self):
        self.simulations = []
        self.stop_at = None
        self.calls = 0

    def __call__(self, graph, schedule):
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        self.simulations.append(simulate(graph, schedule))
        return self.simulations[-1]

    def restart(self, stop_at):
        self.simulations, self.stop_at, self.calls = [], stop_at, 0


@pytest.fixture
def sweep(monkeypatch):
    simulator = Simulator()
    for module in registry, run_module:
        monkeypatch.setattr(module, "simulate", simulator)
    return simulator


def figures(simulation):
    return simulation.peak_memory, simulation.compute


def stops(sweep, ask):
    """The number of each plan that is simulated: an interrupt may come there."""
    sweep.restart(None)
    ask()
    return range(1, sweep.calls + 1)


# ---------------------------------------------------------------- solve


@each_sweep
@pytest.mark.parametrize("limit", [7, 8, 10, None])
def test_a_sweep_interrupted_at_any_plan_gives_the_best_before_it(sweep, solver, limit):
    def ask():
        try:
            return solve(GRAPH, limit, solver=solver, raw=True)
        except KeyboardInterrupt:
            return None

    assert not ask().interrupted
    for stop in stops(sweep, ask):
        sweep.restart(stop)
        plan = ask()
        fitting = [each for each in sweep.simulations if limit is None or each.peak_memory <= limit]
        assert len(sweep.simulations) == stop - 1
        assert (plan is None) == (not fitting)
        if plan is not None:
            wanted = min(fitting, key=figures if limit is None else lambda j: (j.compute, j.peak_memory))
            assert figures(plan.simulation) == figures(wanted)
            assert plan.interrupted
            assert STOPPED in " ".join(str(plan).split())
            # the lowest peak is followed by a search within it
            assert plan.report.simulated == stop - 1 or (limit is None and plan.report.simulated < stop - 1)
            assert not plan.report.stop.complete


@each_sweep
def test_the_least_is_the_lowest_found_before_the_interrupt(sweep, solver):
    def ask():
        return solve(GRAPH, "least", solver=solver, raw=True)

    for stop in stops(sweep, ask)[1:]:
        sweep.restart(stop)
        plan = ask()
        assert figures(plan.simulation) == min(map(figures, sweep.simulations))
        assert plan.interrupted


@each_sweep
def test_under_an_overhead_the_lowest_that_keeps_it_is_given(sweep, solver):
    def ask():
        return solve(GRAPH, Budget(overhead=4), solver=solver)

    for stop in stops(sweep, ask):
        sweep.restart(stop)
        plan = ask()
        assert plan.overhead <= 4
        assert plan.interrupted
        fitting = [each for each in sweep.simulations if each.overhead <= 4]
        assert figures(plan.simulation) == min(map(figures, [simulate(GRAPH, range(GRAPH.n_nodes)), *fitting]))


@pytest.mark.parametrize("solver", ["auto", "search"])
@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupt_while_the_bound_is_computed_leaves_one_pass_and_the_start(monkeypatch, solver, calls):
    """In the closure bound, and in the moment bound, which larger graphs have beside it."""
    graph, real, counted = differentiate(chain(40)), bounding.rising, []

    def rising(*arguments, **options):
        counted.append(options["effort"])
        if len(counted) == calls:
            raise KeyboardInterrupt
        yield from real(*arguments, **options)

    monkeypatch.setattr(bounding, "rising", rising)
    base = baseline_peak(graph)
    if calls == 1:
        plan = solve(graph, base, solver=solver)
        assert (plan.method, plan.overhead, plan.interrupted) == ("no_remat", 0, True)
        assert STOPPED in " ".join(str(plan).split())
        counted.clear()
    with pytest.raises(KeyboardInterrupt, match="interrupted before"):
        solve(graph, base // 2, solver=solver)
    assert len(counted) == calls
    counted.clear()
    start = checkpoint_schedule(graph, np.arange(graph.n_nodes) % 6 == 0)
    limit = simulate(graph, start).peak_memory
    assert limit < base
    plan = solve(graph, limit, solver=solver, start=start)
    assert (plan.method, plan.peak_memory <= limit, plan.interrupted) == ("start", True, True)


def test_no_rematerialization_is_there_when_nothing_else_is(sweep):
    sweep.restart(1)
    plan = solve(GRAPH, "100%", solver="chen_sqrt")
    assert (plan.method, plan.overhead, plan.interrupted) == ("no_remat", 0, True)


def interrupted_once(monkeypatch, owner, name):
    """The first call of a method raises KeyboardInterrupt."""
    real, calls = getattr(owner, name), []

    def method(*arguments, **options):
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize("allocator", ["peak", "cupy_pool", "arena"])
@pytest.mark.parametrize("name", ["__init__", "begin", "best"])
def test_an_interrupt_around_the_solvers_leaves_one_pass(monkeypatch, allocator, name):
    interrupted_once(monkeypatch, SolverRun, name)
    plan = solve(GRAPH, "100%", solver="chen_sqrt", allocator=allocator)
    assert (plan.method, plan.overhead, plan.interrupted) == ("no_remat", 0, True)
    verify(GRAPH, plan)
    interrupted_once(monkeypatch, SolverRun, name)
    with pytest.raises(KeyboardInterrupt, match="interrupted before"):
        solve(GRAPH, "100%", solver="chen_sqrt", allocator=allocator, constraints={"regions": {"all": ("*", 9)}})


def test_an_interrupt_of_the_guard_keeps_what_solvers_found(monkeypatch):
    interrupted_once(monkeypatch, run_module, "baseline")
    plan = solve(GRAPH, 8, solver="chen_sqrt")
    assert (plan.method, plan.interrupted) == ("chen_sqrt", True)


@pytest.mark.parametrize(("owner", "name"), [(limits.Limits, "check_regions"), (Allocator, "base")])
def test_an_interrupt_before_the_search_says_so(monkeypatch, owner, name):
    interrupted_once(monkeypatch, owner, name)
    with pytest.raises(Interrupted, match="interrupted before"):
        solve(GRAPH, "100%")


def test_an_interrupt_while_packing_is_not_a_budget_that_cannot_be_met(monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    interrupted_once(monkeypatch, offsets, "pack")
    assert solve(GRAPH, "70%", allocator="arena").interrupted
    monkeypatch.setattr(offsets, "pack", interrupted)
    with pytest.raises(Interrupted, match="interrupted before"):
        solve(GRAPH, "70%", allocator="arena")


@pytest.mark.parametrize(("limit", "stop"), [(6, 1), (1, 5)])
def test_nothing_within_the_budget_is_an_interrupt(sweep, limit, stop):
    """Who was interrupted cannot say that nothing fits, even out of reach."""
    sweep.restart(stop)
    with pytest.raises(KeyboardInterrupt, match="interrupted before"):
        solve(GRAPH, limit, solver="chen_sqrt")


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_progress_line_may_be_what_is_interrupted(stop):
    """What was simulated by then is kept; some candidates are equal to earlier ones."""
    told = []

    def progress(done, listed, what):
        told.append(what)
        if len(told) == stop:
            raise KeyboardInterrupt

    plan = solve(GRAPH, "least", solver="chen_sqrt", raw=True, progress=progress)
    assert plan.interrupted
    assert 0 < plan.report.simulated <= stop
    assert len(told) == stop


def test_auto_asks_nobody_after_the_interrupt(sweep, monkeypatch):
    asked = [solver.name for solver in default_solvers()]
    assert asked[0] == "no_remat"  # which is simulated already
    before = []
    with monkeypatch.context() as patch:  # `auto` needs no search for the lowest peak, as one of its solvers fits
        patch.setattr(run_module.SolverRun, "unmet", property(lambda self: False))
        for name in asked:
            before.append(name)
            with suppress(BudgetError):
                if solve(GRAPH, 6, solver=name):  # the first that fits; it does not meet the bound
                    break
    first = sweep.calls
    sweep.restart(first + 3)
    plan = solve(GRAPH, 6)
    assert sweep.calls == first + 3
    fitting = [each for each in sweep.simulations if each.peak_memory <= 6]
    assert (plan.simulation.compute, plan.peak_memory) == min((j.compute, j.peak_memory) for j in fitting)
    assert (plan.solver, plan.interrupted) == ("auto", True)
    assert plan.method in asked[: len(before) + 1]


def test_what_a_solver_yielded_before_the_interrupt_is_kept(plant):
    """A solver is interrupted as it makes its third candidate."""

    def patient(graph, task, clock):
        for distance in 2, 3:
            yield checkpoint_schedule(graph, np.arange(graph.n_nodes) % distance == 0)
        raise KeyboardInterrupt

    plant(patient)
    for budget in Budget(overhead="100%"), "least":
        plan = solve(GRAPH, budget, solver="patient", raw=True)
        assert (plan.method, plan.interrupted, plan.report.simulated) == ("patient", True, 2)


def test_an_uninterrupted_plan_does_not_say_so():
    plan = solve(GRAPH, 8)
    assert not plan.interrupted
    assert "stopped" not in str(plan)
    assert "interrupted" not in plan.record()["details"]


def test_the_label_is_written_read_and_verified(tmp_path, sweep):
    sweep.restart(4)
    plan = solve(GRAPH, 8, solver="chen_greedy")
    assert plan.interrupted
    assert json.loads(plan.text())["details"]["interrupted"] is True
    for form in ("plan", "frees"):
        plan.save(tmp_path / "plan.json", form)
        loaded = Plan.load(tmp_path / "plan.json", GRAPH)
        assert loaded.interrupted
        assert f"not checked stopped: {STOPPED.removeprefix('stopped ')}" in " ".join(str(loaded).split())
        assert verify(GRAPH, tmp_path / "plan.json").peak_memory == plan.peak_memory
    assert figures(verify(GRAPH, plan)) == figures(plan.simulation)


# ---------------------------------------------------------------- frontier


@each_sweep
def test_a_curve_interrupted_at_any_plan_holds_those_before_it(sweep, solver, monkeypatch):
    monkeypatch.setattr(run_module, "polish", lambda graph, simulation, limit: simulation)

    def ask():
        return frontier(GRAPH, solvers=[solver])

    for stop in stops(sweep, ask):
        sweep.restart(stop)
        found = ask()
        assert found.stop is Stop.INTERRUPTED
        before = [figures(each) for each in sweep.simulations]
        wanted = [p for p in sorted(set(before)) if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in before)]
        assert [figures(plan.simulation) for plan in found.plans] == wanted
        assert found.reasons == ({} if wanted else {solver: "interrupted"})
        assert found.record()["interrupted"] is True


def test_curves_found_before_the_interrupt_stay_and_nobody_is_asked_after_it(sweep):
    whole = frontier(GRAPH, solvers=CHEN[:1])
    first = sweep.calls
    sweep.restart(first + 3)
    found = frontier(GRAPH, solvers=[*CHEN, "no_remat"])
    assert sweep.calls == first + 3
    assert list(found.curves) == [*CHEN[:2], "no_remat"]  # which is run first, and is simulated already
    assert [figures(p.simulation) for p in found.curves["chen_sqrt"]] == [figures(p.simulation) for p in whole.plans]
    assert found.reasons == {"chen_recursive": "interrupted"}
    assert found.stop is Stop.INTERRUPTED


def test_a_reason_told_before_the_interrupt_stays(plant):
    def stopped(graph, task, clock):
        raise KeyboardInterrupt
        yield

    plant(stopped, price=0.1)
    found = frontier(chain(5), solvers=["chen_sqrt", "stopped", "twremat"])
    assert "no backward part" in found.reasons["chen_sqrt"]
    assert (found.reasons["stopped"], found.reasons["twremat"]) == ("interrupted", "interrupted")
    assert (found.plans, found.best("100%")) == ((), None)


# ---------------------------------------------------------------- compare


def test_a_comparison_has_what_was_found_and_says_who_was_not_tried(sweep):
    compare(GRAPH, 8, solvers=CHEN[:1])
    first = sweep.calls
    sweep.restart(first + 4)
    found = compare(GRAPH, 8, solvers=[*CHEN, "greedy_remat"])
    assert sweep.calls == first + 4
    entries = {entry.solver: entry for entry in found.entries}
    assert not entries["chen_sqrt"].plan.interrupted
    assert entries["chen_greedy"].plan.interrupted
    for name in ("chen_recursive", "greedy_remat"):
        assert (entries[name].plan, entries[name].reason) == (None, "not tried: interrupted")
    assert found.stop is Stop.INTERRUPTED
    record = found.record()
    assert record["complete"] is False
    said = {entry["solver"]: entry.get("interrupted") for entry in record["solvers"]}
    assert said == {"chen_sqrt": False, "chen_greedy": True, "chen_recursive": None, "greedy_remat": None}
    assert {entry.solver: entry.note for entry in found.entries} == {
        "chen_sqrt": "",
        "chen_greedy": "interrupted, the best found",
        "chen_recursive": "not tried: interrupted",
        "greedy_remat": "not tried: interrupted",
    }


def test_a_solver_interrupted_before_anything_fits_has_no_plan(sweep):
    sweep.restart(1)
    found = compare(GRAPH, 8)
    assert {entry.solver for entry in found.entries} == {solver.name for solver in default_solvers()}
    assert all(entry.plan is None for entry in found.entries)
    reasons = {entry.solver: entry.reason for entry in found.entries}
    assert "no schedule within 8 B was found" in reasons.pop("no_remat")  # which comes first
    assert sorted(reasons.values()) == ["interrupted", *["not tried: interrupted"] * (len(reasons) - 1)]
    assert found.stop is Stop.INTERRUPTED


def test_a_comparison_that_came_to_its_end_is_complete():
    found = compare(GRAPH, 8)
    assert found.stop.complete
    assert found.record()["complete"] is True
