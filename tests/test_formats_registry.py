"""A format of graphs is one registration: reading, writing and the command line find it."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

import remat_algos as ra
from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.formats import GraphFormat, graph_files, register, registry
from remat_algos.formats.rows import tables_from
from remat_algos.ir.tables import NodeRow, Tables, ValueRow
from tests.raising import raises

TOY = "toy 1\nA 8\nB 4 A\n"


def parse(text, source):
    rows = [line.split() for line in text.splitlines()[1:]]
    return Tables([NodeRow(n, values=[ValueRow(int(m))], reads=reads) for n, m, *reads in rows], source=source)


def dump(graph):
    rows = [" ".join([row.name, str(row.values[0].memory), *row.reads]) for row in tables_from(graph).nodes]
    return "\n".join(["toy 1", *rows, ""])


@pytest.fixture
def formats(monkeypatch):
    """Registrations of a test are forgotten after it."""
    known = registry.graph_formats()
    monkeypatch.setattr(registry, "_known", lambda: known)


@pytest.fixture
def toy(formats):
    form = GraphFormat("toy", parse, dump, (".toy",), sniff=lambda text, _: text.startswith("toy 1\n"))
    register(form)
    return form


def test_a_format_from_outside_is_read_by_its_content_and_written_by_its_ending(toy, tmp_path):
    (tmp_path / "graph.txt").write_text(TOY)
    graph = ra.read_graph(tmp_path / "graph.txt")
    assert (graph.node_names(), graph.memory.tolist(), graph.reads(1)) == (["A", "B"], [8, 4], [0])
    ra.write_graph(graph, tmp_path / "graph.toy")
    assert (tmp_path / "graph.toy").read_text() == TOY
    assert ra.solve(tmp_path / "graph.toy").peak_memory == 12


def test_without_a_mark_in_its_content_a_format_goes_by_the_ending(formats, tmp_path):
    register(GraphFormat("toy", parse, endings=(".toy",)))
    (tmp_path / "graph.toy").write_text(TOY)
    (tmp_path / "graph.txt").write_text("A B\n")
    assert ra.read_graph(tmp_path / "graph.toy").memory.tolist() == [8, 4]
    assert ra.read_graph(tmp_path / "graph.txt").memory.tolist() == [1, 1]
    with pytest.raises(ra.GraphError, match=re.escape("graph.toy: unknown ending; use .dot, .gv, .txt,")):
        ra.write_graph(ra.read_graph(tmp_path / "graph.txt"), tmp_path / "graph.toy")


def test_what_a_format_begins_with_is_enough_or_goes_before_its_sniff(formats, tmp_path):
    asked = []

    def sniff(text, ending):
        asked.append(text)
        return "2" in text

    start = re.compile("toy ")
    register(GraphFormat("toy", parse, endings=(".toy",), begins=start))
    (tmp_path / "graph.txt").write_text(TOY)
    assert ra.read_graph(tmp_path / "graph.txt").memory.tolist() == [8, 4]
    register(GraphFormat("toy", parse, endings=(".toy",), begins=start, sniff=sniff))
    (tmp_path / "edges.txt").write_text("A B\n")
    assert ra.read_graph(tmp_path / "edges.txt").memory.tolist() == [1, 1]
    assert asked == []
    assert not registry.claims(registry.graph_formats()[0], "A B\n", ".toy")
    assert asked == ["A B\n"]
    for begins, binary in (("toy", False), (start, True)):
        with pytest.raises(ValueError, match=r"`begins` of format toy is .*; give re\.compile\(.*, a pattern of "):
            GraphFormat("toy", parse, begins=begins, binary=binary)


def test_for_a_list_of_edges_no_format_looks_beyond_its_beginning(monkeypatch, tmp_path):
    """So that reading one enters few files."""

    def refuse(content, ending):
        raise AssertionError(content)

    known = [
        form if form is graph_files.edge_list.GRAPH_FORMAT else replace(form, sniff=form.sniff and refuse)
        for form in registry.graph_formats()
    ]
    monkeypatch.setattr(registry, "_known", lambda: known)
    (tmp_path / "edges.txt").write_text("A B\nB C\n")
    assert ra.read_graph(tmp_path / "edges.txt").n_nodes == 3


def test_no_two_formats_have_one_ending_or_claim_one_content():
    forms = registry.graph_formats()
    endings = [ending for form in forms for ending in form.endings]
    assert len(set(endings)) == len(endings)
    graph = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c")])
    for written in forms:
        if written.write is not None:
            content = written.write(graph)
            rivals = [form for form in forms if form.binary == written.binary]
            ending = written.endings[0]
            claimed = [form.name for form in rivals if registry.claims(form, content, ending)]
            fallback = written is graph_files.edge_list.GRAPH_FORMAT  # what no format claims is read as a list of edges
            assert claimed == ([] if fallback else [written.name])


# ---------------------------------------------------------------- precedence


FIRST_CALL = """
from remat_algos.formats import GraphFormat, graph_formats, register
mine = GraphFormat("JSON", lambda text, source: None)
register(mine)
print([form is mine for form in graph_formats() if form.name == "JSON"], len(graph_formats()))
"""


def test_a_registration_before_any_other_use_replaces_the_format_of_the_folder():
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[True]", str(len(registry.graph_formats()))]


def test_of_several_formats_the_newest_reads_and_writes(toy, tmp_path):
    one = ra.ComputationGraph.from_edges([("a", "b")])
    newer = GraphFormat("a", lambda text, source: one, lambda graph: TOY, (".toy", ".json"), sniff=toy.sniff)
    register(newer)
    ra.write_graph(one, tmp_path / "graph.json")
    assert (tmp_path / "graph.json").read_text() == TOY
    assert ra.read_graph(tmp_path / "graph.json") is one
    register(toy)  # again: the newest now
    assert [form.name for form in registry.graph_formats()[:3]] == ["toy", "a", "cg"]
    assert ra.read_graph(tmp_path / "graph.json").memory.tolist() == [8, 4]


def test_among_formats_without_a_mark_the_newest_has_the_ending(formats, tmp_path):
    one = ra.ComputationGraph.from_edges([("a", "b")])
    register(GraphFormat("older", parse, dump, (".toy",)))
    register(GraphFormat("newer", lambda text, source: one, endings=(".toy",)))
    ra.write_graph(one, tmp_path / "graph.toy")  # by the older, since the newer is only read
    assert (tmp_path / "graph.toy").read_text() == dump(one)
    assert ra.read_graph(tmp_path / "graph.toy") is one


@pytest.mark.parametrize("binary", [False, True])
def test_a_format_without_a_mark_reads_what_it_writes(formats, tmp_path, binary):
    """Though the content looks like a table, and the ending is that of another format."""
    one = ra.ComputationGraph.from_edges([("a", "b")])
    register(GraphFormat("toy", lambda content, source: one, lambda graph: "a,b\n", (".json",), binary=binary))
    ra.write_graph(one, tmp_path / "graph.json")
    assert ra.read_graph(tmp_path / "graph.json") is one


def test_endings_of_files_are_found_in_either_case(toy, tmp_path):
    ra.write_graph(ra.ComputationGraph.from_edges([("a", "b")]), tmp_path / "GRAPH.TOY")
    assert (tmp_path / "GRAPH.TOY").read_text().startswith("toy 1\n")
    assert ra.read_graph(tmp_path / "GRAPH.TOY").n_nodes == 2


# ---------------------------------------------------------------- what is wrong with a format


@pytest.mark.parametrize("endings", [".toy", [".toy"], ("toy",), (".a.toy",), (".TOY",), (".",), (".to y",), (1,)])
def test_endings_are_a_tuple_of_endings(endings):
    with raises(ArgumentError, name="toy", endings=endings):
        GraphFormat("toy", parse, endings=endings)


def test_only_formats_are_registered():
    with pytest.raises(TypeError, match="form is a str; give a GraphFormat"):
        register("toy")


@pytest.mark.parametrize(
    ("found", "edges_only", "wanted"),
    [
        (None, False, "an object of type NoneType; it must return Tables or a ComputationGraph"),
        (
            ra.ComputationGraph.from_edges([("a", "b")]),
            True,
            "an object of type ComputationGraph; it must return Tables",
        ),
    ],
)
def test_a_format_that_reads_no_graph_is_named(formats, tmp_path, found, edges_only, wanted):
    register(GraphFormat("toy", lambda text, source: found, endings=(".toy",), edges_only=edges_only))
    (tmp_path / "graph.toy").write_text(TOY)
    with pytest.raises(TypeError, match=f"^graph.toy: read of format toy returned {wanted}$"):
        ra.read_graph(tmp_path / "graph.toy")


def test_a_format_that_writes_no_text_is_named(formats, tmp_path):
    register(GraphFormat("toy", parse, lambda graph: 3, (".toy",)))
    with raises(ArgumentTypeError, name="graph.toy", form="toy", kind="int"):
        ra.write_graph(ra.ComputationGraph.from_edges([("a", "b")]), tmp_path / "graph.toy")
    assert not (tmp_path / "graph.toy").exists()


def test_messages_name_registered_formats(formats, tmp_path):
    register(GraphFormat("toy", parse, lambda graph: b"", (".toy",), sniff=lambda data, _: False, binary=True))
    (tmp_path / "graph.txt").write_bytes(b"a\0b")
    with pytest.raises(
        ra.GraphError,
        match=r"^graph.txt: the file is neither text nor toy nor npz nor ONNX; give tables, or one of toy, cg",
    ):
        ra.read_graph(tmp_path / "graph.txt")
    with pytest.raises(ra.GraphError, match=re.escape("graph.new: unknown ending; use .toy, .dot, ")):
        ra.write_graph(ra.ComputationGraph.from_edges([("a", "b")]), tmp_path / "graph.new")
