"""Verify a plan: simulate it again and compare everything that it claims."""

import os
from collections.abc import Mapping
from typing import Any

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.check_claims import Checked, checked
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import from_file, shaped
from remat_algos.schedule.simulation import Simulation


@checked_arguments
def verify(graph: ComputationGraph, plan: Plan | Mapping[str, Any] | str | os.PathLike[str]) -> Simulation:
    """Simulate a plan's schedule anew, and compare and prove what the plan claims.

    The bound is proven again by the nodes and prices that the plan names: by one minimum cut, or by an integer program.
    A solver claimed to have proven it runs again, from the plan's own schedule. A bound that is not proven again within
    30 seconds, and one by anything else, are refused. `Plan.load` spends a second on a bound by a solver, and marks one
    that stays open as claimed (``plan.bound.proven``).
    The addresses in an arena are compared with the lifetimes of its buffers; a file without them is packed again. What
    another allocator reserves is modelled again.

    The problem is that of the plan: its options of `differentiate`, its budget, link, allocator and constraints.
    `remat verify` prints them.

    The solver of a plan, its seconds and its `details`, such as overheads of other solvers, cannot be checked beyond
    their types.

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
        If the schedule cannot be run, a claim is false, or a bound is not proven again; it states the claim and the
        figure found.

    Examples
    --------
    >>> from remat_algos.search.solve import solve
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> verify(graph, solve(graph, "100%")).peak_memory
    2
    """
    return verified(graph, plan, strict=True).simulation


def verified(
    graph: ComputationGraph, plan: Plan | Mapping[str, Any] | str | os.PathLike[str], strict: bool = False
) -> Checked:
    """Verify a plan, `strict` as in `checked`, and return what was found."""
    if isinstance(plan, str | os.PathLike):
        return from_file(plan, lambda record: checked(graph, shaped(record), strict))
    given = plan if isinstance(plan, Mapping) else check_kind(plan, Plan, "plan").record()
    return checked(graph, shaped(given), strict)
