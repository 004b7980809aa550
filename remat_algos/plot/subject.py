"""The subject of a picture, and its title."""

from remat_algos.arguments import check_kind
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.baseline import baseline, baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.units import format_bytes, percent
from remat_algos.wording import counted

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


def headline(simulation: Simulation, limit: int | None) -> list[str]:
    """The title of a picture of a schedule: what it achieves, then its size."""
    peak, base = simulation.peak_memory, baseline_peak(simulation.graph)
    message = f"peak {format_bytes(peak)}"
    message += f" instead of {format_bytes(base)}" if base != peak else ""
    if simulation.overhead:
        message += ", as without recomputation," if peak == base else ""
        message += f" for {percent(simulation.overhead, simulation.graph.needed_compute)} more compute"
    budget = ""
    if limit is not None:
        budget = f"; {'budget' if peak <= limit else 'above the budget of'} {format_bytes(limit)}"
    return [message, size_of(simulation) + budget]
