"""The graph of a command, and its differentiation."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from remat_algos.cli.encode_argument import add_encode, encode_bits, encoding_note
from remat_algos.text.wording import counted, shortened_path

if TYPE_CHECKING:
    from remat_algos.formats.orders import Order
    from remat_algos.ir.graph import ComputationGraph

FACTOR = 2  # cost of a gradient


def add_source(parser: argparse.ArgumentParser, help: str | None = None, optional: bool = False) -> None:
    """Add GRAPH and --nodes, the source of the graph."""
    from remat_algos.cli.outline import graph_formats

    forms = f"a file (tables, {', '.join(graph_formats())}: docs/formats.md) or model:NAME (remat models)"
    parser.add_argument("graph", metavar="GRAPH", nargs="?" if optional else None, help=help or forms)
    parser.add_argument("--nodes", metavar="FILE", help="table of sizes and costs for the nodes of an edge list")


def add_graph(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add GRAPH and the options that change it."""
    add_source(parser, optional=optional)
    group = parser.add_argument_group("gradients (if the graph has none)")
    group.add_argument("--inference", action="store_true", help="plan the graph as it is; add no gradients")
    group.add_argument("--factor", type=float, help=f"cost of a gradient relative to its forward node ({FACTOR})")
    group.add_argument("--parameter-gradients", action="store_true", help="add gradients of parameters")
    group.add_argument(
        "--loss", metavar="NAME", action="append", help="value to differentiate; may be repeated (default: all outputs)"
    )
    add_encode(group)


def read_source(arguments: argparse.Namespace) -> ComputationGraph:
    """The graph of a file or of a model, as it is."""
    return _read(arguments)[0]


def read_noted(arguments: argparse.Namespace) -> tuple[ComputationGraph, list[str]]:
    """The graph as it is, and notes on missing sizes and costs; with --json they are warnings instead."""
    from remat_algos.errors import warn

    graph, notes = _read(arguments)
    if notes and arguments.json:
        fault = "; ".join(notes)
        warn(f"{shortened_path(arguments.graph)}: {fault}")
        notes = []
    return graph, notes


def _read(arguments: argparse.Namespace) -> tuple[ComputationGraph, list[str]]:
    from remat_algos.formats.graph_files import read_with_notes

    return read_with_notes(arguments.graph, nodes=arguments.nodes)


def files_of(arguments: argparse.Namespace) -> list[Path]:
    """The files that reading the graph may open."""
    from remat_algos.formats.graph_files import files_read

    return files_read(arguments.graph, arguments.nodes)


def graph_of(arguments: argparse.Namespace, order: Order | None = None) -> tuple[ComputationGraph, str]:
    """The graph as it will be planned, and a line about what was done to it.

    A plan's record of its graph takes precedence over the command line.
    """
    graph, notes = read_noted(arguments)
    whole, line = as_planned(graph, arguments, order)
    return whole, "; ".join([line, *notes])


def as_planned(
    graph: ComputationGraph, arguments: argparse.Namespace, order: Order | None = None
) -> tuple[ComputationGraph, str]:
    """A graph that was read, differentiated unless --inference is given, and the line about it."""
    size = f"{shortened_path(arguments.graph)}: {counted(graph.n_nodes, 'node')}"
    bits = encode_bits(arguments, arguments.graph, is_training=graph.is_training, inference=arguments.inference)
    if graph.is_training:
        return graph, f"{size}, with its own backward part; no gradients added"
    of_plan = order is not None and order.is_plan
    if order is not None and order.is_plan:
        whole = order.differentiated(graph)
        bits = whole.derivation.options.get("encode", 0) if whole.derivation is not None else 0
    else:
        whole = _differentiated(graph, arguments, bits)
    if whole is graph:
        return graph, f"{size}; no gradients added ({'as in the plan' if of_plan else '--inference'})"
    added = counted(whole.n_nodes - graph.n_nodes, "gradient node")
    why = "as in the plan" if of_plan else "--inference plans the graph as it is"
    return whole, f"{size}; {added} added ({why}){encoding_note(graph, bits)}"


def _differentiated(graph: ComputationGraph, arguments: argparse.Namespace, bits: int) -> ComputationGraph:
    """The graph with gradients by the command line's options."""
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate

    if arguments.inference:
        return graph
    try:
        return differentiate(
            graph,
            factor=FACTOR if arguments.factor is None else arguments.factor,
            parameter_gradients=arguments.parameter_gradients,
            loss=arguments.loss,
            encode=bits,
        )
    except GraphError as error:
        raise GraphError(f"{shortened_path(arguments.graph)}: {error}") from error
