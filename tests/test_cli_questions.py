"""Questions on the command line: simulate, explain, frontier, diff, the forms of a plan, and what interrupts leave."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from remat_algos.cli.main import main
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import ORDER_FORMS, Plan
from remat_algos.search.auto import default_solvers
from tests.command_line import Said, chain_plan, complains, process

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "graphs"
NODES = [*"abcde", "loss", "grad(loss)", *(f"grad({v})" for v in "edcba")]  # of the chain, differentiated
BOUND = 4_000  # bytes that a file may have on a disk that is full
pytestmark = pytest.mark.usefixtures("short_searches")
ODD_NAMES = (
    *("[CLS]", "a b", "c,d", "e=f", "é → ü", "-dash", "#hash", "compute x", "free", "{brace", '"q"', "--keep", "%s"),
    *("0", "grad", "平均", "loss"),
)


@pytest.fixture
def plan(folder):
    """The record of a plan for the chain, and its file plan.json; a and b run again."""
    (folder / "plan.json").write_text(chain_plan())
    return json.loads(chain_plan())


# Every command on every graph


NETWORKS = ["vgg19", "examples/lstm"]


@pytest.fixture(scope="module", params=NETWORKS)
def network(request, tmp_path_factory):
    """A real graph, and a plan for it."""
    name = request.param.removeprefix("examples/")
    file = EXAMPLES if name != request.param else request.getfixturevalue("shared_graphs")
    file = file / f"{name}.nodes.csv"
    if not file.exists():
        pytest.skip(f"there is no {file.name} here")
    place = tmp_path_factory.mktemp(name)
    words = ["--solver", "chen_sqrt", "--budget", "80%", "-o", str(place / "plan.json")]
    assert main(["solve", str(file), *words]) == 0
    return file, place / "plan.json"


def test_the_frontier_of_a_real_network_falls_and_has_its_base(remat, network):
    words = ("--points", "5", "--effort", "fast", "--solver", "chen_sqrt,no_remat")
    record = remat("frontier", network[0], *words, "--json").record
    best = sorted((p["peak_memory"], p["compute"]) for p in record["points"] if p["best"])
    assert len(set(best)) >= 2
    computes = [compute for _, compute in dict(reversed(best)).items()][::-1]
    assert computes == sorted(set(computes), reverse=True)
    assert best[-1][1] == record["compute_bound"]
    assert best[-1][0] <= record["peak_without_rematerialization"]
    assert best[0][0] >= record["least_peak_bound"]


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_a_plan_of_a_real_network_in_any_form_is_simulated_alike(remat, network, tmp_path):
    plan, figures = Plan.load(network[1], read_graph(network[0])), ("peak_memory", "compute", "overhead")
    for form in ORDER_FORMS:
        plan.save(tmp_path / form, form)
        simulated = remat("simulate", network[0], tmp_path / form, "--json").record
        assert [simulated[name] for name in figures] == [plan.record()[name] for name in figures], form


# simulate: orders


def matrices(ids):
    """R, a run per stage, and S, what is held from stage to stage."""
    computed = np.zeros((len(ids), 12), bool)
    computed[np.arange(len(ids)), ids] = True
    saved = np.zeros_like(computed)
    saved[1:] = np.logical_or.accumulate(computed)[:-1]
    return {"R": computed, "S": saved}


ORDERS = {
    "names with comments": lambda names, ids: "# mine\n\n  " + "\n  ".join(names) + "\n# end",
    "ids as JSON": lambda names, ids: json.dumps(ids),
    "Windows text": lambda names, ids: "\ufeff" + "\r\n".join(names),
    "R and S": lambda names, ids: matrices(ids),
}


@pytest.mark.parametrize("form", ORDERS)
def test_an_order_in_any_form_has_the_peak_that_solve_said(remat, plan, folder, form):
    order = ORDERS[form](plan["schedule"], [NODES.index(name) for name in plan["schedule"]])
    if isinstance(order, dict):
        np.savez(folder / "order.npz", **order)
        (folder / "order.npz").rename(folder / "order")
    else:
        (folder / "order").write_bytes(order.encode())
    said = remat("simulate", "chain.nodes.csv", "order", "--json")
    simulated = said.record
    assert said.fine
    assert (simulated["peak_memory"], simulated["compute"], simulated["overhead"]) == (20, 153, 20)
    assert (simulated["steps"], simulated["nodes_run_again"]) == (14, 2)
    assert simulated["peak_memory"] == plan["peak_memory"]


@pytest.mark.parametrize("form", ["plan", "actions"])
def test_what_solve_writes_on_standard_output_simulate_reads_from_a_pipe(remat, folder, form):
    words = ["solve", "chain.nodes.csv", "--budget", "80%", "--format", form]
    written = remat(*words)
    simulated = process("simulate", "chain.nodes.csv", "/dev/stdin", "--json", input=written.out)
    assert (simulated.code, simulated.err) == (0, "")
    assert simulated.record["peak_memory"] == 20
    if form == "plan":
        for command in ("verify", "explain"):
            with piped(written.out) as pipe:
                assert remat(command, "chain.nodes.csv", pipe).code == 0


@contextlib.contextmanager
def piped(text):
    """The name of a pipe that holds a short text."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        pipe.write(text)
    yield f"/dev/fd/{reader}"
    os.close(reader)


