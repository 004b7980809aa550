"""remat report: write a page that steps through a plan."""

import argparse
from pathlib import Path

from remat_algos.cli.graph_argument import add_graph, read_source
from remat_algos.cli.output import print_result
from remat_algos.cli.shared_options import add
from remat_algos.files import write_whole
from remat_algos.plan.plan import Plan
from remat_algos.result import Summary
from remat_algos.wording import format_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument("plan", metavar="PLAN", help="a plan for the graph, written by remat solve -o")
    other = "another plan for the graph, to compare with (default: no rematerialization)"
    parser.add_argument("--compare", metavar="PLAN", help=other)
    add(parser, output="file to write: one page that works offline (default: report.html)")
    parser.set_defaults(output="report.html")


def run(arguments: argparse.Namespace) -> None:
    from remat_algos.plot.pictures.report import report

    source = read_source(arguments)
    plan = Plan.load(arguments.plan, source)
    other = None if arguments.compare is None else Plan.load(arguments.compare, source)
    page = report(plan, other, title=f"{arguments.graph}: {plan.method}").encode()
    write_whole(Path(arguments.output), page)
    record = {"written": arguments.output, "bytes": len(page), "steps": len(plan.schedule)}
    line = f"{arguments.output}, {format_bytes(len(page))}; open it in a browser"
    print_result(arguments, Summary(record, [("written", line)]))
