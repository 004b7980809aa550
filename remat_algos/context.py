"""The context of a running search: its deadline, its progress callback, and how it ended."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from remat_algos.errors import ArgumentError, about

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int, str], None]
"""A function called as `progress(done, 1000, text)`; `done` is in thousandths of the planned work.

`done` never decreases, and reaches 1000 unless the user stops the run. It measures planned work, not time; work that
proves unnecessary counts as done. `text` describes the current work, and may end with the current results, " · best
..." and " · bound ...". The function is called when an argument changes, from one thread at a time, which is not always
the main thread.
"""
WHOLE = 1000
"""The value of `done` at the end of a search."""

SHORTEST = 0.1  # minimum seconds per search
WRITING = 0.3
"""Estimate of the time for printing and writing, divided by the time for start-up and reading.

Measured shares: 0.26 to 0.29 for graphs of 100,000 nodes or more.
"""


class OutOfTime(Exception):
    """The deadline has passed."""


class Interrupted(KeyboardInterrupt):
    """The user stopped a search that had no result yet."""


class Stop(Enum):
    """How a search ended; `a | b` is whichever of the two is listed later."""

    DONE = "done"
    PROVEN = "proven"
    NEAR = "near the bound"
    DEADLINE = "deadline"
    FAILED = "a solver failed"
    OUT_OF_MEMORY = "out of memory"
    INTERRUPTED = "interrupted"

    def __repr__(self) -> str:
        return f"Stop.{self.name}"

    def __or__(self, other: "Stop") -> "Stop":
        return max(self, other, key=list(Stop).index)

    @property
    def complete(self) -> bool:
        return self in (Stop.DONE, Stop.PROVEN, Stop.NEAR)

    @property
    def reason(self) -> str:
        """The reason why the search stopped early, in words; empty if the search is complete."""
        return "" if self.complete else "time limit reached" if self is Stop.DEADLINE else self.value

    def record(self) -> dict[str, Any]:
        return {"complete": self.complete}

    def pass_on(self) -> None:
        """Raise KeyboardInterrupt, MemoryError or OutOfTime if one of these stopped the search."""
        if self is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if self is Stop.OUT_OF_MEMORY:
            raise MemoryError
        if self is Stop.DEADLINE:
            raise OutOfTime

    def check(self, message: str) -> None:
        """Raise Interrupted with this message if the user stopped a search whose partial result is useless."""
        if self is Stop.INTERRUPTED:
            raise Interrupted(message)


@dataclass(slots=True)
class _Ending:
    stop: Stop = Stop.DONE


@contextmanager
def until_stopped(*, memory: bool = False) -> Iterator[_Ending]:
    """Run a block until it ends, time is up or the user interrupts it. With `memory`, it may also run out of memory."""
    ending = _Ending()
    try:
        yield ending
    except OutOfTime:
        ending.stop = Stop.DEADLINE
    except KeyboardInterrupt:
        ending.stop = Stop.INTERRUPTED
    except MemoryError:
        if not memory:
            raise
        ending.stop = Stop.OUT_OF_MEMORY


@contextmanager
def interrupted_as(message: str) -> Iterator[None]:
    """Raise Interrupted with this message instead of KeyboardInterrupt."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(message) from None


def n_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _core_limit)


def use_cores(most: int) -> None:
    """Limit the number of cores that searches in this process use; the schedules do not depend on it."""
    global _core_limit
    _core_limit = most


_core_limit = 2**31


