"""remat explain: why a value is kept or run again."""

import argparse

from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.output import add_json, say_json

HELP = "say why values are kept or run again: bytes, readers, and what the contrary would free or cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, the plan, the value."""
    add_source(parser, help="the graph that the plan was made for")
    parser.add_argument("plan", metavar="PLAN", help="the JSON that solve -o wrote")
    parser.add_argument("--value", metavar="NAME", help="this value alone; else those of the most bytes")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="how many values to tell of (10)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain."""
    from remat_algos.plan.explain import explain
    from remat_algos.plan.plan import Plan

    if arguments.most < 0:
        raise argparse.ArgumentTypeError(f"--most {arguments.most}: give 0 or more")
    plan = Plan.load(arguments.plan, read_source(arguments))
    explanation = explain(plan, arguments.value, most=arguments.most)
    if arguments.json:
        say_json(explanation.record())
    else:
        print(explanation)
    return 0
