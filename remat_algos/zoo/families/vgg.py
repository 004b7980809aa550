"""VGG: plain stacks of convolutions."""

from __future__ import annotations

from math import prod

from remat_algos.errors import GraphError
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

DEPTHS = (11, 13, 16, 19)
# Maximum ratio of the channels of a stage to those of the first stage.
WIDEST = 8
HIDDEN = 64


@family(
    {
        **{f"vgg{depth}": {"depth": depth} for depth in DEPTHS},
        **{f"vgg{depth}_bn": {"depth": depth, "norm": True} for depth in DEPTHS},
    },
    grows={"depth": (11, *range(13, 1000, 3)), "image": range(32, 4097, 32)},
)
def vgg(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    depth: int = 19,
    stages: tuple[int, ...] | None = None,
    width: int = 64,
    classes: int = 1000,
    norm: bool = False,
) -> None:
    """VGG: plain stacks of 3 x 3 convolutions (simonyan2015, table 1).

    Depths 11, 13, 16 and 19 are configurations A, B, D and E of the table. The first linear layer reads the whole
    remaining image: 7 x 7 pixels for an input of 224 x 224.

    Parameters
    ----------
    depth : int
        Number of convolutions and linear layers: 11, or 3 k + 7 for k >= 2 (13, 16, 19, ...), with stages of
        2, 2, k, k and k convolutions.
    stages : tuple of int, optional
        Number of convolutions of each stage; overrides the depth. Max pooling follows each stage.
    width : int
        Channels of the first stage; each later stage has twice as many, up to 8 times the width. The hidden linear
        layers have 64 times as many features.
    norm : bool
        A batch norm follows each convolution.
    """
    x = net.input("image", (batch, 3, image, image))
    for stage, n_convolutions in enumerate(stages or _stages(net.model, depth)):
        with net.block(f"stage{stage + 1}"):
            for k in range(1, n_convolutions + 1):
                x = net.convolution(x, width * min(2**stage, WIDEST), 3, padding=1, name=f"conv{k}")
                x = net.batch_norm(x, name=f"norm{k}") if norm else x
                x = net.relu(x, name=f"relu{k}")
            x = net.max_pool(x, 2, 2)
    x = net.reshape(x, batch, prod(x.shape[1:]), name="flatten")
    for name in ("fc1", "fc2"):
        with net.block(name):
            x = net.dropout(net.relu(net.linear(x, HIDDEN * width)))
    x = net.linear(x, classes, name="fc3")
    net.softmax_cross_entropy(x, net.input("labels", (batch,), "int64"))


def _stages(model: str, depth: int) -> tuple[int, ...]:
    if depth == 11:
        return (1, 1, 2, 2, 2)
    last, rest = divmod(depth - 7, 3)
    if rest or last < 2:
        raise GraphError(
            "{model!w}: depth is {depth}; give 11, 13, 16, 19, ... in steps of 3, or stages", model=model, depth=depth
        )
    return (2, 2, last, last, last)
