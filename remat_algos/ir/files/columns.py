"""Rows as texts under the names of columns, with messages that name the file and the place."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.ir.decimals import decimal
from remat_algos.ir.tables import Number
from remat_algos.ir.units import parse_bytes
from remat_algos.ir.wording import shortened

FLAGS = {"": None, "0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
MARKS = {"": 0, "0": 0, "keep": 1, "1": 1, "recompute": 2, "2": 2}

LONGEST = 4000  # digits that int() takes

Known = Mapping[str, tuple[str, ...]]
"""Columns, each with its aliases."""


class Table:
    """The cells of some rows, by column.

    Parameters
    ----------
    source : str
        The file's name, for messages.
    columns : mapping of str to list of str
        Cells without white space around them, "" where nothing is said.
    lines : list of int, optional
        Where each row stands in the file; without them messages name the row.
    noun : str
        What a row is called.
    """

    def __init__(
        self, source: str, columns: Mapping[str, list[str]], lines: list[int] | None = None, noun: str = "row"
    ) -> None:
        self.source, self.columns, self.noun = source, columns, noun
        self.length = len(lines) if lines is not None else max(map(len, columns.values()), default=0)
        self.lines = lines

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, str]], source: str, known: Known, noun: str) -> "Table":
        """What the records say in the columns that are known."""
        found = {key for record in records for key in record}
        return cls(
            source,
            {column: [record.get(column, "").strip() for record in records] for column in known if column in found},
            noun=noun,
        )

    def __len__(self) -> int:
        return self.length

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def require(self, *columns: str) -> None:
        """GraphError unless the columns are there."""
        for column in columns:
            if column not in self.columns:
                raise GraphError(f"{self.source}, line 1: there is no column {column}; add it")

    def line(self, row: int) -> int:
        """The line of a row, 0 if it has none."""
        return self.lines[row] if self.lines is not None else 0

    def where(self, row: int) -> str:
        """File and place of a row, for messages."""
        if self.lines is not None:
            return f"{self.source}, line {self.lines[row]}"
        name = " -> ".join(repr(self.columns[c][row]) for c in ("src", "dst") if c in self) or repr(self._name(row))
        return f"{self.source}, {self.noun} {name}"

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
            self.fail(row, f"{column} of {shortened(self._name(row))!r} is {self.columns[column][row]!r}; {remedy}")
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
                self.fail(row, f"{column} of {shortened(self._name(row))!r}: {error}")
        self.fail(row, f"{column} of {shortened(self._name(row))!r} is {shortened(text)!r}; write a number")

    def _name(self, row: int) -> str:
        return next(
            (self.columns[c][row] for c in ("name", "id", "node", "dst") if c in self and self.columns[c][row]), ""
        )


def aliases(known: Known) -> dict[str, str]:
    """Every name of a column, to the column."""
    return {alias: column for column, others in known.items() for alias in (column, *others)}


def say_ignored(source: str, names: Iterable[str], what: str = "columns") -> None:
    """One notice of the columns that mean nothing here."""
    ignored = ", ".join(dict.fromkeys(names))
    if ignored:
        warnings.warn(f"{source}: ignored {what} {ignored}", GraphWarning, stacklevel=2)
