"""The one clock of a search: deadlines, shares of the time, stages of progress."""

import time

import pytest

from remat_algos.context import SHORTEST, WRITING, OutOfTime, SearchContext, time_left


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


@pytest.mark.parametrize(("limit", "seconds", "left"), [(None, None, None), (None, 2, 2), (5, 2, 2), (1, 2, 1)])
def test_within_shortens_the_time_and_never_prolongs_it(clock, limit, seconds, left):
    assert SearchContext(limit).within(seconds).left == left


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
    assert not context.has_stages
    context.stage(2, "trees")
    context.progress(1)
    context.progress(1)
    context.stage(3, "schedules")
    context.progress(1)
    context.progress(5)  # more than were announced
    assert context.has_stages
    assert told == [(1, 2, "trees"), (3, 5, "schedules"), (7, 7, "schedules")]


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
