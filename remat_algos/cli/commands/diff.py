"""remat diff: compare two plans."""

import argparse
from pathlib import Path

from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.output import print_result
from remat_algos.plan.plan import Plan
from remat_algos.questions.difference import Difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser, help="the graph that the plans were made for")
    parser.add_argument("plans", metavar="PLAN", nargs=2, help="a plan written by remat solve -o")


def run(arguments: argparse.Namespace) -> None:
    graph = read_source(arguments)
    plan, other = (Plan.load(file, graph) for file in arguments.plans)
    stems = [Path(plan).name for plan in arguments.plans]
    first, second = stems if stems[0] != stems[1] else arguments.plans
    difference = Difference(plan, other, (first, second))
    print_result(arguments, difference)
