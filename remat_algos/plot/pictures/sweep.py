"""Pictures that compare the solvers of a sweep: performance profiles, overhead by budget, time by graph size."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import wrapped
from remat_algos.plot.colours import GREY
from remat_algos.sweeps.results import SweepResults
from remat_algos.sweeps.worker import PLANNED
from remat_algos.text.amounts import fine_percent, format_seconds, percent
from remat_algos.wording import counted, shortened, tabulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Points = list[tuple[float, float]]
# key: solver; value: points of its curve, hollow points, text in the legend
Curves = dict[str, tuple[Points, Points, str]]


@checked_arguments
def profiles(results: SweepResults, *, ax: Axes | None = None) -> Axes:
    """Draw performance profiles: for each solver, the share of problems on which its result is within x % of the best.

    A problem is a graph with a budget for which some solver has a plan. Jobs that differ only in solver, seed and
    effort belong to the same problem, and the best job of each solver counts. The result is the compute, or the peak
    if the job requests the lowest peak, or the time if there is a link. A solver without a plan is infinitely far
    above the best.

    Parameters
    ----------
    results : SweepResults
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        x is in % above the best solver, linear up to 0.1 % and logarithmic above; y is in % of the problems.

    References
    ----------
    E. D. Dolan and J. J. Moré, Benchmarking optimization software with performance profiles, Mathematical Programming
    91, 2002.

    Examples
    --------
    >>> from pathlib import Path
    >>> from remat_algos import plot
    >>> from remat_algos.sweeps.results import SweepResults
    >>> problem = {"graph_id": "7f", "budget": "50%", "overhead_budget": None, "device": None, "options": None}
    >>> plans = [("echo", 109), ("chen_sqrt", 100)]
    >>> rows = [problem | {"solver": name, "outcome": "planned", "compute": compute} for name, compute in plans]
    >>> plot.profiles(SweepResults(Path(), tuple(rows))).get_title().splitlines()[0]
    'chen_sqrt is best or within 1 % on 100.0 % of 1 problem'
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    check_kind(results, SweepResults, "results")
    ratios = results.ratios()
    above = {solver: [max(0.0, 100 * (ratio - 1)) for ratio in each] for solver, each in ratios.items()}
    largest = max([x for each in above.values() for x in each if x < float("inf")], default=0)
    right = min(max(tuning.TICKS[3], 1.3 * largest), tuning.TICKS[-1])
    curves: Curves = {
        solver: (_stairs(above[solver], right), [], percent(_near(ratios[solver]), len(ratios[solver])))
        for solver in _ranked(ratios)
    }
    ax = _drawn(ax, results, curves, f"within {tuning.WITHIN} % of the best:", "", drawstyle="steps-post")
    ax.set_xscale("symlog", linthresh=tuning.TICKS[1], linscale=0.6)
    ax.set_xlim(-tuning.TICKS[1] / 5, right)
    ax.set_ylim(-2, 103)
    ax.xaxis.set_major_locator(FixedLocator(tuning.TICKS))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    return _titled(ax, "% above the best", "% of the problems", _profile_sentences(results, ratios))


@checked_arguments
def profiles_text(results: SweepResults, *, width: int) -> list[str]:
    """Return a table: the share of problems on which each solver is within some percentages of the best."""
    check_kind(results, SweepResults, "results")
    ratios = results.ratios()
    lines = wrapped(_profile_sentences(results, ratios), width)
    if not ratios:
        return lines
    shares = (0, tuning.WITHIN, 10, 100)
    columns = ("solver", "problems", "best", *(f"within {share} %" for share in shares[1:]), "planned")
    rows = []
    for solver in _ranked(ratios):
        each = ratios[solver]
        counts = [bisect_right(each, 1 + share / 100) for share in shares]
        counts.append(sum(ratio < float("inf") for ratio in each))
        rows.append((_short(solver), f"{len(each):,}", *(percent(count, len(each)) for count in counts)))
    return [*lines, *tabulated(columns, rows, width)]


def _near(ratios: Sequence[float]) -> int:
    return bisect_right(ratios, 1 + tuning.WITHIN / 100)


