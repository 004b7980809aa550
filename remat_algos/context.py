"""What a search looks at as it runs: its deadline, the progress callback, and how it ended."""

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

SHORTEST = 0.1  # seconds that a command searches, however long it read
WRITING = 0.3
"""Of the time of start-up and reading, for printing and writing: 0.26 to 0.29 on graphs of 100,000 and more nodes."""


class OutOfTime(Exception):
    """The deadline has passed."""


class Interrupted(KeyboardInterrupt):
    """The user stopped a search that had found nothing to return."""


class Stop(Enum):
    """How a search ended; `a | b` combines two endings: the one listed later wins.

    Attributes
    ----------
    DONE
        It tried all that it had to try.
    PROVEN
        What it found, or a part of it, meets a bound: no more was tried there.
    DEADLINE
        The time limit left something out.
    OUT_OF_MEMORY
        Memory ran out.
    INTERRUPTED
        The user stopped it.

    Examples
    --------
    >>> (Stop.DONE | Stop.DEADLINE), Stop.PROVEN.complete, Stop.DEADLINE.complete
    (Stop.DEADLINE, True, False)
    """

    DONE = "done"
    PROVEN = "proven"
    DEADLINE = "deadline"
    OUT_OF_MEMORY = "out of memory"
    INTERRUPTED = "interrupted"

    def __repr__(self) -> str:
        return f"Stop.{self.name}"

    def __or__(self, other: "Stop") -> "Stop":
        return max(self, other, key=list(Stop).index)

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return self in (Stop.DONE, Stop.PROVEN)

    @property
    def reason(self) -> str:
        """What stopped the search, in words; empty where nothing was left out."""
        return "" if self.complete else "time limit reached" if self is Stop.DEADLINE else self.value

    def record(self) -> dict[str, Any]:
        """The entry of a JSON record."""
        return {"complete": self.complete}

    def check(self, message: str) -> None:
        """Raise Interrupted with this message if the user stopped the search: the best so far is not wanted."""
        if self is Stop.INTERRUPTED:
            raise Interrupted(message)


@dataclass(slots=True)
class Ending:
    """How a search under `until_stopped` ended."""

    stop: Stop = Stop.DONE

    def pass_on(self) -> None:
        """Raise again what stopped the search, if anything did."""
        if self.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if self.stop is Stop.OUT_OF_MEMORY:
            raise MemoryError
        if self.stop is Stop.DEADLINE:
            raise OutOfTime


@contextmanager
def until_stopped(*, memory: bool = False) -> Iterator[Ending]:
    """Run a search to its end, its deadline, or Ctrl-C; the caller keeps what was found.

    With `memory`, a search that runs out of memory ends the same way.

    Examples
    --------
    >>> with until_stopped() as ending:
    ...     Clock(0).check()
    >>> ending
    Ending(stop=Stop.DEADLINE)
    """
    ending = Ending()
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


class _Stages:
    """What a progress callback was told, and what share of the whole the stage is that counts now.

    Parameters
    ----------
    report : callable, optional
        A `Progress`.
    """

    __slots__ = ("begin", "begun", "count", "done", "end", "lock", "name", "report", "reported")

    def __init__(self, report: Progress | None) -> None:
        self.report = report
        self.lock = threading.Lock()
        self.begun = False  # whether there was a stage
        self.begin, self.end = 0.0, 0.0  # of the stage, as shares of the whole
        self.count, self.done, self.name = 0, 0, ""
        self.reported = 0, ""

    def start(self, count: int, name: str, part: float) -> None:
        """Begin a stage: a part of the work that is left."""
        self.begun, self.begin = True, self.end
        self.end += part * (1 - self.end)
        self.count, self.done, self.name = count, 0, name

    def advance(self, steps: int, so_far: str) -> None:
        """Count steps of the stage, and call back."""
        self.done += max(0, steps)
        share = self.begin + (self.end - self.begin) * min(1.0, self.done / max(1, self.count))
        words = f"{100 * share:.0f} % of its {self.name}" if self.begun else f"candidates {self.done:,}"
        self.notify(share, f"{words}{so_far and ' · '}{so_far}")

    def notify(self, share: float, what: str) -> None:
        """Call back, unless all was said before."""
        news = max(self.reported[0], min(WHOLE, int(WHOLE * share + 1e-6))), what
        if self.report is not None and news != self.reported:
            self.reported = news
            self.report(news[0], WHOLE, what)


