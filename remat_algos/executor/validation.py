"""Comparison of the predicted and the measured memory, values, runs and times of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.allocate.pools import PoolUse, cupy_pool
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.errors import StaleValueError
from remat_algos.executor.execution import Execution, times
from remat_algos.executor.mixing_costs import Seconds
from remat_algos.ir.arrays import Int64, brief, by_fields, frozen
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.text.layout import labelled
from remat_algos.text.units import exact_bytes, format_bytes, format_seconds
from remat_algos.wording import counted, shortened


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The predicted and the measured memory, values, runs and times of a schedule.

    Parameters
    ----------
    simulation : Simulation
        The prediction.
    execution : Execution
        The measurement.
    runs : int64[n]
        Number of runs of each node.
    pool_predicted : (int, int)
        Expected minimum and maximum of the total of CuPy's pool; for an arena both are its size.
    addresses : int64[k] or None
        Addresses of the buffers of `Buffers.of(simulation)` in a GPU's pool; None on NumPy.
    device_peak : int or None
        Maximum bytes in use on the device during the run, with residents, by its own count in steps of 2 MiB; None on
        NumPy. For information only: other processes are included.
    seconds : float64[k, m]
        Time of the operators at each step of k timed runs.
    seconds_predicted : float64[m]
        Predicted time of each step: for synthetic operators from measured costs of other sizes (`MixingCosts`), for
        others from the first runs of the nodes in the timed runs, so that only recomputation is predicted.
    arena : bool
        True if it ran in one arena, every value at a fixed address.
    differs : list of (int, int)
        (step, value) of each instance that differs from a run without an arena.
    stale : StaleValueError or None
        The first value found that was overwritten before, or by, a step that reads it.
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
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_fields(self)
        check_simulation(self.execution.simulation, self.simulation.graph)
        nodes, steps = self.simulation.graph.n_nodes, len(self.simulation.schedule)
        object.__setattr__(self, "runs", frozen(self.runs, np.int64, "runs", nodes))
        object.__setattr__(self, "seconds", times(self.seconds, (None, steps)))
        object.__setattr__(self, "seconds_predicted", times(self.seconds_predicted, (steps,)))

    @property
    def predicted_peak(self) -> int:
        """Bytes, each value and workspace rounded up to 512 as by allocators."""
        return int(self.execution.predicted.max(initial=0))

    @property
    def measured_peak(self) -> int:
        """Bytes allocated at the worst step, rounded in the same way."""
        return int(self.execution.peak_used)

    @property
    def pool_total(self) -> int:
        """Maximum bytes reserved by the allocator."""
        return int(self.execution.peak_total)

    @property
    def residual(self) -> Int64:
        """int64[m]: measured bytes minus predicted ones, at each step."""
        return self.execution.used - self.execution.predicted

    @property
    def first_difference(self) -> int | None:
        """The first step at which predicted and measured bytes differ, rounded, exact or on the host; None if never."""
        differs = (self.residual != 0) | (self._residual_raw != 0) | (self._residual_host != 0)
        return int(differs.argmax()) if differs.any() else None

    @property
    def _residual_raw(self) -> Int64:
        """int64[m]: the residual without rounding."""
        return self.execution.used_raw - self.execution.predicted_raw

    @property
    def _residual_host(self) -> Int64:
        """int64[m]: measured bytes on the host minus predicted ones, at each step."""
        predicted = self.simulation.host_trace
        return predicted - predicted if self.execution.host is None else self.execution.host - predicted

    @property
    def mismatches(self) -> int | str:
        """0 if every value was correct, else a node.

        A value is correct if it equals its first instance and that of a run without an arena, and is unchanged while it
        is read; the node is the first that computed a wrong value, or that read or overwrote a lost one.
        """
        if self.stale is not None:
            return self._node(self.stale.step)
        wrong = self.execution.mismatches or self.differs
        return self._node(int(wrong[0][0])) if wrong else 0

    @property
    def time_predicted(self) -> float | None:
        """Predicted seconds of the operators; None if nothing was timed."""
        return float(self.seconds_predicted.sum()) if len(self.seconds) else None

    @property
    def time_measured(self) -> float | None:
        """Measured seconds of the operators, the median of the timed runs; None if nothing was timed."""
        return float(np.median(self.seconds.sum(axis=1))) if len(self.seconds) else None

    @checked_arguments
    def overhead_times(self, shortest: float = 0.0) -> tuple[float, float]:
        """(predicted, measured) seconds of all recomputations that took at least `shortest`.

        Measured is the median of the timed runs, or NaN without any.
        """
        if not len(self.seconds):
            return float("nan"), float("nan")
        again = ~self.simulation.schedule.first_run & (np.median(self.seconds, axis=0) >= shortest)
        return float(self.seconds_predicted[again].sum()), float(np.median(self.seconds[:, again].sum(axis=1)))

    @property
    def holds(self) -> bool:
        """True if all bytes were as predicted, all values the same, and each node ran as often as planned."""
        same = self.first_difference is None and self.mismatches == 0
        return same and bool(np.array_equal(self.runs, self.simulation.runs))

    @property
    def pool_inside(self) -> bool | None:
        """True if the total is within the prediction; None without CuPy's pool and arena."""
        if self.execution.backend != "cupy" and not self.arena:
            return None
        return self.pool_predicted[0] <= self.pool_total <= self.pool_predicted[1]

    def replayed(self) -> PoolUse | None:
        """The model of CuPy's pool with the chunks of the real pool; None without one, and if values are loaded.

        Its `reserved` should equal `execution.total` at every step. AllocationError if these addresses are impossible.
        """
        if self.addresses is None or self.arena or self.execution.host is not None:
            return None
        return cupy_pool(self.simulation, addresses=self.addresses)

    def record(self) -> dict[str, Any]:
        """The JSON record."""
        graph, step = self.simulation.graph, self.first_difference
        predicted, measured = self.overhead_times() if len(self.seconds) else (None, None)
        return {
            "graph_hash": graph.source_hash,
            "backend": self.execution.backend,
            "device": self.execution.device,
            "packed": self.arena,
            "steps": len(self.simulation.schedule),
            "holds": self.holds,
            "predicted_peak": self.predicted_peak,
            "measured_peak": self.measured_peak,
            "exact_peak": self.simulation.peak_memory,
            "measured_exact_peak": int(self.execution.peak_raw),
            "pool_total": self.pool_total,
            "pool_predicted": list(self.pool_predicted),
            "pool_inside": self.pool_inside,
            "device_peak": self.device_peak,
            **self._host_record(),
            "residual": self.residual.tolist(),
            "first_difference": step,
            "first_difference_node": None if step is None else self._node(step),
            "mismatches": self.mismatches,
            "time_predicted": self.time_predicted,
            "time_measured": self.time_measured,
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
        """Labels and texts of the report."""
        return [
            ("backend", f"{self.execution.backend}, {self.execution.device}"),
            ("predicted", f"{exact_bytes(self.predicted_peak)} at the peak, in blocks of 512 bytes"),
            ("measured", f"{exact_bytes(self.measured_peak)}; {self._first_difference()}"),
            ("exact", self._exactly()),
            *([("host", self._on_host())] if self.execution.host is not None else []),
            ("reserved", self._reserved()),
            *([("device", f"{format_bytes(self.device_peak)} more in use")] if self.device_peak is not None else []),
            ("values", self._values()),
            ("runs", self._runs()),
            *([("time", self._time())] if len(self.seconds) else []),
            ("verdict", self._verdict()),
        ]

    def _verdict(self) -> str:
        if self.holds:
            return "passed: memory, values and runs match the prediction"
        return "failed: memory, values or runs differ from the prediction"

    def _first_difference(self) -> str:
        step = self.first_difference
        if step is None:
            return f"equal at each of {counted(len(self.simulation.schedule), 'step')}"
        apart, exactly = int(self.residual[step]), int(self._residual_raw[step])
        node = shortened(self._node(step))
        host = f", {self._residual_host[step]:+,} bytes on the host" if self._residual_host[step] else ""
        return f"first difference at step {step}, {node}: {apart:+,} bytes in blocks, {exactly:+,} bytes exactly{host}"

    def _exactly(self) -> str:
        peak, measured = self.simulation.peak_memory, int(self.execution.peak_raw)
        return f"{peak:,} bytes predicted, {measured:,} measured"

    def _on_host(self) -> str:
        peaks = self._host_record()
        return f"{peaks['host_peak']:,} bytes predicted, {peaks['measured_host_peak']:,} measured"

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

    def __str__(self) -> str:
        return "\n".join(labelled(self.rows()))


def _time_of(seconds: float | None) -> str:
    return format_seconds(seconds or 0)
