"""A graph to a file, whole or not at all."""

import contextlib
import os
from pathlib import Path

from remat_algos.errors import GraphError
from remat_algos.ir.files import csv_dump
from remat_algos.ir.graph import ComputationGraph


def write_graph(graph: ComputationGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph as JSON, npz, or the tables X.nodes.csv, X.edges.csv, X.values.csv; the path's ending says which.

    Raises GraphError for other endings, OSError where the folder cannot be written.
    """
    file = Path(path)
    if file.suffix == ".json":
        write_whole(file, graph.to_json().encode())
    elif file.suffix == ".npz":
        write_whole(file, graph.to_npz())
    elif file.name.endswith(".nodes.csv"):
        stem = file.name.removesuffix(".nodes.csv")
        texts = csv_dump.dump(graph.to_tables())
        for kind, text in texts.items():
            write_whole(file.with_name(f"{stem}.{kind}.csv"), text.encode())
        if "values" not in texts:  # an older graph's would be read with this one
            file.with_name(f"{stem}.values.csv").unlink(missing_ok=True)
    else:
        raise GraphError(f"{file.name}: the ending is no format; use .json, .npz or .nodes.csv")


def write_whole(file: Path, data: bytes) -> None:
    """Write to a temporary name and rename, so that no half-written file is ever seen.

    A link is followed; a pipe or a device is written to as it is.
    """
    target = file.resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(temporary, "xb") as out:
            out.write(data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
