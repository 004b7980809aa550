"""Sizes and costs that a file does not give are told on the command line."""

import json

import pytest

import remat_algos as ra
from remat_algos.errors import GraphWarning
from tests.command_line import runner

NOTES = (
    "sizes not given: every value counts as 1 byte; --nodes or a memory column gives them; "
    "costs not given: every node counts as 1; --nodes or a compute column gives them"
)
PLANNING = {
    "show": [],
    "solve": ["--budget", "90%", "--solver", "chen_sqrt"],
    "compare": ["--budget", "90%", "--solver", "chen_sqrt"],
    "frontier": ["--solver", "chen_sqrt"],
}


@pytest.fixture
def remat(capsys, tmp_path, monkeypatch):
    (tmp_path / "g.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(8)))
    (tmp_path / "sizes.csv").write_text("name,memory,compute\n" + "".join(f"{i},4,1\n" for i in range(9)))
    (tmp_path / "holes.csv").write_text(
        "name,memory,compute\n" + "".join(f"{i},{'' if i == 3 else 4},1\n" for i in range(9))
    )
    monkeypatch.chdir(tmp_path)
    return runner(capsys)


def joined(lines):
    """Lines that may be wrapped, as one."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("command", PLANNING)
def test_the_first_line_tells_what_is_not_given(remat, command):
    said = remat(command, "g.txt", *PLANNING[command])
    assert said.code == 0
    assert said.err == ""
    assert joined(said.lines).startswith("g.txt: 9 nodes")
    assert NOTES in joined(said.lines[:6])


@pytest.mark.parametrize("command", PLANNING)
def test_with_json_a_note_on_standard_error_does(remat, command):
    said = remat(command, "g.txt", *PLANNING[command], "--json")
    assert said.code == 0
    assert json.loads(said.out)
    assert said.err == f"remat: note: g.txt: {NOTES}\n"


@pytest.mark.parametrize("command", PLANNING)
def test_where_all_is_given_nothing_is_told(remat, command):
    said = remat(command, "g.txt", "--nodes", "sizes.csv", *PLANNING[command])
    assert (said.code, said.err) == (0, "")
    assert "given" not in joined(said.lines[:3])


def test_the_width_needs_neither(remat):
    said = remat("width", "g.txt")
    assert (said.code, said.err) == (0, "")
    assert "given" not in joined(said.lines)


def test_a_single_hole_is_told_with_the_name(remat):
    said = remat("show", "g.txt", "--nodes", "holes.csv")
    assert "1 node without a size (3) counts as 1 byte" in joined(said.lines[:4])


def test_what_is_converted_is_told_too(remat):
    assert NOTES in joined(remat("convert", "g.txt", "g.json").lines[:4])
    assert remat("convert", "g.txt", "g.npz", "--json").err == f"remat: note: g.txt: {NOTES}\n"
    assert "given" not in remat("show", "g.npz").out


def test_a_typing_error_in_a_column_is_an_error(remat, tmp_path):
    (tmp_path / "g.nodes.csv").write_text("name,memroy,compute\na,4,1\nb,4,1\n")
    (tmp_path / "g.edges.csv").write_text("src,dst\na,b\n")
    said = remat("solve", "g.nodes.csv")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "remat: g.nodes.csv, line 1: column `memroy` is not known; did you mean `memory`? Rename it, or remove it\n"
    )


def test_python_is_warned_where_a_file_gives_sizes_of_some_nodes_only(remat, recwarn):
    whole = "sizes.csv"
    assert ra.read_graph("g.txt").memory.tolist() == [1] * 9  # none are given: that is an edge list
    assert ra.read_graph("g.txt", nodes=whole).n_nodes == 9
    assert not recwarn.list
    with pytest.warns(GraphWarning, match=r"^g\.txt: 1 node without a size \(3\) counts as 1 byte$") as warned:
        ra.read_graph("g.txt", nodes="holes.csv")
    assert warned[0].filename == __file__


def test_the_command_line_tells_it_once(remat):
    said = remat("show", "g.txt", "--nodes", "holes.csv")
    assert said.err == ""
    assert joined(said.lines).count("1 node without a size") == 1
    said = remat("show", "g.txt", "--nodes", "holes.csv", "--json")
    assert said.err.count("1 node without a size") == 1
