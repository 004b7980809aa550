"""Kinds of operations: their own laws, the flags of the published graphs, a kind from outside."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.ir import kinds as kinds_module
from remat_algos.ir.kinds import OperationKind, kind_name, operation_kind, operation_kinds, register_kinds
from remat_algos.questions.breakdown import layer_types
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.settings import Settings
from tests.raising import raises

kinds = pytest.mark.parametrize("kind", operation_kinds(), ids=lambda kind: kind.name)


def test_no_name_or_alias_stands_twice():
    names = [name for kind in operation_kinds() for name in (kind.name, *kind.aliases)]
    assert sorted(names) == sorted(set(names))


@kinds
def test_a_kind_is_found_by_its_name_and_by_each_alias(kind):
    assert all(operation_kind(name) is kind for name in (kind.name, *kind.aliases))


def test_another_name_is_no_kind():
    assert operation_kind("Warp") is None
    assert operation_kind("relu") is None  # names are exact: graphs of others may have an operation of their own
    assert operation_kind("") is None


def test_an_operation_in_place_never_saves_its_inputs():
    """It writes over one of them."""
    with raises(ArgumentError, name="Cube"):
        OperationKind("Cube", "inputs", in_place=(0,))


@pytest.mark.parametrize("saves", [{"saves": "input"}, {"saves_alone": "inputs, output"}])
def test_an_operation_saves_inputs_or_output(saves):
    with raises(ArgumentError, name="Cube"):
        OperationKind("Cube", **saves)


@kinds
def test_alone_nothing_is_forgotten(kind):
    """What the gradient reads does not become less where the values made for it are left out."""
    assert all(alone >= own for alone, own in zip(kind.saved(alone=True), kind.saved(), strict=True))


@kinds
def test_values_made_for_the_gradient_have_names(kind):
    assert all(name.isidentifier() for name in kind.extra)
    assert len(set(kind.extra)) == len(kind.extra)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# An operation of one number, what its gradient reads, and its derivative of no more than that.
DERIVATIVES = {
    "ReLU": (lambda x: np.maximum(x, 0), "output", lambda y: y > 0),
    "ReLU6": (lambda x: np.clip(x, 0, 6), "output", lambda y: (y > 0) & (y < 6)),
    "HardTanh": (lambda x: np.clip(x, -1, 1), "output", lambda y: abs(y) < 1),
    "Tanh": (np.tanh, "output", lambda y: 1 - y * y),
    "Sigmoid": (sigmoid, "output", lambda y: y * (1 - y)),
    "Exp": (np.exp, "output", lambda y: y),
    "Rsqrt": (lambda x: x**-0.5, "output", lambda y: -(y**3) / 2),
    "Log": (np.log, "inputs", lambda x: 1 / x),
    "Square": (np.square, "inputs", lambda x: 2 * x),
    "SiLU": (lambda x: x * sigmoid(x), "inputs", lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "Multiply": (lambda x: x * x, "inputs", lambda x: x + x),
    "Divide": (lambda x: x**3 / x, "inputs", lambda x: 3 * x**2 / x - x**3 / x**2),
    "MeanSquare": (lambda x: (x - 3) ** 2, "inputs", lambda x: 2 * (x - 3)),
    "Scale": (lambda x: 5 * x, "", lambda: 5),
    "Add": (lambda x: x + x, "", lambda: 2),
    "Subtract": (lambda x: 3 - x, "", lambda: -1),
    "Copy": (lambda x: x, "", lambda: 1),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_gradient_reads_what_its_formula_needs(name):
    function, needs, derivative = DERIVATIVES[name]
    kind = operation_kind(name)
    assert kind.saved() == ("inputs" in needs, "output" in needs)
    x, step = np.array([0.3, 0.8, 1.7, 4.4, 7.1]), 1e-6
    numeric = (function(x + step) - function(x - step)) / (2 * step)
    read = {"inputs": [x], "output": [function(x)], "": []}[needs]
    np.testing.assert_allclose(np.broadcast_to(derivative(*read), x.shape), numeric, rtol=1e-6, atol=1e-8)


def test_the_gradient_of_softmax_needs_its_output_alone():
    """y (dy - sum(dy y)) is the derivative along dy."""
    x, dy, step = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.5, -2.0]), 1e-6
    y = np.exp(x) / np.exp(x).sum()
    up, down = (np.exp(x + sign * step * np.eye(3)) for sign in (1, -1))
    numeric = up / up.sum(axis=1, keepdims=True) - down / down.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y * (dy - dy @ y), numeric @ dy / (2 * step), rtol=1e-6)
    assert operation_kind("Softmax").saved() == (False, True)


@pytest.mark.parametrize("graph", ["vgg19", "unet", "resnet50", "googlenet"])
def test_alone_the_gradient_reads_what_the_published_graphs_say(shared_graphs, graph):
    with (shared_graphs / f"{graph}.nodes.csv").open() as table:
        rows = list(csv.DictReader(table))
    said = {row["op"]: (row["bwd_needs_inputs"] == "1", row["bwd_needs_output"] == "1") for row in rows}
    assert all(said[row["op"]] == (row["bwd_needs_inputs"] == "1", row["bwd_needs_output"] == "1") for row in rows)
    assert {op: operation_kind(op).saved(alone=True) for op in said} == said


# ---------------------------------------------------------------- a kind from outside

CUBE = OperationKind("Cube", "inputs", ("Power3",), flops=2, layer="activation", gradient_in_place=True)


@pytest.fixture
def cube(monkeypatch):
    """A kind of operation that only this test knows."""
    known = kinds_module._known()
    copied = type(known)(*map(dict, known))
    monkeypatch.setattr(kinds_module, "_known", lambda: copied)
    register_kinds(CUBE)
    return CUBE


def test_a_kind_from_outside_is_one_record(cube):
    """Its cost, saved values, type of layer and in-place rule are where those of the others are."""
    net = Layers("small", Settings(cost="flops"))
    x = net.input("x", (8, 6))
    for k in range(4):
        x = net.pointwise("Cube", [net.linear(x, 6, name=f"linear{k}")], name=f"cube{k}")
    net.mean_square(x, net.input("target", x.shape))
    network = net.network()
    graph = network.graph
    node = graph.node_names().index("cube1")
    assert network.layers[node].flops == cube.flops * 8 * 6 == graph.compute[node]
    assert graph.backward.saved(node) == graph.reads(node)
    assert layer_types(graph)[node] == cube.layer
    assert kind_name("Power3") == "Cube"

    training = ra.differentiate(graph, parameter_gradients=True)
    simulation = ra.simulate(training, range(training.n_nodes))
    values = simulation.lifetimes.value.tolist()
    overwritten = find_overwrites(simulation)[values.index(training.value_id("grad(linear1)"))]
    assert values[overwritten] == training.value_id("grad(cube1)")

    plan = ra.solve(training, "80%")
    assert plan.simulation.overhead > 0


def test_a_kind_of_a_name_in_use_replaces_it(cube):
    register_kinds(replace(cube, flops=3))
    assert [kind.flops for kind in operation_kinds() if kind.name == "Cube"] == [3]
    assert operation_kind("Power3").flops == 3
    register_kinds(replace(cube, aliases=("Third",)))
    assert operation_kind("Power3") is None
    assert operation_kind("Third").name == "Cube"


@pytest.mark.parametrize("new", [OperationKind("Square2", aliases=("Linear",)), OperationKind("Power3")])
def test_no_kind_takes_a_name_of_another(cube, new):
    before = operation_kinds()
    with pytest.raises(ValueError, match=r"^\w+ is already a name of the kind (Linear|Cube); give"):
        register_kinds(new)
    assert operation_kinds() == before
    assert operation_kind("Linear").name == "Linear"
    assert operation_kind("Power3").name == "Cube"


def test_aliases_are_no_string():
    with raises(ArgumentTypeError, what="aliases", argument="Power3"):
        OperationKind("Cube", aliases="Power3")
