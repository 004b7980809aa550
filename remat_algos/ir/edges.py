"""Pairs (u, v), v reads u, as rows of what each node reads."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, frozen
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

OF_NAMED: Mapping[str, type[np.generic]] = {
    "memory": np.int64,
    "compute": np.int64,
    "workspace": np.int64,
    "once": np.bool_,
    "output": np.bool_,
    "mark": np.int8,
}
"""What edges between names take besides, one entry per node."""


def checked_pairs(edges: Iterable[tuple[Any, Any]] | ArrayLike) -> np.ndarray:
    """The edges as an array [k, 2] of ids or names."""
    try:
        pairs = edges if isinstance(edges, np.ndarray) else np.asarray(list(edges))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no list, or rows of different lengths
        pairs = np.empty(1)
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iuUO":
        raise GraphError("edges are pairs (u, v) of node ids or names")
    return pairs.astype(np.int64) if pairs.dtype.kind in "iu" else pairs


def rows_of_pairs(pairs: np.ndarray, n: int) -> tuple[Int64, np.ndarray]:
    """(int64[n + 1], [<= k]): what each node reads, in the order given, each once; ids must be topological."""
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n):
        raise GraphError(f"an edge names a node that is not there; ids run from 0 to {n - 1}")
    backwards = np.flatnonzero(pairs[:, 0] >= pairs[:, 1])
    if backwards.size:
        u, v = pairs[backwards[0]].tolist()
        raise GraphError(f"edge ({u}, {v}) goes backwards; number the nodes topologically")
    _, first = np.unique(pairs[:, 1] * n + pairs[:, 0], return_index=True)
    pairs = pairs[np.sort(first)]
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    return np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 1], minlength=n))]), pairs[:, 0]


def unread_first_values(value_indptr: Int64, read_indices: Int32) -> Bool:
    """The first value of each node none of whose values is read: the outputs where none are named."""
    n_values = int(value_indptr[-1])
    read = np.zeros(n_values + 1, np.int64)
    read[read_indices[(read_indices >= 0) & (read_indices < n_values)] + 1] = 1
    total = np.cumsum(read)
    first, last = value_indptr[:-1], value_indptr[1:]
    output = np.zeros(n_values, bool)
    output[first[(total[last] == total[first]) & (first < last)]] = True
    return output


def named_tables(pairs: Iterable[tuple[str, str]], **arrays: ArrayLike) -> Tables:
    """Rows from pairs of names; arrays follow the order in which these first appear, scalars serve all nodes."""
    unknown = arrays.keys() - OF_NAMED.keys()
    if unknown:
        known = ", ".join(OF_NAMED)
        raise GraphError(f"{', '.join(sorted(unknown))}: edges between names take {known}; number the nodes for others")
    names = list(dict.fromkeys(str(name) for pair in pairs for name in pair))
    given = {name: frozen(array, OF_NAMED[name], name, len(names)).tolist() for name, array in arrays.items()}
    rows = {}
    for i, name in enumerate(names):
        cells = {column: column_cells[i] for column, column_cells in given.items()}
        value = ValueRow(cells.pop("memory"), output=cells.pop("output", False))
        rows[name] = NodeRow(name, values=[value], **cells)
    for u, v in pairs:
        rows[str(v)].reads.append(str(u))
    return Tables(nodes=list(rows.values()))
