"""remat convert: a graph from one format to another."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_source, files_of, read_noted
from remat_algos.cli.graph_output import add_output_form, name_endings, write_out
from remat_algos.cli.output import writable
from remat_algos.text.wording import shortened_path

HELP = "write a graph in another format, and list what that format cannot represent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph and the output."""
    add_source(parser)
    parser.add_argument("output", metavar="OUTPUT", type=writable, help=name_endings())
    add_output_form(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Read a graph and write it."""
    from remat_algos.formats.graph_files import files_written

    _check_apart(files_of(arguments), files_written(arguments.output))
    graph, notes = read_noted(arguments)
    write_out(graph, arguments.graph, arguments, notes)
    return ExitCode.DONE


def _check_apart(read: Sequence[Path], written: Sequence[Path]) -> None:
    """Check that no input file would be overwritten."""
    sources = {file.resolve() for file in read}
    for file in written:
        if file.resolve() in sources:
            raise argparse.ArgumentTypeError(f"{shortened_path(file)} is an input file of the graph; name another file")
