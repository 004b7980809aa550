"""The record of what solvers find, and the comparison of two records (`tests/benchmarks/solver_results.py`)."""

import copy
import json
from functools import partial

import pytest

import remat_algos as ra
from tests.benchmarks.solver_results import (
    ALL,
    ALONE,
    EFFORTS,
    GOLDEN,
    STANDARD,
    compare,
    graphs,
    main,
    record,
    result,
)
from tests.test_golden import FILES

FIGURES = {"feasible": True, "peak": 100, "compute": 1500, "overhead": 50.0, "order": "aa", "reached": None}
INFEASIBLE = {"feasible": False, "peak": None, "compute": None, "overhead": None, "order": None, "reached": 100}


def row(solver, budget="50%", **changes):
    place = {"graph": "chain", "solver": solver, "budget": budget, "polished": True}
    return place | FIGURES | {"complete": True, "seconds": 2.0} | changes


def recorded(*rows):
    return {"graphs": {"chain": {"nodes": 9}}, "rows": list(rows)}


@pytest.mark.parametrize(
    ("solver", "budget", "old", "new", "order", "fault"),
    [
        ("auto", "50%", {}, {}, 0, ""),
        ("auto", "50%", {}, {"peak": 102}, 1, ""),  # still within the budget
        ("auto", "50%", {}, {"compute": 1501, "overhead": 50.1, "peak": 90}, 1, ""),
        ("auto", "50%", {}, {"compute": 1502, "overhead": 50.2}, 1, "0.20 points more overhead"),
        ("chen_sqrt", "50%", {}, {"compute": 1502, "overhead": 50.2}, 1, ""),
        ("chen_sqrt", "50%", {}, {"compute": 1506, "overhead": 50.6}, 1, "0.60 points more overhead"),
        ("chen_sqrt", "50%", {}, {"compute": 1400, "overhead": 40.0, "peak": 101}, -1, ""),
        ("auto", "least", {}, {"peak": 101}, 1, ""),
        ("auto", "least", {}, {"peak": 102, "compute": 1400, "overhead": 40.0}, 1, "peak 2.00 % higher"),
        ("auto", "least", {}, {"peak": 99, "compute": 1600, "overhead": 60.0}, -1, ""),
        ("auto", "least", {}, {"compute": 1600, "overhead": 60.0}, 1, "10.00 points more overhead"),
        ("auto", "50%", {}, INFEASIBLE, 1, "infeasible"),
        ("exact_dp", "50%", {}, {**INFEASIBLE, "complete": False}, 1, "infeasible (cut short by the time limit)"),
        ("auto", "50%", INFEASIBLE, {}, -1, ""),
        ("auto", "50%", INFEASIBLE, {**INFEASIBLE, "reached": 90}, -1, ""),
        ("auto", "50%", INFEASIBLE, {**INFEASIBLE, "reached": 101}, 1, ""),
        ("auto", "50%", INFEASIBLE, {**INFEASIBLE, "reached": 102}, 1, "peak 2.00 % higher"),
        ("auto", "50%", INFEASIBLE, {**INFEASIBLE, "reached": None}, 1, "peak inf % higher"),
        ("auto", "50%", {**INFEASIBLE, "reached": None}, {**INFEASIBLE, "reached": None}, 0, ""),
    ],
)
def test_a_result_is_better_or_worse_and_accepted_or_not(solver, budget, old, new, order, fault):
    (found,) = compare(recorded(row(solver, budget, **old)), recorded(row(solver, budget, **new)))
    assert (found["order"], found["fault"]) == (order, fault)


def test_a_worse_result_is_listed_and_gives_exit_code_1(tmp_path, capsys):
    before = recorded(row("auto"), row("echo"), row("gone"))
    after = copy.deepcopy(before)
    after["rows"][1] |= {"compute": 1600, "overhead": 60.0, "order": "bb", "seconds": 1.0}
    del after["rows"][2]
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, each in zip(files, (before, after), strict=True):
        file.write_text(json.dumps(each))
    words = ["compare", *map(str, files)]
    assert main(words) == 1
    _, auto, echo, everything, absent, worse = capsys.readouterr().out.splitlines()
    assert " ".join(auto.split()) == "auto 1 0 1 0 0.000 0.000 2.0 2.0 1.00 1"
    assert " ".join(echo.split()) == "echo 1 0 0 1 10.000 0.000 2.0 1.0 0.50 0"
    assert " ".join(everything.split()) == "all 2 0 1 1 10.000 0.000 4.0 3.0 0.75 1"
    assert absent == "1 results only in the first: gone and chain"
    assert worse == (
        "worse: chain, echo, 50%: 10.00 points more overhead; peak 100 overhead 50.000 % -> peak 100 overhead 60.000 %"
    )
    assert main([*words, "--points", "0.1", "11"]) == 0
    assert main(["compare", str(files[0]), str(files[0])]) == 0


