"""The graph that a command works on, and whether it is differentiated."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remat_algos.ir.graph import ComputationGraph


def add_graph(parser: argparse.ArgumentParser) -> None:
    """GRAPH and what is to be done to it."""
    parser.add_argument("graph", metavar="GRAPH", help="X.nodes.csv, an edge list, JSON or npz (docs/formats.md)")
    parser.add_argument("--nodes", metavar="FILE", help="table of sizes and costs for the nodes of an edge list")
    group = parser.add_argument_group("gradients, where the graph has none")
    group.add_argument("--inference", action="store_true", help="plan the graph as it is; add no gradients")
    group.add_argument("--factor", type=float, default=2, help="cost of a node's gradient, in times of its own (2)")
    group.add_argument("--parameter-gradients", action="store_true", help="parameters get gradients too")
    group.add_argument("--loss", metavar="NAME", action="append", help="value to differentiate (all outputs)")


def graph_of(
    arguments: argparse.Namespace, derivation: Mapping[str, Any] | None = None
) -> tuple[ComputationGraph, str]:
    """The graph as it will be planned, and a line that says what was done to it.

    `derivation` are options of `differentiate` that a plan names; they come before those of the command line.
    """
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate
    from remat_algos.ir.files.read import read_graph

    graph = read_graph(arguments.graph, nodes=arguments.nodes)
    size = f"{arguments.graph}: {graph.n_nodes} nodes"
    if graph.is_training:
        return graph, f"{size}, its own backward part among them; not differentiated"
    if arguments.inference:
        return graph, f"{size}; not differentiated (--inference)"
    given = {"factor": arguments.factor, "parameter_gradients": arguments.parameter_gradients, "loss": arguments.loss}
    try:
        whole = differentiate(graph, **(given if derivation is None else derivation))
    except GraphError as error:
        raise GraphError(f"{arguments.graph}: {error}") from error
    added = f"which adds {whole.n_nodes - graph.n_nodes} gradient nodes"
    if derivation is not None:
        return whole, f"{size}; differentiated as the plan says, {added}"
    return whole, f"{size}; differentiated, {added} (--inference adds none)"
