"""Kinds of operations: what their gradients read, what they cost, and whether they may run in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.errors import ArgumentError

FIRST, EITHER = (0,), (0, 1)
"""Indices of the inputs that an operation may overwrite: the first, or either of the first two."""

OTHER = "other"
SAVED = {"inputs", "output"}


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Properties shared by all operations of a kind.

    Parameters
    ----------
    name : str
        The name, as in `Labels.ops`.
    saves : str
        What the gradient reads: "inputs" (all that the operation reads), "output" (its first value), "inputs output"
        (both) or "" (neither). Gradients always read residents.
    aliases : tuple of str
        Other names of the kind.
    flops : int
        Floating-point operations per element. `GraphBuilder` multiplies them by the number of elements.
    layer : str
        Layer type of an operation whose name does not imply one.
    extra : tuple of str
        Names of all values except the first; frameworks store them only for the gradient.
    saves_alone : str
        The value of `saves` for operations with a single value, as in the graphs of kusumoto2019.
    heavy : bool
        True for matrix products and convolutions, which chen2016 and echo2020 never recompute.
    in_place : tuple of int
        Indices of the inputs that the first value may overwrite if nothing reads them later, in order of preference; an
        element-wise sum may overwrite either, as in NNVM.
    gradient_in_place : bool
        True if the operation's gradient is element-wise and may overwrite the gradient that it reads first. Kinds with
        `in_place` allow this in any case.
    binarizable : bool
        True if gradients need only one bit per element of the first value (echo2020, algorithm 1).

    Raises
    ------
    ValueError
        If `saves` is invalid, an in-place kind saves an input that it overwrites, or `aliases` is one string.

    Examples
    --------
    >>> cube = OperationKind("Cube", "inputs", flops=2, gradient_in_place=True)
    >>> cube.saved(), cube.gradient_places
    ((True, False), (0,))
    """

    name: str
    saves: str = ""
    aliases: tuple[str, ...] = ()
    flops: int = 1
    layer: str = OTHER
    extra: tuple[str, ...] = ()
    saves_alone: str = "inputs"
    heavy: bool = False
    in_place: tuple[int, ...] = ()
    gradient_in_place: bool = False
    binarizable: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for saved in (self.saves, self.saves_alone):
            if not {*saved.split()} <= SAVED:
                wrong = '{name} saves {saved!r}; give "inputs", "output", "inputs output" or ""'
                raise ArgumentError(wrong, name=self.name, saved=saved)
        if self.in_place and self.saved()[0]:
            raise ArgumentError("{name} overwrites an input that its gradient reads; omit in_place", name=self.name)

    @checked_arguments
    def saved(self, *, alone: bool = False) -> tuple[bool, bool]:
        """Return two flags: whether the gradient reads the inputs, and whether it reads the first value."""
        words = self.saves_alone if alone else self.saves
        return "inputs" in words, "output" in words

    @property
    def gradient_places(self) -> tuple[int, ...]:
        """Indices of the inputs that the gradient may overwrite."""
        return FIRST if self.in_place or self.gradient_in_place else ()


NORM, ACTIVATION, DROPOUT, ELEMENT_WISE = "other norms", "activation", "dropout", "element-wise"

# FLOPs per element: a sum, a difference, a square and its sum, two products, a sum.
_STATISTICS: dict[str, Any] = {"saves": "inputs", "flops": 7, "extra": ("mean", "rstd")}
_FROM_OUTPUT: dict[str, Any] = {"saves": "output", "saves_alone": "output", "in_place": FIRST}
_SIGN: dict[str, Any] = {**_FROM_OUTPUT, "layer": ACTIVATION, "binarizable": True}
_FROM_INPUTS: dict[str, Any] = {"saves": "inputs", "gradient_in_place": True}
_HEAVY: dict[str, Any] = {"saves": "inputs", "heavy": True}
_BOTH: dict[str, Any] = {"saves_alone": "inputs output"}

