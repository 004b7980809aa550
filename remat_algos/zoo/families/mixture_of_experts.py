"""Mixtures of experts."""

from __future__ import annotations

from remat_algos.zoo.families.llama import gated, grouped_attention, language_loss
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.network import Tensor
from remat_algos.zoo.registry import family


@family({"mixtral_8x7b": {}})
def mixture_of_experts(
    net: Layers,
    *,
    batch: int = 1,
    sequence: int = 2048,
    depth: int = 32,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int | None = 8,
    inner: int = 14_336,
    experts: int = 8,
    chosen: int = 2,
    capacity: int = 100,
    words: int = 32_000,
    fused: bool = True,
) -> None:
    """Mixtral (jiang2024): a decoder-only Transformer with SwiGLU experts; each token uses a few of them.

    Everything else is as in LLaMA. The node that chooses experts must not be recomputed, because it could choose
    differently; the rest of the forward part may be.

    Parameters
    ----------
    inner : int
        Size of the hidden layer of an expert.
    experts : int
        Number of experts per layer.
    chosen : int
        Number of experts per token.
    capacity : int
        Maximum number of tokens per expert, in percent of an equal share; Mixtral's loss makes shares about equal.
    """
    mask = None if fused else net.input("mask", (sequence, sequence), "bool")
    x = net.embedding(net.input("tokens", (batch, sequence), "int64"), words, width, name="embed_tokens")
    balances = []

    def expert(rows: Tensor, name: str) -> Tensor:
        return gated(net, rows, inner, name)

    for layer in range(depth):
        with net.block(f"layers.{layer}"):
            x = grouped_attention(net, x, heads, kv_heads or heads, mask)
            normal = net.rms_norm(x, "post_attention_norm")
            y, balance = net.routed(normal, expert, experts, chosen, capacity)
            x = net.add(x, y, name="moe.add")
        balances.append(balance)
    net.add(language_loss(net, x, words), *balances, name="total")
