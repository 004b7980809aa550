"""Verify a plan: simulate its schedule, and check everything that it claims."""

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
    """Simulate a plan's schedule, and check everything that the plan claims.

    The lower bound is proven again in one of three ways: from the graph nodes and dual prices in the plan, with a
    minimum cut or an integer program, or with the solver that proved it, which starts from the plan's schedule. A bound
    is refused if it is not proven within 30 seconds, or if it has another source. `Plan.load` gives a solver one
    second. Without a proof in that time, the bound is only a claim (``plan.bound.proven`` is False). Addresses in an
    arena are compared with the lifetimes of its buffers. Without addresses, the arena is packed again. The models of
    other allocators run again.

    The plan defines the problem: its options of `differentiate`, its budget, link, allocator and constraints, which
    `remat verify` prints. Its solver, seconds and `details`, such as overheads of other solvers, cannot be checked
    except for their types.

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
        If `plan` is not a plan, or is for another graph.
    ClaimError
        If the schedule cannot run, a claim is false, or a bound is not proven. The message shows both figures.

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
    """Verify a plan, and return the checked results; `strict` as in `checked`."""
    if isinstance(plan, str | os.PathLike):
        return from_file(plan, lambda record: checked(graph, shaped(record), strict))
    record = plan if isinstance(plan, Mapping) else check_kind(plan, Plan, "plan").record()
    return checked(graph, shaped(record), strict)
