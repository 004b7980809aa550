"""Pictures of plans with copies: loads in the pictures of steps, and the three engines over time."""

import matplotlib
import pytest

from remat_algos import plot
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot.pictures.memory import memory_text
from remat_algos.plot.pictures.schedule import schedule_text
from remat_algos.schedule.live_set import live_set
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate

matplotlib.use("Agg")


@pytest.fixture
def loaded():
    """A value that leaves, comes back for the last node, and is never recomputed."""
    graph = ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("A", "D"), ("C", "D")], memory=[4, 3, 2, 1])
    return simulate(graph, Schedule([0, 1, 2, 3], loads=[(3, 0)]))


def test_a_loaded_value_is_neither_kept_nor_recomputed(loaded):
    assert [each.role for each in live_set(loaded, 3) if each.name == "A"] == ["loaded"]
    bands = [text.get_text() for text in plot.memory(loaded).get_legend().get_texts()]
    assert "loaded from the host" in bands
    assert "recomputed" not in bands
    assert "▚ loaded from the host" in memory_text(loaded)
    assert "1 load" in memory_text(loaded)


def test_a_load_has_its_own_cell_in_schedules_and_stages(loaded):
    cells = plot.schedule(loaded).images[0].get_array().tolist()
    assert cells == [[2, 0, 0, 0], [1, 2, 0, 0], [0, 1, 2, 0], [4, 0, 1, 2]]
    runs = [row[:4] for row in plot.matrix(loaded).images[0].get_array().tolist()]
    assert runs == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [4, 0, 0, 2]]
    assert schedule_text(loaded).splitlines()[-1].endswith("▚·│█")
