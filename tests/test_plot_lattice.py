"""The pictures of lower sets: all are there, joined as they cover each other; peaks of blocks are simulated."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from remat_algos import plot
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward
from remat_algos.plot.colours import BLUE, PALE, WHITE
from remat_algos.plot.pictures.lattice import TERMS, covers, peaks_of_blocks, places
from remat_algos.schedule.emission import canonical_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.structure.lower_sets import FAMILIES, LowerSets, lower_set_family
from remat_algos.zoo.random import chain
from tests.raising import raises
from tests.strategies import graphs, lower_set_chains, training_graphs
from tests.test_plot import legend, overlapping, rendered


def eight():
    """a -> b -> c -> f -> g -> h and a -> d -> e -> f; gradients read what their nodes read."""
    pairs = [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5), (5, 6), (6, 7)]
    edges = [("abcdefgh"[u], "abcdefgh"[v]) for u, v in pairs]
    graph = ComputationGraph.from_edges(edges, [4, 2, 2, 1, 2, 4, 6, 1], [6, 5, 1, 6, 3, 1, 4, 1])
    reads = Backward(graph.read_indptr, graph.read_indices, graph.memory, [-1] * 8, [0] * 8)
    return differentiate(replace(graph, backward=reads))


def optimum(graph):
    return LowerSets.of(graph, [[0, 1, 3], [0, 1, 3, 4], range(6), range(7), range(8)])


def long_names():
    edges = [("conv1", "relu1"), ("relu1", "conv2"), ("relu1", "pool"), ("conv2", "concat"), ("pool", "concat")]
    return differentiate(ComputationGraph.from_edges(edges, memory=4_000_000, compute=10))


def as_sets(family):
    """The members of each lower set, as places among the nodes."""
    return [{j for j in range(family.nodes.size) if int(row[j // 64]) >> (j % 64) & 1} for row in family.words]


def members(family):
    return np.array([[j in row for j in range(family.nodes.size)] for row in as_sets(family)], bool)


# ---------------------------------------------------------------- where sets stand


@given(graph=graphs(max_nodes=7, min_nodes=1), name=st.sampled_from(FAMILIES))
def test_lines_join_sets_between_which_there_is_none(graph, name):
    family = lower_set_family(graph, name)
    sets = as_sets(family)
    wanted = [
        [i, j]
        for i, small in enumerate(sets)
        for j, large in enumerate(sets)
        if small < large and not any(small < other < large for other in sets)
    ]
    assert covers(members(family)).tolist() == wanted


@given(graph=graphs(max_nodes=7, min_nodes=1), name=st.sampled_from(FAMILIES))
def test_sets_stand_at_their_size_and_apart_from_each_other(graph, name):
    family = lower_set_family(graph, name)
    points = places(members(family)).tolist()
    assert [level for _, level in points] == [len(row) for row in as_sets(family)]
    assert all(abs(x - u) > 1 - 1e-9 for (x, y), (u, v) in combinations(points, 2) if y == v)


def test_lines_of_two_branches_are_parallel_and_end_above_their_beginning():
    """Adding b or c leads to the left, adding d or e to the right, by the same half place; all else leads upwards."""
    family = lower_set_family(eight())
    points, sets = places(members(family)), as_sets(family)
    steps = {
        ("abcdefgh"[min(sets[j] - sets[i])], *(points[j] - points[i]).round(9).tolist())
        for i, j in covers(members(family)).tolist()
    }
    assert steps == {("a", 0, 1), ("f", 0, 1), ("g", 0, 1), ("h", 0, 1)} | {
        *{("b", -0.5, 1), ("c", -0.5, 1), ("d", 0.5, 1), ("e", 0.5, 1)}
    }


# ---------------------------------------------------------------- the lattice


def boxes(ax):
    """Colour of each box, by its name."""
    return {
        text.get_text(): to_hex(text.get_bbox_patch().get_facecolor()).upper()
        for text in ax.texts
        if text.get_bbox_patch() is not None
    }


def test_boxes_say_which_sets_the_chain_has_and_which_it_passes():
    """Of the block {c, f} the forward part runs c first, which passes {a, b, c, d, e}."""
    found = {}
    for name, colour in boxes(plot.lattice(eight(), optimum(eight()))).items():
        found.setdefault(colour, set()).add(name)
    assert found == {
        BLUE: {"abd", "abde", "abcdef", "abcdefg", "abcdefgh"},
        PALE: {"∅", "a", "ab", "abcde"},
        WHITE: {"ad", "abc", "ade", "abcd"},
    }


def test_the_way_rises_by_one_node_at_a_time():
    graph = eight()
    (way,) = [line for line in plot.lattice(graph, optimum(graph)).lines if line.get_label() == "path"]
    assert np.diff(way.get_ydata()) == pytest.approx(np.diff(way.get_ydata())[0])
    assert len(way.get_ydata()) == 9


def test_beside_the_sets_stands_what_the_formulas_say():
    """A hand computation. Run again are a (6), c (1) and h (1); kept are b, d | e | f | g.

    block {a, b, d}   2 * (4 + 2 + 1)  + c, e: 2 + 2                       = 18
    block {e}         b, d: 3     + 2 * 2         + c, f: 6   + c beside: 2  = 15
    block {c, f}      b, d, e: 5  + 2 * (2 + 4)   + g: 6                     = 23
    block {g}         and f: 9    + 2 * 6         + h: 1                     = 22
    block {h}         and g: 15   + 2 * 1                                    = 17
    """
    graph = eight()
    ax = plot.lattice(graph, optimum(graph))
    rows = sorted((text.get_position()[1], text.get_text()) for text in ax.texts if text.get_ha() == "left")
    assert [" ".join(row.split()) for _, row in rows] == [
        *("abd 6 3 B 18 B", "e 6 5 B 15 B", "cf 7 9 B 23 B", "g 7 15 B 22 B", "h 8 15 B 17 B"),
        "adds reruns kept formula (2)",
    ]
    assert ax.get_title().splitlines() == [
        "13 lower sets of 8 nodes",
        "5 blocks; overhead 8 by formula (1), peak 23 B by formula (2)",
    ]
    assert legend(ax)[:3] == ["set of the chain (5)", "between sets of the chain (4)", "other lower set (4)"]


def test_the_title_of_a_narrow_lattice_has_two_lines():
    graph = differentiate(chain(3, memory=10))
    ax = plot.lattice(graph, LowerSets.of(graph, [range(1), range(3)]))
    assert [text.split()[0] for text in ax.get_title().splitlines()] == ["4", "2"]


def test_sets_of_long_names_are_named_by_the_members_that_none_reads():
    found = [text.get_text() for text in plot.lattice(long_names()).texts]
    assert found == ["∅", "conv1", "relu1", "conv2", "pool", "conv2, pool", "concat"]


def test_many_sets_are_dots_that_lie_on_their_side():
    graph = chain(120)
    ax = rendered(plot.lattice(graph, LowerSets.of(graph, [range(40), range(120)])))
    (dots,) = [found for found in ax.collections if isinstance(found, PathCollection)]
    assert len(dots.get_offsets()) == 121
    assert dots.get_offsets()[dots.get_sizes() > 16, 0].tolist() == [40, 120]
    assert not ax.texts


def test_a_small_family_is_drawn_as_it_is():
    graph = eight()
    ax = plot.lattice(lower_set_family(graph, "pruned"))
    assert sorted(boxes(ax)) == sorted(["∅", "a", "ab", "abc", "ad", "ade", "abcdef", "abcdefg", "abcdefgh"])
    (lines,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    assert len(lines.get_segments()) == 9  # {a, b, c} and {a, d, e} are both joined with {a, .., f}


def test_a_path_with_a_set_that_the_family_lacks_is_refused():
    graph = eight()
    with raises(ArgumentError, i=0):
        plot.lattice(lower_set_family(graph, "wide"), optimum(graph))
    with pytest.raises(GraphError):
        plot.lattice(chain(5), optimum(graph))


def test_too_many_sets_are_refused_in_one_sentence():
    """Nine nodes that read nothing have 2^9 = 512 lower sets."""
    graph = ComputationGraph.from_edges([], n_nodes=9, output=[True] * 9)
    with raises(ArgumentError, max_drawn=500):
        plot.lattice(graph)
    with raises(ArgumentError, n_sets=512, max_drawn=500):
        plot.lattice(lower_set_family(graph))
    assert len(plot.lattice(lower_set_family(graph, "pruned")).texts) == 11


# ---------------------------------------------------------------- the terms


@given(data=st.data(), keep_last=st.booleans(), lazy=st.booleans())
def test_the_highest_block_is_the_simulated_peak(data, keep_last, lazy):
    graph = data.draw(training_graphs(max_nodes=24))
    sets = LowerSets.of(graph, data.draw(lower_set_chains(graph)))
    simulation = simulate(graph, canonical_schedule(graph, sets, keep_last=keep_last, lazy=lazy))
    held = peaks_of_blocks(simulation, sets)
    assert held.shape == (len(sets),)
    assert held.max(initial=0) == simulation.peak_memory


def test_what_runs_again_belongs_to_the_block_that_it_serves():
    """Four nodes of 1, 2, 4 and 8 bytes in two blocks, gradients of 1 byte that read what their nodes read.

    step    0   1   2   3  |  2   3  grad(3)  grad(2)  |  grad(1)    0    grad(0)
    holds   0  01  12 123  | 12 123      123       12  |        1    0          0   and one or two gradients
    bytes   1   3   6  14  |  6  14       15        8  |        4    2          3
    block   0   0   1   1  |  1   1        1        1  |        0    0          0
    """
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [1, 2, 4, 8], 1)
    reads = Backward(graph.read_indptr, graph.read_indices, [1] * 4, [-1] * 4, [0] * 4)
    training = differentiate(replace(graph, backward=reads))
    sets = LowerSets.of(training, [[0, 1], [0, 1, 2, 3]])
    simulation = simulate(training, canonical_schedule(training, sets, keep_last=False))
    assert simulation.schedule.names(training) == [
        *("0", "1", "2", "3", "2", "3", "grad(3)", "grad(2)", "grad(1)", "0", "grad(0)")
    ]
    assert simulation.memory_trace.tolist() == [1, 3, 6, 14, 6, 14, 15, 8, 4, 2, 3]
    assert peaks_of_blocks(simulation, sets).tolist() == [4, 15]


def bars(ax):
    return {bar.get_label(): [patch.get_height() for patch in bar] for bar in ax.containers}


def test_bars_are_the_terms_and_what_is_held():
    graph = eight()
    sets = optimum(graph)
    ax = plot.terms(graph, sets, keep_last=False, lazy=False)
    found = bars(ax)
    assert [found[look.label] for look in TERMS] == sets.terms(graph).T.tolist()
    simulation = simulate(graph, canonical_schedule(graph, sets, keep_last=False, lazy=False))
    assert found["simulated"] == peaks_of_blocks(simulation, sets).tolist()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["abd", "e", "cf", "g", "h"]
    assert ax.get_title().splitlines() == [
        "5 blocks; by formulas (1) and (2) overhead 8 and peak 23 B",
        f"simulated: overhead 8 and peak {simulation.peak_memory} B",
    ]


def test_numbers_stand_on_the_bars_where_they_have_room():
    graph = differentiate(chain(60, memory=1000))
    few = plot.terms(graph, LowerSets.of(graph, [range(30), range(60)]))
    many = plot.terms(graph, LowerSets.of(graph, [range(i + 1) for i in range(60)]))
    assert "58.6 KiB" in [text.get_text() for text in few.texts]  # 2 * 30 of the first block
    assert not many.texts


# ---------------------------------------------------------------- both


def three_branches():
    edges = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (0, 7), (3, 8), (6, 8), (7, 8), (8, 9)]
    return differentiate(ComputationGraph.from_edges(edges, memory=10**6))


PATHS = {
    "eight": lambda: (eight(), optimum(eight())),
    "long names": lambda: (long_names(), LowerSets.of(long_names(), [[0, 1], [0, 1, 3], range(5)])),
    "three branches": lambda: (three_branches(), LowerSets.of(three_branches(), [[0, 1, 4], range(9), range(10)])),
    "chain": lambda: (differentiate(chain(25)), LowerSets.of(differentiate(chain(25)), [range(12), range(25)])),
    "one node": lambda: (differentiate(chain(1)), LowerSets.of(differentiate(chain(1)), [[0]])),
}


@pytest.mark.parametrize("make", PATHS.values(), ids=PATHS)
def test_no_text_lies_over_another(make):
    graph, path = make()
    assert overlapping(plot.lattice(graph, path)) == []
    assert overlapping(plot.terms(graph, path)) == []


@pytest.mark.parametrize("draw", [plot.lattice, plot.terms])
def test_given_axes_are_drawn_on(draw):
    figure = Figure(figsize=(16, 5), layout="constrained")
    axes = figure.subplots(1, 2)
    graph = eight()
    assert draw(graph, optimum(graph), ax=axes[1]) is axes[1]
    assert not axes[0].has_data()
    assert overlapping(axes[1]) == []


def test_axes_without_room_for_names_get_dots():
    figure = Figure(figsize=(4, 3), layout="constrained")
    assert not plot.lattice(eight(), ax=figure.add_subplot()).texts


def test_a_graph_without_nodes_has_one_lower_set():
    nothing = ComputationGraph.from_arrays(read_indptr=[0], read_indices=[])
    ax = rendered(plot.lattice(nothing))
    assert ([text.get_text() for text in ax.texts], ax.get_title()) == (["∅"], "1 lower set of 0 nodes")