def _ranked(ratios: Mapping[str, Sequence[float]]) -> list[str]:
    """Sort solvers by how often they are near the best, most often first."""

    def rank(solver: str) -> tuple[float, ...]:
        each = ratios[solver]
        return -_near(each), len(each), -bisect_right(each, 1)

    return sorted(ratios, key=rank)


def _stairs(above: Sequence[float], right: float) -> Points:
    """Return the points of a profile: x % above the best, and the % of problems that are at most x % above it."""
    finite = [x for x in above if x < float("inf")]
    return [(x, 100 * bisect_right(finite, x) / len(above)) for x in sorted({0.0, *finite, max([right, *finite])})]


def _profile_sentences(results: SweepResults, ratios: Mapping[str, Sequence[float]]) -> Iterator[str]:
    if not ratios:
        yield f"no plan in {counted(len(results.jobs), 'job')}"
    else:
        first = _ranked(ratios)[0]
        share, number = percent(_near(ratios[first]), len(ratios[first])), counted(len(ratios[first]), "problem")
        yield f"{_short(first)} is best or within {tuning.WITHIN} % on {share} of {number}"
        yield "problems (graph and budget) that some solver planned"
        sizes = sorted(map(len, ratios.values()))
        if sizes[0] < sizes[-1]:
            yield f"solvers have results for {sizes[0]:,} to {sizes[-1]:,} problems"
    yield from _unfinished(results)


@checked_arguments
def overheads(results: SweepResults, *, ax: Axes | None = None) -> Axes:
    """Draw the median overhead of each solver's plans against the budget.

    Only budgets that are percentages, such as "50%", are comparable between graphs; other jobs are left out.

    Parameters
    ----------
    results : SweepResults
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        x is the budget in % of the peak without rematerialization, y in % of one pass. A marker is hollow if some jobs
        of its solver and budget have no plan.

    Examples
    --------
    >>> from pathlib import Path
    >>> from remat_algos import plot
    >>> from remat_algos.sweeps.results import SweepResults
    >>> job = {"solver": "echo", "device": None, "outcome": "planned", "one_pass": 50}
    >>> rows = [job | {"budget": "50%", "overhead": 6}, job | {"budget": "70%", "overhead": 1}]
    >>> ax = plot.overheads(SweepResults(Path(), tuple(rows)))
    >>> [line.get_xydata().tolist() for line in ax.lines if line.get_label() == "echo"]
    [[[50.0, 12.0], [70.0, 2.0]]]
    """
    from matplotlib.ticker import FuncFormatter

    check_kind(results, SweepResults, "results")
    points, curves = _points(results), Curves()
    for solver in _solvers(results):
        each = {share: point for (name, share), point in points.items() if name == solver}
        if each:
            medians = [(share, median(o)) for share, (o, _) in each.items() if o]
            hollow = [(share, median(o)) for share, (o, jobs) in each.items() if o and len(o) < jobs]
            planned, jobs = sum(len(o) for o, _ in each.values()), sum(jobs for _, jobs in each.values())
            curves[solver] = medians, hollow, f"{planned:,} of {jobs:,}"
    without = any(len(o) < jobs for o, jobs in points.values())
    ax = _drawn(ax, results, curves, "jobs with a plan:", "hollow: some jobs have no plan" if without else "")
    shares = [share for _, share in points] or [0, 100]
    margin = 0.06 * (max(shares) - min(shares)) or 10
    ax.set_xlim(min(shares) - margin, max(shares) + margin)
    limit = max([1.0, *(median(o) for o, _ in points.values() if o)])
    ax.set_ylim(-0.04 * limit, 1.06 * limit)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    budget = "budget (% of the peak without rematerialization)"
    return _titled(ax, budget, "median overhead (% of one pass)", _overhead_sentences(results, points))


@checked_arguments
def overheads_text(results: SweepResults, *, width: int) -> list[str]:
    check_kind(results, SweepResults, "results")
    points, solvers = _points(results), _solvers(results)
    rows = []
    for solver, share in sorted(points, key=lambda key: (key[1], solvers.index(key[0]))):
        overheads, jobs = points[solver, share]
        middle = fine_percent(median(overheads), 100) if overheads else ""
        rows.append((f"{share:g} %", _short(solver), f"{len(overheads):,} of {jobs:,}", middle))
    table = tabulated(("budget", "solver", "planned", "median overhead"), rows, width) if rows else []
    return [*wrapped(_overhead_sentences(results, points), width), *table]


