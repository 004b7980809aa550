"""The pages of reproductions: paragraphs, tables and figures."""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remat_algos import plot
from remat_algos.files import write_all
from remat_algos.formats.csv_tables import table_text
from remat_algos.text.markdown import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 120
NAME = re.compile(r"\{(\w+)\}")  # in a template
# A space before a word that MyST reads as a comment, an item, a quotation or a heading at the start of a line.
LINE_MARK = re.compile(r" (?=%|[-+*>=] |#+ |\d+[.)] )")
JOIN = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures.

    Parameters
    ----------
    name : str
        Name of its file, PAPER_NAME.csv.
    title : str
    columns : mapping of str to callable
        The head of each column, and the format of its cells in text; a CSV file has the raw values.
    rows : sequence of tuple
        A cell for each column; None if empty.
    note : str
        A sentence or two below it.
    shown : bool
        False if the page has a link to the CSV file instead of the rows.

    Examples
    --------
    >>> table = Table("sizes", "Sizes", {"n": str, "share": "{:.0%}".format}, [(8, 0.25), (9, None)])
    >>> list(table.cells())
    [('8', '25%'), ('9', '')]
    >>> table.csv()
    'n,share\\n8,0.25\\n9,\\n'
    """

    name: str
    title: str
    columns: Mapping[str, Callable[[Any], str]]
    rows: Sequence[tuple[Any, ...]]
    note: str = ""
    shown: bool = True

    def cells(self) -> Iterator[tuple[str, ...]]:
        """The rows as text."""
        for row in self.rows:
            shown = zip(self.columns.values(), row, strict=True)
            yield tuple("" if cell is None else show(cell) for show, cell in shown)

    def csv(self) -> str:
        """The rows as numbers."""
        return table_text(list(self.columns), self.rows)

    def markdown(self) -> str:
        """A Markdown table; columns of numbers are right-aligned."""
        return "\n".join(markdown_table(tuple(self.columns), self.cells(), self._numeric()))

    def _numeric(self) -> list[bool]:
        return [
            all(isinstance(row[i], int | float) or row[i] is None for row in self.rows)
            for i in range(len(self.columns))
        ]


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture.

    Parameters
    ----------
    name : str
        Name of its file, PAPER_NAME.svg.
    title : str
    draw : callable
        Returns the axes of a new figure: a second layout of the same figure would differ in the last digits.
    caption : str
    """

    name: str
    title: str
    draw: Callable[[], Axes]
    caption: str

    def svg(self) -> bytes:
        """The picture, with the same bytes each time."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "figure.svg"
            plot.save(self.draw(), file)
            return file.read_bytes()


Part = str | Table | Figure
"""A part of a page: a paragraph or a heading, a table, a figure."""

Filling = str | Table | Figure | Sequence[Table | Figure] | None
"""The replacement of a name in a template."""


@dataclass(frozen=True, slots=True)
class Page:
    """The results of a paper, measured here.

    Parameters
    ----------
    paper : str
        Its key in docs/references.bib.
    title : str
    parts : sequence of str, Table and Figure
        Paragraphs of Markdown, each one line; one that begins with `#` is a heading.

    Examples
    --------
    >>> page = Page("chen2016", "Sublinear memory", ["All of it.", Table("sizes", "Sizes", {"n": str}, [(8,)])])
    >>> print(page.markdown())
    # chen2016: Sublinear memory
    <BLANKLINE>
    All of it.
    <BLANKLINE>
    **Sizes** ([CSV](chen2016_sizes.csv))
    <BLANKLINE>
    | n |
    | ---: |
    | 8 |
    <BLANKLINE>
    """

    paper: str
    title: str
    parts: Sequence[Part]

    @classmethod
    def of(cls, paper: str, values: Mapping[str, Filling]) -> Page:
        """The template of a paper, page.md in its folder, filled with `values` by name (see `filled`)."""
        template = (Path(__file__).parent / paper / "page.md").read_text(encoding="utf-8")
        title, *parts = filled(template, values)
        return cls(paper, str(title).removeprefix("# "), parts)

    @property
    def tables(self) -> list[Table]:
        """Its tables."""
        return [part for part in self.parts if isinstance(part, Table)]

    def file_of(self, part: Table | Figure) -> str:
        """Name of the file that holds a table or a figure."""
        return f"{self.paper}_{part.name}.{'csv' if isinstance(part, Table) else 'svg'}"

    def markdown(self) -> str:
        """The page as Markdown, with links to figures."""
        return "\n\n".join([f"# {self.paper}: {self.title}", *map(self._markdown_of, self.parts)]) + "\n"

    def _markdown_of(self, part: Part) -> str:
        if isinstance(part, str):
            return part if part.startswith("#") else wrapped(part)
        if isinstance(part, Figure):
            return f"![{part.title}]({self.file_of(part)})\n\n{wrapped(part.caption)}"
        if not part.shown:
            return wrapped(f"Table: [{part.title}]({self.file_of(part)}). {part.note}".strip())
        note = f"\n\n{wrapped(part.note)}" if part.note else ""
        return f"**{part.title}** ([CSV]({self.file_of(part)}))\n\n{part.markdown()}{note}"

    def files(self) -> dict[str, bytes]:
        """Name and contents of each file: the page, a CSV for each table, an SVG for each figure."""
        contents = {f"{self.paper}.md": self.markdown().encode()}
        for part in self.parts:
            if isinstance(part, Table):
                contents[self.file_of(part)] = part.csv().encode()
            elif isinstance(part, Figure):
                contents[self.file_of(part)] = part.svg()
        return contents

    def write(self, folder: Path) -> list[Path]:
        """Write all files into a folder, which is created if missing, or none of them; returns their paths."""
        contents = {folder / name: data for name, data in self.files().items()}
        folder.mkdir(exist_ok=True)
        write_all(contents)
        return list(contents)

    def record(self) -> dict[str, Any]:
        """The page for JSON: its tables, cells as numbers."""
        tables = [
            {
                "name": table.name,
                "title": table.title,
                "columns": list(table.columns),
                "rows": [list(row) for row in table.rows],
                "note": table.note,
            }
            for table in self.tables
        ]
        return {"paper": self.paper, "title": self.title, "tables": tables}


def filled(template: str, values: Mapping[str, Filling]) -> Iterator[Part]:
    """The headings and paragraphs of a template, with tables and figures for names that are a paragraph of their own.

    Parameters
    ----------
    template : str
        Markdown, with {names}. Blank lines separate paragraphs, whose lines are joined. A table whose name is in
        brackets, [{name}], is a link to its CSV file.
    values : mapping
        A value for each name, or several; a paragraph with a name whose value is None is left out.

    Examples
    --------
    >>> sizes = Table("sizes", "Sizes", {"n": str}, [(8,)])
    >>> template = "# Sizes\\n\\nAll {n}\\nof them.\\n\\n{sizes}\\n\\n[{sizes}]\\n\\n{more}\\n"
    >>> parts = list(filled(template, {"n": "8", "sizes": sizes, "more": None}))
    >>> parts[:2], [(table.name, table.shown) for table in parts[2:]]
    (['# Sizes', 'All 8 of them.'], [('sizes', True), ('sizes', False)])
    """
    for block in template.strip().split("\n\n"):
        names = NAME.findall(block)
        if any(values[name] is None for name in names):
            continue
        value = values[names[0]] if names and block.strip("[]") == f"{{{names[0]}}}" else None
        if value is None:
            yield NAME.sub(lambda name: str(values[name[1]]), " ".join(block.split("\n")))
            continue
        parts = [value] if isinstance(value, str | Table | Figure) else value
        for part in parts:
            yield replace(part, shown=block[0] != "[") if isinstance(part, Table) else part


def wrapped(text: str, width: int = WIDTH) -> str:
    """A paragraph or a list in lines of that width; no line begins with a mark that would end it or hide the line.

    Examples
    --------
    >>> print(wrapped("holds within 2 % and for A + B", 16))
    holds within 2 %
    and for A + B
    """
    joined = LINE_MARK.sub(JOIN, text)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, joined.split("\n"))).replace(JOIN, " ")


def gigabytes(amount: int) -> str:
    """Bytes as in the papers, in GB of 10^9 bytes, for comparison with their numbers.

    Examples
    --------
    >>> gigabytes(7_978_000_000), gigabytes(7_000_000_000), gigabytes(147_300_000_000)
    ('7.98 GB', '7.0 GB', '147 GB')
    """
    return f"{in_gigabytes(amount)} GB"


def in_gigabytes(amount: int) -> str:
    """Bytes as a number of GB without the unit, which then follows several numbers once.

    Examples
    --------
    >>> in_gigabytes(412_000_000)
    '0.412'
    """
    number = f"{amount / 1e9:.0f}" if amount >= 100 * 10**9 else f"{amount / 1e9:.3g}"
    return number if "." in number or len(number) > 2 else f"{number}.0"


def percent(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> percent(0.3)
    '30.0 %'
    """
    return f"{100 * share:.1f} %"
