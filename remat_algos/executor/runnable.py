"""Simulations of plans and schedules to run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from remat_algos.allocate.allocation import Allocation
from remat_algos.cost.links import Link
from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verified
from remat_algos.schedule.schedule import Order, Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.wording import quoted

Runnable = Plan | Simulation | Mapping[str, Any] | str | os.PathLike[str] | Order
"""A plan, its record or its file; a schedule, its steps, or its simulation."""


def planned(graph: ComputationGraph, order: Runnable) -> tuple[Simulation, Allocation | None, Link | None]:
    """The simulation of a plan, whose claims are verified, or of a bare schedule; and what else a plan has.

    Parameters
    ----------
    graph : ComputationGraph
        The graph of the plan, before or after differentiation, or of the schedule.
    order : Plan, mapping, path, Schedule, Simulation or int32[m]
        A simulation is used as it is.

    Returns
    -------
    Simulation
    Allocation or None
        Addresses of a plan.
    Link or None
        Over which a plan copies.

    Raises
    ------
    ScheduleError
        If the schedule cannot be run.
    GraphError
        If the simulation is of another graph.
    PlanError, ClaimError
        As for `verify`.
    TypeError
        If `order` is nothing that can be run, or `graph` is not a graph.

    Examples
    --------
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> planned(chain, [0, 1, 2])[0].peak_memory, planned(chain, simulate(chain, [0, 1, 2]))[0].peak_memory
    (2, 2)
    """
    check_graph(graph)
    if isinstance(order, Simulation):
        if order.graph is not graph and order.graph.source_hash != graph.source_hash:
            raise GraphError("the simulation is of another graph; give the graph that was simulated")
        return order, None, None
    if isinstance(order, Plan | Mapping | str | os.PathLike):
        found = verified(graph, order)
        return found.simulation, found.reservation.allocation, found.link
    if isinstance(order, Schedule | Iterable):
        return simulate(graph, order), None, None
    fault = f"{quoted(order)} cannot be run"
    raise TypeError(f"{fault}; give a plan, its record or its file, a schedule, or ids or names of nodes")
