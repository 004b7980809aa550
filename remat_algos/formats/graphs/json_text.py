"""Graphs as JSON, in the format "remat-graph" version 1 (docs/formats.md) or in the format of networkx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.files import json_of
from remat_algos.formats.attributes import Drawing, tables_of
from remat_algos.formats.columns import (
    COSTS,
    SIZES,
    Known,
    Meaning,
    aliases,
    check_unknown,
    fault,
    meanings,
    unit_of_costs,
    warn_ignored,
    with_unit,
)
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.rows import NODE_COLUMNS, OF_NODES, VALUE_COLUMNS, Record, tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Derivation
from remat_algos.ir.tables import NodeRow, Number, ResidentRow, Tables, ValueRow
from remat_algos.text.amounts import Reading, cost_of, size_of
from remat_algos.wording import quoted

_START = re.compile(r"\s*([{[])")
FORMAT, VERSION = "remat-graph", 1
BACKWARD = ("none", "to come", "present")
_EXPECTED = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
_MISSING = object()
LINKS = ("edges", "links", "adjacency")
# Keys that are not attributes.
_ENDS = ("id", "key", "source", "target")

KEYS: Known = dict.fromkeys(
    ("format", "version", "nodes", "residents", "backward", "compute_unit", "compute_scale", "views", "derivation"), ()
)
OF_VALUE = ("memory", "output", "grad_memory", "view_of")
"""Keys that describe a value; they may be in the object of the node if that has no `values`."""
VALUE_KEYS: Known = {"name": (), **dict.fromkeys(OF_VALUE, ()), "memory": VALUE_COLUMNS["memory_bytes"]}
NODE_KEYS: Known = {
    **{"name": (), "op": (), "compute": NODE_COLUMNS["compute"], "workspace": (), "once": ()},
    "reads": ("inputs", "deps", "dependencies", "predecessors", "parents", "operands", "args"),
    **dict.fromkeys(("values", "mark", "gradient_of", "backward", "saved", "grad_compute", "grad_workspace"), ()),
    **{key: VALUE_KEYS[key] for key in OF_VALUE},
}
RESIDENT_KEYS: Known = {"name": (), "memory": VALUE_KEYS["memory"], "role": (), "readers": ()}

_READERS = dict.fromkeys(("readers", "users", "consumers", "successors", "children"), "reads")
_GRAPH = aliases(dict.fromkeys(("nodes", "residents", "views", "compute_unit", "compute_scale", "derivation"), ()))
_EDGES = dict.fromkeys(LINKS, "reads")
_OF_NODE = {name: key for name, key in aliases(NODE_KEYS).items() if key not in ("name", "op")}
NODES_ELSEWHERE = {
    "the graph": _GRAPH,
    'the `"residents"` of the graph': dict.fromkeys(("resident", "param_memory", "param_bytes"), "residents"),
    '`"saved"`': {name: "saved" for name in OF_NODES if name.endswith(("needs_inputs", "needs_output"))},
    '`"values"`, a list of objects': {"outputs": "values"},
    'the nodes that read it, as `"reads"`': {**_READERS, **_EDGES},
}
VALUES_ELSEWHERE = {"the node": _OF_NODE, **NODES_ELSEWHERE}
GRAPH_ELSEWHERE = {
    'the nodes, as `"reads"`': _EDGES,
    'the values of nodes, as `"output"`': {"outputs": "output"},
    'the `"residents"`': dict.fromkeys(("inputs", "parameters", "states"), "residents"),
    "the nodes": {name: key for name, key in _OF_NODE.items() if name != "backward"},
    '`"compute_unit"`': dict.fromkeys(("unit", "units", "time_unit", "cost_unit"), "compute_unit"),
}


@checked_arguments
def from_json(text: str, source: str = "JSON") -> ComputationGraph:
    """Read a graph from JSON text of `to_json` or networkx.

    Parameters
    ----------
    text : str
    source : str
        Name of the text in messages.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    GraphError
        If the text has neither format; the message gives the location.

    Examples
    --------
    >>> from_json(to_json(ComputationGraph.from_edges([("A", "B")]))).labels.names
    ('A', 'B')
    """
    return ComputationGraph.from_tables(_parse(text, source))


@checked_arguments
def to_json(graph: ComputationGraph) -> str:
    """Return the graph as a JSON object, one node per line.

    Parameters
    ----------
    graph : ComputationGraph

    Returns
    -------
    str

    Examples
    --------
    >>> to_json(ComputationGraph.from_edges([("A", "B")])).splitlines()[-2][:24]
    '{"name": "B", "op": "", '
    """
    return _dump(tables_from(graph))


def _parse(text: str, source: str) -> Tables:
    try:
        record = json_of(text, exact=True)
    except ValueError as error:
        raise fault(source, "{error!w}; is the file whole?", error=error) from error
    return (_node_link_tables if _is_node_link(record) else _tables)(record, source)


def _tables(record: Any, source: str) -> Tables:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        others = '"nodes" with "edges", "links" or "adjacency", as networkx writes (docs/formats.md)'
        raise fault(source, 'not a graph: expected "format": "{known}", or {others!w}', known=FORMAT, others=others)
    version = record.get("version")
    if type(version) is not int or version != VERSION:
        wrong = "version {version!r} is not supported; this release reads version {known}"
        raise fault(source, wrong, version=version, known=VERSION)
    reader = _Reader(source)
    top = reader.fields(record, "the graph", KEYS, GRAPH_ELSEWHERE)
    of_nodes = [
        reader.fields(entry, f"node {i}", NODE_KEYS, NODES_ELSEWHERE) for i, entry in enumerate(top.take("nodes", list))
    ]
    nodes = [_node(fields, i) for i, fields in enumerate(of_nodes)]
    residents = [
        _resident(reader.fields(entry, f"resident {i}", RESIDENT_KEYS, {"a node": _OF_NODE}))
        for i, entry in enumerate(top.take("residents", list, []))
    ]
    backward = _backward(top, nodes)
    scale = top.take("compute_scale", int, None)
    views, derivation = top.take("views", dict, {}), top.take("derivation", dict, None)
    if not all(isinstance(name, str) and isinstance(base, str) for name, base in views.items()):
        raise fault(source, '"views" must map names to names')
    derivation = Derivation.of(derivation, source).record() if derivation is not None else None
    unit = unit_of_costs(source, reader.costs, top.take("compute_unit", str, ""))
    warn_ignored(source, reader.ignored, "keys")
    return Tables(
        nodes,
        residents,
        backward,
        views,
        unit,
        scale,
        derivation,
        source,
        unsized=[node.name for node, fields in zip(nodes, of_nodes, strict=True) if fields.unsized],
        uncosted=[node.name for node, fields in zip(nodes, of_nodes, strict=True) if "compute" not in fields.record],
        ignored=list(reader.ignored),
    )


def _backward(top: _Fields, nodes: Sequence[NodeRow]) -> str:
    n_saved = sum(node.saved is not None for node in nodes)
    backward: str = top.take("backward", str, "to come" if n_saved else "none")
    if any(node.gradient_of is not None or node.backward for node in nodes):
        backward = "present"
    if backward not in BACKWARD:
        raise fault(top.source, '"backward" is {backward!r}; use {known!l}', backward=backward, known=list(BACKWARD))
    if 0 < n_saved < len(nodes):
        lacking = next(node.name for node in nodes if node.saved is None)
        wrong = '"saved" is missing for node {lacking!r}; give it for all nodes or for none'
        raise fault(top.source, wrong, lacking=lacking)
    return backward


def _dump(tables: Tables) -> str:
    gradients = tables.backward == "to come"
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "compute_unit": tables.compute_unit}
    if tables.compute_scale not in (None, 1):
        head["compute_scale"] = tables.compute_scale
    head["backward"] = tables.backward
    if tables.derivation is not None:
        head["derivation"] = tables.derivation
    head["residents"] = [
        {"name": r.name, "memory": r.memory, "role": r.role, "readers": r.readers} for r in tables.residents
    ]
    head["views"] = dict(tables.views)
    lines = [json.dumps(_node_record(node, gradients)) for node in tables.nodes]
    return json.dumps(head)[:-1] + ', "nodes": [\n' + ",\n".join(lines) + "\n]}\n"


def _node_record(node: NodeRow, gradients: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"name": node.name, "op": node.op, "compute": node.compute, "workspace": node.workspace}
    record |= {"once": node.once, "reads": node.reads, "values": [_value_record(value) for value in node.values]}
    if gradients:
        record |= {"saved": node.saved, "grad_compute": node.grad_compute, "grad_workspace": node.grad_workspace}
    if node.mark:
        record["mark"] = node.mark
    if node.gradient_of is not None:
        record["gradient_of"] = node.gradient_of
    elif node.backward:
        record["backward"] = True
    return record


def _value_record(value: ValueRow) -> dict[str, Any]:
    record: dict[str, Any] = {} if value.name is None else {"name": value.name}
    record |= {"memory": value.memory, "output": value.output}
    return record if value.grad_memory is None else record | {"grad_memory": value.grad_memory}


def _node(fields: _Fields, place: int) -> NodeRow:
    name = fields.take("name", str, str(place))
    fields.what = f"node {quoted(name)}"
    if "values" in fields.record:
        values = [
            fields.reader.fields(entry, fields.what, VALUE_KEYS, VALUES_ELSEWHERE)
            for entry in fields.take("values", list)
        ]
        both = next((key for key in OF_VALUE if key in fields.record), None)
        if both is not None:
            wrong = '{what!w} has both "{both}" and "values"; move "{both}" into the values'
            raise fault(fields.source, wrong, what=fields.what, both=both)
    else:
        values = [fields.part(OF_VALUE)]
    fields.unsized = any("memory" not in value.record and "view_of" not in value.record for value in values)
    return NodeRow(
        name=name,
        op=fields.take("op", str, ""),
        compute=fields.amount("compute", cost_of, 1),
        workspace=fields.amount("workspace", size_of, 0),
        once=fields.take("once", bool, False),
        mark=fields.take("mark", int, 0),
        reads=fields.names("reads", []),
        values=[_value(value) for value in values],
        saved=fields.names("saved", None),
        grad_compute=fields.amount("grad_compute", cost_of, -1),
        grad_workspace=fields.amount("grad_workspace", size_of, 0),
        gradient_of=fields.take("gradient_of", str, None),
        backward=fields.take("backward", bool, False),
    )


def _value(fields: _Fields) -> ValueRow:
    return ValueRow(
        memory=fields.amount("memory", size_of, 1),
        name=fields.take("name", str, None),
        output=fields.take("output", bool, False),
        grad_memory=fields.amount("grad_memory", size_of, None),
        view_of=fields.take("view_of", str, None),
    )


def _resident(fields: _Fields) -> ResidentRow:
    return ResidentRow(
        name=fields.take("name", str),
        memory=fields.amount("memory", size_of, 0),
        role=fields.take("role", str, "input"),
        readers=fields.names("readers", []),
    )


class _Reader:
    """Reader of the objects of a file; it collects the units of costs in keys, and the unknown keys."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.costs: set[Meaning] = set()
        self.ignored: dict[str, None] = {}

    def fields(self, record: Any, what: str, known: Known, elsewhere: Mapping[str, Mapping[str, str]]) -> _Fields:
        if not isinstance(record, dict):
            raise fault(self.source, "{what!w} is {kind!w}, expected an object", what=what, kind=_kind(record))
        if record.keys() <= known.keys():
            costs = {key: Meaning(key) for key in COSTS & record.keys()}
            fields = _Fields(record, self, what)
        else:
            fields, costs = self._named(record, what, known, elsewhere)
        self.costs.update(costs.values())
        return fields

    def _named(
        self, record: dict[str, Any], what: str, known: Known, elsewhere: Mapping[str, Mapping[str, str]]
    ) -> tuple[_Fields, dict[str, Meaning]]:
        entries: dict[str, Any] = {}
        costs: dict[str, Meaning] = {}
        unknown = []
        for name, meaning in meanings(self.source, record, known, "key", where=what).items():
            if meaning is None:
                unknown.append(name)
                continue
            (key, unit), entry = meaning, record[name]
            if key in entries:
                twice = '"{name}" and another key both mean "{key}"; keep one'
                raise fault(self.source, twice, where=what, name=name, key=key)
            number = not isinstance(entry, bool) and isinstance(entry, int | Decimal | str)
            entries[key] = with_unit(str(entry), unit) if unit and number and key in SIZES else entry
            if key in COSTS:
                costs[key] = meaning
        if "id" in unknown and "name" in known and "name" not in entries:
            misspelt = "key `id` is not known; did you mean `name`? Rename it, or remove it"
            raise fault(self.source, misspelt, where=what)
        check_unknown(self.source, sorted(unknown), known, entries, elsewhere, "key", where=what)
        self.ignored.update(dict.fromkeys(unknown))
        return _Fields(entries, self, what), costs


