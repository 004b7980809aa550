"""remat frontier: what memory costs in compute."""

import argparse

from remat_algos.cli.budget_argument import solvers_of
from remat_algos.cli.constraint_argument import add_constraints, constraints_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import GradientOptions, add_graph, graph_of
from remat_algos.cli.output import (
    add_json,
    print_json,
    print_reasons,
    print_table,
    print_text,
    progress_line,
)
from remat_algos.cli.plot_argument import add_plot, check_plot, draw
from remat_algos.cli.search_argument import add_effort, add_seed, add_time_limit
from remat_algos.text.wording import shortened

HELP = "list the Pareto-optimal plans (compute over memory), from the lowest peak to no rematerialization"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, which solvers, how many budgets."""
    add_graph(parser)
    parser.add_argument("--solver", metavar="NAME,...", help="run only these solvers")
    parser.add_argument(
        "--points",
        type=int,
        default=20,
        metavar="N",
        help="number of plans to show, and of evenly spaced budgets within which plans are searched (20)",
    )
    add_constraints(parser)
    add_effort(parser)
    add_time_limit(parser, "end SECONDS after the start, reading included, with the plans found so far")
    add_seed(parser)
    add_plot(parser, pictures=("frontier",))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """List; 2 if no solver can serve, 130 if interrupted."""
    from remat_algos.context import time_left
    from remat_algos.plan.frontier import frontier
    from remat_algos.text.units import exact_bytes, format_bytes

    check_plot(arguments.plot, json=arguments.json)
    if arguments.points < 2:
        raise argparse.ArgumentTypeError(f"--points {shortened(arguments.points)}: give 2 or more")
    solvers = solvers_of(arguments.solver)
    graph, note = graph_of(arguments.graph, arguments.nodes, GradientOptions.of(arguments), json=arguments.json)
    constraints = constraints_of(graph, arguments.max_runs, arguments.fixed_order, arguments.region)
    if not arguments.json:
        print_text(note)
    with progress_line() as progress:
        found = frontier(
            graph,
            solvers=solvers,
            points=arguments.points,
            time_limit=time_left(arguments.time_limit, arguments.started),
            seed=arguments.seed,
            effort=arguments.effort,
            constraints=constraints,
            progress=progress,
        )
    if arguments.json:
        print_json(found.record())
    else:
        print_text(f"no schedule goes below {exact_bytes(found.bound_memory)}")
        if graph.resident_memory:
            print_text(f"residents: {format_bytes(graph.resident_memory)}")
        if constraints is not None:
            print_text(f"constraints: {constraints}")
        if found.plans:
            places = [i for i, name in enumerate(found.COLUMNS) if name != "with residents" or graph.resident_memory]
            rows = list(found.rows(arguments.points))
            print_table([found.COLUMNS[i] for i in places], [[row[i] for i in places] for row in rows])
        shown = len(found.sampled(arguments.points))
        if shown < len(found.plans):
            print_text(f"{shown} of {len(found.plans)} plans; --json lists all")
        print_reasons(found.reasons)
        if reason := found.stop.reason:
            so_far = "; these are the plans found so far" if found.plans else " before any plan was found"
            print_text(f"{reason}{so_far}")
    if found.plans:
        draw(arguments.plot, "frontier", found, json=arguments.json)
    return ExitCode.of(found.stop, ExitCode.DONE if found.plans else ExitCode.BAD_INPUT)
