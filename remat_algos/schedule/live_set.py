"""What is held during one step."""

from dataclasses import dataclass

from remat_algos.schedule.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Held:
    """A value that is held, or the workspace of the node that runs.

    Parameters
    ----------
    name : str
    memory : int
        Bytes.
    role : str
        Key of `Simulation.trace_by_role`.
    made_at : int
        The step that made it.
    """

    name: str
    memory: int
    role: str
    made_at: int


def live_set(simulation: Simulation, step: int) -> list[Held]:
    """All that a step holds, the largest first; together it is the step's entry in `memory_trace`."""
    if step < 0:
        return []
    graph, first = simulation.graph, simulation.first_run
    node = int(simulation.schedule.order[step])
    found = []
    for value, made_at in simulation.live_at(step):
        forward = graph.forward[graph.producer[value]]
        role = "gradients" if not forward else "kept" if first[made_at] else "recomputed"
        found.append(Held(graph.value_name(value), int(graph.memory[value]), role, made_at))
    if graph.workspace[node]:
        found.append(Held(f"workspace of {graph.labels[node]}", int(graph.workspace[node]), "workspace", step))
    return sorted(found, key=lambda held: -held.memory)