class Stopwatch:
    """CPU time of the thread and wall-clock time, in seconds since the stopwatch was created."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = time.thread_time(), time.monotonic()

    @property
    def spent(self) -> float:
        return time.thread_time() - self._begun[0]

    @property
    def passed(self) -> float:
        return time.monotonic() - self._begun[1]


class _Stages:
    """The current stage of a search, as a share of the whole search, and the latest call of its progress callback."""

    __slots__ = ("begin", "begun", "count", "done", "end", "lock", "name", "report", "reported")

    def __init__(self, report: Progress | None) -> None:
        self.report = report
        self.lock = threading.Lock()
        self.begun = False  # True once a stage started
        self.begin, self.end = 0.0, 0.0  # shares of the whole search
        self.count, self.done, self.name = 0, 0, ""
        self.reported = 0, ""

    def start(self, count: int, name: str, part: float) -> None:
        self.begun, self.begin = True, self.end
        self.end += part * (1 - self.end)
        self.count, self.done, self.name = count, 0, name

    def advance(self, steps: int, so_far: str) -> None:
        self.done += max(0, steps)
        share = self.begin + (self.end - self.begin) * min(1.0, self.done / max(1, self.count))
        words = f"{100 * share:.0f} % of its {self.name}" if self.begun else f"candidates {self.done:,}"
        self.notify(share, f"{words}{so_far and ' · '}{so_far}")

    def notify(self, share: float, what: str) -> None:
        news = max(self.reported[0], min(WHOLE, int(WHOLE * share + 1e-6))), what
        if self.report is not None and news != self.reported:
            self.reported = news
            self.report(news[0], WHOLE, what)


class Clock:
    """The deadline and the progress of a search, and how it ended; only this class and `Stopwatch` read the time."""

    def __init__(self, time_limit: float | None = None, progress: Progress | None = None) -> None:
        self.started = time.monotonic()
        self.deadline = None if time_limit is None else self.started + check_seconds(time_limit)
        # Number of schedules that the solver skipped, by reason; the reason completes "3 schedules ...".
        self.skipped = Counter[str]()
        self.stop = Stop.DONE
        self._noting = threading.Lock()
        self._stages = _Stages(progress)

    @property
    def report(self) -> Progress | None:
        return self._stages.report

    @property
    def has_stages(self) -> bool:
        return self._stages.begun

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def overdue(self) -> float:
        return 0.0 if self.deadline is None else max(0.0, time.monotonic() - self.deadline)

    def check(self) -> None:
        """Raise OutOfTime after the deadline; loops of more than 50 ms call this.

        After an interrupt, raise KeyboardInterrupt in every thread, since signals reach only the main thread.
        """
        if self.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if self.late:
            raise OutOfTime

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply a function to each item, in one thread per core.

        The function catches the exceptions of `check` and returns its partial results. So an interrupt loses no
        results: it ends all threads, and the next `check` in the caller raises it again.
        """
        from concurrent.futures import ThreadPoolExecutor  # importing takes 0.01 s

        n_threads, results = min(n_cores(), len(items)), list[Result]()
        calls: list[Callable[[], Result]] = [partial(function, item) for item in items]
        with ThreadPoolExecutor(max(1, n_threads)) as pool:
            try:
                if n_threads > 1:
                    calls = [pool.submit(call).result for call in calls]
            # Interrupted while submitting. The calls below run in this thread, and `check` ends each of them at once.
            except KeyboardInterrupt:
                self.note(Stop.INTERRUPTED)
            while len(results) < len(calls):
                try:
                    results.append(calls[len(results)]())
                except KeyboardInterrupt:
                    self.note(Stop.INTERRUPTED)
        return results

    @contextmanager
    def background(self, search: Callable[["Clock"], Result]) -> Iterator[Callable[[], Result]]:
        """Start a search in a second thread, or lazily if there is only one core; yield a function for its result.

        The search gets a clock with the same deadline and no progress. An interrupt or the end of the block ends the
        search: it catches the exceptions of `check` and returns its partial results.
        """
        from concurrent.futures import ThreadPoolExecutor  # importing takes 0.01 s

        other = self.share()
        with ThreadPoolExecutor(1) as pool:
            try:
                call = pool.submit(search, other).result if n_cores() > 1 else partial(search, other)

                def result() -> Result:
                    while True:
                        if self.stop is Stop.INTERRUPTED:
                            other.note(Stop.INTERRUPTED)
                        try:
                            return call()
                        except KeyboardInterrupt:
                            self.note(Stop.INTERRUPTED)
                        finally:
                            self.note(other.stop)

                yield result
            finally:
                other.note(Stop.INTERRUPTED)

    def stage(self, count: int, name: str = "candidates", *, part: float = 1.0) -> None:
        """Begin a stage of `count` steps for `part` of the remaining work; `name` is a plural noun for its steps."""
        self._stages.start(count, name, part)

    def progress(self, done: int, so_far: str = "") -> None:
        """Report the number of finished steps in this stage and the best result, and call `check`."""
        if self.report is not None:
            with self._stages.lock:
                self._stages.advance(done - self._stages.done, so_far)
        self.check()

    def advance(self, steps: int, so_far: str = "") -> None:
        """Report further steps, like `progress`; several threads may call it."""
        if self.report is not None:
            with self._stages.lock:
                self._stages.advance(steps, so_far)
        self.check()

    def within_stage(self, part: float = 1.0, name: str = "") -> Progress | None:
        """Begin a stage whose progress another search reports, and return the callback for that search."""
        self.stage(1, part=part)
        if self.report is None:
            return None
        stages = self._stages
        begin, end = stages.begin, stages.end

        def forward(done: int, total: int, what: str) -> None:
            with stages.lock:
                stages.notify(begin + (end - begin) * done / total, f"{name}{what}")

        return forward

    def finish(self, stop: Stop = Stop.DONE) -> None:
        """Report the end of the work, unless the user stopped the search; a later interrupt has no effect."""
        if stop is Stop.INTERRUPTED:
            return
        with suppress(KeyboardInterrupt), self._stages.lock:
            self._stages.notify(1.0, self._stages.reported[1])

    def note(self, stop: Stop) -> None:
        """Record how a part of the search ended; several threads may call it."""
        with self._noting:
            self.stop |= stop

    def seconds(self, part: float) -> float | None:
        """Return the seconds in a part of the remaining time, or None without a deadline."""
        return None if self.left is None else self.left * part

    def share(self, part: float = 1.0, work: float | None = None, name: str = "") -> "Clock":
        """Return a clock for `part` of the remaining time. With `work`, it reports this share of the progress."""
        report = None if work is None else self.within_stage(work, name)
        return Clock(self.seconds(part), report)


def time_left(time_limit: float | None, started: float) -> float | None:
    """Return the seconds left for searching in a command that began at `started`, less an estimate for writing."""
    if time_limit is None:
        return None
    spent = time.monotonic() - started
    return max(time_limit - (1 + WRITING) * spent, min(time_limit, SHORTEST))


def check_seconds(time_limit: Any) -> float:
    """Return a time limit as a float, 0 or more. Raise ValueError for anything else."""
    try:
        seconds = math.nan if isinstance(time_limit, bool | str) else float(time_limit)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise about(
            "time_limit", ArgumentError("time_limit is {time_limit!r}; give seconds, 0 or more", time_limit=time_limit)
        )
    return seconds
