"""A graph to a file, whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

from remat_algos.errors import GraphError
from remat_algos.files import write_all
from remat_algos.ir.files import csv_tables, dot_text, graphml, json_text
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.ir.tables import Tables

_WRITERS: dict[str, Callable[[Tables], str]] = {
    ".json": json_text.dump,
    ".graphml": graphml.dump,
    ".dot": dot_text.dump,
    ".gv": dot_text.dump,
}
TABLES = ".nodes.csv"


def write_graph(graph: ComputationGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph as JSON, npz, GraphML, DOT, or the tables X.nodes.csv, X.edges.csv, X.values.csv.

    Parameters
    ----------
    graph : ComputationGraph
    path : path
        By its extension: .json, .npz, .graphml, .dot or .gv, .nodes.csv.

    Raises
    ------
    GraphError
        For another ending.
    OSError
        On failure; existing files are left unchanged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(ComputationGraph.from_edges([("A", "B")]), f"{folder}/pair.nodes.csv")
    ...     pathlib.Path(folder, "pair.edges.csv").read_text()
    'src,dst\\nA,B\\n'
    """
    check_graph(graph)
    contents = dict(zip(files_written(path), _contents(graph, Path(path)), strict=True))
    write_all({file: data for file, data in contents.items() if data is not None})
    for file, data in contents.items():
        if data is None:  # an older graph's would be read with this one
            file.unlink(missing_ok=True)


def files_written(path: str | os.PathLike[str]) -> list[Path]:
    """The files that writing to a path makes or removes; GraphError if its ending is no format."""
    file = Path(path)
    if file.name.endswith(TABLES):
        stem = file.name.removesuffix(TABLES)
        return [file.with_name(f"{stem}.{kind}.csv") for kind in ("nodes", "edges", "values")]
    if file.suffix not in (*_WRITERS, ".npz"):
        endings = f"{', '.join([*_WRITERS, '.npz'])} or {TABLES}"
        raise GraphError(f"{file.name}: unknown ending; use {endings}")
    return [file]


def _contents(graph: ComputationGraph, file: Path) -> list[bytes | None]:
    """Contents of each file; None for an empty table."""
    if file.suffix == ".npz":
        return [graph.to_npz()]
    if file.suffix in _WRITERS:
        return [_WRITERS[file.suffix](graph.to_tables()).encode()]
    texts = csv_tables.dump(graph.to_tables())
    return [texts[kind].encode() if kind in texts else None for kind in ("nodes", "edges", "values")]


def left_out(graph: ComputationGraph, path: str | os.PathLike[str]) -> list[str]:
    """Properties of the graph that the format of the path cannot store."""
    return csv_tables.left_out(graph.to_tables()) if str(path).endswith(TABLES) else []
