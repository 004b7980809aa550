"""remat unroll and simulate --mirror: what they say, write and draw, and what they refuse."""

import json

import pytest

from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.plot.colours import ORANGE
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import unroll
from tests.command_line import chain_plan, complains, process

pytestmark = pytest.mark.usefixtures("short_searches")

COUNTS = "node,count\na,2\nb,1\nd,1\n"
TWICE = [2, 1, 0, 1, 0, 0]
ENDINGS = ["un.json", "un.dot", "un.nodes.csv"]


@pytest.fixture
def folder(folder):
    """The folder of the chain with mirror counts for it."""
    (folder / "m.csv").write_text(COUNTS)
    (folder / "m.json").write_text(json.dumps({"a": 2, "b": 1, "d": 1}))
    return folder


@pytest.fixture
def mirrored(folder):
    """The chain by the counts, as it is simulated."""
    graph = differentiate(read_graph("chain.nodes.csv"))
    return simulate(graph, mirror_schedule(graph, TWICE + [0] * 6))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# simulate --mirror


@pytest.mark.parametrize("file", ["m.csv", "m.json"])
def test_simulate_takes_mirror_counts(remat, mirrored, file):
    record = remat("simulate", "chain.nodes.csv", "--mirror", file, "--json").record
    figures = {name: getattr(mirrored, name) for name in ("peak_memory", "peak_step", "compute", "overhead")}
    assert {name: record[name] for name in figures} == figures
    assert record["memory_trace"] == mirrored.memory_trace.tolist()
    assert record["steps"] == len(mirrored.schedule)
    said = remat("simulate", "chain.nodes.csv", "--mirror", file)
    assert said.fine
    assert said.lines[2].startswith(f"peak       {mirrored.peak_memory} B at step {mirrored.peak_step}")
    assert "3 nodes recomputed" in said.out


def test_counts_of_nought_are_the_run_without_rematerialization(remat, folder):
    (folder / "none.csv").write_text("node,count\n")
    said = remat("simulate", "chain.nodes.csv", "--mirror", "none.csv", "--json").record
    assert said == remat("simulate", "chain.nodes.csv", "--json").record


def test_the_same_counts_as_an_order_are_simulated_alike(remat, folder, mirrored):
    (folder / "order").write_text("\n".join(mirrored.schedule.names(mirrored.graph)))
    by_order, by_counts = (
        remat("simulate", "chain.nodes.csv", *words, "--json").record for words in (["order"], ["--mirror", "m.csv"])
    )
    assert by_order == by_counts


def test_one_decision_is_flipped_beside_the_counts(remat, folder):
    record = remat("simulate", "chain.nodes.csv", "--mirror", "m.csv", "--keep", "d", "--json").record
    (folder / "less.csv").write_text("node,count\na,2\nb,1\n")
    wanted = remat("simulate", "chain.nodes.csv", "--mirror", "less.csv", "--json").record
    assert (record["overhead"], record["nodes_run_again"]) == (wanted["overhead"], 2)


def test_mirror_counts_take_a_budget_and_a_picture(remat, mirrored):
    words = ["simulate", "chain.nodes.csv", "--mirror", "m.csv"]
    assert remat(*words, "--budget", mirrored.peak_memory).code == 0
    assert remat(*words, "--budget", mirrored.peak_memory - 1).code == 3
    for picture in "memory", "schedule", "graph":
        assert remat(*words, "--plot", "-", "--picture", picture).code == 0
    assert remat(*words, "--plot", "m.svg").lines[-1] == "drawn        m.svg"


# unroll


@pytest.mark.parametrize("file", ENDINGS)
def test_the_mirrored_graph_is_written_in_every_format(remat, mirrored, file):
    said = remat("unroll", "chain.nodes.csv", "--mirror", "m.csv", "-o", file)
    assert said.fine
    wanted, again = unroll(mirrored.graph, mirrored.schedule), read_graph(file)
    assert again.hash == wanted.hash
    assert again.labels.names == wanted.labels.names
    record = remat("simulate", file, "--json").record
    assert (record["peak_memory"], record["compute"]) == (mirrored.peak_memory, mirrored.compute)
    assert record["overhead"] == 0


def test_it_says_what_the_mirrored_graph_has(remat, mirrored):
    said = remat("unroll", "chain.nodes.csv", "--mirror", "m.csv", "-o", "un.nodes.csv")
    graph = unroll(mirrored.graph, mirrored.schedule)
    assert said.lines == [
        "chain.nodes.csv: 6 nodes; 6 gradient nodes added (--inference plans the graph as",
        "    it is)",
        f"nodes    {graph.n_nodes}: 10 forward, 6 backward; {graph.read_indices.size} reads",
        "copies   4 of 3 nodes",
        f"peak     {mirrored.peak_memory} B, the same as the schedule",
        f"compute  {mirrored.compute}, {100 * mirrored.overhead / 133:.1f} % more than one pass, the same as the "
        "schedule",
        "written  un.nodes.csv, un.edges.csv",
    ]


