"""Timelines of schedules: compute, copies to the host and copies back on three concurrent engines."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from remat_algos.context import Clock
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import PER_SECOND, Link, in_units
from remat_algos.errors import ScheduleError
from remat_algos.ir.arrays import Bool, Int32, Int64, by_fields, sealed
from remat_algos.kernels.timeline import timeline as play
from remat_algos.schedule import tuning
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes, one_line

ENGINES = ("compute", "out", "in")


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Start times of all runs and copies of a schedule, in ticks; `Link.ticks` ticks are one unit of cost.

    `time`, `overhead` and `waiting` are in units of cost. Loads are in the order of `schedule.loads`. `stores` are the
    values copied to the host, in order of their copies. `last` is the end of the last run or copy. The link runs at
    `share` of its rates. Each row of `lingering`, int32[*, 2], contains an index into `stores` and the step at whose
    start the memory of that value is freed. `spared`, bool[k], marks loads that are unnecessary because their value is
    still on the device.
    """

    simulation: Simulation
    link: Link | None
    begin: Int64
    load_begin: Int64
    load_end: Int64
    stores: Int32
    store_begin: Int64
    store_end: Int64
    last: int
    lingering: Int32
    spared: Bool
    ticks: int = 1
    share: float = 1.0

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
        """End of the last run or copy, in units of cost."""
        return self.in_units(self.last)

    @property
    def overhead(self) -> int | float:
        """Time in excess of running every needed node once, in units of cost."""
        return self.in_units(self.last - self.ticks * self.simulation.graph.needed_compute)

    @property
    def waiting(self) -> int | float:
        """Total time that compute waits for copies, in units of cost."""
        return self.in_units(int(self.waits.sum()))

    def in_units(self, ticks: int) -> int | float:
        """Convert a time from ticks to units of cost."""
        return in_units(ticks, self.ticks)

    @property
    def end(self) -> Int64:
        """int64[m]: the end of the run of each step."""
        return self.begin + self.ticks * self.simulation.graph.compute[self.simulation.schedule.order]

    @property
    def waits(self) -> Int64:
        """int64[m]: time that compute waits for copies before each run."""
        return self.begin - np.concatenate([[0], self.end[:-1]]) if self.begin.size else self.begin

    @property
    def step_begin(self) -> Int64:
        """int64[m]: time at which each step allocates memory: earlier runs, and copies of freed values, have ended."""
        simulation, lives = self.simulation, self.simulation.lifetimes
        begin, waits = np.append(0, self.end), np.zeros(lives.value.size, np.int64)
        if self.stores.size:
            waits[simulation.store_instances[0]] = self.store_end
            waits[simulation.is_load] = self.load_end
        np.maximum.at(begin, lives.end, waits)
        return np.maximum.accumulate(begin)[:-1]

    @property
    def per_second(self) -> int:
        """Ticks per second; without a link, costs without a time unit count as microseconds."""
        labels = self.simulation.graph.labels
        return PER_SECOND.get(labels.compute_unit, 10**6) * labels.compute_scale * self.ticks

    @property
    def tick_microseconds(self) -> float:
        """Microseconds in one tick."""
        return 1e6 / self.per_second

    @property
    def busy(self) -> dict[str, float]:
        """Share of the total time during which each of `ENGINES` is busy."""
        busy = (
            self.ticks * self.simulation.compute,
            int((self.store_end - self.store_begin).sum()),
            int((self.load_end - self.load_begin).sum()),
        )
        return {engine: amount / self.last if self.last else 0.0 for engine, amount in zip(ENGINES, busy, strict=True)}

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield table rows: the time at several shares of the link's rates, and the copied bytes."""
        simulation, graph = self.simulation, self.simulation.graph
        one_pass, loads = graph.needed_compute, self.simulation.schedule.loads[:, 1]
        waits = percent(self.waiting, one_pass)
        waiting = f"; compute waits {waits} of one pass for copies" if self.waiting else ""
        rate = f" at {100 * self.share:g} % of the rate" if self.share < 1 else ""
        extra = f"{percent(self.overhead, one_pass)} more than one pass{rate}"
        yield "time", f"{graph.labels.compute(self.time)}, {extra}{waiting}"
        if not simulation.stores.size:
            yield "copies", f"none over {self.link}"
            return
        others = (timeline(simulation, self.link, share) for share in tuning.OTHER_SHARES if share != self.share)
        at = (f"{percent(each.overhead, one_pass)} at {100 * each.share:g} % of the rate" for each in others)
        yield "", ", ".join(at)
        out, back = (format_bytes(int(graph.memory[copied].sum())) for copied in (simulation.stores, loads))
        stored, n_loads = counted(simulation.stores.size, "value"), counted(loads.size, "load")
        yield "copies", f"{stored} stored ({out}), {n_loads} ({back}) over {self.link}"
        busy = ", ".join(f"{engine} {percent(round(1000 * share), 1000)}" for engine, share in self.busy.items())
        yield "", f"{format_bytes(simulation.host_peak)} on the host at most; busy: {busy}"

    def with_late_stores(self, limit: int, trials: int = tuning.STORE_ORDERS) -> "Timeline":
        """Keep memory live while its store runs, within `limit` bytes, and delay stores if that saves time.

        If a value is still on the device, its load is dropped. If memory is needed before the store of its value ends,
        compute waits. If compute waits for a store, stores queued right before this store move behind it if their
        memory is freed later. This is the branching step of Carlier's algorithm for one machine with release and due
        dates. `lingering` of the schedule is ignored.
        """
        graph, schedule = self.simulation.graph, self.simulation.schedule

        def play(rows: Int32) -> Timeline:
            loads = schedule.loads
            while True:
                stores = rows[np.isin(rows[:, 1], loads[:, 1])]
                simulation = simulate(graph, Schedule(schedule.order, loads, stores=stores))
                played = timeline(simulation, self.link, self.share, limit)
                if not played.spared.any():
                    break
                loads = loads[~played.spared]
            place, until = played.lingering.T
            instances, lives = simulation.store_instances[0][place], simulation.lifetimes
            stays = np.stack([lives.value[instances], lives.made_at[instances], until], axis=1)
            return timeline(simulate(graph, Schedule(schedule.order, loads, stays, stores)), self.link, self.share)

        best = play(schedule.stores)
        if best.stores.size < 2:
            return best
        bare = simulate(graph, Schedule(schedule.order, schedule.loads)).lifetimes
        release = np.zeros(graph.n_values, np.int64)  # end of each first instance
        value, first = np.unique(bare.value, return_index=True)
        release[value] = bare.end[first]
        while trials > 0:
            for stores in _moved_back(best, release):
                trials -= 1
                trial = play(stores)
                fits = trial.simulation.peak_memory <= max(limit, best.simulation.peak_memory)
                if fits and trial.last < best.last:
                    best = trial
                    break
                if trials <= 0:
                    return best
            else:
                return best
        return best


