"""Residual networks for CIFAR."""

from __future__ import annotations

from remat_algos.zoo.families.resnet import block_windows, preactivated, residual, scores
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

N_STAGES = 3


@family(
    {
        **{f"resnet{depth}": {"depth": depth} for depth in (20, 32, 44, 56, 110, 1202)},
        **{f"resnet{depth}": {"depth": depth, "bottleneck": True, "preactivation": True} for depth in (164, 1001)},
    },
    grows={"depth": lambda options: range(11, 5000, 9) if options["bottleneck"] else range(8, 5000, 6)},
)
def resnet_cifar(
    net: Layers,
    *,
    batch: int = 128,
    image: int = 32,
    depth: int = 20,
    stages: tuple[int, ...] | None = None,
    bottleneck: bool = False,
    width: int = 16,
    classes: int = 10,
    preactivation: bool = False,
) -> None:
    """Residual networks for small images, with three stages of equal depth (he2016, section 4.2 and table 6).

    If the shape changes, the shortcut of a basic block has no parameters (option A of he2016): it takes every other
    pixel and adds channels of zeros, in one `Slice` node. The shortcut of a bottleneck is a 1 x 1 convolution, and the
    first convolution of the block halves the image, as in the code of he2016identity (section 4 and appendix).

    Parameters
    ----------
    depth : int
        6 n + 2, or 9 n + 2 with bottlenecks, for n blocks per stage.
    stages : tuple of int, optional
        Number of blocks of each stage; overrides the depth.
    bottleneck : bool
        True: blocks have 1 x 1, 3 x 3 and 1 x 1 convolutions; the last one multiplies the channels by four. False:
        blocks have two 3 x 3 convolutions.
    width : int
        Channels of the first stage; each later stage has twice as many as the previous one.
    preactivation : bool
        Norm and ReLU come before each convolution, and nothing follows the sum.
    """
    per_unit = N_STAGES * (3 if bottleneck else 2)
    n_units, rest = divmod(depth - 2, per_unit)
    if not stages and (rest or n_units < 1):
        near = [n * per_unit + 2 for n in (max(1, n_units), max(1, n_units) + 1)]
        raise net.fault(
            "no number of blocks gives a depth of {depth}; give {lower}, {upper}, or stages",
            depth=depth,
            lower=near[0],
            upper=near[1],
        )
    x = net.input("image", (batch, 3, image, image))
    with net.block("stem"):
        x = net.convolution(x, width, 3, padding=1, bias=False)
        x = x if preactivation else net.relu(net.batch_norm(x))
    block = preactivated if preactivation else residual
    for stage, n in enumerate(stages or (n_units,) * N_STAGES):
        for unit in range(n):
            stride = 2 if stage and not unit else 1
            windows = block_windows(width * 2**stage, stride, bottleneck, stride_first=True)
            with net.block(f"layer{stage + 1}.{unit}"):
                x = block(net, x, windows, project=bottleneck)
    if preactivation:
        x = net.relu(net.batch_norm(x))
    x = scores(net, x, classes)
    net.softmax_cross_entropy(x, net.input("labels", (batch,), "int64"))
