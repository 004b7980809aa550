"""What ends a run halfway: memory, operators, the user. Nothing stays behind, and the next run is as any other."""

import gc
import signal
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.sharing import separate_storage
from remat_algos.errors import BackendError, OutOfMemoryError, RematError, StaleValueError
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Resident
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import chain
from tests.raising import raises
from tests.strategies import graphs, orders

GRAPH = ComputationGraph.from_arrays(
    read_indptr=[0, 0, 1, 2, 4, 5, 6],
    read_indices=[0, 1, 1, 2, 3, 4],
    memory=[600, 600, 600, 600, 600, 8],
    workspace=[0, 0, 0, 700, 0, 0],
    resident=Resident([100], [1], [0, 0, 0, 0, 1, 1, 1], [0], ("weight",)),
)
ORDER = [0, 1, 2, 0, 1, 2, 3, 4, 5]
FAULTY = 3


class Spy(SyntheticOperators):
    """Remembers every array weakly, and does something at a node."""

    def __init__(self, graph, deed=None):
        super().__init__(graph)
        self.deed, self.seen = deed, []

    def residents(self, backend):
        arrays = super().residents(backend)
        self.seen += map(weakref.ref, arrays)
        return arrays

    def run(self, node, reads, residents, values, workspace):
        scratch = np.empty(1000, np.uint8)  # what the frame of an error holds
        self.seen += map(weakref.ref, [*values, scratch, *([] if workspace is None else [workspace])])
        super().run(node, reads, residents, values, workspace)
        if node == FAULTY and self.deed is not None:
            self.deed()

    def left(self):
        return sum(reference() is not None for reference in self.seen)


def arena(graph=GRAPH, order=ORDER):
    return separate_storage(Buffers.of(simulate(graph, order)))


def is_as_ever():
    found = execute(GRAPH, ORDER)
    assert found.mismatches == []
    assert found.used.tolist() == found.predicted.tolist()


@pytest.mark.parametrize("allocation", [None, arena()], ids=["pool", "arena"])
@pytest.mark.parametrize("checking", [False, True])
def test_a_run_that_ends_well_leaves_nothing(allocation, checking):
    spy = Spy(GRAPH)
    found = execute(GRAPH, ORDER, spy, allocation, checking=checking)
    assert spy.seen
    assert spy.left() == 0
    assert found.resident == 100


# ---------------------------------------------------------------- memory


def test_memory_that_runs_out_halfway_is_told_with_step_node_and_bytes():
    spy = Spy(GRAPH)
    # step 6 holds two values of 1024 bytes, its own, and 1024 of workspace: 4096 at the peak
    with pytest.raises(OutOfMemoryError) as error:
        execute(GRAPH, ORDER, spy, limit=4095)
    assert str(error.value) == (
        "step 6 runs 3, which requests 700 bytes, 1,024 in chunks of 512, where 1,023 are free: the limit is reached; "
        "this schedule needs 4,096 at its peak, so allow more, or use a schedule with a lower peak"
    )
    assert (error.value.step, error.value.node, error.value.requested, error.value.free) == (6, 3, 700, 1023)
    assert isinstance(error.value, BackendError)
    assert isinstance(error.value, RematError)
    assert spy.left() == 0  # while the error is still in our hands
    assert execute(GRAPH, ORDER, limit=4096).peak_used == 4096


