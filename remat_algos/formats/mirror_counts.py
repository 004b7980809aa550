"""Mirror counts in files: a table of nodes and counts, or a JSON object."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.files import read_text
from remat_algos.formats.columns import Known
from remat_algos.formats.csv_tables import read_table
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP
from remat_algos.plan.record import FORMAT
from remat_algos.text.untrusted_json import json_of
from remat_algos.wording import shortened_path

COLUMNS: Known = {"node": ("name", "id"), "count": ("mirror_count",)}
FORMS = "a table with the columns node and count, or a JSON object of names and counts"
MAX_COUNT = 2**31 - 1
Row = tuple[str, str, Any]
"""The place in the file, for messages; the node; its count."""


@checked_arguments
def read_mirror_counts(graph: ComputationGraph, path: str | os.PathLike[str]) -> Int64:
    """Read how often each node may run beyond its first run, for `mirror_schedule`.

    Parameters
    ----------
    graph : ComputationGraph
    path : path
        CSV with the columns node and count, or a JSON object {node: count}; nodes by name or id. Other nodes have 0.

    Returns
    -------
    int64[n]

    Raises
    ------
    GraphError
        If the file cannot be read or is neither; if a node is unknown, a gradient or named twice; if a count is not a
        whole number of 0 or more, or is above 0 for a node that must run only once or is marked to be kept.

    References
    ----------
    chen2016, algorithm 2 and section 4.5.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mirror.csv")
    ...     _ = file.write_text("node,count\\nA,2\\nB,1\\n")
    ...     read_mirror_counts(graph, file).tolist()
    [2, 1, 0]
    """
    text, source = read_text(path, f"give {FORMS}"), shortened_path(Path(path).name)
    rows = _of_json(text, source) if text.lstrip()[:1] in ("{", "[") else _of_table(text, source)
    return _counts(graph, rows)


def _of_table(text: str, source: str) -> list[Row]:
    table = read_table(text, source, COLUMNS, ("node", "count"))
    return [
        (table.where(row), name, count)
        for row, (name, count) in enumerate(zip(table.texts("node"), table.texts("count"), strict=True))
    ]


def _of_json(text: str, source: str) -> list[Row]:
    try:
        found = json_of(text)
    except ValueError as error:
        raise GraphError("{source!w}: {error!w}; give {forms!w}", source=source, error=error, forms=FORMS) from error
    if not isinstance(found, dict):
        raise GraphError("{source!w}: not a JSON object; give {forms!w}", source=source, forms=FORMS)
    if found.get("format") == FORMAT:
        raise GraphError("{source!w}: a plan, not mirror counts; give {forms!w}", source=source, forms=FORMS)
    return [(source, name, count) for name, count in found.items()]


def _counts(graph: ComputationGraph, rows: Iterable[Row]) -> Int64:
    count, named = np.zeros(graph.n_nodes, np.int64), set()
    for where, name, value in rows:
        node = _node(graph, where, name)
        if node in named:
            raise GraphError(
                "{where!w}: {name} is named twice; keep one of its counts", where=where, name=graph.labels[node]
            )
        named.add(node)
        count[node] = _count(where, graph.labels[node], value)
        if not graph.forward[node]:
            raise GraphError(
                "{where!w}: {name} is a gradient, which runs once; leave it out", where=where, name=graph.labels[node]
            )
        if count[node] and graph.once[node]:
            raise GraphError(
                "{where!w}: {name} must run only once, so its count is 0, not {value!w}",
                where=where,
                name=graph.labels[node],
                value=value,
            )
        if count[node] and graph.mark is not None and graph.mark[node] == KEEP:
            raise GraphError(
                "{where!w}: {name} is marked to be kept, so its count is 0, not {value!w}",
                where=where,
                name=graph.labels[node],
                value=value,
            )
    return count


def _node(graph: ComputationGraph, where: str, name: str) -> int:
    """The node with a name, or else with an id."""
    try:
        return graph.node_id(name)
    except GraphError as error:
        if not (name.isascii() and name.isdecimal()):
            raise GraphError("{where!w}: {error!w}", where=where, error=error) from error
    if len(name) > len(str(graph.n_nodes)) or int(name) >= graph.n_nodes:
        raise GraphError(
            "{where!w}: there is no node {name}; nodes are 0 to {last}",
            where=where,
            name=name,
            last=graph.n_nodes - 1,
        )
    return int(name)


def _count(where: str, name: str, value: Any) -> int:
    """A count: text in a table, a number in JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or not isinstance(value, str | int):
        raise GraphError(
            "{where!w}: the count of {name} is {found}; give a whole number, 0 or more",
            where=where,
            name=name,
            found=text or "empty",
        )
    if text.startswith("-") and digits.strip("0"):
        raise GraphError(
            "{where!w}: the count of {name} is {text}; counts are 0 or more", where=where, name=name, text=text
        )
    if len(digits.lstrip("0")) > len(str(MAX_COUNT)) or int(digits) > MAX_COUNT:
        raise GraphError(
            "{where!w}: the count of {name} is {text}; give at most {max_count}",
            where=where,
            name=name,
            text=text,
            max_count=MAX_COUNT,
        )
    return int(digits)