KINDS = (
    OperationKind("Concat", aliases=("Cat",)),
    OperationKind("Slice", aliases=("GetItem", "Split")),
    OperationKind("Reshape"),
    OperationKind("Copy", aliases=("Transpose",)),
    OperationKind("Route", saves_alone=""),
    # FLOPs per score: maximum, difference, exponential, two sums.
    OperationKind(
        "SoftmaxCrossEntropy", "", ("SoftmaxOutput", "SoftmaxCrossEntropyLoss"), 5, "output", ("probabilities",)
    ),
    OperationKind("CTCLoss", "inputs", ("ConnectionistTemporalClassification",), layer="output", extra=("alpha",)),
    OperationKind("MeanSquare", "inputs", ("MeanSquaredError",), flops=3, layer="output"),
    OperationKind("BatchNorm", aliases=("BatchNormalization", "BatchNorm2d"), layer="batch norm", **_STATISTICS),
    OperationKind("LayerNorm", aliases=("LayerNormalization",), layer=NORM, **_STATISTICS),
    OperationKind("GroupNorm", aliases=("GroupNormalization",), layer=NORM, **_STATISTICS),
    OperationKind("RMSNorm", "inputs", ("RMSNormalization",), flops=4, layer=NORM, extra=("rstd",)),
    OperationKind(
        "LocalResponseNorm", "inputs", ("LocalResponseNormalization", "LRN"), layer=NORM, extra=("scale",), **_BOTH
    ),
    OperationKind("ReLU", aliases=("Relu",), **_SIGN),
    OperationKind("ReLU6", aliases=("ClippedReLU", "Clip"), flops=2, **_SIGN),
    OperationKind("HardTanh", aliases=("Hardtanh",), flops=2, **_SIGN),
    OperationKind("Tanh", flops=4, layer=ACTIVATION, **_FROM_OUTPUT),
    OperationKind("Sigmoid", flops=4, layer=ACTIVATION, **_FROM_OUTPUT),
    OperationKind("GELU", aliases=("Gelu",), flops=8, layer=ACTIVATION, **_FROM_INPUTS),
    OperationKind("SiLU", aliases=("Swish",), flops=5, layer=ACTIVATION, **_FROM_INPUTS),
    OperationKind("Dropout", flops=2, layer=DROPOUT, in_place=FIRST),
    OperationKind("DropoutMask", layer=DROPOUT, binarizable=True),
    OperationKind("Add", aliases=("AddConstant",), layer=ELEMENT_WISE, in_place=EITHER),
    OperationKind("Subtract", aliases=("Sub",), layer=ELEMENT_WISE, in_place=EITHER),
    OperationKind("Multiply", aliases=("Mul",), layer=ELEMENT_WISE, **_FROM_INPUTS),
    OperationKind("Divide", aliases=("Div",), **_FROM_INPUTS),
    OperationKind("Square", **_FROM_INPUTS),
    OperationKind("Sqrt", **_FROM_OUTPUT),
    OperationKind("Rsqrt", flops=2, **_FROM_OUTPUT),
    OperationKind("Exp", **_FROM_OUTPUT),
    OperationKind("Log", **_FROM_INPUTS),
    OperationKind("Scale", aliases=("MulConstant",), layer=ELEMENT_WISE, in_place=FIRST),
    OperationKind("Mask", in_place=FIRST),
    OperationKind("Rotary", in_place=FIRST),
    OperationKind("Linear", aliases=("LinearFunction", "FullyConnected", "Gemm"), layer="fully connected", **_HEAVY),
    OperationKind("MatMul", aliases=("batch_dot",), layer="fully connected", **_HEAVY),
    OperationKind("Attention", "inputs output", (), 5, "attention", ("logsumexp",), heavy=True, **_BOTH),
    OperationKind("Embedding", aliases=("EmbedIDFunction",), layer="embedding"),
    OperationKind("Softmax", flops=5, **_FROM_OUTPUT),
    OperationKind("Mean", aliases=("ReduceMean",)),
    OperationKind("Sum", aliases=("ReduceSum",)),
    OperationKind("Max", "inputs output", ("ReduceMax",), **_BOTH),
    OperationKind(
        "Convolution",
        aliases=("Convolution2DFunction", "ConvolutionND", "Conv", "Conv2d"),
        layer="convolution",
        **_HEAVY,
    ),
    OperationKind(
        "TransposedConvolution",
        aliases=("Deconvolution2DFunction", "UpConvolution", "Deconvolution", "ConvTranspose", "ConvTranspose2d"),
        layer="convolution",
        **_HEAVY,
    ),
    OperationKind(
        "MaxPooling", aliases=("MaxPooling2D", "MaxPool", "MaxPool2d"), layer="pooling", extra=("indices",), **_BOTH
    ),
    OperationKind(
        "AveragePooling",
        aliases=("AveragePooling2D", "AveragePool", "AvgPool2d", "GlobalAveragePool"),
        layer="pooling",
        **_BOTH,
    ),
    OperationKind("Upsample", aliases=("ResizeImages", "Interpolate", "Resize")),
)
"""The built-in kinds, similar ones together; `register_kinds` adds others."""


