"""Checked read-only arrays and CSR arrays; row i of a CSR array is `indices[indptr[i]:indptr[i + 1]]`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain, pairwise
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.text.amounts import LARGEST_SUM, Reading, cost_of, size_of, whole_bytes, whole_costs
from remat_algos.wording import quoted

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

PerName = ArrayLike | Mapping[Any, Any]
"""One entry per node or value, by position or by name."""


def frozen(
    values: ArrayLike, dtype: type[np.generic], what: str = "array", size: int | None = None, per: str = ""
) -> NDArray[Any]:
    """Copy integers to a contiguous read-only array; a scalar is broadcast to `size` entries.

    A read-only argument is copied too, because its owner may make it writable again. Raise GraphError if the values do
    not fit `dtype` exactly, or if there are not `size` of them. `per` names the objects that have one entry each, such
    as "node", for the message about a wrong size.
    """
    array = as_array(values, what)
    if array.ndim == 0 and size is not None:
        array = np.broadcast_to(array, (size,))
    if array.ndim != 1:
        raise GraphError("{what!w} has {ndim} dimensions, expected a flat list of numbers", what=what, ndim=array.ndim)
    if size is not None and array.shape[0] != size:
        raise wrong_length(what, array.shape[0], size, per)
    if array.size == 0:
        array = array.astype(dtype)
    if array.dtype.kind == "O":
        array = _plain(array)
    if array.dtype.kind not in ("iuf" if np.dtype(dtype).kind in "iu" else "biuf"):
        raise _not_a_number(what, values, array, np.dtype(dtype))
    if array.dtype == dtype:
        if isinstance(array.base, bytes) and array.flags.c_contiguous:
            return array  # already immutable
        return _over_bytes(array)
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    if not np.array_equal(result, array):
        at = int(np.flatnonzero(result != array)[0])
        wrong = "{what!w}[{at}] is {array}; give whole numbers within {dtype!w}"
        raise GraphError(wrong, what=what, at=at, array=array[at], dtype=np.dtype(dtype))
    return _over_bytes(result)


def entry_names(values: Any) -> list[Any] | None:
    """Return the keys of a mapping or the index of an array, or None if only the position identifies an entry."""
    names = list(values) if isinstance(values, Mapping) else index_of(values)
    return None if names == list(range(len(names or ()))) and not isinstance(values, Mapping) else names


def index_of(values: Any) -> list[Any] | None:
    """Return the index of a pandas Series or of an xarray DataArray, or None for other types."""
    index = getattr(values, "index", None)  # lists have a method `index`
    if isinstance(indexes := getattr(values, "indexes", None), Mapping) and len(indexes) == 1:
        index = next(iter(indexes.values()))
    return None if index is None or callable(index) or not isinstance(index, Iterable) else list(index)


def as_array(values: Any, what: str) -> NDArray[Any]:
    """Convert an argument to a NumPy array; raise GraphError if it is ragged or its entries have names."""
    if (names := entry_names(values)) is not None:
        wrong = "{what!w} has entries by name ({names!f}); give a list or an array, in the order of the ids"
        raise GraphError(wrong, what=what, names=list(map(str, names)))
    try:
        return np.asarray(values)
    except ValueError:
        raise GraphError("{what!w} has rows of different lengths; give an array", what=what) from None


def sizes(values: Any, what: str, size: int | None = None, per: str = "") -> Int64:
    """Convert sizes such as 120.5 or "4MiB" to a read-only array of bytes; fractions of a byte are rounded up."""
    amounts = numbers(values, size_of, what, size, per)
    return amounts if isinstance(amounts, np.ndarray) else frozen(_within(whole_bytes(amounts, what)), np.int64, what)


def costs(values: Any, what: str, size: int | None = None, per: str = "") -> tuple[Int64, int]:
    """Convert costs to integers; return a read-only array, and the factor by which the costs were scaled."""
    amounts = numbers(values, cost_of, what, size, per)
    if isinstance(amounts, np.ndarray):
        return amounts, 1
    whole, scale = whole_costs(amounts, what)
    return frozen(_within(whole), np.int64, what), scale


def numbers(values: Any, read: Reading, what: str, size: int | None = None, per: str = "") -> Int64 | list[Any]:
    """Return a read-only array of integers, or a list of exact numbers; raise GraphError if `read` rejects one."""
    array = as_array(values, what)
    listed = isinstance(values, list | tuple)
    if _all_whole(array) and not (listed and {bool, np.bool_} & {*map(type, values)}):
        return frozen(array, np.int64, what, size, per)
    if array.ndim == 0 and size is not None:
        return [_read(array[()], read, what)] * size
    if array.ndim != 1:
        raise GraphError("{what!w} has {ndim} dimensions, expected a flat list of numbers", what=what, ndim=array.ndim)
    if size is not None and array.shape[0] != size:
        raise wrong_length(what, array.shape[0], size, per)
    return [_read(entry, read, f"{what}[{i}]") for i, entry in enumerate(values if listed else array)]


def _read(entry: Any, read: Reading, what: str) -> Any:
    try:
        amount = read(entry)
    except ValueError as error:
        raise GraphError("{what!w}: {error!w}", what=what, error=error) from error
    if amount < 0 and amount != -1:
        raise GraphError("{what!w} is {amount}; sizes and costs are 0 or more", what=what, amount=amount)
    return amount


def _all_whole(array: NDArray[Any]) -> bool:
    if array.dtype.kind != "f":
        return array.dtype.kind in "iu" or not array.size
    return bool((np.abs(array) <= LARGEST_SUM).all() and np.array_equal(array, np.rint(array)))


def _within(amounts: Sequence[int]) -> list[int]:
    """Clip amounts, so that they fit an int64. A later check rejects every sum that contains a clipped amount."""
    return [min(amount, LARGEST_SUM) for amount in amounts]


def _over_bytes(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy backed by a bytes object, which NumPy never makes writable."""
    return np.frombuffer(array.tobytes(), array.dtype)


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array, without a copy; the caller must hold the only reference to it.

    A view cannot be made writable, whereas the array that owns the memory can.
    """
    array.setflags(write=False)
    if array.base is None:
        return array.view()
    return np.asarray(memoryview(array))  # type: ignore[arg-type]


NO_PAIRS = sealed(np.zeros((0, 2), np.int32))
NO_TRIPLES = sealed(np.zeros((0, 3), np.int32))


def check_place(i: int, count: int, what: str) -> int:
    """Return i as an int; raise GraphError unless 0 <= i < `count`."""
    place = i if type(i) is int else whole(i, what)
    if not 0 <= place < count:
        wrong = "there is no {what!w} {place}; there are {count}, numbered from 0"
        raise GraphError(wrong, what=what, place=place, count=max(count, 0))
    return place


def by_fields(instance: Any) -> tuple[Any, ...]:
    """Implement `__reduce__` of a dataclass, so that pickle and copy call the constructor, which checks the fields."""
    arguments = (getattr(instance, field.name) for field in fields(instance) if field.init)
    return type(instance), tuple(dict(each) if isinstance(each, MappingProxyType) else each for each in arguments)


def brief(subject: Any) -> str:
    """Describe a dataclass in one line: arrays by type and shape, collections by length; empty fields are omitted."""
    parts = []
    for field in fields(subject):
        entry = getattr(subject, field.name)
        if field.repr and entry is not None and not (isinstance(entry, list | tuple | Mapping) and not entry):
            parts.append(f"{field.name}={_brief_entry(entry)}")
    return f"{type(subject).__name__}({', '.join(parts)})"


def _brief_entry(entry: Any) -> str:
    if isinstance(entry, np.ndarray):
        return f"{entry.dtype}{list(entry.shape)}"
    if isinstance(entry, list | tuple | Mapping):
        return f"<{'1 entry' if len(entry) == 1 else f'{len(entry):,} entries'}>"
    return quoted(entry, 60)


def as_whole(number: Any) -> int | None:
    """Convert a number of any type to an int; return None for other objects, bools and fractions."""
    if isinstance(number, Integral):
        return None if isinstance(number, bool) else int(number)
    return int(float(number)) if isinstance(number, Real) and float(number).is_integer() else None


def whole(number: Any, what: str) -> int:
    """Convert a number of any type to an int; raise TypeError for other objects, GraphError for fractions."""
    result = as_whole(number)
    if result is None:
        kind = GraphError if isinstance(number, Real) and not isinstance(number, bool) else ArgumentTypeError
        raise kind("{what!w} is {number!r}, expected a whole number", what=what, number=number)
    return result


def is_count(number: Any) -> TypeGuard[int]:
    """Return True for an integer from 0 to the largest allowed sum."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and 0 <= int(number) < LARGEST_SUM


