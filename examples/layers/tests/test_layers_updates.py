"""Graphs that update their parameters themselves, by the optimizers of the zoo."""

from dataclasses import replace

import numpy as np
import pytest

from examples.layers.layer_operators import LayerOperators
from examples.layers.optimizers import UPDATES
from examples.layers.tests.cases import SMALL_NETWORKS
from examples.layers.training import train
from remat_algos.cost.backends import gpu_missing
from remat_algos.errors import GraphError
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.solve import solve
from remat_algos.schedule.mirror import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.optimizers import OPTIMIZERS, with_optimizer
from remat_algos.zoo.registry import build

NAMES = ("resnet20", "lstm", "mixtral_8x7b")


@pytest.fixture(scope="module")
def networks():
    return {name: build(name, **SMALL_NETWORKS[name]) for name in NAMES}


def with_updates(name, optimizer):
    return build(name, **SMALL_NETWORKS[name], optimizer=optimizer).graph


def once(graph):
    return simulate(graph, np.flatnonzero(graph.needed))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NAMES)
def test_updates_of_the_graph_move_parameters_the_same_whatever_is_rematerialized(name, optimizer, networks):
    graph = with_updates(name, optimizer)
    again = simulate(graph, mirror_schedule(graph, np.where(graph.once, 0, 2)))
    least = solve(graph, "least", solver="greedy_remat").simulation
    without, *within = (train(networks[name], plan, steps=3, checking=True) for plan in (once(graph), again, least))
    assert again.overhead > 0
    for run in within:
        assert run.same_as(without)
        assert run.mismatches == []
    assert without.losses[1] < without.losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_stochastic_gradient_descent_in_the_graph_is_that_of_train(name, networks):
    inside = train(networks[name], once(with_updates(name, "sgd")), steps=3)
    assert inside.same_as(train(networks[name], steps=3))


def test_gradients_that_are_used_up_are_held_no_more(networks):
    graph = with_updates("resnet20", "sgd")
    outside = train(networks["resnet20"], steps=1).execution
    inside = train(networks["resnet20"], once(graph), steps=1).execution
    assert inside.used_raw[-1] < outside.used_raw[-1]
    assert (inside.used == inside.predicted).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_are_those_of_the_books(optimizer):
    """Three steps by hand, against a parameter at a time."""
    rng = np.random.default_rng(0)
    p, remembered = rng.normal(size=5), [np.zeros(5) for _ in OPTIMIZERS[optimizer].states]
    ours, theirs, (m, v) = p, p.copy(), (np.zeros(5), np.zeros(5))
    for step in (1, 2, 3):
        g = rng.normal(size=5)
        ours, *remembered = UPDATES[optimizer](np, 0.1, step, ours, *remembered, g)
        m = {"sgd": g, "momentum": 0.9 * m + g}.get(optimizer, 0.9 * m + 0.1 * g)
        v = 0.999 * v + 0.001 * g**2
        change = m if len(remembered) < 2 else m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        theirs = theirs - 0.1 * (change + (0.01 * theirs if optimizer == "adamw" else 0))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_what_is_remembered_is_a_resident_that_can_be_given(networks):
    graph, network = with_updates("lstm", "momentum"), networks["lstm"]
    name = next(name for name in graph.resident_names if name.startswith("momentum("))
    parameter = name[len("momentum(") : -1]
    shape = network.parameter_shapes[parameter]
    runs = []
    for given in (0.0, 1.0):
        operators = LayerOperators(network, graph, values={name: np.full(shape, given)}, learning_rate=0.5)
        execute(graph, once(graph), operators)
        runs.append(operators.arrays[parameter])
        assert operators.arrays[name].any()
    np.testing.assert_allclose(runs[0] - runs[1], 0.5 * 0.9, rtol=1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_in_float16_updates_are_computed_in_float32_and_rounded(optimizer):
    network = build("resnet20", **SMALL_NETWORKS["resnet20"], dtype="float16")
    graph = build("resnet20", **SMALL_NETWORKS["resnet20"], dtype="float16", optimizer=optimizer).graph
    again = simulate(graph, mirror_schedule(graph, np.where(graph.once, 0, 2)))
    without, within = (train(network, plan, steps=3) for plan in (once(graph), again))
    assert within.same_as(without)
    assert within.same_as(train(network, steps=3)) == (optimizer == "sgd")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_on_a_gpu_updates_move_parameters_the_same_whatever_is_rematerialized(dtype):
    if reason := gpu_missing():
        pytest.skip(reason)
    options = {**SMALL_NETWORKS["mixtral_8x7b"], "dtype": dtype}
    network, graph = build("mixtral_8x7b", **options), build("mixtral_8x7b", **options, optimizer="momentum").graph
    again = simulate(graph, mirror_schedule(graph, np.where(graph.once, 0, 2)))
    without, within = (train(network, plan, steps=3, backend="cupy") for plan in (once(graph), again))
    assert within.same_as(without)
    assert within.mismatches == []
    assert without.losses[0] == pytest.approx(train(network, steps=1).losses[0], rel=1e-3)


def test_what_is_no_update_of_this_network_is_said(networks):
    network = networks["lstm"]
    training = differentiate(network.graph, parameter_gradients=True)
    updated = with_optimizer(training, "adam")
    half = build("lstm", **SMALL_NETWORKS["lstm"], dtype="float16")
    for other, graph, sentence in (
        (network, with_updates("resnet20", "adam"), 'not made from that of lstm; give with_optimizer.* "adam"'),
        (network, replace(updated, workspace=updated.workspace + 1), "not made from that of lstm"),
        (network, with_optimizer(training, "adam", primitive=True), "element-wise steps are not layers"),
        (half, with_optimizer(differentiate(half.graph, parameter_gradients=True), "adam"), "vanish in float16"),
        (build("lstm", **SMALL_NETWORKS["lstm"], optimizer="sgd"), updated, "has a backward part; build it without"),
    ):
        with pytest.raises(GraphError, match=sentence):
            LayerOperators(other, graph)
