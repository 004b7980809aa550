"""The closure bound against the program that it relaxes, the schedules of every solver, and the optimum."""

import remat_algos as ra
from remat_algos.bounds.closure import closure_cut, overhead_bound
from remat_algos.bounds.memory import forced_bytes
from remat_algos.bounds.rising import prove, rising
from remat_algos.formats.graphs.npz_bytes import to_npz
from tests.fuzz.graphs import EXPONENTIAL, SMALL_NODES, Subject
from tests.fuzz.random_graphs import random_graph
from tests.oracles import closure
from tests.oracles.simulation import Unsound

UNIT = "graphs"
LARGEST = 30  # nodes; the oracle is slow
SECONDS = 0.2  # for solvers that are exponential in the graph's size
TOLERANCE = 1e-7  # of the linear program, which is solved in floating point, beside its largest cost and its limit


def case(rng, report):
    """One graph, some limits: the relaxation, then every solver."""
    graph = relaxations(rng, report)
    if graph is None:
        return
    subject = Subject(graph)
    for limit in limits(rng, graph, subject.base.peak)[:2]:
        schedules(report, subject, limit)


def relaxations(rng, report):
    """A random graph, once its bounds are compared with the linear program."""
    try:
        graph = random_graph(rng)
    except ra.GraphError:
        return None
    if graph.n_nodes > LARGEST:
        return None
    report.count("graphs")
    forced = closure.forced_bytes(graph)
    if {v: int(forced_bytes(graph)[v]) for v in forced} != forced:
        fault(report, graph, "forced bytes", f"{forced_bytes(graph).tolist()}, expected {forced}")
    before = None
    for limit in sorted(limits(rng, graph, Subject(graph).base.peak), reverse=True):
        bound = overhead_bound(graph, limit)
        relaxed(report, graph, limit, bound)
        if before is not None and not bound.infeasible and (before.infeasible or bound.amount < before.amount):
            fault(report, graph, "a bound falls with the limit", f"{limit} B: {before}, {bound}")
        if bound.prices is not None:
            if prove(graph, limit, bound).amount != bound.amount:
                fault(report, graph, "node and price do not prove the bound", f"{limit} B: {bound}")
            closure_cut(graph, bound)
        before = bound
    return graph


def limits(rng, graph, peak):
    """Bytes near what matters."""
    forced = int(forced_bytes(graph).max(initial=0))
    some = [rng.randint(min(forced, peak), peak), (forced + peak) // 2, peak - 1, forced, forced - 1]
    return list(dict.fromkeys(max(limit, 0) for limit in some))


def relaxed(report, graph, limit, bound):
    """The bound is the linear program's value up to rounding; without a solution nothing fits."""
    report.count("compared with the linear program")
    slack = int(TOLERANCE * limit)  # bytes that the linear program does not see
    less = more = closure.relaxed_overhead(graph, limit + slack)
    if slack:
        more = closure.relaxed_overhead(graph, limit - slack)
    if (less is None and not bound.infeasible) or (more is not None and bound.infeasible):
        fault(report, graph, "feasible and not", f"{limit} B: {bound}, the linear program has {less}, {more}")
    if less is None or bound.infeasible:
        return
    overhead, error = bound.amount - graph.needed_compute, TOLERANCE * max(1, int(graph.compute.max()))
    low = closure.whole_steps(graph, max(0.0, less - error))
    high = overhead if more is None else closure.whole_steps(graph, more + error)
    if not low <= overhead <= high:
        fault(report, graph, "not the linear program", f"{limit} B: overhead {overhead}, expected {low} to {high}")


def schedules(report, subject, limit):
    """No plan within the limit costs less, of any solver; nor does the optimum of a small graph."""
    graph = subject.graph
    *_, bound = rising(graph, limit, last=True)
    for solver in ra.list_solvers():
        try:
            seconds = SECONDS if solver.name in EXPONENTIAL and graph.n_nodes > SMALL_NODES else None
            plan = ra.solve(graph, limit, solver=solver.name, raw=True, time_limit=seconds)
        except ra.RematError:
            continue
        report.count("plans")
        found = subject.verdict(plan.schedule.order.tolist())
        if isinstance(found, Unsound) or found.peak > limit or bound.infeasible or found.compute < bound.amount:
            fault(report, graph, "a plan is better", f"{limit} B, {solver.name}: {found}, {bound}")
    if subject.small:
        report.count("compared with the optimum")
        best = subject.optimum(limit)
        if best is not None and (bound.infeasible or best < bound.amount):
            fault(report, graph, "the optimum is better", f"{limit} B: {best}, {bound}")


def fault(report, graph, kind, detail):
    report.fault(kind, detail, {"graph.npz": to_npz(graph)})
