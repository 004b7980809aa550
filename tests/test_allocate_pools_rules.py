"""Models of allocators: replay against the slow ones, the edges of single rules, many of a kind."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.pools import PoolUse, cuda_caching, cupy_pool
from remat_algos.allocate.traces import RELEASE_ALL, Trace
from tests.oracles import pools as oracle

CHUNK, MIB = 512, 2**20
CUPY_SIZES = [CHUNK * n for n in (0, 1, 2, 3, 4)]
PYTORCH_SIZES = [0, 1024, 300 * 1024, MIB // 2, MIB, 3 * MIB, 9 * MIB, 12 * MIB, 24 * MIB, 24 * MIB + CHUNK, 44 * MIB]
SPLIT = 24 * MIB


def trace_of(events, sizes, streams=None):
    """One step for each event, and one more to see what is so after the last."""
    codes = {"ask": lambda b: b, "give": lambda b: ~b, oracle.BACK: lambda _: RELEASE_ALL}
    event = [codes[deed](buffer) for deed, buffer in events]
    return Trace(sizes, event, range(len(event)), len(event) + 1, streams)


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


def during(events, counts):
    """What `Trace.during` makes of counts after each event: frees come after the step."""
    before = [(0, 0), *counts]
    return [before[i + 1] if deed == "ask" else before[i] for i, (deed, _) in enumerate(events)] + [before[-1]]


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


# ---------------------------------------------------------------- requests as large as PyTorch's split size


def test_a_request_of_the_split_size_takes_a_block_of_the_split_size():
    events = [("ask", 0), ("give", 0), ("ask", 1)]
    use = cuda_caching(trace_of(events, [40 * MIB, 40 * MIB]), max_split_size=40 * MIB)
    assert use.peak_reserved == 40 * MIB
    below = cuda_caching(trace_of(events, [40 * MIB, 40 * MIB - CHUNK]), max_split_size=40 * MIB)
    assert below.peak_reserved == 80 * MIB


@pytest.mark.parametrize(("request_size", "taken"), [(40 * MIB, False), (40 * MIB + CHUNK, True)])
def test_a_large_request_takes_only_blocks_less_than_20_mebibytes_larger(request_size, taken):
    events = [("ask", 0), ("give", 0), ("ask", 1)]
    use = cuda_caching(trace_of(events, [60 * MIB, request_size]), max_split_size=30 * MIB)
    assert use.peak_reserved == (60 if taken else 102 if request_size % MIB else 100) * MIB
    assert use.used[-1] == (60 * MIB if taken else request_size)  # nothing is split off


# ---------------------------------------------------------------- failures


def test_a_buffer_that_fails_by_one_rule_only_has_failed():
    """Which of two chunks of 1024 bytes is taken decides whether 2048 can be had in one piece."""
    events = [
        *[("ask", 0), ("give", 0), ("ask", 1), ("ask", 2), ("ask", 3)],  # 1, 2 in a segment of 2048; 3 alone
        *[("give", 1), ("give", 3), ("ask", 4), ("give", 2), ("ask", 5)],
    ]
    trace = trace_of(events, [2048, 1024, 1024, 1024, 1024, 2048])
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
