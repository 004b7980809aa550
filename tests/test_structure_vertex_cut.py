"""Maximum flow and least cuts: against networkx, scipy and all sets of vertices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.flow import FlowNetwork, maximum_flow
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow as scipy_flow

from remat_algos.structure.cuts import minimum_vertex_cut
from tests.oracles.cuts import least_cuts, reached

nx = pytest.importorskip("networkx", reason="networkx is not installed (extra graphs)")
N = 100_000


@st.composite
def networks(draw, most):
    """(vertices, arcs with capacities); the source is 0, the sink the last."""
    n = draw(st.integers(2, 9))
    vertex = st.integers(0, n - 1)
    arcs = draw(st.lists(st.tuples(vertex, vertex, st.integers(0, most)), max_size=30))
    return n, arcs


def flow_of(n, arcs):
    tail, head, capacity = (np.array([arc[i] for arc in arcs], np.int64) for i in range(3))
    return maximum_flow(n, tail.astype(np.int32), head.astype(np.int32), capacity, 0, n - 1)


def merged(arcs):
    """Capacities of pairs, loops apart."""
    total = {}
    for tail, head, capacity in arcs:
        if tail != head:
            total[tail, head] = total.get((tail, head), 0) + capacity
    return total


def networkx_value(n, arcs):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((t, h, {"capacity": c}) for (t, h), c in merged(arcs).items())
    return nx.maximum_flow_value(graph, 0, n - 1)


@given(networks(9))
def test_small_flows_are_those_of_networkx_and_scipy(network):
    n, arcs = network
    found = flow_of(n, arcs)[0]
    assert found == networkx_value(n, arcs)
    pairs = merged(arcs)
    if pairs:
        matrix = coo_array((list(pairs.values()), tuple(zip(*pairs, strict=True))), shape=(n, n), dtype=np.int32)
        assert found == scipy_flow(matrix.tocsr(), 0, n - 1).flow_value


@given(networks(2**50))
def test_capacities_above_2_to_the_32_are_no_smaller(network):
    n, arcs = network
    assert flow_of(n, arcs)[0] == networkx_value(n, arcs)


@given(networks(9) | networks(2**50))
def test_a_flow_is_one_and_both_sides_are_least_cuts(network):
    n, arcs = network
    value, flow, near, far = flow_of(n, arcs)
    net = [0] * n
    for (tail, head, capacity), amount in zip(arcs, flow.tolist(), strict=True):
        assert 0 <= amount <= capacity
        net[head] += amount
        net[tail] -= amount
    assert net == [-value, *[0] * (n - 2), value]
    assert near[0] == far[n - 1] == 1
    assert not (near & far).any()
    assert sum(c for t, h, c in arcs if near[t] and not near[h]) == value
    assert sum(c for t, h, c in arcs if not far[t] and far[h]) == value


@given(networks(4))
def test_sides_are_the_smallest_of_all_least_cuts(network):
    n, arcs = network
    value, _, near, far = flow_of(n, arcs)
    for bits in range(2 ** (n - 2)):
        side = [True, *(bool(bits >> i & 1) for i in range(n - 2)), False]
        if sum(c for t, h, c in arcs if side[t] and not side[h]) == value:
            assert all(side[v] for v in range(n) if near[v])
            assert not any(side[v] for v in range(n) if far[v])


@given(st.data())
def test_a_network_serves_many_capacities(data):
    """Cuts are those of a new network each time; the sink's side is the smallest."""
    n, arcs = data.draw(networks(9) | networks(2**50))
    tail, head, _ = map(np.array, zip(*arcs, strict=True)) if arcs else [np.zeros(0)] * 3
    network = FlowNetwork(n, tail.astype(np.int32), head.astype(np.int32), 0, n - 1)
    for _ in range(3):
        capacity = np.array(
            data.draw(st.lists(st.integers(0, 2**40), min_size=len(arcs), max_size=len(arcs))), np.int64
        )
        value, side = network.minimum_cut(capacity)
        best, _, _, far = maximum_flow(n, tail.astype(np.int32), head.astype(np.int32), capacity, 0, n - 1)
        assert (value, side.tolist()) == (best, (1 - far).tolist())


