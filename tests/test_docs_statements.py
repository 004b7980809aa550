"""Statements of the tutorials and theory pages, with their conditions, played on random graphs."""

import functools
import itertools
import json
import math
import re
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.solvers.registry import list_candidates
from remat_algos.structure.elimination import elimination_of
from tests import strategies
from tests.oracles import chains, copies, elimination, live_sets, lower_sets, offsets, pools, twremat
from tests.oracles.plain import plain
from tests.test_schedule_copies import random_graph

DOCS = Path(__file__).parent.parent / "docs"
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=3)


def chain(sizes, costs=1):
    """A chain of layers of these sizes and costs, with gradients."""
    edges = [(i, i + 1) for i in range(len(sizes) - 1)]
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, memory=list(sizes), compute=costs))


def segments(sizes, lengths):
    """The run of tutorial 1: kept are the last layer of each segment, and the whole last one."""
    ends = [*itertools.accumulate(lengths)]
    kept = [*(end - 1 for end in ends[:-1]), *range(ends[-1] - lengths[-1], ends[-1])]
    graph = chain(sizes)
    return ra.simulate(graph, ra.what_if(graph, keep=kept))


@st.composite
def single_valued(draw, min_nodes=2, row=False):
    """A random graph of up to seven nodes that are all needed, with one value each; in a row each reads the last."""
    n = draw(st.integers(min_nodes, 7))
    edges = [(u, v) for v in range(1, n) for u in range(v) if draw(st.booleans()) or (row and u == v - 1)]
    numbers = st.lists(st.integers(1, 9), min_size=n, max_size=n)
    return ra.ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0, *(sum(w == v for _, w in edges) for v in range(n))]),
        read_indices=[u for u, _ in edges],
        memory=draw(numbers),
        compute=draw(numbers),
    )


