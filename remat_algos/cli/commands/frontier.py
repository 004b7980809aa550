"""remat frontier: compute against memory."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import draw, print_reasons, print_result, print_table, print_text
from remat_algos.cli.shared_options import add, add_plot, constraints_of, link_of, searching, whole_number
from remat_algos.questions.frontier import Frontier, frontier
from remat_algos.schedule.constraints import Constraints
from remat_algos.wording import exact_bytes, format_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the solvers, the number of budgets."""
    add_graph(parser)
    add(parser, "solvers")
    points = "number of plans to show, and of evenly spaced budgets within which plans are searched (20)"
    parser.add_argument("--points", type=whole_number, default=20, metavar="N", help=points)
    add(parser, "copies", "constraints", "effort")
    add(parser, time_limit="end SECONDS after the start, reading included, with the plans found so far")
    add(parser, "seed")
    add_plot(parser, "frontier")


def run(arguments: argparse.Namespace) -> ExitCode:
    """List the frontier; 2 if no solver can serve, 130 if interrupted."""
    link = link_of(arguments)
    graph, note = graph_of(arguments)
    constraints = constraints_of(arguments, graph)
    print_text(note)
    if link is not None:
        print_text(f"overheads in time, with copies over {link}")
    with searching(arguments) as search:
        found = frontier(graph, points=arguments.points, constraints=constraints, link=link, **search)
    print_result(arguments, found)
    _print(found, arguments.points, constraints)
    if found.plans:
        draw(arguments, "frontier", found)
    return ExitCode.of(found.stop, ExitCode.DONE if found.plans else ExitCode.BAD_INPUT)


def _print(curve: Frontier, points: int, constraints: Constraints | None) -> None:
    print_text(f"no schedule goes below {exact_bytes(curve.bound_memory)}")
    resident = curve.graph.resident_memory
    if resident:
        print_text(f"residents: {format_bytes(resident)}")
    if constraints is not None:
        print_text(f"constraints: {constraints}")
    if curve.plans:
        print_table(curve.COLUMNS, curve.rows(points), hidden=() if resident else ("with residents",))
    shown = len(curve.sampled(points))
    if shown < len(curve.plans):
        print_text(f"{shown} of {len(curve.plans)} plans; --json lists all")
    print_reasons(curve.reasons)
    if reason := curve.stop.reason:
        print_text(f"{reason}{'; these are the plans found so far' if curve.plans else ' before any plan was found'}")