@pytest.mark.parametrize(("cut_short", "code"), [("before", 0), ("after", 1)])
def test_what_the_time_limit_had_cut_short_before_is_listed_only(tmp_path, capsys, cut_short, code):
    rows = {"before": row("exact_dp"), "after": row("exact_dp", compute=1600, overhead=60.0)}
    rows[cut_short]["complete"] = False
    for which, each in rows.items():
        (tmp_path / which).write_text(json.dumps(recorded(each)))
    assert main(["compare", *(str(tmp_path / which) for which in rows)]) == code
    assert "10.00 points more overhead (cut short by the time limit)" in capsys.readouterr().out


def test_records_that_have_nothing_to_compare_are_refused():
    with pytest.raises(ValueError, match="no result in common"):
        list(compare(recorded(row("auto")), recorded(row("echo"))))
    with pytest.raises(ValueError, match="not the same graph in both records: chain"):
        list(compare(recorded(row("auto")), recorded(row("auto")) | {"graphs": {"chain": {"nodes": 10}}}))


def compared_equal(tmp_path, capsys, before, after):
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, each in zip(files, (before, after), strict=True):
        file.write_text(json.dumps(each))
    code = main(["compare", "--equal", *map(str, files)])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({}, []),
        ({"overhead": 51.0, "reason": "other words"}, []),  # follow from the others, or are text
        ({"peak": 99}, ["different: chain, auto, 50%: peak 100 overhead 50.000 % -> peak 99 overhead 50.000 %"]),
        (
            {"order": "bb"},
            ["different: chain, auto, 50%: peak 100 overhead 50.000 % -> peak 100 overhead 50.000 % by another order"],
        ),
        (INFEASIBLE, ["different: chain, auto, 50%: peak 100 overhead 50.000 % -> reached 100"]),
    ],
)
def test_equal_compares_figure_for_figure(tmp_path, capsys, changes, printed):
    before = recorded(row("auto"), row("echo"))
    after = copy.deepcopy(before)
    after["rows"][0] |= changes
    code, lines = compared_equal(tmp_path, capsys, before, after)
    assert (code, lines[:-1]) == (int(bool(printed)), printed)
    assert lines[-1].startswith(f"2 results: {len(printed)} different, 0 above 1.1 x the CPU seconds; in sum 4.0")


@pytest.mark.parametrize(
    ("before", "after", "code", "last"),
    [
        ([2.0, 1.0], [2.1, 0.5], 0, "0 above 1.1 x the CPU seconds; in sum 3.0 -> 2.6 s, 0.87 x"),
        ([2.0, 1.0], [2.0, 1.01], 0, "0 above 1.1 x the CPU seconds; in sum 3.0 -> 3.0 s, 1.00 x"),
        ([2.0, 1.0], [2.0, 1.03], 1, "0 above 1.1 x the CPU seconds; in sum 3.0 -> 3.0 s, 1.01 x"),
        ([2.0, 1.0], [1.0, 1.2], 1, "1 above 1.1 x the CPU seconds; in sum 3.0 -> 2.2 s, 0.73 x"),
        ([2.0, 0.01], [1.9, 0.05], 0, "0 above 1.1 x the CPU seconds; in sum 2.0 -> 1.9 s, 0.97 x"),  # the clock's
    ],
)
def test_equal_results_may_not_take_longer(tmp_path, capsys, before, after, code, last):
    records = [recorded(*map(timed, ("auto", "echo"), seconds)) for seconds in (before, after)]
    found, lines = compared_equal(tmp_path, capsys, *records)
    assert (found, lines[-1]) == (code, f"2 results: 0 different, {last}")
    assert len(lines) == 1 + lines[-1].startswith("2 results: 0 different, 1 above")


def timed(solver, seconds):
    return row(solver, seconds=seconds)


def test_equal_counts_what_only_one_record_has(tmp_path, capsys):
    code, lines = compared_equal(tmp_path, capsys, recorded(row("auto"), row("gone")), recorded(row("auto")))
    assert (code, lines[0]) == (0, "1 results only in the first: gone and chain")