def _points(results: SweepResults) -> dict[tuple[str, float], tuple[list[float], int]]:
    """Return {(solver, budget in %): (overheads of its plans in % of one pass, number of jobs)}, sorted by budget."""
    overheads, jobs = defaultdict[tuple[str, float], list[float]](list), defaultdict[tuple[str, float], int](int)
    for row in results.jobs:
        share = _share(row)
        if share is not None:
            jobs[row["solver"], share] += 1
            if row["outcome"] == PLANNED:
                overheads[row["solver"], share].append(100 * row["overhead"] / max(1, row["one_pass"]))
    return {key: (overheads[key], jobs[key]) for key in sorted(jobs, key=lambda key: key[1])}


def _share(row: Mapping[str, Any]) -> float | None:
    """Return the budget of a job in % of the peak without rematerialization, or None for other budgets."""
    text = str(row["budget"]).strip()
    if row["device"] is not None or not text.endswith("%"):
        return None
    try:
        return float(text[:-1])
    # "X% above the lowest peak" is not a percentage of the peak without rematerialization.
    except ValueError:
        return None


def _overhead_sentences(
    results: SweepResults, points: Mapping[tuple[str, float], tuple[list[float], int]]
) -> Iterator[str]:
    planned = {key: each for key, each in points.items() if each[0]}
    if planned:
        least = min(share for _, share in planned)
        there = {name: each for (name, share), each in planned.items() if share == least}
        best = min(there, key=lambda name: (-len(there[name][0]), median(there[name][0])))
        o, jobs = there[best]
        reached = f"{_short(best)} plans {len(o):,} of {counted(jobs, 'job')}"
        yield f"budget {least:g} %: {reached}, median overhead {fine_percent(median(o), 100)}"
    used = sum(jobs for _, jobs in points.values())
    if not planned:
        yield f"no plan in {counted(used, 'job')} whose budget is a share of the peak"
    else:
        yield f"{counted(used, 'job')}; overheads are medians over plans"
    if used < len(results.jobs):
        yield f"left out: {counted(len(results.jobs) - used, 'job')} whose budget is not a share of the peak"
    yield from _unfinished(results)


@checked_arguments
def solve_times(results: SweepResults, *, ax: Axes | None = None) -> Axes:
    """Draw the time of each job against the number of nodes of its graph.

    Parameters
    ----------
    results : SweepResults
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        x is in nodes, y in seconds of processor time, both logarithmic, from 1 node and 1 us. A marker is hollow if the
        job has no plan.

    Examples
    --------
    >>> from pathlib import Path
    >>> from remat_algos import plot
    >>> from remat_algos.sweeps.results import SweepResults
    >>> job = {"graph_id": "7f", "nodes": 62, "outcome": "planned"}
    >>> rows = [job | {"solver": "echo", "cpu_seconds": 0.02}, job | {"solver": "search", "cpu_seconds": 3.1}]
    >>> plot.solve_times(SweepResults(Path(), tuple(rows))).get_title().splitlines()[0]
    'slowest: search, 3.1 s on 62 nodes'
    """
    from matplotlib.ticker import FuncFormatter

    check_kind(results, SweepResults, "results")
    by_solver, curves = _times(results), Curves()
    for solver, each in by_solver.items():
        made, failed = ([(float(n), s) for n, s, planned in each if planned is kind] for kind in (True, False))
        curves[solver] = made, failed, format_seconds(median(seconds for _, seconds, _ in each))
    every = [point for each in by_solver.values() for point in each]
    note = "" if all(planned for *_, planned in every) else "hollow: no plan"
    ax = _drawn(ax, results, curves, "median time:", note, alpha=0.8, linestyle="none", markevery=None)
    _logarithmic(ax, ax.xaxis, [nodes for nodes, *_ in every])
    _logarithmic(ax, ax.yaxis, [seconds for _, seconds, _ in every])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda nodes, _: f"{nodes:,.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: format_seconds(seconds)))
    return _titled(ax, "nodes", "processor time", _time_sentences(results, by_solver))


