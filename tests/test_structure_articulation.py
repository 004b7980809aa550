"""The forward part as a sequence: what is alive across its cuts, by sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure.cuts import ForwardPart
from tests.oracles.plain import plain
from tests.strategies import graphs, subsets, training_graphs

any_graph = graphs() | training_graphs(max_nodes=18)


def members(g):
    """The needed forward nodes, in id order."""
    return [v for v in g.forward() if v in g.needed()]


def alive_across(g, place):
    """Values made at a place up to this one, and read by a node of the forward part after it."""
    nodes = members(g)
    before, after = nodes[: place + 1], nodes[place + 1 :]
    return {x for v in before for x in g.values[v] if any(x in g.reads[w] for w in after)}


@given(any_graph)
def test_the_forward_part_is_what_is_needed_of_it(graph):
    g, part = plain(graph), ForwardPart.of(graph)
    assert part.nodes.tolist() == members(g)
    assert part.memory.tolist() == [sum(g.memory[x] for x in g.values[v]) for v in members(g)]


@given(any_graph)
def test_width_counts_the_values_alive_across_each_cut_and_one_alone_is_named(graph):
    g, part = plain(graph), ForwardPart.of(graph)
    alive = [alive_across(g, place) for place in range(len(members(g)))]
    assert part.width.tolist() == list(map(len, alive))
    assert part.alone.tolist() == [min(values) if len(values) == 1 else -1 for values in alive]
    assert part.articulations().tolist() == [place for place, values in enumerate(alive) if len(values) == 1]


@given(any_graph)
def test_until_is_the_last_place_that_reads_a_node(graph):
    g, part = plain(graph), ForwardPart.of(graph)
    nodes = members(g)
    for place, v in enumerate(nodes):
        readers = [p for p, w in enumerate(nodes) if set(g.values[v]) & set(g.reads[w])]
        assert part.until[place] == max([place, *readers])


@given(st.data())
def test_the_boundary_of_cuts_are_the_nodes_with_a_value_alive_across_one(data):
    graph = data.draw(any_graph)
    g, part = plain(graph), ForwardPart.of(graph)
    cuts = data.draw(subsets(range(len(members(g)))))
    wanted = {g.producer[x] for cut in cuts for x in alive_across(g, cut)}
    boundary = part.boundary(cuts)
    assert boundary.shape == (graph.n_nodes,)
    assert set(np.flatnonzero(boundary).tolist()) == wanted


def test_a_skip_leaves_no_place_to_cut():
    part = ForwardPart.of(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (0, 3)]))
    assert part.width.tolist() == [1, 2, 2, 0]
    assert part.until.tolist() == [3, 2, 3, 3]
    assert part.articulations().tolist() == [0]


@pytest.mark.parametrize(
    ("reads", "width", "alone"), [([0, 1], [2, 0], [-1, -1]), ([0], [1, 0], [0, -1]), ([1], [1, 0], [1, -1])]
)
def test_values_of_a_node_count_one_by_one(reads, width, alone):
    graph = ComputationGraph.from_arrays(value_indptr=[0, 2, 3], read_indptr=[0, 0, len(reads)], read_indices=reads)
    part = ForwardPart.of(graph)
    assert (part.width.tolist(), part.alone.tolist()) == (width, alone)


def test_what_the_backward_part_reads_does_not_keep_a_value_alive():
    arrays = {"read_indptr": [0, 0, 1, 3], "read_indices": [0, 1, 0]}
    part = ForwardPart.of(ComputationGraph.from_arrays(**arrays, forward_of=[-1, -1, 0]))
    assert part.nodes.tolist() == [0, 1]
    assert part.until.tolist() == [1, 1]


def test_an_empty_graph_has_no_place():
    part = ForwardPart.of(ComputationGraph.from_arrays(read_indptr=[0], read_indices=[]))
    assert (part.nodes.size, part.articulations().size, part.boundary([]).size) == (0, 0, 0)
