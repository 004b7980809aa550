"""Any file to a graph: the content tells what it is."""

import contextlib
import csv
import gc
import io
import os
from collections.abc import Iterator
from pathlib import Path

from remat_algos.errors import GraphError
from remat_algos.ir.files import csv_tables, edge_list
from remat_algos.ir.graph import ComputationGraph

KINDS = ("nodes", "edges", "values")


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection: with a million rows at hand, none of them garbage, it takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@collector_paused()
def read_graph(path: str | os.PathLike[str], *, nodes: str | os.PathLike[str] | None = None) -> ComputationGraph:
    """Read a graph from tables, an edge list, JSON or npz.

    Parameters
    ----------
    path : path
        `X.nodes.csv` (with `X.edges.csv` and, if there, `X.values.csv` beside it), a text with an edge `u v` per line,
        JSON or npz. Docs/formats.md describes them.
    nodes : path, optional
        For a list of edges: the table that gives its nodes sizes and costs.

    Raises
    ------
    GraphError
        One sentence with file, line, node and remedy.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "graph.txt")
    ...     _ = file.write_text("A B\\nA C\\nB D\\nC D\\n")
    ...     read_graph(file).n_nodes
    4
    """
    file = Path(path)
    try:
        return _read(file, Path(nodes) if nodes is not None else None)
    except GraphError as error:
        if _stem(file)[0] in str(error):
            raise
        raise GraphError(f"{file.name}: {error}") from error


def _read(file: Path, nodes: Path | None) -> ComputationGraph:
    if nodes is None and file.name.endswith(".csv"):
        stem, kind = _stem(file)
        if kind is not None or (file.parent / f"{stem}.edges.csv").exists():
            return _read_tables(file, stem, kind)
    data = _bytes(file)
    if data[:4] == b"PK\x03\x04":
        return ComputationGraph.from_npz(data, file.name)
    text = _text(data, file.name)
    if nodes is not None:
        return _read_edges_with_nodes(text, file.name, nodes)
    if text.lstrip()[:1] == "{" or file.suffix == ".json":
        return ComputationGraph.from_json(text, file.name)
    if "," in text.partition("\n")[0].partition("#")[0]:
        raise GraphError(
            f"{file.name}: a lone table; call it X.nodes.csv, with X.edges.csv beside it, or write `u v` lines"
        )
    return ComputationGraph.from_tables(edge_list.parse(text, file.name))


def _stem(file: Path) -> tuple[str, str | None]:
    """X and the kind of X.kind.csv; the kind is None for X.csv and for other names."""
    stem = file.name.removesuffix(".csv")
    for kind in KINDS:
        if stem.endswith(f".{kind}"):
            return stem[: -len(kind) - 1], kind
    return stem, None


def _read_tables(file: Path, stem: str, kind: str | None) -> ComputationGraph:
    given = {name: file.with_name(f"{stem}.{name}.csv") for name in KINDS}
    if kind is None:
        given["nodes"] = file
    texts = {name: (_text(_bytes(given[name]), given[name].name), given[name].name) for name in ("nodes", "edges")}
    values = (
        (_text(_bytes(given["values"]), given["values"].name), given["values"].name)
        if given["values"].exists()
        else None
    )
    return ComputationGraph.from_tables(csv_tables.parse(texts["nodes"], texts["edges"], values))


def _read_edges_with_nodes(text: str, source: str, nodes: Path) -> ComputationGraph:
    """A list of edges, as text or as table, over a table of nodes."""
    if "," not in text.partition("\n")[0].partition("#")[0]:
        table = io.StringIO()
        rows = [(u, node.name) for node in edge_list.parse(text, source).nodes for u in node.reads]
        csv.writer(table).writerows([("src", "dst"), *rows])
        text = table.getvalue()
    values = nodes.with_name(f"{_stem(nodes)[0]}.values.csv")
    value_text = (_text(_bytes(values), values.name), values.name) if values.exists() else None
    return ComputationGraph.from_tables(
        csv_tables.parse((_text(_bytes(nodes), nodes.name), nodes.name), (text, source), value_text)
    )


def _bytes(file: Path) -> bytes:
    try:
        data = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise GraphError(f"{file}: cannot be read ({reason}); give a file that is there") from error
    if not data.strip():
        raise GraphError(f"{file}: the file is empty")
    return data


def _text(data: bytes, source: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise GraphError(f"{source}: the text is UTF-16; save it as UTF-8")
    if b"\0" in data:
        raise GraphError(f"{source}: neither text nor npz; give tables, an edge list, JSON or npz")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(f"{source}: byte {error.start} is not UTF-8 text; save the file as UTF-8") from error
