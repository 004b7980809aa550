"""Rows of entries in two arrays (CSR): row i is `indices[indptr[i]:indptr[i + 1]]`."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, check_place, frozen, wrong_length

# ---------------------------------------------------------------- one array


def indptr_of(counts: ArrayLike) -> Int64:
    """int64[n + 1]: row pointers from the number of entries in each row.

    Examples
    --------
    >>> indptr_of([2, 0, 1]).tolist(), indptr_of([]).tolist()
    ([0, 2, 2, 3], [0])
    """
    lengths = np.asarray(counts)
    indptr = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr


def row_of(indptr: Int64, dtype: type[np.generic] = np.int64) -> NDArray[Any]:
    """Return the row of each entry.

    Examples
    --------
    >>> row_of(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(max(indptr.shape[0] - 1, 0), dtype=dtype), np.diff(indptr))


def check_indptr(indptr: Int64, n_rows: int, n_entries: int, what: str) -> None:
    """Raise GraphError unless `indptr` cuts `n_entries` entries into `n_rows` rows."""
    if indptr.shape[0] != n_rows + 1:
        raise wrong_length(what, indptr.shape[0], n_rows + 1, "row, and one more")
    if not indptr.size or indptr[0] != 0 or indptr[-1] != n_entries or (np.diff(indptr) < 0).any():
        raise GraphError("{what!w} must increase from 0 to {n_entries:,}", what=what, n_entries=n_entries)


# ---------------------------------------------------------------- rows and lists


def row(indptr: Int64, indices: Int32, i: int, what: str) -> list[int]:
    """Row i; GraphError if i is out of range.

    Examples
    --------
    >>> row(np.array([0, 2, 3]), np.array([5, 6, 7]), 0, "bag")
    [5, 6]
    >>> row(np.array([0, 2, 3]), np.array([5, 6, 7]), 2, "bag")
    Traceback (most recent call last):
    remat_algos.errors.GraphError: there is no bag 2; there are 2, numbered from 0
    """
    i = check_place(i, indptr.shape[0] - 1, what)
    entries: list[int] = indices[indptr[i] : indptr[i + 1]].tolist()
    return entries


def to_lists(indptr: Int64, indices: NDArray[Any]) -> list[list[int]]:
    """Return the rows as lists.

    Examples
    --------
    >>> to_lists(np.array([0, 2, 2, 3]), np.array([5, 6, 7]))
    [[5, 6], [], [7]]
    """
    entries = indices.tolist()
    return [entries[begin:end] for begin, end in pairwise(indptr.tolist())]


def from_lists(rows: Sequence[Sequence[int]]) -> tuple[Int64, Int32]:
    """(int64[n + 1], int32[k]): pointers and entries of rows given as lists.

    Examples
    --------
    >>> [array.tolist() for array in from_lists([[5, 6], [], [7]])]
    [[0, 2, 2, 3], [5, 6, 7]]
    """
    return indptr_of(list(map(len, rows))), np.array(list(chain.from_iterable(rows)), np.int32)


def group_rows(row: NDArray[Any], entries: NDArray[Any], n_rows: int) -> tuple[Int64, NDArray[Any]]:
    """Group entries into rows by the row number of each, in their order.

    Examples
    --------
    >>> [array.tolist() for array in group_rows(np.array([2, 0, 2]), np.array([7, 5, 6]), 3)]
    [[0, 1, 1, 3], [5, 7, 6]]
    """
    return indptr_of(np.bincount(row, minlength=n_rows)), entries[np.argsort(row, kind="stable")]


# ---------------------------------------------------------------- from rows to rows


def gather_rows(indptr: Int64, indices: NDArray[Any], rows: NDArray[Any]) -> tuple[Int64, NDArray[Any]]:
    """Select rows in the given order; a repeated row is repeated.

    Examples
    --------
    >>> [array.tolist() for array in gather_rows(np.array([0, 2, 2, 3]), np.array([5, 6, 7]), np.array([2, 0, 2]))]
    [[0, 1, 3, 4], [7, 5, 6, 7]]
    """
    gathered = indptr_of(np.diff(indptr)[rows])
    shift = np.repeat(indptr[rows] - gathered[:-1], np.diff(gathered))
    return gathered, indices[np.arange(gathered[-1]) + shift]


def select_entries(indptr: Int64, indices: NDArray[Any], selected: Bool) -> tuple[Int64, NDArray[Any]]:
    """Keep only the selected entries of each row; `selected` has a flag for each entry.

    Examples
    --------
    >>> chosen = np.array([True, False, True])
    >>> [array.tolist() for array in select_entries(np.array([0, 2, 2, 3]), np.array([5, 6, 7]), chosen)]
    [[0, 1, 1, 2], [5, 7]]
    """
    return indptr_of(selected)[indptr], indices[selected]


def join_rows(indptr: Int64, indices: Int32, more_indptr: Int64, more: Int32) -> tuple[Int64, Int32]:
    """Append the entries of other rows to each row.

    Examples
    --------
    >>> first, second = (np.array([0, 2, 3]), np.array([5, 6, 7])), (np.array([0, 1, 1]), np.array([9]))
    >>> [array.tolist() for array in join_rows(*first, *second)]
    [[0, 3, 4], [5, 6, 9, 7]]
    """
    joined = np.empty(indices.size + more.size, np.int32)
    joined[np.arange(indices.size) + np.repeat(more_indptr[:-1], np.diff(indptr))] = indices
    joined[np.arange(more.size) + np.repeat(indptr[1:], np.diff(more_indptr))] = more
    return indptr + more_indptr, joined


def unique_rows(indptr: Int64, indices: Int64) -> tuple[Int64, Int64]:
    """Remove repeated entries from each row; the first one stays.

    Examples
    --------
    >>> [array.tolist() for array in unique_rows(np.array([0, 3, 4]), np.array([6, 5, 6, 6]))]
    [[0, 2, 3], [6, 5, 6]]
    """
    if not indices.size:
        return indptr, indices
    minimum = int(indices.min())
    keys = row_of(indptr) * (int(indices.max()) - minimum + 1) + (indices - minimum)
    _, first = np.unique(keys, return_index=True)
    if first.size == indices.size:
        return indptr, indices
    selected = np.zeros(indices.size, bool)
    selected[first] = True
    return select_entries(indptr, indices, selected)


def sorted_rows(indptr: Int64, indices: Int32) -> Int32:
    """Return the entries, sorted within each row.

    Examples
    --------
    >>> sorted_rows(np.array([0, 2, 4]), np.array([6, 5, 9, 8])).tolist()
    [5, 6, 8, 9]
    """
    return frozen(np.sort(row_keys(indptr, indices)) - (row_of(indptr) << 32), np.int32)


def row_keys(indptr: Int64, indices: Int32) -> Int64:
    """Return a sort key for each entry: by row, then by entry."""
    return (row_of(indptr) << 32) + indices


def repeats(indptr: Int64, indices: Int32) -> int:
    """Return the first row with a repeated entry, or -1."""
    keys = np.sort(row_keys(indptr, indices))
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    return int(np.searchsorted(indptr, twice[0], side="right")) - 1 if twice.size else -1
