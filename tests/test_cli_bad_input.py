"""Bad input through the command line: an exit code, one sentence, and no file. Some of it in a process of its own.

A case is a working folder, a command line that ends in it, and what the sentence must name.
"""

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from remat_algos.formats.graph_files import read_graph
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.solve import solve
from tests.command_line import with_budget

NODES = "name,memory,compute\na,4,10\nb,4,10\nc,4,10\nd,4,10\ne,4,10\nloss,1,1\n"
EDGES = "src,dst\na,b\nb,c\nc,d\nd,e\ne,loss\n"
PAIR = "src,dst\na,b\n"
GRAPH = {"g.nodes.csv": NODES, "g.edges.csv": EDGES}
SOLVE = ["solve", "g.nodes.csv", "-o", "out.json"]
VERIFY = ["verify", "g.nodes.csv", "plan.json"]
BAD, FALSE, INFEASIBLE = 2, 1, 3


@functools.cache
def good():
    """A graph and the record of a plan for it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in GRAPH.items():
            Path(folder, name).write_text(text)
        graph = read_graph(Path(folder, "g.nodes.csv"))
    return graph, solve(differentiate(graph), "80%").record(frees=True)


def npz():
    return to_npz(good()[0])


def plan(**changes):
    """The text of the plan, with some entries changed."""
    return json.dumps(good()[1] | changes)


def tables(nodes=NODES, edges=EDGES, **more):
    """Files of a graph whose tables are called g; values= for a third."""
    return {"g.nodes.csv": nodes, "g.edges.csv": edges} | {f"g.{kind}.csv": text for kind, text in more.items()}


def case(name, files, words, *named, code=BAD):
    return pytest.param(files, words, named, code, id=name)


def table(name, nodes, edges, *named):
    """Tables that are no graph."""
    return case(name, tables(nodes, edges), SOLVE, *named)


def option(name, words, *named, code=BAD, graph=None):
    """A good graph, and words that are wrong after it."""
    return case(name, graph or GRAPH, [*SOLVE, *words], *named, code=code)


def claims(name, text, *named, code=BAD):
    """A good graph and a bad plan; the text is made when the case is run."""
    return case(name, GRAPH | {"plan.json": text}, VERIFY, *named, code=code)


STRUCTURE = [
    table("cycle", NODES, EDGES + "d,b\n", "g.nodes.csv", "cycle", "b -> c -> d -> b", "remove"),
    table("node that reads itself", NODES, EDGES + "c,c\n", "g.nodes.csv", "c -> c"),
    table(
        "unknown node in an edge", NODES, EDGES + "b,zebra\n", "g.edges.csv, line 7", "'zebra'", "g.nodes.csv", "add"
    ),
    table("two nodes of one name", "id,name\n1,a\n2,a\n", "src,dst\n1,2\n", "g.nodes.csv, line 3", "'a'"),
    table("two nodes of one id", "id,name\n7,a\n7,b\n", "src,dst\n7,7\n", "g.nodes.csv, line 3", "'7'"),
    table("no name", "name,memory\na,1\n,2\n", PAIR, "g.nodes.csv, line 3", "name"),
    case(
        "cycle in an edge list", {"g.txt": "a b\nb a\n"}, ["solve", "g.txt", "-o", "out.json"], "g.txt", "a -> b -> a"
    ),
    case("three words on a line", {"g.txt": "a b\na b c\n"}, ["solve", "g.txt"], "g.txt, line 2", "two names"),
    table(
        "views that go round",
        "name,memory,compute,view_of\na,4,1,\nv,,0,w\nw,,0,v\n",
        "src,dst\na,v\n",
        "g.nodes.csv",
        "v -> w -> v",
    ),
    table(
        "view that computes",
        "name,memory,compute,view_of\na,4,1,\nv,,7,a\nb,1,1,\n",
        "src,dst\na,v\nv,b\n",
        "g.nodes.csv, line 3",
        "'v'",
        "set both to 0",
    ),
    table("view of nothing", "name,view_of\na,\nv,zebra\n", "src,dst\na,v\n", "g.nodes.csv", "'v'", "'zebra'"),
    table(
        "reader that is resident",
        "name,resident\na,input\nb,\n",
        "src,dst\nb,a\n",
        "g.edges.csv, line 2",
        "'a'",
        "remove",
    ),
]

NUMBERS = [
    table("negative size", NODES.replace("b,4", "b,-4"), EDGES, "g.nodes.csv, line 3", "'b'", "memory", "-4"),
    table("negative cost", NODES.replace("b,4,10", "b,4,-1"), EDGES, "g.nodes.csv, line 3", "'b'", "compute", "-1"),
    table("absurd size", NODES.replace("b,4", "b,1e30"), EDGES, "g.nodes.csv, line 3", "'b'", "memory", "2**53"),
    table("absurd cost", NODES.replace("b,4,10", "b,4,1e30"), EDGES, "g.nodes.csv, line 3", "'b'", "compute", "2**53"),
    table("absurd workspace", "name,workspace\na,1e30\nb,\n", PAIR, "g.nodes.csv, line 2", "'a'", "workspace"),
    table("absurd parameter", "name,param_memory\na,1e30\nb,\n", PAIR, "g.nodes.csv", "param(a)"),
    table("absurd resident", "name,memory,resident\na,1e30,input\nb,1,\n", PAIR, "g.nodes.csv", "'a'", "2**53"),
    table("absurd gradient", "name,grad_memory\na,1e30\nb,1\n", PAIR, "g.nodes.csv", "'a'", "grad_memory"),
    table("negative gradient", "name,grad_memory\na,-7\nb,1\n", PAIR, "g.nodes.csv", "'a'", "grad_memory"),
    table("absurd exponent", NODES.replace("b,4", "b,1e999999999"), EDGES, "g.nodes.csv, line 3", "'b'", "memory"),
    table("exponent beyond all", NODES.replace("b,4", f"b,1e{9**25}"), EDGES, "g.nodes.csv, line 3", "'b'", "memory"),
    table("absurd size with a unit", NODES.replace("b,4", f"b,1e{9**25}GB"), EDGES, "g.nodes.csv, line 3", "'b'"),
    table("sum beyond 2**53", "name,memory\na,5e15\nb,5e15\n", PAIR, "g.nodes.csv, line 3", "'b'", "2**53", "coarser"),
    table("sum that gradients take beyond 2**53", "name,memory\na,4e15\nb,4e15\n", PAIR, "g.nodes.csv", "2**53"),
    table("NaN", NODES.replace("b,4", "b,nan"), EDGES, "g.nodes.csv, line 3", "'b'", "memory", "'nan'", "number"),
    table("infinity", NODES.replace("b,4,10", "b,4,inf"), EDGES, "g.nodes.csv, line 3", "'b'", "compute", "'inf'"),
    table("unknown unit", NODES.replace("b,4", "b,4XB"), EDGES, "g.nodes.csv, line 3", "'b'", "'4XB'", "4GiB"),
    table("words for a number", NODES.replace("b,4,10", "b,4,ten"), EDGES, "g.nodes.csv, line 3", "'b'", "'ten'"),
]

CELLS = [
    table(
        "missing column",
        "memory,compute\n4,10\n",
        EDGES,
        "g.nodes.csv, line 1",
        "missing column `name` (found: memory, compute)",
    ),
    table("missing column of edges", NODES, "a,b\nb,c\n", "g.edges.csv, line 1", "missing column `src` (found: a, b)"),
    table(
        "column twice",
        "name,memory,memory_bytes\na,4,4\n",
        EDGES,
        "g.nodes.csv, line 1",
        "`memory` and `memory_bytes`",
        "keep one",
    ),
    table("a cell too few", NODES + "f,1\n", EDGES, "g.nodes.csv, line 8", "expected 3 cells, found 2", "whole"),
    table("a cell too many", NODES, EDGES + "a,c,d\n", "g.edges.csv, line 7", "expected 2 cells, found 3"),
    table("unknown role", "name,resident\na,weight\nb,\n", PAIR, "g.nodes.csv, line 2", "'weight'", "parameter"),
    table("unknown flag", "name,once\na,maybe\nb,\n", PAIR, "g.nodes.csv, line 2", "once", "'maybe'", "0 or 1"),
    table("unknown mark", "name,mark\na,drop\nb,\n", PAIR, "g.nodes.csv, line 2", "mark", "'drop'", "recompute"),
    table(
        "once and recompute", "name,once,mark\na,1,recompute\nb,,\n", PAIR, "g.nodes.csv", "node a", "remove one mark"
    ),
    table("open quote", 'name,memory\n"a,4\nb,4\n', PAIR, "g.nodes.csv, line 3", "CSV"),
    table(
        "name that cannot be printed",
        'name,memory\n"a\a",4\nb,4\n',
        PAIR.replace("a", "a\a"),
        "g.nodes.csv",
        "'a\\x07'",
    ),
    case(
        "value of an unknown node",
        tables(values="node,memory_bytes\na,1\nzebra,1\n"),
        SOLVE,
        "g.values.csv, line 3",
        "'zebra'",
        "add",
    ),
]

FILES = [
    table("empty file", "", EDGES, "g.nodes.csv", "empty"),
    table("empty edges", NODES, "", "g.edges.csv", "empty"),
    table("header only", "name,memory\n", "src,dst\n", "g.nodes.csv", "no node", "add"),
    table("binary junk", bytes(range(256)) * 4, EDGES, "g.nodes.csv"),
    table("binary junk as edges", NODES, bytes(range(128, 256)) * 4, "g.edges.csv"),
    table("latin-1", NODES.replace("loss", "größe").encode("latin-1"), EDGES, "g.nodes.csv", "UTF-8"),
    table("UTF-16", NODES.encode("utf-16"), EDGES, "g.nodes.csv", "UTF-16", "UTF-8"),
    case("empty graph", {"g.txt": ""}, ["solve", "g.txt"], "g.txt", "empty"),
    case(
        "truncated JSON",
        {"g.json": '{"format": "remat-graph", "version": 1,\n "nodes": [{"na'},
        ["solve", "g.json", "-o", "out.json"],
        "g.json",
        "line 2, column 13",
        "whole",
    ),
    case("JSON of something else", {"g.json": '{"layers": []}'}, ["solve", "g.json"], "g.json", "remat-graph"),
    case(
        "JSON of another version",
        {"g.json": '{"format": "remat-graph", "version": 9}'},
        ["show", "g.json"],
        "g.json",
        "9",
    ),
    case("truncated npz", {"g.npz": lambda: npz()[:200]}, ["solve", "g.npz", "-o", "out.json"], "g.npz", "whole"),
    case("npz without its end", {"g.npz": lambda: npz()[:-40]}, ["solve", "g.npz"], "g.npz", "whole"),
    case("missing file", {}, SOLVE, "g.nodes.csv", "no such file"),
    case("missing edges table", {"g.nodes.csv": NODES}, SOLVE, "g.edges.csv", "no such file"),
    case("missing nodes table", {"g.edges.csv": EDGES}, ["solve", "g.edges.csv"], "g.nodes.csv", "no such file"),
    case(
        "missing table beside an edge list",
        {"g.txt": "a b\n"},
        ["solve", "g.txt", "--nodes", "n.csv"],
        "n.csv",
        "no such file",
    ),
    case("folder", {"graph/": None}, ["solve", "graph", "-o", "out.json"], "graph", "directory"),
    case("lone table", {"g.csv": NODES}, ["solve", "g.csv", "-o", "out.json"], "g.csv", "X.nodes.csv"),
]

BUDGETS = [
    option("budget that is a bare share", ["--budget", "0.5"], "0.5", "50%"),
    option("budget of twice a sign", ["--budget", "50%%"], "'50%%'", "50%"),
    option("budget with a comma", ["--budget", "50,5%"], "'50,5%'", "50%"),
    option("budget of no number", ["--budget", "nan%"], "'nan%'"),
    option("negative budget", ["--budget", "-3"], "'-3'"),
    option("budget in words", ["--budget", "abc"], "'abc'", "4GiB", "50%", "least"),
    option("budget of nothing", ["--budget", ""], "budget", "4GiB"),
    option("absurd budget", ["--budget", "1e400"], "'1e400'", "smaller"),
    option("budget beyond all", ["--budget", f"1e{9**25}"], "1e7"),
    option("budget of 5,000 digits", ["--budget", f"{'9' * 5000}%"], "budget"),
    option("overhead in words", ["--overhead", "some"], "'some'", "30%"),
    option("negative overhead", ["--overhead", "-5"], "-5"),
    option("least overhead", ["--overhead", "least"], "'least'"),
    option("overhead of nothing by nothing", ["--overhead", "1/0"], "'1/0'"),
    option("overhead beyond all", ["--overhead", "1e999999999"], "1e999999999"),
    option("device that is a share", ["--device", "50%"], "'50%'", "16GiB"),
    option("device in words", ["--device", "large"], "'large'", "4GiB"),
    option(
        "infeasible budget",
        ["--budget", "3"],
        "3 B",
        "16 B",
        "16 B",
        "grad(d), grad(c), grad(b)",
        code=INFEASIBLE,
    ),
    option("infeasible overhead", ["--budget", "80%", "--overhead", "1%"], "overhead 1 ", "20", code=INFEASIBLE),
    option("infeasible device", ["--device", "5"], "5 B", "16 B", "16 B", "grad(d)", code=INFEASIBLE),
]

OPTIONS = [
    option(
        "unknown solver", ["--solver", "magic"], "'magic'", "chen_greedy", "chen_recursive", "chen_sqrt", "no_remat"
    ),
    case(
        "compare with an unknown solver", GRAPH, ["compare", "g.nodes.csv", "--solver", "magic"], "'magic'", "chen_sqrt"
    ),
    option("unknown option", ["--solver", "chen_sqrt", "-O", "depth=3"], "depth", "segments", "candidates"),
    option("option without a value", ["--solver", "chen_sqrt", "-O", "segments"], "segments", "NAME=VALUE"),
    option("option without a solver", ["-O", "segments=3"], "-O", "--solver"),
    option("option out of range", ["--solver", "chen_sqrt", "-O", "segments=0"], "segments", "1 or more"),
    option("option of the wrong kind", ["--solver", "chen_sqrt", "-O", "segments=many"], "segments", "many"),
    option("option that is none of the choices", ["--solver", "chen_greedy", "-O", "grid=fine"], "'fine'", "paper"),
    option("cut after an unknown node", ["--solver", "chen_sqrt", "-O", "at=a,zebra"], "'zebra'"),
    option("negative time limit", ["--time-limit", "-1"], "--time-limit is -1", "seconds"),
    option("gap below 0", ["--gap", "-1"], "--gap is -1", "points of overhead, 0 or more"),
    option("gap in words", ["--gap", "near"], "--gap", "'near'", "number"),
    option("gap of no number", ["--gap", "nan"], "--gap is", "nan", "points of overhead, 0 or more"),
    option("seed in words", ["--seed", "luck"], "--seed", "'luck'"),
    option("negative factor", ["--factor", "-1"], "factor", "-1", "0 or more"),
    option("factor that is not a number", ["--factor", "nan"], "factor", "nan"),
    option("factor without end", ["--factor", "inf"], "factor", "inf"),
    option("absurd factor", ["--factor", "1e308"], "factor"),
    option("factor in words", ["--factor", "twice"], "factor", "'twice'"),
    option("loss that is not there", ["--loss", "los"], "'los'", "did you mean", "loss"),
    option("training solver at inference", ["--inference", "--solver", "chen_sqrt"], "chen_sqrt", "differentiate"),
    case("loss of nothing that has a gradient", tables("name,grad_memory\na,-1\nb,-1\n", PAIR), SOLVE, "loss"),
    option("unknown flag", ["--fast"], "--fast", "--help"),
    option(
        "number for a list of names", ["--solver", "echo", "-O", "only=5"], "only is 5", "give operations or layers"
    ),
    option(
        "truth value for a list of names", ["--solver", "drop_cheap", "-O", "drop=True"], "drop is True", "give names"
    ),
    option("budget without its option", ["50%"], "has no 50%; a budget is written --budget 50%"),
    option("budget in bytes without its option", ["4GiB"], "a budget is written --budget 4GiB"),
    option("word too many", ["h.nodes.csv"], "has no h.nodes.csv; see", "--help"),
    case("unknown command", GRAPH, ["dissolve", "g.nodes.csv"], "'dissolve'", "solve", "--help"),
    case("no graph", GRAPH, ["solve"], "GRAPH", "--help"),
]

OUTPUTS = [
    case("output in no folder", GRAPH, [*SOLVE[:2], "-o", "away/out.json"], "away/out.json", "no folder", "make it"),
    case(
        "output onto a folder", GRAPH | {"plans/": None}, [*SOLVE[:2], "-o", "plans"], "plans", "folder", "name a file"
    ),
    case("output below a file", GRAPH, [*SOLVE[:2], "-o", "g.nodes.csv/out.json"], "g.nodes.csv", "no folder"),
    case("output without a name", GRAPH, [*SOLVE[:2], "-o"], "-o", "--help"),
]

PLANS = [
    case("missing plan", GRAPH, VERIFY, "plan.json", "no such file"),
    case("plan that is a folder", GRAPH | {"plan.json/": None}, VERIFY, "plan.json", "directory"),
    claims("empty plan", "", "plan.json", "whole"),
    claims("truncated plan", lambda: plan()[:300], "plan.json", "line 1, column", "whole"),
    claims("binary junk as a plan", bytes(range(256)), "plan.json"),
    claims("list as a plan", "[1, 2]", "plan.json", "object"),
    claims("graph as a plan", '{"format": "remat-graph", "version": 1}', "plan.json", "remat-plan"),
    claims("deep nest as a plan", "[" * 100_000, "plan.json"),
    claims("plan of another graph", lambda: plan(graph_hash="0" * 64), "plan.json", "another graph"),
    claims("plan of another version", lambda: plan(version=2), "plan.json", "version 2", "version 1"),
    claims("plan without a schedule", lambda: plan().replace('"schedule"', '"steps"'), "plan.json", '"schedule"'),
    claims("plan whose schedule is text", lambda: plan(schedule="a b c"), "plan.json", '"schedule"', "'a b c'"),
    claims("plan whose peak is text", lambda: plan(peak_memory="20"), "plan.json", '"peak_memory"', "'20'"),
    claims("plan whose peak is a flag", lambda: plan(peak_memory=True), "plan.json", '"peak_memory"', "True"),
    claims("plan whose budget is a share", lambda: plan(budget={"memory": 0.5}), "plan.json", '"budget"', "0.5", "50%"),
    claims("plan whose budget is odd", lambda: plan(budget={"time": 3}), "plan.json", '"budget"', "time"),
    claims(
        "plan whose gradients are odd", lambda: plan(differentiate={"by": "hand"}), "plan.json", "by", "differentiate"
    ),
    claims("plan of unknown nodes", lambda: plan(schedule=["a", "zebra"]), "step 1", "'zebra'", code=FALSE),
    claims("plan of unknown ids", lambda: plan(schedule=[0, 99]), "step 1", "99", code=FALSE),
]


def lay(folder, files):
    """Put files and folders there; texts that are made by a function are made now."""
    for name, content in files.items():
        text = content() if callable(content) else content
        if text is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def contents(folder):
    """Every file below the folder, hidden ones too, with its bytes, and every folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def run(folder, words):
    command = [sys.executable, "-m", "remat_algos", *with_budget(words)]
    environment = {name: value for name, value in os.environ.items() if name != "REMAT_TRACEBACK"}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # NumPy would start threads that nobody needs
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=10, check=False)


