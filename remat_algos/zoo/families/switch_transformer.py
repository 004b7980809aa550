"""Switch Transformers."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

# Number of buckets of distances between words.
BUCKETS = 32
SPARSE_EVERY = 2


@family({"switch_base_8": {}})
def switch_transformer(
    net: Layers,
    *,
    batch: int = 8,
    sequence: int = 512,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    inner: int = 3072,
    experts: int = 8,
    capacity: int = 125,
    words: int = 32_128,
) -> None:
    """Switch Transformer (fedus2022): every second layer of encoder and decoder has experts; each token uses one.

    The rest is T5 (raffel2020): RMS norms before the sublayers, linear layers without bias, and a learned
    relative-position bias of attention scores per head and bucket of distances. Encoder and decoder have one table
    each. Encoder, decoder and output layer share one embedding matrix. So Switch-Base with 8 experts has 619,339,008
    parameters; its checkpoint has 620 million.

    Parameters
    ----------
    sequence : int
        Number of tokens of a source sequence, and of a target sequence.
    depth : int
        Number of layers of the encoder, and of the decoder.
    inner : int
        Size of the hidden layers, those of experts included.
    experts : int
        Number of experts in every second layer.
    capacity : int
        Maximum number of tokens per expert, in percent of an equal share.
    """
    shared = net.parameter("shared.weight", (words, width))
    balances: list[Tensor] = []
    sides: list[Tensor] = []
    for side in ("encoder", "decoder"):
        with net.block(f"{side}.embedding"):
            tokens = net.input("tokens", (batch, sequence), "int64")
            x = net.dropout(net.embedding(tokens, words, width, weight=shared, name="words"))
            bias = _bias(net, sequence, heads, causal=side == "decoder")
        for layer in range(depth):
            with net.block(f"{side}.block{layer}"):
                x = _attended(net, "self", x, None, heads, bias)
                if sides:
                    x = _attended(net, "source", x, sides[0], heads, None)
                sparse = experts if layer % SPARSE_EVERY else 0
                x = _transformed(net, x, inner, sparse, capacity, balances)
        with net.block(f"{side}.final"):
            sides.append(net.dropout(net.rms_norm(x)))
    with net.block("head"):
        scores = net.linear(net.scale(sides[1], factor=width**-0.5), words, parameters=[shared], name="lm_head")
    loss = net.softmax_cross_entropy(scores, net.input("labels", (batch, sequence), "int64"))
    if balances:
        net.add(loss, *balances, name="total")


def _bias(net: Layers, sequence: int, heads: int, causal: bool) -> Tensor:
    """Add the score bias, shared by all layers: one number per head and bucket of distances, plus the mask."""
    with net.scope("bias"):
        buckets = net.input("buckets", (sequence, sequence), "int64")
        bias = net.copy(net.embedding(buckets, BUCKETS, heads), heads, sequence, sequence)
        return net.mask(bias, net.input("mask", (sequence, sequence), "bool"), name="masked") if causal else bias


def _attended(net: Layers, name: str, x: Tensor, other: Tensor | None, heads: int, bias: Tensor | None) -> Tensor:
    with net.scope(name):
        normal = net.rms_norm(x)
        width = x.shape[-1]
        q, k, v = (
            net.linear(rows, width, bias=False, name=side)
            for side, rows in (("q_proj", normal), ("k_proj", other or normal), ("v_proj", other or normal))
        )
        y = net.attention(q, k, v, heads, bias=bias)
        return net.add(x, net.dropout(net.linear(y, width, bias=False, name="o_proj")))


def _transformed(net: Layers, x: Tensor, inner: int, experts: int, capacity: int, balances: list[Tensor]) -> Tensor:
    def products(rows: Tensor, name: str) -> Tensor:
        with net.scope(name):
            y = net.dropout(net.relu(net.linear(rows, inner, bias=False, name="wi")))
            return net.linear(y, rows.shape[-1], bias=False, name="wo")

    with net.scope("products"):
        y = net.rms_norm(x)
        if experts:
            y, balance = net.routed(y, products, experts, 1, capacity)
            balances.append(balance)
        else:
            y = products(y, "dense")
        return net.add(x, net.dropout(y))
