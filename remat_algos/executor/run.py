"""Execution of a schedule: every value is computed, read and freed as in its simulation."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import Any

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import checked_limit
from remat_algos.arguments import checked_arguments
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentTypeError, GraphError, OutOfMemoryError, RematError
from remat_algos.executor.array_backend import Backend
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.execution import Execution
from remat_algos.executor.host_copies import HostCopies
from remat_algos.executor.memories import CHUNK, ArenaMemory, Memory, PoolMemory, TrackingMemory
from remat_algos.executor.operators import Operators, SyntheticOperators, check_operators
from remat_algos.executor.run_loop import BufferKeys, RunLoop
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verified
from remat_algos.schedule.schedule import Order, Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.wording import quoted

Runnable = Plan | Simulation | Mapping[str, Any] | str | os.PathLike[str] | Order
"""A plan, its record or its file; a schedule, its steps, or its simulation."""


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
    """Run a schedule: compute, read, copy and free its values, and count the bytes of every step.

    The values of a node are allocated when it runs, then its workspace; after the step the workspace is freed, then
    values without later reads. Residents are not counted. Values that the schedule loads are copied to the host and
    back beside the runs: a run waits for the loads that it reads, a free for the store of its value. The memory of the
    host is taken before the first step. However the run ends, no copy is running and all its arrays are released.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, int32[m], Simulation, Plan, mapping or path
        A simulation is run as it is, with its graph; the claims of a plan, its record or its file are verified first.
    operators : Operators, optional
        The operators of the nodes; by default `SyntheticOperators(graph, seed=seed)`.
    allocation : Allocation, optional
        Allocation of `Buffers.of(simulation, over)`: run inside one arena, each buffer at its offset. Overlaps of
        buffers are not checked beforehand: they destroy values. `checking` detects values destroyed before or while
        they are read, and `differs_from` a run without an arena those destroyed while they were computed. Without both,
        `mismatches` shows only values destroyed in some runs of a node and not in others, and outputs destroyed later.
    backend : {"numpy", "cupy"}
    seed : int
        Seed of the default operators.
    limit : int, optional
        Maximum bytes: allocated on NumPy, each request rounded up to 512; reserved by the pool on CuPy.
    link : Link, Device, mapping, str or path, optional
        As `solve` takes it. On NumPy, how long the copies of loaded values take, at its full rates; and on any backend
        the limit of host memory. By default that of the plan; without one, copies take no longer than they need here.
    checking : bool, optional
        By default if there is an allocation. Overwrite freed arrays, and each workspace before the checksums of its
        node's values, and check before and after each step that its reads are unchanged since they were computed,
        except those written in place.
    timed : bool
        Time the operators at each step; on a GPU their kernels, without the launch time of the first 0.1 ms.
    outputs : bool
        Copy the outputs to the host at the end.

    Returns
    -------
    Execution

    Raises
    ------
    ScheduleError
        If the schedule is not sound.
    PlanError, ClaimError
        As `verify` does.
    AllocationError
        If the allocation is not one of this schedule's buffers.
    BackendError
        If the backend cannot run here, or the operators do not follow `Operators`.
    OutOfMemoryError
        If memory runs out, with step, node, bytes requested and bytes free; that of the host, before the first step.
    TypeError
        If the schedule, operators or allocation have a wrong type.
    StaleValueError
        If a value is read that is not live or, in checking mode, has changed or is written to by its reader.

    Examples
    --------
    Node 0 is recomputed, so its value is not live until node 3. Every value takes a multiple of 512 bytes.

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
    del operators  # an error refers to this frame, which would keep their arrays alive
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
        if isinstance(error, MemoryError):  # of the residents, or of an operator's own arrays
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
            before = (
                " or one before it" if on.stream is not None and loop.step >= 0 else ""
            )  # errors of a GPU are asynchronous
            error.add_note(f"{loop.where()}{before} when this came; all memory of the run has been released")
        raise
    finally:
        if copies is not None:
            copies.close()  # again: an interrupt may have come between its engines and the run
        loop.release()
        del loop
        with suppress(Exception):  # kernels that still run write into freed memory
            on.synchronize()
        if memory is not None:
            memory.close()  # again: only memory without references is released, and the run had some before
        on.release()


def planned(graph: ComputationGraph, order: Runnable) -> tuple[Simulation, Allocation | None, Link | None]:
    """The simulation of a plan, whose claims are verified, or of a bare schedule; and what else a plan has.

    Parameters
    ----------
    graph : ComputationGraph
        The graph of the plan, before or after differentiation, or of the schedule.
    order : Plan, mapping, path, Schedule, Simulation or int32[m]
        A simulation is used as it is.

    Returns
    -------
    Simulation
    Allocation or None
        Addresses of a plan.
    Link or None
        Over which a plan copies.

    Raises
    ------
    ScheduleError
        If the schedule cannot be run.
    GraphError
        If the simulation is of another graph.
    PlanError, ClaimError
        As for `verify`.
    TypeError
        If `order` is nothing that can be run, or `graph` is not a graph.

    Examples
    --------
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> planned(chain, [0, 1, 2])[0].peak_memory, planned(chain, simulate(chain, [0, 1, 2]))[0].peak_memory
    (2, 2)
    """
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
    fault = f"{quoted(order)} cannot be run"
    raise ArgumentTypeError(
        "{fault!w}; give a plan, its record or its file, a schedule, or ids or names of nodes", fault=fault
    )


def _memory(on: Backend, allocation: Allocation | None, limit: int | None, checking: bool) -> Memory:
    if allocation is None:
        return TrackingMemory(on, limit, checking) if on.name == "numpy" else PoolMemory(on, limit, checking)
    if allocation.size > checked_limit(limit):
        took = f"the arena takes {allocation.size:,} bytes where {limit:,} are allowed"
        raise OutOfMemoryError(
            "{took!w}; allow more, or take a schedule with a lower peak",
            took=took,
            step=-1,
            node=-1,
            requested=allocation.size,
            free=limit or 0,
        )
    return ArenaMemory(on, allocation)


def _clear_frames(error: BaseException | None, outer: BaseException | None) -> None:
    """Clear the frames of an error, which refer to arrays, except those of an outer exception."""
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
    peak = int(loop.predicted.max(initial=0))
    remedy = "allow more" if error.free >= 0 else "divide all sizes"  # the memory of a machine cannot be changed
    return OutOfMemoryError(
        "{where!w}, which asks for {requested:,} bytes{left!w}: {error!w}; this schedule needs {peak:,} at its peak, "
        "so {remedy!w}, or take one with a lower peak",
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
