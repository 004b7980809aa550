"""Graphs in GraphML, as yEd and others write it; networkx reads and writes it."""

import re
import warnings
from typing import Any, NoReturn

from remat_algos.errors import GraphError
from remat_algos.ir.files.attributes import Drawing, drawing_of, tables_of
from remat_algos.ir.files.row_writer import Record
from remat_algos.ir.tables import Tables

_DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_EMPTY = re.compile(r"<((?:\w+:)?default)\b[^>]*?(?:/>|>\s*</\1>)")  # networkx takes it for the word None
_GRAPH, _NODE = (re.compile(rf"<(?:\w+:)?{tag}[\s/>]") for tag in ("graph", "node"))


def parse(text: str, source: str) -> Tables:
    """Rows from GraphML text; a text that declares entities, a few lines of which fill any memory, is not parsed.

    The parser gets the very text that was looked through: an encoding that the text claims to have does not matter.
    """
    declaration = _DECLARATION.search(text)
    if declaration is not None:
        line = text.count("\n", 0, declaration.start()) + 1
        _fail(source, f"{declaration[0]} on line {line} is not followed, since entities do harm; remove it")
    bare = _COMMENT.sub("", text)
    graphs = len(_GRAPH.findall(bare))
    if graphs != 1:
        remedy = "keep one, and ungroup nodes that hold others" if graphs else "export the graph as GraphML"
        _fail(source, f"there are {graphs} graphs in the file; {remedy}")
    graph = _read(text, source)
    elements = len(_NODE.findall(bare))
    if elements != graph.number_of_nodes():  # networkx takes two of one id for one, and adds those that edges name
        nodes = f"{elements} node elements for {graph.number_of_nodes()} nodes"
        _fail(source, f"there are {nodes}; give each node that an edge names one element, with an id of its own")
    return tables_of(_drawing(graph), source)


def _networkx(source: str) -> Any:
    try:
        import networkx
    except ImportError as error:
        remedy = "python -m pip install 'remat_algos[graphs]'"
        _fail(source, f"GraphML is read and written by networkx, which is not here; {remedy}", error)
    return networkx


def _read(text: str, source: str) -> Any:
    """networkx' graph."""
    networkx = _networkx(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ports, which are only for the eye
            graph = networkx.parse_graphml(_EMPTY.sub("", text), edge_key_type=int, force_multigraph=True)
    except Exception as error:  # the reader has no errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        _fail(source, f"not GraphML that networkx can read ({reason[:100]}); is the file whole?", error)
    if not graph.is_directed():
        remedy = 'set edgedefault="directed", each edge from what is read to its reader'
        _fail(source, f"the graph is undirected; {remedy}")
    return graph


def _drawing(graph: Any) -> Drawing:
    """Nodes and edges in the order of the file; edges of others' files, which have no numbers, node by node."""
    node_default, edge_default = (graph.graph.pop(f"{scope}_default") for scope in ("node", "edge"))
    edges = list(graph.edges(keys=True, data=True))
    keys = [key for _, _, key, _ in edges]
    if all(type(key) is int for key in keys) and len(set(keys)) == len(keys):
        edges.sort(key=lambda edge: edge[2])
    nodes = {key: {**node_default, **data} for key, data in graph.nodes(data=True)}
    labels = [(data.get("label") or "").strip() for data in nodes.values()]
    if all(label and label.isprintable() for label in labels) and len(set(labels)) == len(labels):
        for data, label in zip(nodes.values(), labels, strict=True):  # yEd calls the nodes themselves n0, n1, ...
            data.setdefault("name", label)
            del data["label"]
    return Drawing(nodes, [(u, v, {**edge_default, **data}) for u, v, _, data in edges], dict(graph.graph))


def dump(tables: Tables) -> str:
    """The rows as GraphML text; the ids of the nodes are their names, those of the edges their numbers."""
    networkx = _networkx(tables.source)
    drawing = drawing_of(tables)
    graph = networkx.MultiDiGraph(**_plain(drawing.graph))
    graph.add_nodes_from((name, _plain(record)) for name, record in drawing.nodes.items())
    graph.add_edges_from((u, v, key, _plain(record)) for key, (u, v, record) in enumerate(drawing.edges))
    lines = networkx.generate_graphml(graph)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join(lines) + "\n"


def _plain(record: Record) -> Record:
    """Numbers that GraphML has no type for, as text."""
    return {name: said if isinstance(said, int | str) else str(said) for name, said in record.items()}


def _fail(source: str, message: str, cause: BaseException | None = None) -> NoReturn:
    raise GraphError(f"{source}: {message}") from cause
