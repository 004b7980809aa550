"""Conversion of graphs and plans from and to networkx."""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import ArgumentTypeError, GraphError, warn
from remat_algos.formats.attributes import Drawing, drawing_of, means, tables_of
from remat_algos.formats.columns import split_unit
from remat_algos.formats.rows import Record, tables_from
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables
from remat_algos.plan.plan import Plan
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import did_you_mean, quoted

# A networkx node with one of these attributes is a resident or an additional value of another node. It needs no size or
# cost.
NOT_NODES = ("resident", "value_of", "view_of")

Amounts = str | Mapping[Any, Any] | Callable[[Any], Any] | float


@checked_arguments
def from_networkx(digraph: Any, memory: Amounts = "memory", compute: Amounts = "compute") -> ComputationGraph:
    """Return the graph of a networkx DiGraph, in which an edge (u, v) means that v reads u.

    Parameters
    ----------
    digraph : networkx.DiGraph or networkx.MultiDiGraph
        Nodes may be any objects; `str(node)` is the name. Parallel edges count once. Node attributes with the names of
        table columns (docs/formats.md: `op`, `workspace`, `once`, `output`, `mark`, ...) have the same meaning, and the
        name may include a unit (`memory_mb`). Other attributes are ignored.
    memory, compute : str, mapping, callable or number
        Bytes and cost of each node: the name of an attribute, a mapping from nodes, a function of a node, or one number
        for all nodes. A size may have a unit, such as "8 MB", and so may the name of an attribute: `out_kb`,
        `time_ms`. If no node has the default attribute, every size or cost is 1.

    Returns
    -------
    ComputationGraph
        Graph with nodes in topological order. Among nodes that are ready at the same time, the earlier node of the
        DiGraph is first, or the smaller one if all nodes are integers.

    Warns
    -----
    GraphWarning
        If no node has a size, or no node has a cost, but nodes have attributes with other names.

    Raises
    ------
    GraphError
        If the graph is undirected or has a cycle, two nodes have the same name, some nodes have no size or cost but
        others do, or a size or cost is invalid.
    TypeError
        If `digraph` is not a networkx graph, or `memory` or `compute` has a wrong type.

    Examples
    --------
    >>> import networkx
    >>> digraph = networkx.DiGraph([("conv", "relu"), ("relu", "loss")])
    >>> graph = from_networkx(digraph, memory={"conv": 4096, "relu": 4096, "loss": 4}, compute=len)
    >>> graph.labels.names, graph.memory.tolist(), graph.compute.tolist()
    (('conv', 'relu', 'loss'), [4096, 4096, 4], [4, 4, 4])
    """
    if isinstance(digraph, type) or not (hasattr(digraph, "is_directed") and hasattr(digraph, "nodes")):
        raise ArgumentTypeError("expected a networkx.DiGraph, found {kind}", kind=type(digraph).__name__)
    if not digraph.is_directed():
        raise GraphError(
            "the networkx graph is undirected; give a DiGraph, in which an edge (u, v) means that v reads u"
        )
    nodes = list(digraph.nodes)
    if all(type(node) is int for node in nodes):
        nodes.sort()
    names = _names(nodes)
    amounts = {"memory": _amounts(digraph, "memory", memory), "compute": _amounts(digraph, "compute", compute)}
    custom = {what: column for what, column in amounts.items() if column is not None}
    keys = {key for _, record in digraph.nodes(data=True) for key in record}
    skipped = {key for key in keys if any(means(str(key), what) for what in ("name", *custom))} | {
        name for name in (memory, compute) if isinstance(name, str) and name not in amounts
    }
    drawing = Drawing(graph=_record(digraph.graph))
    for node in nodes:
        record = _record(digraph.nodes[node], skipped)
        drawing.nodes[names[node]] = record | {a.name: a.entries[node] for a in custom.values() if node in a.entries}
    for v in nodes:
        for u in digraph.predecessors(v):
            parallel = digraph.get_edge_data(u, v)
            edges = parallel.values() if digraph.is_multigraph() else [parallel]
            drawing.edges.append((names[u], names[v], {key: x for edge in edges for key, x in _record(edge).items()}))
    tables = tables_of(drawing, "networkx graph", data=True, notice=False)
    _check_missing(tables, {name: node for node, name in names.items()})
    return ComputationGraph.from_tables(tables)


class _Amounts(NamedTuple):
    name: str
    entries: Mapping[Any, Any]


def _record(attributes: Mapping[Any, Any], skipped: Container[Any] = ()) -> Record:
    return {str(key): entry for key, entry in attributes.items() if not (key in skipped or _blank(entry))}


def _check_missing(tables: Tables, node_of: Mapping[str, Hashable]) -> None:
    """Raise GraphError if only some nodes have a size or cost; warn if none has, but nodes have other attributes."""
    unset = []
    for what, missing in (("memory", tables.unsized), ("compute", tables.uncosted)):
        if len(missing) == len(tables.nodes):
            unset.append(what)
        elif missing:
            raise _missing(what, [node_of[name] for name in missing], f"set the attribute {what!r}")
    if unset and tables.ignored and tables.nodes:
        warn(
            "no node of the networkx graph has a {nouns}: each counts as 1; {options} may name an attribute "
            "(found: {ignored!l})",
            nouns=" or a ".join({"memory": "size", "compute": "cost"}[what] for what in unset),
            options=" and ".join(f"{what}=NAME" for what in unset),
            ignored=tables.ignored,
        )


def _missing(what: str, nodes: Sequence[Hashable], remedy: str) -> GraphError:
    nodes = list(map(quoted, nodes))
    return GraphError(
        "the networkx graph has no {what} for {nodes!l}; {remedy!w}", what=what, nodes=nodes, remedy=remedy
    )


