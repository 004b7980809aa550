"""A CSV text under its header, column by column, with messages that name file, line and node."""

import csv
import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.ir.decimals import decimal
from remat_algos.ir.tables import Number
from remat_algos.ir.units import parse_bytes

FLAGS = {"": None, "0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
MARKS = {"": 0, "0": 0, "keep": 1, "1": 1, "recompute": 2, "2": 2}

LONGEST = 4000  # digits that int() takes


class Table:
    """The cells of a CSV text, by column; columns that are not known are ignored with one notice.

    Parameters
    ----------
    text, source : str
        The text, and the file's name for messages.
    columns : mapping of str to tuple of str
        The columns that are known, each with its aliases.
    """

    def __init__(self, text: str, source: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        self.source = source
        rows, self.lines = self._rows(text)
        if not rows:
            raise GraphError(f"{source}: the file is empty; its first line must name the columns")
        header = [cell.strip() for cell in rows.pop(0)]
        del self.lines[0]
        known = {alias: column for column, aliases in columns.items() for alias in (column, *aliases)}
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            raise GraphError(f"{source}, line 1: the cells are not separated by commas; save the table with commas")
        unknown = [cell for cell in header if cell not in known]
        if unknown:
            warnings.warn(f"{source}: ignored columns {', '.join(unknown)}", GraphWarning, stacklevel=2)
        if set(map(len, rows)) - {len(header)}:
            row = next(row for row, cells in enumerate(rows) if len(cells) != len(header))
            self.fail(row, f"{len(rows[row])} cells under {len(header)} columns; is the file whole?")
        self.columns: dict[str, list[str]] = {}
        for place, cell in enumerate(header):
            if cell not in known:
                continue
            if known[cell] in self.columns:
                raise GraphError(f"{source}, line 1: column {known[cell]} stands twice; keep one")
            self.columns[known[cell]] = [cells[place].strip() for cells in rows]

    def _rows(self, text: str) -> tuple[list[list[str]], list[int]]:
        """The rows that are not blank, and the line on which each ends."""
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows, lines = [], []
        try:
            for cells in reader:
                rows.append(cells)
                lines.append(reader.line_num)
        except csv.Error as error:
            raise GraphError(f"{self.source}, line {reader.line_num}: not a CSV line ({error})") from error
        if [] in rows:
            lines = [line for line, cells in zip(lines, rows, strict=True) if cells]
            rows = [cells for cells in rows if cells]
        return rows, lines

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def require(self, *columns: str) -> None:
        """GraphError unless the columns are there."""
        for column in columns:
            if column not in self.columns:
                raise GraphError(f"{self.source}, line 1: there is no column {column}; add it")

    def where(self, row: int) -> str:
        """File and line of a row, for messages."""
        return f"{self.source}, line {self.lines[row]}"

    def fail(self, row: int, message: str) -> NoReturn:
        """GraphError at a row."""
        raise GraphError(f"{self.where(row)}: {message}")

    def texts(self, column: str) -> list[str]:
        """Cells without the white space around them; empty where there is no such column."""
        return self.columns.get(column) or [""] * len(self)

    def flags(self, column: str) -> list[bool | None]:
        """0 and 1, and the words for them; None for empty cells."""
        return self._looked_up(column, FLAGS, "write 0 or 1")

    def marks(self) -> list[int]:
        """keep and recompute, as numbers."""
        return self._looked_up("mark", MARKS, "write keep, recompute or nothing")

    def numbers(self, column: str, default: Any = None) -> list[Any]:
        """Whole numbers and decimals; the default for empty cells."""
        return self._numbers(column, default, None)

    def sizes(self, column: str, default: Any = None) -> list[Any]:
        """Bytes, with a unit if wanted; the default for empty cells."""
        return self._numbers(column, default, parse_bytes)

    def _looked_up(self, column: str, meanings: Mapping[str, Any], remedy: str) -> list[Any]:
        if column not in self.columns:
            return [meanings[""]] * len(self)
        found = [meanings.get(text.lower(), meanings) for text in self.columns[column]]
        if meanings in found:
            row = found.index(meanings)
            self.fail(row, f"{column} of {self._name(row)!r} is {self.columns[column][row]!r}; {remedy}")
        return found

    def _numbers(self, column: str, default: Any, read: Callable[[str], Number] | None) -> list[Any]:
        if column not in self.columns:
            return [default] * len(self)
        texts = self.columns[column]
        joined = "".join(texts)
        try:
            if "_" in joined or not joined.isascii():  # int() takes more than we do
                raise ValueError
            return [int(text) if text else default for text in texts]
        except ValueError:  # a decimal or a unit among them
            return [self._number(row, column, default, read) for row in range(len(self))]

    def _number(self, row: int, column: str, default: Any, read: Callable[[str], Number] | None) -> Any:
        text = self.columns[column][row]
        if not text:
            return default
        try:
            if "_" in text or not text.isascii():
                raise ValueError
            return int(text) if text.lstrip("-").isdigit() and len(text) < LONGEST else decimal(text)
        except ValueError:
            try:
                if read is not None:
                    return read(text)
            except ValueError as error:
                self.fail(row, f"{column} of {self._name(row)!r}: {error}")
        self.fail(row, f"{column} of {self._name(row)!r} is {text[:40]!r}; write a number")

    def _name(self, row: int) -> str:
        return next(
            (self.columns[c][row] for c in ("name", "id", "node", "dst") if c in self and self.columns[c][row]), ""
        )
