"""The graph of a command, and its differentiation."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


class GradientOptions(NamedTuple):
    """The command line's options for added gradients: the arguments of `add_graph` after GRAPH."""

    inference: bool = False
    factor: float | None = None
    parameter_gradients: bool = False
    loss: Sequence[str] | None = None
    encode: bool = False
    element_bits: int | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> GradientOptions:
        """The given options."""
        return cls(**{name: getattr(arguments, name) for name in cls._fields})


def read_source(source: str, nodes: str | None) -> ComputationGraph:
    """The graph of a file or of a model, as it is."""
    return _read(source, nodes)[0]


def read_noted(source: str, nodes: str | None, *, json: bool) -> tuple[ComputationGraph, list[str]]:
    """The graph as it is, and notes on missing sizes and costs; with --json they are warnings instead."""
    from remat_algos.errors import warn

    graph, notes = _read(source, nodes)
    if notes and json:
        fault = "; ".join(notes)
        warn(f"{shortened_path(source)}: {fault}")
        notes = []
    return graph, notes


def _read(source: str, nodes: str | None) -> tuple[ComputationGraph, list[str]]:
    from remat_algos.formats.graph_files import read_with_notes

    return read_with_notes(source, nodes=nodes)


def files_of(source: str, nodes: str | None) -> list[Path]:
    """The files that reading the graph may open."""
    from remat_algos.formats.graph_files import files_read

    return files_read(source, nodes)


def graph_of(
    source: str, nodes: str | None, gradients: GradientOptions, order: Order | None = None, *, json: bool
) -> tuple[ComputationGraph, str]:
    """The graph as it will be planned, and a line about changes.

    A plan's record of its graph takes precedence over the command line.
    """
    graph, notes = read_noted(source, nodes, json=json)
    whole, line = as_planned(graph, source, gradients, order)
    return whole, "; ".join([line, *notes])


def as_planned(
    graph: ComputationGraph, source: str, gradients: GradientOptions, order: Order | None = None
) -> tuple[ComputationGraph, str]:
    """A graph that was read, differentiated unless --inference is given, and the line about it."""
    size = f"{shortened_path(source)}: {counted(graph.n_nodes, 'node')}"
    bits = encode_bits(
        gradients.encode,
        gradients.element_bits,
        source,
        is_training=graph.is_training,
        inference=gradients.inference,
    )
    if graph.is_training:
        return graph, f"{size}, with its own backward part; no gradients added"
    of_plan = order is not None and order.is_plan
    if order is not None and order.is_plan:
        whole = order.differentiated(graph)
        bits = whole.derivation.options.get("encode", 0) if whole.derivation is not None else 0
    else:
        whole = _differentiated(graph, source, gradients, bits)
    if whole is graph:
        return graph, f"{size}; no gradients added ({'as in the plan' if of_plan else '--inference'})"
    added = counted(whole.n_nodes - graph.n_nodes, "gradient node")
    why = "as in the plan" if of_plan else "--inference plans the graph as it is"
    return whole, f"{size}; {added} added ({why}){encoding_note(graph, bits)}"


def _differentiated(graph: ComputationGraph, source: str, gradients: GradientOptions, bits: int) -> ComputationGraph:
    """The graph with gradients by the command line's options."""
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate

    if gradients.inference:
        return graph
    try:
        return differentiate(
            graph,
            factor=FACTOR if gradients.factor is None else gradients.factor,
            parameter_gradients=gradients.parameter_gradients,
            loss=gradients.loss,
            encode=bits,
        )
    except GraphError as error:
        raise GraphError(f"{shortened_path(source)}: {error}") from error