@checked_arguments
def register_kinds(*kinds: OperationKind) -> None:
    """Register kinds of operations. A kind with the name of an existing kind replaces it, including its aliases.

    Parameters
    ----------
    *kinds : OperationKind

    Raises
    ------
    ValueError
        If a name or an alias belongs to another kind.

    Examples
    --------
    >>> from dataclasses import replace
    >>> relu = operation_kind("ReLU")
    >>> register_kinds(replace(relu, heavy=True))
    >>> operation_kind("ReLU").heavy
    True
    >>> register_kinds(relu)
    """
    for kind in kinds:
        _known().add(kind)


def operation_kinds() -> tuple[OperationKind, ...]:
    """Return all registered kinds.

    Returns
    -------
    tuple of OperationKind

    Examples
    --------
    >>> [kind.name for kind in operation_kinds() if kind.heavy]
    ['Linear', 'MatMul', 'Attention', 'Convolution', 'TransposedConvolution']
    """
    return tuple(_known().by_name.values())


@checked_arguments
def operation_kind(name: str) -> OperationKind | None:
    """Return the kind whose name or alias is `name`, or None if the operation is unknown.

    Parameters
    ----------
    name : str

    Returns
    -------
    OperationKind or None

    Examples
    --------
    >>> operation_kind("Convolution2DFunction").name, operation_kind("ReLU").saved()[1], operation_kind("Warp")
    ('Convolution', True, None)
    """
    return _known().by_any_name.get(name)


def kind_name(op: str) -> str:
    """Return the name of an operation's kind; an unknown operation keeps its name."""
    kind = operation_kind(op)
    return kind.name if kind is not None else op


class _Known(NamedTuple):
    """Two indexes of the registered kinds: one by name, and one by name or alias."""

    by_name: dict[str, OperationKind]
    by_any_name: dict[str, OperationKind]

    def add(self, kind: OperationKind) -> None:
        names = (kind.name, *kind.aliases)
        for name in names:
            owner = self.by_any_name.get(name, kind)
            if owner.name != kind.name:
                wrong = "{name} is already a name of the kind {owner}; give {kind} another name, or replace {owner}"
                raise ArgumentError(wrong, name=name, owner=owner.name, kind=kind.name)
        replaced = self.by_name.get(kind.name)
        for name in () if replaced is None else (replaced.name, *replaced.aliases):
            self.by_any_name.pop(name, None)
        self.by_name[kind.name] = kind
        self.by_any_name.update(dict.fromkeys(names, kind))


@cache
def _known() -> _Known:
    kinds = _Known({}, {})
    for kind in KINDS:
        kinds.add(kind)
    return kinds
