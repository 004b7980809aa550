"""Read and write graph files. Formats are recognized by content; a graph in tables consists of several files."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentTypeError, GraphError, extended, warn
from remat_algos.files import UTF_16, decoded, read_bytes, write_all
from remat_algos.formats import csv_tables
from remat_algos.formats.columns import ColumnTable, aliases, fault
from remat_algos.formats.graphs import edge_list
from remat_algos.formats.registry import GraphFormat, claims, graph_formats
from remat_algos.formats.rows import EDGE_COLUMNS, NODE_COLUMNS, tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables, unread_first_values
from remat_algos.text.amounts import LONGEST_AMOUNT
from remat_algos.wording import counted, listed, shortened_path
from remat_algos.zoo.reference import is_reference

if TYPE_CHECKING:
    from remat_algos.zoo.network import Network

KINDS = ("nodes", "edges", "values")
# Maximum number of names in a note.
FILES_NAMED = 2
TABLE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# The extension that selects tables for writing.
TABLES = ".nodes.csv"
TABLE = GraphFormat("table", csv_tables.parse_edges)


_QUOTED = re.compile(r'"[^"]*"')


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection: for a million rows it would take half of the time and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@checked_arguments
def read_graph(path: str | os.PathLike[str], *, nodes: str | os.PathLike[str] | None = None) -> ComputationGraph:
    """Read a graph from a file in any format of docs/formats.md, or build the graph of a model.

    Parameters
    ----------
    path : path
        A model, "model:NAME" with options as in "model:resnet50?batch=96" (docs/zoo.md), or a file: tables
        (`X.nodes.csv` with `X.edges.csv` and optionally `X.values.csv` in the same folder), an edge list of lines
        `u v`, a table with columns src and dst, JSON (including networkx's), npz, GraphML, DOT, PACE `.gr`, or a
        `cg_*.txt` file of kusumoto2019. All of them may be compressed with gzip. ONNX and StableHLO need their
        libraries. Lengths of open dimensions follow the file name: `model.onnx?batch=8`.
    nodes : path, optional
        Table with sizes and costs of the nodes of an edge list or PACE file.

    Returns
    -------
    ComputationGraph
        A value without a size has 1 byte, a node without a cost has cost 1.

    Warns
    -----
    GraphWarning
        If only some values have a size, if only some nodes have a cost, or if no value has a size but the file contains
        unknown columns, keys or attributes.

    Raises
    ------
    GraphError
        If the file cannot be read as a graph; the message gives file, line, node and remedy.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "graph.txt")
    ...     _ = file.write_text("A B\\nA C\\nB D\\nC D\\n")
    ...     read_graph(file).n_nodes
    4
    """
    graph, notes = _noted(path, nodes)
    doubtful = [note.text for note in notes if note.doubtful]
    if doubtful:
        warn("{name!p}: {doubts!w}", name=Path(path).name, doubts="; ".join(doubtful))
    return graph


class _Note(NamedTuple):
    """A clause about missing sizes or costs. `doubtful`: only some are missing, or unknown columns may contain them."""

    text: str
    doubtful: bool = False


def read_with_notes(
    path: str | os.PathLike[str], *, nodes: str | os.PathLike[str] | None = None
) -> tuple[ComputationGraph, list[str]]:
    """Read a graph like `read_graph`; also return a clause about missing sizes and one about missing costs, if any."""
    graph, notes = _noted(path, nodes)
    return graph, [note.text for note in notes]


@collector_paused()
def _noted(path: str | os.PathLike[str], nodes: str | os.PathLike[str] | None) -> tuple[ComputationGraph, list[_Note]]:
    network = network_of(path, nodes)
    if network is not None:
        return network.graph, []
    file, dims = _split(path)
    if not os.path.lexists(file):
        from remat_algos.zoo.registry import nearest_reference

        if (near := nearest_reference(str(path))) is not None:
            raise GraphError("{path!p}: there is no such file; did you mean {near!w}?", path=path, near=near)
    try:
        return _read(file, Path(nodes) if nodes is not None else None, dims)
    except GraphError as error:
        files = [file, *([Path(nodes)] if nodes is not None else [])]
        for each in files:
            if (other := what_it_is(each)) is not None:
                raise GraphError("{name!p} is {other!w}", name=each.name, other=other) from error
        if any(shown in str(error) for each in files for shown in (_stem(each)[0], shortened_path(each))):
            raise
        raise extended(error, "{file!p}: ", file=file.name) from error


def network_of(path: str | os.PathLike[str], nodes: str | os.PathLike[str] | None = None) -> Network | None:
    """Build the model that a string names; return None if the string is a file path."""
    if not (isinstance(path, str) and is_reference(path)):
        return None
    if nodes is not None:
        raise GraphError("{path} has its own sizes; leave out the table of nodes {nodes!p}", path=path, nodes=nodes)
    # Imported late, because this loads all layers.
    from remat_algos.zoo.registry import build

    return build(path)


def _split(path: str | os.PathLike[str]) -> tuple[Path, dict[str, int]]:
    name, mark, query = os.fspath(path).partition("?")
    if not mark or os.path.lexists(path) or not os.path.lexists(name):
        return Path(path), {}
    from urllib.parse import unquote

    dims = {}
    for word in query.split("&"):
        dim, _, length = word.partition("=")
        if not (dim and length.isascii() and length.isdecimal() and len(length) < LONGEST_AMOUNT):
            wrong = "{word!r} is not a length of a dimension; write {name!p}?batch=8"
            raise GraphError(wrong, word=word, name=Path(name).name)
        dims[unquote(dim)] = int(length)
    return Path(name), dims


def _read(file: Path, nodes: Path | None, dims: dict[str, int]) -> tuple[ComputationGraph, list[_Note]]:
    form, content = _recognized(file)
    if dims:
        if not form.dims:
            closed = "{name!w} files have no open dimensions; leave out ?{dims!l}"
            raise GraphError(closed, name=form.name, dims=list(dims))
        form = replace(form, read=functools.partial(form.read, dims=dims))
    if nodes is not None:
        tables: Tables | ComputationGraph = _with_nodes(form, content, file.name, nodes)
    else:
        tables = _table(content, file) if form is TABLE else _parsed(form, content, file.name)
    if isinstance(tables, ComputationGraph):
        return tables, []
    graph = ComputationGraph.from_tables(tables)
    only_edges = nodes is None and (form.edges_only or (form is TABLE and _stem(file)[1] is None))
    return graph, _notes(tables, graph, form, "--nodes or " if only_edges else "")


def _parsed(form: GraphFormat, content: Any, source: str) -> Tables | ComputationGraph:
    try:
        result = form.read(content, source)
    except GraphError as error:
        if form is not edge_list.GRAPH_FORMAT or _ending(Path(source)) in form.endings:
            raise
        others = "; if it is not an edge list, give tables, or one of {formats!l}"
        raise extended(error, "", others, formats=_names()) from error
    if isinstance(result, Tables) or (isinstance(result, ComputationGraph) and not form.edges_only):
        return result
    wrong = "{source!p}: read of format {name} returned an object of type {kind}; it must return Tables"
    wrong += "" if form.edges_only else " or a ComputationGraph"
    raise ArgumentTypeError(wrong, source=source, name=form.name, kind=type(result).__name__)


def _recognized(file: Path) -> tuple[GraphFormat, Any]:
    data = _bytes(file)
    for form in graph_formats():
        if form.binary and claims(form, data, _ending(file)):
            return form, data
    text = _text(data, file.name)
    return _format_of(text, file), text


def _notes(tables: Tables, graph: ComputationGraph, form: GraphFormat, option: str) -> list[_Note]:
    n = graph.n_nodes
    notes: list[_Note] = []
    unsized = len(tables.unsized) == n
    # The user may have intended the ignored columns as sizes.
    other = listed(list(dict.fromkeys(tables.ignored)), 4)
    for noun, missing, whole, each, giver in (
        ("size", tables.unsized, "every value counts as 1 byte", "1 byte", form.size_from),
        ("cost", tables.uncosted, "every node counts as 1", "1", form.cost_from),
    ):
        if n and len(missing) == n:
            note = f"{noun}s not given: {whole}; {option}{shortened_path(giver)} gives them"
            notes.append(_Note(note, unsized and other != ""))
        elif missing:
            verb = "counts" if len(missing) == 1 else "count"
            text = f"{counted(len(missing), 'node')} without a {noun} ({_some(missing)}) {verb} as {each}"
            notes.append(_Note(text, doubtful=True))
    if other and notes:
        notes[-1] = notes[-1]._replace(text=f"{notes[-1].text} (found: {other})")
    isolated = np.flatnonzero((np.diff(graph.predecessors[0]) == 0) & (np.diff(graph.successors[0]) == 0))
    if isolated.size and n > 1:
        names = [graph.labels[int(v)] for v in isolated[:FILES_NAMED]]
        notes.append(_Note(f"{counted(isolated.size, 'node')} without edges ({_some(names, isolated.size)})"))
    return notes


def _some(names: Sequence[str], total: int | None = None) -> str:
    return listed(names[:FILES_NAMED], FILES_NAMED, total or len(names))


def _format_of(text: str, file: Path) -> GraphFormat:
    """Return the format of the text of a file; the file name decides only if several formats are possible."""
    forms, ending = [form for form in graph_formats() if not form.binary], _ending(file)
    for form in forms:
        if claims(form, text, ending):
            return form
    named = next((form for form in forms if ending in form.endings and form is not edge_list.GRAPH_FORMAT), None)
    first = _QUOTED.sub("", _first_line(text))
    if (
        csv_tables.without_separator_line(text)[1]
        or "," in first
        or (";" in first and named is None)
        or _header(first) == {"src", "dst"}
        or ("\t" in first and _names_edges(first))
    ):
        return TABLE
    if named is not None and not (ending == ".json" and len(first.split()) == 2):
        return named
    is_table = _stem(file)[1] is not None or (ending in (".csv", ".tsv") and _sibling_tables(file)["edges"].exists())
    return TABLE if is_table else edge_list.GRAPH_FORMAT


def _ending(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def _first_line(text: str) -> str:
    match = re.search(r"^[^\S\n]*([^\s#][^#\n]*)", csv_tables.without_separator_line(text)[0], re.MULTILINE)
    return match[1].rstrip() if match else ""


def _header(line: str) -> set[str]:
    return set(re.split(r'[,;|\s"]+', line.lower()))


def _names_edges(line: str) -> bool:
    """Return True if a line is the header of a table of edges: it names a source column and a target column."""
    columns = aliases(EDGE_COLUMNS)
    return {"src", "dst"} <= {columns.get(word) for word in _header(line)}


def _stem(file: Path) -> tuple[str, str | None]:
    """Split X.kind.csv into X and kind (nodes, edges or values); the kind is None for X.csv and other names."""
    match = re.fullmatch(r"(.*?)(?:\.(nodes|edges|values))?\.[ct]sv(?:\.gz)?", file.name, re.DOTALL)
    return (match[1], match[2]) if match else (file.name.removesuffix(".gz"), None)


def _sibling_tables(file: Path) -> dict[str, Path]:
    stem, kind = _stem(file)
    # The extension after the kind, such as ".tsv.gz".
    own = file.name[len(stem) + (len(kind) + 1 if kind is not None else 0) :]
    endings = list(dict.fromkeys([own if own in TABLE_ENDINGS else ".csv", *TABLE_ENDINGS]))
    tables = {}
    for name in KINDS:
        candidates = [file.with_name(f"{stem}.{name}{ending}") for ending in endings]
        if name == "nodes":
            candidates += [file.with_name(f"{stem}{ending}") for ending in endings]
        tables[name] = next((candidate for candidate in candidates if candidate.exists()), candidates[0])
    return tables | {kind or "nodes": file}


def files_read(path: str | os.PathLike[str], nodes: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the files that reading a graph may open."""
    if isinstance(path, str) and is_reference(path):
        return []
    files = [_split(path)[0], *([Path(nodes)] if nodes is not None else [])]
    siblings = (
        table for file in files if file.name.endswith(TABLE_ENDINGS) for table in _sibling_tables(file).values()
    )
    return [*files, *(table for table in siblings if table.exists())]


