"""Feed-forward networks of kumar2019."""

from __future__ import annotations

from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family


@family({"feed_forward": {}})
def feed_forward(net: Layers, *, batch: int = 128, depth: int = 100, width: int = 1024, features: int = 1024) -> None:
    """Linear layers with ReLUs, and the mean squared error.

    The paper (kumar2019, section 4) states the layers and the loss, but no widths.

    Parameters
    ----------
    depth : int
        Number of hidden layers, each with a ReLU.
    width : int
        Number of features of a hidden layer.
    features : int
        Number of features of the input, and of the output.
    """
    x = net.input("input", (batch, features))
    for layer in range(depth):
        with net.block(f"layer{layer}"):
            x = net.relu(net.linear(x, width))
    with net.block("head"):
        x = net.linear(x, features)
    net.mean_square(x, net.input("target", (batch, features)))
