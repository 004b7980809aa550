"""Mixtures of experts: rows go where they choose, as far as there is room, and gather what is made of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.layers.formula import Call, Readable
from examples.layers.formulas import formula_of
from examples.layers.tests import oracles
from examples.layers.tests.cases import network_of, rows, values_of
from examples.layers.views import viewed

WIDTH = 3


def mixture(n_rows, count, chosen, capacity):
    """Rows transformed by experts that are a matrix each."""

    def make(net):
        x = rows(net, n_rows, WIDTH)
        net.routed(x, lambda part, name: net.linear(part, WIDTH, bias=False, name=name), count, chosen, capacity)

    return network_of(make)


def computed(network, residents):
    """Every value in float64, by name of its node."""
    values, found = [], {}
    names = network.graph.resident_names
    for layer in network.layers:
        read = [residents[names[-1 - x.value]] if x.value < 0 else values[x.value] for x in layer.arguments]
        arguments = [viewed(a, x.shape, np) for a, x in zip(read, layer.arguments, strict=True)]
        made = values_of(formula_of(layer.op), Call(layer, np), arguments)
        values += made
        found[layer.name] = (layer, arguments, made)
    return found


@st.composite
def mixtures(draw):
    count = draw(st.integers(1, 4))
    chosen, capacity = draw(st.integers(1, count)), draw(st.sampled_from([20, 60, 100, 150]))
    n_rows = draw(st.integers(1, 7))
    n_rows += n_rows >= count  # any number but `count`: a square table does not say what a mean is of
    network = mixture(n_rows, count, chosen, capacity)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shapes = {"x": (n_rows, WIDTH)} | dict(network.parameter_shapes)
    return network, chosen, {name: rng.normal(size=shape) for name, shape in shapes.items()}


@given(mixtures())
@settings(max_examples=60, deadline=None)
def test_a_mixture_is_every_expert_for_every_row_where_it_was_chosen(drawn):
    network, chosen, residents = drawn
    found = computed(network, residents)
    matrices = [array for name, array in residents.items() if "expert" in name]
    room = found["moe.dispatch"][0].shapes[0][0]
    y, balance = oracles.experts(residents["x"], residents["moe.router.weight"], matrices, chosen, room)
    np.testing.assert_allclose(found["moe.combined"][2][0][:, 0], y, rtol=1e-9, atol=1e-12)
    assert found["moe.balance.sum"][2][0] == pytest.approx(balance, rel=1e-6)  # shares of the rows are float32


@given(mixtures())
@settings(max_examples=60, deadline=None)
def test_the_gradient_of_sending_is_gathering(drawn):
    """Both are linear: <send(x), g> = <x, gradient(g)>, and the same of what is gathered."""
    network, _, residents = drawn
    found, rng = computed(network, residents), np.random.default_rng(0)
    for name in ("moe.dispatch", "moe.taken", "moe.shares"):
        layer, arguments, values = found[name]
        given_ = [rng.normal(size=value.shape) for value in values]
        reads, made = Readable("", "", arguments), Readable("", "", [None] * len(values))
        forwards = sum((value * g).sum() for value, g in zip(values, given_, strict=True))
        backwards = sum(
            (formula_of("Slice").gradient(Call(layer, np), k, reads, made, given_) * argument).sum()
            for k, argument in enumerate(arguments[:-1])
        )
        assert forwards == pytest.approx(backwards)


@given(mixtures())
@settings(max_examples=60, deadline=None)
def test_rows_choose_different_experts_and_each_expert_counts_its_own(drawn):
    network, chosen, residents = drawn
    _, (probabilities,), (places,) = computed(network, residents)["moe.route"]
    count = probabilities.shape[1]
    assert places.dtype == np.int32
    assert all(len(set(row % count)) == chosen for row in places)
    for expert in range(count):
        turns = (places // count)[places % count == expert]
        assert sorted(turns) == list(range(turns.size))


def test_first_choices_come_first_and_of_equal_experts_the_first():
    layer = next(layer for layer in mixture(3, 2, 2, 100).layers if layer.op == "Route")
    places = formula_of("Route").forward(Call(layer, np), np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]))
    assert (places % 2).tolist() == [[0, 1], [0, 1], [1, 0]]
    assert (places // 2).tolist() == [[0, 1], [1, 2], [0, 2]]


def test_what_nobody_gives_a_gradient_counts_as_zeros():
    network = mixture(4, 2, 1, 100)
    layer, arguments, values = computed(network, {"x": np.ones((4, WIDTH))} | _ones(network))["moe.dispatch"]
    reads, none = Readable("", "", arguments), Readable("", "", [None, None])
    whole = [np.ones_like(values[0]), np.zeros_like(values[1])]
    slice_ = formula_of("Slice").gradient
    wanted = slice_(Call(layer, np), 0, reads, none, whole)
    assert (slice_(Call(layer, np), 0, reads, none, [whole[0], None]) == wanted).all()


def _ones(network):
    return {name: np.ones(shape) for name, shape in network.parameter_shapes.items()}
