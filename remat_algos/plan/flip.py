"""The opposite of a decision, simulated."""

from dataclasses import dataclass, replace
from typing import Any

from remat_algos.schedule.changed_runs import ChangedRuns, add_second_run, keep_first_run
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate


@dataclass(frozen=True, slots=True, eq=False)
class FlippedDecision:
    """The simulation of a schedule with one decision flipped.

    Parameters
    ----------
    schedule : Schedule
        The new one.
    compute : int
        Change of the compute.
    freed, added : int
        Bytes: the largest decrease of the live bytes during a step, and the largest increase.
    freed_steps, added_steps : int
        Number of steps with that decrease, and with that increase.
    peak_memory : int
        Bytes of the new peak.
    """

    schedule: Schedule
    compute: int
    freed: int
    freed_steps: int
    added: int
    added_steps: int
    peak_memory: int

    @classmethod
    def of(cls, simulation: Simulation, changed: ChangedRuns) -> "FlippedDecision":
        """The difference between two schedules; bytes are compared at the steps that both have."""
        graph = simulation.graph
        unmarked = graph if graph.mark is None else replace(graph, mark=None)
        flipped = simulate(unmarked, changed.schedule)
        change = flipped.memory_trace[changed.there] - simulation.memory_trace[changed.here]
        return cls(
            schedule=changed.schedule,
            compute=flipped.compute - simulation.compute,
            freed=int(-change.min(initial=0)),
            freed_steps=int((change == min(change.min(initial=0), -1)).sum()),
            added=int(change.max(initial=0)),
            added_steps=int((change == max(change.max(initial=0), 1)).sum()),
            peak_memory=flipped.peak_memory,
        )

    def record(self) -> dict[str, Any]:
        """The figures under the keys of the JSON format."""
        return {
            "compute": self.compute,
            "freed": self.freed,
            "freed_steps": self.freed_steps,
            "held": self.added,
            "held_steps": self.added_steps,
            "peak_memory": self.peak_memory,
        }


def flip_decision(simulation: Simulation, node: int) -> FlippedDecision | None:
    """Keep a node that is recomputed, or recompute one that is kept; None if the node is never idle.

    There are three ways to recompute a node: keep what it reads, recompute that too, or recompute the node earlier.
    The result is the one with the lowest peak; of equal ones, one that frees bytes, then the cheapest.
    """
    if simulation.runs[node] > 1:
        return FlippedDecision.of(simulation, keep_first_run(simulation, node))
    ways = [FlippedDecision.of(simulation, changed) for changed in add_second_run(simulation, node)]
    return min(ways, key=lambda way: (way.peak_memory, way.freed == 0, way.compute), default=None)
