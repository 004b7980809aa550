"""The fuzz drivers run, and each finds the faults that are planted here."""

import copy
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.bounds.bound import LowerBound
from tests.fuzz import api, files, graphs, portfolio, seeds, signals, units
from tests.fuzz.__main__ import DRIVERS
from tests.fuzz.campaign import Campaign, Report, run_case
from tests.fuzz.mutations import mutated
from tests.fuzz.random_graphs import random_graph

ROOT = Path(__file__).parent.parent
SHORT = {
    "graphs": 20,
    "bounds": 1,
    "portfolio": 1,
    "files": 20,
    "doors": 150,
    "untrusted": 20,
    "api": 40,
    "seeds": 1,
    "units": 1,
    "signals": 2,
}
real_solve = ra.solve


def kinds(report):
    return {fault.kind for fault in report.faults}


def found_in(case, numbers, wanted):
    """Kinds of faults in the cases of these numbers, up to the first that has all those wanted."""
    found = set()
    for number in numbers:
        found |= kinds(run_case(case, 1, number))
        if found >= wanted:
            break
    return found


def in_child(case, tmp_path, patience=60.0, count=2):
    """What comes of a case that is played in a process of its own."""
    campaign = Campaign("planted", case, "cases", 1, tmp_path, patience)
    campaign.run(count=count)
    return campaign


# ---------------------------------------------------------------- they run


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_runs_and_prints_its_counts(name, tmp_path):
    words = ["--seed", "2", "--count", str(SHORT[name]), "--keep", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    summary = done.stdout.partition(f"{name}, seed 2:")[2]  # behind the lines that say how far it is
    counts = dict(line.rsplit(maxsplit=1) for line in summary.splitlines() if line.startswith("  "))
    counts = {what.strip(): int(number.replace(",", "")) for what, number in counts.items()}
    assert counts[DRIVERS[name].UNIT] >= SHORT[name]
    assert done.stdout.endswith("\n0 faults\n")


def test_graphs_have_all_features_and_a_seed_gives_the_same_again():
    drawn = []
    for i in range(400):
        try:
            drawn.append(random_graph(random.Random(f"1/{i}")))
        except ra.GraphError:
            continue
    assert len(drawn) > 350
    assert any(graph.updates.any() for graph in drawn)
    assert any(graph.is_training and graph.mark is not None for graph in drawn)
    assert any((graph.memory == 0).all() for graph in drawn)
    assert any(graph.once.any() and graph.n_values > graph.n_nodes and graph.workspace.any() for graph in drawn)
    assert random_graph(random.Random("1/7")).hash == random_graph(random.Random("1/7")).hash


def test_every_solver_with_options_has_some_to_try():
    known = {solver.name: solver.options for solver in ra.list_solvers()}
    assert {name for name, options in known.items() if options} == set(graphs.OPTIONS)
    assert all(set(options) <= set(known[name]) for name, options in graphs.OPTIONS.items())


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")  # as in a campaign
def test_files_as_they_are_are_accepted_and_mutated_ones_are_others(tmp_path):
    for name, reader in files.all_readers().items():
        for file, data in reader.files.items():
            (tmp_path / file).write_bytes(data)
            rng = random.Random(name)
            assert any(mutated(rng, file, data) != data for _ in range(3))
        report = Report()
        files.check(report, name, reader.read, tmp_path, reader.files)
        assert (report.counts["read"], report.faults) == (1, []), name


# ---------------------------------------------------------------- they find what is planted


def forged(thing, **fields):
    """A copy with other fields, which its type has not checked."""
    thing = copy.copy(thing)
    for name, value in fields.items():
        object.__setattr__(thing, name, value)
    return thing


def other_figures(plan):
    trace = plan.simulation.memory_trace + 1
    return forged(plan, simulation=forged(plan.simulation, memory_trace=trace))


def above_the_budget(plan):
    return replace(real_solve(plan.graph, solver="no_remat", raw=True), limit=plan.limit)


def one_run_more(plan):
    spare = np.flatnonzero(~plan.graph.once & (plan.graph.compute > 0))
    order = [*plan.schedule.order.tolist(), *spare[-1:].tolist()]
    return replace(plan, simulation=ra.simulate(plan.graph, order))


def not_run(plan):
    return forged(plan, simulation=forged(plan.simulation, schedule=ra.Schedule(plan.schedule.order[:0])))


def refused(plan):
    raise ra.BudgetError("no", 10**9, 0, [])


def high_bound(plan):
    raise ra.BudgetError("no", 2**60, 2**60, [])


def below_the_bound(plan):
    raise ra.BudgetError("no", 1, 2, [])


def broken(plan):
    raise KeyError("x")


def wordy(plan):
    raise ra.GraphError("two\nlines")


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        (other_figures, "figures that are not so"),
        (above_the_budget, "plan above its budget"),
        (one_run_more, "worse than no rematerialization"),
        (not_run, "schedule that cannot be run"),
        (lambda plan: replace(plan, bound_or_search=LowerBound(plan.simulation.compute + 1)), "bound above the plan"),
        (lambda plan: replace(plan, bound_or_search=LowerBound(plan.simulation.compute)), "bound above the optimum"),
        (refused, "refused though no rematerialization fits"),
        (high_bound, "lower bound above the least peak"),
        (below_the_bound, "reached below the lower bound"),
        (below_the_bound, "reached below the least peak"),
        (broken, "KeyError"),
        (wordy, "an error is no sentence"),
    ],
)
def test_a_solver_that_lies_is_found(monkeypatch, lie, kind):
    monkeypatch.setattr(ra, "solve", lambda *arguments, **options: lie(real_solve(*arguments, **options)))
    assert kind in found_in(graphs.case, range(12), {kind})


