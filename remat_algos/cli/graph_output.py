"""Output of graphs by commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from remat_algos.cli.encode_argument import add_encode, encode_bits, encoding_note
from remat_algos.cli.output import add_json, print_json, print_row, print_text
from remat_algos.text.wording import counted, shortened_path

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph


def name_endings() -> str:
    """The endings of files that can be written, for --help."""
    from remat_algos.cli.outline import graph_formats

    written = [f"X{ending}" for endings in graph_formats().values() for ending in endings]
    return f"X.nodes.csv (with its other tables next to it), {', '.join(written)}"


def add_output_form(parser: argparse.ArgumentParser) -> None:
    """Add --differentiate, --encode, --json."""
    parser.add_argument("--differentiate", action="store_true", help="add gradients if the graph has none")
    add_encode(parser)
    add_json(parser)


def write_out(graph: ComputationGraph, source: str, arguments: argparse.Namespace, notes: Sequence[str] = ()) -> None:
    """Write a graph to a file, with what `add_output_form` adds; print what was written and what was left out."""
    from remat_algos.formats.graph_files import files_written, left_out, write_graph

    bits = encode_bits(arguments, source, is_training=graph.is_training)
    whole = _encoded(graph, source, arguments.differentiate, bits)
    write_graph(whole, arguments.output)
    written = [str(file) for file in files_written(arguments.output) if file.exists()]
    missing = left_out(whole, arguments.output)
    if arguments.json:
        print_json({"graph_hash": whole.source_hash, "nodes": whole.n_nodes, "written": written, "left_out": missing})
        return
    added = whole.n_nodes - graph.n_nodes
    gradients = f"; {counted(added, 'gradient node')} added" if added else ""
    line = f"{shortened_path(source)}: {counted(graph.n_nodes, 'node')}{gradients}{encoding_note(graph, bits)}"
    print_text("; ".join([line, *notes]))
    print_row("written", ", ".join(written))
    if missing:
        print_row("left out", f"{', '.join(missing)}: the format cannot represent it")


def _encoded(graph: ComputationGraph, source: str, gradients: bool, bits: int) -> ComputationGraph:
    """The graph with gradients and with feature maps of one bit per element, as requested."""
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate
    from remat_algos.ir.encode import encode

    if graph.is_training:
        return graph
    try:
        if gradients:
            return differentiate(graph, encode=bits)
        return encode(graph, bits=bits) if bits else graph
    except GraphError as error:
        raise GraphError(f"{shortened_path(source)}: {error}") from error
