"""Text pictures for terminals."""

import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int64
from remat_algos.plot import tuning
from remat_algos.plot.colours import Style
from remat_algos.wording import printable

# The module of each picture NAME also contains a function NAME_text.
PICTURES = (
    *("memory", "schedule", "graph", "matrix", "frontier", "bounds", "breakdown", "decomposition", "addresses"),
    *("timeline", "validation", "profiles", "overheads", "solve_times"),
)


@checked_arguments
def text(picture: str, subject: Any, *, width: int = 72, **options: Any) -> str:
    """Return a text picture for a terminal.

    Parameters
    ----------
    picture : str
        Name of a function of `ra.plot`: memory, schedule, graph, matrix, frontier, bounds, breakdown, decomposition,
        addresses, timeline, validation, profiles, overheads or solve_times.
    subject : object
        First argument of that function.
    width : int
        Columns, at least 40.
    **options
        All options of the function except `ax`. In addition, `height` is the number of rows or lines, at least 4. For
        a frontier, `height` is the number of lines per solver, at least 2.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If there is no such text picture.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[4, 2, 1])
    >>> print(text("graph", chain))
    3 nodes; 2 reads
    peak 6 B without rematerialization
    █ 3 node
      node    bytes  reads
    █ A         4 B
    █ B         2 B  A
    █ C         1 B  B
    """
    import remat_algos.plot as plot

    if picture not in PICTURES:
        raise ArgumentError(
            "there is no text picture {picture!r}; use one of {pictures!l}", picture=picture, pictures=list(PICTURES)
        )
    module = sys.modules[getattr(plot, picture).__module__]
    lines: list[str] = getattr(module, f"{picture}_text")(subject, width=max(width, tuning.MIN_WIDTH), **options)
    return "\n".join(lines)


def fitted(text: str, width: int) -> str:
    """Shorten a name in the middle, or pad it with spaces, to exactly `width` columns."""
    from rich.cells import cell_len, set_cell_size

    text = printable(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    head = width // 2
    return f"{set_cell_size(text, head)}…{set_cell_size(text[::-1], width - head - 1)[::-1]}"


def columns_of(names: Iterable[str], limit: int) -> int:
    """Return the number of columns of the longest name, at most `limit`."""
    from rich.cells import cell_len

    return min(limit, max((cell_len(name) for name in names), default=0))


def wrapped(sentences: Iterable[str], width: int) -> list[str]:
    """Wrap sentences; each starts on a new line."""
    return [line for sentence in sentences for line in textwrap.wrap(printable(sentence), width)]


def legend(styles: Iterable[Style], width: int, more: Iterable[str] = ()) -> list[str]:
    """Return the lines of a legend: each character with its label."""
    return wrapped(["  ".join([*(f"{style.character} {style.label}" for style in styles), *more])], width)


def stack(canvas: list[list[str]], bands: Iterable[tuple[str, Int64]], top: int, rows: int, wide: int) -> None:
    """Draw stacked bands, from bottom to top, `wide` characters per column. A column of sum `top` fills all rows."""
    low: Any = None
    for character, amounts in bands:
        low = np.zeros_like(amounts) if low is None else low
        high = low + amounts
        begins, ends = row_at(low, top, rows), row_at(high, top, rows)
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            for row in range(begin, end):
                canvas[row][i * wide : (i + 1) * wide] = character * wide
        low = high


def row_at(amount: Any, top: int, rows: int) -> Any:
    """Return the height of an amount in rows, rounded, if the amount `top` is `rows` rows high."""
    return (2 * amount * rows + top) // (2 * top)


def framed(canvas: Sequence[Sequence[str]], marks: Mapping[int, str]) -> list[str]:
    """Return the lines of a chart from top to bottom. Row 0 of `canvas` is the bottom; `marks` are labels of rows."""
    rows = range(len(canvas))[::-1]
    return [f"{marks.get(row, ''):>{tuning.GUTTER - 2}} │{''.join(canvas[row])}".rstrip() for row in rows]


def axis(what: str, first: object, last: object, used: int, zero: str = "0") -> list[str]:
    """Return the lower edge of a chart of `used` columns, and a line with the labels of its left and right end."""
    begin, end = str(first), str(last)
    fits = used > len(begin) + len(end)
    ends = f"{what:>{tuning.GUTTER - 2}}  {begin}{end:>{used - len(begin)}}" if fits else " " * tuning.GUTTER + begin
    return [f"{zero:>{tuning.GUTTER - 2}} └{'─' * used}", ends]


def bins(count: int, max_bins: int) -> Int64:
    """int64[k + 1]: boundaries that divide 0 to `count` into k = min(count, max_bins) ranges of about equal length."""
    k = max(1, min(count, max_bins))
    return np.arange(k + 1) * count // k