def timeline(
    simulation: Simulation, link: AnyLink | None = None, share: float = 1.0, limit: int | None = None
) -> Timeline:
    """Time a schedule on three in-order engines (compute, store, load), or on one (compute) if there is no link.

    A store starts after its step in the schedule. A load starts when its step starts and its store has ended. A run
    waits until the values that it reads are loaded. It also waits for the stores of values freed before it, except
    stores of values whose memory can stay allocated within `limit` bytes. The link runs at `share` of its rates
    (`link.share` for plans). Raise ScheduleError if values are loaded without a link, and GraphError if there is a link
    but the costs have no time unit.
    """
    graph, schedule, lives = simulation.graph, simulation.schedule, simulation.lifetimes
    link = None if link is None else get_link(link)
    if link is None and schedule.loads.size:
        step, value = (int(each) for each in schedule.loads[0])
        raise ScheduleError(
            "step {step} loads {name}, and there is no link; give one, such as pcie5",
            name=graph.value_name(value),
            step=step,
            node=-1,
        )
    instances, steps = simulation.store_instances
    values, loaded = lives.value[instances], schedule.loads[:, 1]
    ticks, out_time, in_time = 1, *np.zeros((2, graph.n_values), np.int64)
    if link is not None:
        rates = link.at(share) if share != 1 else link
        ticks, graph = rates.ticks(graph), rates.refined(graph)
        out_time, in_time = rates.times(graph)
    begin, load_begin, store_begin, lingering, dropped, last = play(
        graph.arrays,
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
        limit=-1 if limit is None else limit,
    )
    loads = sealed(load_begin), sealed(load_begin + in_time[loaded])
    stores = sealed(values), sealed(store_begin), sealed(store_begin + out_time[values])
    lingers = sealed(lingering), sealed(dropped.view(np.bool_))
    return Timeline(simulation, link, sealed(begin), *loads, *stores, last, *lingers, ticks, share)


