"""The lower-set programs of kusumoto2019 and the algorithms of kumar2019 in examples/by_the_book."""

import numpy as np
import pytest

from remat_algos.errors import BudgetError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.formula_chains import least_budget
from remat_algos.solvers.registry import list_candidates
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph, eliminate
from remat_algos.structure.lower_sets import LowerSets, lower_set_family
from remat_algos.structure.separators import SeparatorTree
from tests.strategies import rows
from tests.test_by_the_book import book, csr, generators, random_reads
from tests.test_solvers_greedy_remat import walk

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


# ---------------------------------------------------------------- kumar2019


def node_graph(reads, memory=1):
    return ComputationGraph.from_arrays(**rows("read", reads), memory=memory)


def lists_of(decomposition):
    """The bags and parents of a decomposition of the package or of the files."""
    if isinstance(decomposition, TreeDecomposition):
        decomposition = decomposition.bag_indptr, decomposition.bag_indices, decomposition.parent
    return [array.tolist() for array in decomposition]


def decomposition_of(reads):
    """Elimination order, decomposition, and its bags after lemma 1, by the files."""
    order, bag_indptr, bags = book("kumar_tree_decomposition").minimum_fill_in(*csr(reads))
    parent = book("kumar_tree_decomposition").tree_of_bags(order, bag_indptr, bags)
    return order, (bag_indptr, bags, parent), book("kumar_lemma_1").shrink(bag_indptr, bags, parent)


def test_kumar_tree_decomposition_and_lemma_1_have_the_bags_and_trees_of_the_package():
    for rng in generators(31):
        reads = random_reads(rng, 16)
        order, whole, reduced = decomposition_of(reads)
        elimination = eliminate(UndirectedGraph.of(node_graph(reads)), "fill")
        assert order.tolist() == elimination.order.tolist()
        assert lists_of(whole) == lists_of(TreeDecomposition.of(elimination))
        assert lists_of(reduced) == lists_of(TreeDecomposition.of(elimination).reduce())


def test_lemma_1_merges_any_bags_as_the_package():
    """Trees of random bags, some equal: no decompositions of a graph, but the lemma's pass works on them too."""
    for rng in generators(32):
        b = int(rng.integers(1, 8))
        bags = [sorted(np.flatnonzero(rng.random(4) < 0.5).tolist()) for _ in range(b)]
        indptr, indices = csr(bags)
        parent = np.array([-1, *(rng.integers(i) for i in range(1, b))])
        wanted = TreeDecomposition(indptr, indices, parent).reduce()
        assert lists_of(book("kumar_lemma_1").shrink(indptr, indices.astype(np.int64), parent)) == lists_of(wanted)


def test_kumar_balanced_separators_are_those_of_the_package():
    for rng in generators(33):
        reads = random_reads(rng, 16)
        *_, reduced = decomposition_of(reads)
        bag, end, owner = book("kumar_balanced_separators").separators(*reduced, len(reads))
        tree = SeparatorTree.balanced(TreeDecomposition(*reduced), len(reads))
        for array, name in ((bag, "bag"), (end, "end"), (owner, "owner"), (end - np.arange(end.size), "n_bags")):
            assert array.tolist() == getattr(tree, name).tolist()


def test_kumar_twremat_has_the_schedules_of_twremat():
    """By the decomposition and the separators of the files; recursion limits 1, as in algorithm 1, 2 and 3."""
    for rng in generators(34):
        reads = random_reads(rng, 16)
        graph = node_graph(reads, rng.integers(1, 9, len(reads)))
        *_, reduced = decomposition_of(reads)
        _, end, owner = book("kumar_balanced_separators").separators(*reduced, len(reads))
        targets = graph.output.copy()
        for k in (1, 2, 3):
            schedule = book("kumar_twremat").twremat(*csr(reads), end, owner, targets, k, False)
            options = {"orders": 1, "batching": False, "recursion_limit": k, "length_limit": 10**6}
            candidate = list_candidates(graph, "twremat", **options)[0]
            assert candidate.details["separators"] == "balanced"
            assert schedule == candidate.schedule.order.tolist()


def test_kumar_greedy_remat_has_the_schedules_of_greedy_remat():
    """From any order, also where the maximum length stops it; the peak is that of the simulation."""
    greedy = book("kumar_greedy_remat")
    for rng in generators(35):
        reads = random_reads(rng)
        s = rng.integers(0, 9, len(reads))
        graph, sigma = node_graph(reads, s), random_order(reads, rng)
        peak = greedy.peak_memory(*csr(reads), s, sigma)
        assert peak == simulate(graph, Schedule(sigma)).peak_memory
        for limit in rng.integers(0, peak, 3, endpoint=True):
            for t_max in (len(reads) + 3, 8 * len(reads)):
                schedule = greedy.greedy_remat(*csr(reads), s, sigma, limit, t_max)
                wanted, _ = walk(graph, int(limit), 1, sigma, t_max, moves=False, rule="largest")
                assert schedule.tolist() == wanted
                assert greedy.peak_memory(*csr(reads), s, schedule) == simulate(graph, wanted).peak_memory


def random_order(reads, rng):
    """A random topological order, int64[n]."""
    order = []
    while len(order) < len(reads):
        ready = [v for v, row in enumerate(reads) if v not in order and set(row) <= set(order)]
        order.append(int(rng.choice(ready)))
    return np.array(order)
