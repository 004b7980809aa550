"""Bad input through the command line: an exit code, one sentence, and no file. Some of it in a process of its own.

A case is a working folder, a command line that ends in it, and a word or two that the sentence has. What readers of
files refuse is tested with each format; here stand faults of every kind.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest

from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.ir.graph import ComputationGraph
from tests.command_line import CHAIN as NODES
from tests.command_line import CHAIN_EDGES as EDGES
from tests.command_line import chain_plan, lay_tables, with_budget

PAIR = "src,dst\na,b\n"
GRAPH = {"g.nodes.csv": NODES, "g.edges.csv": EDGES}
SOLVE = ["solve", "g.nodes.csv", "-o", "out.json"]
BAD, FALSE, INFEASIBLE = 2, 1, 3
pytestmark = pytest.mark.usefixtures("short_searches")


def npz():
    return to_npz(ComputationGraph.from_edges([(0, 1), (1, 2)]))


def plan(**changes):
    """The text of the plan, with some entries changed."""
    return json.dumps(json.loads(chain_plan()) | changes)


def tables(nodes=NODES, edges=EDGES, **more):
    """Files of a graph whose tables are called g; values= for a third."""
    return {"g.nodes.csv": nodes, "g.edges.csv": edges} | {f"g.{kind}.csv": text for kind, text in more.items()}


def case(name, files, words, *named, code=BAD):
    return pytest.param(files, words.split() if isinstance(words, str) else words, named, code, id=name)


def table(name, nodes, edges, *named):
    """Tables that are no graph."""
    return case(name, tables(nodes, edges), SOLVE, *named)


def option(name, words, *named, code=BAD):
    """A good graph, and words that are wrong after it."""
    return case(name, GRAPH, [*SOLVE, *(words.split() if isinstance(words, str) else words)], *named, code=code)


def claims(name, text, *named, code=BAD):
    """A good graph and a bad plan; the text is made when the case is run."""
    return case(name, GRAPH | {"plan.json": text}, "verify g.nodes.csv plan.json", *named, code=code)


ROUND = "name,memory,compute,view_of\na,4,1,\nv,,0,w\nw,,0,v\n"
WORKING = "name,memory,compute,view_of\na,4,1,\nv,,7,a\nb,1,1,\n"
STRUCTURE = [
    table("cycle", NODES, EDGES + "d,b\n", "g.nodes.csv", "b -> c -> d -> b"),
    table("node that reads itself", NODES, EDGES + "c,c\n", "c -> c"),
    table("unknown node in an edge", NODES, EDGES + "b,zebra\n", "g.edges.csv, line 7", "'zebra'"),
    table("two nodes of one name", "id,name\n1,a\n2,a\n", "src,dst\n1,2\n", "g.nodes.csv, line 3", "'a'"),
    table("two nodes of one id", "id,name\n7,a\n7,b\n", "src,dst\n7,7\n", "g.nodes.csv, line 3", "'7'"),
    table("no name", "name,memory\na,1\n,2\n", PAIR, "g.nodes.csv, line 3", "name"),
    case("cycle in an edge list", {"g.txt": "a b\nb a\n"}, "solve g.txt -o out.json", "g.txt", "a -> b -> a"),
    case("three words on a line", {"g.txt": "a b\na b c\n"}, "solve g.txt", "g.txt, line 2"),
    table("views that go round", ROUND, "src,dst\na,v\n", "v -> w -> v"),
    table("view that computes", WORKING, "src,dst\na,v\nv,b\n", "g.nodes.csv, line 3", "'v'"),
    table("view of nothing", "name,view_of\na,\nv,zebra\n", "src,dst\na,v\n", "'zebra'"),
    table("reader that is resident", "name,resident\na,input\nb,\n", "src,dst\nb,a\n", "g.edges.csv, line 2", "'a'"),
]
HUGE = f"1e{9**25}"
NUMBERS = [
    table("negative size", NODES.replace("b,4", "b,-4"), EDGES, "g.nodes.csv, line 3", "memory", "-4"),
    table("negative cost", NODES.replace("b,4,10", "b,4,-1"), EDGES, "g.nodes.csv, line 3", "compute", "-1"),
    table("absurd size", NODES.replace("b,4", "b,1e30"), EDGES, "'b'", "memory", "2**53"),
    table("absurd cost", NODES.replace("b,4,10", "b,4,1e30"), EDGES, "'b'", "compute", "2**53"),
    table("absurd workspace", "name,workspace\na,1e30\nb,\n", PAIR, "'a'", "workspace"),
    table("absurd parameter", "name,param_memory\na,1e30\nb,\n", PAIR, "param(a)"),
    table("absurd resident", "name,memory,resident\na,1e30,input\nb,1,\n", PAIR, "'a'", "2**53"),
    table("absurd gradient", "name,grad_memory\na,1e30\nb,1\n", PAIR, "'a'", "grad_memory"),
    table("negative gradient", "name,grad_memory\na,-7\nb,1\n", PAIR, "'a'", "grad_memory"),
    table("absurd exponent", NODES.replace("b,4", "b,1e999999999"), EDGES, "'b'", "memory"),
    table("exponent beyond all", NODES.replace("b,4", f"b,{HUGE}"), EDGES, "'b'", "memory"),
    table("absurd size with a unit", NODES.replace("b,4", f"b,{HUGE}GB"), EDGES, "'b'"),
    table("sum beyond 2**53", "name,memory\na,5e15\nb,5e15\n", PAIR, "'b'", "2**53"),
    table("sum that gradients take beyond 2**53", "name,memory\na,4e15\nb,4e15\n", PAIR, "g.nodes.csv", "2**53"),
    table("NaN", NODES.replace("b,4", "b,nan"), EDGES, "'b'", "'nan'"),
    table("infinity", NODES.replace("b,4,10", "b,4,inf"), EDGES, "'b'", "'inf'"),
    table("unknown unit", NODES.replace("b,4", "b,4XB"), EDGES, "'b'", "'4XB'"),
    table("words for a number", NODES.replace("b,4,10", "b,4,ten"), EDGES, "'b'", "'ten'"),
]
BELL = PAIR.replace("a", "a\a")
CELLS = [
    table("missing column", "memory,compute\n4,10\n", EDGES, "g.nodes.csv, line 1", "`name`"),
    table("missing column of edges", NODES, "a,b\nb,c\n", "g.edges.csv, line 1", "`src`"),
    table("column twice", "name,memory,memory_bytes\na,4,4\n", EDGES, "`memory` and `memory_bytes`"),
    table("a cell too few", NODES + "f,1\n", EDGES, "g.nodes.csv, line 8", "3 cells"),
    table("a cell too many", NODES, EDGES + "a,c,d\n", "g.edges.csv, line 7", "2 cells"),
    table("unknown role", "name,resident\na,weight\nb,\n", PAIR, "g.nodes.csv, line 2", "'weight'"),
    table("unknown flag", "name,once\na,maybe\nb,\n", PAIR, "once", "'maybe'"),
    table("unknown mark", "name,mark\na,drop\nb,\n", PAIR, "mark", "'drop'"),
    table("once and recompute", "name,once,mark\na,1,recompute\nb,,\n", PAIR, "node a"),
    table("open quote", 'name,memory\n"a,4\nb,4\n', PAIR, "g.nodes.csv, line 3", "CSV"),
    table("name that cannot be printed", 'name,memory\n"a\a",4\nb,4\n', BELL, "'a\\x07'"),
    case("value of an unknown node", tables(values="node,memory_bytes\na,1\nzebra,1\n"), SOLVE, "g.values.csv, line 3"),
]
VERSION = '{"format": "remat-graph", "version": 9}'
CUT = '{"format": "remat-graph", "version": 1,\n "nodes": [{"na'
FILES = [
    table("empty file", "", EDGES, "g.nodes.csv", "empty"),
    table("empty edges", NODES, "", "g.edges.csv", "empty"),
    table("header only", "name,memory\n", "src,dst\n", "g.nodes.csv", "no node"),
    table("binary junk", bytes(range(256)) * 4, EDGES, "g.nodes.csv"),
    table("binary junk as edges", NODES, bytes(range(128, 256)) * 4, "g.edges.csv"),
    table("latin-1", NODES.replace("loss", "größe").encode("latin-1"), EDGES, "g.nodes.csv", "UTF-8"),
    table("UTF-16", NODES.encode("utf-16"), EDGES, "g.nodes.csv", "UTF-16"),
    case("empty graph", {"g.txt": ""}, "solve g.txt", "g.txt", "empty"),
    case("truncated JSON", {"g.json": CUT}, "solve g.json -o out.json", "g.json", "line 2, column 13"),
    case("JSON of something else", {"g.json": '{"layers": []}'}, "solve g.json", "g.json", "remat-graph"),
    case("JSON of another version", {"g.json": VERSION}, "show g.json", "g.json", "9"),
    case("truncated npz", {"g.npz": lambda: npz()[:200]}, "solve g.npz -o out.json", "g.npz", "whole"),
    case("npz without its end", {"g.npz": lambda: npz()[:-40]}, "solve g.npz", "g.npz", "whole"),
    case("missing file", {}, SOLVE, "g.nodes.csv", "no such file"),
    case("missing edges table", {"g.nodes.csv": NODES}, SOLVE, "g.edges.csv", "no such file"),
    case("missing nodes table", {"g.edges.csv": EDGES}, "solve g.edges.csv", "g.nodes.csv", "no such file"),
    case("missing table of an edge list", {"g.txt": "a b\n"}, "solve g.txt --nodes n.csv", "n.csv", "no such file"),
    case("folder", {"graph/": None}, "solve graph -o out.json", "graph", "directory"),
    case("lone table", {"g.csv": NODES}, "solve g.csv -o out.json", "g.csv", "X.nodes.csv"),
]
BUDGETS = [
    option("budget that is a bare share", "--budget 0.5", "--budget '0.5'", "50%"),
    option("budget of twice a sign", "--budget 50%%", "--budget", "'50%%'"),
    option("budget with a comma", "--budget 50,5%", "--budget", "'50,5%'"),
    option("budget of no number", "--budget nan%", "'nan%'"),
    option("negative budget", "--budget -3", "'-3'"),
    option("budget in words", "--budget abc", "'abc'", "4GiB"),
    option("budget of nothing", ["--budget", ""], "--budget", "4GiB"),
    option("absurd budget", "--budget 1e400", "'1e400'"),
    option("budget beyond all", ["--budget", HUGE], "1e7"),
    option("budget of 5,000 digits", ["--budget", f"{'9' * 5000}%"], "--budget"),
    option("overhead in words", "--overhead some", "--overhead 'some'"),
    option("negative overhead", "--overhead -5", "-5"),
    option("least overhead", "--overhead least", "'least'"),
    option("overhead of nothing by nothing", "--overhead 1/0", "'1/0'"),
    option("overhead beyond all", "--overhead 1e999999999", "1e999999999"),
    option("overhead without a unit", "--overhead 30", "--overhead '30'", "'30%' (of one pass) or '30 units'"),
    option("overhead that may be a share", "--overhead 0.3", "'30%' (of one pass)"),
    option("overhead in another unit", ["--overhead", "30 ms"], "--overhead 30 ms", "'ms'"),
    option("device that is a share", "--device 50%", "--device '50%'"),
    option("infeasible budget", "--budget 3", "3 B", "16 B", "grad(d), grad(c), grad(b)", code=INFEASIBLE),
    option("infeasible overhead", "--budget 80% --overhead 1%", "overhead 1 ", code=INFEASIBLE),
    option("infeasible device", "--device 5", "5 B", "16 B", "grad(d)", code=INFEASIBLE),
    option("device in words", "--device large", "'large'"),
]
SQRT = "--solver chen_sqrt -O"
OPTIONS = [
    option("unknown solver", "--solver magic", "--solver", "'magic'", "chen_greedy", "no_remat"),
    case("compare with an unknown solver", GRAPH, "compare g.nodes.csv --solver magic", "'magic'", "chen_sqrt"),
    option("unknown option", f"{SQRT} depth=3", "-O", "depth", "segments"),
    option("option of solve itself", f"{SQRT} time_limit=2", "time_limit", "segments"),
    option("option without a value", f"{SQRT} segments", "segments", "NAME=VALUE"),
    option("option without a solver", "-O segments=3", "-O", "--solver"),
    option("option out of range", f"{SQRT} segments=0", "segments"),
    option("option beyond 64 bits", f"{SQRT} segments={10**19}", "-O: chen_sqrt: segments is 1"),
    option("option of the wrong kind", f"{SQRT} segments=many", "segments", "many"),
    option("option that is none of the choices", "--solver chen_greedy -O grid=fine", "'fine'", "paper"),
    option("cut after an unknown node", f"{SQRT} at=a,zebra", "'zebra'"),
    option("unit of nothing", f"{SQRT} candidates=boundary1 -O unit=0", "unit"),
    option("number for a list of names", "--solver echo -O only=5", "only is 5"),
    option("truth value for a list of names", "--solver drop_cheap -O drop=True", "drop is True"),
    option("negative time limit", "--time-limit -1", "--time-limit is -1"),
    option("gap below 0", "--gap -1", "--gap is -1"),
    option("gap in words", "--gap near", "--gap", "'near'"),
    option("gap of no number", "--gap nan", "--gap is", "nan"),
    option("seed in words", "--seed luck", "--seed", "'luck'"),
    option("seed of 5,000 digits", ["--seed", "9" * 5000], "--seed", "5,000 digits"),
    option("negative factor", "--factor -1", "--factor is -1"),
    option("factor that is not a number", "--factor nan", "--factor is nan"),
    option("factor without end", "--factor inf", "--factor is inf"),
    option("absurd factor", "--factor 1e308", "factor"),
    option("factor in words", "--factor twice", "--factor", "'twice'"),
    option("loss that is not there", "--loss los", "'los'", "did you mean"),
    option("unknown module", "--modules zebra", "--modules: ", "'zebra'"),
    option("unknown module that stays", "--stay zebra", "--stay: ", "'zebra'"),
    option("region without nodes", "--region r=zebra*:4", "--region r: ", "'zebra*'"),
    option("region without a size", "--region r=a:zebra", "--region r: ", "'zebra'"),
    option("alignment without an arena", "--alignment 8", "--alignment 8 ", "arena"),
    option("alignment that is no power of two", "--alignment 3", "--alignment is 3"),
    option("training solver at inference", "--inference --solver chen_sqrt", "chen_sqrt", "differentiate"),
    case("nothing has a gradient", tables("name,grad_memory\na,-1\nb,-1\n", PAIR), SOLVE, "loss"),
    option("unknown flag", "--fast", "--fast", "--help"),
    option("budget without its option", "50%", "has no 50%; a budget is written --budget 50%"),
    option("budget in bytes without its option", "4GiB", "--budget 4GiB"),
    option("word too many", "h.nodes.csv", "has no h.nodes.csv; see", "--help"),
    option("option that is nearly right", "--budgte 80%", "did you mean --budget?"),
    option("solver that is nearly right", "--solver chen_greed", "did you mean chen_greedy"),
    case("command that is nearly right", GRAPH, "slove g.nodes.csv", "'slove'; did you mean solve?"),
    case("unknown command", GRAPH, "dissolve g.nodes.csv", "'dissolve'", "--help"),
    case("no graph", GRAPH, "solve", "GRAPH", "--help"),
    case("no plan", GRAPH, "verify g.nodes.csv", "PLAN", "--help"),
]
OUTPUTS = [
    case("output in no folder", GRAPH, "solve g.nodes.csv -o away/out.json", "away/out.json", "no folder"),
    case("output onto a folder", GRAPH | {"plans/": None}, "solve g.nodes.csv -o plans", "plans is a folder"),
    case("output below a file", GRAPH, "solve g.nodes.csv -o g.nodes.csv/out.json", "g.nodes.csv", "no folder"),
    case("output without a name", GRAPH, "solve g.nodes.csv -o", "-o", "--help"),
]
PLANS = [
    case("missing plan", GRAPH, "verify g.nodes.csv plan.json", "plan.json", "no such file"),
    case("plan that is a folder", GRAPH | {"plan.json/": None}, "verify g.nodes.csv plan.json", "directory"),
    claims("empty plan", "", "plan.json", "complete file"),
    claims("truncated plan", lambda: plan()[:300], "plan.json", "line 1, column"),
    claims("binary junk as a plan", bytes(range(256)), "plan.json"),
    claims("list as a plan", "[1, 2]", "plan.json", "object"),
    claims("graph as a plan", '{"format": "remat-graph", "version": 1}', "plan.json", "remat-plan"),
    claims("deep nest as a plan", "[" * 100_000, "plan.json"),
    claims("plan of another graph", lambda: plan(graph_hash="0" * 64), "plan.json", "another graph"),
    claims("plan of another version", lambda: plan(version=2), "plan.json", "version 2"),
    claims("plan without a schedule", lambda: plan().replace('"schedule"', '"steps"'), "plan.json", '"schedule"'),
    claims("plan whose schedule is text", lambda: plan(schedule="a b c"), '"schedule"', "'a b c'"),
    claims("plan whose peak is text", lambda: plan(peak_memory="20"), '"peak_memory"', "'20'"),
    claims("plan whose peak is a flag", lambda: plan(peak_memory=True), '"peak_memory"', "True"),
    claims("plan whose budget is a share", lambda: plan(budget={"memory": 0.5}), '"budget"', "0.5"),
    claims("plan whose budget is odd", lambda: plan(budget={"time": 3}), '"budget"', "time"),
    claims("plan whose gradients are odd", lambda: plan(differentiate={"by": "hand"}), "by", "differentiate"),
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
    """An older plan stays where it is."""
    older = {"out.json": "the older plan"} if "out.json" in words else {}
    complains(tmp_path, run_here, files | older, words, named, code)


@pytest.mark.parametrize(CASES, [kind[-1] for kind in KINDS[::3]])
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


# Command lines in one folder that stays as it is: what is wrong with them, and what the sentence has.

SMALL = "model:vgg11?batch=1&image=64"
OWN = "model:vgg11?batch=1&image=64&parameter_gradients=true"
LINES = {
    # allocate
    "allocate": "nothing to allocate",
    "allocate chain.nodes.csv --buffers buffers.csv": "leave out chain.nodes.csv",
    "allocate --buffers missing.csv": "no such file: missing.csv",
    "allocate chain.nodes.csv missing.json": "no such file: missing.json",
    "allocate chain.nodes.csv order.txt": "order.txt",
    "allocate --buffers buffers.csv --alignment 48": "--alignment is 48",
    "allocate --buffers buffers.csv --capacity plenty": "--capacity: 'plenty'",
    "allocate --buffers buffers.csv --time-limit -1": "--time-limit",
    "allocate --buffers buffers.csv --in-place-table t.csv": "--buffers replaces the graph; leave out --in-place-table",
    "allocate --buffers buffers.csv --nodes chain.nodes.csv": "--buffers replaces the graph; leave out --nodes",
    "allocate --buffers buffers.csv --encode --loss a": "--buffers replaces the graph; leave out --loss, --encode",
    "allocate --buffers buffers.csv -o a.svg --plot ./a.svg": "-o and --plot",
    "allocate relu.nodes.csv --in-place-table place.csv": "'ReLU'",
    "allocate --buffers buffers.csv --match-range 2": "--method sharing",
    "allocate --buffers buffers.csv --method sharing --match-range -1": "--match-range",
    "allocate --buffers buffers.csv --method guess": "guess",
    "allocate chain.nodes.csv --in-place-table missing.csv": "missing.csv",
    "allocate --buffers buffers.csv -o buffers.csv": "buffers.csv would overwrite",
    "allocate chain.nodes.csv -o ./chain.edges.csv": "overwrite",
    "allocate chain.nodes.csv plan.json -o plan.json": "plan.json would overwrite",
    "allocate --buffers buffers.csv --plot - --json": "--plot - and --json",
    "allocate --buffers buffers.csv --capacity 1 --capacity 2 --method sharing": "--method sharing",
    "allocate --buffers fixed.csv --alignment 16 --json": "fixed offset 8",
    "allocate --buffers fixed.csv --capacity 11 --json": "fixed offset 8",
    "allocate --buffers fixed.csv --method sharing --json": "fixed offset of buffer a",
    "allocate --buffers fixed.csv --capacity 6 --capacity 99 --json": "beyond the 6 bytes of arena 0",
    # convert
    "convert net.dot net.dot": "net.dot would overwrite",
    "convert net.dot link.dot": "would overwrite",
    "convert X.edges.csv X.nodes.csv": "would overwrite",
    "convert order.txt X.nodes.csv --nodes X.nodes.csv": "would overwrite",
    "convert net.dot new.xyz": "new.xyz: unknown ending",
    "convert nothing.dot new.json": "no such file: nothing.dot",
    "convert net.dot new.json --nodes m.csv": "leave out m.csv",
    f"convert '{OWN}' x.json --encode": "its own backward part",
    # unroll
    "unroll chain.nodes.csv plan.json --mirror m.csv": "--mirror m.csv defines an order; leave out plan.json",
    "unroll chain.nodes.csv --mirror nowhere.csv": "no such file: nowhere.csv",
    "unroll chain.nodes.csv --mirror chain.edges.csv": "missing column `node`",
    "unroll chain.nodes.csv --mirror m.csv -o un.xyz": "un.xyz: unknown ending",
    "unroll chain.nodes.csv --mirror m.csv -o m.csv": "m.csv would overwrite",
    "unroll chain.nodes.csv --mirror m.csv --plot - --json": "both use standard output",
    # simulate
    "simulate chain.nodes.csv nowhere.txt": "nowhere.txt",
    "simulate chain.nodes.csv .": ".",
    "simulate chain.nodes.csv chain.nodes.csv": "chain.nodes.csv",
    "simulate plan.json chain.nodes.csv": "plan.json",
    "simulate chain.nodes.csv plan.json --step 14": "--step 14",
    "simulate chain.nodes.csv plan.json --step -1": "--step: '-1'",
    "simulate chain.nodes.csv plan.json --budget=least": "--budget",
    "simulate chain.nodes.csv plan.json --budget=0.5": "--budget",
    "simulate chain.nodes.csv --keep zebra": "zebra",
    "simulate chain.nodes.csv --recompute a,zebra": "zebra",
    "simulate chain.nodes.csv --keep ''": "--keep",
    "simulate chain.nodes.csv --recompute ' , '": "--recompute",
    "simulate chain.nodes.csv --keep a --recompute a": "a is named both",
    "simulate chain.nodes.csv --keep a --recompute b": "give only one of them, or a schedule",
    "simulate chain.nodes.csv --recompute 'grad(a)'": "grad(a)",
    "simulate chain.nodes.csv --keep 'grad(a)'": "grad(a)",
    "simulate chain.nodes.csv plan.json --recompute loss": "loss",
    "simulate chain.nodes.csv --allocator jemalloc": "'jemalloc'",
    # explain, diff, frontier
    "explain chain.nodes.csv plan.json --value zebra": "zebra",
    "explain chain.nodes.csv plan.json --most -1": "--most: '-1'",
    "explain chain.nodes.csv nowhere.json": "nowhere.json",
    "explain chain.nodes.csv other.json": "another graph",
    "verify plan.json chain.nodes.csv": "plan.json",
    "diff chain.nodes.csv plan.json other.json": "other.json",
    "diff chain.nodes.csv other.json plan.json": "other.json",
    "frontier chain.nodes.csv --solver chen_sqrt,nobody": "'nobody'",
    "frontier chain.nodes.csv --solver ''": "unknown solver",
    "frontier chain.nodes.csv --solver auto": "--solver: auto",
    "frontier chain.nodes.csv --points 1": "--points is 1",
    "frontier chain.nodes.csv --points -3": "--points: '-3'",
    "frontier chain.nodes.csv --time-limit -1": "--time-limit is -1",
    "frontier chain.nodes.csv --budget 50%": "--budget",
    # pictures and other outputs
    **{
        f"{command} chain.nodes.csv {words}": named
        for command in ("solve", "show")
        for words, named in (
            ("--plot picture.gif", "picture.gif"),
            ("--plot picture", ".png"),
            ("--plot nowhere/picture.png", "there is no folder nowhere"),
            ("--plot folder.png", "folder.png is a folder"),
            ("--plot ''", ".png"),
            ("--plot - --picture flower", "flower"),
            ("--picture memory", "--plot"),
            ("--json --plot -", "--plot - and --json"),
        )
    },
    "solve chain.nodes.csv --format names --json": "--json and --format",
    "solve chain.nodes.csv --format names --plot -": "--plot - and --format",
    "solve chain.nodes.csv -o chain.nodes.csv": "chain.nodes.csv would overwrite",
    "solve order.txt --nodes sizes.csv -o sizes.csv": "would overwrite",
    "solve order.txt -o order.txt": "would overwrite",
    "solve chain.nodes.csv --allocator none": "--allocator: unknown allocator",
    "solve chain.nodes.csv --allocator cupy_pool --alignment 8": "--alignment 8",
    "compare chain.nodes.csv --alignment 8": "--alignment 8",
    "show chain.nodes.csv --allocator cupy_pool --breakdown": "--breakdown",
    f"show '{SMALL}' --by operation": "--breakdown",
    f"show '{SMALL}' --plan plan.json": "--breakdown",
    f"show '{SMALL}' --breakdown --plan missing.json": "no such file: missing.json",
    f"show '{SMALL}' --element-bits 16": "--encode",
    f"show '{SMALL}' --encode --element-bits 1": "such as 32",
    f"show '{SMALL}' --encode --inference": "--encode needs gradients",
    f"show '{OWN}' --encode": "its own backward part",
    f"verify '{SMALL}' plan.json --nodes sizes.csv": "leave out the table of nodes sizes.csv",
    "order chain.nodes.csv --beam -1": "--beam",
    # run
    "run chain.nodes.csv --plan none.json": "no such file: none.json",
    "run chain.nodes.csv --plan p.json --budget 50%": "--budget is for solving",
    "run chain.nodes.csv --plan p.json -O segments=2": "-O is for solving",
    "run chain.nodes.csv --shrink 0": "--shrink: sizes",
    "run chain.nodes.csv --shrink 100000000000000000000": "at most 9223372036854775807",
    "run chain.nodes.csv --repeats -1": "-1",
    "run chain.nodes.csv --backend tpu": "'tpu'",
    "run chain.nodes.csv -O segments=2": "-O needs a named solver",
    "run chain.nodes.csv --solver chen_sqrt -O segments=x": "segments is 'x'",
    # width
    "width square.gr --seeds -1": "--seeds: '-1'",
    "width square.gr --time-limit -1": "--time-limit is -1",
    "width square.gr --td square.gr": "square.gr would overwrite",
    "width square.gr --td - --json": "--td - and --json",
    "width square.gr --td - --plot -": "--td - and --plot -",
    "width square.gr --nodes m.csv": "--nodes m.csv",
    "width absent.json": "no such file: absent.json",
    "width order.txt --loss nobody": "order.txt: ",
    # models, fit and calibrate
    "models vggg": "did you mean vgg",
    "models vgg --jsn": "--jsn",
    "show model:vgg20": "did you mean",
    "show 'model:vgg19?btach=3'": "did you mean batch",
    "show 'model:vgg19?batch=none'": "batch is 'none'",
    "show 'model:vgg19?image=8'": "larger image",
    "show model:": "unknown model",
    "show 'model:vgg11?dtype=float17'": "float17",
    "solve vgg19": "vgg19: there is no such file; did you mean model:vgg19?",
    "show 'VGG-19?batch=4'": "did you mean model:vgg19?batch=4?",
    "fit --model vggg --vary batch --memory 1GB": "did you mean vgg",
    "fit --model 'vgg?btach=3' --vary image --memory 1GB --json": "did you mean batch",
    "fit --model vgg --vary bacth --memory 1GB": "did you mean batch",
    "fit --model vgg --vary zzz --memory 1GB": "it has batch, image, depth",
    "fit --model vgg --vary norm --memory 1GB": "norm is not a number",
    "fit --model 'vgg?batch=2' --vary batch --memory 1GB": "batch cannot both vary and be 2",
    "fit --model vgg --vary batch --memory much": "--memory: 'much'",
    "fit --model vgg --vary batch --memory 50%": "--memory '50%'",
    "fit --model vgg --vary batch --memory 1GB --overhead much": "--overhead 'much'",
    "fit --model vgg --vary batch --memory 1GB --most 0": "--most 0",
    "fit --model vgg --vary depth --memory 1GB --most 10": "the smallest value to try is 11",
    "fit --model vgg --vary batch --memory 1GB --values 3,x": "--values: 'x'",
    "fit --model vgg --vary batch --memory 1GB --values ,": "--values: ','",
    "fit --model vgg --vary batch": "--memory",
    "fit --vary batch --memory 1GB": "--model",
    "fit --model 'vgg11?optimizer=adam' --vary batch --memory 4GiB --encode": "its own backward part",
    "calibrate --dtype float61": "did you mean float64",
    "calibrate --backend cuda": "--backend: invalid choice: 'cuda'",
}
RELU = "name,memory,compute,op\nconv,8,9,Convolution\nrelu,8,1,ReLU\nlast,4,9,Convolution\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files of every kind that commands read."""
    folder = lay_tables(tmp_path_factory.mktemp("lines"), relu=(RELU, "src,dst\nconv,relu\nrelu,last\n"))
    record = json.loads(plan())
    texts = {
        "plan.json": plan(),
        "other.json": json.dumps(record | {"graph_hash": "0" * 64}),
        "order.txt": "a b\nb c\na c\n",
        "sizes.csv": "id,memory\na,4\nb,2\nc,1\n",
        "m.csv": "node,count\na,2\nb,1\nd,1\n",
        "place.csv": "op,read\nReLU,7\n",
        "buffers.csv": "id,lower,upper,size\na,0,2,100\nb,1,3,5\n",
        "fixed.csv": "id,lower,upper,size,offset\na,0,4,4,8\nb,0,2,4,\nc,2,6,4,\nd,3,6,4,0\n",
        "net.dot": "digraph { a [memory=1, compute=1]; b [memory=1, compute=1]; a -> b }",
        "square.gr": "p tw 4 4\n1 2\n2 3\n3 4\n4 1\n",
        "X.nodes.csv": "x\n1\n",
        "X.csv": "name\na\n",
        "X.edges.csv": "src,dst\n",
    }
    lay(folder, texts | {"folder.png/": None})
    (folder / "link.dot").symlink_to("net.dot")
    return folder


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_that_cannot_be_served_is_one_sentence_and_changes_no_file(remat, place, monkeypatch, line):
    monkeypatch.chdir(place)
    before = contents(place)
    said = remat(*shlex.split(line))
    assert said.code == BAD
    sentence = one_sentence(subprocess.CompletedProcess(line, said.code, said.out, said.err))
    assert LINES[line] in sentence
    assert contents(place) == before


def test_json_on_request_leaves_standard_output_empty_on_bad_input(tmp_path, run_here):
    lay(tmp_path, tables(edges=EDGES + "e,a\n"))
    done = run_here(tmp_path, [*SOLVE, "--json"])
    assert (done.returncode, done.stdout) == (BAD, "")
    assert "cycle" in one_sentence(done)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize(("name", "mode"), [("locked", 0o500), ("g.edges.csv", 0)])
def test_an_unwritable_folder_or_an_unreadable_file_is_one_sentence(tmp_path, name, mode):
    lay(tmp_path, GRAPH | {"locked/": None})
    (tmp_path / name).chmod(mode)
    try:
        done = run(tmp_path, [*SOLVE[:2], "-o", "locked/out.json"])
    finally:
        (tmp_path / name).chmod(0o700)
    assert done.returncode == BAD
    assert name in one_sentence(done)
    assert list((tmp_path / "locked").iterdir()) == []
