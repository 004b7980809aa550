"""Buffers and their addresses as CSV tables of columns id, lower, upper, size, offset."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.arguments import checked_arguments
from remat_algos.errors import AllocationError, GraphError
from remat_algos.files import read_text, write_whole
from remat_algos.formats.columns import ColumnTable, Known
from remat_algos.formats.csv_tables import read_table
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.text.wording import shortened

COLUMNS = ("id", "lower", "upper", "size")


@checked_arguments
def read_buffers(path: str | os.PathLike[str]) -> Buffers:
    """Read buffers: id, first step, first step after the last, bytes.

    Parameters
    ----------
    path : path
        A CSV file of columns id, lower, upper and size, in any order; a column offset is ignored.

    Returns
    -------
    Buffers
        In the order of the rows, named by their ids.

    Raises
    ------
    AllocationError
        One sentence with file, line and remedy.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "pair.csv"
    >>> _ = file.write_text("id,lower,upper,size\\nx,0,2,64\\ny,1,3,32\\n")
    >>> buffers = read_buffers(file)
    >>> buffers.names, buffers.max_live
    (('x', 'y'), 96)
    """
    table = read_columns(path, dict.fromkeys((*COLUMNS, "offset"), ()), COLUMNS)
    ids = table.texts("id")
    lower, upper, size = (_numbers(table, column) for column in COLUMNS[1:])
    lines: dict[str, int] = {}
    for row, (name, begin, end) in enumerate(zip(ids, lower, upper, strict=True)):
        where = table.where(row)
        if not name:
            raise AllocationError(f"{where}: the buffer has no id; give it one")
        if name in lines:
            raise AllocationError(
                f"{where}: id {shortened(name)!r} is already on line {lines[name]}; rename one of them"
            )
        if end <= begin:
            order = "ends before it begins" if end < begin else "ends with its first step"
            raise AllocationError(
                f"{where}: buffer {shortened(name)!r}, {begin} to {end}, {order}; "
                "upper is the first step without it, above lower"
            )
        lines[name] = table.line(row)
    if sum(size) >= LARGEST_SUM:
        raise AllocationError(f"{table.source}: the sizes add up to 2**53 or more; give them in a coarser unit")
    return Buffers(lower, upper, size, names=tuple(ids))  # type: ignore[arg-type]  # the constructor makes arrays


@checked_arguments
def write_allocation(allocation: Allocation, path: str | os.PathLike[str]) -> None:
    """Write buffers with their offsets, whole or not at all.

    Parameters
    ----------
    allocation : Allocation
    path : path
        Becomes a CSV file of columns id, lower, upper, size and offset; buffers without names are numbered.

    Raises
    ------
    OSError
        On failure; an existing file is left unchanged.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from remat_algos.allocate.sharing import separate_storage
    >>> file = Path(mkdtemp()) / "pair.csv"
    >>> write_allocation(separate_storage(Buffers([0, 1], [2, 3], [64, 32], names=("x", "y"))), file)
    >>> file.read_text()
    'id,lower,upper,size,offset\\nx,0,2,64,0\\ny,1,3,32,64\\n'
    """
    buffers = allocation.buffers
    names = buffers.names or range(len(buffers))
    numbers = (array.tolist() for array in (buffers.begin, buffers.end, buffers.size, allocation.offset))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, "offset"])
    writer.writerows(zip(names, *numbers, strict=True))
    write_whole(Path(path), out.getvalue().encode())


def read_columns(path: str | os.PathLike[str], known: Known, required: Sequence[str] = ()) -> ColumnTable:
    """The cells of a CSV file under the columns that are known; AllocationError if it is none."""
    try:
        return read_table(read_text(path), Path(path).name, known, required)
    except GraphError as error:
        raise AllocationError(str(error)) from error


def _numbers(table: ColumnTable, column: str) -> Sequence[int]:
    """Whole numbers from 0 to below 2**53."""
    numbers = []
    for row, text in enumerate(table.texts(column)):
        whole = text.isascii() and text.isdecimal()
        if not (whole and len(text.lstrip("0")) < 17 and int(text) < LARGEST_SUM):
            name = table.texts("id")[row]
            buffer = f"buffer {shortened(name)!r}"
            fault = f"{column} of {buffer} is {shortened(text)!r}" if text else f"{buffer} has no {column}"
            expected = "one below 2**53" if whole else "a whole number, 0 or more"
            raise AllocationError(f"{table.where(row)}: {fault}; write {expected}")
        numbers.append(int(text))
    return numbers
