"""Tables in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence

BAR = r"\|"  # in cells, even in code


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a table; columns where `right` is true are right-aligned."""
    yield _line(columns)
    yield _line(["---:" if each else "---" for each in right])
    yield from map(_line, rows)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def code(name: str) -> str:
    """Return a name as inline code, with more backticks than it contains in a row."""
    fence = "`" * (max(map(len, re.findall("`+", name)), default=0) + 1)
    room = " " * (name.startswith("`") or name.endswith("`"))
    return f"{fence}{room}{name}{room}{fence}"
