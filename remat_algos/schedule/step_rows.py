"""A schedule as a table, a row for each action: what is live, and how many bytes."""

from collections.abc import Iterator
from typing import NamedTuple

from remat_algos.arguments import checked_arguments
from remat_algos.schedule.simulation import Simulation

COLUMNS = ("step", "action", "name", "live", "bytes", "peak")
"""Columns of a step table."""


class StepRow(NamedTuple):
    """One action of a schedule.

    Parameters
    ----------
    step : int
    action : str
        "compute", or "recompute" for a later run of a node; "free"; "load" and "store", which begin copies.
    name : str
        The node that runs, or the value that is freed or copied.
    live : tuple of str
        Values that are live with the action, after a "free" those that are left, in the order in which they were made.
    bytes : int
        Bytes of these, with the workspace of the node while it runs.
    peak : bool
        Whether these are the bytes of the peak, at any step that reaches it.
    """

    step: int
    action: str
    name: str
    live: tuple[str, ...]
    bytes: int
    peak: bool


@checked_arguments
def step_table(simulation: Simulation) -> list[StepRow]:
    """A schedule as a table, a row for each action.

    Parameters
    ----------
    simulation : Simulation

    Returns
    -------
    list of StepRow
        The bytes of "compute" and "recompute" are the entries of `memory_trace`. Outputs are never freed; a later copy
        of one is.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> for row in step_table(simulate(graph, [0, 1, 0, 2])):
    ...     print(row.step, row.action, row.name, "".join(row.live), row.bytes)
    0 compute A A 1
    1 compute B AB 2
    1 free A B 1
    2 recompute A BA 2
    3 compute C BAC 3
    3 free B AC 2
    3 free A C 1
    """
    return list(_rows(simulation))


def _rows(simulation: Simulation) -> Iterator[StepRow]:
    graph, schedule = simulation.graph, simulation.schedule
    value, memory, workspace = simulation.lifetimes.value.tolist(), graph.memory.tolist(), graph.workspace.tolist()
    first, names = schedule.first_run.tolist(), graph.value_names()
    live: dict[int, str] = {}  # instances, in the order in which they were made
    held, peak = 0, simulation.peak_memory

    def row(step: int, action: str, name: str, beside: int = 0) -> StepRow:
        total = held + beside
        return StepRow(step, action, name, tuple(live.values()), total, total == peak and action != "free")

    def take(i: int) -> None:
        nonlocal held
        live[i] = names[value[i]]
        held += memory[value[i]]

    for step, each in enumerate(simulation.steps()):
        for i in each.loads:
            take(i)
            yield row(step, "load", names[value[i]])
        for i in each.makes:
            take(i)
        yield row(step, "compute" if first[step] else "recompute", graph.labels[each.node], workspace[each.node])
        for i in each.stores:
            yield row(step, "store", names[value[i]])
        for i in each.frees:
            held -= memory[value[i]]
            del live[i]
            yield row(step, "free", names[value[i]])
