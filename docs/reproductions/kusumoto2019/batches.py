"""Time against batch size: memory and time of schedules that were planned at another size."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docs.reproductions.kusumoto2019.canonical_plans import (
    PaperNetwork,
    Planner,
    as_frameworks_save,
    chens,
    peak_of_a_tape,
)
from docs.reproductions.kusumoto2019.networks import CHEN, LIVENESS, MEMORY_CENTRIC, TIME, VANILLA
from remat_algos.cost.links import units_per_second
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot.colours import CURVES, GREY
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

DEVICE, MEMORY = "K40c", 11_400_000_000
BUDGET = 10_000_000_000  # of formula (2), for time-centric plans
QUARTERS = (5, 6, 8, 12, 16, 24, 32)  # of the largest batch without rematerialization

ScheduleOf = Callable[[int], Schedule]


@dataclass(frozen=True, slots=True)
class Strategy:
    """The schedule for each batch size.

    Parameters
    ----------
    schedule : callable
        By batch.
    lowest : callable, optional
        The schedule with the lowest peak, if the other one uses the available memory.
    most : int, optional
        The largest batch with a schedule.
    """

    schedule: ScheduleOf
    lowest: ScheduleOf | None = None
    max_batch: int = sys.maxsize


class Sizes:
    """A network at any batch size, with the gradients of its parameters, timed by the roofline of the paper's GPU.

    Parameters
    ----------
    network : PaperNetwork
    """

    def __init__(self, network: PaperNetwork) -> None:
        self.network = network
        self._graphs: dict[int, ComputationGraph] = {}

    def graph(self, batch: int) -> ComputationGraph:
        """The graph, with times as costs."""
        if batch not in self._graphs:
            self._graphs[batch] = self.network.training(batch, cost="roofline", device=DEVICE)
        return self._graphs[batch]

    def simulation(self, schedule: Schedule, batch: int) -> Simulation:
        """Simulate a schedule from another size of the same network."""
        return simulate(self.graph(batch), schedule)

    def total(self, schedule: Schedule, batch: int) -> int:
        """Bytes of its peak, with parameters and inputs."""
        return self.simulation(schedule, batch).peak_memory + self.graph(batch).resident_memory

    def vanilla_total(self, batch: int) -> int:
        """Bytes of a run without rematerialization that frees nothing that gradients read, with residents."""
        graph = differentiate(as_frameworks_save(self.network.forward(batch)), parameter_gradients=True)
        return peak_of_a_tape(graph) + graph.resident_memory

    def seconds(self, schedule: Schedule, batch: int) -> float:
        """Time of a schedule, forward and backward."""
        return round(self.simulation(schedule, batch).compute / units_per_second(self.graph(batch)), 4)

    def one_pass(self, batch: int) -> float:
        """Time without rematerialization."""
        return round(self.graph(batch).needed_compute / units_per_second(self.graph(batch)), 4)


@dataclass(frozen=True, slots=True)
class BatchCurves:
    """Seconds of each strategy at the batch sizes that fit.

    Parameters
    ----------
    largest : mapping of str to int
        The largest batch of each strategy.
    one_pass : mapping of int to float
        Seconds without rematerialization, even if it does not fit.
    seconds : mapping of str to mapping of int to float
        Seconds by strategy and batch; strategies that rematerialize only if vanilla does not fit.
    """

    largest: Mapping[str, int]
    one_pass: Mapping[int, float]
    seconds: Mapping[str, Mapping[int, float]]

    @property
    def doubled(self) -> int:
        """Twice the largest batch without rematerialization."""
        return 2 * self.largest[VANILLA]

    def slowdown(self, strategy: str) -> float | None:
        """Time at the doubled batch, in units of one pass; None if it does not fit."""
        curve = self.seconds[strategy].get(self.doubled)
        return None if curve is None else round(curve / self.one_pass[self.doubled], 4)


def batch_curves(network: PaperNetwork, planner: Planner, lowered: Sequence[Schedule]) -> BatchCurves:
    """Time against batch size on the paper's GPU.

    Parameters
    ----------
    network : PaperNetwork
    planner : Planner
        Planner of the network at the planned batch size.
    lowered : sequence of Schedule
        Schedules of `by_liveness` at the same size.
    """
    sizes = Sizes(network)
    strategies = _strategies(sizes, planner, lowered)
    base = largest_batch(sizes.vanilla_total, network.batch)
    largest = {VANILLA: base, **{name: _largest(sizes, each, base) for name, each in strategies.items()}}
    batches = _batches(largest)
    one_pass = {batch: sizes.one_pass(batch) for batch in batches}
    seconds = {VANILLA: {batch: time for batch, time in one_pass.items() if batch <= base}}
    for name, each in strategies.items():
        room = [batch for batch in batches if base < batch <= largest[name]]
        seconds[name] = {batch: sizes.seconds(each.schedule(batch), batch) for batch in room}
    return BatchCurves(largest, one_pass, seconds)


def _strategies(sizes: Sizes, planner: Planner, lowered: Sequence[Schedule]) -> dict[str, Strategy]:
    chen, memory = (plan.simulation.schedule for plan in (chens(planner.graph), planner.plan("pruned", "memory")))
    budget = BUDGET * sizes.network.batch  # formula (2) is in proportion to the batch size

    def time_centric(batch: int) -> Schedule:
        return planner.plan("pruned", "time", budget // batch).simulation.schedule

    def cheapest(batch: int) -> Schedule:
        dearer = bisect_left(lowered, True, key=lambda schedule: sizes.total(schedule, batch) > MEMORY)
        return lowered[max(0, dearer - 1)]

    return {
        TIME: Strategy(time_centric, max_batch=budget // planner.least_budget("pruned")),
        CHEN: Strategy(lambda batch: chen),
        LIVENESS: Strategy(cheapest, lambda batch: lowered[0]),
        MEMORY_CENTRIC: Strategy(lambda batch: memory),
    }


def _largest(sizes: Sizes, strategy: Strategy, guess: int) -> int:
    lowest = strategy.lowest or strategy.schedule
    return largest_batch(
        lambda batch: sizes.total(lowest(batch), batch), min(guess, strategy.max_batch), strategy.max_batch
    )


def largest_batch(total: Callable[[int], int], guess: int, max_batch: int = sys.maxsize) -> int:
    """The largest batch within the memory of the GPU.

    Parameters
    ----------
    total : callable
        Bytes at a batch size; they grow with it, but not faster than in proportion.
    guess : int
    most : int
        Upper limit of the batch.

    Examples
    --------
    >>> largest_batch(lambda batch: 10**9 * (2 + batch), 1), largest_batch(lambda batch: 10**9 * (2 + batch), 40, 8)
    (9, 8)
    """
    batch = min(guess, max_batch)
    while batch > 0 and (step := (MEMORY - total(batch)) * batch // total(batch)):
        if step > 0 and batch == max_batch:
            break
        batch = max(0, min(max_batch, batch + step))
    while batch < max_batch and total(batch + 1) <= MEMORY:
        batch += 1
    return batch


def _batches(largest: Mapping[str, int]) -> list[int]:
    """Sizes up to the overall largest, including the largest of each strategy."""
    base = largest[VANILLA]
    sizes = {max(1, base // 2), *(base * k // 4 for k in QUARTERS), *largest.values()}
    return sorted(size for size in sizes if 0 < size <= max(largest.values()))


def plot_batches(curves: Mapping[str, BatchCurves]) -> Axes:
    """A panel for each network: seconds against batch size, with one pass dotted where it would not fit.

    Parameters
    ----------
    curves : mapping of str to BatchCurves

    Returns
    -------
    Axes
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    columns = min(4, len(curves) + 1)
    rows = -(-(len(curves) + 1) // columns)
    panels = Figure(figsize=(3.1 * columns, 2.9 * rows), layout="constrained").subplots(rows, columns, squeeze=False)
    first, *_ = flat = list(panels.flat)
    for ax, (label, curve) in zip(flat, curves.items(), strict=False):
        handles = [_panel(ax, curve, name, look) for name, look in zip(curve.seconds, CURVES, strict=False)]
        beyond = [batch for batch in curve.one_pass if batch >= curve.largest[VANILLA]]
        (extrapolated,) = ax.plot(
            beyond, [curve.one_pass[b] for b in beyond], color=GREY, linestyle=":", linewidth=1, zorder=1
        )
        ax.set_title(label, fontsize=10)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
        ax.set_xlabel("batch size")
        ax.set_ylabel("seconds")
    for ax in flat[len(curves) :]:
        ax.axis("off")
    names = [*next(iter(curves.values())).seconds, "Vanilla, if it fitted"]
    flat[len(curves)].legend([*handles, extrapolated], names, loc="upper left", frameon=False, fontsize=10)
    return first


def _panel(ax: Axes, curve: BatchCurves, name: str, look: tuple[str, str, object]) -> Line2D:
    colour, marker, style = look
    points = curve.seconds[name]
    (line,) = ax.plot(
        list(points), list(points.values()), color=colour, marker=marker, markersize=4, linestyle=style, linewidth=1.6
    )
    return line
