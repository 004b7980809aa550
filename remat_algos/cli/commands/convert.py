"""remat convert: a graph from one format to another."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remat_algos.cli.output import add_json, say_json, writable
from remat_algos.ir.wording import counted

HELP = "write a graph in another format, and say what that format cannot hold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, and where it goes."""
    parser.add_argument("graph", metavar="GRAPH", help="a file of any format (docs/formats.md)")
    endings = "X.nodes.csv (and the tables beside it), X.json, X.npz, X.graphml, X.dot or X.gv"
    parser.add_argument("output", metavar="OUTPUT", type=writable, help=endings)
    parser.add_argument("--nodes", metavar="FILE", help="table of sizes and costs for the nodes of an edge list")
    parser.add_argument("--differentiate", action="store_true", help="add the gradients, where the graph has none")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, write, and say so."""
    from remat_algos.ir.files.read import files_read, read_graph
    from remat_algos.ir.files.write import files_written, left_out, write_graph

    _check_apart(files_read(arguments.graph, arguments.nodes), files_written(arguments.output))
    graph = read_graph(arguments.graph, nodes=arguments.nodes)
    whole = _differentiated(graph, arguments.graph) if arguments.differentiate else graph
    write_graph(whole, arguments.output)
    written = [str(file) for file in files_written(arguments.output) if file.exists()]
    missing = left_out(whole, arguments.output)
    if arguments.json:
        record = {"graph_hash": whole.source_hash, "nodes": whole.n_nodes, "written": written, "left_out": missing}
        say_json(record)
        return 0
    added = whole.n_nodes - graph.n_nodes
    differentiated = f"; differentiated, which adds {counted(added, 'gradient node')}" if added else ""
    print(f"{arguments.graph}: {counted(graph.n_nodes, 'node')}{differentiated}")
    print(f"written    {', '.join(written)}")
    if missing:
        print(f"left out   {', '.join(missing)}: the format has no place for it")
    return 0


def _check_apart(read: Sequence[Path], written: Sequence[Path]) -> None:
    """No file may be overwritten by what is read from it."""
    sources = {file.resolve() for file in read}
    for file in written:
        if file.resolve() in sources:
            raise argparse.ArgumentTypeError(f"{file} is what the graph is read from; name another file")


def _differentiated(graph: Any, source: str) -> Any:
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate

    if graph.is_training:
        return graph
    try:
        return differentiate(graph)
    except GraphError as error:
        raise GraphError(f"{source}: {error}") from error
