"""The subject of a picture, and its title."""

from remat_algos.arguments import check_kind
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.units import format_bytes, percent
from remat_algos.text.wording import counted

Subject = Plan | Simulation | ComputationGraph


def simulated(subject: Subject) -> tuple[Simulation, int | None]:
    """The simulation and the limit of a plan; for a graph the baseline.

    Raises TypeError for anything else.
    """
    if isinstance(subject, Plan):
        return subject.simulation, subject.limit
    if isinstance(subject, ComputationGraph):
        return baseline(subject), None
    check_kind(subject, Plan, "subject", Simulation, ComputationGraph)
    return subject, None


def size_of(simulation: Simulation) -> str:
    """The size of graph and schedule: "8 nodes in 10 steps, 2 extra runs", and loads if there are any."""
    steps = len(simulation.schedule)
    reruns = steps - int(simulation.schedule.first_run.sum())
    loads = counted(len(simulation.schedule.loads), "load")
    size = f"{counted(simulation.graph.n_nodes, 'node')} in {counted(steps, 'step')}"
    size += f", {counted(reruns, 'extra run') if reruns else 'no extra runs'}"
    return f"{size}, {loads}" if simulation.schedule.loads.size else size


def peak_of(simulation: Simulation, base: int, limit: int | None) -> str:
    """The peak relative to that without rematerialization, and to the limit."""
    peak = simulation.peak_memory
    text = f"peak {format_bytes(peak)}"
    text += f", {percent(peak, base)} of that without rematerialization" if base else ""
    if limit is None:
        return text
    return f"{text}; {'budget' if peak <= limit else 'above the budget of'} {format_bytes(limit)}"