def wrong_length(what: str, actual: int, expected: int, per: str = "") -> GraphError:
    template = "{what!w} has {actual:,} " + ("entry" if actual == 1 else "entries") + ", expected {expected:,}"
    if per:
        template += " (one per {per!w})"
    return GraphError(template, what=what, actual=actual, expected=expected, per=per)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    try:
        plain = np.asarray(array.tolist())
    except (TypeError, ValueError):
        return array
    return plain if plain.ndim == 1 else array


def _not_a_number(what: str, values: ArrayLike, array: NDArray[Any], dtype: np.dtype[Any]) -> GraphError:
    """Return the error for an entry that is not a number. It shows the original entry, not NumPy's conversion."""
    for i, entry in enumerate(values if isinstance(values, list | tuple) else array.tolist()):
        if not isinstance(entry, Real) or isinstance(entry, bool):
            return GraphError(
                "{what!w} has {entry!r} at position {i}; give whole numbers within {dtype!w}",
                what=what,
                entry=entry,
                i=i,
                dtype=dtype,
            )
    return GraphError(
        "{what!w} has numbers of more than 64 bits; give whole numbers within {dtype!w}", what=what, dtype=dtype
    )


def check_sizes(array: Int64, what: str) -> None:
    """Raise GraphError unless all entries are 0 or more and their sum is below 2**53."""
    if not array.size:
        return
    if array.min() < 0:
        at = int(np.argmin(array))
        raise GraphError("{what!w}[{at}] is {array}; sizes and costs are 0 or more", what=what, at=at, array=array[at])
    # A float sum cannot overflow, and its rounding error is only a few bytes or units of cost.
    if array.max() >= LARGEST_SUM or array.sum(dtype=np.float64) >= LARGEST_SUM:
        raise GraphError("the sum of {what!w} is 2**53 or more; give it in a coarser unit", what=what)