@checked_arguments
def solve_times_text(results: SweepResults, *, width: int) -> list[str]:
    """Return each solver's median and longest time, and the number of nodes of the graph that took the longest time."""
    check_kind(results, SweepResults, "results")
    by_solver = _times(results)
    rows = []
    for solver, each in by_solver.items():
        nodes, seconds, _ = max(each, key=lambda point: point[1])
        middle = format_seconds(median(seconds for _, seconds, _ in each))
        rows.append((_short(solver), f"{len(each):,}", middle, format_seconds(seconds), f"{nodes:,}"))
    table = tabulated(("solver", "jobs", "median", "longest", "nodes"), rows, width) if rows else []
    return [*wrapped(_time_sentences(results, by_solver), width), *table]


Times = Mapping[str, Sequence[tuple[int, float, bool]]]
"""key: solver; value: (nodes, seconds, True if there is a plan) of each job"""


def _times(results: SweepResults) -> Times:
    """Return the jobs with a known time and graph size; the size may come from another job on the same graph."""
    sizes, times = _sizes(results), defaultdict[str, list[tuple[int, float, bool]]](list)
    for row in results.jobs:
        if row["cpu_seconds"] is not None and row["graph_id"] in sizes:
            point = sizes[row["graph_id"]], max(1e-6, row["cpu_seconds"]), row["outcome"] == PLANNED
            times[row["solver"]].append(point)
    return times


def _sizes(results: SweepResults) -> dict[str, int]:
    return {row["graph_id"]: max(1, row["nodes"]) for row in results if row["nodes"] is not None}


def _time_sentences(results: SweepResults, by_solver: Times) -> Iterator[str]:
    every = [(seconds, nodes, solver) for solver, each in by_solver.items() for nodes, seconds, _ in each]
    if every:
        seconds, nodes, solver = max(every, key=lambda point: point[0])
        yield f"slowest: {_short(solver)}, {format_seconds(seconds)} on {counted(nodes, 'node')}"
        middle = format_seconds(median(seconds for seconds, *_ in every))
        yield f"{counted(len(every), 'job')} on {counted(len(_sizes(results)), 'graph')}; median time {middle}"
    else:
        yield f"no job of {len(results.jobs):,} has a known time and size"
    if every and (rest := len(results.jobs) - len(every)):
        yield f"left out: {counted(rest, 'job')} without a known time and graph size"
    yield from _unfinished(results)


def _solvers(results: SweepResults) -> list[str]:
    """Return all solvers in the order of the results, so that a solver has the same style in all pictures."""
    return list(dict.fromkeys(row["solver"] for row in results))


def _drawn(ax: Axes | None, results: SweepResults, curves: Curves, heading: str, note: str, **options: Any) -> Axes:
    ax = axes.of_size(ax, 10, max(5, 2 + 1.1 * tuning.LEGEND_ROW * len(curves)))
    rows: list[tuple[Any, str]] = [(None, heading)] if curves else []
    for solver, (points, hollow, text) in curves.items():
        i = _solvers(results).index(solver)
        line = axes.curve(ax, i, *np.reshape(points, (-1, 2)).T, label=solver, **options)
        axes.curve(ax, i, *np.reshape(hollow, (-1, 2)).T, linestyle="none", markerfacecolor="white", markevery=None)
        rows.append((line, f"{axes.label(solver)}: {text}"))
    axes.legend_beside(ax, rows + ([(None, note)] if note else []))
    return ax


def _titled(ax: Axes, x: str, y: str, sentences: Iterator[str]) -> Axes:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    return axes.finished(ax, [axes.label(sentence, 1000) for sentence in sentences])


def _logarithmic(ax: Axes, axis: Axis, amounts: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = min(amounts, default=1) / 1.3, max(amounts, default=10) * 1.3
    wider = max(1.0, 10 * low / high) ** 0.5
    low, high = low / wider, high * wider
    set_scale, set_limits = (ax.set_xscale, ax.set_xlim) if axis is ax.xaxis else (ax.set_yscale, ax.set_ylim)
    set_scale("log")
    set_limits(low, high)
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_minor_locator(NullLocator())


_short = partial(shortened, limit=24)


def _unfinished(results: SweepResults) -> Iterator[str]:
    if results.left:
        yield f"{counted(results.left, 'job')} of the sweep left: incomplete"
