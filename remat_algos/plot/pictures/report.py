"""HTML pages that step through two plans; a page is one file that loads nothing else."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import PlanError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plot import tuning
from remat_algos.plot.axes import byte_ticks
from remat_algos.plot.lanes import Lanes
from remat_algos.plot.layered_layout import layout
from remat_algos.questions.explain import Decision
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.timeline import ENGINES, Timeline
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes, shortened

FORMAT, VERSION = "remat-report", 1


@checked_arguments
def report(plan: Plan | Simulation, compared: Plan | Simulation | None = None, *, title: str = "") -> str:
    """Return an HTML page that steps through a plan and another plan side by side.

    The page is one file that loads nothing else. It shows the graph, the memory of each step, the schedule, and for
    each node the reasons that `explain` prints. The data are compressed above 500,000 characters (about 1,000 nodes).

    Parameters
    ----------
    plan : Plan or Simulation
    compared : Plan or Simulation, optional
        Another plan of the same graph; by default the run without rematerialization.
    title : str
        Title of the page; by default the size of the graph.

    Returns
    -------
    str

    Raises
    ------
    PlanError
        If the plans are of different graphs, or the graph has more than 10,000 nodes.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.search.solve import solve
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> page = report(solve(chain, 7, solver="chen_greedy"))
    >>> page.count("<script"), page.count("no rematerialization") > 0
    (2, True)
    """
    check_kind(plan, Plan, "plan", Simulation)
    if compared is not None:
        check_kind(compared, Plan, "compared", Simulation)
    graph = plan.graph
    if graph.n_nodes > tuning.MAX_DRAWN_NODES:
        raise PlanError(
            "a report can step through at most {max_nodes:,} nodes, but the graph has {n_nodes:node}; make a "
            "coarser graph, such as one of layers",
            max_nodes=tuning.MAX_DRAWN_NODES,
            n_nodes=graph.n_nodes,
        )
    if compared is not None and compared.graph.hash != graph.hash:
        raise PlanError("the two plans are for different graphs; give two plans of one graph")
    name = plan.method if isinstance(plan, Plan) else "plan"
    if compared is None:
        compared, other = baseline(graph), "no rematerialization"
    else:
        other = compared.method if isinstance(compared, Plan) else "other plan"
    data = _data([plan, compared], [name, other])
    return _page(data, title or data["graph"]["title"])


def _page(data: dict[str, object], title: str) -> str:
    folder = files("remat_algos.plot.pictures")
    style, script = ((folder / name).read_text("utf-8") for name in ("report.css", "report.js"))
    inline, kind = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"), "json"
    if len(inline) > tuning.MAX_PLAIN:
        inline, kind = b64encode(zlib.compress(inline.encode())).decode(), "zlib"
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{escape(shortened(title))}</title>
<style>
{style}</style>
</head>
<body>
<script type="application/{kind}" id="data">{inline}</script>
<script>
{script}</script>
</body>
</html>
"""


