"""remat frontier: compute against memory."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import add, add_plot, constraints_of, link_of, searching, whole_number
from remat_algos.questions.frontier import frontier


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
    with searching(arguments) as search:
        found = frontier(graph, points=arguments.points, constraints=constraints, link=link, **search)
    print_result(arguments, found)
    if found.plans:
        draw(arguments, "frontier", found)
    return ExitCode.of(found.stop, ExitCode.DONE if found.plans else ExitCode.BAD_INPUT)
