"""Pairs (u, v), v reads u, as CSR rows of reads."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import (
    LARGEST_SUM,
    Bool,
    Int32,
    Int64,
    entry_names,
    frozen,
    group_rows,
    index_of,
    numbers,
    whole,
)
from remat_algos.ir.tables import NodeRow, Tables, ValueRow
from remat_algos.text.amounts import Reading, cost_of, size_of
from remat_algos.wording import did_you_mean

AMOUNTS: Mapping[str, Reading] = {"memory": size_of, "compute": cost_of, "workspace": size_of}
OF_NAMED: Mapping[str, type[np.generic]] = {"once": np.bool_, "output": np.bool_, "mark": np.int8}
"""Arrays that may accompany edges between names, one entry per node, beside `AMOUNTS`."""

NAMED = AMOUNTS.keys() | OF_NAMED.keys()
"""Arrays that are taken by name too."""

COMPLETE = ("memory", "compute")  # mappings without defaults
NO_PAIRS = "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...] or [('a', 'b'), ...]"
MAX_NODES = 2**31


def checked_pairs(edges: Iterable[tuple[Any, Any]] | ArrayLike) -> np.ndarray:
    """Return the edges as an array [k, 2] of ids or names."""
    try:
        listed_edges = edges if isinstance(edges, np.ndarray) else list(edges)  # type: ignore[arg-type]
        pairs = np.asarray(listed_edges)
    except (TypeError, ValueError) as error:  # not a list, or rows of different lengths
        raise GraphError(NO_PAIRS) from error
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.dtype.kind == "f":
        pairs = _whole_ids(pairs, listed_edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iuUO":
        raise GraphError(NO_PAIRS)
    if pairs.dtype.kind == "O" and (empty := [i for i, pair in enumerate(pairs.tolist()) if None in pair]):
        raise GraphError("edge {empty} has None for a node; give two ids or names", empty=empty[0])
    if pairs.dtype.kind == "u" and pairs.max() > np.iinfo(np.int64).max:  # ids of 64 bits, such as hashes
        return pairs.astype(object)
    return pairs.astype(np.int64) if pairs.dtype.kind in "iu" else pairs


def _whole_ids(pairs: np.ndarray, edges: Any) -> np.ndarray:
    """Whole floats as integers; 64-bit integers that NumPy converted to floats, unchanged."""
    if (np.abs(pairs) < LARGEST_SUM).all() and np.array_equal(pairs, np.rint(pairs)):
        return pairs.astype(np.int64)
    exact = np.asarray(edges, object)
    return exact if all(isinstance(node, Integral) for node in exact.flat) else pairs


def node_ids(pairs: np.ndarray, n_nodes: int | None, arrays: Mapping[str, Any]) -> Int64:
    """The ids of the nodes, ascending: 0 to n - 1 where an array or `n_nodes` counts them, else those in edges."""
    positional = [a for a in arrays.values() if entry_names(a) is None]
    rows = [a if isinstance(a, list | tuple) else np.asarray(a) for a in positional]
    sizes = [len(a) for a in rows if isinstance(a, list | tuple) or a.ndim == 1]
    if n_nodes is None and not sizes:
        return np.unique(pairs)
    n = whole(n_nodes, "n_nodes") if n_nodes is not None else max([*sizes, int(pairs.max(initial=-1)) + 1])
    if not 0 <= n <= MAX_NODES:
        raise GraphError("there are {n:,} nodes, expected from 0 to 2**31", n=n)
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n):
        lost = int(pairs.min()) if pairs.min() < 0 else int(pairs.max())
        raise GraphError("an edge has node {lost}, expected ids from 0 to {n}", lost=lost, n=n - 1)
    return np.arange(n)


def are_topological(pairs: np.ndarray, ids: Int64) -> bool:
    """True if ids are 0 to n - 1, and every edge goes to a larger one."""
    dense = not ids.size or (ids[0] == 0 and int(ids[-1]) == ids.size - 1)
    return bool(dense and (pairs[:, 0] < pairs[:, 1]).all())


def rows_of_pairs(pairs: np.ndarray, n: int) -> tuple[Int64, np.ndarray]:
    """(int64[n + 1], [<= k]): CSR rows of the reads of each node, in order of appearance, without duplicates."""
    _, first = np.unique(pairs[:, 1] * n + pairs[:, 0], return_index=True)
    pairs = pairs[np.sort(first)]
    return group_rows(pairs[:, 1], pairs[:, 0], n)


def unread_first_values(value_indptr: Int64, read_indices: Int32) -> Bool:
    """Default outputs: the first value of every node none of whose values is read."""
    n_values = int(value_indptr[-1])
    read = np.zeros(n_values + 1, np.int64)
    read[read_indices[(read_indices >= 0) & (read_indices < n_values)] + 1] = 1
    total = np.cumsum(read)
    first, last = value_indptr[:-1], value_indptr[1:]
    output = np.zeros(n_values, bool)
    output[first[(total[last] == total[first]) & (first < last)]] = True
    return output


def in_order(what: str, entries: Any, names: Callable[[], Sequence[Any]]) -> Any:
    """Return the entries of a mapping, or of an array with an index of names, as a list in the order of the names.

    Anything else is returned as it is. Raises GraphError for an unknown name, a name that stands twice and, if sizes or
    costs, for a node without an entry.

    Examples
    --------
    >>> in_order("memory", {"relu": 8, "conv": 4}, lambda: ["conv", "relu"]), in_order("memory", 1, list)
    ([4, 8], 1)
    """
    given = entry_names(entries)
    if given is None:
        if index := index_of(entries):
            own, numbers = list(map(str, names())), list(map(str, index))
            if own != numbers and {*own} == {*numbers}:
                raise GraphError(
                    "{what!w} has an index from 0, and nodes have these names in another order; give a mapping of "
                    "names, or an array in the order of the nodes",
                    what=what,
                )
        return entries
    given = list(map(str, given))
    if twice := [name for name, count in Counter(given).items() if count > 1]:
        raise GraphError("{what!w} has several entries for {twice!r}; give one", what=what, twice=twice[0])
    amounts = list(entries.values()) if isinstance(entries, Mapping) else list(np.asarray(entries))
    if len(amounts) != len(given):
        raise GraphError(
            "{what!w} has {n_given:,} names for {n_amounts:,} entries; give one for each",
            what=what,
            n_given=len(given),
            n_amounts=len(amounts),
        )
    entries = dict(zip(given, amounts, strict=True))
    known = dict.fromkeys(map(str, names()))
    for name in entries.keys() - known.keys():
        remedy = did_you_mean(name, known) or "; the nodes are those of the edges or labels"
        raise GraphError(
            "{what!w} has an entry for {name!r}, which is no node{remedy!w}", what=what, name=name, remedy=remedy
        )
    missing = [name for name in known if name not in entries]
    if missing and what in COMPLETE:
        raise GraphError(
            "{what!w} has no entry for {missing!f}; give one for each of the {n_known:node}",
            what=what,
            missing=missing,
            n_known=len(known),
        )
    return [entries.get(name, 0) for name in known]


def _column(what: str, entries: Any, n: int) -> Any:
    """Return an entry per node, sizes and costs read as in files."""
    if what in AMOUNTS:
        found = numbers(entries, AMOUNTS[what], what, n, "node")
        return found.tolist() if isinstance(found, np.ndarray) else found
    return frozen(entries, OF_NAMED[what], what, n, "node").tolist()


def named_tables(pairs: Iterable[tuple[Any, Any]], names: Sequence[Any], arrays: Mapping[str, Any]) -> Tables:
    """Rows from pairs of names or ids; arrays follow the order of the names, scalars apply to all nodes."""
    known = [*AMOUNTS, *OF_NAMED]
    if unknown := sorted(arrays.keys() - known):
        raise GraphError(
            "{unknown!l} cannot be given with names, or ids that are not topological (only {known!l} can); "
            "number the nodes topologically from 0",
            unknown=unknown,
            known=known,
        )
    columns = {what: _column(what, array, len(names)) for what, array in arrays.items()}
    rows = {}
    for i, name in enumerate(map(str, names)):
        cells = {column: column_cells[i] for column, column_cells in columns.items()}
        value = ValueRow(cells.pop("memory"), output=cells.pop("output", False))
        rows[name] = NodeRow(name, values=[value], **cells)
    for u, v in pairs:
        rows[str(v)].reads.append(str(u))
    return Tables(nodes=list(rows.values()), source="edges")
