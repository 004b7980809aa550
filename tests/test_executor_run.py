"""Schedules that run: bytes as predicted at every step, values the same, whatever is freed, shared or run again."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.sharing import colour, separate_storage, share_storage
from remat_algos.allocate.traces import Trace
from remat_algos.errors import AllocationError, ClaimError, GraphError, PlanError, ScheduleError, StaleValueError
from remat_algos.executor import run as run_module
from remat_algos.executor.measurements import live_memory
from remat_algos.executor.memories import TrackingMemory
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.zoo.random import chain
from remat_algos.zoo.registry import build
from tests.raising import raises
from tests.strategies import graphs, numbers, orders, training_graphs
from tests.tampered import tampered

pytestmark = pytest.mark.usefixtures("short_searches")

SOME_BYTES = [8, 16, 512, 520, 1300, 8, 16]
SIZES = st.sampled_from([*SOME_BYTES, 0])
METHODS = {
    "pack": lambda buffers: pack(buffers, time_limit=0),
    "pack aligned": lambda buffers: pack(buffers, time_limit=0, alignment=64),
    "share": share_storage,
    "colour": colour,
    "separate": separate_storage,
}


def everything(graph, **more):
    """The run without rematerialization."""
    return execute(graph, np.arange(graph.n_nodes), **more)


@st.composite
def cases(draw, source=None):
    """A graph whose sizes are those of a few kinds of arrays, and a sound schedule, simulated."""
    graph = draw(graphs() | training_graphs() if source is None else source)
    memory = draw(st.lists(SIZES, min_size=graph.n_values, max_size=graph.n_values))
    graph = graph.with_costs(memory=memory, workspace=np.array(draw(numbers(graph.n_nodes, 2)), np.int64) * 300)
    return simulate(graph, draw(orders(graph)))


@st.composite
def written_over(draw, simulation):
    """int64[n_instances]: which instance each is written over, wherever that can be."""
    lifetimes, graph = simulation.lifetimes, simulation.graph
    size, made = graph.memory[lifetimes.value].tolist(), simulation.lifetimes.made_at.tolist()
    over, free = [-1] * len(made), set(range(len(made)))
    for i, step in enumerate(made):
        reads = graph.reads(int(simulation.schedule.order[step]))
        can = [
            j
            for j in sorted(free)
            if lifetimes.end[j] == step + 1 and made[j] < step and size[j] == size[i]
            and lifetimes.value[j] in reads and not graph.output[lifetimes.value[j]]
        ]  # fmt: skip
        if can and draw(st.booleans()):
            over[i] = draw(st.sampled_from(can))
            free.discard(over[i])
    return np.array(over, np.int64)


def ended_early(simulation):
    """Instances with bytes that end two steps before the schedule does, or sooner."""
    lifetimes, graph = simulation.lifetimes, simulation.graph
    kept = ~graph.output[lifetimes.value] & (lifetimes.end + 2 <= len(simulation.schedule))
    return np.flatnonzero(kept & (graph.memory[lifetimes.value] > 0)).tolist()


def read_later(simulation):
    """Instances that outlast the step after their own, but not the schedule."""
    lifetimes, length = simulation.lifetimes, len(simulation.schedule)
    return np.flatnonzero((lifetimes.end > simulation.lifetimes.made_at + 1) & (lifetimes.end < length)).tolist()


def overlapping(buffers):
    """Pairs of buffers of 8 bytes or more that are held at once."""
    return [
        (i, j)
        for i in range(len(buffers))
        for j in range(len(buffers))
        if i != j and min(buffers.size[i], buffers.size[j]) >= 8
        and max(buffers.begin[i], buffers.begin[j]) < min(buffers.end[i], buffers.end[j])
    ]  # fmt: skip


@st.composite
def cases_with(draw, has):
    """A case that has something; where one that is drawn does not, a graph of which every order has it.

    Its nodes 0 and 1 are read by 2, and a chain of two follows; all values have bytes.
    """
    simulation = draw(cases())
    if not has(simulation):
        graph = ComputationGraph.from_edges([(0, 2), (1, 2), (2, 3), (3, 4)])
        memory = draw(st.lists(st.sampled_from(SOME_BYTES), min_size=5, max_size=5))
        simulation = simulate(graph.with_costs(memory=memory), draw(orders(graph)))
    return simulation


# ---------------------------------------------------------------- as predicted


@given(simulation=cases(), checking=st.booleans(), timed=st.booleans())
def test_every_step_holds_what_was_predicted_and_every_value_comes_back(simulation, checking, timed):
    graph = simulation.graph
    found = execute(graph, simulation, checking=checking, timed=timed)
    assert found.used.tolist() == found.predicted.tolist()
    assert found.used_raw.tolist() == found.predicted_raw.tolist() == simulation.memory_trace.tolist()
    assert found.peak_used == found.total.max(initial=0) == found.peak_total
    assert found.peak_raw == simulation.peak_memory
    assert found.mismatches == found.differs_from(everything(graph)) == []
    assert found.resident == graph.resident_memory
    assert (found.seconds is None) == (not timed)


@given(data=st.data())
@pytest.mark.parametrize("method", METHODS)
def test_in_an_arena_all_is_the_same(method, data):
    simulation = data.draw(cases())
    over = data.draw(st.none() | st.just(find_overwrites(simulation)) | written_over(simulation))
    allocation = METHODS[method](Buffers.of(simulation, over))
    found = execute(simulation.graph, simulation, None, allocation, checking=data.draw(st.booleans()))
    assert found.used.tolist() == found.predicted.tolist()
    assert found.used_raw.tolist() == found.predicted_raw.tolist()
    assert found.used_raw.max(initial=0) == allocation.buffers.max_live
    assert set(found.total.tolist()) <= {allocation.size}
    assert found.mismatches == found.differs_from(everything(simulation.graph)) == []


def test_a_network_under_its_least_budget():
    network = build("feed_forward", depth=6, optimizer="adam").graph
    plan = solve(network, solver="chen_sqrt")
    over = find_overwrites(plan.simulation)
    base = everything(plan.simulation.graph)
    packed = pack(Buffers.of(plan.simulation, over), time_limit=0.2)
    for allocation in (None, packed):
        found = execute(plan.simulation.graph, plan.simulation, None, allocation, checking=True)
        assert found.used.tolist() == found.predicted.tolist()
        assert found.mismatches == found.differs_from(base) == []


def test_the_system_sees_the_same_bytes():
    graph = differentiate(chain(24, memory=10**6))
    schedule = solve(graph, solver="chen_sqrt").simulation
    everything(chain(3))  # tables are made now
    tracemalloc.start()
    try:
        found = execute(graph, schedule)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # scratch of the mixing, two blocks of words, and objects of Python
    assert 0 <= peak - found.peak_raw < 1_000_000


def test_an_empty_schedule():
    found = execute(ComputationGraph.from_edges([]), [], timed=True, outputs=True)
    assert (found.peak_used, found.peak_total, found.mismatches, found.outputs) == (0, 0, [], {})


@given(simulation=cases())
def test_outputs_are_handed_out(simulation):
    graph = simulation.graph
    found, base = execute(graph, simulation, outputs=True), everything(graph, outputs=True)
    assert found.outputs.keys() == base.outputs.keys() == set(np.flatnonzero(graph.output).tolist())
    assert all(np.array_equal(found.outputs[x], base.outputs[x]) for x in found.outputs)
    assert all(found.outputs[x].size == graph.memory[x] for x in found.outputs)


def test_of_several_values_one_dies_at_once_and_workspace_with_its_step():
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 2, 3], read_indptr=[0, 0, 1], read_indices=[0], memory=[1, 600, 0], workspace=[5000, 0]
    )
    found = execute(graph, [0, 1])
    assert found.used.tolist() == [512 + 1024 + 5120, 512]
    assert found.used_raw.tolist() == [1 + 600 + 5000, 1]


# ---------------------------------------------------------------- what operators do wrong


class Keeping(SyntheticOperators):
    """Keeps what a node makes, beyond its time."""

    def __init__(self, graph, node=0):
        super().__init__(graph)
        self.node, self.kept = node, []

    def run(self, node, reads, residents, values, workspace):
        super().run(node, reads, residents, values, workspace)
        if node == self.node:
            self.kept += [value[:] for value in values]


def test_an_array_that_is_kept_is_counted_until_it_is_let_go():
    graph = chain(5, memory=600)
    operators = Keeping(graph)
    found = execute(graph, range(5), operators, checking=True)
    assert found.used.tolist() == [1024, 2048, 3072, 3072, 3072]
    assert (operators.kept[0] == 0xA5).all()  # what was freed is written over, so nobody can live on it


class Drifting(SyntheticOperators):
    """A node makes something else whenever it runs again."""

    def __init__(self, graph, node=1):
        super().__init__(graph)
        self.node, self.runs = node, 0

    def run(self, node, reads, residents, values, workspace):
        super().run(node, reads, residents, values, workspace)
        if node == self.node:
            values[0][0] ^= self.runs > 0
            self.runs += 1


def test_a_value_that_does_not_come_back_is_named():
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (1, 3)], memory=8)
    found = execute(graph, [0, 1, 2, 0, 1, 3], Drifting(graph))
    assert found.mismatches == [(4, 1)]
    assert found.differs_from(everything(graph)) == [(4, 1), (5, 3)]


class Careless(SyntheticOperators):
    """A node writes into one of its reads."""

    def __init__(self, graph, node=2, place=0):
        super().__init__(graph)
        self.at = node, place

    def run(self, node, reads, residents, values, workspace):
        super().run(node, reads, residents, values, workspace)
        if node == self.at[0]:
            reads[self.at[1]][5] ^= 1


def test_a_read_that_is_written_to_is_found_at_once():
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (1, 3), (2, 3)], memory=8)
    with raises(StaleValueError, step=2, node=2, value=1):
        execute(graph, range(4), Careless(graph), checking=True)
    assert execute(graph, range(4), Careless(graph)).differs_from(everything(graph)) == [(3, 3)]


@given(data=st.data())
def test_a_lifetime_that_is_too_long_differs_from_the_simulation(data):
    simulation = data.draw(cases_with(ended_early))
    lifetimes, graph = simulation.lifetimes, simulation.graph
    i = data.draw(st.sampled_from(ended_early(simulation)))
    end = lifetimes.end.copy()
    end[i] += 2
    longer = tampered(simulation, end)
    for allocation in (None, separate_storage(Buffers.of(longer))):
        found = execute(graph, longer, None, allocation)
        late = np.flatnonzero(found.used != found.predicted).tolist()
        assert late == np.flatnonzero(found.used_raw != found.predicted_raw).tolist() == [end[i] - 2, end[i] - 1]


def test_a_workspace_on_top_of_a_value_of_its_node_is_found():
    graph = chain(3, memory=64).with_costs(workspace=[0, 64, 0])
    simulation = simulate(graph, range(3))
    allocation = separate_storage(Buffers.of(simulation))
    broken = replace(allocation, offset=[0, 64, 128, 64])  # the workspace is the last
    with pytest.raises(AllocationError):
        broken.verify()
    found = execute(graph, simulation, None, broken, checking=True)
    assert found.differs_from(everything(graph))[0] == (1, 1)


def test_an_output_that_is_lost_shows_at_the_end():
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 2], read_indices=[0, 1], memory=8, output=[False, True, True]
    )
    assert execute(graph, range(3), Careless(graph)).mismatches == [(2, 1)]


# ---------------------------------------------------------------- what is wrong with a schedule or an allocation


def test_an_unsound_schedule_runs_no_step():
    with pytest.raises(ScheduleError, match="reads 0 before it has been computed"):
        execute(chain(2), [1, 0])


@given(data=st.data())
def test_a_value_that_is_freed_too_early_is_missed(data):
    simulation = data.draw(cases_with(read_later))
    lifetimes, made_at = simulation.lifetimes, simulation.lifetimes.made_at
    i = data.draw(st.sampled_from(read_later(simulation)))
    end = lifetimes.end.copy()
    end[i] = data.draw(st.integers(int(made_at[i]) + 1, int(end[i]) - 1))
    broken = tampered(simulation, end)
    with raises(StaleValueError, freed=end[i] - 1) as error:
        execute(simulation.graph, broken)
    assert error.value.value == lifetimes.value[i]
    assert end[i] <= error.value.step < lifetimes.end[i]
    assert lifetimes.value[i] in simulation.graph.reads(error.value.node)


@given(data=st.data())
def test_buffers_that_overlap_are_found(data):
    simulation = data.draw(cases_with(lambda simulation: overlapping(Buffers.of(simulation))))
    buffers = Buffers.of(simulation)
    base, allocation = everything(simulation.graph), METHODS[data.draw(st.sampled_from(sorted(METHODS)))](buffers)
    i, j = data.draw(st.sampled_from(overlapping(buffers)))
    offset = allocation.offset.copy()
    offset[i] = offset[j] + data.draw(st.integers(-int(buffers.size[i]) + 8, int(buffers.size[j]) - 8))
    offset[i] = max(0, min(offset[i], allocation.size - buffers.size[i]))
    broken = replace(allocation, offset=offset)
    with pytest.raises(AllocationError):
        broken.verify()
    unchecked = execute(simulation.graph, simulation, None, broken, checking=False)
    seen = bool(unchecked.mismatches or unchecked.differs_from(base))
    try:
        checked = execute(simulation.graph, simulation, None, broken)  # arenas are checked if nothing else is said
    except StaleValueError as error:
        seen = seen or simulation.graph.node_memory[error.node] == 0  # values without bytes show nothing
    else:
        seen = seen and bool(checked.mismatches or checked.differs_from(base))
    assert seen


@given(data=st.data())
def test_live_bytes_are_counted_as_the_simulator_counts_them(data):
    simulation = data.draw(cases())
    assert live_memory(simulation).tolist() == simulation.memory_trace.tolist()
    graph = simulation.graph
    memory, workspace = (-(-sizes // 512) * 512 for sizes in (graph.memory, graph.workspace))
    rounded = simulate(graph.with_costs(memory=memory, workspace=workspace), simulation.schedule)
    assert live_memory(simulation, 512).tolist() == rounded.memory_trace.tolist()


@given(data=st.data())
def test_memory_is_asked_for_and_given_back_as_a_trace_says(data):
    """So what models of allocators make of the trace is what an allocator will do."""
    simulation = data.draw(cases())
    n, events = simulation.lifetimes.value.size, []

    class Recording(TrackingMemory):
        def allocate(self, nbytes, key):
            events.append(key if key < n else "workspace")
            return super().allocate(nbytes, key)

        def free(self, key):
            events.append(~key if key < n else "~workspace")
            super().free(key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "TrackingMemory", Recording)
        execute(simulation.graph, simulation)
    first = np.unique(simulation.lifetimes.value, return_index=True)[1]
    pinned = {~int(i) for i in first[simulation.graph.output[simulation.lifetimes.value[first]]]}  # given back at once
    trace, named = Trace.of(simulation), {}
    for buffer in range(n, trace.size.size):
        named |= {buffer: "workspace", ~buffer: "~workspace"}
    assert events == [named.get(e, e) for e in trace.event.tolist() if e not in pinned]


def test_an_allocation_of_another_schedule_is_refused():
    graph = chain(4, memory=8)
    allocation = separate_storage(Buffers.of(simulate(graph, range(4))))
    with pytest.raises(AllocationError, match=r"not one of this schedule's buffers; allocate Buffers\.of"):
        execute(graph, [0, 0, 1, 2, 3], None, allocation)
    other = separate_storage(Buffers.of(simulate(chain(4, memory=9), range(4))))
    with pytest.raises(AllocationError, match="not one of this schedule's buffers"):
        execute(graph, range(4), None, other)


def test_buffers_in_another_order_are_those_of_the_schedule():
    graph = chain(4, memory=8).with_costs(workspace=[0, 3, 0, 4])
    buffers = Buffers.of(simulate(graph, range(4)))
    order = np.array([5, 0, 3, 4, 2, 1])
    fields = {name: getattr(buffers, name)[order] for name in ("begin", "end", "size", "instance")}
    found = execute(graph, range(4), None, share_storage(Buffers(**fields)))
    assert found.used.tolist() == found.predicted.tolist()
    assert found.differs_from(everything(graph)) == []


@pytest.mark.parametrize("offset", [-8, 25])
def test_a_buffer_outside_the_arena_is_refused(offset):
    graph = chain(4, memory=8)
    allocation = separate_storage(Buffers.of(simulate(graph, range(4))))
    with raises(AllocationError, name="0", begin=offset, size=32):
        execute(graph, range(4), None, replace(allocation, offset=[offset, 8, 16, 24]))


# ---------------------------------------------------------------- in place


def test_what_is_written_over_a_read_is_made_last():
    """Node 2 makes two values of the size of what it reads: one of its own, one over the read, or both over reads."""
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 1, 2, 4, 5],
        read_indptr=[0, 0, 0, 2, 4],
        read_indices=[0, 1, 2, 3],
        memory=[40, 40, 40, 40, 8],
        labels=Labels(("a", "b", "c", "d")),
    )
    simulation = simulate(graph, range(4))
    base = everything(graph)
    for over in ([-1, -1, 0, -1, -1], [-1, -1, -1, 0, -1], [-1, -1, 1, 0, -1], [-1, -1, 0, 1, -1]):
        allocation = separate_storage(Buffers.of(simulation, np.array(over)))
        found = execute(graph, simulation, None, allocation, checking=True)
        assert found.differs_from(base) == []
        assert found.used.tolist() == found.predicted.tolist() != base.used.tolist()


# ---------------------------------------------------------------- what is given for a schedule

TRAINING = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000))
OTHER = ComputationGraph.from_edges([(0, 1)])


def test_a_plan_its_record_its_file_and_its_simulation_are_one_schedule(tmp_path):
    plan = solve(TRAINING, "70%")
    plan.save(tmp_path / "plan.json")
    forms = [plan, plan.record(), tmp_path / "plan.json", plan.simulation, plan.schedule, plan.schedule.order.tolist()]
    wanted = execute(TRAINING, plan.schedule).checksums.tolist()
    assert [execute(TRAINING, form).checksums.tolist() for form in forms] == [wanted] * len(forms)
    before = ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000)
    assert execute(before, plan.record()).checksums.tolist() == wanted


def test_claims_of_a_plan_are_verified_before_it_runs():
    record = solve(TRAINING, "70%").record()
    with pytest.raises(ClaimError, match="claims peak_memory 1"):
        execute(TRAINING, record | {"peak_memory": 1})


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"graph": [(0, 1)]}, TypeError, "graph is a list"),
        ({"schedule": None}, TypeError, "None cannot be run"),
        ({"schedule": "nowhere.json"}, PlanError, "no such file"),
        ({"schedule": simulate(OTHER, [0, 1])}, GraphError, "of another graph"),
        ({"operators": SyntheticOperators(OTHER)}, GraphError, "made for another graph"),
        ({"operators": 3}, TypeError, "operators are 3"),
        ({"operators": SyntheticOperators}, TypeError, "methods of Operators"),
        ({"allocation": 3}, TypeError, "allocation is an int"),
        ({"seed": "x"}, TypeError, "seed is 'x'"),
        ({"limit": -1}, AllocationError, "limit is -1"),
    ],
)
def test_what_cannot_be_run_is_refused(options, error, word):
    given = {"graph": TRAINING, "schedule": solve(TRAINING, "70%").schedule} | options
    with pytest.raises(error, match=word):
        execute(**given)
