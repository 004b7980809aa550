"""What a picture is of, and the sentences above it."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import format_bytes
from remat_algos.plan.baseline import baseline
from remat_algos.plan.plan import Plan
from remat_algos.schedule.simulation import Simulation

Subject = Plan | Simulation | ComputationGraph


def judged(subject: Subject) -> tuple[Simulation, int | None]:
    """The simulation and the limit of a plan; of a graph that of its run without rematerialization.

    Raises TypeError for anything else.
    """
    if isinstance(subject, Plan):
        return subject.simulation, subject.limit
    if isinstance(subject, ComputationGraph):
        return baseline(subject), None
    if isinstance(subject, Simulation):
        return subject, None
    raise TypeError(f"a {type(subject).__name__} cannot be drawn here; give a Plan, a Simulation or a ComputationGraph")


def counted(count: int, what: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "node"), counted(1200, "step")
    ('1 node', '1,200 steps')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def percent(part: int, whole: int) -> str:
    """A share, "0 %" of nothing.

    Examples
    --------
    >>> percent(2, 3)
    '66.7 %'
    """
    return f"{100 * part / whole:.3g} %" if whole else "0 %"


def size_of(simulation: Simulation) -> str:
    """How large graph and schedule are: "8 nodes in 10 steps, 2 of them again"."""
    again = int((simulation.runs > 1).sum())
    nodes, steps = counted(simulation.graph.n_nodes, "node"), counted(len(simulation.schedule), "step")
    return f"{nodes} in {steps}, {again:,} of them again" if again else f"{nodes} in {steps}, none of them again"


def peak_of(simulation: Simulation, base: int, limit: int | None) -> str:
    """The peak beside what it is without rematerialization, and beside the limit."""
    peak = simulation.peak_memory
    text = f"peak {format_bytes(peak)}, {percent(peak, base)} of that without rematerialization"
    if limit is None:
        return text
    return f"{text}; {'budget' if peak <= limit else 'above the budget of'} {format_bytes(limit)}"
