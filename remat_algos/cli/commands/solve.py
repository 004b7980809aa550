"""remat solve: a plan within a budget."""

import argparse
import sys
from pathlib import Path

from remat_algos.cli.budget_argument import add_budget, add_search, budget_of, options_of
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import INTERRUPTED, add_json, progress_line, say_json, writable
from remat_algos.cli.plot_argument import add_plot, draw

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
    parser.add_argument("-o", "--output", metavar="FILE", type=writable, help="write the plan, with its order")
    parser.add_argument(
        "--format",
        choices=("plan", "frees", "names", "actions"),
        help="what -o writes, or without -o standard output: the plan as JSON (the default), the same with what may be "
        "freed after each step, the nodes in order, or lines `compute X` and `free Y`",
    )
    add_plot(parser)
    add_json(parser)
    lines = []
    for solver in list_solvers():
        lines.append(f"  {solver.name:<16} {solver.summary}")
        options = ", ".join(f"{name}={default}" for name, default in solver.options.items())
        lines += [f"  {'':<16} -O {options}"] if options else []
    parser.epilog = "solvers:\n" + "\n".join(lines)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(arguments: argparse.Namespace) -> int:
    """Solve, say what came out, and write it; 130 if interrupted, with the best plan so far."""
    from remat_algos.errors import GraphError
    from remat_algos.plan.solve import solve

    budget, options = budget_of(arguments), options_of(arguments.solver, arguments.option)
    if arguments.output and Path(arguments.output).resolve() == Path(arguments.graph).resolve():
        raise argparse.ArgumentTypeError(f"-o {arguments.output} would overwrite the graph; name another file")
    form = arguments.format or "plan"
    alone = arguments.format is not None and not arguments.output  # the plan is all that standard output gets
    if alone and arguments.json:
        raise argparse.ArgumentTypeError("--json and --format both want standard output; give -o FILE, or one of them")
    if alone and arguments.plot == "-":
        raise argparse.ArgumentTypeError(
            "--plot - and --format both want standard output; give -o FILE, or one of them"
        )
    graph, said = graph_of(arguments)
    out = sys.stderr if alone else sys.stdout
    if not arguments.json:
        print(said, file=out)
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
        plan.save(arguments.output, form)
    if alone:
        print(plan.text(form), end="")
    if arguments.json:
        say_json(plan.record(frees=form == "frees"))
    else:
        print(plan, file=out)
        if not alone:
            print(f"written    {arguments.output}" if arguments.output else "order      -o PLAN.json writes it")
    draw(arguments, plan)
    return INTERRUPTED if plan.interrupted else 0
