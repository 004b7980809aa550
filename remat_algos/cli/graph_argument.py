"""The graph that a command works on, and whether it is differentiated."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remat_algos.ir.wording import counted

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.plan.orders import Order


def add_graph(parser: argparse.ArgumentParser) -> None:
    """GRAPH and what is to be done to it."""
    parser.add_argument(
        "graph", metavar="GRAPH", help="tables, an edge list, GraphML, DOT, PACE, JSON or npz (docs/formats.md)"
    )
    parser.add_argument("--nodes", metavar="FILE", help="table of sizes and costs for the nodes of an edge list")
    group = parser.add_argument_group("gradients, where the graph has none")
    group.add_argument("--inference", action="store_true", help="plan the graph as it is; add no gradients")
    group.add_argument("--factor", type=float, default=2, help="cost of a gradient: so many times that of its node (2)")
    group.add_argument("--parameter-gradients", action="store_true", help="parameters get gradients too")
    group.add_argument(
        "--loss", metavar="NAME", action="append", help="value to differentiate, once or more (all outputs)"
    )


def graph_of(arguments: argparse.Namespace, order: Order | None = None) -> tuple[ComputationGraph, str]:
    """The graph as it will be planned, and a line that says what was done to it.

    What a plan says of its graph comes before what the command line says.
    """
    from remat_algos.ir.files.read import read_graph

    graph = read_graph(arguments.graph, nodes=arguments.nodes)
    size = f"{arguments.graph}: {counted(graph.n_nodes, 'node')}"
    if graph.is_training:
        return graph, f"{size}, its own backward part among them; not differentiated"
    if order is not None and order.is_plan:
        whole = order.differentiated(graph)
        said, otherwise = "as the plan says", ""
    else:
        whole = _differentiated(graph, arguments)
        said, otherwise = "--inference", " (--inference adds none)"
    if whole is graph:
        return graph, f"{size}; not differentiated ({said})"
    added = f"which adds {counted(whole.n_nodes - graph.n_nodes, 'gradient node')}{otherwise}"
    return whole, f"{size}; differentiated{'' if otherwise else f' {said}'}, {added}"


def _differentiated(graph: ComputationGraph, arguments: argparse.Namespace) -> ComputationGraph:
    """The graph with the gradients that the command line wants."""
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate

    if arguments.inference:
        return graph
    try:
        return differentiate(
            graph,
            factor=arguments.factor,
            parameter_gradients=arguments.parameter_gradients,
            loss=arguments.loss,
        )
    except GraphError as error:
        raise GraphError(f"{arguments.graph}: {error}") from error
