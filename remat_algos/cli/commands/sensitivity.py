"""remat sensitivity: the overhead of plans under uncertain costs."""

import argparse
from pathlib import Path

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.noise_argument import noise
from remat_algos.cli.output import add_json, print_json, print_table, print_text
from remat_algos.cli.search_argument import add_seed, whole_number

HELP = "sample the costs of nodes around those of the graph: the overhead of plans then, and the nodes behind it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the plans and the noise."""
    from remat_algos.plan.cost_noise import DEVIATION, SAMPLES

    add_source(parser, help="the graph that the plans were made for")
    parser.add_argument("plans", metavar="PLAN", nargs="+", help="a plan written by remat solve -o")
    deviation = "standard deviation of each cost as a share of it (default: 20%%)"
    parser.add_argument("--noise", type=noise, default=DEVIATION, metavar="SHARE", help=deviation)
    parser.add_argument(
        "--samples", type=whole_number, metavar="N", help=f"number of samples ({SAMPLES}, fewer on large graphs)"
    )
    add_seed(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Sample costs, and print the table and the nodes."""
    from remat_algos.plan.plan import Plan
    from remat_algos.plan.sensitivity import sensitivity

    graph = read_source(arguments)
    plans = [Plan.load(plan, graph) for plan in arguments.plans]
    try:
        result = sensitivity(plans, noise=arguments.noise, samples=arguments.samples, seed=arguments.seed)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--{error}") from error
    stems = [Path(plan).name for plan in arguments.plans]
    names = stems if len(set(stems)) == len(stems) else list(arguments.plans)
    if arguments.json:
        print_json(result.record(names))
        return ExitCode.DONE
    print_text(f"overhead under {result.noise.samples:,} samples of the costs, noise {arguments.noise * 100:g} %")
    head, *rows = result.rows(names)
    print_table(head, rows)
    for line in result.lines(names):
        print_text(line)
    return ExitCode.DONE
