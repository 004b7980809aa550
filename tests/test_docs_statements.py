"""Statements of the tutorials and theory pages, with their conditions, played on random graphs."""

import itertools
import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.bounds.memory import least_peak_bound
from tests import strategies
from tests.oracles import live_sets

DOCS = Path(__file__).parent.parent / "docs"
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=3)


def chain(sizes):
    """A chain of layers of these sizes, with gradients."""
    edges = [(i, i + 1) for i in range(len(sizes) - 1)]
    return ra.differentiate(ra.ComputationGraph.from_edges(edges, memory=list(sizes)))


def segments(sizes, lengths):
    """The run of tutorial 1: kept are the last layer of each segment, and the whole last one."""
    ends = [*itertools.accumulate(lengths)]
    kept = [*(end - 1 for end in ends[:-1]), *range(ends[-1] - lengths[-1], ends[-1])]
    graph = chain(sizes)
    return ra.simulate(graph, ra.what_if(graph, keep=kept))


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


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_lower_sets_rule_1_forks(lengths):
    last, pairs, v = sum(lengths) + 1, [], 0
    for length in lengths:
        pairs += itertools.pairwise([0, *range(v + 1, v + length + 1), last])
        v += length
    family = ra.structure.lower_set_family(ra.ComputationGraph.from_edges(pairs))
    assert len(family) == 2 + prod(length + 1 for length in lengths)


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


@st.composite
def single_valued(draw):
    """A random graph of up to seven nodes that are all needed, with one value each."""
    n = draw(st.integers(2, 7))
    edges = [(u, v) for v in range(1, n) for u in range(v) if draw(st.booleans())]
    numbers = st.lists(st.integers(1, 9), min_size=n, max_size=n)
    return ra.ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0, *(sum(w == v for _, w in edges) for v in range(n))]),
        read_indices=[u for u, _ in edges],
        memory=draw(numbers),
        compute=draw(numbers),
    )


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
