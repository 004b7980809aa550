"""Live values of one step."""

from dataclasses import dataclass

import numpy as np

from remat_algos.ir.arrays import Int64, check_place
from remat_algos.schedule.simulation import LOADED, ROLES, Simulation

MANY = 1_000  # values above which naming all values at once is faster


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A live value, or the workspace of the node that runs, with its bytes and its role in `Simulation.trace_by_role`.

    `made_at` is the step that computed it, or before which its load began.
    """

    name: str
    memory: int
    role: str
    made_at: int


def live_at(simulation: Simulation, step: int) -> list[tuple[int, int]]:
    """(value, step that computed or loaded it) of every instance live during a step, the largest first."""
    lifetimes, live = simulation.lifetimes, _live(simulation, check_place(step, len(simulation.schedule), "step"))
    return list(zip(lifetimes.value[live].tolist(), lifetimes.made_at[live].tolist(), strict=True))


def _live(simulation: Simulation, step: int) -> Int64:
    """Instances live during a step, the largest first."""
    lifetimes = simulation.lifetimes
    live = np.flatnonzero((lifetimes.made_at <= step) & (lifetimes.end > step))
    return live[np.argsort(-simulation.graph.memory[lifetimes.value[live]], kind="stable")]


def live_set(simulation: Simulation, step: int) -> list[LiveValue]:
    """Live values of a step and its workspace, largest first; they add up to the step's entry in `memory_trace`."""
    if step < 0:
        return []
    graph, roles = simulation.graph, simulation.instance_role
    node = int(simulation.schedule.order[step])
    live, there = [], live_at(simulation, step)
    names = graph.value_names() if len(there) > MANY else {value: graph.value_name(value) for value, _ in there}
    for (value, made_at), i in zip(there, _live(simulation, step), strict=True):
        live.append(LiveValue(names[value], int(graph.memory[value]), (*ROLES, LOADED)[roles[i]], made_at))
    if graph.workspace[node]:
        live.append(LiveValue(f"workspace of {graph.labels[node]}", int(graph.workspace[node]), "workspace", step))
    return sorted(live, key=lambda entry: -entry.memory)
