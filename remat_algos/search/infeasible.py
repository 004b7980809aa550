"""The error for a budget that no plan meets: the reasons, the lower bound, and the lowest peak reached."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from remat_algos.allocate.allocators import Reservation
from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.bounds.closure import forced_values
from remat_algos.bounds.memory import least_peak_bound, two_path_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import SearchReport, skipped_text
from remat_algos.search.limits import Limits
from remat_algos.solvers.registry import Candidate, find_solver
from remat_algos.wording import listed

FORCING_NODES_NAMED = 3
FORCED_VALUES_NAMED = 3
RULED_OUT = "its schedules violate a constraint"
LATE = "; the time limit cut the search short"


class Message:
    """The message of an error: a template and the values of its fields. Each clause adds to both."""

    def __init__(self, template: str, **fields: Any) -> None:
        self.template, self.fields = template, fields

    def add(self, clause: str, **fields: Any) -> None:
        self.template += clause
        self.fields |= fields

    def add_each(self, reasons: Sequence[str]) -> None:
        for i, reason in enumerate(reasons, start=1):
            self.add(f"; {{reason_{i}!w}}", **{f"reason_{i}": reason})

    def add_marks(self, graph: ComputationGraph) -> None:
        if graph.mark is not None:
            self.add("; {marks:mark} on nodes must be respected", marks=int((graph.mark > 0).sum()))


def budget_error(
    limits: Limits,
    candidates: Sequence[Candidate],
    reasons: Mapping[str, str],
    skipped: Mapping[str, int] = MappingProxyType({}),
    *,
    late: bool = False,
    proof: LowerBound | None = None,
    dropped: Sequence[Candidate] = (),
    least: Candidate | None = None,
) -> BudgetError:
    """Return the error for a budget that no candidate meets.

    `proof` may prove that no schedule fits. All of `dropped` violate a constraint. `least` has the lowest known peak.
    """
    graph = limits.graph
    bound, nodes = least_peak_bound(graph)
    if proof is not None and proof.forced > bound:
        bound, nodes = proof.forced, list(proof.nodes)
    lowest = least or min(candidates, key=lambda candidate: candidate.figures, default=None)
    message = _shortage(limits, candidates, lowest, proof, bound)
    violates = _add_violation(message, limits, candidates, dropped)
    known = {name: reason for name, reason in reasons.items() if len(reasons) == 1 or not _is_exact(name)}
    known = {name: reason for name, reason in known.items() if not (violates and reason == RULED_OUT)}
    if len(reasons) > 1 and _proven(limits, max(bound, *map(_peak_bound, candidates), 0), proof):
        known = {}  # no solver could succeed
    without = [
        f"{reason} (no plan from {listed([name for name in known if known[name] == reason])})"
        for reason in dict.fromkeys(known.values())
    ]
    # The reasons precede the bound, since some of them name a remedy.
    message.add_each(without)
    if late:
        message.add(LATE)
    if skipped:
        message.add("; skipped: {skipped!w}", skipped=skipped_text(skipped))
    message.add("; no schedule goes below {lower_bound!b}")
    if nodes and [*nodes] == two_path_bound(graph)[1]:
        one, other = map(graph.labels.__getitem__, nodes)
        message.add(", needed while {one} or {other} runs", one=one, other=other)
    else:
        add_forcing_nodes(message, graph, nodes)
    message.add_marks(graph)
    if lowest is not None and not _within(limits, candidates) and (limits.limit or 0) >= 0:
        message.add('; budget "least" gives the lowest peak found')
    return BudgetError(
        message.template,
        reached=lowest.figures[0] if lowest else limits.base,
        lower_bound=bound,
        nodes=nodes,
        plan=lowest_plan(limits, [] if lowest is None else [lowest]),
        names=graph.labels.names_of(nodes),
        reasons=without,
        **message.fields,
    )


def lowest_plan(
    limits: Limits,
    candidates: Sequence[Candidate],
    reservation: Reservation | None = None,
    report: SearchReport | None = None,
) -> Plan | None:
    """Return the plan of the candidate with the lowest peak, as for budget "least"; None if there are no candidates."""
    lowest = min(candidates, key=lambda candidate: candidate.figures, default=None)
    if lowest is None:
        return None
    return limits.lowest.plan(
        replace(lowest, bound=None, scope=None),  # valid only for that limit
        solver=lowest.solver,
        options={},
        seconds=0.0,
        report=report or SearchReport(),
        bound=LowerBound(limits.graph.needed_compute),
        reservation=reservation,
    )


def _within(limits: Limits, candidates: Sequence[Candidate]) -> list[int]:
    return [each.figures[1] for each in candidates if limits.limit is None or each.figures[0] <= limits.limit]


def _shortage(
    limits: Limits, candidates: Sequence[Candidate], lowest: Candidate | None, proof: LowerBound | None, bound: int
) -> Message:
    graph, labels, within = limits.graph, limits.graph.labels, _within(limits, candidates)
    if limits.limit is not None and limits.limit < 0:
        return Message(
            "the device budget {device} is less than the residents take ({residents!b}); give more",
            device=limits.budget.device,
            residents=graph.resident_memory,
        )
    if within:
        return Message(
            "overhead {allowed!w} is too low: the lowest overhead reached is {lowest!w}",
            allowed=labels.compute(limits.overhead_limit or 0),
            lowest=labels.compute(min(within) - graph.needed_compute),
        )
    if limits.limit is None:
        return Message("no schedule was found")
    message = Message("no schedule within {limit!B} was found", limit=limits.limit)
    exact = max(candidates, key=_peak_bound, default=None)
    if _proven(limits, bound, proof):
        message.template = "no schedule within {limit!B} exists"
    elif exact is not None and _peak_bound(exact) > limits.limit:
        message.add(", and none exists in any order, as {prover} proved", prover=exact.solver)
    if lowest is not None:
        message.add("; the lowest peak reached is {reached!B}, by {solver}", solver=lowest.solver)
    return message


def _add_violation(
    message: Message, limits: Limits, candidates: Sequence[Candidate], dropped: Sequence[Candidate]
) -> bool:
    constraints, best = limits.constraints, min(dropped, key=limits.rank, default=None)
    if constraints is None or best is None or not (limits.fits(best) or not candidates):
        return False
    message.add(
        "; a schedule of {best} fits but violates a constraint: {violation!w}"
        if limits.fits(best)
        else "; a schedule of {best} violates a constraint: {violation!w}",
        best=best.solver,
        violation=constraints.violation(best.simulated),
    )
    return True


def reserved_error(
    limits: Limits, candidate: Candidate, least: Reservation, report: SearchReport | None
) -> BudgetError:
    """Return the error for schedules whose peak is within the budget, but whose reserved bytes exceed it."""
    bound, nodes = least_peak_bound(limits.graph)
    lowest = "; the smallest size reached is {reserved!B}, for a peak of {reached!b} by {solver}"
    message = Message("no schedule that packs into {limit!B} was found" + lowest + "; give more")
    if least.bound is None:
        message = Message(
            "no schedule for which {allocator} reserves at most {limit!B} was found"
            + lowest
            + "; give more, or pack into an arena (--allocator arena)",
            allocator=least.allocator,
        )
    elif least.alignment > 1:
        message.add(", or an alignment below {alignment}", alignment=least.alignment)
    return BudgetError(
        message.template,
        limit=limits.limit or 0,
        reserved=least.memory,
        solver=candidate.solver,
        reached=candidate.figures[0],
        lower_bound=bound,
        nodes=nodes,
        plan=lowest_plan(limits, [candidate], least, report),
        names=limits.graph.labels.names_of(nodes),
        **message.fields,
    )


def add_forcing_nodes(message: Message, graph: ComputationGraph, nodes: Sequence[int]) -> None:
    """Add the nodes that force the peak bound, and the largest values that are live while the first of them runs."""
    if not nodes:
        message.add(", needed while the last node that computes a result runs, with all results live")
        return
    message.add(", needed while {forcing!l}", forcing=[graph.labels[v] for v in nodes[:FORCING_NODES_NAMED]])
    if len(nodes) > FORCING_NODES_NAMED:
        message.add(" and {more_nodes:,} more", more_nodes=len(nodes) - FORCING_NODES_NAMED)
    message.add(" runs" if len(nodes) == 1 else " run")
    values = sorted(forced_values(graph, nodes[0]), key=lambda x: -graph.memory[x])
    if values:
        largest = values[:FORCED_VALUES_NAMED]
        message.add(", with {live!m}", live={graph.value_name(x): int(graph.memory[x]) for x in largest})
        if len(values) > len(largest):
            message.add(" and {more_values:,} more", more_values=len(values) - len(largest))
        message.add(" live")


def _is_exact(name: str) -> bool:
    """Return True for an exact search over all orders. The error does not list that such a solver refused the graph."""
    solver = find_solver(name)
    return solver is not None and solver.optimal_in == ANY_ORDER


def _proven(limits: Limits, bound: int, proof: LowerBound | None) -> bool:
    limit = limits.limit
    return limit is not None and limit >= 0 and (limit < bound or (proof is not None and proof.infeasible))


def _peak_bound(candidate: Candidate) -> int:
    return candidate.peak_bound or 0
