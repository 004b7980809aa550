"""--steps A:B: a part of a schedule."""

import argparse
import re
from typing import Any

from remat_algos.text.wording import quoted, shortened

_RANGE = re.compile(r"(\d{0,18}):(\d{0,18})", re.ASCII)


def add_steps(parser: argparse.ArgumentParser, use: str) -> None:
    """Add --steps; its help begins with `use`."""
    parser.add_argument("--steps", metavar="A:B", type=_parts, help=f"{use} only steps A to B - 1 (all)")


def steps_of(arguments: argparse.Namespace, schedule: Any) -> range | None:
    """The steps of a schedule that are asked for; None for all."""
    if arguments.steps is None:
        return None
    from remat_algos.schedule.step_rows import step_remedy

    text, begin, end = arguments.steps
    count = len(schedule)
    steps = range(int(begin or 0), int(end) if end else count)
    if not steps or steps.stop > count:
        raise argparse.ArgumentTypeError(f"--steps {shortened(text)}: {step_remedy(count)}")
    return steps


def _parts(text: str) -> tuple[str, str, str]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{quoted(text)}: give a first step and an end, such as 0:100")
    return text, found[1], found[2]
