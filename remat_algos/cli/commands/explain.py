"""remat explain: explain why values are kept or recomputed."""

import argparse

from remat_algos.cli.graph_argument import add_graph, graph_of, read_source
from remat_algos.cli.output import print_result
from remat_algos.cli.shared_options import add, check_solved, options_of, searching, whole_number
from remat_algos.errors import RematError
from remat_algos.plan.plan import Plan
from remat_algos.questions.explain import explain
from remat_algos.search.solve import solve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument("plan", metavar="PLAN", nargs="?", help="a plan for the graph, written by remat solve -o")
    add(parser, solver="without PLAN: explain the plan of this solver")
    parser.set_defaults(solver=None)
    limit = "without PLAN: stop the search SECONDS after the start, with the best plan found until then"
    add(parser, "options", time_limit=limit)
    parser.add_argument("--value", metavar="NAME", help="explain only this value (default: the largest ones)")
    parser.add_argument(
        "--most", type=whole_number, default=10, metavar="N", help="number of values to explain (default: 10)"
    )


def run(arguments: argparse.Namespace) -> None:
    print_result(arguments, explain(_plan(arguments), arguments.value, most=arguments.most))


def _plan(arguments: argparse.Namespace) -> "Plan":
    if arguments.plan is None and arguments.solver is None:
        raise RematError("give PLAN, or --solver NAME to compute one")
    if arguments.plan is None:
        options = options_of(arguments)
        graph, _ = graph_of(arguments)
        with searching(arguments) as search:
            return solve(graph, **search, **options)
    check_solved(arguments, arguments.plan)
    return Plan.load(arguments.plan, read_source(arguments))
