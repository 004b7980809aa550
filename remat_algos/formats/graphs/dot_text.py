"""Graphs in DOT, the language of Graphviz; pydot reads it."""

import re
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any, NoReturn

from remat_algos.errors import GraphError, warn
from remat_algos.formats.attributes import Drawing, drawing_of, tables_of
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.row_writer import Record, tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Number, Tables
from remat_algos.wording import shortened

BLANK = r"\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*"
_START = re.compile(
    rf'(?>{BLANK})*+(?:strict\b(?>{BLANK})*+)?(?:di)?graph\b(?>{BLANK})*+(?:"[^"]*+"|[^\s{{"]++)?+(?>{BLANK})*+\{{',
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(\r?\n|["\\])')

MAX_READ = 250_000
"""Characters of the longest text that is read: pydot takes a second and 100 MB for every 17,000 of them."""

OTHERWISE = "give the graph as GraphML or node-link JSON, which are read in linear time"

Texts = dict[str, str]


def _parse(text: str, source: str) -> Tables:
    """Rows from DOT text; nodes in the order of first appearance, drawing attributes skipped."""
    if len(text) > MAX_READ:
        _fail(source, f"{_too_long(text)}; {OTHERWISE}")
    graph, drawing = _read(text, source), Drawing()
    _draw(drawing, graph, {}, {}, source)
    drawing.graph.update(_attributes(graph, source))
    return tables_of(drawing, source)


def _read(text: str, source: str) -> Any:
    """pydot's graph."""
    try:
        # pydot prints where it fails, and standard output may be JSON; it calls pyparsing by its old names
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import pydot

            # pydot leaves out without a word what it cannot read after a whole graph: then the second one is missing.
            graphs: Any = pydot.graph_from_dot_data(f"{text}\ndigraph {{}}")
            graph, _ = graphs
    except ImportError as error:
        _fail(source, "reading DOT needs pydot; install it: python -m pip install pydot", error)
    except Exception as error:  # of many kinds: pydot has none of its own
        _fail(source, f"pydot cannot read it as one whole graph in DOT; mend it, or {OTHERWISE}", error)
    if graph.get_type() != "digraph":
        _fail(source, "the graph is undirected; write `digraph`, and `u -> v` where v reads u")
    return graph


def _draw(drawing: Drawing, graph: Any, node: Texts, edge: Texts, source: str) -> None:
    """Add the statements of a graph or subgraph in order, since `node [...]` applies to later nodes."""
    parts = [*graph.get_node_list(), *graph.get_edge_list(), *graph.get_subgraph_list()]
    for part in sorted(parts, key=lambda part: part.get_sequence()):
        attributes, kind = _attributes(part, source), part.obj_dict["type"]
        if kind == "subgraph":
            _draw(drawing, part, node, edge, source)
        elif kind == "edge":
            u, v = (_end(end, source) for end in part.obj_dict["points"])
            for name in (u, v):
                drawing.nodes.setdefault(name, dict(node))
            drawing.edges.append((u, v, edge | attributes))
        elif part.get_name() == "node":
            node = node | attributes
        elif part.get_name() == "edge":
            edge = edge | attributes
        elif part.get_name() == "graph":
            drawing.graph.update(attributes)
        else:
            drawing.nodes.setdefault(_end(part.get_name(), source), dict(node)).update(attributes)


def _end(end: Any, source: str) -> str:
    """The node at one end of an arrow, without its port."""
    if not isinstance(end, str):
        _fail(source, f"an arrow leads to or from braces; write an arrow for each edge, or {OTHERWISE}")
    quoted = _QUOTED.match(end)
    return _plain(quoted[0]) if quoted else end.partition(":")[0]


def _attributes(part: Any, source: str) -> Texts:
    """Attributes in brackets; pydot ends a number at its first letter and reads the rest as a name."""
    given = part.get_attributes()
    for name, text in given.items():
        if text is None:
            remedy = 'put a value of digits and letters in quotes, as "4KiB"'
            _fail(source, f"attribute {shortened(name)} has no value; write one, and {remedy}")
    return {_plain(name): _plain(text) for name, text in given.items()}


def _plain(text: Any) -> str:
    """A name or value without its quotes."""
    quoted = _QUOTED.fullmatch(str(text))
    return _ESCAPED.sub(lambda escape: escape[1].strip(), quoted[1]) if quoted else str(text)


def _fail(source: str, message: str, cause: BaseException | None = None) -> NoReturn:
    raise GraphError("{source!w}: {message!w}", source=source, message=message) from cause


def _dump(graph: ComputationGraph) -> str:
    """The rows as DOT text, one node or edge per line."""
    drawing = drawing_of(tables_from(graph))
    lines = [f"  {name}={_text(value)};" for name, value in drawing.graph.items()]
    lines += [f"  {_text(name)}{_list(record)};" for name, record in drawing.nodes.items()]
    lines += [f"  {_text(u)} -> {_text(v)}{_list(record)};" for u, v, record in drawing.edges]
    text = "\n".join(["digraph {", *lines, "}", ""])
    if len(text) > MAX_READ:
        warn("{too_long!w}; write JSON, npz or GraphML to read the graph again", too_long=_too_long(text))
    return text


def _too_long(text: str) -> str:
    return f"{len(text):,} characters of DOT can be drawn, but no more than {MAX_READ:,} are read"


def _list(record: Record) -> str:
    inside = ", ".join(f"{name}={_text(value)}" for name, value in record.items())
    return f" [{inside}]" if record else ""


def _text(value: str | Number) -> str:
    if not isinstance(value, str):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


GRAPH_FORMAT = GraphFormat(
    "DOT",
    _parse,
    _dump,
    (".dot", ".gv"),
    begins=_START,
    size_from="an attribute memory",
    cost_from="an attribute compute",
)
