"""Candidates: their ranking, Pareto sets, and rows that are tried in full or searched near a limit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import ScheduleError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import coarse_first, longest_row, near, thinned
from remat_algos.solvers.registry import Candidate, evaluated, keep_undominated, pareto, rank
from tests.small_graphs import training_chain
from tests.strategies import training_graphs

figures = st.tuples(st.integers(0, 6), st.integers(0, 6))
limits = st.none() | st.integers(-1, 7)


def row_of(*decisions):
    """A row as solvers write it, numbered."""
    return [(lambda decision=decision: decision, {"k": k}) for k, decision in enumerate(decisions)]


def prefixes(n, row):
    """A row of mirror counts of a chain of n nodes: the first k of them are recomputed."""
    return row_of(*(np.where(np.arange(2 * n) < k, 1, 0) for k in row))


def numbers(found):
    return [candidate.details["k"] for candidate in found]


def until_late(stream):
    """What comes before the deadline, which passes through."""
    found = []
    with pytest.raises(OutOfTime):
        found.extend(stream)
    return found


@pytest.fixture
def ticking(monkeypatch):
    """A clock on which every look takes a second."""
    clock = itertools.count()
    monkeypatch.setattr("remat_algos.context.time.monotonic", lambda: next(clock))


# ---------------------------------------------------------------- candidates


@given(training_graphs(max_nodes=10))
def test_figures_are_peak_and_compute_of_the_simulation(graph):
    once = Schedule(np.flatnonzero(graph.needed))
    assert Candidate(once).figures == (-1, -1)
    simulation = simulate(graph, once)
    assert evaluated(graph, once).figures == (simulation.peak_memory, simulation.compute)


def test_a_schedule_against_a_mark_has_no_simulation_and_any_other_unsound_one_is_an_error():
    mark = np.zeros(8, int)
    mark[0] = RECOMPUTE
    graph = replace(training_chain(4), mark=mark, derivation=None)
    found = evaluated(graph, Schedule(range(8)), {"k": 1})
    assert (found.simulation, found.figures, found.details) == (None, (-1, -1), {"k": 1})
    with pytest.raises(ScheduleError):
        evaluated(training_chain(4), Schedule([1, 0]))


# ---------------------------------------------------------------- rank


@given(st.lists(figures, min_size=1), limits, limits, st.booleans())
def test_the_first_is_the_cheapest_that_fits_else_the_lowest(found, limit, compute_limit, lowest):
    best = min(found, key=lambda each: rank(each, limit, compute_limit, lowest=lowest))
    within = [each for each in found if limit is None or each[0] <= limit]
    fit = [(p, c) for p, c in within if compute_limit is None or c <= compute_limit]
    if fit and (lowest or limit is None):
        assert best == min(fit)
    elif fit:
        assert best == min(fit, key=lambda each: each[::-1])
    elif within:  # all of them cost too much
        assert best == min(within, key=lambda each: each[::-1])
    else:
        assert best == min(found)


@given(figures, figures, limits, limits, st.booleans())
def test_nothing_ranks_before_what_dominates_it(one, other, limit, compute_limit, lowest):
    assert (one == other) == (rank(one, limit, compute_limit) == rank(other, limit, compute_limit))
    if one[0] <= other[0] and one[1] <= other[1]:
        assert rank(one, limit, compute_limit, lowest=lowest) <= rank(other, limit, compute_limit, lowest=lowest)


# ---------------------------------------------------------------- Pareto sets


def dominates(one, other):
    return one != other and one[0] <= other[0] and one[1] <= other[1]


@given(st.lists(figures))
def test_a_pareto_set_is_what_no_other_dominates(found):
    things = [(each, place) for place, each in enumerate(found)]
    kept = pareto(things, lambda thing: thing[0])
    assert [each for each, _ in kept] == sorted({each for each in found if not any(dominates(o, each) for o in found)})
    assert all(found.index(each) == place for each, place in kept)  # of equals the first
    peaks, computes = [each[0] for each, _ in kept], [each[1] for each, _ in kept]
    assert peaks == sorted(set(peaks))
    assert computes == sorted(set(computes), reverse=True)
    for each in found:
        assert any(each == other or dominates(other, each) for other, _ in kept)


@given(st.lists(figures))
def test_a_front_tells_whether_it_keeps_a_thing(found):
    kept = []
    for each in found:
        is_new = not any(other == each or dominates(other, each) for other in kept)
        assert keep_undominated(kept, each, lambda each: each) == is_new
        assert (each in kept) or not is_new


# ---------------------------------------------------------------- which things, in which order


def test_long_graphs_have_shorter_rows():
    sizes = [1, 1000, 10_000, 20_000, 1_000_000]
    caps = [longest_row(ComputationGraph.from_arrays(read_indptr=[0] * (n + 1), read_indices=[])) for n in sizes]
    assert caps == sorted(caps, reverse=True)
    assert caps[0] == tuning.LONGEST_ROW == 2000
    assert 50 <= caps[-1] < caps[-2] < caps[0]


@given(st.integers(0, 300), st.integers(1, 60))
def test_a_thinned_list_has_its_first_and_last_and_no_more_than_asked(count, most):
    things = list(range(count))
    thin = thinned(things, most)
    assert len(thin) <= max(most, 0)
    assert thin == sorted(set(thin))
    if count <= most:
        assert thin == things
    elif most > 1:
        assert (thin[0], thin[-1]) == (0, count - 1)


@given(st.integers(2, 200), st.data())
def test_every_beginning_of_coarse_first_is_spread_over_all_of_it(count, data):
    length, order = data.draw(st.integers(1, count)), coarse_first(range(count))
    assert sorted(order) == list(range(count))
    seen = sorted(order[:length])
    gaps = [after - before for before, after in itertools.pairwise([*seen, count])]
    assert max(gaps) <= 4 * count / length


# ---------------------------------------------------------------- rows that are tried in full


@pytest.mark.parametrize("limit", [None, 20])
def test_a_short_row_comes_whole_and_coarse_first(limit):
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    found = list(near(training_chain(30), [prefixes(30, range(16)), prefixes(30, range(16, 31))], limit, clock))
    assert numbers(found) == coarse_first([*range(16), *range(15)])
    assert [done for done, _, _ in told] == [1000 * done // 31 for done in range(1, 32)]
    assert told[-1] == (1000, 1000, "100 % of its candidates")
    assert all(candidate.simulation is None for candidate in found)


def test_a_deadline_leaves_a_coarse_row(ticking):
    clock = Clock(4)
    assert numbers(until_late(near(training_chain(30), [prefixes(30, range(31))], None, clock))) == [0, 16, 8, 24, 4]


@pytest.mark.parametrize("length", [5, 200])
@pytest.mark.parametrize("limit", [None, 1])
def test_one_candidate_comes_even_without_time_and_no_other_is_made(monkeypatch, limit, length):
    monkeypatch.setattr("remat_algos.solvers.tuning.MAX_SIMULATED_STEPS", 0)
    made = []
    row = [(lambda k=k: made.append(k) or np.zeros(8, int), {"k": k}) for k in range(length)]
    assert numbers(until_late(near(training_chain(4), [row], limit, Clock(0)))) == made == [0]


def test_equal_counts_come_once_whatever_the_row():
    once = np.array([1, 0, 0, 0, 0, 0, 0, 0])
    rows = [row_of(once, once.copy()), row_of(np.zeros(8, int), once.astype(np.int32))]
    assert numbers(near(training_chain(4), rows, None, Clock())) == [0, 0]


def test_counts_that_the_graph_makes_equal_come_once():
    graph = training_chain(4, once=[True, False, False, False])
    row = row_of(*(np.array([m, 1, 0, 0, 0, 0, 0, 0]) for m in range(3)))
    assert numbers(near(graph, [row], None, Clock())) == [0]


def test_what_is_abandoned_is_counted():
    clock = Clock()
    row = row_of(None, np.zeros(8, int), None, Schedule(range(8)))
    assert sorted(numbers(near(training_chain(4), [row], None, clock))) == [1, 3]
    assert clock.skipped.total() == 2


# ---------------------------------------------------------------- rows that are searched


@given(st.integers(97, 250), st.integers(0, 1), st.data())
def test_a_long_row_is_searched_and_its_best_found(n, more, data):
    """Peaks fall as more of a chain is recomputed, up to the middle, then rise; compute rises: one valley."""
    graph, row = training_chain(n), prefixes(n, range(n + 1))
    peaks = {k: max(n - k, k) for k, _ in enumerate(row)}
    limit = data.draw(st.integers(min(peaks.values()) - 2, n + 5))
    whole = [evaluated(graph, each.schedule).figures for each in near(graph, [row], None, Clock())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.solvers.tuning.MAX_SIMULATED_STEPS", 0)
        found = list(near(graph, [row, *[row[:1]] * more], limit, Clock()))
    assert all(candidate.figures == evaluated(graph, candidate.schedule).figures for candidate in found)
    assert len(found) == len({tuple(candidate.schedule.order) for candidate in found}) < n
    best = min(rank(each, limit) for each in whole)
    assert min(rank(candidate.figures, limit) for candidate in found) == best


def test_a_deadline_leaves_all_rows_searched_equally_far(monkeypatch, ticking):
    monkeypatch.setattr("remat_algos.solvers.tuning.MAX_SIMULATED_STEPS", 0)
    rows = [prefixes(300, range(300)), prefixes(300, range(300, 0, -1))]
    for at, row in enumerate(rows):
        row[:] = [(make, {"row": at}) for make, _ in row]
    found = [each.details["row"] for each in until_late(near(training_chain(300), rows, 200, Clock(20)))]
    assert min(found.count(0), found.count(1)) >= 0.4 * len(found) >= 8


def test_a_searched_row_passes_over_what_is_abandoned_or_against_a_mark(monkeypatch):
    monkeypatch.setattr("remat_algos.solvers.tuning.MAX_SIMULATED_STEPS", 0)
    n = 100
    mark = np.zeros(2 * n, int)
    mark[n // 2] = KEEP
    graph, clock = replace(training_chain(n), mark=mark, derivation=None), Clock()
    row = prefixes(n, range(n))
    row[0] = (lambda: None, {"k": 0})
    row[-1] = (lambda: Schedule([*range(n), *range(n), *range(n, 2 * n)]), {"k": n - 1})
    found = {candidate.details["k"]: candidate for candidate in near(graph, [row], 60, clock)}
    assert clock.skipped.total() == 1
    assert found[n - 1].simulation is None
    assert all(candidate.simulation is not None for k, candidate in found.items() if k != n - 1)
    assert any(candidate.figures[0] <= 60 for candidate in found.values() if candidate.simulation is not None)


def test_a_search_reports_its_stages(monkeypatch):
    monkeypatch.setattr("remat_algos.solvers.tuning.MAX_SIMULATED_STEPS", 0)
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    list(near(training_chain(150), [prefixes(150, range(150))], 90, clock))
    most = tuning.MIN_SIMULATED
    assert [done for done, _, _ in told] == [1000 * done // most for done in range(1, len(told) + 1)]
    assert tuning.FIRST_PLACES < len(told) <= most
