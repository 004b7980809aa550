"""Schedules with copies that run: bytes on device and host as predicted, values the same, events in order."""

import signal
import sys
import threading
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.cost.links import Link
from remat_algos.errors import OutOfMemoryError, StaleValueError
from remat_algos.executor.array_backend import Backend, backend
from remat_algos.executor.host_copies import HostCopies, StreamEngine, ThreadEngine
from remat_algos.executor.run import execute
from remat_algos.executor.validate import validate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from tests import cuda_stub
from tests.oracles.copies import actions as actions_of
from tests.oracles.copies import freed, maker, play, random_copies, source
from tests.oracles.plain import plain
from tests.raising import raises
from tests.small_graphs import small_graphs
from tests.test_executor_arrays import Filling
from tests.test_executor_faults import Spy

FAST = Link(out=2e6, into=3e6, latency=1e-4)  # 1,000 bytes take about as long as a node here
SLOW = Link(out=1e9, into=1e9, latency=60)
SLOW_LOADS = Link(out=1e12, into=1000 / 60, latency=0)


def cases(count):
    """Simulations of random schedules with copies, with sizes of whole and of broken chunks."""
    simulations = []
    for name, graph in small_graphs(count, 8, 16):
        random = Random(name)
        sizes = [random.choice([0, 8, 300, 512, 1300]) for _ in range(graph.n_values)]
        graph = graph.with_costs(memory=sizes, workspace=[random.choice([0, 0, 700]) for _ in range(graph.n_nodes)])
        simulations.append(pytest.param(simulate(graph, Schedule(*random_copies(random, graph))), id=name))
    return simulations


def chain(memory=1000):
    """0 -> 1 -> 2 -> 3 -> 4, and 4 reads 0 too, which leaves after 1 and is loaded for 4."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], memory=memory)
    return simulate(graph, Schedule(range(5), loads=[(4, 0)]))


# ---------------------------------------------------------------- as predicted


@pytest.mark.parametrize("simulation", cases(30))
@pytest.mark.parametrize("checking", [False, True])
def test_bytes_are_as_predicted_and_values_the_same(simulation, checking):
    graph = simulation.graph
    run = execute(graph, simulation, link=FAST, checking=checking)
    device, host = play(graph, simulation.actions())
    assert run.used_raw.tolist() == run.predicted_raw.tolist() == simulation.memory_trace.tolist() == device
    assert run.used.tolist() == run.predicted.tolist()
    if simulation.schedule.loads.size:
        assert run.host.tolist() == simulation.host_trace.tolist() == host
        check_events(simulation, run.events)
    assert run.mismatches == run.differs_from(execute(graph, range(graph.n_nodes))) == []


@pytest.mark.parametrize("simulation", cases(15))
@pytest.mark.parametrize("in_place", [False, True])
def test_in_an_arena_all_is_the_same(simulation, in_place):
    buffers = Buffers.of(simulation, find_overwrites(simulation) if in_place else None)
    run = execute(simulation.graph, simulation, None, pack(buffers, time_limit=0), link=FAST)
    assert run.used_raw.tolist() == run.predicted_raw.tolist()
    assert run.mismatches == run.differs_from(execute(simulation.graph, range(simulation.graph.n_nodes))) == []


def test_what_is_written_over_a_value_waits_for_its_store():
    """1 is written over 0, whose store takes long; 4 reads what it was."""
    simulation = chain()
    allocation = pack(Buffers.of(simulation, np.array([-1, 0, -1, -1, -1, -1])), time_limit=0)
    run = execute(simulation.graph, simulation, None, allocation, link=Link(out=1e9, into=1e9, latency=0.1))
    assert run.mismatches == run.differs_from(execute(simulation.graph, range(5))) == []


def test_a_load_that_nothing_reads_keeps_its_place_on_the_host():
    """2 is stored while the last load of 0, of the same size, still runs."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (2, 4)], memory=1000)
    link = Link(out=1e9, into=1000 / 0.2, latency=0)
    assert execute(graph, Schedule(range(5), loads=[(2, 0), (4, 2)]), link=link).mismatches == []


