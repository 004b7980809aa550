"""Networks that train by schedules which rematerialize: the same losses and gradients, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from examples.layers.layer_operators import LayerOperators
from examples.layers.tests.cases import SMALL_NETWORKS
from examples.layers.training import train
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import share_storage
from remat_algos.cost.backends import gpu_missing
from remat_algos.errors import GraphError
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.solve import solve
from remat_algos.schedule.mirror import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import build
from remat_algos.zoo.settings import Settings

IMAGES = {"batch": 2, "image": 32, "width": 4, "classes": 5}
NETWORKS = {
    "vgg11": {**IMAGES, "batch": 4, "width": 1, "stages": (4, 1, 1, 1, 1), "workspace": "0"},
    "resnet18": IMAGES,
    "resnet20": {"batch": 4, "image": 8, "width": 4, "classes": 5},
    "lstm": {"batch": 2, "steps": 3, "depth": 2, "width": 4, "features": 3, "classes": 5},
    "transformer_base": {"batch": 2, "sequence": 4, "depth": 1, "width": 8, "heads": 2, "words": 11},
    "unet": {"batch": 1, "image": 44, "depth": 1, "width": 4},
    "deepspeech2": {**SMALL_NETWORKS["deepspeech2"], "workspace": "0"},
    "mixtral_8x7b": SMALL_NETWORKS["mixtral_8x7b"],
    "switch_base_8": SMALL_NETWORKS["switch_base_8"],
}
OTHERS = [name for name in SMALL_NETWORKS if name not in NETWORKS]
SOLVERS = ("chen_sqrt", "chen_greedy", "drop_cheap", "echo", "approximate_dp", "greedy_remat", "twremat")


@pytest.fixture(scope="module")
def networks():
    return {name: build(name, **options) for name, options in NETWORKS.items()}


@pytest.fixture(scope="module")
def graphs(networks):
    return {name: differentiate(net.graph, parameter_gradients=True) for name, net in networks.items()}


@pytest.fixture(scope="module")
def plain(networks, graphs):
    """Without rematerialization: (loss, gradients by value)."""
    return {name: gradients_of(networks[name], graphs[name], np.flatnonzero(graphs[name].needed)) for name in NETWORKS}


def everything_again(graph):
    """All that may run again does, wherever a gradient reads it."""
    return simulate(graph, mirror_schedule(graph, np.where(graph.once, 0, 2)))


def gradients_of(network, graph, schedule, allocation=None):
    operators = LayerOperators(network, graph, seed=1)
    execution = execute(graph, schedule, operators, allocation, outputs=True, checking=True)
    assert execution.mismatches == []
    if allocation is None:
        assert (execution.used == execution.predicted).all()
    wanted = set(operators.gradients.values())
    return operators.loss, {x: array.tobytes() for x, array in execution.outputs.items() if x in wanted}


@pytest.mark.parametrize("name", NETWORKS)
def test_running_all_again_changes_no_bit_of_loss_and_gradients(name, networks, graphs, plain):
    simulation = everything_again(graphs[name])
    assert simulation.overhead > simulation.graph.needed_compute / 5
    assert gradients_of(networks[name], graphs[name], simulation) == plain[name]


@pytest.mark.parametrize("name", OTHERS)
def test_in_every_family_rematerialization_changes_no_bit(name):
    """Losses, gradients and parameters: of all that may run again, and of the plan of least memory."""
    network = build(name, **SMALL_NETWORKS[name])
    graph = differentiate(network.graph, parameter_gradients=True)
    plans = [everything_again(graph), solve(graph, "least", solver="greedy_remat").simulation]
    without = train(network, steps=2)
    wanted = gradients_of(network, graph, np.flatnonzero(graph.needed))
    assert plans[0].overhead > 0
    for plan in plans:
        assert gradients_of(network, graph, plan) == wanted
        assert train(network, plan, steps=2).same_as(without)


@pytest.mark.parametrize("name", ["resnet20", "switch_base_8", "deepspeech2"])
def test_in_float16_rematerialization_changes_no_bit_and_the_loss_is_nearly_that_of_float32(name, plain):
    network = build(name, **NETWORKS[name], dtype="float16")
    graph = differentiate(network.graph, parameter_gradients=True)
    wanted = gradients_of(network, graph, np.flatnonzero(graph.needed))
    assert wanted[0] == pytest.approx(plain[name][0], rel=5e-3)
    simulation = everything_again(graph)
    assert gradients_of(network, graph, simulation) == wanted
    buffers = Buffers.of(simulation, find_overwrites(simulation))
    assert gradients_of(network, graph, simulation, share_storage(buffers)) == wanted
    without, within = (train(network, plan, steps=2) for plan in (None, simulation))
    assert within.same_as(without)
    assert np.isfinite(without.losses).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_rematerialization_changes_no_bit_of_loss_and_gradients(name, solver, networks, graphs, plain):
    plan = solve(graphs[name], "least", solver=solver, raw=True)
    assert gradients_of(networks[name], graphs[name], plan.simulation) == plain[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_working_in_place_changes_no_bit_of_loss_and_gradients(name, networks, graphs, plain):
    simulation = solve(graphs[name], "least", solver="greedy_remat").simulation
    buffers = Buffers.of(simulation, find_overwrites(simulation))
    assert (buffers.over >= 0).any()
    assert gradients_of(networks[name], graphs[name], simulation, share_storage(buffers)) == plain[name]


def test_odd_addresses_change_no_bit():
    """NumPy adds up an array of more than 8192 elements otherwise where it is not aligned."""
    net = Layers("sum", Settings())
    net.run("Sum", [net.scale(net.input("x", (8, 10_000)))], (8, 1))
    network = net.network()
    simulation = simulate(network.graph, range(2))
    shared = share_storage(Buffers.of(simulation))
    odd = replace(shared, offset=shared.offset + 1, size=shared.size + 1)
    runs = [
        execute(network.graph, simulation, LayerOperators(network, network.graph), places) for places in (None, odd)
    ]
    assert runs[0].checksums.tolist() == runs[1].checksums.tolist()


@pytest.mark.parametrize("name", NETWORKS)
def test_training_lowers_the_loss_and_is_the_same_whatever_is_rematerialized(name, networks, graphs):
    again = everything_again(graphs[name])
    without, within = (train(networks[name], plan, steps=4, learning_rate=0.02) for plan in (None, again))
    assert min(without.losses[1:]) < without.losses[0]
    assert np.isfinite(without.losses).all()
    assert within.same_as(without)
    assert within.mismatches == []


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "resnet18"])  # whose stem is its peak
def test_a_plan_trains_the_same_in_less_memory(name, networks, graphs):
    plan = solve(graphs[name], "least", solver="greedy_remat")
    assert plan.overhead > 0
    without, within = (train(networks[name], p, steps=2, learning_rate=0.02) for p in (None, plan))
    assert within.same_as(without)
    assert within.execution.peak_raw == plan.peak_memory < without.execution.peak_raw


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_on_a_gpu_rematerialization_changes_no_bit_and_little_from_numpy(name, networks, graphs):
    if reason := gpu_missing():
        pytest.skip(reason)
    again = everything_again(graphs[name])
    plain, within = (train(networks[name], plan, steps=3, backend="cupy") for plan in (None, again))
    assert within.same_as(plain)
    assert within.mismatches == []
    assert plain.losses[0] == pytest.approx(train(networks[name], steps=1).losses[0], rel=1e-4)


def test_masks_of_dropout_differ_from_step_to_step(networks):
    first, second = (train(networks["transformer_base"], steps=n, learning_rate=0.0, seed=2).losses for n in (1, 3))
    assert second[0] == first[0]
    assert len(set(second)) == 3


def test_without_a_gradient_nothing_is_learned(networks, graphs):
    network = networks["lstm"]
    before = train(network, steps=1, learning_rate=0.0)
    assert before.same_as(train(network, steps=1, learning_rate=0.0))
    assert not before.same_as(train(network, steps=2))
    assert not train(network, steps=1).same_as(train(network, steps=1, learning_rate=0.5))


def test_a_learning_rate_of_numpy_is_that_of_python(networks):
    assert train(networks["lstm"], steps=2, learning_rate=np.float64(0.1)).same_as(
        train(networks["lstm"], steps=2, learning_rate=0.1)
    )


def test_given_values_are_learned_from(networks):
    network = build("feed_forward", batch=2, depth=1, width=4, features=2)
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    losses = train(network, steps=200, learning_rate=0.2, values={"input": x, "target": x}, seed=3).losses
    assert losses[-1] < 0.3 * losses[0]


def test_what_cannot_be_trained_is_said(networks, graphs):
    with pytest.raises(GraphError, match="steps is 0"):
        train(networks["lstm"], steps=0)
    plan = solve(differentiate(networks["lstm"].graph), "least", solver="chen_sqrt")
    with pytest.raises(GraphError, match="parameter_gradients=True"):
        train(networks["lstm"], plan)
    with pytest.raises(GraphError, match="not made from"):
        train(networks["unet"], plan)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((None,), "network is None; give a Network"),
        (("network", "plan.json"), "plan is a str; give a Plan or a Simulation"),
    ],
)
def test_what_cannot_be_trained_is_told(networks, arguments, sentence):
    given = (networks["resnet20"] if arguments[0] else None, *arguments[1:])
    with pytest.raises(TypeError, match=sentence):
        train(*given)
