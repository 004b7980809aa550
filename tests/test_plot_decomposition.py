"""The picture of a decomposition: every bag is there with its vertices, and no box lies over another."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from remat_algos import plot
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot.colours import BLUE, MINT, ORANGE, PALE
from remat_algos.plot.pictures.decomposition import LEVELS, bag_tree, spread
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.separators import SeparatorTree
from tests.ladders import counterexample
from tests.raising import raises
from tests.test_plot import legend, overlapping, rendered


def path_of_five():
    """{q, f} - {p, q, v0} - {v0, a} - {a, b} - {b, c}, the decomposition of the counterexample."""
    graph = counterexample()
    names = [graph.labels[v] for v in range(graph.n_nodes)]
    bags = [[names.index(name) for name in bag.split()] for bag in ("q f", "p q v0", "v0 a", "a b", "b c")]
    found = TreeDecomposition.from_bags(bags, [(i, i + 1) for i in range(4)])
    found.verify(UndirectedGraph.of(graph))
    return graph, found


def star(bags, vertices=2):
    """A bag and others of so many vertices that hang on it."""
    return TreeDecomposition.from_bags(
        [range(vertices), *([0, *range(i * vertices, (i + 1) * vertices)] for i in range(1, bags))],
        [(0, i) for i in range(1, bags)],
    )


def path(bags):
    return TreeDecomposition.from_bags([[i, i + 1] for i in range(bags)], [(i, i + 1) for i in range(bags - 1)])


@st.composite
def decompositions(draw, max_bags=12):
    """Trees of bags of the right form; which graph they decompose is of no account here."""
    n = draw(st.integers(1, max_bags))
    edges = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    bags = [draw(st.sets(st.integers(0, 9), max_size=6)) for _ in range(n)]
    return TreeDecomposition.from_bags(bags, edges)


def boxes(ax):
    """Texts, the places of their boxes, and their colours."""
    rendered(ax)
    return {
        text.get_text(): (
            text.get_bbox_patch().get_window_extent(),
            to_hex(text.get_bbox_patch().get_facecolor()).upper(),
        )
        for text in ax.texts
    }


# ---------------------------------------------------------------- boxes


def test_the_root_is_on_top_and_every_bag_under_its_parent():
    graph, found = path_of_five()
    ax = plot.decomposition(found, graph=graph)
    assert [text.get_text() for text in ax.texts] == ["q f", "p v0 q", "a v0", "b a", "c b"]
    places = [text.get_position() for text in ax.texts]
    assert {x for x, _ in places} == {0}
    assert [y for _, y in places] == sorted(y for _, y in places)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # downwards
    assert ax.get_title().splitlines() == ["7 nodes, 7 reads", "5 bags, width 2"]
    assert {colour for _, colour in boxes(ax).values()} == {PALE}
    assert ax.get_legend() is None


def test_separators_have_the_colours_of_their_levels_and_brackets_for_what_upper_ones_own():
    """The middle bag {a, v0} owns both; below it {q, f} and {b} on level 2, then {p} and {c}."""
    graph, found = path_of_five()
    ax = plot.decomposition(found, graph=graph, separators=SeparatorTree.balanced(found, graph.n_nodes))
    assert {text: colour for text, (_, colour) in boxes(ax).items()} == {
        "a v0": BLUE,
        "q f": ORANGE,
        "b (a)": ORANGE,
        "p (v0) (q)": MINT,
        "c (b)": MINT,
    }
    assert legend(ax) == ["level 1 (1)", "level 2 (2)", "level 3 (2)", "in brackets: vertices of upper levels"]
    assert ax.get_title().splitlines()[1] == "5 bags, width 2; separators in 3 levels"
    x = {text: box.x0 + box.x1 for text, (box, _) in boxes(ax).items()}
    assert 2 * x["a v0"] == pytest.approx(x["p (v0) (q)"] + x["b (a)"], abs=2)


def test_many_levels_share_the_last_colour():
    """200 bags in a path make 8 balanced levels; sizes that draw the separators to one side make more."""
    ax = plot.decomposition(path(200), separators=SeparatorTree.balanced(path(200), 201))
    assert [row.split(" (")[0] for row in legend(ax)] == [f"level {i}" for i in range(1, 9)]
    deep = SeparatorTree.cheapest(path(200), [1000 if i % 3 else 1 for i in range(201)])
    assert deep.depth > len(LEVELS)
    rows = legend(plot.decomposition(path(200), separators=deep))
    assert rows[-1].startswith(f"level {len(LEVELS)} and deeper (")
    assert sum(int(row.split("(")[1].rstrip(")")) for row in rows) == 200


def test_names_are_those_given_then_labels_then_ids():
    graph, found = path_of_five()
    texts = [text.get_text() for text in plot.decomposition(found, "ABCDEFG", graph=graph).texts]
    assert texts[0] == "F G"
    undirected = UndirectedGraph.of(graph)
    ax = plot.decomposition(found, graph=undirected)
    assert ax.texts[0].get_text() == "5 6"
    assert ax.get_title().splitlines()[0] == "7 vertices, 7 edges"


def test_long_bags_are_wrapped():
    """Forty names of three letters, 160 with the spaces between them: lines of at most 2.2 * sqrt(160) = 28."""
    found = TreeDecomposition.from_bags([range(100, 140)], [])
    (text,) = plot.decomposition(found).texts
    lines = text.get_text().splitlines()
    assert " ".join(lines).split() == [str(v) for v in range(100, 140)]
    assert [len(line) for line in lines] == [27, 27, 27, 27, 27, 19]


def test_a_bag_without_vertices_and_a_decomposition_of_nothing():
    assert [text.get_text() for text in plot.decomposition(TreeDecomposition.from_bags([[]], [])).texts] == ["∅"]
    nothing = TreeDecomposition([0], [], [])
    ax = rendered(plot.decomposition(nothing, separators=SeparatorTree.balanced(nothing, 0)))
    assert (list(ax.texts), ax.get_title()) == ([], "0 bags, width -1; separators in 0 levels")


@settings(max_examples=15)
@given(found=decompositions())
def test_boxes_stand_in_rows_apart_from_each_other_and_parents_above_their_children(found):
    tree = bag_tree(found)
    half = [0.3 + 0.1 * len(words) for words in tree.words]
    x = spread(tree, [2 * each for each in half], 0.2)
    for i, j in combinations(range(found.n_bags), 2):
        if tree.depth[i] == tree.depth[j]:
            assert abs(x[i] - x[j]) >= half[i] + half[j] + 0.2 - 1e-9
    for bag, children in enumerate(tree.children):
        assert sorted(tree.order.index(child) > tree.order.index(bag) for child in children) == [True] * len(children)
        if children:
            assert x[bag] == pytest.approx((x[children[0]] + x[children[-1]]) / 2)


# ---------------------------------------------------------------- sizes


PICTURES = {
    "counterexample": lambda: path_of_five()[::-1],
    "star": lambda: (star(9), None),
    "wide bags": lambda: (star(4, vertices=30), None),
    "one": lambda: (path(1), None),
}


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_no_text_lies_over_another(make):
    found, graph = make()
    n = int(found.bag_indices.max()) + 1
    ax = plot.decomposition(found, graph=graph, separators=SeparatorTree.balanced(found, n))
    assert overlapping(ax) == []
    assert not any(a.overlaps(b) for (a, _), (b, _) in combinations(boxes(ax).values(), 2))


def test_lines_cross_no_box_but_those_that_they_join():
    """Of a parent far to the side the line runs upright beside the higher boxes of the row."""
    names = ["x"] * 3 + [f"name{v}" for v in range(40)]
    bags = [[0, 1], [0, *range(3, 40)], [1], [2]]
    ax = plot.decomposition(TreeDecomposition.from_bags(bags, [(0, 1), (0, 2), (0, 3)]), names)
    rendered(ax)
    (lines,) = [found for found in ax.collections if isinstance(found, LineCollection)]
    drawn = [ax.transData.transform(segment) for segment in lines.get_segments()]
    around = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
    assert len(drawn) == 3
    for child, line in enumerate(drawn, start=1):
        slanted = line[1:3]
        for box in around:
            assert box.y1 <= slanted[:, 1].min() + 2 or box.y0 >= slanted[:, 1].max() - 2
        assert around[child].contains(*line[3])


def test_many_bags_are_dots_that_lie_on_their_side():
    ax = rendered(plot.decomposition(path(120)))
    (dots,) = [found.get_offsets() for found in ax.collections if isinstance(found, PathCollection)]
    assert dots[:, 0].tolist() == list(range(120))
    assert not ax.texts


def test_axes_without_room_for_names_get_dots_and_those_given_are_drawn_on():
    figure = Figure(figsize=(3, 3), layout="constrained")
    assert not plot.decomposition(star(9), ax=figure.add_subplot()).texts
    axes = Figure(figsize=(16, 5), layout="constrained").subplots(1, 2)
    graph, found = path_of_five()
    separators = SeparatorTree.balanced(found, 7)
    assert plot.decomposition(found, graph=graph, separators=separators, ax=axes[1]) is axes[1]
    assert len(axes[1].texts) == 5
    assert overlapping(axes[1]) == []
    assert not axes[0].has_data()


# ---------------------------------------------------------------- what is refused


def test_what_does_not_fit_together_is_refused_in_one_sentence():
    _, found = path_of_five()
    with raises(ArgumentError, n_bags=201, max_drawn=200):
        plot.decomposition(path(201))
    with raises(ArgumentError, n_named=3, largest=6):
        plot.decomposition(found, "abc")
    with raises(ArgumentError, n_separators=3, n_bags=5):
        plot.decomposition(found, separators=SeparatorTree.balanced(path(3), 4))
    with pytest.raises(GraphError, match="decomposition is for another graph"):
        plot.decomposition(found, graph=ComputationGraph.from_edges([(0, 1)]))


# ---------------------------------------------------------------- characters


def test_the_text_draws_branches_and_leaves_the_last_bags_out():
    graph, found = path_of_five()
    assert plot.text("decomposition", found, graph=graph).splitlines() == [
        *("7 nodes, 7 reads", "5 bags, width 2", "q f", "p v0 q", "a v0", "b a", "c b"),
    ]
    assert plot.text("decomposition", star(4), separators=SeparatorTree.balanced(star(4), 8)).splitlines() == [
        "4 bags, width 2; separators in 2 levels",
        *("1 0 1", "2 ├ (0) 2 3", "2 ├ (0) 4 5", "2 └ (0) 6 7"),
    ]
    short = plot.text("decomposition", star(300), height=5).splitlines()
    assert short[1:] == ["0 1", "├ 0 2 3", "├ 0 4 5", "├ 0 6 7", "… 296 more bags"]


def test_lines_of_the_text_fit():
    found = TreeDecomposition.from_bags([range(30), range(30, 60)], [(0, 1)])
    lines = plot.text("decomposition", found, names=["a_rather_long_name_of_a_node"] * 60, width=50).splitlines()
    assert [len(line) <= 50 for line in lines] == [True] * 3
    assert "…" in lines[1]
