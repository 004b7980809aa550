"""Recursion on separators: twremat and pathremat against the plain recursion, the theorem and the optimum."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.twremat import PLAIN, UNLIMITED

from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import ScheduleError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers import recursion
from remat_algos.solvers.methods import pathremat, twremat
from remat_algos.solvers.recursion import Part
from remat_algos.solvers.registry import Task, list_candidates, rank
from remat_algos.structure.decompositions import PathDecomposition, TreeDecomposition, greedy_layout
from remat_algos.structure.elimination import elimination_of
from remat_algos.structure.separators import SeparatorTree
from remat_algos.zoo.random import chain
from tests.ladders import counterexample, ladder, skip_ladder, zigzag
from tests.oracles import twremat as oracle
from tests.oracles.revolve import least_ladder_compute
from tests.oracles.simulation import Unsound, slow_simulation
from tests.strategies import MORE, graphs, numbers, rows, subsets, training_graphs

MANY = 10**6
SOLVERS = {"twremat": twremat.twremat, "pathremat": pathremat.pathremat}
each_solver = pytest.mark.parametrize("solver", SOLVERS)
batches = st.sampled_from([UNLIMITED, 0, 3, 9])


@st.composite
def read_graphs(draw, max_nodes=10):
    """Graphs without any features, sizes 0 to 5, and what each node reads."""
    n = draw(st.integers(1, max_nodes))
    reads = [draw(subsets(range(v), most=3)) for v in range(n)]
    return graph_of(reads, memory=draw(numbers(n, 5))), [set(row) for row in reads]


def graph_of(reads, **arrays):
    return ComputationGraph.from_arrays(**rows("read", [sorted(row) for row in reads]), **arrays)


@st.composite
def trees(draw, part):
    """Separators of a part by any elimination order, or of a path, and their width."""
    n = part.nodes.size
    if draw(st.booleans()):
        order = draw(st.permutations(range(n)))
        found = TreeDecomposition.of(elimination_of(part.undirected, order)).reduce()
        cheapest = draw(st.booleans())
        return SeparatorTree.cheapest(found, part.memory) if cheapest else SeparatorTree.balanced(found, n), found.width
    path = PathDecomposition.of(part.undirected, draw(st.permutations(range(n))))
    return SeparatorTree.middle(path, n), path.width


def middle(graph):
    """All of a graph, and the middle bags of a good path of it."""
    part = Part(graph, simplified=False)
    path = PathDecomposition.of(part.undirected, greedy_layout(part.undirected))
    return part, path, SeparatorTree.middle(path, graph.n_nodes)


def order_of(part, tree, batch=PLAIN, recursion_limit=1):
    return part.schedule(tree, recursion_limit, batch, MANY).order.tolist()


# ---------------------------------------------------------------- the recursion


@MORE
@given(drawn=read_graphs(), data=st.data())
def test_the_kernel_runs_what_the_plain_recursion_runs(drawn, data):
    graph, reads = drawn
    part = Part(graph, simplified=False)
    tree, _ = data.draw(trees(part))
    limit, wanted = data.draw(st.sampled_from([1, 2, 4])), set(part.targets.tolist())
    separators = oracle.separator_tree(tree)
    assert order_of(part, tree, PLAIN, limit) == oracle.plain(part.pred_indptr, part.pred, tree, part.targets, limit)
    batch = data.draw(batches)
    cap = None if batch == UNLIMITED else batch
    in_batches = oracle.batched(reads, separators, wanted, graph.memory.tolist(), cap, limit)
    assert order_of(part, tree, batch, limit) == in_batches


@pytest.mark.parametrize("batch", [PLAIN, UNLIMITED, 0, 4, 8])
def test_the_kernel_runs_what_the_plain_recursion_runs_on_a_larger_graph(batch):
    """40 nodes that read up to three of the six before them, and gradients: there is a lot to wait for."""
    chance = np.random.default_rng(5)
    reads = [chance.choice(6, size=min(v, 3), replace=False) + v - 6 for v in range(40)]
    forward = graph_of([set(row[row >= 0]) for row in reads], memory=chance.choice([1, 2, 3, 8], size=40))
    graph = differentiate(forward)
    part, _, tree = middle(graph)
    if batch == PLAIN:
        assert order_of(part, tree) == oracle.plain(part.pred_indptr, part.pred, tree, part.targets)
    else:
        cap, reads = None if batch == UNLIMITED else batch, [set(graph.reads(v)) for v in range(graph.n_nodes)]
        in_batches = oracle.batched(reads, oracle.separator_tree(tree), set(part.targets), graph.memory.tolist(), cap)
        assert order_of(part, tree, batch) == in_batches


@MORE
@given(graph=graphs(max_nodes=9) | training_graphs(max_nodes=14), data=st.data())
def test_every_schedule_is_sound(graph, data):
    """(V): on graphs with several values, outputs anywhere, nodes that run once or that a mark keeps."""
    mark = data.draw(st.lists(st.sampled_from([0, 0, KEEP]), min_size=graph.n_nodes, max_size=graph.n_nodes))
    graph = replace(graph, mark=mark, derivation=None)
    part = Part(graph, simplified=data.draw(st.booleans()))
    tree, _ = data.draw(trees(part))
    batch, limit = data.draw(st.just(PLAIN) | batches), data.draw(st.sampled_from([1, 3]))
    slow_simulation(graph, order_of(part, tree, batch, limit))
    slow_simulation(graph, part.one_pass().order)


@MORE
@given(graph=graphs(max_nodes=9), data=st.data())
def test_a_recursion_limit_above_the_bags_is_one_pass(graph, data):
    part = Part(graph, simplified=False)
    tree, _ = data.draw(trees(part))
    batch = data.draw(st.just(PLAIN) | batches)
    assert order_of(part, tree, batch, tree.end.size + 1) == baseline(graph).schedule.order.tolist()


def test_a_solver_told_not_to_divide_runs_one_pass():
    graph = ladder(6)
    for solver in SOLVERS:
        [found] = list_candidates(graph, solver, 3, recursion_limit=graph.n_nodes + 1)
        assert found.schedule.order.tolist() == list(range(graph.n_nodes))


# ---------------------------------------------------------------- the printed algorithm


def counterexample_separators():
    """The bags {q, f} - {p, q, v0} - {v0, a} - {a, b} - {b, c} of the counterexample, and its separators."""
    graph = counterexample()
    bags = [[graph.node_id(name) for name in bag.split()] for bag in ("q f", "p q v0", "v0 a", "a b", "b c")]
    path = TreeDecomposition.from_bags(bags, [(i, i + 1) for i in range(4)])
    part = Part(graph, simplified=False)
    path.verify(part.undirected)
    assert path.reduce().n_bags == 5
    tree = SeparatorTree.balanced(path, graph.n_nodes)
    assert [tree.bag[s] for s in (0, *tree.children[:2])] == [2, 0, 3]
    return graph, part, tree


def test_the_printed_algorithm_runs_a_node_before_its_input():
    """q is in the separator of the component of p, and reads v0, which is in the separator above and has not run."""
    graph, part, tree = counterexample_separators()
    order = oracle.plain(part.pred_indptr, part.pred, tree, part.targets, as_printed=True)
    names = [graph.labels[v] for v in order]
    assert names[:5] == ["c", "b", "a", "p", "q"]
    with pytest.raises(Unsound, match="unmade: step 4"):
        slow_simulation(graph, order)


def test_the_corrected_recursion_runs_what_is_needed():
    graph, part, tree = counterexample_separators()
    schedule = part.schedule(tree, 1, PLAIN, MANY)
    assert schedule.names(graph) == ["c", "b", "a", "p", "v0", "p", "q", "f"]
    assert (len(schedule), slow_simulation(graph, schedule.order).peak) == (8, 3)


# ---------------------------------------------------------------- what is proved


@MORE
@given(drawn=read_graphs(), data=st.data())
def test_theorem_5_holds_with_its_constants(drawn, data):
    """D levels, width w: peak <= D ((w + 1) M_max + M_in) + bytes wanted; a node runs at most (w + 2)^(D - 1) times."""
    graph, reads = drawn
    part = Part(graph, simplified=False)
    tree, width = data.draw(trees(part))
    found = slow_simulation(graph, order := order_of(part, tree))
    per_level, wanted = terms(graph, reads, part, width, readers=1)
    assert found.peak <= tree.depth * per_level + wanted
    assert max(Counter(order).values()) <= (width + 2) ** (tree.depth - 1)


@MORE
@given(drawn=read_graphs(), data=st.data(), batch=batches)
def test_batches_hold_at_most_all_inputs_of_each_separator_on_the_way(drawn, data, batch):
    """(M): D (w + 1) (M_max + M_in) + bytes wanted; (L): a part is visited at most w + 2 times by each call above."""
    graph, reads = drawn
    part = Part(graph, simplified=False)
    tree, width = data.draw(trees(part))
    found = slow_simulation(graph, order := order_of(part, tree, batch))
    per_level, wanted = terms(graph, reads, part, width, readers=width + 1)
    assert found.peak <= tree.depth * per_level + wanted
    assert max(Counter(order).values()) <= (width + 2) ** (tree.depth - 1)


def terms(graph, reads, part, width, readers):
    """(w + 1) M_max + M_in for each of so many readers, and the bytes of the wanted nodes."""
    largest_inputs = max(sum(graph.memory[u] for u in row) for row in reads)
    return (width + 1) * graph.memory.max() + readers * largest_inputs, graph.memory[part.targets].sum()


def test_a_cap_on_batches_does_not_bound_what_waits_for_a_second_reader():
    """Eight nodes of one separator read 8 leaves each, the last four again those of the first four: 32 leaves wait.

    A batch that may bring nothing ahead keeps what was asked for and has a reader to come. So the peak is more than
    with one set of inputs for each level, D ((w + 1) M_max + M_in) + 1 = 2 (9 + 8) + 1 = 35.
    """
    leaves, readers = range(32), range(32, 40)
    reads = [*([] for _ in leaves), *([8 * (i % 4) + k for k in range(8)] for i in range(8)), readers]
    graph = graph_of(reads)
    star = [[*readers, 40], *([u, 32 + u // 8, 36 + u // 8] for u in leaves)]
    tree = SeparatorTree.balanced(TreeDecomposition.from_bags(star, [(0, i) for i in range(1, 33)]), 41)
    part = Part(graph, simplified=False)
    assert tree.depth == 2
    assert slow_simulation(graph, order_of(part, tree, batch=0)).peak == 32 + 4 + 1  # the fifth reader runs
    assert slow_simulation(graph, order_of(part, tree, PLAIN)).peak == 8 + 8  # the eighth: its inputs, the readers


@pytest.mark.parametrize("make", [ladder, skip_ladder])
@pytest.mark.parametrize("length", [8, 32, 128])
@pytest.mark.parametrize("batch", [UNLIMITED, 0])
def test_folded_graphs_grow_by_a_logarithm(make, length, batch):
    """(F): length <= n (1 + log2(b) / 4), peak <= (2 w + 2)(log2(b) + 1), for b bags of width w."""
    graph = make(length)
    part, path, tree = middle(graph)
    found = simulate(graph, part.schedule(tree, 1, batch, MANY))
    assert path.width == (2 if make is ladder else 3)
    assert found.compute <= graph.n_nodes * (1 + math.log2(path.n_bags) / 4)
    assert found.peak_memory <= (2 * path.width + 2) * (math.log2(path.n_bags) + 1)


def test_the_paths_of_ladders_are_as_long_and_as_high_as_this():
    found = {}
    for length in 8, 16, 32, 64:
        graph = ladder(length)
        part, _, tree = middle(graph)
        simulation = simulate(graph, part.schedule(tree, 1, UNLIMITED, MANY))
        found[length] = simulation.compute, simulation.peak_memory
    assert found == {8: (22, 7), 16: (47, 9), 32: (104, 11), 64: (233, 13)}


@pytest.mark.parametrize("strands", [4, 6])
def test_a_zigzag_multiplies_level_by_level(strands):
    """(L): to run two strands more a side is visited once more, on each level; 1 + s / 2 times for s strands."""
    lengths = []
    for positions in 8, 16, 32:
        graph = zigzag(strands, positions)
        reads = [set(graph.reads(v)) for v in range(graph.n_nodes)]
        part, path, tree = middle(graph)
        calls = []
        order = oracle.batched(
            reads, oracle.separator_tree(tree), {graph.n_nodes - 1}, graph.memory.tolist(), visits=calls
        )
        assert order == order_of(part, tree, UNLIMITED)
        most = max(len(readers) for _, row in calls for readers in row)
        assert most <= 1 + strands // 2 <= path.width + 2
        assert max(Counter(order).values()) <= most ** (tree.depth - 1)
        lengths.append(len(order) / graph.n_nodes)
    assert min(lengths[1] / lengths[0], lengths[2] / lengths[1]) > 1.25  # a ladder's rise by 0.2 each time


@pytest.mark.parametrize("length", [16, 24])
def test_ladders_come_near_the_optimum(length):
    """Measured up to length 64: at most 1.12 times the least compute at every limit that is reached."""
    graph = ladder(length)
    lowest = solve(graph, "least", solver="twremat").peak_memory
    assert 3 <= lowest <= 2 * math.log2(length)
    for limit in (lowest, lowest + 1, lowest + 3, length // 2):
        optimum = least_ladder_compute(length, limit)
        assert optimum <= solve(graph, limit, solver="twremat").simulation.compute <= 1.12 * optimum


# ---------------------------------------------------------------- nodes without bytes


def test_weightless_nodes_run_first_and_once():
    """0 and its cast 1 hold nothing; 4 rests on what holds something; 5 is an output."""
    graph = graph_of([[], [0], [], [1, 2], [3], [], [1, 3, 4]], memory=[0, 0, 1, 1, 0, 0, 1], output=[0] * 5 + [1, 1])
    part = Part(graph, simplified=True)
    assert (part.weightless.tolist(), part.nodes.tolist()) == ([0, 1], [2, 3, 4, 5, 6])
    for solver in SOLVERS:
        simplified = [each for each in list_candidates(graph, solver) if each.details.get("simplified", True)]
        assert all(each.schedule.order.tolist()[:2] == [0, 1] for each in simplified)


@MORE
@given(graph=graphs(max_nodes=9), data=st.data())
def test_what_runs_ahead_runs_once_and_holds_nothing(graph, data):
    part = Part(graph, simplified=True)
    tree, _ = data.draw(trees(part))
    order = order_of(part, tree)
    assert order[: part.weightless.size] == part.weightless.tolist()
    assert not set(order[part.weightless.size :]) & set(part.weightless.tolist())
    assert graph.node_memory[part.weightless].sum() == 0
    assert not set(graph.producer[graph.output]) & set(part.weightless.tolist())


# ---------------------------------------------------------------- options, limits, interrupts


def test_a_schedule_that_grows_too_long_is_given_up():
    graph = ladder(32)
    part, _, tree = middle(graph)
    longest = len(order_of(part, tree))
    assert part.schedule(tree, 1, PLAIN, longest // 2) is None
    assert len(part.schedule(tree, 1, PLAIN, longest)) == longest


@each_solver
def test_schedules_that_are_abandoned_are_counted(solver):
    graph = ladder(32)

    def counted(**options):
        clock = Clock()
        return list(SOLVERS[solver](graph, Task(), clock, **options)), clock.skipped.total()

    every, none = counted()
    assert none == 0
    some, n_skipped = counted(length_limit=1.5)
    assert 1 < len(some) < len(every)
    assert n_skipped > 0
    found, n_skipped = counted(recursion_limit=1, length_limit=1)
    assert not found
    assert n_skipped > 0


def test_of_long_schedules_all_are_made_from_the_best_trees_alone(monkeypatch):
    graph = ladder(32)
    monkeypatch.setattr("remat_algos.solvers.tuning.BEST_TREES", 6)
    for limit in (8, 12, 20):
        monkeypatch.setattr("remat_algos.solvers.tuning.ALL_TREES_STEPS", 0)
        few = list_candidates(graph, "twremat", limit)
        assert len(list_candidates(graph, "twremat")) > len(few)
        monkeypatch.setattr("remat_algos.solvers.tuning.ALL_TREES_STEPS", 10**9)
        every = list_candidates(graph, "twremat", limit)
        names = [frozenset(each.details.items()) for each in every]
        assert len(set(names)) == len(names) == len(list_candidates(graph, "twremat")) > len(few)
        assert {each.figures for each in few} <= {each.figures for each in every}
        best_few, best = (min(rank(each.figures, limit) for each in found) for found in (few, every))
        assert best_few[:2] <= (best[0], 1.1 * best[1])


@pytest.mark.parametrize(("batching", "said"), [(False, {"none"}), (True, {"unlimited", "zero", "largest"})])
def test_schedules_are_plain_or_in_batches_as_asked(batching, said):
    """All sizes are 1, so caps of an eighth and a half of the largest are no more than none."""
    part = Part(ladder(12), simplified=False)
    assert {name for _, name, _ in recursion._choices(part, 1, batching, varied=False)} == said
    for solver in SOLVERS:
        found = list_candidates(ladder(12), solver, recursion_limit=1, batching=batching)
        assert {each.details["batching"] for each in found} <= said


def test_the_seed_matters_to_the_orders_with_random_ties_alone():
    def candidates(graph, seed, orders):
        return list(SOLVERS["twremat"](graph, Task(seed=seed), Clock(), orders=orders))

    graph = differentiate(chain(24))
    first, second = (candidates(graph, seed, 3) for seed in (0, 1))
    assert [each.schedule.order.tolist() for each in first] == [each.schedule.order.tolist() for each in second]
    graph = differentiate(zigzag(6, 8))
    names = {each.details["order"] for each in candidates(graph, 7, 4)[1:]}
    assert names == {"fill", "degree", "density", "fill, seed 7"}


@each_solver
def test_one_pass_comes_before_any_tree(solver):
    graph = ladder(24)
    found = SOLVERS[solver](graph, Task(), Clock(0))
    assert next(found).schedule.order.tolist() == list(range(graph.n_nodes))
    with pytest.raises(OutOfTime):
        list(found)


def test_wishes_that_no_schedule_honours_are_named():
    graph = differentiate(chain(4))
    marked = replace(graph, mark=np.where(graph.forward, 2, 0), derivation=None)
    with pytest.raises(ScheduleError, match="twremat does not support this graph"):
        solve(marked, solver="twremat", raw=True)
