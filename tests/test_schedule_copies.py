"""Simulator, timeline and lingering against their oracle, on random schedules with copies."""

import itertools
from random import Random

import pytest

from remat_algos.cost.links import Link
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import timeline
from tests.oracles import copies
from tests.strategies import rows


def random_graph(random):
    """2 to 9 nodes of one value or two, costs in microseconds."""
    reads, ends = [], [0]
    for _ in range(random.randint(2, 9)):
        reads.append(sorted(random.sample(range(ends[-1]), random.randint(0, min(3, ends[-1])))))
        ends.append(ends[-1] + random.choice([1, 1, 1, 2]))
    return ComputationGraph.from_arrays(
        **rows("read", reads),
        value_indptr=ends,
        memory=[random.randint(0, 9) for _ in range(ends[-1])],
        compute=[random.randint(0, 9) for _ in reads],
        workspace=[random.choice([0, 0, 3]) for _ in reads],
        once=[random.random() < 0.15 for _ in reads],
        labels=Labels(compute_unit="us"),
    )


def compared(seed):
    """Compare one schedule; return whether something lingers, and whether a load is dropped."""
    random = Random(seed)
    graph = random_graph(random)
    order, loads, held, placed = copies.random_copies(random, graph)
    simulation = simulate(graph, Schedule(order, loads, held, placed))
    actions = copies.actions(graph, order, loads, held, placed)
    assert list(simulation.actions()) == actions
    device, host = copies.play(graph, actions)
    assert simulation.memory_trace.tolist() == device
    assert simulation.host_trace.tolist() == host

    out, into = (random.choice([3e5, 5e5, 1e6, 4e6]) for _ in range(2))
    link = Link(out, into, latency=random.choice([0, 1e-6, 3e-6]))
    ticks = link.refined(graph)
    times = [each.tolist() for each in link.times(ticks)]
    clock = copies.clock(ticks, actions, *times)
    line = timeline(simulation, link)
    assert (line.last, line.waits.tolist()) == (clock.time, clock.waits)
    assert line.time * ticks.labels.compute_scale == line.last
    for kind, begin, end in (
        ("compute", line.begin, line.end),
        ("store", line.store_begin, line.store_end),
        ("load", line.load_begin, line.load_end),
    ):
        at = [i for i, action in enumerate(actions) if action[0] == kind]
        assert begin.tolist() == [clock.begin[i] for i in at]
        assert end.tolist() == [clock.end[i] for i in at]
    assert line.stores.tolist() == [x for kind, x in actions if kind == "store"]
    assert line.busy == {engine: busy / (clock.time or 1) for engine, busy in clock.busy.items()}

    limit = max(copies.play(graph, copies.actions(graph, order, loads, placed=placed))[0]) + random.randint(0, 12)
    bare = simulate(graph, Schedule(order, loads, stores=placed))
    schedule = timeline(bare, link).with_late_stores(limit, trials=0).simulation.schedule
    left, lingering, still_placed = copies.linger(ticks, order, loads, limit, *times, placed)
    assert list(map(tuple, schedule.loads.tolist())) == left
    assert sorted(map(tuple, schedule.lingering.tolist())) == sorted(lingering)
    assert list(map(tuple, schedule.stores.tolist())) == still_placed
    assert simulate(graph, schedule).peak_memory <= limit
    return bool(lingering), len(left) < len(loads), bool(still_placed)


def test_figures_are_those_of_the_oracle():
    lingers, drops, placed = zip(*map(compared, range(160)), strict=True)
    assert sum(lingers) > 8
    assert sum(drops) > 8
    assert sum(placed) > 20


def queued_copies(random, count=2):
    """A chain of which some values leave, the first one late, and come back; (graph, order, loads)."""
    n = random.randint(9, 12)
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, n - 1 - i) for i in range(count)]
    edges += [(i, random.randint(i + 2, 5)) for i in range(count - 1)]
    memory, compute = ([random.randint(1, 12) for _ in range(n)] for _ in ("memory", "compute"))
    graph = ComputationGraph.from_edges(edges, memory=memory, compute=compute, labels=Labels(compute_unit="us"))
    return graph, list(range(n)), [(n - 1 - i, i) for i in reversed(range(count))]


