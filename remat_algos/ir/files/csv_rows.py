"""Lines of a CSV text under its header, with messages that name file, line and node."""

import csv
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.ir.tables import Number
from remat_algos.ir.units import parse_bytes

FLAGS = {"": None, "0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
MARKS = {"": 0, "0": 0, "keep": 1, "1": 1, "recompute": 2, "2": 2}


@dataclass(slots=True)
class Row:
    """One line of a table; cells are asked for by column."""

    table: "Table"
    line: int
    cells: Sequence[str]

    @property
    def where(self) -> str:
        return f"{self.table.source}, line {self.line}"

    def fail(self, message: str) -> NoReturn:
        raise GraphError(f"{self.where}: {message}")

    def text(self, column: str) -> str:
        place = self.table.place.get(column)
        return self.cells[place].strip() if place is not None else ""

    def flag(self, column: str) -> bool | None:
        given = self.text(column).lower()
        if given not in FLAGS:
            self.fail(f"{column} is {given!r}; write 0 or 1")
        return FLAGS[given]

    def mark(self) -> int:
        given = self.text("mark").lower()
        if given not in MARKS:
            self.fail(f"mark is {given!r}; write keep, recompute or nothing")
        return MARKS[given]

    def number(self, column: str, default: Any = None, read: Callable[[str], Number] | None = None) -> Any:
        """A whole or decimal number; `read` takes what is neither."""
        given = self.text(column)
        if not given:
            return default
        try:
            return int(given)
        except ValueError:
            pass
        try:
            found = Decimal(given)
            if found.is_finite():
                return found
        except InvalidOperation:
            if read is not None:
                try:
                    return read(given)
                except ValueError as error:
                    self.fail(f"{column} of {self.name!r}: {error}")
        self.fail(f"{column} of {self.name!r} is {given!r}; write a number")

    def size(self, column: str, default: Any = None) -> Any:
        """Bytes, with a unit if wanted."""
        return self.number(column, default, parse_bytes)

    @property
    def name(self) -> str:
        return self.text("name") or self.text("id") or self.text("node")


class Table:
    """The lines of a CSV text under its header."""

    def __init__(self, text: str, source: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        self.source = source
        self.lines = csv.reader(io.StringIO(text), strict=True)
        header = [cell.strip() for cell in next(self._read(), (0, []))[1]]
        if not header:
            raise GraphError(f"{source}: the file is empty; its first line must name the columns")
        known = {alias: column for column, aliases in columns.items() for alias in (column, *aliases)}
        self.place: dict[str, int] = {}
        for place, cell in enumerate(header):
            column = known.get(cell)
            if column in self.place:
                raise GraphError(f"{source}, line 1: column {column} stands twice; keep one")
            if column is not None:
                self.place[column] = place
        self.width = len(header)
        unknown = [cell for cell in header if cell not in known]
        if unknown:
            warnings.warn(f"{source}: ignored columns {', '.join(unknown)}", GraphWarning, stacklevel=2)

    def _read(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for cells in self.lines:
                if cells:
                    yield self.lines.line_num, cells
        except csv.Error as error:
            raise GraphError(f"{self.source}, line {self.lines.line_num}: not a CSV line ({error})") from error

    def rows(self) -> Iterator[Row]:
        for line, cells in self._read():
            if len(cells) != self.width:
                raise GraphError(
                    f"{self.source}, line {line}: {len(cells)} cells under {self.width} columns; is the file whole?"
                )
            yield Row(self, line, cells)

    def require(self, *columns: str) -> None:
        for column in columns:
            if column not in self.place:
                raise GraphError(f"{self.source}, line 1: there is no column {column}; add it")
