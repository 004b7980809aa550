"""Pictures show the simulated numbers, no text lies over another, files come out whole; the same in characters."""

import itertools
import subprocess
import sys
import textwrap
from functools import cache, partial

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from rich.cells import cell_len

from remat_algos import plot
from remat_algos.cli.main import main
from remat_algos.context import Stop
from remat_algos.errors import ArgumentError
from remat_algos.formats.graph_files import write_graph
from remat_algos.ir.arrays import row_of
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels, Resident
from remat_algos.plot.axes import label
from remat_algos.plot.characters import bins, fitted
from remat_algos.plot.colours import CELLS, NODES, ROLES
from remat_algos.plot.lanes import Lanes
from remat_algos.plot.layered_layout import layout
from remat_algos.plot.pictures.graph import node_kinds
from remat_algos.plot.pictures.schedule import FIRST_RUN, LIVE, NOT_LIVE, RECOMPUTED, schedule_cells
from remat_algos.questions.frontier import Frontier, frontier
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import live_at, live_set
from remat_algos.search.solve import solve
from remat_algos.wording import shortened
from remat_algos.zoo.random import chain, u_shape
from tests.command_line import with_budget
from tests.raising import raises
from tests.strategies import captured_graphs, graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

PLOTS = {"memory": plot.memory, "schedule": plot.schedule, "graph": plot.graph}
NAMES = (
    "a" * 200,
    "$x_1$ and $\\alpha",
    "日本語テンソル",
    "emoji😀🤖",
    "x_{i}^2",
    "\U0001d4b3e\u0301",
    "שלום",
    "<svg>&\"'",
    "100%",
)


def diamond(again=True):
    """A runs twice, for B and for C, unless `again` is false."""
    graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")], memory=[4, 2, 1])
    return simulate(graph, [0, 1, 0, 2] if again else [0, 1, 2])


@cache
def trained(graph=None):
    """A plan that runs something again."""
    return solve(differentiate(chain(12, memory=1000) if graph is None else graph), "80%")


def named(names, **arrays):
    """A chain of nodes of those names."""
    n = len(names)
    indptr = [0, *range(n)]
    return ComputationGraph.from_arrays(
        read_indptr=indptr, read_indices=list(range(n - 1)), labels=Labels(names=tuple(names)), **arrays
    )


