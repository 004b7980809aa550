"""Figure 7 of chen2016: the time of a batch against the size of a network, by models of cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.chen2016.networks import DROP, SUBLINEAR
from docs.reproductions.chen2016.plans import LOOKS, plan_name
from docs.reproductions.growth import exponent
from docs.reproductions.page import Figure, Table, percent
from remat_algos.cost.links import units_per_second
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot.colours import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GraphOf = Callable[..., ComputationGraph]
ROOFLINE: Mapping[str, Any] = {"cost": "roofline", "device": "Titan X"}
TEN_AND_ONE: Mapping[str, Any] = {"cost": "paper"}
TIMED = (NO_REMAT, SUBLINEAR, DROP)


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A network, priced by a roofline of the paper's GPU.

    Parameters
    ----------
    case : Case
    graph : ComputationGraph
        The same graph with times as costs.
    ten_and_one : ComputationGraph
        The same graph with 10 for a convolution or a matrix product, 1 for anything else.
    """

    case: Case
    graph: ComputationGraph
    ten_and_one: ComputationGraph

    @classmethod
    def of(cls, case: Case, graph_of: GraphOf) -> Timed:
        """The times of a network; `graph_of` makes it for a size and a cost."""
        return cls(case, graph_of(case.size, **ROOFLINE), graph_of(case.size, **TEN_AND_ONE))

    def seconds(self, strategy: str) -> float:
        """Seconds of a batch, forward and backward."""
        order = self.case.simulations[strategy].schedule.order
        return round(int(self.graph.compute[order].sum()) / units_per_second(self.graph), 6)

    def more(self, strategy: str) -> float | None:
        """Time beyond one pass, as a share of it; None if the network has no plan of the strategy."""
        return self.case.overhead(strategy, self.graph) if strategy in self.case.simulations else None


@dataclass(frozen=True, slots=True)
class Line:
    """The growth of an amount with a size, as a power and as a straight line.

    Parameters
    ----------
    exponent : float
        Exponent of the power that fits best.
    slope : float
        Slope of the straight line through the points.
    deviation : float
        The largest distance of a point from that line, as a share of the point.

    Examples
    --------
    >>> Line.of([1, 2, 4], [5.0, 10.0, 20.0])
    Line(exponent=1.0, slope=5.0, deviation=0.0)
    """

    exponent: float
    slope: float
    deviation: float

    @classmethod
    def of(cls, sizes: Sequence[int], amounts: Sequence[float]) -> Line:
        """The fit to at least two points."""
        slope, start = np.polyfit(sizes, amounts, 1)
        away = np.abs(start + slope * np.array(sizes) - amounts) / np.array(amounts)
        return cls(exponent(sizes, amounts), round(float(slope), 9), round(float(away.max()), 4))

    @classmethod
    def of_time(cls, timed: Sequence[Timed], strategy: str, since: int = 0) -> Line:
        """Seconds of a batch against the size of the network, from a given size on."""
        kept = [each for each in timed if each.case.size >= since]
        return cls.of([each.case.size for each in kept], [each.seconds(strategy) for each in kept])


def time_table(timed: Sequence[Timed]) -> Table:
    """Seconds of a batch with and without the sublinear plan, and its overhead by several costs."""
    columns: dict[str, Callable[[Any], str]] = {"network": str}
    columns |= dict.fromkeys((plan_name(NO_REMAT), SUBLINEAR), "{:.3g} s".format)
    columns |= dict.fromkeys(("more time", "more FLOPs", "10 and 1", f"{DROP}, more time"), percent)
    rows = [
        (
            each.case.label,
            each.seconds(NO_REMAT),
            each.seconds(SUBLINEAR),
            each.more(SUBLINEAR),
            each.case.overhead(SUBLINEAR),
            each.case.overhead(SUBLINEAR, each.ten_and_one),
            each.more(DROP),
        )
        for each in timed
    ]
    return Table(
        "figure7", "Time of a batch by the roofline of a Titan X, and the overhead by other costs", columns, rows
    )


def time_figure(panels: Mapping[str, Sequence[Timed]]) -> Figure:
    """Seconds against size, a panel for each family of networks."""
    caption = "Seconds of a batch, forward and backward, by the roofline; both axes are linear."
    return Figure("figure7", "Time against depth and length", partial(plot_time, panels), caption)


def plot_time(panels: Mapping[str, Sequence[Timed]]) -> Axes:
    """A panel for each family of networks: seconds of a batch under each strategy against what grows.

    Parameters
    ----------
    panels : mapping of str to sequence of Timed
        Points by the family and the growing size, as "ResNets, depth".

    Returns
    -------
    Axes
        Axes of the first panel.
    """
    from matplotlib.figure import Figure as Picture

    drawn = Picture(figsize=(5 * len(panels), 4), layout="constrained")
    first, *_ = flat = list(drawn.subplots(1, len(panels), squeeze=False).flat)
    for ax, (family, timed) in zip(flat, panels.items(), strict=True):
        title, what = family.split(", ")
        for strategy in TIMED:
            colour, marker, style = LOOKS[plan_name(strategy)]
            known = [each for each in timed if strategy in each.case.simulations]
            sizes, seconds = [each.case.size for each in known], [each.seconds(strategy) for each in known]
            look = {"color": colour, "marker": marker, "linestyle": style, "markersize": 5, "linewidth": 1.8}
            ax.plot(sizes, seconds, label=plan_name(strategy), **look)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel(what)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    first.set_ylabel("seconds")
    first.legend(loc="upper left", frameon=False, fontsize=9)
    return first
