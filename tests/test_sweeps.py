"""Sweeps: jobs and their files, results that survive workers and drivers, and jobs that go wrong."""

import contextlib
import csv
import errno
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest

import remat_algos as ra
from remat_algos.context import Stop
from remat_algos.errors import PlanError, SweepError
from remat_algos.solvers.registry import SOLVERS as SOLVERS_KNOWN
from remat_algos.solvers.registry import list_solvers, solver
from remat_algos.sweeps import driver as driver_module
from remat_algos.sweeps import list_jobs, read_jobs
from remat_algos.sweeps import worker as worker_module
from remat_algos.sweeps.children import Child
from remat_algos.sweeps.folder import SweepFolder, driving
from remat_algos.sweeps.results import RECORD_KEYS, SweepResults
from tests.raising import raises

LONG = "x{" * 3000
CHAIN = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(9)])
FORK = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
ROOT = Path(__file__).parents[1]
SOLVERS = "tests.sweep_solvers"
in_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
MEASURED = ("seconds", "cpu_seconds", "memory", "tries", "host")

ROWS = [
    {"graph": [CHAIN, FORK], "budget": ["90%", "60%", 3], "solver": ["chen_sqrt", "greedy_remat"], "effort": "fast"}
]


@pytest.fixture(autouse=True)
def _solvers_that_go_wrong_are_known_here_alone(monkeypatch):
    """A sweep imports them in this process too, where other tests would run them."""
    list_solvers()
    monkeypatch.setattr(SOLVERS_KNOWN, "entries", dict(SOLVERS_KNOWN.entries))
    yield
    sys.modules.pop(SOLVERS, None)


def drivers_of(folder):
    """Names of the drivers that run, or were killed."""
    return sorted(file.stem for file in (folder / "drivers").glob("*.json"))


def lasting(results):
    """The rows without what differs from run to run."""
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in results]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept") / "results"
    return ra.sweep(ROWS, folder, processes=1)


@pytest.fixture
def folder(swept, tmp_path):
    """A copy of the folder of that sweep."""
    return shutil.copytree(swept.folder, tmp_path / "copy")


@pytest.fixture
def in_process(monkeypatch):
    """Jobs are solved by threads of this process, which start at once: for tests that are not about processes."""

    def solved(record, graph, conditions):
        return worker_module.answered({**record, "file": graph})

    monkeypatch.setattr(driver_module, "solved", solved)
    monkeypatch.setattr(driver_module, "Processes", ThreadPoolExecutor)


# ---------------------------------------------------------------- jobs


def test_a_row_with_lists_is_a_job_for_each_combination():
    jobs = list_jobs([{"graph": ["a", "b"], "budget": ["50%", 4], "solver": "echo", "seed": [0, 1, 2], "gap": 0.5}])
    assert len(jobs) == 12
    assert {(job.graph, job.budget.memory, job.seed) for job in jobs} == {
        (graph, budget, seed) for graph in "ab" for budget in ("50%", 4) for seed in range(3)
    }
    assert {(job.solver, job.effort, tuple(job.options.items())) for job in jobs} == {
        ("echo", "default", (("gap", 0.5),))
    }