EDGE_CASES = {
    "nothing": ComputationGraph.from_arrays(read_indptr=[0], read_indices=[]),
    "one node": ComputationGraph.from_arrays(read_indptr=[0, 0], read_indices=[], memory=5),
    "one that nobody needs": ComputationGraph.from_arrays(read_indptr=[0, 0, 0], read_indices=[], output=[0, 1]),
    "no bytes": ComputationGraph.from_edges([(0, 1), (1, 2)], memory=0, compute=0),
    "several values": ComputationGraph.from_arrays(
        read_indptr=[0, 0, 2], read_indices=[0, 1], value_indptr=[0, 3, 4], memory=[1, 2, 3, 4], workspace=7
    ),
    "only once": ComputationGraph.from_arrays(read_indptr=[0, 0, 1], read_indices=[0], once=[True, False]),
    "huge": chain(3, memory=2**51 // 2),
    "names": differentiate(named(NAMES)),
    "forty readers": differentiate(
        ComputationGraph.from_edges([(0, i) for i in range(1, 41)] + [(i, 41) for i in range(1, 41)])
    ),
}


def simulations():
    """Sound schedules of random graphs, with and without a backward part."""
    return st.one_of(graphs(), training_graphs(), captured_graphs()).flatmap(
        lambda graph: orders(graph).map(lambda order: simulate(graph, order))
    )


def rendered(ax):
    """The axes, drawn."""
    ax.get_figure().draw_without_rendering()
    return ax


@cache
def frontier_of(graph):
    return frontier(graph, points=4) if graph.n_nodes else Frontier(graph, {}, 0, 0, 0)


@cache
def curves():
    """The frontier of a chain."""
    return frontier(differentiate(chain(14, memory=1000)), effort="fast")


def bands(ax):
    """Label to (top, bottom, edges) of the filled steps."""
    return {
        patch.get_label(): (patch.get_data().values, patch.get_data().baseline, patch.get_data().edges)
        for patch in ax.patches
        if patch.get_fill()
    }


def line(ax, name):
    return next((line for line in ax.lines if line.get_label() == name), None)


# ---------------------------------------------------------------- memory


@settings(max_examples=15)
@given(simulation=simulations())
def test_the_bands_are_the_roles_and_add_up_to_the_trace(simulation):
    ax = plot.memory(simulation)
    found, traces = bands(ax), simulation.trace_by_role()
    assert list(found) == [ROLES[role].label for role, trace in traces.items() if trace.any()]
    bottom = np.zeros(len(simulation.schedule))
    for role, trace in traces.items():
        if trace.any():
            top, base, edges = found[ROLES[role].label]
            assert np.array_equal(base, bottom)
            assert np.array_equal(top - base, trace)
            assert np.array_equal(edges, np.arange(trace.size + 1) - 0.5)
            bottom = top
    assert np.array_equal(bottom, simulation.memory_trace)


def test_the_lines_stand_at_budget_and_at_the_peak_without_rematerialization():
    plan = trained()
    ax = plot.memory(plan)
    assert set(line(ax, "budget").get_ydata()) == {plan.limit}
    (without,) = [patch for patch in ax.patches if patch.get_label() == "without rematerialization"]
    assert np.array_equal(without.get_data().values, baseline(plan.graph).memory_trace)
    assert line(ax, "peak").get_data() == ([plan.simulation.peak_step], [plan.peak_memory])
    assert set(line(plot.memory(plan, limit=17), "budget").get_ydata()) == {17}
    plain = plot.memory(diamond(again=False))
    assert line(plain, "budget") is None
    assert not any(patch.get_label() == "without rematerialization" for patch in plain.patches)


def test_a_budget_far_above_the_peak_is_named_and_leaves_the_steps_their_room():
    ax = plot.memory(diamond(), limit=10**9)
    assert ax.get_ylim()[1] < 10
    assert "budget 954 MiB (off the scale)" in legend(ax)
    assert "954 MiB" in plot.text("memory", diamond(), limit=10**9).splitlines()[1]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_legend_names_what_is_held_at_the_peak():
    graph = named(["x", "y"], memory=[3000, 5], workspace=40)
    resident = Resident(memory=[10**6], role=[1], read_indptr=[0, 1, 1], read_indices=[0], names=("w",))
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1], read_indices=[0], memory=[3000, 5], workspace=40, labels=graph.labels, resident=resident
    )
    assert legend(plot.memory(graph)) == [
        *("kept", "workspace", "peak 2.97 KiB, step 1: y", "residents, not included: 977 KiB", "live there:"),
        *("2.93 KiB  x", "40 B  workspace of y", "5 B  y"),
    ]
    assert legend(plot.memory(differentiate(chain(20, memory=1000))))[-1] == "14 more, 13.7 KiB"


@given(simulation=simulations(), data=st.data())
def test_the_live_set_is_what_the_step_holds(simulation, data):
    if not len(simulation.schedule):
        assert live_set(simulation, -1) == []
        return
    step = data.draw(st.integers(0, len(simulation.schedule) - 1))
    held = live_set(simulation, step)
    by_role = dict.fromkeys(simulation.trace_by_role(), 0)
    for one in held:
        by_role[one.role] += one.memory
    assert by_role == simulation.breakdown(step)
    assert [one.memory for one in held] == sorted((one.memory for one in held), reverse=True)


@given(simulation=simulations(), most=st.integers(1, 9))
def test_a_column_shows_the_highest_of_its_steps_and_the_peak_is_in_one(simulation, most):
    edges, shown = Lanes(simulation).columns(most)
    trace = simulation.memory_trace
    assert shown.size == min(most, trace.size)
    for begin, end, step in zip(edges[:-1], edges[1:], shown, strict=True):
        assert begin <= step < end
        assert trace[step] == trace[begin:end].max()
    if trace.size:
        assert simulation.peak_step in shown


