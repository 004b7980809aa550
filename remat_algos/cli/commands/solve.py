"""remat solve: find a plan within a budget."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of, read_order, simulated
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import (
    PICTURES,
    TIMELINE,
    add,
    add_listing,
    add_plot,
    budget_of,
    constraints_of,
    library,
    link_of,
    options_of,
    searching,
)
from remat_algos.errors import RematError
from remat_algos.plan.plan import bounded
from remat_algos.search.solve import solve

SNAPSHOT = "snapshot"
# Output forms that do not contain a bound.
ORDERS_AND_TIMES = ("names", "actions", "trace", "policy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; the help lists solvers and their options, read from the solvers' signatures."""
    add_graph(parser)
    solver = "a solver listed below, or auto (default), which combines several solvers"
    add(parser, "limits", "copies", "solver", "options", solver=solver)
    parser.add_argument(
        "--raw",
        action="store_true",
        help="report the solver's plan unchanged, even if an improved plan or no rematerialization would be better",
    )
    parser.add_argument(
        "--start",
        metavar="FILE",
        help="start the search at your own schedule; if that fits the budget, the plan is never worse: a plan, a list "
        "of names or ids, lines `compute X` and `free Y`, or npz with matrices R and S",
    )
    limit = "stop SECONDS after the start, including reading and writing, with the best plan found until then"
    add(parser, "effort", "gap", "time_limit", "seed", "reservation", "constraints", time_limit=limit)
    add(parser, output="write the plan")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=library("plan.plan.check_form"),
        help="format of the output (-o, else standard output). plan: JSON (default); frees: JSON with the values to "
        "free after each step; names: the nodes in order; actions: lines `compute X` and `free Y`, with --link also "
        "`store Y` and `load Y`; trace: simulated runs, copies and bytes over time, for Perfetto or "
        "chrome://tracing; snapshot: allocations and frees, for pytorch.org/memory_viz (needs -o); "
        "policy: JSON with the tensors to keep, recompute and offload",
    )
    add_plot(parser, *PICTURES, TIMELINE)
    add_listing(parser, "solvers", library("solvers.registry.list_solvers"), flag="-O")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Solve, print the plan and write it. Exit code 130: interrupted."""
    if arguments.format == SNAPSHOT and not arguments.output:
        raise RematError("--format snapshot writes a pickle, not text; give -o FILE.pickle")
    link, options, form = link_of(arguments), options_of(arguments), arguments.format or "plan"
    alone = arguments.format is not None and not arguments.output
    order = read_order(arguments.start)
    graph, note = graph_of(arguments, order)
    budget, constraints = budget_of(arguments, graph), constraints_of(arguments, graph)
    start = None if order is None else simulated(graph, order).schedule
    print_text(note)
    with searching(arguments) as search:
        own = {"raw": arguments.raw, "constraints": constraints, "start": start, "link": link}
        plan = solve(graph, budget, **own, **search, **options)
        if not alone or form not in ORDERS_AND_TIMES:
            # The bound is computed inside `searching`, so the plan is kept if the user interrupts.
            plan = bounded(plan)
    if arguments.output:
        plan.save(arguments.output, form)
    if alone:
        print(plan.text(form), end="", file=arguments.stdout)
    written = ("written", arguments.output) if arguments.output else ("order", "-o PLAN.json writes it")
    print_result(arguments, plan, *([] if alone else [written]), **(plan.record(frees=True) if form == "frees" else {}))
    draw(arguments, arguments.picture or "memory", plan)
    return ExitCode.of(plan.report.stop)
