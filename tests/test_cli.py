"""The command `remat`: what each command says, in which form, and with which exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from remat_algos.cli import commands
from remat_algos.cli.main import HELPS, main
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.registry import modules_in
from remat_algos.search.auto import SPECIAL, default_solvers
from remat_algos.solvers.registry import list_solvers
from tests.command_line import CHAIN, CHAIN_EDGES, chain_plan, complains, on_terminal, process, with_budget

PLAN_KEYS = {
    *("format", "version", "graph_hash", "differentiate", "solver", "method", "options", "budget", "limit", "schedule"),
    *("peak_memory", "resident_memory", "compute", "overhead", "bound", "bound_scope", "bound_source", "gap"),
    *("compute_unit", "seconds"),
}
SHOW_KEYS = {
    *("graph_hash", "nodes", "forward_nodes", "backward_nodes", "values", "value_memory", "resident_memory"),
    *("compute", "compute_unit", "depth", "articulation_values", "peak_without_rematerialization"),
}
COMMANDS = (
    *("allocate", "animate", "compare", "convert", "diff", "explain", "frontier", "order"),
    *("show", "simulate", "solve", "unroll", "verify", "width"),
)
UNET = str(Path(__file__).parent.parent / "examples/graphs/unet.nodes.csv")
pytestmark = pytest.mark.usefixtures("short_searches")
SOLVERS = sorted(solver.name for solver in default_solvers())
QUICK = ("--solver", "chen_sqrt,no_remat")  # in processes, which search as long as those of users
DRAWN = re.compile("[\x1b─-╿]")  # escape sequences and box drawing
PLANNING = ("solve", "compare", "show")


@pytest.fixture
def plan(folder):
    """The record of a plan for the chain, with its frees, and its file plan.json."""
    (folder / "plan.json").write_text(chain_plan())
    return json.loads(chain_plan())


# What each command says


def test_show_says_what_a_graph_holds(remat, folder):
    said = remat("show", "chain.nodes.csv")
    assert said.fine
    rows = {row.split("  ")[0]: row.split("  ")[-1].strip() for row in said.lines[1:]}
    assert rows["nodes"] == "12: 6 forward, 6 backward"
    assert rows["articulation"] == "5 values: a, b, c, d, e"
    begins = {
        "values": "12, 21 reads",
        "bytes": "42 B",
        "compute": "133 ",
        "depth": "12 ",
        "peak": "28 B without remat",
    }
    assert [name for name, text in begins.items() if not rows[name].startswith(text)] == []
    record = remat("show", "chain.nodes.csv", "--json").record
    assert set(record) >= SHOW_KEYS
    figures = {"nodes": 12, "forward_nodes": 6, "backward_nodes": 6, "values": 12, "value_memory": 42, "compute": 133}
    figures |= {"resident_memory": 0, "depth": 12, "peak_without_rematerialization": 28, "least_peak_bound": 16}
    assert {name: record[name] for name in figures} == figures
    assert record["articulation_values"] == ["a", "b", "c", "d", "e"]
    residents = remat("show", "resident.nodes.csv", "--json").record["residents"]
    assert residents == {"input": 100, "parameter": 7, "state": 0}


def test_solve_says_peak_share_limit_compute_and_the_lower_bound(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%")
    assert said.fine
    assert "20 B, limit 22 B\n             71.4 % of the peak without rematerialization, 28 B\n" in said.out
    assert "153, 15.0 % more than one pass" in said.out
    assert "14 steps; 2 nodes recomputed (2 extra runs)" in said.out
    assert "lower bound live_set_search (153, 15.0 % more than one pass); optimal: no schedule within" in said.flat


def test_solve_prints_one_json_object_with_the_keys_of_the_format(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--json")
    record = said.record
    assert said.fine
    assert set(record) >= PLAN_KEYS
    assert re.fullmatch("[0-9a-f]{64}", record["graph_hash"])
    figures = {"format": "remat-plan", "version": 1, "limit": 22, "peak_memory": 20, "compute": 153, "overhead": 20}
    figures |= {"bound": 153, "bound_scope": "any order", "gap": 0.0, "bound_source": "live_set_search"}
    figures |= {"budget": {"memory": "80%", "overhead": None, "device": None}}
    assert {name: record[name] for name in figures} == figures
    assert len(record["schedule"]) == 14
    assert "frees" not in record


def test_compare_has_a_row_for_every_solver(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--budget", "80%")
    assert said.fine
    table, _, notes = said.out.partition("(s)\n")[2].partition("no_remat, ")
    rows = {line.split()[0]: line for line in table.splitlines()}
    assert sorted(rows) == SOLVERS
    assert "71.4 %" in rows["chen_sqrt"]
    assert "15.0 %" in rows["chen_sqrt"]
    assert notes.split() == ["drop_cheap,", "echo:", "does", "not", "fit"]
    record = remat("compare", "chain.nodes.csv", "--budget", "80%", "--json").record
    entries = {entry["solver"]: entry for entry in record["solvers"]}
    assert sorted(entries) == SOLVERS
    assert (entries["no_remat"]["feasible"], entries["no_remat"]["reached"]) == (False, 28)
    fitting = [entry for entry in record["solvers"] if entry["feasible"]]
    assert [entry["compute"] for entry in fitting] == sorted(entry["compute"] for entry in fitting)
    assert all(entry["peak_memory"] <= 22 for entry in fitting)
    named = remat("compare", "chain.nodes.csv", "--solver", "no_remat,chen_sqrt", "--json").record["solvers"]
    assert sorted(entry["solver"] for entry in named) == ["chen_sqrt", "no_remat"]


def test_verify_says_that_a_plan_holds(remat, plan):
    said = remat("verify", "chain.nodes.csv", "plan.json")
    assert said.fine
    assert "all figures are correct" in said.out
    assert "14 steps" in said.out
    assert "peak         20 B" in said.out
    assert "15.0 % more than one pass" in said.out
    record = remat("verify", "chain.nodes.csv", "plan.json", "--json").record
    assert record["valid"] is True
    claims = ("graph_hash", "peak_memory", "resident_memory", "compute", "overhead", "limit", "bound", "gap")
    assert {name: record[name] for name in claims} == {name: plan[name] for name in claims}


@pytest.mark.parametrize("command", ["solve", "compare", "show", "verify"])
def test_every_report_states_residents_apart_and_together(remat, folder, command):
    assert remat("solve", "resident.nodes.csv", "--device", "125", "-o", "plan.json").code == 0
    words = {"verify": ["plan.json"], "show": []}.get(command, ["--device", "125"])
    said = remat(command, "resident.nodes.csv", *words)
    peak = 20 if command == "show" else 16
    assert said.code == 0
    assert [text for text in (f"{peak} B", "107 B", f"{peak + 107} B") if text not in said.out] == []


# Whether it was differentiated


@pytest.mark.parametrize("command", PLANNING)
def test_the_first_line_says_whether_gradients_were_added(remat, folder, command):
    solver = [] if command == "show" else ["--solver", "no_remat"]
    first = remat(command, "chain.nodes.csv", *solver).lines[0]
    assert first.startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added")
    first = remat(command, "chain.nodes.csv", "--inference", *solver).lines[0]
    assert first.startswith("chain.nodes.csv: 6 nodes; no gradients added (--inference)")
    for ending in (".json", ".npz", ".nodes.csv"):
        write_graph(differentiate(read_graph("chain.nodes.csv")), f"training{ending}")
        first = remat(command, f"training{ending}", *solver).lines[0]
        assert first.startswith(f"training{ending}: 12 nodes, with its own backward part; no gradients added")


def test_verify_says_whether_it_differentiated(remat, plan):
    assert remat("verify", "chain.nodes.csv", "plan.json").lines[0].endswith("6 gradient nodes added (as in the plan)")
    record = remat("solve", "chain.nodes.csv", "--inference", "-o", "plan.json", "--json").record
    assert (record["differentiate"], record["peak_memory"]) == (None, 8)
    assert record["schedule"] == ["a", "b", "c", "d", "e", "loss"]
    assert remat("verify", "chain.nodes.csv", "plan.json").lines[0].endswith("no gradients added (as in the plan)")


def test_factor_is_the_cost_of_gradients(remat, folder):
    record = remat("solve", "chain.nodes.csv", "--factor", "0.5", "--budget", "100%", "--json").record
    wanted = {"factor": 0.5, "parameter_gradients": False, "loss": None, "keep_outputs": False}
    assert record["differentiate"] == wanted
    assert record["compute"] == 51 + 20  # half of 10 for b to e; half of 1, for the loss, rounds to 0


def test_loss_names_what_is_differentiated(remat, folder):
    record = remat("solve", "chain.nodes.csv", "--loss", "b", "--budget", "100%", "--json").record
    assert record["differentiate"]["loss"] == ["b"]
    assert [name for name in record["schedule"] if name.startswith("grad")] == ["grad(b)", "grad(a)"]
    both = remat("solve", "chain.nodes.csv", "--loss", "b", "--loss", "loss", "--json").record
    assert both["differentiate"]["loss"] == ["b", "loss"]
    assert "grad(b)@loss" in both["schedule"]


# Plain in a pipe, drawn on a terminal


def test_a_pipe_gets_plain_text(folder):
    said = process("compare", "chain.nodes.csv", *QUICK, env={**os.environ, "TERM": "xterm-256color"})
    assert said.fine
    assert said.lines
    assert not DRAWN.search(said.out)
    assert all(line == line.rstrip() for line in said.lines)


def test_a_terminal_gets_colour_and_the_same_text(remat, folder):
    code, seen, _, err = on_terminal("compare", "chain.nodes.csv", *QUICK, err=False)
    assert (code, err) == (0, "")
    assert "\x1b[1m" in seen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    wanted = [re.sub(r"\d\.\d\d$", "", line) for line in remat("compare", "chain.nodes.csv", *QUICK).lines]
    assert [re.sub(r"\d\.\d\d$", "", line) for line in plain.splitlines()] == wanted


def test_a_terminal_gets_a_progress_line_on_standard_error(folder):
    code, seen, out, _ = on_terminal("solve", "chain.nodes.csv", "--effort", "fast", "--json", out=False)
    assert code == 0
    assert re.search(r"\d+ % · 0:\d\d · (method \d+ of \d+, )?\w+: ", seen)
    assert isinstance(json.loads(out), dict)
    assert not DRAWN.search(out)


def test_names_that_look_like_markup_are_shown_as_they_are(folder):
    (folder / "markup.txt").write_text("x[red]a[/red] b\nb c\nb d\n")
    code, seen, _, _ = on_terminal("show", "markup.txt")
    assert code == 0
    assert "x[red]a[/red]" in seen


# Plans on disk


@pytest.mark.parametrize(
    ("graph", "words"),
    [("chain.nodes.csv", []), ("resident.nodes.csv", ["--format", "frees"]), ("resident.nodes.csv", ["--inference"])],
)
def test_what_solve_writes_verify_accepts(remat, folder, graph, words):
    before = set(os.listdir(folder))
    for more in ([], ["--json"]):
        said = remat("solve", graph, "-o", "plan.json", *words, *more, "--parameter-gradients")
        assert said.code == 0
        assert more or "plan.json" in said.lines[-1]
        assert remat("verify", graph, "plan.json").code == 0
    assert json.loads((folder / "plan.json").read_text()) == said.record
    assert set(os.listdir(folder)) - {"plan.json"} == before
    (folder / "printed.json").write_text(said.out)
    assert remat("verify", graph, "printed.json").code == 0


def test_without_output_no_file_appears(remat, folder):
    before = sorted(os.listdir(folder))
    for words in (["solve", *QUICK[:1], "chen_sqrt"], ["compare", *QUICK], ["show"]):
        assert remat(words[0], "chain.nodes.csv", *words[1:]).code == 0
    assert sorted(os.listdir(folder)) == before


def test_a_plan_replaces_an_older_one(remat, plan, folder):
    remat("solve", "chain.nodes.csv", "--budget", "100%", "-o", "plan.json")
    assert json.loads((folder / "plan.json").read_text())["limit"] == 28
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 0


def test_a_plan_serves_the_differentiated_graph_too(remat, plan, folder):
    write_graph(differentiate(read_graph("chain.nodes.csv")), "training.json")
    assert remat("verify", "training.json", "plan.json").code == 0


def test_an_edge_list_takes_sizes_and_costs_from_a_table(remat, folder):
    (folder / "edges.txt").write_text("a b\nb c\nc d\nd e\ne loss\n")
    words = ["--nodes", "chain.nodes.csv"]
    record = remat("solve", "edges.txt", *words, "--budget", "80%", "-o", "plan.json", "--json").record
    assert record["limit"] == 22
    assert remat("verify", "edges.txt", "plan.json", *words).code == 0
    assert remat("show", "edges.txt", *words, "--json").record["value_memory"] == 42


# Budgets


@pytest.mark.parametrize(
    ("budget", "limit"), [("22", 22), ("0.022 kB", 22), ("80 %", 22), ("1000%", 280), ("LEAST", None)]
)
def test_a_budget_may_be_written_so(remat, folder, budget, limit):
    said = remat("solve", "chain.nodes.csv", "--budget", budget, "--json")
    assert said.code == 0
    assert said.record["limit"] == limit
    assert said.record["budget"]["memory"] == budget
    assert limit is None or said.record["peak_memory"] <= limit


def test_least_is_the_lowest_peak_then_the_least_compute(remat, folder):
    least = remat("solve", "chain.nodes.csv", "--budget", "least", "--json").record
    assert (least["peak_memory"], least["overhead"]) == (16, 60)  # a b c, a b, a run again: 6 of 10
    assert remat("solve", "chain.nodes.csv", "--budget", "15").code == 3


@pytest.mark.parametrize(
    ("overhead", "most"), [("20 units", 20), ("10%", 13), ("0", 0), ("15.1%", 20), ("1e9units", 10**9)]
)
def test_overhead_bounds_the_compute_beyond_one_pass(remat, folder, overhead, most):
    said = remat("solve", "chain.nodes.csv", "--overhead", overhead, "--json")
    assert said.code == 0
    assert said.record["overhead"] <= most
    assert said.record["peak_memory"] == (16 if most >= 60 else 20 if most >= 20 else 24 if most >= 10 else 28)


def test_overhead_is_in_the_unit_that_was_read(remat, folder):
    (folder / "chain.nodes.csv").write_text(CHAIN.replace(",10", ",0.5").replace(",1\n", ",0.25\n"))
    said = remat("solve", "chain.nodes.csv", "--overhead", "1 units", "--json")
    assert (said.record["compute_scale"], said.record["overhead"]) == (100, 100)
    assert remat("solve", "chain.nodes.csv", "--overhead", "0.99 units", "--json").record["overhead"] < 99
    assert "% more than one pass" in remat("solve", "chain.nodes.csv", "--overhead", "1 units").out


def test_without_a_budget_the_figures_to_choose_one_by_are_given(capsys, folder):
    for command in ("solve", "run"):
        assert main([command, "chain.nodes.csv"]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert (
            "rematerialization is 28 B, the lower bound 16 B; give for example --budget 80%, --budget 22B or"
            in said.err
        )
        for budget in ("80%", "22B", "least"):
            assert main([command, "chain.nodes.csv", "--budget", budget, "--solver", "chen_greedy"]) == 0
        capsys.readouterr()
    assert main(["compare", "chain.nodes.csv"]) == 0
    assert "budget: memory least" in capsys.readouterr().out


def test_a_share_without_its_sign_is_told(remat, folder):
    (folder / "large.nodes.csv").write_text("name,memory\na,4MiB\nb,4MiB\nc,4MiB\n")
    (folder / "large.edges.csv").write_text("src,dst\na,b\nb,c\n")
    for command in ("solve", "compare", "run"):
        assert complains(remat(command, "large.nodes.csv", "--budget", "80"), "--budget 80", "4 MiB", "80%?")
    assert remat("solve", "chain.nodes.csv", "--budget", "20").code == 0  # nodes of 4 bytes


def test_a_budget_above_100_percent_says_that_nothing_need_be_recomputed(remat, folder):
    for budget in ("120%", "29"):
        said = remat("solve", "chain.nodes.csv", "--budget", budget)
        assert said.code == 0
        assert "above the peak without rematerialization: nothing needs to be recomputed" in said.flat
    assert "nothing needs" not in remat("solve", "chain.nodes.csv", "--budget", "100%").out


def test_device_bounds_peak_and_residents_together(remat, folder):
    record = remat("solve", "resident.nodes.csv", "--device", "125", "--json").record
    assert (record["limit"], record["resident_memory"], record["peak_memory"]) == (18, 107, 16)
    assert remat("solve", "resident.nodes.csv", "--device", "122").code == 3
    for device, limit in (("1kB", 20), ("125", 18)):
        words = ("--budget", "100%", "--device", device, "--json")
        assert remat("solve", "resident.nodes.csv", *words).record["limit"] == limit
    said = remat("solve", "resident.nodes.csv", "--device", "50")  # less than the residents
    assert (said.code, "-57" in said.err, "107 B" in said.err) == (3, False, True)


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_a_solver_that_cannot_serve_is_bad_input_not_an_infeasible_budget(remat, folder, command):
    said = remat(command, "chain.nodes.csv", "--inference", "--solver", "chen_sqrt")
    assert said.code == 2
    assert "differentiate" in said.err + said.out


def test_an_infeasible_budget_is_exit_code_3(remat, folder):
    for command in ("solve", "compare"):
        assert remat(command, "chain.nodes.csv", "--budget", "3", "--effort", "fast").code == 3
    record = remat("solve", "chain.nodes.csv", "--budget", "3", "--json").record
    assert (record["feasible"], record["reached"], record["lower_bound"]) == (False, 16, 16)


# Solvers and their options


@pytest.mark.parametrize("solver", ["auto", *(solver.name for solver in list_solvers() if solver.name not in SPECIAL)])
def test_every_solver_can_be_asked(remat, folder, solver):
    said = remat("solve", "chain.nodes.csv", "--solver", solver, "--budget", "100%", "-o", "plan.json", "--json")
    assert said.code == 0
    assert said.record["solver"] == solver
    assert said.record["peak_memory"] <= 28
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 0


@pytest.mark.parametrize(
    ("solver", "options", "read"),
    [
        ("chen_sqrt", ["segments=2", "candidates=all"], {"segments": 2, "candidates": "all"}),
        ("chen_sqrt", ["candidates=boundary1", "unit=2"], {"candidates": "boundary1", "unit": 2}),
        ("chen_sqrt", ["segments=none", "keep_last=true"], {"segments": None, "keep_last": True}),
        ("chen_sqrt", ["at=b,d"], {"at": ["b", "d"]}),
        ("chen_sqrt", ["at=c,"], {"at": ["c"]}),
        ("chen_sqrt", ["at=loss"], {"at": "loss"}),
        ("chen_greedy", ["grid=paper", "keep_last=False"], {"grid": "paper", "keep_last": False}),
        ("chen_recursive", ["splits=1", "depth=2"], {"splits": 1, "depth": 2}),
    ],
)
def test_options_reach_the_solver(remat, folder, solver, options, read):
    words = [word for option in options for word in ("-O", option)]
    said = remat("solve", "chain.nodes.csv", "--solver", solver, *words, "-o", "plan.json", "--json")
    assert said.fine
    assert said.record["options"] == read
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 0


def test_nodes_of_a_nameless_graph_can_be_cut_after(remat, folder):
    (folder / "numbers.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(8)))
    said = remat("solve", "numbers.txt", "--solver", "chen_sqrt", "-O", "at=2,5", "--json")
    assert said.code == 0
    assert re.fullmatch(r"remat: note: numbers\.txt: sizes not given: .*; costs not given: .*\n", said.err)
    assert len(said.record["schedule"]) > 18


def test_raw_gives_the_solvers_own_plan_where_no_rematerialization_is_better(remat, folder):
    words = ["--solver", "chen_recursive", "-O", "splits=1", "-O", "depth=3", "-O", "keep_last=false"]
    words = ["solve", "chain.nodes.csv", "--budget", "100%", *words]
    guarded, raw = remat(*words, "--json").record, remat(*words, "--raw", "--json").record
    assert (guarded["solver"], guarded["method"], guarded["overhead"]) == ("chen_recursive", "no_remat", 0)
    assert (raw["solver"], raw["method"]) == ("chen_recursive", "chen_recursive")
    assert raw["overhead"] > 0
    assert "plan: no_remat (no schedule of chen_recursive is better)" in remat(*words).out


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_time_limit_and_seed_reach_the_solvers_and_an_interrupt_is_one_line(remat, folder, monkeypatch, command):
    given = {}

    def deny(*_, **settings):
        given.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"remat_algos.cli.commands.{command}.{command}", deny)
    said = remat(command, "chain.nodes.csv", "--time-limit", "0.5", "--seed", "7", "--json")
    assert given["seed"] == 7
    assert 0.1 <= given["time_limit"] <= 0.5
    assert (said.code, said.out, said.err) == (130, "", "remat: interrupted\n")


def test_an_interrupt_while_the_words_of_a_command_are_parsed_is_one_line(remat, folder, monkeypatch):
    """Then argparse of Python 3.11 raises an AttributeError of its own."""

    def interrupted(*_):
        raise KeyboardInterrupt

    parser = "remat_algos.cli.main._Parser"
    for method in ("format_usage", "parse_known_args"):
        monkeypatch.setattr(f"{parser}.{method}", interrupted)
    said = remat("show", "chain.nodes.csv")
    assert (said.code, said.out, said.err) == (130, "", "remat: interrupted\n")


# False claims


CLAIMS = {
    "lower peak": ({"peak_memory": 19}, "peak_memory"),
    "other budget": ({"budget": {"memory": "70%", "overhead": None, "device": None}}, "budget"),
    "no bound": ({"bound": None}, "a bound of None"),
    "no step": ({"schedule": []}, "grad(a)"),
    "no frees": ({"frees": []}, "frees"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_false_claim_is_exit_code_1_and_named(remat, plan, folder, claim):
    false, named = CLAIMS[claim]
    (folder / "plan.json").write_text(json.dumps(plan | false))
    assert complains(remat("verify", "chain.nodes.csv", "plan.json"), named, code=1)
    said = remat("verify", "chain.nodes.csv", "plan.json", "--json")
    assert (said.code, said.record["valid"]) == (1, False)
    assert named in said.record["reason"]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("a,4,10", "a,5,10"), ("a,4,10", "a,4,11"), ("a,", "A,"), ("loss,1,1\n", "loss,1,1\nmore,1,1\n")],
    ids=["size", "cost", "name", "node"],
)
def test_a_graph_that_has_changed_is_another_graph(remat, plan, folder, was, becomes):
    (folder / "chain.nodes.csv").write_text(CHAIN.replace(was, becomes))
    (folder / "chain.edges.csv").write_text(CHAIN_EDGES.replace("a,b", f"{becomes[0]},b" if was == "a," else "a,b"))
    assert complains(remat("verify", "chain.nodes.csv", "plan.json"), "another graph")


# Notes, memory, bugs, pipes


def test_ignored_columns_are_one_note_on_standard_error(remat, folder):
    extra = ["colour,taste", *["red,sweet"] * 6]
    lines = [f"{line},{more}\n" for line, more in zip(CHAIN.split(), extra, strict=True)]
    (folder / "chain.nodes.csv").write_text("".join(lines))
    said = remat("solve", "chain.nodes.csv", "--solver", "chen_greedy", "--json")
    assert (said.code, said.record["compute"]) == (0, 153)
    assert said.err.startswith("remat: note: chain.nodes.csv: ignored columns colour, taste")
    assert said.err.count("\n") == 1


def failing(monkeypatch, error):
    """Solving raises the error."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("remat_algos.cli.commands.solve.solve", fail)