# ---------------------------------------------------------------- schedule


@given(simulation=simulations())
def test_a_cell_shows_what_is_simulated(simulation):
    graph, order = simulation.graph, simulation.schedule.order.tolist()
    cells = schedule_cells(simulation, bins(len(order), 99), bins(graph.n_nodes, 99))
    for step, node in enumerate(order):
        held = {int(graph.producer[value]) for value, _ in live_at(simulation, step)}
        wanted = [LIVE if v in held else NOT_LIVE for v in range(graph.n_nodes)]
        wanted[node] = RECOMPUTED if node in order[:step] else FIRST_RUN
        assert cells[step].tolist() == wanted


@given(simulation=simulations(), rows=st.integers(1, 9), wide=st.integers(1, 9))
def test_a_shared_cell_shows_the_highest_of_those_it_stands_for(simulation, rows, wide):
    steps, nodes = len(simulation.schedule), simulation.graph.n_nodes
    if not steps:
        return
    fine = schedule_cells(simulation, np.arange(steps + 1), np.arange(nodes + 1))
    down, across = bins(steps, rows), bins(nodes, wide)
    coarse = np.zeros((down.size - 1, across.size - 1), np.int8)
    np.maximum.at(coarse, (row_of(down)[:, None], row_of(across)[None, :]), fine)
    assert np.array_equal(schedule_cells(simulation, down, across), coarse)


def test_thousands_of_steps_and_nodes_share_cells():
    plan = solve(differentiate(chain(350)), "30%", solver="chen_sqrt")
    assert len(plan.schedule) > plan.graph.n_nodes > 600
    ax = rendered(plot.schedule(plan))
    assert ax.images[0].get_array().shape == (600, 600)
    assert (ax.images[0].get_array().max(), ax.get_xlabel()) == (RECOMPUTED, "node id")


# ---------------------------------------------------------------- frontier


def test_the_stairs_stand_on_the_plans():
    found = curves()
    ax = plot.frontier(found)
    for solver, curve in found.curves.items():
        x, y = line(ax, solver).get_data()
        assert x[:-1].tolist() == [plan.peak_memory for plan in curve]
        assert y[:-1] == pytest.approx([100 * plan.overhead / found.bound_compute for plan in curve])
        assert (x[-1], y[-1]) == (found.base, y[-2])
    x, _ = line(ax, "best of all").get_data()
    assert x[:-1].tolist() == [plan.peak_memory for plan in found.plans]
    assert line(ax, "without rematerialization").get_data() == ([found.base], [0])
    (bound,) = [patch for patch in ax.patches if patch.get_label() == "bound"]
    assert (bound.get_x(), bound.get_width()) == (0, found.bound_memory)


def test_bounds_are_drawn_at_the_plans_only():
    """Between two plans the bound is not known, and a line would say that it is."""
    found = curves()
    ax = plot.frontier(found)
    bound = line(ax, "lower bound")
    assert (bound.get_linestyle(), bound.get_marker()) == ("None", "_")
    x, y = bound.get_data()
    assert list(x) == [plan.peak_memory for plan in found.plans]
    assert y == pytest.approx([100 * (plan.bound.amount / found.bound_compute - 1) for plan in found.plans])
    on_the_stair = sum(plan.bound.amount == plan.simulation.compute for plan in found.plans)
    assert on_the_stair > 0
    assert f"{on_the_stair} of {len(found.plans)} plans proven optimal" in legend(ax)


def test_each_of_many_solvers_has_a_look_of_its_own_and_its_name():
    plan = trained()
    found = Frontier(plan.graph, {f"solver {i}": (plan,) for i in range(14)}, 1, 1, plan.peak_memory)
    ax = plot.frontier(found)
    assert {f"solver {i} (1)" for i in range(14)} <= {*legend(ax)}
    drawn = [line(ax, f"solver {i}") for i in range(14)]
    assert len({(to_hex(each.get_color()), each.get_marker()) for each in drawn}) == 14
    assert overlapping(ax) == []


