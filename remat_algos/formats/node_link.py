"""The JSON that networkx writes: node-link data, which D3 reads too, and adjacency data."""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from remat_algos.errors import GraphError
from remat_algos.formats import attributes
from remat_algos.formats.attributes import Drawing
from remat_algos.formats.row_writer import Record
from remat_algos.ir.tables import Tables
from remat_algos.text.wording import quoted

EDGES = ("edges", "links", "adjacency")
ENDS = ("id", "key", "source", "target")  # of edges, no attributes


def is_node_link(record: Any) -> bool:
    """True if parsed JSON is of this kind, and not our own."""
    return isinstance(record, dict) and "format" not in record and "nodes" in record and any(e in record for e in EDGES)


def tables_of(record: Mapping[str, Any], source: str) -> Tables:
    """Rows from parsed JSON: `nodes` with an `id`, and `edges` or `links` from `source` to `target`, or `adjacency`.

    Parallel edges are one read. Raises GraphError for an undirected graph, or JSON in another form.
    """
    if record.get("directed") is False:
        _fail(source, "the graph is undirected, expected directed edges u -> v, where v reads u")
    drawing = Drawing(graph=_attributes(_pairs(record.get("graph", {}))))
    for place, node in enumerate(_objects(record, "nodes", source)):
        if "id" not in node:
            _fail(source, f"node {place} has no `id`; add one")
        name = name_of(node["id"])
        if name in drawing.nodes:
            _fail(source, f"two nodes have the id {quoted(name)}; give each its own id")
        drawing.nodes[name] = _attributes((key, x) for key, x in node.items() if key != "id")
    seen = set()
    for u, v, edge in _edges(record, list(drawing.nodes), source):
        if u not in drawing.nodes or v not in drawing.nodes:
            lost = u if u not in drawing.nodes else v
            _fail(source, f"an edge has {quoted(lost)}, which is no node; add it to `nodes`")
        if (u, v) not in seen:
            seen.add((u, v))
            drawing.edges.append((u, v, _attributes((key, x) for key, x in edge.items() if key not in ENDS)))
    return attributes.tables_of(drawing, source, data=True)


def name_of(node: Any) -> str:
    """The name of a node that JSON writes as a number, a text or a list; lists are tuples in Python."""
    return str(_hashable(node))


def _hashable(node: Any) -> Any:
    return tuple(map(_hashable, node)) if isinstance(node, list) else node


def _edges(record: Mapping[str, Any], names: list[str], source: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Edges as (u, v, attributes)."""
    if "adjacency" in record:
        rows = record["adjacency"]
        if not isinstance(rows, list) or len(rows) != len(names) or not all(isinstance(row, list) for row in rows):
            _fail(source, f"`adjacency` is not a list with a row per node, expected {len(names)} rows")
        for u, row in zip(names, rows, strict=True):
            for edge in _objects({"adjacency": row}, "adjacency", source):
                if "id" not in edge:
                    _fail(source, f"an edge of node {quoted(u)} has no `id`; add the node that it leads to")
                yield u, name_of(edge["id"]), edge
        return
    key = "edges" if "edges" in record else "links"
    for place, edge in enumerate(_objects(record, key, source)):
        if "source" not in edge or "target" not in edge:
            _fail(source, f"edge {place} of `{key}` has no `source` and `target`; add them")
        yield name_of(edge["source"]), name_of(edge["target"]), edge


def _objects(record: Mapping[str, Any], key: str, source: str) -> list[Mapping[str, Any]]:
    found = record[key]
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        _fail(source, f"`{key}` is not a list of objects")
    return found


def _pairs(attributes: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of the whole graph: an object, or the pairs that adjacency data have."""
    if isinstance(attributes, dict):
        yield from attributes.items()
    elif isinstance(attributes, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in attributes):
        yield from ((str(key), entry) for key, entry in attributes)


def _attributes(pairs: Any) -> Record:
    """Pairs as a record, without entries that are null."""
    return {str(key): entry for key, entry in pairs if entry is not None}


def _fail(source: str, message: str) -> NoReturn:
    raise GraphError(f"{source}: {message}")
