"""CSV tables of operations that work in place, and of values that are written over others."""

import os

from remat_algos.arguments import checked_arguments
from remat_algos.errors import AllocationError
from remat_algos.formats.buffer_tables import read_columns
from remat_algos.text.wording import quoted, shortened


@checked_arguments
def read_in_place(path: str | os.PathLike[str]) -> dict[str, int | tuple[int, ...] | str | None]:
    """A table for `find_overwrites` from a CSV file of columns op and read, or value and over, or all four.

    Parameters
    ----------
    path : path
        In a row `op,read` the read is a place from 0, or `none`; several rows of an operation are tried in their order.
        In a row `value,over` both are names of values.

    Returns
    -------
    dict

    Raises
    ------
    AllocationError
        One sentence with file, line and remedy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "in_place.csv"
    >>> _ = file.write_text("op,read,value,over\\nMultiply,1,,\\nMultiply,0,,\\nReLU,none,,\\n,,fc2,fc1\\n")
    >>> read_in_place(file)
    {'Multiply': (1, 0), 'ReLU': None, 'fc2': 'fc1'}
    """
    cells = read_columns(path, {"op": (), "read": (), "value": (), "over": ()})
    table: dict[str, int | tuple[int, ...] | str | None] = {}
    if not ({"op", "read"} <= cells.columns.keys() or {"value", "over"} <= cells.columns.keys()):
        pairs, header = "`op` and `read`, or `value` and `over`", ", ".join(map(shortened, cells.header))
        raise AllocationError(f"{cells.source}, line 1: missing columns {pairs} (found: {header})")
    rows = zip(*(cells.texts(column) for column in ("op", "read", "value", "over")), strict=True)
    for row, (op, read, value, over) in enumerate(rows):
        name, where = op or value, cells.where(row)
        if bool(op or read) == bool(value or over) or not name:
            raise AllocationError(f"{where}: a row has an op and its read, or a value and what it is written over")
        if value and not over:
            raise AllocationError(f"{where}: {quoted(value)} is written over nothing; name a value under over")
        if op and read.lower() != "none" and not (read.isascii() and read.isdecimal() and len(read) < 10):
            raise AllocationError(f"{where}: read of {quoted(op)} is {quoted(read)}; write a place from 0, or none")
        place = None if value or read.lower() == "none" else int(read)
        before = table.get(name)
        places = (before,) if isinstance(before, int) else before
        if name not in table:
            table[name] = over if value else place
        elif place is None or not isinstance(places, tuple) or place in places:
            raise AllocationError(
                f"{where}: {quoted(name)} is there already; give each value or place one row, none alone"
            )
        else:
            table[name] = (*places, place)
    return table