def test_the_legend_says_how_many_of_the_best_plans_are_of_a_solver():
    found = curves()
    said, best = legend(plot.frontier(found)), {id(plan) for plan in found.plans}
    for solver, curve in found.curves.items():
        shared = sum(id(plan) in best for plan in curve)
        assert not curve or (f"{solver} ({shared})" if shared else solver) in said


def test_a_frontier_without_plans_still_has_its_bound():
    graph = differentiate(chain(3))
    found = Frontier(graph, {"none": ()}, 4, 9, 5, stop=Stop.DEADLINE)
    ax = rendered(plot.frontier(found))
    assert legend(ax) == ["without rematerialization: 5 B", "no schedule: below 4 B"]
    assert ax.get_title().splitlines() == [
        "6 nodes; peak 5 B without rematerialization",
        "stopped early: incomplete",
    ]
    assert "stopped early" in plot.text("frontier", found)


def test_the_text_of_a_frontier_leaves_out_plans_between_the_ends():
    found = frontier(differentiate(chain(60, memory=1000)), solvers=["chen_sqrt"])
    curve = found.curves["chen_sqrt"]
    assert len(curve) > 12
    lines = plot.text("frontier", found, height=5).splitlines()
    at = lines.index(f"chen_sqrt: {len(curve)} plans, 5 shown")
    shown = [row.split()[1] for row in lines[at + 1 : at + 6]]
    assert [shown[0], shown[-1]] == [f"{plan.peak_memory / 1024:.3g}" for plan in (curve[0], curve[-1])]


# ---------------------------------------------------------------- graph


def test_the_kinds_of_nodes():
    graph = differentiate(chain(3))
    assert node_kinds(baseline(graph)).tolist() == ["kept"] * 3 + ["gradient"] * 3
    assert node_kinds(simulate(graph, [0, 1, 2, 3, 4, 0, 5])).tolist()[0] == "again"
    assert node_kinds(simulate(graph, [0, 1, 0, 2, 3, 4, 0, 5])).tolist()[0] == "often"
    assert node_kinds(baseline(EDGE_CASES["one that nobody needs"])).tolist() == ["idle", "kept"]


def test_what_the_backward_part_never_sees_is_freed():
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 2], read_indices=[0, 1], forward_of=[-1, -1, 1], output=[False, False, True]
    )
    assert node_kinds(baseline(graph)).tolist() == ["freed", "kept", "gradient"]


def test_the_boxes_are_coloured_by_kind_and_count_the_runs():
    ax = plot.graph(diamond())
    found = {text.get_text(): to_hex(text.get_bbox_patch().get_facecolor()) for text in ax.texts}
    again, kept = (NODES[kind].colour.lower() for kind in ("again", "kept"))
    assert found == {"A \N{MULTIPLICATION SIGN}2": again, "B": kept, "C": kept}
    assert legend(ax) == ["kept (2)", "runs twice (1)", "makes an output (1)", "runs downwards"]


def test_many_nodes_are_dots_of_their_kind():
    plan = trained(chain(200, memory=1000))
    ax = plot.graph(plan)
    dots = [found for found in ax.collections if isinstance(found, PathCollection)]
    kinds = node_kinds(plan.simulation)
    drawn = dict(zip(NODES, (len(found.get_offsets()) for found in dots), strict=True))
    assert drawn == {kind: int((kinds == kind).sum()) for kind in NODES}
    assert sum(drawn.values()) == 400


def test_without_a_schedule_colours_tell_what_must_run_once():
    ax = plot.graph(differentiate(EDGE_CASES["only once"]))
    assert legend(ax)[:3] == ["must run only once (1)", "forward (1)", "gradient (2)"]


def test_a_graph_without_a_backward_part_speaks_of_no_parts():
    graph = chain(3)
    ax = plot.graph(graph)
    assert ax.get_title().splitlines()[0] == "3 nodes; 2 reads"
    assert legend(ax) == ["node (3)", "makes an output (1)", "runs downwards"]
    assert plot.text("graph", graph).splitlines()[2] == "█ 3 node"
    assert plot.graph(differentiate(graph)).get_title().startswith("6 nodes, 3 forward and 3 backward; ")


