"""remat convert: a graph from one format to another."""

import argparse

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import WRITTEN, add_output_form, add_source, check_apart, read_noted, write_out
from remat_algos.cli.shared_options import writable

HELP = "write a graph in another format, and list what that format cannot represent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph and the output."""
    add_source(parser)
    parser.add_argument("output", metavar="OUTPUT", type=writable, help=WRITTEN)
    add_output_form(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Read a graph and write it."""
    check_apart(arguments)
    graph, notes = read_noted(arguments)
    write_out(graph, arguments.graph, arguments, notes)
    return ExitCode.DONE
