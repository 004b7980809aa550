"""Graphs of ONNX models, made by hand so that their bytes are known."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import remat_algos as ra
from remat_algos.interop.onnx import capture
from tests.command_line import runner
from tests.raising import raises

ROOT = Path(__file__).parents[2]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name, shape=None, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(name, shape, dtype=FLOAT, fill=0):
    return helper.make_tensor(name, dtype, shape, np.full(int(np.prod(shape)), fill, np.int64))


def graph_of(nodes, inputs, outputs, initializers=(), value_info=()):
    return helper.make_graph(
        [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes],
        "net",
        inputs,
        [out if isinstance(out, onnx.ValueInfoProto) else info(out) for out in outputs],
        initializers,
        value_info=value_info,
    )


def model_of(*parts, opset=21, **more):
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph_of(*parts, **more), opset_imports=opsets)


def mlp():
    return model_of(
        [
            ("Gemm", ["x", "w1", "b1"], ["h"], {"transB": 1}),
            ("Relu", ["h"], ["r"]),
            ("MatMul", ["r", "w2"], ["y"]),
            ("ReduceMean", ["y"], ["loss"], {"keepdims": 0}),
        ],
        [info("x", ["batch", 16])],
        ["loss"],
        [tensor("w1", [32, 16]), tensor("b1", [32]), tensor("w2", [32, 4])],
    )


def block(training):
    statistics = ["mean_out", "var_out"] if training else []
    return model_of(
        [
            ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1], "group": 2}),
            (
                "BatchNormalization",
                ["c", "scale", "bias", "mean", "var"],
                ["n", *statistics],
                {"training_mode": training},
            ),
            ("Relu", ["n"], ["r"]),
            ("MaxPool", ["r"], ["p", "places"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ],
        [info("x", [2, 4, 8, 8])],
        ["p", *statistics],
        [tensor("w", [6, 2, 3, 3]), *(tensor(name, [6]) for name in ("scale", "bias", "mean", "var"))],
    )


def dropout(flag=None, mask=True, dtype=BOOL, opset=21):
    reads = ["x", "ratio", "flag"] if flag is not None else ["x"]
    settings = [tensor("ratio", []), tensor("flag", [], dtype, flag)] if flag is not None else []
    nodes = [("Dropout", reads, ["d", "mask"] if mask else ["d"]), ("Relu", ["d"], ["y"])]
    return model_of(nodes, [info("x", [3, 5])], ["y"], settings, opset=opset)


def branches(body=("Relu", ["h"], ["out"])):
    then = graph_of([("Sub", ["h", "shift"], ["out"])], [], [info("out", [3, 5])])
    other = graph_of([body], [], [info("out", [3, 5])])
    return model_of(
        [("Exp", ["x"], ["h"]), ("If", ["yes"], ["y"], {"then_branch": then, "else_branch": other})],
        [info("x", [3, 5]), info("yes", [], BOOL)],
        ["y"],
        [tensor("shift", [5])],
    )


def memory(graph):
    return dict(zip(graph.value_names(), graph.memory.tolist(), strict=True))


def residents(graph):
    roles = [("input", "parameter", "state")[role] for role in graph.resident.role]
    return dict(zip(graph.resident.names, zip(graph.resident.memory.tolist(), roles, strict=True), strict=True))


def reads(graph, name):
    return [graph.value_name(x) for x in graph.reads(graph.node_id(name))]


def saved(graph, name):
    return {graph.value_name(x) for x in graph.backward.saved(graph.node_id(name))}


def once(graph):
    return [graph.labels[v] for v in np.flatnonzero(graph.once)]


# ---------------------------------------------------------------- sizes, costs, what gradients read


def test_an_mlp_has_the_bytes_and_flops_of_its_layers():
    graph = capture(mlp(), {"batch": 8}, cost="flops")
    assert memory(graph) == {"h": 8 * 32 * 4, "r": 8 * 32 * 4, "y": 8 * 4 * 4, "loss": 4}
    assert graph.compute.tolist() == [2 * 8 * 32 * 16, 0, 2 * 8 * 4 * 32, 0]
    assert residents(graph) == {
        "w1": (2048, "parameter"),
        "b1": (128, "parameter"),
        "w2": (512, "parameter"),
        "x": (512, "input"),
    }
    assert [saved(graph, name) for name in ("h", "r", "y", "loss")] == [set(), {"r"}, {"r"}, set()]
    assert graph.labels.compute_unit == "FLOPs"


def test_an_mlp_is_trained_and_planned():
    graph = capture(mlp(), {"batch": 8})
    training = ra.differentiate(graph, parameter_gradients=True)
    assert {"grad(w1)", "grad(b1)", "grad(w2)"} <= set(training.node_names())
    assert ra.solve(training, "least").peak_memory <= ra.simulate(training, range(training.n_nodes)).peak_memory


def test_costs_are_times_on_an_a100_or_those_of_a_function():
    graph = capture(mlp(), {"batch": 8})
    moved = 512 + 2048 + 128 + 1024
    assert graph.labels.compute_unit == "ns"
    assert graph.compute[0] == round(5000 + max(8192 / 19_500, moved / 2039))
    counted = capture(mlp(), {"batch": 8}, cost=lambda flops, bytes_moved: bytes_moved)
    assert counted.compute[0] == moved


def test_with_occupancy_products_compute_whole_waves():
    """The first layer has 8 x 32 results of 108 x 64 x 64 in a wave; operators without FLOPs stay as they are."""
    roofline, occupied = (capture(mlp(), {"batch": 8}, cost=cost) for cost in ("roofline", "occupancy"))
    assert occupied.compute[0] == round(5000 + 8192 * (108 * 64 * 64 / 256) / 19_500)
    products = occupied.compute != roofline.compute
    assert [op for op, product in zip(occupied.labels.ops, products, strict=True) if product] == ["Gemm", "MatMul"]


@pytest.mark.parametrize("training", [0, 1])
def test_a_block_of_convolution_normalization_and_pooling(training):
    graph = capture(block(training), cost="flops")
    statistics = {"mean_out": 24, "var_out": 24} if training else {}
    maps = (
        dict.fromkeys(("c", "n"), 2 * 6 * 8 * 8 * 4) | statistics | {"r": 3072, "p": 768, "places": 2 * 6 * 4 * 4 * 8}
    )
    assert memory(graph) == maps
    assert graph.compute.tolist() == [2 * 2 * 6 * 8 * 8 * 2 * 3 * 3, 0, 0, 0]
    assert residents(graph)["mean"] == residents(graph)["var"] == (24, "state")
    assert residents(graph)["scale"] == (24, "parameter")
    assert [saved(graph, name) for name in ("n", "r", "p")] == [{"c"}, {"r"}, {"places"}]
    assert {graph.value_name(x) for x in np.flatnonzero(graph.output)} == {"p", *statistics}
    assert graph.backward.grad_memory[graph.value_id("places")] == -1


def test_views_take_no_bytes_and_are_read_as_their_base():
    nodes = [
        ("Exp", ["x"], ["e"]),
        ("Reshape", ["e", "shape"], ["v1"]),
        ("Squeeze", ["v1", "axis"], ["v2"]),
        ("Identity", ["x"], ["v3"]),
        ("Relu", ["v2"], ["r"]),
        ("Add", ["v2", "v3"], ["a"]),
        ("Flatten", ["a"], ["y"]),
    ]
    constants = [tensor("shape", [3], INT64, 0), tensor("axis", [1], INT64, 2)]
    constants[0] = helper.make_tensor("shape", INT64, [3], [3, 5, 1])
    graph = capture(model_of(nodes, [info("x", [3, 5])], ["r", "y"], constants))
    assert graph.labels.names == ("e", "r", "a")
    assert graph.labels.views == {"v1": "e", "v2": "e", "v3": "x", "y": "a"}
    assert reads(graph, "r") == reads(graph, "a") == ["e"]
    assert graph.output.tolist() == [False, True, True]
    assert residents(graph)["shape"] == (24, "input")


def test_the_gradient_of_an_unknown_operator_reads_everything():
    nodes = [("Exp", ["x"], ["e"]), ("Elu", ["e"], ["y"]), ("Gather", ["y", "places"], ["z"])]
    graph = capture(model_of(nodes, [info("x", [3, 5]), info("i", [2], INT64)], ["z"], [tensor("places", [2], INT64)]))
    assert [saved(graph, name) for name in ("e", "y", "z")] == [{"e"}, {"e", "y"}, set()]


def test_a_gradient_reads_indices_and_conditions():
    nodes = [("Exp", ["x"], ["e"]), ("Greater", ["e", "x"], ["c"]), ("Where", ["c", "e", "x"], ["y"])]
    graph = capture(model_of(nodes, [info("x", [3, 5])], ["y"]))
    assert saved(graph, "y") == {"c"}
    assert memory(graph)["c"] == 15


def test_shape_reads_no_element():
    nodes = [("Exp", ["x"], ["e"]), ("Shape", ["e"], ["s"]), ("ConstantOfShape", ["s"], ["y"])]
    graph = capture(model_of(nodes, [info("x", ["n", 5])], ["y"]), {"n": 3})
    assert (reads(graph, "s"), reads(graph, "y"), memory(graph)["y"]) == ([], ["s"], 60)


def test_elements_below_a_byte_are_packed():
    nodes = [("Cast", ["x"], ["q"], {"to": TensorProto.INT4}), ("Cast", ["q"], ["y"], {"to": TensorProto.FLOAT16})]
    assert memory(capture(model_of(nodes, [info("x", [3, 5])], [info("y", [3, 5], TensorProto.FLOAT16)]))) == {
        "q": 8,
        "y": 30,
    }


# ---------------------------------------------------------------- FLOPs


def flops(op, reads, values=((1,),), domain="", **attributes):
    """FLOPs of one operator whose reads have these shapes; its values have them from inference, or are told."""
    names = [f"r{k}" if shape is not None else "" for k, shape in enumerate(reads)]
    inputs = [info(name, shape) for name, shape in zip(names, reads, strict=True) if shape is not None]
    outputs = [f"v{k}" for k in range(len(values))]
    told = [info(name, list(shape) if domain else None) for name, shape in zip(outputs, values, strict=True)]
    graph = graph_of([(op, names, outputs, {"domain": domain, **attributes})], inputs, told)
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1)]
    return capture(helper.make_model(graph, opset_imports=opsets), cost="flops").compute.tolist()[0]


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize(("direction", "directions"), [("forward", 1), ("reverse", 1), ("bidirectional", 2)])
@pytest.mark.parametrize("batch_first", [0, 1])
def test_recurrent_operators_multiply_all_gates_in_each_step(op, gates, direction, directions, batch_first):
    steps, batch, inputs, hidden = 5, 3, 7, 11
    x = [batch, steps, inputs] if batch_first else [steps, batch, inputs]
    weight, recurrence = [directions, gates * hidden, inputs], [directions, gates * hidden, hidden]
    by_hand = sum(
        2 * gates * hidden * inputs + 2 * gates * hidden * hidden
        for _ in range(directions)
        for _ in range(steps)
        for _ in range(batch)
    )
    options = {"hidden_size": hidden, "direction": direction, "layout": batch_first}
    assert flops(op, [x, weight, recurrence], **options) == by_hand
    bias = [directions, 2 * gates * hidden]
    assert flops(op, [x, weight, recurrence, bias], [(1,), (1,)], **options) == by_hand


def test_an_lstm_of_which_only_the_last_state_is_read_has_its_flops():
    nodes = [("LSTM", ["x", "w", "r"], ["", "h"], {"hidden_size": 4}), ("Relu", ["h"], ["y"])]
    weights = [tensor("w", [1, 16, 3]), tensor("r", [1, 16, 4])]
    graph = capture(model_of(nodes, [info("x", ["steps", 2, 3])], ["y"], weights), {"steps": 6}, cost="flops")
    assert graph.compute.tolist() == [2 * 6 * 2 * 16 * (3 + 4), 0]


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("directions", [1, 2])
def test_pytorch_counts_the_same_flops_of_a_recurrent_layer(op, gates, directions):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    layer = getattr(torch.nn, op)(7, 11, bidirectional=directions == 2, dtype=torch.float64)  # not one fused operator
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(5, 3, 7, dtype=torch.float64))
    shapes = [[5, 3, 7], [directions, gates * 11, 7], [directions, gates * 11, 11]]
    direction = ("forward", "bidirectional")[directions - 1]
    assert flops(op, shapes, hidden_size=11, direction=direction) == counter.get_total_flops() > 0


@pytest.mark.parametrize(
    ("equation", "shapes", "wanted"),
    [
        ("bij, bjk -> bik", [(2, 3, 4), (2, 4, 5)], 2 * 2 * 3 * 4 * 5),
        ("ij,jk", [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (2, 7, 4, 5)], 2 * 2 * 7 * 3 * 4 * 5),
        ("...i,...i", [(6, 4), (6, 4)], 2 * 6 * 4),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)], 2 * 3 * 4 * 5 + 2 * 3 * 5 * 6),
        ("ij,kj->", [(3, 4), (5, 4)], 2 * 4),
        ("bi,bi->bi", [(3, 4), (3, 4)], 0),
        ("i,j->ij", [(3,), (4,)], 0),
        ("ij->ji", [(3, 4)], 0),
        ("ii->i", [(3, 3)], 0),
    ],
)
def test_an_einsum_costs_its_sums_of_products(equation, shapes, wanted):
    assert flops("Einsum", shapes, equation=equation) == wanted


B, S, L, P, N, H = 2, 3, 5, 4, 6, 8  # batch, queries, keys, past keys, heads, elements of a head
SCORES = 2 * B * N * S * H  # of the queries with one key


@pytest.mark.parametrize(
    ("op", "reads", "values", "attributes", "wanted"),
    [
        ("Attention", [(B, N, S, H), (B, N, L, H), (B, N, L, H)], 1, {}, 2 * L * SCORES),
        ("Attention", [(B, N, S, H), (B, 2, L, H), (B, 2, L, 3)], 1, {}, L * SCORES + L * SCORES * 3 // H),
        (
            "Attention",
            [(B, S, N * H), (B, L, 2 * H), (B, L, 2 * H)],
            1,
            {"q_num_heads": N, "kv_num_heads": 2, "is_causal": 1},
            2 * L * SCORES,
        ),
        (
            "Attention",
            [(B, N, S, H), (B, N, L, H), (B, N, L, H), None, (B, N, P, H), (B, N, P, H)],
            3,
            {},
            2 * (P + L) * SCORES,
        ),
        ("ConvTranspose", [(2, 4, 8, 8), (4, 6, 3, 3)], 1, {}, 2 * (2 * 4 * 8 * 8) * 6 * 3 * 3),
        ("ConvTranspose", [(2, 4, 8, 8), (4, 3, 3, 3)], 1, {"group": 2}, 2 * (2 * 4 * 8 * 8) * 3 * 3 * 3),
        ("Conv", [(2, 4, 9), (6, 2, 3)], 1, {"group": 2, "strides": [2]}, 2 * (2 * 6 * 4) * 2 * 3),
        ("Gemm", [(4, 3), (4, 5)], 1, {"transA": 1}, 2 * 3 * 4 * 5),
        ("MatMul", [(4,), (4,)], 1, {}, 2 * 4),
        ("MatMul", [(7, 3, 4), (4, 5)], 1, {}, 2 * 7 * 3 * 4 * 5),
    ],
)
def test_products_and_attention_cost_their_sums(op, reads, values, attributes, wanted):
    assert flops(op, reads, [(1,)] * values, **attributes) == wanted


@pytest.mark.parametrize(
    ("op", "reads", "values", "attributes", "wanted"),
    [
        ("FusedMatMul", [(7, 4, 3), (7, 4, 5)], [(7, 3, 5)], {"transA": 1}, 2 * 7 * 3 * 4 * 5),
        ("FusedMatMul", [(4, 7, 3), (7, 4, 5)], [(7, 3, 5)], {"transA": 1, "transBatchA": 1}, 2 * 7 * 3 * 4 * 5),
        ("FusedGemm", [(4, 3), (4, 5)], [(3, 5)], {"transA": 1, "activation": "Relu"}, 2 * 3 * 4 * 5),
        ("MatMulNBits", [(2, 3, 64), (5, 2, 16), (10,)], [(2, 3, 5)], {"K": 64, "N": 5}, 2 * 2 * 3 * 64 * 5),
        ("FusedConv", [(2, 4, 9), (6, 2, 3)], [(2, 6, 7)], {"group": 2}, 2 * (2 * 6 * 7) * 2 * 3),
        ("MultiHeadAttention", [(B, S, N * H), (B, L, N * H), (B, L, N * H)], [(B, S, N * H)], {}, 2 * L * SCORES),
        ("MultiHeadAttention", [(B, S, N * H), (B, N, L, H), (B, N, L, H)], [(B, S, N * H)], {}, 2 * L * SCORES),
        ("MultiHeadAttention", [(B, S, N, 3, H)], [(B, S, N * H)], {}, 2 * S * SCORES),
        (
            "MultiHeadAttention",
            [(B, S, N * H), *[(B, S, N * H)] * 2, None, None, None, *[(B, N, P, H)] * 2],
            [(B, S, N * H)],
            {},
            2 * (P + S) * SCORES,
        ),
        (
            "Attention",
            [(B, S, 10), (10, 3 * N * H), (3 * N * H,), None, (2, B, N, P, H)],
            [(B, S, N * H)],
            {},
            2 * B * S * 10 * 3 * N * H + 2 * (P + S) * SCORES,
        ),
        (
            "GroupQueryAttention",
            [(B, S, N * H), *[(B, S, 2 * H)] * 2, *[(B, 2, P, H)] * 2],
            [(B, S, N * H), *[(B, 2, P + S, H)] * 2],
            {},
            2 * (P + S) * SCORES,
        ),
        ("GroupQueryAttention", [(B, S, (N + 4) * H)], [(B, S, N * H)], {}, 2 * S * SCORES),
        ("BiasGelu", [(3, 4), (4,)], [(3, 4)], {}, 0),
    ],
)
def test_operators_of_onnxruntime_cost_what_they_fuse(op, reads, values, attributes, wanted):
    assert flops(op, reads, values, "com.microsoft", **attributes) == wanted


def test_an_operator_of_another_domain_is_no_operator_of_onnx():
    nodes = [("MatMul", ["x", "x"], ["y"], {"domain": "mine"})]
    assert capture(model_of(nodes, [info("x", [3, 3])], [info("y", [3, 3])]), cost="flops").compute.tolist() == [0]


PRODUCT = 2 * 3 * 4 * 4  # of the operator in the bodies below


def looped(times, shape=(3, 4)):
    inside = graph_of(
        [("MatMul", ["carried", "w"], ["next"]), ("Identity", ["going"], ["on"])],
        [info("i", [], INT64), info("going", [], BOOL), info("carried", shape)],
        [info("on", [], BOOL), info("next", shape)],
    )
    inputs, weights = [info("x", [3, 4]), info("t", [], INT64), info("c", [], BOOL)], [tensor("w", [4, 4])]
    if times is not None:
        weights.append(helper.make_tensor("times", INT64, [], [times]))
    name = "times" if times is not None else "t"
    return model_of([("Loop", [name, "c", "x"], ["y"], {"body": inside})], inputs, [info("y", [3, 4])], weights)


@pytest.mark.parametrize(("times", "runs"), [(5, 5), (0, 0), (None, 1), (2**63 - 1, 1)])
def test_a_loop_costs_its_body_as_often_as_the_model_tells(times, runs):
    assert capture(looped(times), cost="flops").compute.tolist() == [runs * PRODUCT]


def test_runs_of_a_loop_may_be_a_constant_node():
    for value in ({"value_int": 5}, {"value": tensor("", [], INT64, 5)}, {"value": tensor("", [1], INT64, 5)}):
        model = looped(None)
        model.graph.node.insert(0, helper.make_node("Constant", [], ["times"], **value))
        model.graph.node[1].input[0] = "times"
        assert capture(model, cost="flops").compute.tolist() == [5 * PRODUCT]


def test_symbols_in_bodies_have_their_lengths():
    assert capture(looped(5, ("n", 4)), {}, cost="flops").compute.tolist() == [0]
    model = looped(5, ("n", 4))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    assert capture(model, {"n": 3}, cost="flops").compute.tolist() == [5 * PRODUCT]


def test_a_scan_costs_its_body_for_each_slice():
    inside = graph_of(
        [("MatMul", ["h", "w"], ["m"]), ("Add", ["m", "slice"], ["next"]), ("Identity", ["next"], ["each"])],
        [info("h"), info("slice")],
        ["next", "each"],
    )
    for axes, shape in (({}, [7, 3, 4]), ({"scan_input_axes": [-1]}, [3, 4, 7])):
        nodes = [("Scan", ["h0", "xs"], ["y", "ys"], {"body": inside, "num_scan_inputs": 1, **axes})]
        model = model_of(nodes, [info("h0", [3, 4]), info("xs", shape)], ["y", "ys"], [tensor("w", [4, 4])])
        assert capture(model, cost="flops").compute.tolist() == [7 * PRODUCT]


def test_an_if_costs_its_costlier_branch():
    twice = graph_of([("MatMul", ["x", "w"], ["m"]), ("MatMul", ["m", "w"], ["a"])], [], ["a"])
    never = graph_of([("Neg", ["x"], ["b"])], [], ["b"])
    nodes = [("If", ["yes"], ["y"], {"then_branch": twice, "else_branch": never})]
    model = model_of(nodes, [info("x", [3, 4]), info("yes", [], BOOL)], [info("y", [3, 4])], [tensor("w", [4, 4])])
    assert capture(model, cost="flops").compute.tolist() == [2 * PRODUCT]


# ---------------------------------------------------------------- draws and bodies


@pytest.mark.parametrize(
    ("model", "drawn", "names"),
    [
        (dropout(flag=1), ["d"], ("d", "y")),
        (dropout(flag=0), [], ("d", "y")),
        (dropout(flag=0, mask=False), [], ("y",)),
        (dropout(mask=False), [], ("y",)),
        (dropout(mask=False, opset=7), [], ("y",)),
        (dropout(mask=False, opset=6), ["d"], ("d", "y")),
    ],
)
def test_dropout_draws_in_training_alone(model, drawn, names):
    graph = capture(model)
    assert (once(graph), graph.labels.names) == (drawn, names)


def test_the_gradient_of_dropout_reads_its_mask():
    graph = capture(dropout(flag=1))
    assert (saved(graph, "d"), memory(graph)["mask"]) == ({"mask"}, 15)


def test_what_draws_runs_once():
    nodes = [("RandomNormal", [], ["noise"], {"shape": [3, 5]}), ("Add", ["x", "noise"], ["y"])]
    assert once(capture(model_of(nodes, [info("x", [3, 5])], ["y"]))) == ["noise"]


def test_branches_are_one_node_that_reads_what_both_read():
    graph = capture(branches())
    assert graph.labels.names == ("h", "y")
    assert reads(graph, "y") == ["h"]
    read = graph.resident.read_indices[graph.resident.read_indptr[1] :]
    assert {graph.resident.names[r] for r in read} == {"yes", "shift"}
    assert once(graph) == []
    assert once(capture(branches(("RandomNormalLike", ["h"], ["out"])))) == ["y"]


def test_a_loop_is_one_node():
    body = graph_of(
        [("Add", ["carried", "e"], ["next"]), ("Identity", ["going"], ["on"])],
        [info("i", [], INT64), info("going", [], BOOL), info("carried", [3, 5])],
        [info("on", [], BOOL), info("next", [3, 5])],
    )
    nodes = [("Exp", ["x"], ["e"]), ("Loop", ["times", "", "x"], ["y"], {"body": body})]
    graph = capture(model_of(nodes, [info("x", [3, 5])], [info("y", [3, 5])], [tensor("times", [], INT64, 4)]))
    assert (graph.labels.names, reads(graph, "y")) == (("e", "y"), ["e"])


# ---------------------------------------------------------------- ways in


def test_a_file_its_bytes_and_the_model_are_one_graph(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(mlp().SerializeToString())
    wanted = capture(mlp(), {"batch": 8}).hash
    assert capture(path, {"batch": 8}).hash == capture(path.read_bytes(), {"batch": 8}).hash == wanted


def test_the_model_is_left_as_it_was():
    model = mlp()
    before = model.SerializeToString()
    capture(model, {"batch": 8})
    assert model.SerializeToString() == before


def of_local_function(*nodes):
    """A call of a function from a to c, of these nodes."""
    model = model_of([("Twice", ["x"], ["y"], {"domain": "mine"})], [info("x", [3, 5])], [info("y", [3, 5])])
    made = [helper.make_node(*node) for node in nodes]
    model.functions.append(helper.make_function("mine", "Twice", ["a"], ["c"], made, [helper.make_opsetid("", 21)]))
    return model


def test_local_functions_are_written_out():
    graph = capture(of_local_function(("Exp", ["a"], ["b"]), ("Exp", ["b"], ["c"])))
    assert graph.labels.ops == ("Exp", "Exp")


def test_a_length_that_depends_on_data_is_given_by_place():
    nodes = [("NonZero", ["x"], ["z"]), ("Cast", ["z"], ["y"], {"to": FLOAT})]
    model = model_of(nodes, [info("x", [3, 5])], ["y"])
    assert memory(capture(model, {"z[1]": 7})) == {"z": 2 * 7 * 8, "y": 2 * 7 * 4}


def test_an_operator_of_another_domain_takes_the_shape_that_the_model_gives():
    nodes = [("Relu", ["x"], ["r"], {"domain": "mine"}), ("Exp", ["r"], ["y"])]
    graph = capture(model_of(nodes, [info("x", [3, 5])], ["y"], value_info=[info("r", [3, 2])]))
    assert (graph.labels.ops[0], memory(graph)["r"], saved(graph, "r")) == ("mine.Relu", 24, {"r"})


def test_a_mask_without_size_that_nothing_reads_is_not_made():
    graph = capture(dropout(opset=7))
    assert graph.labels.views == {"d": "x"}


def test_the_example_prints_what_the_page_shows():
    """`python -m tests.benchmarks.occasion onnx_order` writes it, and the occasion behind it."""
    command = [sys.executable, "-W", "error", ROOT / "examples" / "onnx_order.py"]
    printed = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout
    recorded = (ROOT / "docs" / "results" / "onnx_order.txt").read_text(encoding="utf-8")
    assert printed == recorded.rpartition("\nMeasured on")[0]


# ---------------------------------------------------------------- bad input

RELU = [("Relu", ["x"], ["y"])]
NO_RANK = model_of(RELU, [info("x")], ["y"])
NO_SYMBOL = model_of(RELU, [info("x", [-1, 3])], ["y"])
UNTYPED = model_of([("Wobble", ["x"], ["y"], {"domain": "mine"})], [info("x", [2])], ["y"])
LOST = model_of([("Wobble", ["q"], ["y"], {"domain": "mine"})], [info("x", [2])], [info("y", [2])])
BY_DATA = model_of([("NonZero", ["x"], ["z"]), ("Neg", ["z"], ["y"])], [info("x", [3])], [info("y", None, INT64)])
SHORT = model_of([("MatMul", ["x", "x"], ["y"])], [info("x", [2, 3])], ["y"])
SEQUENCE = model_of(
    [("SequenceConstruct", ["x"], ["s"]), ("ConcatFromSequence", ["s"], ["y"], {"axis": 0})], [info("x", [2])], ["y"]
)
STRINGS = model_of(
    [("Identity", ["x"], ["y"])], [info("x", [2], TensorProto.STRING)], [info("y", [2], TensorProto.STRING)]
)


@pytest.mark.parametrize(
    ("model", "dims", "fields"),
    [
        (mlp(), None, {"unsized": 4, "first": "x", "shape": "batch x 16", "dims": 'dims={"batch": 1}'}),
        (NO_SYMBOL, {}, {"unsized": 2, "first": "x", "shape": "? x 3", "dims": 'dims={"x[0]": 1}'}),
        (BY_DATA, {}, {"first": "z", "shape": "1 x unk__0", "dims": 'dims={"z[1]": 1}'}),
        (NO_RANK, {}, {"unsized": 2, "first": "x"}),
        (UNTYPED, {}, {"unsized": 1, "first": "y"}),
        (LOST, {}, {"reader": "y", "name": "q"}),
        (SEQUENCE, {}, {"name": "s", "kind": "sequence"}),
        (STRINGS, {}, {"name": "x"}),
        (mlp(), {"bach": 8}, {"unknown": "bach", "near": "; did you mean batch?"}),
        (mlp(), {"batch": 8, "q": 8}, {"unknown": "q", "known": ["batch"]}),
        (mlp(), {"batch": 8.0}, {"name": "batch", "length": 8.0}),
        (mlp(), {"batch": -1}, {"name": "batch", "length": -1}),
        (b"no model", {}, {"source": "the model"}),
        (b"", {}, {"source": "the model"}),
        ("missing.onnx", {}, {"source": "missing.onnx", "strerror": "No such file or directory"}),
    ],
)
def test_what_cannot_be_a_graph_is_refused(model, dims, fields):
    with raises(ra.GraphError, **fields):
        capture(model, dims)


def test_shapes_that_contradict_each_other_are_told_by_the_first_line_of_onnx():
    with pytest.raises(
        ra.GraphError, match=r"inferred: \(op_type:MatMul\): Incompatible dimensions .*; is it"
    ) as error:
        capture(SHORT)
    assert "\n" not in str(error.value)


def doubled(change):
    """Two operators in a row, or in both branches of an If, after something was done to the graph."""
    model = model_of(
        [("Exp", ["x"], ["h"]), ("Split", ["h"], ["a", "b"], {"num_outputs": 2}), ("Add", ["a", "w"], ["y"])],
        [info("x", [4]), info("z", [4])],
        ["y"],
        [tensor("w", [2])],
    )
    change(model.graph)
    return model


def body(nodes, output, inputs=(), initializers=()):
    return graph_of(nodes, list(inputs), [info(output, [4])], initializers)


def with_body(nodes, output="out", inputs=(), initializers=()):
    """A change that adds an If whose branch has these nodes."""
    branches = {
        "then_branch": body(nodes, output, inputs, initializers),
        "else_branch": body([("Neg", ["x"], ["other"])], "other"),
    }

    def change(graph):
        graph.input.append(info("yes", [], BOOL))
        graph.node.append(helper.make_node("If", ["yes"], ["z1"], **branches))

    return change


WRITTEN_TWICE = {
    "by two operators": (lambda graph: graph.node[2].output.__setitem__(0, "h"), "h", "Exp", "Add"),
    "by one operator": (lambda graph: graph.node[1].output.__setitem__(1, "a"), "a", "Split", "Split"),
    "an input": (lambda graph: graph.node[0].output.__setitem__(0, "x"), "x", "an input", "Exp"),
    "an initializer": (lambda graph: graph.node[0].output.__setitem__(0, "w"), "w", "an initializer", "Exp"),
    "a constant": (
        lambda graph: graph.node.insert(0, helper.make_node("Constant", [], ["h"], value=tensor("", [4]))),
        *("h", "Constant", "Exp"),
    ),
    "two inputs": (lambda graph: graph.input.append(info("x", [4])), "x", "an input", "an input"),
    "two initializers": (
        lambda graph: graph.initializer.append(tensor("w", [2])),
        *("w", "an initializer", "an initializer"),
    ),
    "in a branch": (with_body([("Exp", ["x"], ["out"]), ("Neg", ["x"], ["out"])]), "out", "Exp", "Neg"),
    "in a branch and outside": (with_body([("Neg", ["x"], ["h"])], "h"), "h", "Exp", "Neg"),
}


@pytest.mark.parametrize(("change", "name", "first", "second"), WRITTEN_TWICE.values(), ids=WRITTEN_TWICE)
def test_a_name_that_is_written_twice_is_told(change, name, first, second):
    with raises(ra.GraphError, name=name, first=first, second=second):
        capture(doubled(change))


READ_TOO_EARLY = {
    "backwards": (lambda graph: graph.node.insert(0, graph.node.pop()), "y", "a"),
    "one node early": (lambda graph: graph.node.insert(0, helper.make_node("Neg", ["h"], ["n"])), "n", "h"),
    "in a branch": (with_body([("Neg", ["q"], ["out"]), ("Exp", ["x"], ["q"])]), "out", "q"),
    "a branch ahead of what it reads": (
        lambda graph: with_body([("Neg", ["h"], ["out"])])(graph) or graph.node.insert(0, graph.node.pop()),
        *("out", "h"),
    ),
    "what nothing makes": (lambda graph: graph.node[0].input.__setitem__(0, "q"), "h", "q"),
    "a view of what nothing makes": (
        lambda graph: graph.node.append(helper.make_node("Identity", ["q"], ["n"])),
        *("n", "q"),
    ),
    "what only a branch makes": (
        lambda graph: (
            with_body([("Neg", ["x"], ["out"])])(graph) or graph.node.append(helper.make_node("Neg", ["out"], ["n"]))
        ),
        *("n", "out"),
    ),
}


@pytest.mark.parametrize(("change", "reader", "name"), READ_TOO_EARLY.values(), ids=READ_TOO_EARLY)
def test_a_read_ahead_of_its_node_is_told(change, reader, name):
    with raises(ra.GraphError, reader=reader, name=name):
        capture(doubled(change))


CYCLES = {
    "a cycle": (lambda graph: graph.node[0].input.__setitem__(0, "y"), {"h", "a", "y"}),
    "a node that reads itself": (lambda graph: graph.node[0].input.__setitem__(0, "h"), {"h"}),
    "in a branch": (with_body([("Add", ["x", "q"], ["out"]), ("Exp", ["out"], ["q"])]), {"out", "q"}),
    "through a branch": (
        lambda graph: (
            with_body([("Neg", ["y"], ["out"])])(graph)
            or graph.node[0].input.__setitem__(0, "z1")
            or graph.node.insert(0, graph.node.pop())
        ),
        {"z1", "h", "a", "y"},
    ),
}


@pytest.mark.parametrize(("change", "nodes"), CYCLES.values(), ids=CYCLES)
def test_a_cycle_is_told(change, nodes):
    with pytest.raises(ra.GraphError, match="in a cycle") as error:
        capture(doubled(change))
    cycle = error.value.fields["cycle"]
    assert cycle[0] == cycle[-1]
    assert set(cycle) == nodes


@pytest.mark.parametrize(
    "change", [lambda graph: graph.output.append(info("q", [4])), with_body([("Neg", ["x"], ["out"])], "q")]
)
def test_an_output_that_nothing_makes_is_told(change):
    with raises(ra.GraphError, unwritten="q"):
        capture(doubled(change))


def test_a_local_function_out_of_order_is_told():
    with raises(ra.GraphError, reader="c", name="b"):
        capture(of_local_function(("Exp", ["b"], ["c"]), ("Exp", ["a"], ["b"])))


def test_names_of_a_branch_may_be_used_again_elsewhere():
    """An initializer may be the default of an input, branches do not see each other, and what they read is in place."""
    model = doubled(with_body([("Neg", ["h"], ["other"])], "other", initializers=[tensor("unread", [4])]))
    model.graph.input.append(info("w", [2]))
    assert capture(model).labels.names == ("h", "a", "y", "z1")


def damaged(change):
    """A block after something was done to it."""
    model = block(0)
    change(model, model.graph)
    return model


DAMAGED = {
    "an element type that is none": lambda model, graph: setattr(graph.initializer[0], "data_type", 99),
    "an element type of an input": lambda model, graph: setattr(graph.input[0].type.tensor_type, "elem_type", -2),
    "no element type": lambda model, graph: graph.initializer[0].ClearField("data_type"),
    "a read less": lambda model, graph: graph.node[1].input.pop(),
    "no reads": lambda model, graph: graph.node[0].ClearField("input"),
    "no values": lambda model, graph: graph.node[0].ClearField("output"),
    "no inputs": lambda model, graph: graph.ClearField("input"),
    "no initializers": lambda model, graph: graph.ClearField("initializer"),
    "a weight without lengths": lambda model, graph: graph.initializer[0].ClearField("dims"),
    "a negative length": lambda model, graph: graph.initializer[0].dims.__setitem__(0, -6),
    "too long": lambda model, graph: graph.initializer[0].dims.__setitem__(0, 2**62),
    "no attributes": lambda model, graph: graph.node[3].ClearField("attribute"),
    "an attribute of no type": lambda model, graph: graph.node[0].attribute[0].ClearField("type"),
    "no opsets": lambda model, graph: model.ClearField("opset_import"),
    "an opset to come": lambda model, graph: setattr(model.opset_import[0], "version", 2**40),
    "no name": lambda model, graph: setattr(graph.node[0], "op_type", ""),
    "twice": lambda model, graph: graph.node.add().CopyFrom(graph.node[0]),
    "backwards": lambda model, graph: graph.node.insert(0, graph.node.pop()),
    "functions of one name": lambda model, graph: [model.functions.add(name="f", domain="mine") for _ in range(2)],
    "a flag that is no number": lambda model, graph: graph.node.add(
        op_type="Dropout", input=["r", "", "w"], output=["d", "m"]
    ),
    "letters that are none": lambda model, graph: graph.node[2].ParseFromString(b"\x0a\x02\xff\xfe"),
}


@pytest.mark.parametrize("kind", ["weight", "unread", "input", "value", "output"])
def test_a_name_that_is_not_utf_8_is_one_sentence(kind):
    """Wherever it is used, as in a file that was written in another encoding."""
    weights = [tensor(name, [4, 4]) for name in ("weight", "unread")]
    nodes = [
        helper.make_node("MatMul", ["input", "weight"], ["value"]),
        helper.make_node("Relu", ["value"], ["output"]),
    ]
    described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("input", "output")]
    model = helper.make_model(helper.make_graph(nodes, "net", described[:1], described[1:], weights))
    data = model.SerializeToString()
    assert capture(data).n_nodes == 2
    with pytest.raises(ra.GraphError, match="is not UTF-8 text; export the model again"):
        capture(data.replace(kind.encode(), b"\xff" * len(kind)))


REFUSED = ("an element type that is none", "no element type", "a read less", "no reads", "backwards")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_model_is_a_graph_or_one_sentence(name):
    try:
        capture(damaged(DAMAGED[name]))
    except ra.GraphError as error:
        said = str(error)
        assert said.isprintable()
        assert len(said) < 400
    else:
        assert name not in REFUSED


def test_an_error_that_is_not_foreseen_is_told_as_damage(monkeypatch):
    """Nothing but GraphError comes out of a model; what the caller's own function raises does."""

    def broken(*_):
        raise AttributeError("no such thing\nat all")

    with pytest.raises(AttributeError):
        capture(mlp(), {"batch": 8}, cost=broken)
    monkeypatch.setattr("remat_algos.interop.onnx._check_sizes", broken)
    with pytest.raises(ra.GraphError, match=r"^the model is damaged \(no such thing\); export it again$"):
        capture(mlp(), {"batch": 8})