@given(graph=st.one_of(graphs(max_nodes=16), training_graphs(), captured_graphs()))
def test_nodes_of_a_layer_stand_apart_and_readers_below_what_they_read(graph):
    found = layout(graph)
    points, forward = found.points, graph.forward
    for layer in np.unique(points[:, 1]):
        here = np.flatnonzero(points[:, 1] == layer)
        for part in (here[forward[here]], here[~forward[here]]):
            gaps = np.diff(np.sort(points[part, 0]))
            assert (gaps > (1 if forward[part].all() else found.apart) - 1e-6).all()
        if forward[here].any() and not forward[here].all():
            assert points[here[forward[here]], 0].max() < points[here[~forward[here]], 0].min()
    indptr, sources = graph.predecessors
    for v in range(graph.n_nodes):
        for u in sources[indptr[v] : indptr[v + 1]].tolist():
            if forward[v]:
                assert points[u, 1] < points[v, 1]


@given(graph=st.one_of(graphs(max_nodes=16), training_graphs(), captured_graphs()))
def test_every_edge_is_a_way_of_lines_between_its_ends(graph):
    found = layout(graph)
    near = {}
    for a, b in found.inside.tolist() + found.across.tolist():
        for begin, end in ((a, b), (b, a)):
            near.setdefault(tuple(begin), []).append(tuple(end))
    nodes = {tuple(point) for point in found.points.tolist()}
    indptr, sources = graph.predecessors
    for v in range(graph.n_nodes):
        for u in sources[indptr[v] : indptr[v + 1]].tolist():
            goal, seen, front = tuple(found.points[u].tolist()), set(), [tuple(found.points[v].tolist())]
            while front and goal not in seen:
                point = front.pop()
                ahead = [step for step in near.get(point, ()) if step not in seen]
                seen.update(ahead)
                front += [step for step in ahead if step not in nodes]
            assert goal in seen


def test_a_long_edge_goes_round_the_nodes_between():
    found = layout(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (0, 3)]))
    by_layer = {layer: found.points[found.points[:, 1] == layer, 0] for layer in (1, 2)}
    bends = [point for piece in found.inside.tolist() for point in piece if point not in found.points.tolist()]
    assert len(bends) == 4  # each of two bends ends one piece and begins another
    assert all(abs(place - by_layer[layer]).min() > 0.5 for place, layer in bends)


@pytest.mark.parametrize("training", [False, True])
def test_each_edge_of_named_nodes_has_a_head_on_the_side_of_its_reader(training):
    graph = ComputationGraph.from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    graph = differentiate(graph) if training else graph
    ax = plot.graph(graph)
    place = {text.get_text(): text.get_position() for text in ax.texts}
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    indptr, sources = graph.predecessors
    assert len(arrows) == len(sources)
    arrivals = sorted(name_nearest(place, patch) for patch in arrows)
    assert arrivals == sorted(graph.labels[v] for v in range(graph.n_nodes) for _ in range(indptr[v + 1] - indptr[v]))


def name_nearest(place, patch):
    """The name at which an arrow points: the nearest to its end, in the direction that it has."""
    (x, y), (u, w) = patch._posA_posB
    ahead = {name: (p[0] - u, p[1] - w) for name, p in place.items()}
    along = {name: dx * (u - x) + dy * (w - y) for name, (dx, dy) in ahead.items()}
    return min((name for name in place if along[name] > 0), key=lambda name: ahead[name][0] ** 2 + ahead[name][1] ** 2)


# ---------------------------------------------------------------- every picture


def drawable(graph):
    """What each picture takes."""
    return dict.fromkeys(PLOTS, baseline(graph)) | {"frontier": frontier_of(graph)}


