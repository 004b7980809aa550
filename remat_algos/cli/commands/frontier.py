"""remat frontier: compute against memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remat_algos.cli.budget_argument import solvers_of
from remat_algos.cli.constraint_argument import add_constraints, constraints_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.link_argument import add_link, link_of
from remat_algos.cli.output import add_json, print_json, print_reasons, print_table, print_text
from remat_algos.cli.plot_argument import add_plot, check_plot, draw
from remat_algos.cli.search_argument import add_effort, add_seed, add_time_limit, search_limits
from remat_algos.text.wording import shortened

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.questions.frontier import Frontier
    from remat_algos.schedule.constraints import Constraints

HELP = "list the Pareto-optimal plans (compute over memory), from the lowest peak to no rematerialization"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the solvers, the number of budgets."""
    add_graph(parser)
    parser.add_argument("--solver", metavar="NAME,...", help="run only these solvers")
    parser.add_argument(
        "--points",
        type=int,
        default=20,
        metavar="N",
        help="number of plans to show, and of evenly spaced budgets within which plans are searched (20)",
    )
    add_link(parser)
    add_constraints(parser)
    add_effort(parser)
    add_time_limit(parser, "end SECONDS after the start, reading included, with the plans found so far")
    add_seed(parser)
    add_plot(parser, pictures=("frontier",))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """List the frontier; 2 if no solver can serve, 130 if interrupted."""
    from remat_algos.questions.frontier import frontier

    check_plot(arguments)
    if arguments.points < 2:
        raise argparse.ArgumentTypeError(f"--points {shortened(arguments.points)}: give 2 or more")
    solvers, link = solvers_of(arguments.solver), link_of(arguments)
    graph, note = graph_of(arguments)
    constraints = constraints_of(graph, arguments)
    if not arguments.json:
        print_text(note)
        if link is not None:
            print_text(f"overheads in time, with copies over {link}")
    with search_limits(arguments) as limits:
        found = frontier(graph, solvers=solvers, points=arguments.points, constraints=constraints, link=link, **limits)
    if arguments.json:
        print_json(found.record())
    else:
        _print(found, arguments.points, graph, constraints)
    if found.plans:
        draw(arguments, "frontier", found)
    return ExitCode.of(found.stop, ExitCode.DONE if found.plans else ExitCode.BAD_INPUT)


def _print(curve: Frontier, points: int, graph: ComputationGraph, constraints: Constraints | None) -> None:
    from remat_algos.text.units import exact_bytes, format_bytes

    print_text(f"no schedule goes below {exact_bytes(curve.bound_memory)}")
    if graph.resident_memory:
        print_text(f"residents: {format_bytes(graph.resident_memory)}")
    if constraints is not None:
        print_text(f"constraints: {constraints}")
    if curve.plans:
        hidden = () if graph.resident_memory else ("with residents",)
        print_table(curve.COLUMNS, curve.rows(points), hidden=hidden)
    shown = len(curve.sampled(points))
    if shown < len(curve.plans):
        print_text(f"{shown} of {len(curve.plans)} plans; --json lists all")
    print_reasons(curve.reasons)
    if reason := curve.stop.reason:
        print_text(f"{reason}{'; these are the plans found so far' if curve.plans else ' before any plan was found'}")
