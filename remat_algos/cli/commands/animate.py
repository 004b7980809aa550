"""remat animate: an animated plan, as SVG."""

import argparse
from typing import Any

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of, read_source
from remat_algos.cli.output import add_json, print_json, print_row, print_text, writable
from remat_algos.cli.steps_argument import add_steps, steps_of
from remat_algos.text.wording import shortened

HELP = "animate a plan: nodes light up as they run, values appear and disappear, a curve and a bar show the bytes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the plan, the file."""
    add_graph(parser)
    parser.add_argument(
        "plan", metavar="PLAN", nargs="?", help="a plan, written by remat solve -o (default: no rematerialization)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=writable, default="animation.svg", help="a file: .svg (animation.svg)"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="seconds per loop (1/3 s per step, 4 to 30 s)")
    add_steps(parser, "show")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Write the animation."""
    from pathlib import Path

    from remat_algos.plan.plan import Plan
    from remat_algos.plot.pictures.animation import MAX_SECONDS, animation, check_ending
    from remat_algos.schedule.baseline import baseline
    from remat_algos.text.units import format_bytes

    if arguments.seconds is not None and not 0 < arguments.seconds <= MAX_SECONDS:
        limits = f"give a finite number above 0, {MAX_SECONDS} at most"
        raise argparse.ArgumentTypeError(f"--seconds {shortened(arguments.seconds)}: {limits}")
    try:
        check_ending(arguments.output)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"-o {error}") from None
    subject: Any
    if arguments.plan is not None:
        subject = Plan.load(arguments.plan, read_source(arguments))
    else:
        subject, note = graph_of(arguments)
        if not arguments.json:
            print_text(note)
    schedule = subject.schedule if arguments.plan is not None else baseline(subject).schedule
    animated = animation(subject, seconds=arguments.seconds, steps=steps_of(arguments, schedule))
    animated.save(arguments.output)
    size = Path(arguments.output).stat().st_size
    if arguments.json:
        print_json({"written": str(arguments.output), "bytes": size, "seconds": animated.seconds})
    else:
        print_row("written", f"{arguments.output}, {format_bytes(size)}, {animated.seconds:g} s per loop")
    return ExitCode.DONE
