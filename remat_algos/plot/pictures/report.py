"""The page of a report: one file that opens from disk, asks for nothing, and steps through plans."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
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
def report(plan: Plan | Simulation, beside: Plan | Simulation | None = None, *, title: str = "") -> str:
    """HTML on which a plan is stepped through beside another one.

    The page is one file without requests: graph, memory of the steps, schedule and the reasons of `explain` for every
    node. Data of more than 500,000 characters, about 1,000 nodes, are compressed in it.

    Parameters
    ----------
    plan : Plan or Simulation
    beside : Plan or Simulation, optional
        Of the same graph; by default every node once.
    title : str
        Of the page; by default what the graph is.

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
    if beside is not None:
        check_kind(beside, Plan, "beside", Simulation)
    graph = plan.graph
    if graph.n_nodes > tuning.MAX_DRAWN_NODES:
        raise PlanError(
            "a report steps through {max_nodes:,} nodes at most, and the graph has {n_nodes:node}; make a "
            "coarser graph, such as one of layers",
            max_nodes=tuning.MAX_DRAWN_NODES,
            n_nodes=graph.n_nodes,
        )
    if beside is not None and beside.graph.hash != graph.hash:
        raise PlanError("the two plans are of different graphs; give two plans of one graph")
    name = plan.method if isinstance(plan, Plan) else "plan"
    if beside is None:
        beside, other = baseline(graph), "no rematerialization"
    else:
        other = beside.method if isinstance(beside, Plan) else "beside it"
    data = _data([plan, beside], [name, other])
    return _page(data, title or data["graph"]["title"])


def _page(data: dict[str, object], title: str) -> str:
    """Return the text of the page; no name can end its script."""
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
    """The JSON object of a page: columns instead of objects, ids instead of names, and every text once.

    "top" is the bytes at the upper edge of every curve, "layout" is in hundredths of a node's width, instances are
    [made, end).
    """
    graph = plans[0].graph
    texts, lanes = Texts(), [Lanes.of(plan) for plan in plans]
    highest = max([1, *(max(each.simulation.peak_memory, each.limit or 0) for each in lanes)])
    # A twelfth is left free above the highest bytes.
    top = highest + -(-highest // 12)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": _graph(graph, texts),
        "top": [top, texts(format_bytes(top))],
        "layout": _layout(graph),
        "plans": [
            {"title": title, "facts": _facts(plan), **_plan(each, texts)}
            for plan, each, title in zip(plans, lanes, titles, strict=True)
        ],
        "texts": texts.kept,
    }


class Texts:
    """Texts that columns point to, each kept once."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._place: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._place:
            self._place[text] = len(self.kept)
            self.kept.append(text)
        return self._place[text]

    def of_bytes(self, sizes: Iterable[int]) -> list[int]:
        """Return the places of numbers of bytes."""
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
        found: list[int] = np.rint(100 * points).astype(np.int64).ravel().tolist()
        return found

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
    """Return the three engines: what each does from when to when, and the bytes on the host."""
    loads = simulation.schedule.loads
    return {
        "names": list(ENGINES),
        "time": played.last,
        "begin": [played.begin.tolist(), played.store_begin.tolist(), played.load_begin.tolist()],
        "end": [played.end.tolist(), played.store_end.tolist(), played.load_end.tolist()],
        "stores": played.stores.tolist(),
        "loads": loads[:, 1].tolist(),
        "load_step": loads[:, 0].tolist(),
        "waits": [texts(simulation.graph.labels.compute(played.in_units(wait))) for wait in played.waits.tolist()],
        "host": texts.of_bytes(simulation.host_trace.tolist()),
        "host_trace": simulation.host_trace.tolist(),
    }
