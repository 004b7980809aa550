"""A format of graphs is one registration: reading, writing and the command line find it."""

import re

import pytest

import remat_algos as ra
from remat_algos.formats import registry
from remat_algos.formats.graph_rows import tables_from
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

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
    registry.graph_formats()  # the folder's own are not: their files are imported once
    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))


@pytest.fixture
def toy(formats):
    form = ra.formats.GraphFormat("toy", parse, dump, (".toy",), sniff=lambda text, _: text.startswith("toy 1\n"))
    ra.formats.register(form)
    return form


def test_a_format_from_outside_is_read_by_its_content_and_written_by_its_ending(toy, tmp_path):
    (tmp_path / "graph.txt").write_text(TOY)
    graph = ra.read_graph(tmp_path / "graph.txt")
    assert (graph.node_names(), graph.memory.tolist(), graph.reads(1)) == (["A", "B"], [8, 4], [0])
    ra.write_graph(graph, tmp_path / "graph.toy")
    assert (tmp_path / "graph.toy").read_text() == TOY
    assert ra.solve(tmp_path / "graph.toy").peak_memory == 12


def test_without_a_mark_in_its_content_a_format_goes_by_the_ending(formats, tmp_path):
    ra.formats.register(ra.formats.GraphFormat("toy", parse, endings=(".toy",)))
    (tmp_path / "graph.toy").write_text(TOY)
    (tmp_path / "graph.txt").write_text("A B\n")
    assert ra.read_graph(tmp_path / "graph.toy").memory.tolist() == [8, 4]
    assert ra.read_graph(tmp_path / "graph.txt").memory.tolist() == [1, 1]
    with pytest.raises(ra.GraphError, match=re.escape("graph.toy: unknown ending; use .dot, .gv, .graphml,")):
        ra.write_graph(ra.read_graph(tmp_path / "graph.txt"), tmp_path / "graph.toy")


def test_no_two_formats_have_one_ending_or_claim_one_content():
    forms = registry.graph_formats()
    endings = [ending for form in forms for ending in form.endings]
    assert len(set(endings)) == len(endings)
    graph = ra.ComputationGraph.from_edges([("a", "b"), ("b", "c")])
    for written in forms:
        if written.write is not None:
            content = written.write(graph)
            rivals = [form for form in forms if form.binary == written.binary and form.sniff is not None]
            assert [form.name for form in rivals if form.sniff(content, written.endings[0])] == [written.name]