def indptr_of(counts: ArrayLike) -> Int64:
    """Return row pointers, int64[n + 1], from the number of entries per row."""
    lengths = np.asarray(counts)
    indptr = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr


def row_of(indptr: Int64, dtype: type[np.generic] = np.int64) -> NDArray[Any]:
    """Return the row of each entry."""
    return np.repeat(np.arange(max(indptr.shape[0] - 1, 0), dtype=dtype), np.diff(indptr))


def check_indptr(indptr: Int64, n_rows: int, n_entries: int, what: str) -> None:
    """Raise GraphError unless `indptr` divides `n_entries` entries into `n_rows` rows."""
    if indptr.shape[0] != n_rows + 1:
        raise wrong_length(what, indptr.shape[0], n_rows + 1, "row, and one more")
    if not indptr.size or indptr[0] != 0 or indptr[-1] != n_entries or (np.diff(indptr) < 0).any():
        raise GraphError("{what!w} must increase from 0 to {n_entries:,}", what=what, n_entries=n_entries)


def interval_sums(begin: Int64 | Int32, end: Int64 | Int32 | int, weight: Int64 | int, size: int) -> Int64:
    """Return int64[size]: the total weight of the intervals begin:end that cover each position."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, begin, weight)
    np.subtract.at(change, np.maximum(begin, end), weight)
    return np.cumsum(change)[:size]


def row(indptr: Int64, indices: Int32, i: int, what: str) -> list[int]:
    """Return row i. Raise GraphError if i is out of range."""
    i = check_place(i, indptr.shape[0] - 1, what)
    entries: list[int] = indices[indptr[i] : indptr[i + 1]].tolist()
    return entries


def to_lists(indptr: Int64, indices: NDArray[Any]) -> list[list[int]]:
    entries = indices.tolist()
    return [entries[begin:end] for begin, end in pairwise(indptr.tolist())]


def from_lists(rows: Sequence[Sequence[int]]) -> tuple[Int64, Int32]:
    """Convert a list of rows to CSR arrays, int64[n + 1] and int32[k]."""
    return indptr_of(list(map(len, rows))), np.array(list(chain.from_iterable(rows)), np.int32)


def group_rows(row: NDArray[Any], entries: NDArray[Any], n_rows: int) -> tuple[Int64, NDArray[Any]]:
    """Group entries into rows by their row numbers; entries of a row keep their order."""
    return indptr_of(np.bincount(row, minlength=n_rows)), entries[np.argsort(row, kind="stable")]


def gather_rows(indptr: Int64, indices: NDArray[Any], rows: NDArray[Any]) -> tuple[Int64, NDArray[Any]]:
    """Return the CSR arrays of these rows in this order; rows may repeat."""
    gathered = indptr_of(np.diff(indptr)[rows])
    shift = np.repeat(indptr[rows] - gathered[:-1], np.diff(gathered))
    return gathered, indices[np.arange(gathered[-1]) + shift]


def select_entries(indptr: Int64, indices: NDArray[Any], selected: Bool) -> tuple[Int64, NDArray[Any]]:
    """Keep only the selected entries of each row; `selected` has one flag per entry."""
    return indptr_of(selected)[indptr], indices[selected]


def join_rows(indptr: Int64, indices: Int32, more_indptr: Int64, more: Int32) -> tuple[Int64, Int32]:
    """Append the entries of other rows to each row."""
    joined = np.empty(indices.size + more.size, np.int32)
    joined[np.arange(indices.size) + np.repeat(more_indptr[:-1], np.diff(indptr))] = indices
    joined[np.arange(more.size) + np.repeat(indptr[1:], np.diff(more_indptr))] = more
    return indptr + more_indptr, joined


def unique_rows(indptr: Int64, indices: Int64) -> tuple[Int64, Int64]:
    """Remove repeated entries from each row, keeping the first."""
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
    """Return the entries, sorted within each row."""
    return frozen(np.sort(row_keys(indptr, indices)) - (row_of(indptr) << 32), np.int32)


def row_keys(indptr: Int64, indices: Int32) -> Int64:
    """Return a sort key for each entry: by row, then by entry."""
    return (row_of(indptr) << 32) + indices


def repeats(indptr: Int64, indices: Int32) -> int:
    """Return the first row with a repeated entry, or -1."""
    keys = np.sort(row_keys(indptr, indices))
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    return int(np.searchsorted(indptr, twice[0], side="right")) - 1 if twice.size else -1
