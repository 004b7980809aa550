"""Mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from remat_algos.errors import GraphError
from remat_algos.models.builder import ExtraValue, Tensor
from remat_algos.models.families.llama import gated, grouped_attention, language_loss
from remat_algos.models.layers import Layers
from remat_algos.models.registry import family

Expert = Callable[[Tensor, str], Tensor]


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
    """Mixtral (jiang2024): a decoder-only Transformer with SwiGLU experts, of which each word takes a few.

    Everything else is as in LLaMA. A router scores the experts; the node that chooses runs only once, since another run
    might choose differently; the rest of the forward part may be recomputed. `capacity` is how many words an expert
    has room for: 100 % is its equal share, which Mixtral's losses drive it to and which a
    graph of fixed shapes stands for.

    Parameters
    ----------
    net : Layers
        What it is built into.
    batch : int
        Texts.
    sequence : int
        Words of a text.
    depth : int
        Layers.
    width : int
        Length of an embedding.
    heads : int
        Heads of each attention.
    kv_heads : int, optional
        Heads of keys and values.
    inner : int
        Length of the gated product of an expert.
    experts : int
        Experts of each layer.
    chosen : int
        Experts per word.
    capacity : int
        Words that an expert has room for, in per cent of an equal share.
    words : int
        Words that there are.
    fused : bool
        Whether attention is one operation, which keeps no scores.

    Raises
    ------
    GraphError
        If more experts are chosen than there are.

    Examples
    --------
    >>> from remat_algos.models.registry import build
    >>> mixtral = build("mixtral_8x7b", dtype="float16")
    >>> mixtral.n_parameters, mixtral.graph.node_names()[int(mixtral.graph.once.argmax())]
    (46702792704, 'layers.0.moe.route')
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
            y, balance = routed(net, normal, expert, experts, chosen, capacity)
            x = net.add(x, y, name="moe.add")
        balances.append(balance)
    net.add(language_loss(net, x, words), *balances, name="total")


def routed(net: Layers, x: Tensor, expert: Expert, experts: int, chosen: int, capacity: int) -> tuple[Tensor, Tensor]:
    """Rows of x transformed by their experts, and the loss that keeps the experts busy alike.

    Raises
    ------
    GraphError
        If more experts are chosen than there are.
    """
    if chosen > experts:
        raise GraphError(f"{net.model}: each word takes {chosen} of {experts} experts; give chosen={experts} or less")
    rows = net.view(x, prod(x.shape[:-1]), x.shape[-1])
    with net.scope("moe"):
        probabilities = net.softmax(net.linear(rows, experts, bias=False, name="router"))
        places = _places(net, probabilities, chosen)
        shares = _shares(net, probabilities, places)
        sent = _dispatched(net, rows, places, experts, capacity)
        made = [expert(part, f"expert{k}") for k, part in enumerate(sent)]
        taken = net.run("Slice", [*made, places], (*places.shape, x.shape[-1]), name=net.named("taken"), saves=[places])
        y = net.matmul(net.view(shares, rows.shape[0], 1, chosen), taken, name="combined")
        return net.view(y, *x.shape), _balance(net, probabilities, places)


def _places(net: Layers, probabilities: Tensor, chosen: int) -> Tensor:
    """The place and expert of each row: `once`, since a second run might choose others."""
    return net.run(
        "Route",
        [probabilities],
        (probabilities.shape[0], chosen),
        name=net.named("route"),
        flops=chosen * prod(probabilities.shape),
        dtype="int32",
        gradient=False,
        once=True,
    )


def _shares(net: Layers, probabilities: Tensor, places: Tensor) -> Tensor:
    """The probabilities of the experts chosen; of several, their shares of the sum."""
    shares = net.run("Slice", [probabilities, places], places.shape, name=net.named("shares"), saves=[places])
    if places.shape[1] == 1:
        return shares
    total = net.run("Sum", [shares], (places.shape[0], 1), name=net.named("total"), flops=prod(places.shape))
    return net.pointwise("Divide", [shares, total], name="weights")


def _dispatched(net: Layers, rows: Tensor, places: Tensor, experts: int, capacity: int) -> list[Tensor]:
    """The rows that go to each expert, copied by one node."""
    room = min(rows.shape[0], -(-prod(places.shape) * capacity // (100 * experts)))
    shape = (room, rows.shape[1])
    extra = [ExtraValue(str(k), shape, rows.dtype, gradient=True) for k in range(1, experts)]
    return net.run_all(
        "Slice", [rows, places], shape, name=net.named("dispatch"), extra=extra, saves=[places], dtype=rows.dtype
    )


def _balance(net: Layers, probabilities: Tensor, places: Tensor) -> Tensor:
    """Share of the rows times mean probability, summed over the experts and scaled (fedus2022, equation 4)."""
    experts = probabilities.shape[1:]
    with net.scope("balance"):
        load = net.run("Sum", [places], experts, name=net.named("load"), flops=prod(places.shape), gradient=False)
        mean = net.run("Mean", [probabilities], experts, name=net.named("mean"), flops=prod(probabilities.shape))
        product = net.multiply(mean, load)
        return net.scale(net.run("Sum", [product], (), name=net.named("sum"), flops=experts[0]))