def compared_late_stores(graph, order, loads, random):
    """Compare stores that wait with those that begin at once; return whether the former take less time."""
    link, schedule = Link(*random.choices([3e5, 5e5, 1e6, 4e6], k=2), latency=0, share=1), Schedule(order, loads)
    limit = simulate(graph, schedule).peak_memory + random.randint(0, 6)
    played = timeline(simulate(graph, schedule), link)
    early, found = played.with_late_stores(limit, trials=0), played.with_late_stores(limit)
    assert found.time == timeline(simulate(graph, found.simulation.schedule), link).time <= early.time
    assert found.simulation.peak_memory <= limit
    assert found.simulation.schedule.order.tolist() == order
    return found.time < early.time


def test_late_stores_fit_and_take_no_more_time():
    for seed in range(40):
        graph = random_graph(random := Random(seed))
        compared_late_stores(graph, *copies.random_copies(random, graph)[:2], random)
    for count in (2, 3):
        assert sum(compared_late_stores(*queued_copies(random, count), random) for random in map(Random, range(60))) > 3


def all_late_stores(loads, order):
    """Rows of stores at all places of the values that are loaded, in all orders at one place."""
    first = {x: order.index(x) + 1 for _, x in loads}
    last = {x: step for step, x in reversed(loads)}
    for steps in itertools.product(*(range(first[x], last[x] + 1) for x in first)):
        rows = list(zip(steps, first, strict=True))
        yield from {tuple(sorted(each, key=lambda row: row[0])) for each in itertools.permutations(rows)}


def test_late_stores_of_five_random_queues_are_the_best_of_all_places():
    """The search moves one store at a time, and need not find the best of every queue."""
    for seed in range(5):
        graph, order, loads = queued_copies(Random(seed))
        link, schedule = Link(1e6, 1e6, 0, share=1), Schedule(order, loads)
        limit = simulate(graph, schedule).peak_memory
        found = timeline(simulate(graph, schedule), link).with_late_stores(limit)
        for stores in all_late_stores(loads, order):
            at_places = simulate(graph, Schedule(order, loads, stores=stores))
            placed = timeline(at_places, link).with_late_stores(limit, trials=0)
            if placed.simulation.peak_memory <= limit and len(placed.load_begin) == len(loads):
                assert found.time <= placed.time


def test_orders_of_stores_are_counted():
    """A -> B -> ... -> H; A is needed late, B soon: one order that is tried is enough, and none changes nothing."""
    memory, compute = [16, 8, 2, 8, 2, 20, 1, 1], [10, 10, 8, 16, 4, 10, 40, 9]
    edges = [*((i, i + 1) for i in range(7)), (0, 4), (1, 7), (0, 7)]
    graph = ComputationGraph.from_edges(edges, memory=memory, compute=compute, labels=Labels(compute_unit="us"))
    schedule, link = Schedule(range(8), loads=[(6, 1), (6, 0)]), Link(1e6, 1e6, 0, share=1)
    played = timeline(simulate(graph, schedule), link)
    rows = [played.with_late_stores(27, trials).simulation.schedule.stores.tolist() for trials in (0, 1)]
    assert rows == [[], [[2, 0]]]
    late = played.with_late_stores(27)
    assert repr(late) == "<Timeline: time 107, overhead in time 0.0 %, waits 0.0 %, 2 stores, 2 loads>"
    early = played.with_late_stores(27, trials=0)
    assert repr(early) == "<Timeline: time 113, overhead in time 5.6 %, waits 5.6 %, 2 stores, 2 loads>"
    assert (early.waiting, early.overhead, early.waits.tolist()) == (6, 6, [0, 0, 0, 6, 0, 0, 0, 0])
    again = late.with_late_stores(27)  # begins at the places that are given
    assert again.simulation.schedule.stores.tolist() == [[2, 0]]


def test_times_of_copies_are_computed_once_for_each_link():
    graph = random_graph(Random(1))
    fast, slow, other = Link(4e6, 4e6), Link(1e6, 1e6), Link(4e6, 4e6, host=9)
    assert fast.times(graph) is fast.times(graph)
    assert fast.times(graph) is other.times(graph)
    assert slow.times(graph)[0].sum() > fast.times(graph)[0].sum()


@pytest.mark.slow
def test_figures_of_many_schedules_are_those_of_the_oracle():
    for seed in range(160, 5160):
        compared(seed)
