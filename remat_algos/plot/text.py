"""Lines of plain text that fit a terminal."""

import textwrap
from collections.abc import Iterable

from remat_algos.text.wording import printable

MIN_WIDTH = 40


def fitted(text: str, width: int) -> str:
    """A name of exactly `width` columns: shortened in the middle, or filled with spaces.

    Examples
    --------
    >>> fitted("encoder.attention", 9), fitted("fc", 4)
    ('enco…tion', 'fc  ')
    """
    from rich.cells import cell_len, set_cell_size

    text = printable(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    head = width // 2
    return f"{set_cell_size(text, head)}…{set_cell_size(text[::-1], width - head - 1)[::-1]}"


def columns_of(names: Iterable[str], limit: int) -> int:
    """Columns of the longest name, at most `limit`."""
    from rich.cells import cell_len

    return min(limit, max((cell_len(name) for name in names), default=0))


def wrapped(text: str, width: int) -> list[str]:
    """A sentence as lines."""
    return textwrap.wrap(printable(text), width)


def wrapped_all(sentences: Iterable[str], width: int) -> list[str]:
    """Sentences as lines; each begins a line."""
    return [line for sentence in sentences for line in wrapped(sentence, width)]