class Clock:
    """Deadline and progress of a search, and what stopped it; the only reader of the time.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    progress : callable, optional
        A `Progress`.

    Raises
    ------
    ValueError
        If `time_limit` is not a number of seconds, 0 or more.

    Examples
    --------
    >>> clock = Clock(progress=lambda done, total, what: print(done, total, what))
    >>> clock.stage(2, "trees", part=0.5)
    >>> clock.progress(1)
    250 1000 25 % of its trees
    >>> clock.stage(4, "schedules")
    >>> clock.progress(3)
    875 1000 88 % of its schedules
    """

    def __init__(self, time_limit: float | None = None, progress: Progress | None = None) -> None:
        self.started = time.monotonic()
        self.deadline = None if time_limit is None else self.started + _seconds(time_limit)
        self.skipped = Counter[str]()  # schedules that the solver abandoned, by reason: words after "3 schedules"
        self.stop = Stop.DONE  # as far as it is known
        self._noting = threading.Lock()
        self._stages = _Stages(progress)

    @property
    def report(self) -> Progress | None:
        """The progress callback."""
        return self._stages.report

    @property
    def has_stages(self) -> bool:
        """Whether a stage was begun."""
        return self._stages.begun

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
    def overdue(self) -> float:
        """Seconds since the deadline, 0 before it."""
        return 0.0 if self.deadline is None else max(0.0, time.monotonic() - self.deadline)

    def check(self) -> None:
        """Raise OutOfTime if the deadline has passed; loops of more than 50 ms call this as they go.

        After an interrupt it raises KeyboardInterrupt: signals reach the main thread alone, this every one.
        """
        if self.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if self.late:
            raise OutOfTime

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results of a function for each item, computed in as many threads as there are cores.

        The function catches what `check` raises and returns what it has. So an interrupt loses nothing: it ends all
        threads, and the next `check` raises it.

        Examples
        --------
        >>> Clock().map(len, ["a", "bc"])
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
                self.note(Stop.INTERRUPTED)
            while len(results) < len(calls):
                try:
                    results.append(calls[len(results)]())
                except KeyboardInterrupt:
                    self.note(Stop.INTERRUPTED)
        return results

    def stage(self, count: int, name: str = "candidates", *, part: float = 1.0) -> None:
        """Begin a stage of `count` steps, which is a part of the work that is left; `name` says what is counted.

        Without `part` it is all that is left. A search that does not know how many stages follow gives each a small
        part.
        """
        self._stages.start(count, name, part)

    def progress(self, done: int, so_far: str = "") -> None:
        """Report the steps of this stage that are done, with the result so far; then as `check`.

        Without a stage it is not known how many there are: they are only told.
        """
        if self.report is not None:
            with self._stages.lock:
                self._stages.advance(done - self._stages.done, so_far)
        self.check()

    def advance(self, steps: int, so_far: str = "") -> None:
        """As `progress`, for steps more; several threads may call it."""
        if self.report is not None:
            with self._stages.lock:
                self._stages.advance(steps, so_far)
        self.check()

    def within_stage(self, part: float = 1.0, name: str = "") -> Progress | None:
        """Begin a stage, a part of the work that is left, that another search reports; the callback for that.

        Examples
        --------
        >>> clock = Clock(progress=lambda done, total, what: print(done, total, what))
        >>> inner = Clock(progress=clock.within_stage(0.5, "bound: "))
        >>> inner.stage(4, "cuts")
        >>> inner.progress(2)
        250 1000 bound: 50 % of its cuts
        """
        self.stage(1, part=part)
        if self.report is None:
            return None
        stages = self._stages
        begin, end = stages.begin, stages.end

        def forward(done: int, total: int, what: str) -> None:
            with stages.lock:
                stages.notify(begin + (end - begin) * done / total, f"{name}{what}")

        return forward

    def finish(self) -> None:
        """Report that all is done; an interrupt comes too late."""
        with suppress(KeyboardInterrupt), self._stages.lock:
            self._stages.notify(1.0, self._stages.reported[1])

    def note(self, stop: Stop) -> None:
        """Note what stopped a part of the search, beside what is known; several threads may call it."""
        with self._noting:
            self.stop |= stop

    def share(self, part: float = 1.0, progress: Progress | None = None) -> "Clock":
        """The clock of one of several searches: a part of the time that is left."""
        return Clock(None if self.left is None else self.left * part, progress)


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