@pytest.mark.parametrize(
    "asked",
    [
        ["--factor", "0.5"],
        ["--parameter-gradients"],
        ["--loss", "c", "--loss", "loss", "--factor", "1"],
        ["--inference"],
    ],
    ids=" ".join,
)
def test_a_plan_is_simulated_as_it_was_solved(remat, folder, asked):
    made = remat("solve", "resident.nodes.csv", "--effort", "fast", *asked, "-o", "plan.json", "--json").record
    for since in ([], ["--factor", "7"], ["--inference"]):
        simulated = remat("simulate", "resident.nodes.csv", "plan.json", *since, "--json")
        assert simulated.fine
        kept = ("graph_hash", "peak_memory", "resident_memory", "compute", "overhead", "compute_unit", "compute_scale")
        assert {name: simulated.record[name] for name in kept} == {name: made[name] for name in kept}
        assert simulated.record["steps"] == len(made["schedule"])
    assert "(as in the plan)" in remat("simulate", "resident.nodes.csv", "plan.json", *since).lines[0]
    assert remat("explain", "resident.nodes.csv", "plan.json").code == 0


def test_a_plan_of_a_graph_with_its_own_backward_part_is_simulated_there(remat, plan, folder):
    write_graph(differentiate(read_graph("chain.nodes.csv")), "training.nodes.csv")
    simulated = remat("simulate", "training.nodes.csv", "plan.json", "--json").record
    assert simulated["peak_memory"] == plan["peak_memory"]


def test_without_an_order_the_graphs_own_is_simulated(remat, folder):
    names = ("peak_memory", "peak_without_rematerialization", "compute", "overhead", "nodes_run_again")
    for words, figures in (([], (28, 28, 133, 0, 0)), (["--inference"], (8, 8, 51, 0, 0))):
        simulated = remat("simulate", "chain.nodes.csv", *words, "--json").record
        assert tuple(simulated[name] for name in names) == figures


@pytest.mark.parametrize(
    ("graph", "order"),
    [
        ("chain.nodes.csv", []),
        ("chain.nodes.csv", ["plan.json"]),
        ("chain.nodes.csv", ["plan.json", "--step", "0"]),
        ("resident.nodes.csv", []),
    ],
)
def test_what_is_live_adds_up(remat, plan, graph, order):
    record = remat("simulate", graph, *order, "--json").record
    trace, step = record["memory_trace"], record["step"]
    assert len(trace) == record["steps"]
    assert max(trace) == trace[record["peak_step"]] == record["peak_memory"]
    assert sum(record["breakdown"].values()) == trace[step]
    assert sum(entry["memory"] for entry in record["live"]) == trace[step]
    assert step == (0 if "--step" in order else record["peak_step"])


