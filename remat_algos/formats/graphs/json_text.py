"""Graphs as JSON: format "remat-graph" version 1 (docs/formats.md), and what networkx writes."""

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.formats import node_link
from remat_algos.formats.columns import Known, check_spelling
from remat_algos.formats.graph_rows import tables_from
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.row_reader import check_scale
from remat_algos.ir.derivation import Derivation
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, Number, ResidentRow, Tables, ValueRow
from remat_algos.text.decimals import decimal
from remat_algos.text.units import parse_bytes
from remat_algos.text.wording import shortened

_BEGIN = re.compile(r"\s*([{[])")
FORMAT, VERSION = "remat-graph", 1
BACKWARD = ("none", "to come", "present")
_EXPECTED = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
_MISSING = object()

KEYS: Known = dict.fromkeys(
    ("format", "version", "nodes", "residents", "backward", "compute_unit", "compute_scale", "views", "derivation"), ()
)
NODE_KEYS: Known = dict.fromkeys(
    (
        *("name", "op", "compute", "workspace", "once", "reads", "values", "mark", "gradient_of", "backward"),
        *("saved", "grad_compute", "grad_workspace"),
    ),
    (),
)
VALUE_KEYS: Known = dict.fromkeys(("name", "memory", "output", "grad_memory", "view_of"), ())
RESIDENT_KEYS: Known = dict.fromkeys(("name", "memory", "role", "readers"), ())


@checked_arguments
def from_json(text: str, source: str = "JSON") -> ComputationGraph:
    """The graph of what `to_json` or networkx wrote.

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
        With the place, if the text is neither.

    Examples
    --------
    >>> from_json(to_json(ComputationGraph.from_edges([("A", "B")]))).labels.names
    ('A', 'B')
    """
    return ComputationGraph.from_tables(_parse(text, source))


@checked_arguments
def to_json(graph: ComputationGraph) -> str:
    """The graph as a JSON object, one node a line.

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
    record = _load(text, source)
    return (node_link.tables_of if node_link.is_node_link(record) else _tables)(record, source)


def _load(text: str, source: str) -> Any:
    """The parsed text, decimals exact; GraphError with line and column if it is no JSON."""
    try:
        return json.loads(
            text, parse_float=decimal, parse_constant=lambda name: _fail(source, f"{name} is not a number")
        )
    except json.JSONDecodeError as error:
        _fail(source, f"not valid JSON at line {error.lineno}, column {error.colno} ({error.msg}); is the file whole?")
    except ValueError as error:
        _fail(source, f"a number in it cannot be read ({str(error).split(';')[0]})")
    except RecursionError:
        _fail(source, "nested too deeply to be a graph")


def _tables(record: Any, source: str) -> Tables:
    """Rows from parsed JSON; GraphError with the node if it is not the format."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        others = '"nodes" with "edges", "links" or "adjacency", as networkx writes'
        _fail(source, f'not a graph: expected "format": "{FORMAT}", or {others}')
    if type(record.get("version")) is not int or record["version"] != VERSION:
        _fail(
            source,
            f"version {shortened(repr(record.get('version')))} is not supported; this release reads version {VERSION}",
        )
    top = _Fields(record, source, "the graph", KEYS)
    nodes = [_node(_Fields(entry, source, f"node {i}", NODE_KEYS), i) for i, entry in enumerate(top.records("nodes"))]
    residents = [
        _resident(_Fields(entry, source, f"resident {i}", RESIDENT_KEYS))
        for i, entry in enumerate(top.records("residents", []))
    ]
    n_saved = sum(node.saved is not None for node in nodes)
    backward = top.take("backward", str, "to come" if n_saved else "none")
    if any(node.gradient_of is not None or node.backward for node in nodes):
        backward = "present"
    if backward not in BACKWARD:
        _fail(source, f'"backward" is {shortened(backward)!r}; use {", ".join(BACKWARD)}')
    if 0 < n_saved < len(nodes):
        lacking = next(node.name for node in nodes if node.saved is None)
        _fail(source, f'"saved" is missing for node {shortened(lacking)!r}; give it for all nodes or for none')
    scale = top.take("compute_scale", int, None)
    views, derivation = top.take("views", dict, {}), top.take("derivation", dict, None)
    if not all(isinstance(name, str) and isinstance(base, str) for name, base in views.items()):
        _fail(source, '"views" must map names to names')
    derivation = Derivation.of(derivation, source).record() if derivation is not None else None
    unit = top.take("compute_unit", str, "")
    unsized = [node.name for node, entry in zip(nodes, top.record["nodes"], strict=True) if _unsized(entry)]
    uncosted = [node.name for node, entry in zip(nodes, top.record["nodes"], strict=True) if "compute" not in entry]
    tables = Tables(nodes, residents, backward, views, unit, scale, derivation, source, unsized, uncosted)
    return check_scale(tables)


