"""Chen's three methods against the figures of the paper's algorithms, and the parts that they share."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.sharing import share_storage
from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import BudgetError, GraphError, GraphWarning
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels
from remat_algos.schedule.emission import baseline_peak, clamp_counts, mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.chen_greedy import Walk, exact_sweep, paper_grid
from remat_algos.solvers.methods.chen_greedy import _costs as chen_greedy_costs
from remat_algos.solvers.registry import Task, get_solver, list_candidates
from remat_algos.structure.cuts import Cutter, ForwardPart, candidate_places, segment_counts
from remat_algos.structure.lower_sets import single_boundary_chain
from tests.books import book
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import rows, training_graphs

SQUARES = [4, 9, 16, 25, 64, 100]
POOLING = [8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1] * 3


def forward_chain(n, memory=1, gradient=1, output=True, **arrays):
    """f0 -> f1 -> ..; a gradient reads what its node read and, with `output`, what it made."""
    saved = [[u for u in (v - 1,) if u >= 0] + [v] * output for v in range(n)]
    rule = Backward(**rows("saved", saved), grad_memory=[gradient] * n, grad_compute=[-1] * n, grad_workspace=[0] * n)
    reads = [[]] + [[v] for v in range(n - 1)]
    return ComputationGraph.from_arrays(**rows("read", reads), memory=memory, backward=rule, **arrays)


def chain(n, memory=1, gradient=1, output=True, **arrays):
    """The chain with its gradients; all sizes are 1, the cost of the gradients is 0."""
    return differentiate(forward_chain(n, memory, gradient, output, **arrays), factor=0)


def called_chain(n):
    """The other convention: a backward call reads what the forward node read and made; there is no seed."""
    reads = [[]] + [[v] for v in range(n - 1)]
    for v in reversed(range(n)):
        reads.append([2 * n - 2 - v] * (v < n - 1) + [v, v - 1][: 1 + (v > 0)])
    return ComputationGraph.from_arrays(
        **rows("read", reads), forward_of=[-1] * n + list(reversed(range(n))), compute=[1] * n + [0] * n
    )


def segment_ends(n):
    root = math.isqrt(n)
    return [str(v) for v in range(root - 1, n, root)]


def forward_runs(plan):
    return int(plan.simulation.runs[plan.graph.forward].sum())


def raw(graph, solver, budget=None, **options):
    plan = solve(graph, budget, solver=solver, raw=True, **options)
    assert slow_simulation(graph, plan.schedule.order).peak == plan.peak_memory
    return plan


def spoken(plan):
    """The order as the paper writes it."""
    n = int(plan.graph.forward.sum())
    return " ".join(f"f{v + 1}" if v < n else f"g{2 * n - v}" for v in plan.schedule.order)


# ---------------------------------------------------------------- chen2016, algorithm 1


@pytest.mark.parametrize(
    ("n", "runs", "peak", "forward_peak", "without", "inputs_only", "runs_with_last"),
    [
        (4, 6, 5, 3, 6, (4, 5), 5),
        (9, 15, 7, 5, 11, (6, 10), 13),
        (16, 28, 9, 7, 18, (8, 17), 25),
        (25, 45, 11, 9, 27, (10, 26), 41),
        (64, 120, 17, 15, 66, (16, 65), 113),
        (100, 190, 21, 19, 102, (20, 101), 181),
    ],
)
def test_segments_of_the_root_of_a_chain(n, runs, peak, forward_peak, without, inputs_only, runs_with_last):
    segments = {"segments": math.isqrt(n), "candidates": "all"}
    ends = {"at": segment_ends(n), "keep_last": False}
    graph, forward_only, saves_inputs = chain(n), chain(n, gradient=0), chain(n, output=False)

    kept = raw(graph, "chen_sqrt", keep_last=True, **segments)
    assert (forward_runs(kept), kept.peak_memory) == (runs_with_last, peak)
    dropped = raw(graph, "chen_sqrt", keep_last=False, **segments)
    assert dropped.peak_memory == peak
    assert forward_runs(dropped) == runs
    named = raw(graph, "chen_sqrt", **ends)
    assert (forward_runs(named), named.peak_memory) == (runs, peak) == (2 * n - math.isqrt(n), 2 * math.isqrt(n) + 1)

    assert baseline_peak(graph) == without == n + 2
    assert baseline_peak(saves_inputs) == inputs_only[1]
    for options in {**segments, "keep_last": True}, {**segments, "keep_last": False}, ends:
        assert raw(forward_only, "chen_sqrt", **options).peak_memory == forward_peak == 2 * math.isqrt(n) - 1
        assert raw(saves_inputs, "chen_sqrt", **options).peak_memory == inputs_only[0]
        assert forward_runs(raw(saves_inputs, "chen_sqrt", **options)) == forward_runs(
            raw(graph, "chen_sqrt", **options)
        )


@pytest.mark.parametrize("n", SQUARES)
def test_segments_of_the_root_of_a_chain_in_the_other_convention(n):
    graph = called_chain(n)
    assert raw(graph, "chen_sqrt", at=segment_ends(n), keep_last=False).peak_memory == 2 * math.isqrt(n)
    assert baseline_peak(graph) == n + 1


@pytest.mark.parametrize("n", SQUARES)
def test_sqrt_is_the_rounded_root(n):
    for size in n - 1, n, n + 1:
        plan = raw(chain(size), "chen_sqrt", segments="sqrt", candidates="all")
        assert plan.details["segments"] == round(math.sqrt(size))


def test_the_last_segment_is_kept_by_default_where_that_is_better():
    assert [raw(chain(n), "chen_sqrt", segments="sqrt").details["keep_last"] for n in SQUARES] == [True] * len(SQUARES)


def test_the_kept_nodes_of_a_chain_give_the_papers_order():
    plan = raw(chain(5), "chen_sqrt", at=["2", "4"], keep_last=False)
    assert spoken(plan) == "f1 f2 f3 f4 f5 g5 f4 g4 g3 f1 f2 g2 g1"


def test_mirror_counts_of_a_chain_give_the_papers_order():
    schedule = mirror_schedule(chain(4), [2, 1, 0, 1, 0, 0, 0, 0])
    order = " ".join(f"f{v + 1}" if v < 4 else f"g{8 - v}" for v in schedule.order)
    assert order == "f1 f2 f3 f4 f4 g4 g3 f1 f2 g2 f1 g1"


def test_under_a_limit_every_number_of_segments_is_tried():
    graph = chain(16)
    cheapest = {}
    for k, last in itertools.product(range(1, 17), (True, False)):
        plan = raw(graph, "chen_sqrt", segments=k, candidates="all", keep_last=last)
        cheapest[plan.peak_memory] = min(plan.simulation.compute, cheapest.get(plan.peak_memory, 10**9))
    for limit in range(min(cheapest), baseline_peak(graph) + 1):
        plan = raw(graph, "chen_sqrt", limit, candidates="all")
        assert plan.simulation.compute == min(compute for peak, compute in cheapest.items() if peak <= limit)
    with pytest.raises(BudgetError) as error:
        raw(graph, "chen_sqrt", min(cheapest) - 1, candidates="all")
    assert error.value.reached == min(cheapest)


def test_one_segment_is_everything_kept_or_everything_again():
    assert raw(chain(5), "chen_sqrt", segments=1, keep_last=True).overhead == 0
    assert forward_runs(raw(chain(5), "chen_sqrt", segments=1, keep_last=False)) == 9


# ---------------------------------------------------------------- the user's own cuts


def named(n=6, **arrays):
    return chain(n, labels=Labels(names=tuple("abcdefghij"[:n])), **arrays)


def test_cuts_fall_after_the_named_nodes():
    plan = raw(named(), "chen_sqrt", at=["b", "d"])
    again = [plan.graph.labels[v] for v in np.flatnonzero(plan.simulation.runs > 1)]
    assert again == ["a", "c"]
    assert plan.details["at"] == ["b", "d"]
    assert plan.options == {"at": ["b", "d"]}


def test_neither_order_nor_repetition_of_the_names_matters():
    wanted = raw(named(), "chen_sqrt", at=["b", "d"]).schedule.order.tolist()
    for at in ["d", "b"], ("b", "d", "b"):
        assert raw(named(), "chen_sqrt", at=at).schedule.order.tolist() == wanted


def test_a_value_or_a_view_names_the_node_that_makes_it():
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0], [2], [3]]),
        value_indptr=[0, 1, 3, 4, 5],
        labels=Labels(names=tuple("abcd"), value_names={2: "mask"}, views={"flat": "mask"}),
    )
    wanted = raw(differentiate(graph), "chen_sqrt", at=["b"]).schedule.order.tolist()
    for name in "mask", "flat":
        assert raw(differentiate(graph), "chen_sqrt", at=[name]).schedule.order.tolist() == wanted


def test_no_cut_is_one_segment():
    assert raw(named(), "chen_sqrt", at=[], keep_last=True).overhead == 0


def test_a_name_that_is_no_node_is_told_its_neighbours():
    graph = chain(3, labels=Labels(names=("conv1", "conv2", "loss")))
    with pytest.raises(GraphError, match="conv2 or conv1"):
        raw(graph, "chen_sqrt", at=["conv3"])


@pytest.mark.parametrize("name", ["grad(c)", "unread"])
def test_a_cut_after_what_is_no_needed_forward_node_is_refused(name):
    graph = ComputationGraph.from_arrays(
        **rows("read", [[], [0], [1], [0]]),
        output=[False, False, True, False],
        labels=Labels(names=("a", "b", "c", "unread")),
    )
    with raises(GraphError, name=name):
        raw(differentiate(graph), "chen_sqrt", at=[name])


# ---------------------------------------------------------------- where cuts may fall


def naive_articulations(graph):
    """Places of the forward part after which one value alone is still to be read."""
    g = plain(graph)
    needed = g.needed()
    part = [v for v in g.forward() if v in needed]
    found = []
    for place in range(len(part)):
        before, after = part[: place + 1], part[place + 1 :]
        alive = {x for v in after for x in g.reads[v] if g.producer[x] in before}
        if len(alive) == 1:
            found.append(place)
    return found


@given(training_graphs(max_nodes=20))
def test_candidates_are_the_articulation_values_or_everywhere(graph):
    part = ForwardPart.of(graph)
    assert candidate_places(part, "articulation").tolist() == naive_articulations(graph)
    assert candidate_places(part, "all").tolist() == list(range(part.nodes.size))


@given(training_graphs(max_nodes=16))
def test_without_candidates_both_kinds_are_tried(graph):
    for solver in "chen_sqrt", "chen_greedy", "chen_recursive":
        kinds = [raw(graph, solver, "least", candidates=kind) for kind in ("articulation", "all")]
        assert raw(graph, solver, "least").peak_memory == min(plan.peak_memory for plan in kinds)


def naive_cuts(memory, places, begin, end, segments):
    """For each multiple of the memory / segments, in turn, the first candidate that reaches it."""
    total, found = sum(memory[begin:end]), []
    for j in range(1, segments):
        for place in places:
            if begin <= place < end and segments * sum(memory[begin : place + 1]) >= j * total:
                if place not in found:
                    found.append(place)
                break
    return found


@given(st.data())
def test_cuts_fall_at_the_first_candidate_that_reaches_each_multiple(data):
    memory = data.draw(st.lists(st.integers(0, 5), max_size=12))
    places = sorted(data.draw(st.sets(st.integers(0, max(len(memory) - 1, 0))))) if memory else []
    begin = data.draw(st.integers(0, len(memory)))
    end = data.draw(st.integers(begin, len(memory)))
    segments = data.draw(st.integers(1, 14))
    cuts = Cutter(memory, places).cuts(begin, end, segments)
    assert cuts.tolist() == naive_cuts(memory, places, begin, end, segments)


@pytest.mark.parametrize(("memory", "cut"), [([2**50 + 1, 2**50, 1], 0), ([2**50, 2**50 + 1, 1], 1)])
def test_cuts_are_exact_beyond_the_floats(memory, cut):
    assert Cutter(memory, range(3)).cuts(0, 3, 2).tolist() == [cut]


@given(st.lists(st.integers(0, 2**48), min_size=1, max_size=12), st.integers(1, 10**4) | st.integers(1, 2**31))
def test_cuts_are_exact_for_real_sizes_and_any_number_of_segments(memory, segments):
    reached, total, j, wanted = 0, sum(memory), 1, []
    for place, size in enumerate(memory):
        reached += size
        if j < segments and reached * segments >= j * total:
            wanted.append(place)
            j = reached * segments // total + 1 if total else segments
    assert Cutter(memory, range(len(memory))).cuts(0, len(memory), segments).tolist() == wanted


@given(training_graphs(max_nodes=20), st.data())
def test_a_cut_keeps_what_is_alive_across_it(graph, data):
    g, part = plain(graph), ForwardPart.of(graph)
    nodes = part.nodes.tolist()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(nodes) - 1))))
    keep_last = data.draw(st.booleans())
    kept = {nodes[cut] for cut in cuts} | set(nodes[(cuts[-1] + 1 if cuts else 0) :] if keep_last else [])
    for cut in cuts:
        kept |= {u for v in nodes[cut + 1 :] for u in g.predecessors(v) if u in nodes[: cut + 1]}
    count = segment_counts(part, cuts, keep_last)
    assert [v for v in nodes if count[v] == 0] == sorted(kept)
    assert set(count.tolist()) <= {0, 1}


# ---------------------------------------------------------------- chen2016, section 4.4


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
    depth = n.bit_length()
    options = {"splits": 1, "depth": depth, "candidates": "all", "keep_last": False}
    plan = raw(chain(n), "chen_recursive", **options)
    assert plan.peak_memory == peak == depth + 2
    assert forward_runs(plan) == runs == (depth + 1) * 2 ** (depth - 1) - 1
    assert raw(chain(n, gradient=0), "chen_recursive", **options).peak_memory == forward_peak == depth
    count = book("chen_recursion").mirror_counts(n, 1).tolist()
    assert sum(count) + n == bound
    assert plan.schedule.order.tolist() == mirror_schedule(chain(n), count + [0] * n).order.tolist()


def test_depth_one_is_one_row_of_segments():
    for k in 1, 2, 3, 5:
        once = raw(chain(24), "chen_recursive", splits=k, depth=1, candidates="all", keep_last=False)
        row = raw(chain(24), "chen_sqrt", segments=k + 1, candidates="all", keep_last=False)
        assert once.overhead == row.overhead + 1  # which keeps the end of its last segment, too


def test_more_depth_than_there_is_changes_nothing():
    plans = [raw(chain(15), "chen_recursive", splits=1, depth=d, candidates="all") for d in (4, 5, 40)]
    assert len({tuple(plan.schedule.order.tolist()) for plan in plans}) == 1


def test_under_a_limit_every_shape_is_tried():
    graph = chain(12)
    shapes = itertools.product(range(1, 13), range(1, 5), (True, False))
    plans = [raw(graph, "chen_recursive", splits=k, depth=d, candidates="all", keep_last=last) for k, d, last in shapes]
    least = min(plan.peak_memory for plan in plans)
    assert raw(graph, "chen_recursive", "least", candidates="all").peak_memory == least
    for limit in range(least, baseline_peak(graph) + 1):
        cheapest = min(plan.simulation.compute for plan in plans if plan.peak_memory <= limit)
        assert raw(graph, "chen_recursive", limit, candidates="all").simulation.compute == cheapest


# ---------------------------------------------------------------- chen2016, algorithm 3

UNITS = ([1] * 8, range(8))
MIXED = ([4, 1, 1, 4, 1, 1, 4, 1, 1, 2], range(10))
THIRDS = (MIXED[0], [2, 5, 8])


@pytest.mark.parametrize(
    ("graph", "budget", "x", "y", "kept", "tail"),
    [
        (UNITS, 0, 8, 1, list(range(8)), 0),
        (UNITS, 2, 2, 3, [2, 5], 2),
        (UNITS, 3, 2, 4, [3, 7], 0),
        (UNITS, 8, 0, 0, [], 8),
        (MIXED, 0, 20, 4, list(range(10)), 0),
        (MIXED, 3, 14, 6, [0, 3, 6, 9], 0),
        (MIXED, 8, 6, 10, [3, 9], 0),
        (MIXED, 12, 4, 16, [6], 4),
        (MIXED, 20, 0, 0, [], 20),
        (THIRDS, 0, 3, 6, [2, 5, 8], 2),
        (THIRDS, 6, 1, 12, [5], 8),
        (THIRDS, 12, 1, 18, [8], 2),
        (THIRDS, 20, 0, 0, [], 20),
    ],
)
def test_the_greedy_walk(graph, budget, x, y, kept, tail):
    memory, places = graph
    found = Walk(memory, places).segmentation(budget)
    assert (found.x, found.y, found.cuts) == (x, y, kept)
    assert sum(memory[(kept[-1] + 1 if kept else 0) :]) == tail
    assert (x, y, kept) == greedy(memory, set(places), budget)


def greedy(memory, candidates, budget):
    """Algorithm 3 as it is printed: (x, y, nodes that are kept)."""
    candidate = np.isin(np.arange(len(memory)), list(candidates))
    x, y, m = book("chen_algorithm_3").algorithm_3(np.array(memory, np.int64), candidate, budget)
    return x, y, np.flatnonzero(m == 0).tolist()


walks = st.lists(st.integers(0, 6), max_size=14).flatmap(
    lambda memory: st.tuples(
        st.just(memory), st.sets(st.sampled_from(range(len(memory)))) if memory else st.just(set())
    )
)


@given(walks, st.integers(0, 90) | st.floats(0, 90))
def test_the_walk_is_the_printed_algorithm(walk, budget):
    memory, candidates = walk
    found = Walk(memory, sorted(candidates)).segmentation(budget)
    assert (found.x, found.y, found.cuts) == greedy(memory, candidates, budget)


@given(walks)
def test_the_exact_sweep_meets_every_distinct_plan_once(walk):
    memory, candidates = walk
    found, kind = exact_sweep(Walk(memory, sorted(candidates)), 10**6, 10)
    plans = [tuple(segmentation.cuts) for segmentation in found]
    wanted = {tuple(greedy(memory, candidates, budget)[2]) for budget in range(sum(memory) + 1)}
    assert kind == "exact"
    assert len(plans) == len(set(plans))
    assert set(plans) == wanted


@pytest.mark.parametrize(
    ("memory", "middle", "six", "least", "budgets", "without"),
    [
        ([1] * 64, 8, [15, 15, 15, 15, 15, 16], 15, range(5, 11), 64),
        ([1] * 100, 10, [19, 19, 19, 19, 19, 20], 19, range(7, 13), 100),
        (POOLING, 30.59, [44, 46, 41, 41, 40, 55], 32, [17], 117),
    ],
)
def test_the_papers_grid_and_the_exact_sweep(memory, middle, six, least, budgets, without):
    graph = chain(len(memory), memory=memory, gradient=0)
    part, walk = ForwardPart.of(graph), Walk(memory, range(len(memory)))

    def peak(segmentation):
        return simulate(graph, mirror_schedule(graph, segment_counts(part, segmentation.cuts, False))).peak_memory

    first, estimate, *grid = paper_grid(walk)
    assert first.budget == 0
    assert estimate.budget == math.sqrt(first.x * first.y) == pytest.approx(middle, abs=0.01)
    assert [grid[0].budget, grid[-1].budget] == pytest.approx([middle / math.sqrt(2), middle * math.sqrt(2)], abs=0.01)
    ratios = [after.budget / before.budget for before, after in itertools.pairwise(grid)]
    assert ratios == pytest.approx([ratios[0]] * 5)
    assert [peak(segmentation) for segmentation in grid] == six

    found, kind = exact_sweep(walk, 2000, 100)
    assert kind == "exact"
    assert [s.budget for s in found if peak(s) == least] == [b for b in budgets if b in {s.budget for s in found}]
    assert {peak(walk.segmentation(budget)) for budget in budgets} == {least}
    assert min(map(peak, found)) == least
    assert baseline_peak(graph) == without

    options = {"candidates": "all", "keep_last": False}
    assert raw(graph, "chen_greedy", "least", **options).peak_memory == least
    searched = [peak(segmentation) for segmentation in (first, estimate, *grid)]
    assert raw(graph, "chen_greedy", grid="paper", **options).peak_memory == min(searched)


def test_the_grid_of_a_graph_without_memory_is_one_plan():
    plan = raw(chain(5, memory=0, gradient=0), "chen_greedy", grid="paper", candidates="all")
    assert plan.peak_memory == 0


# ---------------------------------------------------------------- chen2016, appendix A: plans by their allocation

UNEVEN = [6, 5, 3, 3, 1, 1, 1, 2]  # the lowest peak and the smallest allocation are of different plans


def static_size(simulation):
    return share_storage(Buffers.of(simulation, find_overwrites(simulation))).size


@pytest.mark.parametrize("budget", [None, "least"])
def test_the_papers_rule_takes_the_smallest_allocation_in_place_of_the_lowest_peak(budget):
    graph = differentiate(ComputationGraph.from_edges(itertools.pairwise(range(len(UNEVEN))), memory=UNEVEN))
    by_peak = raw(graph, "chen_greedy", budget)
    by_allocation = raw(graph, "chen_greedy", budget, rank_by="allocation")
    assert (by_peak.peak_memory, static_size(by_peak.simulation)) == (22, 29)
    assert (by_allocation.peak_memory, static_size(by_allocation.simulation)) == (22, 27)
    assert by_allocation.details["allocation"] == 27
    assert "allocation" not in by_peak.details


@given(training_graphs(max_nodes=12), st.sampled_from(["articulation", "all"]), st.booleans())
def test_appendix_a_is_searched_as_it_is_printed(graph, kind, keep_last):
    """B = 0, sqrt(x y), and six budgets around it, each plan allocated, the smallest taken, then the least compute."""
    part = ForwardPart.of(graph)
    memory, places = part.memory.tolist(), set(candidate_places(part, kind).tolist())
    x, y, _ = greedy(memory, places, 0)
    middle = math.sqrt(x * y)
    sized = []
    for budget in (0, middle, *(middle / math.sqrt(2) * 2 ** (i / 5) for i in range(6))):
        counts = segment_counts(part, greedy(memory, places, budget)[2], keep_last)
        simulation = simulate(graph, mirror_schedule(graph, clamp_counts(graph, counts)))
        sized.append((static_size(simulation), simulation.compute))
    options = {"grid": "paper", "rank_by": "allocation", "candidates": kind, "keep_last": keep_last}
    for budget in None, "least":
        plan = raw(graph, "chen_greedy", budget, **options)
        assert (static_size(plan.simulation), plan.simulation.compute) == min(sized)


@given(training_graphs(max_nodes=12))
def test_under_a_limit_both_the_peak_and_the_allocation_fit(graph):
    plans = [
        (max(found.figures[0], static_size(found.simulation)), found.figures[1])
        for found in list_candidates(graph, "chen_greedy")
    ]
    for limit in {size for size, _ in plans}:
        plan = raw(graph, "chen_greedy", limit, rank_by="allocation")
        assert max(plan.peak_memory, static_size(plan.simulation)) <= limit
        assert plan.simulation.compute <= min(compute for size, compute in plans if size <= limit)


# ---------------------------------------------------------------- chen2016, section 4.3: the cost of operations

COSTLY = [100 if v % 4 == 0 else 1 for v in range(16)]


def greedy_beside(memory, candidates, held, budget):
    """Algorithm 3 where some nodes are kept for their cost and weigh nothing in a segment: (x, y, cuts)."""
    temp = y = 0
    x, cuts = sum(memory[v] for v in held), []
    for v, size in enumerate(memory):
        temp += 0 if v in held else size
        if v in candidates and temp > budget:
            x, y, temp = x + (0 if v in held else size), max(y, temp), 0
            cuts.append(v)
    return x, y, cuts


@given(walks, st.data())
def test_what_is_kept_for_its_cost_weighs_nothing_in_a_segment(walk, data):
    memory, candidates = walk
    held = data.draw(st.sets(st.sampled_from(range(len(memory))))) if memory else set()
    flags = np.array([v in held for v in range(len(memory))], bool)
    found, kind = exact_sweep(Walk(memory, sorted(candidates), flags), 10**6, 10)
    assert kind == "exact"
    for segmentation in found:
        wanted = greedy_beside(memory, candidates, held, segmentation.budget)
        assert (segmentation.x, segmentation.y, segmentation.cuts) == wanted
    plans = {tuple(greedy_beside(memory, candidates, held, budget)[2]) for budget in range(sum(memory) + 1)}
    assert {tuple(segmentation.cuts) for segmentation in found} == plans


def test_time_consuming_operations_are_kept_and_cheap_ones_run_again():
    graph = chain(16, compute=COSTLY)
    plan = raw(graph, "chen_greedy", "80%", weigh_cost=True)
    again = set(np.flatnonzero(plan.simulation.runs > 1).tolist())
    assert again
    assert all(COSTLY[v] == 1 for v in again)
    assert plan.details["cost"] == 100
    blind = raw(graph, "chen_greedy", "80%")
    assert blind.overhead > 10 * plan.overhead
    assert "cost" not in blind.details


@given(training_graphs(max_nodes=16))
def test_weighing_cost_never_makes_a_plan_worse(graph):
    points = [
        [found.figures for found in list_candidates(graph, "chen_greedy", weigh_cost=weigh)] for weigh in (False, True)
    ]
    for peak, compute in points[0]:
        assert any(p <= peak and c <= compute for p, c in points[1])
    for limit in {peak for peak, _ in points[1]}:
        cheapest = min(c for p, c in points[1] if p <= limit)
        assert raw(graph, "chen_greedy", limit, weigh_cost=True).simulation.compute == cheapest


def test_where_all_costs_are_alike_there_is_nothing_to_weigh():
    graph = chain(25)
    plain_one, weighed = (raw(graph, "chen_greedy", weigh_cost=weigh) for weigh in (False, True))
    assert (weighed.peak_memory, weighed.overhead) == (plain_one.peak_memory, plain_one.overhead)


def test_costs_are_thinned_to_sixteen():
    graph = chain(40, compute=range(1, 41))
    part = ForwardPart.of(graph)
    costs = chen_greedy_costs(graph, part)
    assert (len(costs), costs[0][0], costs[-1][0]) == (16, 1, 40)
    assert [int(costly.sum()) for _, costly in costs] == [41 - int(cost) for cost, _ in costs]


# ---------------------------------------------------------------- all options

one_to_four = st.none() | st.integers(1, 4)
kinds = st.sampled_from([None, "articulation", "all"])
last = st.none() | st.booleans()
OPTIONS = {
    "chen_sqrt": st.fixed_dictionaries({"segments": one_to_four, "candidates": kinds, "keep_last": last})
    | st.fixed_dictionaries({"candidates": st.just("boundary1"), "keep_last": last, "unit": st.integers(1, 5)}),
    "chen_greedy": st.fixed_dictionaries(
        {
            "grid": st.sampled_from(["exact", "paper"]),
            "rank_by": st.sampled_from(["peak", "allocation"]),
            "candidates": kinds,
            "keep_last": last,
            "weigh_cost": st.booleans(),
        }
    ),
    "chen_recursive": st.fixed_dictionaries(
        {"splits": one_to_four, "depth": one_to_four, "candidates": kinds, "keep_last": last}
    ),
}


@pytest.mark.parametrize("solver", OPTIONS)
@given(data=st.data(), graph=training_graphs(max_nodes=18))
def test_whatever_the_options_the_schedule_is_sound(solver, data, graph):
    options = data.draw(OPTIONS[solver])
    for budget in None, "least", Budget(overhead="50%"):
        plan = solve(graph, budget, solver=solver, **options)
        slow = slow_simulation(graph, plan.schedule.order)
        assert (plan.peak_memory, plan.overhead) == (slow.peak, slow.overhead)
        assert plan.peak_memory <= baseline_peak(graph)


@pytest.mark.parametrize("solver", OPTIONS)
@given(data=st.data(), graph=training_graphs(max_nodes=18))
def test_backward_nodes_run_once(solver, data, graph):
    plan = raw(graph, solver, **data.draw(OPTIONS[solver]))
    assert (plan.simulation.runs[~graph.forward] <= 1).all()


# ---------------------------------------------------------------- long sweeps


def test_a_sweep_past_the_cap_is_thinned_and_says_so(monkeypatch):
    graph = chain(40, memory=[1 + v % 7 for v in range(40)])
    exact = list_candidates(graph, "chen_greedy", candidates="all")
    assert {found.details["sweep"] for found in exact} == {"exact"}
    monkeypatch.setattr("remat_algos.solvers.tuning.LONGEST_ROW", 10)
    monkeypatch.setattr("remat_algos.solvers.methods.chen_greedy.longest_row", lambda graph: 10)
    thin = list_candidates(graph, "chen_greedy", candidates="all")
    assert {found.details["sweep"] for found in thin} == {"thinned"}
    assert len(thin) <= 2 * (10 + 1) < len(exact)
    assert min(found.figures for found in thin) >= min(found.figures for found in exact)


def test_a_thinned_sweep_grows_geometrically():
    walk = Walk([1] * 1000, range(1000))
    found, kind = exact_sweep(walk, 100, 20)
    budgets = [segmentation.budget for segmentation in found]
    assert kind == "thinned"
    assert (budgets[0], budgets[1], budgets[-1]) == (0, 1, 1000)
    assert budgets == sorted(set(budgets))
    ratios = [after / before for before, after in itertools.pairwise(budgets[8:])]
    assert max(ratios) / min(ratios) < 1.2


@pytest.mark.parametrize("exact_share", [0.0, 0.4])
def test_a_sweep_cut_by_the_deadline_leaves_segmentations_spread_over_all_budgets(monkeypatch, exact_share):
    walk = Walk([1] * 1000, range(1000))
    clock = Clock(100)
    now = itertools.count(clock.started, 100 / 60)  # looked at before every step
    monkeypatch.setattr("remat_algos.context.time.monotonic", lambda: next(now))
    found, kind = exact_sweep(walk, 1000, 100, clock.share(exact_share))
    budgets = [segmentation.budget for segmentation in found]
    assert kind == "thinned"
    assert budgets == sorted(set(budgets))
    assert budgets[0] == 0
    assert budgets[-1] == 1000
    assert (len(budgets) == 2) == (exact_share == 0)
    assert len(budgets) < 60


def test_without_time_there_is_one_walk_and_one_candidate():
    graph, clock = chain(30), Clock(0)
    stream = get_solver("chen_greedy").candidates(graph, Task(), clock, {"weigh_cost": True})
    assert len(next(stream).schedule) == graph.n_nodes
    with pytest.raises(OutOfTime):
        next(stream)


@pytest.mark.parametrize("limit", [None, 7])
def test_a_deadline_leaves_the_smallest_allocation_so_far(limit):
    stream = get_solver("chen_greedy").candidates(chain(30), Task(limit), Clock(0), {"rank_by": "allocation"})
    assert next(stream).details["allocation"] > 0
    with pytest.raises(OutOfTime):
        next(stream)


@pytest.mark.parametrize("limit", [None, 7])
def test_an_interrupt_leaves_the_smallest_allocation_so_far(limit):
    def stop_in_the_middle(done, total, what):
        if done > 500:
            raise KeyboardInterrupt

    clock = Clock(progress=stop_in_the_middle)
    stream = get_solver("chen_greedy").candidates(chain(30), Task(limit), clock, {"rank_by": "allocation"})
    assert next(stream).details["allocation"] > 0
    with pytest.raises(KeyboardInterrupt):
        list(stream)


@pytest.mark.parametrize("solver", ["chen_sqrt", "chen_recursive"])
def test_sweeps_over_segments_and_shapes_keep_to_the_cap(monkeypatch, solver):
    graph = chain(60)
    whole = list_candidates(graph, solver, candidates="all")
    monkeypatch.setattr(f"remat_algos.solvers.methods.{solver}.longest_row", lambda graph: 8)
    told = []
    clock = Clock(progress=lambda *news: told.append(news))
    thin = list(get_solver(solver).candidates(graph, Task(), clock, {"candidates": "all"}))
    assert len(told) == 16  # each with and without the last segment
    assert len(thin) <= 16 < len(whole)


# ---------------------------------------------------------------- real networks

NETWORKS = ["vgg19", "unet", "resnet50", "googlenet"]


@pytest.fixture(scope="module")
def networks(shared_graphs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # columns that are not ours
        return {name: differentiate(read_graph(shared_graphs / f"{name}.nodes.csv")) for name in NETWORKS}


@pytest.mark.parametrize(
    ("name", "peak"),
    [("vgg19", 2_132_279_296), ("unet", 7_803_387_904), ("resnet50", 3_468_165_120), ("googlenet", 871_841_804)],
)
def test_peaks_of_real_networks_without_rematerialization(networks, name, peak):
    assert baseline_peak(networks[name]) == peak
    assert raw(networks[name], "no_remat").peak_memory == peak


@pytest.mark.parametrize(
    ("name", "share", "bound"),
    [("vgg19", 0.5784, True), ("unet", 0.4452, False), ("resnet50", 0.200, False), ("googlenet", 0.3537, True)],
)
def test_least_peaks_of_real_networks(networks, name, share, bound):
    graph = networks[name]
    plan = solve(graph, "least", effort="fast")
    assert plan.peak_memory <= share * baseline_peak(graph)
    if bound:
        with pytest.raises(BudgetError) as error:
            solve(graph, plan.peak_memory - 1, effort="fast")
        assert error.value.lower_bound == plan.peak_memory == error.value.reached


@pytest.mark.parametrize(("name", "overhead"), [("resnet50", 0.1295), ("unet", 0.241), ("googlenet", 0.119)])
def test_overhead_of_real_networks_at_half_the_memory(networks, name, overhead):
    graph = networks[name]
    plan = solve(graph, "50%", effort="fast")
    assert plan.peak_memory <= baseline_peak(graph) // 2
    assert plan.overhead <= overhead * graph.needed_compute


# Sizes in the units of the lower-set authors' program: its formula (1), its plan, run again in our order.
@pytest.mark.parametrize(
    ("name", "unit", "formula", "peak", "runs_again"),
    [
        ("vgg19", 100, 166, 1_669_857_280, 139),
        ("unet", 1000, 220, 7_491_887_104, 220),
        ("resnet50", 100, 647, 1_130_364_928, 652),
        ("googlenet", 100, 654, 565_166_092, 656),
    ],
)
def test_single_boundary_cuts_of_real_networks(networks, name, unit, formula, peak, runs_again):
    graph = networks[name]
    assert single_boundary_chain(graph, unit=unit).overhead(graph) == formula
    plan = raw(graph, "chen_sqrt", candidates="boundary1", unit=unit, keep_last=False)
    assert (plan.peak_memory, plan.overhead) == (peak, runs_again)
    assert plan.peak_memory < baseline_peak(graph)


@pytest.mark.parametrize("name", NETWORKS)
def test_single_boundary_cuts_are_one_plan_that_keeps_the_last_block(networks, name):
    graph = networks[name]
    plan = raw(graph, "chen_sqrt", candidates="boundary1")
    assert plan.details["keep_last"] is True
    assert plan.overhead <= raw(graph, "chen_sqrt", candidates="boundary1", keep_last=False).overhead
    assert plan.overhead < graph.compute[graph.forward].sum()
    within = raw(graph, "chen_sqrt", plan.peak_memory, candidates="boundary1")
    assert (within.peak_memory, within.overhead) <= (plan.peak_memory, plan.overhead)
