"""What comes from files and arguments is printed short and printable, and stays what it is in files."""

import csv
import json
import re
import shutil
from fractions import Fraction
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.cli.main import HELPS, _parser
from tests.command_line import CHAIN, CHAIN_EDGES, lay_tables, on_terminal, runner

pytestmark = pytest.mark.usefixtures("short_searches")

EVIL = "\x1b[31mred\x1b]0;title\x07\r\u202e\x9b2J\n"
LONG = "x" * 100_000
LONGEST = 700  # letters of an error
COMMANDS = (
    "verify chain.nodes.csv evil.json",
    "explain chain.nodes.csv evil.json",
    "simulate chain.nodes.csv evil.json",
    "simulate chain.nodes.csv evil.json --plot -",
    "simulate chain.nodes.csv evil.json --table",
    "simulate chain.nodes.csv evil.json --table csv",
    "simulate chain.nodes.csv evil.json --matrix csv",
    "animate chain.nodes.csv evil.json",
    "diff chain.nodes.csv evil.json evil.json",
    "unroll chain.nodes.csv evil.json",
    "allocate chain.nodes.csv evil.json",
    "run chain.nodes.csv --plan evil.json",
    "show evil.nodes.csv",
    "verify chain.nodes.csv text.json",
    "solve chain.nodes.csv --budget 100% --start text.json",
)