def test_the_text_tells_the_step_that_was_asked_for(remat, plan):
    for step, name in enumerate(plan["schedule"]):
        said = remat("simulate", "chain.nodes.csv", "plan.json", "--step", step)
        assert said.code == 0
        assert any(line.startswith(f"at step {step} ") and f"  {name} runs" in line for line in said.lines)


@pytest.mark.parametrize(("budget", "limit"), [("20", 20), ("1kB", 1000), ("71%", 19), ("72%", 20), ("0", 0)])
def test_a_peak_above_the_budget_is_exit_code_3(remat, plan, budget, limit):
    words = ["simulate", "chain.nodes.csv", "plan.json", "--budget", budget]
    text, coded = remat(*words), remat(*words, "--json")
    assert coded.record["limit"] == limit
    assert text.code == coded.code == (0 if limit >= 20 else 3)
    assert ("it fits" in text.out) == (limit >= 20)
    assert ("it does not fit" in text.out) == (limit < 20)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["order", "empty"]),
        ('["a", "b"', ["order", "JSON"]),
        ("a\nzebra\n", ["order", "step 1", "zebra"]),
        ("b a\n", ["order", "step 0", "b"]),
        ("a b c d e loss\n", ["order", "grad(a)", "--inference"]),
        ("\xff\xfe", ["order"]),
    ],
    ids=["empty", "a list cut short", "an unknown name", "a value before it is made", "no gradients", "no text"],
)
def test_a_bad_order_is_one_sentence_that_names_the_file(remat, folder, text, named):
    (folder / "order").write_bytes(text.encode("latin-1"))
    assert complains(remat("simulate", "chain.nodes.csv", "order", "--json"), *named)


# simulate: what if


def test_keeping_all_is_no_rematerialization(remat, folder):
    record = remat("simulate", "chain.nodes.csv", "--keep", "a,b,c,d,e,loss", "--json").record
    assert (record["peak_memory"], record["overhead"]) == (28, 0)


def test_names_are_given_with_commas_or_one_by_one(remat, folder):
    wanted = remat("simulate", "chain.nodes.csv", "--keep", "a,c", "--json").record
    for words in (["--keep", "c,a"], ["--keep", " a , c ,"], ["--keep", "a", "--keep", "c"], ["--keep=a,a,c"]):
        assert remat("simulate", "chain.nodes.csv", *words, "--json").record == wanted


# Odd names


@pytest.fixture
def odd(folder):
    """A chain of nodes with odd names; the values of the last but one have odd names too."""
    nodes = [
        {
            **{"name": name, "op": "", "compute": 1, "workspace": 0, "once": False},
            "reads": [ODD_NAMES[i - 1]] if i else [],
            "values": [{"name": name, "memory": 4, "output": name == "loss"}],
        }
        for i, name in enumerate(ODD_NAMES)
    ]
    nodes[1]["values"].append({"name": "mask, really", "memory": 4, "output": False})
    nodes[2]["reads"].append("mask, really")
    (folder / "odd.json").write_text(
        json.dumps({"format": "remat-graph", "version": 1, "compute_unit": "", "nodes": nodes, "backward": "to come"})
    )
    return folder


def test_any_name_can_be_kept_and_explained(remat, odd):
    remat("solve", "odd.json", "--solver", "chen_sqrt", "-o", "plan.json")
    for name in ODD_NAMES:
        assert remat("explain", "odd.json", "plan.json", f"--value={name}").lines[0].startswith(f"{name}  ")
        record = remat("simulate", "odd.json", f"--keep={name}", "--json").record
        assert record["nodes_run_again"] == len(ODD_NAMES) - 1


def test_a_name_with_a_comma_can_be_one_of_a_value(remat, odd):
    value = remat("simulate", "odd.json", "--keep", "mask, really", "--json")
    assert value.fine
    assert value.record == remat("simulate", "odd.json", "--keep", "a b", "--json").record
    assert complains(remat("simulate", "odd.json", "--keep", "mask, nearly"), "mask")
    remat("solve", "odd.json", "--solver", "chen_sqrt", "-o", "plan.json")
    assert remat("explain", "odd.json", "plan.json", "--value", "mask, really").lines[0].startswith("a b  ")
    record = remat("simulate", "odd.json", "--keep", "c,d", "--keep", "free,a b", "--json").record
    assert record["nodes_run_again"] == len(ODD_NAMES) - 3