@pytest.mark.parametrize("graph", EDGE_CASES.values(), ids=EDGE_CASES)
def test_edge_cases_are_drawn_and_their_texts_keep_to_the_width(graph):
    for picture, thing in drawable(graph).items():
        ax = (PLOTS | {"frontier": plot.frontier})[picture](thing)
        assert rendered(ax).get_title()  # warnings of missing room and glyphs are errors
        for width in (40, 72, 100):
            text = plot.text(picture, thing, width=width)
            assert max(cell_len(row) for row in text.split("\n")) <= width


@pytest.mark.parametrize("picture", PLOTS)
@given(simulation=simulations(), width=st.integers(0, 90), height=st.integers(0, 30))
def test_texts_of_random_schedules_keep_to_the_width(picture, simulation, width, height):
    rows = plot.text(picture, simulation, width=width, height=height).split("\n")
    assert max(map(cell_len, rows)) <= max(40, width)
    assert all(row == row.rstrip() for row in rows)


LARGE = {
    "chain": lambda: trained(chain(60, memory=10**6)),
    "u": lambda: trained(u_shape(5, memory=10**6)),
    "names": lambda: baseline(EDGE_CASES["names"]),
    "small": diamond,
}


def overlapping(ax):
    """Pairs of texts that lie over each other; ticks beyond the ends of an axis are not drawn."""
    figure = rendered(ax).get_figure()
    beyond = {
        id(text)
        for axis in (ax.xaxis, ax.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for text in (tick.label1, tick.label2)
    }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if id(text) not in beyond]
    return [
        (one, other)
        for (one, x), (other, y) in itertools.combinations(boxes, 2)
        if min(x.x1, y.x1) - max(x.x0, y.x0) > 1 and min(x.y1, y.y1) - max(x.y0, y.y0) > 1
    ]


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_no_text_lies_over_another(make, draw):
    assert overlapping(draw(make())) == []


def test_a_glyph_that_is_missing_would_be_seen():
    ax = plot.graph(diamond())
    ax.texts[0].set_text("日")
    with pytest.warns(UserWarning, match="Glyph"):
        rendered(ax)


@pytest.mark.parametrize("picture", ["memory", "schedule"])
def test_a_graph_stands_for_its_run_without_rematerialization(picture):
    graph = differentiate(chain(5))
    assert plot.text(picture, graph) == plot.text(picture, baseline(graph))


@pytest.mark.parametrize("picture", PLOTS)
def test_what_cannot_be_drawn_is_refused(picture):
    for draw in (PLOTS[picture], partial(plot.text, picture)):
        with pytest.raises(TypeError, match="subject is a dict; give a Plan, a Simulation or a ComputationGraph"):
            draw({})


def test_a_picture_without_characters_is_refused():
    with raises(ArgumentError, picture="lattice"):
        plot.text("lattice", diamond())
    with pytest.raises(TypeError, match="unexpected keyword argument 'height'"):
        plot.text("breakdown", diamond(), height=4)


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
def test_given_axes_are_drawn_on(draw):
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    assert draw(trained(), ax=axes[1]) is axes[1]
    assert figure.axes == list(axes)
    assert not axes[0].has_data()
    rendered(axes[1])


