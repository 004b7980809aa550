"""Layers as element-wise steps and reductions."""

from math import prod

import numpy as np
import pytest

from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from tests.test_zoo_layers import IMAGE, ROWS, tensor, tokens, vocabulary

SPELLED_OUT = {
    "batch norm": lambda net: net.batch_norm(tensor(net, IMAGE), name="y"),
    "layer norm": lambda net: net.layer_norm(tensor(net, ROWS), name="y"),
    "rms norm": lambda net: net.rms_norm(tensor(net, ROWS), name="y"),
    "group norm": lambda net: net.group_norm(tensor(net, IMAGE), 4, name="y"),
    "silu": lambda net: net.silu(tensor(net, ROWS)),
    "gelu": lambda net: net.gelu(tensor(net, ROWS)),
    "softmax": lambda net: net.softmax(tensor(net, ROWS)),
    "cross-entropy": lambda net: net.softmax_cross_entropy(tensor(net, ROWS), tokens(net, 2, 5)),
    "cross-entropy of pixels": lambda net: net.softmax_cross_entropy(tensor(net, IMAGE), tokens(net, 2, 10, 12)),
    "mean square": lambda net: net.mean_square(tensor(net, ROWS), net.input("target", ROWS)),
    "linear": lambda net: net.linear(tensor(net, ROWS), 6),
    "attention": lambda net: net.attention(*[tensor(net, ROWS, name) for name in "qkv"], 2),
}
spelled_out = pytest.mark.parametrize("layer", SPELLED_OUT.values(), ids=SPELLED_OUT)


def both(layer):
    """The result and the network of a layer, as an operation and spelled out."""
    for granularity in ("operation", "primitive"):
        net = vocabulary(granularity=granularity)
        result = layer(net)
        yield result, net.network()


@spelled_out
def test_spelled_out_a_layer_gives_the_same_by_the_same_products(layer):
    (whole, operation), (steps, primitive) = both(layer)
    assert (steps.shape, steps.dtype) == (whole.shape, whole.dtype)
    assert primitive.macs == operation.macs
    assert primitive.parameter_shapes == operation.parameter_shapes
    assert primitive.graph.n_nodes > operation.graph.n_nodes


@spelled_out
def test_spelled_out_a_layer_can_be_simulated(layer):
    _, (_, primitive) = both(layer)
    graph = differentiate(primitive.graph)
    x = [name for name in graph.node_names() if name in ("x", "q", "k", "v")]
    assert all(f"grad({name})" in graph.node_names() for name in x)
    simulation = simulate(graph, [v for v in range(graph.n_nodes) if graph.needed[v]])
    assert simulation.peak_memory >= graph.node_memory.max()
    assert simulation.overhead == 0


def sizes(network):
    return {layer.name: layer.shapes[0] for layer in network.layers}


def test_a_batch_norm_spelled_out():
    [_, (_, network)] = both(SPELLED_OUT["batch norm"])
    statistics = ("y.mean", "y.variance", "y.rstd")
    moving = [f"y.moving_{what}.{step}" for what in ("mean", "var") for step in ("difference", "share")]
    assert sizes(network) == {
        "x": IMAGE,
        **{f"y.{step}": IMAGE for step in ("centred", "square", "normal", "scaled")},
        **dict.fromkeys([*statistics, *moving], (8,)),
        **dict.fromkeys(["y.moving_mean", "y.moving_var"], (0,)),
        "y": IMAGE,
    }
    graph = network.graph
    assert [graph.node_names()[v] for v in np.flatnonzero(graph.once)] == ["y.moving_mean", "y.moving_var"]
    assert {graph.value_name(x) for x in np.flatnonzero(graph.output)} == {"y", "y.moving_mean", "y.moving_var"}


def test_a_softmax_of_pixels_spelled_out_goes_over_the_classes():
    [_, (_, network)] = both(SPELLED_OUT["cross-entropy of pixels"])
    pixels = (2, 10, 12)
    assert [sizes(network)[f"loss.{step}"] for step in ("max", "sum", "log")] == [(2, 1, 10, 12)] * 3
    assert sizes(network)["loss.picked"] == pixels
    assert network.layers[-1].flops == prod(pixels)
