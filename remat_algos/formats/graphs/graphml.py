"""Graphs in GraphML, the format of yEd and other editors, read and written with networkx."""

import re
import warnings
from typing import Any
from xml.etree import ElementTree

from remat_algos.errors import GraphError
from remat_algos.formats.attributes import Drawing, drawing_of, tables_of
from remat_algos.formats.columns import fault
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.rows import Record, tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables

_DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def _parse(text: str, source: str) -> Tables:
    """Parse rows from GraphML text. The declared encoding is ignored. Entities raise an error: they can fill memory."""
    declaration = _DECLARATION.search(text)
    if declaration is not None:
        line = text.count("\n", 0, declaration.start()) + 1
        why = "{declaration} on line {at} is not allowed, because entities can fill memory; remove it"
        raise fault(source, why, declaration=declaration[0], at=line)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, column = error.position
        reason = str(error).partition(":")[0]
        wrong = "not valid XML at line {at}, column {column} ({reason}); is the file whole?"
        raise fault(source, wrong, at=line, column=column + 1, reason=reason) from error
    _check(root, source)
    _prepare(root)
    return tables_of(_drawing(_read(root, source)), source)


def _check(root: ElementTree.Element, source: str) -> None:
    """Raise GraphError for nested graphs and missing or duplicate ids, which networkx would silently misread."""
    graphs = len(root.findall(".//{*}graph"))
    if graphs != 1:
        remedy = "keep one, and ungroup nodes that contain others" if graphs else "export the graph as GraphML"
        raise fault(source, "there are {graphs} graphs in the file; {remedy!w}", graphs=graphs, remedy=remedy)
    seen: set[str | None] = set()
    for place, node in enumerate(root.iterfind(".//{*}node"), start=1):
        key = node.get("id")
        if not key:
            raise fault(source, "node number {place} of the file has no id; give it one", place=place)
        if key in seen:
            raise fault(source, "two nodes have the id {key!r}; give each its own", key=key)
        seen.add(key)
    for place, edge in enumerate(root.iterfind(".//{*}edge"), start=1):
        u, v = edge.get("source"), edge.get("target")
        if u not in seen or v not in seen:
            missing = "edge {place} of the file, {u!r} -> {v!r}, names a node that is not in the file; add it"
            raise fault(source, missing, place=place, u=u, v=v)


def _prepare(root: ElementTree.Element) -> None:
    """Make networkx read numbers as strings, with their units, and number the edges, because networkx reorders them."""
    edges = root.findall(".//{*}edge")
    ids = {key for key in (edge.get("id", "") for edge in edges) if key.isascii() and key.isdecimal() and len(key) < 10}
    if len(ids) < len(edges):
        for place, edge in enumerate(edges):
            edge.set("id", str(place))
    for key in root.iterfind("{*}key"):
        key.set("attr.type", "string")
        default = key.find("{*}default")
        # networkx would read an empty default as "None".
        if default is not None and not default.text:
            key.remove(default)


def _networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise GraphError("GraphML needs networkx; install it: python -m pip install networkx") from error
    return networkx


def _read(root: ElementTree.Element, source: str) -> Any:
    networkx = _networkx()
    try:
        with warnings.catch_warnings():
            # networkx warns about ports, which matter only for drawing.
            warnings.simplefilter("ignore")
            graph = networkx.parse_graphml(ElementTree.tostring(root, "unicode"), force_multigraph=True)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        wrong = "not GraphML that networkx can read ({reason!p}); is the file whole?"
        raise fault(source, wrong, reason=reason) from error
    if not graph.is_directed():
        remedy = 'set edgedefault="directed", with edges from a node to its readers'
        raise fault(source, "the graph is undirected; {remedy!w}", remedy=remedy)
    return graph


def _drawing(graph: Any) -> Drawing:
    node_default, edge_default = (graph.graph.pop(f"{scope}_default") for scope in ("node", "edge"))
    edges = sorted(graph.edges(keys=True, data=True), key=lambda edge: edge[2])
    nodes = {key: {**node_default, **data} for key, data in graph.nodes(data=True)}
    labels = [(data.get("label") or "").strip() for data in nodes.values()]
    if all(label and label.isprintable() for label in labels) and len(set(labels)) == len(labels):
        # yEd's ids are n0, n1 and so on, so labels are better names.
        for data, label in zip(nodes.values(), labels, strict=True):
            data.setdefault("name", label)
            del data["label"]
    return Drawing(nodes, [(u, v, {**edge_default, **data}) for u, v, _, data in edges], dict(graph.graph))


def _dump(graph: ComputationGraph) -> str:
    networkx = _networkx()
    drawing = drawing_of(tables_from(graph))
    digraph = networkx.MultiDiGraph(**_plain(drawing.graph))
    digraph.add_nodes_from((name, _plain(record)) for name, record in drawing.nodes.items())
    digraph.add_edges_from((u, v, key, _plain(record)) for key, (u, v, record) in enumerate(drawing.edges))
    lines = networkx.generate_graphml(digraph)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join(lines) + "\n"


def _plain(record: Record) -> Record:
    return {name: value if isinstance(value, int | str) else str(value) for name, value in record.items()}


GRAPH_FORMAT = GraphFormat(
    "GraphML",
    _parse,
    _dump,
    (".graphml",),
    begins=re.compile(r"\s*<"),
    size_from="an attribute memory",
    cost_from="an attribute compute",
)
