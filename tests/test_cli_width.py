"""remat width: what it says and writes."""

import json
from dataclasses import replace

import pytest

from remat_algos.cli.main import main
from remat_algos.context import Stop
from remat_algos.formats.graph_files import read_graph
from remat_algos.formats.pace import read_gr, read_td
from remat_algos.ir.differentiate import differentiate
from remat_algos.structure import treewidth
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.treewidth import width_bounds

# outer five, inner star, spokes: treewidth 4, least degree 3
PETERSEN = [*((i, (i + 1) % 5) for i in range(5)), *((5 + i, 5 + (i + 2) % 5) for i in range(5))]
PETERSEN += [(i, i + 5) for i in range(5)]
# as directed edges 1 -> 2 -> 3 -> 4 -> 1, a cycle; a loop and an edge that stands twice are dropped
SQUARE = "c four in a ring\np tw 4 6\n1 2\n2 3\n3 4\n4 1\n1 4\n2 2\n"
# 5 x 5 knights on a torus: 25 vertices of degree 8, more than the exact program takes
KNIGHTS = sorted(
    {
        tuple(sorted((5 * r + c, 5 * ((r + dr) % 5) + (c + dc) % 5)))
        for r in range(5)
        for c in range(5)
        for dr, dc in ((1, 2), (2, 1), (1, -2), (2, -1))
    }
)


def gr(n, edges):
    return "\n".join([f"p tw {n} {len(edges)}", *(f"{u + 1} {v + 1}" for u, v in edges), ""])


@pytest.fixture
def width(capsys, tmp_path, monkeypatch):
    """Runs remat width in a folder with graphs: its exit code, what it said, and its complaint."""
    (tmp_path / "square.gr").write_text(SQUARE)
    (tmp_path / "petersen.gr").write_text(gr(10, PETERSEN))
    (tmp_path / "knights.gr").write_text(gr(25, KNIGHTS))
    (tmp_path / "pair.txt").write_text("a b\nb c\n")
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main(["width", *words])
        return (code, *capsys.readouterr())

    return run


def timeless(lines):
    return [line for line in lines if not line.startswith("seconds")]


# ---------------------------------------------------------------- what it says


def test_a_graph_without_directions_is_taken_as_it_is(width):
    code, out, err = width("square.gr")
    assert (code, err) == (0, "")
    assert timeless(out.splitlines()) == [
        "square.gr: undirected, unchanged",
        "vertices     4",
        "edges        4",
        "width        2 (the treewidth)",
        "lower bound  2",
        "found by     safe reductions and the exact program",
        "bags         2",
    ]


def test_pace_is_known_by_its_content_too(width, tmp_path):
    (tmp_path / "square.txt").write_text(SQUARE)
    assert width("square.txt")[1].splitlines()[:3] == [
        *("square.txt: undirected, unchanged", "vertices     4", "edges        4")
    ]


def test_other_graphs_are_differentiated_unless_that_is_not_wanted(width):
    """a -> b -> c is a path of width 1; with gradients, which read what their nodes read, it is wider."""
    code, out, _ = width("pair.txt")
    graph = differentiate(read_graph("pair.txt"))
    assert code == 0
    assert out.splitlines()[0] == ("pair.txt: 3 nodes; 3 gradient nodes added (--inference plans the graph as it is)")
    assert f"width        {width_bounds(UndirectedGraph.of(graph)).width} (the treewidth)" in out
    said = width("pair.txt", "--inference")[1].splitlines()
    assert said[:4] == [
        *("pair.txt: 3 nodes; no gradients added (--inference)", "vertices     3", "edges        2"),
        "width        1 (the treewidth)",
    ]


@pytest.mark.parametrize(
    ("words", "settings"),
    [([], {}), (["--seeds", "0"], {"seeds": 0}), (["--seeds", "3", "--seed", "7"], {"seeds": 3, "seed": 7})],
)
def test_json_has_what_the_interface_for_python_finds(width, words, settings):
    code, out, err = width("knights.gr", "--json", *words)
    record = json.loads(out)
    found = width_bounds(read_gr("knights.gr"), **settings)
    assert (code, err) == (0, "")
    assert record.pop("seconds") > 0
    assert record.pop("bags") <= 25
    assert record == {
        **{"vertices": 25, "edges": 100, "width": found.width, "lower_bound": found.lower_bound},
        **{"proven": found.proven, "complete": True, "written": None},
        **found.details,
    }


def test_a_gap_is_said(width):
    """The knights' graph is far from its bound by contraction."""
    record = json.loads(width("knights.gr", "--json")[1])
    assert not record["proven"]
    gap = record["width"] - record["lower_bound"]
    assert f"width        {record['width']} (at most {gap} above the treewidth)\n" in width("knights.gr")[1]


