"""A plan verified: simulated anew, and everything that it claims compared."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remat_algos.allocate.reservation import Reservation
from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import PlanError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.claims import checked
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import read_record, shaped
from remat_algos.schedule.simulation import Simulation


@checked_arguments
def verify(graph: ComputationGraph, plan: Plan | Mapping[str, Any] | str | os.PathLike[str]) -> Simulation:
    """Judge a plan's schedule anew and compare everything that it claims.

    The bound on compute is proven again by the nodes and the price that the plan names: a closure bound by one minimum
    cut, a moment bound by its integer program, within 30 seconds; a warning says so if they were not enough. A bound of
    a solver is its word: it must not contradict the plan, no more is checked.
    The addresses in an arena are compared with the lifetimes of its buffers. A file without them, of an earlier
    release, is packed again; a warning says so if its arena is not reached in a few seconds, which disproves nothing.
    What another allocator reserves is modelled again.

    Parameters
    ----------
    graph : ComputationGraph
        The graph that the plan was made for, before or after differentiation.
    plan : Plan, mapping or path
        A plan, its record, or its JSON file.

    Returns
    -------
    Simulation
        The simulation of the plan.

    Raises
    ------
    PlanError
        If it is no plan, or one for another graph.
    ClaimError
        If the schedule cannot be run, or a claim is false; it states the claim and the simulated figure.

    Examples
    --------
    >>> from remat_algos.plan.solve import solve
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> verify(graph, solve(graph, "100%")).peak_memory
    2
    """
    return verified(graph, plan)[0]


def verified(
    graph: ComputationGraph, plan: Plan | Mapping[str, Any] | str | os.PathLike[str]
) -> tuple[Simulation, Reservation]:
    """Verify a plan, and return its simulation and reservation."""
    if isinstance(plan, str | os.PathLike):
        record = read_record(plan)
        try:
            return checked(graph, shaped(record))[1:]
        except PlanError as error:
            raise type(error)(f"{Path(plan).name}: {error}") from error
    given = plan if isinstance(plan, Mapping) else check_kind(plan, Plan, "plan").record()
    return checked(graph, shaped(given))[1:]