def check_events(simulation, events):
    """The laws of the three engines, from what happened."""
    g, schedule = plain(simulation.graph), simulation.schedule
    actions = actions_of(simulation.graph, schedule.order, schedule.loads, schedule.lingering, schedule.stores)
    assert actions == list(simulation.actions())
    meant = freed(g, actions)
    work = [event for event in events if event[0] == "compute" or (event[0] == "free" and event[1] not in g.outputs)]
    assert work == [action for action in actions if action[0] in ("compute", "free")]
    for begins, ends in (("store", "stored"), ("load", "loaded")):
        copies = [x for kind, x in actions if kind == begins]
        assert [event for event in events if event[0] in (begins, ends)] == [
            event for x in copies for event in ((begins, x), (ends, x))
        ]
    at = places(actions, events)
    for i, (kind, x) in enumerate(actions):
        if kind in ("store", "load"):
            last = max((j for j in range(i) if actions[j][0] == "compute"), default=None)
            assert at[i][0] > at[last][0]
        if kind == "load":
            assert at[i][0] > at[actions.index(("store", x))][1]
        if kind == "compute":
            for y in g.reads[x]:
                j = maker(g, actions, i, y)
                assert actions[j][0] != "load" or at[i][0] > at[j][1]
        if kind == "free":
            copy = actions.index(("store", x)) if meant[i] == source(g, actions, x) else meant[i]
            assert actions[copy][0] == "compute" or at[i][0] > at[copy][1]


def places(actions, events):
    """Where each action begins and ends among the events; outputs are freed in no action."""
    left = {kind: [i for i, event in enumerate(events) if event[0] == kind] for kind in {event[0] for event in events}}
    freeable = {action for action in actions if action[0] == "free"}
    left["free"] = [i for i in left.get("free", []) if events[i] in freeable]
    ends = {"store": "stored", "load": "loaded"}
    return [(left[kind].pop(0), left[ends[kind]].pop(0) if kind in ends else None) for kind, _ in actions]


def test_a_validation_compares_the_host_too():
    simulation = chain()
    validation = validate(simulation.graph, simulation, repeats=0)
    assert validation.holds
    assert "host       1,000 bytes predicted, 1,000 measured\n" in str(validation)
    assert "values     1 loaded value, bit-identical to the original\n" in str(validation)
    host = validation.execution.host + np.array([0, 0, 0, 8, 0])
    other = replace(validation, execution=replace(validation.execution, host=host))
    assert not other.holds
    assert "at step 3, 3: +0 bytes in blocks, +0 bytes exactly, +8 bytes on the host" in " ".join(str(other).split())


def test_a_copy_takes_the_time_of_its_link():
    simulation = chain()
    start = time.perf_counter()
    execute(simulation.graph, simulation, link=Link(out=1e5, into=5e4, latency=0.01))
    assert time.perf_counter() - start >= 0.01 + 1000 / 1e5 + 0.01 + 1000 / 5e4


@pytest.mark.parametrize("checking", [False, True])
def test_a_run_that_does_not_wait_for_a_load_is_caught(checking, monkeypatch):
    monkeypatch.setattr(ThreadEngine, "wait", lambda self, copy: None if self._way == "load" else copy[0].get())
    simulation = chain()
    try:
        run = execute(simulation.graph, simulation, link=SLOW_LOADS, checking=checking)
    except StaleValueError:
        return
    assert run.mismatches == [(4, 0)]


def test_a_free_that_does_not_wait_for_the_store_is_caught(monkeypatch):
    monkeypatch.setattr(ThreadEngine, "wait", lambda self, copy: None if self._way == "store" else copy[0].get())
    simulation = chain()
    run = execute(simulation.graph, simulation, link=Link(out=1000, into=1e9, latency=0), checking=True)
    assert run.mismatches == [(4, 0)]  # the pattern of freed bytes came back
    assert run.used.tolist() != run.predicted.tolist()


# ---------------------------------------------------------------- what ends a run


def test_host_memory_above_the_limit_is_refused_before_the_first_step():
    simulation, spy = chain(), Spy(chain().graph)
    with raises(OutOfMemoryError, step=-1, requested=1000, free=999, where=""):
        execute(simulation.graph, simulation, spy, link=Link(out=1e9, into=1e9, host=999))
    assert spy.seen == []
    assert execute(simulation.graph, simulation, link=Link(out=1e9, into=1e9, host=1000)).mismatches == []


def test_the_places_on_the_host_are_within_its_limit_too(monkeypatch):
    """Five values, each of the next node, of at most 7 bytes together, which the first try puts into 8."""
    sizes, last = [1, 4, 2, 1, 4], [4, 3, 7, 6, 7]  # the nodes that read them last
    edges = [(i, i + 1) for i in range(7)] + [(i, end) for i, end in enumerate(last) if end > i + 1]
    graph = ComputationGraph.from_edges(sorted(set(edges)), memory=[*sizes, 1, 1, 1])
    loads = sorted((end, i) for i, end in enumerate(last))
    simulation, link = simulate(graph, Schedule(range(8), loads)), Link(out=1e9, into=1e9, host=7)
    assert simulation.host_peak == 7
    assert HostCopies(backend("numpy"), simulation)._capacity == 8
    run = execute(graph, simulation, link=link, checking=True)
    assert run.mismatches == []
    monkeypatch.setattr("remat_algos.executor.tuning.HOST_PACKING", 0)
    with raises(OutOfMemoryError, requested=8, free=7, where=" in one block"):
        execute(graph, simulation, link=link)


