"""GoogLeNet: Inception modules with two auxiliary classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.families.mobilenet_v2 import scaled
from remat_algos.zoo.families.resnet import scores
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

Branches = tuple[int, int, int, int, int, int]

INCEPTIONS: dict[str, Branches] = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels of each convolution: 1 x 1; 1 x 1 and 3 x 3; 1 x 1 and 5 x 5; 1 x 1 after the pooling."""

POOLED_AFTER = ("3b", "4e")
HEAD_AFTER = ("4a", "4d")
STEM_CHANNELS, HEAD, AUXILIARY_HIDDEN = (64, 64, 192), 128, 1024


@family({"googlenet": {}, "googlenet_bn": {"norm": True}}, grows={"image": range(96, 4097, 32)})
def googlenet(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    width: int = 100,
    classes: int = 1000,
    auxiliary: bool = True,
    norm: bool = False,
) -> None:
    """Inception modules of four branches, with two auxiliary classifiers (szegedy2015, table 1 and section 5).

    Parameters
    ----------
    image : int
        Side in pixels: at least 79, or 47 without the auxiliary classifiers.
    width : int
        Numbers of channels in percent of the published ones, rounded to multiples of 8.
    auxiliary : bool
        Include the two auxiliary classifiers; their losses are added without weights, as in the graph of kusumoto2019.
    norm : bool
        Follow torchvision: batch norm after each convolution replaces biases and the two local response norms; ReLUs
        come before concatenations, not after; 3 x 3 convolutions replace 5 x 5; auxiliary classifiers have dropout.
    """
    labels = net.input("labels", (batch,), "int64")
    losses: list[Tensor] = []
    x = _stem(net, net.input("image", (batch, 3, image, image)), width, norm)
    for name, branches in INCEPTIONS.items():
        with net.block(f"inc{name}"):
            x = _inception(net, x, [scaled(channels, width) for channels in branches], norm)
        if name in POOLED_AFTER:
            x = net.max_pool(x, 3, 2, cover=True, name=f"pool{name[0]}")
        if auxiliary and name in HEAD_AFTER:
            with net.block(f"head{name}"):
                loss = net.softmax_cross_entropy(_head(net, x, classes, width, norm), labels)
            losses = [net.add(*losses, loss, name="losses")] if losses else [loss]
    loss = net.softmax_cross_entropy(scores(net, x, classes, dropout=True), labels)
    if losses:
        net.add(*losses, loss, name="losses")


def _stem(net: Layers, x: Tensor, width: int, norm: bool) -> Tensor:
    first, second, third = (scaled(channels, width) for channels in STEM_CHANNELS)
    with net.block("stem"):
        x = _unit(net, x, first, 7, "conv1", norm, stride=2)
        x = net.max_pool(x, 3, 2, cover=True, name="pool1")
        x = x if norm else net.local_response_norm(x, name="norm1")
        x = _unit(net, x, second, 1, "conv2_reduce", norm)
        x = _unit(net, x, third, 3, "conv2", norm)
        x = x if norm else net.local_response_norm(x, name="norm2")
        return net.max_pool(x, 3, 2, cover=True, name="pool2")


def _inception(net: Layers, x: Tensor, channels: Sequence[int], norm: bool) -> Tensor:
    one, before_three, three, before_five, five, pooled = channels
    y1 = _unit(net, x, one, 1, "conv1", norm, relu=norm)
    y3 = _unit(net, x, before_three, 1, "proj3", norm)
    y3 = _unit(net, y3, three, 3, "conv3", norm, relu=norm)
    y5 = _unit(net, x, before_five, 1, "proj5", norm)
    y5 = _unit(net, y5, five, 3 if norm else 5, "conv5", norm, relu=norm)
    y = net.max_pool(x, 3, 1, padding=1)
    y = _unit(net, y, pooled, 1, "projp", norm, relu=norm)
    y = net.concat(y1, y3, y5, y)
    return y if norm else net.relu(y)


def _head(net: Layers, x: Tensor, classes: int, width: int, norm: bool) -> Tensor:
    x = _unit(net, net.average_pool(x, 5, 3), scaled(HEAD, width), 1, "conv", norm)
    x = net.reshape(x, x.shape[0], prod(x.shape[1:]), name="flatten")
    x = net.relu(net.linear(x, scaled(AUXILIARY_HIDDEN, width), name="fc1"), name="fc1.relu")
    return net.linear(net.dropout(x) if norm else x, classes, name="fc2")


def _unit(
    net: Layers, x: Tensor, channels: int, kernel: int, name: str, norm: bool, *, stride: int = 1, relu: bool = True
) -> Tensor:
    x = net.convolution(x, channels, kernel, stride=stride, padding=kernel // 2, bias=not norm, name=name)
    x = net.batch_norm(x, name=f"{name}.norm") if norm else x
    return net.relu(x, name=f"{name}.relu") if relu else x
