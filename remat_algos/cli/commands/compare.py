"""remat compare: all solvers at one budget."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remat_algos.cli.allocator_argument import add_reservation, reservation_options
from remat_algos.cli.budget_argument import add_budget, budget_of, check_budget, solvers_of
from remat_algos.cli.constraint_argument import add_constraints, constraints_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.link_argument import add_link, link_of
from remat_algos.cli.output import add_json, print_json, print_reasons, print_table, print_text
from remat_algos.cli.search_argument import add_effort, add_seed, add_time_limit, search_limits

if TYPE_CHECKING:
    from remat_algos.ir.budget import Budget
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.questions.compare import Comparison
    from remat_algos.schedule.constraints import Constraints

HELP = "run every solver at one budget, and list their plans side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the budget, the solvers."""
    add_graph(parser)
    add_budget(parser)
    parser.add_argument("--solver", metavar="NAME,...", help="run only these solvers; auto: the best of all")
    raw = "report each solver's plan unchanged, without the passes that improve it"
    parser.add_argument("--raw", action="store_true", help=raw)
    add_effort(parser)
    limit = "end SECONDS after the start, reading included, with each solver's best plan so far"
    add_time_limit(parser, limit)
    add_seed(parser)
    add_link(parser)
    add_reservation(parser)
    add_constraints(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compare; 3 if no solver meets the budget, 2 if none can serve the graph, 130 if interrupted."""
    from remat_algos.ir.budget import LEAST, Budget
    from remat_algos.questions.compare import compare

    budget, names = budget_of(arguments), solvers_of(arguments.solver, auto=True)
    reserving, link = reservation_options(arguments), link_of(arguments)
    graph, note = graph_of(arguments)
    if budget.memory is None and budget.overhead is None and budget.device is None:
        budget = Budget(LEAST)  # the best plans of each solver, side by side
    check_budget(budget, arguments.overhead, graph)
    constraints = constraints_of(graph, arguments)
    if not arguments.json:
        print_text(note)
    with search_limits(arguments) as limits:
        comparison = compare(
            graph,
            budget,
            solvers=names,
            polish=not arguments.raw,
            constraints=constraints,
            link=link,
            **limits,
            **reserving,
        )
    if arguments.json:
        print_json(comparison.record())
    else:
        if link is not None:
            print_text(f"overheads in time, with copies over {link}")
        _print(comparison, budget, graph, constraints)
    code = ExitCode.INFEASIBLE if any(entry.reached is not None for entry in comparison.entries) else ExitCode.BAD_INPUT
    return ExitCode.of(comparison.stop, ExitCode.DONE if any(entry.plan for entry in comparison.entries) else code)


def _print(comparison: Comparison, budget: Budget, graph: ComputationGraph, constraints: Constraints | None) -> None:
    from remat_algos.text.units import fine_percent, format_bytes

    print_text(f"budget: {budget}")
    if constraints is not None:
        print_text(f"constraints: {constraints}")
    if graph.resident_memory:
        print_text(f"residents: {format_bytes(graph.resident_memory)}")
    rows, hidden = list(comparison.rows()), set() if graph.resident_memory else {"with residents"}
    found = [entry.plan.bound for entry in comparison.entries if entry.plan is not None]
    bounds = {(bound.compute, bound.source) for bound in found if bound is not None}
    if len(bounds) == 1:  # of one limit; else each plan is measured by its own peak
        ((bound, source),) = bounds
        extra = fine_percent(bound - graph.needed_compute, graph.needed_compute)
        print_text(f"lower bound: {extra} more than one pass, by {source}")
        hidden.add("bound")
    hidden.add(comparison.columns[-1])  # the notes, which follow the table
    print_table(comparison.columns, [row for row in rows if row[1]], hidden=hidden)
    notes = {row[0]: row[-1].removeprefix(f"{row[0]} cannot serve this graph: ") for row in rows if row[-1]}
    print_reasons(notes)
