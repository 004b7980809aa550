"""The loop that runs the steps of a schedule, and its live arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.allocate.allocation import Allocation
from remat_algos.errors import BackendError, StaleValueError
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.executor.execution import Execution, live_memory
from remat_algos.executor.host_copies import HostCopies
from remat_algos.executor.memories import CHUNK, PATTERN, Memory
from remat_algos.executor.operators import Operators
from remat_algos.ir.arrays import Int64
from remat_algos.ir.csr import to_lists
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import shortened


@dataclass(frozen=True, slots=True, eq=False)
class BufferKeys:
    """Keys of the instances and of the workspace of each step: the numbers of buffers, if there is an allocation."""

    instance: list[int]
    workspace: list[int]
    over: list[int]  # by key: the key that it is written over, or -1

    @classmethod
    def of(cls, simulation: Simulation, allocation: Allocation | None) -> BufferKeys:
        """The keys of a schedule; AllocationError if the allocation is for other buffers."""
        n, m = simulation.lifetimes.value.size, len(simulation.schedule)
        if allocation is None:
            return cls(list(range(n)), [n] * m, [-1] * n)
        buffers = allocation.buffers
        order = buffers.places(simulation)
        of_step = np.full(m, -1)
        of_step[buffers.begin[order[n:]]] = order[n:]
        return cls(order[:n].tolist(), of_step.tolist(), buffers.over.tolist())


class RunLoop:
    """Runs the steps of a schedule in order, and holds its live arrays."""

    def __init__(
        self, on: Backend, simulation: Simulation, operators: Operators, keys: BufferKeys, checking: bool, timed: bool
    ) -> None:
        self.simulation, self.step, self.node = simulation, -1, -1
        self._on, self._operators, self._keys = on, operators, keys
        self._checking, self._timed = checking, timed
        self._arrays: dict[int, Array] = {}  # of the live instances
        self._newest = [-1] * simulation.graph.n_values  # the instance that serves reads of each value
        self._residents: list[tuple[Array, ...]] = []  # of each node
        self._resident = 0
        self._sums: list[Any] = [None] * simulation.lifetimes.value.size
        self._copies: HostCopies | None = None
        self._used: list[int] = []
        self._used_raw: list[int] = []
        self._total: list[int] = []
        self._host: list[int] = []
        self._marks: list[Any] = []

    def prepare(self) -> None:
        """Prepare the operators and load the residents."""
        graph = self.simulation.graph
        self._operators.prepare(self._on, graph)
        arrays = self._operators.residents(self._on)
        _check_residents(graph, arrays)
        self._resident = sum(array.nbytes for array in arrays)
        rows = to_lists(graph.resident.read_indptr, graph.resident.read_indices) if graph.resident is not None else None
        none: tuple[Array, ...] = ()
        self._residents = [tuple([arrays[r] for r in row]) for row in rows] if rows else [none] * graph.n_nodes

    def run_schedule(self, memory: Memory, copies: HostCopies | None) -> None:
        """Run the schedule. The loop does only what cannot be precomputed, and avoids NumPy scalars."""
        graph, lifetimes, order = self.simulation.graph, self.simulation.lifetimes, self.simulation.schedule.order
        reads_of, residents_of = to_lists(graph.read_indptr, graph.read_indices), self._residents
        indptr, value = lifetimes.instance_indptr.tolist(), lifetimes.value.tolist()
        size, scratch, pinned = graph.memory[lifetimes.value].tolist(), graph.workspace.tolist(), graph.output.tolist()
        ended, keys, scratch_key = _ended(self.simulation), self._keys.instance, self._keys.workspace
        arrays, newest, sums = self._arrays, self._newest, self._sums
        allocate, free, peak, mark = memory.allocate, memory.free, memory.peak, self._on.mark
        run, checksum = self._operators.run, self._operators.checksum
        self._copies = copies
        for step, node in enumerate(order.tolist()):
            self.step, self.node = step, node
            computed = range(indptr[step], indptr[step + 1])
            if copies is not None:
                for i in copies.loads[step]:
                    arrays[i] = allocate(size[i], keys[i])
                    copies.load(i, arrays[i])
                    newest[value[i]] = i
                computed = computed[len(copies.loads[step]) :]
            served, reads = self._served(reads_of[node])
            values = tuple([allocate(size[i], keys[i]) for i in computed])
            workspace = allocate(scratch[node], scratch_key[step]) if scratch[node] else None
            if copies is not None:
                self._await(copies, served, computed)
                copies.events.append(("compute", node))
            if self._checking:
                self._check_reads(reads_of[node])
            if self._timed:
                self._on.keep_busy()  # launching a kernel from Python is not the kernel's time
                self._marks.append(mark())
            run(node, reads, residents_of[node], values, workspace)
            if self._timed:
                self._marks.append(mark())
            self._used.append(peak())
            self._used_raw.append(memory.used_raw)
            self._total.append(memory.total)
            if self._checking and workspace is not None:
                workspace.fill(PATTERN)  # destroys a value at the same address
            for i, array in zip(computed, values, strict=True):
                sums[i] = _word(checksum(array)) if self._checking else checksum(array)
                arrays[i] = array
                if not pinned[value[i]] or newest[value[i]] < 0:  # an output is pinned by its first run
                    newest[value[i]] = i
            if self._checking:
                self._check_reads_after(reads_of[node], reads, served, computed)
            reads, values, workspace, array = (), (), None, None  # `memory` must have the only references
            if scratch[node]:
                free(scratch_key[step])
            if copies is not None:
                self._host.append(copies.used)
                copies.end_step(step)
                for i in copies.stores[step]:
                    copies.store(i, arrays[i])
            for i in ended[step]:
                if copies is not None:
                    self._arrive(copies, i)
                    copies.leave(i)
                    copies.events.append(("free", value[i]))
                del arrays[i]
                free(keys[i])
        if copies is not None:
            copies.finish()

    def _await(self, copies: HostCopies, served: list[int], computed: range) -> None:
        """Wait for the loads that a step reads, and for stores of what it writes over."""
        keys, over = self._keys.instance, self._keys.over
        replaced = {over[keys[i]] for i in computed}
        for i in served:
            self._arrive(copies, i)
            if keys[i] in replaced:
                copies.leave(i)

    def _arrive(self, copies: HostCopies, i: int) -> None:
        """Wait for the load of an instance, and take its checksum."""
        if copies.arrive(i):
            checksum = self._operators.checksum(self._arrays[i])
            self._sums[i] = _word(checksum) if self._checking else checksum

    def execution(self, allocation: Allocation | None, outputs: bool) -> Execution:
        """The measurements, and the outputs at the end."""
        graph = self.simulation.graph
        checksums = np.array([_word(checksum) for checksum in self._sums], np.uint32)
        seconds = self._on.seconds(self._marks) if self._timed else None
        outputs_now = {x: self._arrays[self._newest[x]] for x in np.flatnonzero(graph.output).tolist()}
        lost = {x for x, a in outputs_now.items() if _word(self._operators.checksum(a)) != checksums[self._newest[x]]}
        copies = {x: np.array(self._on.to_host(array)) for x, array in outputs_now.items()} if outputs else None
        self._on.synchronize()
        return Execution(
            graph=graph,
            simulation=self.simulation,
            backend=self._on.name,
            device=self._on.device,
            used=_frozen(self._used),
            used_raw=_frozen(self._used_raw),
            total=_frozen(self._total),
            resident=self._resident,
            checksums=checksums,
            mismatches=self._mismatches(checksums) + [(self.step, x) for x in sorted(lost)],
            seconds=seconds,
            allocation=allocation,
            outputs=copies,
            host=None if self._copies is None else _frozen(self._host),
            events=self._copies.events if self._copies is not None and self._on.stream is None else None,
        )

    @property
    def predicted(self) -> Int64:
        """int64[m]: bytes that should be allocated, each request rounded up to 512."""
        return live_memory(self.simulation, CHUNK)

    def where(self) -> str:
        """The current step, for messages."""
        if self.step < 0:
            return "preparing the operators"
        return f"step {self.step} runs {shortened(self.simulation.graph.labels[self.node])}"

    def release(self) -> None:
        """Release all arrays."""
        self._arrays.clear()
        self._residents = []

    def _served(self, reads: list[int]) -> tuple[list[int], tuple[Array, ...]]:
        """The instances that serve the reads of a step, and their arrays; StaleValueError if one is not live."""
        try:
            served = [self._newest[x] for x in reads]
            return served, tuple([self._arrays[i] for i in served])  # a tuple: operators cannot replace entries
        except KeyError:
            raise self._missing(reads) from None

    def _mismatches(self, checksums: NDArray[np.uint32]) -> list[tuple[int, int]]:
        value = self.simulation.lifetimes.value
        _, first, of = np.unique(value, return_index=True, return_inverse=True)
        other = np.flatnonzero(checksums != checksums[first[of]])
        return list(zip(self.simulation.lifetimes.made_at[other].tolist(), value[other].tolist(), strict=True))

    def _check_reads(self, reads: list[int]) -> None:
        """Raise StaleValueError if a value has changed since it was computed, before a step reads it."""
        for x in reads:
            i = self._newest[x]
            if _word(self._operators.checksum(self._arrays[i])) != self._sums[i]:
                step = int(self.simulation.lifetimes.made_at[i])
                raise self._stale(x, f"whose bytes have been written over since step {step} made it")

    def _check_reads_after(
        self, values: list[int], reads: tuple[Array, ...], served: list[int], computed: range
    ) -> None:
        """Raise StaleValueError if a step has changed a read other than by an in-place value."""
        keys, over = self._keys.instance, self._keys.over
        replaced = {over[keys[i]] for i in computed}
        for x, array, i in zip(values, reads, served, strict=True):
            if keys[i] not in replaced and _word(self._operators.checksum(array)) != self._sums[i]:
                raise self._stale(x, "whose bytes it has written over")

    def _missing(self, reads: list[int]) -> StaleValueError:
        """The error for a read that is not live."""
        x = next(x for x in reads if self._newest[x] not in self._arrays)
        i = self._newest[x]
        freed = f"which was freed after step {self.simulation.lifetimes.end[i] - 1}"
        return self._stale(x, freed if i >= 0 else "which has not been made")

    def _stale(self, value: int, became: str) -> StaleValueError:
        name = shortened(self.simulation.graph.value_name(value))
        return StaleValueError(
            "{where!w}, which reads {name!w}, {became!w}",
            where=self.where(),
            name=name,
            became=became,
            step=self.step,
            node=self.node,
            value=value,
        )


def _check_residents(graph: ComputationGraph, arrays: Any) -> None:
    sizes = [] if graph.resident is None else graph.resident.memory.tolist()
    actual = [int(getattr(array, "nbytes", -1)) for array in arrays] if isinstance(arrays, Sequence) else None
    if actual is None or len(actual) != len(sizes):
        result = type(arrays).__name__ if actual is None else len(actual)
        raise BackendError(
            "the operators give {result!w} residents; the graph has {n_sizes}", result=result, n_sizes=len(sizes)
        )
    for name, actual_size, size in zip(graph.resident_names, actual, sizes, strict=True):
        if actual_size != size:
            array = "no array" if actual_size < 0 else f"an array of {actual_size:,} bytes"
            raise BackendError(
                "the operators give {array!w} for resident {name}; the graph says {size:,} bytes",
                array=array,
                name=name,
                size=size,
            )


def _word(checksum: Any) -> int:
    """A checksum by operators as a uint32; a float would not depend on most bits."""
    try:
        fraction = isinstance(checksum, float) or getattr(getattr(checksum, "dtype", None), "kind", "u") not in "ui"
        if not fraction and 0 <= (word := int(checksum)) < 2**32:
            return word
    except (TypeError, ValueError):
        pass
    remedy = "let `checksum` give whole numbers from 0 to 2**32 - 1"
    raise BackendError(
        "a checksum of the operators is not a uint32 ({checksum!r}); {remedy!w}", checksum=checksum, remedy=remedy
    )


def _ended(simulation: Simulation) -> list[list[int]]:
    """Instances to free after each step, by id; first instances of outputs are released at the end."""
    ended: list[list[int]] = [[] for _ in range(len(simulation.schedule))]
    lifetimes, pinned = simulation.lifetimes, simulation.graph.output.copy()
    for i, (x, end) in enumerate(zip(lifetimes.value.tolist(), lifetimes.end.tolist(), strict=True)):
        if pinned[x]:
            pinned[x] = False
        else:
            ended[end - 1].append(i)
    return ended


def _frozen(counts: list[int]) -> Int64:
    array = np.array(counts, np.int64)
    array.setflags(write=False)
    return array
