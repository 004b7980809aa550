"""When a schedule runs: compute, copies to the host and copies back, on three engines that work side by side."""

from dataclasses import dataclass

import numpy as np

from remat_algos.cost.links import Link
from remat_algos.ir.arrays import Int32, Int64, by_fields, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.timeline import Engines
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
    def busy(self) -> dict[str, float]:
        """The share of the time that each of `ENGINES` works."""
        busy = (
            self.simulation.compute,
            int((self.store_end - self.store_begin).sum()),
            int((self.load_end - self.load_begin).sum()),
        )
        return {engine: amount / self.time if self.time else 0.0 for engine, amount in zip(ENGINES, busy, strict=True)}


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
    leaving = np.flatnonzero(loaded[lives.value]).astype(np.int32)
    leaving = leaving[np.argsort(lives.end[leaving], kind="stable")]
    load_of = np.where(simulation.is_load, np.cumsum(simulation.is_load) - 1, -1).astype(np.int32)
    out_time, in_time = link.times(graph)
    return play(
        graph.arrays,
        schedule.order,
        schedule.loads,
        instance_indptr=lives.instance_indptr,
        value=lives.value,
        end=lives.end,
        leaving=leaving,
        load_of=load_of[leaving],
        trace=simulation.memory_trace,
        engines=Engines(out_time, in_time, graph.memory),
        limit=limit,
    )