class _Fields:
    """Entries of a JSON object; the type of an entry is checked when it is read."""

    def __init__(self, record: dict[str, Any], reader: _Reader, what: str) -> None:
        self.record, self.reader, self.source, self.what = record, reader, reader.source, what
        # True if a value of the node has no size and is not a view.
        self.unsized = False

    def part(self, keys: Sequence[str]) -> _Fields:
        return _Fields({key: self.record[key] for key in keys if key in self.record}, self.reader, self.what)

    def take(self, key: str, kind: type, default: Any = _MISSING) -> Any:
        entry = self.record.get(key, default)
        if entry is _MISSING:
            raise fault(self.source, '{what!w} has no "{key}"', what=self.what, key=key)
        wrong = not isinstance(entry, kind) or (kind is int and isinstance(entry, bool))
        if wrong and not (entry is None and default is None):
            raise self._wrong(key, "is {found!w}, expected {expected!w}", found=_kind(entry), expected=_EXPECTED[kind])
        return entry

    def names(self, key: str, default: Any) -> Any:
        entry = self.take(key, list, default)
        if entry is not None and not all(isinstance(name, str) for name in entry):
            raise self._wrong(key, "contains something that is not a valid name")
        return entry

    def amount(self, key: str, read: Reading, default: Number | None) -> Any:
        entry = self.record.get(key, default)
        if entry is default:
            return entry
        if isinstance(entry, bool) or not isinstance(entry, int | Decimal | str):
            raise self._wrong(key, "is {found!w}, expected a number", found=_kind(entry))
        try:
            return read(entry)
        except ValueError as error:
            raise fault(self.source, '"{key}" of {what!w}: {error!w}', key=key, what=self.what, error=error) from error

    def _wrong(self, key: str, template: str, **fields: Any) -> GraphError:
        return fault(self.source, '"{key}" of {what!w} ' + template, key=key, what=self.what, **fields)


