"""remat solve: a plan within a budget."""

import argparse
from pathlib import Path

from remat_algos.cli.budget_argument import add_budget, add_search, budget_of, options_of
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import add_json, progress_line, say_json, writable

HELP = "find an order of running the nodes whose peak stays within a budget, at the least compute"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments; the solvers and their options are read off their signatures."""
    from remat_algos.solvers.registry import list_solvers

    add_graph(parser)
    add_budget(parser)
    parser.add_argument("--solver", default="auto", metavar="NAME", help="one of those below, or auto: the best of all")
    parser.add_argument(
        "-O", "--option", metavar="NAME=VALUE", action="append", default=[], help="option of the solver"
    )
    parser.add_argument(
        "--raw", action="store_true", help="the solver's plan even where no rematerialization is better"
    )
    add_search(parser)
    parser.add_argument("-o", "--output", metavar="PLAN.json", type=writable, help="write the plan, with its order")
    parser.add_argument("--frees", action="store_true", help="say in the plan what may be freed after each step")
    add_json(parser)
    lines = []
    for solver in list_solvers():
        lines.append(f"  {solver.name:<16} {solver.summary}")
        options = ", ".join(f"{name}={default}" for name, default in solver.options.items())
        lines += [f"  {'':<16} -O {options}"] if options else []
    parser.epilog = "solvers:\n" + "\n".join(lines)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(arguments: argparse.Namespace) -> int:
    """Solve, say what came out, and write it."""
    from remat_algos.errors import GraphError
    from remat_algos.plan.solve import solve

    budget, options = budget_of(arguments), options_of(arguments.solver, arguments.option)
    if arguments.output and Path(arguments.output).resolve() == Path(arguments.graph).resolve():
        raise argparse.ArgumentTypeError(f"-o {arguments.output} would overwrite the graph; name another file")
    graph, said = graph_of(arguments)
    if not arguments.json:
        print(said)
    with progress_line() as progress:
        try:
            plan = solve(
                graph,
                budget,
                solver=arguments.solver,
                time_limit=arguments.time_limit,
                seed=arguments.seed,
                raw=arguments.raw,
                progress=progress,
                **options,
            )
        except GraphError as error:
            remedy = "; leave out --inference" if arguments.inference else ""
            raise GraphError(f"{arguments.graph}: {error}{remedy}") from error
        except (TypeError, ValueError) as error:
            if not options:
                raise
            raise argparse.ArgumentTypeError(f"{arguments.solver}: {error}") from error  # a value it cannot take
    if arguments.output:
        plan.save(arguments.output, arguments.frees)
    if arguments.json:
        say_json(plan.record(arguments.frees))
    else:
        print(plan)
        print(f"written    {arguments.output}" if arguments.output else "order      -o PLAN.json writes it")
    return 0
