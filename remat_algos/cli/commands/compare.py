"""remat compare: run all solvers at one budget."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import add, budget_of, constraints_of, link_of, searching
from remat_algos.ir.budget import LEAST
from remat_algos.questions.compare import compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add(parser, "limits", "solvers")
    raw = "report each solver's plan unchanged, without the passes that improve plans"
    parser.add_argument("--raw", action="store_true", help=raw)
    add(
        parser,
        "effort",
        time_limit="stop SECONDS after the start, including reading, with the best plan of each solver until then",
    )
    add(parser, "seed", "copies", "reservation", "constraints")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compare solvers. Exit code 3: no plan meets the budget; 2: no solver supports the graph; 130: interrupted."""
    link = link_of(arguments)
    graph, note = graph_of(arguments)
    if arguments.budget is None and arguments.overhead is None and arguments.device is None:
        arguments.budget = LEAST
    budget, constraints = budget_of(arguments, graph), constraints_of(arguments, graph)
    print_text(note)
    with searching(arguments) as search:
        comparison = compare(graph, budget, polish=not arguments.raw, constraints=constraints, link=link, **search)
    print_result(arguments, comparison)
    code = ExitCode.INFEASIBLE if any(entry.reached is not None for entry in comparison.entries) else ExitCode.BAD_INPUT
    return ExitCode.of(comparison.stop, ExitCode.DONE if any(entry.plan for entry in comparison.entries) else code)
