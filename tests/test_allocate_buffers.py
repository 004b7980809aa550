"""Buffers and addresses: what is refused, what is counted, and what `verify` finds."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.sharing import separate_storage
from remat_algos.errors import AllocationError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import simulate
from tests.oracles import allocations
from tests.raising import raises, refused
from tests.strategies import graphs, orders, training_graphs


@st.composite
def some_buffers(draw, most=8, steps=6, sizes=5, in_place=True):
    """Buffers, some of them written over others."""
    rows = []
    for _ in range(draw(st.integers(0, most))):
        begin = draw(st.integers(0, steps - 1))
        rows.append((begin, draw(st.integers(begin + 1, steps)), draw(st.integers(0, sizes))))
    over, taken = [-1] * len(rows), set()
    for i, (begin, _, size) in enumerate(rows):
        fit = [j for j, (b, e, s) in enumerate(rows) if b < begin == e - 1 and s == size and j not in taken]
        if in_place and fit and draw(st.booleans()):
            over[i] = draw(st.sampled_from(fit))
            taken.add(over[i])
    begin, end, size = zip(*rows, strict=True) if rows else ((), (), ())
    return Buffers(begin, end, size, over=over)


# ---------------------------------------------------------------- buffers


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (([0], [0], [1]), {"name": "0", "begin": 0, "end": 0}),
        (([3], [1], [1]), {"name": "0", "begin": 3, "end": 1}),
        (([-1], [1], [1]), {"name": "0", "begin": -1, "end": 1}),
        (([0], [1], [-1]), {"what": "size", "at": 0, "array": -1}),
        (([0], [1], [2**53]), {"what": "size"}),
        (([0, 1], [1], [1]), {"what": "begin", "actual": 2, "expected": 1}),
        (([0], [1], [1.5]), {"what": "size", "at": 0, "array": 1.5}),
        (([0], [0.5], [1]), {"what": "end", "at": 0, "array": 0.5}),
        (([0], [1], 1), {"what": "size", "ndim": 0}),
        (([0], [1], None), {"what": "size", "ndim": 0}),
        (([0], [1], ["x"]), "give whole numbers"),
        (([0, 0], [1, 1], [2**52, 2**52]), {"what": "size"}),
        (([0], [1], [1], [-2]), {"name": "0", "begin": 0, "end": 1}),
        (([0], [1], [1], None, [-2]), {"name": "0", "begin": 0, "end": 1}),
        (([0], [1], [1], None, [-1, -1]), {"what": "over", "actual": 2, "expected": 1}),
        (([0], [1], [1], None, None, ("a", "b")), {"n_names": 2, "count": 1}),
    ],
)
def test_buffers_that_cannot_be_are_refused(fields, fault):
    with refused(AllocationError, fault):
        Buffers(*fields)


@pytest.mark.parametrize(
    ("over", "fault"),
    [
        ([-1, -1, -1, 9], {"under": 9, "last": 3}),
        ([-1, 0, -1, -1], {"name": "b", "under": "a", "fault": "which has another size"}),
        ([-1, -1, 0, -1], {"name": "c", "under": "a", "fault": "which is already freed"}),
        ([-1, -1, 1, -1], {"name": "c", "under": "b", "fault": "which is read later"}),
        ([-1, -1, 1, 1], {"name": "c", "under": "b"}),
        ([-1, -1, 2, -1], {"name": "c", "under": "c", "fault": "which is read later"}),
    ],
)
def test_what_is_still_needed_is_not_written_over(over, fault):
    with refused(AllocationError, fault):
        Buffers([0, 1, 2, 3], [2, 4, 4, 4], [4, 2, 2 if over[2] else 4, 2], over=over, names=("a", "b", "c", "d"))


def test_an_alignment_is_a_power_of_two():
    buffers = Buffers([0, 0, 0], [1, 1, 1], [0, 1, 64])
    assert buffers.rounded(64).size.tolist() == [0, 64, 64]
    for alignment in (0, 3, -8, 96, 2.5, True, 2**70):
        with raises(AllocationError, alignment=alignment):
            buffers.rounded(alignment)


@given(buffers=some_buffers())
def test_max_live_is_what_the_oracle_counts(buffers):
    assert buffers.max_live == allocations.max_live(buffers)


@given(buffers=some_buffers())
def test_what_is_written_over_shares_its_first_buffer(buffers):
    for i, under in enumerate(buffers.over.tolist()):
        assert buffers.first[i] == (i if under < 0 else buffers.first[under])


@given(st.data())
def test_without_in_place_max_live_is_the_simulated_peak(data):
    graph = data.draw(graphs() | training_graphs())
    simulation = simulate(graph, data.draw(orders(graph)))
    buffers = Buffers.of(simulation)
    assert buffers.max_live == simulation.peak_memory
    instances = np.arange(simulation.lifetimes.value.size)
    assert buffers.instance[: instances.size].tolist() == instances.tolist()
    assert (buffers.instance[instances.size :] == -1).all()


def test_a_workspace_is_a_buffer_of_one_step():
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=[4, 2, 1], workspace=[0, 7, 0])
    buffers = Buffers.of(simulate(graph, [0, 1, 2]))
    assert list(zip(buffers.begin, buffers.end, buffers.size, buffers.instance, strict=True)) == [
        *[(0, 2, 4, 0), (1, 3, 2, 1), (2, 3, 1, 2)],
        (1, 2, 7, -1),
    ]


# ---------------------------------------------------------------- allocations


def problem(allocation):
    """What `verify` complains of, in the oracle's word."""
    words = {"outside the arena": "outside", "is not a multiple of": "askew", "their offsets differ": "elsewhere"}
    try:
        allocation.verify()
    except AllocationError as error:
        return next((word for said, word in words.items() if said in str(error)), "overlap")
    return None


