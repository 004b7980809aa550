"""remat animate: animate a plan as SVG."""

import argparse
from pathlib import Path
from typing import Any

from remat_algos.cli.graph_argument import add_graph, graph_of, read_source
from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import add, number, steps_of, writable
from remat_algos.plan.plan import Plan
from remat_algos.result import Summary
from remat_algos.schedule.emission import baseline
from remat_algos.wording import format_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument(
        "plan", metavar="PLAN", nargs="?", help="a plan written by remat solve -o (default: no rematerialization)"
    )
    where = "file to write, .svg (default: animation.svg)"
    parser.add_argument("-o", "--output", metavar="FILE", type=_animation, default="animation.svg", help=where)
    length = "seconds per loop (default: 1/3 s per step, at least 4 s and at most 30 s)"
    parser.add_argument("--seconds", type=number, metavar="S", help=length)
    others = "other plans for the graph; choose axes long enough for all plans, so that animations can be compared"
    parser.add_argument("--compare", metavar="PLAN", nargs="+", default=[], help=others)
    add(parser, steps="show only steps A to B - 1 (default: all)")


def run(arguments: argparse.Namespace) -> None:
    from remat_algos.plot.pictures.animation import animation

    subject: Any
    compared: list[Plan] = []
    if arguments.compare:
        source = read_source(arguments)
        compared = [Plan.load(path, source) for path in arguments.compare]
    if arguments.plan is not None:
        subject = Plan.load(arguments.plan, read_source(arguments))
        count = len(subject.schedule)
    else:
        subject, note = graph_of(arguments)
        print_text(note)
        count = len(baseline(subject).schedule)
    steps = steps_of(arguments, count)
    animated = animation(subject, seconds=arguments.seconds, steps=steps, compared=compared)
    animated.save(arguments.output)
    size = Path(arguments.output).stat().st_size
    record = {"written": arguments.output, "bytes": size, "seconds": animated.seconds}
    line = f"{arguments.output}, {format_bytes(size)}, {animated.seconds:g} s per loop"
    print_result(arguments, Summary(record, [("written", line)]))


def _animation(path: str) -> str:
    from remat_algos.plot.pictures.animation import check_ending

    check_ending(path)
    return writable(path)
