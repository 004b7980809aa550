from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family, multiples_of

# The inner length is rounded up to a multiple of this.
INNER_MULTIPLE = 256


@family(
    {
        "llama_7b": {},
        "llama_13b": {"depth": 40, "width": 5120, "heads": 40},
        "llama3_8b": {"kv_heads": 8, "inner": 14_336, "words": 128_256},
    },
    grows={"width": multiples_of("heads", 2)},
)
def llama(
    net: Layers,
    *,
    batch: int = 1,
    sequence: int = 2048,
    depth: int = 32,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int | None = None,
    inner: int | None = None,
    words: int = 32_000,
    fused: bool = True,
) -> None:
    """LLaMA (touvron2023): a Transformer with RMS norms, rotary positions and SwiGLU, without bias and dropout.

    In Llama 3 (dubey2024) several heads share keys and values.

    Parameters
    ----------
    inner : int, optional
        Size of the hidden layer of SwiGLU; by default 8/3 of the width, rounded up to a multiple of 256.
    words : int
        Size of the vocabulary; the output matrix is not shared with the embedding.
    """
    inner = inner or -(-8 * width // 3 // INNER_MULTIPLE) * INNER_MULTIPLE
    mask = None if fused else net.input("mask", (sequence, sequence), "bool")
    x = net.embedding(net.input("tokens", (batch, sequence), "int64"), words, width, name="embed_tokens")
    for layer in range(depth):
        with net.block(f"layers.{layer}"):
            x = grouped_attention(net, x, heads, kv_heads or heads, mask)
            x = net.add(x, gated(net, net.rms_norm(x, "post_attention_norm"), inner), name="mlp.add")
    language_loss(net, x, words)


def grouped_attention(net: Layers, x: Tensor, heads: int, kv_heads: int, mask: Tensor | None) -> Tensor:
    """Add self-attention with rotary positions and a residual connection, fused into one node if there is no mask."""
    width = x.shape[-1]
    if width % (2 * heads):
        raise net.fault(
            "width {width} in {heads} heads does not split into pairs for rotary positions; give a multiple of "
            "{divisor}",
            width=width,
            heads=heads,
            divisor=2 * heads,
        )
    normal = net.rms_norm(x, "input_norm")
    with net.scope("self_attn"):
        q = net.linear(normal, width, bias=False, name="q_proj")
        k, v = (net.linear(normal, width // heads * kv_heads, bias=False, name=f"{side}_proj") for side in "kv")
        q, k = (net.pointwise("Rotary", [rows], name=f"{side}_rotary") for side, rows in (("q", q), ("k", k)))
        y = net.attention(q, k, v, heads, kv_heads=kv_heads, mask=mask, fused=mask is None, dropout=False)
        return net.add(x, net.linear(y, width, bias=False, name="o_proj"))


def gated(net: Layers, x: Tensor, inner: int, name: str = "mlp") -> Tensor:
    """Add SwiGLU (shazeer2020): a linear layer times the SiLU of another, then a linear layer to the width of x."""
    with net.scope(name):
        gate = net.silu(net.linear(x, inner, bias=False, name="gate_proj"))
        y = net.multiply(gate, net.linear(x, inner, bias=False, name="up_proj"))
        return net.linear(y, x.shape[-1], bias=False, name="down_proj")


def language_loss(net: Layers, x: Tensor, words: int) -> Tensor:
    with net.block("head"):
        scores = net.linear(net.rms_norm(x), words, bias=False, name="lm_head")
    return net.softmax_cross_entropy(scores, net.input("labels", x.shape[:-1], "int64"))
