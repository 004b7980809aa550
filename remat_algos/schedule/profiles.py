"""A timeline as trace events, which tools for profiles read. Times are computed, not measured."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from remat_algos.cost.links import PER_SECOND
from remat_algos.schedule.timeline import Timeline

FORWARD, RECOMPUTED, BACKWARD = "forward", "recomputed", "backward"


class Span(NamedTuple):
    """The run of a node or the copy of a value, on one engine, in the unit of the costs.

    The kind of a run is "forward", "recomputed" or "backward", that of a copy "store" or "load".
    """

    name: str
    kind: str
    step: int
    begin: int
    end: int


def spans(played: Timeline) -> dict[str, list[Span]]:
    """Return the spans of each engine, in order; without a link there is only "compute"."""
    schedule, graph = played.simulation.schedule, played.simulation.graph
    order, first = schedule.order, schedule.first_run
    kinds = np.where(first, np.where(graph.forward[order], FORWARD, BACKWARD), RECOMPUTED).tolist()
    runs = _row(schedule.names(graph), kinds, np.arange(len(order)), played.begin, played.end)
    if played.link is None:
        return {"compute": runs}
    loads, stores = schedule.loads, played.stores
    names = [[graph.value_name(x) for x in values.tolist()] for values in (stores, loads[:, 1])]
    out = _row(
        names[0],
        ["store"] * len(names[0]),
        played.simulation.store_instances[1] - 1,
        played.store_begin,
        played.store_end,
    )
    into = _row(names[1], ["load"] * len(names[1]), loads[:, 0], played.load_begin, played.load_end)
    return {"compute": runs, "out": out, "in": into}


def _row(names: list[str], kinds: list[str], steps: Any, begin: Any, end: Any) -> list[Span]:
    return [Span(*each) for each in zip(names, kinds, steps.tolist(), begin.tolist(), end.tolist(), strict=True)]


def clock(played: Timeline) -> str:
    """Return the time axis in words, with the cost of a microsecond if costs are not times."""
    labels = played.simulation.graph.labels
    if labels.compute_unit in PER_SECOND:
        return "simulated time"
    return f"simulated; 1 us stands for a cost of {labels.compute(labels.compute_scale)}"


def trace_events(played: Timeline) -> dict[str, Any]:
    """Trace events, as Perfetto and `chrome://tracing` read them.

    A complete event for each run and copy, in microseconds, on a thread for each engine; runs lie below one event for
    each part of the schedule that runs forward nodes, recomputes, or runs backward nodes. Counters of the bytes on the
    device, without residents, and with a link on the host, change where a step takes its memory. Costs that are no
    times count as microseconds.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> from remat_algos.schedule.timeline import timeline
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], compute=[3, 5, 2])
    >>> events = trace_events(timeline(simulate(chain, [0, 1, 0, 2])))["traceEvents"]
    >>> [(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    [('forward', 0.0, 8.0), ('A', 0.0, 3.0), ('B', 3.0, 5.0), ('recomputed', 8.0, 3.0), ('A', 8.0, 3.0), \
('forward', 11.0, 2.0), ('C', 11.0, 2.0)]
    """
    events: list[dict[str, Any]] = [_named("process_name", name=f"plan ({clock(played)})")]
    for thread, (engine, row) in enumerate(spans(played).items()):
        events.append(_named("thread_name", thread, name=engine))
        events.append(_named("thread_sort_index", thread, sort_index=thread))
        events += _slices(played, thread, row)
    return {"displayTimeUnit": "ms", "traceEvents": [*events, *_counters(played)]}


def _named(what: str, thread: int = 0, **names: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 0, "tid": thread, "args": names}


def _slices(played: Timeline, thread: int, row: list[Span]) -> Iterator[dict[str, Any]]:
    """Yield a complete event for each span, and one around neighbours of a kind on the engine that computes."""
    scale = played.tick_microseconds

    def event(name: str, kind: str, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
        common = {"ph": "X", "name": name, "cat": kind, "pid": 0, "tid": thread}
        return {**common, "ts": begin * scale, "dur": (end - begin) * scale, "args": args}

    for kind, group in groupby(row, key=lambda span: span.kind):
        part = list(group)
        if thread == 0:
            yield event(kind, "part", part[0].begin, part[-1].end, {"runs": len(part)})
        for span in part:
            yield event(span.name, kind, span.begin, span.end, {"step": span.step})


def _counters(played: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the bytes on the device and the host, at each step and at the end."""
    simulation, scale = played.simulation, played.tick_microseconds
    times = [*played.step_begin.tolist(), played.last]
    last = int(simulation.graph.memory[simulation.graph.output].sum())
    counted = [("device", simulation.memory_trace, last)]
    counted += [("host", simulation.host_trace, 0)] if played.link is not None else []
    for name, trace, end in counted:
        for ts, amount in zip(times, [*trace.tolist(), end], strict=True):
            yield {"ph": "C", "name": name, "pid": 0, "ts": ts * scale, "args": {"bytes": amount}}
