"""How a network is gathered: names, blocks, views, what is saved, effects, residents; laws of random small networks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.cost.node_costs import COSTS
from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.builder import Builder, ExtraValue
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.settings import Settings
from tests.oracles.plain import plain


def builder(**settings):
    return Builder("net", Settings(**settings))


def vocabulary(**settings):
    return Layers("net", Settings(**settings))


# ---------------------------------------------------------------- names


def test_a_name_that_is_taken_gets_a_number():
    net = builder()
    assert [net.named("a") for _ in range(3)] == ["a", "a_2", "a_3"]


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "a_3", "b"]), max_size=12))
def test_names_are_all_different(names):
    net = builder()
    given_names = [net.named(name) for name in names]
    assert len(set(given_names)) == len(names)
    assert all(found.startswith(name) for found, name in zip(given_names, names, strict=True))


def test_scopes_stand_before_the_name():
    net = builder()
    with net.scope("encoder"):
        with net.scope("layer0"):
            assert net.named("conv") == "encoder.layer0.conv"
        assert net.named("conv") == "encoder.conv"
    assert net.named("conv") == "conv"


def test_a_node_is_not_called_as_a_parameter():
    net = vocabulary()
    x = net.linear(net.input("x", (2, 3)), 4, name="fc")
    with net.scope("fc"):
        net.relu(x, name="weight")
    network = net.network()
    assert network.graph.node_names() == ["fc", "fc.weight_2"]
    assert network.graph.resident_names == ("x", "fc.weight", "fc.bias")


def test_values_beside_the_first_are_called_after_their_node():
    net = builder()
    x = net.input("x", (2, 3))
    net.run("Slice", [x], (2, 1), name="y", extra=[ExtraValue("1", (2, 1), "float32", gradient=True)])
    net.run("MaxPooling", [x], (2, 1), name="z", extra=[ExtraValue("indices", (2, 1), "int64")])
    assert net.network().graph.value_names() == ["y", "y.1", "z", "z.indices"]


# ---------------------------------------------------------------- blocks


def small(**settings):
    """x -> stem -> (block: first -> relu -> second) -> loss."""
    net = vocabulary(**settings)
    x = net.linear(net.input("x", (2, 3)), 4, name="stem")
    with net.block("body"):
        x = net.linear(net.relu(net.linear(x, 5, name="first")), 6, name="second")
    net.mean_square(x, net.input("target", x.shape))
    return net.network()


def test_a_block_is_in_names_and_layers():
    network = small()
    assert network.graph.node_names() == ["stem", "body.first", "body.relu", "body.second", "loss"]
    assert [layer.block for layer in network.layers] == ["", "body", "body", "body", ""]


def test_the_inner_one_of_two_blocks_counts():
    net = vocabulary()
    x = net.input("x", (2, 3))
    with net.block("outer"):
        x = net.relu(x)
        with net.block("inner"):
            x = net.relu(x)
        with net.scope("scope"):
            net.relu(x)
    assert [layer.block for layer in net.network().layers] == ["outer", "outer.inner", "outer"]


def test_at_layer_granularity_a_block_is_a_node():
    operation, layer = small(), small(granularity="layer")
    assert layer.graph.node_names() == ["stem", "body", "loss"]
    assert layer.graph.compute.sum() == operation.graph.compute.sum()
    assert layer.graph.resident_memory == operation.graph.resident_memory
    assert layer.layers == operation.layers
    assert simulate(differentiate(layer.graph), range(differentiate(layer.graph).n_nodes)).overhead == 0


@pytest.mark.parametrize("inside", ["scope", "block"])
def test_names_are_outside_again_after_an_error(inside):
    net = builder()
    with pytest.raises(ZeroDivisionError), getattr(net, inside)("body"):
        raise ZeroDivisionError
    net.run("Copy", [net.input("x", (2, 3))], (2, 3), name=net.named("y"))
    assert net.layers[0][:3] == ("y", "Copy", "")


# ---------------------------------------------------------------- views


def test_a_view_has_no_node_and_no_bytes():
    net = vocabulary()
    x = net.relu(net.input("x", (2, 3, 4)), name="a")
    flat = net.view(x, 2, 12, name="flat")
    net.linear(flat, 5, name="y")
    network = net.network()
    assert flat.shape == (2, 12)
    assert network.graph.node_names() == ["a", "y"]
    assert network.graph.memory.tolist() == [96, 40]
    assert network.graph.labels.views == {"flat": "a"}
    assert network.graph.reads(1) == [0]
    assert network.macs == 2 * 5 * 12


def test_a_view_of_a_view_is_one_of_the_value():
    net = vocabulary()
    x = net.relu(net.input("x", (2, 3, 4)), name="a")
    turned = net.view(net.view(x, 2, 12, name="flat"), 4, 6, name="turned")
    net.relu(turned, name="y")
    assert net.network().graph.labels.views == {"flat": "a", "turned": "a"}


def test_a_view_of_a_further_value_names_that_value():
    net = vocabulary()
    _, second = net.split(net.relu(net.input("x", (2, 4)), name="a"), 2, name="half")
    net.relu(net.view(second, 4, name="flat"), name="y")
    assert net.network().graph.labels.views == {"flat": "half.1"}


def test_a_view_of_a_resident_reads_the_resident():
    net = vocabulary()
    x = net.view(net.input("x", (2, 3, 4)), 2, 12, name="flat")
    net.linear(x, 5, name="y")
    g = plain(net.network().graph)
    assert net.network().graph.labels.views == {"flat": "x"}
    assert [g.resident_names[r] for r in g.resident_reads[0]] == ["x", "y.weight", "y.bias"]


def test_views_do_not_stand_in_the_way_of_gradients():
    net = vocabulary()
    x = net.relu(net.input("x", (2, 3, 4)), name="a")
    net.add(net.view(x, 2, 12), net.linear(net.view(x, 2, 12), 12), name="y")
    graph = differentiate(net.network().graph)
    assert [name for name in graph.node_names() if name.startswith("grad(a)")] == ["grad(a)@y", "grad(a)"]


# ---------------------------------------------------------------- what operations read, make and save


def saved_by(net, node):
    g = plain(net.network().graph)
    return [g.value_names[x] for x in g.saved[g.node_names.index(node)]]


def two(net):
    return [net.run("Scale", [net.input(f"in_{name}", (2, 3))], (2, 3), name=name) for name in "ab"]


def test_by_default_the_table_of_operations_says_what_is_saved():
    net = builder()
    both = two(net)
    net.run("Multiply", both, (2, 3), name="product")
    net.run("Tanh", both[:1], (2, 3), name="tanh")
    net.run("Add", both, (2, 3), name="sum")
    assert [saved_by(net, name) for name in ("product", "tanh", "sum")] == [["a", "b"], ["tanh"], []]


def test_of_an_unknown_operation_all_is_saved():
    net = builder()
    net.run("Warp", two(net), (2, 3), name="warp", extra=[ExtraValue("map", (2,), "float32")])
    assert saved_by(net, "warp") == ["a", "b", "warp", "warp.map"]


def test_a_caller_may_name_the_reads_that_are_saved():
    net = builder()
    a, b = two(net)
    net.run("Multiply", [a, b], (2, 3), name="product", saves=[b])
    net.run("Add", [a, b], (2, 3), name="sum", saves=[a])
    assert [saved_by(net, name) for name in ("product", "sum")] == [["b"], ["a"]]


@pytest.mark.parametrize(("counting", "saved"), [("framework", ["top.kept"]), ("paper", ["a", "b"])])
def test_parts_and_values_for_the_gradient_are_told_apart(counting, saved):
    net = builder(counting=counting)
    extra = [ExtraValue("kept", (2,), "float32"), ExtraValue("part", (2, 3), "float32", gradient=True)]
    net.run("Concat", two(net), (2, 3), name="top", extra=extra)
    assert saved_by(net, "top") == saved


def test_what_stands_twice_is_read_once():
    net = builder()
    a, b = two(net)
    w = net.parameter("w", (3,))
    net.run("Multiply", [b, a, w, b, w], (2, 3), name="product")
    g = plain(net.network().graph)
    assert g.reads[2] == [b.value, a.value]
    assert [g.resident_names[r] for r in g.resident_reads[2]] == ["w"]


def test_only_floating_point_numbers_have_gradients():
    net = builder()
    a, _ = two(net)
    for dtype in ("float16", "bfloat16", "float8_e4m3", "int64", "bool"):
        net.run("Copy", [a], (2, 3), name=dtype, dtype=dtype)
    net.run("Copy", [a], (2, 3), name="constant", gradient=False)
    graph = net.network().graph
    names = ("a", "float16", "bfloat16", "float8_e4m3", "int64", "bool", "constant")
    assert [graph.backward.grad_memory[graph.value_id(name)] for name in names] == [24, 12, 12, 6, -1, -1, -1]


def test_an_effect_is_an_output_without_bytes():
    net = builder()
    a, b = two(net)
    net.run("Add", [a, b], (2, 3), name="y", extra=[ExtraValue("count", (0,), "float32", effect=True)])
    net.run("Sum", [a], (), name="loss")
    graph = net.network().graph
    assert {graph.value_name(x) for x in np.flatnonzero(graph.output)} == {"y", "y.count", "loss"}
    assert graph.memory[graph.value_id("y.count")] == 0
    assert saved_by(net, "y") == []


def test_residents_have_their_roles_and_bytes():
    net = builder(dtype="float16")
    x, tokens = net.input("x", (2, 3)), net.input("tokens", (2,), "int64")
    net.run("Copy", [x, tokens, net.parameter("w", (3,)), net.state("mean", (3,))], (2, 3), name="y")
    resident = net.network().graph.resident
    assert resident.names == ("x", "tokens", "w", "mean")
    assert resident.role.tolist() == [0, 0, 1, 2]
    assert resident.memory.tolist() == [12, 16, 6, 12]  # states are float32
    assert net.network().parameter_shapes == {"w": (3,)}


@pytest.mark.parametrize("shape", [(0,), (3, -1)])
def test_a_resident_without_elements_is_refused(shape):
    with pytest.raises(GraphError, match="give lengths of 1 or more"):
        builder().parameter("w", shape)


@pytest.mark.parametrize("make", ["parameter", "state"])
@pytest.mark.parametrize(
    "other",
    [
        lambda net: net.input("w", (3,)),
        lambda net: net.parameter("w", (3,)),
        lambda net: net.state("w", (3,)),
        lambda net: net.run("Copy", [net.input("x", (3,))], (3,), name="w"),
    ],
    ids=["input", "parameter", "state", "operation"],
)
def test_a_resident_whose_name_is_taken_is_refused(make, other):
    net = builder()
    other(net)
    with pytest.raises(GraphError, match=r"^net: the name w is already used; choose another one"):
        getattr(net, make)("w", (4,))


def test_a_parameter_may_have_the_name_that_was_given_for_it():
    net = builder()
    net.parameter(net.named("w"), (3,))
    assert list(net.parameter_shapes) == ["w"]
    assert net.named("w") == "w_2"


def test_a_refused_parameter_is_not_counted():
    net = builder()
    net.parameter("w", (3,))
    with pytest.raises(GraphError):
        net.parameter("w", (4,))
    net.run("Copy", [net.input("x", (2, 3))], (2, 3))
    assert net.network().parameter_shapes == {"w": (3,)}


def test_a_network_without_operations_is_refused():
    net = builder()
    net.input("x", (2, 3))
    with pytest.raises(GraphError, match=r"^net: the network has no operation; add one$"):
        net.network()


@pytest.mark.parametrize("shape", [(2.0, 3), (2, 1.5)])
def test_lengths_are_whole_numbers(shape):
    net = builder()
    with pytest.raises(GraphError, match="give whole numbers"):
        net.run("Copy", [net.input("x", (2, 3))], shape)


def test_lengths_may_be_those_of_numpy():
    net = builder()
    net.run("Copy", [net.input("x", (np.int64(2), 3))], (2, np.int32(3)))
    assert net.network().graph.memory.tolist() == [24]


def test_numbers_reach_the_graph():
    net = builder()
    net.run("Sum", two(net), (), name="y", macs=5, flops=7, workspace=11, grad_workspace=13, once=True, axis=0)
    network = net.network()
    layer, graph = network.layers[2], network.graph
    assert (layer.macs, layer.flops, layer.attributes) == (5, 17, {"axis": 0})
    assert layer.bytes_moved == 24 + 24 + 4
    assert (graph.compute[2], graph.workspace[2], graph.backward.grad_workspace[2]) == (17, 11, 13)
    assert graph.once.tolist() == [False, False, True]
    assert graph.labels.ops == ("Scale", "Scale", "Sum")
    assert graph.labels.compute_unit == "FLOPs"


def test_without_a_name_an_operation_is_called_as_its_kind():
    net = builder()
    x = net.input("x", (2, 3))
    net.run("Tanh", [net.run("Tanh", [x], (2, 3))], (2, 3))
    assert net.network().graph.node_names() == ["tanh", "tanh_2"]


# ---------------------------------------------------------------- settings


def test_parameter_gradients_differentiate():
    network = small(parameter_gradients=True)
    graph = network.graph
    assert graph.is_training
    weights = {f"grad({name})" for name in network.parameter_shapes}
    assert weights <= set(graph.node_names())
    assert graph.n_nodes == len(network.layers) + 1 + 4 + 6  # the seed, gradients of four values, of six parameters
    assert network.activation_memory == small().activation_memory


def test_an_optimizer_updates_each_parameter():
    network = small(optimizer="sgd")
    without = small(parameter_gradients=True)
    assert network.graph.n_nodes == without.graph.n_nodes + len(network.parameter_shapes)
    assert network.layers == without.layers


@pytest.mark.parametrize("cost", COSTS[:3])
def test_costs_are_those_of_the_chosen_way(cost):
    net = vocabulary(cost=cost)
    net.convolution(net.relu(net.input("x", (1, 2, 4, 4))), 3, 3)
    # 16 * 2 comparisons; 3 * 2 * 2 = 12 results of 2 * 9 = 18 products, and the bias
    expected = {"flops": [32, 2 * 12 * 18 + 12], "paper": [1, 10], "unit": [1, 1]}
    assert net.network().graph.compute.tolist() == expected[cost]


@pytest.mark.parametrize(
    ("workspace", "settings"), [(576, {}), (100, {"workspace": 100}), (0, {"workspace": 0}), (0, {"counting": "paper"})]
)
def test_a_convolution_takes_at_most_the_workspace_it_is_given(workspace, settings):
    net = vocabulary(**settings)
    net.convolution(net.input("x", (5, 2, 6, 4)), 3, 3, name="y")  # 2 * 9 * (4 * 2) = 144 floats for one image
    assert net.network().graph.workspace.tolist() == [workspace]


# ---------------------------------------------------------------- random networks

STEPS = ("linear", "relu", "gelu", "tanh", "add", "multiply", "concat", "dropout", "layer_norm", "softmax", "split")


@st.composite
def recipes(draw):
    """Steps, each with a choice of what it reads."""
    return draw(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), min_size=1, max_size=10))


def cook(recipe, batch=3, **settings):
    """A network of rows, whose last step is the loss."""
    net = vocabulary(**settings)
    pool = [net.linear(net.input("x", (batch, 4)), 6, name="first")]
    for step, choice in recipe:
        x = pool[choice % len(pool)]
        with net.block(f"block{choice % 3}"):
            pool += cooked(net, step, x, [y for y in pool if y.shape == x.shape][-1])
    total = net.concat(*pool)
    net.mean_square(total, net.input("target", total.shape))
    return net.network()


def cooked(net, step, x, other):
    if step == "linear":
        return [net.linear(x, 5)]
    if step in ("add", "multiply", "concat"):
        return [getattr(net, step)(x, other)]
    if step == "split":
        return net.split(x, 2) if x.shape[1] % 2 == 0 else []
    return [getattr(net, step)(x)]


@given(recipes())
def test_layers_and_nodes_are_the_same_operations(recipe):
    network = cook(recipe)
    graph = network.graph
    assert [layer.name for layer in network.layers] == graph.node_names()
    assert tuple(layer.op for layer in network.layers) == graph.labels.ops
    assert [layer.flops for layer in network.layers] == graph.compute.tolist()
    assert network.flops == graph.compute.sum()
    assert all(layer.flops >= 2 * layer.macs for layer in network.layers)
    names = [*graph.value_names(), *graph.resident_names]
    assert len(set(names)) == len(names)


@given(recipes())
def test_bytes_moved_are_bytes_of_values_once_for_each_reader_and_the_maker(recipe):
    network = cook(recipe)
    g = plain(network.graph)
    moved = sum(g.memory) + sum(g.memory[x] for row in g.reads for x in row)
    moved += sum(g.resident_memory[r] for row in g.resident_reads for r in row)
    assert sum(layer.bytes_moved for layer in network.layers) == moved


@given(recipes(), st.sampled_from(["framework", "paper"]))
def test_any_network_can_be_differentiated_and_simulated(recipe, counting):
    graph = differentiate(cook(recipe, counting=counting, dropout="single").graph, parameter_gradients=True)
    simulation = simulate(graph, np.flatnonzero(graph.needed))
    assert simulation.overhead == 0
    assert simulation.peak_memory >= graph.node_memory[graph.needed].max()
    assert {"grad(first.weight)", "grad(first.bias)"} <= set(graph.node_names())


@given(recipes(), st.integers(1, 5))
def test_work_and_values_grow_with_the_batch_and_parameters_do_not(recipe, batch):
    one, more = cook(recipe, batch=1), cook(recipe, batch=batch)
    loss = 4
    assert more.macs == batch * one.macs
    assert more.flops == batch * one.flops
    assert more.activation_memory - loss == batch * (one.activation_memory - loss)
    assert more.parameter_shapes == one.parameter_shapes


@given(recipes())
def test_paper_counting_only_leaves_values_out(recipe):
    framework, paper = cook(recipe), cook(recipe, counting="paper")
    assert paper.graph.node_names() == framework.graph.node_names()
    assert (paper.macs, paper.flops) == (framework.macs, framework.flops)
    with_gradient = framework.graph.backward.grad_memory >= 0
    masks = [framework.graph.labels.ops[v] == "DropoutMask" for v in framework.graph.producer]
    assert paper.graph.memory.tolist() == framework.graph.memory[with_gradient | masks].tolist()


@given(recipes())
def test_layer_granularity_keeps_the_work(recipe):
    operation, layer = cook(recipe), cook(recipe, granularity="layer")
    assert layer.graph.n_nodes <= operation.graph.n_nodes
    assert layer.graph.compute.sum() == operation.graph.compute.sum()
    assert layer.graph.resident_memory == operation.graph.resident_memory


@given(recipes())
def test_primitive_granularity_keeps_products_and_parameters(recipe):
    operation, primitive = cook(recipe), cook(recipe, granularity="primitive")
    assert primitive.macs == operation.macs
    assert primitive.parameter_shapes == operation.parameter_shapes
    assert primitive.graph.n_nodes >= operation.graph.n_nodes
    assert primitive.layers[-1].shapes == operation.layers[-1].shapes