@st.composite
def segmented(draw, equal=False):
    """Sizes of two layers or more, and lengths of segments."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda each: sum(each) > 1))
    size = st.just(1) if equal else st.integers(1, 9)
    return draw(st.lists(size, min_size=sum(lengths), max_size=sum(lengths))), lengths


@given(case=segmented(equal=True))
def test_chains_rules_1_and_2_equal_layers(case):
    sizes, lengths = case
    n = len(sizes)
    assert ra.simulate(chain(sizes), range(2 * n)).peak_memory == n + 2
    run = segments(sizes, lengths)
    assert run.peak_memory == max(i + length + 2 for i, length in enumerate(lengths))
    assert len(run.schedule) - 2 * n == sum(length - 1 for length in lengths[:-1])


@given(case=segmented())
def test_chains_rule_4_layers_of_any_size(case):
    sizes, lengths = case
    sums, begin, kept = [], 0, 0
    for length in lengths:
        for v in range(max(1, begin), begin + length):
            sums.append(kept + sum(sizes[begin : v + 1]) + sizes[v] + sizes[v - 1])
        begin += length
        kept += sizes[begin - 1]
    assert segments(sizes, lengths).peak_memory == max(sums)


@pytest.mark.parametrize(("k", "d"), [(1, 2), (1, 3), (1, 4), (1, 5), (2, 2), (2, 3), (3, 2)])
def test_chains_rule_3_and_recursion_on_d_levels(k, d):
    n = (k + 1) ** d - 1
    options = {"splits": k, "depth": d, "candidates": "all", "keep_last": True}
    plan = ra.solve(chain([1] * n), solver="chen_recursive", raw=True, **options)
    assert plan.peak_memory == k * d + 2  # g of the theorem, and two gradients
    assert len(plan.schedule) - n == d * k * (k + 1) ** (d - 1)


def test_chains_rules_are_about_two_layers_and_more():
    assert ra.simulate(chain([1]), range(2)).peak_memory == 2


@given(k=st.integers(1, 5), length=st.integers(1, 5))
def test_root_n_equal_segments(k, length):
    assume(k * length > 1)
    run = segments([1] * (k * length), [length] * k)
    assert run.peak_memory == k + length + 1
    assert len(run.schedule) - 2 * k * length == (k - 1) * (length - 1)


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_lower_sets_rule_1_forks(lengths):
    last, pairs, v = sum(lengths) + 1, [], 0
    for length in lengths:
        pairs += itertools.pairwise([0, *range(v + 1, v + length + 1), last])
        v += length
    family = ra.structure.lower_set_family(ra.ComputationGraph.from_edges(pairs))
    assert len(family) == 2 + prod(length + 1 for length in lengths)


@given(data=st.data(), graph=single_valued())
def test_lower_sets_rule_2_overhead(data, graph):
    training, part = ra.differentiate(graph), lower_sets.forward(graph)
    sets = data.draw(strategies.lower_set_chains(graph))
    kept = {*lower_sets.kept(part, sets), *lower_sets.blocks(sets)[-1]}
    run = ra.simulate(training, ra.what_if(training, keep=sorted(kept)))
    assert run.overhead == lower_sets.overhead(part, sets, keep_last=True)
    assert np.flatnonzero(run.runs > 1).tolist() == sorted(part.nodes - kept)


def test_lower_sets_rule_2_is_about_gradients_that_read_all():
    """No gradient reads a value, so the first of two blocks does not run again."""
    saved = strategies.rows("saved", [[]] * 4)
    backward = ra.ir.Backward(**saved, grad_memory=[1] * 4, grad_compute=[-1] * 4, grad_workspace=[0] * 4)
    forward = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], backward=backward)
    training = ra.differentiate(forward)
    assert ra.simulate(training, ra.what_if(training, recompute=[0])).overhead == 0


@given(graph=single_valued())
def test_lower_sets_counts_and_both_sides_of_formula_1(graph):
    part = lower_sets.forward(graph)
    sets = lower_sets.all_lower_sets(part)
    assert graph.n_nodes <= len(sets) - 1 < len(sets) <= 2**graph.n_nodes
    for each in itertools.islice(lower_sets.chains(part, sets), 20):
        by_blocks = sum(
            part.compute(block - part.boundary(lower_set))
            for block, lower_set in zip(lower_sets.blocks(each), each, strict=True)
        )
        assert by_blocks == part.compute(part.nodes - lower_sets.kept(part, each))


@st.composite
def branches(draw):
    """Chains without a common node, and a last node that reads their ends: graph, nodes of each branch, sizes."""
    sizes = draw(st.lists(SIZES, min_size=1, max_size=3))
    ends = [*itertools.accumulate(map(len, sizes), initial=0)]
    nodes = [range(a, b) for a, b in itertools.pairwise(ends)]
    edges = [edge for each in nodes for edge in itertools.pairwise([*each, ends[-1]])]
    memory = [*itertools.chain(*sizes), draw(st.integers(1, 9))]
    return ra.ComputationGraph.from_edges(edges, memory=memory), nodes, memory


@given(case=branches())
def test_search_rule_1_branches_one_after_another(case):
    graph, nodes, memory = case
    peaks, results = [], [memory[each[-1]] for each in nodes]
    for each in nodes:
        # A node of a chain is live with the node that it reads.
        peaks.append(max(memory[v] + (memory[v - 1] if v > each[0] else 0) for v in each))
    by_rule = sorted(range(len(nodes)), key=lambda i: results[i] - peaks[i])
    found = {}
    for order in itertools.permutations(range(len(nodes))):
        ids = [*itertools.chain(*(nodes[i] for i in order)), graph.n_nodes - 1]
        found[order] = ra.simulate(graph, ids).peak_memory
        before = [sum(results[j] for j in order[:place]) for place in range(len(order))]
        sums = [live + peaks[i] for live, i in zip(before, order, strict=True)]
        assert found[order] == max(*sums, sum(results) + memory[-1])
    assert found[tuple(by_rule)] == min(found.values())


def test_search_rule_1_is_about_branches_that_are_not_interleaved():
    graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)], [7, 1, 4, 1, 4, 3, 1])
    after_another = [ra.simulate(graph, order).peak_memory for order in ([0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 0, 1, 2, 6])]
    assert ra.simulate(graph, [0, 1, 3, 4, 5, 2, 6]).peak_memory < min(after_another)


@given(graph=strategies.graphs(max_nodes=7, min_nodes=1, room=16))
def test_search_rule_2_what_a_step_reads_and_makes(graph):
    lowest = live_sets.least_peak(graph)[0]
    for v in np.flatnonzero(graph.needed):
        values = {*graph.reads(int(v)), *graph.values(int(v))}
        assert int(graph.memory[list(values)].sum()) <= least_peak_bound(graph)[0] <= lowest


def overhead_by_rule_3(graph, limit, v):
    """The least compute of the values that do not fit beside v at its first run; None if v alone does not."""
    reads = [set(graph.reads(w)) for w in range(graph.n_nodes)]
    before, after = {v}, {v}
    for w in range(v, -1, -1):
        before |= reads[w] if w in before else set()
    for w in range(v, graph.n_nodes):
        after |= {w} if reads[w] & after else set()
    rest = limit - int(graph.memory[[v, *reads[v]]].sum())
    later = set().union(*(reads[w] for w in after - {v}))
    others = sorted((before & later) - reads[v] - {v})
    kept = [each for k in range(len(others) + 1) for each in itertools.combinations(others, k)]
    costs = [
        int(graph.compute[[x for x in others if x not in each]].sum())
        for each in kept
        if int(graph.memory[list(each)].sum()) <= rest
    ]
    return min(costs, default=None)


@given(data=st.data(), graph=single_valued())
def test_search_rule_3_bounds_the_overhead(data, graph):
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], ra.simulate(graph, range(graph.n_nodes)).peak_memory))
    least = live_sets.least_compute(graph, limit)[0] - graph.needed_compute
    for v in range(graph.n_nodes):
        assert overhead_by_rule_3(graph, limit, v) <= least


def test_search_rule_3_is_about_nodes_that_v_depends_on():
    """x and v are independent: the order v w x z recomputes nothing within 12 bytes."""
    graph = ra.ComputationGraph.from_edges(
        [("x", "z"), ("v", "w"), ("w", "z")], memory={"x": 10, "v": 10, "w": 1, "z": 1}, compute=5
    )
    names = graph.node_names()
    assert ra.simulate(graph, [names.index(name) for name in "vwxz"]).peak_memory == 12
    assert overhead_by_rule_3(graph, 12, names.index("v")) == 0


def walk():
    """`count` of the page on sharing: the number of blocks of its walk."""
    page = (DOCS / "theory" / "sharing.md").read_text("utf-8")
    functions = re.search(r"^(def blocks\(.*?^    return len[^\n]*\n)", page, re.S | re.M)[1]
    namespace = {}
    exec(functions, namespace)
    return namespace["count"]


@given(graph=strategies.graphs(max_nodes=8, min_nodes=1).filter(lambda graph: graph.single_valued))
def test_sharing_uses_as_many_blocks_as_values_are_live_at_one_step(graph):
    names = [f"v{v}" for v in range(graph.n_nodes)]
    reads = {names[v]: " ".join(names[x] for x in graph.reads(v)) for v in range(graph.n_nodes)}
    outputs = {names[v] for v in np.flatnonzero(graph.output)}
    same = graph.with_costs(memory=1, workspace=0)
    assert walk()(reads, outputs) == ra.simulate(same, range(graph.n_nodes)).peak_memory


def test_sharing_frees_the_block_of_a_value_that_nothing_needs():
    reads = {"a": "", "d": "a", "b": "a", "c": "b", "e": "c"}
    assert walk()(reads, {"e"}) == 2


@pytest.mark.parametrize("bags", range(1, 33))
def test_separators_rule_2_halves_of_bags_in_a_row(bags):
    rows = [[i, i + 1] for i in range(bags)]
    path = ra.structure.TreeDecomposition.from_bags(rows, [(i, i + 1) for i in range(bags - 1)])
    assert ra.structure.SeparatorTree.balanced(path, bags + 1).depth <= bags.bit_length()


@given(graph=single_valued(min_nodes=1))
def test_separators_lemmas_1_to_4_and_theorem_5(graph):
    n = graph.n_nodes
    bags = ra.structure.TreeDecomposition.of(ra.structure.eliminate(ra.structure.UndirectedGraph.of(graph)))
    reduced = bags.reduce()
    assert reduced.n_bags <= n
    assert reduced.width == bags.width
    tree = ra.structure.SeparatorTree.balanced(reduced, n)
    for s, n_bags in enumerate(tree.n_bags):
        children = tree.children[tree.child_indptr[s] : tree.child_indptr[s + 1]]
        assert all(2 * tree.n_bags[child] <= n_bags for child in children)

    targets = np.flatnonzero(graph.output)
    run = ra.simulate(graph, twremat.plain(*graph.predecessors, tree, targets))
    k, depth, memory = reduced.width, tree.depth, graph.memory
    most_read = max(sum(memory[u] for u in graph.reads(v)) for v in range(n))
    assert run.peak_memory <= depth * ((k + 1) * memory.max() + most_read) + sum(memory[v] for v in targets)
    assert run.runs.max() <= (k + 2) ** (depth - 1)
    # The first candidate has balanced separators; the second has cheap ones.
    candidate, *_ = list_candidates(graph, "twremat", recursion_limit=1, orders=1, batching=False)
    assert candidate.schedule.order.tolist() == run.schedule.order.tolist()


def random_stages(random):
    """Stages by (link, keep, compute, gradient, run, backward), no gradient larger than its link except the last."""
    stages = []
    for last in [*[False] * random.randint(0, 4), True]:
        link, compute = random.choice([1, 2, 5]), random.randint(1, 3)
        gradient = random.choice([0, 9]) if last else random.choice([0, link])
        keep, run, backward = link + random.choice([0, 0, 4]), random.choice([0, 0, 5, 9]), random.choice([0, 0, 3])
        stages.append((link, keep, compute, gradient, run, backward))
    return stages


def persistent_by_the_page(stages, limit):
    """T(1, n, M) by the recurrence and the two thresholds of the page."""
    w, keep, c, d, f, g = zip((0,) * 6, *stages, strict=True)

    def least(a, b, room):
        found = []
        if room >= keep[a] + max(d[b] + f[a], d[a] + g[a]):
            found.append(c[a] + (least(a + 1, b, room - keep[a]) if a < b else 0))
        for j in range(a + 1, b + 1):
            if room >= d[b] + max((w[i - 1] if i > a else 0) + w[i] + f[i] for i in range(a, j)):
                found.append(sum(c[a:j]) + least(j, b, room - w[j - 1]) + least(a, j - 1, room))
        return min(found, default=math.inf)

    return least(1, len(stages), limit)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_stages_are_solved_by_the_recurrence(seed):
    stages = random_stages(Random(seed))
    for limit in range(1, 40, 2):
        assert persistent_by_the_page(stages, limit) == chains.least_persistent(stages, limit)


def test_chains_of_stages_have_gradients_that_are_no_larger_than_their_links():
    """The gradient of link 2 has 9 bytes, the link has 1: a run that waits for it finds less room."""
    stages = [(8, 8, 1, 1, 8, 0), (1, 1, 3, 9, 0, 0), (3, 3, 1, 0, 8, 0), (3, 9, 2, 1, 8, 0), (2, 2, 1, 0, 0, 0)]
    assert chains.least_persistent(stages, 24) < persistent_by_the_page(stages, 24)


def layers_by_the_page(sizes, costs, limit):
    """T(1, n, M) of a chain of layers, whose gradients read the values of two layers, as the page says at the end."""
    w, c, n = [0, *sizes], [0, *costs], len(sizes)
    made = [0, 0, *sizes[:-1]]
    made[n] += w[n]
    d = [*w[:n], 0]

    def least(a, b, room):
        beside = d[b] + w[b] if b < n else 0
        if a == b < n:
            return 0 if room >= w[a] + d[a] + made[a] else math.inf
        found = []
        if room >= w[a] + max(beside, d[a] + made[a]):
            found.append(c[a] + (least(a + 1, b, room - w[a]) if a < b else 0))
        for j in range(a + 1, b + 1):
            if room >= beside + max((w[i - 1] if i > a else 0) + w[i] for i in range(a, j)):
                found.append(sum(c[a:j]) + least(j, b, room - w[j - 1]) + least(a, j - 1, room))
        return min(found, default=math.inf)

    return least(1, n, limit)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_layers_keep_a_link_for_the_gradients_of_its_own_layer(seed):
    random = Random(seed)
    sizes, costs = ([random.randint(1, 6) for _ in range(3 + seed % 3)] for _ in range(2))
    graph = chain(sizes, costs)
    figures = [(peak, compute - graph.needed_compute) for peak, compute, _ in chains.every_figure(graph)]
    for limit in {peak - less for peak, _ in figures for less in (0, 1)}:
        overhead = min((overhead for peak, overhead in figures if peak <= limit), default=math.inf)
        assert layers_by_the_page(sizes, costs, limit) == overhead + sum(costs)


@st.composite
def one_copy(draw):
    """A random order and one value that is copied: (graph, order, value, step of its load and of its free)."""
    graph = draw(single_valued(min_nodes=3))
    random = Random(draw(st.integers(0, 1 << 20)))
    order = copies.random_order(random, plain(graph))
    choices = [
        (x, load)
        for load, v in enumerate(order)
        for x in graph.reads(v)
        if not graph.output[x] and load > order.index(x) + 1 and x not in order[order.index(x) + 1 : load]
    ]
    if not choices:
        return None
    x, read = draw(st.sampled_from(choices))
    load = draw(st.integers(order.index(x) + 2, read))
    last = max([step for step in range(load) if x in graph.reads(order[step])], default=order.index(x))
    return (graph, order, int(x), load, draw(st.integers(last + 1, load))) if last + 1 <= load else None


def played(case, out_time, in_time, place=None):
    """The actions of an order with one copy, and its clock; the store is at once, or at a place."""
    graph, order, x, load, free = case
    stays, placed = [(x, order.index(x), free)], [] if place is None else [(place, x)]
    actions = copies.actions(graph, order, [(load, x)], stays, placed)
    return actions, copies.clock(graph, actions, [out_time] * graph.n_nodes, [in_time] * graph.n_nodes)


def compute_of(graph, actions):
    return sum(int(graph.compute[at]) for kind, at in actions if kind == "compute")


@given(case=one_copy(), out_time=st.integers(0, 30), in_time=st.integers(0, 30))
def test_third_choice_when_one_copy_is_hidden(case, out_time, in_time):
    assume(case is not None)
    graph, order, x, _, free = case
    actions, clock = played(case, out_time, in_time)
    freed, loaded = actions.index(("free", x)), actions.index(("load", x))
    readers = [("compute", v) for v in range(graph.n_nodes) if x in graph.reads(v)]
    reader = next(i for i in range(loaded, len(actions)) if actions[i] in readers)
    window = compute_of(graph, actions[actions.index(("store", x)) : freed])
    back = compute_of(graph, actions[loaded:reader])
    assert freed < loaded
    assert window == int(graph.compute[order[order.index(x) + 1 : free]].sum())  # not up to the last read
    waits = max(0, out_time - window), max(0, in_time - back)
    assert clock.time == int(graph.compute[order].sum()) + sum(waits)
    assert sum(clock.waits[free:]) == sum(clock.waits) == sum(waits)


@given(case=one_copy(), out_time=st.integers(0, 30), in_time=st.integers(0, 30), data=st.data())
def test_third_choice_a_single_store_is_best_at_once(case, out_time, in_time, data):
    assume(case is not None)
    place = data.draw(st.integers(case[1].index(case[2]) + 1, case[4]))
    assert played(case, out_time, in_time)[1].time <= played(case, out_time, in_time, place)[1].time


def test_third_choice_a_value_that_lingers_hides_its_store():
    """Value 0 is read last at step 1; its memory is freed before step 2 or, if it lingers, before step 4."""
    edges = [*itertools.pairwise(range(6)), (0, 5)]
    graph = ra.ComputationGraph.from_edges(edges, compute=10)
    times = [played((graph, [*range(6)], 0, 4, free), 30, 0)[1].time for free in (2, 4)]
    assert times == [60 + 30 - 10, 60]


@pytest.mark.parametrize("seed", range(30))
def test_third_choice_copies_lie_within_their_windows(seed):
    random = Random(seed)
    graph = random_graph(random)
    actions = copies.actions(graph, *copies.random_copies(random, graph))
    times = [[random.randint(0, 20) for _ in range(graph.n_values)] for _ in range(2)]
    clock = copies.clock(graph, actions, *times)
    copied = [(kind, *each) for (kind, _), *each in zip(actions, clock.begin, clock.end, strict=True)]
    for kind, begin, end in copied:
        if kind == "compute":
            assert sum(b - a for kind, a, b in copied if kind == "store" and b <= begin) <= begin
            assert sum(b - a for kind, a, b in copied if kind == "load" and a >= end) <= clock.time - end


@st.composite
def forests(draw):
    """Graphs of up to seven nodes with one value each, which at most one node reads; some of these are outputs too."""
    n = draw(st.integers(1, 7))
    reader = [draw(st.none() | st.integers(v + 1, n - 1)) if v < n - 1 else None for v in range(n)]
    reads = [[u for u in range(v) if reader[u] == v] for v in range(n)]
    return ra.ComputationGraph.from_arrays(
        **strategies.rows("read", reads),
        memory=draw(strategies.numbers(n, 9)),
        workspace=draw(strategies.numbers(n, 5)),
        output=[each is None or draw(st.integers(0, 5)) == 0 for each in reader],
    )


def least_peak_once(graph):
    """The least peak of all orders in which each node runs once, by sets of the nodes that have run."""
    g = plain(graph)
    least = {frozenset(): 0}
    for size in range(len(g.nodes)):
        for done in [each for each in least if len(each) == size]:
            later = set(g.nodes) - done
            read = g.outputs.union(*(g.reads[w] for w in later))
            for v in later:
                if set(g.reads[v]) <= done:
                    live = (done & read) | {v}
                    peak = max(least[done], sum(g.memory[x] for x in live) + g.workspace[v])
                    after = done | {v}
                    least[after] = min(peak, least.get(after, peak))
    return least[frozenset(g.nodes)]


@given(graph=forests())
def test_live_sets_theorem_4_no_second_run_helps_in_a_tree(graph):
    assert live_sets.least_peak(graph)[0] == least_peak_once(graph)


def test_live_sets_theorem_4_is_about_values_with_one_reader():
    graph = ra.ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (1, 5), (3, 4)], memory=[1, 2, 1, 2, 1, 1])
    assert live_sets.least_peak(graph)[0] < least_peak_once(graph)
    # Node 0 makes two values, for nodes 1 and 4; node 2 has 9 bytes.
    reads = strategies.rows("read", [[], [0], [2], [3], [4, 1]])
    pair = ra.ComputationGraph.from_arrays(**reads, value_indptr=[0, 2, 3, 4, 5, 6], memory=[4, 4, 1, 9, 1, 1])
    assert live_sets.least_peak(pair)[0] < ra.simulate(pair, range(5)).peak_memory  # the only order of single runs


@given(numbers=st.lists(st.integers(1, 9), min_size=1, max_size=3), data=st.data())
def test_live_sets_theorem_2_overhead_is_what_a_knapsack_leaves(numbers, data):
    n, room = len(numbers), data.draw(st.integers(0, sum(numbers)))
    large = sum(numbers) + data.draw(st.integers(0, 3))
    a, read, z = ([f"{kind}{i}" for i in range(n)] for kind in "alz")
    edges = [*zip(a, read, strict=True), *itertools.pairwise([*read, "h", "g"])]
    edges += [*zip(a, z, strict=True), *(("g", each) for each in z)]
    weights = dict(zip(a, numbers, strict=True))
    nodes = dict.fromkeys([*a, *read, "h", "g", *z], 0)
    graph = ra.ComputationGraph.from_edges(edges, nodes | weights | {"h": large}, nodes | weights)
    sums = [sum(some) for k in range(n + 1) for some in itertools.combinations(numbers, k)]
    overhead = live_sets.least_compute(graph, large + room)[0] - graph.needed_compute
    assert overhead == sum(numbers) - max(each for each in sums if each <= room)


@given(data=st.data(), n=st.integers(1, 7))
def test_separators_rule_1_bags_of_an_order(data, n):
    pairs = [pair for pair in itertools.combinations(range(n), 2) if data.draw(st.booleans())]
    order = data.draw(st.permutations(range(n)))
    graph = ra.structure.UndirectedGraph.from_edges(n, pairs)
    near, bags = elimination.neighbours(graph), []
    for v in order:
        bags.append({v} | near[v])
        near = elimination.without(near, v)
    width = max(map(len, bags)) - 1
    assert elimination_of(graph, order).width == width
    assert all(any({u, v} <= bag for bag in bags) for u, v in pairs)
    place = {v: i for i, v in enumerate(order)}
    parent = [min((place[u] for u in bag if u != v), default=None) for v, bag in zip(order, bags, strict=True)]
    for v in range(n):
        with_v = {i for i, bag in enumerate(bags) if v in bag}
        assert sum(parent[i] not in with_v for i in with_v) == 1  # so they are connected


@given(n=st.integers(1, 8))
def test_sharing_two_blocks_for_a_forward_chain_and_one_in_place(n):
    names = [f"v{i}" for i in range(n)]
    reads = dict(zip(names, ["", *names], strict=False))
    assert walk()(reads, {names[-1]}) == min(n, 2)
    assert walk()(reads, {names[-1]}, in_place=set(names)) == 1


@given(data=st.data(), graph=strategies.training_graphs(max_nodes=12).filter(lambda graph: not graph.once.any()))
def test_mirror_counts_give_valid_schedules(data, graph):
    counts = [data.draw(st.integers(0, 3)) if forward else 0 for forward in graph.forward]
    run = ra.simulate(graph, mirror_schedule(graph, counts))
    assert all(run.runs <= np.add(counts, 1))
    once = ra.simulate(graph, mirror_schedule(graph, [0] * graph.n_nodes))
    assert once.overhead == 0


@functools.cache
def reversals(n, s):
    """(forward steps, most runs of a step): of all divisions of n steps with s checkpoints, the least of each."""
    if n == 1:
        return 0, 0
    parts = [(m, reversals(n - m, s - 1) if s > 1 else (0, 0), reversals(m, s)) for m in range(n - 1, 0, -1)]
    parts = parts if s > 1 else parts[:1]
    steps = min(m + late[0] + early[0] for m, late, early in parts)
    return steps, min(max(late[1], early[1] + 1) for _, late, early in parts)


@pytest.mark.parametrize("s", range(1, 6))
def test_binomials_count_steps_and_runs(s):
    for n in range(1, 40):
        r = next(r for r in itertools.count() if math.comb(s + r, s) >= n)
        assert reversals(n, s) == (r * n - math.comb(s + r, s + 1), r)


@st.composite
def buffers(draw, equal=False):
    """Buffers as (begin, end, size)."""
    size = st.just(draw(st.integers(1, 5))) if equal else st.integers(1, 5)
    row = st.tuples(st.integers(0, 5), st.integers(1, 4), size).map(lambda each: (each[0], each[0] + each[1], each[2]))
    return draw(st.lists(row, min_size=1, max_size=6))


def first_fit(rows):
    """The bytes of the arena, and the offsets, of buffers that are placed in this order."""
    placed = []
    for each in rows:
        placed.append((each, offsets.lowest(each, placed)))
    return max(offset + each[2] for each, offset in placed), placed


@given(rows=buffers())
def test_offsets_statements_1_and_2_an_order_for_every_placement(rows):
    arena, placed = first_fit(rows)
    rising = [each for each, _ in sorted(placed, key=lambda one: one[1])]
    assert offsets.max_live(rows) <= first_fit(rising)[0] <= arena
    assert min(first_fit(order)[0] for order in itertools.permutations(rows[:5])) == offsets.least_arena(rows[:5])


@given(rows=buffers(equal=True))
def test_offsets_statement_3_equal_sizes(rows):
    assert first_fit(sorted(rows))[0] == offsets.max_live(rows)


@pytest.mark.parametrize("n", range(1, 13))
def test_pools_statements_2_and_3_growing_and_shrinking_chains(n):
    for sizes, reserved in ((range(1, n + 1), n * (n + 1) // 2), (range(n, 0, -1), 2 * n - 1)):
        pool, used = pools.Pool(pools.CuPy(), lambda buffer, places, pool: places[0]), []
        for i, size in enumerate(sizes):
            pool.ask(i, 512 * size)
            used.append(pool.used() // 512)
            if i:
                pool.give(i - 1)
        assert (max(used), pool.total() // 512) == (2 * n - 1, reserved)


def stash(graph, recomputed, feature_maps):
    """Bytes of the values that gradients or recomputed nodes read and that other nodes compute."""
    read = feature_maps | {x for v in recomputed for x in graph.reads(v)}
    return int(graph.memory[sorted(read - recomputed)].sum())


def is_cut(graph, values, fixed, feature_maps):
    """True if without these values no path leads from the fixed nodes to a feature map."""
    reached = set()
    for v in range(graph.n_nodes):
        if v in fixed or reached & set(graph.reads(v)):
            reached |= {v} - values
    return not reached & feature_maps


@given(data=st.data(), graph=single_valued())
def test_stash_is_a_minimum_cut_and_the_closest_recomputes_least(data, graph):
    nodes = range(graph.n_nodes)
    fixed, feature_maps = (set(data.draw(strategies.subsets(nodes))) for _ in range(2))
    every = [set(some) for k in range(len(nodes) + 1) for some in itertools.combinations(nodes, k)]
    by_bytes = {}
    for recomputed in every:
        if not recomputed & fixed:
            by_bytes.setdefault(stash(graph, recomputed, feature_maps), []).append(recomputed)
    cuts = [int(graph.memory[sorted(cut)].sum()) for cut in every if is_cut(graph, cut, fixed, feature_maps)]
    assert min(by_bytes) == min(cuts)
    assert set.intersection(*by_bytes[min(cuts)]) in by_bytes[min(cuts)]


@strategies.MORE
@given(data=st.data(), graph=single_valued(min_nodes=4) | single_valued(min_nodes=4, row=True))
def test_closure_bound_statement(data, graph):
    """The program of the page, by trying which ancestors run again after the first run of v."""
    limit = data.draw(st.integers(live_sets.least_peak(graph)[0], ra.simulate(graph, range(graph.n_nodes)).peak_memory))
    least = live_sets.least_compute(graph, limit)[0] - graph.needed_compute
    g, n = plain(graph), graph.n_nodes
    for v in range(n):
        above, below = set(), set()
        for w in range(v - 1, -1, -1):
            above |= {w} if any(w in g.reads[u] for u in above | {v}) else set()
        for w in range(v + 1, n):
            below |= {w} if set(g.reads[w]) & (below | {v}) else set()
        if above | below | {v} != {*g.nodes}:
            continue
        read_later = above & {x for w in below for x in g.reads[w]}
        live = {v, *g.reads[v], *(above & g.outputs)}
        costs = []
        for k in range(len(above) + 1):
            for again in map(set, itertools.combinations(above, k)):
                wanted = read_later | {x for w in again for x in g.reads[w]}
                if sum(g.memory[x] for x in live | (wanted - again)) <= limit:
                    costs.append(sum(g.compute[w] for w in again))
        assert min(costs) <= least


def test_first_screens_say_what_is_known_and_that_no_gpu_has_run_a_plan():
    """Until a record of a run on a GPU is there: then the sentence has to go."""
    records = [json.loads(path.read_text("utf-8")) for path in (DOCS / "results").glob("*.json")]
    on_gpu = any(isinstance(record, dict) and record.get("backend") == "cupy" for record in records)
    for page in (DOCS / "index.md", DOCS.parent / "README.md"):
        first = page.read_text("utf-8").partition("# remat_algos")[2][:1500]
        assert ("No GPU has run one yet." in first) != on_gpu
        assert "Bytes and operations are known before a run; seconds are not." in " ".join(first.split())
