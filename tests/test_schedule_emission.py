"""From decisions to an order: mirror counts, kept nodes, lower sets, and the unrolled graph."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, ScheduleError
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident
from remat_algos.schedule.emission import canonical_schedule, checkpoint_schedule, clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import unroll
from remat_algos.structure.lower_sets import LowerSets, single_boundary_chain
from tests.oracles import emitter, lower_sets
from tests.oracles.emitter import boundary
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises, refused
from tests.strategies import captured_graphs, graphs, lower_set_chains, orders, rows, subsets, training_graphs

FLAGS = list(itertools.product((True, False), repeat=2))
any_graph = training_graphs() | captured_graphs() | graphs(max_nodes=10)


def graph_of(reads, **arrays):
    """A graph from what each node reads, as lists of values."""
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


@st.composite
def mirrored(draw, source=any_graph):
    """A graph and how often its nodes may run again."""
    graph = draw(source)
    return graph, [0 if once else draw(st.integers(0, 3)) for once in graph.once.tolist()]


@st.composite
def halved(draw):
    """A graph and some of its nodes."""
    graph = draw(any_graph)
    return graph, set(draw(subsets(range(graph.n_nodes))))


@st.composite
def chained(draw, source=any_graph):
    """A graph and a growing chain of lower sets of its forward part."""
    graph = draw(source)
    return graph, draw(lower_set_chains(graph))


def flags(nodes, n):
    return [v in nodes for v in range(n)]


# ---------------------------------------------------------------- against the oracle


@given(mirrored())
def test_mirror_counts_give_the_oracles_order(decision):
    graph, m = decision
    assert mirror_schedule(graph, m).order.tolist() == emitter.mirror(graph, m)


@given(halved())
def test_kept_nodes_give_the_oracles_order(decision):
    graph, kept = decision
    order = checkpoint_schedule(graph, flags(kept, graph.n_nodes)).order.tolist()
    assert order == emitter.checkpoint(graph, kept)


@pytest.mark.parametrize(("keep_last", "lazy"), FLAGS)
@given(decision=chained())
def test_lower_sets_give_the_oracles_order(keep_last, lazy, decision):
    graph, chain = decision
    schedule = canonical_schedule(graph, LowerSets.of(graph, chain), keep_last=keep_last, lazy=lazy)
    assert schedule.order.tolist() == emitter.canonical(graph, chain, keep_last, lazy)


def readers(graph, v):
    """The forward nodes whose gradients read a value of v."""
    made, own = set(graph.values(v)), graph.forward_of.tolist()
    return [own[u] for u in range(graph.n_nodes) if own[u] >= 0 and not made.isdisjoint(graph.reads(u))]


def across_blocks():
    """Nodes 0 and 1 are read by 7 and 4; the gradient of 1, in the first block, reads 4, which the second keeps."""
    reads = {"read_indptr": [0, 0, 0, 0, 0, 1, 1, 1, 3], "read_indices": [1, 4, 0]}
    forward = ComputationGraph.from_arrays(**reads, output=[v not in (0, 1, 4) for v in range(8)])
    return differentiate(forward), [{1, 2, 3, 5, 6}, {1, 2, 3, 4, 5, 6}, set(range(8))]


@given(chained())
@example(across_blocks())
def test_lower_sets_give_sound_schedules(decision):
    graph, chain = decision
    g, sets = plain(graph), LowerSets.of(graph, chain)
    kept, block = sets.kept(graph), sets.on(graph).block
    for keep_last, lazy in FLAGS:
        order = canonical_schedule(graph, sets, keep_last=keep_last, lazy=lazy).order.tolist()
        assert slow_simulation(graph, order).overhead >= 0
        again = {v for v in order if order.count(v) > 1}
        assert again <= {v for v in g.forward() if not g.once[v]}
        # to the paper's letter what is kept is dropped with its block, and made again if gradients before it read it
        dropped = {v for v in again if kept[v]}
        assert not (dropped and lazy)
        assert all(any(block[w] < block[v] for w in readers(graph, v)) for v in dropped)
        assert set(order) == g.needed()


@given(any_graph)
def test_keeping_everything_is_the_run_in_id_order(graph):
    wanted = np.flatnonzero(graph.needed).tolist()
    whole = [set(plain(graph).forward())] if plain(graph).forward() else []
    assert checkpoint_schedule(graph, np.ones(graph.n_nodes, bool)).order.tolist() == wanted
    assert mirror_schedule(graph, np.zeros(graph.n_nodes, int)).order.tolist() == wanted
    assert canonical_schedule(graph, LowerSets.of(graph, whole)).order.tolist() == wanted


# ---------------------------------------------------------------- algorithm 2, level by level


def level_by_level(graph, m):
    """chen2016, algorithm 2 as the paper builds it: the runs in order, each (node, copy), and what each reads.

    At level k every node with m(v) >= k gets copy k, which reads the newest copies of its predecessors at that moment;
    a gradient reads the newest of all; in order of the gradients, each is put down after those of its ancestors that
    are not there yet.
    """
    g = plain(graph)
    needed = g.needed()
    reads, newest = {}, {}
    for level in range(1 + max((m[v] for v in g.forward()), default=0)):
        for v in g.forward():
            if m[v] >= level:
                # a pinned value is there from its first run
                reads[v, level] = [(u, 0) if x in g.outputs else newest[u] for x, u in inputs(g, v)]
                newest[v] = (v, level)
    for v in g.backward():
        reads[v, 0] = [(u, 0) if g.is_backward(u) or x in g.outputs else newest[u] for x, u in inputs(g, v)]
    order = [(v, 0) for v in g.forward() if v in needed]

    def put(run):
        if run not in order:
            for source in reads[run]:
                put(source)
            order.append(run)

    for v in g.backward():
        if v in needed:
            put((v, 0))
    return order, reads


def inputs(g, v):
    return [(x, g.producer[x]) for x in g.reads[v]]


@given(mirrored(training_graphs(max_nodes=18)))
def test_the_order_is_that_of_the_papers_construction(decision):
    graph, m = decision
    order, _ = level_by_level(graph, m)
    assert mirror_schedule(graph, m).order.tolist() == [v for v, _ in order]


@given(mirrored(training_graphs(max_nodes=18)))
def test_the_mirrored_graph_has_the_papers_copies_and_their_reads(decision):
    """Of what is read: the value is the same whichever copy gives it, the newest run does."""
    graph, m = decision
    order, _ = level_by_level(graph, m)
    unrolled = unroll(graph, mirror_schedule(graph, m))
    assert unrolled.n_nodes == len(order) == len(set(order))
    step = {run: i for i, run in enumerate(order)}
    g, mirror = plain(graph), plain(unrolled)
    for (v, _), i in step.items():
        sources = [(mirror.producer[x], u) for x, u in zip(mirror.reads[i], g.predecessors(v), strict=True)]
        assert all(j < i and order[j][0] == u for j, u in sources)


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_copies_that_nobody_reads_are_not_run(count):
    """The first copy of 0 feeds the copy of 1, the last one the gradient of 0; those between have no reader."""
    graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    assert mirror_schedule(graph, [count, 1, 0, 0, 0, 0]).order.tolist() == [0, 1, 2, 3, 0, 1, 4, 0, 5]


# ---------------------------------------------------------------- chen2016 on chains


def chain(n, gradient=1, output=True):
    """f1 -> .. -> fn and its gradients; they weigh `gradient`, and read what their node read and, if asked, made."""
    saved = [[v - 1] * (v > 0) + [v] * output for v in range(n)]
    rule = Backward(**rows("saved", saved), grad_memory=[gradient] * n, grad_compute=[-1] * n, grad_workspace=[0] * n)
    return differentiate(graph_of([[v - 1] * (v > 0) for v in range(n)], backward=rule))


def segment_ends(n):
    root = math.isqrt(n)
    return set(range(root - 1, n, root))


def runs_and_peak(graph, order):
    """(forward computations, peak) by the oracle."""
    return sum(v < graph.n_nodes // 2 for v in order), slow_simulation(graph, order).peak


def peaks(n, kept, **options):
    graph = chain(n, **options)
    return runs_and_peak(graph, checkpoint_schedule(graph, flags(kept, graph.n_nodes)).order.tolist())


# Square-root segments with their ends kept. The notes' row "other convention" is of another rule for gradients (a
# backward call of f_v reads f_v and f_(v-1), and there is no seed), which differentiate does not make.
@pytest.mark.parametrize(
    ("n", "runs", "peak", "forward_peak", "without", "inputs_peak", "inputs_without", "runs_with_last"),
    [
        (4, 6, 5, 3, 6, 4, 5, 5),
        (9, 15, 7, 5, 11, 6, 10, 13),
        (16, 28, 9, 7, 18, 8, 17, 25),
        (25, 45, 11, 9, 27, 10, 26, 41),
        (64, 120, 17, 15, 66, 16, 65, 113),
        (100, 190, 21, 19, 102, 20, 101, 181),
    ],
)
def test_square_root_segments_of_a_chain(
    n, runs, peak, forward_peak, without, inputs_peak, inputs_without, runs_with_last
):
    ends, last = segment_ends(n), set(range(n - math.isqrt(n), n))
    everything = set(range(2 * n))
    assert runs == 2 * n - math.isqrt(n)
    assert peaks(n, ends) == (runs, peak)
    assert peaks(n, ends, gradient=0) == (runs, forward_peak)
    assert peaks(n, everything) == (n, without)
    assert peaks(n, ends, output=False) == (runs, inputs_peak)
    assert peaks(n, everything, output=False) == (n, inputs_without)
    assert peaks(n, ends | last) == (runs_with_last, peak)


def split_depths(begin, end, depth=0):
    """Depth of each node of a chain in the balanced tree that splits it in the middle."""
    if begin == end:
        return []
    middle = (begin + end) // 2
    return [*split_depths(begin, middle, depth + 1), depth, *split_depths(middle + 1, end, depth + 1)]


@pytest.mark.parametrize(
    ("n", "forward_peak", "peak", "runs", "bound"),
    [
        (3, 2, 4, 5, 5),
        (7, 3, 5, 15, 17),
        (15, 4, 6, 39, 49),
        (31, 5, 7, 95, 129),
        (63, 6, 8, 223, 321),
        (127, 7, 9, 511, 769),
    ],
)
def test_recursive_halves_of_a_chain(n, forward_peak, peak, runs, bound):
    m = split_depths(0, n) + [0] * n
    assert sum(m) + n == bound
    assert runs_and_peak(chain(n), mirror_schedule(chain(n), m).order.tolist()) == (runs, peak)
    light = chain(n, gradient=0)
    assert runs_and_peak(light, mirror_schedule(light, m).order.tolist()) == (runs, forward_peak)


def test_a_long_chain_takes_no_recursion():
    n = 20000
    graph = chain(n)
    order = checkpoint_schedule(graph, np.arange(2 * n) == n - 1).order
    assert order.size == 3 * n - 1


# ---------------------------------------------------------------- errors and wishes


@pytest.mark.parametrize(
    ("m", "fault"),
    [
        ([0, 0, -1, 0, 0, 0], {"name": "c", "count": -1}),
        ([0, 1, 0, 0, 0, 0], {"name": "b", "count": 1}),
        ([2**31, 0, 0, 0, 0, 0], "the mirror counts add up to 2**31 runs or more; lower them"),
        ([2**62, 0, 2**62, 0, 0, 0], "the mirror counts add up to 2**31 runs or more; lower them"),
        ([0, 0, 0], {"what": "mirror_count", "actual": 3, "expected": 6}),
        ([0.5, 0, 0, 0, 0, 0], {"what": "mirror_count", "at": 0, "array": 0.5}),
        ([[0] * 6], {"what": "mirror_count", "ndim": 2}),
    ],
)
def test_mirror_counts_that_cannot_be(m, fault):
    with refused(GraphError, fault):
        mirror_schedule(once_in_the_middle(), m)


def once_in_the_middle():
    """a -> b -> c, b once, and the gradients."""
    return differentiate(graph_of([[], [0], [1]], once=[0, 1, 0], labels=Labels(names=("a", "b", "c"))))


def test_counts_of_backward_nodes_say_nothing():
    graph = once_in_the_middle()
    wanted = mirror_schedule(graph, [1, 0, 1, 0, 0, 0]).order.tolist()
    assert mirror_schedule(graph, [1, 0, 1, 5, -1, 2**40]).order.tolist() == wanted


@pytest.mark.parametrize("kept", [[True] * 5, [0, 1, 2, 0, 0, 0], [[True] * 6]])
def test_kept_nodes_are_flags_of_all_nodes(kept):
    with raises(GraphError, what="kept"):
        checkpoint_schedule(once_in_the_middle(), kept)


def test_once_nodes_are_kept_in_every_form():
    graph = once_in_the_middle()
    for schedule in (
        checkpoint_schedule(graph, [False] * 6),
        *(canonical_schedule(graph, LowerSets.of(graph, [[0, 1, 2]]), keep_last=k, lazy=z) for k, z in FLAGS),
    ):
        assert schedule.order.tolist().count(1) == 1


def test_counts_are_bent_to_what_the_graph_demands():
    graph = graph_of([[], [0], [1], [2]], once=[1, 0, 0, 0], mark=[0, 1, 2, 2])
    assert clamp_counts(graph, np.array([3, 3, 0, 3])).tolist() == [0, 0, 1, 3]


@given(st.data())
def test_what_marks_demand_of_counts_satisfies_the_simulator(data):
    graph = data.draw(training_graphs(max_nodes=14))
    wishes = [data.draw(st.sampled_from([0, 1])) for _ in range(graph.n_nodes)]
    graph = ComputationGraph.from_arrays(**arrays(graph), mark=wishes)
    m = clamp_counts(graph, np.array([data.draw(st.integers(0, 2)) for _ in range(graph.n_nodes)]))
    assert simulate(graph, mirror_schedule(graph, m)).overhead >= 0


def arrays(graph):
    names = ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output")
    return {name: getattr(graph, name) for name in (*names, "forward_of", "resident")}


# ---------------------------------------------------------------- the unrolled graph


@given(st.data())
def test_the_unrolled_graph_costs_and_holds_what_the_schedule_does(data):
    graph = data.draw(graphs(max_nodes=10) | training_graphs(max_nodes=14) | captured_graphs(max_nodes=14))
    order = data.draw(orders(graph))
    unrolled, simulation = unroll(graph, Schedule(order)), simulate(graph, order)
    once_each = simulate(unrolled, np.arange(unrolled.n_nodes))
    assert unrolled.n_nodes == len(order)
    assert once_each.memory_trace.tolist() == simulation.memory_trace.tolist()
    assert (once_each.peak_memory, once_each.compute) == (simulation.peak_memory, simulation.compute)
    assert unrolled.resident_memory == graph.resident_memory
    assert sorted(plain(unrolled).memory) == sorted(int(graph.memory[x]) for v in order for x in graph.values(v))
    assert [bool(flag) for flag in unrolled.forward] == [bool(graph.forward[v]) for v in order]
    assert [unrolled.labels.op(i) for i in range(len(order))] == [graph.labels.op(v) for v in order]


def test_runs_are_numbered_and_read_the_newest_copy_of_an_output_the_first():
    graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    unrolled = unroll(graph, Schedule.from_names(graph, "ABAAC"))
    assert unrolled.labels.names == ("A", "B", "A#1", "A#2", "C")
    assert unrolled.reads(4) == [3, 1]
    pinned = unroll(graph_of([[], [0]], output=[True, True]), Schedule([0, 0, 1]))
    assert pinned.output.tolist() == [True, False, True]
    assert pinned.reads(2) == [0]
    with pytest.raises(ScheduleError, match="before it has been computed"):
        unroll(graph, Schedule([1, 0]))


def test_the_number_of_a_run_does_not_clash_with_a_name():
    graph = graph_of([[], [0], [0]], labels=Labels(names=("a", "a#1", "b")))
    unrolled = unroll(graph, Schedule([0, 1, 0, 2]))
    assert len(set(unrolled.labels.names)) == 4


def test_gradients_belong_to_the_first_run_of_their_node_if_it_runs():
    training = unroll(differentiate(graph_of([[], [0]])), Schedule([0, 1, 2, 0, 3]))
    assert training.forward_of.tolist() == [-1, -1, 1, -1, 0]
    graph = graph_of([[], [], [1], [2]], forward_of=[-1, -1, 1, 0], output=[False, False, False, True])
    unrolled = unroll(graph, Schedule([1, 2, 3]))
    assert unrolled.n_nodes == 3
    assert not unrolled.forward[1:].any()


def test_residents_are_read_by_every_run():
    graph = graph_of([[], [0]], resident=Resident([5, 7], [0, 1], [0, 2, 3], [0, 1, 1], ("x", "p")))
    unrolled = unroll(graph, Schedule([0, 0, 1]))
    assert [unrolled.resident.reads(v) for v in range(3)] == [[0, 1], [0, 1], [1]]
    assert unrolled.resident.names == ("x", "p")


# ---------------------------------------------------------------- lower sets


@given(chained())
def test_blocks_and_kept_nodes_of_lower_sets(decision):
    graph, chain = decision
    g, sets = plain(graph), LowerSets.of(graph, chain)
    assert len(sets) == len(chain)
    block = sets.blocks(graph).tolist()
    for v in g.nodes:
        assert block[v] == next((i for i, lower_set in enumerate(chain) if v in lower_set), -1)
    wanted = {v for lower_set in chain for v in boundary(g, lower_set)}
    assert set(np.flatnonzero(sets.kept(graph)).tolist()) == wanted


def total(amounts, nodes):
    return sum(amounts[v] for v in nodes)


@given(chained())
def test_overhead_of_lower_sets_is_formula_1(decision):
    """kusumoto2019, formula (1): T(V minus U_k), and its sum over blocks."""
    graph, chain = decision
    g = plain(graph)
    segments = [after - before for before, after in itertools.pairwise([set(), *chain])]
    kept = {v for lower_set in chain for v in boundary(g, lower_set)}
    overhead = LowerSets.of(graph, chain).overhead(graph)
    assert overhead == total(g.compute, set().union(*chain) - kept)
    by_block = [total(g.compute, v_i - boundary(g, l_i)) for v_i, l_i in zip(segments, chain, strict=True)]
    assert overhead == sum(by_block)


def diamond():
    """0 -> 1 -> 3, 0 -> 2 -> 3, and the gradients."""
    return differentiate(graph_of([[], [0], [0], [1, 2]]))


@pytest.mark.parametrize(
    ("sets", "fault"),
    [
        ([], {"name": "0"}),
        ([[0, 1]], {"name": "2"}),
        ([[0, 1], [0, 2, 1]], {"name": "3"}),
        ([[1], [0, 1, 2, 3]], {"name": "1", "read": "0", "block": 0}),
        ([[0], [0, 1, 3], [0, 1, 2, 3]], {"name": "3", "read": "2", "block": 1}),
        ([[0], [0], [0, 1, 2, 3]], {"row": 1}),
        ([[0, 1], [0, 2], [0, 1, 2, 3]], {"row": 1}),
        ([[], [0, 1, 2, 3]], {"row": 0}),
        ([[0, 1, 2, 3, 99]], {"i": 0}),
        ([[0], [-1, 0]], {"i": 1}),
        ([range(8)], {"name": "grad(3)"}),
    ],
)
def test_laws_of_lower_sets(sets, fault):
    with refused(GraphError, fault):
        LowerSets.of(diamond(), sets)


def test_lower_sets_of_another_graph_do_not_fit():
    sets = LowerSets.of(diamond(), [[0, 1, 2, 3]])
    large = chain(100)
    for use in (sets.blocks, sets.kept, sets.overhead, sets.peak, lambda graph: canonical_schedule(graph, sets)):
        with raises(GraphError, shape=1, n_nodes=200):
            use(large)


def test_words_of_lower_sets_are_rows_and_cannot_be_written():
    with pytest.raises(GraphError, match="rows of 64-bit words"):
        LowerSets(np.zeros(3, np.uint64))
    source = np.array([[1], [3]], np.uint64)
    sets = LowerSets(source)
    source[:] = 0
    assert sets.words.tolist() == [[1], [3]]
    assert not sets.words.flags.writeable


def test_nodes_that_are_not_needed_may_stay_outside():
    graph = graph_of([[], [0], [0]], output=[False, True, False])
    assert len(LowerSets.of(graph, [[0], [0, 1]])) == 2
    assert canonical_schedule(graph, LowerSets.of(graph, [[0], [0, 1]])).order.tolist() == [0, 1]


def test_the_empty_graph_has_the_empty_chain():
    graph = graph_of([])
    sets = LowerSets.of(graph, [])
    assert (len(sets), sets.overhead(graph), sets.peak(graph)) == (0, 0, 0)
    assert canonical_schedule(graph, sets).order.tolist() == []


def test_more_than_a_word_of_nodes():
    graph = chain(100)
    sets = LowerSets.of(graph, [range(64), range(65), range(100)])
    assert np.flatnonzero(sets.kept(graph)).tolist() == [63, 64]
    wanted = emitter.canonical(graph, [set(range(64)), set(range(65)), set(range(100))])
    assert canonical_schedule(graph, sets).order.tolist() == wanted


# ---------------------------------------------------------------- the square-root baseline of the lower-set authors


@given(training_graphs())
def test_the_single_boundary_chain_is_a_chain_of_lower_sets(graph):
    g, sets = plain(graph), single_boundary_chain(graph)
    block = sets.blocks(graph).tolist()
    wanted = {v for v in g.forward() if v in g.needed()}
    assert {v for v in g.nodes if block[v] >= 0} == wanted
    for i in range(len(sets) - 1):
        outside = {v for v in wanted if block[v] > i}
        assert len({u for v in outside for u in g.predecessors(v)} - outside) <= 1


@given(training_graphs(), st.integers(1, 4))
def test_the_single_boundary_chain_is_that_of_the_oracle(graph, unit):
    wanted = lower_sets.single_boundary_chain(lower_sets.forward(graph), unit)
    assert single_boundary_chain(graph, unit=unit).sets(graph) == [sorted(lower_set) for lower_set in wanted]


@pytest.mark.parametrize(
    ("memory", "unit", "ends"),
    [
        ([1] * 8, 1, [2, 4, 6, 7]),  # seven boundaries, so three segments of 8 // 3 bytes
        ([1] * 7, 1, [3, 6]),  # six, so two segments of 7 // 2
        ([1, 1, 0], 1, [1, 2]),  # two of one byte: 2 bytes pass the first multiple, 1 byte does not
        ([1, 0, 0], 1, [2]),  # a step is a byte at least
        ([1] * 8, 2, [7]),  # of sizes below the unit nothing is left
        ([9, 1, 1, 1], 1, [0, 3]),  # 12 // 2: the first is past its multiple, and no other past the next
        ([8, 1, 1, 1, 1, 0, 0, 0], 1, [0, 1, 7]),  # 12 // 3: behind 8, the second multiple, 9 has passed it
        ([9, 1, 1, 1, 0, 0, 0, 0], 1, [0, 7]),  # behind 9 the third is next
        ([4, 3, 3, 1], 1, [1, 3]),  # 11 // 2: at 7 the second multiple is next, which 10 does not pass
    ],
)
def test_where_the_single_boundary_chain_of_a_path_is_cut(memory, unit, ends):
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(len(memory) - 1)], memory=memory)
    assert [lower_set[-1] for lower_set in single_boundary_chain(graph, unit=unit).sets(graph)] == ends


def test_a_lower_set_beside_the_last_cut_is_passed_over():
    """{1} passes the second multiple of 8 // 3 bytes, but it does not hold {0}."""
    edges = [(0, 2), *((v, v + 1) for v in range(1, 7))]
    graph = ComputationGraph.from_edges(edges, memory=[3, 5, 0, 0, 0, 0, 0, 0])
    assert single_boundary_chain(graph).sets(graph) == [[0], [0, 1, 2], list(range(8))]


