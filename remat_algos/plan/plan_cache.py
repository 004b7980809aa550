"""Plans that are kept: a graph that comes again, under other names, is not solved again."""

import contextlib
import functools
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

import remat_algos.kernels as kernels
import remat_algos.plan as package
from remat_algos.bounds.compute import ComputeBound
from remat_algos.cache_folder import cache_folder
from remat_algos.context import DEFAULT
from remat_algos.errors import RematError
from remat_algos.ir.budget import LEAST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import Labels
from remat_algos.plan.plan import BOUND, OVERHEADS, TRIED, Plan
from remat_algos.plan.solve import solve
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.registry import AUTO, list_solvers

KEPT = 200  # plans in the folder


def solve_cached(
    graph: ComputationGraph, budget: Budget | Amount | None = None, *, solver: str = AUTO, effort: str = DEFAULT
) -> Plan:
    """`solve`, or the plan that it found before for the same graph, also in another process.

    Names, residents and the order in which a node reads may differ, ids may not. Plans lie in the folder `plans` of
    REMAT_CACHE_DIR, by default `~/.cache/remat_algos`; one that is read is verified as `Plan.load` does, so a file that
    is stale or broken is never believed. Not kept are plans of a search that was stopped, and any where solvers of
    users are registered.

    Parameters
    ----------
    graph, budget, solver, effort
        As `solve` takes them.

    Returns
    -------
    Plan
        One that is read has the `seconds` of the search that found it, and not all of its `details`.

    Raises
    ------
    BudgetError, GraphError, TypeError, ValueError
        Those of `solve`.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> solve_cached(chain, 7)
    <Plan: chen_sqrt, peak 7 B, limit 7 B, overhead 16.0 %, 22 steps, 4 nodes recomputed>
    """
    budget, bare = Budget.of(budget), _bare(graph)
    limits = _limits(graph, bare, budget)
    file = _file(bare, limits, solver, effort)
    if file is None:
        return solve(graph, budget, solver=solver, effort=effort)
    found = None
    with contextlib.suppress(OSError, RematError):  # none there, or none of this graph
        found = Plan.load(file, bare)
        os.utime(file)  # the ones that are not used go first
    if found is not None:
        return _moved(found, graph, budget)
    plan = solve(graph, budget, solver=solver, effort=effort)
    if plan.details.get("complete", True) and not plan.interrupted:
        with contextlib.suppress(OSError, RematError):  # a full disk, a folder that is gone
            _moved(plan, bare, limits).save(file)
            _remove_oldest(file.parent)
    return plan


def _bare(graph: ComputationGraph) -> ComputationGraph:
    """The graph as solvers see it: without names, the order of reads, and residents unless these are updated."""
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr))
    return replace(
        graph,
        read_indices=graph.read_indices[np.lexsort((graph.read_indices, reader))],
        resident=graph.resident if graph.updates.any() else None,
        derivation=None,
        labels=Labels(compute_scale=graph.labels.compute_scale),
    )


def _limits(graph: ComputationGraph, bare: ComputationGraph, budget: Budget) -> Budget:
    """The budget in bytes of the bare graph, which has other residents."""
    limit = budget.memory_limit(baseline_peak(graph), graph.resident_memory)
    device = None if limit is None else max(limit, 0) + bare.resident_memory
    return Budget(memory=LEAST if budget.least else None, overhead=budget.overhead, device=device)


def _moved(plan: Plan, graph: ComputationGraph, budget: Budget) -> Plan:
    """The plan for a graph of the same ids. Of its details remain those that name no nodes, and the bound's."""
    details = {name: plan.details[name] for name in (TRIED, OVERHEADS) if name in plan.details}
    if BOUND in plan.details:
        assert plan.bound is not None
        details[BOUND] = ComputeBound.claimed(plan.graph, plan.bound, plan.details[BOUND]).record(graph)
    simulation = simulate(graph, plan.schedule)
    return replace(plan, graph=graph, budget=budget, simulation=simulation, details=details)


def _file(bare: ComputationGraph, limits: Budget, solver: str, effort: str) -> Path | None:
    """Where a plan belongs: its name has all that decides about it; None if it cannot be kept."""
    if not all(each.function.__module__.startswith("remat_algos.") for each in list_solvers()):
        return None
    folder = cache_folder("plans", "plans")
    if folder is None:
        return None
    key = (_code(), bare.hash, limits.record(), solver, effort)
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.json"


@functools.cache
def _code() -> list[tuple[str, int, int]]:
    """What tells one state of our code from another: names, sizes and times of its files."""
    folders = Path(package.__file__).parents[1], Path(kernels.__file__).parent
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in (".py", ".so", ".pyd")]
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _remove_oldest(folder: Path) -> None:
    """Remove the plans that were not used for longest."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-KEPT]:
        file.unlink(missing_ok=True)
