"""Programs over 0/1 variables, solved by SciPy's HiGHS."""

import functools
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd
from typing import Any

import numpy as np

from remat_algos.forks import release_after_fork
from remat_algos.ir.arrays import Int64

SOLVED, STOPPED, INFEASIBLE = 0, 1, 2  # status of a result
DEBUG_LINE = b"HighsMipSolverData::"  # HiGHS prints such lines regardless of options
SHORTEST_PROGRAM = 1e-3  # seconds; HiGHS takes 0 for no limit

SMALL_PROGRAM = 10**5  # up to this many common divisors in one pass, costs are whole numbers
UNITS = 10_000.0  # otherwise, one pass in units of the objective
TOLERANCE = 1e-6  # floating-point error of a bound, share of one pass
WHOLE_TOLERANCE = 1e-3  # extra error if costs are whole numbers, share of the divisor

FREE = -1  # state of a variable without a fixed value
ZERO, ONE = CONSTANTS = 0, 1  # variables of fixed value, in every program


class ProgramRows:
    """Rows `low <= sum of amount * variable <= high`, written with the numbers of variables.

    Which variables are free, and the values of the others, is known when the program is solved.
    """

    def __init__(self) -> None:
        self.size = 0
        self._entries = list[tuple[Any, ...]]()  # (row, variable, amount)
        self._ends = list[Any]()  # (low, high, unit) of each row

    def add(
        self, variables: Any, amounts: Any, *, low: float = -np.inf, high: float = np.inf, unit: float = 1.0
    ) -> None:
        """Add a row for each column of int64[terms, rows] `variables`; all have the same amounts, float64[terms]."""
        n_terms, n_rows = np.shape(variables)
        rows = np.tile(np.arange(self.size, self.size + n_rows), n_terms)
        self._entries.append((rows, np.ravel(variables), np.repeat(amounts, n_rows)))
        self._ends.append(np.tile([[low], [high], [unit]], n_rows))
        self.size += n_rows

    def table(self, state: Any) -> tuple[Any, Any, Any]:
        """Return the matrix of the free variables, and the lowest and highest value of each row."""
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        row, variable, amount = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        low, high, unit = np.concatenate(self._ends, axis=1)
        free, column = state[variable] == FREE, np.cumsum(state == FREE) - 1
        known = np.bincount(row[~free], amount[~free] * state[variable[~free]], self.size)
        row, column, amount = row[free], column[variable[free]], amount[free]
        matrix = csr_array((amount / unit[row], (row, column)), (self.size, int((state == FREE).sum())))
        return matrix, (low - known) / unit, (high - known) / unit


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
    """Minimize a cost over the free variables of rows, from 0 to `most`, of which those that are `whole` are integers.

    Arrays are by variable; `state` is `FREE` or the value of each. HiGHS' absolute tolerances are about 1e-6, so the
    optimum should be far above 1. It stops at a relative `gap` of bound and objective. It cannot be interrupted: Ctrl-C
    takes effect when it returns. In SciPy's result `x` has all variables, or is None; `status` is 0 unless it was
    stopped; `mip_dual_bound` holds in either case.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]

    free = state == FREE
    whole, most = (np.broadcast_to(each, state.shape)[free] for each in (whole, most))
    limits = {} if seconds is None else {"time_limit": max(float(seconds), SHORTEST_PROGRAM)}
    with _without_debug_lines():
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
    """Return the unit of an objective, and the possible error of its lower bound, both in compute.

    If costs are small multiples of a common divisor, that is the unit, so HiGHS sees that the objective is whole.

    >>> objective_unit(np.array([4, 0, 6]), 100)
    (2.0, 0.0021)
    """
    divisor = gcd(*costs.tolist())
    if divisor and one_pass // divisor <= SMALL_PROGRAM:
        return float(divisor), TOLERANCE * one_pass + WHOLE_TOLERANCE * divisor
    return max(1.0, one_pass / UNITS), TOLERANCE * one_pass


def proven(dual: float | None, unit: float, margin: float) -> int | None:
    """Return the whole compute proved by a floating-point bound on an objective minus its margin; None if nothing.

    >>> proven(6.9999999, 2.0, 0.01), proven(7.01, 2.0, 0.01), proven(None, 2.0, 0.01)
    (14, 15, None)
    """
    if dual is None or not np.isfinite(dual):
        return None
    return max(0, int(np.ceil(float(dual) * unit - margin)))


def next_multiple(amount: int, step: int) -> int:
    """Round an amount up to a multiple of `step`; a step of 0 leaves it unchanged."""
    return -(-amount // step) * step if step else amount


class _Diversion:
    """The stream for output of C code while threads are in HiGHS, and their number.

    Only C's own `stdout` is replaced: Python's output and that of child processes still goes to file descriptor 1.
    """

    lock = threading.Lock()
    users = 0
    usual: int | None = None  # the previous stream of C
    stream: int | None = None  # an unnamed file; never closed, since another thread may be about to print to it


@contextmanager
def _without_debug_lines() -> Iterator[None]:
    """Keep HiGHS' debugging lines (C's `puts`) out of standard output, where a command may print JSON."""
    state, c = _Diversion, _c_library()
    if c is None:
        yield
        return
    with state.lock:
        state.users += 1
        if state.users == 1:
            _divert(state, *c)
    try:
        yield
    finally:
        with state.lock:
            state.users -= 1
            if state.users == 0:
                _restore(state, *c)


def _in_child() -> None:
    """Give C its stream back in a process that was forked while threads were in HiGHS; the file is the parent's."""
    state, c = _Diversion, _c_library()
    if state.usual is not None and c is not None:
        c[1].value = state.usual
    state.users, state.usual, state.stream = 0, None, None


release_after_fork(_Diversion.lock, _in_child)


@functools.cache
def _c_library() -> tuple[Any, Any] | None:
    """Return the C library and its variable `stdout`; None if that cannot be set, as on Windows and with musl."""
    import ctypes

    name = "__stdoutp" if sys.platform == "darwin" else "stdout"
    if name == "stdout" and platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    library.tmpfile.restype = ctypes.c_void_p
    for function in (library.fileno, library.fflush, library.rewind):
        function.argtypes = (ctypes.c_void_p,)
    library.fwrite.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    return library, ctypes.c_void_p.in_dll(library, name)


def _divert(state: type[_Diversion], library: Any, stdout: Any) -> None:
    state.stream = state.stream or library.tmpfile()
    if state.stream is not None:  # else there is no room for a file, and the lines appear
        state.usual, stdout.value = stdout.value, state.stream


def _restore(state: type[_Diversion], library: Any, stdout: Any) -> None:
    if state.usual is None:
        return
    stdout.value = usual = state.usual
    state.usual = None
    library.fflush(state.stream)
    file = library.fileno(state.stream)
    written = os.pread(file, os.fstat(file).st_size, 0)
    rest = b"".join(line for line in written.splitlines(keepends=True) if not line.startswith(DEBUG_LINE))
    os.ftruncate(file, 0)
    library.rewind(state.stream)
    library.fwrite(rest, 1, len(rest), usual)