def _names(nodes: Sequence[Hashable]) -> dict[Hashable, str]:
    node_of: dict[str, Hashable] = {}
    for node in nodes:
        first = node_of.setdefault(str(node), node)
        if first is not node:
            raise GraphError(
                "nodes {first!r} and {second!r} have the same text, which serves as their name; relabel one of them",
                first=first,
                second=node,
            )
    return {node: name for name, node in node_of.items()}


def _amounts(digraph: Any, what: str, amounts: Amounts) -> _Amounts | None:
    """Return the sizes or costs of nodes. None means the default attribute, which the table reader reads itself."""
    if isinstance(amounts, Real):
        return _Amounts(what, dict.fromkeys(digraph.nodes, amounts))
    name, remedy = what, "add an entry"
    if isinstance(amounts, str):
        if amounts == what:
            return None
        entries = {node: record.get(amounts) for node, record in digraph.nodes(data=True)}
        if digraph and all(map(_blank, entries.values())):
            attributes = list(dict.fromkeys(str(key) for _, record in digraph.nodes(data=True) for key in record))
            if not attributes:
                raise GraphError("no node of the networkx graph has the attribute {attribute!r}", attribute=amounts)
            raise GraphError(
                "no node of the networkx graph has the attribute {attribute!r} (found: {attributes!l})",
                attribute=amounts,
                attributes=attributes,
            )
        base, unit, bracketed = split_unit(amounts)
        name = f"{what} ({unit})" if bracketed else f"{what}_{unit}" if base else what
        name, remedy = name if means(name, what) else what, f"set the attribute {quoted(amounts)}"
    elif callable(amounts):
        entries, remedy = {node: amounts(node) for node in digraph.nodes}, "return a number for each node"
    elif isinstance(amounts, Mapping):
        unknown = next((node for node in amounts if node not in digraph), None)
        if unknown is not None:
            near = did_you_mean(unknown, map(str, digraph.nodes)) or "; remove it"
            wrong = "{what} has an entry for {unknown!r}, which is not a node{near!w}"
            raise GraphError(wrong, what=what, unknown=unknown, near=near)
        entries = dict(amounts)
    else:
        raise ArgumentTypeError(
            "{what} is {amounts!r}, expected an attribute's name, a mapping from nodes, a function of a node or a "
            "number",
            what=what,
            amounts=amounts,
        )
    entries = {node: amount for node, amount in entries.items() if not _blank(amount)}
    lacking = (node for node in digraph if node not in entries)
    missing = [node for node in lacking if not any(digraph.nodes[node].get(key) for key in NOT_NODES)]
    if missing:
        raise _missing(what, missing, remedy)
    return _Amounts(name, entries)


def _blank(amount: Any) -> bool:
    return amount is None or (isinstance(amount, str) and not amount.strip())


@checked_arguments
def to_networkx(subject: ComputationGraph | Simulation | Plan, nodes: Iterable[Any] = ()) -> Any:
    """Convert a graph, or the graph and the decisions of a plan or simulation, to a networkx DiGraph.

    Nodes have the same attributes as in GraphML files (docs/formats.md), such as `memory` and `compute`. Residents, and
    all values of a node after the first, are nodes too. `from_networkx` converts the result back to the same graph.

    For a plan or simulation, the attribute `runs` of a node is its number of runs. `kept` is true if this number is 1,
    and `recomputed` is true if it is larger. The DiGraph has the attributes `peak_memory`, `total_compute` and
    `overhead`; the last two are in the unit of `compute`. For a plan, it also has the attribute `method`.

    Parameters
    ----------
    subject : ComputationGraph, Simulation or Plan
    nodes : iterable, optional
        Original node objects, such as the DiGraph that `from_networkx` read. A node whose name is `str(object)` is
        replaced by that object.

    Returns
    -------
    networkx.DiGraph

    Raises
    ------
    ImportError
        If networkx is not installed.
    TypeError
        If `subject` is not a graph, simulation or plan.

    Examples
    --------
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")], memory=[4, 2, 1])
    >>> digraph = to_networkx(simulate(graph, [0, 1, 0, 2]))
    >>> digraph.nodes["A"]
    {'compute': 1, 'memory': 4, 'runs': 2, 'kept': False, 'recomputed': True}
    >>> list(digraph.edges), digraph.graph["peak_memory"]
    ([('A', 'B'), ('A', 'C'), ('B', 'C')], 7)
    """
    check_kind(subject, ComputationGraph, "subject", Simulation, Plan)
    networkx = require("networkx", "graphs")
    graph = subject if isinstance(subject, ComputationGraph) else subject.graph
    drawing, original = drawing_of(tables_from(graph)), {str(node): node for node in nodes}
    digraph = networkx.DiGraph(**drawing.graph)
    for name, record in drawing.nodes.items():
        digraph.add_node(original.get(name, name), **{key: _number(entry) for key, entry in record.items()})
    digraph.add_edges_from((original.get(u, u), original.get(v, v), record) for u, v, record in drawing.edges)
    if not isinstance(subject, ComputationGraph):
        simulation = subject.simulation if isinstance(subject, Plan) else subject
        for name, runs in zip(graph.node_names(), simulation.runs.tolist(), strict=True):
            digraph.nodes[original.get(name, name)].update(runs=runs, kept=runs == 1, recomputed=runs > 1)
        scale = graph.labels.compute_scale
        total, overhead = (x if scale == 1 else x / scale for x in (simulation.compute, simulation.overhead))
        digraph.graph.update(peak_memory=simulation.peak_memory, total_compute=total, overhead=overhead)
    if isinstance(subject, Plan):
        digraph.graph["method"] = subject.method
    return digraph


def _number(entry: Any) -> Any:
    return float(entry) if isinstance(entry, Decimal) else entry
