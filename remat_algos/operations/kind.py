"""Kinds of operations: the reads of their gradients, cost, and whether they may run in place."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import remat_algos.operations as package
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.operations.formula import Formula
from remat_algos.registry import modules_in
from remat_algos.text.wording import quoted, shortened

FIRST, EITHER = (0,), (0, 1)
"""Places of reads."""

OTHER = "other"
"""The default type of layer."""

SAVED = {"inputs", "output"}


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Properties of every operation of a kind.

    Parameters
    ----------
    name : str
        As `Labels.ops` has it.
    saves : str
        Reads of the gradient: "inputs", all reads of the operation; "output", its first value; "inputs output" or "".
        Residents are always read.
    aliases : tuple of str
        Other names for it.
    formula : Formula, optional
        Its computation and gradient; None: the executor cannot run it.
    flops : int
        Floating-point operations per element, if the builder method counts elements.
    layer : str
        The default type of its layer, unless its name implies another.
    extra : tuple of str
        Values beside the first one that frameworks store only for the gradient.
    saves_alone : str
        `saves` if the operation has only its first value, as the graphs of kusumoto2019 have it.
    heavy : bool
        A product of matrices or a convolution: too expensive to recompute in chen2016 and echo2020.
    in_place : tuple of int
        Places of the reads whose memory the first value may take if nothing reads them later, in order of preference:
        for an element-wise sum either one, as in NNVM.
    gradient_in_place : bool
        True if its element-wise gradient may take the memory of the gradient that it reads first; true for all
        in-place kinds.
    binarizable : bool
        True if gradients need only one bit per element of the first value (echo2020, algorithm 1).

    Raises
    ------
    ValueError
        If `saves` is invalid, an in-place kind saves a read that it overwrites, or `aliases` is one string.

    Examples
    --------
    >>> cube = OperationKind("Cube", "inputs", flops=2, gradient_in_place=True)
    >>> cube.saved(), cube.gradient_places
    ((True, False), (0,))
    """

    name: str
    saves: str = ""
    aliases: tuple[str, ...] = ()
    formula: Formula | None = field(default=None, repr=False)
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
                raise ValueError(
                    f'{shortened(self.name)} saves {quoted(saved)}; give "inputs", "output", both with a space, or ""'
                )
        if self.in_place and self.saved()[0]:
            raise ValueError(f"{shortened(self.name)} overwrites a read that its gradient reads; leave out in_place")

    @checked_arguments
    def saved(self, *, alone: bool = False) -> tuple[bool, bool]:
        """True if the gradient reads the inputs, and the first value; `alone`: of an operation with no other value."""
        words = self.saves_alone if alone else self.saves
        return "inputs" in words, "output" in words

    @property
    def gradient_places(self) -> tuple[int, ...]:
        """Places of the reads whose memory its gradient may take."""
        return FIRST if self.in_place or self.gradient_in_place else ()


@checked_arguments
def register(*kinds: OperationKind) -> None:
    """Register kinds of operations; one replaces an earlier kind of the same name, with its aliases.

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
    >>> register(replace(relu, heavy=True))
    >>> operation_kind("ReLU").heavy
    True
    >>> register(relu)
    """
    for kind in kinds:
        _known().add(kind)


def operation_kinds() -> tuple[OperationKind, ...]:
    """List all kinds, family by family.

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
    """Look up a kind by name or alias; None for an unknown operation.

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


def formula_of(op: str) -> Formula | None:
    """The formula of an operation; None if it has none or is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> formula_of("Max"), formula_of("Tanh").draws
    (None, False)
    """
    kind = operation_kind(op)
    return kind.formula if kind is not None else None


def kind_name(op: str) -> str:
    """Return the name of the kind of an operation; an unknown operation keeps its name.

    Examples
    --------
    >>> kind_name("Conv2d"), kind_name("Warp")
    ('Convolution', 'Warp')
    """
    kind = operation_kind(op)
    return kind.name if kind is not None else op


class _Known(NamedTuple):
    """Kinds by name, and by name or alias."""

    by_name: dict[str, OperationKind]
    by_any_name: dict[str, OperationKind]

    def add(self, kind: OperationKind) -> None:
        """Add or replace a kind; ValueError if another kind has one of its names."""
        names = (kind.name, *kind.aliases)
        for name in names:
            owner = self.by_any_name.get(name, kind)
            if owner.name != kind.name:
                fault = f"{shortened(name)} is a name of the kind {shortened(owner.name)}"
                raise ValueError(f"{fault}; give {shortened(kind.name)} another, or replace {shortened(owner.name)}")
        replaced = self.by_name.get(kind.name)
        for name in () if replaced is None else (replaced.name, *replaced.aliases):
            self.by_any_name.pop(name, None)
        self.by_name[kind.name] = kind
        self.by_any_name.update(dict.fromkeys(names, kind))


@cache
def _known() -> _Known:
    """Kinds in the `KINDS` of the files of this folder, until `register` adds others."""
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in modules_in(package)]
    known = _Known({}, {})
    for module in modules:
        for kind in getattr(module, "KINDS", ()):
            known.add(kind)
    return known
