"""Graphs in DOT, the language of Graphviz; pydot reads it."""

import re
import threading
import warnings
from collections import Counter
from typing import Any

from remat_algos.errors import warn
from remat_algos.forks import release_after_fork
from remat_algos.formats.attributes import Drawing, drawing_of, tables_of
from remat_algos.formats.columns import fault
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.rows import Record, tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Number, Tables

BLANK = r"\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*"
_START = re.compile(
    rf'(?>{BLANK})*+(?:strict\b(?>{BLANK})*+)?(?:di)?graph\b(?>{BLANK})*+(?:"[^"]*+"|[^\s{{"]++)?+(?>{BLANK})*+\{{',
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_TOKEN = re.compile(rf'(?>{BLANK})|("(?:[^"\\]|\\.)*+"|->|--|[{{}}\[\]=:;,]|[\w.]+|.)', re.DOTALL)
_ESCAPED = re.compile(r'\\(\r?\n|["\\])')

MAX_READ = 250_000
"""Characters of the longest text that is read: pydot takes a second and 100 MB for every 17,000 of them."""

MAX_NESTED = 4
"""Subgraphs in one another: each level doubles pydot's time, or makes it fourfold where there is a fault."""

MAX_REPEATED = 500
"""Statements of one node: pydot looks at all earlier ones for each."""

_NO_STATEMENT = frozenset(("->", "--", "=", ":"))
"""Tokens next to a name that is not a statement of its own."""

_LOCK = threading.Lock()
"""pydot reads one text at a time."""
release_after_fork(_LOCK)

OTHERWISE = "give the graph as GraphML or node-link JSON, which are read in linear time"

Texts = dict[str, str]


def _parse(text: str, source: str) -> Tables:
    """Rows from DOT text; nodes in the order of first appearance, drawing attributes skipped."""
    if len(text) > MAX_READ:
        raise fault(
            source,
            "{n:,} characters of DOT can be drawn, but no more than {max_read:,} are read; {otherwise!w}",
            n=len(text),
            max_read=MAX_READ,
            otherwise=OTHERWISE,
        )
    _check_work(text, source)
    graph, drawing = _read(text, source), Drawing()
    _draw(drawing, graph, {}, {}, source)
    drawing.graph.update(_attributes(graph, source))
    return tables_of(drawing, source)


def _read(text: str, source: str) -> Any:
    """Parse DOT text with pydot; GraphError if it cannot."""
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pydot calls pyparsing by its old names
            from pydot.dot_parser import GraphParser

            # pydot's own function prints errors, and drops text that it cannot read after a whole graph.
            graphs = list(GraphParser.parser.parse_string(text, parse_all=True))
    except ModuleNotFoundError as error:
        raise fault(source, "reading DOT needs pydot; install it: python -m pip install pydot") from error
    except ImportError as error:
        raise fault(source, "reading DOT needs pydot 4 or newer; update it: python -m pip install -U pydot") from error
    except Exception as error:  # pydot raises many kinds
        wrong = "pydot cannot read it as one whole graph in DOT ({said!p}); mend it, or {otherwise!w}"
        raise fault(source, wrong, said=" ".join(str(error).split()), otherwise=OTHERWISE) from error
    if len(graphs) > 1:
        raise fault(source, "there are {graphs} graphs in the file; {remedy!w}", graphs=len(graphs), remedy="keep one")
    (graph,) = graphs
    if graph.get_type() != "digraph":
        raise fault(source, "the graph is undirected; write `digraph`, and `u -> v` where v reads u")
    return graph


def _check_work(text: str, source: str) -> None:
    """Refuse deeply nested braces and nodes with many statements, which take pydot very long."""
    depth, brackets, before, last = 0, 0, "", ""
    stated = Counter[str]()
    for token in _TOKEN.finditer(text):
        word = token[1]
        if word is None:
            continue
        depth += {"{": 1, "}": -1}.get(word, 0)
        brackets += {"[": 1, "]": -1}.get(word, 0)
        if depth > MAX_NESTED + 1:
            line = text.count("\n", 0, token.start()) + 1
            nested = "subgraphs are nested deeper than {max_nested}; flatten them"
            raise fault(source, nested, line, max_nested=MAX_NESTED)
        if brackets <= 0 and not _NO_STATEMENT & {before, last, word}:
            stated[last] += last[:1] == '"' or last[:1].isalnum()
            if stated[last] > MAX_REPEATED:
                often = "node {name} is stated more than {max_repeated} times; keep one statement"
                raise fault(source, often, name=last.strip('"'), max_repeated=MAX_REPEATED)
        before, last = last, word


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
    """Return the node at one end of an arrow, without its port."""
    if not isinstance(end, str):
        braces = "an arrow leads to or from braces; write an arrow for each edge, or {otherwise!w}"
        raise fault(source, braces, otherwise=OTHERWISE)
    quoted = _QUOTED.match(end)
    return _plain(quoted[0]) if quoted else end.partition(":")[0]


def _attributes(part: Any, source: str) -> Texts:
    """Attributes in brackets; pydot ends a number at its first letter and reads the rest as a name."""
    given = part.get_attributes()
    for name, text in given.items():
        if text is None:
            remedy = 'put a value of digits and letters in quotes, as "4KiB"'
            raise fault(source, "attribute {name} has no value; write one, and {remedy!w}", name=name, remedy=remedy)
    return {_plain(name): _plain(text) for name, text in given.items()}


def _plain(text: Any) -> str:
    quoted = _QUOTED.fullmatch(str(text))
    return _ESCAPED.sub(lambda escape: escape[1].strip(), quoted[1]) if quoted else str(text)


def _dump(graph: ComputationGraph) -> str:
    drawing = drawing_of(tables_from(graph))
    lines = [f"  {name}={_text(value)};" for name, value in drawing.graph.items()]
    lines += [f"  {_text(name)}{_list(record)};" for name, record in drawing.nodes.items()]
    lines += [f"  {_text(u)} -> {_text(v)}{_list(record)};" for u, v, record in drawing.edges]
    text = "\n".join(["digraph {", *lines, "}", ""])
    if len(text) > MAX_READ:
        warn(
            "{n:,} characters of DOT can be drawn, but no more than {max_read:,} are read; write JSON, npz or GraphML "
            "to read the graph again",
            n=len(text),
            max_read=MAX_READ,
        )
    return text


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
