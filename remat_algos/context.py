"""What a search is given: deadline, progress callback, seed, constraints, and what was found before it."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from remat_algos.arguments import as_seed
from remat_algos.text.wording import quoted

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all as far as they are known, what is being tried)."""

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
        Called with (steps done, steps in all as far as they are known, what is being tried).
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
    >>> for name in ("trees", "schedules"):
    ...     context.stage(2, name)
    ...     context.progress(1)
    1 2 trees
    3 4 schedules
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
        self._before = self._reported = self._total = 0
        self._stage = ""

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

    @property
    def has_stages(self) -> bool:
        """Whether a stage was begun."""
        return self._total > 0

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

    def stage(self, count: int, name: str = "") -> None:
        """Begin a stage of `count` steps."""
        self._before = self._total
        self._total += count
        self._stage = name

    def progress(self, done: int) -> None:
        """Report the steps of this stage that are done; then as `check`."""
        done += self._before
        if self.report is not None and done > self._reported:
            self._reported = done
            self.report(done, max(done, self._total), self._stage)
        self.check()

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
        return self._part(left, progress, found)

    def within(self, seconds: float | None) -> "SearchContext":
        """This context, or one whose deadline is sooner: `seconds` from now."""
        if seconds is None or (self.left is not None and self.left <= seconds):
            return self
        return self._part(seconds, self.report, self.candidates)

    def _part(self, seconds: float | None, progress: Progress | None, candidates: Sequence[Any]) -> "SearchContext":
        names = ("seed", "effort", "constraints", "bound", "budgets")
        kept = {name: getattr(self, name) for name in names}
        return SearchContext(seconds, progress, candidates=candidates, **kept)


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
