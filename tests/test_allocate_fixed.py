"""Buffers at fixed offsets: every placer keeps them, the bound knows them, contradictions are refused in words."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.offsets import Packing, pack
from remat_algos.allocate.sharing import colour, separate_storage, share_storage
from remat_algos.errors import AllocationError
from tests.oracles import offsets as oracle
from tests.raising import raises, refused
from tests.test_allocate_offsets import buffers_of, cuts, instance, random_buffers, triples


@st.composite
def fixed(draw, most=5, steps=5, largest=5):
    """Rows (begin, end, size) and offsets, -1 for any, that do not contradict each other."""
    rows = draw(triples(most=most, steps=steps, largest=largest))
    offsets = draw(st.lists(st.sampled_from([-1, -1, 0, 1, 2, 3, 5, 8]), min_size=len(rows), max_size=len(rows)))
    among = [i for i, offset in enumerate(offsets) if offset >= 0]
    assume(not oracle.clashes([rows[i] for i in among], [offsets[i] for i in among]))
    return rows, offsets


@pytest.fixture(params=["all", "search only", "greedy only"])
def methods(request, monkeypatch):
    """All methods, or some find nothing."""
    if request.param == "search only":
        monkeypatch.setattr(Packing, "greedy", lambda packing: None)
    if request.param == "greedy only":
        monkeypatch.setattr(Packing, "search", lambda packing: None)
        monkeypatch.setattr("remat_algos.allocate.offsets.ROUNDS", 20)
    return request.param


@given(case=fixed())
def test_the_arena_around_fixed_buffers_is_the_smallest(case):
    rows, offsets = case
    found = pack(buffers_of(rows, offset=offsets))
    found.verify()
    assert found.size == found.bound == oracle.least_arena_around(rows, offsets)


@pytest.mark.usefixtures("methods")
@given(case=fixed(most=7, steps=6))
def test_every_method_keeps_fixed_buffers_where_they_are(case):
    rows, offsets = case
    found = pack(buffers_of(rows, offset=offsets))
    found.verify()
    assert oracle.clashes(rows, found.offset.tolist()) == []
    assert all(at in (-1, lies) for at, lies in zip(offsets, found.offset.tolist(), strict=True))
    assert max((at + row[2] for row, at in zip(rows, offsets, strict=True) if at >= 0), default=0) <= found.bound


@given(cut=cuts(), data=st.data())
def test_what_is_known_to_fit_fits_with_any_of_it_fixed(cut, data):
    rows, height = cut
    whole = pack(buffers_of(rows), capacity=height, time_limit=60)
    at = [data.draw(st.sampled_from([-1, offset])) for offset in whole.offset.tolist()]
    found = pack(buffers_of(rows, offset=at), capacity=height, time_limit=60)
    found.verify()
    assert found.bound <= found.size <= height


@given(case=fixed())
def test_all_offsets_fixed_leave_nothing_to_decide(case):
    rows, offsets = case
    first = pack(buffers_of(rows, offset=offsets))
    again = pack(buffers_of(rows, offset=first.offset))
    again.verify()
    assert again.offset.tolist() == first.offset.tolist()
    assert (again.size, again.proven) == (first.size, True)


@pytest.mark.parametrize("name", ["A", "K"])
def test_a_public_instance_with_fixed_buffers_fits(name):
    buffers = instance(name)
    largest = np.argsort(-buffers.size)[:3]
    at = np.full(len(buffers), -1)
    at[largest[0]] = (1 << 21) - buffers.size[largest[0]]  # at the top of twice the bytes
    found = pack(Buffers(buffers.begin, buffers.end, buffers.size, offset=at), capacity=1 << 21)
    found.verify()
    assert found.size == 1 << 21


def test_many_buffers_around_fixed_ones_are_placed_without_time():
    buffers = random_buffers(300)
    at = np.full(300, -1)
    at[::40] = 64 * np.arange(8)
    at[buffers.size > 64] = -1
    found = pack(Buffers(buffers.begin, buffers.end, buffers.size, offset=at), time_limit=0)
    found.verify()


def test_what_is_written_over_a_fixed_buffer_lies_there_too():
    buffers = Buffers([0, 2, 0], [3, 5, 5], [4, 4, 2], over=[-1, 0, -1], offset=[-1, 6, -1])
    assert buffers.fixed.tolist() == [6, 6, -1]
    found = pack(buffers)
    found.verify()
    assert found.offset.tolist() == [6, 6, 0]
    with raises(AllocationError, name="0", what="offset", own=2):
        Buffers([0, 2], [3, 5], [4, 4], over=[-1, 0], offset=[2, 6])


def test_a_fixed_buffer_without_bytes_is_in_the_arena():
    found = pack(Buffers([0, 0], [1, 1], [0, 2], offset=[8, -1]))
    found.verify()
    assert (found.size, found.bound, found.offset.tolist()) == (8, 8, [8, 0])


def test_addresses_of_other_buffers_are_multiples_of_the_alignment():
    found = pack(Buffers([0, 0, 0], [2, 2, 2], [3, 5, 9], offset=[16, -1, -1]), alignment=8)
    found.verify()
    assert found.offset.tolist()[0] == 16
    assert found.size == 32


def test_fields_survive_pickle_and_copy():
    buffers = Buffers([0, 0], [1, 1], [4, 2], offset=[4, -1], arena=[1, -1])
    for again in (pickle.loads(pickle.dumps(buffers)), copy.deepcopy(buffers)):
        assert (again.offset.tolist(), again.arena.tolist()) == ([4, -1], [1, -1])


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"offset": [0, 3]}, {"name": "a", "other": "b", "step": 1}),
        ({"offset": [-2, -1]}, {"name": "a", "begin": 0, "end": 2}),
        ({"offset": [0, 2**53]}, {"name": "b", "begin": 1, "end": 3}),
        ({"arena": [0, -7]}, {"name": "b", "begin": 1, "end": 3}),
        ({"offset": [0]}, {"what": "offset", "actual": 1, "expected": 2}),
        ({"offset": [0.5, 1]}, {"what": "offset", "at": 0, "array": 0.5}),
    ],
)
def test_fixed_offsets_that_cannot_be_are_refused(fields, fault):
    with refused(AllocationError, fault):
        Buffers([0, 1], [2, 3], [4, 4], names=("a", "b"), **fields)


@given(rows=triples(), offsets=st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_two_fixed_buffers_are_refused_exactly_where_they_overlap(rows, offsets):
    offsets = offsets[: len(rows)]
    if oracle.clashes(rows, offsets):
        with pytest.raises(AllocationError, match=r"overlap: both are needed at step \d"):
            buffers_of(rows, offset=offsets)
    else:
        buffers_of(rows, offset=offsets)
    buffers_of(rows, offset=offsets, arena=range(len(rows)))  # in different arenas they cannot meet


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"alignment": 16}, {"name": "a", "offset": 8, "alignment": 16}),
        ({"capacity": 11}, {"name": "a", "fixed": 8, "end": 12}),
    ],
)
def test_a_fixed_offset_keeps_to_the_alignment_and_to_the_capacity(how, fault):
    buffers = Buffers([0, 1], [2, 3], [4, 4], names=("a", "b"), offset=[8, -1])
    with refused(AllocationError, fault):
        pack(buffers, **how)
    assert pack(buffers, capacity=12, alignment=8).size == 16


@pytest.mark.parametrize("method", [share_storage, separate_storage, colour])
def test_blocks_side_by_side_refuse_fixed_buffers(method):
    with raises(AllocationError, name="0"):
        method(Buffers([0, 1], [2, 3], [4, 4], offset=[8, -1]))
    with raises(AllocationError, name="1", arena=1):
        method(Buffers([0, 1], [2, 3], [4, 4], arena=[-1, 1]))


def test_verify_finds_a_buffer_that_has_left_its_place():
    buffers = Buffers([0, 1], [2, 3], [4, 4], names=("a", "b"), offset=[8, -1])
    with raises(AllocationError, name="a", offset=4, fixed=8):
        Allocation(buffers, [0, 1], [4, 0], 16, "by hand", 0).verify()
    Allocation(buffers, [0, 1], [8, 0], 16, "by hand", 0).verify()


def test_one_arena_refuses_what_belongs_to_another():
    buffers = Buffers([0], [2], [4], names=("a",), arena=[1])
    with raises(AllocationError, name="a", arena=1):
        pack(buffers)
    with raises(AllocationError, name="a", arena=1):
        Allocation(buffers, [0], [0], 4, "by hand", 0).verify()
