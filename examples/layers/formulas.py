"""The formulas of all kinds of operations."""

from __future__ import annotations

from remat_algos.ir.kinds import kind_name

from . import convolutions, copies, experts, losses, norms, pointwise, products, reductions
from .formula import Formula

FORMULAS: dict[str, Formula] = {
    name: formula
    for family in (convolutions, copies, experts, losses, norms, pointwise, products, reductions)
    for name, formula in family.FORMULAS.items()
}
"""Formulas by the name of the kind; add one for a kind of your own."""


def formula_of(op: str) -> Formula | None:
    """The formula of an operation, by any name of its kind; None if it has none.

    Examples
    --------
    >>> formula_of("Max"), formula_of("Tanh").draws
    (None, False)
    """
    return FORMULAS.get(kind_name(op))
