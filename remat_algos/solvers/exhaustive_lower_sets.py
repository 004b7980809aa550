"""Every chain of lower sets, to the letter of the paper: for teaching and for tests."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.chains import Chains
from remat_algos.solvers.formula_budgets import formula_bytes
from remat_algos.solvers.formula_plans import (
    Chosen,
    check_choices,
    formula_details,
    memory_centric_budgets,
    no_time,
    too_little,
)
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import LowerSetFamily, lower_set_family

MOST_SETS = 2_000
MOST_STATES = 500_000

State = tuple[int, int, int]
"""t, the overhead so far; m = M(U_i); and the greatest M(i) so far."""


@solver(paper="kusumoto2019", needs=training_graph, portfolio=False)
def exhaustive_lower_sets(
    graph: ComputationGraph,
    limit: int | None,
    *,
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Visit every triplet (L, t, m) that a chain of lower sets can reach, and choose as `exact_dp` does.

    No triplet is pruned because another dominates it, so small graphs show what the dynamic program skips.

    Parameters
    ----------
    strategy : {"time", "memory", "cache"}, optional
        As in `exact_dp`.
    formula_budget : int or str, optional
        As in `exact_dp`.
    keep_last, lazy : bool, optional
        As in `exact_dp`.

    References
    ----------
    kusumoto2019, section 4.1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(5)]))
    >>> exhaustive_lower_sets(chain, None, formula_budget=6, keep_last=False).details["triplets"]
    14
    """
    search = _Search(graph, strategy, keep_last, lazy, Watch(time_limit, progress))
    if formula_budget is not None:
        return search.at(formula_bytes(formula_budget)).best(limit)
    return search.sweep().best(limit)


def frontier(
    graph: ComputationGraph,
    *,
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `exhaustive_lower_sets`."""
    search = _Search(graph, strategy, keep_last, lazy, Watch(time_limit, progress))
    if formula_budget is not None:
        return search.at(formula_bytes(formula_budget)).frontier()
    return search.sweep().frontier()


class _Search:
    def __init__(
        self, graph: ComputationGraph, strategy: str | None, keep_last: bool, lazy: bool | None, watch: Watch
    ) -> None:
        check_choices(strategy, keep_last, lazy)
        self.graph = graph
        self.strategy = strategy
        self.keep_last = keep_last
        self.lazy = lazy
        self.watch = watch
        try:
            self.family = lower_set_family(graph, "exact", cap=MOST_SETS)
        except GraphError as error:
            raise GraphError(
                f"there are more than {MOST_SETS:,} lower sets, too many to visit; use exact_dp or approximate_dp"
            ) from error
        self.sets = _Sets(self.family)
        self.states: list[dict[State, tuple[int, State]]] = [{} for _ in self.sets.members]
        self.complete, self.interrupted = True, False

    def at(self, budget: int) -> Sweep:
        """The best chain within a formula budget."""
        self._visit(budget)
        if not self.states[-1]:
            raise (too_little if self.complete else no_time)(self.graph, "exact", budget, self._least())
        return self._sweep([self._chosen(self.strategy or "time", budget)])

    def sweep(self) -> Sweep:
        """The best chains for all formula budgets, of those that were visited."""
        self._visit(None)
        peaks = sorted({peak for _, _, peak in self.states[-1]})
        chosen = [Chosen(self.family.chain([]), "time", 2 * sum(self.sets.memory))]  # which keeps everything
        if self.strategy in (None, "time"):
            chosen += [self._chosen("time", peak) for peak in reversed(peaks)]
        for strategy in ("memory", "cache"):
            if peaks and (self.strategy == strategy or (self.strategy is None and strategy == "memory")):
                chosen += [self._chosen(strategy, most) for most in memory_centric_budgets(peaks[0], peaks[-1])]
        return self._sweep(chosen)

    def _visit(self, budget: int | None) -> None:
        try:
            self._visit_all(budget)
        except OutOfTime:
            self.complete = False
        except KeyboardInterrupt:
            self.complete, self.interrupted = False, True

    def _least(self) -> int:
        return Chains.by_formulas(self.family, Watch(), keep_last=self.keep_last).least_budget()

    def _visit_all(self, budget: int | None) -> None:
        """For each lower set the states of all chains to it, each with the row and the state that it came from."""
        sets, states = self.sets, self.states
        states[0][0, 0, 0] = (0, (0, 0, 0))
        count = 1
        self.watch.begin(len(states), "every chain of lower sets")
        for i, reached in enumerate(states):
            for j in range(i + 1, len(states)):
                if sets.members[i] & ~sets.members[j]:
                    continue
                cost, adds, need = sets.step(i, j, keeps=self.keep_last and j == len(states) - 1)
                count -= len(states[j])
                for t, m, peak in reached:
                    if budget is None or m + need <= budget:
                        states[j].setdefault((t + cost, m + adds, max(peak, m + need)), (i, (t, m, peak)))
                count += len(states[j])
                if self.watch.late:
                    raise OutOfTime
                if count > MOST_STATES:
                    many = f"chains reach more than {MOST_STATES:,} states, too many to visit"
                    raise GraphError(f"{many}; use exact_dp or approximate_dp")
            self.watch.reached(i + 1)

    def _chosen(self, strategy: str, budget: int) -> Chosen:
        states = self.states
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
        return Chosen(self.family.chain(rows), strategy, budget)

    def _sweep(self, chosen: Sequence[Chosen]) -> Sweep:
        triplets = sum(len({(t, m) for t, m, _ in reached}) for reached in self.states)

        def describe(each: Chosen) -> dict[str, Any]:
            return {**formula_details(self.graph, each, self.family, "exact", self.keep_last), "triplets": triplets}

        candidates = [Candidate(each.chain, self.keep_last, self.lazy, partial(describe, each)) for each in chosen]
        return Sweep(self.graph, candidates, self.watch, self.complete, self.interrupted)


class _Sets:
    """Lower sets as bits of integers, and the figures of a step from one to another, to the letter of section 3."""

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
        """T(V_i - boundary(L_i)), M(boundary(L_i) - L_(i-1)) and the terms (ii) to (iv) of formula (2)."""
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
