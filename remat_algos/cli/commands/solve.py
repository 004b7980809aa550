"""remat solve: a plan within a budget."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from remat_algos.cli.allocator_argument import add_reservation, reservation_options
from remat_algos.cli.budget_argument import add_budget, add_solver, budget_of, check_budget, options_of
from remat_algos.cli.constraint_argument import add_constraints, constraints_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, files_of, graph_of
from remat_algos.cli.link_argument import TIMELINE, add_link, check_timeline, link_of
from remat_algos.cli.order_argument import simulated_order
from remat_algos.cli.output import add_json, add_listing, check_overwrite, print_json, print_row, print_text, writable
from remat_algos.cli.plot_argument import PICTURES, add_plot, check_plot, draw
from remat_algos.cli.search_argument import add_effort, add_gap, add_seed, add_time_limit, search_limits
from remat_algos.text.wording import shortened, shortened_path

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.plan.plan import Plan

SNAPSHOT = "snapshot"
ORDERS_AND_TIMES = ("names", "actions", "trace", "policy")  # tell nothing of the bound

HELP = "find an order of execution whose peak stays within a budget, with as little compute as possible"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; solvers and their options are read from their signatures."""
    from remat_algos.cli.outline import outlines

    add_graph(parser)
    add_budget(parser)
    add_link(parser)
    add_solver(parser, "a solver listed below; auto (default): the best of all")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="report the solver's plan unchanged, even if improving it, or no rematerialization, would be better",
    )
    parser.add_argument(
        "--start",
        metavar="FILE",
        help="a schedule of your own at which the search begins, and which the plan is never worse than where it fits: "
        "a plan, a list of names or ids, lines `compute X` and `free Y`, or npz with matrices R and S",
    )
    add_effort(parser)
    add_gap(parser)
    limit = "end SECONDS after the start, reading and writing included, with the best plan found so far"
    add_time_limit(parser, limit)
    add_seed(parser)
    add_reservation(parser)
    add_constraints(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=writable, help="write the plan")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        choices=("plan", "frees", "names", "actions", "trace", SNAPSHOT, "policy"),
        help="FORMAT of the output (-o, else standard output): plan: JSON (default); frees: JSON with the values to "
        "free after each step; names: the nodes in order; actions: lines `compute X` and `free Y`, with --link also "
        "`store Y` and `load Y`; trace: runs, copies and bytes over time, simulated, for Perfetto or "
        "chrome://tracing; snapshot: allocations and frees, for pytorch.org/memory_viz (needs -o); "
        "policy: what each module keeps, recomputes and offloads, as JSON",
    )
    add_plot(parser, (*PICTURES, TIMELINE))
    add_json(parser)
    add_listing(parser, "solvers", outlines("solvers/methods", "solver"), flag="-O")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Solve, print the plan and write it; 130 if interrupted, with the best plan so far."""
    from remat_algos.formats.orders import Order

    check_plot(arguments)
    check_timeline(arguments.picture, arguments.link)
    _check_output(arguments)
    request = {"budget": budget_of(arguments), "link": link_of(arguments), **reservation_options(arguments)}
    options = options_of(arguments.solver, arguments.option)
    form = arguments.format or "plan"
    alone = arguments.format is not None and not arguments.output  # standard output gets only the plan
    order = None if arguments.start is None else Order.read(arguments.start)
    graph, note = graph_of(arguments, order)
    check_budget(request["budget"], arguments.overhead, graph)
    request["constraints"] = constraints_of(graph, arguments)
    request["start"] = None if order is None else simulated_order(graph, order).schedule
    out = sys.stderr if alone else sys.stdout
    if not arguments.json:
        print_text(note, file=out)
    plan = _solved(arguments, graph, request, options)
    if arguments.output:
        plan.save(arguments.output, form)
    if alone:
        print(plan.text(form), end="")
    if arguments.json:
        print_json(plan.record(frees=form == "frees"))
    else:
        print_text(plan, file=out)
        if not alone:
            label, text = ("written", arguments.output) if arguments.output else ("order", "-o PLAN.json writes it")
            print_row(label, text)
    draw(arguments, arguments.picture or "memory", plan, out=out)
    return ExitCode.of(plan.report.stop)


def _solved(
    arguments: argparse.Namespace, graph: ComputationGraph, request: Mapping[str, Any], options: Mapping[str, Any]
) -> Plan:
    """The plan of the solver; errors name the graph, or the solver whose option is wrong."""
    from remat_algos.errors import GraphError
    from remat_algos.plan.plan import bounded
    from remat_algos.plan.solve import solve

    own = {name: getattr(arguments, name) for name in ("solver", "raw", "gap")}
    with search_limits(arguments) as limits:
        try:
            plan = solve(graph, **request, **own, **limits, **options)
        except GraphError as error:
            remedy = "; leave out --inference" if arguments.inference else ""
            raise GraphError(f"{shortened_path(arguments.graph)}: {error}{remedy}") from error
        except (TypeError, ValueError) as error:
            if not options and request["start"] is None and request["link"] is None:
                raise
            solver = f"{shortened(arguments.solver)}: " if options else ""
            raise argparse.ArgumentTypeError(f"{solver}{error}") from error  # it cannot take that
        if arguments.format in ORDERS_AND_TIMES and not arguments.output:
            return plan
        return bounded(plan)  # here, where an interrupt leaves the plan


def _check_output(arguments: argparse.Namespace) -> None:
    """Check that no input is overwritten, and that at most one output is standard output."""
    check_overwrite(arguments.output, files_of(arguments), "the graph")
    check_overwrite(arguments.output, [] if arguments.start is None else [arguments.start], "the start")
    rival = "--json" if arguments.json else "--plot -" if arguments.plot == "-" else None
    if arguments.format == SNAPSHOT and not arguments.output:
        raise argparse.ArgumentTypeError("--format snapshot is a pickle, not text; give -o FILE.pickle")
    if arguments.format and not arguments.output and rival:
        message = f"{rival} and --format both want standard output; give -o FILE, or one of them"
        raise argparse.ArgumentTypeError(message)
