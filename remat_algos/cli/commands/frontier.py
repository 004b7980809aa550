"""remat frontier: list the trade-off between compute and memory."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import add, add_plot, constraints_of, link_of, searching, whole_number
from remat_algos.questions.frontier import frontier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add(parser, "solvers")
    points = "number of plans to show, and of evenly spaced budgets to plan for (20)"
    parser.add_argument("--points", type=whole_number, default=20, metavar="N", help=points)
    add(parser, "copies", "constraints", "effort")
    add(parser, time_limit="stop SECONDS after the start, including reading, with the plans found until then")
    add(parser, "seed")
    add_plot(parser, "frontier")


def run(arguments: argparse.Namespace) -> ExitCode:
    """List the frontier. Exit code 2: no solver supports the graph; 130: interrupted."""
    link = link_of(arguments)
    graph, note = graph_of(arguments)
    constraints = constraints_of(arguments, graph)
    print_text(note)
    with searching(arguments) as search:
        result = frontier(graph, points=arguments.points, constraints=constraints, link=link, **search)
    print_result(arguments, result)
    if result.plans:
        draw(arguments, "frontier", result)
    return ExitCode.of(result.stop, ExitCode.DONE if result.plans else ExitCode.BAD_INPUT)