# explain


def test_explain_tells_of_values_and_what_the_contrary_would_bring(remat, plan):
    said = remat("explain", "chain.nodes.csv", "plan.json", "--value", "c")
    assert said.fine
    assert said.lines[0].startswith("c  4 B, ")
    record = remat("explain", "chain.nodes.csv", "plan.json", "--value", "c", "--json").record
    cost = abs(record["decisions"][0]["flipped"]["compute"])
    share = 100 * cost / 133
    assert re.search(r" (recomputing it|keeping it) would ", said.flat)
    assert f" {cost} ({share:.1f} % of one pass)" in said.flat
    assert said.lines[-1].startswith("at the peak: ")


@pytest.mark.parametrize("most", [0, 3, 100])
def test_most_is_how_many_are_told(remat, plan, most):
    record = remat("explain", "chain.nodes.csv", "plan.json", "--most", most, "--json").record
    assert len(record["decisions"]) == min(most, 5)
    assert len(record["decisions"]) + record["left_out"] == 5
    said = remat("explain", "chain.nodes.csv", "plan.json", "--most", most)
    told = [line for line in said.lines[:-1] if not line.startswith((" ", "."))]
    assert len([line for line in told if " B, " in line]) == min(most, 5)


def test_a_false_plan_cannot_be_explained(remat, plan, folder):
    (folder / "false.json").write_text(json.dumps(plan | {"peak_memory": 1}))
    assert complains(remat("explain", "chain.nodes.csv", "false.json"), "false.json", "peak_memory", code=1)


# diff


def test_a_plan_differs_not_from_itself(remat, plan):
    said = remat("diff", "chain.nodes.csv", "plan.json", "plan.json")
    assert said.fine
    assert said.lines[-1] == "the same schedule"
    record = remat("diff", "chain.nodes.csv", "plan.json", "plan.json", "--json").record
    assert (record["first_step"], record["nodes"]) == (None, [])


def test_the_difference_is_the_other_way_round_when_the_plans_are(remat, plan):
    remat("solve", "chain.nodes.csv", "--solver", "no_remat", "-o", "other.json")
    there = remat("diff", "chain.nodes.csv", "plan.json", "other.json", "--json").record
    back = remat("diff", "chain.nodes.csv", "other.json", "plan.json", "--json").record
    turned = {e["node"]: e["runs"] for e in there["nodes"]}
    assert {e["node"]: e["runs"][::-1] for e in back["nodes"]} == turned
    said = remat("diff", "chain.nodes.csv", "other.json", "plan.json")
    assert "plan.json runs 2 nodes more often than other.json: 8 B, 20 more compute" in said.lines


def test_plans_of_one_name_are_told_apart_by_their_folders(remat, plan, folder):
    (folder / "sub").mkdir()
    remat("solve", "chain.nodes.csv", "--solver", "no_remat", "-o", "sub/plan.json")
    said = remat("diff", "chain.nodes.csv", "plan.json", "sub/plan.json")
    assert said.lines[0].split() == ["plan.json", "sub/plan.json", "difference"]


# frontier