@given(st.data())
def test_verify_finds_a_fault_where_the_oracle_does(data):
    buffers = data.draw(some_buffers())
    size = data.draw(st.integers(0, 14))
    alignment = data.draw(st.sampled_from([1, 1, 2]))
    offset = data.draw(st.lists(st.integers(-1, 14), min_size=len(buffers), max_size=len(buffers)))
    found = allocations.faults(buffers, offset, size, alignment)
    said = problem(Allocation(buffers, np.arange(len(buffers)), offset, size, "by lot", 0, alignment))
    assert (said is None) == (not found)
    assert said is None or said in found


@given(buffers=some_buffers(), data=st.data())
def test_verify_finds_one_buffer_that_has_slipped(buffers, data):
    sound = separate_storage(buffers)
    assert problem(sound) is None
    assert not allocations.faults(buffers, sound.offset, sound.size)
    if len(buffers):
        offset = sound.offset.copy()
        offset[data.draw(st.integers(0, len(buffers) - 1))] += data.draw(st.integers(-2, 2))
        slipped = Allocation(buffers, sound.storage, offset, sound.size, "slipped", sound.bound)
        assert (problem(slipped) is None) == (not allocations.faults(buffers, offset, sound.size))


@pytest.mark.parametrize(
    ("over", "blocks", "offset", "bound", "fault"),
    [
        (-1, [0, 1], [0, 32], 96, {"name": "x", "other": "y", "step": 1}),
        (-1, [0, 0], [0, 64], 96, {"name": "x", "other": "y", "storage": 0}),
        (-1, [0, 1], [0, 64], 129, {"size": 128, "bound": 129}),
        (0, [0, 1], [0, 64], 96, {"name": "y", "under": "x"}),
    ],
)
def test_verify_names_what_is_wrong(over, blocks, offset, bound, fault):
    buffers = Buffers([0, 1], [2, 3], [64, 64], over=[-1, over], names=("x", "y"))
    with refused(AllocationError, fault):
        Allocation(buffers, blocks, offset, 128, "by hand", bound).verify()


@given(buffers=some_buffers(), data=st.data())
def test_verify_finds_two_in_a_block_where_the_oracle_does(buffers, data):
    storage = data.draw(st.lists(st.integers(0, 3), min_size=len(buffers), max_size=len(buffers)))
    rows = allocations.intervals(buffers)
    meet = any(
        storage[i] == storage[j] and allocations.conflict(rows, i, j)
        for i, j in itertools.combinations(range(len(rows)), 2)
    )
    sound = separate_storage(buffers)
    found = Allocation(buffers, storage, sound.offset, sound.size, "by lot", 0)
    if meet:
        with pytest.raises(AllocationError, match="are both in block"):
            found.verify()
    else:
        found.verify()


def test_proven_and_fragmentation():
    buffers = Buffers([0, 1, 2], [2, 3, 3], [6, 2, 6])
    loose, tight = separate_storage(buffers), Allocation(buffers, [0, 1, 0], [0, 6, 0], 8, "by hand", 8)
    assert (loose.size, loose.proven, loose.fragmentation) == (14, False, 1 - 8 / 14)
    assert (tight.size, tight.proven, tight.fragmentation) == (8, True, 0)
    assert separate_storage(Buffers([], [], [])).fragmentation == 0