def _moved_back(played: Timeline, release: Int64) -> Iterator[Int32]:
    """Yield variants of the store rows: one store is moved behind a later store that a run or a load waits for."""
    values, begin, end = played.stores.tolist(), played.store_begin, played.store_end
    steps = played.simulation.store_instances[1].tolist()
    awaited = np.concatenate([played.begin[played.waits > 0], played.load_begin, [played.last]])
    rows = played.simulation.schedule.stores.tolist()
    for urgent in np.flatnonzero(np.isin(end, awaited)).tolist():
        at = urgent - 1
        while at >= 0 and begin[at + 1] == end[at]:
            if release[values[at]] > release[values[urgent]]:
                yield _behind(rows, values[at], (steps[urgent], values[urgent]))
            at -= 1


def _behind(rows: list[list[int]], moved: int, urgent: tuple[int, int]) -> Int32:
    """Return the rows with the store of value `moved` right behind the store `urgent` (step, value)."""
    left = [row for row in rows if row[1] != moved]
    place = next((i + 1 for i, row in enumerate(left) if row[1] == urgent[1]), None)
    if place is None:
        place = sum(row[0] < urgent[0] for row in left)
    left.insert(place, [urgent[0], moved])
    return np.array(left, np.int32)


def evict(simulation: Simulation, limit: int, clock: Clock | None = None, *, leaving: Bool | None = None) -> Schedule:
    """Add loads until each step is within `limit` bytes, if possible: Belady's rule weighted by size.

    At the step with the most live bytes, evict the value with the largest product of bytes and steps until its next
    read, among `leaving` (bool[n_values], by default all except outputs). Lingering memory counts as free. `clock` may
    raise an exception, which stops the search.
    """
    if simulation.schedule.lingering.size:
        simulation = simulate(simulation.graph, Schedule(simulation.schedule.order, simulation.schedule.loads))
    graph, schedule, value = simulation.graph, simulation.schedule, simulation.lifetimes.value
    trace, gaps = simulation.memory_trace.copy(), _gaps(simulation, leaving)
    size = graph.memory[value[gaps[:, 0]]]
    gaps, size = (each[np.lexsort((-gaps[:, 0], size * (gaps[:, 2] - gaps[:, 1])))] for each in (gaps, size))
    # A segment tree over the steps. Each gap is stored in the few tree nodes that cover its steps. The best gap of a
    # tree node is the last in its list.
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
            break  # no candidate is left
        gone[best] = True
        instance, before, after = gaps[best].tolist()
        trace[before + 1 : after] -= size[best]
        loads.append([after, int(value[instance])])
    return Schedule(schedule.order, loads)


def _gaps(simulation: Simulation, leaving: Bool | None) -> Int64:
    """Return rows (instance, before, after): the instance, not an output, is live but unused between these steps."""
    graph, value = simulation.graph, simulation.lifetimes.value
    movable = ~graph.output[value] & (graph.memory[value] > 0)
    movable = (movable if leaving is None else movable & leaving[value]).tolist()
    used, gaps = simulation.lifetimes.made_at.tolist(), list[tuple[int, int, int]]()
    for step, actions in enumerate(simulation.steps()):
        for _, i in actions.reads:
            if movable[i] and used[i] + 1 < step:
                gaps.append((i, used[i], step))
            used[i] = step
    return np.array(gaps, np.int64).reshape(-1, 3)
