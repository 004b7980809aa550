"""Networks of layers: their gradients are slopes of their loss, and what cannot be run is said."""

import numpy as np
import pytest

from examples.layers.formula import Formula, Readable
from examples.layers.formulas import FORMULAS, formula_of
from examples.layers.layer_operators import LayerOperators
from examples.layers.pointwise import of_input
from examples.layers.starting_values import starting_values
from examples.layers.tests import oracles
from examples.layers.tests.cases import SMALL_NETWORKS, image, network_of, rows, values_of, wide
from examples.layers.views import can_view, view_gradient, viewed
from remat_algos.errors import GraphError
from remat_algos.executor.run import execute
from remat_algos.ir import kinds
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.kinds import OperationKind
from remat_algos.search.solve import solve
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import build, get_family, list_families
from remat_algos.zoo.settings import Settings

EPSILON = 1e-6

# ---------------------------------------------------------------- views


@pytest.mark.parametrize(
    ("base", "shape"),
    [((2, 6), (3, 4)), ((1, 1, 3), (4, 1, 3)), ((3,), (2, 3)), ((2, 5, 3), (2, 3)), ((4, 3), (2, 3))],
)
def test_a_view_gives_back_what_it_was_given(base, shape):
    x, given = np.random.default_rng(0).normal(size=base), np.random.default_rng(1).normal(size=shape)
    assert can_view(base, shape)
    assert viewed(x, shape, np).shape == shape
    assert (viewed(x, shape, np) * given).sum() == pytest.approx((x * view_gradient(given, base, np)).sum())


@pytest.mark.parametrize(("base", "shape"), [((4, 3), (3,)), ((2, 3), (4, 3)), ((2, 3, 6), (2, 2))])
def test_for_some_views_there_is_no_rule(base, shape):
    assert not can_view(base, shape)


# ---------------------------------------------------------------- whole networks


def test_there_is_a_small_network_of_each_family():
    assert {get_family(name).name for name in SMALL_NETWORKS} == {family.name for family in list_families()}


def loss_of(network, calls, residents):
    """The loss in float64, by the formulas alone: no gradients, no schedule, no views into bytes."""
    values, names = [], network.graph.resident_names
    for w, (layer, call) in enumerate(zip(network.layers, calls, strict=True)):
        read = [residents[names[-1 - x.value]] if x.value < 0 else values[x.value] for x in layer.arguments]
        made = values_of(
            formula_of(layer.op), call, [viewed(a, x.shape, np) for a, x in zip(read, layer.arguments, strict=True)]
        )
        values += [*made, *[None] * (len(network.graph.values(w)) - len(made))]
    return sum(float(values[x].sum()) for x in np.flatnonzero(network.graph.output) if values[x] is not None)


@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_gradients_of_whole_networks_are_slopes_of_their_loss(name):
    network = build(name, **SMALL_NETWORKS[name])
    graph = differentiate(network.graph, parameter_gradients=True)
    operators = LayerOperators(network, graph)
    execution = execute(graph, np.flatnonzero(graph.needed), operators, outputs=True)
    start = {key: wide(np.array(array)) for key, array in starting_values(network).items()}
    assert operators.loss == pytest.approx(loss_of(network, operators.calls, start), rel=1e-4)
    gradients = {
        key: execution.outputs[value].view(np.float32).reshape(network.parameter_shapes[key]).astype(float)
        for key, value in operators.gradients.items()
    }
    length = {key: float(np.linalg.norm(gradient)) for key, gradient in gradients.items()}
    large = [key for key in length if length[key] > 1e-3 * max(length.values())]
    assert len(large) > len(gradients) / 2
    rng = np.random.default_rng(0)
    # each parameter goes as far as makes its share of the slope about 1, along its gradient and across it
    way = {
        k: (gradients[k] / length[k] + rng.normal(size=gradients[k].shape) / gradients[k].size ** 0.5) / length[k]
        for k in large
    }
    step = EPSILON * min(length[key] for key in large)
    ahead, behind = (
        loss_of(network, operators.calls, start | {key: start[key] + sign * step * way[key] for key in large})
        for sign in (1, -1)
    )
    slope = sum((gradients[key] * way[key]).sum() for key in large)
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=5e-4)


def test_an_lstm_cell_is_that_of_the_books():
    network = build("lstm", batch=2, steps=1, depth=1, width=4, features=3, classes=5)
    start = starting_values(network, seed=4)
    operators = LayerOperators(network, network.graph, seed=4)
    kept = {}
    run = operators.run

    def watched(node, reads, residents, values, workspace):
        run(node, reads, residents, values, workspace)
        kept[network.layers[node].name] = values[0].copy().view(np.float32)

    operators.run = watched
    execute(network.graph, np.flatnonzero(network.graph.needed), operators)
    weights = [start[f"lstm.layer0.{what}"] for what in ("input_weight", "state_weight", "bias")]
    h, c = oracles.lstm_cell(start["input0"], start["lstm.h0"], start["lstm.c0"], *weights)
    found = {name.rpartition(".")[2]: array.reshape(2, 4) for name, array in kept.items() if array.size == 8}
    np.testing.assert_allclose(found["h"], h, rtol=1e-5)
    np.testing.assert_allclose(found["c"], c, rtol=1e-5)


