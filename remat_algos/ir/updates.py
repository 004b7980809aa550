"""Nodes that change parameters and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.ir.arrays import Bool, Int32
from remat_algos.ir.csr import row_of
from remat_algos.ir.resident import ROLES

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph

INPUT = ROLES.index("input")


def updates(graph: ComputationGraph) -> Bool:
    """bool[n]: optimizer updates: backward `once` nodes with unread 0-byte outputs that read a parameter or state."""
    silent = graph.output & (graph.memory == 0)
    silent[graph.read_indices] = False
    loud = np.bincount(graph.producer[~silent], minlength=graph.n_nodes) > 0
    found = graph.once & ~graph.forward & ~loud
    if graph.resident is None or not found.any():
        return np.zeros(graph.n_nodes, bool)
    touching = np.zeros(graph.n_nodes, bool)
    touching[changeable_reads(graph)[0]] = True
    return found & touching


def changeable_reads(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """(int32[k], int32[k]): each node that reads a parameter or a state, and which."""
    resident = graph.resident
    if resident is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    reader = row_of(resident.read_indptr, np.int32)
    changeable = resident.role[resident.read_indices] != INPUT
    return reader[changeable], resident.read_indices[changeable]


def updates_and_readers(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """(int32[k], int32[k]): pairs of an update and a node whose runs must all come before it."""
    pairs = set[tuple[int, int]]()
    if graph.updates.any():
        readers: dict[int, list[int]] = {}
        for v, parameter in zip(*map(np.ndarray.tolist, changeable_reads(graph)), strict=True):
            readers.setdefault(parameter, []).append(v)
        for group in readers.values():
            pairs |= {(u, v) for u in group if graph.updates[u] for v in group if not graph.updates[v]}
    update, reader = np.array(sorted(pairs), np.int32).reshape(-1, 2).T
    return update, reader
