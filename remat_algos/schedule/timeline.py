"""When a schedule runs: compute, copies to the host and copies back, on three engines that work side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.cost.links import PER_SECOND, Link
from remat_algos.ir.arrays import Int32, Int64, by_fields, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.timeline import timeline as play
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.units import percent
from remat_algos.text.wording import counted, one_line

ENGINES = ("compute", "out", "in")


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Begins of all runs and copies of a schedule, in the unit of the graph's costs.

    Parameters
    ----------
    simulation : Simulation
    link : Link
    begin : int64[m]
        Of each step's run.
    load_begin : int64[k]
        Of each load, in the order of `schedule.loads`.
    stores : int32[s]
        Values that are copied to the host, in this order.
    store_begin : int64[s]
    time : int
        The end of the last run or copy.
    """

    simulation: Simulation
    link: Link
    begin: Int64
    load_begin: Int64
    stores: Int32
    store_begin: Int64
    time: int

    __reduce__ = by_fields

    def __repr__(self) -> str:
        needed = self.simulation.graph.needed_compute
        return one_line(
            self,
            f"time {self.time:,}",
            f"overhead in time {percent(self.overhead, needed)}",
            f"waits {percent(int(self.waits.sum()), needed)}",
            counted(len(self.stores), "store"),
            counted(len(self.load_begin), "load"),
        )

    @property
    def overhead(self) -> int:
        """Time beyond running every needed node once."""
        return self.time - self.simulation.graph.needed_compute

    @property
    def end(self) -> Int64:
        """int64[m]: the end of each step's run."""
        return self.begin + self.simulation.graph.compute[self.simulation.schedule.order]

    @property
    def waits(self) -> Int64:
        """int64[m]: how long compute waits for copies before each run."""
        return self.begin - np.concatenate([[0], self.end[:-1]]) if self.begin.size else self.begin

    @property
    def load_end(self) -> Int64:
        """int64[k]: when each load has arrived."""
        return self.load_begin + self.link.times(self.simulation.graph)[1][self.simulation.schedule.loads[:, 1]]

    @property
    def store_end(self) -> Int64:
        """int64[s]: when each store has ended."""
        return self.store_begin + self.link.times(self.simulation.graph)[0][self.stores]

    @property
    def step_begin(self) -> Int64:
        """int64[m]: when the memory of each step is taken: the runs before it are over, what they free is stored."""
        simulation, lives = self.simulation, self.simulation.lifetimes
        found = np.append(0, self.end)
        stored = np.zeros(simulation.graph.n_values, np.int64)
        stored[self.stores] = self.store_end
        first = simulation.schedule.first_run[lives.made_at] & ~simulation.is_load
        waits = np.where(first, stored[lives.value], 0)
        waits[simulation.is_load] = self.load_end
        np.maximum.at(found, lives.end, waits)
        return np.maximum.accumulate(found)[:-1]

    @property
    def per_second(self) -> int:
        """Units of time in a second."""
        labels = self.simulation.graph.labels
        return PER_SECOND[labels.compute_unit] * labels.compute_scale

    @property
    def busy(self) -> dict[str, float]:
        """The share of the time that each of `ENGINES` works."""
        busy = (
            self.simulation.compute,
            int((self.store_end - self.store_begin).sum()),
            int((self.load_end - self.load_begin).sum()),
        )
        return {engine: amount / self.time if self.time else 0.0 for engine, amount in zip(ENGINES, busy, strict=True)}

    def trace(self) -> dict[str, Any]:
        """Trace events, as Perfetto and `chrome://tracing` read them.

        A complete event for each run and copy, in microseconds, on a thread for each of `ENGINES`, and counters of the
        bytes on the device, without residents, and on the host, which change where a step takes its memory.

        Examples
        --------
        >>> from remat_algos.ir.labels import Labels
        >>> chain = ComputationGraph.from_edges([(0, 1)], compute=[3, 5], labels=Labels(compute_unit="us"))
        >>> events = timeline(simulate(chain, [0, 1]), Link.of("pcie5")).trace()["traceEvents"]
        >>> [(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
        [('0', 0.0, 3.0), ('1', 3.0, 5.0)]
        """
        events = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "plan"}}]
        for thread, engine in enumerate(ENGINES):
            events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": thread, "args": {"name": engine}})
            events.append(
                {"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": thread, "args": {"sort_index": thread}}
            )
        return {"displayTimeUnit": "ms", "traceEvents": [*events, *self._spans(), *self._counters()]}

    def _spans(self) -> Iterator[dict[str, Any]]:
        """A complete event for each run and copy."""
        simulation, graph, scale = self.simulation, self.simulation.graph, 1e6 / self.per_second
        order, first = simulation.schedule.order, simulation.schedule.first_run
        forward = graph.forward[order]
        nodes, steps = simulation.schedule.names(graph), np.arange(len(order))
        values, load_steps = simulation.schedule.loads[:, 1], simulation.schedule.loads[:, 0]
        kinds = np.where(first, np.where(forward, "forward", "backward"), "recomputed").tolist()
        made_at = np.zeros(graph.n_nodes, np.int64)
        made_at[order[first]] = steps[first]
        store_steps = made_at[graph.producer[self.stores]]
        n_stores, n_loads = len(self.stores), len(values)
        for thread, names, category, step, begin, end in (
            (0, nodes, kinds, steps, self.begin, self.end),
            (
                1,
                map(graph.value_name, self.stores),
                ["store"] * n_stores,
                store_steps,
                self.store_begin,
                self.store_end,
            ),
            (2, map(graph.value_name, values), ["load"] * n_loads, load_steps, self.load_begin, self.load_end),
        ):
            columns = (step.tolist(), begin.tolist(), (end - begin).tolist())
            for name, cat, at, ts, dur in zip(names, category, *columns, strict=True):
                yield {
                    **{"ph": "X", "name": name, "cat": cat, "pid": 0, "tid": thread},
                    **{"ts": ts * scale, "dur": dur * scale, "args": {"step": at}},
                }

    def _counters(self) -> Iterator[dict[str, Any]]:
        """The bytes on the device and the host, at each step and at the end."""
        simulation, scale = self.simulation, 1e6 / self.per_second
        times = [*self.step_begin.tolist(), self.time]
        for name, trace in (("device", simulation.memory_trace), ("host", simulation.host_trace)):
            last = int(simulation.graph.memory[simulation.graph.output].sum()) if name == "device" else 0
            for ts, amount in zip(times, [*trace.tolist(), last], strict=True):
                yield {"ph": "C", "name": name, "pid": 0, "ts": ts * scale, "args": {"bytes": amount}}