def _table(text: str, file: Path) -> Tables:
    kind, tables = _stem(file)[1], _sibling_tables(file)
    names_edges = _names_edges(_first_line(text))
    if kind is None and (names_edges or not tables["edges"].exists()):
        if not names_edges and _header(_first_line(text)) & aliases(NODE_COLUMNS).keys():
            alone = "{name!p} is a table of nodes without edges; "
            alone += "name it X.nodes.csv and put X.edges.csv, with columns src and dst, in the same folder"
            raise GraphError(alone, name=file.name)
        return csv_tables.parse_edges(text, file.name)
    nodes = tables["nodes"]
    # If X.nodes.csv is missing, X.csv next to X.edges.csv may be an unrelated edge list.
    if nodes.exists() and _stem(nodes)[1] is None and _names_edges(_first_line(_named_text(nodes)[0])):
        tables["nodes"] = file.with_name(f"{_stem(file)[0]}.nodes.csv")
    for table in ("edges", "nodes"):
        if not tables[table].exists():
            missing = "no such file: {path!p}, which {name!p} needs; "
            missing += "if this is an edge list without a table of nodes, rename it, such as to X.csv"
            if table == "edges":
                missing = "no such file: {path!p}; {name!p} needs it in the same folder, with columns src and dst"
            raise GraphError(missing, path=tables[table], name=file.name)
    edges = csv_tables.read_edges(*_named_text(tables["edges"]))
    return _joined(tables["nodes"], edges, tables["values"])


