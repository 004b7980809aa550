"""CSV tables for allocation: buffers (id, lower, upper, size, arena, offset), and in-place operations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.arenas import SplitAllocation
from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import AllocationError, extended
from remat_algos.files import read_text, write_whole
from remat_algos.formats.columns import ColumnTable, fault, faults_as
from remat_algos.formats.csv_tables import read_table, table_text
from remat_algos.ir.arrays import LARGEST_SUM

COLUMNS = ("id", "lower", "upper", "size")
FIXED = ("offset", "arena")
REFUSED = {
    "alignment": "all buffers share one: set the largest (alignment=N of pack, or --alignment N) and remove the column",
    "gaps": "a buffer has its bytes from lower to upper: give each part its own row, or remove the column",
}
"""key: unsupported column of other tools, which would change the problem; value: remedy"""
MEANINGLESS = {"alignment": ("", "1"), "gaps": ("",)}
"""key: unsupported column; value: cells that have no effect and are accepted"""


@checked_arguments
def read_buffers(path: str | os.PathLike[str]) -> Buffers:
    """Read buffers from a CSV file: id, first step, end step (exclusive) and bytes.

    Parameters
    ----------
    path : path
        CSV file with the columns id, lower, upper and size, in any order. A number in the optional column offset fixes
        the first byte of the buffer in its arena; a number in the optional column arena fixes its arena.

    Returns
    -------
    Buffers
        Buffers in the order of the rows, named by their ids. In a file from `write_allocation` all addresses are fixed;
        remove its columns offset and arena to allocate the buffers again.

    Raises
    ------
    AllocationError
        If the file is invalid, or gives a buffer its own alignment or gaps.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "pair.csv"
    >>> _ = file.write_text("id,lower,upper,size\\nx,0,2,64\\ny,1,3,32\\n")
    >>> buffers = read_buffers(file)
    >>> buffers.names, buffers.max_live
    (('x', 'y'), 96)
    """
    with faults_as(AllocationError):
        columns = dict.fromkeys((*COLUMNS, *FIXED, *REFUSED), ())
        return _buffers(read_table(read_text(path), Path(path).name, columns, COLUMNS))


def _buffers(table: ColumnTable) -> Buffers:
    ids = table.texts("id")
    lower, upper, size = (_numbers(table, column) for column in COLUMNS[1:])
    offset, arena = (_numbers(table, column, optional=True) for column in FIXED)
    lines: dict[str, int] = {}
    for row, (name, begin, end) in enumerate(zip(ids, lower, upper, strict=True)):
        if not name:
            table.fail(row, "the buffer has no id; give it one")
        if name in lines:
            twice = "id {name!r} is already on line {first}; rename one of them"
            table.fail(row, twice, name=name, first=lines[name])
        if end <= begin:
            empty = "buffer {name!r}, {begin} to {end}, ends "
            empty += "before it begins" if end < begin else "with its first step"
            empty += "; upper must be above lower: it is the first step without the buffer"
            table.fail(row, empty, name=name, begin=begin, end=end)
        lines[name] = table.line(row)
    if sum(size) >= LARGEST_SUM:
        raise fault(table.source, "the sizes add up to 2**53 or more; give them in a coarser unit")
    for column, remedy in REFUSED.items():
        for row, text in enumerate(table.texts(column)):
            if text not in MEANINGLESS[column]:
                refused = "{column} of buffer {name!r} is {cell!r}; {remedy!w}"
                table.fail(row, refused, column=column, name=ids[row], cell=text, remedy=remedy)
    try:
        return Buffers(lower, upper, size, names=tuple(ids), offset=offset, arena=arena)  # type: ignore[arg-type]  # the constructor makes arrays
    except AllocationError as error:
        raise extended(error, "{source!p}: ", source=table.source) from error


@checked_arguments
def write_allocation(allocation: Allocation | SplitAllocation, path: str | os.PathLike[str]) -> None:
    """Write buffers with their addresses; on failure nothing is written.

    Parameters
    ----------
    allocation : Allocation or SplitAllocation
    path : path
        CSV file with the columns id, lower, upper, size and offset, and arena if there are several. Buffers without
        names get numbers. A buffer that is overwritten in place ends where the overwriting buffer begins.

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
    check_kind(allocation, Allocation, "allocation", SplitAllocation)
    buffers = allocation.buffers
    names = buffers.names or range(len(buffers))
    arena = {"arena": allocation.arena} if isinstance(allocation, SplitAllocation) else {}
    columns = dict(zip(COLUMNS[1:], (buffers.begin, buffers.release_step, buffers.size), strict=True))
    columns |= {**arena, "offset": allocation.offset}
    rows = zip(names, *(array.tolist() for array in columns.values()), strict=True)
    write_whole(Path(path), table_text(["id", *columns], rows).encode())


