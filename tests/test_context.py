"""The one clock of a search: deadlines, shares of the time, stages of progress."""

import os
import signal
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos import context
from remat_algos.context import SHORTEST, WHOLE, WRITING, Clock, OutOfTime, Stop, time_left, until_stopped
from remat_algos.solvers.registry import Task


@pytest.fixture
def now(monkeypatch):
    """The time, set by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_without_a_limit_there_is_no_deadline(now):
    clock = Clock()
    now[0] += 1e9
    clock.check()
    assert (clock.left, clock.late, clock.elapsed) == (None, False, 1e9)


def test_a_deadline_ends_the_search_at_the_next_look(now):
    clock = Clock(2)
    now[0] += 1.5
    clock.check()
    assert (clock.left, clock.late, clock.elapsed) == (0.5, False, 1.5)
    now[0] += 1
    assert (clock.left, clock.late) == (0, True)
    for look in clock.check, lambda: clock.progress(1):
        with pytest.raises(OutOfTime):
            look()


def test_a_share_is_a_part_of_the_time_that_is_left(now):
    clock = Clock(8)
    now[0] += 4
    part = clock.share(0.25)
    assert (part.left, part.report) == (1, None)
    assert Clock().share(0.25).left is None


@pytest.mark.parametrize(
    ("limit", "spent", "left"),
    [
        (None, 9, None),
        (10, 0, 10),
        (10, 2, 10 - 2 * (1 + WRITING)),
        (10, 9, SHORTEST),  # reading took all of it
        (0.01, 9, 0.01),
    ],
)
def test_a_command_searches_for_what_reading_and_writing_leave_of_its_limit(now, limit, spent, left):
    assert time_left(limit, now[0] - spent) == left


def test_progress_rises_over_the_stages():
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    clock.progress(7)
    assert not clock.has_stages
    clock.stage(2, "trees", part=0.4)
    clock.progress(1)
    clock.progress(1)  # nothing new
    clock.stage(3, "schedules")
    clock.advance(1)
    clock.progress(5, "best 3")  # more than were announced
    clock.progress(1)  # it does not fall
    clock.finish()
    assert clock.has_stages
    assert told == [
        (0, 1000, "candidates 7"),
        (200, 1000, "20 % of its trees"),
        (600, 1000, "60 % of its schedules"),
        (1000, 1000, "100 % of its schedules · best 3"),
        (1000, 1000, "100 % of its schedules"),
    ]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.integers(0, 12), st.booleans()), max_size=9))
def test_progress_of_stages_and_searches_within_never_falls_nor_exceeds_the_whole(stages):
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    for part, count, done, inner in stages:
        if inner:
            within = Clock(progress=clock.within_stage(part, "inner: "))
            within.stage(count, "steps", part=part)
            within.progress(done)
        else:
            clock.stage(count, "steps", part=part)
            clock.progress(done)
    clock.finish()
    counts = [done for done, _, _ in told]
    assert counts == sorted(counts)
    assert {total for _, total, _ in told} == {WHOLE}
    assert (min(counts) >= 0, counts[-1]) == (True, WHOLE)
    assert all(before != after for before, after in pairwise(told))


def test_threads_share_a_stage():
    told = []
    clock = Clock(progress=lambda *news: told.append(news[0]))
    clock.stage(400, "moves")
    clock.map(lambda _: [clock.advance(1) for _ in range(100)], range(4))
    assert told == sorted(told)
    assert told[-1] == WHOLE


def test_an_interrupt_at_the_end_is_too_late():
    def interrupt(*news):
        raise KeyboardInterrupt

    Clock(progress=interrupt).finish()


@pytest.mark.parametrize("time_limit", [-1, float("nan"), "a", True, "3"])
def test_a_time_limit_is_a_number_of_seconds(time_limit):
    with pytest.raises(ValueError, match=r"time_limit is .*; give seconds, 0 or more"):
        Clock(time_limit)


@pytest.mark.parametrize(("seed", "kind"), [(-1, ValueError), (1.5, ValueError), ("1", TypeError), (True, TypeError)])
def test_a_seed_is_a_whole_number(seed, kind):
    with pytest.raises(kind, match=r"seed is .*; give a whole number"):
        Task(seed=seed)


def test_overdue_is_the_time_since_the_deadline(now):
    clock = Clock(1)
    assert clock.overdue == 0
    now[0] += 3
    assert clock.overdue == 2


def test_an_interrupt_that_one_thread_notes_is_not_lost_by_others():
    for _ in range(100):
        clock, started = Clock(), threading.Barrier(3)

        def note(stop, times, clock=clock, started=started):
            started.wait()
            for _ in range(times):
                clock.note(stop)

        threads = [threading.Thread(target=note, args=(Stop.DONE, 50)) for _ in range(2)]
        threads.append(threading.Thread(target=note, args=(Stop.INTERRUPTED, 1)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clock.stop is Stop.INTERRUPTED


@pytest.mark.parametrize("first", Stop)
@pytest.mark.parametrize("second", Stop)
def test_of_two_endings_the_later_of_the_list_counts(first, second):
    assert (first | second) is (second | first) is [*Stop][max([*Stop].index(first), [*Stop].index(second))]
    assert first.complete == (first in (Stop.DONE, Stop.PROVEN, Stop.NEAR))


# ---------------------------------------------------------------- beside


@pytest.fixture
def heeded():
    """SIGINT raises KeyboardInterrupt, also where a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_while_the_other_search_runs_keeps_what_it_found_and_is_passed_on(monkeypatch, cores):
    monkeypatch.setattr(context, "n_cores", lambda: cores)

    def search(clock):
        found = []
        with until_stopped() as ending:
            while True:
                found.append(len(found))
                if len(found) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
                clock.check()
        clock.note(ending.stop)
        return found

    clock = Clock()
    with clock.background(search) as result:
        assert len(result()) >= 3
    assert clock.stop is Stop.INTERRUPTED


def test_a_search_whose_result_nobody_asks_for_ends(monkeypatch):
    monkeypatch.setattr(context, "n_cores", lambda: 2)
    ended = []

    def search(clock):
        with until_stopped() as ending:
            while True:
                time.sleep(0.001)
                clock.check()
        ended.append(ending.stop)

    clock = Clock()
    with clock.background(search):
        pass
    assert ended == [Stop.INTERRUPTED]
    assert clock.stop is Stop.DONE


def test_an_error_of_the_other_search_is_raised(monkeypatch):
    monkeypatch.setattr(context, "n_cores", lambda: 2)
    with Clock().background(lambda clock: 1 // 0) as result, pytest.raises(ZeroDivisionError):
        result()