def test_settings_stay_as_they_are(tmp_path):
    before = dict(matplotlib.rcParams)
    plot.save(plot.memory(trained()), tmp_path / "memory.svg")
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_loaded_by_what_draws_and_no_window_manager_hears_of_it():
    """The hook of notebooks is there after `import remat_algos`."""
    code = """
        import sys
        from remat_algos import plot
        from remat_algos.zoo.random import chain
        plot.addresses, plot.text
        assert not {"matplotlib", "remat_algos.plot.html"} & set(sys.modules)
        assert "<svg" in chain(3)._repr_html_()
        for draw in (plot.graph, plot.memory, plot.schedule):
            draw(chain(3))
        assert "matplotlib.pyplot" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


@pytest.mark.parametrize("looks", [ROLES.values(), CELLS], ids=["roles", "cells"])
def test_what_lies_side_by_side_differs_in_grey_or_by_hatching(looks):
    def grey(look):
        red, green, blue = (int(look.colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for one, other in itertools.combinations(looks, 2):
        assert one.character != other.character
        assert abs(grey(one) - grey(other)) > 25 or one.hatch != other.hatch


# ---------------------------------------------------------------- names


@given(name=st.text("ab_. é日本ש\u0301😀\U0001d4b3"), most=st.integers(1, 30))
def test_a_name_is_shortened_to_what_fits(name, most):
    assert len(shortened(name, most)) <= most or len(name) <= most
    assert cell_len(fitted(name, most)) == most


def test_names_are_no_formulas_and_miss_no_glyph():
    assert label("$x_1$") == r"\$x_1\$"
    assert label("日x") == "?x"
    ax = plot.graph(named(["$x_1$", "$"]))
    assert ax.texts[0]._preprocess_math(ax.texts[0].get_text()) == ("$x_1$", False)  # what is drawn


# ---------------------------------------------------------------- texts


def lines(text):
    return textwrap.dedent(text).strip("\n").split("\n")


def test_memory_in_characters():
    assert plot.text("memory", diamond(), limit=8, width=44, height=5).split("\n") == lines(
        """
        peak 7 B, as without recomputation, for 33.3
        % more compute
        3 nodes in 4 steps, 1 extra run; budget 8 B
             8 B │─────────────▼────────────────────
                 │            ▒▒▒▒
                 │    ████▒▒▒▒▒▒▒▒
                 │████████▒▒▒▒████
                 │████████████████
               0 └────────────────
            step  0              3
        █ kept  ▒ recomputed  ─ budget
        at the peak, step 3, C:
          ▒     4 B  A
          █     2 B  B
          █     1 B  C
        """
    )


def test_schedule_in_characters():
    graph = differentiate(ComputationGraph.from_edges([("conv", "relu"), ("relu", "loss")]))
    assert plot.text("schedule", simulate(graph, [0, 1, 2, 3, 4, 0, 5])).split("\n") == lines(
        """
        peak 4 B instead of 5 B for 14.3 % more compute
        6 nodes in 7 steps, 1 extra run
        █ first run  ▒ recomputed  │ live  · not live
        step  node        012345
           0  conv        █·····
           1  relu        │█····
           2  loss        ·│█···
           3  grad(loss)  ·││█··
           4  grad(relu)  ·│││█·
           5  conv        ▒│··│·
           6  grad(conv)  ││··│█
        """
    )


def test_a_large_schedule_in_characters_shares_lines_and_columns():
    assert plot.text("schedule", baseline(differentiate(chain(2500))), width=60, height=5).split("\n")[2:] == lines(
        """
        a line stands for up to 1,000 steps, a column for up to 120
        nodes
        █ first run  ▒ recomputed  │ live  · not live
        step  node        0         1190      2380      3571
           0  0           █████████·································
        1000  1000        ││││││││█████████·························
        2000  2000        ││││││││││││││││██████████················
        3000  grad(1999)  │││││││││││││││││········█████████········
        4000  grad(999)   │││││││││························█████████
        """
    )


def test_a_graph_in_characters_leaves_out_the_middle():
    assert plot.text("graph", simulate(differentiate(chain(3)), [0, 1, 2, 3, 4, 0, 5]), height=4).split("\n") == lines(
        """
        peak 4 B instead of 5 B for 14.3 % more compute
        6 nodes in 7 steps, 1 extra run
        █ 2 kept  ▒ 1 runs twice  ░ 3 gradient
          node       bytes  reads
        ▒ 0 \N{MULTIPLICATION SIGN}2         1 B
        █ 1            1 B  0
          … 2 more nodes
        ░ grad(1)      1 B  grad(2), 1, 2
        ░ grad(0)      1 B  grad(1), 0, 1
        """
    )


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(("kind", "begin"), [("PNG", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_is_written_the_same_each_time(tmp_path, kind, begin):
    files = [tmp_path / f"{i}.{kind}" for i in range(2)]
    for file in files:
        plot.save(plot.memory(trained()), file)
    first, second = (file.read_bytes() for file in files)
    assert first.startswith(begin)
    assert first == second
    assert sorted(tmp_path.iterdir()) == files


def test_a_figure_and_axes_inside_another_figure_are_written_whole(tmp_path):
    figure = Figure(figsize=(8, 3))
    inner = figure.subfigures(1, 2)[0]
    ax = plot.graph(diamond(), ax=inner.subplots())
    plot.save(figure, tmp_path / "figure.svg")
    plot.save(ax, tmp_path / "axes.svg")
    assert (tmp_path / "figure.svg").read_bytes() == (tmp_path / "axes.svg").read_bytes()


@pytest.mark.parametrize("name", ["x.gif", "x", "x.png.txt", "no/x.png"])
def test_other_endings_and_a_missing_folder_are_refused_and_nothing_is_left(tmp_path, name):
    picture = plot.memory(diamond())
    with raises(ArgumentError, path=tmp_path / name) if "/" not in name else pytest.raises(FileNotFoundError):
        plot.save(picture, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a chain of nine nodes."""
    write_graph(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]), tmp_path / "chain.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLOT_ERRORS = {
    "ending": (["--plot", "x.gif"], "x.gif"),
    "folder": (["--plot", "no/x.png"], "folder no"),
    "json": (["--plot", "-", "--json"], "--plot - and --json"),
    "json first": (["--json", "--plot", "-"], "--plot - and --json"),
    "no plot": (["--picture", "memory"], "--plot"),
    "no such picture": (["--plot", "-", "--picture", "song"], "'song'"),
}