def timeline(simulation: Simulation, link: Link) -> Timeline:
    """Play a schedule on three engines.

    Each works in order. A store begins when its value has been made, a load when compute has come to its step and the
    store has ended; a run waits for the loads that it reads, and for stores of memory that is freed before it.

    Parameters
    ----------
    simulation : Simulation
    link : Link

    Returns
    -------
    Timeline

    Raises
    ------
    GraphError
        If the costs of the graph are no times.
    """
    begin, load_begin, stores, store_begin, _, _, time = _played(simulation, link, -1)
    return Timeline(simulation, link, sealed(begin), sealed(load_begin), sealed(stores), sealed(store_begin), time)


def linger(graph: ComputationGraph, schedule: Schedule, link: Link, limit: int) -> Schedule:
    """The schedule with memory lingering while its store runs, as far as it fits, and without the loads that it spares.

    Where memory has to be free before its store has ended, compute waits.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule
        Its `lingering` is not looked at.
    link : Link
    limit : int
        Bytes.
    """
    loads = schedule.loads
    while True:
        bare = Schedule(schedule.order, loads)
        *_, lingering, dropped, _ = _played(simulate(graph, bare), link, limit)
        if not dropped.any():
            return Schedule(schedule.order, loads, lingering)
        loads = loads[dropped == 0]


def _played(simulation: Simulation, link: Link, limit: int) -> tuple:
    graph, schedule, lives = simulation.graph, simulation.schedule, simulation.lifetimes
    loaded = np.zeros(graph.n_values, bool)
    loaded[schedule.loads[:, 1]] = True
    values = np.flatnonzero(loaded).astype(np.int32)
    out_time, in_time = link.times(graph)
    return play(
        graph.arrays,
        schedule.order,
        schedule.loads,
        values=values,
        out_time=out_time[values],
        in_time=in_time[values],
        instance_indptr=lives.instance_indptr,
        end=lives.end,
        trace=simulation.memory_trace,
        limit=limit,
    )