def test_the_frontier_has_the_plans_that_none_beats(remat, folder):
    said = remat("frontier", "chain.nodes.csv", "--json")
    record = said.record
    assert said.fine
    assert (record["complete"], record["interrupted"], record["reasons"]) == (True, False, {})
    points = {(p["peak_memory"], p["compute"]) for p in record["points"]}
    best = {(p["peak_memory"], p["compute"]) for p in record["points"] if p["best"]}
    beaten = {p for p in points if any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert best == points - beaten
    assert (28, 133) in best
    assert (20, 153) in best
    table = [line.split("  ")[0].strip() for line in remat("frontier", "chain.nodes.csv").lines[4:]]
    assert table == [f"{peak} B" for peak, _ in sorted(best)]


@pytest.mark.parametrize("words", [[], ["--solver", "no_remat,chen_sqrt"]], ids=["all", "two"])
def test_on_a_graph_without_gradients_the_frontier_says_who_cannot_serve(remat, folder, words):
    said = remat("frontier", "chain.nodes.csv", "--inference", *words)
    assert said.fine
    assert said.flat.count("backward part") == 1
    assert re.search(r"chen_sqrt[a-z_, ]*: the graph has no backward part", said.flat)
    record = remat("frontier", "chain.nodes.csv", "--inference", *words, "--json").record
    served = {p["solver"] for p in record["points"]}
    asked = sorted(solver.name for solver in default_solvers()) if not words else ["chen_sqrt", "no_remat"]
    assert "no_remat" in served
    assert sorted([*record["reasons"], *served]) == asked


def test_who_cannot_serve_is_said_beneath_the_table_and_if_none_can_it_is_bad_input(remat, folder):
    said = remat("compare", "chain.nodes.csv", "--inference", "--solver", "no_remat,chen_sqrt,chen_greedy")
    assert said.fine
    assert "chen_sqrt, chen_greedy: the graph has no backward part" in said.flat
    words = ["frontier", "chain.nodes.csv", "--inference", "--solver", "chen_sqrt,chen_greedy"]
    said = remat(*words)
    assert said.code == 2
    assert "chen_sqrt, chen_greedy: " in said.out
    assert "of base" not in said.out  # no table of nothing
    coded = remat(*words, "--json", "--plot", "picture.png")
    assert (coded.code, coded.record["points"]) == (2, [])
    assert not (folder / "picture.png").exists()


# The forms of a plan


@pytest.mark.parametrize("form", ORDER_FORMS)
def test_a_form_on_standard_output_stands_there_alone(remat, plan, folder, form):
    words = ["solve", "chain.nodes.csv", "--budget", "80%", "--format", form]
    said = remat(*words)
    assert said.code == 0
    assert said.err.startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added")
    assert "peak         20 B" in said.err
    assert remat(*words, "-o", "file").code == 0
    assert untimed((folder / "file").read_text()) == untimed(said.out)
    if form == "names":
        assert said.lines == plan["schedule"]
    elif form == "actions":
        assert [line.removeprefix("compute ") for line in said.lines if line[0] == "c"] == plan["schedule"]
    else:
        assert ("frees" in said.record) == (form == "frees")
        assert said.record["schedule"] == plan["schedule"]


def untimed(text):
    return re.sub(r'"seconds": [0-9.e-]+', "", text)


def test_the_plan_is_alone_on_standard_output_though_a_picture_is_drawn(remat, plan, folder):
    said = remat(
        "solve", "chain.nodes.csv", "--budget", "80%", "--format", "names", "--plot", "p.svg", "--picture", "schedule"
    )
    assert said.lines == plan["schedule"]
    assert "p.svg" in said.err
    assert (folder / "p.svg").stat().st_size > 1000


def test_with_a_file_the_form_leaves_standard_output_to_json(remat, plan, folder):
    words = ["solve", "chain.nodes.csv", "--budget", "80%", "--format", "names", "-o", "order", "--json"]
    said = remat(*words)
    assert said.fine
    entries = said.record.keys() - {"details", "seconds"}
    assert {name: said.record[name] for name in entries} == {name: plan[name] for name in entries}
    assert (folder / "order").read_text().split() == plan["schedule"]


def test_an_infeasible_budget_leaves_standard_output_empty(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "3", "--format", "names")
    assert (said.code, said.out) == (3, "")
    read, _, why = said.err.partition("remat: ")
    assert read.startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added")
    assert why.count("\n") == 1


# Pictures

PICTURES = [
    *[("solve", picture) for picture in ("memory", "schedule", "graph", "matrix")],
    *[("show", picture) for picture in ("graph", "memory")],
    ("simulate", "memory"),
    ("frontier", None),
]


@pytest.mark.parametrize(("command", "picture"), PICTURES)
def test_a_picture_follows_the_answer_in_text_or_is_in_a_file(remat, folder, command, picture):
    graph = ["chain.nodes.csv", *(["--solver", "chen_sqrt"] if command in ("solve", "frontier") else [])]
    words = [command, *graph, *(["--picture", picture] if picture else []), "--plot"]
    plain, said = remat(command, *graph).out, remat(*words, "-")
    assert said.fine
    assert said.out.startswith(plain)
    drawn = said.out.removeprefix(plain).splitlines()
    assert len(drawn) > 5
    assert max(map(len, drawn)) <= 80
    assert any("█" in line for line in drawn)
    said = remat(*words, "picture.svg")
    assert said.fine
    assert said.lines[-1] == "drawn        picture.svg"
    assert "<svg" in (folder / "picture.svg").read_text()
    assert [file.name for file in folder.iterdir() if "picture" in file.name] == ["picture.svg"]


def test_a_picture_in_a_file_leaves_standard_output_to_json(remat, folder):
    said = remat("simulate", "chain.nodes.csv", "--plot", "picture.PNG", "--json")
    assert said.fine
    assert said.record["peak_memory"] == 28
    assert (folder / "picture.PNG").read_bytes().startswith(b"\x89PNG")


def test_the_budget_is_in_the_picture_of_an_order(remat, plan):
    said = remat("simulate", "chain.nodes.csv", "plan.json", "--budget", "25", "--plot", "-")
    assert "budget 25 B" in said.out
    assert "budget" not in remat("simulate", "chain.nodes.csv", "plan.json", "--plot", "-").out


# Files: whole, or not at all

WRITERS = [
    ["solve", "chain.nodes.csv", "--solver", "chen_sqrt", "-o"],
    ["solve", "chain.nodes.csv", "--solver", "chen_sqrt", "--plot"],
]
NAMES = [" ".join(words) for words in WRITERS]


def files(folder):
    return {file.name: file.read_bytes() if file.is_file() else None for file in folder.iterdir()}


@pytest.mark.parametrize("words", WRITERS, ids=NAMES)
def test_where_nothing_can_be_written_it_is_said_before_the_work(remat, folder, monkeypatch, words):
    (folder / "folder.svg").mkdir()
    (folder / "mine.svg").write_text("precious")
    (folder / "link.svg").symlink_to(folder / "locked" / "file.svg")
    before = files(folder) | {"locked": None}
    assert complains(remat(*words, "nowhere/file.svg"), "there is no folder nowhere")
    assert complains(remat(*words, "folder.svg"), "folder.svg is a folder")
    lock(monkeypatch, folder / "locked", folder / "mine.svg")
    for name in ("locked/file.svg", "link.svg"):
        assert complains(remat(*words, name), "locked", "cannot be written to; choose another")
    assert complains(remat(*words, "mine.svg"), "mine.svg cannot be written to; choose another")
    assert files(folder) == before


def lock(monkeypatch, *places):
    """Take the right to write from files and folders, from the superuser too."""
    for place in places:
        if not place.exists():
            place.mkdir()
        place.chmod(0o555 if place.is_dir() else 0o444)
    if os.access(places[0], os.W_OK):  # the superuser may do everything
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).resolve() not in places and access(path, mode))


