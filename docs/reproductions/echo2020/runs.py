"""The three strategies of echo2020 on a network, in bytes of a static plan and in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from docs.reproductions.echo2020.networks import Workload, inputs_kept, weights, without_inputs
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import share_storage
from remat_algos.context import Clock, Progress
from remat_algos.cost.links import units_per_second
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.views import live_at
from remat_algos.solvers.methods.drop_cheap import MXNET_KEEPS, drop_cheap
from remat_algos.solvers.methods.echo import echo
from remat_algos.solvers.registry import Task

BASELINE, MIRROR, ECHO = "Baseline", "Mirror", "Echo"
STRATEGIES = (BASELINE, MIRROR, ECHO)


@dataclass(frozen=True)
class SimulatedRun:
    """A schedule, simulated and allocated.

    Parameters
    ----------
    simulation : Simulation
    timed : Simulation, optional
        The schedule whose compute counts, if it is another one of the same nodes.
    """

    simulation: Simulation
    timed: Simulation | None = None

    @property
    def graph(self) -> ComputationGraph:
        """The graph of the schedule."""
        return self.simulation.graph

    @property
    def live(self) -> int:
        """Bytes at the simulated peak, residents included."""
        return self.simulation.peak_memory + self.graph.resident_memory

    @cached_property
    def footprint(self) -> int:
        """Bytes of the residents and of a static plan, in place and with shared memory as in the paper's framework."""
        buffers = Buffers.of(self.simulation, find_overwrites(self.simulation))
        return share_storage(buffers).size + self.graph.resident_memory

    @property
    def weights(self) -> int:
        """Bytes of parameters, their gradients and states."""
        return weights(self.graph)

    @property
    def stash(self) -> int:
        """Bytes of forward values in memory when the backward part begins."""
        graph, order = self.graph, self.simulation.schedule.order
        first = int(np.argmax(~graph.forward[order]))
        return sum(int(graph.memory[x]) for x, at in live_at(self.simulation, first) if at < first)

    @property
    def order(self) -> Int32:
        """The order that is timed."""
        return (self.timed or self.simulation).schedule.order

    @property
    def extra_runs(self) -> int:
        """Number of runs beyond the first of each node."""
        return self.order.size - np.unique(self.order).size

    @property
    def compute(self) -> int:
        """Cost of all runs."""
        return int(self.graph.compute[self.order].sum())

    @property
    def seconds(self) -> float:
        """Time of all runs."""
        return self.compute / units_per_second(self.graph)

    @property
    def overhead(self) -> float:
        """Compute beyond one pass, as a share of it."""
        return self.overhead_in(self.graph)

    @property
    def throughput_lost(self) -> float:
        """Throughput lost against one pass, as a share: what the paper calls overhead."""
        return round(1 - self.graph.needed_compute / max(1, self.compute), 4)

    def overhead_in(self, priced: ComputationGraph) -> float:
        """Compute beyond one pass, as a share of it, in the costs of another graph of the same nodes."""
        return round(int(priced.compute[self.order].sum()) / max(1, priced.needed_compute) - 1, 4)


@dataclass(frozen=True)
class NetworkRuns:
    """A network at a batch size, under each strategy.

    Parameters
    ----------
    workload : Workload
    batch : int
    runs : mapping of str to SimulatedRun
        Runs by strategy.
    """

    workload: Workload
    batch: int
    runs: Mapping[str, SimulatedRun]

    @classmethod
    def of(cls, workload: Workload, batch: int, progress: Progress | None = None, **options: Any) -> NetworkRuns:
        """Run Baseline and Mirror on the network, Echo on the network with 1-bit feature maps.

        Parameters
        ----------
        workload : Workload
        batch : int
        progress : callable, optional
        **options
            Options of `Workload.forward`.
        """
        if progress is not None:
            progress(0, 1, f"{workload.label}, batch {batch}")
        forward = workload.forward(batch, **options)
        return cls(workload, batch, {name: run(workload, forward, name) for name in STRATEGIES})

    @property
    def baseline(self) -> SimulatedRun:
        """The run without rematerialization."""
        return self.runs[BASELINE]

    @property
    def echo(self) -> SimulatedRun:
        """The run by minimum vertex cuts."""
        return self.runs[ECHO]

    @property
    def mirror(self) -> SimulatedRun:
        """The run by MXNet's mirror option."""
        return self.runs[MIRROR]

    def ratio(self, strategy: str = BASELINE) -> float:
        """Footprint of a strategy, relative to that of Echo."""
        return round(self.runs[strategy].footprint / self.echo.footprint, 4)

    def throughput(self, strategy: str) -> float:
        """Samples per second, by the roofline."""
        return round(self.batch / self.runs[strategy].seconds, 2)


def run(workload: Workload, forward: ComputationGraph, strategy: str) -> SimulatedRun:
    """Run one strategy on the forward part of a network.

    Mirror keeps the reads of its heavy nodes' gradients, since they read first runs; its time counts all mirrors that
    other gradients read.
    """
    if strategy == BASELINE:
        return SimulatedRun(baseline(workload.training(forward)))
    if strategy == MIRROR:
        kept, unread = inputs_kept(forward, MXNET_KEEPS), without_inputs(forward, MXNET_KEEPS)
        timed = mirrored(workload.training(unread))
        return replace(mirrored(workload.training(kept)), timed=timed.simulation)
    return echoed(workload.training(forward, encoded=True))


def mirrored(graph: ComputationGraph) -> SimulatedRun:
    """The schedule of MXNet's mirror option, which respects marks."""
    [candidate] = drop_cheap(graph, Task(), Clock(), keep="mxnet")
    return SimulatedRun(simulate(graph, candidate.schedule))


def echoed(graph: ComputationGraph, **options: Any) -> SimulatedRun:
    """The schedule of `echo` itself; `solve` would apply passes and compare it with no rematerialization."""
    [candidate] = echo(graph, Task(), Clock(), **options)
    return SimulatedRun(simulate(graph, candidate.schedule))
