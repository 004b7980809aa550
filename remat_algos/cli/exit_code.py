"""Exit codes of `remat`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat_algos.context import Stop


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
        """The code of a command after a search that ended so; without an interrupt `code`, by default DONE."""
        from remat_algos.context import Stop

        return cls.INTERRUPTED if stop is Stop.INTERRUPTED else cls.DONE if code is None else code