@pytest.fixture
def full_disk(monkeypatch):
    """A `with` block in which no file can have more than `BOUND` bytes."""
    resource = pytest.importorskip("resource", reason="there are no limits on files here")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    @contextlib.contextmanager
    def filled():
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (BOUND, hard))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return filled


@pytest.mark.parametrize("words", WRITERS, ids=NAMES)
def test_a_disk_that_fills_up_leaves_what_was_there(remat, folder, full_disk, words):
    names = [f"{'a long, long name of a layer, ' * 5}the {i}th of them" for i in range(15)]
    (folder / "chain.nodes.csv").write_text("name\n" + "".join(f'"{name}"\n' for name in names))
    (folder / "chain.edges.csv").write_text("src,dst\n" + "".join(f'"{u}","{v}"\n' for u, v in pairwise(names)))
    assert remat(*words, "file.svg").code == 0
    before = files(folder)
    assert len(before["file.svg"]) > BOUND
    with full_disk():
        over, new = remat(*words, "file.svg", "--factor", "3"), remat(*words, "new.svg")
    for said, name in ((over, "file.svg"), (new, "new.svg")):
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert said.err.startswith(f"remat: {name}: ")
    assert files(folder) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_device_is_one_sentence_that_names_it(remat, folder):
    said = remat("solve", "chain.nodes.csv", "-o", "/dev/full")
    assert said.code == 2
    assert said.err == "remat: /dev/full: No space left on device; make room, or choose another folder\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_standard_output_is_one_sentence(plan, folder):
    with open("/dev/full", "w") as full:
        said = process("solve", "chain.nodes.csv", "--solver", "chen_sqrt", "--format", "actions", stdout=full)
    assert said.code == 2
    assert said.err.splitlines()[-1] == "remat: output: No space left on device; make room, or choose another folder"
    assert "Traceback" not in said.err


