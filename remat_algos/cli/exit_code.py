"""Exit codes of `remat`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of commands; docs/cli.md has the table."""

    DONE = 0
    FALSE_CLAIM = 1
    """A figure of a plan is false, or an execution differed from the prediction."""
    BAD_INPUT = 2
    """Or too little memory for it, or no solver that can serve."""
    INFEASIBLE = 3
    """No plan within the budget was found, or none exists."""
    BUG = 70
    """An error in remat itself; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """By Ctrl-C, also where the best result until then is shown."""
    TERMINATED = 143
    """The same, by SIGTERM."""
