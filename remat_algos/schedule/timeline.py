"""Times of a schedule: compute, copies to the host and copies back, on three concurrent engines."""

from dataclasses import dataclass

import numpy as np

from remat_algos.context import Clock
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import PER_SECOND, Link, in_units
from remat_algos.errors import ScheduleError
from remat_algos.ir.arrays import Bool, Int32, Int64, by_fields, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.timeline import timeline as play
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, one_line

ENGINES = ("compute", "out", "in")


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Begins of all runs and copies of a schedule, in ticks: `Link.ticks` make a unit of the costs.

    `time`, `overhead` and `waiting` are in the unit of the costs. `load_begin` is in the order of `schedule.loads`;
    `stores` are the values copied to the host, in this order; `last` is the end of the last run or copy.
    """

    simulation: Simulation
    link: Link | None
    begin: Int64
    load_begin: Int64
    stores: Int32
    store_begin: Int64
    last: int
    ticks: int = 1

    __reduce__ = by_fields

    def __repr__(self) -> str:
        needed = self.simulation.graph.needed_compute
        return one_line(
            self,
            f"time {self.time:,}",
            f"overhead in time {percent(self.overhead, needed)}",
            f"waits {percent(self.waiting, needed)}",
            counted(len(self.stores), "store"),
            counted(len(self.load_begin), "load"),
        )

    @property
    def time(self) -> int | float:
        """The end of the last run or copy, in the unit of the graph's costs."""
        return self.in_units(self.last)

    @property
    def overhead(self) -> int | float:
        """Time beyond running every needed node once, in the unit of the graph's costs."""
        return self.in_units(self.last - self.ticks * self.simulation.graph.needed_compute)

    @property
    def waiting(self) -> int | float:
        """Total time that compute waits for copies, in the unit of the graph's costs."""
        return self.in_units(int(self.waits.sum()))

    def in_units(self, ticks: int) -> int | float:
        """Return a time in the unit of the graph's costs."""
        return in_units(ticks, self.ticks)

    @property
    def end(self) -> Int64:
        """int64[m]: the end of each step's run."""
        return self.begin + self.ticks * self.simulation.graph.compute[self.simulation.schedule.order]

    @property
    def waits(self) -> Int64:
        """int64[m]: time that compute waits for copies before each run."""
        return self.begin - np.concatenate([[0], self.end[:-1]]) if self.begin.size else self.begin

    @property
    def load_end(self) -> Int64:
        """int64[k]: end of each load."""
        return self.load_begin + self._copy_times[1][self.simulation.schedule.loads[:, 1]]

    @property
    def store_end(self) -> Int64:
        """int64[s]: end of each store."""
        return self.store_begin + self._copy_times[0][self.stores]

    @property
    def _copy_times(self) -> tuple[Int64, Int64]:
        """int64[n_values] each: the time of a store and of a load."""
        return _copy_times(self.simulation.graph, self.link)

    @property
    def step_begin(self) -> Int64:
        """int64[m]: time when memory of each step is allocated: after earlier runs and the stores of what they free."""
        simulation, lives = self.simulation, self.simulation.lifetimes
        found, waits = np.append(0, self.end), np.zeros(lives.value.size, np.int64)
        if self.stores.size:
            waits[simulation.store_instances[0]] = self.store_end
            waits[simulation.is_load] = self.load_end
        np.maximum.at(found, lives.end, waits)
        return np.maximum.accumulate(found)[:-1]

    @property
    def per_second(self) -> int:
        """Ticks in a second; costs that are no times, which have no link, count as microseconds."""
        labels = self.simulation.graph.labels
        return PER_SECOND.get(labels.compute_unit, 10**6) * labels.compute_scale * self.ticks

    @property
    def tick_microseconds(self) -> float:
        """Microseconds in one tick."""
        return 1e6 / self.per_second

    @property
    def busy(self) -> dict[str, float]:
        """The share of the time that each of `ENGINES` works."""
        busy = (
            self.ticks * self.simulation.compute,
            int((self.store_end - self.store_begin).sum()),
            int((self.load_end - self.load_begin).sum()),
        )
        return {engine: amount / self.last if self.last else 0.0 for engine, amount in zip(ENGINES, busy, strict=True)}


def timeline(simulation: Simulation, link: AnyLink | None = None) -> Timeline:
    """Play a schedule on three in-order engines (compute, store, load), or without a link on the first alone.

    A store starts after its step in the schedule, a load when its step starts and its store has ended; a run waits for
    the loads that it reads, and for stores of memory freed before it. The link has its full rates (`link.planned` has
    those of plans). Without one, loads are a ScheduleError; with one, costs without a time unit are a GraphError.
    """
    link = None if link is None else get_link(link)
    if link is None and simulation.schedule.loads.size:
        step, value = (int(each) for each in simulation.schedule.loads[0])
        raise ScheduleError(
            "step {step} loads {name}, and there is no link; give one, such as pcie5",
            name=simulation.graph.value_name(value),
            step=step,
            node=-1,
        )
    stores = simulation.lifetimes.value[simulation.store_instances[0]]
    begin, load_begin, store_begin, _, _, last = _played(simulation, link, -1)
    begin, load_begin, stores, store_begin = map(sealed, (begin, load_begin, stores, store_begin))
    ticks = 1 if link is None else link.ticks(simulation.graph)
    return Timeline(simulation, link, begin, load_begin, stores, store_begin, last, ticks)