def _with_nodes(form: GraphFormat, content: Any, source: str, nodes: Path) -> Tables:
    if form is TABLE:
        edges = csv_tables.read_edges(content, source)
    elif form.edges_only:
        rows: Any = _parsed(form, content, source)
        pairs = [(u, node.name) for node in rows.nodes for u in node.reads]
        edges = ColumnTable(source, {"src": [u for u, _ in pairs], "dst": [v for _, v in pairs]}, noun="edge")
    else:
        own = "{form!w} files have their own sizes and costs; leave out {nodes!p}"
        raise fault(source, own, form=form.name, nodes=nodes.name)
    return _joined(nodes, edges, _sibling_tables(nodes)["values"])


def _joined(nodes: Path, edges: ColumnTable, values: Path) -> Tables:
    return csv_tables.parse(_named_text(nodes), edges, _named_text(values) if values.exists() else None)


def _named_text(file: Path) -> tuple[str, str]:
    return _text(_bytes(file), file.name), file.name


def _bytes(file: Path) -> bytes:
    data = read_bytes(file)
    if not data.strip():
        raise GraphError("{file!p}: the file is empty", file=file)
    return data


def _text(data: bytes, source: str) -> str:
    if b"\0" in data and data[:2] not in UTF_16:
        binary = " nor ".join(form.name for form in graph_formats() if form.binary)
        neither = "the file is neither text nor {binary!w}; give tables, or one of {formats!l}"
        raise fault(source, neither, binary=binary, formats=_names())
    return decoded(data, source, f"save the file as UTF-8, or give tables, or one of {', '.join(_names())}")


