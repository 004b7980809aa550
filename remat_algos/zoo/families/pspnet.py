"""Pyramid scene parsing networks."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

POOL_BINS = (1, 2, 3, 6)
# One entry per stage. In the last two stages dilation replaces stride, so that the image stays at 1/8 of its size.
STRIDES, DILATIONS = (1, 2, 1, 1), (1, 1, 2, 4)
MIN_DEPTH = 35


@family(
    {"pspnet": {}, "pspnet50": {"depth": 50}},
    grows={"depth": range(MIN_DEPTH, 1000, 3), "image": range(97, 4098, 8)},
)
def pspnet(
    net: Layers, *, batch: int = 2, image: int = 713, depth: int = 101, width: int = 64, classes: int = 19
) -> None:
    """PSPNet: a dilated ResNet, pyramid pooling, and an auxiliary loss at the third stage (zhao2017, section 3).

    Sizes are those of the authors' later code: a stem of three 3 x 3 convolutions, 256 channels in the auxiliary head.
    The 19 classes are those of Cityscapes.

    Parameters
    ----------
    depth : int
        Number of layers of the ResNet: 3 n + 32, for four stages of 3, 4, n and 3 blocks.
    width : int
        Channels of the stem.
    classes : int
        Number of scores per pixel.
    """
    if depth < MIN_DEPTH or depth % 3 != 2:
        raise net.fault(
            "depth is {depth}; give {min_depth} plus a multiple of 3, such as 50 (stages 3, 4, 6, 3)",
            depth=depth,
            min_depth=MIN_DEPTH,
        )
    x = _stem(net, net.input("image", (batch, 3, image, image)), width)
    stages = []
    for stage, blocks in enumerate((3, 4, (depth - 32) // 3, 3)):
        for block in range(blocks):
            stride = STRIDES[stage] if block == 0 else 1
            x = _bottleneck(net, x, width << stage, stride, DILATIONS[stage], f"layer{stage + 1}.{block}")
        stages.append(x)
    target = net.input("target", (batch, image, image), "int64")
    main = _head(net, _pyramid(net, x), 8 * width, classes, image, "cls")
    loss = net.softmax_cross_entropy(main, target, name="main_loss")
    auxiliary = _head(net, stages[2], 4 * width, classes, image, "aux")
    share = net.scale(net.softmax_cross_entropy(auxiliary, target, name="aux_loss"), name="aux_share", factor=0.4)
    net.add(loss, share, name="loss")


def _stem(net: Layers, x: Tensor, width: int) -> Tensor:
    with net.block("layer0"):
        for k, channels in enumerate((width, width, 2 * width), start=1):
            stride = 2 if k == 1 else 1
            x = net.convolution(x, channels, 3, stride=stride, padding=1, bias=False, name=f"conv{k}")
            x = net.relu(net.batch_norm(x, name=f"bn{k}"), name=f"relu{k}")
        return net.max_pool(x, 3, 2, padding=1)


def _bottleneck(net: Layers, x: Tensor, width: int, stride: int, dilation: int, name: str) -> Tensor:
    with net.block(name):
        y = net.convolution(x, width, 1, bias=False, name="conv1")
        y = net.relu(net.batch_norm(y, name="bn1"), name="relu1")
        y = net.convolution(y, width, 3, stride=stride, padding=dilation, dilation=dilation, bias=False, name="conv2")
        y = net.relu(net.batch_norm(y, name="bn2"), name="relu2")
        y = net.batch_norm(net.convolution(y, 4 * width, 1, bias=False, name="conv3"), name="bn3")
        if x.shape != y.shape:
            x = net.convolution(x, 4 * width, 1, stride=stride, bias=False, name="downsample.0")
            x = net.batch_norm(x, name="downsample.1")
        return net.relu(net.add(y, x), name="relu3")


def _pyramid(net: Layers, x: Tensor) -> Tensor:
    levels = []
    for k, parts in enumerate(POOL_BINS):
        with net.block(f"ppm.{k}"):
            y = net.average_pool_to(x, parts, parts)
            y = net.convolution(y, x.shape[1] // len(POOL_BINS), 1, bias=False)
            levels.append(net.upsample(net.relu(net.batch_norm(y)), *x.shape[2:]))
    return net.concat(x, *levels, name="pyramid")


def _head(net: Layers, x: Tensor, channels: int, classes: int, image: int, name: str) -> Tensor:
    with net.block(name):
        x = net.relu(net.batch_norm(net.convolution(x, channels, 3, padding=1, bias=False)))
        return net.upsample(net.convolution(net.dropout(x), classes, 1, name="score"), image, image)
