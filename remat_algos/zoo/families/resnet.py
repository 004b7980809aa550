"""Residual networks for ImageNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

Windows = Sequence[tuple[int, int, int]]
"""(channels, kernel, stride) of each convolution of a residual block."""

EXPANSION = 4
BY_DEPTH = {101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Number of blocks of each stage, for depths that do not follow the rule of `stage_depths`."""


def _depths(options: Mapping[str, Any]) -> Sequence[int]:
    """Return all depths except those in `BY_DEPTH`, so that no stage shrinks as the depth grows."""
    step = 3 if options["bottleneck"] else 2
    return [depth for depth in range(4 * step + 2, 5000, step) if not (options["bottleneck"] and depth in BY_DEPTH)]


@family(
    {
        "resnet18": {"depth": 18, "bottleneck": False},
        "resnet34": {"depth": 34, "bottleneck": False},
        "resnet50": {"depth": 50},
        "resnet101": {"depth": 101},
        "resnet152": {"depth": 152},
        "resnet200": {"depth": 200, "preactivation": True},
    },
    grows={"depth": _depths, "image": range(32, 4097, 32)},
)
def resnet(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    depth: int = 50,
    stages: tuple[int, ...] | None = None,
    bottleneck: bool = True,
    width: int = 64,
    classes: int = 1000,
    preactivation: bool = False,
    stride_first: bool = False,
    biased_stem: bool = False,
) -> None:
    """Residual networks for ImageNet, of any depth (he2016, table 1).

    Parameters
    ----------
    depth : int
        Number of layers in sequence: the convolutions of the blocks, the first convolution and the linear layer. The
        first and the last of four stages have up to 3 blocks; the second and third share the other blocks in the
        ratio 2 to 3. So depth 50 has stages of (3, 4, 6, 3) blocks, depth 200 of (3, 24, 36, 3), and depth 1001 of
        (3, 131, 196, 3). Depths 101 and 152 are as published: (3, 4, 23, 3) and (3, 8, 36, 3).
    stages : tuple of int, optional
        Number of blocks of each stage; overrides the depth.
    bottleneck : bool
        True: blocks have 1 x 1, 3 x 3 and 1 x 1 convolutions; the last one multiplies the channels by four. False:
        blocks have two 3 x 3 convolutions.
    width : int
        Channels of the first stage; each later stage has twice as many as the previous one.
    preactivation : bool
        Norm and ReLU come before each convolution, and nothing follows the sum (he2016identity, figure 4 (e)).
    stride_first : bool
        True: a bottleneck halves the image in its first convolution, as in he2016. False: in its second, as in
        torchvision.
    biased_stem : bool
        The first convolution has a bias, as in the graph of kusumoto2019.
    """
    blocks = stages or stage_depths(net.model, depth, bottleneck)
    x = net.input("image", (batch, 3, image, image))
    with net.block("stem"):
        x = net.convolution(x, width, 7, stride=2, padding=3, bias=biased_stem)
        x = net.max_pool(net.relu(net.batch_norm(x)), 3, 2, padding=1)
    for stage, n_units in enumerate(blocks):
        for unit in range(n_units):
            stride = 2 if stage and not unit else 1
            windows = block_windows(width * 2**stage, stride, bottleneck, stride_first)
            with net.block(f"layer{stage + 1}.{unit}"):
                if preactivation:
                    x = preactivated(net, x, windows, fresh=stage == unit == 0)
                else:
                    x = residual(net, x, windows)
    if preactivation:
        x = net.relu(net.batch_norm(x))
    x = scores(net, x, classes)
    net.softmax_cross_entropy(x, net.input("labels", (batch,), "int64"))


def stage_depths(model: str, depth: int, bottleneck: bool) -> tuple[int, ...]:
    """Return the number of blocks of each of four stages; see `resnet`."""
    if bottleneck and depth in BY_DEPTH:
        return BY_DEPTH[depth]
    per_block = 3 if bottleneck else 2
    n_blocks, rest = divmod(depth - 2, per_block)
    if rest or n_blocks < 4:
        near = [n * per_block + 2 for n in (max(4, n_blocks), max(4, n_blocks) + 1)]
        kind, instead = ("bottlenecks", "stages, or bottleneck=False") if bottleneck else ("basic blocks", "or stages")
        raise GraphError(
            "{model!w}: no number of {kind!w} gives a depth of {depth}; give {lower}, {upper}, {instead!w}",
            model=model,
            kind=kind,
            depth=depth,
            lower=near[0],
            upper=near[1],
            instead=instead,
        )
    ends = min(3, n_blocks // 4)
    between = n_blocks - 2 * ends
    # Two fifths, rounded.
    second = (2 * between + 2) // 5
    return ends, second, between - second, ends


def block_windows(channels: int, stride: int, bottleneck: bool, stride_first: bool = False) -> Windows:
    """Return the convolutions of a residual block; only one of them has a stride above 1."""
    if not bottleneck:
        return [(channels, 3, stride), (channels, 3, 1)]
    first, second = (stride, 1) if stride_first else (1, stride)
    return [(channels, 1, first), (channels, 3, second), (EXPANSION * channels, 1, 1)]


def residual(net: Layers, x: Tensor, windows: Windows, *, project: bool = True) -> Tensor:
    """Add a residual block with a final ReLU.

    If the shape changes, the shortcut is a convolution; without `project` it drops every other pixel and appends
    channels of zeros.
    """
    y = x
    for k, (channels, kernel, stride) in enumerate(windows, 1):
        if k > 1:
            y = net.relu(y, name=f"relu{k - 1}")
        y = net.convolution(y, channels, kernel, stride=stride, padding=kernel // 2, bias=False, name=f"conv{k}")
        y = net.batch_norm(y, name=f"norm{k}")
    if y.shape != x.shape:
        x = _reshaped(net, x, windows, project)
        x = net.batch_norm(x, name="downsample.norm") if project else x
    return net.relu(net.add(y, x))


def preactivated(net: Layers, x: Tensor, windows: Windows, *, project: bool = True, fresh: bool = False) -> Tensor:
    """Add a residual block with norms and ReLUs before convolutions; `fresh`: x already passed a norm and a ReLU.

    If the shape changes, the shortcut starts after the first norm and ReLU.
    """
    y = x if fresh else net.relu(net.batch_norm(x, name="norm1"), name="relu1")
    if windows[-1][0] != x.shape[1]:
        x = _reshaped(net, y, windows, project)
    for k, (channels, kernel, stride) in enumerate(windows, 1):
        if k > 1:
            y = net.relu(net.batch_norm(y, name=f"norm{k}"), name=f"relu{k}")
        y = net.convolution(y, channels, kernel, stride=stride, padding=kernel // 2, bias=False, name=f"conv{k}")
    return net.add(y, x)


def _reshaped(net: Layers, x: Tensor, windows: Windows, project: bool) -> Tensor:
    channels, stride = windows[-1][0], max(stride for _, _, stride in windows)
    if project:
        return net.convolution(x, channels, 1, stride=stride, bias=False, name="downsample")
    shape = (x.shape[0], channels, *(-(-length // stride) for length in x.shape[2:]))
    return net.run("Slice", [x], shape, name=net.named("downsample"))


def scores(net: Layers, x: Tensor, classes: int, *, dropout: bool = False) -> Tensor:
    x = net.average_pool_to(x, 1, 1, name="avgpool")
    x = net.dropout(x) if dropout else x
    return net.linear(net.reshape(x, *x.shape[:2], name="flatten"), classes, name="fc")
