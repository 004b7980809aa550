"""A solver that fails after its first schedule: what it found is kept, and said to be that."""

import json
from dataclasses import replace

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.cli.main import main
from remat_algos.context import Stop
from remat_algos.errors import GraphError, ScheduleError
from remat_algos.schedule.emission import checkpoint_schedule
from remat_algos.zoo.random import chain

GRAPH = ra.differentiate(chain(12))
ERRORS = [GraphError("the rest is too wide"), ScheduleError("a value is freed twice", 0, 0)]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def failing(request, plant):
    def half_done(graph, task, clock):
        yield checkpoint_schedule(graph, np.arange(graph.n_nodes) % 3 == 0)
        raise request.param

    return plant(half_done)


def test_its_plan_is_kept_and_says_so_in_text_and_json(failing, tmp_path):
    plan = ra.solve(GRAPH, "90%", solver="half_done")
    assert (plan.method, plan.report.stop) == ("half_done", Stop.FAILED)
    assert "stopped a solver failed; this is the best plan found" in " ".join(str(plan).split())
    plan.save(tmp_path / "plan.json")
    details = json.loads((tmp_path / "plan.json").read_text())["details"]
    assert (details["failed"], details["complete"]) == (True, False)
    loaded = ra.Plan.load(tmp_path / "plan.json", GRAPH)
    assert loaded.report.stop is Stop.FAILED
    assert loaded.record()["details"]["failed"]
    ra.verify(GRAPH, loaded)


def test_a_comparison_has_the_word_too(failing):
    found = ra.compare(GRAPH, "90%", solvers=["half_done", "no_remat"])
    failed = {entry.solver: entry for entry in found.entries}["half_done"]
    assert (failed.record()["feasible"], failed.record()["failed"]) == (True, True)
    assert "half_done: failed, the best found" in found.notes()


def test_without_a_plan_within_the_budget_its_error_is_the_answer(failing, request):
    with pytest.raises((GraphError, ScheduleError), match=r"too wide|freed twice"):
        ra.solve(GRAPH, "10%", solver="half_done")


def test_the_others_of_auto_are_not_touched(failing, tmp_path, capsys):
    plan = ra.solve(GRAPH, "60%", effort="fast")
    assert plan.report.stop.complete
    assert main(["compare", "model:feed_forward?batch=2", "--budget", "100%", "--json", "--solver", "echo"]) == 0
    assert json.loads(capsys.readouterr().out)["solvers"][0]["failed"] is False


def test_a_time_limit_does_not_hide_that_a_solver_failed(failing):
    stop = (Stop.FAILED | Stop.DEADLINE, Stop.DEADLINE | Stop.FAILED)
    assert stop == (Stop.FAILED, Stop.FAILED)
    plan = ra.solve(GRAPH, "90%", solver="half_done")
    late = replace(plan.report, stop=plan.report.stop | Stop.DEADLINE)
    assert late.record()["failed"]
