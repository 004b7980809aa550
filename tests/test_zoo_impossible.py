"""Impossible layers: each error holds what does not fit."""

import pytest

from remat_algos.errors import GraphError
from tests.raising import raises
from tests.test_zoo_layers import IMAGE, ROWS, tensor, tokens, vocabulary

OF_IMAGES = {
    "kernel larger than the image": (lambda net, x: net.convolution(x, 4, 15, padding=1), {"window": 15, "length": 12}),
    "dilated kernel larger than the image": (lambda net, x: net.convolution(x, 4, 3, dilation=5), {"window": 11}),
    "pooling larger than the image": (lambda net, x: net.max_pool(x, 11, 1), {"window": 11, "length": 10}),
    "a kernel of another rank": (lambda net, x: net.convolution(x, 6, (3, 3, 3)), {"size": (3, 3, 3), "rank": 2}),
    "an upsampling of another rank": (lambda net, x: net.upsample(x, 20), {"size": (20,), "rank": 2}),
    "groups that do not divide": (lambda net, x: net.convolution(x, 6, 3, groups=4), {"channels": 6, "before": 8}),
    "no groups": (lambda net, x: net.convolution(x, 8, 3, groups=0), {"channels": 8, "before": 8, "groups": 0}),
    "no channels": (lambda net, x: net.convolution(x, 0, 3), {"shape": (0, 8, 3, 3)}),
    "no stride": (lambda net, x: net.convolution(x, 8, 3, stride=0), {"stride": 0, "padding": 0}),
    "negative padding": (lambda net, x: net.average_pool(x, 3, 1, padding=-1), {"stride": 1, "padding": -1}),
    "no stride upwards": (lambda net, x: net.transposed_convolution(x, 8, 3, stride=0), {"lengths": (3, 3)}),
    "upsampled to nothing": (lambda net, x: net.upsample(x, 0, 4), {"lengths": (0, 4)}),
    "more parts than pixels": (lambda net, x: net.average_pool_to(x, 11, 1), {"lengths": (11, 1), "shape": (10, 12)}),
    "a crop larger than the image": (lambda net, x: net.crop(x, 10, 13), {"size": (10, 13), "image": (10, 12)}),
    "a sum of two shapes": (lambda net, x: net.add(x, tensor(net, ROWS, "z")), {"other": (2, 5, 8)}),
    "targets of another shape": (lambda net, x: net.mean_square(x, net.input("target", ROWS)), {"other": (2, 5, 8)}),
    "a concat of two sizes": (
        lambda net, x: net.concat(x, tensor(net, (2, 8, 10, 11), "z")),
        {"other": (2, 8, 10, 11), "axis": 1},
    ),
    "a concat of two ranks": (
        lambda net, x: net.concat(x, tensor(net, (2, 8, 10), "z"), axis=-1),
        {"other": (2, 8, 10), "axis": 3},
    ),
    "parts that are not equal": (lambda net, x: net.split(x, 5), {"length": 12, "parts": 5}),
    "no parts": (lambda net, x: net.split(x, 0), {"length": 12, "parts": 0}),
    "another number of elements": (lambda net, x: net.reshape(x, 7), {"new": (7,)}),
    "groups of a norm that do not divide": (lambda net, x: net.group_norm(x, 3), {"channels": 8, "groups": 3}),
    "targets that are not one for each row": (
        lambda net, x: net.softmax_cross_entropy(x, tokens(net, 2)),
        {"scores": (2, 8, 10, 12), "targets": (2,)},
    ),
    "padding in words": (lambda net, x: net.convolution(x, 8, 3, padding="same"), {"size": "same", "rank": 2}),
    "half a channel": (lambda net, x: net.convolution(x, 8.5, 3), {"channels": 8.5, "before": 8, "groups": 1}),
    "channels that are not counted": (lambda net, x: net.convolution(x, 8.0, 3), {"shape": (8.0, 8, 3, 3)}),
    "a kernel that is not counted": (lambda net, x: net.max_pool(x, 3.0, 2), {"size": 3.0, "rank": 2}),
    "a size that is not counted": (lambda net, x: net.reshape(x, 192.0, 10), {"shape": (192.0, 10)}),
    "a padding of whole windows (max)": (lambda net, x: net.max_pool(x, 3, 1, padding=2), {"padding": 2, "kernel": 3}),
    "a padding of whole windows (mean)": (
        lambda net, x: net.average_pool(x, (2, 4), 1, padding=(0, 3)),
        {"padding": (0, 3), "kernel": (2, 4)},
    ),
    "no groups of a norm": (lambda net, x: net.group_norm(x, 0), {"channels": 8, "groups": 0}),
    "no neighbours": (lambda net, x: net.local_response_norm(x, 0), {"size": 0}),
    "a crop of another rank": (lambda net, x: net.crop(x, 5), {"size": (5,), "image": (10, 12)}),
    "a concat of nothing": (lambda net, x: net.concat(), {"name": "concat"}),
    "a sum of nothing": (lambda net, x: net.add(), {"name": "add"}),
    "a concat along no axis": (lambda net, x: net.concat(x, x, axis=4), {"axis": 4}),
    "a split along no axis": (lambda net, x: net.split(x, 2, axis=-5), {"axis": -5}),
    "a copy of another number of elements": (lambda net, x: net.copy(x, 2, 8, 10), {"new": (2, 8, 10)}),
    "negative lengths": (lambda net, x: net.reshape(x, -160, -12), {"new": (-160, -12)}),
    "a view of more than there is": (lambda net, x: net.view(x, 2, 8, 10, 13), {"view": (2, 8, 10, 13)}),
    "a view of nothing": (lambda net, x: net.view(x, 0, 8), {"view": (0, 8)}),
    "a product by channels at the wrong end": (
        lambda net, x: net.multiply(x, tensor(net, (2, 8), "z")),
        {"other": (2, 8)},
    ),
    "a factor that is larger": (lambda net, x: net.multiply(tensor(net, (10, 12), "z"), x), {"shape": (10, 12)}),
    "a step of another shape": (
        lambda net, x: net.pointwise("Subtract", [x, tensor(net, (2, 8), "z")]),
        {"other": (2, 8)},
    ),
    "a step that reads nothing": (lambda net, x: net.pointwise("Add", []), {"name": "add"}),
    "a mask of another length": (
        lambda net, x: net.mask(x, net.input("allowed", (10, 11), "bool")),
        {"other": (10, 11)},
    ),
}
OF_ROWS = {
    "rows without a length": (lambda net, x: net.max_pool(net.copy(x, 10, 8), 3, 1), {"shape": (10, 8)}),
    "matrices that do not fit": (lambda net, x: net.matmul(x, x), {"other": (2, 5, 8)}),
    "heads that do not divide": (lambda net, x: net.attention(x, x, x, 3), {"width": 8, "heads": 3, "key_width": 8}),
    "no heads": (lambda net, x: net.attention(x, x, x, 0), {"width": 8, "heads": 0, "key_width": 8, "kv_heads": 0}),
    "heads of keys that do not divide": (
        lambda net, x: net.attention(x, *[tensor(net, (2, 5, 6), name) for name in "kv"], 4, kv_heads=3),
        {"width": 8, "heads": 4, "key_width": 6, "kv_heads": 3},
    ),
    "heads of keys of another width": (lambda net, x: net.attention(x, x, x, 4, kv_heads=2), {"width": 8, "heads": 4}),
    "keys and values of two lengths": (
        lambda net, x: net.attention(x, x, tensor(net, (2, 6, 8), "v"), 2, fused=True),
        {"other": (2, 6, 8)},
    ),
    "a shared weight of another shape": (
        lambda net, x: net.linear(x, 6, parameters=[net.parameter("w", (8, 6))]),
        {"shape": (8, 6), "expected": (6, 8)},
    ),
    "a shared bias of another shape": (
        lambda net, x: net.linear(x, 6, parameters=[net.parameter(n, (6, 8)) for n in ("w", "b")]),
        {"shape": (6, 8), "expected": (6,)},
    ),
    "a shared embedding of another shape": (
        lambda net, x: net.embedding(tokens(net, 2, 5), 9, 8, weight=net.parameter("w", (8, 9))),
        {"shape": (8, 9), "expected": (9, 8)},
    ),
    "a linear layer of a number": (lambda net, x: net.linear(net.mean_square(x, x), 6), {"axis": -1, "shape": ()}),
    "a softmax of a number": (lambda net, x: net.softmax(net.mean_square(x, x)), {"axis": -1, "shape": ()}),
    "scores of one axis": (
        lambda net, x: net.softmax_cross_entropy(net.copy(x, 80), tokens(net, 2, 5)),
        {"scores": (80,), "targets": (2, 5)},
    ),
    "a transcript that is no row": (lambda net, x: net.ctc_loss(x, tokens(net, 2)), {"scores": (2, 5, 8)}),
    "a convolution of rows": (lambda net, x: net.convolution(net.copy(x, 10, 8), 4, 1), {"shape": (10, 8)}),
    "a transposed convolution of one axis": (
        lambda net, x: net.transposed_convolution(net.copy(x, 80), 4, 1),
        {"shape": (80,)},
    ),
    "a batch norm of one axis": (lambda net, x: net.batch_norm(net.copy(x, 80)), {"axis": 1, "shape": (80,)}),
    "a group norm of one axis": (lambda net, x: net.group_norm(net.copy(x, 80), 4), {"axis": 1, "shape": (80,)}),
    "a layer norm of a number": (lambda net, x: net.layer_norm(net.mean_square(x, x)), {"axis": -1, "shape": ()}),
    "matrices of two batches": (lambda net, x: net.matmul(x, tensor(net, (4, 8, 5), "z")), {"other": (4, 8, 5)}),
    "matrices of two ranks": (lambda net, x: net.matmul(x, tensor(net, (8, 5), "z")), {"other": (8, 5)}),
    "heads of a product that do not divide": (
        lambda net, x: net.matmul(net.copy(x, 1, 4, 5, 4), tensor(net, (1, 3, 4, 5), "z")),
        {"shape": (1, 4, 5, 4), "other": (1, 3, 4, 5)},
    ),
    "a product of rows": (lambda net, x: net.matmul(net.copy(x, 80), net.copy(x, 80)), {"shape": (80,)}),
    "attention of images": (lambda net, x: net.attention(*[net.copy(x, 2, 5, 2, 4)] * 3, 2), {"q": (2, 5, 2, 4)}),
    "attention of two batches": (
        lambda net, x: net.attention(x, *[tensor(net, (4, 5, 8), name) for name in "kv"], 2, fused=True),
        {"q": (2, 5, 8), "k": (4, 5, 8), "v": (4, 5, 8)},
    ),
    "a mask that does not fit the scores": (
        lambda net, x: net.attention(x, x, x, 2, mask=net.input("allowed", (4, 5), "bool"), fused=True),
        {"shape": (2, 2, 5, 5), "other": (4, 5)},
    ),
    "a bias that does not fit the scores": (
        lambda net, x: net.attention(x, x, x, 2, bias=net.parameter("bias", (3, 5, 5))),
        {"shape": (2, 2, 5, 5), "other": (3, 5, 5)},
    ),
    "no features": (lambda net, x: net.linear(x, 0), {"shape": (0, 8)}),
}


