"""Lines of text, labels and tables that fit a terminal, whatever texts files contain."""

import re
from collections.abc import Iterable, Sequence

from remat_algos.wording import printable

COLUMNS = 80  # of the narrowest terminal that text is made for
GAP = "  "  # between columns
WORD = re.compile(r"[^&?]*[&?](?=\w)|.+")  # parts of a long word: the options of `model:NAME?a=1&b=2`
AMOUNT = re.compile(r"(-?[0-9][0-9.,]*( ?(%|[KMGTPE]?i?B|[kMGTPE]|[kMGTPE]?FLOP|[nmu]?s))?)?")  # cells of numbers


def wrapped(text: str, width: int = COLUMNS, *, first: str = "", indent: str = "", options: bool = False) -> list[str]:
    """Lines of at most `width` characters, broken between words only; a longer word has a line of its own.

    With `options` a longer word is also broken after `?` and `&`. Characters that would move the cursor or colour the
    terminal are spelled out.

    Examples
    --------
    >>> wrapped("at the peak: conv1, relu1", 16, indent="  ")
    ['at the peak:', '  conv1, relu1']
    >>> wrapped("model:resnet?depth=14&batch=8", 24, options=True)
    ['model:resnet?depth=14&', 'batch=8']
    """
    lines, line, begun = [], printable(first), False
    for word in printable(text).split(" "):
        parts = WORD.findall(word) if options and len(word) > width else [word]
        for gap, part in zip((" ", *[""] * len(parts)), parts, strict=False):
            if begun and len(line) + len(gap) + len(part) > width:
                lines.append(line.rstrip())
                line, begun = indent, False
            line, begun = f"{line}{gap}{part}" if begun else line + part, begun or bool(part)
    return [*lines, line.rstrip()]


def _narrowest(word: str, limit: int) -> int:
    """Columns that a word of a table needs: above `limit` it is broken after `?` and `&`."""
    return len(word) if len(word) <= limit else max(limit, *map(len, WORD.findall(word)))


def labelled(rows: Iterable[tuple[str, str]], width: int = COLUMNS) -> list[str]:
    """Lines of two columns, labels and their texts; a long text goes on below its beginning.

    Examples
    --------
    >>> print("\\n".join(labelled([("peak", "19 MiB, limit 20 MiB"), ("compute", "161")], 20)))
    peak     19 MiB,
             limit 20
             MiB
    compute  161
    """
    rows = [(printable(label), text) for label, text in rows]
    margin = max((len(label) for label, _ in rows), default=0) + 2
    return [
        line for label, text in rows for line in wrapped(text, width, first=label.ljust(margin), indent=" " * margin)
    ]


def tabulated(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = COLUMNS) -> list[str]:
    """Lines of a table, columns of numbers to the right.

    Words stay whole, except that one of more than half the width is broken after its `?` and `&`.
    A table that is too wide gets headings of several lines, then texts of several lines; at last it is cut between
    columns into tables below each other, each beginning with the first column.

    Examples
    --------
    >>> print("\\n".join(tabulated(("solver", "extra runs"), [("no_remat", "0"), ("chen_sqrt", "12")], width=16)))
               extra
    solver      runs
    no_remat       0
    chen_sqrt     12
    """
    columns = [printable(head) for head in columns]
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    numeric = [all(AMOUNT.fullmatch(row[i]) for row in cells) for i in range(len(columns))]
    at_least, widths = [], []
    for i, head in enumerate(columns):
        texts = [row[i] for row in cells]
        longest = max(map(len, texts), default=0)
        words = (_narrowest(word, width // 2) for text in texts for word in text.split())
        word = longest if numeric[i] else max(words, default=0)
        head_word = max(map(len, head.split()), default=0)
        at_least.append(max(head_word, word))
        widths.append(max(longest, len(head)))
    if _line_width(widths) > width:  # headings first
        widths = [max(at_least[i], max((len(row[i]) for row in cells), default=0)) for i in range(len(columns))]
    while _line_width(widths) > width and any(map(int.__gt__, widths, at_least)):
        widest = max(range(len(widths)), key=lambda i: (widths[i] > at_least[i], widths[i]))
        widths[widest] -= 1
    lines: list[str] = []
    for part in _parts(widths, width):
        lines += [""] if lines else []
        lines += _row_lines([columns[i] for i in part], part, widths, numeric, bottom=True)
        for row in cells:
            lines += _row_lines([row[i] for i in part], part, widths, numeric)
    return lines


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns that are side by side in each part: all, or as many as fit beside the first."""
    parts = [[0]]
    for i in range(1, len(widths)):
        if len(parts[-1]) > 1 and _line_width([widths[j] for j in (*parts[-1], i)]) > width:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _row_lines(
    row: Sequence[str], part: Sequence[int], widths: Sequence[int], numeric: Sequence[bool], *, bottom: bool = False
) -> list[str]:
    """Return the lines of one row; shorter texts fill the first lines, or the last."""
    texts = [wrapped(cell, widths[i], options=True) for cell, i in zip(row, part, strict=True)]
    height = max(map(len, texts))
    lines = []
    for k in range(height):
        line = []
        for text, i in zip(texts, part, strict=True):
            place = k - (height - len(text) if bottom else 0)
            cell = text[place] if 0 <= place < len(text) else ""
            line.append(cell.rjust(widths[i]) if numeric[i] else cell.ljust(widths[i]))
        lines.append(GAP.join(line).rstrip())
    return lines