def test_a_long_path_is_read_whole(tmp_path):
    folder = tmp_path / ("a" * 120) / ("b" * 120)
    folder.mkdir(parents=True)
    onnx.save(mlp(), folder / "model.onnx")
    assert capture(folder / "model.onnx", {"batch": 8}).hash == capture(mlp(), {"batch": 8}).hash


# ---------------------------------------------------------------- files of graphs


@pytest.fixture
def file(tmp_path):
    onnx.save(mlp(), tmp_path / "mlp.onnx")
    return tmp_path / "mlp.onnx"


def test_a_model_is_read_wherever_a_path_is_taken(file, tmp_path):
    graph = capture(mlp(), {"batch": 8})
    (tmp_path / "model.bin.gz").write_bytes(gzip.compress(file.read_bytes()))
    for path in (f"{file}?batch=8", Path(f"{file}?batch=8"), tmp_path / "model.bin.gz?batch=8"):
        assert ra.read_graph(path).hash == graph.hash
    assert ra.differentiate(f"{file}?batch=8").is_training
    assert ra.solve(f"{file}?batch=8", "100%").graph.hash == graph.hash


def test_the_command_line_reads_a_model(file, capsys):
    run = runner(capsys)
    assert run("show", f"{file}?batch=8", "--json").record["nodes"] == 8
    assert run("solve", f"{file}?batch=8", "--budget", "least").code == 0
    said = run("show", file)
    assert said.code == 2
    assert 'give their lengths, as in dims={"batch": 1} or MODEL.onnx?batch=1' in " ".join(said.err.split())
    assert run("convert", f"{file}?batch=8", file.with_suffix(".json")).code == 0
    assert ra.read_graph(file.with_suffix(".json")).n_nodes == 4