def test_a_plan_can_be_written_into_a_pipe_and_through_a_link(remat, folder, plan):
    if os.path.exists("/dev/stdout"):
        said = process("solve", "chain.nodes.csv", "--budget", "80%", "--format", "names", "-o", "/dev/stdout")
        assert said.fine
        assert set(plan["schedule"]) < set(said.lines)
    (folder / "target.json").write_text("old")
    (folder / "link.json").symlink_to("target.json")
    assert remat("solve", "chain.nodes.csv", "--budget", "80%", "-o", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "target.json").read_text())["schedule"] == plan["schedule"]


# Interrupts


@pytest.fixture
def interrupted(remat, folder, monkeypatch):
    """Runs a command line that the user stops after that many simulations."""
    import remat_algos.search.solver_run as run_module

    write_graph(ComputationGraph.from_edges([(i, i + 1) for i in range(24)]), folder / "long.json")
    original = run_module.simulate

    def run(n_simulations, *words):
        left = iter(range(n_simulations))

        def simulate(*given):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return original(*given)

        monkeypatch.setattr(run_module, "simulate", simulate)
        said = remat(*words)
        monkeypatch.setattr(run_module, "simulate", original)
        return said

    return run


N_SIMULATIONS = (0, 2, 17)


@pytest.mark.parametrize("n_simulations", N_SIMULATIONS)
@pytest.mark.parametrize("words", [[], ["--overhead", "90%"]], ids=" ".join)
def test_an_interrupted_solve_writes_a_plan_that_holds(interrupted, remat, folder, n_simulations, words):
    said = interrupted(n_simulations, "solve", "long.json", *words, "-o", "plan.json")
    assert (said.code, said.err) == (130, "")
    lines = [" ".join(line.split()) for line in said.lines]
    assert "stopped interrupted; this is the best plan found" in lines
    assert lines[-1] == "written plan.json"
    assert remat("verify", "long.json", "plan.json").code == 0
    assert json.loads((folder / "plan.json").read_text())["details"]["interrupted"] is True
    if not words:
        said = interrupted(n_simulations, "solve", "long.json", "--json")
        assert (said.code, said.err, said.record["details"]["interrupted"]) == (130, "", True)


def test_the_interrupted_plan_is_written_in_its_form_and_drawn(interrupted, remat, folder):
    said = interrupted(5, "solve", "long.json", "--format", "actions", "--plot", "p.svg")
    assert said.code == 130
    assert "interrupted" in said.err
    (folder / "order").write_text(said.out)
    assert remat("simulate", "long.json", "order").code == 0
    assert (folder / "p.svg").exists()


def test_an_interrupt_before_any_plan_fits_leaves_no_file(interrupted, folder):
    (folder / "plan.json").write_text("older")
    said = interrupted(0, "solve", "long.json", "--budget", "30%", "-o", "plan.json", "--json")
    assert complains(said, "interrupted before a plan within the budget was found", code=130)
    assert (folder / "plan.json").read_text() == "older"