def test_an_optimum_that_is_beaten_is_found(monkeypatch):
    monkeypatch.setattr(graphs, "least_compute", lambda lists, limit: (10**9, []))
    monkeypatch.setattr(graphs, "least_peak", lambda lists: (10**9, []))
    wanted = {"compute below the optimum", "peak below the optimum"}
    assert found_in(graphs.case, range(8), wanted) >= wanted


def test_a_plan_that_is_not_accepted_again_is_found(monkeypatch):
    def verify(graph, plan):
        raise ra.errors.ClaimError("no")

    monkeypatch.setattr(ra, "verify", verify)
    wanted = {"a plan is not accepted when it is read again"}
    assert found_in(graphs.case, range(8), wanted) == wanted


def test_a_graph_that_changes_in_a_file_is_found(monkeypatch):
    one, other = (ra.ComputationGraph.from_edges([(0, v)]) for v in (1, 1))
    report = Report()
    graphs.round_trips(report, one)
    assert not report.faults
    monkeypatch.setattr(ra, "read_graph", lambda path: replace(other, memory=[1, 5]))
    graphs.round_trips(report, one)
    assert kinds(report) == {"another graph after a round trip"}


def test_bytes_that_no_allocator_can_reserve_are_found(monkeypatch):
    def modest(*arguments, **options):
        plan = real_solve(*arguments, **options)
        return replace(plan, reservation=replace(plan.reservation, memory=0))

    subject = graphs.Subject(ra.ComputationGraph.from_edges([(0, 1), (1, 2)]))
    report = Report()
    for seed in range(4):
        graphs.reserved(random.Random(seed), report, subject)
    assert not report.faults
    monkeypatch.setattr(ra, "solve", modest)
    for seed in range(4):
        graphs.reserved(random.Random(seed), report, subject)
    assert kinds(report) == {"reserved bytes that cannot be"}


def lazy(graph, budget, **options):
    if options["solver"] == "auto":
        options |= {"solver": "no_remat", "raw": True}
    return real_solve(graph, budget, **options)


def boastful(graph, budget, **options):
    plan = real_solve(graph, budget, **options)
    return (
        replace(plan, bound_or_search=LowerBound(plan.simulation.compute + 1)) if options["solver"] == "auto" else plan
    )


@pytest.mark.parametrize(
    ("solve", "cases", "found"),
    [
        (lazy, (12, 20), {"auto finds no plan where one solver does", "auto is worse than one solver"}),
        (boastful, (0, 1), {"a plan below the bound of auto", "bound above the plan"}),
    ],
)
def test_an_auto_that_does_less_or_claims_more_is_found(monkeypatch, solve, cases, found):
    monkeypatch.setattr(ra, "solve", solve)
    assert found_in(portfolio.case, cases, found) >= found


def contrary(graph, budget, *, seed, **options):
    """Costs rise with the budget and the seed, and "least" costs most."""
    costs = 10**30 if budget == "least" else 10**6 * budget + 10**9 * seed
    return SimpleNamespace(peak_memory=1, overhead=costs)


def test_a_question_put_another_way_that_costs_more_is_found(monkeypatch):
    monkeypatch.setattr(ra, "solve", contrary)
    wanted = {"least costs more than its bytes", "a looser budget costs more", "seeds differ"}
    assert found_in(seeds.case, range(5), wanted) == wanted


