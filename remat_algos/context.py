"""What a search is given: deadline, progress callback, seed, constraints, and what was found before it."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from remat_algos.text.wording import quoted

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int, str], None]
"""Called with (per mille of the whole run that are done, 1000, what is being tried).

The first never falls and is 1000 at the end, unless the user stops the run. It is a share of the work that is planned,
not of the time; work that turns out not to be needed is passed over at once. What is being tried may go on with
" · best ..." and " · bound ...", the results so far. It is called where one of the three changes, by one thread at a
time, which is not always the main one.
"""
WHOLE = 1000
""""In all" of a progress callback."""

FAST, DEFAULT, BEST = EFFORTS = ("fast", "default", "best")
SHORTEST = 0.1  # seconds that a command searches, however long it read
WRITING = 0.3
"""Of the time of start-up and reading, for printing and writing: 0.26 to 0.29 on graphs of 100,000 and more nodes."""


class OutOfTime(Exception):
    """The deadline has passed."""


class Interrupted(KeyboardInterrupt):
    """The user stopped a search that had found nothing to return."""


@dataclass(slots=True)
class Ending:
    """How a search ended: whether it came to its end, and whether the user interrupted it."""

    complete: bool = True
    interrupted: bool = False

    def pass_on(self) -> None:
        """Raise again what stopped the search, if anything did."""
        if self.interrupted:
            raise KeyboardInterrupt
        if not self.complete:
            raise OutOfTime


@contextmanager
def until_stopped() -> Iterator[Ending]:
    """Run a search to its end, its deadline, or Ctrl-C; the caller keeps what was found.

    Examples
    --------
    >>> with until_stopped() as ending:
    ...     SearchContext(0).check()
    >>> ending
    Ending(complete=False, interrupted=False)
    """
    ending = Ending()
    try:
        yield ending
    except OutOfTime:
        ending.complete = False
    except KeyboardInterrupt:
        ending.complete, ending.interrupted = False, True


@contextmanager
def interrupted_as(message: str) -> Iterator[None]:
    """Raise a KeyboardInterrupt as Interrupted with this message.

    Examples
    --------
    >>> try:
    ...     with interrupted_as("interrupted before it began"):
    ...         raise KeyboardInterrupt
    ... except Interrupted as interrupt:
    ...     print(interrupt)
    interrupted before it began
    """
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(message) from None


def n_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SearchContext:
    """Deadline, progress, seed and earlier candidates of a search.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    progress : callable, optional
        A `Progress`.
    seed : int
        For random choices.
    candidates : sequence
        What earlier stages found; it does not change while a solver runs.
    effort : {"fast", "default", "best"}
        How much work searches may do: caps on states and on integer programs.
    constraints : Constraints, optional
        What schedules must keep to beside the limit. A solver that reads them may keep to them; of the others those
        candidates are dropped that do not.
    bound : int, optional
        Lower bound on the compute of what fits: a search that meets it has nothing more to find.
    budgets : int
        For a whole frontier: number of limits at which a search of one limit looks for the best; 0 elsewhere.

    Raises
    ------
    TypeError
        For a seed that is no number.
    ValueError
        For a time limit that is no number of seconds, a seed below 0, or another effort.

    Examples
    --------
    >>> context = SearchContext(progress=lambda done, total, what: print(done, total, what))
    >>> context.stage(2, "trees", part=0.5)
    >>> context.progress(1)
    250 1000 25 % of its trees
    >>> context.stage(4, "schedules")
    >>> context.progress(3)
    875 1000 88 % of its schedules
    """

    def __init__(
        self,
        time_limit: float | None = None,
        progress: Progress | None = None,
        *,
        seed: int = 0,
        candidates: Sequence[Any] = (),
        effort: str = DEFAULT,
        constraints: Any = None,
        bound: int | None = None,
        budgets: int = 0,
    ) -> None:
        self.started = time.monotonic()
        self.deadline = None if time_limit is None else self.started + _seconds(time_limit)
        self.report = progress
        from remat_algos.arguments import as_seed  # which imports NumPy

        self.seed = as_seed(seed)
        if effort not in EFFORTS:
            raise ValueError(f"effort is {quoted(effort)}; use {', '.join(EFFORTS)}")
        self.effort = effort
        self.constraints = constraints
        self.bound = bound
        self.budgets = budgets
        self.candidates = tuple(candidates)
        self.skipped = Counter[str]()
        self.cut_short = self.interrupted = False
        self.has_stages = False  # whether one was begun
        self._lock = threading.Lock()
        self._begin, self._end = 0.0, 0.0  # of the stage, as shares of the whole
        self._count, self._done, self._name = 0, 0, ""
        self._reported = 0, ""

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """Seconds to the deadline, None if there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def stopped(self) -> bool:
        """Whether `check` raises."""
        return self.interrupted or self.late

    @property
    def overdue(self) -> float:
        """Seconds since the deadline, 0 before it."""
        return 0.0 if self.deadline is None else max(0.0, time.monotonic() - self.deadline)

    def check(self) -> None:
        """Raise OutOfTime if the deadline has passed; loops of more than 50 ms call this as they go.

        Once `interrupted`, it raises KeyboardInterrupt: signals reach the main thread alone, this every one.
        """
        if self.interrupted:
            raise KeyboardInterrupt
        if self.late:
            raise OutOfTime

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results of a function for each item, computed in as many threads as there are cores.

        The function catches what `check` raises and returns what it has. So an interrupt loses nothing: it ends all
        threads, and the next `check` raises it.

        Examples
        --------
        >>> SearchContext().map(len, ["a", "bc"])
        [1, 2]
        """
        from concurrent.futures import ThreadPoolExecutor  # 0.01 s

        n_threads, results = min(n_cores(), len(items)), list[Result]()
        calls: list[Callable[[], Result]] = [partial(function, item) for item in items]
        with ThreadPoolExecutor(max(1, n_threads)) as pool:
            try:
                if n_threads > 1:
                    calls = [pool.submit(call).result for call in calls]
            except KeyboardInterrupt:  # the calls are made here, and end at once
                self.interrupted = True
            while len(results) < len(calls):
                try:
                    results.append(calls[len(results)]())
                except KeyboardInterrupt:
                    self.interrupted = True
        return results

    def stage(self, count: int, name: str = "candidates", *, part: float = 1.0) -> None:
        """Begin a stage of `count` steps, which is a part of the work that is left; `name` says what is counted.

        Without `part` it is all that is left. A search that does not know how many stages follow gives each a small
        part.
        """
        self.has_stages = True
        self._begin = self._end
        self._end += part * (1 - self._end)
        self._count, self._done, self._name = count, 0, name

    def progress(self, done: int, so_far: str = "") -> None:
        """Report the steps of this stage that are done, with the result so far; then as `check`.

        Without a stage it is not known how many there are: they are only told.
        """
        if self.report is not None:
            with self._lock:
                self._advance(done - self._done, so_far)
        self.check()

    def advance(self, steps: int, so_far: str = "") -> None:
        """As `progress`, for steps more; several threads may call it."""
        if self.report is not None:
            with self._lock:
                self._advance(steps, so_far)
        self.check()

    def _advance(self, steps: int, so_far: str) -> None:
        self._done += max(0, steps)
        share = self._begin + (self._end - self._begin) * min(1.0, self._done / max(1, self._count))
        words = f"{100 * share:.0f} % of its {self._name}" if self.has_stages else f"candidates {self._done:,}"
        self._notify(share, f"{words}{so_far and ' · '}{so_far}")

    def _notify(self, share: float, what: str) -> None:
        """Call back, unless all was said before."""
        done, _ = self._reported
        news = max(done, min(WHOLE, int(WHOLE * share + 1e-6))), what
        if self.report is not None and news != self._reported:
            self._reported = news
            self.report(news[0], WHOLE, what)

    def within_stage(self, part: float = 1.0, name: str = "") -> Progress | None:
        """Begin a stage, a part of the work that is left, that another search reports; the callback for that.

        Examples
        --------
        >>> context = SearchContext(progress=lambda done, total, what: print(done, total, what))
        >>> inner = SearchContext(progress=context.within_stage(0.5, "bound: "))
        >>> inner.stage(4, "cuts")
        >>> inner.progress(2)
        250 1000 bound: 50 % of its cuts
        """
        self.stage(1, part=part)
        if self.report is None:
            return None
        begin, end = self._begin, self._end

        def forward(done: int, total: int, what: str) -> None:
            with self._lock:
                self._notify(begin + (end - begin) * done / total, f"{name}{what}")

        return forward

    def finish(self) -> None:
        """Report that all is done; an interrupt comes too late."""
        with suppress(KeyboardInterrupt), self._lock:
            self._notify(1.0, self._reported[1])

    def cut(self) -> None:
        """Note that candidates were left out for lack of time."""
        self.cut_short = True

    def skip(self, reason: str) -> None:
        """Count a schedule that the solver abandoned, by reason: words that follow "3 schedules"."""
        self.skipped[reason] += 1

    def share(
        self, part: float = 1.0, progress: Progress | None = None, candidates: Sequence[Any] | None = None
    ) -> "SearchContext":
        """The context of one of several searches: a part of the time that is left."""
        left = None if self.left is None else self.left * part
        found = self.candidates if candidates is None else candidates
        kept = {name: getattr(self, name) for name in ("seed", "effort", "constraints", "bound", "budgets")}
        return SearchContext(left, progress, candidates=found, **kept)


def time_left(time_limit: float | None, started: float) -> float | None:
    """Seconds for the search of a command, whose limit counts start-up, reading, printing and writing too.

    Printing and writing take a share of the time that start-up and reading took: of the same graph on the same machine.

    Parameters
    ----------
    time_limit : float or None
        Seconds for the whole command.
    started : float
        Its start, by `time.monotonic`.

    Examples
    --------
    >>> 59 < time_left(60, time.monotonic()) <= 60
    True
    """
    if time_limit is None:
        return None
    spent = time.monotonic() - started
    return max(time_limit - (1 + WRITING) * spent, min(time_limit, SHORTEST))


def _seconds(time_limit: Any) -> float:
    try:
        seconds = math.nan if isinstance(time_limit, bool | str) else float(time_limit)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise ValueError(f"time_limit is {quoted(time_limit)}; give seconds, 0 or more")
    return seconds
