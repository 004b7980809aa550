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
    """U-Net (ronneberger2015, figure 1): an encoder and a decoder of convolutions, with a skip connection at each
    level.

    Parameters
    ----------
    depth : int
        Number of times that the image is halved; the two lowest levels have dropout.
    width : int
        Channels of the highest level; each lower level has twice as many.
    channels : int
        Channels of the image.
    classes : int
        Number of scores per pixel.
    padding : bool
        Convolutions keep the size of the image, so nothing is cropped unless a length is odd.
    wide_last : bool
        The last up-convolution keeps its channels, as in the published graph of kusumoto2019, instead of halving them.
    """
    x = net.input("image", (batch, channels, image, image))
    skips: list[Tensor] = []
    for level in range(depth + 1):
        with net.block(f"down{level}"):
            x = _twice(net, net.max_pool(x, 2, 2) if level else x, width << level, padding)
            x = net.dropout(x) if level >= depth - 1 else x
            skips.append(x)
    for level in reversed(range(depth)):
        with net.block(f"up{level}"):
            half = width << level
            x = net.relu(net.transposed_convolution(x, 2 * half if wide_last and level == 0 else half, 2, stride=2))
            across = skips[level]
            if across.shape[2:] != x.shape[2:]:
                across = net.crop(across, *x.shape[2:])
            x = _twice(net, net.concat(across, x), half, padding)
    scores = net.convolution(x, classes, 1, name="score")
    net.softmax_cross_entropy(scores, net.input("target", (batch, *scores.shape[2:]), "int64"))


def _twice(net: Layers, x: Tensor, channels: int, padding: bool) -> Tensor:
    for k in (1, 2):
        x = net.relu(net.convolution(x, channels, 3, padding=int(padding), name=f"conv{k}"), name=f"relu{k}")
    return x
