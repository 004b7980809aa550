"""Time that is left, and news for whoever waits."""

import time

from remat_algos.context import Progress


class OutOfTime(Exception):
    """The time limit is reached."""


class Watch:
    """Counts what a solver has done, stage after stage, and stops it at its time limit.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    progress : callable, optional
        Called with (done, of how many that are known of, what).

    Examples
    --------
    >>> watch = Watch(progress=lambda done, total, what: print(done, total, what))
    >>> for stage in ("search", "judge"):
    ...     watch.begin(2, stage)
    ...     watch.reached(2)
    2 2 search
    4 4 judge
    """

    def __init__(self, time_limit: float | None = None, progress: Progress | None = None) -> None:
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.progress = progress
        self.before = self.told = self.total = 0
        self.what = ""

    def begin(self, count: int, what: str) -> None:
        """A stage of so many things begins."""
        self.before = self.total
        self.total += count
        self.what = what

    def reached(self, done: int) -> None:
        """So many of the stage are done; OutOfTime if the limit is past."""
        self._tell(done)
        if self.late:
            raise OutOfTime

    def _tell(self, done: int) -> None:
        now = self.before + done
        if self.progress is not None and now > self.told:
            self.told = now
            self.progress(now, self.total, self.what)

    def stage(self, count: int) -> Progress | None:
        """A stage of so many things begins; what to call for each."""
        self.begin(count, "")
        if self.progress is None:
            return None

        def tell(done: int, total: int, what: str) -> None:
            self.what = what
            self._tell(done)

        return tell

    @property
    def late(self) -> bool:
        """Whether the limit is past."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def left(self) -> float | None:
        """Seconds to the limit, None if there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
