"""Exit codes of commands, and the handling of Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from enum import IntEnum
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat_algos.context import Stop

_IMPORTING = "<frozen importlib._bootstrap>"


class ExitCode(IntEnum):
    """Exit codes of commands; docs/cli.md has the table."""

    DONE = 0
    FALSE_CLAIM = 1
    """A number in a plan is wrong, or an execution differs from the prediction."""
    BAD_INPUT = 2
    """Invalid input, too little memory to process it, or no solver that supports the graph."""
    INFEASIBLE = 3
    """No plan within the budget was found."""
    FAILED = 4
    """Jobs of a sweep failed."""
    BUG = 70
    """An error in remat itself; the value is EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Interrupted by Ctrl-C, even if the best result before the interrupt is printed."""
    TERMINATED = 143
    """Interrupted by SIGTERM."""

    @classmethod
    def of(cls, stop: Stop, code: ExitCode | None = None) -> ExitCode:
        """Return INTERRUPTED if the search was interrupted, else `code`, by default DONE."""
        from remat_algos.context import Stop

        return cls.INTERRUPTED if stop is Stop.INTERRUPTED else cls.DONE if code is None else code


def interruptible(main: Callable[[], int]) -> int:
    """Run a command and return its exit code; SIGTERM raises KeyboardInterrupt, like Ctrl-C.

    No signal interrupts an import, because imports can hide an interrupt or turn it into another error. Instead a timer
    repeats the signal until the import is over.
    """
    received: list[int] = []
    # False while handlers are being set, and after the command.
    raises = False

    def stop(number: int, frame: FrameType | None) -> None:
        if number != _alarm:
            received.append(number)
        if not raises:
            return
        if _alarm is not None and _imports(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            return
        raise KeyboardInterrupt

    handled: list[int] = []
    try:
        try:
            for number, usual in _USUAL:
                # Replace only the default handler: shells set SIG_IGN for background jobs.
                if signal.getsignal(number) is usual:
                    handled.append(number)
                    signal.signal(number, stop)
            raises = True
            if received:
                raise KeyboardInterrupt
            code = main()
        finally:
            raises = False
    except KeyboardInterrupt:
        # A second signal can arrive before the `finally` clause above runs.
        raises = False
        print("remat: interrupted", file=sys.stderr)
        code = ExitCode.INTERRUPTED
    if _alarm is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in handled:
        signal.signal(number, signal.SIG_IGN)
    return ExitCode.TERMINATED if code == ExitCode.INTERRUPTED and signal.SIGTERM in received else code


_alarm = getattr(signal, "SIGALRM", None)  # Windows has no SIGALRM
_USUAL = (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    *([(_alarm, signal.SIG_DFL)] if _alarm is not None else []),
)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
