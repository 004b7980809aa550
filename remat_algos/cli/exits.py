"""The end of a command: exit codes, Ctrl-C and SIGTERM."""

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
    """A figure of a plan is false, or an execution differed from the prediction."""
    BAD_INPUT = 2
    """Or too little memory for it, or no solver that can serve."""
    INFEASIBLE = 3
    """No plan within the budget was found, or none exists."""
    FAILED = 4
    """Jobs of a sweep failed."""
    BUG = 70
    """An error in remat itself; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """By Ctrl-C, also where the best result until then is shown."""
    TERMINATED = 143
    """The same, by SIGTERM."""

    @classmethod
    def of(cls, stop: Stop, code: ExitCode | None = None) -> ExitCode:
        """Return the exit code after a search that ended with `stop`; without an interrupt `code`, by default DONE."""
        from remat_algos.context import Stop

        return cls.INTERRUPTED if stop is Stop.INTERRUPTED else cls.DONE if code is None else code


def interruptible(main: Callable[[], int]) -> int:
    """Run the command of this process; SIGTERM raises KeyboardInterrupt too. Returns the exit code.

    Neither breaks an import, which may hide the interrupt or turn it into another error.
    """
    received: list[int] = []
    raises = False  # neither while the handlers are set nor after the command

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
        raises = False  # a second signal may come before the line above
        print("remat: interrupted", file=sys.stderr)
        code = ExitCode.INTERRUPTED
    if _alarm is not None:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in handled:
        signal.signal(number, signal.SIG_IGN)  # the command is done
    return ExitCode.TERMINATED if code == ExitCode.INTERRUPTED and signal.SIGTERM in received else code


_alarm = getattr(signal, "SIGALRM", None)  # not on Windows
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
