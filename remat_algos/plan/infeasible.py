"""The reasons why no plan was found, and the lowest peak reached."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from remat_algos.allocate.reservation import Reservation
from remat_algos.bounds.compute import ANY_ORDER, ComputeBound, forced_values
from remat_algos.bounds.memory import least_peak_bound, two_path_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.problem import Problem
from remat_algos.plan.search_report import SearchReport, skipped_text
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import find_solver
from remat_algos.text.units import exact_bytes, format_bytes
from remat_algos.wording import counted, listed, shortened

FORCING_NODES_NAMED = 3
FORCED_VALUES_NAMED = 3
RULED_OUT = "its schedules violate a constraint"
LATE = "; the time limit cut the search short"


def budget_error(
    problem: Problem,
    candidates: Sequence[Candidate],
    reasons: Mapping[str, str],
    skipped: Mapping[str, int] = MappingProxyType({}),
    *,
    late: bool = False,
    proof: ComputeBound | None = None,
    dropped: Sequence[Candidate] = (),
    least: Candidate | None = None,
) -> BudgetError:
    """The error with the lowest peak reached, the lower bound and its reason.

    `proof` may say that no schedule fits at all; `dropped` are candidates that violate a constraint; `least` is
    that of the budget "least", where it is known.
    """
    graph = problem.graph
    bound, nodes = least_peak_bound(graph)
    if proof is not None and proof.forced > bound:
        bound, nodes = proof.forced, list(proof.nodes)
    lowest = least or min(candidates, key=lambda candidate: candidate.figures, default=None)
    message = _shortage(problem, candidates, lowest, proof, bound)
    violation = _constrained(problem, candidates, dropped)
    message += violation
    known = {name: reason for name, reason in reasons.items() if len(reasons) == 1 or not _is_exact(name)}
    known = {name: reason for name, reason in known.items() if not (violation and reason == RULED_OUT)}
    without = [
        f"{reason} (no plan from {listed([name for name in known if known[name] == reason])})"
        for reason in dict.fromkeys(known.values())
    ]
    message = "; ".join([message, *without])  # before the bound: some name the remedy
    if late:
        message += LATE
    if skipped:
        message += f"; skipped: {skipped_text(skipped)}"
    message += f"; no schedule goes below {format_bytes(bound)}, needed while {_named(graph, nodes)}"
    message += marks_kept(graph)
    if lowest is not None and not _within(problem, candidates) and (problem.limit or 0) >= 0:
        message += '; budget "least" gives the lowest peak found'
    plan = lowest_plan(problem, [] if lowest is None else [lowest])
    reached = lowest.figures[0] if lowest else problem.base
    return BudgetError(
        "{message!w}",
        message=message,
        reached=reached,
        lower_bound=bound,
        nodes=nodes,
        plan=plan,
        names=graph.labels.names_of(nodes),
        reasons=without,
    )


def lowest_plan(
    problem: Problem,
    candidates: Sequence[Candidate],
    reservation: Reservation | None = None,
    report: SearchReport | None = None,
) -> Plan | None:
    """The plan of the candidate with the lowest peak, as for the budget "least"; None without candidates."""
    lowest = min(candidates, key=lambda candidate: candidate.figures, default=None)
    if lowest is None:
        return None
    unlimited = replace(problem, budget=Budget(memory=LEAST), limit=None, overhead_limit=None)
    return unlimited.plan(
        replace(lowest, bound=None, scope=None),  # which are of the limit
        solver=lowest.solver,
        options={},
        seconds=0.0,
        report=report or SearchReport(),
        bound=ComputeBound(problem.graph.needed_compute),
        reservation=reservation,
    )


def marks_kept(graph: ComputationGraph) -> str:
    """What is said of the marks of a graph, if it has any."""
    return "" if graph.mark is None else f"; {counted(int((graph.mark > 0).sum()), 'mark')} on nodes must be kept"


def _within(problem: Problem, candidates: Sequence[Candidate]) -> list[int]:
    """Compute of the candidates whose peak is within the limit."""
    return [each.figures[1] for each in candidates if problem.limit is None or each.figures[0] <= problem.limit]


def _shortage(
    problem: Problem,
    candidates: Sequence[Candidate],
    lowest: Candidate | None,
    proof: ComputeBound | None,
    bound: int,
) -> str:
    """The exceeded limit, and the lowest value reached."""
    graph, within = problem.graph, _within(problem, candidates)
    if problem.limit is not None and problem.limit < 0:
        device, resident = shortened(problem.budget.device), format_bytes(graph.resident_memory)
        return f"the device budget {device} is less than the residents, {resident}; give more"
    if within:
        extra = min(within) - graph.needed_compute
        limit = graph.labels.compute(problem.overhead_limit or 0)
        return f"overhead {limit} is too low: the lowest reached is {graph.labels.compute(extra)}"
    if problem.limit is None:
        return "no schedule was found"
    message = f"no schedule within {exact_bytes(problem.limit)} was found"
    exact = max((each for each in candidates if each.peak_bound), key=_peak_bound, default=None)
    if bound > problem.limit or (proof is not None and proof.infeasible):
        message = f"no schedule within {exact_bytes(problem.limit)} exists"
    elif exact is not None and _peak_bound(exact) > problem.limit:
        message += f", and none of any order exists, which {shortened(exact.solver)} proved"
    if lowest is not None:
        message += f"; the lowest reached is {exact_bytes(lowest.figures[0])}, by {shortened(lowest.solver)}"
    return message


def _constrained(problem: Problem, candidates: Sequence[Candidate], dropped: Sequence[Candidate]) -> str:
    """The constraint that excludes every plan found, or every schedule."""
    constraints, best = problem.constraints, min(dropped, key=problem.rank, default=None)
    if constraints is None or best is None or not (problem.fits(best) or not candidates):
        return ""
    fits = " fits but" if problem.fits(best) else ""
    return f"; a schedule of {best.solver}{fits} violates a constraint: {constraints.violation(best.simulated)}"


def reserved_error(
    problem: Problem, candidate: Candidate, least: Reservation, report: SearchReport | None
) -> BudgetError:
    """The error if the peak fits the budget but the reserved bytes do not."""
    bound, nodes = least_peak_bound(problem.graph)
    peak = candidate.figures[0]
    missed, remedy = least.missed(problem.limit or 0)
    message = (
        f"{missed}; the lowest reached is {exact_bytes(least.memory)}, "
        f"for a peak of {format_bytes(peak)} by {shortened(candidate.solver)}; {remedy}"
    )
    plan = lowest_plan(problem, [candidate], least, report)
    return BudgetError(
        "{message!w}",
        message=message,
        reached=peak,
        lower_bound=bound,
        nodes=nodes,
        plan=plan,
        names=problem.graph.labels.names_of(nodes),
    )


def _named(graph: ComputationGraph, nodes: Sequence[int]) -> str:
    """The nodes that force a peak, or the two that do so together."""
    if nodes and [*nodes] == two_path_bound(graph)[1]:
        return f"{' or '.join(shortened(graph.labels[v]) for v in nodes)} runs"
    return forcing_nodes(graph, nodes)


def forcing_nodes(graph: ComputationGraph, nodes: Sequence[int]) -> str:
    """The nodes that force a peak, and the largest values that are live while the first of them runs.

    Without nodes all results together force it.
    """
    if not nodes:
        return "the last node that makes a result runs, with all results live"
    names = listed([graph.labels[v] for v in nodes], FORCING_NODES_NAMED)
    values = forced_values(graph, nodes[0])
    largest = sorted(values, key=lambda x: -graph.memory[x])
    live = listed(
        [f"{graph.value_name(x)} ({format_bytes(int(graph.memory[x]))})" for x in largest[:FORCED_VALUES_NAMED]],
        FORCED_VALUES_NAMED,
        len(largest),
    )
    return f"{names} {'runs' if len(nodes) == 1 else 'run'}" + (f", with {live} live" if live else "")


def _is_exact(name: str) -> bool:
    """True if a solver is an exact search over all orders; a graph too large for it explains nothing."""
    found = find_solver(name)
    return found is not None and found.optimal_in == ANY_ORDER


def _peak_bound(candidate: Candidate) -> int:
    return candidate.peak_bound or 0
