"""The matrices R and S of a schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos import plot
from remat_algos.context import Clock
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import stage_matrices
from remat_algos.solvers.methods.milp import milp
from remat_algos.solvers.registry import Task
from tests import strategies
from tests.small_graphs import small_graphs


def diamond():
    return ra.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])


@given(data=st.data(), graph=strategies.training_graphs(max_nodes=8))
def test_the_matrices_give_the_schedule_back(data, graph):
    limit = data.draw(st.integers(0, baseline_peak(graph)))
    for found in milp(graph, Task(limit), Clock()):
        matrices = stage_matrices(simulate(graph, found.schedule))
        runs, live = matrices.R, matrices.S
        order = [int(matrices.nodes[i]) for row in runs for i in np.flatnonzero(row)]
        assert order == found.schedule.order.tolist()
        assert runs.diagonal().all()
        assert not np.triu(runs, 1).any()
        assert not np.triu(live).any()
        assert (live[1:] <= (live[:-1] | runs[:-1])).all()  # what is live was live or has just been made


def test_a_run_without_rematerialization_is_a_diagonal():
    found = stage_matrices(baseline(diamond()))
    assert np.array_equal(found.R, np.eye(4, dtype=bool))
    assert found.S.astype(int).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]


def test_the_picture_shows_both_beside_each_other():
    ax = plot.matrix(simulate(diamond(), [0, 1, 0, 2, 3]))
    cells = ax.images[0].get_array()
    assert cells.shape == (4, 9)
    assert cells.mask[:, 4].all()
    assert cells[2, :4].tolist() == [3, 0, 2, 0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first run", "recomputed", "live"]


def test_a_schedule_in_another_order_has_more_stages():
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 4), (2, 4)]
    found = check_matrices(simulate(ra.ComputationGraph.from_edges(edges), [0, 2, 1, 3, 0, 1, 0, 2, 4]))
    assert found.starts.tolist() == [0, 1, 2, 3, 4, 6]


@pytest.mark.parametrize(("name", "graph"), list(small_graphs(12, 8, 16)))
def test_any_schedule_can_be_read_from_its_matrices(name, graph):
    for limit in ("least", "100%"):
        check_matrices(ra.solve(graph, limit, effort="fast").simulation)


def check_matrices(simulation):
    """The matrices of a schedule, after a comparison with its order and its lifetimes."""
    found, lives = stage_matrices(simulation), simulation.lifetimes
    order = simulation.schedule.order.tolist()
    assert [int(found.nodes[i]) for row in found.R for i in np.flatnonzero(row)] == order
    assert found.R.sum(axis=1).cumsum().tolist() == [*found.starts[1:].tolist(), len(order)]
    assert found.nodes.tolist() == list(dict.fromkeys(order))
    for start, row in zip(found.starts.tolist(), found.S, strict=True):
        live = {
            int(simulation.graph.producer[x])
            for x, made_at, end in zip(lives.value, lives.made_at, lives.end, strict=True)
            if made_at < start < end
        }
        assert {int(found.nodes[i]) for i in np.flatnonzero(row)} == live
    return found


def test_large_matrices_are_binned_and_larger_ones_refused(monkeypatch):
    graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(400)])
    assert plot.matrix(graph).images[0].get_array().shape == (300, 601)
    assert "a line stands for up to 11 stages, a column for up to 13 nodes" in plot.text("matrix", graph)
    monkeypatch.setattr("remat_algos.schedule.tuning.MAX_MATRIX_ENTRIES", 10)
    with pytest.raises(ra.ScheduleError, match="401 stages of 401 nodes, which exceeds 10 entries"):
        plot.matrix(graph)
    with pytest.raises(TypeError, match="subject is an int; give a Plan, a Simulation or a ComputationGraph"):
        plot.matrix(7)


def test_the_command_prints_both(remat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text("src,dst\na,b\na,c\nb,c\n")
    (tmp_path / "order.txt").write_text("a b a c")
    words = ("simulate", "net.csv", "order.txt", "--inference")
    rows = ["stage,node,R,S", "0,a,1,0", "1,a,0,1", "1,b,1,0", "2,a,1,0", "2,b,0,1", "2,c,1,0"]
    assert remat(*words, "--matrix", "csv").out.splitlines() == rows
    assert remat(*words, "--matrix").out.splitlines()[-1] == "    2  ▒·█  ·│·"
    assert remat(*words, "--plot", "-", "--picture", "matrix").out.splitlines()[-1] == "    2  ▒·█  ·│·"
    assert "leave out one" in " ".join(remat(*words, "--matrix", "--table").err.split())


def test_no_node_is_an_empty_picture():
    assert plot.matrix(ra.ComputationGraph.from_edges([], n_nodes=0)).images[0].get_array().shape == (1, 3)
    assert plot.text("matrix", ra.ComputationGraph.from_edges([], n_nodes=0)).splitlines()[-1].split() == [
        "stage",
        "R",
        "S",
    ]