def test_running_statistics_move_once_however_often_a_norm_runs():
    network = build("resnet20", **SMALL_NETWORKS["resnet20"])
    graph = differentiate(network.graph, parameter_gradients=True)
    order = np.flatnonzero(graph.needed).tolist()
    twice = [v for v in order if v < network.graph.n_nodes for _ in range(1 + (network.layers[v].op == "BatchNorm"))]
    twice += [v for v in order if v >= network.graph.n_nodes]
    found = []
    for schedule in (order, twice):
        operators = LayerOperators(network, graph)
        execute(graph, schedule, operators)
        found.append({name: array.copy() for name, array in operators.arrays.items() if "running" in name})
    assert all((found[0][name] == found[1][name]).all() for name in found[0])
    mean = next(name for name in found[0] if name.endswith("running_mean"))
    assert found[0][mean].any()


# ---------------------------------------------------------------- what goes wrong


def small(**settings):
    return build("feed_forward", batch=2, depth=1, width=4, features=4, **settings)


def labels(net, length):
    return net.input("transcript", (3, length), "int64")


def by_other_places(net):
    return net.run("Slice", [rows(net), net.input("places", (2, 1), "int32")], (2, 1, 6))


@pytest.mark.parametrize(
    ("network", "graph", "word"),
    [
        (lambda: network_of(lambda net: net.run("Max", [rows(net)], ())), None, "cannot run Max"),
        (lambda: network_of(lambda net: net.run("Frob", [rows(net)], ())), None, "run Frob"),
        (lambda: small(dtype="bfloat16"), None, "bfloat16"),
        (lambda: network_of(lambda net: net.ctc_loss(rows(net), labels(net, 3))), None, "3 labels with 2 steps"),
        (lambda: network_of(lambda net: net.ctc_loss(rows(net, 2, 3, 1), labels(net, 1))), None, "beside the blank"),
        (lambda: network_of(lambda net: net.run("Mean", [rows(net, 3, 3)], (3,))), None, "along which axes"),
        (lambda: network_of(by_other_places), None, "not rows of tables"),
        (lambda: build("lstm", batch=1, steps=1, granularity="layer"), None, "granularity"),
        (lambda: small(parameter_gradients=True), None, "without parameter_gradients"),
        (small, lambda n: differentiate(build("lstm", batch=1, steps=1).graph), "not made from"),
        (small, lambda n: differentiate(n.graph, encode=True), "without encode"),
        (small, lambda n: n.graph.with_costs(memory=n.graph.memory * 2), "not made from"),
        (lambda: network_of(lambda net: net.group_norm(image(net), 2), counting="paper"), None, "how many groups"),
        (lambda: network_of(lambda net: net.run("Sum", [image(net)], (6,))), None, "along which axes"),
        (lambda: network_of(lambda net: net.run("Add", [rows(net), rows(net, 4, name="y")], (2, 3, 6))), None, "joins"),
        (lambda: network_of(lambda net: net.relu(net.view(net.tanh(rows(net)), 5))), None, "no rule"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(network, graph, word):
    network = network()
    with pytest.raises(GraphError, match=word):
        LayerOperators(network, network.graph if graph is None else graph(network))


def test_residents_can_be_given_and_must_fit():
    network = small()
    operators = LayerOperators(network, network.graph, values={"input": np.full((2, 4), 2.0)})
    execute(network.graph, range(network.graph.n_nodes), operators)
    assert (operators.arrays["input"] == 2).all()
    with pytest.raises(GraphError, match=r"input has shape \(2, 4\), not \(3,\)"):
        LayerOperators(network, network.graph, values={"input": np.zeros(3)})
    with pytest.raises(GraphError, match="no input or parameter 'imput'"):
        LayerOperators(network, network.graph, values={"imput": np.zeros(3)})


@pytest.mark.parametrize(
    ("name", "resident", "token", "limits"),
    [
        ("gpt2_small", "embedding.tokens", -1, "from 0 to 10"),
        ("gpt2_small", "embedding.tokens", 11, "from 0 to 10"),
        ("lstm", "classifier.step0.target", -100, "from 0 to 4"),
        ("deepspeech2", "transcript", 0, "from 1 to 3"),
    ],
)
def test_words_and_targets_are_such_as_there_are(name, resident, token, limits):
    network = build(name, **SMALL_NETWORKS[name])
    tokens = np.full_like(starting_values(network)[resident], 3)
    LayerOperators(network, network.graph, values={resident: tokens})
    tokens.flat[0] = token
    with pytest.raises(GraphError, match=limits):
        LayerOperators(network, network.graph, values={resident: tokens})


@pytest.mark.parametrize("made", [(), (np.zeros((2, 3, 2)),)])
def test_a_formula_that_leaves_values_out_is_an_error(made):
    network = network_of(lambda net: net.split(rows(net), 3))
    operators = LayerOperators(network, network.graph)
    operators._formulas = [Formula(lambda call, x: made, None)]
    with pytest.raises(GraphError, match=f"Slice gives {len(made)} of the 3 values of split; give all"):
        execute(network.graph, range(1), operators)


def test_a_formula_that_gives_other_shapes_is_an_error():
    network = network_of(lambda net: net.tanh(rows(net)))
    operators = LayerOperators(network, network.graph)
    operators._formulas = [Formula(lambda call, x: np.zeros(1), None)]
    with pytest.raises(ValueError, match="reshape"):
        execute(network.graph, range(1), operators)


def test_the_loss_is_the_sum_of_what_was_differentiated():
    network = network_of(lambda net: [net.split(net.tanh(rows(net)), 2), net.tanh(rows(net, name="y"), name="other")])
    start = starting_values(network)
    part, other = np.tanh(start["x"])[..., 3:].sum(), np.tanh(start["y"]).sum()
    for names, wanted in ((["split.1"], part), (["split.1", "other"], part + other)):
        graph = differentiate(network.graph, loss=names)
        operators = LayerOperators(network, graph)
        execute(graph, range(graph.n_nodes), operators)
        assert operators.loss == pytest.approx(wanted, rel=1e-5)


def test_layers_are_run_on_their_own_graph():
    network = small()
    operators = LayerOperators(network, network.graph)
    with pytest.raises(GraphError, match="no loss"):
        _ = operators.loss
    with pytest.raises(GraphError, match="another graph"):
        execute(differentiate(network.graph), range(8), operators)
    with pytest.raises(GraphError, match="through execute"):
        operators.run(0, [], [], [], None)


def test_a_gradient_reads_only_what_it_may():
    with pytest.raises(GraphError, match=r"the gradient of conv needs argument 1, .* save it"):
        Readable("the gradient of conv", "argument", [1, None])[1]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (TypeError, {"network": None}),
        (TypeError, {"graph": None}),
        (TypeError, {"dropped": "half"}),
        *((GraphError, {"dropped": share}) for share in (2.0, 1, -0.5, float("nan"))),
        *((TypeError, {"learning_rate": rate}) for rate in ("fast", None)),
        *((GraphError, {"learning_rate": rate}) for rate in (float("nan"), np.inf)),
    ],
    ids=str,
)
def test_what_no_layers_are_made_of(kind, given):
    network = small()
    with pytest.raises(kind, match=f"^{next(iter(given))} is "):
        LayerOperators(**{"network": network, "graph": network.graph} | given)


# ---------------------------------------------------------------- a kind of one's own

CUBE = OperationKind("Cube", "inputs", flops=2, gradient_in_place=True)


@pytest.fixture
def cube(monkeypatch):
    """A kind of operation with a formula, that only this test knows."""
    copied = type(kinds._known())(*map(dict, kinds._known()))
    monkeypatch.setattr(kinds, "_known", lambda: copied)
    kinds.register_kinds(CUBE)
    monkeypatch.setitem(FORMULAS, "Cube", of_input(lambda xp, x: x * x * x, lambda xp, x: 3 * x * x))


@pytest.mark.usefixtures("cube")
def test_a_formula_of_ones_own_is_run_by_a_plan():
    net = Layers("small", Settings(cost="flops"))
    x = net.input("x", (8, 6))
    for k in range(4):
        x = net.pointwise("Cube", [net.linear(x, 6, name=f"linear{k}")], name=f"cube{k}")
    net.mean_square(x, net.input("target", x.shape))
    network = net.network()
    training = differentiate(network.graph, parameter_gradients=True)
    plan = solve(training, "80%")
    assert plan.simulation.overhead > 0
    operators = LayerOperators(network, training, values={"x": np.full((8, 6), 0.1)})
    execution = execute(training, plan.schedule, operators)
    assert execution.mismatches == []
    assert execution.peak_raw == plan.peak_memory


@pytest.mark.usefixtures("cube")
def test_the_gradient_of_a_kind_of_ones_own_is_the_slope_of_its_loss():
    net = Layers("small", Settings(dtype="float64"))
    x = net.pointwise("Cube", [net.linear(net.input("x", (3, 2)), 2, bias=False, name="linear")])
    net.mean_square(x, net.input("target", x.shape))
    network = net.network()
    training = differentiate(network.graph, parameter_gradients=True)

    def run(weight):
        operators = LayerOperators(network, training, values={"linear.weight": weight})
        return operators, execute(training, range(training.n_nodes), operators, outputs=True)

    weight, step = np.array([0.3, -0.8, 1.1, 0.4]), 1e-6
    operators, execution = run(weight.reshape(2, 2))
    gradient = execution.outputs[operators.gradients["linear.weight"]].view(np.float64)
    for at, direction in zip(gradient, np.eye(4) * step, strict=True):
        above, below = (run((weight + way * direction).reshape(2, 2))[0].loss for way in (1, -1))
        np.testing.assert_allclose(at, (above - below) / (2 * step), rtol=1e-6)
