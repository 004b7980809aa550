"""Execution of plans, compared with the prediction: memory, values, runs and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsInt

import numpy as np

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.pools import CHUNK, PoolUse, cupy_pool
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.errors import ArgumentError, BackendError, StaleValueError, about
from remat_algos.executor import tuning
from remat_algos.executor.array_backend import Array, Backend, free_memory
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.measurements import Execution, live_memory, times
from remat_algos.executor.mixing_costs import Seconds, mixing_costs
from remat_algos.executor.operators import Operators, SyntheticOperators, check_operators
from remat_algos.executor.run import Runnable, execute, planned
from remat_algos.ir.arrays import Int64, brief, frozen
from remat_algos.ir.graph import ComputationGraph
from remat_algos.result import Result, entries
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.text.amounts import format_seconds
from remat_algos.wording import counted, exact_bytes, format_bytes, shortened


@dataclass(frozen=True, slots=True, eq=False)
class Validation(Result):
    """Predicted and measured memory, values, runs and times of a schedule.

    Parameters
    ----------
    simulation : Simulation
        The prediction.
    execution : Execution
        The measurement.
    runs : int64[n]
        Number of runs of each node.
    pool_predicted : (int, int)
        Expected minimum and maximum of the bytes reserved by CuPy's pool. For an arena, both are its size.
    addresses : int64[k] or None
        Addresses of the buffers of `Buffers.of(simulation)` in a GPU's pool. It is None on NumPy.
    device_peak : int or None
        Maximum bytes in use on the device during the run, or None on NumPy. This is for information only, since it
        includes residents and other processes, and the device counts memory in units of 2 MiB.
    seconds : float64[k, m]
        Time of the operators at each step of k timed runs.
    seconds_predicted : float64[m]
        Predicted time of each step. For synthetic operators, it is computed from costs measured at other sizes
        (`MixingCosts`). For other operators, it is the median time of the first computation of the same node in
        the timed executions, so only the times of recomputations are predicted.
    arena : bool
        True if the run used one arena, with every value at a fixed address.
    differs : list of (int, int)
        (step, value) of each instance that differs from a run without an arena.
    stale : StaleValueError or None
        The first value that was overwritten before, or by, a step that reads it; None if there is none.
    """

    simulation: Simulation
    execution: Execution
    runs: Int64
    pool_predicted: tuple[int, int]
    addresses: Int64 | None
    device_peak: int | None
    seconds: Seconds
    seconds_predicted: Seconds
    arena: bool = False
    differs: Sequence[tuple[int, int]] = ()
    stale: StaleValueError | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        check_fields(self)
        check_simulation(self.execution.simulation, self.simulation.graph)
        nodes, steps = self.simulation.graph.n_nodes, len(self.simulation.schedule)
        object.__setattr__(self, "runs", frozen(self.runs, np.int64, "runs", nodes))
        object.__setattr__(self, "seconds", times(self.seconds, (None, steps)))
        object.__setattr__(self, "seconds_predicted", times(self.seconds_predicted, (steps,)))

    @property
    def predicted_peak(self) -> int:
        """Predicted peak in bytes, with each value and workspace rounded up to a multiple of 512, as allocators do."""
        return int(self.execution.predicted.max(initial=0))

    @property
    def measured_peak(self) -> int:
        """Measured peak of allocated bytes, rounded in the same way."""
        return int(self.execution.peak_used)

    @property
    def pool_total(self) -> int:
        """Maximum bytes reserved by the allocator."""
        return int(self.execution.peak_total)

    @property
    def residual(self) -> Int64:
        """int64[m]: measured minus predicted bytes at each step."""
        return self.execution.used - self.execution.predicted

    @property
    def first_difference(self) -> int | None:
        """First step with a difference between predicted and measured bytes (rounded, unrounded, or on the host)."""
        differs = (self.residual != 0) | (self._residual_raw != 0) | (self._residual_host != 0)
        return int(differs.argmax()) if differs.any() else None

    @property
    def _residual_raw(self) -> Int64:
        return self.execution.used_raw - self.execution.predicted_raw

    @property
    def _residual_host(self) -> Int64:
        predicted = self.simulation.host_trace
        return predicted - predicted if self.execution.host is None else self.execution.host - predicted

    @property
    def mismatches(self) -> int | str:
        """0 if every value was correct, otherwise the name of a node.

        A value is correct if it equals its first instance and its value in a run without an arena, and does not change
        while it is read. The node is the first that computed a wrong value or read a freed or overwritten one.
        """
        if self.stale is not None:
            return self._node(self.stale.step)
        wrong = self.execution.mismatches or self.differs
        return self._node(int(wrong[0][0])) if wrong else 0

    @property
    def time_predicted(self) -> float | None:
        """Predicted seconds of the operators, or None if nothing was timed."""
        return float(self.seconds_predicted.sum()) if len(self.seconds) else None

    @property
    def time_measured(self) -> float | None:
        """Measured seconds of the operators, the median of the timed runs, or None if nothing was timed."""
        return float(np.median(self.seconds.sum(axis=1))) if len(self.seconds) else None

    @checked_arguments
    def overhead_times(self, shortest: float = 0.0) -> tuple[float, float]:
        """Return (predicted, measured) seconds of all recomputations that take at least `shortest` seconds.

        The measured time is the median of the timed runs, or NaN without timed runs.
        """
        if not len(self.seconds):
            return float("nan"), float("nan")
        again = ~self.simulation.schedule.first_run & (np.median(self.seconds, axis=0) >= shortest)
        return float(self.seconds_predicted[again].sum()), float(np.median(self.seconds[:, again].sum(axis=1)))

    @property
    def holds(self) -> bool:
        """True if all bytes were as predicted, all values correct, and each node ran as often as planned."""
        same = self.first_difference is None and self.mismatches == 0
        return same and bool(np.array_equal(self.runs, self.simulation.runs))

    @property
    def pool_inside(self) -> bool | None:
        """True if the reserved bytes are within the predicted interval. It is None on NumPy without an arena."""
        if self.execution.backend != "cupy" and not self.arena:
            return None
        return self.pool_predicted[0] <= self.pool_total <= self.pool_predicted[1]

    def replayed(self) -> PoolUse | None:
        """Replay the run in the model of CuPy's pool with the real addresses.

        Return None on NumPy, in an arena, or if values are loaded. The `reserved` bytes of the result should equal
        `execution.total` at every step. Raise AllocationError if the addresses are impossible.
        """
        if self.addresses is None or self.arena or self.execution.host is not None:
            return None
        return cupy_pool(self.simulation, addresses=self.addresses)

    def record(self) -> dict[str, Any]:
        step = self.first_difference
        predicted, measured = self.overhead_times() if len(self.seconds) else (None, None)
        return {
            **entries(self, "graph_hash=simulation.graph.source_hash execution.backend execution.device packed=arena"),
            "steps": len(self.simulation.schedule),
            **entries(self, "holds predicted_peak measured_peak exact_peak=simulation.peak_memory"),
            "measured_exact_peak": int(self.execution.peak_raw),
            **entries(self, "pool_total pool_predicted pool_inside device_peak"),
            **self._host_record(),
            **entries(self, "residual first_difference"),
            "first_difference_node": None if step is None else self._node(step),
            **entries(self, "mismatches time_predicted time_measured"),
            "overhead_predicted": predicted,
            "overhead_measured": measured,
            "runs": self.runs.tolist(),
        }

    def _host_record(self) -> dict[str, int]:
        if self.execution.host is None:
            return {}
        return {"host_peak": self.simulation.host_peak, "measured_host_peak": int(self.execution.host.max(initial=0))}

    def _node(self, step: int) -> str:
        return self.simulation.graph.labels[int(self.simulation.schedule.order[step])]

    def rows(self) -> list[tuple[str, str]]:
        """Return the labels and texts of the report as table rows."""
        verdict = (
            "passed: memory, values and runs match" if self.holds else "failed: memory, values or runs differ from"
        )
        return [
            ("backend", f"{self.execution.backend}, {self.execution.device}"),
            ("predicted", f"{exact_bytes(self.predicted_peak)} at the peak, in blocks of 512 bytes"),
            ("measured", f"{exact_bytes(self.measured_peak)}; {self._first_difference()}"),
            ("exact", _both(self.simulation.peak_memory, int(self.execution.peak_raw))),
            *([("host", _both(*self._host_record().values()))] if self.execution.host is not None else []),
            ("reserved", self._reserved()),
            *([("device", f"{format_bytes(self.device_peak)} more in use")] if self.device_peak is not None else []),
            ("values", self._values()),
            ("runs", self._runs()),
            *([("time", self._time())] if len(self.seconds) else []),
            ("verdict", f"{verdict} the prediction"),
        ]

    def _first_difference(self) -> str:
        step = self.first_difference
        if step is None:
            return f"equal at each of {counted(len(self.simulation.schedule), 'step')}"
        apart, exactly = int(self.residual[step]), int(self._residual_raw[step])
        node = shortened(self._node(step))
        host = f", {self._residual_host[step]:+,} bytes on the host" if self._residual_host[step] else ""
        return f"first difference at step {step}, {node}: {apart:+,} bytes in blocks, {exactly:+,} bytes exactly{host}"

    def _reserved(self) -> str:
        low, high = self.pool_predicted
        apart = format_bytes(low) != format_bytes(high)
        between = f"{format_bytes(low)} to {format_bytes(high)}" if apart else format_bytes(high)
        if self.arena:
            return f"{exact_bytes(self.pool_total)}, an arena with fixed addresses"
        model = f"CuPy's pool as modelled {between}"
        if self.pool_inside is None:
            return f"{exact_bytes(self.pool_total)}; on a GPU, {model}"
        return f"{exact_bytes(self.pool_total)}; {model}{'' if self.pool_inside else ', which does not match'}"

    def _values(self) -> str:
        simulation = self.simulation
        again = int((~simulation.schedule.first_run[simulation.lifetimes.made_at] & ~simulation.is_load).sum())
        copies = [counted(again, "recomputed value")] if again else []
        if len(simulation.schedule.loads):
            copies.append(counted(len(simulation.schedule.loads), "loaded value"))
        if self.mismatches == 0 and not copies:
            return "no value recomputed"
        if self.mismatches == 0:
            same = "bit-identical to the original" + ("s" if again + len(simulation.schedule.loads) > 1 else "")
            return f"{' and '.join(copies)}, {same}"
        if self.stale is not None:
            return str(self.stale)
        if self.execution.mismatches:
            step, than = self.execution.mismatches[0][0], "at first"
        else:
            step, than = self.differs[0][0], "without an arena"
        return f"node {shortened(self.mismatches)} computed another value at step {step} than {than}"

    def _runs(self) -> str:
        again = counted(int((self.runs > 1).sum()), "node")
        same = np.array_equal(self.runs, self.simulation.runs)
        return f"{int(self.runs.sum()):,}; {again} recomputed{'' if same else '; not as planned'}"

    def _time(self) -> str:
        (predicted, measured), runs = self.overhead_times(), counted(len(self.seconds), "timed run")
        text = f"{_time_of(self.time_measured)}, median of {runs}; {_time_of(self.time_predicted)} predicted"
        later = f"; recomputation {_time_of(measured)}, {_time_of(predicted)} predicted"
        return text + later if (self.runs > 1).any() else text


def _both(predicted: int, measured: int) -> str:
    return f"{predicted:,} bytes predicted, {measured:,} measured"


def _time_of(seconds: float | None) -> str:
    return format_seconds(seconds or 0)


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
        The graph for which the plan was made, before or after differentiation.
    plan : Plan, mapping, path, Schedule, Simulation or int32[m]
        A plan, its record or its file, whose claims are verified first; or a schedule. Copies take as long as they
        would over the link of the plan (`execute`).
    backend : {"numpy", "cupy"}
        Run on the CPU or on a GPU.
    operators : Operators, optional
        The operators of the nodes; by default `SyntheticOperators`, whose values depend on every byte. On a GPU,
        temporary arrays of other operators also come from the pool, so the run uses more memory than predicted.
    arena : bool
        Run in one arena, with every value at a fixed address. The addresses come from the plan, or from `pack` if it
        has none. All values must then equal those of a second run without an arena. The budget of the plan does
        not limit the arena; it limits the bytes that the `allocator` of `solve` reserves.
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
        If the backend is not available, or does not have enough memory for the run.
    PlanError, ClaimError
        As for `verify`.
    StaleValueError
        If a value is missing when it is read, so that the run cannot continue.
    ScheduleError
        If a schedule is invalid.
    ValueError
        If `repeats` is invalid.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.search.solve import solve
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
    """Operators that count runs and record GPU memory. If `start` is a list, residents are restored from it."""

    def __init__(self, operators: Operators, n_nodes: int, start: list[Array] | None = None) -> None:
        self.operators, self._start = operators, start
        self.runs: Int64 = np.zeros(n_nodes, np.int64)
        self._backend: Backend | None = None
        self._values: list[int] = []  # addresses of the values
        self._workspaces: list[int] = []
        self._free_before = self._min_free = 0

    @property
    def device_peak(self) -> int | None:
        """Maximum bytes in use on the GPU since `prepare`, or None without a GPU."""
        return None if self._backend is None else self._free_before - self._min_free

    @property
    def addresses(self) -> Int64 | None:
        """int64[k]: addresses of values in order of computation, then those of workspaces. It is None without a GPU."""
        return None if self._backend is None else np.array(self._values + self._workspaces, np.int64)

    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        self.operators.prepare(backend, graph)
        if backend.name == "cupy":
            self._backend = backend
            self._free_before = self._min_free = free_memory(backend) or 0

    def residents(self, backend: Backend) -> list[Array]:
        """Return the residents of the operators, restored to their initial contents."""
        arrays = self.operators.residents(backend)
        # Objects that are not arrays are returned too: `execute` raises the error.
        if self._start is None or any(not hasattr(array, "nbytes") for array in arrays or ()):
            return arrays
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
        self.runs[node] += 1
        self.operators.run(node, reads, residents, values, workspace)
        if self._backend is not None:
            self._values += [int(value.data.ptr) for value in values]
            self._workspaces += [] if workspace is None else [int(workspace.data.ptr)]
            self._min_free = min(self._min_free, free_memory(self._backend) or 0)

    def checksum(self, array: Array) -> SupportsInt:
        return self.operators.checksum(array)


def _checked(
    run: Callable[..., Execution], monitoring: Callable[[], MonitoredOperators], allocation: Allocation | None
) -> tuple[MonitoredOperators, Execution, StaleValueError | None]:
    monitored = monitoring()
    try:
        return monitored, run(monitored, allocation, checking=True), None
    except StaleValueError as error:
        monitored, stale = monitoring(), error.with_traceback(None)
        return monitored, run(monitored, allocation, checking=False), stale


def _arena(simulation: Simulation, allocation: Allocation | None, backend: str) -> Allocation:
    """Return the plan's addresses; pack the buffers again if addresses are missing or not aligned for a GPU."""
    if allocation is None or (backend != "numpy" and allocation.alignment % CHUNK):
        return pack(Buffers.of(simulation), alignment=CHUNK)
    return allocation


def _first_runs(simulation: Simulation, seconds: Seconds) -> Seconds:
    """Return float64[n]: time of the first run of each node, as the median of the timed runs."""
    by_node = np.zeros(simulation.graph.n_nodes)
    if len(seconds):
        node, first = np.unique(simulation.schedule.order, return_index=True)
        by_node[node] = np.median(seconds, axis=0)[first]
    return by_node


def _check_room(device: Backend, needed: int) -> None:
    """Raise BackendError if the run does not fit; running out of memory could disturb the whole machine."""
    free = free_memory(device)
    if free is not None and needed > tuning.MAX_SHARE * free:
        raise BackendError(
            "the run needs {needed!b}, including residents, but only {free!b} are free on "
            "{device}; take a smaller batch, or divide all sizes (remat run --shrink)",
            needed=needed,
            free=free,
            device=device.device,
        )