@given(data=st.data())
def test_a_limit_stops_the_first_step_above_it_and_no_other(data):
    graph = data.draw(graphs())
    graph = graph.with_costs(memory=200 * graph.memory, workspace=300 * graph.workspace)
    order = data.draw(orders(graph))
    whole = execute(graph, order)
    limit = data.draw(st.integers(0, whole.peak_used + 1))
    above = np.flatnonzero(whole.predicted > limit)
    if above.size == 0:
        assert execute(graph, order, limit=limit).used.tolist() == whole.used.tolist()
        return
    with pytest.raises(OutOfMemoryError) as error:
        execute(graph, order, limit=limit)
    assert error.value.step == above[0]
    assert error.value.node == order[above[0]]
    assert error.value.requested > error.value.free >= 0 or -(-error.value.requested // 512) * 512 > error.value.free


def test_an_arena_above_the_limit_is_refused_before_the_first_step():
    with raises(OutOfMemoryError, requested=5508, free=5000, step=-1):
        execute(GRAPH, ORDER, None, arena(), limit=5000)


def test_more_than_any_machine_has():
    graph = chain(2, memory=2**51)
    with pytest.raises(
        OutOfMemoryError, match="step 0 runs 0, which requests 2,251,799,813,685,248 bytes: this machine"
    ):
        execute(graph, [0, 1])
    with pytest.raises(OutOfMemoryError, match="the arena"):
        execute(graph, [0, 1], None, arena(graph, [0, 1]))
    resident = Resident([2**51], [0], [0, 0, 0], [], ("data",))
    beside = ComputationGraph.from_arrays(read_indptr=[0, 0, 0], read_indices=[], resident=resident)
    with pytest.raises(OutOfMemoryError, match="preparing the operators, which ran out of memory"):
        execute(beside, [0, 1])
    is_as_ever()


def test_an_operator_that_runs_out_of_memory():
    spy = Spy(GRAPH, lambda: np.empty(2**51, np.uint8))
    with pytest.raises(OutOfMemoryError, match="step 6 runs 3, which ran out of memory: Unable to allocate") as error:
        execute(GRAPH, ORDER, spy)
    assert (error.value.step, error.value.node) == (6, 3)
    assert spy.left() == 0


# ---------------------------------------------------------------- operators, and the user


def divide():
    return 1 // 0


def press_control_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("allocation", [None, arena()], ids=["pool", "arena"])
@pytest.mark.parametrize(
    ("deed", "kind"),
    [(divide, ZeroDivisionError), (press_control_c, KeyboardInterrupt)],
)
def test_what_ends_a_step_comes_out_as_it_is_and_leaves_nothing(deed, kind, allocation):
    spy = Spy(GRAPH, deed)
    with pytest.raises(kind) as error:
        execute(GRAPH, ORDER, spy, allocation)
    assert error.value.__notes__ == ["step 6 runs 3 when this came; all memory of the run has been released"]
    assert len(spy.seen) > 6
    assert spy.left() == 0
    is_as_ever()


def holding(spy, error):
    """An error whose frame holds an array."""

    def raising():
        array = np.empty(10, np.uint8)
        spy.seen.append(weakref.ref(array))
        raise error

    try:
        raising()
    except Exception as caught:
        return caught


def test_an_error_with_cause_context_and_members_leaves_nothing():
    def deed():
        error = holding(spy, ExceptionGroup("many", [holding(spy, KeyError("one")), holding(spy, KeyError("two"))]))
        error.__cause__, error.__context__ = holding(spy, ValueError("cause")), holding(spy, ValueError("context"))
        error.__cause__.__cause__ = error  # round and round
        raise error

    spy = Spy(GRAPH, deed)
    with pytest.raises(ExceptionGroup, match="many"):
        execute(GRAPH, ORDER, spy)
    assert len(spy.seen) > 5
    assert spy.left() == 0


def test_what_was_there_before_an_error_is_left_alone():
    outer = []

    def fails():
        kept = np.empty(10, np.uint8)
        outer.append(weakref.ref(kept))
        raise ValueError("before")

    try:
        fails()
    except ValueError as before:
        with pytest.raises(ZeroDivisionError):
            execute(GRAPH, ORDER, Spy(GRAPH, divide))
        frame = before.__traceback__.tb_next.tb_frame
    assert "kept" in frame.f_locals
    assert outer[0]() is not None


def test_a_value_read_too_late_leaves_nothing():
    def deed():
        spy.early.fill(0)  # the output of node 1, which node 3 does not read, and node 4 will

    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)], memory=8)
    spy = Spy(graph, deed)
    run = spy.run

    def keep(node, reads, residents, values, workspace):
        if node == 1:
            spy.early = values[0]
        run(node, reads, residents, values, workspace)

    spy.run = keep
    with pytest.raises(StaleValueError, match="step 4 runs 4, which reads 1, which has been overwritten"):
        execute(graph, range(5), spy, checking=True)
    del spy.early
    gc.collect()
    assert spy.left() == 0


@pytest.mark.parametrize(
    ("residents", "fields"),
    [
        ([], {"given": 0, "count": 1}),
        (None, {"given": "NoneType"}),
        ([None], {"name": "weight", "size": 100}),
        ([np.empty(99, np.uint8)], {"name": "weight", "nbytes": 99}),
    ],
)
def test_operators_with_other_residents_are_refused(residents, fields, monkeypatch):
    other = SyntheticOperators(GRAPH)
    monkeypatch.setattr(other, "residents", lambda backend: residents)
    with raises(BackendError, **fields):
        execute(GRAPH, ORDER, other)


def test_operators_cannot_put_other_arrays_in_place_of_those_that_are_counted(monkeypatch):
    other = SyntheticOperators(GRAPH)
    monkeypatch.setattr(other, "run", lambda node, reads, residents, values, workspace: values.__setitem__(0, None))
    with pytest.raises(AttributeError) as error:
        execute(GRAPH, ORDER, other)
    assert error.value.__notes__ == ["step 0 runs 0 when this came; all memory of the run has been released"]


@pytest.mark.parametrize("found", [None, "sum", -1, 2**32, float("nan"), 1.5, 2.0, np.float32(7)])
@pytest.mark.parametrize("checking", [False, True])
def test_a_checksum_that_is_none_is_told(found, checking, monkeypatch):
    operators = SyntheticOperators(GRAPH)
    monkeypatch.setattr(operators, "checksum", lambda array: found)
    with raises(BackendError, checksum=found):
        execute(GRAPH, ORDER, operators, checking=checking)


def test_an_unknown_backend_and_a_missing_gpu(monkeypatch):
    with raises(BackendError, name="torch"):
        execute(GRAPH, ORDER, backend="torch")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match="backend cupy cannot run here: CuPy is not installed; run python -m pip"):
        execute(GRAPH, ORDER, backend="cupy")
