"""Execution of a schedule: every value is computed, read and freed as in its simulation."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.allocate.allocation import Allocation, checked_limit
from remat_algos.allocate.pools import CHUNK
from remat_algos.arguments import checked_arguments
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    GraphError,
    OutOfMemoryError,
    RematError,
    StaleValueError,
    about,
)
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.host_copies import HostCopies
from remat_algos.executor.measurements import Execution, live_memory
from remat_algos.executor.memories import PATTERN, ArenaMemory, Memory, PoolMemory, TrackingMemory
from remat_algos.executor.operators import Operators, SyntheticOperators, check_operators
from remat_algos.ir.arrays import to_lists
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verified
from remat_algos.schedule.schedule import Order, Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.wording import shortened


@dataclass(frozen=True, slots=True, eq=False)
class BufferKeys:
    """Keys under which a run allocates instances and workspaces; if there is an allocation, keys are buffer numbers."""

    instance: list[int]
    workspace: list[int]
    over: list[int]  # overwritten key, or -1

    @classmethod
    def of(cls, simulation: Simulation, allocation: Allocation | None) -> BufferKeys:
        """Return the keys of a schedule. Raise AllocationError if the allocation does not have its buffers."""
        n, m = simulation.lifetimes.value.size, len(simulation.schedule)
        if allocation is None:
            return cls(list(range(n)), [n] * m, [-1] * n)
        buffers = allocation.buffers
        order = buffers.places(simulation)
        of_step = np.full(m, -1)
        of_step[buffers.begin[order[n:]]] = order[n:]
        return cls(order[:n].tolist(), of_step.tolist(), buffers.over.tolist())


class RunLoop:
    """Runs the steps of a schedule in order, and owns the live arrays."""

    def __init__(
        self, on: Backend, simulation: Simulation, operators: Operators, keys: BufferKeys, checking: bool, timed: bool
    ) -> None:
        self.simulation, self.step, self.node = simulation, -1, -1
        self._on, self._operators, self._keys = on, operators, keys
        self._checking, self._timed = checking, timed
        self._arrays: dict[int, Array] = {}  # key: instance
        # `_newest` contains, for each value, the instance that its next reader will read. `_residents` contains the
        # residents that each node reads.
        self._newest = [-1] * simulation.graph.n_values
        self._residents: list[tuple[Array, ...]] = []
        self._resident = 0
        self._sums: list[Any] = [None] * simulation.lifetimes.value.size
        self._copies: HostCopies | None = None
        self._used: list[int] = []
        self._used_raw: list[int] = []
        self._total: list[int] = []
        self._host: list[int] = []
        self._marks: list[Any] = []

    def prepare(self) -> None:
        graph = self.simulation.graph
        self._operators.prepare(self._on, graph)
        arrays = self._operators.residents(self._on)
        _check_residents(graph, arrays)
        self._resident = sum(array.nbytes for array in arrays)
        rows = to_lists(graph.resident.read_indptr, graph.resident.read_indices) if graph.resident is not None else None
        none: tuple[Array, ...] = ()
        self._residents = [tuple([arrays[r] for r in row]) for row in rows] if rows else [none] * graph.n_nodes

    def run_schedule(self, memory: Memory, copies: HostCopies | None) -> None:
        """Run the schedule. For speed, the loop uses no NumPy scalars, and everything possible is precomputed."""
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
                self._on.keep_busy()  # hides launches from the timing
                self._marks.append(mark())
            run(node, reads, residents_of[node], values, workspace)
            if self._timed:
                self._marks.append(mark())
            self._used.append(peak())
            self._used_raw.append(memory.used_raw)
            self._total.append(memory.total)
            if self._checking and workspace is not None:
                workspace.fill(PATTERN)  # destroys overlapping values
            for i, array in zip(computed, values, strict=True):
                sums[i] = _word(checksum(array)) if self._checking else checksum(array)
                arrays[i] = array
                # Nodes always read the first instance of an output.
                if not pinned[value[i]] or newest[value[i]] < 0:
                    newest[value[i]] = i
            if self._checking:
                self._check_reads_after(reads_of[node], reads, served, computed)
            reads, values, workspace, array = (), (), None, None  # only `memory` keeps references
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
        keys, over = self._keys.instance, self._keys.over
        replaced = {over[keys[i]] for i in computed}
        for i in served:
            self._arrive(copies, i)
            if keys[i] in replaced:
                copies.leave(i)

    def _arrive(self, copies: HostCopies, i: int) -> None:
        if copies.arrive(i):
            checksum = self._operators.checksum(self._arrays[i])
            self._sums[i] = _word(checksum) if self._checking else checksum

    def execution(self, allocation: Allocation | None, outputs: bool) -> Execution:
        """Return the measurements and, if requested, the final outputs."""
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
            used=np.array(self._used, np.int64),
            used_raw=np.array(self._used_raw, np.int64),
            total=np.array(self._total, np.int64),
            resident=self._resident,
            checksums=checksums,
            mismatches=self._mismatches(checksums) + [(self.step, x) for x in sorted(lost)],
            seconds=seconds,
            allocation=allocation,
            outputs=copies,
            host=None if self._copies is None else np.array(self._host, np.int64),
            events=self._copies.events if self._copies is not None and self._on.stream is None else None,
        )

    def where(self) -> str:
        if self.step < 0:
            return "preparing the operators"
        return f"step {self.step} runs {shortened(self.simulation.graph.labels[self.node])}"

    def release(self) -> None:
        self._arrays.clear()
        self._sums.clear()
        self._residents = []

    def _served(self, reads: list[int]) -> tuple[list[int], tuple[Array, ...]]:
        """Return the instances that a step reads, and their arrays; raise StaleValueError if one is not live."""
        try:
            served = [self._newest[x] for x in reads]
            # A tuple, so that operators cannot replace its entries.
            return served, tuple([self._arrays[i] for i in served])
        except KeyError:
            raise self._missing(reads) from None

    def _mismatches(self, checksums: NDArray[np.uint32]) -> list[tuple[int, int]]:
        value = self.simulation.lifetimes.value
        _, first, of = np.unique(value, return_index=True, return_inverse=True)
        other = np.flatnonzero(checksums != checksums[first[of]])
        return list(zip(self.simulation.lifetimes.made_at[other].tolist(), value[other].tolist(), strict=True))

    def _check_reads(self, reads: list[int]) -> None:
        for x in reads:
            i = self._newest[x]
            if _word(self._operators.checksum(self._arrays[i])) != self._sums[i]:
                step = int(self.simulation.lifetimes.made_at[i])
                raise self._stale(x, "which has been overwritten since step {made_at} computed it", made_at=step)

    def _check_reads_after(
        self, values: list[int], reads: tuple[Array, ...], served: list[int], computed: range
    ) -> None:
        """Raise StaleValueError if the step has changed a value that it reads, except by overwriting it in place."""
        keys, over = self._keys.instance, self._keys.over
        replaced = {over[keys[i]] for i in computed}
        for x, array, i in zip(values, reads, served, strict=True):
            if keys[i] not in replaced and _word(self._operators.checksum(array)) != self._sums[i]:
                raise self._stale(x, "which it has overwritten")

    def _missing(self, reads: list[int]) -> StaleValueError:
        x = next(x for x in reads if self._newest[x] not in self._arrays)
        freed = int(self.simulation.lifetimes.end[self._newest[x]]) - 1
        return self._stale(x, "which was freed after step {freed}", freed=freed)

    def _stale(self, value: int, became: str, **fields: int) -> StaleValueError:
        """Return the error for a value that the current step reads; `became` is the last clause of its message."""
        graph = self.simulation.graph
        names = {"running": graph.labels[self.node], "read": graph.value_name(value)}
        template = "step {step} runs {running}, which reads {read}, " + became
        return StaleValueError(template, step=self.step, node=self.node, value=value, **names, **fields)


def _check_residents(graph: ComputationGraph, arrays: Any) -> None:
    sizes = [] if graph.resident is None else graph.resident.memory.tolist()
    given = len(arrays) if isinstance(arrays, Sequence) else type(arrays).__name__
    if given != len(sizes):
        raise BackendError("the operators return {given} residents; expected {count}", given=given, count=len(sizes))
    for name, array, size in zip(graph.resident_names, arrays, sizes, strict=True):
        nbytes = getattr(array, "nbytes", None)
        if nbytes is None:
            raise BackendError(
                "the operators return no array for resident {name}; expected {size:,} bytes", name=name, size=size
            )
        if nbytes != size:
            raise BackendError(
                "the operators return an array of {nbytes:,} bytes for resident {name}; expected {size:,} bytes",
                nbytes=int(nbytes),
                name=name,
                size=size,
            )


def _word(checksum: Any) -> int:
    try:
        fraction = isinstance(checksum, float) or getattr(getattr(checksum, "dtype", None), "kind", "u") not in "ui"
        if not fraction and 0 <= (word := int(checksum)) < 2**32:
            return word
    except (TypeError, ValueError):
        pass
    raise BackendError(
        "a checksum of the operators is not a uint32 ({checksum!r}); let `checksum` return whole numbers from 0 to "
        "2**32 - 1",
        checksum=checksum,
    )


def _ended(simulation: Simulation) -> list[list[int]]:
    """Return the instances to free after each step, ascending; first instances of outputs are released at the end."""
    ended: list[list[int]] = [[] for _ in range(len(simulation.schedule))]
    lifetimes, pinned = simulation.lifetimes, simulation.graph.output.copy()
    for i, (x, end) in enumerate(zip(lifetimes.value.tolist(), lifetimes.end.tolist(), strict=True)):
        if pinned[x]:
            pinned[x] = False
        else:
            ended[end - 1].append(i)
    return ended


@checked_arguments
def shrink(graph: ComputationGraph, by: int) -> ComputationGraph:
    """Divide the sizes of all values, workspaces and residents by an integer, rounding up.

    Parameters
    ----------
    graph : ComputationGraph
    by : int
        An integer from 1 to 2**63 - 1.

    Returns
    -------
    ComputationGraph
        Its compute is unchanged.

    Raises
    ------
    ValueError
        If `by` is invalid.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B")], memory=[1001, 0])
    >>> shrink(graph, 1000).memory.tolist()
    [2, 0]
    """
    if not 1 <= by < 2**63:
        remedy = "give 1 or more" if by < 1 else f"give at most {2**63 - 1}"
        raise about("shrink", ArgumentError("sizes cannot be divided by {by!r}; " + remedy, by=by))
    smaller = graph.with_costs(memory=-(-graph.memory // by), workspace=-(-graph.workspace // by))
    if graph.resident is None:
        return smaller
    return replace(smaller, resident=replace(graph.resident, memory=-(-graph.resident.memory // by)))


Runnable = Plan | Simulation | Mapping[str, Any] | str | os.PathLike[str] | Order


@checked_arguments
def execute(
    graph: ComputationGraph,
    schedule: Runnable,
    operators: Operators | None = None,
    allocation: Allocation | None = None,
    backend: str = "numpy",
    seed: int = 0,
    *,
    limit: int | None = None,
    link: AnyLink | None = None,
    checking: bool | None = None,
    timed: bool = False,
    outputs: bool = False,
) -> Execution:
    """Execute a schedule: compute, copy and free its values, and measure the bytes at every step.

    When a node runs, its values are allocated, then its workspace. After the step the workspace is freed, then values
    without later reads. Residents are not counted. Copies to the host and back are concurrent with the runs. A node
    waits for the loads of the values that it reads. A value is freed when its store is complete. Host memory is
    allocated before the first step. At the end, after success or failure, no copy is in progress and all arrays of the
    run are released.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, int32[m], Simulation, Plan, mapping or path
        A simulation is executed on its own graph; the claims of a plan, record or file are verified first.
    operators : Operators, optional
        The operators of the nodes; by default `SyntheticOperators(graph, seed=seed)`.
    allocation : Allocation, optional
        An allocation of the buffers of this schedule (`Buffers.of`). The run then uses one arena, with each buffer at
        its offset. Overlaps of buffers are not checked in advance, but destroy values. Checking mode detects values
        that are destroyed before or while they are read. A comparison (`differs_from`) with a run without an arena
        detects values that are destroyed during their computation. Without these two checks, `mismatches` only shows
        values that were destroyed in some runs of a node but not in others, and outputs that were destroyed later.
    backend : {"numpy", "cupy"}
    seed : int
        Seed of the default operators.
    limit : int, optional
        Maximum bytes. On NumPy, it limits the allocated bytes, with each request rounded up to 512. On CuPy, it limits
        the bytes that the pool reserves.
    link : Link, Device, mapping, str or path, optional
        A link as for `solve`. On NumPy, copies take as long as over this link at its full rates. On all backends, the
        link limits host memory. The default is the link of the plan. Without a link, copies run at the speed of the
        machine.
    checking : bool, optional
        Checking mode, which is the default if there is an allocation. The run overwrites freed arrays. It overwrites a
        workspace before it computes the checksums of the node's values. Before and after each step, it checks that the
        values that the step reads have not changed since they were computed, except by in-place updates.
    timed : bool
        Measure the time of the operators at each step. On a GPU, this is the time of their kernels; launch times of up
        to 0.1 ms per step are not included.
    outputs : bool
        Copy the outputs to the host at the end of the run.

    Returns
    -------
    Execution

    Raises
    ------
    ScheduleError
        If the schedule is invalid.
    PlanError, ClaimError
        As for `verify`.
    AllocationError
        If the allocation does not have this schedule's buffers.
    BackendError
        If the backend is not available, or the operators violate the protocol `Operators`.
    OutOfMemoryError
        If memory runs out; the error contains the step, the node, and the requested and free bytes. If host memory does
        not suffice, it is raised before step 0.
    TypeError
        If the schedule, operators or allocation have the wrong type.
    StaleValueError
        If a step reads a value that is not live. In checking mode, also if the value has changed since it was computed,
        or if the step itself changes it.

    Examples
    --------
    Node 0 is recomputed, so its first value is freed before node 3 runs. Sizes are rounded up to 512 bytes.

    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (0, 3)], memory=[600, 1000, 1000, 8])
    >>> execution = execute(graph, [0, 1, 2, 0, 3])
    >>> execution.used.tolist(), execution.predicted.tolist(), execution.mismatches
    ([1024, 2048, 2048, 2048, 2560], [1024, 2048, 2048, 2048, 2560], [])
    """
    simulation, _, planned_for = planned(graph, schedule)
    link = planned_for if link is None else get_link(link)
    on = backend_of(backend)
    operators = SyntheticOperators(simulation.graph, seed=seed) if operators is None else operators
    check_operators(operators)
    checking = allocation is not None if checking is None else checking
    keys, outer = BufferKeys.of(simulation, allocation), sys.exception()
    loop = RunLoop(on, simulation, operators, keys, checking, timed)
    copies = HostCopies(on, simulation, link) if simulation.schedule.loads.size else None
    # An error refers to this frame, which would keep the arrays of the operators alive.
    del operators
    memory: Memory | None = None
    try:
        with on.running():
            loop.prepare()
            memory = _memory(on, allocation, limit, checking)
            with memory, copies or nullcontext():
                loop.run_schedule(memory, copies)
                return loop.execution(allocation, outputs)
    except BaseException as error:
        loop.release()
        _clear_frames(error, outer)
        if isinstance(error, MemoryError):  # from residents or operators
            raise OutOfMemoryError(
                "{where!w}, which ran out of memory: {error!e}",
                where=loop.where(),
                error=error,
                step=loop.step,
                node=loop.node,
            ) from None
        if isinstance(error, OutOfMemoryError) and error.step < 0 <= loop.step:
            raise _out_of_memory(error, loop) from None
        if not isinstance(error, RematError):
            # GPU errors are asynchronous, so an earlier step may have caused them.
            before = " or one before it" if on.stream is not None and loop.step >= 0 else ""
            error.add_note(f"{loop.where()}{before} when this came; all memory of the run has been released")
        raise
    finally:
        if copies is not None:
            # Close again, because an interrupt may occur between the start of the engines and the run.
            copies.close()
        loop.release()
        del loop
        with suppress(Exception):  # kernels may still be running
            on.synchronize()
        if memory is not None:
            # Close again, because at the first call the run still had references to memory.
            memory.close()
        on.release()


def planned(graph: ComputationGraph, order: Runnable) -> tuple[Simulation, Allocation | None, Link | None]:
    """Return the simulation of a plan (after verifying its claims) or schedule, with its allocation and link if any."""
    check_graph(graph)
    if isinstance(order, Simulation):
        if order.graph is not graph and order.graph.source_hash != graph.source_hash:
            raise GraphError("the simulation is of another graph; give the graph that was simulated")
        return order, None, None
    if isinstance(order, Plan | Mapping | str | os.PathLike):
        found = verified(graph, order)
        return found.simulation, found.reservation.allocation, found.link
    if isinstance(order, Schedule | Iterable):
        return simulate(graph, order), None, None
    raise ArgumentTypeError(
        "{order!r} cannot be run; give a plan, its record or its file, a schedule, or ids or names of nodes",
        order=order,
    )


def _memory(on: Backend, allocation: Allocation | None, limit: int | None, checking: bool) -> Memory:
    if allocation is None:
        return TrackingMemory(on, limit, checking) if on.name == "numpy" else PoolMemory(on, limit, checking)
    if allocation.size > checked_limit(limit):
        raise OutOfMemoryError(
            "the arena needs {requested:,} bytes, but {free:,} are allowed; allow more, or use a schedule with a "
            "lower peak",
            requested=allocation.size,
            free=limit or 0,
        )
    return ArenaMemory(on, allocation)


def _clear_frames(error: BaseException | None, outer: BaseException | None) -> None:
    """Clear the frames of an error, since frames refer to arrays; do not clear those of an outer exception."""
    waiting, known = [error], [outer]
    while waiting:
        current = waiting.pop()
        if current is None or any(current is each for each in known):
            continue
        known.append(current)
        traceback.clear_frames(current.__traceback__)
        waiting += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]


def _out_of_memory(error: OutOfMemoryError, loop: RunLoop) -> OutOfMemoryError:
    chunk = -(-error.requested // CHUNK) * CHUNK
    rounded = f", {chunk:,} in chunks of {CHUNK}," if error.requested <= error.free < chunk else ""
    left = "" if error.free < 0 else f"{rounded} where {error.free:,} are free"
    peak = int(live_memory(loop.simulation, CHUNK).max(initial=0))
    # `free` is -1 if the machine itself ran out of memory, which cannot be increased.
    remedy = "allow more" if error.free >= 0 else "divide all sizes"
    return OutOfMemoryError(
        "{where!w}, which requests {requested:,} bytes{left!w}: {error!w}; this schedule needs {peak:,} at its peak, "
        "so {remedy!w}, or use a schedule with a lower peak",
        where=loop.where(),
        left=left,
        error=error,
        peak=peak,
        remedy=remedy,
        step=loop.step,
        node=loop.node,
        requested=error.requested,
        free=error.free,
    )
