"""MobileNetV2."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.families.resnet import scores
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

STAGES = ((1, 16, 1), (6, 24, 2), (6, 32, 2), (6, 64, 2), (6, 96, 1), (6, 160, 2), (6, 320, 1))
"""Expansion, channels and stride of each stage."""

STEM, LAST, MULTIPLE = 32, 1280, 8


@family({"mobilenet_v2": {}}, grows={"image": range(32, 4097, 32)})
def mobilenet_v2(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    stages: tuple[int, ...] = (1, 2, 3, 4, 3, 3, 1),
    width: int = 100,
    classes: int = 1000,
) -> None:
    """Inverted residual blocks: 1 x 1 expansion, 3 x 3 depthwise, 1 x 1 projection (sandler2018, table 2).

    Parameters
    ----------
    stages : tuple of int
        Number of blocks in each of the seven stages.
    width : int
        Numbers of channels in percent of the published ones, rounded to multiples of 8; the last convolution has at
        least 1280 channels.
    """
    if len(stages) != len(STAGES):
        raise net.fault(
            "stages has {n_stages} entries; give the number of blocks of each of the {expected} stages",
            n_stages=len(stages),
            expected=len(STAGES),
        )
    x = net.input("image", (batch, 3, image, image))
    with net.block("stem"):
        x = _unit(net, x, scaled(STEM, width), 3, stride=2)
    for stage, (n_blocks, (expansion, channels, stride)) in enumerate(zip(stages, STAGES, strict=True), 1):
        for block in range(n_blocks):
            with net.block(f"stage{stage}.{block}"):
                x = _inverted(net, x, scaled(channels, width), expansion, 1 if block else stride)
    with net.block("last"):
        x = _unit(net, x, scaled(LAST, max(width, 100)), 1)
    x = scores(net, x, classes, dropout=True)
    net.softmax_cross_entropy(x, net.input("labels", (batch,), "int64"))


def scaled(channels: int, width: int) -> int:
    """Scale channels by `width` percent, rounded to a multiple of 8 but not below 90 % of the exact number."""
    # In hundredths of a channel.
    exact = channels * width
    rounded = max(MULTIPLE, (exact + 50 * MULTIPLE) // (100 * MULTIPLE) * MULTIPLE)
    return rounded if 1000 * rounded >= 9 * exact else rounded + MULTIPLE


def _unit(
    net: Layers, x: Tensor, channels: int, kernel: int, *, stride: int = 1, groups: int = 1, name: str = "conv"
) -> Tensor:
    x = net.convolution(x, channels, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False, name=name)
    return net.relu6(net.batch_norm(x, name=f"{name}.norm"), name=f"{name}.relu")


def _inverted(net: Layers, x: Tensor, channels: int, expansion: int, stride: int) -> Tensor:
    inner = expansion * x.shape[1]
    y = _unit(net, x, inner, 1, name="expand") if expansion > 1 else x
    y = _unit(net, y, inner, 3, stride=stride, groups=inner, name="depthwise")
    y = net.batch_norm(net.convolution(y, channels, 1, bias=False, name="project"), name="project.norm")
    return net.add(x, y) if y.shape == x.shape else y
