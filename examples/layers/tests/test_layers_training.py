"""Networks that train by schedules which rematerialize: the same losses, gradients and updates, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from examples.layers.layer_operators import LayerOperators
from examples.layers.optimizers import UPDATES
from examples.layers.tests.cases import SMALL_NETWORKS
from examples.layers.training import train
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import share_storage
from remat_algos.cost.backends import gpu_missing
from remat_algos.errors import GraphError
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.optimizers import OPTIMIZERS, with_optimizer
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
    assert train(network, plans[1], steps=2).same_as(without)


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


# ---------------------------------------------------------------- updates in the graph

NAMES = ("resnet20", "lstm", "mixtral_8x7b")


@pytest.fixture(scope="module")
def updated():
    """The networks of `NAMES`."""
    return {name: build(name, **SMALL_NETWORKS[name]) for name in NAMES}


def with_updates(name, optimizer):
    return build(name, **SMALL_NETWORKS[name], optimizer=optimizer).graph


def once(graph):
    return simulate(graph, np.flatnonzero(graph.needed))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NAMES)
def test_updates_of_the_graph_move_parameters_the_same_whatever_is_rematerialized(name, optimizer, updated):
    graph = with_updates(name, optimizer)
    again = everything_again(graph)
    least = solve(graph, "least", solver="greedy_remat").simulation
    without, *within = (train(updated[name], plan, steps=3, checking=True) for plan in (once(graph), again, least))
    assert again.overhead > 0
    for run in within:
        assert run.same_as(without)
        assert run.mismatches == []
    assert without.losses[1] < without.losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_stochastic_gradient_descent_in_the_graph_is_that_of_train(name, updated):
    inside = train(updated[name], once(with_updates(name, "sgd")), steps=3)
    assert inside.same_as(train(updated[name], steps=3))


def test_gradients_that_are_used_up_are_held_no_more(updated):
    graph = with_updates("resnet20", "sgd")
    outside = train(updated["resnet20"], steps=1).execution
    inside = train(updated["resnet20"], once(graph), steps=1).execution
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


def test_what_is_remembered_is_a_resident_that_can_be_given(updated):
    graph, network = with_updates("lstm", "momentum"), updated["lstm"]
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
    again = everything_again(graph)
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
    again = everything_again(graph)
    without, within = (train(network, plan, steps=3, backend="cupy") for plan in (once(graph), again))
    assert within.same_as(without)
    assert within.mismatches == []
    assert without.losses[0] == pytest.approx(train(network, steps=1).losses[0], rel=1e-3)


def test_what_is_no_update_of_this_network_is_said(updated):
    network = updated["lstm"]
    training = differentiate(network.graph, parameter_gradients=True)
    with_adam = with_optimizer(training, "adam")
    half = build("lstm", **SMALL_NETWORKS["lstm"], dtype="float16")
    for other, graph, sentence in (
        (network, with_updates("resnet20", "adam"), 'not made from that of lstm; give with_optimizer.* "adam"'),
        (network, replace(with_adam, workspace=with_adam.workspace + 1), "not made from that of lstm"),
        (network, with_optimizer(training, "adam", primitive=True), "element-wise steps are not layers"),
        (half, with_optimizer(differentiate(half.graph, parameter_gradients=True), "adam"), "vanish in float16"),
        (build("lstm", **SMALL_NETWORKS["lstm"], optimizer="sgd"), with_adam, "has a backward part; build it without"),
    ):
        with pytest.raises(GraphError, match=sentence):
            LayerOperators(other, graph)
