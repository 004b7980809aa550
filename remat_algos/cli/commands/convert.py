"""remat convert: convert a graph to another format."""

import argparse

from remat_algos.cli.graph_argument import (
    WRITTEN,
    add_source,
    check_apart,
    encode_bits,
    encoded,
    read_noted,
    write_files,
)
from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import add, naming, writable
from remat_algos.wording import counted, shortened_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument("output", metavar="OUTPUT", type=writable, help=WRITTEN)
    parser.add_argument("--differentiate", action="store_true", help="add gradients if the graph has none")
    add(parser, "encode", "element_bits")


def run(arguments: argparse.Namespace) -> None:
    from remat_algos.ir.differentiate import differentiate
    from remat_algos.ir.encode import encode
    from remat_algos.result import Summary

    check_apart(arguments)
    graph, notes = read_noted(arguments)
    bits, whole = encode_bits(arguments, arguments.graph, is_training=graph.is_training), graph
    with naming(arguments.graph):
        if arguments.differentiate and not graph.is_training:
            whole = differentiate(graph, encode=bits)
        elif bits:
            whole = encode(graph, bits=bits)
    record, rows = write_files(whole, arguments.output)
    added = whole.n_nodes - graph.n_nodes
    gradients = f"; {counted(added, 'gradient node')} added" if added else ""
    line = f"{shortened_path(arguments.graph)}: {counted(graph.n_nodes, 'node')}{gradients}{encoded(graph, bits)}"
    figures = {"graph_hash": whole.source_hash, "nodes": whole.n_nodes}
    print_text("; ".join([line, *notes]))
    print_result(arguments, Summary(figures | record, rows))
