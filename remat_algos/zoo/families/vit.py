"""Vision Transformers."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import divisors_of, family, multiples_of

LARGE = {"depth": 24, "width": 1024, "heads": 16}
HUGE = {"depth": 32, "width": 1280, "heads": 16}


@family(
    {
        "vit_b_16": {},
        "vit_b_32": {"patch": 32},
        "vit_l_16": LARGE,
        "vit_l_32": {**LARGE, "patch": 32},
        "vit_h_14": {**HUGE, "patch": 14},
    },
    grows={"image": multiples_of("patch"), "width": multiples_of("heads"), "heads": divisors_of("width")},
)
def vit(
    net: Layers,
    *,
    batch: int = 32,
    image: int = 224,
    patch: int = 16,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    classes: int = 1000,
    fused: bool = False,
    dropout_layers: bool = False,
) -> None:
    """A Transformer over the patches of an image and a class token (dosovitskiy2021, section 3.1).

    Parameters
    ----------
    patch : int
        Side of a patch; it must divide the image.
    depth, width, heads : int
        Number of blocks, length of a token, number of attention heads; hidden layers have length 4 x width.
    dropout_layers : bool
        Dropout after positions, attention and linear layers; torchvision uses a rate of 0.
    """
    if image % patch:
        raise net.fault(
            "an image of {image} cannot be divided into patches of {patch}; give a multiple", image=image, patch=patch
        )
    x = net.convolution(net.input("image", (batch, 3, image, image)), width, patch, stride=patch, name="conv_proj")
    token = net.view(net.parameter("class_token", (1, 1, width)), batch, 1, width)
    x = net.concat(token, net.view(x, batch, (image // patch) ** 2, width), axis=1, name="tokens")
    with net.scope("encoder"):
        positions = net.parameter("encoder.pos_embedding", (1, *x.shape[1:]))
        x = net.pointwise("Add", [x, positions], name="positions")
        x = net.dropout(x) if dropout_layers else x
        for k in range(depth):
            with net.block(f"layers.{k}"):
                x = _layer(net, x, heads, fused, dropout_layers)
        x = net.layer_norm(x, name="ln")
    scores = net.linear(net.view(x, batch, width, name="class"), classes, name="heads.head")
    net.softmax_cross_entropy(scores, net.input("target", (batch,), "int64"))


def _layer(net: Layers, x: Tensor, heads: int, fused: bool, dropout_layers: bool) -> Tensor:
    width = x.shape[-1]
    with net.scope("self_attention"):
        packed = net.linear(net.layer_norm(x, name="ln"), 3 * width, name="in_proj")
        q, k, v = net.split(packed, 3)
        y = net.attention(q, k, v, heads, fused=fused, dropout=dropout_layers)
        y = net.linear(y, width, name="out_proj")
        y = net.dropout(y) if dropout_layers else y
    x = net.add(x, y)
    with net.scope("mlp"):
        y = net.gelu(net.linear(net.layer_norm(x, name="ln"), 4 * width, name="linear1"))
        y = net.dropout(y) if dropout_layers else y
        y = net.linear(y, width, name="linear2")
        y = net.dropout(y) if dropout_layers else y
    return net.add(x, y)
