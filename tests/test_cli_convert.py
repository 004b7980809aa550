"""remat convert: what it writes, what it says, and what it will not overwrite."""

import json

import pytest
from hypothesis import given

from remat_algos.cli.main import main
from remat_algos.errors import GraphError
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.formats.graphs import edge_list, pace_text
from remat_algos.ir.arrays import row
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from tests.strategies import graphs

pytestmark = pytest.mark.usefixtures("short_searches")

NOTES = (
    "sizes not given: every value counts as 1 byte; --nodes or a memory column gives them; "
    "costs not given: every node counts as 1; --nodes or a compute column gives them"
)
EDGES = "a b\nb c\na c\n"
DOT = """digraph { compute_unit="us"; node [memory=1, compute=1];
a [memory="4 KiB", compute=2.5]; a -> b; m [value_of=b, compute=""]; m -> c }"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with an edge list, a table for it, and a graph in DOT."""
    (tmp_path / "edges.txt").write_text(EDGES)
    (tmp_path / "sizes.csv").write_text("id,memory\na,4\nb,2\nc,1\n")
    (tmp_path / "net.dot").write_text(DOT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def convert(capsys, folder):
    """Runs remat convert in this process: its exit code, what it said, and its complaint."""

    def run(*words):
        code = main(["convert", *map(str, words)])
        return (code, *capsys.readouterr())

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("output", ["new.json", "new.npz", "new.graphml", "new.dot", "new.gv"])
def test_one_file_holds_all_of_the_graph(convert, output):
    assert convert("net.dot", output) == (0, f"net.dot: 3 nodes\nwritten  {output}\n", "")
    graph = read_graph("net.dot")
    assert read_graph(output).hash == graph.hash
    assert read_graph(output).labels.compute_unit == "us"


def test_tables_are_several_files_and_have_no_place_for_the_unit(convert):
    code, out, err = convert("net.dot", "new.nodes.csv")
    assert out.splitlines() == [
        "net.dot: 3 nodes",
        "written   new.nodes.csv, new.edges.csv, new.values.csv",
        "left out  the unit of compute (us): the format cannot represent it",
    ]
    assert (code, err) == (0, "")
    assert read_graph("new.nodes.csv").hash == read_graph("net.dot").hash


@pytest.mark.parametrize("output", ["new.txt", "new.edges", "new.gr"])
def test_edges_alone_are_written_and_what_is_left_out_is_told(convert, output):
    code, out, err = convert("net.dot", output)
    names = "names, " if output == "new.gr" else ""
    missing = f"left out  {names}sizes, costs, several values of a node: the format cannot represent it"
    assert (code, err) == (0, "")
    assert " ".join(out.split()) == " ".join(f"net.dot: 3 nodes written {output} {missing}".split())
    graph, again = read_graph("net.dot"), read_graph(output)
    assert [row.tolist() for row in again.predecessors] == [row.tolist() for row in graph.predecessors]
    assert output == "new.gr" or again.node_names() == graph.node_names()


@given(graph=graphs(min_nodes=1))
def test_edges_that_are_written_are_read_again(graph):
    for form in (edge_list.GRAPH_FORMAT, pace_text.GRAPH_FORMAT):
        if form is edge_list.GRAPH_FORMAT and graph.n_nodes > 1 and not graph.read_indices.size:
            with pytest.raises(GraphError, match="the graph has no edges"):
                form.write(graph)
            continue
        again = ComputationGraph.from_tables(form.read(form.write(graph), "it"))
        edges = [
            {(names[u], names[v]) for v in range(each.n_nodes) for u in row(*each.predecessors, v, "node")}
            for each, names in ((graph, graph.node_names()), (again, again.node_names()))
        ]
        if form is edge_list.GRAPH_FORMAT:
            assert edges[0] == edges[1]
        assert (len(edges[0]), graph.n_nodes) == (len(edges[1]), again.n_nodes)


@pytest.mark.parametrize("name", ["a b", "a#b", "a->b", "key:", "{", "-", "=", "(x", "a = b"])
def test_names_that_no_word_may_be_are_quoted(tmp_path, name):
    graph = ComputationGraph.from_edges([("u", name), (name, "v")])
    write_graph(graph, tmp_path / "g.txt")
    assert read_graph(tmp_path / "g.txt").hash == graph.hash


def test_a_name_that_quotes_cannot_hold_is_refused(tmp_path):
    with pytest.raises(GraphError, match="an edge list cannot represent the name"):
        write_graph(ComputationGraph.from_edges([("u", 'a"b')]), tmp_path / "g.txt")


def test_gradients_on_request(convert):
    code, out, _ = convert("edges.txt", "new.nodes.csv", "--differentiate")
    *first, written, missing = out.splitlines()
    assert " ".join(map(str.strip, first)) == f"edges.txt: 3 nodes; 4 gradient nodes added; {NOTES}"
    assert written == "written   new.nodes.csv, new.edges.csv"
    assert missing == "left out  the record of its differentiation: the format cannot represent it"
    assert (code, read_graph("new.nodes.csv").hash) == (0, differentiate(read_graph("edges.txt")).hash)
    assert convert("new.nodes.csv", "again.json", "--differentiate")[:2] == (
        0,
        "new.nodes.csv: 7 nodes\nwritten  again.json\n",
    )


def test_a_table_of_nodes_goes_with_an_edge_list(convert):
    assert convert("edges.txt", "new.json", "--nodes", "sizes.csv")[0] == 0
    assert read_graph("new.json").memory.tolist() == [4, 2, 1]


def test_json_on_request_is_one_object(convert):
    code, out, err = convert("net.dot", "new.nodes.csv", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "graph_hash": read_graph("net.dot").hash,
        "nodes": 3,
        "written": ["new.nodes.csv", "new.edges.csv", "new.values.csv"],
        "left_out": ["the unit of compute (us)"],
    }


def test_a_notice_goes_to_standard_error(convert, folder):
    (folder / "net.dot").write_text("digraph { a [shape=box] }")
    assert convert("net.dot", "new.json")[2] == "remat: note: net.dot: ignored attributes shape\n"


def test_an_older_file_is_replaced_and_an_older_table_removed(convert, folder):
    assert convert("net.dot", "new.nodes.csv")[0] == convert("edges.txt", "new.nodes.csv")[0] == 0
    assert not (folder / "new.values.csv").exists()
    assert read_graph("new.nodes.csv").hash == read_graph("edges.txt").hash


def test_a_graph_that_cannot_be_differentiated_is_named(convert, folder):
    (folder / "net.dot").write_text("digraph { a [grad_memory=-1] }")
    code, _, err = convert("net.dot", "new.json", "--differentiate")
    assert (code, err.startswith("remat: net.dot: ")) == (2, True)