@given(network=networks(2**50), share=st.integers(1, 100))
def test_a_flow_that_is_enough_ends_the_search(network, share):
    n, arcs = network
    best = flow_of(n, arcs)[0]
    tail, head, capacity = (np.array([arc[i] for arc in arcs], np.int64) for i in range(3))
    enough = max(1, best * share // 100)
    value, side = FlowNetwork(n, tail.astype(np.int32), head.astype(np.int32), 0, n - 1).minimum_cut(capacity, enough)
    assert min(enough, best) <= value <= best
    assert side is None or value == best


def test_capacities_are_as_many_as_arcs():
    network = FlowNetwork(2, np.zeros(1, np.int32), np.ones(1, np.int32), 0, 1)
    with pytest.raises(ValueError, match="2 capacities for 1 arcs"):
        network.minimum_cut(np.ones(2, np.int64))
    with pytest.raises(ValueError, match="0 heads for 1 tails"):
        FlowNetwork(2, np.zeros(1, np.int32), np.ones(0, np.int32), 0, 1)


def test_without_arcs_nothing_flows():
    value, flow, near, far = flow_of(3, [])
    assert (value, flow.size, near.tolist(), far.tolist()) == (0, 0, [1, 0, 0], [0, 0, 1])


def capacities():
    rng = np.random.default_rng(0)
    return {
        "the last is least": np.append(np.full(N, 2**40), 1),
        "the first is least": np.append(1, np.full(N, 2**40)),
        "falling": np.arange(N + 1, 0, -1),
        "rising": np.arange(1, N + 2),
        "random": rng.integers(1, 2**40, N + 1),
    }


@pytest.mark.parametrize("name", capacities())
def test_a_long_chain_lets_through_its_least_capacity(name):
    """100,000 vertices: no recursion, and quadratic time would be minutes."""
    tail, capacity = np.arange(N + 1, dtype=np.int32), capacities()[name].astype(np.int64)
    assert maximum_flow(N + 2, tail, tail + np.int32(1), capacity, 0, N + 1)[0] == capacity.min()


def test_a_long_chain_with_leaks_is_not_quadratic():
    """Every vertex has a way of its own to the sink, each longer than the one before."""
    chain = np.arange(N, dtype=np.int32)
    tail, head = np.concatenate([chain[:-1], chain[1:]]), np.concatenate([chain[1:], np.full(N - 1, N, np.int32)])
    capacity = np.concatenate([np.full(N - 1, 2**40), np.arange(1, N)])
    assert maximum_flow(N + 1, tail, head, capacity, 0, N)[0] == N * (N - 1) // 2


# vertex cuts


@st.composite
def weighted(draw):
    n = draw(st.integers(1, 7))
    vertex = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=14))
    weight = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    ends = st.lists(vertex, max_size=3)
    return edges, weight, draw(ends), draw(ends)


def cut_of(edges, weight, sources, sinks):
    tail, head = [edge[0] for edge in edges], [edge[1] for edge in edges]
    return minimum_vertex_cut(tail, head, weight, sources, sinks)


@given(case=weighted())
def test_no_set_of_vertices_that_cuts_is_lighter(case):
    found, oracle = cut_of(*case), least_cuts(*case)
    if oracle is None:
        assert found is None
        return
    edges, weight, sources, sinks = case
    cut = set(found.vertices.tolist())
    assert found.weight == oracle[0] == sum(weight[v] for v in cut)
    assert not reached(edges, set(sources) - cut, cut) & set(sinks)


@given(case=weighted())
def test_beyond_the_cut_closest_to_the_sinks_is_what_is_beyond_all_others(case):
    found, oracle = cut_of(*case), least_cuts(*case)
    if found is None:
        return
    edges, _, _, sinks = case
    back = [(head, tail) for tail, head in edges]
    behind = [reached(back, set(sinks) - cut, cut) for cut in oracle[1]]
    assert set(np.flatnonzero(found.beyond).tolist()) == set.intersection(*behind)


def test_a_sum_of_sizes_just_below_the_greatest_is_exact():
    cut = cut_of([(0, 2), (1, 2)], [2**52 - 2, 2**51, 2**52 - 1 - 2**51], [0, 1], [2])
    assert (cut.vertices.tolist(), cut.weight) == ([2], 2**52 - 1 - 2**51)
