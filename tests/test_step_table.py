"""A schedule as a table: the bytes of every row, and the command that prints it."""

import csv
import io
import itertools
import re

import pytest

import remat_algos as ra
from remat_algos.schedule.views import step_table
from tests.small_graphs import small_graphs

LINES = ["step action name live bytes peak", "0 compute a a 1 B", "1 compute b a, b 2 B", "1 free a b 1 B"]


@pytest.mark.parametrize(("name", "graph"), list(small_graphs(12, 8, 16)))
def test_rows_are_the_actions_and_their_bytes_the_trace(name, graph):
    simulation = ra.solve(graph, "least", effort="fast").simulation
    rows = list(step_table(simulation))
    runs = [row for row in rows if row.action in ("compute", "recompute")]
    assert [row.bytes for row in runs] == simulation.memory_trace.tolist()
    assert [row.name for row in runs] == simulation.schedule.names(graph)
    assert [row.action == "compute" for row in runs] == simulation.schedule.first_run.tolist()
    assert [row.step for row in runs] == list(range(len(simulation.schedule)))
    assert {row.step for row in rows if row.peak} == {
        step for step, amount in enumerate(simulation.memory_trace.tolist()) if amount == simulation.peak_memory
    }
    sizes = {graph.value_name(x): size for x, size in enumerate(graph.memory.tolist())}
    frees = [row for row in rows if row.action == "free"]
    assert all(row.bytes == sum(sizes[value] for value in row.live) for row in frees)
    outputs = [graph.value_name(x) for x in range(graph.n_values) if graph.output[x]]
    assert sorted(rows[-1].live) == sorted(outputs)


def test_copies_have_rows_of_their_own():
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], memory=10)
    simulation = ra.simulate(graph, ra.Schedule(range(5), loads=[(4, 0)]))
    rows = [(row.step, row.action, row.name, " ".join(row.live), row.bytes, row.peak) for row in step_table(simulation)]
    assert rows == [
        (0, "compute", "0", "0", 10, False),
        (0, "store", "0", "0", 10, False),
        (1, "compute", "1", "0 1", 20, False),
        (1, "free", "0", "1", 10, False),
        (2, "compute", "2", "1 2", 20, False),
        (2, "free", "1", "2", 10, False),
        (3, "compute", "3", "2 3", 20, False),
        (3, "free", "2", "3", 10, False),
        (4, "load", "0", "3 0", 20, False),
        (4, "compute", "4", "3 0 4", 30, True),
        (4, "free", "3", "0 4", 20, False),
        (4, "free", "0", "4", 10, False),
    ]


def test_some_steps_and_some_names_are_part_of_the_whole():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(9)]))
    simulation = ra.solve(graph, "60%").simulation
    whole = list(step_table(simulation))
    assert list(step_table(simulation, steps=range(3, 8))) == [row for row in whole if 3 <= row.step < 8]
    for row, named in zip(whole, step_table(simulation, names=2), strict=True):
        assert named == row._replace(live=row.live[:2])
        assert row.n_live == len(row.live)


@pytest.mark.parametrize("steps", [range(5, 3), range(0, 5), range(-1, 2), range(2, 2)])
def test_other_steps_are_refused(steps):
    simulation = ra.simulate(ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]), range(4))
    with pytest.raises(ra.ScheduleError, match="the schedule has 4 steps; give a first step from 0 and a later end up"):
        step_table(simulation, steps=steps)
    with pytest.raises(TypeError, match=r"steps is 3; give a range of steps, such as range\(0, 100\)"):
        step_table(simulation, steps=3)


def test_an_empty_schedule_has_no_rows():
    nothing = ra.simulate(ra.ComputationGraph.from_edges([], n_nodes=0), [])
    assert list(step_table(nothing)) == []
    with pytest.raises(ra.ScheduleError, match="the schedule has no steps; leave steps out"):
        step_table(nothing, steps=range(0, 1))


@pytest.fixture
def net(tmp_path, monkeypatch, remat):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text("src,dst\na,b\nb,c\nc,d\n")
    remat("solve", "net.csv", "--budget", "least", "-o", "plan.json")
    return remat


def test_the_table_as_text(net):
    text = net("simulate", "net.csv", "plan.json", "--table").out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    at = lines.index(LINES[0])
    assert lines[at : at + 4] == LINES
    assert text.count("peak") == 5


