"""Each layer of the vocabulary against numbers worked out by hand; sizes of images against slow oracles; bad input."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.cost.shapes import DTYPES
from remat_algos.errors import GraphError, ScheduleError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.operators import operator
from remat_algos.models.layers import Layers
from remat_algos.models.registry import build
from remat_algos.models.settings import Settings
from remat_algos.schedule.simulation import simulate
from tests.oracles.plain import plain

IMAGE = (2, 8, 10, 12)  # 1920 elements
ROWS = (2, 5, 8)  # 80 elements


def vocabulary(**settings):
    """An empty network."""
    return Layers("net", Settings(**settings))


def tensor(net, shape, name="x"):
    """A value with a gradient, of a shape."""
    return net.copy(net.input(f"{name}_in", shape), name=name)


def tokens(net, *shape):
    return net.input("tokens", shape, "int64")


def saved(network):
    """Names of what the gradient of each node reads."""
    g = plain(network.graph)
    return {
        name: {g.value_names[x] for x in row if g.grad_memory[x] >= 0 or x not in g.outputs}
        for name, row in zip(g.node_names, g.saved, strict=True)
    }


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Row:
    """A layer of one operation, called y, that reads x, and what its `Layer` and the graph say of it."""

    layer: Callable
    shape: tuple
    shapes: list[tuple] = field(default_factory=list)
    macs: int = 0
    flops: int = 0  # beside two for each of macs
    parameters: int = 0
    workspace: int = 0
    grad_workspace: int | None = None
    saved: str = ""
    paper: str = "x"  # saved where each operation has one value
    bytes: list[int] = field(default_factory=list)  # of its values, in float32


def norm_flops(elements):
    return 7 * elements


TABLE = {
    # (10 + 2 - 3) // 2 + 1 = 5, (12 + 2 - 3) // 2 + 1 = 6; 8 * 3 * 3 = 72 products for each of 2 * 6 * 5 * 6 = 360
    "convolution": Row(
        lambda net, x: net.convolution(x, 6, 3, stride=2, padding=1, name="y"),
        IMAGE,
        [(2, 6, 5, 6)],
        macs=360 * 72,
        flops=360,
        parameters=6 * 72 + 6,
        workspace=72 * 5 * 6 * 4,  # one image laid out
        saved="x",
        bytes=[1440],
    ),
    # 10 - 2 * 2 = 6, 12 - 2 * 2 = 8; 8 / 2 * 9 = 36 products for each of 2 * 6 * 6 * 8 = 576
    "convolution, groups, dilation": Row(
        lambda net, x: net.convolution(x, 6, 3, dilation=2, groups=2, bias=False, name="y"),
        IMAGE,
        [(2, 6, 6, 8)],
        macs=576 * 36,
        parameters=6 * 36,
        saved="x",
        bytes=[2304],
    ),
    "convolution, depthwise": Row(
        lambda net, x: net.convolution(x, 8, 3, padding=1, groups=8, bias=False, name="y"),
        IMAGE,
        [IMAGE],
        macs=1920 * 9,
        parameters=8 * 9,
        saved="x",
        bytes=[7680],
    ),
    "convolution, 1 x 1": Row(
        lambda net, x: net.convolution(x, 4, 1, name="y"),
        IMAGE,
        [(2, 4, 10, 12)],
        macs=960 * 8,
        flops=960,
        parameters=4 * 8 + 4,
        saved="x",
        bytes=[3840],
    ),
    # 5 - 2 = 3, 6 - 4 = 2, along 4: (4 + 2 - 1) // 2 + 1 = 3; 2 * 1 * 3 * 5 = 30 products for each of 1 * 7 * 18
    "convolution, volume": Row(
        lambda net, x: net.convolution(x, 7, (1, 3, 5), stride=(2, 1, 1), padding=(1, 0, 0), bias=False, name="y"),
        (1, 2, 4, 5, 6),
        [(1, 7, 3, 3, 2)],
        macs=126 * 30,
        parameters=7 * 30,
        workspace=30 * 18 * 4,
        saved="x",
        bytes=[504],
    ),
    # (10 - 1) * 2 + 2 = 20, (12 - 1) * 2 + 2 = 24; each of 1920 elements goes to 4 * 2 * 2 = 16 places
    "transposed convolution": Row(
        lambda net, x: net.transposed_convolution(x, 4, 2, stride=2, name="y"),
        IMAGE,
        [(2, 4, 20, 24)],
        macs=1920 * 16,
        flops=3840,
        parameters=8 * 4 * 4 + 4,
        workspace=16 * 10 * 12 * 4,
        saved="x",
        bytes=[15360],
    ),
    # (10 + 2 - 3) // 2 + 1 = 5, (12 + 2 - 3) // 2 + 1 = 6: 480 windows of 9; indices of 8 bytes
    "max pooling": Row(
        lambda net, x: net.max_pool(x, 3, 2, padding=1, name="y"),
        IMAGE,
        [(2, 8, 5, 6)] * 2,
        flops=480 * 9,
        saved="y.indices",
        paper="x y",
        bytes=[1920, 3840],
    ),
    # 1 + (10 - 3) / 2 rounded up = 5, 1 + (12 - 3) / 2 rounded up = 6
    "max pooling, cover": Row(
        lambda net, x: net.max_pool(x, 3, 2, cover=True, name="y"),
        IMAGE,
        [(2, 8, 5, 6)] * 2,
        flops=480 * 9,
        saved="y.indices",
        paper="x y",
        bytes=[1920, 3840],
    ),
    "average pooling": Row(
        lambda net, x: net.average_pool(x, 2, 2, name="y"),
        IMAGE,
        [(2, 8, 5, 6)],
        flops=480 * 4,
        paper="x y",
        bytes=[1920],
    ),
    "average pooling to": Row(
        lambda net, x: net.average_pool_to(x, 1, 1, name="y"),
        IMAGE,
        [(2, 8, 1, 1)],
        flops=1920,
        paper="x y",
        bytes=[64],
    ),
    # four neighbours, each a product and a sum
    "upsample": Row(
        lambda net, x: net.upsample(x, 20, 24, name="y"), IMAGE, [(2, 8, 20, 24)], flops=7680 * 8, bytes=[30720]
    ),
    "upsample, nearest": Row(
        lambda net, x: net.upsample(x, 20, 24, linear=False, name="y"), IMAGE, [(2, 8, 20, 24)], bytes=[30720]
    ),
    # 8 products for each of 2 * 5 * 6 = 60
    "linear": Row(
        lambda net, x: net.linear(x, 6, name="y"),
        ROWS,
        [(2, 5, 6)],
        macs=60 * 8,
        flops=60,
        parameters=6 * 8 + 6,
        saved="x",
        bytes=[240],
    ),
    "embedding": Row(
        lambda net, x: net.embedding(tokens(net, 2, 5), 100, 4, name="y"),
        ROWS,
        [(2, 5, 4)],
        parameters=400,
        paper="",
        bytes=[160],
    ),
    # 8 products for each of 2 * 5 * 5 scores
    "matmul, turned": Row(
        lambda net, x: net.matmul(x, x, transposed=True, name="y"),
        ROWS,
        [(2, 5, 5)],
        macs=50 * 8,
        saved="x",
        bytes=[200],
    ),
    # statistics in float32 per channel; the change of the running ones is a value without bytes
    "batch norm": Row(
        lambda net, x: net.batch_norm(x, name="y"),
        IMAGE,
        [IMAGE, (8,), (8,), (0,)],
        flops=norm_flops(1920),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
        bytes=[7680, 32, 32, 0],
    ),
    # statistics per row: 2 * 5
    "layer norm": Row(
        lambda net, x: net.layer_norm(x, name="y"),
        ROWS,
        [ROWS, (2, 5), (2, 5)],
        flops=norm_flops(80),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
        bytes=[320, 40, 40],
    ),
    "rms norm": Row(
        lambda net, x: net.rms_norm(x, name="y"),
        ROWS,
        [ROWS, (2, 5)],
        flops=4 * 80,
        parameters=8,
        saved="x y.rstd",
        bytes=[320, 40],
    ),
    # statistics per example and group: 2 * 4
    "group norm": Row(
        lambda net, x: net.group_norm(x, 4, name="y"),
        IMAGE,
        [IMAGE, (2, 4), (2, 4)],
        flops=norm_flops(1920),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
        bytes=[7680, 32, 32],
    ),
    # a square, 4 sums, a product and a sum, a power, a quotient
    "local response norm": Row(
        lambda net, x: net.local_response_norm(x, 5, name="y"),
        IMAGE,
        [IMAGE, IMAGE],
        flops=9 * 1920,
        saved="x y.scale",
        paper="x y",
        bytes=[7680, 7680],
    ),
    "add": Row(lambda net, x: net.add(x, x, name="y"), ROWS, [ROWS], flops=80, bytes=[320]),
    "add three": Row(lambda net, x: net.add(x, x, x, name="y"), ROWS, [ROWS], flops=2 * 80, bytes=[320]),
    "multiply": Row(lambda net, x: net.multiply(x, x, name="y"), ROWS, [ROWS], flops=80, saved="x", bytes=[320]),
    "scale": Row(lambda net, x: net.scale(x, name="y"), ROWS, [ROWS], flops=80, bytes=[320]),
    "mask": Row(
        lambda net, x: net.mask(x, net.input("allowed", (5, 8), "bool"), name="y"), ROWS, [ROWS], flops=80, bytes=[320]
    ),
    "softmax": Row(
        lambda net, x: net.softmax(x, name="y"), ROWS, [ROWS], flops=5 * 80, saved="y", paper="y", bytes=[320]
    ),
    "softmax with cross-entropy": Row(
        lambda net, x: net.softmax_cross_entropy(x, tokens(net, 2, 5), name="y"),
        ROWS,
        [(), ROWS],
        flops=5 * 80,
        saved="y.probabilities",
        bytes=[4, 320],
    ),
    # a difference, a square, a sum
    "mean square": Row(
        lambda net, x: net.mean_square(x, net.input("target", ROWS), name="y"),
        ROWS,
        [()],
        flops=3 * 80,
        saved="x",
        bytes=[4],
    ),
    # chances before each of the 2 * 3 + 1 places of a transcript of 3, after each of 5 steps
    "CTC loss": Row(
        lambda net, x: net.ctc_loss(x, tokens(net, 2, 3), name="y"),
        ROWS,
        [(), (2, 5, 7)],
        flops=5 * 80 + 6 * 70,
        saved="x y.alpha",
        bytes=[4, 280],
    ),
    "concat": Row(
        lambda net, x: net.concat(x, net.copy(x, 2, 3, 8, name="z"), name="y"),
        ROWS,
        [(2, 8, 8)],
        paper="x z",
        bytes=[512],
    ),
    "concat, last axis": Row(
        lambda net, x: net.concat(x, net.copy(x, 2, 5, 3, name="z"), axis=-1, name="y"),
        ROWS,
        [(2, 5, 11)],
        paper="x z",
        bytes=[440],
    ),
    "split": Row(lambda net, x: net.split(x, 4, name="y"), ROWS, [(2, 5, 2)] * 4, bytes=[80] * 4),
    "crop": Row(lambda net, x: net.crop(x, 4, 6, name="y"), IMAGE, [(2, 8, 4, 6)], bytes=[1536]),
    "reshape": Row(lambda net, x: net.reshape(x, 10, 8, name="y"), ROWS, [(10, 8)], bytes=[320]),
    "copy": Row(lambda net, x: net.copy(x, 5, 2, 8, name="y"), ROWS, [(5, 2, 8)], bytes=[320]),
    # scores 2 * 2 * 5 * 5 = 100, each of 4 products, and again as many for the context; sums of gradients in float32
    "attention, fused": Row(
        lambda net, x: net.attention(x, x, x, 2, fused=True, name="y"),
        ROWS,
        [ROWS, (2, 2, 5)],
        macs=2 * 100 * 4,
        flops=5 * 100,
        grad_workspace=320,
        saved="x y y.logsumexp",
        paper="x y",
        bytes=[320, 80],
    ),
}
for _name, _per_element, _saved in [
    ("relu", 1, "y"),
    ("relu6", 2, "y"),
    ("hard_tanh", 2, "y"),
    ("tanh", 4, "y"),
    ("sigmoid", 4, "y"),
    ("silu", 5, "x"),
    ("gelu", 8, "x"),
]:
    TABLE[_name] = Row(
        lambda net, x, layer=_name: getattr(net, layer)(x, name="y"),
        ROWS,
        [ROWS],
        flops=_per_element * 80,
        saved=_saved,
        paper=_saved,
        bytes=[320],
    )

table = pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in TABLE.items()])


def built(row, **settings):
    """The network of a row, and the number of y."""
    net = vocabulary(**settings)
    row.layer(net, tensor(net, row.shape))
    network = net.network()
    return network, network.graph.node_id("y")


@table
def test_shapes_and_bytes_are_those_worked_out_by_hand(row):
    network, y = built(row)
    assert list(network.layers[y].shapes) == row.shapes
    assert network.graph.memory[list(network.graph.values(y))].tolist() == row.bytes


@table
def test_work_and_parameters_are_those_worked_out_by_hand(row):
    network, y = built(row)
    layer = network.layers[y]
    assert (layer.macs, layer.flops) == (row.macs, 2 * row.macs + row.flops)
    assert network.graph.compute[y] == layer.flops
    assert network.n_parameters == row.parameters
    assert network.parameter_memory == 4 * row.parameters


@table
def test_workspaces_are_those_worked_out_by_hand(row):
    network, y = built(row)
    grad = row.workspace if row.grad_workspace is None else row.grad_workspace
    assert network.graph.workspace[y] == row.workspace
    assert network.graph.backward.grad_workspace[y] == grad


@table
def test_the_gradient_reads_what_the_row_says(row):
    network, _ = built(row)
    assert saved(network)["y"] == set(row.saved.split())


@table
def test_in_paper_counting_only_values_with_a_gradient_are_left(row):
    (network, y), (paper, y_paper) = built(row), built(row, counting="paper")
    with_gradient = [x for x in network.graph.values(y) if network.graph.backward.grad_memory[x] >= 0]
    assert (
        paper.graph.memory[list(paper.graph.values(y_paper))].tolist() == network.graph.memory[with_gradient].tolist()
    )
    assert not paper.graph.workspace.any()
    assert not paper.graph.backward.grad_workspace.any()
    assert (paper.macs, paper.flops, paper.n_parameters) == (network.macs, network.flops, network.n_parameters)


@table
def test_in_paper_counting_the_gradient_reads_what_the_published_graphs_say(row):
    network, _ = built(row, counting="paper")
    assert saved(network)["y"] == set(row.paper.split())


@table
def test_in_float16_each_element_takes_the_bytes_of_its_type(row):
    (network, y), (half, _) = built(row), built(row, dtype="float16")
    layer = half.layers[y]
    sizes = [prod(shape) * DTYPES[dtype] for shape, dtype in zip(layer.shapes, layer.dtypes, strict=True)]
    assert half.graph.memory[list(half.graph.values(y))].tolist() == sizes
    assert half.parameter_memory == 2 * row.parameters
    assert half.graph.workspace[y] == network.graph.workspace[y] // 2


# In float16, bytes: statistics, sums of logarithms and losses stay float32, indices int64.
IN_FLOAT16 = {
    "convolution": [720],
    "max pooling": [960, 3840],
    "batch norm": [3840, 32, 32, 0],
    "layer norm": [160, 40, 40],
    "rms norm": [160, 40],
    "group norm": [3840, 32, 32],
    "softmax with cross-entropy": [4, 160],
    "mean square": [4],
    "attention, fused": [160, 80],
    "embedding": [80],
    "split": [40] * 4,
}


@pytest.mark.parametrize("name", IN_FLOAT16)
def test_in_float16_statistics_and_losses_stay_float32(name):
    network, y = built(TABLE[name], dtype="float16")
    assert network.graph.memory[list(network.graph.values(y))].tolist() == IN_FLOAT16[name]


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("convolution", 7680 + 4 * 438 + 1440),  # x, weight and bias, y
        ("batch norm", 7680 + 4 * 4 * 8 + 7680 + 2 * 4 * 8),  # x, four rows of 8, y, two rows of 8
        ("add", 320 + 320),  # x once
        ("max pooling", 7680 + 1920 + 3840),
        ("embedding", 160 + 160),  # rows read, not the whole weight
    ],
)
def test_bytes_are_moved_once(name, moved):
    network, y = built(TABLE[name])
    assert network.layers[y].bytes_moved == moved


@table
def test_every_kind_is_in_the_table_of_operations(row):
    network, y = built(row)
    assert operator(network.layers[y].op).name == network.layers[y].op


# ---------------------------------------------------------------- dropout, batch norm: what may run again


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


# ---------------------------------------------------------------- attention


def attention(kv_width=8, heads=2, rows=5, **options):
    settings = {name: options.pop(name) for name in ("granularity", "counting") if name in options}
    net = vocabulary(**settings)
    q = tensor(net, (2, rows, 8), "q")
    k, v = (tensor(net, (2, 5, kv_width), name) for name in "kv")
    net.attention(q, k, v, heads, name="y", **options)
    return net.network()


def test_attention_is_copies_scores_softmax_dropout_context():
    network = attention()
    inner = [(layer.name, layer.op, layer.shapes) for layer in network.layers if layer.name.startswith("y.")]
    heads, scores = (2, 2, 5, 4), (2, 2, 5, 5)  # 2 heads, each 4 wide
    assert inner == [
        ("y.q", "Copy", (heads,)),
        ("y.k", "Copy", (heads,)),
        ("y.v", "Copy", (heads,)),
        ("y.scores", "MatMul", (scores,)),
        ("y.scaled", "Scale", (scores,)),
        ("y.softmax", "Softmax", (scores,)),
        ("y.dropout.mask", "DropoutMask", (scores,)),
        ("y.dropout", "Dropout", (scores,)),
        ("y.context", "MatMul", (heads,)),
        ("y.joined", "Copy", ((2, 5, 8),)),
    ]
    held = saved(network)
    assert held["y.scores"] == {"y.q", "y.k"}
    assert held["y.context"] == {"y.dropout", "y.v"}
    assert held["y.softmax"] == {"y.softmax"}


def test_only_unfused_attention_has_values_of_a_number_per_pair():
    fused, unfused = attention(fused=True), attention()
    pairs = 2 * 2 * 5 * 5
    sizes = {
        network: Counter(prod(shape) for layer in network.layers for shape in layer.shapes)
        for network in (fused, unfused)
    }
    assert sizes[fused][pairs] == 0
    assert sizes[unfused][pairs] == 5  # scores, scaled, softmax, mask, dropout
    assert fused.macs == unfused.macs == 2 * pairs * 4


def test_without_dropout_and_with_a_mask():
    net = vocabulary()
    x = tensor(net, ROWS)
    net.attention(x, x, x, 2, mask=net.input("allowed", (5, 5), "bool"), dropout=False, name="y")
    ops = Counter(layer.op for layer in net.network().layers)
    assert (ops["Mask"], ops["DropoutMask"], ops["Dropout"]) == (1, 0, 0)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("kv_heads", "rows"), [(4, 5), (2, 5), (1, 5), (1, 3)])
def test_shared_heads_of_keys_do_not_change_the_work(kv_heads, rows, fused):
    """4 heads of 2; 2 * 4 * rows * 5 scores of 2 products, and as many for the context."""
    network = attention(kv_width=2 * kv_heads, heads=4, kv_heads=kv_heads, rows=rows, fused=fused)
    assert network.macs == 2 * (2 * 4 * rows * 5) * 2
    assert network.layers[-1].shapes[0] == (2, rows, 8)
    key = next(layer for layer in network.layers if layer.name == ("k" if fused else "y.k"))
    assert prod(key.shapes[0]) == 2 * 5 * 2 * kv_heads


def test_a_mask_that_is_computed_is_read_by_the_gradient():
    net = vocabulary()
    x = tensor(net, ROWS)
    allowed = net.run("DropoutMask", [], ROWS, name="allowed", dtype="bool", gradient=False)
    net.mask(x, allowed, name="y")
    assert saved(net.network())["y"] == {"allowed"}


# ---------------------------------------------------------------- recurrent cells, shared weights, parts


def test_an_lstm_cell_is_thirteen_operations():
    net = vocabulary()
    weights = net.lstm_weights(3, 4)
    h, c = net.lstm_cell(tensor(net, (2, 3)), tensor(net, (2, 4), "h0"), tensor(net, (2, 4), "c0"), weights)
    network = net.network()
    cell = Counter(layer.op for layer in network.layers if layer.name.startswith("cell"))
    assert cell == {"Linear": 2, "Add": 2, "Slice": 1, "Sigmoid": 3, "Tanh": 2, "Multiply": 3}
    assert cell.total() == 13
    assert h.shape == c.shape == (2, 4)
    assert network.macs == 2 * 16 * 3 + 2 * 16 * 4  # 4 gates of 4, of the input and of the state
    assert network.n_parameters == 16 * 3 + 16 * 4 + 16


def test_steps_of_a_cell_share_its_weights():
    net = vocabulary()
    weights = net.lstm_weights(3, 4)
    h, c = tensor(net, (2, 4), "h0"), tensor(net, (2, 4), "c0")
    for step in range(5):
        h, c = net.lstm_cell(tensor(net, (2, 3), f"x{step}"), h, c, weights)
    network = net.network()
    g = plain(network.graph)
    readers = Counter(g.resident_names[r] for row in g.resident_reads for r in row if g.resident_role[r] == 1)
    assert readers == {"cell.input_weight": 5, "cell.state_weight": 5, "cell.bias": 5}
    assert network.n_parameters == 16 * 3 + 16 * 4 + 16
    assert len(set(g.node_names)) == len(g.node_names)


def test_a_tied_weight_counts_once_and_its_gradients_are_summed():
    net = vocabulary(parameter_gradients=True)
    weight = net.parameter("words", (100, 8))
    x = net.embedding(tokens(net, 2, 5), 100, 8, weight=weight, name="embed")
    scores = net.linear(x, 100, parameters=[weight], name="head")
    net.softmax_cross_entropy(scores, net.input("targets", (2, 5), "int64"))
    network = net.network()
    g = plain(network.graph)
    assert (network.n_parameters, network.parameter_memory) == (800, 3200)
    assert [g.node_names[v] for v, row in enumerate(g.resident_reads) if g.resident_names.index("words") in row][
        :2
    ] == [
        "embed",
        "head",
    ]
    assert [name for name in g.node_names if name.startswith("grad(words)")] == ["grad(words)@head", "grad(words)"]


def test_each_part_of_a_split_has_a_gradient():
    net = vocabulary()
    parts = net.split(tensor(net, ROWS), 4, name="y")
    net.add(*parts, name="sum")
    graph = trained(net.network(), "sum")
    assert {f"grad({name})" for name in ("y", "y.1", "y.2", "y.3", "x")} <= set(graph.node_names())
    [x_gradient] = [v for v in range(graph.n_nodes) if graph.node_names()[v] == "grad(x)"]
    assert len(graph.reads(x_gradient)) == 4


# ---------------------------------------------------------------- spelled out

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
def test_spelled_out_a_layer_can_be_judged(layer):
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
    assert [sizes(network)[f"loss.{step}"] for step in ("max", "sum", "log", "picked")] == [pixels] * 4
    assert network.layers[-1].flops == prod(pixels)


# ---------------------------------------------------------------- sizes of images


@st.composite
def windows(draw):
    """Length, kernel, stride, padding, dilation of which the window fits."""
    kernel, dilation, padding = (draw(st.integers(least, 4)) for least in (1, 1, 0))
    span = dilation * (kernel - 1) + 1
    return draw(st.integers(max(1, span - 2 * padding), span + 12)), kernel, draw(st.integers(1, 5)), padding, dilation


@given(windows(), windows())
def test_a_convolution_has_as_many_places_as_a_sum_over_the_padded_image(rows, columns):
    lengths, kernel, stride, padding, dilation = zip(rows, columns, strict=True)
    net = vocabulary()
    x = net.input("x", (1, 2, *lengths))
    y = net.convolution(x, 3, kernel, stride=stride, padding=padding, dilation=dilation)
    for n, k, s, p, d, places in zip(lengths, kernel, stride, padding, dilation, y.shape[2:], strict=True):
        holed = np.zeros(d * (k - 1) + 1)
        holed[::d] = 1
        assert places == np.correlate(np.zeros(n + 2 * p), holed, "valid")[::s].size
    assert net.network().macs == prod(y.shape) * 2 * prod(kernel)


def slow_places(length, kernel, stride, padding, cover):
    """Windows set one after another; with `cover` until all is covered, but none begins behind the image."""
    padded, begin, places, reached = length + 2 * padding, 0, 0, 0
    while begin + kernel <= padded or (cover and reached < padded and begin < length + padding):
        begin, places, reached = begin + stride, places + 1, begin + kernel
    return places


@given(windows(), st.booleans())
def test_pooling_has_as_many_places_as_windows_can_be_set(window, cover):
    length, kernel, stride, padding, _ = window
    padding = min(padding, kernel // 2)  # frameworks allow no more
    length = max(length, kernel - 2 * padding)
    net = vocabulary()
    x = net.input("x", (1, 1, length))
    y = net.max_pool(x, kernel, stride, padding=padding, cover=cover)
    assert y.shape[2] == slow_places(length, kernel, stride, padding, cover)
    assert net.average_pool(x, kernel, stride, padding=padding, cover=cover).shape == y.shape


@pytest.mark.parametrize(
    ("length", "padding", "covering"),
    [
        (112, 0, 56),  # GoogLeNet: (112 - 3) / 2 = 54.5 rounded up, and 1
        (4, 1, 3),  # a fourth window of Chainer's cover_all would begin at 6 of 1 + 4 + 1
    ],
)
def test_pooling_that_covers_is_that_of_ceil_mode(length, padding, covering):
    net = vocabulary()
    assert net.max_pool(net.input("x", (1, 1, length)), 3, 2, padding=padding, cover=True).shape[2] == covering


@given(windows())
def test_a_convolution_takes_back_what_a_transposed_one_has_made_larger(window):
    length, kernel, stride, padding, _ = window
    net = vocabulary()
    x = net.input("x", (1, 2, length))
    if (length - 1) * stride + kernel <= 2 * padding:
        with pytest.raises(GraphError, match="less padding"):
            net.transposed_convolution(x, 3, kernel, stride=stride, padding=padding)
        return
    y = net.transposed_convolution(x, 3, kernel, stride=stride, padding=padding)
    assert net.convolution(y, 2, kernel, stride=stride, padding=padding).shape == x.shape


# ---------------------------------------------------------------- bad input


def refused(layer, shape=IMAGE):
    """The sentence with which a layer refuses."""
    net = vocabulary()
    x = tensor(net, shape)
    with pytest.raises(GraphError) as error:
        layer(net, x)
    assert "\n" not in str(error.value)
    return str(error.value)


BAD_LAYERS = {
    "kernel larger than the image": (
        lambda net, x: net.convolution(x, 4, 15, padding=1, name="y"),
        "net: y has a window of 15 on a padded length of 12; give a larger image, more padding or a smaller kernel",
    ),
    "dilated kernel larger than the image": (
        lambda net, x: net.convolution(x, 4, 3, dilation=5, name="y"),
        "net: y has a window of 11 on a padded length of 10; give a larger image, more padding or a smaller kernel",
    ),
    "pooling larger than the image": (
        lambda net, x: net.max_pool(x, 11, 1, name="y"),
        "net: y has a window of 11 on a padded length of 10; give a larger image, more padding or a smaller kernel",
    ),
    "a kernel of another rank": (
        lambda net, x: net.convolution(x, 6, (3, 3, 3)),
        "sizes (3, 3, 3) are given for 2 lengths of an image; give an image, and one size for each",
    ),
    "an upsampling of another rank": (
        lambda net, x: net.upsample(x, 20),
        "sizes (20,) are given for 2 lengths of an image; give an image, and one size for each",
    ),
    "groups that do not divide": (
        lambda net, x: net.convolution(x, 6, 3, groups=4, name="y"),
        "net: y makes 6 channels of 8 in 4 groups; give a number that divides both",
    ),
    "no groups": (
        lambda net, x: net.convolution(x, 8, 3, groups=0, name="y"),
        "net: y makes 8 channels of 8 in 0 groups; give a number that divides both",
    ),
    "no channels": (
        lambda net, x: net.convolution(x, 0, 3, name="y"),
        "net: y.weight has shape (0, 8, 3, 3); give lengths of 1 or more",
    ),
    "no stride": (
        lambda net, x: net.convolution(x, 8, 3, stride=0, name="y"),
        "net: y has kernel 3, stride 0, padding 0 and dilation 1; give 1 or more, 0 of padding",
    ),
    "negative padding": (
        lambda net, x: net.average_pool(x, 3, 1, padding=-1, name="y"),
        "net: y has kernel 3, stride 1, padding -1 and dilation 1; give 1 or more, 0 of padding",
    ),
    "no stride upwards": (
        lambda net, x: net.transposed_convolution(x, 8, 3, stride=0, name="y"),
        "net: y makes an image of (3, 3) with stride 0 and padding 0; give a stride of 1 or more and less padding",
    ),
    "upsampled to nothing": (
        lambda net, x: net.upsample(x, 0, 4, name="y"),
        "net: y makes an image of (0, 4); give lengths of 1 or more",
    ),
    "more parts than pixels": (
        lambda net, x: net.average_pool_to(x, 11, 1, name="y"),
        "net: y makes (11, 1) of an image of (10, 12); give a larger image",
    ),
    "a crop larger than the image": (
        lambda net, x: net.crop(x, 10, 13, name="y"),
        "net: y takes (10, 13) out of (10, 12); give a size that is inside",
    ),
    "a sum of two shapes": (
        lambda net, x: net.add(x, tensor(net, ROWS, "z"), name="y"),
        "net: y reads shapes (2, 8, 10, 12) and (2, 5, 8); give equal ones",
    ),
    "targets of another shape": (
        lambda net, x: net.mean_square(x, net.input("target", ROWS), name="y"),
        "net: y reads shapes (2, 8, 10, 12) and (2, 5, 8); give equal ones",
    ),
    "a concat of two sizes": (
        lambda net, x: net.concat(x, tensor(net, (2, 8, 10, 11), "z"), name="y"),
        "net: y joins shapes (2, 8, 10, 12) and (2, 8, 10, 11); give equal ones but on axis 1",
    ),
    "a concat of two ranks": (
        lambda net, x: net.concat(x, tensor(net, (2, 8, 10), "z"), axis=-1, name="y"),
        "net: y joins shapes (2, 8, 10, 12) and (2, 8, 10); give equal ones but on axis 3",
    ),
    "parts that are not equal": (
        lambda net, x: net.split(x, 5, name="y"),
        "net: y cuts 12 into 5 equal parts; give a divisor",
    ),
    "no parts": (lambda net, x: net.split(x, 0, name="y"), "net: y cuts 12 into 0 equal parts; give a divisor"),
    "another number of elements": (
        lambda net, x: net.reshape(x, 7, name="y"),
        "net: y gives (2, 8, 10, 12) the shape (7,); give as many elements",
    ),
    "groups of a norm that do not divide": (
        lambda net, x: net.group_norm(x, 3, name="y"),
        "net: y has 8 channels in 3 groups; give a divisor",
    ),
    "targets that are not one for each row": (
        lambda net, x: net.softmax_cross_entropy(x, tokens(net, 2), name="y"),
        "net: y has scores of shape (2, 8, 10, 12) for targets of (2,); give a target for each row of scores",
    ),
}
BAD_ROWS = {
    "rows without a length": (
        lambda net, x: net.max_pool(net.copy(x, 10, 8), 3, 1),
        "sizes () are given for 0 lengths of an image; give an image, and one size for each",
    ),
    "matrices that do not fit": (
        lambda net, x: net.matmul(x, x, name="y"),
        "net: y multiplies (2, 5, 8) by (2, 5, 8); give equal inner lengths",
    ),
    "heads that do not divide": (
        lambda net, x: net.attention(x, x, x, 3, name="y"),
        "net: y has width 8 and 8 for 3 heads and 3 of keys; give numbers that divide",
    ),
    "no heads": (
        lambda net, x: net.attention(x, x, x, 0, name="y"),
        "net: y has width 8 and 8 for 0 heads and 0 of keys; give numbers that divide",
    ),
    "heads of keys that do not divide": (
        lambda net, x: net.attention(x, *[tensor(net, (2, 5, 6), name) for name in "kv"], 4, kv_heads=3, name="y"),
        "net: y has width 8 and 6 for 4 heads and 3 of keys; give numbers that divide",
    ),
    "heads of keys of another width": (
        lambda net, x: net.attention(x, x, x, 4, kv_heads=2, name="y"),
        "net: y has width 8 and 8 for 4 heads and 2 of keys; give numbers that divide",
    ),
    "keys and values of two lengths": (
        lambda net, x: net.attention(x, x, tensor(net, (2, 6, 8), "v"), 2, fused=True, name="y"),
        "net: y reads shapes (2, 5, 8) and (2, 6, 8); give equal ones",
    ),
    "a shared weight of another shape": (
        lambda net, x: net.linear(x, 6, parameters=[net.parameter("w", (8, 6))], name="y"),
        "net: y wants a weight of (6, 8), not of (8, 6)",
    ),
    "no features": (
        lambda net, x: net.linear(x, 0, name="y"),
        "net: y.weight has shape (0, 8); give lengths of 1 or more",
    ),
}


@pytest.mark.parametrize(("layer", "sentence"), BAD_LAYERS.values(), ids=BAD_LAYERS)
def test_an_impossible_layer_of_images_says_what_was_found(layer, sentence):
    assert refused(layer) == sentence


@pytest.mark.parametrize(("layer", "sentence"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_an_impossible_layer_of_rows_says_what_was_found(layer, sentence):
    assert refused(layer, ROWS) == sentence


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, -3, 8, 8)])
def test_an_input_without_elements_is_refused(shape):
    with pytest.raises(GraphError, match=re.escape(f"net: x has shape {shape}; give lengths of 1 or more")):
        vocabulary().input("x", shape)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dtype": "float23"}, "float32"),
        ({"dtype": "int64"}, "dtype is 'int64', of which there are no gradients; use float32, float16 or bfloat16"),
        ({"dropout": "singel"}, "dropout is 'singel'; did you mean single?"),
        ({"counting": "papers"}, "counting is 'papers'; did you mean paper?"),
        ({"granularity": "layers"}, "granularity is 'layers'; did you mean layer?"),
        ({"granularity": 3}, "granularity is 3; use operation, layer, primitive"),
        ({"cost": "flop"}, "cost is 'flop'; did you mean flops?"),
        ({"optimizer": "adma"}, "optimizer is 'adma'; did you mean adam?"),
        ({"parameter_gradients": 1}, "parameter_gradients is 1; give True or False"),
        ({"workspace": "much"}, "workspace is 'much'; give bytes, or a size such as 64MiB"),
        ({"workspace": -1}, "workspace is -1; give bytes, or a size such as 64MiB"),
        ({"cost": "roofline", "device": "A1000"}, "A100"),
    ],
)
def test_an_unknown_choice_is_refused_and_the_nearest_offered(settings, sentence):
    with pytest.raises(GraphError) as error:
        Settings(**settings)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("googlnet", {}, "no model is called 'googlnet'; did you mean googlenet"),
        (50, {}, "no model is called 50; "),
        ("warp", {}, "no model is called 'warp'; there are the families "),
        ("resnet50", {"bacth": 8}, "resnet50 has no option 'bacth'; did you mean batch?"),
        ("resnet50", {"granularty": "layer"}, "resnet50 has no option 'granularty'; did you mean granularity?"),
        ("resnet50", {"batch": 0}, "resnet50: batch is 0; give a whole number from 1 on"),
        ("resnet50", {"batch": -1}, "resnet50: batch is -1; give a whole number from 1 on"),
        ("resnet50", {"batch": "8"}, "resnet50: batch is '8'; give a whole number from 1 on"),
        ("resnet50", {"batch": True}, "resnet50: batch is True; give a whole number from 1 on"),
        ("resnet50", {"batch": 2.5}, "resnet50: batch is 2.5; give a whole number from 1 on"),
        ("resnet50", {"batch": None}, "resnet50: batch is None; give a whole number from 1 on"),
        ("resnet50", {"dtype": "float23"}, "float32"),
        ("resnet50", {"optimizer": "adma"}, "did you mean adam?"),
    ],
)
def test_a_wrong_model_or_option_is_refused_and_the_nearest_offered(model, options, sentence):
    with pytest.raises(GraphError) as error:
        build(model, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