def _kind(entry: Any) -> str:
    return "null" if entry is None else f"{type(entry).__name__} {quoted(str(entry))}"


def _is_node_link(record: Any) -> bool:
    return isinstance(record, dict) and "format" not in record and "nodes" in record and any(e in record for e in LINKS)


def _node_link_tables(record: Mapping[str, Any], source: str) -> Tables:
    """Convert JSON of networkx: `nodes` with `id`; `edges` or `links` from `source` to `target`, or `adjacency`."""
    if record.get("directed") is False:
        raise fault(source, "the graph is undirected, expected directed edges u -> v, where v reads u")
    drawing = Drawing(graph=_record_of(_pairs(record.get("graph", {}))))
    for place, node in enumerate(_objects(record, "nodes", source)):
        if "id" not in node:
            raise fault(source, "node {place} has no `id`; add one", place=place)
        name = _name_of(node["id"])
        if name in drawing.nodes:
            raise fault(source, "two nodes have the id {name!r}; give each its own id", name=name)
        drawing.nodes[name] = _record_of((key, x) for key, x in node.items() if key != "id")
    seen = set()
    for u, v, edge in _links(record, list(drawing.nodes), source):
        if u not in drawing.nodes or v not in drawing.nodes:
            unknown = u if u not in drawing.nodes else v
            raise fault(source, "an edge has {lost!r}, which is not a node; add it to `nodes`", lost=unknown)
        if (u, v) not in seen:
            seen.add((u, v))
            drawing.edges.append((u, v, _record_of((key, x) for key, x in edge.items() if key not in _ENDS)))
    return tables_of(drawing, source, data=True)


