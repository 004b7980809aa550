"""Sizes and costs that a file does not give are told on the command line."""

import pytest

import remat_algos as ra
from remat_algos.errors import GraphWarning
from tests.command_line import complains, runner

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
def test_the_first_line_tells_what_is_not_given_or_a_note_beside_json(remat, command):
    said = remat(command, "g.txt", *PLANNING[command])
    assert said.fine
    assert said.flat.startswith("g.txt: 9 nodes")
    assert NOTES in joined(said.lines[:6])
    said = remat(command, "g.txt", *PLANNING[command], "--json")
    assert (said.code, said.err) == (0, f"remat: note: g.txt: {NOTES}\n")
    assert said.record
    said = remat(command, "g.txt", "--nodes", "sizes.csv", *PLANNING[command])
    assert said.fine
    assert "given" not in joined(said.lines[:3])


def test_the_width_needs_neither(remat):
    said = remat("width", "g.txt")
    assert said.fine
    assert "given" not in joined(said.lines)


def test_what_is_converted_is_told_too(remat):
    assert NOTES in joined(remat("convert", "g.txt", "g.json").lines[:4])
    assert remat("convert", "g.txt", "g.npz", "--json").err == f"remat: note: g.txt: {NOTES}\n"
    assert "given" not in remat("show", "g.npz").out


def test_a_typing_error_in_a_column_is_an_error(remat, tmp_path):
    (tmp_path / "g.nodes.csv").write_text("name,memroy,compute\na,4,1\nb,4,1\n")
    (tmp_path / "g.edges.csv").write_text("src,dst\na,b\n")
    assert complains(remat("solve", "g.nodes.csv"), "g.nodes.csv, line 1", "did you mean `memory`?")


def test_python_is_warned_where_a_file_gives_sizes_of_some_nodes_only(remat, recwarn):
    whole = "sizes.csv"
    assert ra.read_graph("g.txt").memory.tolist() == [1] * 9  # none are given: that is an edge list
    assert ra.read_graph("g.txt", nodes=whole).n_nodes == 9
    assert not recwarn.list
    with pytest.warns(GraphWarning, match=r"^g\.txt: 1 node without a size \(3\) counts as 1 byte$") as warned:
        ra.read_graph("g.txt", nodes="holes.csv")
    assert warned[0].filename == __file__


def test_a_single_hole_is_told_once_with_the_name(remat):
    for words, told in (([], ["out"]), (["--json"], ["err"])):
        said = remat("show", "g.txt", "--nodes", "holes.csv", *words)
        count = {name: joined([getattr(said, name)]).count("1 node without a size (3)") for name in ("out", "err")}
        assert [name for name in count if count[name] == 1] == told