def test_an_empty_forward_part_has_no_chain():
    with pytest.raises(GraphError, match="the forward part is empty; there is no chain of lower sets"):
        single_boundary_chain(graph_of([]))


@pytest.mark.parametrize(
    ("name", "unit", "overhead", "peak"),
    [
        ("vgg19", 100, 166, 1746927616),
        ("unet", 1000, 220, 7803387904),
        ("resnet50", 100, 647, 1130364928),
        ("googlenet", 100, 654, 565166092),
    ],
)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_published_graphs_have_their_published_square_root_plans(shared_graphs, name, unit, overhead, peak):
    """kusumoto2019's "Chen": T by formula (1), and the peak of what is run, in the order of the tables."""
    graph = differentiate(read_graph(shared_graphs / f"{name}.nodes.csv"))
    sets = single_boundary_chain(graph, unit=unit)
    assert sets.overhead(graph) == overhead
    assert simulate(graph, canonical_schedule(graph, sets, keep_last=False, lazy=False)).peak_memory == peak


def test_gradients_of_a_node_that_never_runs_are_emitted_in_some_block():
    """`differentiate` makes no such graph, a file may: the owner of a needed gradient need not be needed."""
    graph = ComputationGraph.from_arrays(
        read_indptr=[0, 0, 1, 2, 3],
        read_indices=[0, 0, 2],
        output=[False, False, False, True],
        forward_of=[-1, -1, 1, 0],
    )
    schedule = canonical_schedule(graph, LowerSets.of(graph, [[0]]))
    assert slow_simulation(graph, schedule.order.tolist()).peak == 2