def test_a_unit_that_decides_is_found(monkeypatch):
    exact = units.in_unit

    def rounded(graph, compute, unit):
        return exact(graph, [10**9 * -(-each // 10**9) if unit == "s" else each for each in compute], unit)

    monkeypatch.setattr(units, "in_unit", rounded)
    assert found_in(units.case, range(3), {"a unit decides"}) == {"a unit decides"}


def raising(error):
    def read(folder):
        raise error

    return read


opened = []


def left_open(folder):
    opened.append(open(folder / "planted", "w"))  # noqa: SIM115 - that is the fault


def slow(folder):
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (raising(KeyError("x")), "KeyError"),
        (raising(MemoryError()), "MemoryError"),
        (raising(RecursionError()), "RecursionError"),
        (raising(ra.GraphError("two\nlines")), "an error is no sentence"),
        (raising(ra.GraphError("x" * 2000)), "an error is no sentence"),
        (left_open, "a file is left open"),
        (slow, "more than 0.1 s for one file"),
    ],
)
def test_a_reader_that_fails_is_found(monkeypatch, tmp_path, read, kind):
    monkeypatch.setattr(files, "MOST_SECONDS", 0.1)
    report = Report()
    files.check(report, "planted", read, tmp_path, {"g.txt": b"A B\n"})
    assert [(fault.kind, fault.files) for fault in report.faults] == [(kind, {"g.txt": b"A B\n"})]
    while opened:
        opened.pop().close()


def test_a_graph_that_cannot_be_used_is_found(monkeypatch):
    def differentiate(graph):
        raise IndexError

    monkeypatch.setattr(ra, "differentiate", differentiate)
    report = Report()
    files.check_use(report, "planted", ra.ComputationGraph.from_edges([(0, 1)]), {})
    assert kinds(report) == {"IndexError in use"}


def test_an_error_that_no_caller_expects_is_found(monkeypatch):
    monkeypatch.setattr(api, "CALLS", {"planted": lambda arguments: [][arguments.n]})
    report = run_case(api.case, 1, 0)
    assert kinds(report) == {"IndexError from planted"}


def dies(rng, report):
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(rng, report):
    while True:
        pass


def sleeps(rng, report):
    time.sleep(600)


def fails(rng, report):
    raise RuntimeError("planted")


def keeps(rng, report):
    report.fault("planted", "detail", {"g.txt": b"A B\n"})


def test_a_crash_a_hang_and_a_failure_of_a_case_are_faults_and_the_next_case_runs(tmp_path, capsys):
    for case, kind in ((dies, "the interpreter died of SIGSEGV"), (fails, "the check itself failed")):
        campaign = in_child(case, tmp_path)
        assert (campaign.kinds, campaign.total["cases"]) == ({kind: 2}, 2)
    for case in (hangs, sleeps):
        campaign = in_child(case, tmp_path, patience=0.1, count=1)
        assert campaign.kinds == {"a case without an end": 1}
    shown = capsys.readouterr().out
    assert "in dies" in shown  # where it was
    assert "in hangs" in shown
    assert "in sleeps" in shown
    assert "again: python -m tests.fuzz planted --seed 1 --case 1" in shown


def test_inputs_of_faults_are_kept(tmp_path, capsys):
    campaign = in_child(keeps, tmp_path)
    assert campaign.kinds == {"planted": 2}
    assert (tmp_path / "planted-1-0" / "g.txt").read_bytes() == b"A B\n"
    assert campaign.summary().endswith("FAULT planted: 2\n2 faults")
    assert f"input: {tmp_path / 'planted-1-1' / 'g.txt'}" in capsys.readouterr().out


DEAF = "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(3)); print('{', flush=True); time.sleep(30)"
LEAVES = "import pathlib, time; pathlib.Path('.x.part').touch(); time.sleep(30)"
HALF = "import pathlib; pathlib.Path('plan.json').write_text('{')"
GONE = "import pathlib; pathlib.Path('plan.json').unlink()"
RUDE = "def interruptible():\n    raise KeyError\ninterruptible()"


@pytest.mark.parametrize(
    ("program", "command", "stop", "found"),
    [
        (DEAF, "--json", signal.SIGINT, {"another exit code after SIGINT", "half of a JSON object is printed"}),
        (LEAVES, "", signal.SIGTERM, {"a temporary file is left"}),
        (HALF, "", signal.SIGTERM, {"half of a file is written"}),
        (GONE, "", signal.SIGTERM, {"a file is gone"}),
        (RUDE, "", signal.SIGTERM, {"a traceback", "a command that fails by itself"}),
    ],
)
def test_a_command_that_is_not_clean_is_found(monkeypatch, tmp_path, program, command, stop, found):
    monkeypatch.setattr(signals, "PROGRAM", (sys.executable, "-c", program))
    report = Report()
    writes = () if program in (DEAF, LEAVES) else ("plan.json",)
    signals.stopped(report, "planted", signals.Command((command,), writes), stop, 1.5, True, tmp_path)
    assert kinds(report) == found
