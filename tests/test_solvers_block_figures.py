"""Figures of one block of a canonical schedule, whatever the rest of the chain."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.blocks import BlockGraph

from remat_algos.errors import GraphError, ScheduleError
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward
from remat_algos.schedule.emission import canonical_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chain_program import UNUSABLE, block_figures
from remat_algos.structure.lower_sets import LowerSets, lower_set_family
from tests.raising import refused
from tests.strategies import graphs, lower_set_chains, rows, training_graphs

FLAGS = list(itertools.product((True, False), repeat=2))
ARRAYS = ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output")


@st.composite
def chained(draw, source):
    """A graph and a growing chain of lower sets of its forward part."""
    graph = draw(source)
    return graph, LowerSets.of(graph, draw(lower_set_chains(graph)))


@st.composite
def owned_by_anybody(draw):
    """Training graphs with wishes, and with gradients that belong to other nodes than `differentiate` says."""
    graph = draw(training_graphs(max_nodes=16))
    owner = graph.forward_of.copy()
    for b in np.flatnonzero(~graph.forward):
        if draw(st.integers(0, 3)) == 0:
            owner[b] = draw(st.sampled_from([-2, *np.flatnonzero(graph.forward).tolist()]))
    mark = [0 if graph.once[v] or owner[v] != -1 else draw(st.integers(0, 2)) for v in range(graph.n_nodes)]
    return ComputationGraph.from_arrays(
        **{name: getattr(graph, name) for name in ARRAYS}, forward_of=owner, mark=mark if draw(st.booleans()) else None
    )


@st.composite
def paths(draw):
    """f0 -> f1 -> .. whose gradients read what their node read."""
    n = draw(st.integers(1, 8))
    reads = [[v - 1] * (v > 0) for v in range(n)]
    sizes, costs = (draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)) for _ in range(2))
    rule = Backward(**rows("saved", reads), grad_memory=sizes, grad_compute=[-1] * n, grad_workspace=costs)
    return differentiate(
        ComputationGraph.from_arrays(**rows("read", reads), memory=sizes, compute=costs, backward=rule)
    )


def figures_of(graph, sets, **options):
    """Figures of the pairs of a chain."""
    words = np.vstack([np.zeros_like(sets.words[:1]), sets.words])
    k = len(sets)
    return block_figures(graph, words, [*range(k + 1), k], np.arange(1, k + 1), **options)


def promised(figures):
    """(peak, overhead) of the chain whose pairs these are."""
    before = np.cumsum(figures.cached) - figures.cached
    return int((before + figures.peak).max(initial=0)), int(figures.recompute.sum())


def simulated(graph, sets, **options):
    simulation = simulate(graph, canonical_schedule(graph, sets, **options))
    return simulation.peak_memory, simulation.overhead


# ---------------------------------------------------------------- the promise


def check(graph, sets, **options):
    """The law; True where the chain is of use. Where no order honours the marks there is nothing to simulate."""
    figures = figures_of(graph, sets, **options)
    if (figures.peak == UNUSABLE).any():
        return False
    try:
        peak, overhead = simulated(graph, sets, **options)
    except ScheduleError:
        return graph.mark is not None
    assert promised(figures)[0] >= peak
    assert promised(figures)[1] >= overhead
    return True


@given(chained(training_graphs() | graphs(max_nodes=10, min_nodes=1)))
def test_the_promise_is_never_below_the_simulation(decision):
    """A chain may be of no use; all of the forward part in one block never is."""
    graph, sets = decision
    whole = LowerSets.of(graph, [np.flatnonzero(graph.forward).tolist()])
    chains = (sets, whole)
    assert sum(check(graph, chain, keep_last=last, lazy=lazy) for chain in chains for last, lazy in FLAGS)


@given(chained(owned_by_anybody()))
def test_the_promise_holds_whoever_owns_the_gradients(decision):
    """A chain may be of no use, or go against marks; all of the forward part in one block never is."""
    graph, sets = decision
    whole = LowerSets.of(graph, [np.flatnonzero(graph.forward).tolist()])
    assert sum(check(graph, chain, lazy=lazy) for chain in (sets, whole) for lazy in (True, False))


@given(training_graphs())
def test_one_block_is_as_simulated(graph):
    sets = LowerSets.of(graph, [np.flatnonzero(graph.forward).tolist()])
    for keep_last, lazy in FLAGS:
        options = {"keep_last": keep_last, "lazy": lazy}
        assert promised(figures_of(graph, sets, **options)) == simulated(graph, sets, **options)
    kept = simulate(graph, np.flatnonzero(graph.needed))
    assert promised(figures_of(graph, sets, lazy=True)) == (kept.peak_memory, 0)


@given(chained(paths()))
def test_the_promise_of_a_path_is_what_is_simulated(decision):
    for keep_last, lazy in FLAGS:
        options = {"keep_last": keep_last, "lazy": lazy}
        assert promised(figures_of(*decision, **options)) == simulated(*decision, **options)


@st.composite
def families(draw, source):
    """A graph and some of its lower sets, by size, with all pairs of a set and one that holds it and more."""
    graph = draw(source)
    chains = [LowerSets.of(graph, draw(lower_set_chains(graph))).words for _ in range(draw(st.integers(1, 3)))]
    words = np.unique(np.vstack([np.zeros_like(chains[0][:1]), *chains]), axis=0)
    words = words[np.argsort(np.bitwise_count(words).sum(axis=1), kind="stable")]
    above = [[t for t in range(len(words)) if t != s and not (words[s] & ~words[t]).any()] for s in range(len(words))]
    return graph, words, np.cumsum([0, *map(len, above)]), np.concatenate(above).astype(int)


def pairs_of(indptr, target):
    return list(zip(np.repeat(np.arange(indptr.size - 1), np.diff(indptr)).tolist(), target.tolist(), strict=True))


@given(families(training_graphs(max_nodes=16) | owned_by_anybody()), st.data())
def test_figures_depend_on_the_pair_alone(family, data):
    graph, words, indptr, target = family
    figures = block_figures(graph, words, indptr, target, lazy=True)
    peaks, row = [], 0
    rows = [row]
    while indptr[row] < indptr[row + 1]:
        pair = data.draw(st.integers(int(indptr[row]), int(indptr[row + 1]) - 1))
        row = int(target[pair])
        rows.append(row)
        peaks.append(int(figures.peak[pair]))
    assert figures_of(graph, LowerSets(words[rows[1:]]), lazy=True).peak.tolist() == peaks


@pytest.mark.parametrize("lazy", [True, False])
@given(family=families(training_graphs() | owned_by_anybody()), shares=st.tuples(*[st.floats(0, 1)] * 2))
def test_pairs_beyond_the_bounds_are_left_out_and_no_others(lazy, family, shares):
    graph, words, indptr, target = family
    everything = block_figures(graph, words, indptr, target, lazy=lazy)
    known = everything.peak < UNUSABLE
    max_peak, max_recompute = (
        int(share * every[known].max(initial=0))
        for share, every in zip(shares, (everything.peak, everything.recompute), strict=True)
    )
    figures = block_figures(graph, words, indptr, target, lazy=lazy, max_peak=max_peak, max_recompute=max_recompute)
    within = known & (everything.peak <= max_peak) & (everything.recompute <= max_recompute)
    assert (figures.peak == np.where(within, everything.peak, UNUSABLE)).all()
    assert (figures.cached[within] == everything.cached[within]).all()
    assert (figures.recompute[within] == everything.recompute[within]).all()


@pytest.mark.parametrize("lazy", [True, False])
@given(family=families(training_graphs() | owned_by_anybody()), shares=st.tuples(*[st.floats(0, 1)] * 2))
def test_along_chains_the_blocks_before_count_too(lazy, family, shares):
    graph, words, indptr, target = family
    everything = block_figures(graph, words, indptr, target, lazy=lazy)
    known = everything.peak < UNUSABLE
    max_peak = int(shares[0] * 2 * everything.peak[known].max(initial=0))
    max_recompute = int(shares[1] * 2 * everything.recompute[known].max(initial=0))
    figures = block_figures(
        graph, words, indptr, target, lazy=lazy, max_peak=max_peak, max_recompute=max_recompute, chains=True
    )
    least = {0: (0, 0)}  # cached and run again before a set
    for (s, t), peak, cached, recompute, result in zip(
        pairs_of(indptr, target), everything.peak, everything.cached, everything.recompute, figures.peak, strict=True
    ):
        within = s in least and least[s][0] + peak <= max_peak and least[s][1] + recompute <= max_recompute
        assert result == (peak if within else UNUSABLE)
        if within:
            before = least.get(t, (UNUSABLE, UNUSABLE))
            least[t] = min(before[0], least[s][0] + cached), min(before[1], least[s][1] + recompute)


@pytest.mark.parametrize("lazy", [True, False])
@given(family=families(training_graphs(max_nodes=16) | owned_by_anybody()), piece=st.integers(1, 5))
def test_pieces_of_pairs_have_the_same_figures(lazy, family, piece):
    whole = block_figures(*family, lazy=lazy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remat_algos.solvers.tuning.PAIRS_PER_CHECK", piece)
        figures = block_figures(*family, lazy=lazy)
    assert (figures.peak == whole.peak).all()
    assert (figures.cached == whole.cached).all()
    assert (figures.recompute == whole.recompute).all()


# ---------------------------------------------------------------- by hand


def training(reads, saved, **arrays):
    """A training graph from what each node reads, and what its gradients read."""
    n_values = arrays["value_indptr"][-1] if "value_indptr" in arrays else len(reads)
    gradient = arrays.pop("grad_memory", arrays["memory"])
    rule = Backward(
        **rows("saved", saved), grad_memory=gradient, grad_compute=[0] * len(reads), grad_workspace=[0] * len(reads)
    )
    assert len(gradient) == n_values
    return differentiate(ComputationGraph.from_arrays(**rows("read", reads), backward=rule, **arrays))


def pair_figures(graph, source, target, **options):
    """(peak, cached, recompute) of the pair of two sets of nodes."""
    whole = np.flatnonzero(graph.forward & graph.needed).tolist()
    members = np.zeros((3, 64), np.uint8)
    for i, nodes in enumerate((source, target, whole)):
        members[i, nodes] = 1
    words = np.packbits(members, axis=1, bitorder="little").view(np.uint64)
    figures = block_figures(graph, words, [0, 1, 1, 1], [1], **options)
    return int(figures.peak[0]), int(figures.cached[0]), int(figures.recompute[0])


def test_the_block_in_the_middle_of_a_path():
    """a(1) -> b(2) -> c(4) -> d(8) -> e(16), gradients as large, each reads what its node read."""
    graph = training(
        [[], [0], [1], [2], [3]], [[], [0], [1], [2], [3]], memory=[1, 2, 4, 8, 16], compute=[1, 10, 100, 1000, 10000]
    )
    # forward: b, bc, cd, d: 12 at most. Backward, from grad(e) = 16: grad(d)@e is of the block and reads d (it is the
    # boundary, kept): d, grad(e), grad(d) = 32; then c from b from a (charged): b, grad(d); b, c, grad(d) = 14;
    # grad(c) reads c: b, c, grad(d), grad(c) = 18; grad(b) reads b: b, grad(c), grad(b) = 8.
    assert pair_figures(graph, [0], [0, 1, 2, 3], lazy=True) == (32, 8, 110)
    # as printed b and c run first: b, c, d, grad(e) = 30, then with grad(d) 38
    assert pair_figures(graph, [0], [0, 1, 2, 3], lazy=False) == (38, 8, 110)


def test_values_of_a_kept_node_stay_only_if_they_are_read_later():
    """s -> v -> r -> t, where v makes an output (4), which only r reads, and a statistic (1), for the gradient of s."""
    once = [False, True, False, False]
    graph = training(
        [[], [0], [1], [3]], [[], [2], [], []], value_indptr=[0, 1, 3, 4, 5], memory=[2, 4, 1, 8, 16], once=once
    )
    # of s, v and r the boundary is r (8); v runs once, and leaves its statistic (1)
    assert pair_figures(graph, [], [0, 1, 2], lazy=True)[1] == 8 + 1


def test_a_consumer_may_be_kept_or_run_again():
    """a(4) -> b(2) -> c(1), the gradient of b reads its output: where a block ends with a, it may have to run b."""
    graph = training([[], [0], [1]], [[], [1], []], memory=[4, 2, 1], compute=[10, 20, 30])
    # backward, from grad(b) = 2: b runs again: a, b, grad(b) = 8; then grad(a): b, grad(b), grad(a) = 8
    assert pair_figures(graph, [], [0], lazy=True) == (8, 4, 20)
    # b is run or kept; a chain with either is promised no less
    for chain in ([[0], [0, 1, 2]], [[0], [0, 1], [0, 1, 2]]):
        sets = LowerSets.of(graph, chain)
        assert promised(figures_of(graph, sets, lazy=True))[0] >= simulated(graph, sets)[0]


def gated(once=False):
    """a, p -> w -> z: the gradient of a reads the gate p, and p has none."""
    return training(
        [[], [], [0, 1], [2]],
        [[], [], [1], []],
        memory=[1, 2, 4, 8],
        grad_memory=[1, -1, 4, 8],
        once=[False, once, False, False],
    )


def test_what_no_later_block_is_sure_to_leave_makes_a_pair_no_use():
    assert pair_figures(gated(), [], [0], lazy=True) == (UNUSABLE, 0, 0)  # whether p is there, the chain must say
    assert pair_figures(gated(), [], [0], lazy=False)[0] < UNUSABLE  # as printed, the block of p runs it again
    assert pair_figures(gated(once=True), [], [0], lazy=True)[0] < UNUSABLE  # p is kept
    assert pair_figures(gated(), [], [0, 1], lazy=True)[0] < UNUSABLE  # p is on the boundary


def test_a_boundary_that_is_not_kept_makes_a_pair_no_use():
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)], mark=[0, 2, 0]))
    assert pair_figures(graph, [], [0, 1], lazy=True)[0] == UNUSABLE
    assert pair_figures(graph, [], [0], lazy=True)[0] < UNUSABLE


@pytest.mark.parametrize(
    ("words", "indptr", "target", "fault"),
    [
        ([[0, 0]], [0, 0], [], {"n_nodes": 6}),
        ([[0]], [0], [], {"what": "indptr", "actual": 1, "expected": 2}),
        ([[0]], [0, 1], [1], {"last": 0}),
    ],
)
def test_sets_and_pairs_must_fit(words, indptr, target, fault):
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    with refused(GraphError, fault):
        block_figures(graph, np.array(words, np.uint64), indptr, target, lazy=True)


@pytest.mark.parametrize(
    "name",
    [
        *("owner", "row", "row_indptr", "row_values", "upstream_indptr", "upstream_values", "owned_indptr"),
        *("owned_indices", "reader_indptr", "reader_indices", "claim_indptr", "claim_indices", "external_indptr"),
        *("runs", "fixed", "never", "awaited", "gradient_reads"),
    ],
)
def test_the_kernel_refuses_arrays_that_do_not_fit(monkeypatch, name):
    def one_shorter(graph, **arrays):
        return BlockGraph(graph, **{**arrays, name: arrays[name][:-1]})

    monkeypatch.setattr("remat_algos.solvers.chain_program.BlockGraph", one_shorter)
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    with pytest.raises(ValueError, match="has the length"):
        block_figures(graph, np.array([[0], [7]], np.uint64), [0, 1, 1], [1], lazy=True)


# ---------------------------------------------------------------- the authors' networks


def fits(figures, indptr, target, limit):
    """Whether some chain promises `limit`: least cache per set, which no path of more cache can better."""
    least = np.full(indptr.size - 1, UNUSABLE)
    least[0] = 0
    for source in range(least.size - 1):
        pairs = slice(indptr[source], indptr[source + 1])
        cached = least[source] + figures.cached[pairs]
        allowed = least[source] + figures.peak[pairs] <= limit
        np.minimum.at(least, target[pairs][allowed], cached[allowed])
    return least[-1] < UNUSABLE


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
@pytest.mark.parametrize(
    ("name", "family", "printed", "lazy"),
    [
        ("vgg19", "exact", 1644167168, 1233125376),
        ("resnet50", "exact", 899153920, 809238528),
        ("unet", "exact", 4206043136, 3639017472),
        ("googlenet", "wide", 333971456, 308281344),
    ],
)
def test_least_promise_of_the_authors_networks(shared_graphs, name, family, printed, lazy):
    """As printed, the least budget of the note's liveness-aware program (block simulated in the call model)."""
    graph = differentiate(read_graph(shared_graphs / f"{name}.nodes.csv"))
    sets = lower_set_family(graph, family)
    indptr, target = sets.pairs
    for is_lazy, least in ((False, printed), (True, lazy)):
        figures = block_figures(graph, sets.on_graph(), indptr, target, lazy=is_lazy, max_peak=least)
        assert fits(figures, indptr, target, least)
        assert not fits(figures, indptr, target, least - 1)