def test_the_table_as_csv_and_markdown(net):
    rows = list(csv.DictReader(io.StringIO(net("simulate", "net.csv", "plan.json", "--table", "csv").out)))
    assert rows[1] == {"step": "1", "action": "compute", "name": "b", "live": "a b", "bytes": "2", "peak": "0"}
    lines = net("simulate", "net.csv", "plan.json", "--table", "markdown").out.splitlines()
    assert lines[0] == "| step | action | name | live | bytes | peak |"
    assert lines[3] == "| 1 | compute | `b` | `a`, `b` | 2 B |  |"
    assert len(lines) == len(rows) + 2


def test_any_name_can_be_read_back(remat, tmp_path, monkeypatch):
    names = ["a|b", "a, b", 'say "x"', "back\\slash", "`tick`", "__init__", "=1+1"]
    monkeypatch.chdir(tmp_path)
    ra.write_graph(ra.ComputationGraph.from_edges(list(itertools.pairwise(names))), "net.json")
    rows = list(csv.DictReader(io.StringIO(remat("simulate", "net.json", "--inference", "--table", "csv").out)))
    assert [row["name"].removeprefix("'") for row in rows if row["action"] == "compute"] == names
    second = re.split(r"(?<!\\) ", rows[1]["live"])
    assert [re.sub(r"\\([\\ ])", r"\1", name) for name in second] == names[:2]
    table = remat("simulate", "net.json", "--inference", "--table", "markdown").out
    assert r"| 0 | compute | `a\|b` | `a\|b` | 1 B |  |" in table
    assert "| `` `tick` `` |" in table
    assert all(len(re.split(r"(?<!\\)\|", line)) == 8 for line in table.splitlines())


def test_notes_budget_and_allocator_are_beside_the_table(net):
    text = net("simulate", "net.csv", "--table", "--budget", "3", "--allocator", "cupy_pool")
    assert "sizes not given" in text.out
    assert "budget          3 B: it does not fit" in text.out
    data = net("simulate", "net.csv", "--table", "csv", "--budget", "3", "--plot", "memory.svg")
    assert data.out.startswith("step,action,")
    assert "drawn" not in data.out
    assert "budget  3 B: it does not fit" in data.err
    assert "drawn" in data.err


def test_the_table_of_some_steps(net, monkeypatch):
    rows = list(csv.DictReader(io.StringIO(net("simulate", "net.csv", "--table=csv", "--steps", "2:4").out)))
    assert {row["step"] for row in rows} == {"2", "3"}
    monkeypatch.setattr("remat_algos.cli.commands.simulate.MAX_PRINTED_STEPS", 5)
    failed = net("simulate", "net.csv", "--table")
    assert "--table lists at most 5 steps, but there are 8; choose some: --steps 0:5" in " ".join(failed.err.split())
    assert net("simulate", "net.csv", "--table", "--steps", ":5").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--table", "csv", "--step", "1"), "leave out one"),
        (("--table", "csv", "--plot", "-"), "leave out one, or name a file for --plot\n"),
        (("--table", "csv", "--json"), "both use standard output; leave out one\n"),
        (("--steps", "0:2"), "--steps needs --table"),
        (("--table", "--steps", "7:3"), "--steps is 7:3, but the schedule has 8 steps; give a first step from 0 and"),
        (("--table", "--steps", "0:9"), "--steps is 0:9, but the schedule has 8 steps"),
        (("--table", "--steps", "2"), "'2' is not a range of steps; give a first step and an end, such as 0:100"),
        (
            ("--table", "mine.csv"),
            "'mine.csv' is not a form of table: text, markdown, csv; if it is a file, write --table=text before it",
        ),
    ],
)
def test_what_cannot_be_listed_is_refused(net, words, message):
    failed = net("simulate", "net.csv", *words)
    assert failed.code != 0
    assert message in " ".join(failed.err.split()) + "\n"


def test_a_negative_number_of_names_is_refused_before_the_first_row():
    with pytest.raises(ValueError, match="names is -1; give 0 or more, or leave it out for all"):
        step_table(ra.simulate(ra.ComputationGraph.from_edges([(0, 1)]), [0, 1]), names=-1)