def _names() -> list[str]:
    return [form.name for form in graph_formats()]


LETTERS_READ = 2**16
"""Maximum number of bytes inspected to recognize a file."""

PICKLED = tuple(bytes([0x80, version]) for version in range(2, 6))
TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9"
"""Part of the pickle at the start of a checkpoint from early versions of PyTorch."""

CHECKPOINT = (
    "a checkpoint of PyTorch; capture the model: remat_algos.interop.torch.capture(model, inputs) (docs/torch.md)"
)
EXPORT = "export the model as ONNX, which is read (docs/onnx.md)"
KERAS = f"a model of Keras; {EXPORT}"
TENSORFLOW = f"a graph of TensorFlow; {EXPORT}: python -m tf2onnx.convert"
WORKBOOK = "an Excel workbook; save the table as CSV (docs/formats.md)"
PROFILE = (
    "the table of a profiler; it has no sizes and no edges; "
    'capture the model, with cost="profile" for measured times (docs/torch.md)'
)

IN_ARCHIVES = {"data.pkl": CHECKPOINT, "model.weights.h5": KERAS, "workbook.xml": WORKBOOK}
BEGINNINGS = {
    rb"\x89HDF\r\n\x1a\n": KERAS,
    rb'(?s)\s*\{.*"class_name"\s*:\s*"(Functional|Sequential|Model)"': KERAS,
    # A SavedModel begins with its version, then a meta graph. A GraphDef begins with the name of a node.
    rb"\x08\x01\x12[\x80-\xff]{1,5}[\x00-\x7f]\x0a": TENSORFLOW,
    rb"(?s)\x0a.{1,3}?\x0a(?=.*(Const|Placeholder))": TENSORFLOW,
    rb"(?s).*(Self (CPU|CUDA|XPU|device)( time)?( %| total|:)|\n *Name\b[^\n]*# of Calls)": PROFILE,
}


