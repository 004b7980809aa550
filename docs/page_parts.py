"""What scripts write into pages: tables, and the parts between `<!-- NAME -->` and `<!-- end NAME -->`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def line(cells: Iterable[object]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def table(heads: Sequence[str], rows: Iterable[Iterable[object]], rules: Sequence[str] | None = None) -> str:
    """A table in Markdown; `rules` are the cells below the heads, "--:" for a column aligned to the right."""
    return "\n".join(map(line, [heads, rules or ["---"] * len(heads), *rows]))


def part(name: str) -> re.Pattern[str]:
    """The pattern of the lines of a part."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end {name} -->)", re.DOTALL)


def filled(text: str, name: str, lines: str) -> str:
    """The text of a page with other lines in one part, which is there once."""
    text, count = part(name).subn(lambda _: lines, text)
    if count != 1:
        raise ValueError(f"the page has {count} parts {name!r}")
    return text


def solver_page(name: str) -> str:
    """The file in docs/solvers that has a heading with the name of a solver."""
    pages = sorted((Path(__file__).parent / "solvers").glob("*.md"))
    return next(page.name for page in pages if re.search(rf"^#+ {name}$", page.read_text("utf-8"), re.MULTILINE))


def fill(page: Path, name: str, lines: str) -> None:
    """Write other lines into a part of a page."""
    page.write_text(filled(page.read_text("utf-8"), name, lines), "utf-8")