def test_host_memory_that_is_not_there_ends_the_run_before_the_first_step(monkeypatch):
    simulation, spy = chain(), Spy(chain().graph)

    def none(self, nbytes):
        raise MemoryError

    monkeypatch.setattr(Backend, "host_memory", none)
    with raises(OutOfMemoryError, capacity=1000):
        execute(simulation.graph, simulation, spy)
    assert spy.seen == []


@pytest.fixture
def interrupted_in_wait(monkeypatch):
    """A real interrupt, 0.2 s after compute has begun to wait for a copy."""

    def interrupt(*_):
        raise KeyboardInterrupt

    def wait(self, copy):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        waits(self, copy)
        signal.setitimer(signal.ITIMER_REAL, 0)

    waits = ThreadEngine.wait
    monkeypatch.setattr(ThreadEngine, "wait", wait)
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that interrupt")
@pytest.mark.usefixtures("interrupted_in_wait")
@pytest.mark.parametrize(("link", "step"), [(SLOW, 1), (SLOW_LOADS, 4)])
@pytest.mark.parametrize("arena", [False, True])
def test_an_interrupt_while_compute_waits_for_a_copy_leaves_nothing(link, step, arena):
    simulation = chain()
    allocation = pack(Buffers.of(simulation), time_limit=0) if arena else None
    spy, threads, start = Spy(simulation.graph), threading.active_count(), time.perf_counter()
    with pytest.raises(KeyboardInterrupt) as error:
        execute(simulation.graph, simulation, spy, allocation, link=link)
    assert error.value.__notes__ == [f"step {step} runs {step} when this came; all memory of the run has been released"]
    assert time.perf_counter() - start < 30
    assert threading.active_count() == threads
    assert spy.left() == 0


def test_an_error_of_a_node_beside_a_copy_leaves_nothing():
    """The store of 0 runs when node 3 fails, and a load waits for it."""
    simulation = chain()
    schedule = Schedule(range(5), loads=[(3, 0), (4, 0)], lingering=[(0, 0, 5)])
    spy, threads = Spy(simulation.graph, lambda: 1 // 0), threading.active_count()
    with pytest.raises(ZeroDivisionError):
        execute(simulation.graph, schedule, spy, link=SLOW)
    assert threading.active_count() == threads
    assert spy.left() == 0


def test_an_error_of_a_copy_comes_out(monkeypatch):
    def fails(*_):
        raise ValueError("a broken copy")

    monkeypatch.setattr(np, "copyto", fails)
    simulation = chain()
    spy = Spy(simulation.graph)
    with pytest.raises(ValueError, match="a broken copy"):
        execute(simulation.graph, simulation, spy)
    assert spy.left() == 0


# ---------------------------------------------------------------- CuPy, on the processor


@pytest.mark.parametrize("simulation", cases(10))
def test_on_streams_bytes_are_the_same(simulation, monkeypatch):
    waits = []
    monkeypatch.setitem(sys.modules, "cupy", cuda_stub.module())
    monkeypatch.setattr(StreamEngine, "wait", lambda self, copy: waits.append(self._way))
    graph = simulation.graph
    run = execute(graph, simulation, Filling(), backend="cupy", checking=True)
    assert run.used.tolist() == run.predicted.tolist()
    assert run.mismatches == run.differs_from(execute(graph, range(graph.n_nodes), Filling())) == []
    if simulation.schedule.loads.size:
        assert run.host.tolist() == simulation.host_trace.tolist()
        assert run.events is None
        assert waits.count("store") == len(simulation.stores)
        assert waits.count("load") == len(simulation.schedule.loads)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("cudaErrorMemoryAllocation: out of memory", OutOfMemoryError),
        ("cudaErrorIllegalAddress: an illegal address was encountered", RuntimeError),  # of what ran before
    ],
)
def test_a_gpu_host_without_pinned_memory_ends_the_run(fault, kind, monkeypatch):
    def faulty(size):
        raise RuntimeError(fault)

    stub = cuda_stub.module()
    monkeypatch.setattr(stub.cuda, "alloc_pinned_memory", faulty)
    monkeypatch.setitem(sys.modules, "cupy", stub)
    simulation = chain()
    with pytest.raises(kind) as error:
        execute(simulation.graph, simulation, Filling(), backend="cupy")
    assert type(error.value) is kind
