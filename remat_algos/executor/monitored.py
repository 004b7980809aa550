"""Operators monitored while they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsInt

import numpy as np

from remat_algos.executor.device_memory import free_memory
from remat_algos.ir.arrays import Int64

if TYPE_CHECKING:
    from remat_algos.executor.array_backend import Array, Backend
    from remat_algos.executor.operators import Operators
    from remat_algos.ir.graph import ComputationGraph


class MonitoredOperators:
    """Wrapped operators, with a count of the runs of each node and, on a GPU, addresses and free memory.

    Parameters
    ----------
    operators : Operators
        The wrapped operators.
    n_nodes : int
    """

    def __init__(self, operators: Operators, n_nodes: int) -> None:
        self.operators = operators
        self.runs: Int64 = np.zeros(n_nodes, np.int64)
        self._backend: Backend | None = None
        self._values: list[int] = []  # addresses
        self._workspaces: list[int] = []
        self._free_before = self._min_free = 0

    @property
    def device_peak(self) -> int | None:
        """Maximum bytes in use on the GPU since `prepare`; None without one."""
        return None if self._backend is None else self._free_before - self._min_free

    @property
    def addresses(self) -> Int64 | None:
        """int64[k]: addresses of the values in order of computation, then of the workspaces; None without a GPU."""
        return None if self._backend is None else np.array(self._values + self._workspaces, np.int64)

    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        """Prepare the operators, and read the free memory before the run."""
        self.operators.prepare(backend, graph)
        if backend.name == "cupy":
            self._backend = backend
            self._free_before = self._min_free = free_memory(backend) or 0

    def residents(self, backend: Backend) -> list[Array]:
        """Residents of the operators."""
        return self.operators.residents(backend)

    def run(
        self,
        node: int,
        reads: Sequence[Array],
        residents: Sequence[Array],
        values: Sequence[Array],
        workspace: Array | None,
    ) -> None:
        """Run a node, and count it."""
        self.runs[node] += 1
        self.operators.run(node, reads, residents, values, workspace)
        if self._backend is not None:
            self._values += [int(value.data.ptr) for value in values]
            self._workspaces += [] if workspace is None else [int(workspace.data.ptr)]
            self._min_free = min(self._min_free, free_memory(self._backend) or 0)

    def checksum(self, array: Array) -> SupportsInt:
        """Checksum by the operators."""
        return self.operators.checksum(array)
