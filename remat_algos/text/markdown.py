"""Tables in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence

BAR = r"\|"  # an escaped bar within cells


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a table; columns for which `right` is true are right-aligned."""
    yield _line(columns)
    yield _line(["---:" if each else "---" for each in right])
    yield from map(_line, rows)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def code(name: str) -> str:
    """Return a name as inline code; the delimiter is longer than any sequence of backticks in the name."""
    fence = "`" * (max(map(len, re.findall("`+", name)), default=0) + 1)
    room = " " * (name.startswith("`") or name.endswith("`"))
    return f"{fence}{room}{name}{room}{fence}"
