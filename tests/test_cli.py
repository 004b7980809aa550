"""The command `remat`: what each command says, in which form, and with which exit code."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from remat_algos.cli.main import main
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.solvers.registry import default_solvers, list_solvers
from tests.command_line import Said, with_budget

PLAN_KEYS = {
    *("format", "version", "graph_hash", "differentiate", "solver", "method", "options", "budget", "limit"),
    *(
        "schedule",
        "peak_memory",
        "resident_memory",
        "compute",
        "overhead",
        "bound",
        "bound_scope",
        "bound_source",
        "gap",
    ),
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
DRAWN = re.compile("[\x1b─-╿]")  # escape sequences and box drawing

# a chain of six; differentiated, it computes 51 + 2 * 41 = 133 and holds 28 bytes at once
CHAIN = """name,memory,compute
a,4,10
b,4,10
c,4,10
d,4,10
e,4,10
loss,1,1
"""
CHAIN_EDGES = "src,dst\na,b\nb,c\nc,d\nd,e\ne,loss\n"
# an input of 100 bytes that a reads, and a parameter of a of 7 bytes
RESIDENT = """name,memory,compute,resident,param_memory
x,100,,input,
a,4,10,,7
b,4,10,,
c,4,10,,
loss,1,1,,
"""
RESIDENT_EDGES = "src,dst\nx,a\na,b\nb,c\nc,loss\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the tables of the chain and of the graph with residents."""
    for name, nodes, edges in (("chain", CHAIN, CHAIN_EDGES), ("resident", RESIDENT, RESIDENT_EDGES)):
        (tmp_path / f"{name}.nodes.csv").write_text(nodes)
        (tmp_path / f"{name}.edges.csv").write_text(edges)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def plan(remat, folder):
    """The record of a plan for the chain, with its frees, and its file plan.json."""
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "-o", "plan.json", "--format", "frees", "--json")
    assert said.code == 0
    return said.record


def process(*words, **settings):
    """Runs a command line in a process of its own."""
    command = [sys.executable, "-m", "remat_algos", *with_budget(words)]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60, **settings}
    done = subprocess.run(command, check=False, **given)
    return Said(done.returncode, done.stdout or "", done.stderr or "")


# What each command says


def test_show_says_what_a_graph_holds(remat, folder):
    said = remat("show", "chain.nodes.csv")
    assert (said.code, said.err) == (0, "")
    rows = {row.split("  ")[0]: row.split("  ")[-1].strip() for row in said.lines[1:]}
    assert rows["nodes"] == "12: 6 forward, 6 backward"
    assert rows["values"].startswith("12, 21 reads")
    assert rows["bytes"].startswith("42 B")
    assert rows["compute"].startswith("133 ")
    assert rows["depth"].startswith("12 ")
    assert rows["articulation"] == "5 values: a, b, c, d, e"
    assert rows["peak"].startswith("28 B without rematerialization")


def test_show_says_the_same_in_json(remat, folder):
    record = remat("show", "chain.nodes.csv", "--json").record
    assert set(record) >= SHOW_KEYS
    assert (record["nodes"], record["forward_nodes"], record["backward_nodes"]) == (12, 6, 6)
    assert (record["values"], record["value_memory"], record["resident_memory"]) == (12, 42, 0)
    assert (record["compute"], record["depth"]) == (133, 12)
    assert record["articulation_values"] == ["a", "b", "c", "d", "e"]
    assert record["peak_without_rematerialization"] == 28
    assert record["least_peak_bound"] == 16


def test_show_of_a_graph_with_residents_has_them_by_role(remat, folder):
    assert remat("show", "resident.nodes.csv", "--json").record["residents"] == {
        "input": 100,
        "parameter": 7,
        "state": 0,
    }


