"""The zoo gives the four graphs that the lower-set authors published, up to names and the order of ids."""

from collections import Counter

import numpy as np
import pytest

from remat_algos import differentiate, read_graph, simulate
from remat_algos.ir.kinds import operation_kind
from remat_algos.ir.parts import ROLES
from remat_algos.zoo.registry import build

pytestmark = pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")

OPTIONS = {
    "vgg19": {"batch": 32},
    "resnet50": {"batch": 32, "stride_first": True, "biased_stem": True},
    "googlenet": {"batch": 32},
    "unet": {"batch": 8, "wide_last": True},
}
PARAMETERS = {"vgg19": 143_667_240, "resnet50": 25_557_096, "googlenet": 13_378_280, "unet": 31_100_354}
PEAKS = {  # without rematerialization, in the order of the tables
    "vgg19": 2_132_279_296,
    "resnet50": 3_468_165_120,
    "googlenet": 871_841_804,
    "unet": 7_803_387_904,
}


@pytest.fixture(scope="module", params=OPTIONS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def network(name):
    return build(name, dropout="single", counting="paper", cost="paper", **OPTIONS[name])


@pytest.fixture(scope="module")
def ours(network):
    return network.graph


@pytest.fixture(scope="module")
def theirs(name, shared_graphs):
    return read_graph(shared_graphs / f"{name}.nodes.csv")


def row(indptr, indices, node):
    return indices[indptr[node] : indptr[node + 1]].tolist()


def parameter_memory(graph, node):
    """Bytes of the parameters that a node reads."""
    resident = graph.resident
    read = row(resident.read_indptr, resident.read_indices, node)
    return sum(int(resident.memory[r]) for r in read if resident.role[r] == ROLES.index("parameter"))


def kinds(graph):
    """Of each node: its kind, bytes of its value, cost, bytes of its parameters."""
    return [
        (operation_kind(op).name, int(graph.memory[v]), int(graph.compute[v]), parameter_memory(graph, v))
        for v, op in enumerate(graph.labels.ops)
    ]


def edges(graph):
    """Pairs of nodes; a node has one value here, of its own number."""
    return {(u, v) for v in range(graph.n_nodes) for u in row(graph.read_indptr, graph.read_indices, v)}


def saved(graph):
    """Pairs of a node, and of what its gradient reads."""
    back = graph.backward
    return {(x, v) for v in range(graph.n_nodes) for x in row(back.saved_indptr, back.saved_indices, v)}


def colours(graph):
    """What a node is and stands next to, and these stand next to, and so on: equal where nodes cannot be told apart."""
    before, after = [[] for _ in range(graph.n_nodes)], [[] for _ in range(graph.n_nodes)]
    for u, v in edges(graph):
        before[v].append(u)
        after[u].append(v)
    colour, n_colours = [hash(kind) for kind in kinds(graph)], 0
    while len(set(colour)) > n_colours:
        n_colours = len(set(colour))
        colour = [
            hash((colour[v], *sorted(colour[u] for u in before[v]), "and", *sorted(colour[w] for w in after[v])))
            for v in range(graph.n_nodes)
        ]
    return colour


@pytest.fixture(scope="module")
def same(ours, theirs):
    """Our node for each of theirs."""
    node_of = {colour: v for v, colour in enumerate(colours(ours))}
    assert len(node_of) == ours.n_nodes, "every node can be told from every other"
    return [node_of.get(colour, -1) for colour in colours(theirs)]


def test_operations_have_their_bytes_costs_and_parameters(ours, theirs):
    assert Counter(kinds(ours)) == Counter(kinds(theirs))


def test_the_graph_is_theirs_up_to_renaming(ours, theirs, same):
    """Every pair of nodes that can be told apart by colours has its partner, so this is an isomorphism."""
    assert sorted(same) == list(range(ours.n_nodes))
    assert {(same[u], same[v]) for u, v in edges(theirs)} == edges(ours)
    assert [kinds(ours)[v] for v in same] == kinds(theirs)


def test_gradients_read_what_theirs_read(ours, theirs, same):
    assert {(same[x], same[v]) for x, v in saved(theirs)} == saved(ours)


def test_the_order_is_theirs_where_nothing_is_cropped(name, same):
    """Crops stand in their tables where the image is made, here where it is joined."""
    in_order = same == list(range(len(same)))
    assert in_order == (name != "unet")


def test_parameters_are_theirs(name, network, theirs):
    assert network.n_parameters == PARAMETERS[name]
    assert 4 * network.n_parameters == sum(parameter_memory(theirs, v) for v in range(theirs.n_nodes))


def test_the_peak_without_rematerialization_is_theirs(name, ours, theirs):
    for graph in (ours, theirs):
        training = differentiate(graph)
        assert simulate(training, np.arange(training.n_nodes)).peak_memory == PEAKS[name]