@pytest.fixture
def run_here(remat, monkeypatch):
    """The same command line in this process, which takes a tenth of the time; what it says is as if of a process."""
    monkeypatch.delenv("REMAT_TRACEBACK", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def here(folder, words):
        begun = time.process_time()
        with contextlib.chdir(folder):
            said = remat(*words)
        assert time.process_time() - begun < 10
        return subprocess.CompletedProcess(words, said.code, said.out, said.err)

    return here


def one_sentence(done):
    """The line on standard error, notes apart; standard output has nothing but, perhaps, that the graph was read."""
    assert "Traceback" not in done.stderr + done.stdout
    assert "bug in remat" not in done.stderr
    said = " ".join(done.stdout.split())
    assert re.fullmatch(r"(\S+: \d+ nodes?; (\d+ gradient nodes?|no gradients) added \(.*\))?", said)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("remat: note:")]
    assert len(lines) == 1
    assert lines[0].startswith("remat: ")
    return lines[0]


KINDS = (STRUCTURE, NUMBERS, CELLS, FILES, BUDGETS, OPTIONS, OUTPUTS, PLANS)
CASES = ("files", "words", "named", "code")


@pytest.mark.parametrize(CASES, [each for kind in KINDS for each in kind])
def test_bad_input_is_one_sentence_an_exit_code_and_no_file(tmp_path, run_here, files, words, named, code):
    complains(tmp_path, run_here, files, words, named, code)


