"""Graphs with attributes on nodes and edges, as in GraphML and DOT; attributes have the names of table columns.

A node also carries the attributes of its first value. Every other value is a separate node of the file, whose
attribute `value_of` names the node that computes it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from remat_algos.files import json_of
from remat_algos.formats.columns import (
    COSTS,
    SIZES,
    ColumnTable,
    Known,
    Meaning,
    aliases,
    check_unknown,
    fault,
    meaning_of,
    meanings,
    unit_of_costs,
    warn_ignored,
    with_unit,
)
from remat_algos.formats.rows import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    OF_NODES,
    VALUE_CELLS,
    VALUE_COLUMNS,
    Record,
    records_of,
    rows_of,
    scale_shows,
)
from remat_algos.ir.parts import Derivation
from remat_algos.ir.tables import Tables
from remat_algos.wording import quoted

NODE_ATTRIBUTES: Known = {
    **{name: others for name, others in NODE_COLUMNS.items() if name not in ("id", "memory")},
    "memory": tuple(name for name in NODE_COLUMNS["memory"] if name != "size"),
    **{"value": (), "value_of": (), "saved": ()},
}
"""Node attributes of GraphML and DOT, where `size` means the size in a drawing."""
DATA_ATTRIBUTES: Known = {**NODE_ATTRIBUTES, "memory": NODE_COLUMNS["memory"]}
"""Node attributes of networkx JSON, where `size` can mean bytes."""
EDGE_ATTRIBUTES: Known = {"saved": ()}
GRAPH_ATTRIBUTES: Known = {"compute_unit": (), "compute_scale": (), "derivation": ()}

Texts = dict[str, str]


@dataclass(slots=True)
class Drawing:
    """Nodes by id and edges (u, v) in the order of the file, and the attributes of nodes, edges and the graph."""

    nodes: dict[str, Record] = field(default_factory=dict)
    edges: list[tuple[str, str, Record]] = field(default_factory=list)
    graph: Record = field(default_factory=dict)


def tables_of(drawing: Drawing, source: str, *, data: bool = False, notice: bool = True) -> Tables:
    """Convert a drawing to rows; one notice lists the ignored attributes. With `data`, `size` may mean bytes."""
    names = list(drawing.nodes)
    used = {name for record in drawing.nodes.values() for name in record}
    sized = any(means(name, "memory", NODE_ATTRIBUTES) for name in used)
    attributes = DATA_ATTRIBUTES if data and not sized else NODE_ATTRIBUTES
    reader = _AttributeReader(source)
    records = reader.texts(list(drawing.nodes.values()), attributes, lambda i: f"node {quoted(names[i])}")
    nodes = dict(zip(names, records, strict=True))
    of_nodes = {name: column for name, column in OF_NODES.items() if name != "size" or attributes is DATA_ATTRIBUTES}
    present = {column for texts in records for column in texts}
    elsewhere = {"nodes": {name: column for name, column in of_nodes.items() if column not in present}}
    # An edge from a node to its own value is not a read.
    ends = [(u, v) for u, v, _ in drawing.edges if nodes.get(v, {}).get("value_of") != u]
    records = [record for u, v, record in drawing.edges if nodes.get(v, {}).get("value_of") != u]
    edge_texts = reader.texts(
        records, EDGE_ATTRIBUTES, lambda i: "edge {} -> {}".format(*map(quoted, ends[i])), elsewhere
    )
    edges = [{"src": u, "dst": v, **texts} for (u, v), texts in zip(ends, edge_texts, strict=True)]
    ignored = list(reader.ignored)
    (graph,) = reader.texts([drawing.graph], GRAPH_ATTRIBUTES, lambda _: "the graph")
    rows, values = _separated(nodes)
    tables = rows_of(
        ColumnTable.of_records(rows, source, NODE_COLUMNS, "node"),
        ColumnTable.of_records(edges, source, EDGE_COLUMNS, "edge"),
        ColumnTable.of_records(values, source, VALUE_COLUMNS, "value") if values else None,
    )
    _add_graph_attributes(tables, graph)
    tables.compute_unit = unit_of_costs(source, reader.costs, tables.compute_unit)
    tables.ignored = ignored
    if notice:
        warn_ignored(source, reader.ignored, "attributes")
    return tables


def means(name: str, column: str, attributes: Known = DATA_ATTRIBUTES) -> bool:
    """Return True if a name, with or without a unit, is one of the names of the column."""
    try:
        meaning = meaning_of(name, aliases(attributes))
    except ValueError:  # unknown unit
        return column in SIZES
    return meaning is not None and meaning.column == column


class _AttributeReader:
    """Reader of attributes as {column: string}. It collects the units of costs and the unknown attributes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.costs: set[Meaning] = set()
        self.ignored: dict[str, None] = {}

    def texts(
        self,
        records: Sequence[Record],
        attributes: Known,
        called: Callable[[int], str],
        elsewhere: Mapping[str, Mapping[str, str]] | None = None,
    ) -> list[Texts]:
        names = dict.fromkeys(name for record in records for name in record)
        meaning_by_name = meanings(self.source, names, attributes, "attribute")
        rows: list[Texts] = []
        for i, record in enumerate(records):
            texts: Texts = {}
            for name, entry in record.items():
                meaning = meaning_by_name[name]
                if meaning is None:
                    continue
                if meaning.column in texts:
                    twice = "{column} occurs twice; keep one"
                    raise fault(self.source, twice, where=called(i), column=meaning.column)
                text = str(entry)
                texts[meaning.column] = with_unit(text, meaning.unit) if meaning.column in SIZES else text
                if meaning.column in COSTS and text.strip():
                    self.costs.add(meaning)
            rows.append(texts)
        unknown = [name for name, meaning in meaning_by_name.items() if meaning is None]
        present = {column for texts in rows for column in texts}
        check_unknown(self.source, unknown, attributes, present, elsewhere or {}, "attribute")
        self.ignored.update(dict.fromkeys(unknown))
        return rows


