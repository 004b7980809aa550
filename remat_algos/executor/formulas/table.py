"""All kinds of operations that can be run."""

from __future__ import annotations

from collections.abc import Callable

from remat_algos.executor.formulas.ctc import CTC
from remat_algos.executor.formulas.elementwise import ELEMENTWISE
from remat_algos.executor.formulas.experts import EXPERTS, ROUTED, is_routed
from remat_algos.executor.formulas.formula import Call, Formula
from remat_algos.executor.formulas.losses import LOSSES
from remat_algos.executor.formulas.norms import NORMS
from remat_algos.executor.formulas.parts import PARTS
from remat_algos.executor.formulas.products import PRODUCTS
from remat_algos.executor.formulas.windows import WINDOWS

ALWAYS: dict[str, Formula] = {
    **WINDOWS,
    **PRODUCTS,
    **NORMS,
    **ELEMENTWISE,
    **LOSSES,
    **CTC,
    **PARTS,
    **EXPERTS,
}


def either(when: Callable[[Call], bool], one: Formula, other: Formula) -> Formula:
    """A kind of operation with two formulas, by a property of its layer.

    Examples
    --------
    >>> import numpy as np
    >>> from remat_algos.models.network import Layer, Tensor
    >>> count = Layer("load", "Sum", "", ((2,),), ("float32",), (), 0, 0, 0, {}, (Tensor(0, (4, 1), "int32"),))
    >>> FORMULAS["Sum"].forward(Call(count, np), np.array([[0], [2], [1], [4]])).tolist()
    [0.75, 0.25]
    """

    def chosen(call: Call) -> Formula:
        return one if when(call) else other

    return Formula(
        lambda call, *arguments: chosen(call).forward(call, *arguments),
        lambda call, *upstream: chosen(call).gradient(call, *upstream),  # type: ignore[misc]  # not called where it is None
        lambda call: chosen(call).refuses(call),
    )


FORMULAS: dict[str, Formula] = ALWAYS | {op: either(is_routed, there, ALWAYS[op]) for op, there in ROUTED.items()}
"""By the names of the model zoo."""