def _name_of(node: Any) -> str:
    """Return the name of a node, which is a number, string or list in JSON; lists were tuples in Python."""
    return str(_hashable(node))


def _hashable(node: Any) -> Any:
    return tuple(map(_hashable, node)) if isinstance(node, list) else node


def _links(record: Mapping[str, Any], names: list[str], source: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if "adjacency" in record:
        rows = record["adjacency"]
        if not isinstance(rows, list) or len(rows) != len(names) or not all(isinstance(row, list) for row in rows):
            wrong = "`adjacency` must be a list of {n_rows:row}, one per node"
            raise fault(source, wrong, n_rows=len(names))
        for u, row in zip(names, rows, strict=True):
            for edge in _objects({"adjacency": row}, "adjacency", source):
                if "id" not in edge:
                    raise fault(source, "an edge of node {u!r} has no `id`; add the node that it leads to", u=u)
                yield u, _name_of(edge["id"]), edge
        return
    key = "edges" if "edges" in record else "links"
    for place, edge in enumerate(_objects(record, key, source)):
        if "source" not in edge or "target" not in edge:
            wrong = "edge {place} of `{key}` has no `source` and `target`; add them"
            raise fault(source, wrong, place=place, key=key)
        yield _name_of(edge["source"]), _name_of(edge["target"]), edge


def _objects(record: Mapping[str, Any], key: str, source: str) -> list[Mapping[str, Any]]:
    objects = record[key]
    if not isinstance(objects, list) or not all(isinstance(entry, dict) for entry in objects):
        raise fault(source, "`{key}` is not a list of objects", key=key)
    return objects


def _pairs(attributes: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(attributes, dict):
        yield from attributes.items()
    elif isinstance(attributes, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in attributes):
        yield from ((str(key), entry) for key, entry in attributes)


def _record_of(pairs: Any) -> Record:
    return {str(key): entry for key, entry in pairs if entry is not None}


def _sniff(text: str, ending: str) -> bool:
    """Return True for an object, or for a list in a .json file; in other files [CLS] may be a node of an edge list."""
    start = _START.match(text)
    return start is not None and (start[1] == "{" or ending == ".json")


GRAPH_FORMAT = GraphFormat(
    "JSON", _parse, to_json, (".json",), begins=_START, sniff=_sniff, size_from='"memory"', cost_from='"compute"'
)
