"""Timelines for other tools: trace events, memory snapshots of PyTorch; each agrees with the simulator."""

import json
import pickle
import pickletools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.snapshot import snapshot, snapshot_bytes
from remat_algos.cost.links import Link
from remat_algos.errors import AllocationError, PlanError, ScheduleError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import timeline
from remat_algos.schedule.views import trace_events
from tests.strategies import orders, training_graphs

READ_BY_THE_PAGE = {  # opcodes of pickle that MemoryViz.js reads
    *("PROTO", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "BININT", "BININT1"),
    *("BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT", "SETITEMS"),
    *("SETITEM", "DICT", "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    "BINFLOAT",
}


@st.composite
def played(draw):
    """The timeline of a schedule of a training graph, without a link."""
    graph = draw(training_graphs(max_nodes=16))
    return timeline(simulate(graph, draw(orders(graph))))


def over_a_link():
    """A value that leaves and comes back, and a node that runs twice."""
    edges = [("A", "B"), ("B", "C"), ("A", "D"), ("C", "D"), ("B", "E"), ("D", "E")]
    graph = ComputationGraph.from_edges(edges, memory=[4000, 3000, 2000, 1000, 500], compute=7)
    graph = replace(graph, labels=replace(graph.labels, compute_unit="us"))
    simulation = simulate(graph, Schedule([0, 1, 2, 3, 0, 1, 4], loads=[(3, 0)]))
    return timeline(simulation, Link(1e9, 5e8, latency=0))


# ---------------------------------------------------------------- trace events


@given(played())
def test_counters_are_the_memory_trace(played):
    events = trace_events(played)["traceEvents"]
    assert json.loads(json.dumps(events)) == events
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} <= {"device"}
    trace, graph = played.simulation.memory_trace.tolist(), played.simulation.graph
    assert [event["args"]["bytes"] for event in counters] == [*trace, graph.memory[graph.output].sum()]
    scale = graph.labels.compute_scale
    assert [event["ts"] for event in counters] == pytest.approx([*(played.begin / scale), played.time / scale])


@given(played())
def test_runs_lie_in_the_part_that_they_belong_to(played):
    slices = [event for event in trace_events(played)["traceEvents"] if event["ph"] == "X"]
    seen, inside = [], None
    for event in slices:
        if event["cat"] == "part":
            inside = event
        else:
            assert event["cat"] == inside["name"]
            assert inside["ts"] <= event["ts"]
            assert event["ts"] + event["dur"] <= inside["ts"] + inside["dur"] + 1e-6
            seen.append((event["name"], event["cat"] == "recomputed"))
    schedule = played.simulation.schedule
    again = [not first for first in schedule.first_run.tolist()]
    assert seen == list(zip(schedule.names(played.simulation.graph), again, strict=True))


def test_copies_have_engines_and_the_host_a_counter():
    played = over_a_link()
    events = trace_events(played)["traceEvents"]
    threads = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
    assert threads == {"compute": 0, "out": 1, "in": 2}
    copies = [(event["name"], event["cat"], event["dur"]) for event in events if event["ph"] == "X" and event["tid"]]
    assert copies == [("A", "store", 4.0), ("A", "load", 8.0)]
    host = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"] == "host"]
    assert host == [*played.simulation.host_trace.tolist(), 0]


@pytest.mark.parametrize(
    ("unit", "scale", "said"),
    [
        ("", 1, "1 us stands for a cost of 1"),
        ("FLOPs", 1000, "1 us stands for a cost of 1 FLOP"),
        ("ms", 1, "simulated time"),
    ],
)
def test_the_clock_is_said(unit, scale, said):
    labels = Labels(compute_unit=unit, compute_scale=scale)
    played = timeline(simulate(ComputationGraph.from_edges([(0, 1)], labels=labels), [0, 1]))
    assert said in trace_events(played)["traceEvents"][0]["args"]["name"]


# ---------------------------------------------------------------- snapshots


def replayed(found, steps):
    """Live bytes during each step, by the steps that frames tell; no two blocks share a byte."""
    (events,) = found["device_traces"]
    live, taken, during = {}, 0, np.zeros(steps, np.int64)
    for event in events:
        if event["action"] == "alloc":
            begin, size = event["addr"], event["size"]
            assert all(begin + size <= at or begin >= at + other for at, other in live.items())
            live[begin] = size
            taken += size
            during[event["frames"][-1]["line"] :] = taken
        elif event["action"] == "free_requested":
            assert live.pop(event["addr"]) == event["size"]
            taken -= event["size"]
            during[event["frames"][-1]["line"] + 1 :] = taken
    return during, live


