"""Graphs as plain text: a line `u v` or `u -> v` means that v reads u."""

import re
from collections.abc import Iterable, Mapping, Sequence

from remat_algos.errors import GraphError
from remat_algos.formats.columns import aliases, fault, meaning_of
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.rows import EDGE_COLUMNS, NODE_COLUMNS
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

_WORD = re.compile(r'"([^"]*)"|->|#.*|[^\s"#][^\s#]*?(?=->|[\s#]|$)|"')
# networkx writes {} after an edge without data.
ARROW, NO_DATA = "->", "{}"

_NO_NAME = re.compile(r"--|\\|>|%%|//|\W*$|.*[:;,=\\!?&|]$|.*\D\.$")
"""Words that suggest another format: punctuation, command-line options, TeX, comments, ends of sentences."""
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_AMOUNT = re.compile(r"[+-]?(?:\d[\d.,:/-]*|\.\d+)(?:[eE][+-]?\d+)?(?:[A-Za-z]{1,3}|%)?", re.ASCII)
ARROWS = ("-->", "--", "=>", "==>", "~>", "<-", "<--", "→", "⇒")
LOOSE = 3
"""A file with at least this many lines of two names, none of which occurs twice, is a table of keys and values."""


def _parse(text: str, source: str) -> Tables:
    """Parse to nodes of size and cost 1: sorted if all names are numbers, otherwise in order of first appearance."""
    rows: dict[str, NodeRow] = {}
    # alone: some line has a single name; named: some name is quoted. Neither happens in a table of two columns.
    alone = named = False
    plain = not any(mark in text for mark in ("#", '"', ARROW))
    for line, content in enumerate(text.splitlines(), start=1):
        words = unquoted = (content if plain else content.partition("#")[0]).split()
        if len(words) > 2 or (not plain and ('"' in content or ARROW in content)):
            words, unquoted = _words(content, source, line)
        named |= len(unquoted) < len(words)
        for name in unquoted:
            if name not in rows and not _is_name(name):
                wrong = (
                    "{name!r} is not the name of a node; is the file an edge list? Write such names in double quotes"
                )
                raise fault(source, wrong, line, name=name)
        for name in words:
            if name not in rows:
                rows[name] = NodeRow(name, values=[ValueRow()], line=line)
        alone |= len(words) == 1
        if len(words) == 2:
            rows[words[1]].reads.append(words[0])
    if not rows:
        raise fault(source, "the file is empty; write an edge `u v` per line")
    _check_first_line(rows, source)
    if not any(row.reads for row in rows.values()) or not (alone or named):
        _check_columns(rows, source)
    names = in_order(rows)
    return Tables([rows[name] for name in names], source=source, unsized=names, uncosted=names)


def _is_name(word: str) -> bool:
    """Return True if a word can be an unquoted name: its brackets are balanced, and it suggests no other format."""
    if _NO_NAME.match(word):
        return False
    if word.isidentifier() or word.isdecimal():
        return True
    closing: list[str] = []
    for letter in word:
        if letter in _BRACKETS:
            closing.append(_BRACKETS[letter])
        elif (letter in ")]}" and (not closing or closing.pop() != letter)) or (letter == "=" and not closing):
            return False
    return not closing


def _words(content: str, source: str, line: int) -> tuple[list[str], list[str]]:
    """Split a line with quotes, an arrow or more than two words; return all its names, and the unquoted ones."""
    words: list[str] = []
    unquoted: list[str] = []
    # Number of names before each arrow.
    arrows: list[int] = []
    for match in _WORD.finditer(content):
        if match[0] == '"':
            raise fault(source, 'a quotation mark is not closed; write names with spaces as "my name"', line)
        if match[1] is not None:
            words.append(match[1].strip())
        elif match[0] == ARROW:
            arrows.append(len(words))
        elif match[0][0] != "#" and not (match[0] == NO_DATA and len(words) == 2):
            words.append(match[0])
            unquoted.append(match[0])
    if len(words) > 2 or (arrows and (arrows, len(words)) != ([1], 2)) or "" in words:
        second = next(iter(content.split()[1:]), "")
        if second in ARROWS:
            wrong = "{second!r} is not an arrow of edge lists; write `u -> v`, or `u v`"
            raise fault(source, wrong, line, second=second)
        of_nodes = "; sizes belong to nodes: --nodes FILE" if len(words) == 3 and words[2].isdecimal() else ""
        remedy = f"quote names with spaces or use a CSV table{of_nodes}"
        wrong = "expected two names per line, found {n_words}; {remedy!w}"
        raise fault(source, wrong, line, n_words=len(words) - words.count(""), remedy=remedy)
    return words, unquoted