def is_printable(text):
    return all(c.isprintable() for line in text.split("\n") for c in line)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A graph, a plan with control characters in every text that is free, and tables and records with more of them."""
    place = tmp_path_factory.mktemp("hostile")
    lay_tables(place)
    graph = ra.differentiate(ra.read_graph(place / "chain.nodes.csv"))
    for name, budget in (("plan", "80%"), ("other", "100%")):
        ra.solve(graph, budget, solver="greedy_remat").save(place / f"{name}.json")
    record = json.loads((place / "plan.json").read_text())
    free = {"solver": EVIL, "method": EVIL, "options": {EVIL: EVIL}, "details": {EVIL: EVIL, "overheads": {EVIL: 3}}}
    unbounded = {"bound": None, "bound_scope": None, "bound_source": None, "gap": None}
    (place / "evil.json").write_text(json.dumps({**record, **free, **unbounded}))
    (place / "text.json").write_text(json.dumps({**record, "schedule": [EVIL], EVIL: EVIL, "bound_source": EVIL}))
    (place / "evil.nodes.csv").write_text(f'name,memory,compute,"a{EVIL}b"\nx,4,2,1\ny,4,2,1\n', newline="")
    (place / "evil.edges.csv").write_text("src,dst\nx,y\n")
    return place


@pytest.fixture
def folder(hostile, tmp_path, monkeypatch):
    """A working folder with copies of them."""
    shutil.copytree(hostile, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def remat(capsys, folder):
    return runner(capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_texts_of_files_reach_a_terminal_spelled_out(remat, command):
    said = remat(*command.split())
    assert is_printable(said.out)
    assert is_printable(said.err)


@pytest.mark.parametrize("name", ["evil", "text"])
def test_json_keeps_them_as_they_are(remat, folder, name):
    said = remat("verify", "chain.nodes.csv", f"{name}.json", "--json")
    assert is_printable(said.out)
    assert said.record["valid"] == (name == "evil")


def test_a_plan_is_printable_in_python_too(folder):
    plan = ra.Plan.load("evil.json", ra.read_graph("chain.nodes.csv"))
    shown = str(plan), repr(plan), str(ra.difference(plan, plan)), str(ra.explain(plan)), plan._repr_html_()
    assert [text for text in shown if not is_printable(text)] == []
    assert r"\x1b[31mred" in shown[0]


def test_pictures_of_it_are_well_formed(folder):
    plan = ra.Plan.load("evil.json", ra.read_graph("chain.nodes.csv"))
    ra.plot.save(ra.plot.memory(plan), "memory.svg")
    ElementTree.parse("memory.svg")


def test_a_file_with_a_name_for_a_terminal_is_named_in_print(remat, folder):
    name = "a\x1b[2Jb\nc.nodes.csv"
    (folder / name).write_text(CHAIN)
    (folder / name.replace("nodes", "edges")).write_text(CHAIN_EDGES.replace("dst", "dst\x1b[2J"))
    said = remat("show", name)
    assert said.code == 2
    assert is_printable(said.err.rstrip("\n"))
    assert said.err.count("\n") == 1


def values_of(command):
    """The options of a command that take a value, and its files."""
    actions = _parser(command)[0]._actions
    return [action.option_strings[-1] if action.option_strings else "" for action in actions if action.nargs != 0]


@pytest.mark.parametrize("command", sorted(HELPS.keys() - {"calibrate"}))
def test_an_argument_is_quoted_in_part_and_in_print(remat, command):
    value = EVIL + LONG
    for option in values_of(command):
        graph = [] if command in ("models", "fit") else ["chain.nodes.csv"]
        named = command in ("solve", "compare", "frontier", "run") and option not in ("--solver", "--option")
        quick = ["--solver", "no_remat"] if named else []
        said = remat(command, *graph, *quick, *filter(None, [option]), value)
        assert is_printable(said.err), option
        assert said.code in (0, 2, 3), option
        assert len(said.err) < LONGEST or said.code != 2, option


def test_an_unknown_command_too(remat):
    for value in (LONG, EVIL, f"--{LONG}"):
        said = remat(value)
        assert said.code == 2
        assert is_printable(said.err)
        assert len(said.err) < LONGEST


# ---------------------------------------------------------------- the width of errors

TOO_LONG = ("solve", "chain.nodes.csv", "--solver", "nonsense")  # the error lists all solvers


def test_an_error_is_one_line_in_a_pipe(remat):
    said = remat(*TOO_LONG)
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("columns", [40, 100])
def test_an_error_has_the_width_that_the_environment_gives(remat, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    said = remat(*TOO_LONG)
    lines = said.err.splitlines()
    assert columns / 2 < max(map(len, lines)) <= columns
    assert len(lines) > 1
    monkeypatch.delenv("COLUMNS")
    assert said.err.split() == remat(*TOO_LONG).err.split()


def test_an_error_has_the_width_of_a_terminal(folder):
    _, seen, _, _ = on_terminal(*TOO_LONG, out=False)
    assert max(map(len, seen.splitlines())) <= 100
    assert len(seen.splitlines()) > 1


def test_json_has_the_whole_reason_and_names(remat, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    record = remat("solve", "chain.nodes.csv", "--budget", "1%", "--solver", "no_remat", "--json").record
    assert "\n" not in record["reason"]
    assert record["nodes"]
    assert all(isinstance(name, str) for name in record["nodes"])


# ---------------------------------------------------------------- names in --json

WITH_NODES = (
    "show GRAPH --json",
    "simulate GRAPH plan.json --json",
    "explain GRAPH plan.json --json",
    "diff GRAPH plan.json other.json --json",
    "bound GRAPH --budget 80% --json",
    "order GRAPH --json",
    "solve GRAPH --budget 80% --solver chen_sqrt --json",
    "solve GRAPH --budget 1% --solver no_remat --json",
    "solve GRAPH --budget 80% --region r=*:1 --json",
    "solve GRAPH --solver exact_dp -O formula_budget=1 --budget 80% --json",
)
OF_NODES = {"node", "nodes", "peak_node", "schedule", "kept", "recomputed", "run_before", "articulation_values"} | {
    *("least_peak_nodes", "value", "values", "first_difference_node", "frees")
}


def ids(entry, key=""):
    """Whole numbers that stand where nodes and values are named; those of counts are under names of their own."""
    if isinstance(entry, dict):
        return [found for name, inside in entry.items() for found in ids(inside, name)]
    if isinstance(entry, list):
        return [found for inside in entry for found in ids(inside, key)]
    return [(key, entry)] if key in OF_NODES and isinstance(entry, int) else []


@pytest.mark.parametrize("command", WITH_NODES)
def test_json_names_nodes_where_the_graph_does(remat, folder, command):
    record = remat(*command.replace("GRAPH", "chain.nodes.csv").split()).record
    counts = {"nodes", "values", "kept", "recomputed"} if command.startswith(("show", "simulate")) else set()
    assert [found for found in ids(record) if found[0] not in counts] == []


# ---------------------------------------------------------------- figures that add up

SUM = re.compile(r"bound +([\d,.]+) recomputed ([-+]) ([\d,]+) B \w+(?: \w+)? x ([\d.e+-]+) for a byte = ([\d,.]+)")


@pytest.mark.parametrize("budget", ["60%", "70%", "75%", "80%", "85%", "90%", "95%"])
@pytest.mark.parametrize("scale", ["", ".3"])
def test_the_bound_is_the_sum_that_is_printed(remat, folder, budget, scale):
    cost = re.compile(r"^(\w+,\w+,\d+)", re.MULTILINE)
    (folder / "chain.nodes.csv").write_text(cost.sub(rf"\1{scale}", CHAIN))
    found = SUM.search(remat("bound", "chain.nodes.csv", "--budget", budget).flat)
    if found is None:
        return
    compute, size, price, total = (Fraction(found[k].replace(",", "")) for k in (1, 3, 4, 5))
    paid = compute + (size * price if found[2] == "+" else -size * price)
    places = len(found[5].partition(".")[2]) or (3 if total < 1000 else 0)
    assert abs(paid - total) <= Fraction(1, 2 * 10**places)


def test_the_sum_is_printed_for_some(remat):
    assert any(SUM.search(remat("bound", "chain.nodes.csv", "--budget", f"{p}%").flat) for p in range(60, 100, 5))


# ---------------------------------------------------------------- cells of tables

NAMES = st.lists(st.text("=+-@'a1.", min_size=1, max_size=5), min_size=2, max_size=4, unique=True)


@settings(max_examples=20)
@given(names=NAMES)
def test_names_that_are_formulas_come_back_from_tables(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("tables") / "g.nodes.csv"
    try:
        graph = ra.ComputationGraph.from_edges(list(pairwise(names)))
    except ra.GraphError:  # numbers have an order of their own
        return
    ra.write_graph(graph, path)
    again = ra.read_graph(path)
    assert (again.node_names(), again.hash) == (graph.node_names(), graph.hash)
    for file in path.parent.iterdir():
        for row in csv.reader(file.read_text().splitlines()):
            assert [cell for cell in row if cell[:1] in ("=", "+", "-", "@") and not is_number(cell)] == []


def is_number(cell):
    return re.fullmatch(r"[+-]?\d+(\.\d*)?", cell) is not None


def test_names_of_buffers_come_back_too(tmp_path):
    names = ("=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-x", "'=x", "'a")
    buffers = ra.allocate.Buffers(range(6), range(1, 7), [4] * 6, names=names)
    ra.formats.write_allocation(ra.allocate.pack(buffers), tmp_path / "b.csv")
    text = (tmp_path / "b.csv").read_text()
    assert not re.search(r"^[=@]|^\+[^\d]|^-[^\d]", text, re.MULTILINE)
    assert ra.formats.read_buffers(tmp_path / "b.csv").names == names
