"""The lower-set programs of kusumoto2019 and the algorithms of kumar2019 in examples/by_the_book."""

import numpy as np
import pytest

from remat_algos.errors import BudgetError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.search.solve import solve
from remat_algos.solvers.formula_chains import least_budget
from remat_algos.structure.lower_sets import LowerSets, lower_set_family
from tests.strategies import rows
from tests.test_by_the_book import book, csr, generators, random_reads

# ---------------------------------------------------------------- kusumoto2019


def lower_set_case(rng):
    """A forward graph, its gradients, and the arrays of the files."""
    reads = random_reads(rng, 8)
    n = len(reads)
    T, M = rng.integers(1, 12, n), rng.integers(1, 9, n)
    graph = differentiate(ComputationGraph.from_arrays(**rows("read", reads), memory=M, compute=T))
    return graph, (*csr(reads), T, M)


def check_sequence(graph, family, strategy, budget, overhead, sequence):
    """The overhead is that of the solver, and the sequence has it within the budget."""
    options = {"solver": "exact_dp"} if family == "exact" else {"solver": "approximate_dp", "family": family}
    options |= {"formula_budget": int(budget), "strategy": strategy, "keep_last": False, "raw": True}
    if overhead < 0:
        assert not sequence
        with pytest.raises(BudgetError):
            solve(graph, **options)
        return
    chain = LowerSets.of(graph, [np.flatnonzero(L).tolist() for L in sequence])
    assert chain.peak(graph) <= budget
    assert overhead == chain.overhead(graph) == solve(graph, **options).details["formula_overhead"]


def budgets_near(graph, family, rng):
    """One byte below the minimum budget, and budgets up to the one that any sequence meets."""
    lowest, whole = least_budget(graph, family), 2 * int(graph.memory[graph.forward].sum())
    return [lowest - 1, lowest, *rng.integers(lowest, whole, 2, endpoint=True)]


def test_kusumoto_exact_dp_has_the_overhead_of_exact_dp():
    exact = book("kusumoto_exact_dp")
    for rng in generators(21):
        graph, arrays = lower_set_case(rng)
        sets = [np.flatnonzero(L).tolist() for L in exact.all_lower_sets(*arrays[:2])]
        assert sorted(sets) == sorted(lower_set_family(graph).sets())
        for budget in budgets_near(graph, "exact", rng):
            for strategy in ("time", "memory"):
                overhead, sequence = exact.exact_dp(*arrays, budget, strategy == "memory")
                check_sequence(graph, "exact", strategy, budget, overhead, sequence)


def test_kusumoto_approximate_dp_has_the_overhead_of_approximate_dp():
    approximate = book("kusumoto_approximate_dp")
    for rng in generators(22):
        graph, arrays = lower_set_case(rng)
        sets = {tuple(np.flatnonzero(L).tolist()) for L in approximate.pruned_lower_sets(*arrays[:2])}
        assert sorted(sets) == sorted(map(tuple, lower_set_family(graph, "pruned").sets()))
        for budget in budgets_near(graph, "pruned", rng):
            check_sequence(graph, "pruned", "time", budget, *approximate.approximate_dp(*arrays, budget))
