"""Measurements of an executed schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.pools import CHUNK
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.ir.arrays import Int64, brief, by_fields, frozen, gather_rows, interval_sums, row_of, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import Simulation, check_simulation


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """Measurements of a schedule that was executed: bytes at each step, and a checksum of every instance.

    Parameters
    ----------
    graph : ComputationGraph
    simulation : Simulation
        The prediction.
    backend, device : str
        Backend and device of the run.
    used, used_raw : int64[m]
        Bytes allocated during each step, with each request rounded up to 512 bytes, and without rounding.
    total : int64[m]
        Bytes reserved on the device during each step, by the pool or the arena.
    resident : int
        Bytes of the residents (inputs, parameters and states), which are not included in the other numbers.
    checksums : uint32[n_instances]
        Checksum of each instance of `simulation.lifetimes`, after its step.
    mismatches : list of (int, int)
        (step, value) of each recomputed value that differs from its first instance. An output that changed after its
        computation is listed with the last step.
    seconds : float64[m], optional
        Time of the operators at each step.
    allocation : Allocation, optional
        The arena in which the schedule ran.
    outputs : dict of int to uint8[...]
        Final outputs by value, if requested.
    host : int64[m], optional
        Bytes on the host during each step, if values are copied there.
    events : list of (str, int), optional
        On NumPy, if values are copied: the events in chronological order. ("compute", node) means that a node runs, and
        ("free", value) that a value is freed; outputs are freed too. ("store", value) and ("load", value) mean that a
        copy begins, ("stored", value) and ("loaded", value) that it has ended.
    """

    graph: ComputationGraph
    simulation: Simulation
    backend: str
    device: str
    used: Int64
    used_raw: Int64
    total: Int64
    resident: int
    checksums: NDArray[np.uint32]
    mismatches: list[tuple[int, int]]
    seconds: NDArray[np.float64] | None = None
    allocation: Allocation | None = None
    outputs: dict[int, NDArray[np.uint8]] | None = None
    host: Int64 | None = None
    events: list[tuple[str, int]] | None = None

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_fields(self)
        check_simulation(self.simulation, self.graph)
        for name, dtype in (("used", np.int64), ("used_raw", np.int64), ("total", np.int64), ("checksums", np.uint32)):
            count = self.simulation.lifetimes.value.size if name == "checksums" else len(self.simulation.schedule)
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name, count))
        if self.host is not None:
            object.__setattr__(self, "host", frozen(self.host, np.int64, "host", len(self.simulation.schedule)))
        if self.seconds is not None:
            object.__setattr__(self, "seconds", times(self.seconds, (len(self.simulation.schedule),)))

    @property
    def peak_used(self) -> int:
        """Maximum bytes allocated at a step, with each request rounded up to 512 bytes."""
        return int(self.used.max(initial=0))

    @property
    def peak_raw(self) -> int:
        """Maximum bytes allocated at a step, without rounding."""
        return int(self.used_raw.max(initial=0))

    @property
    def peak_total(self) -> int:
        """Maximum bytes reserved at a step."""
        return int(self.total.max(initial=0))

    @property
    def predicted(self) -> Int64:
        """int64[m]: the expected `used`, computed independently of the frees; see `live_memory`."""
        return live_memory(self.simulation, CHUNK) - self._saved(CHUNK)

    @property
    def predicted_raw(self) -> Int64:
        """int64[m]: the expected `used_raw`, computed in the same way as `predicted`."""
        return live_memory(self.simulation) - self._saved(1)

    def _saved(self, chunk: int) -> Int64:
        """Return int64[m]: bytes that in-place updates save at each step, with sizes rounded up to whole chunks."""
        steps = len(self.simulation.schedule)
        if not (self.buffers.over >= 0).any():
            return np.zeros(steps, np.int64)
        return live_bytes(Buffers.of(self.simulation).rounded(chunk), steps) - live_bytes(
            self.buffers.rounded(chunk), steps
        )

    @property
    def buffers(self) -> Buffers:
        """Buffers of the schedule: those of the allocation, if any, or of the simulation."""
        return Buffers.of(self.simulation) if self.allocation is None else self.allocation.buffers

    @property
    def runs(self) -> Int64:
        """int64[n]: number of runs of each node."""
        return self.simulation.runs

    @property
    def first_checksums(self) -> dict[int, int]:
        """The checksum of the first instance of each value."""
        first: dict[int, int] = {}
        for value, checksum in zip(self.simulation.lifetimes.value.tolist(), self.checksums.tolist(), strict=True):
            first.setdefault(value, checksum)
        return first

    @checked_arguments
    def differs_from(self, other: Execution) -> list[tuple[int, int]]:
        """Return (step, value) of each instance whose checksum is not that of the value's first instance in `other`.

        Runs of the same graph with and without rematerialization, or on NumPy and on a GPU, must agree exactly. Values
        that occur in only one of the runs are ignored.
        """
        check_simulation(other.simulation, self.graph)
        expected = other.first_checksums
        instances = zip(
            self.simulation.lifetimes.made_at.tolist(),
            self.simulation.lifetimes.value.tolist(),
            self.checksums.tolist(),
            strict=True,
        )
        return [(step, value) for step, value, checksum in instances if expected.get(value, checksum) != checksum]


def times(seconds: ArrayLike, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return a read-only copy of step times; raise ArgumentError for another shape (None is any length)."""
    try:
        if np.iscomplexobj(seconds):
            raise TypeError
        array = np.array(seconds, np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError("seconds are {seconds!r}; give an array of numbers", seconds=seconds) from None
    if array.ndim != len(shape) or any(n not in (None, m) for m, n in zip(array.shape, shape, strict=True)):
        raise ArgumentError(
            "seconds have shape {shape!w}, expected {expected!w}: one time per step",
            shape=array.shape,
            expected=shape,
        )
    return sealed(array)


def live_memory(simulation: Simulation, chunk: int = 1) -> Int64:
    """Return int64[m]: bytes live at each step, with every size rounded up to whole chunks.

    They are computed from the graph and the order, independently of `simulation.lifetimes`, which the run uses to free
    values. Hence a wrong lifetime shows up as a difference.
    """
    graph, schedule = simulation.graph, simulation.schedule
    order = schedule.order
    loads, lingering, stores = (rows.astype(np.int64) for rows in (schedule.loads, schedule.lingering, schedule.stores))
    memory, workspace = (-(-sizes // chunk) * chunk for sizes in (graph.memory, graph.workspace))
    value, made_at = _at_steps(graph.value_indptr, np.arange(graph.n_values), order)
    read, read_at = _at_steps(graph.read_indptr, graph.read_indices, order)
    # The loads of step s happen at time 2 * s, and its run at time 2 * s + 1.
    value, made = np.concatenate([value, loads[:, 1]]), np.concatenate([2 * made_at + 1, 2 * loads[:, 0]])
    by_value = np.lexsort((made, value))
    value, made = value[by_value], made[by_value]
    # A node reads the newest instance of a value, or the first instance of an output, which stays live.
    key = 2 * (len(order) + 1)
    served = np.searchsorted(value * key + made, read * key + 2 * read_at + 1) - 1
    first = np.searchsorted(value, np.arange(graph.n_values))
    served = np.where(graph.output[read], first[read], served)
    last = made // 2
    np.maximum.at(last, served, read_at)
    # A row of `lingering` refers to the newest instance of its value after its step. A row of `stores` refers to the
    # newest instance before its step.
    stays = np.searchsorted(value * key + made, lingering[:, 0] * key + 2 * lingering[:, 1] + 2) - 1
    np.maximum.at(last, stays, lingering[:, 2] - 1)
    copied = np.searchsorted(value * key + made, stores[:, 1] * key + 2 * stores[:, 0]) - 1
    np.maximum.at(last, copied, stores[:, 0] - 1)
    last[first[graph.output]] = len(order) - 1
    return interval_sums(made // 2, last + 1, memory[value], len(order)) + workspace[order]


def _at_steps(indptr: Int64, indices: NDArray[Any], order: NDArray[np.int32]) -> tuple[Int64, Int64]:
    """Concatenate the rows of the nodes in `order`; return the entries, and the step that each entry belongs to."""
    ends, entries = gather_rows(indptr, indices, order)
    return entries.astype(np.int64), row_of(ends)


def live_bytes(buffers: Buffers, n_steps: int) -> Int64:
    """Return int64[n_steps]: bytes of the buffers that are live at each step."""
    return interval_sums(buffers.begin, buffers.release_step, buffers.size, n_steps)
