"""Graphs in DOT, the language of Graphviz, read with pydot."""

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
"""Maximum number of characters read: pydot needs a second and 100 MB per 17,000 characters."""

MAX_NESTED = 4
"""Maximum depth of nested subgraphs: per level the time of pydot doubles, or quadruples if there is an error."""

MAX_REPEATED = 500
"""Maximum number of statements about one node: the time of pydot is quadratic in this number."""

_NO_STATEMENT = frozenset(("->", "--", "=", ":"))
"""Tokens that make an adjacent name part of a longer statement."""

_LOCK = threading.Lock()
"""Lock for calls of pydot, which is not thread-safe."""
release_after_fork(_LOCK)

OTHERWISE = "give the graph as GraphML or node-link JSON, which are read in linear time"

Texts = dict[str, str]


def _parse(text: str, source: str) -> Tables:
    if len(text) > MAX_READ:
        raise fault(
            source,
            "the DOT text has {n:,} characters, but at most {max_read:,} are read; {otherwise!w}",
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
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from pydot.dot_parser import GraphParser

            # pydot's own function prints errors, and silently drops invalid text after a complete graph.
            graphs = list(GraphParser.parser.parse_string(text, parse_all=True))
    except ModuleNotFoundError as error:
        raise fault(source, "reading DOT needs pydot; install it: python -m pip install pydot") from error
    except ImportError as error:
        raise fault(source, "reading DOT needs pydot 4 or newer; update it: python -m pip install -U pydot") from error
    except Exception as error:
        wrong = "pydot cannot read it as one complete graph in DOT ({said!p}); correct it, or {otherwise!w}"
        raise fault(source, wrong, said=" ".join(str(error).split()), otherwise=OTHERWISE) from error
    if len(graphs) > 1:
        raise fault(source, "there are {graphs} graphs in the file; {remedy!w}", graphs=len(graphs), remedy="keep one")
    (graph,) = graphs
    if graph.get_type() != "digraph":
        raise fault(source, "the graph is undirected; write `digraph`, and `u -> v` where v reads u")
    return graph


def _check_work(text: str, source: str) -> None:
    """Raise GraphError if pydot would take very long: deeply nested braces, or many statements about a node."""
    depth, brackets, before, last = 0, 0, "", ""
    counts = Counter[str]()
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
            counts[last] += last[:1] == '"' or last[:1].isalnum()
            if counts[last] > MAX_REPEATED:
                often = "node {name} has more than {max_repeated} statements; keep one"
                raise fault(source, often, name=last.strip('"'), max_repeated=MAX_REPEATED)
        before, last = last, word


def _draw(drawing: Drawing, graph: Any, node: Texts, edge: Texts, source: str) -> None:
    """Add statements of a (sub)graph to a drawing in their order, because `node [...]` applies only to later nodes."""
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
    if not isinstance(end, str):
        braces = "an arrow starts or ends at braces; write an arrow for each edge, or {otherwise!w}"
        raise fault(source, braces, otherwise=OTHERWISE)
    quoted = _QUOTED.match(end)
    return _plain(quoted[0]) if quoted else end.partition(":")[0]


def _attributes(part: Any, source: str) -> Texts:
    """Return the attributes in brackets; pydot splits an unquoted "4KiB" into a number and a name."""
    attributes = part.get_attributes()
    for name, text in attributes.items():
        if text is None:
            remedy = 'put a value of digits and letters in quotes, such as "4KiB"'
            raise fault(source, "attribute {name} has no value; write one, and {remedy!w}", name=name, remedy=remedy)
    return {_plain(name): _plain(text) for name, text in attributes.items()}


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
            "the DOT text has {n:,} characters, but at most {max_read:,} can be read again; write JSON, npz or GraphML "
            "to read the graph later",
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