def _data(plans: Sequence[Plan | Simulation], titles: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object of a page: columns instead of objects, ids instead of names, and every string once.

    "top" is the end of all byte axes. "clock" is the step of each plan at each tick. "layout" is in hundredths of the
    width of a node. An instance is live in steps [made, end).
    """
    graph = plans[0].graph
    texts, lanes = Texts(), [Lanes.of(plan) for plan in plans]
    highest = max([1, *(max(each.simulation.peak_memory, each.limit or 0) for each in lanes)])
    # Leave a twelfth free above the highest curve.
    top = highest + -(-highest // 12)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": _graph(graph, texts),
        "top": top,
        "bytes": [[tick, texts(format_bytes(tick))] for tick in byte_ticks(top)],
        "clock": common_clock(*(each.order for each in lanes)),
        "layout": _layout(graph),
        "plans": [
            {"title": title, "facts": _facts(plan), **_plan(each, texts)}
            for plan, each, title in zip(plans, lanes, titles, strict=True)
        ],
        "texts": texts.kept,
    }


def common_clock(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
    """Align two orders: return the step of each at every tick of a common clock.

    As many first runs as possible have the same tick in both orders; between these ticks, as many other runs as
    possible have the same tick too. While one order has extra steps, the other waits at its latest step, or at -1.
    """
    clock: tuple[list[int], list[int]] = ([], [])
    a = b = 0
    for end_a, end_b in [*_equal_runs(first, second, first_only=True), (len(first), len(second))]:
        inside = _equal_runs(first[a:end_a], second[b:end_b], first_only=False)
        for to_a, to_b in [*((a + i, b + j) for i, j in inside), (end_a, end_b)]:
            gap = range(max(to_a - a, to_b - b))
            for steps, start, end in zip(clock, (a, b), (to_a, to_b), strict=True):
                steps += [*(min(start + i, end - 1) for i in gap), end]
            a, b = to_a + 1, to_b + 1
    return clock[0][:-1], clock[1][:-1]


def _equal_runs(first: Sequence[int], second: Sequence[int], *, first_only: bool) -> list[tuple[int, int]]:
    """Pair the k-th runs of a node in two orders; return the longest list of pairs that increases in both."""
    place = {run: j for j, run in enumerate(_numbered(second)) if not (first_only and run[1])}
    pairs = [(i, place[run]) for i, run in enumerate(_numbered(first)) if run in place]
    # Longest increasing subsequence: of all lists of k + 1 pairs, lowest[k] is the smallest last place in `second`,
    # and ends[k] is the index of that last pair.
    lowest: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for last, (_, j) in enumerate(pairs):
        k = bisect_left(lowest, j)
        before.append(ends[k - 1] if k else -1)
        lowest[k : k + 1], ends[k : k + 1] = [j], [last]
    equal, last = [], ends[-1] if ends else -1
    while last >= 0:
        equal.append(pairs[last])
        last = before[last]
    return equal[::-1]


def _numbered(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    count: Counter[int] = Counter()
    for v in order:
        yield v, count[v]
        count[v] += 1


class Texts:
    """List of distinct strings; a call adds a string, unless it is in the list, and returns its index."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._place: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._place:
            self._place[text] = len(self.kept)
            self.kept.append(text)
        return self._place[text]

    def of_bytes(self, sizes: Iterable[int]) -> list[int]:
        return [self(format_bytes(size)) for size in sizes]


def _graph(graph: ComputationGraph, texts: Texts) -> dict[str, Any]:
    names = [str(graph.labels[v]) for v in range(graph.n_nodes)]
    return {
        "title": f"{counted(graph.n_nodes, 'node')}, {counted(graph.n_values, 'value')}",
        "names": [shortened(name) for name in names],
        "long": {v: name for v, name in enumerate(names) if shortened(name) != name},
        "costs": [texts(graph.labels.compute(cost)) for cost in graph.compute.tolist()],
        "producer": graph.producer.tolist(),
        "values": [shortened(graph.value_name(x)) for x in range(graph.n_values)],
        "sizes": texts.of_bytes(graph.memory.tolist()),
        "read_indptr": graph.read_indptr.tolist(),
        "read_indices": graph.read_indices.tolist(),
    }


def _layout(graph: ComputationGraph) -> dict[str, Any]:
    laid = layout(graph)

    def whole(points: Any) -> list[int]:
        hundredths: list[int] = np.rint(100 * points).astype(np.int64).ravel().tolist()
        return hundredths

    return {"points": whole(laid.points), "inside": whole(laid.inside), "across": whole(laid.across)}


def _plan(lanes: Lanes, texts: Texts) -> dict[str, Any]:
    simulation, limit, lives, trace = lanes.simulation, lanes.limit, lanes.lives, lanes.trace.tolist()
    copies = lanes.timeline is not None or simulation.schedule.loads.size > 0
    floor, _ = least_peak_bound(lanes.graph, copies=copies)
    decisions = (Decision(simulation, v, lanes.timeline) for v in range(lanes.graph.n_nodes))
    return {
        "order": lanes.order,
        "again": np.flatnonzero(~simulation.schedule.first_run).tolist(),
        "trace": trace,
        "bytes": texts.of_bytes(trace),
        "value": lives.value.tolist(),
        "made": lives.begin.tolist(),
        "end": lives.end.tolist(),
        "role": lives.role.tolist(),
        "peak_step": simulation.peak_step,
        "limit": None if limit is None else [limit, texts(f"budget {format_bytes(limit)}")],
        "floor": [floor, texts(f"no schedule goes below {format_bytes(floor)}")],
        "why": [[texts(line) for line in decision.lines()] for decision in decisions],
        "engines": None if lanes.timeline is None else _engines(simulation, lanes.timeline, texts),
    }


def _facts(plan: Plan | Simulation) -> list[tuple[str, str]]:
    if isinstance(plan, Plan):
        return list(plan.rows())
    graph, one_pass, base = plan.graph, plan.graph.needed_compute, baseline_peak(plan.graph)
    share = percent(plan.peak_memory, base)
    return [
        ("peak", f"{format_bytes(plan.peak_memory)}, {share} of that without rematerialization"),
        ("compute", f"{graph.labels.compute(plan.compute)}, {percent(plan.overhead, one_pass)} more than one pass"),
        ("schedule", Lanes.of(plan).size),
    ]


def _engines(simulation: Simulation, played: Timeline, texts: Texts) -> dict[str, Any]:
    loads = simulation.schedule.loads
    return {
        "names": list(ENGINES),
        "time": played.last,
        "duration": texts(simulation.graph.labels.compute(played.in_units(played.last))),
        "begin": [played.begin.tolist(), played.store_begin.tolist(), played.load_begin.tolist()],
        "end": [played.end.tolist(), played.store_end.tolist(), played.load_end.tolist()],
        "stores": played.stores.tolist(),
        "loads": loads[:, 1].tolist(),
        "load_step": loads[:, 0].tolist(),
        "waits": [texts(simulation.graph.labels.compute(played.in_units(wait))) for wait in played.waits.tolist()],
        "host": texts.of_bytes(simulation.host_trace.tolist()),
        "host_trace": simulation.host_trace.tolist(),
    }
