"""Enumerate every chain of lower sets, exactly as in kusumoto2019, for teaching and tests."""

from collections.abc import Iterator, Sequence

from remat_algos.context import Clock
from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers import formula_chains as formulas
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import Candidate, Task, pareto, solver, training_graph
from remat_algos.structure.lower_sets import LowerSetFamily, LowerSets, lower_set_family

State = tuple[int, int, int]
"""(t, m, peak) of a chain that ends at a set: overhead, cached bytes M(U_i), and the maximum of M(i)."""
States = list[dict[State, tuple[int, State]]]
"""For each lower set, maps the states of chains that end at it to the row and the state of the previous set."""


@solver(paper="kusumoto2019", needs=training_graph, describe=formulas.formula_rows, portfolio=False)
def exhaustive_lower_sets(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
) -> Iterator[Candidate]:
    """Visit every triplet (L, t, m) that a chain of lower sets can reach, and choose as `exact_dp` does.

    Dominated triplets are not pruned, so small graphs show which triplets the dynamic program skips.

    Parameters
    ----------
    strategy, formula_budget, keep_last, lazy : optional
        As in `exact_dp`.

    References
    ----------
    kusumoto2019, section 4.1.
    """
    formulas.check_choices(strategy, keep_last, lazy)
    budget = None if formula_budget is None else formulas.formula_bytes(formula_budget)
    try:
        family = lower_set_family(graph, "exact", cap=tuning.MAX_EXHAUSTIVE_SETS)
    except GraphError as error:
        raise GraphError(
            "there are more than {max_sets:,} lower sets, too many to visit; use exact_dp or approximate_dp",
            max_sets=tuning.MAX_EXHAUSTIVE_SETS,
        ) from error

    def candidates_of(chain: LowerSets, centric: str, formula_budget: int, **more: int) -> Iterator[Candidate]:
        details = formulas.formula_details(family, (chain, 0), "exact", centric, formula_budget, keep_last)
        return formulas.chain_candidates(graph, chain, {**details, **more}, keep_last, lazy)

    if budget is None:
        yield from candidates_of(family.chain([]), "time", 2 * int(graph.node_memory[family.nodes].sum()))
    states = _visited(_Sets(family), budget, keep_last, clock)
    if not states[-1]:
        raise formulas.too_little(graph, "exact", budget or 0, formulas.least_budget(graph))
    triplets = sum(len({(t, m) for t, m, _ in reached}) for reached in states)
    for centric, each in _selected(states, strategy, budget):
        yield from candidates_of(family.chain(_rows(states, centric, each)), centric, each, triplets=triplets)


def _visited(sets: "_Sets", budget: int | None, keep_last: bool, clock: Clock) -> States:
    """Return the states of all chains for which every M(i) is within the budget."""
    states: States = [{} for _ in sets.members]
    states[0][0, 0, 0] = (0, (0, 0, 0))
    count = 1
    clock.stage(len(states), "lower sets")
    for i, reached in enumerate(states):
        for j in range(i + 1, len(states)):
            if sets.members[i] & ~sets.members[j]:
                continue
            cost, adds, need = sets.step(i, j, keeps=keep_last and j == len(states) - 1)
            count -= len(states[j])
            for t, m, peak in reached:
                if budget is None or m + need <= budget:
                    states[j].setdefault((t + cost, m + adds, max(peak, m + need)), (i, (t, m, peak)))
            count += len(states[j])
            clock.check()
            if count > tuning.MAX_EXHAUSTIVE_STATES:
                raise GraphError(
                    "chains reach more than {max_states:,} states, too many to visit; use exact_dp or approximate_dp",
                    max_states=tuning.MAX_EXHAUSTIVE_STATES,
                )
        clock.progress(i + 1)
    return states


def _selected(states: States, strategy: str | None, budget: int | None) -> list[tuple[str, int]]:
    """Return the pairs (strategy, formula budget) to solve: a single pair, or one for each Pareto point."""
    if budget is not None:
        return [(strategy or "time", budget)]
    points = pareto(((peak, t) for t, _, peak in states[-1]), lambda point: point)
    peaks = [peak for _, _, peak in states[-1]]
    selected = [("time", peak) for peak, _ in points] if strategy in (None, "time") else []
    if strategy != "time":
        selected += [(strategy or "memory", each) for each in formulas.memory_centric_budgets(min(peaks), max(peaks))]
    return selected


def _rows(states: States, strategy: str, budget: int) -> list[int]:
    within = [state for state in states[-1] if state[2] <= budget]
    order = {
        "time": lambda state: (state[0], state[2], state[1]),
        "memory": lambda state: (-state[0], state[2], state[1]),
        "cache": lambda state: (state[1], state[0], state[2]),
    }[strategy]
    row, state, rows = len(states) - 1, min(within, key=order), list[int]()
    while row > 0:
        rows.append(row)
        row, state = states[row][state]
    return rows


class _Sets:
    """Lower sets as bit masks, and the terms of kusumoto2019, section 3, for a step between two of them."""

    def __init__(self, family: LowerSetFamily) -> None:
        graph, nodes = family.graph, family.nodes
        self.memory = graph.node_memory[nodes].tolist()
        self.compute = graph.compute[nodes].tolist()
        place = {node: i for i, node in enumerate(nodes.tolist())}
        indptr, source = graph.predecessors
        self.reads = [
            sum(1 << place[u] for u in source[indptr[v] : indptr[v + 1]].tolist() if u in place) for v in nodes.tolist()
        ]
        self.members = [sum(1 << place[v] for v in lower_set) for lower_set in family.sets()]
        self.whole = self.members[-1]

    def step(self, i: int, j: int, *, keeps: bool) -> tuple[int, int, int]:
        """Return T(V_i - boundary(L_i)), M(boundary(L_i) - L_(i-1)) and the sum of terms (ii) to (iv)."""
        lower_set, segment = self.members[j], self.members[j] & ~self.members[i]
        readers = [w for w in _bits(self.whole & ~lower_set) if self.reads[w] & lower_set]
        co_inputs, boundary = 0, 0
        for w in readers:
            co_inputs |= self.reads[w] & ~lower_set
            boundary |= self.reads[w] & lower_set
        terms = 2 * _total(self.memory, segment) + sum(self.memory[w] for w in readers) + _total(self.memory, co_inputs)
        cost = 0 if keeps else _total(self.compute, segment & ~boundary)
        return cost, _total(self.memory, boundary & segment), terms


def _bits(members: int) -> Iterator[int]:
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1


def _total(amounts: Sequence[int], members: int) -> int:
    return sum(amounts[v] for v in _bits(members))
