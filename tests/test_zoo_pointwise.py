"""Dropout, batch norm, masks, parts: what may run again, what gradients read."""

import re

import numpy as np
import pytest

from remat_algos.errors import ScheduleError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from tests.oracles.plain import plain
from tests.test_zoo_layers import IMAGE, ROWS, norm_flops, saved, tensor, vocabulary


def trained(network, loss):
    return differentiate(network.graph, loss=[loss])


def again(graph, *nodes):
    """The order of the ids, and these nodes again before the backward part."""
    begin = int(np.flatnonzero(graph.forward_of >= 0)[0])
    order = list(range(graph.n_nodes))
    return order[:begin] + [graph.node_id(name) for name in nodes] + order[begin:]


def test_dropout_is_a_mask_that_is_drawn_once_and_an_application():
    net = vocabulary()
    net.dropout(tensor(net, ROWS), name="y")
    network = net.network()
    graph, layers = network.graph, {layer.name: layer for layer in network.layers}
    mask, y = graph.node_id("y.mask"), graph.node_id("y")
    assert [layers["y.mask"].op, layers["y"].op] == ["DropoutMask", "Dropout"]
    assert [graph.memory[graph.value_id(name)] for name in ("y.mask", "y")] == [80, 320]  # a byte per element
    assert [graph.once[mask], graph.once[y]] == [True, False]
    assert graph.reads(mask) == []
    assert saved(network)["y"] == {"y.mask"}
    assert graph.backward.grad_memory[graph.value_id("y.mask")] == -1


def test_the_mask_must_not_be_drawn_again_but_may_be_applied_again():
    net = vocabulary()
    net.dropout(tensor(net, ROWS), name="y")
    graph = trained(net.network(), "y")
    assert simulate(graph, again(graph, "y")).overhead == 2 * 80
    with pytest.raises(ScheduleError, match=re.escape("y.mask")):
        simulate(graph, again(graph, "y.mask"))


def test_single_dropout_is_a_node_of_one_value_that_may_run_again():
    net = vocabulary(dropout="single")
    net.dropout(tensor(net, ROWS), name="y")
    network = net.network()
    assert network.graph.node_names() == ["x", "y"]
    assert saved(network)["y"] == set()  # the seed draws the mask again
    graph = trained(network, "y")
    assert simulate(graph, again(graph, "y")).overhead == 2 * 80


def test_a_batch_norm_changes_its_running_statistics_once_and_may_run_again():
    net = vocabulary()
    net.batch_norm(tensor(net, IMAGE), name="y")
    g = plain(net.network().graph)
    states = {
        n: m for n, m, role in zip(g.resident_names, g.resident_memory, g.resident_role, strict=True) if role == 2
    }
    assert states == {"y.running_mean": 32, "y.running_var": 32}
    y = g.node_names.index("y")
    assert {g.resident_names[r] for r in g.resident_reads[y]} == {"y.weight", "y.bias", *states}
    effect = g.value_names.index("y.running")
    assert effect in g.outputs
    assert (g.memory[effect], g.grad_memory[effect], g.once[y]) == (0, -1, False)
    graph = trained(net.network(), "y")
    assert simulate(graph, again(graph, "y")).overhead == norm_flops(1920)


def test_a_batch_norm_that_only_its_effect_needs_still_runs():
    net = vocabulary()
    net.batch_norm(tensor(net, IMAGE), name="norm")
    net.relu(tensor(net, ROWS, name="other"), name="y")
    graph = trained(net.network(), "y")
    assert graph.needed[graph.node_id("norm")]


def test_a_mask_that_is_computed_is_read_by_the_gradient():
    net = vocabulary()
    x = tensor(net, ROWS)
    allowed = net.run("DropoutMask", [], ROWS, name="allowed", dtype="bool", gradient=False)
    net.mask(x, allowed, name="y")
    assert saved(net.network())["y"] == {"allowed"}


def test_each_part_of_a_split_has_a_gradient():
    net = vocabulary()
    parts = net.split(tensor(net, ROWS), 4, name="y")
    net.add(*parts, name="sum")
    graph = trained(net.network(), "sum")
    assert {f"grad({name})" for name in ("y", "y.1", "y.2", "y.3", "x")} <= set(graph.node_names())
    [x_gradient] = [v for v in range(graph.n_nodes) if graph.node_names()[v] == "grad(x)"]
    assert len(graph.reads(x_gradient)) == 4