def test_it_says_the_same_in_json(remat, mirrored):
    record = remat("unroll", "chain.nodes.csv", "--mirror", "m.csv", "-o", "un.json", "--json").record
    graph = read_graph("un.json")
    own = {"nodes": graph.n_nodes, "copies": 4, "nodes_run_again": 3, "written": ["un.json"], "left_out": []}
    assert {name: record[name] for name in own} == own
    assert (record["graph_hash"], record["unrolled_hash"]) == (mirrored.graph.source_hash, graph.hash)
    schedule = {name: getattr(mirrored, name) for name in ("peak_memory", "compute", "overhead")}
    assert record["schedule"] == schedule
    assert (record["peak_memory"], record["compute"]) == (schedule["peak_memory"], schedule["compute"])


def test_what_a_format_has_no_place_for_is_said(remat, folder):
    (folder / "net.dot").write_text('digraph { compute_unit="us"; a -> b -> c }')
    said = remat("unroll", "net.dot", "-o", "un.nodes.csv")
    assert said.lines[-1] == "left out  the unit of compute (us): the format cannot represent it"


def test_any_order_is_unrolled(remat, folder):
    plan = json.loads(chain_plan())
    (folder / "plan.json").write_text(chain_plan())
    (folder / "names").write_text("\n".join(plan["schedule"]))
    for order in "plan.json", "names":
        record = remat("unroll", "chain.nodes.csv", order, "-o", "un.json", "--json").record
        assert record["nodes"] == len(plan["schedule"])
        assert (record["peak_memory"], record["compute"]) == (plan["peak_memory"], plan["compute"])


def test_a_plan_says_how_its_graph_was_differentiated(remat, folder):
    remat("solve", "chain.nodes.csv", "--factor", 3, "--solver", "chen_sqrt", "-o", "plan.json")
    assert "as in the plan" in remat("unroll", "chain.nodes.csv", "plan.json").lines[0]


def test_without_an_order_there_are_no_copies(remat, folder):
    record = remat("unroll", "chain.nodes.csv", "--json").record
    assert (record["nodes"], record["copies"], record["schedule"]["overhead"]) == (12, 0, 0)
    assert remat("unroll", "chain.nodes.csv").lines[3] == "copies   0"


def test_residents_stay_what_they_are(remat, folder):
    (folder / "r.csv").write_text("node,count\na,1\n")
    record = remat("unroll", "resident.nodes.csv", "--mirror", "r.csv", "-o", "un.json", "--json").record
    graph = read_graph("un.json")
    assert graph.resident_memory == record["resident_memory"] == 107
    assert "a#1" in graph.labels.names


def test_copies_are_drawn_apart(remat, folder):
    said = remat("unroll", "chain.nodes.csv", "--mirror", "m.csv", "--plot", "-")
    drawn = [line.split()[1] for line in said.lines if line.startswith("▒ ")]
    assert drawn == ["d#1", "a#1", "b#1", "a#2"]
    assert "▒ 4 copy, a later run" in said.out
    said = remat("unroll", "chain.nodes.csv", "--mirror", "m.csv", "--plot", "un.svg")
    assert said.lines[-1] == "drawn        un.svg"
    assert ORANGE.lower() in (folder / "un.svg").read_text()
    remat("unroll", "chain.nodes.csv", "--plot", "un.svg")
    assert ORANGE.lower() not in (folder / "un.svg").read_text()


def test_a_process_reads_counts_from_a_pipe(folder):
    said = process("unroll", "chain.nodes.csv", "--mirror", "/dev/stdin", "--json", input=COUNTS)
    assert (said.code, said.record["copies"]) == (0, 4)


# what cannot be


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("node,count\na,-1\n", ["bad.csv, line 2", "the count of a is -1"]),
        ("node,count\na,0.5\n", ["bad.csv, line 2", "give a whole number"]),
        ("node,count\nconv,1\n", ["bad.csv, line 2", "unknown node 'conv'"]),
        ("node,count\na,1\na,1\n", ["bad.csv, line 3", "a is listed twice"]),
        ("node,count\ngrad(a),1\n", ["bad.csv, line 2", "grad(a) is a gradient"]),
        ("node,count\na,2147483647\nb,1\n", ["bad.csv", "the mirror counts add up to 2**31 runs or more; lower them"]),
        ("", ["bad.csv: the file is empty"]),
    ],
)
def test_bad_counts_are_one_sentence_and_no_file(remat, folder, text, named):
    (folder / "bad.csv").write_text(text)
    before = contents(folder)
    words = ["chain.nodes.csv", "--mirror", "bad.csv", "--plot", "un.png"]
    assert complains(remat("simulate", *words), *named)
    assert complains(remat("unroll", *words, "-o", "un.json", "--json"), *named)
    assert contents(folder) == before


def test_counts_against_a_mark_are_told_with_their_file(remat, folder):
    (folder / "marked.nodes.csv").write_text("name,mark\na,recompute\nb,keep\nc,\n")
    (folder / "marked.edges.csv").write_text("src,dst\na,b\nb,c\n")
    (folder / "keep.csv").write_text("node,count\nb,1\n")
    (folder / "none.csv").write_text("node,count\n")
    assert complains(remat("unroll", "marked.nodes.csv", "--mirror", "keep.csv"), "keep.csv, line 2: b is marked")
    assert complains(remat("unroll", "marked.nodes.csv", "--mirror", "none.csv"), "none.csv: ", " a")
