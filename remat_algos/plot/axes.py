"""Matplotlib axes of a suitable size, with ticks in bytes and legends to the right."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from remat_algos.arguments import check_kind
from remat_algos.plot import tuning
from remat_algos.plot.colours import BLACK, BLUE, CURVES, GREY, PALE, VERMILION, WHITE, Style
from remat_algos.wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

POINT = 1 / 72  # inches


def of_size(ax: Axes | None, width: float = 10, height: float = 4.8) -> Axes:
    """Return `ax`, or the axes of a new figure of this size in inches; no window is opened."""
    if ax is not None:
        return checked_axes(ax)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def checked_axes(ax: Axes) -> Axes:
    """Return `ax`; raise TypeError if it is not an Axes, for example a Figure."""
    from matplotlib.axes import Axes

    return check_kind(ax, Axes, "ax")


def inches(ax: Axes) -> tuple[float, float]:
    box = checked_axes(ax).get_window_extent()
    dpi = ax.get_figure().get_dpi()  # type: ignore[union-attr]
    return box.width / dpi, box.height / dpi


def title(ax: Axes, sentences: Iterable[str], size: int = 10) -> None:
    """Set the title of the axes: each sentence starts on a new line and is wrapped to the width of the axes."""
    room = max(20, int(inches(ax)[0] / text_width("x", size)))
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, room)]
    ax.set_title("\n".join(lines), fontsize=size, pad=9, x=0, ha="left", linespacing=1.4)


def finished(ax: Axes, sentences: Iterable[str], rows: Sequence[tuple[Any, str]] = ()) -> Axes:
    title(ax, sentences)
    if rows:
        legend_beside(ax, rows)
    return ax


def ink() -> str:
    """Return the colour of lines and marks: the text colour."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def label(name: str, max_length: int = 24) -> str:
    """Shorten a name, escape its dollar signs, and replace characters without a glyph by question marks."""
    from matplotlib.font_manager import FontProperties, findfont

    fonts = tuple(findfont(FontProperties(family=[family])) for family in FontProperties().get_family())
    glyphs = _glyphs(fonts)
    drawn = "".join(c if ord(c) in glyphs else "?" for c in shortened(name, max_length))
    return drawn.replace("$", r"\$")


