"""Any file to a graph: the content tells what it is."""

import contextlib
import gc
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from remat_algos.errors import GraphError
from remat_algos.ir.files import cg_text, csv_tables, dot_text, edge_list, graphml, json_text, pace
from remat_algos.ir.files.columns import Table
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables

KINDS = ("nodes", "edges", "values")

_PARSERS: dict[str, Callable[[str, str], Tables]] = {
    "JSON": json_text.parse,
    "GraphML": graphml.parse,
    "DOT": dot_text.parse,
    "PACE": pace.parse,
    "cg": cg_text.parse,
    "edge list": edge_list.parse,
}
_ENDINGS = {".json": "JSON", ".graphml": "GraphML", ".dot": "DOT", ".gv": "DOT", ".gr": "PACE"}


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
    """Read a graph from a file of any format that docs/formats.md describes.

    Parameters
    ----------
    path : path
        `X.nodes.csv` (with `X.edges.csv` and, if there, `X.values.csv` beside it), a list of edges `u v` or a table
        with columns src and dst, JSON, npz, GraphML, DOT, PACE `.gr`, or a `cg_*.txt` of the lower-set authors.
    nodes : path, optional
        For a list of edges or PACE: the table that gives its nodes sizes and costs.

    Returns
    -------
    ComputationGraph

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
        if any(_stem(named)[0] in str(error) for named in (file, *([Path(nodes)] if nodes is not None else []))):
            raise
        raise GraphError(f"{file.name}: {error}") from error


def _read(file: Path, nodes: Path | None) -> ComputationGraph:
    data = _bytes(file)
    is_npz = data[:4] == b"PK\x03\x04"
    text = "" if is_npz else _text(data, file.name)
    kind = "npz" if is_npz else _kind(text, file)
    if nodes is not None:
        return ComputationGraph.from_tables(_with_nodes(kind, text, file.name, nodes))
    if is_npz:
        return ComputationGraph.from_npz(data, file.name)
    tables = _table(text, file) if kind == "table" else _PARSERS[kind](text, file.name)
    return ComputationGraph.from_tables(tables)


def _kind(text: str, file: Path) -> str:
    """What a text is; its name is asked only where it could be several things."""
    start = text.lstrip()[:1]
    first = _first_line(text)
    if start == "{" or (start == "[" and file.suffix == ".json"):
        return "JSON"
    if start == "<":
        return "GraphML"
    for begins, kind in ((dot_text.begins, "DOT"), (pace.begins, "PACE"), (cg_text.begins, "cg")):
        if begins(text):
            return kind
    if "," in first or _header(text) == {"src", "dst"}:
        return "table"
    named_table = _stem(file)[1] is not None or (file.suffix == ".csv" and _beside(file)["edges"].exists())
    if file.suffix == ".json" and len(first.split()) == 2:
        return "edge list"
    return "table" if named_table else _ENDINGS.get(file.suffix, "edge list")


def _first_line(text: str) -> str:
    """The first line that is more than a comment, without its comment."""
    found = re.search(r"^[^\S\n]*[^\s#][^#\n]*", text, re.MULTILINE)
    return found[0].strip() if found else ""


def _header(text: str) -> set[str]:
    """The words of the first line, whatever is between them."""
    return set(re.split(r'[,;|\s"]+', _first_line(text)))


def _stem(file: Path) -> tuple[str, str | None]:
    """X and the kind of X.kind.csv; the kind is None for X.csv and for other names."""
    stem = file.name.removesuffix(".csv")
    for kind in KINDS:
        if stem.endswith(f".{kind}") and stem != file.name:
            return stem[: -len(kind) - 1], kind
    return stem, None


def _beside(file: Path) -> dict[str, Path]:
    """The tables that go with one of them; X.csv is a table of nodes."""
    stem, kind = _stem(file)
    tables = {name: file.with_name(f"{stem}.{name}.csv") for name in KINDS}
    return tables if kind is not None else tables | {"nodes": file}


def files_read(path: str | os.PathLike[str], nodes: str | os.PathLike[str] | None = None) -> list[Path]:
    """The files that reading a graph may look at."""
    given = [Path(path), *([Path(nodes)] if nodes is not None else [])]
    beside = (table for file in given if file.suffix == ".csv" for table in _beside(file).values())
    return [*given, *(table for table in beside if table.exists())]


def _table(text: str, file: Path) -> Tables:
    """The graph of which the file is one table, or the graph of a table of edges alone."""
    kind, tables = _stem(file)[1], _beside(file)
    if kind is None and _header(text) >= {"src", "dst"}:
        return csv_tables.parse_edges(text, file.name)
    if kind is None and not tables["edges"].exists():
        raise GraphError(
            f"{file.name}: a lone table; call it X.nodes.csv, with X.edges.csv beside it, or write `u v` lines"
        )
    edges = csv_tables.read_edges(*_named_text(tables["edges"]))
    return csv_tables.parse(_named_text(tables["nodes"]), edges, _values(tables["values"]))


def _with_nodes(kind: str, text: str, source: str, nodes: Path) -> Tables:
    """A list of edges, as text or as table, over a table of nodes."""
    if kind == "table":
        edges = csv_tables.read_edges(text, source)
    elif kind in ("edge list", "PACE"):
        pairs = [(u, node.name) for node in _PARSERS[kind](text, source).nodes for u in node.reads]
        edges = Table(source, {"src": [u for u, _ in pairs], "dst": [v for _, v in pairs]}, noun="edge")
    else:
        raise GraphError(f"{source}: {kind} says itself what its nodes cost; leave out the table {nodes.name}")
    return csv_tables.parse(_named_text(nodes), edges, _values(_beside(nodes)["values"]))


def _values(file: Path) -> tuple[str, str] | None:
    return _named_text(file) if file.exists() else None


def _named_text(file: Path) -> tuple[str, str]:
    return _text(_bytes(file), file.name), file.name


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
        raise GraphError(f"{source}: neither text nor npz; give tables, an edge list, GraphML, DOT, PACE, JSON or npz")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(f"{source}: byte {error.start} is not UTF-8 text; save the file as UTF-8") from error