@checked_arguments
def read_in_place(path: str | os.PathLike[str]) -> dict[str, int | tuple[int, ...] | str | None]:
    """Read the in-place operations for `find_overwrites` from a CSV file.

    Parameters
    ----------
    path : path
        CSV with the columns op and read, value and over, or all four. In a row `op,read`, read is the position (from 0)
        of an input that the operation may overwrite, or `none`; several rows of an operation are tried in their
        order. A row `value,over` contains two names of values: the first must overwrite the second.

    Returns
    -------
    dict

    Raises
    ------
    AllocationError
        If the file is invalid.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "in_place.csv"
    >>> _ = file.write_text("op,read,value,over\\nMultiply,1,,\\nMultiply,0,,\\nReLU,none,,\\n,,fc2,fc1\\n")
    >>> read_in_place(file)
    {'Multiply': (1, 0), 'ReLU': None, 'fc2': 'fc1'}
    """
    with faults_as(AllocationError):
        return _in_place(read_table(read_text(path), Path(path).name, {"op": (), "read": (), "value": (), "over": ()}))


def _in_place(cells: ColumnTable) -> dict[str, int | tuple[int, ...] | str | None]:
    table: dict[str, int | tuple[int, ...] | str | None] = {}
    if not ({"op", "read"} <= cells.columns.keys() or {"value", "over"} <= cells.columns.keys()):
        missing = "missing columns `op` and `read`, or `value` and `over` (found: {header!l})"
        raise fault(cells.source, missing, 1, header=list(cells.header))
    rows = zip(*(cells.texts(column) for column in ("op", "read", "value", "over")), strict=True)
    for row, (op, read, value, over) in enumerate(rows):
        name = op or value
        if bool(op or read) == bool(value or over) or not name:
            cells.fail(row, "expected an op and its read, or a value and the value that it overwrites")
        if value and not over:
            cells.fail(row, "{value!r} has nothing in column over; name the value that it overwrites", value=value)
        if op and read.lower() != "none" and not (read.isascii() and read.isdecimal() and len(read) < 10):
            cells.fail(row, "read of {op!r} is {read!r}; write a position, counted from 0, or none", op=op, read=read)
        place = None if value or read.lower() == "none" else int(read)
        before = table.get(name)
        places = (before,) if isinstance(before, int) else before
        if name not in table:
            table[name] = over if value else place
        elif place is None or not isinstance(places, tuple) or place in places:
            repeated = "{name!r} already has a row; give one row per value or position, or a single row with none"
            cells.fail(row, repeated, name=name)
        else:
            table[name] = (*places, place)
    return table


def _numbers(table: ColumnTable, column: str, *, optional: bool = False) -> Sequence[int]:
    numbers = []
    for row, text in enumerate(table.texts(column)):
        if optional and text in ("", "-1"):
            numbers.append(-1)
            continue
        whole = text.isascii() and text.isdecimal()
        if not (whole and len(text.lstrip("0")) < 17 and int(text) < LARGEST_SUM):
            wrong = "{column} of buffer {name!r} is {cell!r}" if text else "buffer {name!r} has no {column}"
            expected = "one below 2**53" if whole else "a whole number, 0 or more"
            expected += ", or nothing for any" if optional else ""
            fields = {"column": column, "name": table.texts("id")[row], "cell": text, "expected": expected}
            table.fail(row, wrong + "; write {expected!w}", **fields)
        numbers.append(int(text))
    return numbers
