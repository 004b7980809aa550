"""remat compare: all solvers at one budget."""

import argparse

from remat_algos.cli.allocator_argument import add_reservation, reservation_options
from remat_algos.cli.budget_argument import add_budget, budget_of, check_budget, solvers_of
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
from remat_algos.cli.search_argument import add_effort, add_seed, add_time_limit

HELP = "run every solver at one budget, and list their plans side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, the budget, which solvers."""
    add_graph(parser)
    add_budget(parser)
    parser.add_argument("--solver", metavar="NAME,...", help="run only these solvers; auto: the best of all")
    raw = "report each solver's plan unchanged, without the passes that improve it"
    parser.add_argument("--raw", action="store_true", help=raw)
    add_effort(parser)
    limit = "end SECONDS after the start, reading included, with each solver's best plan so far"
    add_time_limit(parser, limit)
    add_seed(parser)
    add_reservation(parser)
    add_constraints(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compare; 3 if no solver meets the budget, 2 if none can serve the graph, 130 if interrupted."""
    from remat_algos.context import time_left
    from remat_algos.ir.budget import LEAST, Budget
    from remat_algos.plan.compare import compare
    from remat_algos.text.units import fine_percent, format_bytes

    budget, names = (
        budget_of(arguments.budget, arguments.overhead, arguments.device),
        solvers_of(arguments.solver, auto=True),
    )
    reserving = reservation_options(arguments.allocator, arguments.alignment)
    graph, note = graph_of(arguments.graph, arguments.nodes, GradientOptions.of(arguments), json=arguments.json)
    if budget.memory is None and budget.overhead is None and budget.device is None:
        budget = Budget(LEAST)  # what each solver can reach, side by side
    check_budget(budget, arguments.overhead, graph)
    constraints = constraints_of(graph, arguments.max_runs, arguments.fixed_order, arguments.region)
    if not arguments.json:
        print_text(note)
    with progress_line() as progress:
        comparison = compare(
            graph,
            budget,
            solvers=names,
            time_limit=time_left(arguments.time_limit, arguments.started),
            seed=arguments.seed,
            effort=arguments.effort,
            polish=not arguments.raw,
            constraints=constraints,
            progress=progress,
            **reserving,
        )
    if arguments.json:
        print_json(comparison.record())
    else:
        print_text(f"budget: {budget}")
        if constraints is not None:
            print_text(f"constraints: {constraints}")
        if graph.resident_memory:
            print_text(f"residents: {format_bytes(graph.resident_memory)}")
        rows, hidden = list(comparison.rows()), set() if graph.resident_memory else {"with residents"}
        bounds = {(entry.plan.bound, entry.plan.bound_source) for entry in comparison.entries if entry.plan is not None}
        if len(bounds) == 1:  # of one limit; else each plan is measured by its own peak
            ((bound, source),) = bounds
            extra = fine_percent((bound or 0) - graph.needed_compute, graph.needed_compute)
            print_text(f"lower bound: {extra} more than one pass, by {source}")
            hidden.add("bound")
        shown = [i for i, name in enumerate(comparison.columns[:-1]) if name not in hidden]
        print_table([comparison.columns[i] for i in shown], [[row[i] for i in shown] for row in rows if row[1]])
        notes = {row[0]: row[-1].removeprefix(f"{row[0]} cannot serve this graph: ") for row in rows if row[-1]}
        print_reasons(notes)
    code = ExitCode.INFEASIBLE if any(entry.reached is not None for entry in comparison.entries) else ExitCode.BAD_INPUT
    return ExitCode.of(comparison.stop, ExitCode.DONE if any(entry.plan for entry in comparison.entries) else code)
