"""Models of allocators: against slow ones written from the same rules, their laws, and each rule by hand."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.pools import SEGMENTS, TIES, PoolUse, arena, cuda_caching, cupy_pool
from remat_algos.allocate.traces import RELEASE_ALL, Trace
from remat_algos.errors import AllocationError, ArgumentTypeError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import simulate
from tests.oracles import pools as oracle
from tests.public import refusal
from tests.raising import raises, refused
from tests.strategies import graphs, orders

CHUNK, KIB, MIB = 512, 2**10, 2**20
FEW = (512, 1024, 1536, 2048)
ODD = tuple(range(1, 20_000, 37))
LARGE = tuple(
    size * KIB for size in (1, 300, 512, 1024, 1025, 1500, 3000, 9000, 10_240, 10_241, 12_000, 23_000, 31_000)
)


def random_events(seed, sizes, length=24, backs=True):
    """Events, each with its own step, and sizes by number: more is asked for at first, more given back later."""
    rng = np.random.default_rng(seed)
    events, live, asked = [], [], []
    for at in range(length):
        if live and rng.random() < (0.3 if at < length // 2 else 0.6):
            events.append(("give", live.pop(int(rng.integers(len(live))))))
        elif backs and rng.random() < 0.04:
            events.append((oracle.BACK, None))
        else:
            live.append(len(asked))
            asked.append(0 if rng.random() < 0.03 else int(rng.choice(sizes)))
            events.append(("ask", live[-1]))
    return events, asked


def trace_of(events, sizes, streams=None):
    """One step for each event, and one more to see what is so after the last."""
    codes = {"ask": lambda b: b, "give": lambda b: ~b, oracle.BACK: lambda _: RELEASE_ALL}
    event = [codes[deed](buffer) for deed, buffer in events]
    return Trace(sizes, event, range(len(event)), len(event) + 1, streams)


def during(events, counts):
    """What `Trace.during` makes of counts after each event: frees come after the step."""
    before = [(0, 0), *counts]
    return [before[i + 1] if deed == "ask" else before[i] for i, (deed, _) in enumerate(events)] + [before[-1]]


def curves(run):
    return list(zip(run.used.tolist(), run.reserved.tolist(), strict=True))


def check(use, events, sizes, rules, limit=None, streams=None):
    """Every run equals the oracle's: by its rule, or by the places it chose where the rule is chance."""
    for run in use.runs:
        choose = oracle.CHOICES.get(run.rule) or oracle.as_placed(run.segment, run.offset)
        pool, counts = oracle.play(events, sizes, rules, choose, limit, streams)
        assert curves(run) == during(events, counts)
        steps = {buffer: step for step, (deed, buffer) in enumerate(events) if deed == "ask"}
        assert run.ties.tolist() == [steps[buffer] for buffer in pool.tied]
        places = {b: (s, o) for b, (s, o) in enumerate(zip(run.segment.tolist(), run.offset.tolist())) if s >= 0}  # noqa: B905 - of one length
        assert places == pool.place


def check_random(seed):
    """A trace by one of the allocators, with a limit or without, in one stream or several."""
    rng = np.random.default_rng(seed)
    kind, odd = divmod(seed % 8, 2)
    sizes = LARGE if kind > 1 else ODD if seed % 3 == 0 else FEW
    events, asked = random_events(seed, sizes, 60 if seed % 5 == 0 else 24)
    streams = rng.integers(0, 3, len(asked)) if seed % 7 == 0 else None
    trace = trace_of(events, asked, streams)
    limit = int(trace.requested.max() * rng.uniform(0.5, 2)) if odd else None
    if kind < 2:
        use = cupy_pool(trace, limit=limit, before_14_1=kind == 1, seeds=1)
        check(use, events, asked, oracle.CuPy(kind == 1), limit, streams)
    else:
        most = None if kind == 2 else 24 * MIB
        use = cuda_caching(trace, limit=limit, max_split_size=most, seeds=1)
        check(use, events, asked, oracle.PyTorch(most), limit, streams)


# ---------------------------------------------------------------- against the slow model


