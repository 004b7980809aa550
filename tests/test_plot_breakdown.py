"""Pictures of a breakdown: stacks add up to what they show, text and picture agree."""

import pytest
from hypothesis import given, settings
from matplotlib.figure import Figure

from remat_algos import plot
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.questions.breakdown import breakdown
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build
from tests.strategies import training_graphs
from tests.test_plot import legend, rendered


def network():
    return differentiate(build("vgg11", batch=1, image=64).graph)


def tops(ax):
    """The height of each stack, by its place."""
    found = {}
    for bars in ax.containers:
        for bar in bars:
            place = round(bar.get_x() + bar.get_width() / 2, 6)
            found[place] = found.get(place, 0) + bar.get_height()
    return [found[place] for place in sorted(found)]


@settings(max_examples=10)
@given(graph=training_graphs())
def test_both_stacks_are_as_high_as_the_footprint(graph):
    found = breakdown(graph)
    heights = tops(plot.breakdown(found))
    assert heights == ([found.footprint] * 2 if found.footprint else [])


def test_several_stand_side_by_side_under_their_names():
    graph = network()
    ax = plot.breakdown({"baseline": graph, "least": solve(graph, "least", solver="chen_sqrt")})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["baseline", "least"]
    assert len(tops(ax)) == 4
    assert "baseline relative to the others: least " in ax.get_title()
    rendered(ax)


def test_compute_is_in_shares_of_the_first_pass():
    graph = network()
    plan = solve(graph, "least", solver="chen_sqrt")
    heights = tops(plot.breakdown({"baseline": graph, "least": plan}, of="compute"))
    assert heights == pytest.approx([100, 100 * plan.simulation.compute / graph.needed_compute])


def test_the_legend_names_layers_and_structures():
    ax = Figure().add_subplot()
    assert plot.breakdown(network(), ax=ax) is ax
    entries = legend(ax)
    assert {"by layer:", "by data structure:", "convolution", "feature maps", "weights"} <= {*entries}


def test_a_pass_of_cost_1_is_all_of_itself():
    graph = ComputationGraph.from_edges([(0, 1)], compute=[1, 0])
    assert tops(plot.breakdown(graph, of="compute")) == [100]


@pytest.mark.parametrize("of", ["memory", "compute"])
def test_what_is_left_of_many_types_is_not_called_as_one_of_them(of):
    ops = [f"op{k}" for k in range(10)]
    labels = Labels(names=tuple(f"v{k}" for k in range(10)), ops=tuple(ops))
    graph = ComputationGraph.from_edges([(k, 9) for k in range(9)], memory=4, compute=4, labels=labels)
    found = breakdown(graph)
    entries = legend(plot.breakdown(found, of=of))
    assert ("small layers" in entries or "small operations" in entries) == (len(found.types) > 7)
    assert "others" not in entries


def test_text_tells_the_same_figures():
    found = breakdown(network())
    text = plot.text("breakdown", {"vgg": found}, width=60)
    assert text.startswith("vgg\nfootprint ")
    assert all(len(line) <= 60 for line in text.splitlines()[2:])
    assert {"by layer", "by data structure", "compute by layer"} <= {*text.splitlines()}


def test_an_empty_graph_is_drawn_too():
    empty = ComputationGraph.from_edges([])
    rendered(plot.breakdown(empty))
    rendered(plot.breakdown(empty, of="compute"))
    assert plot.text("breakdown", empty).startswith("footprint 0 B")


@pytest.mark.parametrize(
    ("given", "of", "message"), [({}, "memory", "nothing to draw"), (None, "time", "memory or compute")]
)
def test_what_cannot_be_drawn_is_said(given, of, message):
    with pytest.raises(ValueError, match=message):
        plot.breakdown(network() if given is None else given, of=of)
