"""Pictures of plans with copies: loads in the pictures of steps, and the three engines over time."""

import json
from functools import partial
from itertools import pairwise

import matplotlib
import numpy as np
import pytest

import remat_algos as ra
from remat_algos import plot
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.cost.links import Link
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import ENGINES, timeline
from remat_algos.schedule.views import live_set, trace_events

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
    assert "▚ loaded from the host" in plot.text("memory", loaded)
    assert "1 load" in plot.text("memory", loaded)


def test_a_load_has_its_own_cell_in_schedules_and_stages(loaded):
    cells = plot.schedule(loaded).images[0].get_array().tolist()
    assert cells == [[2, 0, 0, 0], [1, 2, 0, 0], [0, 1, 2, 0], [4, 0, 1, 2]]
    runs = [row[:4] for row in plot.matrix(loaded).images[0].get_array().tolist()]
    assert runs == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [4, 0, 0, 2]]
    assert plot.text("schedule", loaded).splitlines()[-1].endswith("▚·│█")


def test_addresses_have_the_colour_of_what_was_loaded(loaded):
    ax = plot.addresses(pack(Buffers.of(loaded)), simulation=loaded)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[1:] == ["kept", "loaded from the host"]


# ---------------------------------------------------------------- over time


def chain_over_link(seed):
    """A random schedule with copies on a chain whose last nodes read its first, and its timeline."""
    rng = np.random.default_rng(seed)
    n, late = 9, int(rng.integers(1, 4))
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, n - 1 - i) for i in range(late)]
    memory, compute = (rng.integers(1, 30, n).tolist() for _ in range(2))
    labels = Labels(compute_unit="us")
    graph = ComputationGraph.from_edges(sorted(set(edges)), memory=memory, compute=compute, labels=labels)
    order = [*range(n - 1), 1, n - 1] if rng.integers(2) else [*range(n)]
    loads = [(n - 1 - i, i) for i in range(late) if i not in (1,)]
    link = Link(float(rng.integers(1, 4) * 1e6), float(rng.integers(1, 4) * 1e6), latency=0)
    return timeline(simulate(graph, Schedule(order, loads=loads)), link)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_takes_its_memory_between_the_runs_around_it(seed):
    played = chain_over_link(seed)
    assert (played.step_begin <= played.begin).all()
    assert (played.step_begin[1:] >= played.end[:-1]).all()
    lives, simulation = played.simulation.lifetimes, played.simulation
    for value, end in zip(played.stores.tolist(), played.store_end.tolist(), strict=True):
        first = int(np.flatnonzero(lives.value == value)[0])
        over = int(lives.end[first])
        assert over == len(simulation.schedule) or played.step_begin[over] >= end
    assert (played.load_begin >= played.step_begin[simulation.schedule.loads[:, 0]]).all()


@pytest.mark.parametrize("seed", range(3))
def test_times_on_the_axis_are_round_in_their_unit(seed):
    lanes = plot.timeline(chain_over_link(seed)).child_axes[0]
    ticks = [float(tick.get_text()) for tick in lanes.get_xticklabels()]
    assert ticks == [round(tick, 1) for tick in ticks]


@pytest.mark.parametrize("seed", range(20))
def test_events_of_an_engine_are_in_order_apart_and_as_long_as_it_is_busy(seed):
    played = chain_over_link(seed)
    graph, events = played.simulation.graph, trace_events(played)["traceEvents"]
    json.dumps(events)
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in slices if event["cat"] == "part"].count("recomputed") == (
        played.simulation.extra_runs
    )
    slices = [event for event in slices if event["cat"] != "part"]
    of = [[event for event in slices if event["tid"] == thread] for thread in range(3)]
    for engine, spans in zip(ENGINES, of, strict=True):
        for one, after in pairwise(spans):
            assert one["ts"] + one["dur"] <= after["ts"] + 1e-9
        assert sum(span["dur"] for span in spans) == pytest.approx(played.busy[engine] * played.time)
    assert [span["name"] for span in of[0]] == played.simulation.schedule.names(graph)
    for deed, spans in (("store", of[1]), ("load", of[2])):
        assert [span["name"] for span in spans] == [
            x for what, x in played.simulation.actions(names=True) if what == deed
        ]
    assert max(span["ts"] + span["dur"] for spans in of for span in spans) == pytest.approx(played.time)
    counted = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"] == "device"]
    assert max(counted) == played.simulation.peak_memory
    assert counted[-1] == graph.memory[graph.output].sum()


def test_microseconds_whatever_the_unit():
    graph = ComputationGraph.from_edges([(0, 1)], compute=2000, labels=Labels(compute_unit="ms", compute_scale=1000))
    events = trace_events(timeline(simulate(graph, [0, 1]), Link.of("pcie5")))["traceEvents"]
    assert [event["ts"] for event in events if event.get("cat") == "forward"] == [0, pytest.approx(2000)]


@pytest.mark.parametrize("seed", range(3))
def test_lanes_cover_what_the_engines_do(seed):
    played = chain_over_link(seed)
    ax = plot.timeline(played)
    ax.figure.canvas.draw()
    (lanes,) = ax.child_axes
    covered = [0.0, 0.0, 0.0]
    for collection in lanes.collections:
        for path in collection.get_paths():
            (x0, y0), (x1, y1) = path.get_extents().get_points()
            covered[2 - round((y0 + y1) / 2)] += x1 - x0
    for engine, width in zip(ENGINES, covered, strict=True):
        assert width == pytest.approx(played.busy[engine] * played.last)
    assert ax.get_xlim() == (0, played.last)


@pytest.mark.parametrize("width", [40, 72, 120])
def test_text_keeps_to_its_width_and_names_the_peak(width):
    played = chain_over_link(4)
    text = plot.text("timeline", played, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("▼") == 1
    assert f"{'in':>8}" in text


def test_a_plan_without_a_link_has_no_timeline():
    plan = ra.solve(ComputationGraph.from_edges([(0, 1)]), solver="no_remat")
    for draw in (plot.timeline, partial(plot.text, "timeline")):
        with pytest.raises(ValueError, match="the plan has no link"):
            draw(plan)


def test_remat_solve_writes_a_trace_and_draws_a_timeline(remat, tmp_path):
    model = "model:vgg16?cost=roofline&device=h100-sxm"
    trace, picture = tmp_path / "trace.json", tmp_path / "timeline.png"
    arguments = ["solve", model, "--budget", "70%", "--link", "pcie5", "--solver", "chen_sqrt", "--effort", "fast"]
    wrote = remat(*arguments, "--format", "trace", "-o", trace, "--plot", picture, "--picture", "timeline")
    assert wrote.code == 0, wrote.err
    assert json.loads(trace.read_text())["displayTimeUnit"] == "ms"
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_picture_of_copies_wants_a_link(remat):
    failed = remat("solve", "model:vgg16", "--budget", "70%", "--plot", "-", "--picture", "timeline")
    assert failed.code == 2
    assert "--picture timeline shows copies over time; give --link" in failed.err
