"""All kinds of operations that can be run."""

from remat_algos.executor.formulas.elementwise import ELEMENTWISE
from remat_algos.executor.formulas.formula import Formula
from remat_algos.executor.formulas.losses import LOSSES
from remat_algos.executor.formulas.norms import NORMS
from remat_algos.executor.formulas.parts import PARTS
from remat_algos.executor.formulas.products import PRODUCTS
from remat_algos.executor.formulas.windows import WINDOWS

FORMULAS: dict[str, Formula] = {**WINDOWS, **PRODUCTS, **NORMS, **ELEMENTWISE, **LOSSES, **PARTS}
"""By the names that the zoo gives them."""