@pytest.mark.parametrize("last", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_traces_are_as_in_the_slow_model_step_by_step(last):
    for seed in range(last):
        check_random(seed)


def test_an_address_that_cannot_be_is_told():
    trace = trace_of([("ask", 0), ("give", 0), ("ask", 1)], [512, 512])
    assert cupy_pool(trace, addresses=[4096, 4096]).exact
    with raises(AllocationError, allocator="cupy_pool", diverged=1, size=512):
        cupy_pool(trace, addresses=[4096, 8192])


def test_without_ties_chance_changes_nothing():
    quiet = 0
    for seed in range(100):
        trace = trace_of(*random_events(seed, (ODD, FEW)[seed % 2], 40))
        use = cupy_pool(trace)
        if use.exact:
            quiet += 1
            assert use.interval[0] == use.interval[1]
            runs = cupy_pool(trace, ties=["random", "last", "highest"], seeds=5).runs
            assert all(run.ties.size == 0 and curves(run) == curves(use.runs[0]) for run in runs)
    assert 15 < quiet < 100


def test_what_is_used_does_not_hang_on_ties():
    for seed in range(100):
        use = cupy_pool(trace_of(*random_events(seed, FEW, 60)), seeds=10)
        assert {tuple(run.used.tolist()) for run in use.runs} == {tuple(use.used.tolist())}


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("model", [cupy_pool, cuda_caching])
def test_laws_of_pools(model):
    for seed in range(40):
        events, asked = random_events(seed, LARGE if seed % 2 else ODD, 60)
        live = [b for deed, b in events if deed == "ask"]
        gone = {b for deed, b in events if deed == "give"}
        events += [("give", b) for b in live if b not in gone]
        trace = trace_of(events, asked)
        use = model(trace, seeds=1)
        rounded = -(-np.array(asked) // 512) * 512
        for run in use.runs:
            held = []
            for step, (deed, b) in enumerate(events):
                if deed == "ask" and run.segment[b] >= 0:
                    held.append(b)
                    apart = sorted((run.segment[x], run.offset[x], run.offset[x] + rounded[x]) for x in held)
                    assert all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(apart))
                elif deed == "give" and b in held:
                    held.remove(b)
                if deed == "ask" and model is cupy_pool:
                    assert run.used[step] == rounded[held].sum()
                assert run.used[step] >= trace.requested[step]
                assert run.reserved[step] >= run.used[step]
            assert run.used[-1] == 0
        back = trace_of([*events, (oracle.BACK, None)], asked)
        assert {int(run.reserved[-1]) for run in model(back).runs} == {0}  # one chunk per segment


@given(st.data())
def test_what_a_schedule_uses_is_the_simulated_memory_rounded(data):
    graph = data.draw(graphs())
    simulation = simulate(graph, data.draw(orders(graph)))
    trace = Trace.of(simulation)
    assert trace.requested.tolist() == simulation.memory_trace.tolist()
    use = cupy_pool(simulation)
    lifetimes, order = simulation.lifetimes, simulation.schedule.order
    expected = [
        sum(
            -(-int(graph.memory[x]) // 512) * 512
            for x, made, end in zip(lifetimes.value, simulation.lifetimes.made_at, lifetimes.end, strict=True)
            if made <= step < end
        )
        + -(-int(graph.workspace[node]) // 512) * 512
        for step, node in enumerate(order)
    ]
    assert use.used.tolist() == expected
    assert use.peak_used <= use.interval[0] <= use.peak_reserved == use.interval[1]


@given(st.data())
def test_an_arena_holds_its_size_and_uses_what_is_needed(data):
    graph = data.draw(graphs(min_nodes=1))
    simulation = simulate(graph, data.draw(orders(graph)))
    over = find_overwrites(simulation) if data.draw(st.booleans()) else None
    allocation = pack(Buffers.of(simulation, over))
    use = arena(allocation, steps=len(simulation.schedule))
    assert use.peak_used <= use.peak_reserved == allocation.size
    if over is None:
        assert use.used.tolist() == simulation.memory_trace.tolist()
        assert use.fragmentation == pytest.approx(allocation.fragmentation)
    assert use.exact


# ---------------------------------------------------------------- each rule by hand


@pytest.mark.parametrize(("nbytes", "rounded"), [(0, 0), (1, 512), (512, 512), (513, 1024)])
def test_requests_are_rounded_up_to_512(nbytes, rounded):
    use = cupy_pool(trace_of([("ask", 0)], [nbytes]))
    assert (use.peak_used, use.peak_reserved) == (rounded, rounded)
    assert cuda_caching(trace_of([("ask", 0)], [nbytes])).peak_used == rounded


def places(use):
    run = use.runs[0]
    return list(zip(run.segment.tolist(), run.offset.tolist(), strict=True))


def test_the_smallest_chunk_that_is_large_enough_is_taken_and_split():
    events = [("ask", 0), ("ask", 1), ("give", 0), ("give", 1), ("ask", 2), ("ask", 3)]
    use = cupy_pool(trace_of(events, [4096, 2048, 1024, 1024]))
    assert places(use)[2:] == [(1, 0), (1, 1024)]
    assert use.peak_reserved == 6144
    assert use.exact


def test_a_chunk_joins_its_free_neighbours_on_both_sides():
    asks = [("ask", b) for b in range(4)]
    start = [asks[0], ("give", 0), *asks[1:]]  # one segment of 3 chunks
    for order in ([1, 2, 3], [1, 3, 2], [3, 1, 2], [2, 1, 3]):
        use = cupy_pool(trace_of([*start, *(("give", b) for b in order), ("ask", 4)], [1536, 512, 512, 512, 1536]))
        assert places(use) == [(0, 0), (0, 0), (0, 512), (0, 1024), (0, 0)]
        assert use.peak_reserved == 1536


def test_split_segments_are_kept_when_all_is_given_back():
    events = [("ask", 0), ("give", 0), ("ask", 1), (oracle.BACK, None), ("give", 1), (oracle.BACK, None)]
    use = cupy_pool(trace_of(events, [1024, 512]))
    assert use.reserved.tolist() == [1024, 1024, 1024, 1024, 1024, 1024, 0]


def test_a_limit_gives_free_segments_back_before_it_fails():
    events = [("ask", 0), ("give", 0), ("ask", 1), ("ask", 2)]
    sizes = [1024, 2048, 1024]
    use = cupy_pool(trace_of(events, sizes), limit=2048)
    assert use.reserved.tolist() == [1024, 1024, 2048, 2048, 2048]
    assert use.failed.tolist() == [2]
    assert cupy_pool(trace_of(events, sizes), limit=4096).failed.size == 0


@pytest.mark.parametrize(("before_14_1", "reserved"), [(False, 512), (True, 0)])
def test_a_request_above_the_limit_gives_nothing_back_since_14_1(before_14_1, reserved):
    use = cupy_pool(trace_of([("ask", 0), ("give", 0), ("ask", 1)], [512, 4096]), limit=1024, before_14_1=before_14_1)
    assert use.reserved.tolist() == [512, 512, reserved, reserved]
    assert use.failed.tolist() == [1]


def tied():
    """Two free chunks of 1024 bytes, one of them beside one that is free too once its neighbour goes."""
    events = [
        *[("ask", 0), ("give", 0), ("ask", 1), ("ask", 2), ("ask", 3)],  # 1, 2 in a segment of 2048; 3 alone
        *[("give", 1), ("give", 3), ("ask", 4), ("give", 2), ("ask", 5)],
    ]
    return trace_of(events, [2048, 1024, 1024, 1024, 1024, 2048])


def test_a_tie_makes_an_interval():
    use = cupy_pool(tied())
    assert (use.ties.tolist(), use.exact) == ([7], False)
    assert use.interval == (3072, 5120)
    assert use.fragmentation == pytest.approx(1 - 3072 / 5120)
    assert [cupy_pool(tied(), ties=rule).peak_reserved for rule in ("first", "last")] == [5120, 3072]


@pytest.mark.parametrize(
    ("asked", "segments"),
    [(1, 2), (MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (10 * MIB + 1, 12), (33 * MIB, 34)],
)
def test_segments_of_pytorch(asked, segments):
    assert cuda_caching(trace_of([("ask", 0)], [asked])).peak_reserved == segments * MIB


@pytest.mark.parametrize(
    ("freed", "asked", "split", "used", "reserved"),
    [
        # small and large requests are apart
        (3 * MIB, 1000, None, 1024, 22 * MIB),
        # a large block keeps a rest of up to a mebibyte
        (20 * MIB, 19 * MIB, None, 20 * MIB, 20 * MIB),
        (20 * MIB, 19 * MIB - 512, None, 19 * MIB - 512, 20 * MIB),
        # blocks beyond the split size are for large requests
        (64 * MIB, 30 * MIB, None, 30 * MIB, 64 * MIB),
        (64 * MIB, 30 * MIB, 40 * MIB, 30 * MIB, 94 * MIB),
        (64 * MIB, 50 * MIB, 40 * MIB, 64 * MIB, 64 * MIB),
        # a request of the split size takes a block of the split size
        (40 * MIB, 40 * MIB, 40 * MIB, 40 * MIB, 40 * MIB),
        (40 * MIB, 40 * MIB - 512, 40 * MIB, 40 * MIB, 80 * MIB),
        # a large request takes only blocks less than 20 MiB larger, whole
        (60 * MIB, 40 * MIB, 30 * MIB, 40 * MIB, 100 * MIB),
        (60 * MIB, 40 * MIB + 512, 30 * MIB, 60 * MIB, 60 * MIB),
    ],
)
def test_what_pytorch_takes_after_a_block_was_freed(freed, asked, split, used, reserved):
    use = cuda_caching(trace_of([("ask", 0), ("give", 0), ("ask", 1)], [freed, asked]), max_split_size=split)
    assert (use.used[-1], use.peak_reserved) == (used, reserved)


def test_unknown_rules_are_refused():
    trace = trace_of([("ask", 0)], [1])
    with raises(AllocationError, known="first, last, lowest, highest, random"):
        cupy_pool(trace, ties="oldest")
    with pytest.raises(AllocationError, match="no tie-breaking rule is given"):
        cupy_pool(trace, ties=[])
    assert set(TIES) | set(SEGMENTS) >= set(oracle.CHOICES)


# ---------------------------------------------------------------- traces


@given(st.data())
def test_a_trace_asks_for_values_then_workspace_and_gives_back_in_order(data):
    graph = data.draw(graphs())
    simulation = simulate(graph, data.draw(orders(graph)))
    trace, buffers = Trace.of(simulation), Buffers.of(simulation)
    expected = []
    for step in range(len(simulation.schedule)):
        expected += [(step, b) for b in range(len(buffers)) if buffers.begin[b] == step]
        ends = [b for b in range(len(buffers)) if buffers.end[b] == step + 1]
        expected += [(step, ~b) for b in sorted(ends, key=lambda b: (buffers.instance[b] >= 0, b))]
    assert list(zip(trace.step.tolist(), trace.event.tolist(), strict=True)) == expected


def test_what_is_written_over_is_asked_for_once():
    trace = Trace.of_buffers(Buffers([0, 1, 2], [2, 3, 4], [8, 8, 4], over=[-1, 0, -1]))
    assert trace.event.tolist() == [0, 2, ~0, ~2]
    assert trace.requested.tolist() == [8, 8, 12, 4]
    assert trace.requests.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("event", "step", "said"),
    [
        ([0, 0], [0, 0], "twice"),
        ([0, ~0, ~0], [0, 0, 0], "twice"),
        ([~0, 0], [0, 1], "before it is requested"),
        ([~1], [0], "before it is requested"),
        ([2], [0], {"last": 1}),
        ([0, 1], [1, 0], "ascending"),
        ([0], [2], {"steps": 2}),
        ([0, ~0, 1], [0, 0, 0], "a request after a free"),
    ],
)
def test_traces_that_cannot_be(event, step, said):
    with refused(AllocationError, said):
        Trace([1, 1], event, step, 2)


@pytest.mark.parametrize("allocator", [cupy_pool, cuda_caching])
@pytest.mark.parametrize("addresses", [[1, 1, 1], [0, 1000, 511], [2**40, 600, 2**40 + 1]])
def test_chunks_that_are_live_together_cannot_overlap(allocator, addresses):
    trace = trace_of([("ask", 0), ("ask", 1), ("ask", 2)], [1, 512, 100])
    with pytest.raises(AllocationError, match=r"of 512 and 512 bytes overlap while both are live|had no free chunk"):
        allocator(trace, addresses=addresses)


def test_one_address_serves_one_after_the_other():
    trace = trace_of([("ask", 0), ("give", 0), ("ask", 1), ("ask", 2)], [512, 512, 0])
    assert cupy_pool(trace, addresses=[512, 512, 512]).peak_reserved == 512
    full = trace_of([("ask", 0), ("ask", 1)], [512, 512])
    assert cupy_pool(full, addresses=[512, 512], limit=512).failed.tolist() == [1]  # it lies nowhere


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("limit", value) for value in (-5, "4GiB", 1.5, True)],
        *[("max_split_size", value) for value in (-1, "30MiB", 3.5e-7, True)],
        *[("seeds", value) for value in (-1, "4", 1.5, True)],
    ],
)
def test_bytes_and_seeds_are_whole_numbers(option, value):
    for allocator in (cuda_caching,) if option == "max_split_size" else (cupy_pool, cuda_caching):
        with pytest.raises(refusal(value, AllocationError), match=f"{option} is {value!r}; give a whole number"):
            allocator(trace_of([("ask", 0)], [1]), **{option: value})


