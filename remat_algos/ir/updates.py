"""Nodes that change parameters and states, and nodes that read these."""

import numpy as np

from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph


def changeable_reads(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """(int32[k], int32[k]): pairs of a node and a parameter or state that it reads."""
    if graph.resident is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return graph.resident.changeable_reads()


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
