"""The matrices R and S of a schedule in stages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos import plot
from remat_algos.context import Clock
from remat_algos.plot.pictures.matrix import stage_matrices
from remat_algos.schedule.baseline import baseline, baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.milp import milp
from remat_algos.solvers.task import Task
from tests import strategies


def diamond():
    return ra.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])


@given(data=st.data(), graph=strategies.training_graphs(max_nodes=8))
def test_the_matrices_give_the_schedule_back(data, graph):
    limit = data.draw(st.integers(0, baseline_peak(graph)))
    for found in milp(graph, Task(limit), Clock()):
        nodes, runs, live = stage_matrices(simulate(graph, found.schedule))
        order = [int(nodes[i]) for row in runs for i in np.flatnonzero(row)]
        assert order == found.schedule.order.tolist()
        assert runs.diagonal().all()
        assert not np.triu(runs, 1).any()
        assert not np.triu(live).any()
        assert (live[1:] <= (live[:-1] | runs[:-1])).all()  # what is live was live or has just been made


def test_a_run_without_rematerialization_is_a_diagonal():
    _, runs, live = stage_matrices(baseline(diamond()))
    assert np.array_equal(runs, np.eye(4, dtype=bool))
    assert live.astype(int).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]


def test_the_picture_shows_both_beside_each_other():
    ax = plot.matrix(simulate(diamond(), [0, 1, 0, 2, 3]))
    cells = ax.images[0].get_array()
    assert cells.shape == (4, 9)
    assert cells.mask[:, 4].all()
    assert cells[2, :4].tolist() == [3, 0, 2, 0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first run", "recomputed", "live"]


def test_other_schedules_are_refused_with_the_remedy():
    chain = ra.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (1, 4), (2, 4)])
    with pytest.raises(ValueError, match=r"use plot\.schedule"):
        plot.matrix(simulate(chain, [0, 1, 2, 3, 0, 2, 1, 4]))
    with pytest.raises(TypeError, match="subject is an int; give a Plan, a Simulation or a ComputationGraph"):
        plot.matrix(7)


def test_no_node_is_an_empty_picture():
    assert plot.matrix(ra.ComputationGraph.from_edges([], n_nodes=0)).images[0].get_array().shape == (1, 1)
