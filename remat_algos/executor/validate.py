"""Execution of plans, compared with their prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import SupportsInt

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.pools import cupy_pool
from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, BackendError, StaleValueError, about
from remat_algos.executor.array_backend import Array, Backend, free_memory
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.execution import Execution, live_memory
from remat_algos.executor.memories import CHUNK
from remat_algos.executor.mixing_costs import Seconds, mixing_costs
from remat_algos.executor.operators import Operators, SyntheticOperators, check_operators
from remat_algos.executor.run import Runnable, execute, planned
from remat_algos.executor.validation import Validation
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.units import format_bytes

ALIGNMENT = 512  # alignment of addresses in an arena: that of the pool's chunks
MAX_SHARE = 0.9  # share of the free memory


@checked_arguments
def validate(
    graph: ComputationGraph,
    plan: Runnable,
    backend: str = "numpy",
    *,
    operators: Operators | None = None,
    arena: bool = False,
    repeats: int = 3,
    seed: int = 0,
) -> Validation:
    """Execute a plan and compare bytes, values and times with the prediction.

    The untimed run is in checking mode (`execute`), which detects values that are overwritten before, or by, a step
    that reads them.

    Parameters
    ----------
    graph : ComputationGraph
        The graph that the plan was made for, before or after differentiation.
    plan : Plan, mapping, path, Schedule, Simulation or int32[m]
        A plan, its record or its file, whose claims are verified first; or a bare schedule. Copies take as long as over
        the link of the plan (`execute`).
    backend : {"numpy", "cupy"}
        Run on the processors, or on a GPU.
    operators : Operators, optional
        The operators of the nodes; by default `SyntheticOperators`, whose values depend on every byte. On a GPU
        temporary arrays of other operators come from the pool too, so they use more than predicted.
    arena : bool
        Run in one arena, every value at a fixed address, instead of allocating each. The addresses come from the plan,
        or from `pack` if it has none. All values must then equal those of a second run without an arena. The budget of
        the plan is unaffected: it limits the bytes that the `allocator` of `solve` reserves.
    repeats : int
        Number of timed runs, after an untimed one.
    seed : int
        Random seed of the synthetic operators.

    Returns
    -------
    Validation

    Raises
    ------
    BackendError
        If the backend is not available, or has too little memory for the run.
    PlanError, ClaimError
        As `verify` does.
    StaleValueError
        If a value is missing when it is read, so that the run cannot continue.
    ScheduleError
        If a bare schedule cannot be run.
    ValueError
        If `repeats` is invalid.
    TypeError
        If an argument has a wrong type.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.plan.solve import solve
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000))
    >>> validation = validate(chain, solve(chain, 7000), repeats=0)
    >>> validation.holds, validation.predicted_peak, validation.measured_peak, validation.mismatches
    (True, 7168, 7168, 0)
    """
    if repeats < 0:
        raise about("repeats", ArgumentError("repeats is {repeats!r}; give a whole number, 0 or more", repeats=repeats))
    device = backend_of(backend)
    simulation, allocation, link = planned(graph, plan)
    graph = simulation.graph
    allocation = _arena(simulation, allocation, backend) if arena else None
    needed = int(live_memory(simulation, CHUNK).max(initial=0)) if allocation is None else allocation.size
    _check_room(device, needed + graph.resident_memory)
    costs = mixing_costs(backend) if operators is None and repeats else None
    start: list[Array] | None = None if operators is None else []
    operators = SyntheticOperators(graph, seed=seed) if operators is None else operators
    check_operators(operators)
    run = partial(execute, graph, simulation, backend=backend, seed=seed, link=link)
    checked = partial(_checked, run, lambda: MonitoredOperators(operators, graph.n_nodes, start))
    monitored, execution, stale = checked(allocation)
    differs: list[tuple[int, int]] = []
    if arena:
        _, alone, stale_alone = checked(None)
        differs, stale = execution.differs_from(alone), stale or stale_alone
    timed = [run(operators, allocation, checking=False, timed=True).seconds for _ in range(repeats)]
    seconds = np.array(timed).reshape(repeats, len(simulation.schedule))
    by_node = _first_runs(simulation, seconds) if costs is None else costs.of_nodes(graph)
    return Validation(
        simulation=simulation,
        execution=execution,
        runs=monitored.runs,
        pool_predicted=cupy_pool(simulation).interval if allocation is None else (allocation.size, allocation.size),
        addresses=monitored.addresses,
        device_peak=monitored.device_peak,
        seconds=seconds,
        seconds_predicted=by_node[simulation.schedule.order],
        arena=arena,
        differs=differs,
        stale=stale,
    )


class MonitoredOperators:
    """Wrapped operators, with a count of the runs of each node and, on a GPU, addresses and free memory.

    Parameters
    ----------
    operators : Operators
        The wrapped operators.
    n_nodes : int
    start : list of array, optional
        Residents before the first run, which fills the list; each run begins with them, since runs may change them.
        None for operators that reset their own residents.
    """

    def __init__(self, operators: Operators, n_nodes: int, start: list[Array] | None = None) -> None:
        self.operators, self._start = operators, start
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
        """Residents of the operators, restored to their first contents."""
        arrays = self.operators.residents(backend)
        if self._start is None or any(not hasattr(array, "nbytes") for array in arrays or ()):
            return arrays  # `execute` reports the error
        if not self._start and arrays:
            self._start += [np.array(backend.to_host(array)) for array in arrays]
        with backend.uncounted():
            for array, before in zip(arrays or (), self._start, strict=False):
                array[...] = backend.xp.asarray(before)
        return arrays

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


def _checked(
    run: Callable[..., Execution], monitoring: Callable[[], MonitoredOperators], allocation: Allocation | None
) -> tuple[MonitoredOperators, Execution, StaleValueError | None]:
    """A run in checking mode, once more without it where a read is stale."""
    monitored = monitoring()
    try:
        return monitored, run(monitored, allocation, checking=True), None
    except StaleValueError as error:
        monitored, stale = monitoring(), error.with_traceback(None)
        return monitored, run(monitored, allocation, checking=False), stale


def _arena(simulation: Simulation, allocation: Allocation | None, backend: str) -> Allocation:
    """The addresses of a plan, if it has some that the backend can use."""
    if allocation is None or (backend != "numpy" and allocation.alignment % ALIGNMENT):  # a GPU needs it
        return pack(Buffers.of(simulation), alignment=ALIGNMENT)
    return allocation


def _first_runs(simulation: Simulation, seconds: Seconds) -> Seconds:
    """float64[n]: time of the first run of each node, the median of the timed runs."""
    by_node = np.zeros(simulation.graph.n_nodes)
    if len(seconds):
        node, first = np.unique(simulation.schedule.order, return_index=True)
        by_node[node] = np.median(seconds, axis=0)[first]
    return by_node


def _check_room(device: Backend, needed: int) -> None:
    """Raise BackendError before a run without room: running out of memory halfway can bring the machine down."""
    free = free_memory(device)
    if free is not None and needed > MAX_SHARE * free:
        raise BackendError(
            "the run needs {needed!w}, residents included, and {free!w} are free on "
            "{device}; take a smaller batch, or divide all sizes (remat run --shrink)",
            needed=format_bytes(needed),
            free=format_bytes(free),
            device=device.device,
        )