def test_budgets_may_limit_more_than_memory():
    rows = [
        {"graph": "a", "budget": "50%", "overhead": "10%"},
        {"graph": "a", "device": "4GiB"},
        {"graph": "a", "budget": {"memory": 3, "overhead": 2}},
        {"graph": "a", "budget": ra.Budget(overhead="3%")},
        {"graph": "a"},
    ]
    assert [job.budget for job in list_jobs(rows)] == [
        ra.Budget("50%", "10%"),
        ra.Budget(device="4GiB"),
        ra.Budget(3, 2),
        ra.Budget(overhead="3%"),
        ra.Budget(),
    ]


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"budget": "50%"}, 'no "graph"'),
        ("model:unet", "'model:unet'"),
        ({"graph": 3}, "graph is 3"),
        ({"graph": CHAIN, "budget": 0.5}, "budget is 0.5"),
        ({"graph": CHAIN, "budget": {"bytes": 3}}, "'bytes'"),
        ({"graph": CHAIN, "start": CHAIN}, "options of a job"),
        ({"graph": CHAIN, "solver": "chen"}, "10 nodes, "),
        ({"graph": CHAIN, "effort": "some"}, "'some'"),
        ({"graph": CHAIN, "seed": -1}, "seed is -1"),
        ({"graph": CHAIN, "solver": "chen_sqrt", "segment": 3}, "segment"),
        ({"graph": "model:nothing"}, "(model:nothing, budget none, by auto): "),
        ({"graph": "no/such.json"}, "no/such.json"),
        ({"graph": CHAIN, "gradients": {"factor": -1}}, "factor is -1"),
        ({"graph": CHAIN, "gradients": {"decode": 1}}, "'decode'"),
        ({"graph": CHAIN, "gradients": {LONG: 1}}, "no option"),
        ({"graph": LONG}, "too long"),
        ({"graph": CHAIN, "nodes": LONG}, "nodes applies to an edge list"),
        ({"graph": CHAIN, "solver": LONG}, "unknown solver"),
        ({"graph": CHAIN, "budget": LONG}, "'x{"),
        ({"graph": CHAIN, "effort": LONG}, "effort is"),
        ({"graph": CHAIN, LONG: 1}, "'x{"),
        ({"graph": CHAIN, "solver": "echo", LONG: 1}, "'x{"),
        ({"graph": CHAIN, "allocator": LONG}, "allocator"),
        ({"graph": CHAIN, "constraints": {LONG: 1}}, "constraints"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_job_that_cannot_be_right_is_refused_before_any_is_solved(row, word, tmp_path):
    with raises(SweepError, place="job 2") as caught:
        ra.sweep([{"graph": CHAIN, "budget": "50%"}, row], tmp_path / "results")
    assert word in str(caught.value)
    assert len(str(caught.value)) < 600
    assert not list(SweepFolder(tmp_path / "results").figures())


def test_a_solver_that_workers_cannot_import_is_refused(tmp_path, monkeypatch):
    def of_a_script(graph, task, clock):
        yield None

    monkeypatch.setattr(of_a_script, "__module__", "__main__")
    solver(portfolio=False)(of_a_script)
    with pytest.raises(SweepError, match="solver 'of_a_script' is defined in this script; move it to a module"):
        ra.sweep([{"graph": CHAIN, "solver": "of_a_script"}], tmp_path / "results")


def test_jobs_are_read_from_lines_and_from_a_table(tmp_path):
    (tmp_path / "graphs").mkdir()
    lines = '{"graph": ["graphs/a.csv", "model:unet"], "budget": "50%", "seed": [0, 1]}\n\n{"graph": "b.json"}\n'
    table = "graph,budget,solver,seed,gap,gradients\ngraphs/a.csv,50%,echo,1,,\nmodel:unet,4000,,,0.5,false\n"
    (tmp_path / "jobs.jsonl").write_text(lines)
    (tmp_path / "jobs.csv").write_text(table)
    jobs = read_jobs(tmp_path / "jobs.jsonl")
    a, b = str(tmp_path / "graphs" / "a.csv"), str(tmp_path / "b.json")
    assert [(job.graph, job.seed) for job in jobs] == [(a, 0), (a, 1), ("model:unet", 0), ("model:unet", 1), (b, 0)]
    first, second = read_jobs(tmp_path / "jobs.csv")
    assert (first.graph, first.budget.memory, first.solver, first.seed, first.options) == (a, "50%", "echo", 1, {})
    assert (second.budget.memory, second.solver, second.gradients, second.options) == (
        4000,
        "auto",
        False,
        {"gap": 0.5},
    )


@pytest.mark.parametrize(
    ("name", "text", "fields"),
    [
        ("jobs.jsonl", '{"graph": "a"}\n{"graph": \n', {"named": "jobs.jsonl", "line": 2}),
        ("jobs.jsonl", '{"graph": "a"}\n[1]\n', {"line": 2}),
        ("jobs.jsonl", "", {"named": "jobs.jsonl"}),
        ("jobs.csv", "graph,budget\na,50%,1\n", {"line": 2}),
        ("jobs.csv", "graph,budget,,note\na,50%,x,\n", {"line": 2}),
        ("jobs.csv", "graph,budget,budget \na,50%,80%\n", {"twice": "budget"}),
        ("jobs.jsonl", '{"graph": "a", "budget": "80%", "budget": "50%"}', {"line": 1}),
        ("jobs.jsonl", '{"graph": "a", "gradients": {"loss": "a", "loss": "b"}}', {"line": 1}),
        ("jobs.csv", "budget\n50%\n", {"named": "jobs.csv", "line": 2}),
        ("jobs.txt", "a", {"name": "jobs.txt"}),
    ],
)
def test_a_file_of_jobs_that_cannot_be_read_names_the_line(name, text, fields, tmp_path):
    (tmp_path / name).write_text(text)
    with raises(SweepError, **fields):
        read_jobs(tmp_path / name)


@pytest.mark.usefixtures("in_process")
def test_a_graph_is_differentiated_unless_a_job_says_otherwise(tmp_path):
    rows = [{"graph": CHAIN, "gradients": each, "solver": "no_remat"} for each in (True, False, {"factor": 3})]
    found = ra.sweep(rows, tmp_path / "results", processes=1)
    assert [row["nodes"] for row in found] == [20, 10, 20]
    assert [row["one_pass"] for row in found] == [28, 10, 37]


# ---------------------------------------------------------------- results


def test_the_results_are_those_of_solve(swept):
    assert [row["solver"] for row in swept] == ["chen_sqrt", "greedy_remat"] * 6
    for i, row in enumerate(swept):
        graph, budget = ra.differentiate([CHAIN, FORK][i // 6]), ra.Budget(row["budget"])
        if row["outcome"] == "infeasible":
            with pytest.raises(ra.BudgetError) as caught:
                ra.solve(graph, budget, solver=row["solver"], effort="fast")
            assert (row["reason"], row["reached"]) == (str(caught.value), caught.value.reached)
            with pytest.raises(PlanError, match=f"row {i} has no plan: infeasible"):
                swept.plan(i)
            continue
        plan = ra.solve(graph, budget, solver=row["solver"], effort="fast")
        assert (row["peak_memory"], row["compute"], row["limit"]) == (
            plan.peak_memory,
            plan.simulation.compute,
            plan.limit,
        )
        assert swept.plan(i).schedule.order.tolist() == plan.schedule.order.tolist()
        assert row["memory"] > 2**20
        assert row["cpu_seconds"] > 0
        assert row["tries"] == 1
    assert {row["outcome"] for row in swept} == {"planned", "infeasible"}


@pytest.mark.usefixtures("in_process")
def test_a_finished_sweep_solves_nothing_and_reads_no_model(tmp_path, monkeypatch):
    rows = [{"graph": "model:vgg11", "budget": ["90%", "80%"], "solver": "chen_sqrt"}]
    first = ra.sweep(rows, tmp_path / "results", processes=1)
    monkeypatch.setattr(driver_module, "solved", None)
    monkeypatch.setattr(driver_module, "job_graph", None)
    again = ra.sweep(rows, tmp_path / "results")
    assert again.records == first.records


def test_other_jobs_of_the_same_folder_are_not_in_the_results_but_can_be_read(swept):
    found = ra.sweep(ROWS[:1], swept.folder)
    one = ra.sweep([{**ROWS[0], "graph": FORK, "solver": "chen_sqrt"}], swept.folder)
    assert found.records == swept.records
    assert len(one) == 3
    assert sorted(row["job"] for row in ra.read_sweep(swept.folder)) == sorted(row["job"] for row in swept)


def test_a_table_has_every_column_and_row(swept, tmp_path):
    swept.save(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == ",".join(RECORD_KEYS)
    assert len(lines) == 1 + len(swept)
    with pytest.raises(SweepError, match=r"table\.xls has another extension; use \.csv, \.parquet"):
        swept.save(tmp_path / "table.xls")


def test_a_table_in_parquet_is_read_again(swept, tmp_path):
    pandas = pytest.importorskip("pandas")
    swept.save(tmp_path / "table.parquet")
    found = pandas.read_parquet(tmp_path / "table.parquet")
    assert found["peak_memory"].fillna(-1).tolist() == [
        -1 if row["peak_memory"] is None else row["peak_memory"] for row in swept
    ]


def test_the_summary_counts_what_the_rows_hold(swept):
    rows = {row[0]: row for row in swept.rows()}
    for name, row in rows.items():
        own = [each for each in swept if each["solver"] == name]
        planned = [each for each in own if each["outcome"] == "planned"]
        assert row[1:6] == (str(len(own)), str(len(planned)), str(len(own) - len(planned)), "0", "0")
    ratios = swept.ratios()
    assert set(ratios) == {"chen_sqrt", "greedy_remat"}
    assert all(min(each) >= 1 for each in ratios.values())
    best = [min(pair) for pair in zip(*ratios.values(), strict=True)]
    assert best[0] == 1


# ---------------------------------------------------------------- jobs that go wrong


def test_what_a_job_does_to_its_process_is_recorded_and_the_others_are_done(tmp_path):
    rows = [
        {"graph": CHAIN, "budget": "100%", "solver": ["hungry", "raising", "endless", "crashing"]},
        {"graph": CHAIN, "budget": "100%", "solver": "no_remat", "seed": list(range(6))},
    ]
    found = ra.sweep(
        rows, tmp_path / "results", processes=2, retries=2, timeout=3, memory=600 * 2**20, modules=[SOLVERS]
    )
    failed = {row["solver"]: row for row in found if row["outcome"] == "failed"}
    assert set(failed) == {"hungry", "raising", "endless", "crashing"}
    assert "more than the 600 MiB of a job" in failed["hungry"]["reason"]
    assert failed["raising"]["reason"] == "RuntimeError: of itself"
    assert failed["endless"]["reason"] == "it took more than 3 s"
    assert failed["crashing"]["reason"].startswith("its process ended (SIGSEGV)")
    assert {row["tries"] for row in failed.values()} == {2}
    assert [row["outcome"] for row in found].count("planned") == 6
    assert "failed: it took more than 3 s" in str(found)


@in_proc
def test_a_process_that_has_ended_is_seen_while_what_it_started_lives_and_that_is_ended_too(tmp_path):
    row = {"graph": CHAIN, "solver": "forking"}
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORKED", str(tmp_path / "forked"))
        found = ra.sweep([row], tmp_path / "results", processes=1, retries=1, modules=[SOLVERS])
    assert time.monotonic() - begun < 20
    assert found[0]["reason"].startswith("its process ended (SIGKILL")
    started = Path("/proc", (tmp_path / "forked").read_text(), "stat")
    end = time.monotonic() + 10
    while started.exists() and started.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_number_of_a_process_that_has_gone_is_not_used_again(monkeypatch):
    child = Child(())
    child.begin()
    child.kill()
    monkeypatch.setattr(os, "killpg", None)  # it would be called
    child.stop()
    child.kill()


@pytest.mark.usefixtures("in_process")
def test_a_solver_that_cannot_serve_the_graph_is_refused_in_its_words(tmp_path):
    found = ra.sweep([{"graph": CHAIN, "solver": "echo", "gradients": False}], tmp_path / "results", processes=1)
    assert found[0]["outcome"] == "refused"
    assert "backward part" in found[0]["reason"]


# ---------------------------------------------------------------- executors


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_any_executor_gives_the_same_results(kind, swept, tmp_path):
    pool = ThreadPoolExecutor(2) if kind == "threads" else ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with pool:
        found = ra.sweep(ROWS, tmp_path / "results", pool)
        assert pool.submit(len, "ab").result() == 2  # it was not shut down
    assert lasting(found) == lasting(swept)


@pytest.mark.parametrize("when", ["during the sweep", "from the start"])
def test_an_executor_that_breaks_is_made_anew_by_a_callable(when, tmp_path, swept):
    made = []

    def make():
        made.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        if len(made) == 1:
            dying = made[0].submit(os._exit, 1)
            if when == "from the start":
                with pytest.raises(BrokenExecutor):
                    dying.result()
        return made[-1]

    found = ra.sweep(ROWS, tmp_path / "results", make)
    assert len(made) == 2
    assert lasting(found) == lasting(swept)


@pytest.mark.usefixtures("in_process")
def test_a_failed_job_is_solved_again_if_asked(tmp_path, monkeypatch):
    rows = [{"graph": CHAIN, "solver": "counting"}]
    ran = [ra.sweep(rows, tmp_path / "results", processes=1, retries=1, modules=[SOLVERS])]  # it does not know COUNTED
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    ran += [
        ra.sweep(rows, tmp_path / "results", processes=1, modules=[SOLVERS], retry_failed=retry)
        for retry in (False, True)
    ]
    assert [found[0]["outcome"] for found in ran] == ["failed", "failed", "planned"]
    assert ran[0][0]["reason"].startswith("KeyError")


def test_an_interrupt_while_processes_start_ends_them_too(tmp_path):
    def progress(done, total, text):
        if threading.active_count() > 1:
            raise KeyboardInterrupt

    rows = [{"graph": CHAIN, "solver": "endless", "seed": [0, 1]}]
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.sweeps.tuning.LOOK", 0.01)
        patch.setattr(driver_module, "_workers", lambda executor: progress(0, 0, "") or 2)
        found = ra.sweep(rows, tmp_path / "results", processes=2, modules=[SOLVERS])
    assert time.monotonic() - begun < 5
    assert (found.stop, len(found), found.left) == (Stop.INTERRUPTED, 0, 2)


def failing_starts(monkeypatch, seconds):
    """No process can be started for so long."""
    begun, start = time.monotonic(), subprocess.Popen

    def popen(*arguments, **options):
        if time.monotonic() - begun < seconds:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return start(*arguments, **options)

    monkeypatch.setattr("remat_algos.sweeps.children.subprocess.Popen", popen)


def test_a_machine_that_starts_no_process_for_a_while_fails_no_job(tmp_path, monkeypatch, swept):
    monkeypatch.setattr("remat_algos.sweeps.tuning.PAUSE", 0.05)
    failing_starts(monkeypatch, 0.5)
    found = ra.sweep(ROWS, tmp_path / "results", processes=2, retries=1)
    assert lasting(found) == lasting(swept)
    assert {row["tries"] for row in found} == {1}


def test_a_machine_that_starts_no_process_at_all_ends_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr("remat_algos.sweeps.tuning.PAUSE", 0.01)
    monkeypatch.setattr("remat_algos.sweeps.tuning.START_PATIENCE", 0.2)
    failing_starts(monkeypatch, 60)
    with pytest.raises(SweepError, match=r"no process .* for 0\.2 s \(Resource temporarily unavailable\); free memory"):
        ra.sweep(ROWS, tmp_path / "results", processes=2)
    assert not results_in(tmp_path / "results")


def test_a_process_that_takes_long_to_start_is_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr("remat_algos.sweeps.tuning.PAUSE", 0.01)
    monkeypatch.setattr("remat_algos.sweeps.tuning.START_PATIENCE", 0.2)
    monkeypatch.setattr("remat_algos.sweeps.tuning.START", 0.02)
    with pytest.raises(SweepError, match=r"\(it took more than 0\.02 s\); free memory"):
        ra.sweep(ROWS, tmp_path / "results", processes=1)


def test_an_interrupt_while_jobs_are_checked_counts_all_that_are_left(tmp_path, monkeypatch):
    def interrupted(job, graph):
        if job.seed == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(driver_module, "check_job", interrupted)
    found = ra.sweep([{"graph": CHAIN, "solver": "no_remat", "seed": list(range(9))}], tmp_path / "results")
    assert (found.stop, len(found), found.left) == (Stop.INTERRUPTED, 0, 9)


def test_an_executor_that_breaks_is_an_error_and_what_is_finished_stays(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(os._exit, 1)
        with pytest.raises(SweepError, match=r"run the sweep again with a new one|give one that runs"):
            ra.sweep(ROWS, tmp_path / "results", pool)
    assert not drivers_of(tmp_path / "results")


# ---------------------------------------------------------------- several drivers, and none

COMMAND = """
import sys, remat_algos as ra
graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(9)])
row = {"graph": graph, "solver": "counting", "effort": "fast", "raw": True, "seed": list(range(int(sys.argv[2])))}
part = tuple(map(int, sys.argv[3].split("/")))
ra.sweep([row], sys.argv[1], processes=2, part=part, modules=["tests.sweep_solvers"])
"""


@pytest.fixture
def driven(tmp_path):
    """Starts drivers of one folder in processes of their own."""
    counted = tmp_path / "counted.txt"
    counted.touch()
    running = []

    def start(jobs, part="1/1", seconds=0.05):
        env = {**os.environ, "COUNTED": str(counted), "COUNTING_SECONDS": str(seconds), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", COMMAND, str(tmp_path / "results"), str(jobs), part]
        running.append(subprocess.Popen(command, env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        return running[-1]

    start.counted, start.folder = counted, tmp_path / "results"
    yield start
    for process in running:
        process.kill()
        process.communicate()


def workers_of(process):
    """Numbers of the processes that solve jobs for a driver."""
    found = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(number) for children in found for number in children.read_text().split()]


def results_in(folder):
    return len(list(folder.glob("results/*/*.json")))


def until(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_drivers_of_one_folder_each_solve_their_part(driven):
    both = [driven(12, "1/2"), driven(12, "2/2")]
    for process in both:
        assert process.wait(60) == 0, process.communicate()[1]
    assert sorted(map(int, driven.counted.read_text().split())) == list(range(12))
    assert len(ra.read_sweep(driven.folder)) == 12
    assert not drivers_of(driven.folder)


@in_proc
def test_a_driver_that_is_killed_loses_only_what_was_being_solved(driven):
    first = driven(16)
    until(lambda: results_in(driven.folder) >= 3, first)
    first.send_signal(signal.SIGSTOP)  # it still has its lock
    for part in ("1/1", "1/2"):
        second = driven(16, part)
        err = second.stderr.read()
        assert second.wait(60) == 1
        said = (
            f"results: process {first.pid} on {socket.gethostname()} solves part 1/1 of these jobs; run the sweep again"
        )
        assert said in err
    workers = workers_of(first)
    first.kill()
    first.wait()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):  # they see that it has gone
        assert time.monotonic() < end
        time.sleep(0.02)
    before, solved_before = results_in(driven.folder), len(driven.counted.read_text().split())
    assert driven(16).wait(60) == 0
    found = ra.read_sweep(driven.folder)
    assert sorted(row["seed"] for row in found) == list(range(16))
    assert len(driven.counted.read_text().split()) - solved_before == 16 - before
    assert not drivers_of(driven.folder)


@in_proc
def test_workers_that_are_killed_cost_nothing_but_a_try(driven):
    process = driven(20, seconds=0.1)
    for count in (3, 8):
        until(lambda count=count: results_in(driven.folder) >= count, process)
        for worker in workers_of(process):
            os.kill(worker, signal.SIGKILL)
    assert process.wait(60) == 0
    found = ra.read_sweep(driven.folder)
    assert sorted(row["seed"] for row in found) == list(range(20))
    assert {row["outcome"] for row in found} == {"planned"}
    assert max(row["tries"] for row in found) > 1


@in_proc
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_ends_soon_and_keeps_what_is_finished(sent, tmp_path):
    (tmp_path / "graph.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(9)))
    (tmp_path / "jobs.jsonl").write_text(
        json.dumps({"graph": "graph.txt", "solver": "counting", "seed": list(range(99))})
    )
    env = {**os.environ, "COUNTED": str(tmp_path / "counted"), "COUNTING_SECONDS": "0.2", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "remat_algos", "sweep", tmp_path / "jobs.jsonl", "-o", tmp_path / "results"]
    process = subprocess.Popen(
        [*command, "--import", SOLVERS], env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: results_in(tmp_path / "results") >= 3, process)
    workers = workers_of(process)
    assert workers
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if sent == signal.SIGINT else 143), err
    assert "interrupted" in out
    assert "left; run the same sweep again to continue" in " ".join(out.split())
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert 3 <= len(ra.read_sweep(tmp_path / "results")) < 99


@pytest.mark.usefixtures("in_process")
def test_an_interrupt_ends_a_sweep_with_the_results_until_then(tmp_path):
    def progress(done, total, text):
        if done > 300:
            raise KeyboardInterrupt

    found = ra.sweep(ROWS, tmp_path / "results", processes=1, progress=progress)
    assert found.stop is Stop.INTERRUPTED
    assert 0 < len(found) < 12
    assert found.left == 12 - len(found)
    assert "interrupted: " in str(found)


# ---------------------------------------------------------------- parts


@pytest.mark.usefixtures("in_process")
def test_parts_are_equal_shares_that_make_a_whole(tmp_path, swept):
    parts = [ra.sweep(ROWS, tmp_path / "results", processes=1, part=(i, 5)) for i in range(1, 6)]
    assert sorted(map(len, parts)) == [2, 2, 2, 3, 3]
    jobs = [row["job"] for part in parts for row in part]
    assert len(jobs) == len(set(jobs)) == len(swept)
    assert lasting(ra.sweep(ROWS, tmp_path / "results")) == lasting(swept)
    for part in ((4, 3), (0, 3), (1,)):
        with pytest.raises(SweepError, match=rf"part is {re.escape(str(list(part)))}; give"):
            ra.sweep(ROWS, tmp_path / "results", part=part)


@pytest.mark.usefixtures("in_process")
def test_jobs_that_are_added_between_parts_are_solved_once_all_parts_have_run_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))

    def solved(n_jobs, part):
        rows = [{"graph": CHAIN, "solver": "counting", "effort": "fast", "raw": True, "seed": list(range(n_jobs))}]
        return ra.sweep(rows, tmp_path / "results", processes=1, part=part, modules=[SOLVERS])

    assert len(solved(6, (1, 2))) == 3
    for part in ((1, 2), (2, 2)):
        found = solved(12, part)
        assert (len(found), found.left) == (6, 0)
    assert sorted(map(int, (tmp_path / "counted").read_text().split())) == list(range(12))


OVERLAPS = {
    (1, 1): {(1, 1): True, (1, 2): True, (2, 2): True, (2, 3): True},
    (1, 2): {(1, 1): True, (1, 2): True, (2, 2): False, (2, 3): True},
    (12, 30): {(1, 1): True, (12, 30): True, (1, 30): False, (2, 30): False, (1, 3): True},
}


@pytest.mark.parametrize(("held", "part", "overlaps"), [(a, b, OVERLAPS[a][b]) for a in OVERLAPS for b in OVERLAPS[a]])
def test_a_part_that_may_hold_jobs_of_a_running_driver_is_refused(held, part, overlaps, tmp_path):
    store = SweepFolder(tmp_path / "results")
    who = f"process {os.getpid()} on {socket.gethostname()} solves part {held[0]}/{held[1]} of"
    with driving(store, held, "jobs"):
        if overlaps:
            with pytest.raises(SweepError, match=f"{re.escape(who)} these jobs; run the sweep again when it has ended"):
                driving(store, part, "jobs").__enter__()
        else:
            with driving(store, part, "jobs"):
                assert len(drivers_of(store.path)) == 2
        with pytest.raises(SweepError, match=f"{re.escape(who)} another list of jobs; run"):
            driving(store, part, "other jobs").__enter__()
        assert drivers_of(store.path) == [f"{held[0]}-of-{held[1]}"]
    with driving(store, part, "other jobs"):
        assert drivers_of(store.path) == [f"{part[0]}-of-{part[1]}"]
    assert not drivers_of(store.path)


def test_a_sweep_that_solves_nothing_needs_no_lock(swept):
    with driving(SweepFolder(swept.folder), (1, 1), "other jobs"):
        assert lasting(ra.sweep(ROWS, swept.folder)) == lasting(swept)


def test_jobs_that_another_driver_has_solved_before_the_lock_are_not_solved_again(tmp_path, monkeypatch, swept):
    check = driver_module.check_job

    def checked(job, graph):
        check(job, graph)
        shutil.copytree(swept.folder / "results", tmp_path / "results" / "results", dirs_exist_ok=True)

    monkeypatch.setattr(driver_module, "check_job", checked)
    monkeypatch.setattr(driver_module, "Processes", None)
    assert lasting(ra.sweep(ROWS, tmp_path / "results")) == lasting(swept)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_the_lock_goes_with_the_driver_however_that_ends(error, tmp_path):
    def progress(done, total, text):
        assert drivers_of(tmp_path / "results") == ["1-of-1"]
        raise error

    with contextlib.suppress(SystemExit, OSError):
        assert ra.sweep(ROWS, tmp_path / "results", processes=1, progress=progress).stop is Stop.INTERRUPTED
    assert not drivers_of(tmp_path / "results")
    with driving(SweepFolder(tmp_path / "results"), (1, 1), "jobs"):
        pass


FORKED = """
import os, sys, time
from pathlib import Path
from remat_algos.sweeps.folder import SweepFolder, driving
with driving(SweepFolder(Path(sys.argv[1])), (1, 1), "jobs"):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(600)
"""


@in_proc
def test_a_killed_driver_leaves_no_lock_even_if_a_process_that_it_forked_lives_on(tmp_path):
    folder = tmp_path / "results"
    process = subprocess.Popen([sys.executable, "-c", FORKED, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        assert drivers_of(folder) == ["1-of-1"]
        with driving(SweepFolder(folder), (2, 2), "other jobs"):
            assert drivers_of(folder) == ["2-of-2"]
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_the_lock_of_a_driver_is_not_that_of_a_file_made_anew(tmp_path):
    """Somebody takes a driver for dead and removes its file: another driver begins, and keeps its own file."""
    store = SweepFolder(tmp_path / "results")
    with driving(store, (1, 1), "jobs"):
        (store.path / "drivers" / "1-of-1.json").unlink()
        second = driving(store, (1, 1), "jobs")
        second.__enter__()
    assert drivers_of(store.path) == ["1-of-1"]
    with pytest.raises(SweepError, match="solves part 1/1"):
        driving(store, (1, 1), "jobs").__enter__()
    second.__exit__(None, None, None)
    assert not drivers_of(store.path)


def test_a_system_that_removes_no_open_file_closes_it_first(tmp_path, monkeypatch):
    unlink = Path.unlink
    store = SweepFolder(tmp_path / "results")
    manager = driving(store, (1, 1), "jobs")
    manager.__enter__()
    tries = []

    def once_closed(file, missing_ok=False):
        tries.append(file.name)
        if len(tries) == 1:
            raise PermissionError(errno.EACCES, "it is open")
        unlink(file, missing_ok)

    monkeypatch.setattr(Path, "unlink", once_closed)
    manager.__exit__(None, None, None)
    assert tries == ["1-of-1.json"] * 2
    assert not drivers_of(store.path)


def without_locks(file, operation):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("flock", [without_locks, None], ids=["no locks", "Windows"])
def test_where_files_cannot_be_locked_a_file_counts_until_it_is_removed(flock, tmp_path, monkeypatch):
    monkeypatch.setattr("remat_algos.sweeps.folder.fcntl", flock and SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4))
    store = SweepFolder(tmp_path / "results")
    file = store.path / "drivers" / "1-of-2.json"
    with driving(store, (1, 2), "jobs"), driving(store, (2, 2), "jobs"):
        left = file.read_bytes()
    assert not drivers_of(store.path)
    file.write_bytes(left)  # as a driver that is killed leaves it
    with (
        driving(store, (2, 2), "jobs"),
        pytest.raises(SweepError, match=r"or remove .*1-of-2\.json if it no longer runs"),
    ):
        driving(store, (1, 2), "jobs").__enter__()
    file.unlink()
    with driving(store, (1, 2), "jobs"):
        pass


@pytest.mark.parametrize(
    "text", [b"", b"[1]", b'{"host": [], "jobs": {}}', b"\xff{", b'{"process": "\\u0000' + b"x" * 9999 + b'"}']
)
def test_a_damaged_file_of_a_running_driver_is_told_in_a_sentence(text, tmp_path):
    store = SweepFolder(tmp_path / "results")
    with driving(store, (1, 1), "jobs"):
        (store.path / "drivers" / "1-of-1.json").write_bytes(text)
        with pytest.raises(
            SweepError, match=r"process .* on .* solves part 1/1 of (these|another list of) jobs; "
        ) as error:
            driving(store, (1, 1), "jobs").__enter__()
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


def test_other_files_among_those_of_drivers_are_left_alone(tmp_path):
    store = SweepFolder(tmp_path / "results")
    (store.path / "drivers").mkdir()
    names = ("README", ".DS_Store", "notes.txt", "1-of-1.json.swp", "of.json", "x-of-2.json")
    for name in names:
        (store.path / "drivers" / name).write_bytes(b"\xff\0 is no driver")
    with driving(store, (1, 1), "jobs"):
        pass
    assert set(names) <= {file.name for file in (store.path / "drivers").iterdir()}


def test_half_written_files_of_killed_drivers_are_removed(tmp_path):
    store = SweepFolder(tmp_path / "results")
    old, young = (store.result_file("ab").with_name(name) for name in (".old.part", ".young.part"))
    old.parent.mkdir(parents=True)
    old.touch()
    os.utime(old, (0, 0))
    young.touch()  # another driver may write it
    with driving(store, (1, 1), "jobs"):
        assert (old.exists(), young.exists()) == (False, True)


# ---------------------------------------------------------------- the folder


def test_texts_of_a_table_are_no_formulas_for_a_spreadsheet(swept):
    texts = {"graph": "=cmd|' /C calc'!A0", "reason": "+1+1", "host": "@SUM(1)", "solver": "-x", "method": "\tx"}
    row = swept[0] | texts | {"seed": -5}
    table = SweepResults(swept.folder, (row,)).csv()
    (cells,) = csv.DictReader(io.StringIO(table))
    assert {name: cells[name] for name in texts} == {name: f"'{text}" for name, text in texts.items()}
    assert cells["seed"] == "-5"


@pytest.mark.usefixtures("in_process")
def test_a_full_disk_is_one_error_and_what_is_written_stays(tmp_path, monkeypatch):
    written = SweepFolder.write_result

    def full(self, job, figures, plan):
        if len(list(self.figures())) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.result_file(job)))
        written(self, job, figures, plan)

    monkeypatch.setattr(SweepFolder, "write_result", full)
    with pytest.raises(OSError, match="No space left"):
        ra.sweep(ROWS, tmp_path / "results", processes=2)
    assert len(ra.read_sweep(tmp_path / "results")) == 5
    monkeypatch.setattr(SweepFolder, "write_result", written)
    assert len(ra.sweep(ROWS, tmp_path / "results", processes=1)) == 12


def test_a_folder_that_is_no_sweeps_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    (tmp_path / "file").touch()
    for name, said in (("mine", "contains other files"), ("file", "is a file")):
        with pytest.raises(SweepError, match=said):
            ra.sweep(ROWS, tmp_path / name)
    for name in ("mine", "missing"):
        with pytest.raises(SweepError, match="is not the folder of a sweep"):
            ra.read_sweep(tmp_path / name)
    (tmp_path / "mine" / "sweep.json").write_text('{"format": "remat-sweep", "version": 9}')
    with pytest.raises(SweepError, match="has version 9; this release reads version 1"):
        ra.read_sweep(tmp_path / "mine")


DAMAGE = {
    "cut": lambda line, plan: line[:20],
    "empty": lambda line, plan: b"",
    "other types": lambda line, plan: b'{"job": 1, "name": 2, "request": 3, "outcome": 4}\n' + plan,
    "no number": lambda line, plan: line.replace(b'"compute": ', b'"compute": null, "was": ') + plan,
    "another job": lambda line, plan: line.replace(b'"job": "', b'"job": "0') + plan,
    "more than a float": lambda line, plan: line.replace(b'"cpu_seconds": ', b'"cpu_seconds": 1e400, "was": ') + plan,
    "a huge number": lambda line, plan: line.replace(b'"compute": ', b'"compute": 1%s, "was": ' % (b"0" * 99)) + plan,
    "not a number": lambda line, plan: line.replace(b'"gap": ', b'"gap": NaN, "was": ') + plan,
    "no time": lambda line, plan: line.replace(b'"seconds": ', b'"seconds": -Infinity, "was": ') + plan,
    "a flag": lambda line, plan: line.replace(b'"peak_memory": ', b'"peak_memory": true, "was": ') + plan,
    "deep": lambda line, plan: line.replace(b'"stop": ', b'"stop": %s, "was": ' % (b"[" * 9999 + b"]" * 9999)) + plan,
    "a list for a reason": lambda line, plan: line.replace(b'"stop": ', b'"reason": [], "stop": ') + plan,
    "a list for a seed": lambda line, plan: line.replace(b'"seed": ', b'"seed": [], "was": ') + plan,
    "no text": lambda line, plan: line.replace(b'"name": "', b'"name": "\xff') + plan,
    "an endless time": lambda line, plan: line.replace(b'"cpu_seconds": ', b'"cpu_seconds": 1e308, "was": ') + plan,
    "a time below 0": lambda line, plan: line.replace(b'"seconds": ', b'"seconds": -1.5, "was": ') + plan,
    "bytes below 0": lambda line, plan: line.replace(b'"one_pass": ', b'"one_pass": -1, "was": ') + plan,
    "more bytes than add up": lambda line, plan: (
        line.replace(b'"peak_memory": ', b'"peak_memory": 1%s, "was": ' % (b"0" * 17)) + plan
    ),
    "failed for no reason": lambda line, plan: line.replace(b'"outcome": "planned"', b'"outcome": "failed"') + plan,
    "text for a time": lambda line, plan: line.replace(b'"cpu_seconds": ', b'"cpu_seconds": "long", "was": ') + plan,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_results_are_counted(name, swept, folder):
    planned = next(row for row in swept if row["outcome"] == "planned")
    file = SweepFolder(folder).result_file(planned["job"])
    file.write_bytes(DAMAGE[name](*file.read_bytes().splitlines(keepends=True)))
    found = ra.read_sweep(folder)
    assert (len(found), found.damaged) == (11, 1)
    assert "left out: 1 damaged file; run the sweep again to solve these jobs" in str(found)


@pytest.mark.usefixtures("in_process")
def test_damaged_results_are_solved_anew(swept, folder):
    for file in sorted(folder.glob("results/*/*.json"))[:3]:
        file.write_bytes(file.read_bytes()[:20])
    assert lasting(ra.sweep(ROWS, folder, processes=1, retry_failed=True)) == lasting(swept)
    assert ra.read_sweep(folder).damaged == 0


def test_a_result_under_the_name_of_another_is_not_counted(swept, folder):
    file = next(folder.glob("results/*/*.json"))
    for copy in (file.with_name(f"{'0' * 32}.json"), folder / "results" / "zz" / file.name):
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    found = ra.read_sweep(folder)
    assert (len(found), found.damaged) == (12, 2)


@pytest.mark.usefixtures("in_process")
def test_a_file_in_the_place_of_a_folder_of_results_is_counted(swept, folder):
    part = next(folder.glob("results/*"))
    lost = len(list(part.iterdir()))
    shutil.rmtree(part)
    part.write_text("lost")
    found = ra.read_sweep(folder)
    assert (len(found), found.damaged) == (12 - lost, 1)
    with pytest.raises(
        SweepError, match=f"results/{part.name} is a file, but the sweep needs a folder of that name; remove it"
    ):
        ra.sweep(ROWS, folder, processes=1)
    part.unlink()
    assert lasting(ra.sweep(ROWS, folder, processes=1)) == lasting(swept)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("name", ["results", "drivers"])
def test_a_file_in_the_place_of_a_folder_of_a_sweep_is_told(name, swept, folder):
    shutil.rmtree(next(folder.glob("results/*")))
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).write_text("lost")
    assert len(ra.read_sweep(folder)) < 12
    with pytest.raises(
        SweepError, match=rf"{name}(/.+)? is a file, but the sweep needs a folder of that name; remove it"
    ):
        ra.sweep(ROWS, folder, processes=1)


@pytest.mark.parametrize("plan", [b"", b'{"format": "rem', b"[]"])
def test_a_plan_that_is_damaged_is_told_with_its_file(plan, swept, folder):
    found = ra.read_sweep(folder)
    i = next(i for i, row in enumerate(found) if row["outcome"] == "planned")
    file = SweepFolder(folder).result_file(found[i]["job"])
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0] + plan)
    with pytest.raises(PlanError, match=rf"{file.name} is damaged and contains no plan; remove it"):
        found.plan(i)


@pytest.mark.usefixtures("in_process")
def test_a_damaged_graph_is_written_anew_from_its_source(tmp_path):
    rows = [{"graph": "model:vgg11", "budget": "80%", "solver": "chen_sqrt"}]
    first = ra.sweep(rows, tmp_path / "results", processes=1)
    graph = next((tmp_path / "results" / "graphs").iterdir())
    graph.write_bytes(graph.read_bytes()[:99])
    with pytest.raises(SweepError, match=rf"{graph.name} is missing or damaged; run the sweep again to write it"):
        ra.read_sweep(tmp_path / "results").plan(0)
    shutil.rmtree(tmp_path / "results" / "results")
    assert lasting(ra.sweep(rows, tmp_path / "results", processes=1)) == lasting(first)


def test_results_of_several_versions_are_not_compared(swept):
    older = tuple(row | {"version": "0.0.9", "job": row["job"][::-1]} for row in swept)
    both = SweepResults(swept.folder, swept.records + older)
    assert "results of several versions of remat_algos (0.0.9, " in str(both)
    assert both.ratios() == {name: sorted(each * 2) for name, each in swept.ratios().items()}


@pytest.mark.usefixtures("in_process")
def test_a_job_that_is_listed_twice_is_one(tmp_path):
    row = {"graph": CHAIN, "budget": "60%", "solver": ["chen_sqrt", "no_remat"], "effort": "fast"}
    found = ra.sweep([row, row], tmp_path / "results", processes=1)
    assert [each["solver"] for each in found] == ["chen_sqrt", "no_remat"] * 2
    assert [each[:2] for each in found.rows()] == [("chen_sqrt", "1"), ("no_remat", "1")]
    assert list(found.rows()) == list(ra.read_sweep(tmp_path / "results").rows())


@pytest.mark.usefixtures("in_process")
def test_each_job_calls_its_graph_as_it_does(tmp_path):
    (tmp_path / "a.txt").write_text("0 1\n1 2\n")
    (tmp_path / "b.txt").write_text("0 1\n1 2\n")
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    found = ra.sweep([{"graph": names, "solver": "no_remat"}], tmp_path / "results", processes=1)
    assert [row["graph"] for row in found] == names
    assert len({row["job"] for row in found}) == 1


def test_results_are_pickled_and_told_in_a_line(swept):
    import pickle

    again = pickle.loads(pickle.dumps(swept))
    assert again.records == swept.records
    assert repr(swept) == f"<SweepResults: {sum(r['outcome'] == 'planned' for r in swept)} planned, " + (
        f"{sum(r['outcome'] == 'infeasible' for r in swept)} infeasible>"
    )
    assert isinstance(swept, SweepResults)


# ---------------------------------------------------------------- the command


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    (tmp_path / "graph.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(9)))
    row = {"graph": "graph.txt", "budget": ["90%", "60%"], "solver": ["chen_sqrt", "greedy_remat"]}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(row))
    monkeypatch.chdir(tmp_path)
    return "jobs.jsonl"


def test_the_command_solves_and_shows(jobs, remat, tmp_path):
    solved = remat("sweep", jobs, "-o", "results", "--processes", "1", "--table", "table.csv", "--plot", "-")
    assert solved.code == 0
    assert "results: 4 results" in solved.out
    assert solved.out.splitlines()[1].split() == ["solver", "jobs", "planned", "best", "overhead", "gap", "cpu"]
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 5
    shown = remat("sweep", "results", "--json")
    assert [row["solver"] for row in shown.record["rows"]] == ["chen_sqrt", "greedy_remat"] * 2
    assert (shown.record["stop"], shown.record["left"]) == ("done", 0)


@pytest.mark.usefixtures("in_process")
def test_a_log_has_a_line_of_progress_from_time_to_time(jobs, remat, monkeypatch):
    assert remat("sweep", jobs, "-o", "once", "--processes", "1").err == ""
    monkeypatch.setattr("remat_algos.cli.commands.sweep.LOG_SECONDS", 0.0)
    lines = remat("sweep", jobs, "-o", "results", "--processes", "1").err.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d+ % · 0:\d\d · \d done, \d left( · about 0:\d\d to go)?", line) for line in lines)
    assert "4 done, 0 left" in lines[-1]


@pytest.mark.usefixtures("in_process")
def test_the_command_says_how_many_failed_and_why(jobs, remat, tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "graph,solver,seed\ngraph.txt,raising,0\ngraph.txt,raising,1\ngraph.txt,no_remat,0\n"
    )
    solved = remat("sweep", "jobs.csv", "-o", "results", "--processes", "2", "--retries", "1", "--import", SOLVERS)
    assert solved.code == 4
    assert "failed: RuntimeError: of itself (2 jobs)" in solved.flat


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs.jsonl"], "results need a folder; give -o FOLDER"),
        (["missing.jsonl", "-o", "r"], "no such file: missing.jsonl"),
        (["reslts"], "no such file: reslts; name jobs, .jsonl or .csv, or a folder of results"),
        (["jobs.jsonl", "-o", "r", "--part", "3/2"], "'3/2' is not a part; give I/N with I from 1 to N"),
        (["jobs.jsonl", "-o", "r", "--processes", "0"], "--processes is 0; give 1 or more"),
        (["jobs.jsonl", "-o", "r", "--memory", "much"], "--memory: 'much' is not a size"),
        (["jobs.jsonl", "-o", "r", "--import", "no_such_module"], "module 'no_such_module' cannot be imported"),
        (["jobs.jsonl", "-o", "r", "--table", "t.xls"], "t.xls does not end in .csv, .parquet"),
        (["jobs.jsonl", "-o", "."], ". contains other files; name a new folder"),
        ([".", "--retries", "3"], "--retries needs jobs, but . is a folder of results"),
        ([".", "--part", "1/1"], "--part needs jobs, but . is a folder of results"),
        ([".", "--retry-failed"], "--retry-failed needs jobs"),
        (["."], ". is not the folder of a sweep"),
        (
            ["jobs.jsonl", "-o", "r", "--dask", "tcp://x", "--processes", "2"],
            "--dask has its own processes; leave out one",
        ),
    ],
    ids=" ".join,
)
def test_bad_input_of_the_command_is_one_sentence(words, said, jobs, remat):
    answer = remat("sweep", *words)
    assert answer.code == 2
    assert said in " ".join(answer.err.split())
    assert answer.err.count("remat: ") == 1


@pytest.mark.parametrize("budget", ["100%", "least"])
def test_a_solver_that_yields_nothing_has_failed(budget, tmp_path):
    @solver(paper="chen2016")
    def without_schedules(graph, limit, context):
        yield from ()

    file = tmp_path / "chain.npz"
    ra.write_graph(CHAIN, file)
    job = {"file": file, "solver": "without_schedules", "effort": "fast", "seed": 0, "options": {}}
    figures, plan = worker_module.answered(job | {"budget": {"memory": budget}})
    assert (figures["outcome"], plan) == ("failed", "")
    assert "without_schedules yielded no schedule" in figures["reason"]
    figures, _ = worker_module.answered(job | {"budget": {"memory": budget}, "solver": "no_remat"})
    assert figures["outcome"] == "planned"
