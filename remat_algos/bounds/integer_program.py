"""Integer programs over 0/1 variables, solved by HiGHS through SciPy."""

from collections.abc import Iterable
from math import gcd
from typing import Any

import numpy as np

from remat_algos.bounds import tuning
from remat_algos.c_output import without_debug_lines
from remat_algos.ir.arrays import Int64

SOLVED, STOPPED, INFEASIBLE = 0, 1, 2  # status codes of SciPy's `milp`


FREE = -1  # state of an unfixed variable
# Indices of the variables that are constants in every program.
ZERO, ONE = CONSTANTS = 0, 1


class ProgramRows:
    """The rows `low <= sum of amount * variable <= high` of a program; fixed variables become numbers in them."""

    def __init__(self) -> None:
        self.size = 0
        # The entries (row, variable, amount) of the matrix, as blocks of arrays and as single entries.
        self._blocks = list[tuple[Any, ...]]()
        self._terms = list[tuple[int, int, float]]()
        # (low, high, unit, number of rows) for each call to `add` or `add_row`.
        self._ends = list[tuple[float, ...]]()

    def add(
        self, variables: Any, amounts: Any, *, low: float = -np.inf, high: float = np.inf, unit: float = 1.0
    ) -> None:
        """Add one row per column of `variables`, int64[terms, rows], all with the same `amounts`, float64[terms]."""
        n_terms, n_rows = np.shape(variables)
        rows = np.tile(np.arange(self.size, self.size + n_rows), n_terms)
        self._blocks.append((rows, np.ravel(variables), np.repeat(amounts, n_rows)))
        self._ends.append((low, high, unit, n_rows))
        self.size += n_rows

    def add_row(self, terms: Iterable[tuple[int, float]], *, low: float = -np.inf, high: float = np.inf) -> None:
        """Add a row of (variable, amount) terms."""
        self._terms += [(self.size, variable, amount) for variable, amount in terms]
        self._ends.append((low, high, 1.0, 1))
        self.size += 1

    def table(self, state: Any) -> tuple[Any, Any, Any]:
        """Return the matrix over the free variables, and the lower and upper limits of the rows."""
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        blocks = [*self._blocks, tuple(zip(*self._terms, strict=True))] if self._terms else self._blocks
        row, variable, amount = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        *ends, counts = np.array(self._ends).T
        low, high, unit = np.repeat(ends, counts.astype(np.int64), axis=1)
        free, column = state[variable] == FREE, np.cumsum(state == FREE) - 1
        fixed = np.bincount(row[~free], amount[~free] * state[variable[~free]], self.size)
        row, column, amount = row[free], column[variable[free]], amount[free]
        matrix = csr_array((amount / unit[row], (row, column)), (self.size, int((state == FREE).sum())))
        return matrix, (low - fixed) / unit, (high - fixed) / unit


def solve_integer_program(
    cost: Any,
    rows: ProgramRows,
    state: Any,
    *,
    whole: bool | Any = True,
    most: float | Any = 1.0,
    seconds: float | None = None,
    gap: float = 1e-9,
) -> Any:
    """Minimize a linear cost subject to rows, and return the result of SciPy.

    `state` is the value of a fixed variable, or `FREE`. Free variables lie between 0 and `most`; variables marked in
    `whole` are integers. HiGHS has absolute tolerances of about 1e-6, so scale the cost until the optimum is far above
    1. HiGHS cannot be interrupted. In the result, `x` is None without a solution, and `mip_dual_bound` is always valid.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]

    free = state == FREE
    whole, most = (np.broadcast_to(each, state.shape)[free] for each in (whole, most))
    limits = {} if seconds is None else {"time_limit": max(float(seconds), tuning.SHORTEST_PROGRAM)}
    with without_debug_lines():
        result = milp(
            np.asarray(cost, float)[free],
            integrality=whole.astype(int),
            bounds=Bounds(0, most),
            constraints=LinearConstraint(*rows.table(state)) if rows.size else None,
            options={"mip_rel_gap": gap, **limits},
        )
    if result.x is not None:
        x = state.astype(float)
        x[free] = result.x
        result.x = x
    return result


def objective_unit(costs: Int64, one_pass: int) -> tuple[float, float]:
    """Return the unit of an objective, and the margin to subtract from its lower bound for float errors.

    Both are in units of compute. If all costs are small multiples of a common divisor, the unit is this divisor. HiGHS
    then gets an integral objective.

    >>> objective_unit(np.array([4, 0, 6]), 100)
    (2.0, 0.0021)
    """
    divisor = gcd(*costs.tolist())
    if divisor and one_pass // divisor <= tuning.SMALL_PROGRAM:
        return float(divisor), tuning.TOLERANCE * one_pass + tuning.WHOLE_TOLERANCE * divisor
    return max(1.0, one_pass / tuning.UNITS_OF_PASS), tuning.TOLERANCE * one_pass


def proven(result: Any, unit: float, margin: float, step: int, *, fixed: int = 0, whole: bool = True) -> int:
    """Return the overhead that a solver result proves, rounded up to an integer and to a multiple of `step`.

    The overhead is `fixed` plus the dual bound of the objective minus `margin`; without a result it is `fixed`. For a
    linear relaxation (`whole` is False), its optimum is the dual bound. If `step` is 0, round up to an integer only.

    >>> from types import SimpleNamespace as Result
    >>> [proven(Result(status=STOPPED, mip_dual_bound=dual), 2.0, 0.01, 5) for dual in (7.4999999, 7.51, None)]
    [15, 20, 0]
    """
    dual = None
    if result is not None and result.status in (SOLVED, STOPPED):
        dual = result.fun if result.status == SOLVED and not whole else result.mip_dual_bound
    if dual is not None and np.isfinite(dual):
        fixed += max(0, int(np.ceil(float(dual) * unit - margin)))
    return max(0, -(-fixed // step) * step if step else fixed)