@given(played())
def test_a_replay_of_the_snapshot_is_the_memory_trace(played):
    simulation = played.simulation
    found = snapshot(played)
    during, live = replayed(found, len(simulation.schedule))
    assert during.tolist() == simulation.memory_trace.tolist()
    assert during.max(initial=0) == simulation.peak_memory
    graph = simulation.graph
    assert sum(live.values()) == graph.memory[graph.output].sum()
    times = [event["time_us"] for event in found["device_traces"][0]]
    assert times == sorted(times)


@given(played())
def test_blocks_fill_their_segment(played):
    found = snapshot(played)
    _, live = replayed(found, len(played.simulation.schedule))
    for segment in found["segments"]:
        at, active = segment["address"], {}
        for block in segment["blocks"]:
            assert block["address"] == at
            assert block["size"] > 0
            active.update({at: block["size"]} if block["state"] == "active_allocated" else {})
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        assert active == live
    assert len(found["segments"]) == (played.simulation.peak_memory > 0)


@given(played())
def test_the_page_reads_the_pickle(played):
    data = snapshot_bytes(played)
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= READ_BY_THE_PAGE
    assert data[:2] == b"\x80\x04"
    assert pickle.loads(data) == snapshot(played)
    events = pickle.loads(data)["device_traces"][0]
    assert "unknown" in {event["category"] for event in events} or not events


def test_addresses_are_those_of_the_allocation():
    played = over_a_link()
    for alignment in (1, 512):
        allocation = pack(Buffers.of(played.simulation), alignment=alignment)
        found = snapshot(played, allocation)
        allocated = [event["addr"] for event in found["device_traces"][0] if event["action"] == "alloc"]
        assert sorted(allocated) == sorted(allocation.offset.tolist())
        assert found["segments"][0]["total_size"] == allocation.size
    other = timeline(simulate(ComputationGraph.from_edges([(0, 1)]), [0, 1]))
    with pytest.raises(AllocationError, match="not one of this schedule's buffers"):
        snapshot(other, allocation)


def test_a_copy_that_comes_back_is_a_block_of_its_own():
    (events,) = snapshot(over_a_link())["device_traces"]
    told = [(event["category"], event["frames"][0]["name"]) for event in events if event["action"] == "alloc"]
    assert ("kept", "A") in told
    assert ("loaded", "A") in told
    assert ("recomputed", "A") in told


# ---------------------------------------------------------------- plans and commands


def chain_plan(**options):
    graph = ra.differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=4096))
    return ra.solve(graph, "80%", **options)


def test_plans_write_every_form_without_a_link(tmp_path):
    plan = chain_plan(solver="chen_sqrt")
    assert plan.link is None
    events = json.loads(plan.text("trace"))["traceEvents"]
    counted = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(counted) == plan.peak_memory
    plan.save(tmp_path / "plan.pickle", "snapshot")
    found = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    assert replayed(found, len(plan.schedule))[0].max() == plan.peak_memory


def test_a_packed_plan_keeps_its_addresses(tmp_path):
    plan = chain_plan(solver="chen_sqrt", allocator="arena")
    plan.save(tmp_path / "plan.pickle", "snapshot")
    found = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    assert found["segments"][0]["total_size"] == plan.reservation.memory


def test_a_snapshot_is_not_text():
    plan = chain_plan(solver="chen_sqrt")
    with pytest.raises(PlanError, match=r'a snapshot is a pickle, not text; use save\("FILE.pickle", "snapshot"\)'):
        plan.text("snapshot")


def test_loads_need_a_link():
    simulation = over_a_link().simulation
    with pytest.raises(ScheduleError, match="step 3 loads A, and there is no link; give one, such as pcie5"):
        timeline(simulation)


@pytest.mark.parametrize("form", ["trace", "snapshot"])
def test_remat_solve_writes_them(remat, tmp_path, form):
    output = tmp_path / "file"
    wrote = remat("solve", "model:vgg16", "--budget", "70%", "--solver", "chen_sqrt", "--format", form, "-o", output)
    assert wrote.code == 0, wrote.err
    data = output.read_bytes()
    found = pickle.loads(data) if form == "snapshot" else json.loads(data)
    assert set(found) >= {"trace": {"traceEvents"}, "snapshot": {"segments"}}[form]


def test_a_snapshot_on_standard_output_is_refused(remat):
    failed = remat("solve", "model:vgg16", "--budget", "70%", "--format", "snapshot")
    assert (failed.code, failed.out) == (2, "")
    assert "--format snapshot writes a pickle, not text; give -o FILE.pickle" in failed.err
