"""Crossings of lines between layers, and the order that reduces them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.layer_order import crossings, nearest_rising, reduce_crossings
from scipy.optimize import isotonic_regression

from remat_algos.plot.layered_layout import layout
from remat_algos.zoo.random import layered_dag


@st.composite
def layers(draw):
    """(row, order, above, below) of a few small layers."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    row = np.cumsum([0, *sizes])
    pairs = [
        (u, v)
        for level in range(len(sizes) - 1)
        for u in range(row[level], row[level + 1])
        for v in range(row[level + 1], row[level + 2])
        if draw(st.booleans())
    ]
    order = [v for begin, end in pairwise(row) for v in draw(st.permutations(range(begin, end)))]
    above, below = np.array(pairs, np.int64).reshape(-1, 2).T
    return row.astype(np.int64), np.array(order, np.int64), np.ascontiguousarray(above), np.ascontiguousarray(below)


@given(given=layers())
def test_crossings_are_those_of_every_pair_of_lines(given):
    row, order, above, below = given
    level = np.searchsorted(row, np.arange(order.size), side="right")
    place = np.argsort(order)
    lines = [(level[u], place[u], place[v]) for u, v in zip(above.tolist(), below.tolist(), strict=True)]
    pairs = [(one, two) for i, one in enumerate(lines) for two in lines[:i] if one[0] == two[0]]
    assert crossings(row, order, above, below) == sum((one[1] - two[1]) * (one[2] - two[2]) < 0 for one, two in pairs)


@given(given=layers(), sweeps=st.integers(0, 12))
def test_an_order_is_never_worse_and_keeps_the_layers(given, sweeps):
    row, order, above, below = given
    better = reduce_crossings(row, order, above, below, sweeps, 10_000)
    for begin, end in pairwise(row):
        assert sorted(better[begin:end]) == list(range(begin, end))
    assert crossings(row, better, above, below) <= crossings(row, order, above, below)


def test_two_layers_that_can_be_drawn_without_crossings_are():
    order = np.array([0, 1, 2, 3, 6, 4, 7, 5])
    above, below = np.array([0, 0, 1, 1, 2, 3]), np.array([4, 5, 5, 6, 6, 7])
    row = np.array([0, 4, 8])
    assert crossings(row, order, above, below) > 0
    assert crossings(row, reduce_crossings(row, order, above, below, 8, 10_000), above, below) == 0


@given(wishes=st.lists(st.floats(-100, 100), max_size=20))
def test_rising_places_are_the_nearest(wishes):
    found = nearest_rising(np.array(wishes, float))
    assert found.tolist() == pytest.approx(isotonic_regression(wishes).x.tolist() if wishes else [])


@pytest.mark.parametrize("seed", range(6))
def test_layouts_of_random_graphs_cross_less_than_sweeps_alone(seed, monkeypatch):
    graph = layered_dag(120, reach=30, seed=seed)
    found = drawn_crossings(layout(graph))
    monkeypatch.setattr("remat_algos.plot.tuning.ORDERINGS", 0)
    assert found < drawn_crossings(layout(graph))


def drawn_crossings(placed):
    """Crossings of the lines of a drawing, each pair looked at."""
    lines = np.unique(placed.inside.reshape(-1, 4).round(6), axis=0)
    total = 0
    for layer in np.unique(lines[:, 1]):
        above, below = lines[lines[:, 1] == layer][:, [0, 2]].T
        total += int((np.subtract.outer(above, above) * np.subtract.outer(below, below) < 0).sum()) // 2
    return total


@pytest.mark.parametrize(
    ("order", "above", "below", "message"),
    [
        ([0, 1, 1], [0], [1], "each of the n items stands once in order"),
        ([0, 1, 2], [0], [3], "a line has two items as its ends"),
        ([0, 1, 2], [0, 1], [1], "a line has two items as its ends"),
        ([0, 1, 2], [1], [0], "a line goes from an item of a layer to one of the next"),
        ([0, 1, 2], [0], [2], "a line goes from an item of a layer to one of the next"),
    ],
)
def test_what_are_no_layers_is_refused(order, above, below, message):
    row = np.arange(4)
    for count in (crossings, lambda *layers: reduce_crossings(*layers, 1, 100)):
        with pytest.raises(ValueError, match=message):
            count(row, np.array(order), np.array(above), np.array(below))
