"""Graphs in DOT, the language of Graphviz; pydot reads it."""

import contextlib
import functools
import io
import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import IO, Any, NoReturn

from remat_algos.errors import GraphError, warn
from remat_algos.forks import release_after_fork
from remat_algos.formats.attributes import Drawing, drawing_of, tables_of
from remat_algos.formats.graph_rows import tables_from
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.row_writer import Record
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Number, Tables
from remat_algos.text.wording import LONGEST_PATH, quoted, shortened

BLANK = r"\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*"
_START = re.compile(
    rf'(?>{BLANK})*+(?:strict\b(?>{BLANK})*+)?(?:di)?graph\b(?>{BLANK})*+(?:"[^"]*+"|[^\s{{"]++)?+(?>{BLANK})*+\{{',
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_TOKEN = re.compile(rf'(?>{BLANK})|("(?:[^"\\]|\\.)*+"|->|--|[{{}}\[\]=:;,]|[\w.]+|.)', re.DOTALL)
_ESCAPED = re.compile(r'\\(\r?\n|["\\])')
_PLACE = re.compile(r"(.*?)\s*\(at char \d+\), \(line:(\d+), col:(\d+)\)$")

MAX_READ = 250_000
"""Characters of the longest text that is read: pydot takes a second and 100 MB for every 17,000 of them."""

MAX_NESTED = 4
"""Subgraphs in one another: each level doubles pydot's time, or makes it fourfold where there is a fault."""

MAX_REPEATED = 500
"""Statements of one node: pydot looks at all earlier ones for each."""

MAX_EDGES = 100_000
"""Edges: `{a b} -> {c d}` is four, so a short text may have millions."""

_NO_STATEMENT = frozenset(("->", "--", "=", ":"))
"""What stands before or behind a name that is not a statement of its own."""

_END = "the_end_of_the_file"
"""A graph put behind the text: where pydot meets what it cannot read after a whole graph, it stops without a word."""

_LOCK = threading.Lock()
"""pydot reads one text at a time."""
release_after_fork(_LOCK)

Texts = dict[str, str]


def _parse(text: str, source: str) -> Tables:
    """Rows from DOT text; nodes in the order of first appearance, drawing attributes skipped."""
    graph = _read(text, source)
    reader = _DotReader(source)
    reader.statements(graph, {}, {})
    reader.drawing.graph.update(reader.attributes(graph))
    return tables_of(reader.drawing, source)


def _read(text: str, source: str) -> Any:
    """pydot's graph."""
    if len(text) > MAX_READ:
        _fail(source, f"{_too_long(text)}; give the graph as JSON, npz or GraphML")
    _check_work(text, source)
    output = io.StringIO()
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pydot calls pyparsing by its old names
            import pydot.dot_parser

            with _printing(pydot.dot_parser, output):
                graphs = pydot.graph_from_dot_data(f"{text}\ndigraph {_END} {{}}")
    except ImportError as error:
        _fail(source, "reading DOT needs pydot; install it: python -m pip install pydot", error)
    except RecursionError as error:
        _fail(source, "brackets are nested too deeply; flatten them", error)
    except TypeError as error:  # of pydot, which calls the attribute as it does its own argument
        _fail(source, "`name` is not an attribute; the name of a node stands before its brackets", error)
    if not graphs:
        printed = output.getvalue().strip().rpartition("\n")[2]  # what is wrong
        _fail(source, f"not valid DOT{_place(printed, text.count(chr(10)) + 1)}; is the file whole?")
    if len(graphs) > 2:
        _fail(source, f"there are {len(graphs) - 1} graphs in the file; keep one")
    if graphs[-1].get_name() != _END:
        _fail(source, "there is text after the end of the graph; is there an extra brace?")
    if graphs[0].get_type() != "digraph":
        _fail(source, "the graph is undirected; write `digraph`, and `u -> v` where v reads u")
    return graphs[0]


@contextlib.contextmanager
def _printing(module: ModuleType, output: IO[str]) -> Iterator[None]:
    """Let a module print elsewhere; the standard output of the process is that of other threads too."""
    vars(module)["print"] = functools.partial(print, file=output)
    try:
        yield
    finally:
        del vars(module)["print"]


def _check_work(text: str, source: str) -> None:
    """Refuse nested braces, and nodes that are stated again and again, on which pydot would not finish."""
    depth, brackets, before, last = 0, 0, "", ""
    stated = Counter[str]()
    for token in _TOKEN.finditer(text):
        word = token[1]
        if word is None:
            continue
        depth += {"{": 1, "}": -1}.get(word, 0)
        brackets += {"[": 1, "]": -1}.get(word, 0)
        line = text.count("\n", 0, token.start()) + 1 if depth > MAX_NESTED + 1 else 0
        if line:
            _fail(f"{source}, line {shortened(line)}", f"subgraphs are nested deeper than {MAX_NESTED}; flatten them")
        if brackets <= 0 and not _NO_STATEMENT & {before, last, word}:
            stated[last] += last[:1] == '"' or last[:1].isalnum()
            if stated[last] > MAX_REPEATED:
                name = quoted(last.strip('"'))
                _fail(source, f"node {name} is stated more than {MAX_REPEATED} times; keep one statement")
        before, last = last, word


class _DotReader:
    """Reads statement by statement, since `node [...]` applies to later nodes."""

    def __init__(self, source: str) -> None:
        self.drawing, self.source = Drawing(), source

    def statements(self, graph: Any, node: Texts, edge: Texts) -> list[str]:
        """Add the statements of a graph or subgraph under the given attributes; return the nodes that they name."""
        named: list[str] = []
        parts = [*graph.get_node_list(), *graph.get_edge_list(), *graph.get_subgraph_list()]
        for part in sorted(parts, key=lambda part: part.get_sequence()):
            attributes = self.attributes(part)
            kind = part.obj_dict["type"]
            if kind == "edge":
                tails, heads = (self._end(end, node, edge) for end in part.obj_dict["points"])
                self._count_edges(len(tails) * len(heads))
                self.drawing.edges += [(u, v, {**edge, **attributes}) for u in tails for v in heads]
                named += [*tails, *heads]
            elif kind == "subgraph":
                named += self.statements(part, node, edge)
            elif part.get_name() == "node":
                node = {**node, **attributes}
            elif part.get_name() == "edge":
                edge = {**edge, **attributes}
            elif part.get_name() != "graph":
                named += self._end(part.get_name(), node, edge)
                self.drawing.nodes[named[-1]].update(attributes)
            elif graph.get_type() == "digraph":
                self.drawing.graph.update(attributes)
        return list(dict.fromkeys(named))

    def _count_edges(self, number: int) -> None:
        """Refuse more edges between braces than a text of the longest length can list."""
        if len(self.drawing.edges) + number > MAX_EDGES:
            _fail(self.source, f"there are more than {MAX_EDGES:,} edges between braces; give the graph as JSON or npz")

    def _end(self, end: Any, node: Texts, edge: Texts) -> list[str]:
        """The nodes at one end of an arrow: a name, perhaps with a port, or the inside of braces."""
        if not isinstance(end, str):
            import pydot

            return self.statements(pydot.Subgraph(obj_dict=dict(end)), node, edge)
        quoted = _QUOTED.match(end)
        name = _plain(quoted[0]) if quoted else end.partition(":")[0]
        self.drawing.nodes.setdefault(name, dict(node))
        return [name]

    def attributes(self, part: Any) -> Texts:
        """Attributes in brackets; pydot ends a number at its first letter and reads the rest as a name."""
        given = part.get_attributes()
        for name, text in given.items():
            if text is None:
                remedy = 'put a value of digits and letters in quotes, as "4KiB"'
                _fail(self.source, f"attribute {shortened(name)} has no value; write one, and {remedy}")
        return {_plain(name): _plain(text) for name, text in given.items()}


def _plain(text: Any) -> str:
    """A name or value without its quotes."""
    quoted = _QUOTED.fullmatch(str(text))
    return _ESCAPED.sub(lambda escape: escape[1].strip(), quoted[1]) if quoted else str(text)


def _place(printed: str, lines: int) -> str:
    """Position and reason of the error that pydot printed; lines past the end are ours."""
    match = _PLACE.fullmatch(printed)
    if match is None:
        return f" ({shortened(printed, LONGEST_PATH)})"
    reason, line, column = match.groups()
    place = f"line {int(line)}, column {int(column)}" if int(line) <= lines else "its end"
    return f" at {place} ({shortened(reason, LONGEST_PATH)})"


def _fail(source: str, message: str, cause: BaseException | None = None) -> NoReturn:
    raise GraphError(f"{source}: {message}") from cause


def _dump(graph: ComputationGraph) -> str:
    """The rows as DOT text, one node or edge per line."""
    drawing = drawing_of(tables_from(graph))
    lines = [f"  {name}={_text(value)};" for name, value in drawing.graph.items()]
    lines += [f"  {_text(name)}{_list(record)};" for name, record in drawing.nodes.items()]
    lines += [f"  {_text(u)} -> {_text(v)}{_list(record)};" for u, v, record in drawing.edges]
    text = "\n".join(["digraph {", *lines, "}", ""])
    if len(text) > MAX_READ:
        warn(f"{_too_long(text)}; write JSON, npz or GraphML to read the graph again")
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