def test_solve_says_peak_share_limit_compute_and_the_lower_bound(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%")
    assert (said.code, said.err) == (0, "")
    assert "20 B, limit 22 B\n             71.4 % of the peak without rematerialization, 28 B\n" in said.out
    assert "153, 15.0 % more than one pass" in said.out
    assert "14 steps; 2 nodes recomputed (2 extra runs)" in said.out
    proven = "lower bound live_set_search (153, 15.0 % more than one pass); optimal: no schedule within the limit"
    assert proven in " ".join(said.out.split())


def test_solve_prints_one_json_object_with_the_keys_of_the_format(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--json")
    record = said.record
    assert (said.code, said.err) == (0, "")
    assert set(record) >= PLAN_KEYS
    assert (record["format"], record["version"]) == ("remat-plan", 1)
    assert re.fullmatch("[0-9a-f]{64}", record["graph_hash"])
    assert record["budget"] == {"memory": "80%", "overhead": None, "device": None}
    assert (record["limit"], record["peak_memory"], record["compute"], record["overhead"]) == (22, 20, 153, 20)
    assert (record["bound"], record["bound_scope"], record["gap"]) == (153, "any order", 0.0)
    assert record["bound_source"] == "live_set_search"
    assert len(record["schedule"]) == 14
    assert "frees" not in record


def test_compare_has_a_row_for_every_solver(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--budget", "80%")
    assert (said.code, said.err) == (0, "")
    table, _, notes = said.out.partition("(s)\n")[2].partition("no_remat, ")
    rows = {line.split()[0]: line for line in table.splitlines()}
    assert sorted(rows) == SOLVERS
    assert "71.4 %" in rows["chen_sqrt"]
    assert "15.0 %" in rows["chen_sqrt"]
    assert notes.split() == ["drop_cheap,", "echo:", "does", "not", "fit"]


def test_compare_has_an_entry_for_every_solver_in_json(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--budget", "80%", "--json")
    record = said.record
    assert (said.code, said.err) == (0, "")
    assert record["peak_without_rematerialization"] == 28
    entries = {entry["solver"]: entry for entry in record["solvers"]}
    assert sorted(entries) == SOLVERS
    assert not entries["no_remat"]["feasible"]
    assert entries["no_remat"]["reached"] == 28
    fitting = [entry for entry in record["solvers"] if entry["feasible"]]
    assert [entry["compute"] for entry in fitting] == sorted(entry["compute"] for entry in fitting)
    assert all(entry["peak_memory"] <= 22 for entry in fitting)


def test_compare_takes_only_the_solvers_that_are_named(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--solver", "no_remat,chen_sqrt", "--json")
    assert sorted(entry["solver"] for entry in said.record["solvers"]) == ["chen_sqrt", "no_remat"]


def test_compare_knows_auto_or_does_not_list_it_as_known(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--solver", "auto")
    assert said.code == 0 or "auto," not in said.err


def test_verify_says_that_a_plan_holds(remat, plan):
    said = remat("verify", "chain.nodes.csv", "plan.json")
    assert (said.code, said.err) == (0, "")
    assert "all figures are correct: 14 steps, peak 20 B" in said.out
    assert "overhead 20" in said.out


def test_verify_says_so_in_json(remat, plan):
    said = remat("verify", "chain.nodes.csv", "plan.json", "--json")
    record = said.record
    assert (said.code, said.err) == (0, "")
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
    assert f"{peak} B" in said.out
    assert "107 B" in said.out
    assert f"{peak + 107} B" in said.out


# Whether it was differentiated


@pytest.mark.parametrize("command", ["solve", "compare", "show"])
def test_the_first_line_says_that_gradients_were_added(remat, folder, command):
    first = remat(command, "chain.nodes.csv").lines[0]
    assert first.startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added")


@pytest.mark.parametrize("command", ["solve", "compare", "show"])
def test_the_first_line_says_that_inference_adds_none(remat, folder, command):
    first = remat(command, "chain.nodes.csv", "--inference").lines[0]
    assert first.startswith("chain.nodes.csv: 6 nodes; no gradients added (--inference)")


@pytest.mark.parametrize("command", ["solve", "compare", "show"])
@pytest.mark.parametrize("ending", [".json", ".npz", ".nodes.csv"])
def test_the_first_line_says_that_the_graph_has_a_backward_part_already(remat, folder, command, ending):
    write_graph(differentiate(read_graph("chain.nodes.csv")), f"training{ending}")
    first = remat(command, f"training{ending}").lines[0]
    assert first.startswith(f"training{ending}: 12 nodes")
    assert "its own backward part" in first
    assert "no gradients added" in first


def test_verify_says_whether_it_differentiated(remat, plan):
    assert remat("verify", "chain.nodes.csv", "plan.json").lines[0].endswith("6 gradient nodes added (as in the plan)")
    assert remat("solve", "chain.nodes.csv", "--inference", "-o", "plan.json").code == 0
    assert remat("verify", "chain.nodes.csv", "plan.json").lines[0].endswith("no gradients added (as in the plan)")


def test_json_tells_whether_it_was_differentiated(remat, folder):
    asked = {"factor": 2, "parameter_gradients": False, "loss": None, "keep_outputs": False}
    assert remat("solve", "chain.nodes.csv", "--json").record["differentiate"] == asked
    assert remat("solve", "chain.nodes.csv", "--json", "--inference").record["differentiate"] is None


def test_inference_plans_the_graph_as_it_is(remat, folder):
    record = remat("solve", "chain.nodes.csv", "--inference", "--json").record
    assert record["schedule"] == ["a", "b", "c", "d", "e", "loss"]
    assert record["peak_memory"] == 8


def test_factor_is_the_cost_of_gradients(remat, folder):
    record = remat("solve", "chain.nodes.csv", "--factor", "0.5", "--budget", "100%", "--json").record
    assert record["differentiate"]["factor"] == 0.5
    assert record["compute"] == 51 + 20  # half of 10 for b to e; half of 1, for the loss, rounds to 0


def test_loss_names_what_is_differentiated(remat, folder):
    record = remat("solve", "chain.nodes.csv", "--loss", "b", "--budget", "100%", "--json").record
    assert record["differentiate"]["loss"] == ["b"]
    assert [name for name in record["schedule"] if name.startswith("grad")] == ["grad(b)", "grad(a)"]
    both = remat("solve", "chain.nodes.csv", "--loss", "b", "--loss", "loss", "--json").record
    assert both["differentiate"]["loss"] == ["b", "loss"]
    assert "grad(b)@loss" in both["schedule"]


# Plain in a pipe, drawn on a terminal


@pytest.mark.parametrize("command", ["solve", "compare", "show", "verify"])
def test_a_pipe_gets_plain_text(plan, folder, command):
    words = ["plan.json"] if command == "verify" else []
    said = process(command, "chain.nodes.csv", *words, env={**os.environ, "TERM": "xterm-256color"})
    assert (said.code, said.err) == (0, "")
    assert said.lines
    assert not DRAWN.search(said.out)
    assert all(line == line.rstrip() for line in said.lines)


def on_terminal(*words, out=True, err=True):
    """What a command line says to a pseudo-terminal, and to the pipes that take the place of the rest."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "remat_algos", *with_budget(words)],
        stdin=subprocess.DEVNULL,
        stdout=theirs if out else subprocess.PIPE,
        stderr=theirs if err else subprocess.PIPE,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "100", "LC_ALL": "C.UTF-8"},
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(ours)
    piped = [text.decode() if text is not None else "" for text in running.communicate(timeout=60)]
    return running.returncode, seen.decode(), *piped


@pytest.mark.parametrize("command", ["compare", "show"])
def test_a_terminal_gets_colour_and_the_same_text(remat, folder, command):
    code, seen, _, _ = on_terminal(command, "chain.nodes.csv", err=False)
    assert code == 0
    assert "\x1b[1m" in seen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    wanted = [re.sub(r"\d\.\d\d$", "", line) for line in remat(command, "chain.nodes.csv").lines]
    assert [re.sub(r"\d\.\d\d$", "", line) for line in plain.splitlines()] == wanted


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_a_terminal_gets_a_progress_line_on_standard_error(folder, command):
    code, seen, out, _ = on_terminal(command, "chain.nodes.csv", "--json", out=False)
    assert code == 0
    assert re.search(r"\d+ % · 0:\d\d · (method \d+ of \d+, )?\w+: ", seen)
    assert isinstance(json.loads(out), dict)
    assert not DRAWN.search(out)


def test_a_pipe_gets_no_progress_line(folder):
    code, seen, _, err = on_terminal("solve", "chain.nodes.csv", err=False)
    assert (code, err) == (0, "")
    assert " · 0:" not in seen


def test_names_that_look_like_markup_are_shown_as_they_are(folder):
    (folder / "markup.txt").write_text("x[red]a[/red] b\nb c\nb d\n")
    code, seen, _, _ = on_terminal("show", "markup.txt")
    assert code == 0
    assert "x[red]a[/red]" in seen


# Plans on disk


@pytest.mark.parametrize("frees", [[], ["--format", "frees"]], ids=["no frees", "frees"])
@pytest.mark.parametrize("inference", [[], ["--inference"]], ids=["training", "inference"])
@pytest.mark.parametrize("graph", ["chain.nodes.csv", "resident.nodes.csv"])
def test_what_solve_writes_verify_accepts(remat, folder, graph, inference, frees):
    said = remat("solve", graph, "-o", "plan.json", *inference, *frees, "--parameter-gradients")
    assert said.code == 0
    assert "plan.json" in said.lines[-1]
    assert remat("verify", graph, "plan.json").code == 0
    assert set(os.listdir(folder)) - {"plan.json"} == {
        f"{name}.{kind}.csv" for name in ("chain", "resident") for kind in ("nodes", "edges")
    }


def test_the_file_is_what_json_prints(remat, folder):
    said = remat("solve", "chain.nodes.csv", "-o", "plan.json", "--json", "--format", "frees")
    assert json.loads((folder / "plan.json").read_text()) == said.record


def test_the_printed_plan_is_a_plan_file(remat, folder):
    (folder / "printed.json").write_text(remat("solve", "chain.nodes.csv", "--budget", "80%", "--json").out)
    assert remat("verify", "chain.nodes.csv", "printed.json").code == 0


def test_without_output_no_file_appears(remat, folder):
    before = sorted(os.listdir(folder))
    for words in (["solve"], ["solve", "--json"], ["compare"], ["show"]):
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
    ("budget", "limit"),
    [
        ("22", 22),
        ("0.022 kB", 22),
        ("80 %", 22),
        ("1000%", 280),
        ("LEAST", None),
    ],
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


def test_no_budget_is_the_lowest_peak_too(remat, folder):
    assert remat("solve", "chain.nodes.csv", "--json").record["peak_memory"] == 16


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
        assert said.err == (
            "remat: no budget is given; the peak without rematerialization is 28 B, the lower bound 16 B; give "
            "--budget 80%, --budget 22B or --budget least, for example\n"
        )
        for budget in ("80%", "22B", "least"):
            assert main([command, "chain.nodes.csv", "--budget", budget]) == 0
        capsys.readouterr()
    assert "budget: memory least" in flat(main, capsys, "compare", "chain.nodes.csv")


def flat(main, capsys, *words):
    assert main(list(words)) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_share_without_its_sign_is_told(remat, folder):
    (folder / "large.nodes.csv").write_text("name,memory\na,4MiB\nb,4MiB\nc,4MiB\n")
    (folder / "large.edges.csv").write_text("src,dst\na,b\nb,c\n")
    for command in ("solve", "compare", "run"):
        said = remat(command, "large.nodes.csv", "--budget", "80")
        assert said.code == 2
        assert said.err.endswith("--budget 80 is 80 bytes, and one node alone has 4 MiB; did you mean 80%?\n")
    assert remat("solve", "chain.nodes.csv", "--budget", "20").code == 0  # nodes of 4 bytes


@pytest.mark.parametrize(
    ("overhead", "remedy"), [("30", "write 30% of one pass, or '30 units'"), ("0.3", "write 30% of one pass")]
)
@pytest.mark.parametrize("command", ["solve", "compare", "run"])
def test_an_overhead_without_a_unit_is_refused(remat, folder, command, overhead, remedy):
    said = remat(command, "chain.nodes.csv", "--overhead", overhead)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"remat: --overhead: overhead budget '{overhead}' could be compute or a share; {remedy}")


def test_the_unit_of_an_overhead_is_that_of_the_graph(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--overhead", "30 ms")
    assert said.code == 2
    assert said.err == "remat: --overhead 30 ms: unit 'ms' is unknown; write units, since the graph names none\n"


def test_a_budget_above_100_percent_says_that_nothing_need_be_recomputed(remat, folder):
    for budget in ("120%", "29"):
        said = remat("solve", "chain.nodes.csv", "--budget", budget)
        assert said.code == 0
        assert "above the peak without rematerialization: nothing needs to be recomputed" in said.flat
    assert "nothing needs" not in remat("solve", "chain.nodes.csv", "--budget", "100%").out


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["slove", "chain.nodes.csv"], "unknown command 'slove'; did you mean solve?"),
        (["solve", "chain.nodes.csv", "--budgte", "80%"], "did you mean --budget?"),
        (["solve", "chain.nodes.csv", "--solver", "chen_greed"], "'chen_greed'; did you mean chen_greedy"),
    ],
)
def test_near_names_are_offered(remat, folder, words, near):
    said = remat(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert near in said.err


def test_device_bounds_peak_and_residents_together(remat, folder):
    record = remat("solve", "resident.nodes.csv", "--device", "125", "--json").record
    assert (record["limit"], record["resident_memory"], record["peak_memory"]) == (18, 107, 16)
    assert remat("solve", "resident.nodes.csv", "--device", "122").code == 3
    assert remat("solve", "resident.nodes.csv", "--budget", "100%", "--device", "1kB", "--json").record["limit"] == 20
    assert remat("solve", "resident.nodes.csv", "--budget", "100%", "--device", "125", "--json").record["limit"] == 18


def test_a_device_smaller_than_the_residents_is_not_a_negative_budget(remat, folder):
    said = remat("solve", "resident.nodes.csv", "--device", "50")
    assert said.code == 3
    assert "-57" not in said.err
    assert "107 B" in said.err


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_a_solver_that_cannot_serve_is_bad_input_not_an_infeasible_budget(remat, folder, command):
    said = remat(command, "chain.nodes.csv", "--inference", "--solver", "chen_sqrt")
    assert said.code == 2
    assert "differentiate" in said.err + said.out


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_an_infeasible_budget_is_exit_code_3(remat, folder, command):
    assert remat(command, "chain.nodes.csv", "--budget", "3").code == 3
    assert isinstance(remat(command, "chain.nodes.csv", "--budget", "3", "--json").record, dict)


def test_an_infeasible_budget_says_what_was_reached_and_what_forces_it(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "3")
    assert said.err.count("\n") == 1
    for fragment in ("3 B", "reached is 16 B", "goes below 16 B", "grad(d)"):
        assert fragment in said.err
    record = remat("solve", "chain.nodes.csv", "--budget", "3", "--json").record
    assert (record["feasible"], record["reached"], record["lower_bound"]) == (False, 16, 16)


# Solvers and their options


@pytest.mark.parametrize("solver", ["auto", *(solver.name for solver in list_solvers() if not solver.narrow)])
def test_every_solver_can_be_asked(remat, folder, solver):
    said = remat("solve", "chain.nodes.csv", "--solver", solver, "--budget", "100%", "-o", "plan.json", "--json")
    assert said.code == 0
    assert said.record["solver"] == solver
    assert said.record["peak_memory"] <= 28
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 0


@pytest.mark.parametrize(
    ("solver", "options", "read"),
    [
        ("chen_sqrt", ["segments=2"], {"segments": 2}),
        ("chen_sqrt", ["segments=2", "candidates=all"], {"segments": 2, "candidates": "all"}),
        ("chen_sqrt", ["candidates=boundary1", "unit=2"], {"candidates": "boundary1", "unit": 2}),
        ("chen_sqrt", ["segments=none", "keep_last=true"], {"segments": None, "keep_last": True}),
        ("chen_sqrt", ["at=b,d"], {"at": ["b", "d"]}),
        ("chen_sqrt", ["at=c,"], {"at": ["c"]}),
        ("chen_sqrt", ["at=c"], {"at": "c"}),
        ("chen_sqrt", ["at=loss"], {"at": "loss"}),
        ("chen_greedy", ["grid=paper", "keep_last=False"], {"grid": "paper", "keep_last": False}),
        ("chen_recursive", ["splits=1", "depth=2"], {"splits": 1, "depth": 2}),
    ],
)
def test_options_reach_the_solver(remat, folder, solver, options, read):
    words = [word for option in options for word in ("-O", option)]
    said = remat("solve", "chain.nodes.csv", "--solver", solver, *words, "-o", "plan.json", "--json")
    assert (said.code, said.err) == (0, "")
    assert said.record["options"] == read
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 0


def test_nodes_of_a_nameless_graph_can_be_cut_after(remat, folder):
    (folder / "numbers.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(8)))
    said = remat("solve", "numbers.txt", "--solver", "chen_sqrt", "-O", "at=2,5", "--json")
    assert said.code == 0
    assert re.fullmatch(r"remat: note: numbers\.txt: sizes not given: .*; costs not given: .*\n", said.err)
    assert len(said.record["schedule"]) > 18


@pytest.mark.parametrize(
    ("solver", "option", "named"),
    [
        ("chen_sqrt", "sections=2", ["sections", "segments", "candidates", "at", "keep_last", "unit"]),
        ("chen_sqrt", "segments", ["segments", "NAME=VALUE"]),
        ("chen_sqrt", "time_limit=2", ["time_limit", "segments"]),
        ("auto", "segments=2", ["--solver"]),
        ("chen_sqrt", "segments=0", ["segments", "1 or more"]),
        ("chen_sqrt", "at=b,nobody", ["nobody"]),
        ("chen_greedy", "grid=fine", ["grid", "exact", "paper"]),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_wrong_option_is_bad_input_that_names_it(remat, folder, solver, option, named):
    said = remat("solve", "chain.nodes.csv", "--solver", solver, "-O", option, "-o", "plan.json")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert [name for name in named if name not in said.err] == []
    assert "instances of" not in said.err  # Python's words for a wrong kind, not ours
    assert "not iterable" not in said.err
    assert not (folder / "plan.json").exists()


def test_a_unit_of_nothing_is_a_wrong_option(remat, folder):
    words = ["--solver", "chen_sqrt", "-O", "candidates=boundary1", "-O", "unit=0"]
    said = remat("solve", "chain.nodes.csv", *words)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "unit" in said.err


def test_raw_gives_the_solvers_own_plan_where_no_rematerialization_is_better(remat, folder):
    words = ["--solver", "chen_recursive", "-O", "splits=1", "-O", "depth=3", "-O", "keep_last=false"]
    guarded = remat("solve", "chain.nodes.csv", "--budget", "100%", *words, "--json").record
    raw = remat("solve", "chain.nodes.csv", "--budget", "100%", *words, "--raw", "--json").record
    assert (guarded["solver"], guarded["method"], guarded["overhead"]) == ("chen_recursive", "no_remat", 0)
    assert (raw["solver"], raw["method"]) == ("chen_recursive", "chen_recursive")
    assert raw["overhead"] > 0
    said = remat("solve", "chain.nodes.csv", "--budget", "100%", *words)
    assert "plan: no_remat (no schedule of chen_recursive is better)" in said.out


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_time_limit_and_seed_reach_the_solvers(remat, folder, monkeypatch, command):
    given = {}

    def deny(*_, **settings):
        given.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"remat_algos.{'plan' if command == 'solve' else 'questions'}.{command}.{command}", deny)
    remat(command, "chain.nodes.csv", "--time-limit", "0.5", "--seed", "7")
    assert given["seed"] == 7
    assert 0.1 <= given["time_limit"] <= 0.5


# False claims


CLAIMS = {
    "lower peak": ({"peak_memory": 19}, "peak_memory"),
    "other budget": ({"budget": {"memory": "70%", "overhead": None, "device": None}}, "budget"),
    "no bound": ({"bound": None}, "a bound None"),
    "no step": ({"schedule": []}, "grad(a)"),
    "no frees": ({"frees": []}, "frees"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_false_claim_is_exit_code_1_and_named(remat, plan, folder, claim):
    false, named = CLAIMS[claim]
    (folder / "plan.json").write_text(json.dumps(plan | false))
    said = remat("verify", "chain.nodes.csv", "plan.json")
    assert (said.code, said.out) == (1, "")
    assert said.err.count("\n") == 1
    assert named in said.err


def test_a_false_claim_is_one_object_in_json(remat, plan, folder):
    (folder / "plan.json").write_text(json.dumps(plan | {"peak_memory": 1}))
    said = remat("verify", "chain.nodes.csv", "plan.json", "--json")
    assert said.code == 1
    assert said.record["valid"] is False
    assert "peak_memory" in said.record["reason"]


def test_a_plan_for_another_graph_is_bad_input(remat, plan, folder):
    said = remat("verify", "resident.nodes.csv", "plan.json")
    assert (said.code, said.out) == (2, "")
    assert "another graph" in said.err


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("a,4,10", "a,5,10"), ("a,4,10", "a,4,11"), ("a,", "A,"), ("loss,1,1\n", "loss,1,1\nmore,1,1\n")],
    ids=["size", "cost", "name", "node"],
)
def test_a_graph_that_has_changed_is_another_graph(remat, plan, folder, was, becomes):
    (folder / "chain.nodes.csv").write_text(CHAIN.replace(was, becomes))
    (folder / "chain.edges.csv").write_text(CHAIN_EDGES.replace("a,b", f"{becomes[0]},b" if was == "a," else "a,b"))
    assert remat("verify", "chain.nodes.csv", "plan.json").code == 2


# Notes, interrupts, bugs, pipes


def test_ignored_columns_are_one_note_on_standard_error(remat, folder):
    extra = ["colour,taste", *["red,sweet"] * 6]
    lines = [f"{line},{more}\n" for line, more in zip(CHAIN.split(), extra, strict=True)]
    (folder / "chain.nodes.csv").write_text("".join(lines))
    said = remat("solve", "chain.nodes.csv", "--solver", "chen_greedy", "--json")
    assert said.code == 0
    assert said.record["compute"] == 153
    assert said.err.startswith("remat: note: chain.nodes.csv: ignored columns colour, taste")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("command", ["solve", "compare"])
def test_an_interrupt_is_one_line_and_exit_code_130(remat, folder, monkeypatch, command):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"remat_algos.{'plan' if command == 'solve' else 'questions'}.{command}.{command}", interrupt)
    said = remat(command, "chain.nodes.csv", "--json")
    assert (said.code, said.out, said.err) == (130, "", "remat: interrupted\n")


def test_too_little_memory_here_is_one_line(remat, folder, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr("remat_algos.plan.solve.solve", exhausted)
    said = remat("solve", "chain.nodes.csv", "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err == "remat: not enough memory for remat solve; try a smaller graph, or a machine with more\n"


def test_a_solver_that_runs_out_of_memory_names_itself(remat, folder, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("remat_algos.solvers.methods.greedy_remat.greedy_order", exhausted)
    said = remat("solve", UNET, "--solver", "greedy_remat", "--budget", "70%")
    assert said.code == 2
    assert said.err.startswith("remat: not enough memory for greedy_remat on ")
    said = remat("solve", UNET, "--budget", "70%", "--gap", "0")
    assert (said.code, said.err) == (0, "")
    assert "stopped      out of memory in greedy_remat; this is the best plan found so far" in said.out
    said = remat("frontier", UNET, "--solver", "greedy_remat,chen_sqrt")
    assert (said.code, said.out.splitlines()[-1]) == (0, "out of memory; these are the plans found so far")
    for allocator in ("peak", "cupy_pool"):
        said = remat("compare", UNET, "--solver", "greedy_remat,chen_sqrt", "--budget", "90%", "--allocator", allocator)
        assert "greedy_remat: it ran out of memory" in said.out


def break_solve(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("two\nlines")

    monkeypatch.setattr("remat_algos.plan.solve.solve", broken)


def test_a_bug_is_one_line_and_exit_code_70(remat, folder, monkeypatch):
    monkeypatch.delenv("REMAT_TRACEBACK", raising=False)
    break_solve(monkeypatch)
    said = remat("solve", "chain.nodes.csv", "--json")
    assert (said.code, said.out) == (70, "")
    assert said.err.count("\n") == 1
    assert "AssertionError: two lines" in said.err
    assert "REMAT_TRACEBACK=1" in said.err


def test_a_bug_is_raised_on_demand(remat, folder, monkeypatch):
    monkeypatch.setenv("REMAT_TRACEBACK", "1")
    break_solve(monkeypatch)
    with pytest.raises(AssertionError, match="two\nlines"):
        remat("solve", "chain.nodes.csv")


@pytest.mark.parametrize(
    "words",
    [
        ["show", "chain.nodes.csv"],
        ["solve", "chain.nodes.csv"],
        ["solve", "chain.nodes.csv", "--json"],
        ["solve", "chain.nodes.csv", "--budget", "3", "--json"],
        ["compare", "chain.nodes.csv"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_is_no_trouble(folder, words):
    reader, writer = os.pipe()
    os.close(reader)
    said = process(*words, stdout=writer)
    os.close(writer)
    assert said.err.count("\n") <= 1  # the sentence on an infeasible budget may stand there
    assert "Traceback" not in said.err
    assert "BrokenPipe" not in said.err
    assert "bug" not in said.err
    assert said.code == (3 if "--budget" in words and said.err else 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("words", [["show", "chain.nodes.csv"], ["solve", "chain.nodes.csv", "--json"]], ids=" ".join)
def test_a_full_disk_is_one_line(folder, words):
    with open("/dev/full", "w") as full:
        said = process(*words, stdout=full)
    assert said.code == 2
    assert said.err.splitlines() == ["remat: output: No space left on device; make room, or choose another folder"]


@pytest.mark.parametrize("words", [["show", "accents.txt"], ["solve", "accents.txt", "--budget", "1"]], ids=" ".join)
def test_names_beyond_the_terminals_encoding_are_no_trouble(folder, words):
    (folder / "accents.txt").write_text("é b\nb c\n", encoding="utf-8")
    said = process(*words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert said.code == (3 if "--budget" in words else 0)
    assert "bug" not in said.err


def test_closed_standard_streams_are_no_trouble(folder):
    closing = "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", closing, "-m", "remat_algos", *with_budget(["solve", "chain.nodes.csv"])]
    command += ["-o", "plan.json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert (folder / "plan.json").exists()


# The process and its help


def test_the_module_runs_as_the_command(folder):
    said = process("show", "chain.nodes.csv")
    assert (said.code, said.err) == (0, "")
    assert "28 B without rematerialization" in said.out


def test_the_process_ends_with_the_exit_code(folder):
    assert process("solve", "chain.nodes.csv", "--budget", "3").code == 3


def test_version_is_that_of_the_package(remat):
    said = remat("--version")
    assert (said.code, said.out, said.err) == (0, f"remat {version('remat_algos')}\n", "")


def test_help_lists_the_commands(remat):
    said = remat("--help")
    assert (said.code, said.err) == (0, "")
    assert all(command in said.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(remat, command):
    said = remat(command, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: remat {command}")
    assert "GRAPH" in said.out
    assert "--json" in said.out


def test_help_of_solve_lists_solvers_and_their_options(remat):
    said = remat("solve", "--help")
    for solver in list_solvers():
        assert f"  {solver.name} " in said.out
        assert all(name in said.out for name in solver.options)
    budget = ("--budget", "--overhead", "--device", "--solver", "--raw", "--time-limit", "--format", "--plot", "-o")
    assert all(name in said.out for name in (*budget, "--inference", "--factor", "--parameter-gradients", "--loss"))


@pytest.mark.parametrize("words", [["dissolve"], ["solve"], ["verify", "chain.nodes.csv"], ["show", "a", "b"]])
def test_a_wrong_command_line_is_one_line_that_points_to_help(remat, words):
    said = remat(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("remat: ")
    assert said.err.count("\n") == 1
    assert "--help" in said.err


# Real networks

# peaks without rematerialization, in bytes
BASE = {"googlenet": 871_841_804, "resnet50": 3_468_165_120, "unet": 7_803_387_904, "vgg19": 2_132_279_296}


@pytest.mark.parametrize("network", BASE)
def test_show_runs_on_real_networks(remat, shared_graphs, network):
    file = shared_graphs / f"{network}.nodes.csv"
    assert remat("show", file).code == 0
    record = remat("show", file, "--json").record
    assert record["peak_without_rematerialization"] == BASE[network]
    assert record["forward_nodes"] > 20


@pytest.mark.parametrize("budget", ["60%", "least"])
@pytest.mark.parametrize("network", BASE)
def test_solve_and_verify_run_on_real_networks(remat, shared_graphs, folder, network, budget):
    file = shared_graphs / f"{network}.nodes.csv"
    said = remat("solve", file, "--budget", budget, "-o", "plan.json", "--json")
    assert said.code == 0
    share = {"60%": 60, "least": 100}[budget]
    assert said.record["peak_memory"] <= BASE[network] * share // 100
    assert remat("verify", file, "plan.json").code == 0
    assert remat("verify", file, "plan.json", "--json").record["peak_memory"] == said.record["peak_memory"]


@pytest.mark.parametrize(
    ("network", "budget"), [("googlenet", "least"), ("resnet50", "60%"), ("unet", "least"), ("vgg19", "90%")]
)
def test_compare_runs_on_real_networks(remat, shared_graphs, network, budget):
    said = remat("compare", shared_graphs / f"{network}.nodes.csv", "--budget", budget, "--json")
    assert said.code == 0
    assert {entry["solver"] for entry in said.record["solvers"]} - {"chain_dp"} == set(SOLVERS)  # for chains only
    assert any(entry["feasible"] for entry in said.record["solvers"])