def test_a_limit_or_a_split_size_may_be_any_large_number():
    for allocator in (cupy_pool, cuda_caching):
        assert allocator(trace_of([("ask", 0)], [1]), limit=2**80).failed.size == 0
    with raises(AllocationError, minimum=20971521):
        cuda_caching(trace_of([("ask", 0)], [1]), max_split_size=20 * MIB)


def test_chance_that_is_never_tried_is_no_rule():
    trace = trace_of([("ask", 0)], [1])
    assert {allocator(trace, seeds=0).peak_reserved for allocator in (cupy_pool, cuda_caching)} == {512, 2 * MIB}
    with pytest.raises(AllocationError, match=r"seeds is 0, but all tie-breaking rules are random; give 1 or more$"):
        cupy_pool(trace, ties="random", seeds=0)


def test_what_is_of_another_kind_is_told_what_to_give():
    simulation = simulate(ComputationGraph.from_edges([(0, 1)]), range(2))
    for allocator in (cupy_pool, cuda_caching):
        with raises(ArgumentTypeError, what="simulation", found="a list", wanted="a Simulation"):
            allocator([simulation])
    with raises(ArgumentTypeError, found="a Simulation", wanted="an Allocation"):
        arena(simulation)


def test_an_empty_schedule_uses_nothing():
    trace = Trace([], [], [], 0)
    for use in (cupy_pool(trace), cuda_caching(trace)):
        assert (use.peak_used, use.interval, use.fragmentation, use.exact) == (0, (0, 0), 0.0, True)