@lru_cache(maxsize=8)
def _glyphs(fonts: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset(character for font in fonts for character in get_font(font).get_charmap())


def byte_axis(axis: Axis, top: int, what: str) -> None:
    """Label the ticks of an axis in KiB, MiB, ..., whichever suits `top` bytes; the data stay in bytes."""
    power = min(max(0, int(top).bit_length() - 1) // 10, 6)
    name = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
    unit_axis(axis, 1024**power, f"{what} ({name})", integer=power == 0)


def byte_ticks(top: int, most: int = 5) -> list[int]:
    """Return the multiples of a power of two from 0 to `top` bytes, at most `most` of them above 0."""
    return list(range(0, top + 1, 1 << (top // (most + 1)).bit_length()))


def unit_axis(axis: Axis, unit: float, what: str, *, integer: bool = False) -> None:
    """Set ticks at round multiples of `unit`, a number in units of the data."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    class InUnits(MaxNLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            ticks: Any = super().tick_values(vmin / unit, vmax / unit)
            return unit * ticks

    axis.set_major_locator(InUnits(nbins=7, steps=[1, 2, 2.5, 5, 10], integer=integer))
    axis.set_major_formatter(FuncFormatter(lambda amount, _: f"{amount / unit:g}"))
    axis.set_label_text(what)


def boxed(
    ax: Axes, place: Sequence[float], text: str, fill: str, edge: str = GREY, width: float = 0.8, pad: float = 0.35
) -> None:
    """Write a string in a box, in white if the box is dark."""
    box = {"boxstyle": f"round,pad={pad}", "facecolor": fill, "edgecolor": edge, "linewidth": width}
    letters = WHITE if fill in (BLUE, VERMILION) else BLACK
    x, y = place
    ax.text(x, y, text, ha="center", va="center", fontsize=tuning.FONT, color=letters, bbox=box)


def written(ax: Axes, places: Iterable[Any], amounts: Iterable[Any], texts: Iterable[str]) -> None:
    """Write one string per bar at its middle (x, y), but only in bars that are high enough."""
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
    per_amount = inches(ax)[1] / ax.get_ylim()[1]
    for (x, y), amount, text in zip(places, amounts, texts, strict=True):
        if amount * per_amount > 1.8 * text_height():
            ax.text(x, y, text, ha="center", va="center", fontsize=tuning.FONT, color="black", bbox=paper)


def above(ax: Axes, places: Iterable[Any], heights: Iterable[Any], texts: Iterable[str]) -> None:
    for x, y, text in zip(places, heights, texts, strict=True):
        ax.text(x, y, text, ha="center", va="bottom", fontsize=tuning.FONT, color=ink())


def bars(
    ax: Axes,
    places: Any,
    bands: Iterable[tuple[Style, Any]],
    wide: float,
    texts: Callable[[Any], Sequence[str]] | None,
) -> list[tuple[Any, str]]:
    """Draw one stacked bar per place. `texts` converts amounts to labels; a label that does not fit is omitted."""
    bottom, rows = 0, []
    for style, amounts in bands:
        edge = GREY if style.hatch and style.colour in (PALE, WHITE) else ink() if style.colour == WHITE else "white"
        options: dict[str, Any] = {"hatch": style.hatch, "edgecolor": edge, "linewidth": 0.6}
        drawn = ax.bar(places, amounts, wide, bottom, color=style.colour, label=style.label, **options)
        rows.append((drawn, style.label))
        if texts is not None:
            written(ax, zip(places, bottom + amounts / 2, strict=True), amounts, texts(amounts))
        bottom = bottom + amounts
    return rows


def boxes_or_dots(
    ax: Axes | None,
    size: tuple[float, float] | None,
    sides: Iterable[float],
    least: tuple[float, float],
    beside: float,
    each: float = 0.14,
) -> tuple[Axes, bool]:
    """Return the axes, and True if boxes of `size` inches fit on them, or False if nodes must be drawn as dots."""
    room = (14.0, 14.0) if ax is None else inches(ax)
    if size is not None and size[0] <= room[0] and size[1] <= room[1]:
        return of_size(ax, max(size[0], least[0]) + beside, size[1] + 0.6), True
    short, long = sorted(sides)
    wide, high = min(12, max(least[0], each * long)), min(9, max(least[1], 0.3 * short) + 0.6)
    return of_size(ax, wide + beside, high), False


def curve(ax: Axes, i: int, x: Sequence[float], y: Sequence[float], **options: Any) -> Line2D:
    """Draw curve `i`, with at most 30 markers. Curves of the same colour differ in marker and line style."""
    (colour, _, style), (_, marker, _) = CURVES[i % len(CURVES)], CURVES[(i + i // 7) % 7]
    n = len(x) - ("drawstyle" in options)
    look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": style, "linewidth": 1.8}
    (line,) = ax.plot(x, y, **look | {"markevery": slice(0, n, 1 + n // 30)} | options)
    return line


def edges(ax: Axes, lines: Iterable[Any], width: float = 0.9, faint: float | None = None) -> None:
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(lines), colors=GREY, linewidths=width, alpha=faint, zorder=1))


def dots(ax: Axes, points: Any, sizes: Any, colours: Sequence[str]) -> None:
    x, y = points.T
    ax.scatter(x, y, s=sizes, c=colours, edgecolors=GREY, linewidths=0.8, zorder=2)
    ax.margins(0.03, 0.1)


def text_width(text: str, size: float = tuning.FONT) -> float:
    """Return the width in inches of the longest line of a string, by default in the font size of boxes."""
    return max(map(len, text.split("\n"))) * tuning.LETTER * size * POINT


def text_height(size: float = tuning.FONT) -> float:
    return size * POINT


def dot(fill: str, edge: str = GREY, marker: str = "o", **options: Any) -> Line2D:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": 8}
    return Line2D([], [], markerfacecolor=fill, markeredgecolor=edge, **style | options)


def patch(style: Style, edge: str = "") -> Patch:
    from matplotlib.patches import Patch

    hatch = "" if edge else style.hatch
    return Patch(facecolor=style.colour, edgecolor=edge or ("white" if hatch else "none"), hatch=hatch)


def legend_beside(ax: Axes, rows: Sequence[tuple[Any, str]]) -> None:
    """Draw a legend to the right of the axes. If rows do not fit, the last row states how many are omitted."""
    from matplotlib.lines import Line2D

    room = max(3, int(inches(ax)[1] / tuning.LEGEND_ROW))
    if len(rows) > room:
        rows = [*rows[: room - 1], (None, f"... {len(rows) - room + 1} more lines")]
    handles = [Line2D([], [], linestyle="none") if handle is None else handle for handle, _ in rows]
    ax.legend(
        handles,
        [text for _, text in rows],
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        borderaxespad=0,
        frameon=False,
        fontsize=tuning.LEGEND_FONT,
    )


def name_ticks(ax: Axes, names: Sequence[str], *, across: bool, size: int = 8) -> bool:
    """Name the ticks 0, 1, ... of the x axis (`across`) or the y axis. Return False if the names do not fit."""
    from matplotlib.ticker import MaxNLocator

    axis, room = (ax.xaxis, inches(ax)[0]) if across else (ax.yaxis, inches(ax)[1])
    if len(names) > room / (1.4 * text_height(size)):
        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        return False
    drawn = [label(name, 18) for name in names]
    upright = across and any(len(name) > 2 for name in drawn)
    axis.set_ticks(range(len(names)), drawn, rotation=90 if upright else 0, fontsize=size)
    return True
