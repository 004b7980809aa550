"""remat run: run a plan and compare it with the prediction."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remat_algos.cli.budget_argument import add_budget, add_solver, budget_of, check_budget, options_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.link_argument import add_link, link_of
from remat_algos.cli.output import add_json, print_json, print_table, print_text
from remat_algos.cli.plot_argument import add_plot, check_plot, draw
from remat_algos.cli.search_argument import add_seed, add_time_limit, search_limits, whole_number
from remat_algos.text.wording import shortened, shortened_path

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.plan.plan import Plan
    from remat_algos.schedule.schedule import Schedule

HELP = "run a plan on NumPy or a GPU and compare memory, values and times with the prediction"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the budget or a plan, the backend."""
    add_graph(parser)
    add_budget(parser)
    add_link(parser)
    add_solver(parser, "a solver (remat solve --help) or auto: the best")
    add_time_limit(parser, "end the search SECONDS after the start, with the best plan found so far")
    add_seed(parser)
    parser.add_argument(
        "--plan", metavar="FILE", help="run this plan, or an order as for remat simulate, instead of solving"
    )
    group = parser.add_argument_group("execution; exit code 1 if it differs from the prediction")
    group.add_argument(
        "--backend", choices=("numpy", "cupy"), default="numpy", help="numpy: the CPU (default); cupy: the GPU"
    )
    group.add_argument(
        "--arena",
        action="store_true",
        help="run in one arena, every value at a fixed address, and compare all values with a run that allocates each; "
        "the budget limits live bytes with or without it",
    )
    group.add_argument("--repeats", type=whole_number, default=3, metavar="K", help="number of timed runs (3)")
    group.add_argument(
        "--shrink", type=whole_number, default=1, metavar="N", help="divide all sizes by N, rounded up, before planning"
    )
    add_plot(parser, pictures=("validation",))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Solve or read a plan, run it and print the measurements; 1 if they differ from the prediction."""
    from remat_algos.executor.array_backend import backend
    from remat_algos.executor.validate import validate
    from remat_algos.plan.plan import Plan

    check_plot(arguments)
    _check(arguments)
    backend(arguments.backend)  # before the search: without it there is nothing to search for
    graph, plan, note = _planned(arguments)
    if not arguments.json:
        print_text(note)
        if isinstance(plan, Plan):
            print_text(plan)
    found = validate(
        graph, plan, arguments.backend, arena=arguments.arena, repeats=arguments.repeats, seed=arguments.seed
    )
    if arguments.json:
        solver, method, limit = (plan.solver, plan.method, plan.limit) if isinstance(plan, Plan) else (None, None, None)
        planned = {"solver": solver, "method": method, "limit": limit, "shrink": arguments.shrink}
        print_json(found.record() | planned)
    else:
        print_table(("", ""), found.rows(), headed=False)
    draw(arguments, "validation", found)
    return ExitCode.DONE if found.holds else ExitCode.FALSE_CLAIM


def _check(arguments: argparse.Namespace) -> None:
    """Check combinations of arguments before the work."""
    from remat_algos.executor.shrinking import LARGEST

    if not 1 <= arguments.shrink <= LARGEST:
        expected = "1 or more" if arguments.shrink < 1 else f"at most {LARGEST}"
        raise argparse.ArgumentTypeError(f"--shrink {shortened(arguments.shrink)}: give {expected}")
    if arguments.plan is None:
        return
    given = {
        "--budget": arguments.budget,
        "--overhead": arguments.overhead,
        "--device": arguments.device,
        "--link": arguments.link,
        "--host": arguments.host,
        "--solver": None if arguments.solver == "auto" else arguments.solver,
        "-O": arguments.option or None,
        "--time-limit": arguments.time_limit,
    }
    for option in (name for name, value in given.items() if value is not None):
        raise argparse.ArgumentTypeError(
            f"{shortened(option)} is for solving, but --plan {shortened_path(arguments.plan)} is already solved; "
            "leave it out"
        )


def _planned(arguments: argparse.Namespace) -> tuple[ComputationGraph, Plan | Schedule, str]:
    """The graph that runs, the plan or the order, and a line about changes of the graph."""
    from remat_algos.cli.order_argument import simulated_order
    from remat_algos.formats.orders import Order
    from remat_algos.plan.plan import Plan

    order = None if arguments.plan is None else Order.read(arguments.plan)
    graph, note = graph_of(arguments, order)
    if order is not None and order.is_plan:
        plan = Plan.load(arguments.plan, graph)  # every claim is checked
        graph = plan.graph
        if arguments.shrink == 1:
            return graph, plan, note
    graph, shrunk = _shrunk(graph, arguments.shrink)
    if order is not None:
        return graph, simulated_order(graph, order).schedule, note + shrunk
    return graph, _solved(arguments, graph), note + shrunk


def _shrunk(graph: ComputationGraph, by: int) -> tuple[ComputationGraph, str]:
    """The graph with smaller values, and the end of a sentence about it."""
    from remat_algos.executor.shrinking import shrink

    return (graph, "") if by == 1 else (shrink(graph, by), f"; all sizes divided by {by:,}")


def _solved(arguments: argparse.Namespace, graph: ComputationGraph) -> Plan:
    """A plan within the budget."""
    from remat_algos.plan.request import check_link_goes_with
    from remat_algos.plan.solve import solve

    budget, options = budget_of(arguments), options_of(arguments.solver, arguments.option)
    check_budget(budget, arguments.overhead, graph)
    link = link_of(arguments)
    if link is not None:
        try:
            check_link_goes_with(budget)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    with search_limits(arguments, keeps=False) as limits:
        try:
            plan = solve(graph, budget, solver=arguments.solver, link=link, **limits, **options)
        except (TypeError, ValueError) as error:
            if not options:
                raise
            message = f"{shortened(arguments.solver)}: {error}"
            raise argparse.ArgumentTypeError(message) from error  # a value it cannot take
    plan.report.stop.check("interrupted while solving, so nothing was run; --time-limit makes solvers stop sooner")
    return plan