# ---------------------------------------------------------------- replayed runs, the edges of rules, many of a kind

CUPY_SIZES = [CHUNK * n for n in (0, 1, 2, 3, 4)]
PYTORCH_SIZES = [0, 1024, 300 * 1024, MIB // 2, MIB, 3 * MIB, 9 * MIB, 12 * MIB, 24 * MIB, 24 * MIB + CHUNK, 44 * MIB]
SPLIT = 24 * MIB


@st.composite
def requests(draw, sizes):
    """Events as the oracle wants them, and sizes and streams of the buffers."""
    events, live, asked = [], [], []
    for deed in draw(st.lists(st.sampled_from(["ask"] * 5 + ["give"] * 4 + [oracle.BACK]), max_size=40)):
        if deed == "ask":
            live.append(len(asked))
            asked.append(draw(st.sampled_from(sizes)))
            events.append(("ask", live[-1]))
        elif deed == "give" and live:
            events.append(("give", live.pop(draw(st.integers(0, len(live) - 1)))))
        elif deed == oracle.BACK:
            events.append((deed, None))
    return events, asked, draw(st.lists(st.integers(0, 1), min_size=len(asked), max_size=len(asked)))


@st.composite
def limits(draw, trace):
    """None, or bytes about the most that is requested at once."""
    most = int(trace.requested.max(initial=0)) if trace.size.size else 0
    return draw(st.none() | st.integers(most // 2, 2 * most))


def check_replay(data, model: Callable[..., PoolUse], rules, sizes, **options):
    """The places of a run by chance, at addresses by chance, give that run again, and the oracle's."""
    events, asked, streams = data.draw(requests(sizes))
    trace = trace_of(events, asked, streams)
    limit = data.draw(limits(trace))
    run = model(trace, limit=limit, seeds=2, **options).runs[-1]
    segments = int(run.segment.max(initial=0)) + 1
    base = np.array(data.draw(st.permutations(range(segments)))) * 2**30
    address = np.where(run.segment >= 0, base[run.segment] + run.offset, 0)
    again = model(trace, limit=limit, addresses=address, **options).runs[0]
    choose = oracle.as_placed(run.segment, run.offset)
    pool, counts = oracle.play(events, asked, rules, choose, limit, streams)
    assert list(zip(again.used.tolist(), again.reserved.tolist(), strict=True)) == during(events, counts)
    steps = {buffer: step for step, (deed, buffer) in enumerate(events) if deed == "ask"}
    assert again.ties.tolist() == [steps[buffer] for buffer in pool.tied]
    assert again.segment.tolist() == run.segment.tolist()
    assert again.offset.tolist() == run.offset.tolist()


@given(st.data())
def test_a_replayed_run_of_cupy_is_that_of_the_slow_model(data):
    old = data.draw(st.booleans())
    check_replay(data, cupy_pool, oracle.CuPy(old), CUPY_SIZES, before_14_1=old)


@given(st.data())
def test_a_replayed_run_of_pytorch_is_that_of_the_slow_model(data):
    most = data.draw(st.sampled_from([None, SPLIT]))
    check_replay(data, cuda_caching, oracle.PyTorch(most), PYTORCH_SIZES, max_split_size=most)


# ---------------------------------------------------------------- ties


def test_whole_segments_of_one_size_are_no_tie_but_a_part_beside_them_is():
    whole = [("ask", 0), ("ask", 1), ("give", 0), ("give", 1), ("ask", 2)]
    assert cupy_pool(trace_of(whole, [CHUNK] * 3)).exact
    part = [("ask", 3), ("give", 3), ("ask", 4), ("ask", 5), ("give", 4)]  # a free half of a segment of 1024
    sizes = [CHUNK] * 3 + [2 * CHUNK] + [CHUNK] * 2
    assert cupy_pool(trace_of([*part, *whole], sizes)).ties.tolist() == [9]


def test_parts_of_one_segment_are_a_tie_for_cupy_and_none_for_pytorch():
    """Within a segment PyTorch takes the lowest address, in whatever order the device hands out segments."""
    asks = [("ask", b) for b in range(5)]
    events = [asks[0], ("give", 0), *asks[1:], ("give", 1), ("give", 3), ("ask", 5)]
    half = MIB // 2
    trace = trace_of(events, [2 * MIB, half, half, half, half, half])
    assert cupy_pool(trace).ties.tolist() == [8]
    small = trace_of(events[2:], [0, half, half, half, half, half])
    use = cuda_caching(small)
    assert use.exact
    assert use.runs[0].offset[5] == 0


def test_parts_of_two_segments_are_a_tie_for_pytorch():
    half = MIB // 2
    events = [*[("ask", b) for b in range(8)], ("give", 0), ("give", 2), ("give", 4), ("ask", 8)]
    assert cuda_caching(trace_of(events, [half] * 9)).ties.tolist() == [11]


# ---------------------------------------------------------------- failures


def test_a_buffer_that_fails_by_one_rule_only_has_failed():
    """Which of two chunks of 1024 bytes is taken decides whether 2048 can be had in one piece."""
    trace = tied()
    alone = {rule: cupy_pool(trace, limit=3072, ties=rule).failed.tolist() for rule in ("first", "last")}
    assert alone == {"first": [5], "last": []}
    assert cupy_pool(trace, limit=3072, ties=["first", "last"]).failed.tolist() == [5]


# ---------------------------------------------------------------- many of a kind


def layers(count):
    """Requests of one size, given back in the order in which they came, and the same again."""
    events = [*range(count), *(~b for b in range(count))]
    again = [b + count if b >= 0 else ~(~b + count) for b in events]
    return Trace(np.full(2 * count, CHUNK), [*events, *again], range(4 * count), 4 * count)


def cut(count):
    """Segments of which one half stays live and the other is given back; then requests for which no room is left."""
    halves = [event for b in range(0, 3 * count, 3) for event in (b, ~b, b + 1, b + 2)]
    frees = [~(b + 1) for b in range(0, 3 * count, 3)]
    sizes = np.tile([2 * CHUNK, CHUNK, CHUNK], count)
    events = [*halves, *frees, *range(3 * count, 4 * count)]
    return Trace([*sizes, *[2 * CHUNK] * count], events, range(len(events)), len(events))


def test_equal_sizes_serve_each_other_without_a_tie():
    trace = layers(10_000)
    use = cupy_pool(trace)
    again = cupy_pool(trace, addresses=use.runs[0].segment * CHUNK)
    for found in (use, again):
        assert found.peak_reserved == 10_000 * CHUNK
        assert found.ties.size == 0


def test_no_segment_that_is_cut_is_given_back_for_a_request_beyond_the_limit():
    use = cupy_pool(cut(10_000), limit=10_000 * 2 * CHUNK, ties="first")
    assert use.failed.size == 10_000
