"""What the page of a report holds: a graph, its layout and plans, as one JSON object.

Columns instead of objects, ids instead of names, and everything that is said as text, so that the page only selects.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound, peak_bound_with_copies
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan, plan_rows
from remat_algos.plot.layered_layout import layout
from remat_algos.plot.subject import size_of
from remat_algos.questions.explain import Decision
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.timeline import ENGINES, Timeline
from remat_algos.text.units import format_bytes, percent
from remat_algos.text.wording import counted, shortened

FORMAT, VERSION = "remat-report", 1
HEADROOM = 12  # a twelfth of the highest bytes is left free above it
HUNDREDTHS = 100  # points of the layout are whole hundredths of the width of a node


def report_data(plans: Sequence[Plan | Simulation], titles: Sequence[str]) -> dict[str, Any]:
    """The JSON object of a page.

    Parameters
    ----------
    plans : sequence of Plan or Simulation
        Of one graph.
    titles : sequence of str
        One for each.

    Returns
    -------
    dict
        "graph": columns per node and per value; "top": bytes at the upper edge of every curve; "layout": points and
        lines in hundredths; "plans": for each the order, bytes of each step, instances of values [made, end), and
        texts. "texts": what columns of texts point to.
    """
    graph = plans[0].graph
    texts = Texts()
    parts = [_parts(plan) for plan in plans]
    highest = max([1, *(max(simulation.peak_memory, limit or 0) for simulation, limit, _ in parts)])
    top = highest + -(-highest // HEADROOM)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": _graph(graph, texts),
        "top": [top, texts(format_bytes(top))],
        "layout": _layout(graph),
        "plans": [_plan(plan, title, texts) for plan, title in zip(plans, titles, strict=True)],
        "texts": texts.kept,
    }


class Texts:
    """Texts that columns point to, each kept once."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._place: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The place of a text."""
        if text not in self._place:
            self._place[text] = len(self.kept)
            self.kept.append(text)
        return self._place[text]

    def of_bytes(self, sizes: Iterable[int]) -> list[int]:
        """The places of numbers of bytes."""
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
        found: list[int] = np.rint(HUNDREDTHS * points).astype(np.int64).ravel().tolist()
        return found

    return {"points": whole(laid.points), "inside": whole(laid.inside), "across": whole(laid.across)}


def _plan(plan: Plan | Simulation, title: str, texts: Texts) -> dict[str, Any]:
    simulation, limit, played = _parts(plan)
    lives, graph = simulation.lifetimes, simulation.graph
    copies = played is not None or simulation.schedule.loads.size > 0
    floor, _ = (peak_bound_with_copies if copies else least_peak_bound)(graph)
    return {
        "title": title,
        "facts": _facts(plan),
        "order": simulation.schedule.order.tolist(),
        "again": np.flatnonzero(~simulation.schedule.first_run).tolist(),
        "trace": simulation.memory_trace.tolist(),
        "bytes": texts.of_bytes(simulation.memory_trace.tolist()),
        "value": lives.value.tolist(),
        "made": lives.made_at.tolist(),
        "end": lives.end.tolist(),
        "role": np.minimum(simulation.instance_role, 3).tolist(),
        "peak_step": simulation.peak_step,
        "limit": None if limit is None else [limit, texts(f"budget {format_bytes(limit)}")],
        "floor": [floor, texts(f"no schedule goes below {format_bytes(floor)}")],
        "why": [[texts(line) for line in Decision(simulation, v, played).lines()] for v in range(graph.n_nodes)],
        "engines": None if played is None else _engines(simulation, played, texts),
    }


def _parts(plan: Plan | Simulation) -> tuple[Simulation, int | None, Timeline | None]:
    return (plan.simulation, plan.limit, plan.timeline) if isinstance(plan, Plan) else (plan, None, None)


def _facts(plan: Plan | Simulation) -> list[tuple[str, str]]:
    """What is said of the whole plan: (label, text) of each line."""
    if isinstance(plan, Plan):
        return list(plan_rows(plan))
    graph, one_pass, base = plan.graph, plan.graph.needed_compute, baseline_peak(plan.graph)
    share = percent(plan.peak_memory, base)
    return [
        ("peak", f"{format_bytes(plan.peak_memory)}, {share} of that without rematerialization"),
        ("compute", f"{graph.labels.compute(plan.compute)}, {percent(plan.overhead, one_pass)} more than one pass"),
        ("schedule", size_of(plan)),
    ]


def _engines(simulation: Simulation, played: Timeline, texts: Texts) -> dict[str, Any]:
    """The three engines: what each does from when to when, and the bytes on the host."""
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