def test_record_a_tiny_graph(tmp_path, capsys, monkeypatch):
    def missing():
        raise FileNotFoundError("no such file")

    monkeypatch.setattr("tests.benchmarks.solver_results.BUDGETS", ("70%", "least"))
    monkeypatch.setattr("tests.benchmarks.solver_results.REPEATED", 1)
    found = {"chain": lambda: ra.zoo.random.chain(4), "missing": missing}
    file = tmp_path / "out.json"
    record(file, found, ["no_remat", "auto", "auto_fast"])
    assert "missing: left out, no such file" in capsys.readouterr().out
    written = json.loads(file.read_text())
    assert written["graphs"] == {"chain": {"nodes": 8, "memory": 8, "compute": 10}}
    rows = {(row["solver"], row["budget"], row["polished"]): row for row in written["rows"]}
    assert len(rows) == len(written["rows"]) == 2 * (2 + 1 + 1)
    base = rows["no_remat", "least", True]
    assert (base["feasible"], base["compute"], base["overhead"]) == (True, 10, 0.0)
    refused = rows["no_remat", "70%", True]
    assert not refused["feasible"]
    assert refused["reached"] == base["peak"]
    graph = ra.differentiate(ra.zoo.random.chain(4))
    for solver, effort in EFFORTS.items():
        plan, auto = ra.solve(graph, "70%", effort=effort), rows[solver, "70%", True]
        assert (auto["peak"], auto["compute"], auto["complete"]) == (plan.peak_memory, plan.simulation.compute, True)
        assert len(auto["order"]) == 16
    assert {(pair["order"], pair["fault"]) for pair in compare(written, written)} == {(0, "")}


def test_single_solvers_run_on_some_of_the_graphs_without_a_time_limit(tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(ra, "solve", refuse(limits))
    found = {str(n): partial(ra.zoo.random.chain, n) for n in (3, 4)}
    record(tmp_path / "out.json", found, ["exact_dp", "auto"], alone=["4"])
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert {(row["graph"], row["solver"], row["polished"]) for row in rows} == {
        ("3", "auto", True),
        ("4", "auto", True),
        ("4", "exact_dp", True),
    }
    assert set(limits) == {None}


def refuse(limits):
    """A `solve` that refuses, and remembers its time limits."""

    def solve(*given, time_limit, **options):
        limits.append(time_limit)
        raise ra.GraphError("too many lower sets")

    return solve


def test_what_a_solver_cannot_serve_is_recorded_with_the_reason(tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(ra, "solve", refuse(limits))
    record(tmp_path / "out.json", {"chain": lambda: ra.zoo.random.chain(16)}, ["exact_dp"])
    row = json.loads((tmp_path / "out.json").read_text())["rows"][0]
    assert (row["feasible"], row["reached"], row["reason"]) == (False, None, "too many lower sets")
    assert row["complete"]
    assert set(limits[2:]) == {20.0}


def test_a_failure_at_the_time_limit_is_not_complete():
    graph = ra.differentiate(ra.zoo.random.chain(16))
    assert [result(graph, "no_remat", "50%", True, limit)["complete"] for limit in (1e-9, None)] == [False, True]


def test_the_lowest_seconds_of_a_brief_solve_count(monkeypatch):
    clock = iter([0.0, 0.3, 1.0, 1.2, 2.0, 2.4, 3.0, 3.6])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    graph = ra.differentiate(ra.zoo.random.chain(4))
    assert [result(graph, "no_remat", "least", True)["seconds"] for _ in range(2)] == [0.2, 0.6]


def test_a_slow_solver_is_not_run_on_large_graphs(tmp_path):
    found = {str(n): partial(ra.zoo.random.chain, n) for n in (3, 40)}
    record(tmp_path / "out.json", found, ["exhaustive_lower_sets"])
    assert {row["graph"] for row in json.loads((tmp_path / "out.json").read_text())["rows"]} == {"3"}


def test_the_graphs_are_there():
    standard, everything = graphs(STANDARD), graphs(ALL)
    assert (len(standard), len(ALONE)) == (30, 12)
    assert set(ALONE) < standard.keys() < everything.keys()
    assert set(GOLDEN) == set(FILES)
    made = {name: build() for name, build in everything.items() if name.startswith(("example", "golden", "one"))}
    assert all(graph.n_nodes for graph in made.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--solvers", "auto,chen_squirt"], "unknown solver chen_squirt; use approximate_dp, "),
        (["--solvers", "auto"], "there is no folder "),
    ],
)
def test_misuse_is_told_at_once(tmp_path, capsys, words, said):
    with pytest.raises(SystemExit):
        main(["record", str(tmp_path / "none" / "out.json"), *words])
    assert said in capsys.readouterr().err