def _unsized(node: dict[str, Any]) -> bool:
    """Whether a value of the node has neither a size nor a base."""
    return any("memory" not in value and "view_of" not in value for value in node.get("values", [{}]))


def _dump(tables: Tables) -> str:
    """The rows as JSON text, one node a line."""
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


def _node(fields: "_Fields", place: int) -> NodeRow:
    name = fields.take("name", str, str(place))
    fields.what = f"node {shortened(name)!r}"
    return NodeRow(
        name=name,
        op=fields.take("op", str, ""),
        compute=fields.number("compute", 1),
        workspace=fields.size("workspace", 0),
        once=fields.take("once", bool, False),
        mark=fields.take("mark", int, 0),
        reads=fields.names("reads", []),
        values=[
            _value(_Fields(entry, fields.source, fields.what, VALUE_KEYS)) for entry in fields.records("values", [{}])
        ],
        saved=fields.names("saved", None),
        grad_compute=fields.number("grad_compute", -1),
        grad_workspace=fields.size("grad_workspace", 0),
        gradient_of=fields.take("gradient_of", str, None),
        backward=fields.take("backward", bool, False),
    )


def _value(fields: "_Fields") -> ValueRow:
    return ValueRow(
        memory=fields.size("memory", 1),
        name=fields.take("name", str, None),
        output=fields.take("output", bool, False),
        grad_memory=fields.size("grad_memory", None),
        view_of=fields.take("view_of", str, None),
    )


def _resident(fields: "_Fields") -> ResidentRow:
    return ResidentRow(
        name=fields.take("name", str),
        memory=fields.size("memory", 0),
        role=fields.take("role", str, "input"),
        readers=fields.names("readers", []),
    )


def _fail(source: str, message: str) -> NoReturn:
    raise GraphError(f"{source}: {message}")


class _Fields:
    """The entries of one JSON object, each of its required type."""

    def __init__(self, record: Any, source: str, what: str, known: Known) -> None:
        if not isinstance(record, dict):
            _fail(source, f"{what} is {_kind(record)}, expected an object")
        if unknown := record.keys() - known.keys():  # they are ignored, unless they are nearly one of the known
            check_spelling(f"{source}, {what}", sorted(unknown), known, record, "key")
        self.record, self.source, self.what = record, source, what

    def take(self, key: str, kind: type, default: Any = _MISSING) -> Any:
        entry = self.record.get(key, default)
        if entry is _MISSING:
            _fail(self.source, f'{self.what} has no "{key}"')
        wrong = not isinstance(entry, kind) or (kind is int and isinstance(entry, bool))
        if wrong and not (entry is None and default is None):
            _fail(self.source, f'"{key}" of {self.what} is {_kind(entry)}, expected {_EXPECTED[kind]}')
        return entry

    def records(self, key: str, default: Any = _MISSING) -> list[Any]:
        return self.take(key, list, default)

    def names(self, key: str, default: Any) -> Any:
        entry = self.take(key, list, default)
        if entry is not None and not all(isinstance(name, str) for name in entry):
            _fail(self.source, f'"{key}" of {self.what} contains something that is not a valid name')
        return entry

    def number(self, key: str, default: Number | None) -> Any:
        entry = self.record.get(key, default)
        if entry is not default and (isinstance(entry, bool) or not isinstance(entry, int | Decimal)):
            _fail(self.source, f'"{key}" of {self.what} is {_kind(entry)}, expected a number')
        return entry

    def size(self, key: str, default: Number | None) -> Any:
        """Bytes as a number or as text with a unit."""
        if isinstance(self.record.get(key), str):
            try:
                return parse_bytes(self.record[key])
            except ValueError as error:
                _fail(self.source, f'"{key}" of {self.what}: {error}')
        return self.number(key, default)


def _kind(entry: Any) -> str:
    return "null" if entry is None else f"{type(entry).__name__} {str(entry)[:40]!r}"


def _sniff(text: str, ending: str) -> bool:
    """An object, or a list in a file called .json: a node of an edge list may be called [CLS]."""
    begin = _BEGIN.match(text)
    return begin is not None and (begin[1] == "{" or ending == ".json")


GRAPH_FORMAT = GraphFormat(
    "JSON",
    _parse,
    to_json,
    (".json",),
    sniff=_sniff,
    size_from='"memory"',
    cost_from='"compute"',
)
