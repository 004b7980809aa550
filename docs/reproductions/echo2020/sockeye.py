"""The Transformer as trained by Sockeye: norms first, dropout also on attention weights and after the ReLU."""

from __future__ import annotations

from typing import Any

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.network import Network
from remat_algos.zoo.settings import Settings


def sockeye_transformer(
    *,
    batch: int,
    sequence: int = 100,
    depth: int = 6,
    width: int = 512,
    heads: int = 8,
    words: int = 32_000,
    **settings: Any,
) -> Network:
    """The recipe of hieber2017: a norm before each sublayer, dropout and the sum after it.

    One matrix embeds source and target words and gives the scores. The zoo's `transformer` follows vaswani2017, whose
    paper mentions dropout after embeddings and sublayers only.

    Parameters
    ----------
    batch, sequence, depth, width, heads, words : int
        As in the zoo's `transformer`.
    **settings
        As for `Settings`.

    Examples
    --------
    >>> network = sockeye_transformer(batch=1, sequence=4, depth=1)
    >>> sum(layer.op == "DropoutMask" for layer in network.layers)
    12
    """
    net = Layers("transformer", Settings(**settings))
    shared = net.parameter("embedding.weight", (words, width))
    positions = net.input("positions", (sequence, width))
    padding = net.input("source_mask", (batch, 1, 1, sequence), "bool")
    causal = net.input("target_mask", (sequence, sequence), "bool")
    x = _embedded(net, "encoder", (batch, sequence), shared, positions)
    for layer in range(depth):
        with net.scope(f"encoder.layer{layer}"):
            x = _attended(net, "self", x, None, heads, padding)
            x = _transformed(net, x)
    x = net.layer_norm(x, name="encoder.norm")
    y = _embedded(net, "decoder", (batch, sequence), shared, positions)
    for layer in range(depth):
        with net.scope(f"decoder.layer{layer}"):
            y = _attended(net, "self", y, None, heads, causal)
            y = _attended(net, "source", y, x, heads, padding)
            y = _transformed(net, y)
    y = net.layer_norm(y, name="decoder.norm")
    scores = net.linear(y, words, parameters=[shared], name="head.scores")
    net.softmax_cross_entropy(scores, net.input("labels", (batch, sequence), "int64"))
    return net.network()


def _embedded(net: Layers, side: str, shape: tuple[int, int], shared: Tensor, positions: Tensor) -> Tensor:
    with net.scope(f"{side}.embedding"):
        x = net.embedding(net.input("tokens", shape, "int64"), *shared.shape, weight=shared, name="words")
        return net.dropout(net.pointwise("Add", [net.scale(x), positions]))


def _attended(net: Layers, name: str, x: Tensor, other: Tensor | None, heads: int, mask: Tensor) -> Tensor:
    """Attention of x, after a norm, to the rows of `other` or its own, added to x."""
    with net.scope(name):
        rows = net.layer_norm(x)
        sources = {"q": rows, "k": rows if other is None else other, "v": rows if other is None else other}
        q, k, v = (net.linear(y, x.shape[-1], bias=False, name=f"{side}_proj") for side, y in sources.items())
        y = net.attention(q, k, v, heads, mask=mask)
        return net.add(x, net.dropout(net.linear(y, x.shape[-1], bias=False, name="out_proj")))


def _transformed(net: Layers, x: Tensor) -> Tensor:
    """Two products with ReLU and dropout between, after a norm, added to x."""
    with net.scope("mlp"):
        y = net.dropout(net.relu(net.linear(net.layer_norm(x), 4 * x.shape[-1], name="fc1")), name="inner_dropout")
        return net.add(x, net.dropout(net.linear(y, x.shape[-1], name="fc2")))