@pytest.mark.parametrize(CASES, [each for kind in KINDS for each in (kind[0], kind[-1])])
def test_so_it_is_in_a_process(tmp_path, files, words, named, code):
    complains(tmp_path, run, files, words, named, code)


def complains(tmp_path, run, files, words, named, code):
    lay(tmp_path, files)
    before = contents(tmp_path)
    done = run(tmp_path, words)
    sentence = one_sentence(done)
    assert done.returncode == code
    assert [fragment for fragment in named if fragment not in sentence] == []
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (GRAPH, ["--budget", "3"]),
        (GRAPH, ["--budget", "abc"]),
        (GRAPH, ["--solver", "magic"]),
        (tables(edges=EDGES + "e,a\n"), []),
    ],
    ids=["infeasible", "wrong budget", "wrong solver", "cycle"],
)
def test_an_older_plan_survives_a_failure(tmp_path, run_here, files, words):
    lay(tmp_path, files | {"out.json": "the older plan"})
    before = contents(tmp_path)
    assert run_here(tmp_path, [*SOLVE, *words]).returncode in (BAD, INFEASIBLE)
    assert contents(tmp_path) == before


def test_json_on_request_leaves_standard_output_empty_on_bad_input(tmp_path):
    lay(tmp_path, tables(edges=EDGES + "e,a\n"))
    done = run(tmp_path, [*SOLVE, "--json"])
    assert (done.returncode, done.stdout) == (BAD, "")
    assert "cycle" in one_sentence(done)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_one_sentence(tmp_path):
    lay(tmp_path, GRAPH | {"locked/": None})
    (tmp_path / "locked").chmod(0o500)
    try:
        done = run(tmp_path, [*SOLVE[:2], "-o", "locked/out.json"])
    finally:
        (tmp_path / "locked").chmod(0o700)
    sentence = one_sentence(done)
    assert done.returncode == BAD
    assert "locked/out.json" in sentence
    assert "written" in sentence
    assert list((tmp_path / "locked").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_one_sentence(tmp_path):
    lay(tmp_path, GRAPH)
    (tmp_path / "g.edges.csv").chmod(0)
    done = run(tmp_path, SOLVE)
    assert done.returncode == BAD
    assert "g.edges.csv" in one_sentence(done)


def test_a_name_with_line_breaks_stays_on_one_line(tmp_path):
    lay(tmp_path, GRAPH)
    done = run(tmp_path, ["show", "two\nlines.txt"])
    assert done.returncode == BAD
    assert r"two\nlines.txt" in one_sentence(done)
