"""Densely connected convolutional networks."""

from __future__ import annotations

from collections.abc import Sequence

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.families.resnet import scores
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

BOTTLENECK = 4
BY_DEPTH = {
    121: (6, 12, 24, 16),
    161: (6, 12, 36, 24),
    169: (6, 12, 32, 32),
    201: (6, 12, 48, 32),
    264: (6, 12, 64, 48),
}


@family(
    {f"densenet{depth}": {"depth": depth, "width": 48 if depth == 161 else 32} for depth in BY_DEPTH},
    grows={"depth": (121, 169, 201, 264), "image": range(32, 4097, 32)},
)
def densenet(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    depth: int = 121,
    stages: tuple[int, ...] | None = None,
    width: int = 32,
    classes: int = 1000,
    stepwise: bool = False,
) -> None:
    """DenseNets: a layer reads the concatenation of all earlier layers of its block (huang2017, table 1).

    Parameters
    ----------
    depth : int
        Number of convolutions in sequence plus the linear layer: 121, 161, 169, 201 or 264.
    stages : tuple of int, optional
        Number of layers, of two convolutions each, per block; overrides the depth.
    width : int
        Channels that a layer adds (the growth rate); the first convolution has twice as many.
    stepwise : bool
        Append the channels of each layer to the previous concatenation, as in the graph of kusumoto2019.
    """
    if not stages and depth not in BY_DEPTH:
        raise net.fault("depth is {depth}; give {known!l}, or stages", depth=depth, known=list(BY_DEPTH))
    blocks = stages or BY_DEPTH[depth]
    x = net.input("image", (batch, 3, image, image))
    with net.block("stem"):
        x = net.convolution(x, 2 * width, 7, stride=2, padding=3, bias=False)
        x = net.max_pool(net.relu(net.batch_norm(x)), 3, 2, padding=1)
    features = [x]
    for block, n_layers in enumerate(blocks, 1):
        if block > 1:
            with net.block(f"transition{block - 1}"):
                features = [_half(net, _joined(net, features))]
        for layer in range(1, n_layers + 1):
            with net.block(f"block{block}.layer{layer}"):
                x = _joined(net, features)
                features = [x] if stepwise else features
                features.append(_layer(net, x, width))
    x = net.relu(net.batch_norm(_joined(net, features)))
    x = scores(net, x, classes)
    net.softmax_cross_entropy(x, net.input("labels", (batch,), "int64"))


def _layer(net: Layers, x: Tensor, width: int) -> Tensor:
    x = net.relu(net.batch_norm(x, name="norm1"), name="relu1")
    x = net.convolution(x, BOTTLENECK * width, 1, bias=False, name="conv1")
    x = net.relu(net.batch_norm(x, name="norm2"), name="relu2")
    return net.convolution(x, width, 3, padding=1, bias=False, name="conv2")


def _half(net: Layers, x: Tensor) -> Tensor:
    x = net.convolution(net.relu(net.batch_norm(x)), x.shape[1] // 2, 1, bias=False)
    return net.average_pool(x, 2, 2)


def _joined(net: Layers, features: Sequence[Tensor]) -> Tensor:
    return net.concat(*features) if len(features) > 1 else features[0]
