"""Layers at the edge of the numbers: rows of minus infinity, no variance, sums that overflow, what is not a number."""

import numpy as np
import pytest

from examples.layers.formula import Call, Readable
from examples.layers.formulas import formula_of
from examples.layers.layer_operators import LayerOperators
from examples.layers.norms import unbiased_variance
from examples.layers.tests import oracles
from examples.layers.tests.cases import CASES, drawn_inputs, network_of, rows
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate


def single(case):
    """(layer, arguments) of the last layer of a network."""
    *_, last = drawn_inputs(network_of(CASES[case]), np.random.default_rng(1))
    return last


def cross_entropy_of(x, targets):
    net = network_of(lambda net: net.softmax_cross_entropy(rows(net, *x.shape), net.input("t", targets.shape, "int64")))
    formula, call = formula_of("SoftmaxCrossEntropy"), Call(net.layers[0], np)
    values = formula.forward(call, x, targets)
    return values[0], formula.gradient(call, 0, Readable("", "", [x, targets]), Readable("", "", values), [1.0])


def test_a_class_that_cannot_be_is_as_if_it_were_not_there():
    x, targets = np.random.default_rng(0).normal(size=(3, 5)), np.array([0, 2, 1])
    within = np.insert(x, 5, -np.inf, axis=1)
    loss, gradient = cross_entropy_of(within, targets)
    without = cross_entropy_of(x, targets)
    assert loss == without[0]
    np.testing.assert_array_equal(gradient, np.insert(without[1], 5, 0, axis=1))


def test_a_target_that_cannot_be_has_an_infinite_loss_and_a_finite_gradient():
    loss, gradient = cross_entropy_of(np.array([[1.0, -np.inf], [-np.inf, -np.inf]]), np.array([1, 0]))
    assert loss == np.inf
    assert gradient.tolist() == [[0.5, -0.5], [-0.5, 0]]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("counting", ["framework", "paper"])
def test_rows_that_may_look_at_nothing_get_zeros_and_give_nothing_back(fused, counting):
    network = network_of(
        lambda net: net.attention(
            *(rows(net, 1, 3, 4, name=s) for s in "qkv"),
            2,
            mask=net.input("mask", (3, 3), "bool"),
            fused=fused,
            dropout=False,
        ),
        counting=counting,
    )
    rng, mask = np.random.default_rng(0), np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1]], bool)
    graph = differentiate(network.graph)
    operators = LayerOperators(network, graph, values={s: rng.normal(size=(1, 3, 4)) for s in "qkv"} | {"mask": mask})
    outputs = execute(graph, range(graph.n_nodes), operators, outputs=True).outputs
    assert np.isfinite(operators.loss)
    assert operators.loss == pytest.approx(
        oracles.masked_attention(*(operators.arrays[s] for s in "qkv"), 2, mask).sum()
    )
    assert all(np.isfinite(array.view(np.float32)).all() for array in outputs.values())


def test_where_all_is_equal_a_running_variance_is_not_negative():
    layer, (x, weight, bias, *running) = single("batch norm")
    for level in np.linspace(0, 1000, 300, dtype=np.float32):
        arguments = (np.full(x.shape, level, np.float32), *(a.astype(np.float32) for a in (weight, bias, *running)))
        *_, rstd = formula_of("BatchNorm").forward(Call(layer, np), *arguments)
        assert (unbiased_variance(Call(layer, np), rstd) >= 0).all()


def test_a_root_of_mean_squares_that_overflows_leaves_zeros():
    layer, (x, weight) = single("rms norm")
    with np.errstate(over="ignore"):
        values = formula_of("RMSNorm").forward(Call(layer, np), np.full(x.shape, 3e38, np.float32), weight)
    assert not any(value.any() for value in values)


def test_pooling_does_not_hide_what_is_no_number():
    layer, (x,) = single("max pool")
    x[0, 1, 2, 3] = np.nan
    largest, where = formula_of("MaxPooling").forward(Call(layer, np), x)
    assert np.argwhere(np.isnan(largest)).tolist() == [[0, 1, 1, 1]]
    assert where[0, 1, 1, 1] == 2 * 6 + 3
