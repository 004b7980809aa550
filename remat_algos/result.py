"""The base class of results: their text, notebook view and JSON record are made from rows and entries."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.files import write_whole
from remat_algos.hooks import html
from remat_algos.ir.arrays import brief, by_fields
from remat_algos.wording import folded, labelled, printable, tabulated

NOTHING = ("", "0")

UNIT = "graph.labels.compute_unit graph.labels.compute_scale"


def entries(subject: object, names: str) -> dict[str, Any]:
    """Return entries of a JSON record for names of attributes, such as "peak_memory node=graph.node".

    The name `node=graph.node` stores `subject.graph.node` under the key "node". Arrays and tuples become lists, and
    objects with a record become their record.
    """
    record = {}
    for name in names.split():
        key, _, path = name.rpartition("=")
        record[key or path.rpartition(".")[2]] = _plain(attrgetter(path)(subject))
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    return value.record() if hasattr(value, "record") else value


class Result:
    """A result that can be shown as text and as a JSON record.

    The text consists of `heading`, a table of `rows` under `columns`, and `notes`. Without columns, each row is a label
    and its text. `ENTRIES` lists the entries of the record.
    """

    __slots__ = ()

    ENTRIES: ClassVar[str] = ""
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    __reduce__ = by_fields
    _repr_html_ = html

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return self.COLUMNS

    def heading(self) -> Iterable[str]:
        """Return the lines above the rows."""
        return ()

    def rows(self) -> Iterable[Sequence[str]]:
        """Return the cells under `columns` or, without columns, pairs of a label and its text."""
        return ()

    def notes(self) -> Iterable[str]:
        """Return the lines below the rows."""
        return ()

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return entries(self, self.ENTRIES)

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON; a failed write leaves no partial file."""
        write_whole(Path(path), (json.dumps(self.record(), indent=1) + "\n").encode())

    def lines(self, *more: tuple[str, str]) -> list[str]:
        """Return lines of at most 80 columns, the pairs (label, text) in `more` last. Empty columns are omitted."""
        columns, rows = self.columns, [*self.rows()]
        if columns:
            shown = [i for i in range(len(columns)) if any(row[i] not in NOTHING for row in rows)]
            table = tabulated([columns[i] for i in shown], [[row[i] for i in shown] for row in rows]) if rows else []
            below = labelled(more)
        else:
            table, below = labelled((label, text) for label, text in (*rows, *more)), []
        above, notes = (
            [line for text in part for line in folded(printable(text))] for part in (self.heading(), self.notes())
        )
        return [*above, *table, *notes, *below]

    def __str__(self) -> str:
        return "\n".join(self.lines()) or repr(self)


@dataclass(frozen=True, slots=True, eq=False)
class Summary(Result):
    """The output of a command without a result class of its own: a JSON record, and rows (label, text)."""

    entries: Mapping[str, Any]
    labelled: Sequence[tuple[str, str]] = ()

    __repr__ = brief

    def rows(self) -> Iterable[tuple[str, str]]:
        return self.labelled

    def record(self) -> dict[str, Any]:
        return dict(self.entries)
