"""Graphs made by a rule keep to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.schedule.simulation import simulate
from remat_algos.zoo.random import chain, ladder, layered_dag, parallel_chains, u_shape

FORWARD = {
    "chain": lambda: chain(7, memory=3, compute=2),
    "parallel chains": lambda: parallel_chains(3, 4),
    "seeded parallel chains": lambda: parallel_chains(3, 4, seed=5),
    "u-shape": lambda: u_shape(3),
    "u-shape without skips": lambda: u_shape(2, 3, memory=100, compute=7, skip=False),
    "layered dag": lambda: layered_dag(200, reach=60),
    "wide layered dag": lambda: layered_dag(200, width=90, reads=(1, 5), reach=1000, seed=3),
}


def equal(one, other):
    return one.hash == other.hash


def in_id_order(graph):
    return simulate(graph, np.flatnonzero(graph.needed))


@pytest.mark.parametrize("make", FORWARD.values(), ids=FORWARD)
def test_forward_graphs_run_and_differentiate(make):
    graph = make()
    assert not graph.is_training
    assert in_id_order(graph).overhead == 0
    training = differentiate(graph)
    assert training.is_training
    assert in_id_order(training).peak_memory > 0
    assert equal(graph, make())


# chains


@given(st.integers(0, 20))
def test_a_node_of_a_chain_reads_the_one_before(n):
    graph = chain(n)
    assert graph.n_nodes == n
    assert [graph.reads(v) for v in range(n)] == [[v - 1] if v else [] for v in range(n)]
    assert np.flatnonzero(graph.output).tolist() == ([n - 1] if n else [])


def test_a_chain_has_the_sizes_and_costs_that_are_given():
    graph = chain(3, memory=[5, 6, 7], compute=4)
    assert graph.memory.tolist() == [5, 6, 7]
    assert graph.compute.tolist() == [4, 4, 4]


@pytest.mark.parametrize("n", [4, 9, 16])
def test_a_differentiated_chain_peaks_at_two_more_than_its_length(n):
    assert in_id_order(differentiate(chain(n))).peak_memory == n + 2


# ladders


@given(st.integers(0, 12), st.booleans())
def test_a_ladder_is_a_chain_with_its_gradients(length, skip):
    graph = ladder(length, skip)
    last = 2 * length + 2
    assert graph.n_nodes == last + 1
    names = graph.labels.names
    for i in range(length + 1):
        reads = [f"f{j}" for j in ((i - 1, i - 2) if skip else (i - 1,)) if j >= 0]
        assert [names[u] for u in graph.reads(graph.node_id(f"f{i}"))] == reads
        b = graph.node_id(f"b{i}")
        above = f"b{i + 1}" if i < length else "loss"
        assert {names[u] for u in graph.reads(b)} == {above, f"f{i}"}
        assert names[graph.forward_of[b]] == f"f{i}"
    assert [names[u] for u in graph.reads(graph.node_id("loss"))] == [f"f{length}"]
    assert np.flatnonzero(graph.output).tolist() == [last]
    assert graph.needed.all()


def test_a_ladder_is_a_training_graph_of_unit_sizes():
    graph = ladder(9, skip=True)
    assert graph.is_training
    assert set(graph.memory.tolist()) == set(graph.compute.tolist()) == {1}
    assert np.flatnonzero(graph.forward).tolist() == list(range(11))
    assert in_id_order(graph).peak_memory == 12  # f0 to f9, the loss and b9


# parallel chains


@given(st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(0, 3))
def test_parallel_chains_join_a_fork_with_a_join(chains, length, seed):
    graph = parallel_chains(chains, length, seed)
    n = chains * length + 2
    assert graph.n_nodes == n
    assert graph.depth == length + 2
    assert graph.reads(n - 1) == [(c + 1) * length for c in range(chains)]
    indptr, readers = graph.readers
    assert readers[indptr[0] : indptr[1]].tolist() == [c * length + 1 for c in range(chains)]
    assert all(graph.reads(v) == [v - 1 if (v - 1) % length else 0] for v in range(1, n - 1))


def test_sizes_of_parallel_chains_are_1_or_seeded():
    plain, one, other = parallel_chains(4, 5), parallel_chains(4, 5, seed=1), parallel_chains(4, 5, seed=2)
    assert set(plain.memory.tolist()) == set(plain.compute.tolist()) == {1}
    assert not equal(one, other)
    assert 1 <= one.memory.min() < one.memory.max() <= 100
    assert 1 <= one.compute.min() < one.compute.max() <= 100


# U-shapes


@given(st.integers(0, 5), st.integers(1, 4), st.booleans())
def test_a_u_shape_is_a_chain_with_a_bridge_on_each_level(depth, width, skip):
    graph = u_shape(depth, width, skip=skip)
    n = (2 * depth + 1) * width
    assert graph.n_nodes == n
    for v in range(n):
        name = graph.labels[v]
        bridge = [graph.node_id(f"e{name[1:-2]}.{width - 1}")] if name[0] == "d" and name.endswith(".0") else []
        assert graph.reads(v) == ([v - 1] if v else []) + (bridge if skip else [])


@given(st.integers(0, 5), st.integers(1, 3), st.none() | st.integers(0, 1000))
def test_sizes_of_a_u_shape_halve_per_level(depth, width, memory):
    graph = u_shape(depth, width, memory=memory)
    top = 2**depth if memory is None else memory
    down = [top // 2**level for level in range(depth + 1)]
    assert graph.memory.tolist() == np.repeat(down + down[-2::-1], width).tolist()


# layered random graphs


@st.composite
def layered_options(draw, least_nodes=0):
    """(n_nodes, options) that fit together."""
    width = draw(st.integers(1, 15))
    least = draw(st.integers(1, 4))
    most = draw(st.integers(least, 6))
    reach = draw(st.integers(width - 1 + max(width, most), 60))
    seed = draw(st.integers(0, 5))
    return draw(st.integers(least_nodes, 120)), {"width": width, "reads": (least, most), "reach": reach, "seed": seed}


@given(layered_options())
def test_nodes_of_a_layered_dag_read_earlier_layers_within_reach(given_options):
    n, options = given_options
    graph = layered_dag(n, **options)
    width, (least, most) = options["width"], options["reads"]
    assert graph.n_nodes == n
    for v in range(n):
        layer = v // width
        reads = graph.reads(v)
        available = layer * width - max(0, v - options["reach"])
        if layer == 0:
            assert reads == []
            continue
        assert min(least, available) <= len(reads) <= min(most, available)
        assert len(set(reads)) == len(reads)
        assert reads[0] // width == layer - 1
        assert all(u // width < layer and v - u <= options["reach"] for u in reads)


@given(layered_options(least_nodes=1))
def test_only_the_last_two_layers_of_a_layered_dag_are_unread(given_options):
    n, options = given_options
    graph = layered_dag(n, **options)
    last = (n - 1) // options["width"]
    assert np.flatnonzero(graph.output).min() // options["width"] >= last - 1
    assert graph.depth == last + 1


@given(st.integers(0, 60), st.integers(3, 40), st.integers(1, 4))
def test_the_default_width_fits_any_reach(n, reach, most):
    assert layered_dag(n, reads=(1, min(most, reach)), reach=reach).n_nodes == n


def test_the_seed_decides_a_layered_dag():
    assert equal(layered_dag(500, seed=4), layered_dag(500, seed=4))
    assert not equal(layered_dag(500, seed=4), layered_dag(500, seed=5))


def test_degrees_and_distances_of_a_layered_dag_are_spread():
    graph = layered_dag(20_000, reach=1000)
    degree = np.diff(graph.read_indptr)
    inner = degree[1000:]
    assert set(inner.tolist()) == {2, 3}
    assert abs(inner.mean() - 2.5) < 0.05
    distance = np.repeat(np.arange(20_000), degree) - graph.read_indices
    assert 0 < distance.min() < 10
    assert 990 < distance.max() <= 1000
    assert set(np.unique(graph.memory)) == set(np.unique(graph.compute)) == set(range(1, 101))


def test_a_layered_dag_of_a_hundred_thousand_nodes_runs():
    graph = layered_dag(100_000)
    assert in_id_order(graph).compute == graph.needed_compute


# what cannot be made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: chain(-1), "n is -1; give 0 or more"),
        (lambda: chain(3, memory=[1, 2]), "memory has 2 entries, expected 3"),
        (lambda: chain(3, memory=-1), r"memory\[0\] is -1; sizes and costs are 0 or more"),
        (lambda: ladder(-1), "length is -1; give 0 or more"),
        (lambda: parallel_chains(0, 3), "chains is 0; give 1 or more"),
        (lambda: parallel_chains(3, 0), "length is 0; give 1 or more"),
        (lambda: u_shape(-1), "depth is -1; give 0 or more"),
        (lambda: u_shape(2, width=0), "width is 0; give 1 or more"),
        (lambda: u_shape(2, memory=-8), "sizes and costs are 0 or more"),
        (lambda: layered_dag(-1), "n_nodes is -1; give 0 or more"),
        (lambda: layered_dag(9, width=0), "width is 0; give 1 or more"),
        (lambda: layered_dag(9, reads=(3, 2)), r"reads is \(3, 2\); give \(minimum, maximum\)"),
        (lambda: layered_dag(9, reads=(0, 2)), r"reads is \(0, 2\); give \(minimum, maximum\)"),
        (lambda: layered_dag(9, width=5, reach=8), "for layers of 5 nodes and 3 reads give 9 or more"),
        (lambda: layered_dag(9, reach=2), "for layers of 1 nodes and 3 reads give 3 or more"),
    ],
)
def test_numbers_that_fit_nothing_are_refused_with_a_remedy(make, message):
    with pytest.raises(GraphError, match=message):
        make()
