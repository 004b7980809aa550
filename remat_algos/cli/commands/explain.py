"""remat explain: why a value is kept or recomputed."""

import argparse
from typing import TYPE_CHECKING

from remat_algos.cli.budget_argument import add_solver, options_of
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of, read_source
from remat_algos.cli.output import add_json, print_json, print_text
from remat_algos.cli.search_argument import add_time_limit, search_limits
from remat_algos.text.wording import shortened

if TYPE_CHECKING:
    from remat_algos.plan.plan import Plan

HELP = "explain why values are kept or recomputed: bytes, readers, and what the opposite decision would free or cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the plan or its solver, the value."""
    add_graph(parser)
    parser.add_argument("plan", metavar="PLAN", nargs="?", help="a plan of the graph, written by remat solve -o")
    add_solver(parser, "without PLAN: explain the plan of this solver", None)
    add_time_limit(parser, "without PLAN: end the search SECONDS after the start, with the best plan found so far")
    parser.add_argument("--value", metavar="NAME", help="explain only this value (default: the largest ones)")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="number of values to explain (10)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Explain a plan."""
    from remat_algos.questions.explain import explain

    if arguments.most < 0:
        raise argparse.ArgumentTypeError(f"--most {shortened(arguments.most)}: give 0 or more")
    explanation = explain(_plan(arguments), arguments.value, most=arguments.most)
    if arguments.json:
        print_json(explanation.record())
    else:
        print_text(explanation)
    return ExitCode.DONE


def _plan(arguments: argparse.Namespace) -> "Plan":
    """The plan in the file, or by the solver."""
    from remat_algos.plan.plan import Plan
    from remat_algos.plan.solve import solve

    if (arguments.plan is None) == (arguments.solver is None):
        both = "PLAN and --solver both name what to explain; leave out one"
        raise argparse.ArgumentTypeError(both if arguments.plan else "give PLAN, or --solver NAME to compute one")
    if arguments.plan is not None:
        if arguments.option:
            raise argparse.ArgumentTypeError(
                f"-O {shortened(arguments.option[0])}: the plan has its options; leave it out"
            )
        if arguments.time_limit is not None:
            raise argparse.ArgumentTypeError("--time-limit is for solving, but PLAN is already solved; leave it out")
        return Plan.load(arguments.plan, read_source(arguments))
    options = options_of(arguments.solver, arguments.option)
    graph, _ = graph_of(arguments)
    try:
        with search_limits(arguments) as limits:
            return solve(graph, solver=arguments.solver, **limits, **options)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{shortened(arguments.solver)}: {error}") from error
