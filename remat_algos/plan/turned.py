"""The opposite of a decision, simulated."""

from dataclasses import dataclass, fields, replace
from typing import Any

from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.turn import Turn, run_again, run_once


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """The simulation of a schedule with one decision flipped.

    Parameters
    ----------
    schedule : Schedule
        The new one.
    compute : int
        Change of the compute.
    freed, held : int
        The most bytes by which a step holds less, and by which a step holds more.
    freed_steps, held_steps : int
        How many steps hold that much less, and that much more.
    peak_memory : int
        Bytes of the new peak.
    """

    schedule: Schedule
    compute: int
    freed: int
    freed_steps: int
    held: int
    held_steps: int
    peak_memory: int

    @classmethod
    def of(cls, simulation: Simulation, turn: Turn) -> "Turned":
        """The difference that a turn makes; bytes are compared at the steps that both schedules have."""
        graph = simulation.graph
        unmarked = graph if graph.mark is None else replace(graph, mark=None)
        judged = simulate(unmarked, turn.schedule)
        change = judged.memory_trace[turn.there] - simulation.memory_trace[turn.here]
        return cls(
            schedule=turn.schedule,
            compute=judged.compute - simulation.compute,
            freed=int(-change.min(initial=0)),
            freed_steps=int((change == min(change.min(initial=0), -1)).sum()),
            held=int(change.max(initial=0)),
            held_steps=int((change == max(change.max(initial=0), 1)).sum()),
            peak_memory=judged.peak_memory,
        )

    def record(self) -> dict[str, Any]:
        """The figures, as JSON has them."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "schedule"}


def turned_round(simulation: Simulation, node: int) -> Turned | None:
    """What runs again kept, and what is kept run again; None if the node is never idle.

    To run a node again there are three ways, with what it reads held for it, run again too, or run again earlier than
    now: the one with the lowest peak, then one that frees something, then the cheapest.
    """
    if simulation.runs[node] > 1:
        return Turned.of(simulation, run_once(simulation, node))
    ways = [Turned.of(simulation, turn) for turn in run_again(simulation, node)]
    return min(ways, key=lambda way: (way.peak_memory, way.freed == 0, way.compute), default=None)
