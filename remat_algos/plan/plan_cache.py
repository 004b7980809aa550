"""The plan cache: a graph that was solved before, under whatever names, is not solved again."""

import contextlib
import functools
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

import remat_algos.kernels as kernels
import remat_algos.plan as package
from remat_algos.arguments import checked_arguments
from remat_algos.cache_folder import cache_folder
from remat_algos.context import Clock
from remat_algos.cost.devices import AnyLink
from remat_algos.effort import DEFAULT
from remat_algos.errors import RematError
from remat_algos.ir.budget import LEAST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import Labels
from remat_algos.plan.plan import Plan
from remat_algos.plan.request import Request
from remat_algos.plan.search_report import SearchReport
from remat_algos.plan.solve import answered, near_lowest
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.registry import AUTO, list_solvers

MAX_PLANS = 200  # in the folder


@checked_arguments
def solve_cached(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str = AUTO,
    effort: str = DEFAULT,
    link: AnyLink | None = None,
) -> Plan:
    """Return a plan of `solve`, from the cache if the same graph was solved before, in any process.

    Names, residents and the order in which a node reads may differ, ids and operators may not. The cache is the folder
    `plans` of REMAT_CACHE_DIR, by default `~/.cache/remat_algos`. A plan from it is verified as `Plan.load` does, so a
    stale or broken file is ignored. Plans of a search that was stopped are not cached, and none while a user's solver
    is registered.

    Parameters
    ----------
    graph, budget, solver, effort, link
        As `solve` takes them.

    Returns
    -------
    Plan
        From the cache it has the `seconds` of the search that found it, no `details`, and counts as `loaded`.

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
    return answered_before(Request.of(graph, budget, solver=solver, effort=effort, link=link))


def answered_before(request: Request) -> Plan:
    """The best plan for a request with only a solver, an effort and a link, from the cache or stored in it."""
    graph, budget = request.graph, request.budget
    if budget.above_lowest is not None:
        return near_lowest(budget, lambda part, lowest: answered_before(replace(request, budget=part)))
    canonical = _canonical(graph, timed=request.link is not None)
    limits = _in_bytes(budget, graph, canonical)
    file = _cache_file(canonical, limits, request)
    if file is None:
        return answered(request, Clock())
    with contextlib.suppress(OSError, RematError):  # no such file, or it holds no plan of this graph
        found = Plan.load(file, canonical)
        if (found.budget, found.solver) == (limits, request.name):
            with contextlib.suppress(OSError):  # a read-only folder
                os.utime(file)  # the least recently used are removed first
            return replace(_carried_over(found, graph, budget), link=request.link)
    plan = answered(request, Clock())
    if plan.report.stop.complete:
        with contextlib.suppress(OSError, RematError):  # a full disk, a folder that was removed
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _carried_over(plan, canonical, limits).save(file)
            _evict(file.parent)
    return plan


def _canonical(graph: ComputationGraph, *, timed: bool = False) -> ComputationGraph:
    """The graph without parts that no plan depends on: names, order of reads, residents that are not updated.

    The unit of compute stays where copies are timed in it.
    """
    unit = graph.labels.compute_unit if timed else ""
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr))
    return replace(
        graph,
        read_indices=graph.read_indices[np.lexsort((graph.read_indices, reader))],
        resident=graph.resident if graph.updates.any() else None,
        derivation=None,
        labels=Labels(ops=graph.labels.ops, compute_unit=unit, compute_scale=graph.labels.compute_scale),
    )


def _in_bytes(budget: Budget, graph: ComputationGraph, canonical: ComputationGraph) -> Budget:
    """The budget in bytes of the device, for the canonical graph, which has other residents."""
    limit = budget.memory_limit(baseline_peak(graph), graph.resident_memory)
    device = None if limit is None else max(limit, 0) + canonical.resident_memory
    return Budget(memory=LEAST if budget.least else None, overhead=budget.overhead, device=device)


def _carried_over(plan: Plan, graph: ComputationGraph, budget: Budget) -> Plan:
    """The plan for a graph of the same ids, with its bound and those parts of its report that name no nodes."""
    report = SearchReport(plan.report.tried, plan.report.overheads, plan.report.peaks)
    simulation = simulate(graph, plan.schedule)
    return replace(
        plan,
        graph=graph,
        budget=budget,
        simulation=simulation,
        details={},
        report=report,
        narrower=None,
        solver_peak_bound=None,
    )


def _cache_file(canonical: ComputationGraph, limits: Budget, request: Request) -> Path | None:
    """The file of a plan, named by a hash of all its inputs; None if it cannot be cached."""
    if not all(each.function.__module__.startswith("remat_algos.") for each in list_solvers()):
        return None
    folder = cache_folder("plans", "plans")
    if folder is None:
        return None
    labels = canonical.labels  # the hash of a graph has neither
    link = None if request.link is None else request.link.figures
    asked = limits.record(), request.name, request.task.effort, link
    key = (_source_state(), canonical.hash, labels.ops, labels.compute_unit, labels.compute_scale, *asked)
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.json"


@functools.cache
def _source_state() -> list[tuple[str, int, int]]:
    """Names, sizes and times of our source files and kernels, which change with the code."""
    folders = Path(package.__file__).parents[1], Path(kernels.__file__).parent
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in (".py", ".so", ".pyd")]
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _evict(folder: Path) -> None:
    """Remove all but the most recently used plans."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-MAX_PLANS]:
        with contextlib.suppress(OSError):  # another process removed it
            file.unlink()