@pytest.mark.parametrize(
    ("shape", "layer", "fields"),
    [(IMAGE, *row) for row in OF_IMAGES.values()] + [(ROWS, *row) for row in OF_ROWS.values()],
    ids=[*OF_IMAGES, *OF_ROWS],
)
def test_an_impossible_layer_is_refused(shape, layer, fields):
    net = vocabulary()
    x = tensor(net, shape)
    with raises(GraphError, **fields):
        layer(net, x)


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, -3, 8, 8)])
def test_an_input_without_elements_is_refused(shape):
    with raises(GraphError, name="x", shape=shape):
        vocabulary().input("x", shape)


@pytest.mark.parametrize("shape", [(), (1,), (12,), (10, 1), (8, 1, 12), (2, 1, 1, 1), IMAGE])
def test_lengths_of_one_fit_all(shape):
    net = vocabulary()
    x, y = tensor(net, IMAGE), tensor(net, shape, "y")
    assert net.multiply(x, y).shape == net.mask(x, y).shape == IMAGE


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_matrices_of_fewer_heads_may_be_shared(heads):
    net = vocabulary()
    y = net.matmul(tensor(net, (3, 4, 5, 8)), tensor(net, (3, heads, 8, 6), "y"))
    assert y.shape == (3, 4, 5, 6)


def test_a_view_may_repeat_along_lengths_of_one():
    net = vocabulary()
    token = net.view(net.parameter("token", (1, 1, 7)), 4, 1, 7)
    assert token.shape == (4, 1, 7)
    assert net.view(token, 4, 7).shape == (4, 7)
