"""A schedule as a table: the bytes of every row, and the command that prints it."""

import csv
import io

import pytest

import remat_algos as ra
from remat_algos.schedule.step_rows import step_table
from tests.small_graphs import small_graphs

LINES = ["step action name live bytes", "0 compute a a 1 B", "1 compute b a, b 2 B", "1 free a b 1 B"]


@pytest.mark.parametrize(("name", "graph"), list(small_graphs(12, 8, 16)))
def test_rows_are_the_actions_and_their_bytes_the_trace(name, graph):
    simulation = ra.solve(graph, "least", effort="fast").simulation
    rows = step_table(simulation)
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
    rows = [(row.step, row.action, row.name) for row in step_table(simulation)]
    assert (0, "store", "0") in rows
    assert rows.index((4, "load", "0")) + 1 == rows.index((4, "compute", "4"))


@pytest.fixture
def net(tmp_path, monkeypatch, remat):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text("src,dst\na,b\nb,c\nc,d\n")
    remat("solve", "net.csv", "--budget", "least", "-o", "plan.json")
    return remat


def test_the_table_as_text(net):
    text = net("simulate", "net.csv", "plan.json", "--table").out
    assert [" ".join(line.split()) for line in text.splitlines()[:4]] == LINES
    assert text.count("peak") == 4


def test_the_table_as_csv_and_markdown(net):
    rows = list(csv.DictReader(io.StringIO(net("simulate", "net.csv", "plan.json", "--table", "csv").out)))
    assert rows[1] == {"step": "1", "action": "compute", "name": "b", "live": "a b", "bytes": "2", "peak": "0"}
    lines = net("simulate", "net.csv", "plan.json", "--table", "markdown").out.splitlines()
    assert lines[0] == "| step | action | name | live | bytes | at |"
    assert lines[3] == "| 1 | compute | b | a, b | 2 B |  |"
    assert len(lines) == len(rows) + 2


@pytest.mark.parametrize("words", [("--step", "1"), ("--json",)])
def test_a_table_stands_alone(net, words):
    failed = net("simulate", "net.csv", "plan.json", "--table", "csv", *words)
    assert failed.code != 0
    assert "leave out one" in " ".join(failed.err.split())
