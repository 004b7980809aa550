"""remat run: run a plan and compare memory, values and times with the prediction."""

from __future__ import annotations

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of, read_order, simulated
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import (
    add,
    add_plot,
    budget_of,
    check_solved,
    link_of,
    options_of,
    searching,
    whole_number,
)
from remat_algos.executor.run import shrink
from remat_algos.executor.validate import validate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.schedule import Schedule
from remat_algos.search.solve import solve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    solver = "a solver listed by remat solve --help, or auto (default), which combines several solvers"
    add(parser, "limits", "copies", "solver", "options", solver=solver)
    add(parser, time_limit="stop the search SECONDS after the start, with the best plan found until then")
    add(parser, "seed")
    parser.add_argument(
        "--plan", metavar="FILE", help="run this plan, or an order as for remat simulate, instead of solving"
    )
    group = parser.add_argument_group("execution (exit code 1 if it differs from the prediction)")
    backends = "numpy: the CPU (default); cupy: the GPU"
    group.add_argument("--backend", choices=("numpy", "cupy"), default="numpy", help=backends)
    group.add_argument(
        "--arena",
        action="store_true",
        help="run in one arena with every value at a fixed address, and compare all values with a run that allocates "
        "each value separately; the budget limits live bytes in both cases",
    )
    group.add_argument("--repeats", type=whole_number, default=3, metavar="K", help="number of timed runs (default: 3)")
    shrunk = "divide all sizes by N, rounded up, before planning"
    group.add_argument("--shrink", type=whole_number, default=1, metavar="N", help=shrunk)
    add_plot(parser, "validation")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Solve or read a plan, run it and print the measurements. Exit code 1: they differ from the prediction."""
    from remat_algos.executor.array_backend import backend

    if arguments.plan is not None:
        check_solved(arguments, arguments.plan)
    # Raise errors about the backend before the search.
    backend(arguments.backend)
    graph, plan, note = _planned(arguments)
    print_text(note)
    if isinstance(plan, Plan):
        print_text(plan)
    validation = validate(
        graph, plan, arguments.backend, arena=arguments.arena, repeats=arguments.repeats, seed=arguments.seed
    )
    planned = {name: getattr(plan, name, None) for name in ("solver", "method", "limit")}
    print_result(arguments, validation, **planned, shrink=arguments.shrink)
    draw(arguments, "validation", validation)
    return ExitCode.DONE if validation.holds else ExitCode.FALSE_CLAIM


def _planned(arguments: argparse.Namespace) -> tuple[ComputationGraph, Plan | Schedule, str]:
    order = read_order(arguments.plan)
    graph, note = graph_of(arguments, order)
    if order is not None and order.is_plan:
        plan = Plan.load(arguments.plan, graph)
        graph = plan.graph
        if arguments.shrink == 1:
            return graph, plan, note
    if arguments.shrink != 1:
        graph, note = shrink(graph, arguments.shrink), f"{note}; all sizes divided by {arguments.shrink:,}"
    return graph, _solved(arguments, graph) if order is None else simulated(graph, order).schedule, note


def _solved(arguments: argparse.Namespace, graph: ComputationGraph) -> Plan:
    budget, options, link = budget_of(arguments, graph), options_of(arguments), link_of(arguments)
    with searching(arguments, keeps=False) as search:
        plan = solve(graph, budget, link=link, **search, **options)
    plan.report.stop.check("interrupted while solving, so nothing was run; --time-limit makes solvers stop sooner")
    return plan
