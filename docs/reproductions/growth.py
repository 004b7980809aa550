"""Growth of memory with a network: exponents, and a figure with two logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from docs.reproductions.case import Case
from docs.reproductions.page import Figure, Table
from remat_algos.plot.axes import ink, legend_beside, of_size
from remat_algos.plot.colours import CURVES, GREY
from remat_algos.wording import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def exponent(sizes: Sequence[int], amounts: Sequence[float]) -> float:
    """The b of the curve a n^b that fits best on two logarithmic axes.

    Parameters
    ----------
    sizes, amounts : sequence of int, of float
        At least two of each, all positive.

    Examples
    --------
    >>> exponent([1, 4, 16], [3, 6, 12])
    0.5
    """
    return round(float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0]), 3)


def plot_growth(
    sizes: Sequence[int],
    curves: Mapping[str, Sequence[int]],
    what: str,
    *,
    since: int = 0,
    quoted: Mapping[str, tuple[int, int]] | None = None,
    amount: str = "peak memory",
) -> Axes:
    """Bytes of several strategies against the size of a network, both axes logarithmic.

    Parameters
    ----------
    sizes : sequence of int
    curves : mapping of str to sequence of int
        Bytes at each size, by strategy.
    what : str
        Meaning of the sizes.
    since : int
        The smallest size at which the exponents in the legend are fitted.
    quoted : mapping of str to (int, int), optional
        Points that the paper's text gives: size and bytes.
    amount : str
        Label of the y axis.

    Returns
    -------
    Axes
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    ax = of_size(None, 10, 5)
    rows, fitted = [], [i for i, size in enumerate(sizes) if size >= since]
    for (name, amounts), (colour, marker, style) in zip(curves.items(), CURVES, strict=False):
        (line,) = ax.loglog(sizes, amounts, color=colour, marker=marker, markersize=5, linestyle=style, linewidth=1.8)
        power = exponent([sizes[i] for i in fitted], [amounts[i] for i in fitted])
        rows.append((line, f"{name}: n^{power:z.2f}"))
    for (name, point), marker in zip((quoted or {}).items(), "xP*d", strict=False):
        (mark,) = ax.plot(*point, marker, color=ink(), markersize=9, markeredgewidth=2, linestyle="none", zorder=5)
        rows.append((mark, name))
    ax.xaxis.set_major_locator(FixedLocator(list(sizes)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
    ax.yaxis.set_major_locator(LogLocator(base=2, numticks=9))  # whole numbers of binary units
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda n_bytes, _: format_bytes(round(n_bytes))))
    ax.set_xlabel(what)
    ax.set_ylabel(amount)
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    legend_beside(ax, rows)
    return ax


def fitted(cases: Sequence[Case], strategy: str, since: int = 0) -> float:
    """Exponent of the growth of a strategy's peak, from a given size on."""
    kept = [case for case in cases if case.size >= since]
    return exponent([case.size for case in kept], [case.peak(strategy) for case in kept])


def powers(sizes: Sequence[int], curves: Mapping[str, Sequence[int]], what: str, since: int = 0) -> str:
    """Exponents of the growth of several strategies, in words.

    Examples
    --------
    >>> powers([1, 4, 16], {"root": [3, 6, 12]}, "depth", since=4)
    'Exponents b of the fits a * depth^b for depth >= 4, on logarithmic axes: root 0.50.'
    """
    kept = [i for i, size in enumerate(sizes) if size >= since]
    found = (
        f"{name} {exponent([sizes[i] for i in kept], [amounts[i] for i in kept]):z.2f}"
        for name, amounts in curves.items()
    )
    start = f" for {what} >= {since}" if since else ""
    return f"Exponents b of the fits a * {what}^b{start}, on logarithmic axes: {', '.join(found)}."


def growth(name: str, title: str, what: str, cases: Sequence[Case], since: int = 0) -> tuple[Table, Figure]:
    """A table of the peak of each strategy at each size, and its figure.

    Parameters
    ----------
    name, title : str
        Name and title of both.
    what : str
        Meaning of the sizes.
    cases : sequence of Case
        Cases with the same strategies.
    since : int
        The smallest size at which exponents are fitted.
    """
    strategies = list(cases[0].simulations)
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys((what, "nodes"), str)
    columns |= dict.fromkeys(("all values", *strategies), format_bytes)
    rows = [
        (case.size, case.graph.n_nodes, case.unshared, *(case.peak(strategy) for strategy in strategies))
        for case in cases
    ]
    sizes = [case.size for case in cases]
    curves = {strategy: [case.peak(strategy) for case in cases] for strategy in strategies}
    table = Table(name, f"Peak memory: {title}", columns, rows, powers(sizes, curves, what, since))
    curves = {"all values": [case.unshared for case in cases], **curves}
    draw = partial(plot_growth, sizes, curves, what, since=since)
    return table, Figure(name, title, draw, f"Both axes are logarithmic; in the legend, n stands for {what}.")
