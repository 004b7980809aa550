"""The plan cache: a graph is not solved a second time, even if the names of its nodes have changed."""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import remat_algos.kernels as kernels
import remat_algos.plan as package
from remat_algos.allocate.allocators import PEAK, get_allocator
from remat_algos.arguments import checked_arguments
from remat_algos.cache_folder import cache_folder
from remat_algos.cost.devices import AnyLink
from remat_algos.effort import DEFAULT
from remat_algos.errors import RematError
from remat_algos.ir.budget import LEAST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import simulate
from remat_algos.search import tuning
from remat_algos.search.request import Request
from remat_algos.search.solve import answered
from remat_algos.solvers.registry import AUTO, list_solvers


@checked_arguments
def solve_cached(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str = AUTO,
    effort: str = DEFAULT,
    link: AnyLink | None = None,
) -> Plan:
    """Return a plan as `solve` does; read it from the cache if any process has solved the same graph before.

    Graphs count as the same if their ids and operators are equal; names, residents and the order in which a node lists
    its reads may differ. The cache is the folder `plans` in REMAT_CACHE_DIR, by default `~/.cache/remat_algos`. A
    cached plan is verified as in `Plan.load`, so a stale or damaged file is ignored; the attribute `loaded` of the plan
    is True. Without a link, the compute of a plan is never above that of a cached plan for a lower limit. Plans of
    stopped searches are not cached. No plan is cached while a user's own solver is registered.
    """
    return answered_before(Request.of(graph, budget, solver=solver, effort=effort, link=link))


def answered_before(request: Request) -> Plan:
    """Return the best plan for a request, and cache it. Only graph, budget, solver, effort and link may be set."""
    graph, budget = request.graph, request.budget
    # A stored plan for "least+1%" contains the budget in bytes of its second search, not "least+1%" itself.
    canonical, near_lowest = _canonical(graph, timed=request.link is not None), budget.above_lowest is not None
    limits = budget if near_lowest else _in_bytes(budget, graph, canonical)
    folder = _folder()
    if folder is None:
        return answered(request, request.clock)
    question, limit = _question(canonical, request), _hash(limits.record())
    stored_plan = _loaded(
        folder.glob(f"{question}-{limit}-*.json"), canonical, request, None if near_lowest else limits
    )
    if stored_plan is not None:
        stored_plan = _cheapest(stored_plan, folder, question, canonical, request)
        return replace(
            _carried_over(stored_plan, graph, stored_plan.budget if near_lowest else budget), link=request.link
        )
    # A search for "least+1%" begins with a search for "least". That plan is cached separately.
    lowest = answered_before(replace(request, budget=replace(budget, memory=LEAST))) if near_lowest else None
    plan = answered(request, request.clock, lowest)
    if plan.report.stop.complete:
        plan = _cheapest(plan, folder, question, canonical, request)
        peak, compute = plan.peak_memory, plan.simulation.compute
        with contextlib.suppress(OSError, RematError):  # disk full, folder removed
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stored = _carried_over(plan, canonical, plan.budget if near_lowest else limits)
            stored.save(folder / f"{question}-{limit}-{peak}-{compute}.json")
            _evict(folder)
    return plan


def _loaded(files: Iterable[Path], canonical: ComputationGraph, request: Request, limits: Budget | None) -> Plan | None:
    """Load the first valid plan from `files` whose budget is `limits`; None accepts any budget."""
    for file in files:
        with contextlib.suppress(OSError, RematError):  # missing or invalid file
            plan = Plan.load(file, canonical)
            if plan.solver == request.name and limits in (None, plan.budget):
                # Mark the file as used, since the least recently used plans are evicted first. This fails in a
                # read-only folder.
                with contextlib.suppress(OSError):
                    os.utime(file)
                return plan
    return None


def _cheapest(plan: Plan, folder: Path, question: str, canonical: ComputationGraph, request: Request) -> Plan:
    """Return the plan, but with the schedule of a cached plan for a lower limit if that schedule is cheaper."""
    if plan.limit is None or plan.budget.least or plan.link is not None:
        return plan
    stricter = list[tuple[int, Path]]()
    for file in folder.glob(f"{question}-*.json"):
        figures = re.fullmatch(r".*-(\d+)-(\d+)", file.stem)
        if figures and int(figures[1]) <= plan.limit and int(figures[2]) < plan.simulation.compute:
            stricter.append((int(figures[2]), file))
    cached = _loaded((file for _, file in sorted(stricter)), canonical, request, None)
    if cached is None:
        return plan
    simulation = simulate(plan.graph, cached.schedule)
    reservation = get_allocator(PEAK).reserve(simulation)
    changed = replace(plan, simulation=simulation, reservation=reservation, method=cached.method)
    return replace(changed, details={}, narrower=None)


def _canonical(graph: ComputationGraph, *, timed: bool = False) -> ComputationGraph:
    """Remove names, the order of reads, residents (if nothing is updated) and units (unless `timed`) from a graph."""
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
    limit = budget.memory_limit(baseline_peak(graph), graph.resident_memory)
    device = None if limit is None else max(limit, 0) + canonical.resident_memory
    return Budget(memory=LEAST if budget.least else None, overhead=budget.overhead, device=device)


def _carried_over(plan: Plan, graph: ComputationGraph, budget: Budget) -> Plan:
    """Return a plan with the same schedule for a graph with equal ids, without report entries that name nodes."""
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


def _folder() -> Path | None:
    ours = all(each.function.__module__.startswith("remat_algos.") for each in list_solvers())
    return cache_folder("plans", "plans") if ours else None


def _question(canonical: ComputationGraph, request: Request) -> str:
    """Return a hash of everything that a plan depends on, except the limits."""
    # The hash of a graph does not cover its labels.
    labels = canonical.labels
    link = None if request.link is None else request.link.figures
    arguments = request.name, request.task.effort, link
    return _hash((_source_state(), canonical.hash, labels.ops, labels.compute_unit, labels.compute_scale, *arguments))


def _hash(key: Any) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()[:32]


@functools.cache
def _source_state() -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the package's files; cached plans become invalid if one of them changes."""
    folders = Path(package.__file__).parents[1], Path(kernels.__file__).parent
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in (".py", ".so", ".pyd")]
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _evict(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[: -tuning.MAX_PLANS]:
        with contextlib.suppress(OSError):  # another process may remove it
            file.unlink()
