from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.builder import Tensor
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.registry import family

BINS = 161

Window = tuple[int, tuple[int, ...], tuple[int, ...]]
WINDOWS: tuple[Window, ...] = ((32, (41, 11), (2, 2)), (32, (21, 11), (2, 1)), (96, (21, 11), (2, 1)))
"""Channels, kernel and stride of the two-dimensional convolutions, over frequency and time."""

FRAMES_PER_LABEL = 8


def _flat(depth: int, width: int, connected: int) -> dict[str, int | bool]:
    return {"flat": True, "depth": depth, "width": width, "connected": connected}


@family(
    {
        "deepspeech2": {},
        "deepspeech2_gru": {"gated": True, "width": 1280},
        "deepspeech2_1rnn": _flat(1, 2400, 3),
        "deepspeech2_3rnn": _flat(3, 1880, 1),
        "deepspeech2_5rnn": _flat(5, 1510, 1),
        "deepspeech2_7rnn": _flat(7, 1280, 1),
    }
)
def deepspeech2(
    net: Layers,
    *,
    batch: int = 8,
    sequence: int = 200,
    depth: int = 7,
    width: int = 1760,
    convolutions: int = 2,
    flat: bool = False,
    connected: int = 1,
    classes: int = 29,
    gated: bool = False,
) -> None:
    """Convolutions over a spectrogram, unrolled bidirectional recurrent layers, CTC loss (amodei2016, section 3).

    Both directions share the input matrix, and their states are added. So the network has 38 million parameters, as in
    table 1 of the paper; with two matrices it would have 44 to 51 million. The product with the input is computed for
    all steps at once.

    Parameters
    ----------
    sequence : int
        Number of frames of the spectrogram, with 161 frequencies each; the first convolution has stride 2 over frames.
        The transcript has one label per eight frames.
    depth : int
        Number of recurrent layers.
    convolutions : int
        Number of convolutions over frequency and time, 1 to 3.
    flat : bool
        Use a single convolution over time instead, with one channel per element of a state.
    connected : int
        Number of fully connected layers between the recurrent layers and the scores.
    classes : int
        Number of labels, including the blank.
    gated : bool
        Gated recurrent units instead of a clipped ReLU.
    """
    if convolutions > len(WINDOWS):
        raise net.fault(
            "convolutions is {convolutions}; give 1 to {most}", convolutions=convolutions, most=len(WINDOWS)
        )
    x = _spectrogram(net, batch, sequence, [(width, (11,), (2,))] if flat else WINDOWS[:convolutions])
    steps = x.shape[0] // batch
    start = net.input("start", (batch, width))
    for layer in range(depth):
        with net.scope(f"rnn{layer}"):
            x = _recurrent(net, x, start, steps, gated)
    for layer in range(connected):
        with net.block(f"fc{layer}"):
            x = net.hard_tanh(net.batch_norm(net.linear(x, width, bias=False)))
    scores = net.view(net.linear(x, classes, name="scores"), steps, batch, classes)
    net.ctc_loss(scores, net.input("transcript", (batch, max(1, sequence // FRAMES_PER_LABEL)), "int64"))


def _spectrogram(net: Layers, batch: int, sequence: int, windows: Sequence[Window]) -> Tensor:
    # The frequencies are the channels of a convolution over time only.
    channels = () if len(windows[0][1]) == 1 else (1,)
    x = net.input("spectrogram", (batch, *channels, BINS, sequence))
    for k, (features, kernel, stride) in enumerate(windows):
        with net.block(f"conv{k}"):
            padding = tuple(length // 2 for length in kernel)
            x = net.convolution(x, features, kernel, stride=stride, padding=padding, bias=False)
            x = net.hard_tanh(net.batch_norm(x))
    return net.copy(x, x.shape[-1] * batch, prod(x.shape[1:-1]), name="rows")


def _recurrent(net: Layers, x: Tensor, start: Tensor, steps: int, gated: bool) -> Tensor:
    width = start.shape[-1]
    with net.block("input"):
        gates = net.batch_norm(net.linear(x, 3 * width if gated else width, bias=False))
        parts = net.split(gates, steps, axis=0)
    forwards = _one_direction(net, parts, start, gated, "forwards")
    backwards = _one_direction(net, parts[::-1], start, gated, "backwards")[::-1]
    with net.block("sum"):
        return net.add(*(net.concat(*states, axis=0) for states in (forwards, backwards)))


def _one_direction(net: Layers, parts: Sequence[Tensor], h: Tensor, gated: bool, name: str) -> list[Tensor]:
    cell = _gated_cell if gated else _cell
    states = []
    with net.scope(name):
        weight = net.parameter(net.named("state.weight"), (parts[0].shape[-1], h.shape[-1]))
        for step, part in enumerate(parts):
            with net.block(str(step)):
                states.append(h := cell(net, part, h, weight))
    return states


def _cell(net: Layers, x: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    return net.hard_tanh(net.add(x, net.linear(h, weight.shape[0], parameters=[weight], name="from_state")))


def _gated_cell(net: Layers, x: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    of_h = net.split(net.linear(h, weight.shape[0], parameters=[weight], name="from_state"), 3, name="state_parts")
    of_x = net.split(x, 3, name="input_parts")
    z, r = (net.sigmoid(net.add(of_x[k], of_h[k], name=f"{gate}_sum"), name=gate) for k, gate in enumerate("zr"))
    new = net.hard_tanh(net.add(of_x[2], net.multiply(r, of_h[2], name="heard"), name="new_sum"), name="new")
    change = net.multiply(z, net.pointwise("Subtract", [new, h], name="difference"), name="change")
    return net.add(h, change, name="h")
