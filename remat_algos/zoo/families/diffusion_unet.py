"""U-Nets of diffusion models."""

from __future__ import annotations

from dataclasses import dataclass

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

STABLE_DIFFUSION = {
    "batch": 4,
    "image": 64,
    "channels": 4,
    "width": 320,
    "multipliers": (1, 2, 4, 4),
    "attended": (1, 2, 4),
    "heads": 8,
    "sequence": 77,
    "dropout_layers": False,
}


@family(
    {
        "ddpm_cifar10": {},
        "ddpm_lsun": {"batch": 8, "image": 256, "multipliers": (1, 1, 2, 2, 4, 4), "attended": (16,)},
        "stable_diffusion_unet": STABLE_DIFFUSION,
    },
    grows={"image": tuple(range(32, 2049, 32))},
)
def diffusion_unet(
    net: Layers,
    *,
    batch: int = 128,
    image: int = 32,
    channels: int = 3,
    depth: int = 2,
    width: int = 128,
    multipliers: tuple[int, ...] | None = (1, 2, 2, 2),
    attended: tuple[int, ...] | None = (2,),
    heads: int = 1,
    sequence: int = 0,
    context: int = 768,
    fused: bool = False,
    dropout_layers: bool = True,
) -> None:
    """Denoising U-Net (ho2020, appendix B): residual blocks and attention, conditioned on the time step.

    If the network is conditioned on text, attention becomes a Transformer block that also attends to the tokens of the
    text (rombach2022, section 3.3).

    Parameters
    ----------
    channels : int
        Channels of the image (or its latent) and of the predicted noise.
    depth : int
        Number of residual blocks per level of the encoder; each level of the decoder has one more.
    width : int
        Channels of the highest level; a multiple of 32, because group norms have 32 groups.
    multipliers : tuple of int, optional
        Multiples of the width, one per level; the image is halved between levels. None: a single level.
    attended : tuple of int, optional
        Downsampling factors of the levels with attention. None: attention only in the middle.
    sequence : int
        Number of tokens of the text; 0 for no text.
    context : int
        Length of the vector of a token of the text.
    dropout_layers : bool
        Dropout in the residual blocks.
    """
    levels = [width * m for m in multipliers or (1,)]
    if image % (1 << len(levels) - 1):
        raise net.fault(
            "an image of {image} cannot be halved {halvings} times; give a multiple of {value}, or fewer multipliers",
            image=image,
            halvings=len(levels) - 1,
            value=1 << len(levels) - 1,
        )
    factors = [1 << level for level in range(len(levels))]
    if unknown := set(attended or ()) - set(factors):
        raise net.fault(
            "attended contains {unknown}; choose from the downsampling factors {factors!l}",
            unknown=min(unknown),
            factors=factors,
        )
    x = net.input("noisy", (batch, channels, image, image))
    noise = net.input("noise", x.shape)
    text = net.input("text", (batch, sequence, context)) if sequence else None
    parts = _Parts(net, _time(net, batch, width), text, heads, fused, dropout_layers)
    sides = {image // factor for factor in attended or ()}

    kept = [x := net.convolution(x, width, 3, padding=1, name="conv_in")]
    for level, wide in enumerate(levels):
        if level:
            kept.append(x := net.convolution(x, x.shape[1], 3, stride=2, padding=1, name=f"down.{level}.halved"))
        for k in range(depth):
            kept.append(x := parts.block(x, wide, x.shape[2] in sides, f"down.{level}.{k}"))
    x = parts.block(x, levels[-1], True, "middle.0")
    x = parts.block(x, levels[-1], False, "middle.1")
    for level, wide in reversed(list(enumerate(levels))):
        for k in range(depth + 1):
            x = net.concat(x, kept.pop(), name=f"up.{level}.{k}.concat")
            x = parts.block(x, wide, x.shape[2] in sides, f"up.{level}.{k}")
        if level:
            with net.block(f"up.{level}.doubled"):
                x = net.upsample(x, 2 * x.shape[2], 2 * x.shape[3], linear=False)
                x = net.convolution(x, wide, 3, padding=1)
    with net.block("out"):
        x = net.convolution(net.silu(net.group_norm(x)), channels, 3, padding=1)
    net.mean_square(x, noise)


def _time(net: Layers, batch: int, width: int) -> Tensor:
    with net.block("time"):
        x = net.linear(net.input("waves", (batch, width)), 4 * width, name="linear1")
        return net.linear(net.silu(x), 4 * width, name="linear2")


@dataclass(frozen=True, slots=True)
class _Parts:
    net: Layers
    time: Tensor
    text: Tensor | None
    heads: int
    fused: bool
    dropout_layers: bool

    def block(self, x: Tensor, channels: int, attends: bool, name: str) -> Tensor:
        with self.net.block(name):
            x = self._residual(x, channels)
        if attends:
            with self.net.block(f"{name}.attention"):
                x = self._self_attention(x) if self.text is None else self._transformer(x, self.text)
        return x

    def _residual(self, x: Tensor, channels: int) -> Tensor:
        net = self.net
        y = net.silu(net.group_norm(x, name="norm1"), name="silu1")
        y = net.convolution(y, channels, 3, padding=1, name="conv1")
        time = net.linear(net.silu(self.time, name="time_silu"), channels, name="time")
        y = net.pointwise("Add", [y, net.view(time, *time.shape, 1, 1)], name="timed")
        y = net.silu(net.group_norm(y, name="norm2"), name="silu2")
        y = net.dropout(y) if self.dropout_layers else y
        y = net.convolution(y, channels, 3, padding=1, name="conv2")
        return net.add(x if x.shape == y.shape else net.convolution(x, channels, 1, name="shortcut"), y)

    def _self_attention(self, x: Tensor) -> Tensor:
        net = self.net
        batch, channels, rows, columns = x.shape
        y = net.group_norm(x)
        q, k, v = (
            net.view(net.convolution(y, channels, 1, name=side), batch, rows * columns, channels) for side in "qkv"
        )
        y = net.attention(q, k, v, self.heads, fused=self.fused, dropout=False)
        return net.add(x, net.convolution(net.view(y, *x.shape), channels, 1, name="out"))

    def _transformer(self, x: Tensor, text: Tensor) -> Tensor:
        net = self.net
        batch, channels, rows, columns = x.shape
        y = net.convolution(net.group_norm(x), channels, 1, name="proj_in")
        y = net.copy(y, batch, rows * columns, channels, name="tokens")
        normal = net.layer_norm(y, name="norm1")
        y = net.add(y, self._attention(normal, normal, "attn1"), name="add1")
        y = net.add(y, self._attention(net.layer_norm(y, name="norm2"), text, "attn2"), name="add2")
        y = net.add(y, self._gated(net.layer_norm(y, name="norm3")), name="add3")
        y = net.copy(y, *x.shape, name="pixels")
        return net.add(x, net.convolution(y, channels, 1, name="proj_out"))

    def _attention(self, x: Tensor, source: Tensor, name: str) -> Tensor:
        net, width = self.net, x.shape[-1]
        with net.scope(name):
            q = net.linear(x, width, bias=False, name="to_q")
            k, v = (net.linear(source, width, bias=False, name=f"to_{side}") for side in "kv")
            y = net.attention(q, k, v, self.heads, fused=self.fused, dropout=False)
            return net.linear(y, width, name="to_out")

    def _gated(self, x: Tensor) -> Tensor:
        net, width = self.net, x.shape[-1]
        with net.scope("ff"):
            hidden, gate = net.split(net.linear(x, 8 * width, name="proj"), 2)
            return net.linear(net.multiply(hidden, net.gelu(gate), name="gated"), width, name="out")