def what_it_is(path: Path) -> str | None:
    """Describe a file that is not a graph file, and how to import it; return None if its kind is unknown."""
    try:
        if path.is_dir():
            return TENSORFLOW if (path / "saved_model.pb").exists() else None
        with open(path, "rb") as stream:
            data = stream.read(LETTERS_READ)
    except OSError:
        return None
    if data.startswith(b"PK"):
        with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
            return next((kind for name, kind in IN_ARCHIVES.items() if name in names), None)
    if data.startswith(PICKLED) and TORCH_MAGIC in data[:20]:
        return CHECKPOINT
    return next((kind for beginning, kind in BEGINNINGS.items() if re.match(beginning, data)), None)


@checked_arguments
def write_graph(graph: ComputationGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph as JSON, npz, GraphML, DOT or tables; or write only its edges.

    Parameters
    ----------
    graph : ComputationGraph
    path : path
        File whose extension selects the format: .json, .npz, .graphml, .dot, .gv, or .nodes.csv for the tables
        X.nodes.csv, X.edges.csv and X.values.csv. .txt, .edges (edge list) and .gr (PACE) store only edges.

    Raises
    ------
    GraphError
        If the extension is unknown, or an edge list cannot represent a name.
    OSError
        If writing fails; existing files are then unchanged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(ComputationGraph.from_edges([("A", "B")]), f"{folder}/pair.nodes.csv")
    ...     pathlib.Path(folder, "pair.edges.csv").read_text()
    'src,dst\\nA,B\\n'
    """
    contents = dict(zip(files_written(path), _contents(graph, Path(path)), strict=True))
    write_all({file: data for file, data in contents.items() if data is not None})
    for file, data in contents.items():
        # This graph needs no such table: remove that of an earlier graph.
        if data is None:
            file.unlink(missing_ok=True)


def files_written(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that writing to a path creates or removes; raise GraphError for an unknown extension."""
    file = Path(path)
    if file.name.endswith(TABLES):
        stem = file.name.removesuffix(TABLES)
        return [file.with_name(f"{stem}.{kind}.csv") for kind in KINDS]
    if _writer(file) is None:
        endings = dict.fromkeys(ending for form in graph_formats() if form.write is not None for ending in form.endings)
        unknown = "{name!p}: unknown ending; use {endings!l} or {tables!w}"
        raise GraphError(unknown, name=file.name, endings=list(endings), tables=TABLES)
    return [file]


def _contents(graph: ComputationGraph, file: Path) -> list[bytes | None]:
    form = _writer(file)
    if form is not None and form.write is not None:
        content = form.write(graph)
        if not isinstance(content, str | bytes):
            wrong = "{name!p}: write of format {form} returned an object of type {kind}; it must return str or bytes"
            raise ArgumentTypeError(wrong, name=file.name, form=form.name, kind=type(content).__name__)
        return [content.encode() if isinstance(content, str) else content]
    texts = csv_tables.dump(tables_from(graph))
    return [texts[kind].encode() if kind in texts else None for kind in KINDS]


def left_out(graph: ComputationGraph, path: str | os.PathLike[str]) -> list[str]:
    """Return the properties of a graph that the format of a path cannot store."""
    if str(path).endswith(TABLES):
        return csv_tables.left_out(tables_from(graph))
    form = _writer(Path(path))
    return _beyond_edges(graph, form) if form is not None and form.edges_only else []


def _beyond_edges(graph: ComputationGraph, form: GraphFormat) -> list[str]:
    default = unread_first_values(graph.value_indptr, graph.read_indices)
    parts = {
        "names": graph.labels.names is not None and form is not edge_list.GRAPH_FORMAT,
        "sizes": bool((graph.memory != 1).any()),
        "costs": bool((graph.compute != 1).any()),
        "workspaces": bool(graph.workspace.any()),
        "several values of a node": not graph.single_valued,
        "which values are outputs": not np.array_equal(default, graph.output),
        "which nodes must run only once": bool(graph.once.any()),
        "marks": graph.mark is not None,
        "residents": graph.resident is not None,
        "operations": graph.labels.ops is not None,
        "gradients": graph.backward is not None or graph.is_training,
    }
    return [name for name, lost in parts.items() if lost]


def _writer(file: Path) -> GraphFormat | None:
    forms = (form for form in graph_formats() if form.write is not None)
    return next((form for form in forms if file.suffix.lower() in form.endings), None)
