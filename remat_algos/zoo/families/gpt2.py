from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import divisors_of, family, multiples_of


@family(
    {
        "gpt2_small": {},
        "gpt2_medium": {"depth": 24, "width": 1024, "heads": 16},
        "gpt2_large": {"depth": 36, "width": 1280, "heads": 20},
        "gpt2_xl": {"depth": 48, "width": 1600, "heads": 25},
    },
    grows={"width": multiples_of("heads"), "heads": divisors_of("width")},
)
def gpt2(
    net: Layers,
    *,
    batch: int = 8,
    sequence: int = 1024,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    words: int = 50_257,
    positions: int = 1024,
    fused: bool = False,
) -> None:
    """GPT-2 (radford2019): a decoder-only Transformer with norms before attention and before the feed-forward layers.

    The embedding matrix is also the output matrix, and positions are learned. Dropout follows the embeddings, the
    attention weights and each sublayer.

    Parameters
    ----------
    positions : int
        Number of positions with an embedding.
    """
    if sequence > positions:
        raise net.fault(
            "a sequence of {sequence} words is longer than the {positions} positions; give positions={sequence} too",
            sequence=sequence,
            positions=positions,
        )
    embedding = net.parameter("wte.weight", (words, width))
    mask = None if fused else net.input("mask", (sequence, sequence), "bool")
    with net.block("embedding"):
        x = net.embedding(net.input("tokens", (batch, sequence), "int64"), words, width, weight=embedding, name="wte")
        at = net.embedding(net.input("positions", (1, sequence), "int64"), positions, width, name="wpe")
        x = net.dropout(net.pointwise("Add", [x, at]))
    for layer in range(depth):
        with net.block(f"h.{layer}"):
            x = net.add(x, _attention(net, net.layer_norm(x, "ln_1"), heads, mask), name="attn.add")
            x = net.add(x, _mlp(net, net.layer_norm(x, "ln_2")), name="mlp.add")
    with net.block("head"):
        x = net.linear(net.layer_norm(x, "ln_f"), words, parameters=[embedding], name="lm_head")
    net.softmax_cross_entropy(x, net.input("labels", (batch, sequence), "int64"))


def _attention(net: Layers, x: Tensor, heads: int, mask: Tensor | None) -> Tensor:
    width = x.shape[-1]
    with net.scope("attn"):
        q, k, v = net.split(net.linear(x, 3 * width, name="c_attn"), 3)
        y = net.attention(q, k, v, heads, mask=mask, fused=mask is None)
        return net.dropout(net.linear(y, width, name="c_proj"))


def _mlp(net: Layers, x: Tensor) -> Tensor:
    width = x.shape[-1]
    with net.scope("mlp"):
        y = net.gelu(net.linear(x, 4 * width, name="c_fc"))
        return net.dropout(net.linear(y, width, name="c_proj"))