def _copy_times(graph: ComputationGraph, link: Link | None) -> tuple[Int64, Int64]:
    """int64[n_values] each: the time of a store and of a load, in ticks."""
    none = np.zeros(graph.n_values, np.int64)
    return (none, none) if link is None else link.times(link.refined(graph))


def linger(graph: ComputationGraph, schedule: Schedule, link: Link, limit: int) -> Schedule:
    """Let memory linger while its store runs, as far as it fits `limit` bytes, and drop the loads that this spares.

    Where memory must be free before its store ends, compute waits. Ignores the `lingering` of the schedule.
    """
    loads = schedule.loads
    while True:
        stores = schedule.stores[np.isin(schedule.stores[:, 1], loads[:, 1])]
        simulation = simulate(graph, Schedule(schedule.order, loads, stores=stores))
        *_, lingering, dropped, _ = _played(simulation, link, limit)
        if not dropped.any():
            break
        loads = loads[dropped == 0]
    instances = simulation.store_instances[0][lingering[:, 0]]
    made = simulation.lifetimes.value[instances], simulation.lifetimes.made_at[instances]
    return Schedule(schedule.order, loads, np.stack([*made, lingering[:, 1]], axis=1), stores)


def _played(simulation: Simulation, link: Link | None, limit: int) -> tuple:
    graph, schedule, lives = simulation.graph, simulation.schedule, simulation.lifetimes
    instances, steps = simulation.store_instances
    values = lives.value[instances]
    out_time, in_time = _copy_times(graph, link)
    return play(
        (graph if link is None else link.refined(graph)).arrays,
        schedule.order,
        schedule.loads,
        stores=values,
        store_step=steps,
        store_instance=instances,
        out_time=out_time[values],
        in_time=in_time[values],
        instance_indptr=lives.instance_indptr,
        end=lives.end,
        trace=simulation.memory_trace,
        limit=limit,
    )


def evict(simulation: Simulation, limit: int, clock: Clock | None = None, *, leaving: Bool | None = None) -> Schedule:
    """Add loads until each step is within `limit` bytes, if possible: Belady's choice weighted by bytes.

    At the highest step, evict the value of `leaving` (bool[n_values], by default all but outputs) with the most bytes
    times steps until its next read. Memory that lingers counts as free. `clock` may raise to end the search.
    """
    if simulation.schedule.lingering.size:
        simulation = simulate(simulation.graph, Schedule(simulation.schedule.order, simulation.schedule.loads))
    graph, schedule, value = simulation.graph, simulation.schedule, simulation.lifetimes.value
    trace, gaps = simulation.memory_trace.copy(), _gaps(simulation, leaving)
    size = graph.memory[value[gaps[:, 0]]]
    gaps, size = (each[np.lexsort((-gaps[:, 0], size * (gaps[:, 2] - gaps[:, 1])))] for each in (gaps, size))
    # Segment tree over the steps: each gap is in the few nodes that cover its steps; the best gap is last.
    n_leaves = len(schedule)
    over: list[list[int]] = [[] for _ in range(2 * n_leaves)]
    for place, (before, after) in enumerate(gaps[:, 1:].tolist()):
        left, right = before + 1 + n_leaves, after + n_leaves
        while left < right:
            if left & 1:
                over[left].append(place)
                left += 1
            if right & 1:
                right -= 1
                over[right].append(place)
            left, right = left >> 1, right >> 1
    loads, gone = schedule.loads.tolist(), bytearray(len(gaps))
    while trace.size and trace[step := int(trace.argmax())] > limit:
        if clock is not None:
            clock.check()
        best, node = -1, step + n_leaves
        while node:
            places = over[node]
            while places and gone[places[-1]]:
                places.pop()
            best, node = max(best, places[-1] if places else -1), node >> 1
        if best < 0:
            break  # everything live at the step is used there
        gone[best] = True
        instance, before, after = gaps[best].tolist()
        trace[before + 1 : after] -= size[best]
        loads.append([after, int(value[instance])])
    return Schedule(schedule.order, loads)


def _gaps(simulation: Simulation, leaving: Bool | None) -> Int64:
    """int64[*, 3]: (instance, before, after) for steps between which it is live and not used; outputs have to stay."""
    graph, value = simulation.graph, simulation.lifetimes.value
    movable = ~graph.output[value] & (graph.memory[value] > 0)
    movable = (movable if leaving is None else movable & leaving[value]).tolist()
    used, found = simulation.lifetimes.made_at.tolist(), list[tuple[int, int, int]]()
    for step, taken in enumerate(simulation.steps()):
        for _, i in taken.reads:
            if movable[i] and used[i] + 1 < step:
                found.append((i, used[i], step))
            used[i] = step
    return np.array(found, np.int64).reshape(-1, 3)
