"""U-Net."""

from __future__ import annotations

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family


@family({"unet": {}}, grows={"image": range(188, 4097, 16)})
def unet(
    net: Layers,
    *,
    batch: int = 8,
    image: int = 572,
    depth: int = 4,
    width: int = 64,
    channels: int = 1,
    classes: int = 2,
    padding: bool = False,
    wide_last: bool = False,
) -> None:
    """Convolutions down to a small image and up again, each level passed across (ronneberger2015, figure 1).

    Parameters
    ----------
    batch, image : int
    depth : int
        How often the image is halved; the two lowest levels have dropout.
    width : int
        Channels of the highest level; each level down has twice as many.
    channels : int
        Channels of the image.
    classes : int
        Scores per pixel.
    padding : bool
        Convolutions keep the size, so that nothing is cropped unless a length is odd.
    wide_last : bool
        The last up-convolution keeps its channels, as in the graph that kusumoto2019 published, instead of halving
        them.
    """
    x = net.input("image", (batch, channels, image, image))
    handed: list[Tensor] = []
    for level in range(depth + 1):
        with net.block(f"down{level}"):
            x = _twice(net, net.max_pool(x, 2, 2) if level else x, width << level, padding)
            x = net.dropout(x) if level >= depth - 1 else x
            handed.append(x)
    for level in reversed(range(depth)):
        with net.block(f"up{level}"):
            half = width << level
            x = net.relu(net.transposed_convolution(x, 2 * half if wide_last and level == 0 else half, 2, stride=2))
            across = handed[level]
            if across.shape[2:] != x.shape[2:]:
                across = net.crop(across, *x.shape[2:])
            x = _twice(net, net.concat(across, x), half, padding)
    scores = net.convolution(x, classes, 1, name="score")
    net.softmax_cross_entropy(scores, net.input("target", (batch, *scores.shape[2:]), "int64"))


def _twice(net: Layers, x: Tensor, channels: int, padding: bool) -> Tensor:
    """Two 3 x 3 convolutions, each with a ReLU."""
    for k in (1, 2):
        x = net.relu(net.convolution(x, channels, 3, padding=int(padding), name=f"conv{k}"), name=f"relu{k}")
    return x
