"""Files of the PACE treewidth challenges: round trips and malformed ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.graph_files import read_graph
from remat_algos.formats.pace import read_gr, read_td, td_text, write_gr, write_td
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph
from tests.raising import raises

few = settings(max_examples=20, deadline=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pace")


def lines(text):
    """Lines that are parted by strokes here."""
    return text.replace("/", "\n") + "\n"


@pytest.fixture
def given_gr(tmp_path):
    return given_file(tmp_path / "x.gr", read_gr)


@pytest.fixture
def given_td(tmp_path):
    return given_file(tmp_path / "x.td", read_td)


def given_file(file, read):
    def reader(text):
        file.write_text(lines(text), encoding="utf-8")
        return read(file)

    return reader


# ---------------------------------------------------------------- what is written is read


@few
@given(st.integers(0, 8), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_a_graph_comes_back(folder, n, pairs):
    graph = UndirectedGraph.from_edges(n, [(u, v) for u, v in pairs if max(u, v) < n])
    write_gr(graph, folder / "g.gr")
    again = read_gr(folder / "g.gr")
    assert (again.indptr.tolist(), again.indices.tolist()) == (graph.indptr.tolist(), graph.indices.tolist())


@few
@given(st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 5))), max_size=7))
def test_a_decomposition_comes_back(folder, drawn):
    bags = [bag for _, bag in drawn]
    found = TreeDecomposition.from_bags(bags, [(hang % i, i) for i, (hang, _) in enumerate(drawn) if i])
    write_td(found, folder / "d.td", 6)
    again = read_td(folder / "d.td")
    assert [again.bag(i) for i in range(again.n_bags)] == [sorted(bag) for bag in bags]
    assert again.edges().tolist() == found.edges().tolist()
    assert td_text(again, 6) == td_text(found, 6)


def test_the_text_of_both_formats(folder):
    write_gr(UndirectedGraph.from_edges(4, [(2, 1), (0, 1)]), folder / "g.gr")
    assert (folder / "g.gr").read_text() == lines("p tw 4 2/1 2/2 3")
    path = TreeDecomposition([0, 2, 4, 4, 5], [0, 1, 1, 2, 3], [1, -1, 0, 0])
    assert td_text(path, 4) == lines("s td 4 2 4/b 1 1 2/b 2 2 3/b 3/b 4 4/1 2/1 3/1 4")


def test_nothing_at_all_comes_back(given_gr, given_td):
    assert given_gr("p tw 0 0").n_vertices == 0
    assert given_td("s td 0 0 0").n_bags == 0


# ---------------------------------------------------------------- what else is read


def test_loops_and_doubles_are_dropped_and_comments_passed_over(given_gr):
    graph = given_gr("c two of five lines are an edge/p tw 3 5/1 2/2 1/c half way/3 3/3 2/1 2")
    assert graph.edges().tolist() == [[0, 1], [1, 2]]


def test_bags_stand_in_any_order_and_empty_ones_have_a_line(given_td):
    found = given_td("c of a path/s td 3 2 3/b 3 2 3/b 1/c here is one more/b 2 2 1/2 3//1 2")
    assert [found.bag(i) for i in range(3)] == [[], [0, 1], [1, 2]]
    assert found.parent.tolist() == [-1, 0, 1]


def test_line_ends_and_marks_of_other_systems(tmp_path):
    (tmp_path / "x.gr").write_bytes(b"\xef\xbb\xbfp tw 2 1\r\n1 2\r\n")
    assert read_gr(tmp_path / "x.gr").n_edges == 1


# ---------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("c nothing", {"line": 1, "found": ""}),
        ("1 2", {"line": 1, "found": "1 2"}),
        ("c one/p edge 2 1/1 2", {"line": 2, "found": "p edge 2 1"}),
        ("p tw 2/1 2", {"line": 1, "found": "p tw 2"}),
        ("p tw 2 -1", {"line": 1, "found": "p tw 2 -1"}),
        ("p tw -3 2", {"line": 1, "found": "p tw -3 2"}),
        (f"p tw {'9' * 5000} 0", {"line": 1, "found": f"p tw {'9' * 5000} 0"}),
        ("p tw 99999999 0", {"line": 1, "n": 99_999_999}),
        ("p tw 2 1/1 3", {"line": 2, "u": 1, "v": 3, "n": 2}),
        ("p tw 2 1/0 1", {"line": 2, "u": 0, "v": 1, "n": 2}),
        ("p tw 2 1/1 2 3", {"line": 2, "found": "1 2 3"}),
        ("p tw 2 1/1 b", {"line": 2, "found": "1 b"}),
        ("p tw 2 1/1 2/p tw 2 1", {"line": 3, "found": "p tw 2 1"}),
        ("c three/p tw 3 2/1 2", {"line": 2, "expected": 2, "n_edges": 1}),
        ("p tw 3 1/1 2/2 3", {"line": 1, "expected": 1, "n_edges": 2}),
    ],
)
@pytest.mark.parametrize("read", [read_gr, read_graph])
def test_a_malformed_graph_is_refused_with_its_line(tmp_path, read, text, fault):
    with raises(GraphError, source="x.gr", **fault):
        given_file(tmp_path / "x.gr", read)(text)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [("p tw 3 2/1 2/2 2", 3, "edge 2 2 is a loop"), ("p tw 0 0", 1, "there is nothing to plan")],
)
def test_a_graph_to_plan_has_nodes_and_no_loops(tmp_path, text, line, word):
    with pytest.raises(GraphError, match=f"x.gr, line {line}: .*{word}"):
        given_file(tmp_path / "x.gr", read_graph)(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", {"line": 1, "found": ""}),
        ("b 1 1/s td 1 1 1", {"line": 1, "found": "b 1 1"}),
        ("s td 1 1/b 1 1", {"line": 1, "found": "s td 1 1"}),
        ("s td 1 1 1/b", {"line": 2, "found": "b"}),
        ("s td 1 1 1/b one 1", {"line": 2, "found": "b one 1"}),
        ("s td 1 1 1/b 2 1", {"line": 2, "i": 2, "n_bags": 1}),
        ("s td 1 1 1/b 0 1", {"line": 2, "i": 0, "n_bags": 1}),
        ("s td 1 1 1/b 1 2", {"line": 2, "i": 1, "vertex": 2}),
        ("s td 1 1 1/b 1 0", {"line": 2, "i": 1, "vertex": 0}),
        ("s td 1 2 2/b 1 1 2 1", {"line": 2, "i": 1}),
        ("s td 2 1 1/b 1 1/b 1 1", {"line": 3, "i": 1}),
        ("s td 2 1 1/b 2 1", {"line": 1, "n_bags": 2, "missing": 1}),
        ("s td 2 1 1/b 1 1/1 2/b 2", {"line": 3, "i": 1, "j": 2}),
        ("s td 2 1 1/b 1 1/b 2/1 2/b 2", {"line": 5}),
        ("s td 2 1 1/b 1 1/b 2/1 3", {"line": 4, "i": 1, "j": 3}),
        ("s td 2 1 1/b 1 1/b 2/1 2 2", {"line": 4, "found": "1 2 2"}),
        ("s td 2 1 1/b 1 1/b 2/1 2/2 1", {"line": 5, "i": 2, "j": 1}),
        ("s td 2 1 1/b 1 1/b 2/2 2", {"line": 4, "i": 2, "j": 2}),
        ("s td 3 1 1/b 1 1/b 2/b 3/1 2", {"line": 1, "n_bags": 3, "n_edges": 1}),
        ("c/s td 1 2 2/b 1 1", {"line": 2, "largest": 2, "actual": 1}),
        ("s td 1 1 2/b 1 1 2", {"line": 1, "largest": 1, "actual": 2}),
    ],
)
def test_a_malformed_decomposition_is_refused_with_its_line(given_td, text, fault):
    with raises(GraphError, source="x.td", **fault):
        given_td(text)


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path):
    with pytest.raises(GraphError, match=r"no such file: .*none\.gr"):
        read_gr(tmp_path / "none.gr")
    (tmp_path / "x.td").write_bytes(b"s td \xff")
    with pytest.raises(GraphError, match=r"x\.td: byte 5 is not UTF-8 text"):
        read_td(tmp_path / "x.td")


def test_nothing_is_written_for_another_graph(tmp_path):
    file = tmp_path / "x.td"
    file.write_text("before")
    with pytest.raises(GraphError, match="bag 0 contains vertex 1, but the graph has the vertices 0 to 0"):
        write_td(TreeDecomposition.from_bags([[0, 1]], []), file, 1)
    assert file.read_text() == "before"
    with pytest.raises(OSError, match=r"x\.gr"):
        write_gr(UndirectedGraph.from_edges(0, []), tmp_path / "no folder" / "x.gr")
