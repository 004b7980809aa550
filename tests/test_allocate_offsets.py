"""Addresses in a small arena: against all orders, by hand, on public instances, and what happens when time is short."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from remat_algos.kernels.offsets import GapFit, SkylineFit
from remat_algos.kernels.offsets_search import PackingSearch

from remat_algos.allocate import offsets, tuning
from remat_algos.allocate.allocation import NO_LIMIT, Allocation, Buffers
from remat_algos.allocate.offsets import Packing, PackingBlocks, pack
from remat_algos.allocate.sharing import colour, separate_storage, share_storage
from remat_algos.context import Clock, Stop
from remat_algos.errors import AllocationError
from remat_algos.ir.differentiate import differentiate
from remat_algos.search.solve import solve
from remat_algos.zoo.registry import build
from tests.oracles import offsets as oracle
from tests.raising import raises, refused

INSTANCES = Path(__file__).resolve().parents[2] / "shared" / "allocation"

GOLDEN = json.loads((Path(__file__).parent / "golden" / "offsets.json").read_text())
FITS = [(tuple(map(tuple, one["buffers"])), one["capacity"]) for one in GOLDEN["fits"]]
GAPS = [(tuple(map(tuple, one["buffers"])), one["max_live"], one["least"]) for one in GOLDEN["gaps"]]


@st.composite
def triples(draw, most=6, steps=7, largest=9):
    """Buffers as (begin, end, size)."""
    found = []
    for _ in range(draw(st.integers(0, most))):
        begin = draw(st.integers(0, steps - 1))
        found.append((begin, draw(st.integers(begin + 1, steps)), draw(st.integers(0, largest))))
    return tuple(found)


@st.composite
def tight(draw, most=7):
    """Buffers of which every step needs exactly as many bytes: what ends makes room for what begins."""
    need, live, found = draw(st.integers(2, 9)), [], []
    for step in range(most):
        room = need - sum(size for _, size in live)
        while room:
            live.append((step, draw(st.integers(1, room))))
            room -= live[-1][1]
        if len(found) + len(live) > most - 2:
            break
        ends = draw(st.lists(st.booleans(), min_size=len(live), max_size=len(live)))
        found += [(begin, step + 1, size) for (begin, size), end in zip(live, ends, strict=True) if end]
        live = [buffer for buffer, end in zip(live, ends, strict=True) if not end]
    return tuple(found + [(begin, step + 1, size) for begin, size in live])[:most]


def buffers_of(rows, **more):
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return Buffers(*columns, **more)


def random_buffers(count, seed=0, longest=50):
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, count, count)
    return Buffers(begin, begin + rng.integers(1, longest, count), rng.integers(1, 1000, count))


def whole(rule):
    """What a greedy rule finds, a few blocks at a time."""
    while not rule.run(3):
        pass
    return rule.offsets()


def anywhere(count):
    """The lowest and the highest offset of blocks that may lie anywhere."""
    return {"low": np.zeros(count, np.int64), "high": np.full(count, NO_LIMIT)}


def instance(name):
    file = INSTANCES / f"{name}.1048576.csv"
    if not file.exists():
        pytest.skip("the public instances do not lie beside this checkout")
    return buffers_of(np.loadtxt(file, np.int64, delimiter=",", skiprows=1)[:, 1:])


def hard_buffers(count=300, height=1 << 16, steps=60):
    """A full arena whose largest rectangle is cut in two, over and over: far too hard for a few seconds."""
    rng, found = np.random.default_rng(0), [(0, steps, 0, height)]  # begin, end, offset, top
    while len(found) < count:
        begin, end, low, top = max(found, key=lambda row: (row[1] - row[0]) * (row[3] - row[2]))
        found.remove((begin, end, low, top))
        if end - begin > 1 and (rng.random() < 0.5 or top - low == 1):
            step = int(rng.integers(begin + 1, end))
            found += [(begin, step, low, top), (step, end, low, top)]
        else:
            byte = int(rng.integers(low + 1, top))
            found += [(begin, end, low, byte), (begin, end, byte, top)]
    return buffers_of([(begin, end, top - low) for begin, end, low, top in found])


def verdicts(rows, *capacities):
    """What the search says of each capacity, for several orders of preference and both ways to choose a section."""
    begin, end, size = np.array(rows, np.int64).T
    rng, given = np.random.default_rng(0), np.arange(len(rows))
    orders = [given, given[::-1], np.argsort(-size), np.lexsort((-size, begin - end))]
    for order, lowest in itertools.product(orders + [rng.permutation(given) for _ in range(4)], (False, True)):
        search, said = PackingSearch(begin, end, size, **anywhere(size.size), sections=end.max(), bits=12), []
        for capacity in capacities:
            search.aim(capacity)
            search.restart(offsets.inverse(order), lowest)
            said.append(search.run(10**9))  # enough for all of them
            if search.verdict > 0:
                assert oracle.clashes(rows, search.offsets().tolist()) == []
                assert 0 <= search.offsets().min() <= (search.offsets() + size).max() <= capacity
        yield tuple(said)


@pytest.fixture
def search_only(monkeypatch):
    """The greedy orders find nothing, so that the search has something to do."""
    monkeypatch.setattr(Packing, "greedy", lambda packing: None)


# ---------------------------------------------------------------- the least arena


@given(rows=st.one_of(triples(), tight()))
def test_no_order_of_placing_is_better(rows):
    found = pack(buffers_of(rows))
    found.verify()
    assert oracle.clashes(rows, found.offset.tolist()) == []
    assert found.size == found.bound == oracle.least_arena([row for row in rows if row[2]])


@pytest.mark.usefixtures("search_only")
@given(rows=st.one_of(triples(most=10, steps=6), tight(most=12)))
def test_the_search_alone_ends_with_a_proof(rows):
    found = pack(buffers_of(rows))
    found.verify()
    assert found.proven
    assert found.size == oracle.max_live(rows) or found.size == oracle.least_arena([row for row in rows if row[2]])


@st.composite
def cuts(draw, steps=10, most=20):
    """A full arena cut into rectangles, some taken out and others stretched into the holes; and its height."""
    height = draw(st.integers(3, 16))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    found = [(0, steps, 0, height)]  # begin, end, offset, top
    for _ in range(4 * most):
        begin, end, low, top = found.pop(rng.integers(len(found)))
        step, byte = rng.integers(begin, end), rng.integers(low, top)
        if rng.random() < 0.5 and begin < step:
            found += [(begin, step, low, top), (step, end, low, top)]
        elif low < byte:
            found += [(begin, end, low, byte), (begin, end, byte, top)]
        else:
            found.append((begin, end, low, top))
        if len(found) == most:
            break
    found = [row for row in found if rng.random() < 0.8]
    for i, (begin, end, low, top) in enumerate(found):
        beside = [row for j, row in enumerate(found) if j != i and row[2] < top and low < row[3]]
        begin = max((row[1] for row in beside if row[1] <= begin), default=0)
        end = min((row[0] for row in beside if row[0] >= end), default=steps)
        found[i] = (begin, end, low, top)
    return tuple((begin, end, top - low) for begin, end, low, top in found), height


@pytest.mark.usefixtures("search_only")
@given(cut=cuts())
def test_what_is_known_to_fit_is_never_proven_not_to(cut):
    rows, height = cut
    found = pack(buffers_of(rows), capacity=height, time_limit=60)
    found.verify()
    assert found.bound <= found.size <= height


@pytest.mark.parametrize(("rows", "capacity"), FITS)
def test_what_fits_is_found_whatever_the_order(rows, capacity):
    assert {*verdicts(rows, capacity)} == {(1,)}


@pytest.mark.parametrize(("rows", "need", "least"), GAPS)
def test_what_does_not_fit_is_proven_whatever_the_order(rows, need, least):
    assert {*verdicts(rows, need, least - 1, least, need)} == {(-1, -1, 1, -1)}


@pytest.mark.parametrize(("rows", "need", "least"), GAPS)
def test_the_least_arena_may_be_more_than_is_needed_at_any_step(rows, need, least):
    found = pack(buffers_of(rows))
    assert (found.buffers.max_live, found.size, found.bound) == (need, least, least)
    assert found.method != "side by side"


@pytest.mark.parametrize(("rows", "need", "least"), [gap for gap in GAPS if len(gap[0]) <= 9])
def test_the_oracle_agrees_about_a_gap(rows, need, least):
    assert oracle.max_live(rows) == need
    assert oracle.least_arena(rows) == least


@pytest.mark.parametrize("name", ["A", "D", "F", "K"])
def test_adversarial_instances_fit_the_given_capacity(name):
    buffers = instance(name)
    found = pack(buffers, capacity=1 << 20, time_limit=60)
    found.verify()
    assert found.size <= 1 << 20
    assert found.method == "canonical search"


@pytest.mark.parametrize(
    ("network", "solver"), [("unet", "no_remat"), ("unet", "greedy_remat"), ("vgg19", "chen_greedy")]
)
def test_schedules_of_networks_need_no_more_than_their_peak(network, solver):
    graph = differentiate(build(network).graph)
    simulation = solve(graph, solver=solver, raw=True).simulation
    found = pack(Buffers.of(simulation))
    found.verify()
    assert found.size == found.buffers.max_live == simulation.peak_memory


# ---------------------------------------------------------------- what it is asked for


@given(rows=triples(), shift=st.integers(0, 6))
@example(rows=((0, 1, 3), (0, 1, 5)), shift=2)
def test_alignment_divides_every_offset_and_the_arena(rows, shift):
    found = pack(buffers_of(rows), alignment=1 << shift)
    found.verify()
    assert not (found.offset % (1 << shift)).any()
    assert found.size % (1 << shift) == 0
    rounded = [(begin, end, -(-size >> shift) << shift) for begin, end, size in rows]
    assert oracle.max_live(rounded) <= found.bound <= found.size


@pytest.mark.parametrize(
    ("said", "error", "wrong"),
    [
        *[("the alignment is", AllocationError, {"alignment": alignment}) for alignment in (0, -4, 3, 96, 2**70)],
        ("the capacity is -1; give a number of bytes", AllocationError, {"capacity": -1}),
        *[(f"capacity is {each!r}; give", AllocationError, {"capacity": each}) for each in (1.5, 8.0, True)],
        ("time_limit is -1; give seconds", ValueError, {"time_limit": -1}),
        ("time_limit is nan; give seconds", ValueError, {"time_limit": math.nan}),
        ("time_limit is None; give a number", TypeError, {"time_limit": None}),
        ("seed is -1; give a whole number", ValueError, {"seed": -1}),
        ("seed is 0.5; give a whole number", ValueError, {"seed": 0.5}),
    ],
)
def test_arguments_that_say_nothing_are_refused(said, error, wrong):
    with pytest.raises(error, match=said):
        pack(buffers_of([(0, 1, 1)]), **wrong)


def test_any_time_and_any_capacity_will_do():
    assert pack(buffers_of(GAPS[0][0]), time_limit=math.inf, capacity=np.int64(0)).proven


def test_nothing_below_the_capacity_is_looked_for():
    buffers = random_buffers(60)
    enough = int(buffers.size.sum())
    assert pack(buffers, capacity=enough).method == "lowest place, by size"


def test_a_capacity_that_is_proven_to_be_too_small_raises_the_bound():
    rows, need, least = GAPS[0]
    for capacity in (0, need - 1, need):
        found = pack(buffers_of(rows), capacity=capacity)
        assert found.size == found.bound == least


def test_buffers_written_over_each_other_are_one_block():
    buffers = buffers_of([(0, 3, 4), (2, 5, 4), (4, 6, 4), (0, 6, 1), (3, 4, 0)], over=[-1, 0, 1, -1, -1])
    found = pack(buffers)
    found.verify()
    assert found.size == 5
    assert len({*found.offset[:3].tolist()}) == 1
    assert found.storage.tolist() == [0, 0, 0, 1, 2]
    assert found.offset[4] == 0


@pytest.mark.parametrize("rows", [[], [(0, 4, 0)], [(0, 4, 0), (1, 2, 0)]])
def test_what_has_no_bytes_needs_no_arena(rows):
    found = pack(buffers_of(rows))
    found.verify()
    assert (found.size, found.bound, found.offset.tolist()) == (0, 0, [0] * len(rows))


# ---------------------------------------------------------------- time


def test_the_same_seed_gives_the_same_addresses():
    buffers = random_buffers(120, longest=30)
    first, again = (pack(buffers, seed=3, time_limit=60) for _ in range(2))
    assert first.proven
    assert np.array_equal(first.offset, again.offset)


def test_without_time_the_first_order_is_still_placed():
    found = pack(random_buffers(200), time_limit=0)
    found.verify()
    assert found.method == "lowest place, by size"


def test_a_greedy_rule_is_interrupted_before_all_is_placed(monkeypatch):
    monkeypatch.setattr("remat_algos.allocate.tuning.BLOCKS_PER_CALL", 50)
    methods = []

    def check(packing):
        methods.append(packing.method)
        if len(methods) == 3:  # within the second order
            raise KeyboardInterrupt

    monkeypatch.setattr(offsets.Packing, "check", check)
    found = pack(random_buffers(400))
    found.verify()
    assert found.stop is Stop.INTERRUPTED
    assert set(methods) == {found.method} == {"lowest place, by size"}


@pytest.mark.usefixtures("search_only")
def test_time_ends_a_search_that_does_not():
    found = pack(hard_buffers(), time_limit=0.3)
    found.verify()
    assert not found.proven


@pytest.mark.parametrize("news", [1, 6, 13])  # of the greedy orders, and of the search
def test_interrupted_it_gives_the_best_so_far(news):
    told = []

    def progress(done, total, what):
        told.append((done, total, what))
        if len(told) == news:
            raise KeyboardInterrupt

    buffers = hard_buffers()
    found = pack(buffers, time_limit=600, progress=progress)
    found.verify()
    assert found.stop is Stop.INTERRUPTED
    assert pack(buffers, time_limit=0).stop is Stop.DEADLINE
    assert len(told) == news
    assert all(0 <= done <= total == 1000 for done, total, _ in told)
    assert f"{found.size:,} bytes, {found.method}" in told[-1][2]


@pytest.mark.parametrize("most", ["OVERLAPS_A_SECOND", "MAX_MEMORY"])
def test_many_buffers_are_shuffled_when_the_search_is_too_large(monkeypatch, most):
    monkeypatch.setattr(tuning, most, 0)
    monkeypatch.setattr("remat_algos.allocate.tuning.PACKING_ROUNDS", 20)
    buffers = random_buffers(400, longest=100)
    greedy = Packing(PackingBlocks.of(buffers), None, Clock(60))
    greedy.greedy()
    found = pack(buffers, time_limit=60)
    found.verify()
    assert found.bound == buffers.max_live
    assert found.size <= greedy.size
    assert "search" not in found.method


# ---------------------------------------------------------------- greedy rules


@given(rows=triples(most=12), seed=st.integers(0, 99), best=st.booleans())
def test_greedy_rules_keep_blocks_apart(rows, seed, best):
    blocks = PackingBlocks.of(buffers_of(rows))
    order = np.random.default_rng(seed).permutation(len(blocks))
    placed = list(zip(blocks.begin.tolist(), blocks.end.tolist(), blocks.size.tolist(), strict=True))
    fitted = whole(GapFit(order, blocks.begin, blocks.end, blocks.size, **anywhere(len(blocks)), best=best))
    stacked = whole(SkylineFit(blocks.begin, blocks.end, blocks.size, order, blocks.n_sections))
    assert oracle.clashes(placed, fitted.tolist()) == oracle.clashes(placed, stacked.tolist()) == []
    if not best:
        lowest = []
        for b in order:
            lowest.append((placed[b], oracle.lowest(placed[b], lowest)))
        assert [offset for _, offset in lowest] == fitted[order].tolist()


def test_first_fit_of_many_blocks_is_what_the_oracle_places():
    blocks = PackingBlocks.of(random_buffers(300, longest=200))
    for order in (np.arange(300), np.argsort(-blocks.size, kind="stable")):
        lowest = []
        for b in order.tolist():
            triple = (int(blocks.begin[b]), int(blocks.end[b]), int(blocks.size[b]))
            lowest.append((triple, oracle.lowest(triple, lowest)))
        fitted = whole(GapFit(order, blocks.begin, blocks.end, blocks.size, **anywhere(len(blocks)), best=False))
        assert [offset for _, offset in lowest] == fitted[order].tolist()


@given(rows=triples(most=12))
def test_blocks_meet_in_a_section_if_and_only_if_they_meet_at_a_step(rows):
    rows = [row for row in rows if row[2]]
    blocks = PackingBlocks.of(buffers_of(rows))
    sections = [(int(blocks.begin[i]), int(blocks.end[i])) for i in blocks.of_buffer]
    assert blocks.n_sections <= len(rows)
    assert int(blocks.live.max(initial=0)) == oracle.max_live(rows)
    for a, first in zip(rows, sections, strict=True):
        for b, second in zip(rows, sections, strict=True):
            assert oracle.meet(a, b) == oracle.meet(first, second)


# ---------------------------------------------------------------- fixed offsets


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
        monkeypatch.setattr("remat_algos.allocate.tuning.PACKING_ROUNDS", 20)
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


# ---------------------------------------------------------------- fixed offsets that are refused


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


def test_of_fixed_buffers_beyond_the_capacity_the_one_that_ends_last_is_named():
    with refused(AllocationError, {"name": "1", "fixed": 4, "end": 6, "capacity": 3}):
        pack(Buffers([0, 0, 0], [2, 2, 2], [4, 2, 9], offset=[0, 4, -1]), capacity=3)


FIXED = Buffers([0, 1], [2, 3], [4, 4], names=("a", "b"), offset=[8, -1])
IN_ANOTHER = Buffers([0, 1], [2, 3], [4, 4], names=("a", "b"), arena=[-1, 1])


@pytest.mark.parametrize(
    ("use", "fault"),
    [
        *[(lambda method=method: method(FIXED), {"name": "a"}) for method in (share_storage, separate_storage, colour)],
        *[
            (lambda method=method: method(IN_ANOTHER), {"name": "b", "arena": 1})
            for method in (share_storage, separate_storage, colour, pack)
        ],
        (lambda: Allocation(IN_ANOTHER, [0, 1], [0, 4], 8, "by hand", 0).verify(), {"name": "b", "arena": 1}),
        (lambda: Allocation(FIXED, [0, 1], [4, 0], 16, "by hand", 0).verify(), {"name": "a", "offset": 4, "fixed": 8}),
    ],
)
def test_a_fixed_offset_or_another_arena_is_refused_where_it_cannot_be_kept(use, fault):
    with refused(AllocationError, fault):
        use()


def test_restarts_follow_lubys_sequence():
    assert [offsets.luby(i) for i in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