@pytest.mark.parametrize(
    ("behind", "sentence"),
    [
        ("?batch=x", "'batch=x' is not a length of a dimension; write mlp.onnx?batch=8"),
        ("?batch", "'batch' is not a length of a dimension"),
        ("?batch=-1", "'batch=-1' is not a length of a dimension"),
        ("?", "'' is not a length of a dimension"),
        ("?batches=8", "no dimension of that name needs one; did you mean batch"),
    ],
)
def test_what_is_wrong_behind_the_path_is_told(file, behind, sentence):
    with pytest.raises(ra.GraphError, match=re.escape(sentence)):
        ra.read_graph(f"{file}{behind}")


@pytest.mark.parametrize("end", [0.1, 0.5, 0.99])
def test_a_model_that_is_cut_is_told(file, end):
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * end)])
    with pytest.raises(ra.GraphError, match=r"^mlp\.onnx: "):
        ra.read_graph(f"{file}?batch=8")


@pytest.mark.parametrize(("model", "dims"), [(7, None), (mlp(), 3), (mlp(), [("batch", 8)]), (mlp(), "batch")])
def test_wrong_kinds_of_arguments_are_refused(model, dims):
    with pytest.raises(TypeError, match="give a"):
        capture(model, dims)


def test_sparse_initializers_are_refused():
    model = mlp()
    values, places = tensor("w3", [1]), tensor("places", [1], INT64)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    with pytest.raises(ra.GraphError, match="the model has sparse initializers; make them dense"):
        capture(model, {"batch": 8})
