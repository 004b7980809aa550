"""Values that are in memory from the start."""

from dataclasses import dataclass

import numpy as np

from remat_algos.arguments import as_list, as_text
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import (
    Int8,
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
)

ROLES = ("input", "parameter", "state")
INPUT = ROLES.index("input")


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """Inputs, parameters and states: in memory throughout, whatever the plan.

    Parameters
    ----------
    memory : int64[r]
        Bytes.
    role : int8[r]
        Place in `ROLES`.
    read_indptr : int64[n + 1]
    read_indices : int32[k]
        Residents that each of the n nodes reads; rows are sorted.
    names : tuple of str
        One per resident, all different.
    """

    memory: Int64
    role: Int8
    read_indptr: Int64
    read_indices: Int32
    names: tuple[str, ...]

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", sizes(self.memory, "resident memory"))
        size = self.memory.shape[0]
        object.__setattr__(self, "role", frozen(self.role, np.int8, "resident role", size, "resident"))
        object.__setattr__(self, "read_indptr", frozen(self.read_indptr, np.int64, "resident read_indptr"))
        object.__setattr__(self, "read_indices", frozen(self.read_indices, np.int32, "resident read_indices"))
        object.__setattr__(self, "names", tuple(as_list(self.names, "names", as_text)))
        check_sizes(self.memory, "resident memory")
        rows = max(self.read_indptr.shape[0] - 1, 0)
        check_indptr(self.read_indptr, rows, self.read_indices.shape[0], "resident read_indptr")
        if len(self.names) != size or len(set(self.names)) != size:
            raise GraphError(
                "{size} residents have {n_names} different names; give each its own name",
                size=size,
                n_names=len(set(self.names)),
            )
        if size and (self.role.min() < 0 or self.role.max() >= len(ROLES)):
            raise GraphError(
                "a resident's role is a number from 0 to {last}: {roles!w}", last=len(ROLES) - 1, roles=", ".join(ROLES)
            )
        if self.read_indices.size and not 0 <= self.read_indices.min() <= self.read_indices.max() < size:
            raise GraphError("a node reads an unknown resident, expected numbers from 0 to {size}", size=size - 1)
        if (row := repeats(self.read_indptr, self.read_indices)) >= 0:
            raise GraphError("node {row} reads a resident twice; list it once", row=row)
        object.__setattr__(self, "read_indices", sorted_rows(self.read_indptr, self.read_indices))

    def reads(self, node: int) -> list[int]:
        """Residents that a node reads."""
        return row(self.read_indptr, self.read_indices, node, "node")

    def changeable_reads(self) -> tuple[Int32, Int32]:
        """(int32[k], int32[k]): pairs of a node and a parameter or state that it reads."""
        changeable = self.role[self.read_indices] != INPUT
        return row_of(self.read_indptr, np.int32)[changeable], self.read_indices[changeable]
