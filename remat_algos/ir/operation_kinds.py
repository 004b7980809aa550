"""Kinds of operations: what their gradients read, which are heavy, which may write over what they read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Properties of every operation of a kind.

    Parameters
    ----------
    name : str
        As `Labels.ops` has it.
    saves_inputs, saves_output : bool
        Whether the gradient reads what the operation reads, and its first value. Residents are always read.
    extra : tuple of str
        Values that frameworks store beside the first one, for the gradient only.
    alone : (bool, bool)
        `saves_inputs` and `saves_output` where the operation has its first value only, as the graphs of
        kusumoto2019 have it.
    heavy : bool
        A product of matrices or a convolution: what chen2016 and echo2020 would not compute again lightly.
    in_place : tuple of int
        Places of the reads whose memory the first value may take, in the order of trying, if nothing reads them later:
        of an element-wise sum either one, as NNVM has it.
    gradient_in_place : tuple of int
        Likewise those of its gradient, element by element: that of the gradient which it reads first.
    binarizable : bool
        Whether one bit per element of the first value is all that gradients need of it (echo2020, algorithm 1).
    aliases : tuple of str
        What others call it.
    """

    name: str
    saves_inputs: bool
    saves_output: bool
    extra: tuple[str, ...]
    alone: tuple[bool, bool]
    heavy: bool
    in_place: tuple[int, ...]
    gradient_in_place: tuple[int, ...]
    binarizable: bool
    aliases: tuple[str, ...]


FIRST, EITHER = (0,), (0, 1)
"""Places of reads."""


def _kind(
    name: str,
    saves: str = "",
    *aliases: str,
    extra: str = "",
    alone: str = "inputs",
    heavy: bool = False,
    in_place: tuple[int, ...] = (),
    gradient_in_place: bool = False,
    binarizable: bool = False,
) -> OperationKind:
    return OperationKind(
        name,
        "inputs" in saves,
        "output" in saves,
        tuple(extra.split()),
        ("inputs" in alone, "output" in alone),
        heavy,
        in_place,
        FIRST if in_place or gradient_in_place else (),
        binarizable,
        aliases,
    )


OPERATION_KINDS = (
    _kind("Convolution", "inputs", "Convolution2DFunction", "ConvolutionND", "Conv", "Conv2d", heavy=True),
    _kind(
        "TransposedConvolution",
        "inputs",
        *("Deconvolution2DFunction", "UpConvolution", "Deconvolution", "ConvTranspose", "ConvTranspose2d"),
        heavy=True,
    ),
    _kind("Linear", "inputs", "LinearFunction", "FullyConnected", "Gemm", heavy=True),
    _kind("MatMul", "inputs", "batch_dot", heavy=True),
    _kind("Attention", "inputs output", extra="logsumexp", alone="inputs output", heavy=True),
    _kind("Embedding", "", "EmbedIDFunction"),
    _kind("BatchNorm", "inputs", "BatchNormalization", "BatchNorm2d", extra="mean rstd"),
    _kind("LayerNorm", "inputs", "LayerNormalization", extra="mean rstd"),
    _kind("GroupNorm", "inputs", "GroupNormalization", extra="mean rstd"),
    _kind("RMSNorm", "inputs", extra="rstd"),
    _kind("LocalResponseNorm", "inputs", "LocalResponseNormalization", "LRN", extra="scale", alone="inputs output"),
    _kind("ReLU", "output", alone="output", in_place=FIRST, binarizable=True),
    _kind("ReLU6", "output", "ClippedReLU", "Clip", alone="output", in_place=FIRST, binarizable=True),
    _kind("HardTanh", "output", "Hardtanh", alone="output", in_place=FIRST, binarizable=True),
    _kind("Tanh", "output", alone="output", in_place=FIRST),
    _kind("Sigmoid", "output", alone="output", in_place=FIRST),
    _kind("Softmax", "output", alone="output", in_place=FIRST),
    _kind("GELU", "inputs", "Gelu", gradient_in_place=True),
    _kind("SiLU", "inputs", "Swish", gradient_in_place=True),
    _kind("SoftmaxCrossEntropy", "", "SoftmaxOutput", extra="probabilities"),
    _kind("CTCLoss", "inputs", "ConnectionistTemporalClassification", extra="alpha"),
    _kind("MeanSquare", "inputs", "MeanSquaredError"),
    _kind("Dropout", "", in_place=FIRST),
    _kind("DropoutMask", binarizable=True),
    _kind("MaxPooling", "", "MaxPooling2D", "MaxPool", "MaxPool2d", extra="indices", alone="inputs output"),
    _kind("AveragePooling", "", "AveragePooling2D", "AveragePool", "AvgPool2d", alone="inputs output"),
    _kind("Upsample", "", "ResizeImages", "Interpolate"),
    _kind("Concat", "", "Cat"),
    _kind("Add", "", "AddConstant", in_place=EITHER),
    _kind("Subtract", "", "Sub", in_place=EITHER),
    _kind("Multiply", "inputs", "Mul", gradient_in_place=True),
    _kind("Divide", "inputs", "Div", gradient_in_place=True),
    _kind("Square", "inputs", gradient_in_place=True),
    _kind("Sqrt", "output", alone="output", in_place=FIRST),
    _kind("Rsqrt", "output", alone="output", in_place=FIRST),
    _kind("Exp", "output", alone="output", in_place=FIRST),
    _kind("Log", "inputs", gradient_in_place=True),
    _kind("Scale", "", "MulConstant", in_place=FIRST),
    _kind("Mask", "", in_place=FIRST),
    _kind("Rotary", "", in_place=FIRST),
    _kind("Mean"),
    _kind("Sum"),
    _kind("Max", "inputs output", alone="inputs output"),
    _kind("Slice", "", "GetItem"),
    _kind("Reshape"),
    _kind("Copy", "", "Transpose"),
    _kind("Route", alone=""),
)


def operation_kind(name: str) -> OperationKind | None:
    """The kind that an operation is of, by its name or an alias; None if it is none of ours.

    Examples
    --------
    >>> operation_kind("Convolution2DFunction").name, operation_kind("ReLU").saves_output, operation_kind("Warp")
    ('Convolution', True, None)
    """
    return _by_name().get(name)


def kind_name(op: str) -> str:
    """An operation by the name that we have for it; by its own, if it is none of ours.

    Examples
    --------
    >>> kind_name("Conv2d"), kind_name("Warp")
    ('Convolution', 'Warp')
    """
    kind = operation_kind(op)
    return kind.name if kind is not None else op


@cache
def _by_name() -> dict[str, OperationKind]:
    return {name: kind for kind in OPERATION_KINDS for name in (kind.name, *kind.aliases)}