def used_on(file):
    """The solvers that run where none is named."""
    return {solver.name for solver in default_solvers(differentiate(read_graph(file)))}


@pytest.mark.parametrize("n_simulations", N_SIMULATIONS)
def test_an_interrupted_frontier_has_what_was_found(interrupted, remat, folder, n_simulations):
    said = interrupted(n_simulations, "frontier", "long.json", "--json")
    record = said.record
    assert (said.code, said.err) == (130, "")
    assert (record["interrupted"], record["complete"]) == (True, False)
    assert 1 <= len(record["points"]) <= 1 + n_simulations  # no_remat comes first, and is simulated already
    assert set(record["reasons"]) | {p["solver"] for p in record["points"]} == used_on("long.json")
    text = interrupted(n_simulations, "frontier", "long.json")
    assert (text.code, text.err) == (130, "")
    assert any(line.startswith("interrupted; these are the plans") for line in text.lines)


@pytest.mark.parametrize("n_simulations", N_SIMULATIONS)
def test_an_interrupted_comparison_has_a_row_for_every_solver(interrupted, folder, n_simulations):
    said = interrupted(n_simulations, "compare", "long.json", "--json")
    assert (said.code, said.err) == (130, "")
    assert said.record["complete"] is False
    entries = {entry["solver"]: entry for entry in said.record["solvers"]}
    assert set(entries) == used_on("long.json")
    labels = [entry.get("reason") or entry.get("interrupted") for entry in entries.values()]
    assert sum(label in (True, "interrupted") for label in labels) == 1
    assert "not tried: interrupted" in labels
    text = interrupted(n_simulations, "compare", "long.json")
    assert text.code == 130
    assert "interrupted" in text.out


def test_an_interrupt_while_a_file_is_written_leaves_the_old_one(remat, folder, monkeypatch):
    (folder / "plan.json").write_text("older")
    before = files(folder)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    said = remat("solve", "chain.nodes.csv", "-o", "plan.json")
    assert (said.code, said.err) == (130, "remat: interrupted\n")
    assert files(folder) == before


# the process says on standard error that it has begun, and then waits for the signal in its fifth simulation
WAITING = """
import signal, sys
import remat_algos.search.solver_run as run_module
from remat_algos.cli.main import main
original, calls = run_module.simulate, iter(range(5))
def simulate(*given):
    if next(calls, None) is None:
        print("begun", file=sys.stderr, flush=True)
        signal.pause()
    return original(*given)
run_module.simulate = simulate
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="signals are others here")
def test_the_interrupt_key_stops_a_process(remat, folder):
    write_graph(ComputationGraph.from_edges([(i, i + 1) for i in range(24)]), folder / "long.json")
    running = subprocess.Popen(
        [sys.executable, "-c", WAITING, "solve", "long.json", "--budget", "least", "-o", "plan.json", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background jobs ignore the signal, and their children would
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert running.stderr.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    said = Said(running.returncode, out, err)
    assert (said.code, said.err) == (130, "")
    assert said.record["details"]["interrupted"] is True
    assert remat("verify", "long.json", "plan.json").code == 0


# Help and marks


def test_an_unknown_option_points_to_the_help_of_its_command(remat, folder):
    for words in ("show chain.nodes.csv --budget 5", "--budget show chain.nodes.csv"):
        assert complains(remat(*words.split()), "remat: remat show has no --budget", "; see remat show --help")


def test_an_order_against_a_mark_is_refused_whether_it_is_written_down_or_not(remat, folder):
    (folder / "marked.nodes.csv").write_text("name,memory,compute,mark\na,4,10,recompute\nb,4,10,\nc,4,10,\n")
    (folder / "marked.edges.csv").write_text("src,dst\na,b\nb,c\n")
    (folder / "order.txt").write_text("a b c grad(c) grad(b) grad(a)")
    for words in ([], ["order.txt"]):
        said = remat("simulate", "marked.nodes.csv", *words)
        assert said.code == 2
        assert "is marked to be recomputed" in said.err
    assert remat("simulate", "marked.nodes.csv", "--recompute", "a").code == 0
