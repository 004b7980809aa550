"""The Transformer of vaswani2017."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import divisors_of, family, multiples_of


@family(
    {"transformer_base": {}, "transformer_big": {"width": 1024, "heads": 16}},
    grows={"width": multiples_of("heads"), "heads": divisors_of("width")},
)
def transformer(
    net: Layers,
    *,
    batch: int = 32,
    sequence: int = 100,
    depth: int = 6,
    width: int = 512,
    heads: int = 8,
    inner: int | None = None,
    words: int = 37_000,
    fused: bool = False,
) -> None:
    """The Transformer (vaswani2017): encoder and decoder, with norms after the residual sums.

    Encoder, decoder and output layer share one embedding matrix. Attention has no biases. Dropout follows the
    embeddings and each sublayer. The paper uses batches of 25,000 words on 8 GPUs; the default batch is about an eighth
    of that, for one GPU. With a vocabulary of 37,000 words, base has 63,045,632 parameters and big 214,171,648; table 3
    of the paper states 65 and 213 million.

    Parameters
    ----------
    sequence : int
        Number of words of a source sentence, and of a target sentence.
    depth : int
        Number of layers of the encoder, and of the decoder.
    inner : int, optional
        Length of the hidden layer of the feed-forward sublayer; by default four times the width.
    words : int
        Size of the vocabulary of both languages together.
    """
    inner = inner or 4 * width
    shared = net.parameter("embedding.weight", (words, width))
    positions = net.input("positions", (sequence, width))
    padding = net.input("source_mask", (batch, 1, 1, sequence), "bool")
    causal = net.input("target_mask", (sequence, sequence), "bool")
    x = _embedded(net, "encoder", (batch, sequence), shared, positions)
    for layer in range(depth):
        with net.block(f"encoder.layer{layer}"):
            x = _attended(net, "self", x, x, heads, padding, fused)
            x = _transformed(net, x, inner)
    y = _embedded(net, "decoder", (batch, sequence), shared, positions)
    for layer in range(depth):
        with net.block(f"decoder.layer{layer}"):
            y = _attended(net, "self", y, y, heads, causal, fused)
            y = _attended(net, "source", y, x, heads, padding, fused)
            y = _transformed(net, y, inner)
    with net.block("head"):
        y = net.linear(y, words, parameters=[shared], name="scores")
    net.softmax_cross_entropy(y, net.input("labels", (batch, sequence), "int64"))


def _embedded(net: Layers, side: str, shape: tuple[int, int], shared: Tensor, positions: Tensor) -> Tensor:
    with net.block(f"{side}.embedding"):
        x = net.embedding(net.input("tokens", shape, "int64"), *shared.shape, weight=shared, name="words")
        return net.dropout(net.pointwise("Add", [net.scale(x, factor=x.shape[-1] ** 0.5), positions]))


def _attended(net: Layers, name: str, x: Tensor, other: Tensor, heads: int, mask: Tensor, fused: bool) -> Tensor:
    with net.scope(name):
        q, k, v = (
            net.linear(rows, x.shape[-1], bias=False, name=f"{side}_proj")
            for side, rows in (("q", x), ("k", other), ("v", other))
        )
        y = net.attention(q, k, v, heads, mask=mask, fused=fused, dropout=False)
        return _sublayer(net, x, net.linear(y, x.shape[-1], bias=False, name="out_proj"))


def _transformed(net: Layers, x: Tensor, inner: int) -> Tensor:
    with net.scope("mlp"):
        y = net.relu(net.linear(x, inner, name="fc1"))
        return _sublayer(net, x, net.linear(y, x.shape[-1], name="fc2"))


def _sublayer(net: Layers, x: Tensor, y: Tensor) -> Tensor:
    return net.layer_norm(net.add(x, net.dropout(y)))