def test_too_little_memory_here_is_one_line(remat, folder, monkeypatch):
    failing(monkeypatch, MemoryError())
    said = remat("solve", "chain.nodes.csv", "--json")
    assert complains(said, "not enough memory for remat solve; try a smaller graph")
    assert said.out == ""


def test_a_solver_that_runs_out_of_memory_names_itself(remat, folder, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("remat_algos.solvers.methods.greedy_remat.greedy_order", exhausted)
    said = remat("solve", UNET, "--solver", "greedy_remat", "--budget", "70%")
    assert said.code == 2
    assert said.err.startswith("remat: not enough memory for greedy_remat on ")
    said = remat("solve", UNET, "--budget", "70%", "--gap", "0")
    assert said.fine
    assert "stopped      out of memory in greedy_remat; this is the best plan found" in said.out
    said = remat("frontier", UNET, "--solver", "greedy_remat,chen_sqrt")
    assert (said.code, said.out.splitlines()[-1]) == (0, "out of memory; these are the plans found")
    for allocator in ("peak", "cupy_pool"):
        said = remat("compare", UNET, "--solver", "greedy_remat,chen_sqrt", "--budget", "90%", "--allocator", allocator)
        assert "greedy_remat: it ran out of memory" in said.out


def test_a_bug_is_one_line_and_exit_code_70(remat, folder, monkeypatch):
    monkeypatch.delenv("REMAT_TRACEBACK", raising=False)
    failing(monkeypatch, AssertionError("two\nlines"))
    said = remat("solve", "chain.nodes.csv", "--json")
    assert (said.code, said.out, said.err.count("\n")) == (70, "", 1)
    assert "AssertionError: two lines" in said.err
    assert "REMAT_TRACEBACK=1" in said.err
    monkeypatch.setenv("REMAT_TRACEBACK", "1")
    with pytest.raises(AssertionError, match="two\nlines"):
        remat("solve", "chain.nodes.csv")


@pytest.mark.parametrize(
    "words",
    [["solve", "chain.nodes.csv", "--budget", "3", "--solver", "no_remat", "--json"], ["--help"]],
    ids=" ".join,
)
def test_a_reader_that_leaves_is_no_trouble(folder, words):
    reader, writer = os.pipe()
    os.close(reader)
    said = process(*words, stdout=writer)
    os.close(writer)
    assert said.err.count("\n") <= 1  # the sentence on an infeasible budget may stand there
    assert [word for word in ("Traceback", "BrokenPipe", "bug") if word in said.err] == []
    assert said.code == (3 if "--budget" in words and said.err else 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_one_line(folder):
    with open("/dev/full", "w") as full:
        said = process("show", "chain.nodes.csv", stdout=full)
    assert said.code == 2
    assert said.err.splitlines() == ["remat: output: No space left on device; make room, or choose another folder"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("solve accents.txt --budget 1 --solver no_remat", 3),
        ("show accents.txt", 0),
        ("simulate accents.txt --json", 0),
        ("order accents.txt --json", 0),
    ],
)
def test_names_beyond_the_encoding_of_the_locale_are_no_trouble(folder, words, code):
    (folder / "accents.txt").write_text("größe b\nb c\n", encoding="utf-8")
    narrow = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    said = process(*words.split(), env={**os.environ, **narrow})
    assert said.code == code
    assert "bug" not in said.err
    if "--json" in words:
        assert said.record


def test_behind_two_dashes_a_word_is_a_file(remat, folder):
    chain = (folder / "chain.nodes.csv").read_text()
    (folder / "-x.nodes.csv").write_text(chain)
    (folder / "-x.edges.csv").write_text((folder / "chain.edges.csv").read_text())
    assert remat("show", "--", "-x.nodes.csv").fine
    assert remat("simulate", "--json", "--", "-x.nodes.csv").record
    assert complains(remat("show", "--", "--json"), "no such file: --json")


def test_closed_standard_streams_are_no_trouble(folder):
    closing = "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", closing, "-m", "remat_algos", *with_budget(["solve", "chain.nodes.csv"])]
    command += ["--solver", "chen_sqrt", "-o", "plan.json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert (folder / "plan.json").exists()


# Version and help


def test_help_lists_the_commands(remat):
    assert list(HELPS) == modules_in(commands)
    for words in (["--help"], ["--help", "solve"], []):
        said = remat(*words)
        assert said.fine
        assert all(command in said.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(remat, command):
    said = remat(command, "--help")
    assert said.fine
    assert said.out.startswith(f"usage: remat {command}")
    assert "GRAPH" in said.out
    assert "--json" in said.out


def test_solve_and_verify_run_on_a_real_network(remat, shared_graphs, folder):
    file = shared_graphs / "vgg19.nodes.csv"
    said = remat("solve", file, "--budget", "60%", "--effort", "fast", "-o", "plan.json", "--json")
    assert said.record["peak_memory"] <= 2_132_279_296 * 60 // 100
    assert remat("verify", file, "plan.json", "--json").record["peak_memory"] == said.record["peak_memory"]
    entries = remat("compare", file, "--budget", "90%", "--json").record["solvers"]
    assert {entry["solver"] for entry in entries} - {"chain_dp"} == set(SOLVERS)  # for chains only
    assert any(entry["feasible"] for entry in entries)
