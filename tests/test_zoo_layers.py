"""Each layer of the vocabulary against numbers worked out by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import pytest

from remat_algos.cost.devices import DTYPES
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.settings import Settings
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
    bytes: list[int] | None = None  # of its values in float32; by default 4 for each element


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
    ),
    # 10 - 2 * 2 = 6, 12 - 2 * 2 = 8; 8 / 2 * 9 = 36 products for each of 2 * 6 * 6 * 8 = 576
    "convolution, groups, dilation": Row(
        lambda net, x: net.convolution(x, 6, 3, dilation=2, groups=2, bias=False, name="y"),
        IMAGE,
        [(2, 6, 6, 8)],
        macs=576 * 36,
        parameters=6 * 36,
        saved="x",
    ),
    "convolution, depthwise": Row(
        lambda net, x: net.convolution(x, 8, 3, padding=1, groups=8, bias=False, name="y"),
        IMAGE,
        [IMAGE],
        macs=1920 * 9,
        parameters=8 * 9,
        saved="x",
    ),
    "convolution, 1 x 1": Row(
        lambda net, x: net.convolution(x, 4, 1, name="y"),
        IMAGE,
        [(2, 4, 10, 12)],
        macs=960 * 8,
        flops=960,
        parameters=4 * 8 + 4,
        saved="x",
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
        lambda net, x: net.average_pool(x, 2, 2, name="y"), IMAGE, [(2, 8, 5, 6)], flops=480 * 4, paper="x y"
    ),
    "average pooling to": Row(
        lambda net, x: net.average_pool_to(x, 1, 1, name="y"), IMAGE, [(2, 8, 1, 1)], flops=1920, paper="x y"
    ),
    # four neighbours, each a product and a sum
    "upsample": Row(lambda net, x: net.upsample(x, 20, 24, name="y"), IMAGE, [(2, 8, 20, 24)], flops=7680 * 8),
    "upsample, nearest": Row(lambda net, x: net.upsample(x, 20, 24, linear=False, name="y"), IMAGE, [(2, 8, 20, 24)]),
    # 8 products for each of 2 * 5 * 6 = 60
    "linear": Row(
        lambda net, x: net.linear(x, 6, name="y"),
        ROWS,
        [(2, 5, 6)],
        macs=60 * 8,
        flops=60,
        parameters=6 * 8 + 6,
        saved="x",
    ),
    "embedding": Row(
        lambda net, x: net.embedding(tokens(net, 2, 5), 100, 4, name="y"), ROWS, [(2, 5, 4)], parameters=400, paper=""
    ),
    # 8 products for each of 2 * 5 * 5 scores
    "matmul, turned": Row(
        lambda net, x: net.matmul(x, x, transposed=True, name="y"), ROWS, [(2, 5, 5)], macs=50 * 8, saved="x"
    ),
    # statistics in float32 per channel; the change of the running ones is a value without bytes
    "batch norm": Row(
        lambda net, x: net.batch_norm(x, name="y"),
        IMAGE,
        [IMAGE, (8,), (8,), (0,)],
        flops=norm_flops(1920),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
    ),
    # statistics per row: 2 * 5
    "layer norm": Row(
        lambda net, x: net.layer_norm(x, name="y"),
        ROWS,
        [ROWS, (2, 5), (2, 5)],
        flops=norm_flops(80),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
    ),
    "rms norm": Row(
        lambda net, x: net.rms_norm(x, name="y"), ROWS, [ROWS, (2, 5)], flops=4 * 80, parameters=8, saved="x y.rstd"
    ),
    # statistics per example and group: 2 * 4
    "group norm": Row(
        lambda net, x: net.group_norm(x, 4, name="y"),
        IMAGE,
        [IMAGE, (2, 4), (2, 4)],
        flops=norm_flops(1920),
        parameters=8 + 8,
        saved="x y.mean y.rstd",
    ),
    # a square, 4 sums, a product and a sum, a power, a quotient
    "local response norm": Row(
        lambda net, x: net.local_response_norm(x, 5, name="y"),
        IMAGE,
        [IMAGE, IMAGE],
        flops=9 * 1920,
        saved="x y.scale",
        paper="x y",
    ),
    "add": Row(lambda net, x: net.add(x, x, name="y"), ROWS, [ROWS], flops=80),
    "add three": Row(lambda net, x: net.add(x, x, x, name="y"), ROWS, [ROWS], flops=2 * 80),
    "multiply": Row(lambda net, x: net.multiply(x, x, name="y"), ROWS, [ROWS], flops=80, saved="x"),
    "scale": Row(lambda net, x: net.scale(x, name="y"), ROWS, [ROWS], flops=80),
    "mask": Row(lambda net, x: net.mask(x, net.input("allowed", (5, 8), "bool"), name="y"), ROWS, [ROWS], flops=80),
    "softmax": Row(lambda net, x: net.softmax(x, name="y"), ROWS, [ROWS], flops=5 * 80, saved="y", paper="y"),
    "softmax with cross-entropy": Row(
        lambda net, x: net.softmax_cross_entropy(x, tokens(net, 2, 5), name="y"),
        ROWS,
        [(), ROWS],
        flops=5 * 80,
        saved="y.probabilities",
    ),
    # a difference, a square, a sum
    "mean square": Row(
        lambda net, x: net.mean_square(x, net.input("target", ROWS), name="y"), ROWS, [()], flops=3 * 80, saved="x"
    ),
    # chances before each of the 2 * 3 + 1 places of a transcript of 3, after each of 5 steps
    "CTC loss": Row(
        lambda net, x: net.ctc_loss(x, tokens(net, 2, 3), name="y"),
        ROWS,
        [(), (2, 5, 7)],
        flops=5 * 80 + 6 * 70,
        saved="x y.alpha",
    ),
    "concat": Row(lambda net, x: net.concat(x, tensor(net, (2, 3, 8), "z"), name="y"), ROWS, [(2, 8, 8)], paper="x z"),
    "concat, last axis": Row(
        lambda net, x: net.concat(x, tensor(net, (2, 5, 3), "z"), axis=-1, name="y"), ROWS, [(2, 5, 11)], paper="x z"
    ),
    "split": Row(lambda net, x: net.split(x, 4, name="y"), ROWS, [(2, 5, 2)] * 4),
    "crop": Row(lambda net, x: net.crop(x, 4, 6, name="y"), IMAGE, [(2, 8, 4, 6)]),
    "reshape": Row(lambda net, x: net.reshape(x, 10, 8, name="y"), ROWS, [(10, 8)]),
    "copy": Row(lambda net, x: net.copy(x, 5, 2, 8, name="y"), ROWS, [(5, 2, 8)]),
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
    )

table = pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in TABLE.items()])


def built(row, **settings):
    """The network of a row, and the number of y."""
    net = vocabulary(**settings)
    row.layer(net, tensor(net, row.shape))
    network = net.network()
    return network, network.graph.node_id("y")


@table
def test_a_layer_is_what_was_worked_out_by_hand(row):
    network, y = built(row)
    layer, graph = network.layers[y], network.graph
    assert list(layer.shapes) == row.shapes
    n_bytes = [4 * prod(shape) for shape in row.shapes] if row.bytes is None else row.bytes
    assert graph.memory[list(graph.values(y))].tolist() == n_bytes
    assert (layer.macs, layer.flops) == (row.macs, 2 * row.macs + row.flops)
    assert graph.compute[y] == layer.flops
    assert (network.n_parameters, network.parameter_memory) == (row.parameters, 4 * row.parameters)
    grad = row.workspace if row.grad_workspace is None else row.grad_workspace
    assert (graph.workspace[y], graph.backward.grad_workspace[y]) == (row.workspace, grad)
    assert saved(network)["y"] == set(row.saved.split())


@table
def test_in_paper_counting_only_values_with_a_gradient_are_left(row):
    (network, y), (paper, y_paper) = built(row), built(row, counting="paper")
    graph = paper.graph
    with_gradient = [x for x in network.graph.values(y) if network.graph.backward.grad_memory[x] >= 0]
    assert graph.memory[list(graph.values(y_paper))].tolist() == network.graph.memory[with_gradient].tolist()
    assert not graph.workspace.any()
    assert not graph.backward.grad_workspace.any()
    assert (paper.macs, paper.flops, paper.n_parameters) == (network.macs, network.flops, network.n_parameters)
    assert saved(paper)["y"] == set(row.paper.split())


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