def test_exact_is_the_treewidth_or_one_sentence(width):
    code, out, _ = width("petersen.gr", "--exact", "--json")
    record = json.loads(out)
    assert (code, record["width"], record["lower_bound"], record["proven"]) == (0, 4, 4, True)
    assert "found by     safe reductions and the exact program\n" in width("petersen.gr", "--exact")[1]
    code, out, err = width("knights.gr", "--exact", "--json")
    assert (code, out) == (2, "")
    assert err.startswith("remat: --exact: the treewidth is ")
    assert "leave 25 vertices, but the exact algorithm handles at most 16" in err
    assert err.endswith("use bounds\n")
    assert err.count("\n") == 1


def test_a_model_and_a_graph_of_nothing(width, tmp_path):
    record = json.loads(width("model:resnet20", "--json")[1])
    assert record["width"] >= record["lower_bound"] >= 2
    (tmp_path / "nothing.gr").write_text("p tw 0 0\n")
    code, out, err = width("nothing.gr", "--exact", "--td", "nothing.td", "--plot", "-")
    assert (code, err) == (0, "")
    assert "width        -1 (the treewidth)\n" in out
    assert (tmp_path / "nothing.td").read_text() == "s td 0 0 0\n"


# ---------------------------------------------------------------- what it writes


@pytest.mark.parametrize("name", ["square.gr", "petersen.gr", "knights.gr"])
def test_the_decomposition_is_one_of_the_graph_and_as_wide_as_said(width, name):
    code, out, _ = width(name, "--td", "out.td", "--json")
    record, found = json.loads(out), read_td("out.td")
    found.verify(read_gr(name))
    assert code == 0
    assert (found.width, found.n_bags, record["written"]) == (record["width"], record["bags"], "out.td")
    assert "written      out.td\n" in width(name, "--td", "out.td")[1]


def test_alone_on_standard_output_it_can_be_piped(width, tmp_path):
    code, out, err = width("square.gr", "--td", "-")
    assert code == 0
    assert out == "s td 2 3 4\nb 1 1 2 4\nb 2 2 3 4\n1 2\n"
    (tmp_path / "piped.td").write_text(out)
    read_td("piped.td").verify(read_gr("square.gr"))
    assert timeless(err.splitlines())[0] == "square.gr: undirected, unchanged"
    assert "written" not in err


def test_the_picture_has_the_vertices_by_their_names_in_the_file(width, tmp_path):
    code, out, _ = width("square.gr", "--plot", "-")
    assert code == 0
    assert out.splitlines()[-5:] == ["", "4 vertices, 4 edges", "2 bags, width 2", "2 3 4", "1 2 4"]
    code, out, _ = width("pair.txt", "--inference", "--plot", "pair.svg", "--td", "pair.td")
    assert (code, out.splitlines()[-1]) == (0, "drawn        pair.svg")
    assert (tmp_path / "pair.svg").read_bytes().startswith(b"<?xml")


def test_too_many_bags_to_draw_are_one_sentence_after_the_answer(width, tmp_path):
    (tmp_path / "path.gr").write_text(gr(300, [(v, v + 1) for v in range(299)]))
    code, out, err = width("path.gr", "--plot", "path.png")
    assert code == 2
    assert "width        1 (the treewidth)\n" in out
    assert err == "remat: --plot path.png: 299 bags are too many to draw; the limit is 200\n"
    assert not (tmp_path / "path.png").exists()


# ---------------------------------------------------------------- bad input, interrupts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("p tw 2 1\n1 3\n", "bad.gr, line 2: edge 1 3: the header has vertices 1 to 2"),
        ("c no more\np tw 3 1\n1 2 3\n", "bad.gr, line 3: expected an edge `u v` of two numbers, found '1 2 3'"),
        ("p tw 3 2\n1 2\n", "bad.gr, line 1: the header has 2 edges, but the file has 1"),
        ("1 2\n", "bad.gr, line 1: expected the header `p tw VERTICES EDGES`, found '1 2'"),
    ],
)
def test_a_file_that_is_no_graph_is_named_with_the_line(width, tmp_path, text, sentence):
    (tmp_path / "bad.gr").write_text(text)
    code, out, err = width("bad.gr", "--td", "out.td", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"remat: {sentence}")
    assert not (tmp_path / "out.td").exists()


def test_an_interrupted_search_shows_and_writes_the_best_so_far(width, monkeypatch):
    """The second elimination order is interrupted."""
    begun = []

    class Run(treewidth.Run):
        def go_on(self):
            begun.append(self)
            if self is not begun[0]:
                raise KeyboardInterrupt
            return super().go_on()

    monkeypatch.setattr(treewidth, "Run", Run)
    code, out, err = width("knights.gr", "--td", "out.td")
    assert (code, err) == (130, "")
    assert "found by     1 order, then stopped: minimum fill\n" in out
    read_td("out.td").verify(read_gr("knights.gr"))


def test_a_search_that_ran_out_of_time_is_no_interrupt(width, monkeypatch):
    def hurried(*words, **settings):
        assert 0 < settings["time_limit"] <= 5
        return replace(width_bounds(*words, **settings), stop=Stop.DEADLINE)

    monkeypatch.setattr("remat_algos.cli.commands.width.width_bounds", hurried)
    code, out, _ = width("knights.gr", "--time-limit", "5")
    assert code == 0
    assert ", then stopped: " in out
