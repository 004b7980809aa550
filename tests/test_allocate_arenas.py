"""Buffers split over several arenas: against every way to do it, and what is said where there is none."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from remat_algos.allocate import arenas
from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.arenas import ArenaPacking, SplitAllocation, pack_arenas
from remat_algos.allocate.offsets import pack
from remat_algos.errors import AllocationError, ArgumentTypeError, CapacityError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import simulate
from tests.oracles import offsets as oracle
from tests.raising import raises, refused
from tests.test_allocate_offsets import buffers_of, hard_buffers, instance, random_buffers, triples

# 140 KiB at the worst step, in memories of 96 and 64 KiB
TWO = [(0, 2, 98304), (1, 3, 45056), (2, 4, 71680), (3, 5, 65536), (4, 6, 20480), (5, 7, 12288), (6, 8, 4096)]


@st.composite
def splits(draw, most=5):
    """Rows (begin, end, size), two or three capacities near what is needed, (arena, offset) or -1 of each row."""
    rows = draw(triples(most=most, steps=4, largest=4))
    need = oracle.max_live(rows)
    first = draw(st.integers(0, need + 1))
    capacities = [
        first,
        max(0, need - first + draw(st.integers(-1, 2))),
        *draw(st.lists(st.integers(0, 2), max_size=1)),
    ]
    fixed = [
        (draw(st.sampled_from([-1, -1, -1, 0, 1])), draw(st.sampled_from([-1, -1, -1, -1, 0, 1, 3]))) for _ in rows
    ]
    return rows, capacities, fixed


def buffers_at(rows, fixed, **more):
    return buffers_of(rows, arena=[arena for arena, _ in fixed], offset=[offset for _, offset in fixed], **more)


def contradicts(rows, fixed):
    """Whether two buffers at fixed offsets overlap."""
    among = [i for i, (_, offset) in enumerate(fixed) if offset >= 0]
    return any(
        oracle.clashes([rows[i] for i in mine], [fixed[i][1] for i in mine])
        for number in range(3)
        for mine in [[i for i in among if max(0, fixed[i][0]) == number]]
    )


@pytest.fixture(params=["all", "search only", "arena by arena"])
def methods(request, monkeypatch):
    if request.param != "all":
        monkeypatch.setattr(ArenaPacking, "greedy", lambda packing: None)
    if request.param == "search only":
        monkeypatch.setattr("remat_algos.allocate.tuning.MAX_ASSIGNED", 0)
    if request.param == "arena by arena":
        monkeypatch.setattr(ArenaPacking, "search", lambda packing, rounds=None: None)
        monkeypatch.setattr(arenas, "_check_steps", lambda row, context: None)


@pytest.mark.usefixtures("methods")
@given(case=splits())
def test_buffers_are_split_exactly_where_some_way_exists(case):
    rows, capacities, fixed = case
    assume(not contradicts(rows, fixed))
    if oracle.split(rows, capacities, fixed):
        found = pack_arenas(buffers_at(rows, fixed), capacities, time_limit=60)
        found.verify()
        check(found, rows, capacities, fixed)
        return
    with pytest.raises(AllocationError) as refusal:
        pack_arenas(buffers_at(rows, fixed), capacities, time_limit=60)
    error = refusal.value
    if isinstance(error, CapacityError):
        assert error.proven
        assert error.buffers
        assert set(error.buffers) <= set(range(len(rows)))
    else:
        assert "has the fixed offset" in str(error) or "belongs to arena" in str(error)


def check(found, rows, capacities, fixed):
    """The promises, in plain words."""
    for i, (row, (own, at)) in enumerate(zip(rows, fixed, strict=True)):
        arena, offset = int(found.arena[i]), int(found.offset[i])
        assert 0 <= offset <= offset + row[2] <= capacities[arena]
        assert at in (-1, offset)
        assert own in (-1, arena)
        assert at < 0 or own >= 0 or arena == 0
    for arena in range(len(capacities)):
        mine = [i for i in range(len(rows)) if found.arena[i] == arena]
        assert oracle.clashes([rows[i] for i in mine], [int(found.offset[i]) for i in mine]) == []


@given(rows=triples(), shift=st.integers(0, 4))
def test_alignment_divides_every_offset(rows, shift):
    rounded = [(begin, end, -(-size >> shift) << shift) for begin, end, size in rows]
    need = oracle.max_live(rounded)
    found = pack_arenas(buffers_of(rows), [need + 3, need + 1, 2 * need], alignment=1 << shift)
    found.verify()
    assert not (found.offset % (1 << shift)).any()


@given(rows=triples())
def test_one_arena_is_that_of_pack(rows):
    buffers = buffers_of(rows)
    least = pack(buffers).size
    found = pack_arenas(buffers, [least])
    found.verify()
    assert found.sizes == (least,)
    if least:
        with pytest.raises(CapacityError) as error:
            pack_arenas(buffers, [least - 1])
        assert error.value.proven


@given(rows=triples(), capacity=st.integers(0, 20))
def test_a_further_arena_never_hurts(rows, capacity):
    buffers = buffers_of(rows)
    least = pack(buffers).size
    for capacities in ([least, capacity], [capacity, least]):
        pack_arenas(buffers, capacities).verify()


@pytest.mark.parametrize("seed", [13, 22, 40])
def test_eighteen_buffers_are_split_or_proven_not_to_be(seed):
    rng = np.random.default_rng(1000 + seed)
    begin = rng.integers(0, 18, 18)
    buffers = Buffers(begin, begin + rng.integers(1, 9, 18), rng.integers(1, 1000, 18))
    need = int(buffers.max_live * rng.choice([1.0, 1.01, 1.03, 1.06]))
    first = int(need * rng.choice([0.5, 0.6, 0.75]))
    try:
        pack_arenas(buffers, [first, need - first], time_limit=60).verify()
    except CapacityError as error:
        proven = error.proven
    else:
        proven = True
    assert proven


def test_140_kib_are_split_over_96_and_64_though_there_are_no_assignments_to_try(monkeypatch):
    found = pack_arenas(buffers_of(TWO), [98304, 65536])
    found.verify()
    assert found.arena.tolist()[:4] == [0, 1, 0, 1]
    assert found.sizes == (98304, 65536)
    monkeypatch.setattr(ArenaPacking, "greedy", lambda packing: None)
    monkeypatch.setattr("remat_algos.allocate.tuning.FIRST_ROUNDS", 0)
    monkeypatch.setattr("remat_algos.allocate.tuning.MAX_PACKED", 2)
    pack_arenas(buffers_of(TWO), [98304, 65536]).verify()


def test_buffers_written_over_each_other_are_in_one_arena():
    buffers = Buffers([0, 2, 0], [3, 5, 5], [4, 4, 3], over=[-1, 0, -1], arena=[-1, 1, -1])
    found = pack_arenas(buffers, [4, 4])
    found.verify()
    assert found.arena.tolist() == [1, 1, 0]
    with pytest.raises(CapacityError):
        pack_arenas(buffers, [2, 6])


@pytest.mark.parametrize("capacities", [(800_000, 350_000), (10**9, 656_384), (656_384, 300_000, 300_000)])
def test_a_public_instance_is_split(capacities):
    found = pack_arenas(instance("A"), capacities, time_limit=60)
    found.verify()
    assert max(found.arena) < len(capacities)


def test_buffers_of_a_schedule_are_split():
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], memory=[4, 2, 3, 4], workspace=[0, 0, 5, 0])
    buffers = Buffers.of(simulate(graph, [0, 1, 2, 3]))
    half = buffers.max_live // 2 + 2
    found = pack_arenas(buffers, [half, half])
    found.verify()
    assert found.part(0).buffers.instance.size + found.part(1).buffers.instance.size == len(buffers)


def test_the_same_seed_gives_the_same_addresses():
    buffers = random_buffers(80, longest=30)
    capacities = [int(0.6 * buffers.max_live), int(0.5 * buffers.max_live)]
    first, again = (pack_arenas(buffers, capacities, seed=3, time_limit=60) for _ in range(2))
    assert np.array_equal(first.arena, again.arena)
    assert np.array_equal(first.offset, again.offset)


def test_nothing_needs_no_arena():
    for buffers in (Buffers([], [], []), Buffers([0, 0], [1, 1], [0, 0], arena=[-1, 1], offset=[-1, 3])):
        found = pack_arenas(buffers, [0, 3])
        found.verify()
        assert found.sizes[0] == 0


# ---------------------------------------------------------------- what forces it


@pytest.mark.parametrize(
    ("rows", "capacities", "fixed", "fault", "buffers"),
    [
        (
            [(0, 1, 3), (1, 2, 9)],
            [8, 5],
            {},
            {"sized": "b of 9 bytes", "where": "every arena, of which the largest", "size": 9},
            (1,),
        ),
        (
            [(0, 1, 3), (1, 2, 7)],
            [8, 5],
            {"arena": [-1, 1]},
            {"sized": "b of 7 bytes", "where": "arena 1, to which it belongs and which", "most": 5},
            (1,),
        ),
        (
            [(0, 2, 3), (1, 3, 7), (1, 2, 4)],
            [8, 5],
            {},
            {"where": "all arenas together have", "step": 1, "most": 14},
            (1, 2, 0),
        ),
        (
            [(0, 2, 3), (1, 3, 2), (0, 1, 3)],
            [8, 4],
            {"arena": [1, 1, -1]},
            {"where": "arena 1, to which they belong, has", "step": 1, "most": 5},
            (0, 1),
        ),
        (
            [(0, 2, 4), (1, 3, 4), (1, 2, 4), (2, 3, 1)],
            [7, 5],
            {},
            {"largest": "a (4), b (4), c (4)", "named": "arenas of 7, 5 bytes", "step": 1},
            (0, 1, 2),
        ),
    ],
)
def test_the_error_names_what_forces_it(rows, capacities, fixed, fault, buffers):
    with refused(CapacityError, fault) as error:
        pack_arenas(buffers_of(rows, names=tuple("abcd"[: len(rows)]), **fixed), capacities)
    assert error.value.buffers == buffers
    assert error.value.proven
    assert "\n" not in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.buffers, again.proven) == (str(error.value), buffers, True)


def test_without_the_named_buffer_the_others_fit():
    rows = [(0, 1, 4), (1, 2, 2), (0, 4, 2), (2, 4, 1), (1, 5, 2), (4, 5, 3), (2, 7, 1), (5, 7, 5)]  # 6 at every step
    names = tuple("abcdefgh")
    with pytest.raises(CapacityError) as error:
        pack_arenas(buffers_of(rows, names=names), [6, 0])
    assert str(error.value).startswith("no split of the 8 buffers over arenas of 6, 0 bytes is possible; without ")
    (named,) = error.value.buffers
    others = [row for i, row in enumerate(rows) if i != named]
    pack_arenas(buffers_of(others), [6, 0]).verify()


def test_a_search_that_was_cut_short_proves_nothing():
    buffers = hard_buffers()
    with pytest.raises(CapacityError, match="was found") as error:
        pack_arenas(buffers, [40_000, 26_000], time_limit=0.3)
    assert not error.value.proven


@pytest.mark.parametrize(
    ("fixed", "fault"),
    [
        ({"offset": [2]}, {"name": "a", "fixed": 2, "end": 5}),
        ({"offset": [8], "arena": [1]}, {"name": "a", "fixed": 8, "end": 11}),
        ({"arena": [2]}, {"name": "a", "known": "arenas are 0 to 1", "arena": 2}),
    ],
)
def test_a_fixed_buffer_is_in_its_arena_or_refused(fixed, fault):
    with refused(AllocationError, fault):
        pack_arenas(buffers_of([(0, 1, 3)], names=("a",), **fixed), [4, 9])


@pytest.mark.parametrize(
    ("capacities", "error", "fault"),
    [
        ([], AllocationError, "the capacities are \\[\\]; give the bytes of each arena"),
        (5, TypeError, "capacities is 5; give a list"),
        ("12", TypeError, "capacities is '12'; give a list"),
        ([5, -1], AllocationError, "a capacity is -1; give a number of bytes, 0 or more"),
        ([5, 1.5], ValueError, "capacities\\[1\\] is 1.5; give a whole number"),
        ([5, None], TypeError, "capacities\\[1\\] is None; give a whole number"),
        ([5, True], TypeError, "capacities\\[1\\] is True; give a whole number"),
        ([5, "4KiB"], TypeError, "capacities\\[1\\] is '4KiB'; give a whole number"),
    ],
)
def test_capacities_that_say_nothing_are_refused(capacities, error, fault):
    with pytest.raises(error, match=fault):
        pack_arenas(buffers_of([(0, 1, 3)]), capacities)


def test_pack_says_who_takes_several_capacities():
    with raises(AllocationError, several="; for several arenas call pack_arenas"):
        pack(buffers_of([(0, 1, 3)]), capacity=[4, 4])
    with raises(ArgumentTypeError, what="buffers", found="a list", wanted="a Buffers"):
        pack_arenas([(0, 1, 3)], [4])


def test_any_capacity_will_do():
    assert pack_arenas(buffers_of([(0, 1, 3)]), [np.int64(2), 2**62, 2.0]).arena.tolist() == [1]


def test_interrupted_before_a_split_it_raises(monkeypatch):
    def interrupt(done, total, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="interrupted before the buffers were split"):
        pack_arenas(hard_buffers(), [40_000, 26_000], progress=interrupt)


# ---------------------------------------------------------------- SplitAllocation


def by_hand(arena, offset, fixed=None):
    buffers = Buffers([0, 1, 2], [2, 3, 4], [4, 4, 2], names=("a", "b", "c"), **(fixed or {}))
    return SplitAllocation(buffers, arena, offset, (8, 4), "by hand")


@pytest.mark.parametrize(
    ("split", "fault"),
    [
        (lambda: by_hand([0, 0, 0], [0, 3, 0]), {"arena": 0, "name": "a", "other": "b"}),
        (lambda: by_hand([0, 1, 0], [0, 1, 0]), {"arena": 1, "capacity": 4, "size": 5}),
        (lambda: by_hand([0, 1, 0], [-1, 0, 0]), {"arena": 0, "name": "a", "offset": -1}),
        (lambda: by_hand([0, 1, 0], [4, 0, 0], {"offset": [0, -1, -1]}), {"arena": 0, "offset": 4, "fixed": 0}),
        (lambda: by_hand([1, 0, 0], [0, 0, 4], {"offset": [0, -1, -1]}), {"name": "a", "arena": 1, "fixed_arena": 0}),
        (lambda: by_hand([0, 1, 0], [0, 0, 0], {"arena": [-1, 0, -1]}), {"name": "b", "arena": 1, "fixed_arena": 0}),
        (lambda: by_hand([0, 2, 0], [0, 0, 0]), {"name": "b", "arena": 2, "known": "arenas are 0 to 1"}),
        (lambda: pack_arenas(buffers_of([(0, 1, 3)]), [4]).part(2), {"arena": 2, "known": "there is arena 0 only"}),
        (lambda: by_hand([0, 1], [0, 0, 0]), {"what": "arena", "actual": 2, "expected": 3}),
        (lambda: by_hand([0, 1, 0], [0, 0, 4], {"over": [-1, 0, -1]}), {"name": "b", "under": "a"}),
    ],
)
def test_verify_finds_a_fault(split, fault):
    with refused(AllocationError, fault):
        split().verify()


def test_parts_are_allocations_of_their_own():
    split = by_hand([0, 1, 0], [0, 0, 4])
    split.verify()
    first, second = split.parts
    assert (first.buffers.names, first.size, first.proven) == (("a", "c"), 6, False)
    assert (second.buffers.names, second.size, second.proven) == (("b",), 4, True)
    assert isinstance(first, Allocation)
    assert split.sizes == (6, 4)
    with raises(AllocationError, known="arenas are 0 to 1", arena=2):
        split.part(2)
    with raises(ArgumentTypeError, what="buffers", found="a str", wanted="a Buffers"):
        SplitAllocation("a", [], [], (1,), "by hand")


def test_the_diagnosis_ends_with_the_time_limit(monkeypatch):
    monkeypatch.setattr("remat_algos.allocate.tuning.DIAGNOSIS_SECONDS", 0)
    with pytest.raises(CapacityError, match="the largest buffers: "):
        pack_arenas(hard_buffers(), [40_000, 26_000], time_limit=0)