@pytest.mark.parametrize("command", ["solve", "simulate", "show"])
@pytest.mark.parametrize(("words", "wanted"), PLOT_ERRORS.values(), ids=PLOT_ERRORS)
def test_what_cannot_be_plotted_is_said_before_the_work(folder, capsys, command, words, wanted):
    assert main([command, "not there.txt", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert wanted in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "picture"),
    [
        (["solve", "--budget", "70%"], "memory"),
        (["solve", "--budget", "70%", "--picture", "schedule"], "schedule"),
        (["solve", "--budget", "70%", "--picture", "graph"], "graph"),
        (["simulate", "--picture", "schedule"], "schedule"),
        (["show"], "graph"),
        (["show", "--picture", "memory"], "memory"),
        (["frontier"], "frontier"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_the_command_line_draws(folder, capsys, words, picture):
    assert main(with_budget([words[0], "chain.json", *words[1:], "--plot", "x.png"])) == 0
    assert capsys.readouterr().out.endswith("drawn        x.png\n")
    assert (folder / "x.png").read_bytes().startswith(b"\x89PNG")
    assert main(with_budget([words[0], "chain.json", *words[1:], "--plot", "-"])) == 0
    marks = {"memory": "at the peak", "schedule": "█ first run", "graph": "bytes  reads", "frontier": "of base  overh"}
    assert marks[picture] in capsys.readouterr().out


def test_beside_json_the_picture_is_written_in_silence(folder, capsys):
    assert main(["show", "chain.json", "--plot", "x.svg", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert out.endswith("}\n")
    assert err == ""
    assert (folder / "x.svg").exists()


def test_beside_an_order_on_standard_output_the_note_goes_elsewhere(folder, capsys):
    assert main(["solve", "chain.json", "--budget", "least", "--format", "names", "--plot", "x.svg"]) == 0
    out, err = capsys.readouterr()
    assert "drawn" not in out
    assert err.endswith("drawn        x.svg\n")


def test_on_a_terminal_texts_are_as_wide_as_it_is(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["show", "chain.json", "--picture", "memory", "--plot", "-"]) == 0
    picture = capsys.readouterr().out.partition("18 nodes in 18 steps")[2]
    assert max(map(cell_len, picture.splitlines())) <= 50


def test_a_graph_too_large_to_be_seen_is_refused():
    with raises(ArgumentError, n_nodes=50_001, max_drawn=50_000):
        plot.graph(ComputationGraph.from_edges([], n_nodes=50_001))
