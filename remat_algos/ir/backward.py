"""Saved values and costs of gradients, before `differentiate`; the source of a graph, after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import (
    Int32,
    Int64,
    brief,
    by_fields,
    check_indptr,
    check_sizes,
    frozen,
    repeats,
    row,
    row_of,
    sizes,
    sorted_rows,
    wrong_length,
)
from remat_algos.ir.labels import Labels


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """Saved values and costs of the gradients of a forward graph of n nodes, for `differentiate`.

    Parameters
    ----------
    saved_indptr : int64[n + 1]
    saved_indices : int32[k]
        Row v: reads and values of v that its gradient reads; rows are sorted.
    grad_memory : int64[n_values]
        Bytes of the gradient of each value, -1 for values without one.
    grad_compute : int64[n]
        Cost of the gradient of each node, -1 for `factor` times its compute.
    grad_workspace : int64[n]
        Scratch bytes of each node that computes a gradient of v.
    """

    saved_indptr: Int64
    saved_indices: Int32
    grad_memory: Int64
    grad_compute: Int64
    grad_workspace: Int64

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name, dtype in (("saved_indptr", np.int64), ("saved_indices", np.int32), ("grad_compute", np.int64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        for name in ("grad_memory", "grad_workspace"):
            object.__setattr__(self, name, sizes(getattr(self, name), name))
        n = self.grad_compute.shape[0]
        check_indptr(self.saved_indptr, n, self.saved_indices.shape[0], "saved_indptr")
        if self.grad_workspace.shape[0] != n:
            raise wrong_length("grad_workspace", self.grad_workspace.shape[0], n, "node")
        check_sizes(self.grad_workspace, "grad_workspace")
        for name in ("grad_memory", "grad_compute"):
            if (below := np.flatnonzero(getattr(self, name) < -1)).size:
                raise GraphError(
                    "{what!w}[{at}] is {amount}, expected {expected!w}, or -1 for none",
                    what=name,
                    at=below[0],
                    amount=getattr(self, name)[below[0]],
                    expected="bytes" if name == "grad_memory" else "a cost",
                )
            check_sizes(np.maximum(getattr(self, name), 0), name)
        if (row := repeats(self.saved_indptr, self.saved_indices)) >= 0:
            raise GraphError("the gradient of node {row} lists a value twice in saved_indices; list it once", row=row)
        object.__setattr__(self, "saved_indices", sorted_rows(self.saved_indptr, self.saved_indices))

    def saved(self, node: int) -> list[int]:
        """Values that the gradient of a node reads."""
        return row(self.saved_indptr, self.saved_indices, node, "node")


def check_saved(backward: Backward, read_indptr: Int64, read_indices: Int32, producer: Int32, labels: Labels) -> None:
    """Raise GraphError unless gradients save values that their node reads or makes."""
    n_values = producer.shape[0]
    if backward.grad_memory.shape[0] != n_values:
        raise wrong_length("grad_memory", backward.grad_memory.shape[0], n_values, "value")
    saved, node = backward.saved_indices, row_of(backward.saved_indptr)
    if saved.size and not 0 <= saved.min() <= saved.max() < n_values:
        at = int(np.argmax((saved < 0) | (saved >= n_values)))
        raise GraphError(
            "saved_indices[{at}] is {saved}, expected values from 0 to {last}",
            at=at,
            saved=saved[at],
            last=n_values - 1,
        )
    reader = row_of(read_indptr)
    own = producer[saved] == node
    read = np.isin(node * n_values + saved, reader * n_values + read_indices)
    if not (own | read).all():
        at = int(np.argmin(own | read))
        raise GraphError(
            "the gradient of {name} saves value {saved}, which the node neither reads nor makes",
            name=labels[int(node[at])],
            saved=saved[at],
        )


@dataclass(frozen=True, slots=True)
class Derivation:
    """The hash of its source, and the options of `differentiate`."""

    source_hash: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, record: Any, source: str) -> Derivation:
        """Read the result of `record`; GraphError, with the file, for anything else."""
        if (
            not isinstance(record, dict)
            or record.keys() != {"source_hash", "options"}
            or not isinstance(record["source_hash"], str)
            or not isinstance(record["options"], dict)
        ):
            raise GraphError(
                '{source!p}: "derivation" is not as it was written, expected "source_hash" and "options"', source=source
            )
        return cls(record["source_hash"], _without_decimals(record["options"]))

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {"source_hash": self.source_hash, "options": dict(self.options)}


def _without_decimals(entry: Any) -> Any:
    """Return a JSON entry with nested decimals as floats."""
    if isinstance(entry, dict):
        return {name: _without_decimals(each) for name, each in entry.items()}
    if isinstance(entry, list):
        return [_without_decimals(each) for each in entry]
    return float(entry) if isinstance(entry, Decimal) else entry