def _check_columns(rows: Mapping[str, NodeRow], source: str) -> None:
    """Raise GraphError if the file is probably a table: names and numbers, or two columns without a common name."""
    pairs = [(u, row.name) for row in rows.values() for u in row.reads]
    if not pairs and len(rows) == 1:
        return
    if not pairs:
        raise fault(source, "no line has two names, so there is no edge; write an edge `u v` per line")
    sources, targets = zip(*pairs, strict=True)
    if len(rows) < 3 or not {*sources}.isdisjoint(targets):
        return
    kind = _kind(sources, targets) or (len(pairs) >= LOOSE and _kind(sources[1:], targets[1:]))
    if not kind and len(rows) == 2 * len(pairs) >= 2 * LOOSE and not all(map(_AMOUNT.fullmatch, rows)):
        kind = "pairs without any common name"
    if kind:
        remedy = (
            'give sizes of nodes with --nodes FILE; if these are names of nodes, write them in double quotes: "u" "v"'
        )
        wrong = "the two columns are {found!w}, which suggests a table of sizes and not edges; {remedy!w}"
        raise fault(source, wrong, found=kind, remedy=remedy)


def _kind(sources: Sequence[str], targets: Sequence[str]) -> str | None:
    """Return what two columns without a common name contain, such as "decimals", if they cannot be nodes; else None."""
    of_sources, of_targets = ({bool(_AMOUNT.fullmatch(name)) for name in names} for names in (sources, targets))
    if of_sources == of_targets == {True} and any("." in name for name in (*sources, *targets)):
        return "decimals"
    one_kind = len(of_sources) == len(of_targets) == 1
    return "names and numbers" if one_kind and of_sources != of_targets else None


def _check_first_line(rows: Mapping[str, NodeRow], source: str) -> None:
    columns, of_nodes = aliases(EDGE_COLUMNS), aliases(NODE_COLUMNS)
    u, v, *others = [*rows][:3] if len(rows) > 2 else ("", "", "")
    is_header = (columns.get(u.lower()), columns.get(v.lower())) == ("src", "dst")
    is_header = is_header or all(meaning_of(name, of_nodes) is not None for name in (u, v))
    if not others or not is_header:
        return
    if rows[v].reads == [u] and not rows[u].reads and not any({u, v} & {*row.reads} for row in [*rows.values()][2:]):
        remedy = "remove the line, or separate the columns by commas"
        wrong = "`{u!w} {v!w}` names columns, not nodes; {remedy!w}"
        raise fault(source, wrong, rows[u].line, u=u, v=v, remedy=remedy)


def _dump(graph: ComputationGraph) -> str:
    """Write a line `u v` per edge, and a line per node without inputs, so that the order of nodes is preserved."""
    if graph.n_nodes > 1 and not graph.read_indices.size:
        raise GraphError("the graph has no edges, which an edge list needs; write tables or JSON")
    names, (indptr, sources) = list(map(_written, graph.node_names())), graph.predecessors
    lines = []
    for v, name in enumerate(names):
        reads = sources[indptr[v] : indptr[v + 1]].tolist()
        lines += [f"{names[u]} {name}" for u in reads] or [name]
    return "\n".join([*lines, ""])


def _written(name: str) -> str:
    if '"' in name:
        raise GraphError("an edge list cannot represent the name {name!r}; write tables or JSON", name=name)
    return name if _is_name(name) and not re.search(r"\s|#|->", name) else f'"{name}"'


def in_order(names: Iterable[str]) -> Sequence[str]:
    """Return unique names, sorted if all are numbers, else in the order of first appearance."""
    unique = list(dict.fromkeys(names))
    if all(name.isdecimal() for name in unique):
        unique.sort(key=lambda name: (len(digits := name.lstrip("0")), digits))
    return unique


GRAPH_FORMAT = GraphFormat(
    "edge list", _parse, _dump, (".txt", ".edges"), sniff=lambda content, ending: False, edges_only=True
)
