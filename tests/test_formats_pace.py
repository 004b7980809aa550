"""Files of the PACE treewidth challenges: round trips and malformed ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.pace import read_gr, read_td, td_text, write_gr, write_td
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph

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
    ("text", "message"),
    [
        ("", "x.gr, line 1: expected the header `p tw VERTICES EDGES`, found ''"),
        ("1 2", "x.gr, line 1: expected the header `p tw VERTICES EDGES`, found '1 2'"),
        ("c one/p edge 2 1/1 2", "x.gr, line 2: expected the header `p tw VERTICES EDGES`, found 'p edge 2 1'"),
        ("p tw 2/1 2", "x.gr, line 1: expected the header `p tw VERTICES EDGES`, found 'p tw 2'"),
        ("p tw 2 -1", "x.gr, line 1: expected the header `p tw VERTICES EDGES`, found 'p tw 2 -1'"),
        ("p tw 99999999 0", "x.gr, line 1: the header has 99,999,999 vertices, most of them without edges"),
        ("p tw 2 1/1 3", "x.gr, line 2: edge 1 3: the header has vertices 1 to 2"),
        ("p tw 2 1/0 1", "x.gr, line 2: edge 0 1: the header has vertices 1 to 2"),
        ("p tw 2 1/1 2 3", "x.gr, line 2: expected an edge `u v` of two numbers, found '1 2 3'"),
        ("p tw 2 1/1 b", "x.gr, line 2: expected an edge `u v` of two numbers, found '1 b'"),
        ("p tw 2 1/1 2/p tw 2 1", "x.gr, line 3: expected an edge `u v` of two numbers, found 'p tw 2 1'"),
        ("c three/p tw 3 2/1 2", "x.gr, line 2: the header has 2 edges, the file 1; is the file whole?"),
        ("p tw 3 1/1 2/2 3", "x.gr, line 1: the header has 1 edge, the file 2"),
    ],
)
def test_a_malformed_graph_is_refused_with_its_line(given_gr, text, message):
    with pytest.raises(GraphError) as raised:
        given_gr(text)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the header `s td BAGS LARGEST VERTICES`, found ''"),
        ("b 1 1/s td 1 1 1", "line 1: expected the header `s td BAGS LARGEST VERTICES`, found 'b 1 1'"),
        ("s td 1 1/b 1 1", "line 1: expected the header `s td BAGS LARGEST VERTICES`, found 's td 1 1'"),
        ("s td 1 1 1/b", "line 2: expected a bag `b NUMBER VERTICES`, found 'b'"),
        ("s td 1 1 1/b one 1", "line 2: expected a bag `b NUMBER VERTICES`, found 'b one 1'"),
        ("s td 1 1 1/b 2 1", "line 2: bag 2: the header has bags 1 to 1"),
        ("s td 1 1 1/b 0 1", "line 2: bag 0: the header has bags 1 to 1"),
        ("s td 1 1 1/b 1 2", "line 2: bag 1 contains 2: the header has vertices 1 to 1"),
        ("s td 1 1 1/b 1 0", "line 2: bag 1 contains 0: the header has vertices 1 to 1"),
        ("s td 1 2 2/b 1 1 2 1", "line 2: bag 1 names a vertex twice"),
        ("s td 2 1 1/b 1 1/b 1 1", "line 3: bag 1 occurs twice"),
        ("s td 2 1 1/b 2 1", "line 1: the header has 2 bags, but bag 1 is missing"),
        ("s td 2 1 1/b 1 1/1 2/b 2", "line 3: edge 1 2 names a bag that no line before it gives"),
        ("s td 2 1 1/b 1 1/b 2/1 2/b 2", "line 5: a bag comes after an edge"),
        ("s td 2 1 1/b 1 1/b 2/1 3", "line 4: edge 1 3 names a bag that no line before it gives"),
        ("s td 2 1 1/b 1 1/b 2/1 2 2", "line 4: expected an edge `u v` of two numbers, found '1 2 2'"),
        ("s td 2 1 1/b 1 1/b 2/1 2/2 1", "line 5: edge 2 1 closes a cycle"),
        ("s td 2 1 1/b 1 1/b 2/2 2", "line 4: edge 2 2 closes a cycle"),
        ("s td 3 1 1/b 1 1/b 2/b 3/1 2", "line 1: 3 bags need 2 edges, found 1"),
        ("c/s td 1 2 2/b 1 1", "line 2: the header has 2 vertices for the largest bag, which has 1"),
        ("s td 1 1 2/b 1 1 2", "line 1: the header has 1 vertices for the largest bag, which has 2"),
    ],
)
def test_a_malformed_decomposition_is_refused_with_its_line(given_td, text, message):
    with pytest.raises(GraphError) as raised:
        given_td(text)
    assert str(raised.value).startswith(f"x.td, {message}")


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path):
    with pytest.raises(GraphError, match=r"no such file: .*none\.gr"):
        read_gr(tmp_path / "none.gr")
    (tmp_path / "x.td").write_bytes(b"s td \xff")
    with pytest.raises(GraphError, match=r"x\.td: byte 5 is not UTF-8 text"):
        read_td(tmp_path / "x.td")


def test_nothing_is_written_for_another_graph(tmp_path):
    file = tmp_path / "x.td"
    file.write_text("before")
    with pytest.raises(GraphError, match="bag 0 contains vertex 1, the graph's are 0 to 0"):
        write_td(TreeDecomposition.from_bags([[0, 1]], []), file, 1)
    assert file.read_text() == "before"
    with pytest.raises(OSError, match=r"x\.gr"):
        write_gr(UndirectedGraph.from_edges(0, []), tmp_path / "no folder" / "x.gr")