def _separated(nodes: Mapping[str, Texts]) -> tuple[list[Texts], list[Texts]]:
    """Split the nodes of the file into rows of nodes and rows of values.

    A value has its own row only if the row of its node cannot describe it.
    """
    extra: dict[str, list[Texts]] = {}
    for key, texts in nodes.items():
        if texts.get("value_of"):
            value = {"node": texts["value_of"], "id": key, "name": texts.get("name") or key, **texts}
            extra.setdefault(texts["value_of"], []).append(value)
    rows, values = [], []
    for key, texts in nodes.items():
        if texts.get("value_of"):
            continue
        row = {"id": key, **texts}
        rows.append(row)
        if key in extra or row.get("value") or row.get("saved"):
            first = {column: row.pop(column) for column in (*VALUE_CELLS, "saved") if column in texts}
            values += [{"node": key, "name": row.get("value", ""), **first}, *extra.pop(key, ())]
    # Keep values of unknown nodes, so that the reader reports them.
    values += [value for orphans in extra.values() for value in orphans]
    for value in values:
        if "memory" in value:
            value["memory_bytes"] = value.pop("memory")
    return rows, values


def _add_graph_attributes(tables: Tables, graph: Texts) -> None:
    source = tables.source
    tables.compute_unit = graph.get("compute_unit", "").strip()
    if graph.get("compute_scale"):
        if not graph["compute_scale"].isdecimal():
            raise fault(source, "compute_scale is {scale!r}; write a whole number", scale=graph["compute_scale"])
        tables.compute_scale = int(graph["compute_scale"])
    if graph.get("derivation"):
        try:
            derivation = json_of(graph["derivation"])
        except (ValueError, RecursionError) as error:
            raise fault(source, "derivation is not valid JSON; leave it out") from error
        tables.derivation = Derivation.of(derivation, source).record()


def drawing_of(tables: Tables) -> Drawing:
    """Convert rows to a drawing. A view gets an edge from its base, an extra value an edge from its node."""
    records = records_of(tables, (tables.compute_scale or 1) if scale_shows(tables) else 1)
    values: dict[str, list[Record]] = {}
    for record in records.values:
        values.setdefault(record["node"], []).append(record | {"memory": record.get("memory_bytes", "")})
    drawing = Drawing(graph=_graph_attributes(tables))
    belongs: list[tuple[str, str]] = []
    node_of: dict[str, str] = {}
    for record in records.nodes:
        name = record["name"]
        first, *others = values.get(name, [{}])
        drawing.nodes[name] = _attributes({**record, **first, "value": first.get("name", "")}, NODE_ATTRIBUTES)
        node_of[first.get("name") or name] = name
        for k, value in enumerate(others, start=1):
            called = value["name"] or f"{name}:{k}"
            drawing.nodes[called] = _attributes({**value, "value_of": name}, NODE_ATTRIBUTES)
            belongs.append((name, called))
        if record.get("view_of"):
            belongs.append((record["view_of"], name))
    edges: list[tuple[str, str, Record]] = [
        *((record["src"], record["dst"], _attributes(record, EDGE_ATTRIBUTES)) for record in records.edges),
        *((base, part, {}) for base, part in belongs),
    ]
    drawing.edges = [(node_of.get(u, u), v, record) for u, v, record in edges]
    return drawing


def _attributes(record: Record, attributes: Known) -> Record:
    return {name: record[name] for name in attributes if name != "name" and record.get(name, "") != ""}


def _graph_attributes(tables: Tables) -> Record:
    unit = {"compute_unit": tables.compute_unit} if tables.compute_unit else {}
    scale = {} if scale_shows(tables) else {"compute_scale": tables.compute_scale}
    derivation = {"derivation": json.dumps(tables.derivation)} if tables.derivation is not None else {}
    return {**unit, **scale, **derivation}
