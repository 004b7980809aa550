"""Impossible layers: one sentence each, with what was found and the remedy."""

import re

import pytest

from remat_algos.errors import GraphError
from tests.test_zoo_layers import IMAGE, ROWS, tensor, tokens, vocabulary


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
        lambda net, x: net.convolution(x, 6, (3, 3, 3), name="y"),
        "net: y has kernel (3, 3, 3) for an image of 2 lengths; give a whole number for each",
    ),
    "an upsampling of another rank": (
        lambda net, x: net.upsample(x, 20, name="y"),
        "net: y has size (20,) for an image of 2 lengths; give a whole number for each",
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
        "net: y takes (10, 13) out of (10, 12); give a size that fits",
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
        "net: y joins shapes (2, 8, 10, 12) and (2, 8, 10, 11); give shapes that differ only on axis 1",
    ),
    "a concat of two ranks": (
        lambda net, x: net.concat(x, tensor(net, (2, 8, 10), "z"), axis=-1, name="y"),
        "net: y joins shapes (2, 8, 10, 12) and (2, 8, 10); give shapes that differ only on axis 3",
    ),
    "parts that are not equal": (
        lambda net, x: net.split(x, 5, name="y"),
        "net: y cuts 12 into 5 equal parts; give a divisor",
    ),
    "no parts": (lambda net, x: net.split(x, 0, name="y"), "net: y cuts 12 into 0 equal parts; give a divisor"),
    "another number of elements": (
        lambda net, x: net.reshape(x, 7, name="y"),
        "net: y gives (2, 8, 10, 12) the shape (7,); give a shape of equal size",
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
NO_AXIS = "give one of its axes, or a tensor with that axis"
FIT = "give the lengths of the first, from the last one on, or 1"
BAD_LAYERS |= {
    "padding in words": (
        lambda net, x: net.convolution(x, 8, 3, padding="same", name="y"),
        "net: y has padding 'same' for an image of 2 lengths; give a whole number for each",
    ),
    "half a channel": (
        lambda net, x: net.convolution(x, 8.5, 3, name="y"),
        "net: y makes 8.5 channels of 8 in 1 groups; give a number that divides both",
    ),
    "channels that are not counted": (
        lambda net, x: net.convolution(x, 8.0, 3, name="y"),
        "net: y.weight has shape (8.0, 8, 3, 3); give whole numbers",
    ),
    "a kernel that is not counted": (
        lambda net, x: net.max_pool(x, 3.0, 2, name="y"),
        "net: y has kernel 3.0 for an image of 2 lengths; give a whole number for each",
    ),
    "a size that is not counted": (
        lambda net, x: net.reshape(x, 192.0, 10, name="y"),
        "net: y has shape (192.0, 10); give whole numbers",
    ),
    "a padding of whole windows (max)": (
        lambda net, x: net.max_pool(x, 3, 1, padding=2, name="y"),
        "net: y has a padding of 2 around windows of 3; give at most half the window",
    ),
    "a padding of whole windows (mean)": (
        lambda net, x: net.average_pool(x, (2, 4), 1, padding=(0, 3), name="y"),
        "net: y has a padding of (0, 3) around windows of (2, 4); give at most half the window",
    ),
    "no groups of a norm": (
        lambda net, x: net.group_norm(x, 0, name="y"),
        "net: y has 8 channels in 0 groups; give a divisor",
    ),
    "no neighbours": (
        lambda net, x: net.local_response_norm(x, 0, name="y"),
        "net: y goes over 0 channels; give 1 or more",
    ),
    "a crop of another rank": (
        lambda net, x: net.crop(x, 5, name="y"),
        "net: y takes (5,) out of (10, 12); give a size that fits",
    ),
    "a concat of nothing": (lambda net, x: net.concat(name="y"), "net: y reads nothing; give at least one tensor"),
    "a sum of nothing": (lambda net, x: net.add(name="y"), "net: y reads nothing; give at least one tensor"),
    "a concat along no axis": (
        lambda net, x: net.concat(x, x, axis=4, name="y"),
        f"net: y goes along axis 4 of shape (2, 8, 10, 12); {NO_AXIS}",
    ),
    "a split along no axis": (
        lambda net, x: net.split(x, 2, axis=-5, name="y"),
        f"net: y goes along axis -5 of shape (2, 8, 10, 12); {NO_AXIS}",
    ),
    "a copy of another number of elements": (
        lambda net, x: net.copy(x, 2, 8, 10, name="y"),
        "net: y gives (2, 8, 10, 12) the shape (2, 8, 10); give a shape of equal size",
    ),
    "negative lengths": (
        lambda net, x: net.reshape(x, -160, -12, name="y"),
        "net: y gives (2, 8, 10, 12) the shape (-160, -12); give a shape of equal size",
    ),
    "a view of more than there is": (
        lambda net, x: net.view(x, 2, 8, 10, 13, name="y"),
        "net: y shows (2, 8, 10, 12) as (2, 8, 10, 13); give no more elements than there are",
    ),
    "a view of nothing": (
        lambda net, x: net.view(x, 0, 8, name="y"),
        "net: y shows (2, 8, 10, 12) as (0, 8); give no more elements than there are",
    ),
    "a product by channels at the wrong end": (
        lambda net, x: net.multiply(x, tensor(net, (2, 8), "z"), name="y"),
        f"net: y reads shapes (2, 8, 10, 12) and (2, 8); {FIT}",
    ),
    "a factor that is larger": (
        lambda net, x: net.multiply(tensor(net, (10, 12), "z"), x, name="y"),
        f"net: y reads shapes (10, 12) and (2, 8, 10, 12); {FIT}",
    ),
    "a step of another shape": (
        lambda net, x: net.pointwise("Subtract", [x, tensor(net, (2, 8), "z")], name="y"),
        f"net: y reads shapes (2, 8, 10, 12) and (2, 8); {FIT}",
    ),
    "a step that reads nothing": (
        lambda net, x: net.pointwise("Add", [], name="y"),
        "net: y reads nothing; give at least one tensor",
    ),
    "a mask of another length": (
        lambda net, x: net.mask(x, net.input("allowed", (10, 11), "bool"), name="y"),
        f"net: y reads shapes (2, 8, 10, 12) and (10, 11); {FIT}",
    ),
}
BAD_ROWS = {
    "rows without a length": (
        lambda net, x: net.max_pool(net.copy(x, 10, 8), 3, 1, name="y"),
        "net: y reads shape (10, 8); give an image, (batch, channels, *lengths)",
    ),
    "matrices that do not fit": (
        lambda net, x: net.matmul(x, x, name="y"),
        "net: y multiplies (2, 5, 8) by (2, 5, 8); give equal inner lengths",
    ),
    "heads that do not divide": (
        lambda net, x: net.attention(x, x, x, 3, name="y"),
        "net: y has width 8 in 3 heads, and keys of width 8 in 3 heads; give numbers that divide",
    ),
    "no heads": (
        lambda net, x: net.attention(x, x, x, 0, name="y"),
        "net: y has width 8 in 0 heads, and keys of width 8 in 0 heads; give numbers that divide",
    ),
    "heads of keys that do not divide": (
        lambda net, x: net.attention(x, *[tensor(net, (2, 5, 6), name) for name in "kv"], 4, kv_heads=3, name="y"),
        "net: y has width 8 in 4 heads, and keys of width 6 in 3 heads; give numbers that divide",
    ),
    "heads of keys of another width": (
        lambda net, x: net.attention(x, x, x, 4, kv_heads=2, name="y"),
        "net: y has width 8 in 4 heads, and keys of width 8 in 2 heads; give numbers that divide",
    ),
    "keys and values of two lengths": (
        lambda net, x: net.attention(x, x, tensor(net, (2, 6, 8), "v"), 2, fused=True, name="y"),
        "net: y reads shapes (2, 5, 8) and (2, 6, 8); give equal ones",
    ),
    "a shared weight of another shape": (
        lambda net, x: net.linear(x, 6, parameters=[net.parameter("w", (8, 6))], name="y"),
        "net: y has a weight of (8, 6), expected (6, 8)",
    ),
    "a shared bias of another shape": (
        lambda net, x: net.linear(x, 6, parameters=[net.parameter(n, (6, 8)) for n in ("w", "b")], name="y"),
        "net: y has a bias of (6, 8), expected (6,)",
    ),
    "a shared embedding of another shape": (
        lambda net, x: net.embedding(tokens(net, 2, 5), 9, 8, weight=net.parameter("w", (8, 9)), name="y"),
        "net: y has a weight of (8, 9), expected (9, 8)",
    ),
    "a linear layer of a number": (
        lambda net, x: net.linear(net.mean_square(x, x), 6, name="y"),
        f"net: y goes along axis -1 of shape (); {NO_AXIS}",
    ),
    "a softmax of a number": (
        lambda net, x: net.softmax(net.mean_square(x, x), name="y"),
        f"net: y goes along axis -1 of shape (); {NO_AXIS}",
    ),
    "scores of one axis": (
        lambda net, x: net.softmax_cross_entropy(net.copy(x, 80), tokens(net, 2, 5), name="y"),
        "net: y has scores of shape (80,) for targets of (2, 5); give a target for each row of scores",
    ),
    "a transcript that is no row": (
        lambda net, x: net.ctc_loss(x, tokens(net, 2), name="y"),
        "net: y has scores of shape (2, 5, 8) for targets of (2,); give (steps, batch, classes) and (batch, length)",
    ),
    "a convolution of rows": (
        lambda net, x: net.convolution(net.copy(x, 10, 8), 4, 1, name="y"),
        "net: y reads shape (10, 8); give an image, (batch, channels, *lengths)",
    ),
    "a transposed convolution of one axis": (
        lambda net, x: net.transposed_convolution(net.copy(x, 80), 4, 1, name="y"),
        "net: y reads shape (80,); give an image, (batch, channels, *lengths)",
    ),
    "a batch norm of one axis": (
        lambda net, x: net.batch_norm(net.copy(x, 80), name="y"),
        f"net: y goes along axis 1 of shape (80,); {NO_AXIS}",
    ),
    "a group norm of one axis": (
        lambda net, x: net.group_norm(net.copy(x, 80), 4, name="y"),
        f"net: y goes along axis 1 of shape (80,); {NO_AXIS}",
    ),
    "a layer norm of a number": (
        lambda net, x: net.layer_norm(net.mean_square(x, x), name="y"),
        f"net: y goes along axis -1 of shape (); {NO_AXIS}",
    ),
    "matrices of two batches": (
        lambda net, x: net.matmul(x, tensor(net, (4, 8, 5), "z"), name="y"),
        "net: y multiplies (2, 5, 8) by (4, 8, 5); give equal numbers of matrices, or heads that divide",
    ),
    "matrices of two ranks": (
        lambda net, x: net.matmul(x, tensor(net, (8, 5), "z"), name="y"),
        "net: y multiplies (2, 5, 8) by (8, 5); give equal numbers of matrices, or heads that divide",
    ),
    "heads of a product that do not divide": (
        lambda net, x: net.matmul(net.copy(x, 1, 4, 5, 4), tensor(net, (1, 3, 4, 5), "z"), name="y"),
        "net: y multiplies (1, 4, 5, 4) by (1, 3, 4, 5); give equal numbers of matrices, or heads that divide",
    ),
    "a product of rows": (
        lambda net, x: net.matmul(net.copy(x, 80), net.copy(x, 80), name="y"),
        "net: y multiplies (80,) by (80,); give equal numbers of matrices, or heads that divide",
    ),
    "attention of images": (
        lambda net, x: net.attention(*[net.copy(x, 2, 5, 2, 4)] * 3, 2, name="y"),
        "net: y reads shapes (2, 5, 2, 4), (2, 5, 2, 4) and (2, 5, 2, 4); give (batch, length, width) of one batch",
    ),
    "attention of two batches": (
        lambda net, x: net.attention(x, *[tensor(net, (4, 5, 8), name) for name in "kv"], 2, fused=True, name="y"),
        "net: y reads shapes (2, 5, 8), (4, 5, 8) and (4, 5, 8); give (batch, length, width) of one batch",
    ),
    "a mask that does not fit the scores": (
        lambda net, x: net.attention(x, x, x, 2, mask=net.input("allowed", (4, 5), "bool"), fused=True, name="y"),
        f"net: y reads shapes (2, 2, 5, 5) and (4, 5); {FIT}",
    ),
    "a bias that does not fit the scores": (
        lambda net, x: net.attention(x, x, x, 2, bias=net.parameter("bias", (3, 5, 5)), name="y"),
        f"net: y reads shapes (2, 2, 5, 5) and (3, 5, 5); {FIT}",
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
