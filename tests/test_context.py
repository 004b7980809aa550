"""The one clock of a search: deadlines, shares of the time, stages of progress."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.context import SHORTEST, WHOLE, WRITING, OutOfTime, SearchContext, time_left


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_without_a_limit_there_is_no_deadline(clock):
    context = SearchContext()
    clock[0] += 1e9
    context.check()
    assert (context.left, context.late, context.elapsed) == (None, False, 1e9)


def test_a_deadline_ends_the_search_at_the_next_look(clock):
    context = SearchContext(2)
    clock[0] += 1.5
    context.check()
    assert (context.left, context.late, context.elapsed) == (0.5, False, 1.5)
    clock[0] += 1
    assert (context.left, context.late) == (0, True)
    for look in context.check, lambda: context.progress(1):
        with pytest.raises(OutOfTime):
            look()


def test_a_share_is_a_part_of_the_time_that_is_left(clock):
    context = SearchContext(8, seed=3, candidates=["one"], budgets=5)
    clock[0] += 4
    part = context.share(0.25)
    assert (part.left, part.seed, part.candidates, part.report, part.budgets) == (1, 3, ("one",), None, 5)
    assert context.share(0.25, candidates=["two"]).candidates == ("two",)
    assert SearchContext().share(0.25).left is None


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
def test_a_command_searches_for_what_reading_and_writing_leave_of_its_limit(clock, limit, spent, left):
    assert time_left(limit, clock[0] - spent) == left


def test_progress_rises_over_the_stages():
    told = []
    context = SearchContext(progress=lambda *news: told.append(news))
    context.progress(7)
    assert not context.has_stages
    context.stage(2, "trees", part=0.4)
    context.progress(1)
    context.progress(1)  # nothing new
    context.stage(3, "schedules")
    context.advance(1)
    context.progress(5, "best 3")  # more than were announced
    context.progress(1)  # it does not fall
    context.finish()
    assert context.has_stages
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
    context = SearchContext(progress=lambda *news: told.append(news))
    for part, count, done, inner in stages:
        if inner:
            within = SearchContext(progress=context.within_stage(part, "inner: "))
            within.stage(count, "steps", part=part)
            within.progress(done)
        else:
            context.stage(count, "steps", part=part)
            context.progress(done)
    context.finish()
    counts = [done for done, _, _ in told]
    assert counts == sorted(counts)
    assert {total for _, total, _ in told} == {WHOLE}
    assert (min(counts) >= 0, counts[-1]) == (True, WHOLE)
    assert all(before != after for before, after in pairwise(told))


def test_threads_share_a_stage():
    told = []
    context = SearchContext(progress=lambda *news: told.append(news[0]))
    context.stage(400, "moves")
    context.map(lambda _: [context.advance(1) for _ in range(100)], range(4))
    assert told == sorted(told)
    assert told[-1] == WHOLE


def test_an_interrupt_at_the_end_is_too_late():
    def interrupt(*news):
        raise KeyboardInterrupt

    SearchContext(progress=interrupt).finish()


@pytest.mark.parametrize("time_limit", [-1, float("nan"), "a", True, "3"])
def test_a_time_limit_is_a_number_of_seconds(time_limit):
    with pytest.raises(ValueError, match=r"time_limit is .*; give seconds, 0 or more"):
        SearchContext(time_limit)


@pytest.mark.parametrize(("seed", "kind"), [(-1, ValueError), (1.5, ValueError), ("1", TypeError), (True, TypeError)])
def test_a_seed_is_a_whole_number(seed, kind):
    with pytest.raises(kind, match=r"seed is .*; give a whole number"):
        SearchContext(seed=seed)


def test_overdue_is_the_time_since_the_deadline(clock):
    context = SearchContext(1)
    assert context.overdue == 0
    clock[0] += 3
    assert context.overdue == 2


def test_abandoned_schedules_are_counted():
    context = SearchContext()
    context.skip("too long")
    context.skip("too long")
    assert context.skipped == {"too long": 2}
