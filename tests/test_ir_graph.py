"""The graph: its laws, the ways in, what follows from its arrays, its hash."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.formats.rows import tables_from
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident
from tests.oracles.plain import plain
from tests.raising import raises, refused
from tests.strategies import captured_graphs, graphs, rows, training_graphs
from tests.test_formats_graphs import FACTS

ARRAYS = ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output")
DTYPES = dict(zip(ARRAYS, "iiiiiibb", strict=True))
any_graph = graphs() | training_graphs(max_nodes=16)


def two_nodes(**changes):
    """0 -> 1"""
    arrays = {
        "value_indptr": [0, 1, 2],
        "read_indptr": [0, 0, 1],
        "read_indices": [0],
        "memory": [1, 1],
        "compute": [1, 1],
        "workspace": [0, 0],
        "once": [False, False],
        "output": [False, True],
    }
    return ComputationGraph(**arrays | changes)


def rule(**changes):
    """Gradients of two nodes, which save nothing."""
    arrays = {
        "saved_indptr": [0, 0, 0],
        "saved_indices": [],
        "grad_memory": [1, 1],
        "grad_compute": [-1, -1],
        "grad_workspace": [0, 0],
    }
    return Backward(**arrays | changes)


def resident(**changes):
    """An input of node 0."""
    given = {"memory": [1], "role": [0], "read_indptr": [0, 1, 1], "read_indices": [0], "names": ["x"]}
    return Resident(**given | changes)


# ---------------------------------------------------------------- laws

LAWS = [
    # what arrays hold
    ({"memory": [[1, 1]]}, {"what": "memory", "ndim": 2}),
    ({"memory": 1}, {"what": "memory", "ndim": 0}),
    ({"memory": ["a", "b"]}, {"what": "memory", "entry": "a", "i": 0}),
    ({"memory": [2**70, 1]}, {"what": "memory"}),
    ({"memory": [1j, 1]}, {"what": "memory", "i": 0}),
    ({"memory": [1, 1.5]}, {"what": "memory", "at": 1, "array": 1.5}),
    ({"memory": [float("nan"), 1]}, {"what": "memory", "at": 0}),
    ({"memory": [1, float("inf")]}, {"what": "memory", "at": 1}),
    ({"memory": np.array([1, 2**64 - 1], np.uint64)}, {"what": "memory", "at": 1, "array": 18446744073709551615}),
    ({"read_indices": [2**31]}, {"what": "read_indices", "at": 0, "array": 2147483648}),
    ({"output": [0, 2]}, {"what": "output", "at": 1, "array": 2}),
    # how long they are
    ({"compute": [1]}, {"what": "compute", "actual": 1, "expected": 2}),
    ({"workspace": [1, 1, 1]}, {"what": "workspace", "actual": 3, "expected": 2}),
    ({"once": [True]}, {"what": "once", "actual": 1, "expected": 2}),
    ({"memory": [1, 1, 1]}, {"what": "output", "actual": 2, "expected": 3}),
    ({"mark": [0]}, {"what": "mark", "actual": 1, "expected": 2}),
    ({"forward_of": [-1]}, {"what": "forward_of", "actual": 1, "expected": 2}),
    ({"value_indptr": [0, 1]}, {"what": "compute", "actual": 2, "expected": 1}),
    ({"value_indptr": [0, 2, 2]}, {"node": 1}),
    ({"value_indptr": [1, 1, 2]}, {"what": "value_indptr", "n_entries": 2}),
    ({"value_indptr": [0, 3, 2]}, {"what": "value_indptr", "n_entries": 2}),
    ({"value_indptr": [0, 1, 3]}, {"what": "value_indptr", "n_entries": 2}),
    ({"read_indptr": [0, 1]}, {"what": "read_indptr", "per": "row, and one more", "actual": 2}),
    ({"read_indptr": [0, 2, 1]}, {"what": "read_indptr", "n_entries": 1}),
    ({"read_indptr": [0, 0, 2]}, {"what": "read_indptr", "n_entries": 1}),
    # sizes and costs
    ({"memory": [0, -1]}, {"what": "memory", "at": 1, "array": -1}),
    ({"compute": [-2, 0]}, {"what": "compute", "at": 0, "array": -2}),
    ({"workspace": [0, -3]}, {"what": "workspace", "at": 1, "array": -3}),
    ({"memory": [2**52, 2**52]}, {"what": "memory"}),
    ({"compute": [2**53, 0]}, {"what": "compute"}),
    ({"workspace": [2**62, 2**62]}, {"what": "workspace"}),
    # reads and outputs
    ({"output": [False, False]}, "no value is an output"),
    ({"read_indices": [2]}, {"node": "1", "value": 2, "last": 1}),
    ({"read_indices": [-1]}, {"node": "1", "value": -1, "last": 1}),
    ({"read_indptr": [0, 0, 2], "read_indices": [0, 0]}, {"node": "1", "value": 0}),
    ({"read_indptr": [0, 1, 1], "read_indices": [1]}, {"source": 1, "node": 0}),
    ({"read_indices": [1]}, {"source": 1, "node": 1}),
    # marks
    ({"mark": [0, 3]}, {"node": "1", "mark": 3}),
    ({"mark": [-1, 0]}, {"node": "0", "mark": -1}),
    ({"mark": [0, 300]}, {"what": "mark", "at": 1, "array": 300}),
    ({"mark": [2, 0], "once": [True, False]}, {"node": "0"}),
    # the backward part
    ({"backward": rule(), "forward_of": [-1, 0]}, "a graph with a backward part cannot be differentiated again"),
    ({"forward_of": [-1, 2]}, {"at": 1, "forward_of": 2}),
    ({"forward_of": [-1, 1]}, {"at": 1, "forward_of": 1}),
    ({"forward_of": [-1, -3]}, {"at": 1, "forward_of": -3}),
    ({"forward_of": [-2, -2]}, "no node is in the forward part; omit forward_of"),
    ({"forward_of": [-2, -1]}, {"node": "1"}),
    ({"forward_of": [1, -1]}, {"node": "1"}),
    # rules for gradients, residents
    ({"backward": Backward([0, 0], [], [1, 1], [-1], [0])}, {"part": "Backward", "rows": 1, "n_nodes": 2}),
    ({"backward": rule(grad_memory=[1])}, {"what": "grad_memory", "actual": 1, "expected": 2}),
    ({"backward": rule(saved_indptr=[0, 0, 1], saved_indices=[2])}, {"at": 0, "saved": 2, "last": 1}),
    ({"backward": rule(saved_indptr=[0, 0, 1], saved_indices=[-1])}, {"at": 0, "saved": -1, "last": 1}),
    ({"backward": rule(saved_indptr=[0, 1, 1], saved_indices=[1])}, {"name": "0", "saved": 1}),
    ({"resident": resident(read_indptr=[0, 1])}, {"part": "Resident", "rows": 1, "n_nodes": 2}),
    # names
    ({"labels": Labels(names=("a",))}, {"what": "names", "per": "node", "actual": 1}),
    ({"labels": Labels(ops=("Conv", "", ""))}, {"what": "ops", "per": "node", "actual": 3}),
    ({"labels": Labels(value_names={2: "x"})}, {"x": 2, "last": 1}),
    ({"labels": Labels(value_names={-1: "x"})}, {"x": -1, "last": 1}),
    ({"labels": Labels(names=("a", ""))}, "'' is not a valid name"),
    ({"labels": Labels(names=("a ", "b"))}, {"name": "a "}),
    ({"labels": Labels(names=("a", "b\nc"))}, {"name": "b\nc"}),
    ({"labels": Labels(value_names={0: "\t"})}, {"name": "\t"}),
    ({"resident": resident(names=[" x"])}, {"name": " x"}),
    ({"labels": Labels(names=("a", "a"))}, {"twice": "a"}),
    ({"labels": Labels(names=("a", "b"), value_names={0: "b"})}, {"name": "b"}),
    ({"labels": Labels(value_names={0: "x", 1: "x"})}, {"name": "x"}),
    ({"labels": Labels(value_names={0: "x"}), "resident": resident()}, {"name": "x"}),
    ({"labels": Labels(names=("x", "y")), "resident": resident()}, {"name": "x"}),
    ({"labels": Labels(views={"flat": "z"})}, {"name": "flat", "base": "z"}),
    ({"labels": Labels(views={"1": "0"})}, {"name": "1"}),
    ({"labels": Labels(views={" v": "0"})}, {"name": " v"}),
]
LAWS_OF_RULES = [
    ({"saved_indptr": [0, 0]}, {"what": "saved_indptr", "actual": 2, "expected": 3}),
    ({"saved_indptr": [0, 0, 1]}, {"what": "saved_indptr", "n_entries": 0}),
    ({"grad_workspace": [0]}, {"what": "grad_workspace", "actual": 1, "expected": 2}),
    ({"grad_workspace": [0, -1]}, {"what": "grad_workspace", "at": 1, "array": -1}),
    ({"grad_workspace": [2**52, 2**52]}, {"what": "grad_workspace"}),
    ({"grad_memory": [-2, 0]}, {"what": "grad_memory", "expected": "bytes", "at": 0}),
    ({"grad_compute": [-2, 0]}, {"what": "grad_compute", "expected": "a cost", "at": 0}),
    ({"grad_memory": [2**53, -1]}, {"what": "grad_memory"}),
    ({"grad_compute": [2**53, -1]}, {"what": "grad_compute"}),
    ({"saved_indptr": [0, 0, 3], "saved_indices": [0, 1, 0]}, {"row": 1}),
    ({"grad_memory": [-0.5, 1]}, {"what": "grad_memory[0]"}),
    ({"grad_compute": [0.5, 1]}, {"what": "grad_compute", "at": 0, "array": 0.5}),
]
LAWS_OF_RESIDENTS = [
    ({"memory": [-1]}, {"what": "resident memory", "at": 0, "array": -1}),
    ({"memory": [2**53]}, {"what": "resident memory"}),
    ({"role": [0, 0]}, {"what": "resident role", "per": "resident", "actual": 2}),
    ({"role": [3]}, {"roles": "input, parameter, state", "last": 2}),
    ({"role": [-1]}, {"roles": "input, parameter, state", "last": 2}),
    ({"read_indptr": []}, {"what": "resident read_indptr", "actual": 0, "expected": 1}),
    ({"read_indptr": [0, 0, 2]}, {"what": "resident read_indptr", "n_entries": 1}),
    ({"read_indices": [1]}, {"size": 0}),
    ({"read_indices": [-1]}, {"size": 0}),
    ({"read_indptr": [0, 0, 2], "read_indices": [0, 0]}, {"row": 1}),
    ({"names": []}, {"size": 1, "n_names": 0}),
    ({"memory": [1, 1], "role": [0, 0], "names": ["x", "x"]}, {"size": 2, "n_names": 1}),
]


@pytest.mark.parametrize(
    ("make", "changes", "fault"),
    [
        (make, *law)
        for make, laws in ((two_nodes, LAWS), (rule, LAWS_OF_RULES), (resident, LAWS_OF_RESIDENTS))
        for law in laws
    ],
)
def test_laws_of_the_constructors(make, changes, fault):
    with refused(GraphError, fault):
        make(**changes)


def test_the_largest_sum_below_the_limit_is_allowed():
    assert int(two_nodes(memory=[2**53 - 2, 1]).memory.sum()) == 2**53 - 1


def test_a_graph_of_no_nodes_is_a_graph():
    graph = ComputationGraph.from_arrays(read_indptr=[0], read_indices=[])
    assert (graph.n_nodes, graph.n_values, graph.depth, graph.needed_compute, graph.resident_memory) == (0, 0, 0, 0, 0)
    assert not graph.is_training
    assert graph.single_valued


def test_one_name_may_serve_a_node_and_its_first_value_only():
    two_nodes(labels=Labels(names=("a", "b"), value_names={0: "a"}))
    with raises(GraphError, name="a"):
        ComputationGraph.from_arrays(
            value_indptr=[0, 2], read_indptr=[0, 0], read_indices=[], labels=Labels(names=("a",), value_names={1: "a"})
        )


# ---------------------------------------------------------------- arrays


def held_arrays(graph):
    """Every array that a graph holds or derives."""
    for part in (graph, graph.backward, graph.resident):
        for name in getattr(type(part), "__dataclass_fields__", ()):
            if isinstance(getattr(part, name), np.ndarray):
                yield getattr(part, name)
    for name in ("producer", "readers", "predecessors", "successors", "needed", "forward", "node_memory"):
        derived = getattr(graph, name)
        yield from derived if isinstance(derived, tuple) else (derived,)


@given(any_graph)
def test_no_array_of_a_graph_can_be_written(graph):
    for array in held_arrays(graph):
        assert not array.flags.writeable
        assert array.flags.c_contiguous


@given(any_graph)
def test_a_graph_does_not_see_later_changes_of_its_source(graph):
    given = {name: getattr(graph, name).copy() for name in ARRAYS}
    again = ComputationGraph(**given)
    before = again.hash
    for array in given.values():
        array[:] = ~array if array.dtype == bool else array + 1
    assert ComputationGraph(**{name: getattr(again, name) for name in ARRAYS}).hash == before
    assert [getattr(again, name).tolist() for name in ARRAYS] == [getattr(graph, name).tolist() for name in ARRAYS]


def test_a_graph_does_not_see_later_changes_of_its_names():
    names, value_names, views = ["a", "b"], {0: "y"}, {"flat": "y"}
    graph = two_nodes(labels=Labels(names=names, value_names=value_names, views=views))
    for source in (names, value_names, views):
        source.clear()
    labels = graph.labels
    assert (labels.names, dict(labels.value_names), dict(labels.views)) == (("a", "b"), {0: "y"}, {"flat": "y"})


def test_slices_of_a_writable_array_are_copied():
    source = np.arange(8, dtype=np.int64)
    part = source[2:4]
    part.setflags(write=False)
    graph = two_nodes(memory=part)
    source[:] = 9
    assert graph.memory.tolist() == [2, 3]


@given(any_graph)
def test_arrays_have_their_types_whatever_was_given(graph):
    given = {name: getattr(graph, name).tolist() for name in ARRAYS}
    floats = {name: np.array(values, float) for name, values in given.items() if DTYPES[name] == "i"}
    flags = {name: np.array(values, np.int8) for name, values in given.items() if DTYPES[name] == "b"}
    for again in (ComputationGraph(**given), ComputationGraph(**floats, **flags)):
        for name in ARRAYS:
            assert getattr(again, name).dtype == getattr(graph, name).dtype
            assert getattr(again, name).tolist() == given[name]


# ---------------------------------------------------------------- what follows from the arrays


def lists(indptr, indices):
    return [indices[begin:end].tolist() for begin, end in itertools.pairwise(indptr)]


@given(any_graph)
def test_neighbours_needed_nodes_memory_and_depth_follow_from_the_arrays(graph):
    g, longest = plain(graph), []
    assert lists(*graph.readers) == [[v for v in g.nodes if x in g.reads[v]] for x in range(len(g.memory))]
    assert lists(*graph.predecessors) == [list(dict.fromkeys(g.predecessors(v))) for v in g.nodes]
    assert lists(*graph.successors) == [[w for w in g.nodes if v in g.predecessors(w)] for v in g.nodes]
    assert set(np.flatnonzero(graph.needed).tolist()) == g.needed()
    assert graph.needed_compute == sum(g.compute[v] for v in g.needed())
    assert graph.node_memory.tolist() == [sum(g.memory[x] for x in own) for own in g.values]
    for v in g.nodes:
        longest.append(1 + max((longest[u] for u in g.predecessors(v)), default=0))
    assert graph.depth == max(longest, default=0)


@given(any_graph)
def test_smaller_facts_follow_from_the_arrays(graph):
    g = plain(graph)
    assert [graph.value_id(name) for name in g.node_names] == [own[0] for own in g.values]
    assert graph.producer.tolist() == g.producer
    assert np.flatnonzero(graph.forward).tolist() == g.forward()
    assert graph.is_training == bool(g.backward())
    assert graph.single_valued == all(len(own) == 1 for own in g.values)
    assert graph.resident_memory == sum(g.resident_memory)
    assert [graph.reads(v) for v in g.nodes] == g.reads
    assert [list(graph.values(v)) for v in g.nodes] == g.values
    assert [graph.value_name(x) for x in range(graph.n_values)] == g.value_names
    assert [graph.node_id(name) for name in g.node_names] == list(g.nodes)
    assert [graph.value_id(name) for name in g.value_names] == list(range(graph.n_values))


def test_unknown_names_are_answered_with_near_ones():
    graph = two_nodes(labels=Labels(names=("conv1", "relu")))
    for find in (graph.node_id, graph.value_id):
        with raises(GraphError, name="conv"):
            find("conv")
    with raises(GraphError, name="xyz"):
        graph.node_id("xyz")


def test_the_name_of_a_view_means_what_it_views():
    graph = two_nodes(labels=Labels(names=("a", "b"), views={"flat": "a"}))
    assert graph.value_id("flat") == 0


@given(training_graphs() | captured_graphs())
def test_a_backward_node_runs_with_its_forward_node_or_with_what_it_reads(graph):
    g = plain(graph)
    assert graph.owner.tolist() == [g.owner(v) if g.is_backward(v) else -1 for v in g.nodes]
    assert graph.forward.tolist() == [not g.is_backward(v) for v in g.nodes]


def test_a_sum_of_gradients_belongs_to_the_earliest_node_whose_gradient_it_reads():
    reads = rows("read", [[], [0], [1, 0], [1], [2, 3], [0], []])
    graph = ComputationGraph.from_arrays(**reads, forward_of=[-1, -1, 1, 0, -2, -2, -2])
    assert graph.owner.tolist() == [-1, -1, 1, 0, 0, 0, 1]


# ---------------------------------------------------------------- ways in


def test_from_arrays_fills_in_what_is_left_out():
    graph = ComputationGraph.from_arrays(read_indptr=[0, 0, 1, 3], read_indices=[0, 0, 1])
    assert graph.value_indptr.tolist() == [0, 1, 2, 3]
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.workspace.tolist()) == ([1] * 3, [1] * 3, [0] * 3)
    assert (graph.once.tolist(), graph.output.tolist()) == ([False] * 3, [False, False, True])
    assert (graph.forward_of, graph.backward, graph.resident, graph.mark, graph.derivation) == (None,) * 5
    assert (graph.labels.names, graph.labels.compute_scale, graph.labels.compute_unit) == (None, 1, "")


def test_scalars_serve_all_nodes_or_values():
    graph = ComputationGraph.from_arrays(
        value_indptr=[0, 2, 3], read_indptr=[0, 0, 1], read_indices=[0], memory=4, compute=5, workspace=6, once=True
    )
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.workspace.tolist()) == ([4] * 3, [5] * 2, [6] * 2)
    assert graph.once.all()


@given(graphs())
def test_default_outputs_are_first_values_of_the_nodes_of_which_nothing_is_read(graph):
    g = plain(graph)
    given = {name: getattr(graph, name) for name in ARRAYS if name != "output"}
    read = {x for row in g.reads for x in row}
    found = np.flatnonzero(ComputationGraph.from_arrays(**given).output).tolist()
    assert found == [own[0] for own in g.values if not read & set(own)]


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"memory": [1, 2, 3]}, {"what": "memory", "actual": 3, "expected": 2}),
        ({"memory": ["1.5 kB"] * 3}, {"what": "memory", "actual": 3, "expected": 2}),
        ({"compute": [1]}, {"what": "compute", "actual": 1, "expected": 2}),
        ({"workspace": [[1], [2]]}, {"what": "workspace", "ndim": 2}),
        ({"once": [1]}, {"what": "once", "actual": 1, "expected": 2}),
        ({"output": [True]}, {"what": "output", "actual": 1, "expected": 2}),
        ({"value_indptr": [0, 1]}, {"what": "value_indptr", "actual": 2, "expected": 3}),
        ({"value_indptr": [0, 2, -5]}, {"what": "value_indptr"}),
        ({"value_indptr": [0, 0, 1]}, {"node": 0}),
        ({"value_indptr": [0, 3, 2]}, {"what": "value_indptr", "n_entries": 2}),
        ({"read_indices": [-7]}, {"node": "1", "value": -7, "last": 1}),
        ({"read_indices": [10**9]}, {"node": "1", "value": 1000000000, "last": 1}),
        ({"read_indptr": [0, 5, 1]}, {"what": "read_indptr", "n_entries": 1}),
        ({"read_indptr": [], "read_indices": []}, {"what": "read_indptr", "actual": 0}),
    ],
)
def test_from_arrays_refuses(arrays, fault):
    with refused(GraphError, fault):
        ComputationGraph.from_arrays(**{"read_indptr": [0, 0, 1], "read_indices": [0]} | arrays)


FROM_EDGES = {
    "ids are kept": (
        [(3, 4), (0, 3), (1, 3)],
        {"memory": [1, 2, 3, 4, 5]},
        {
            "reads": {"0": [], "1": [], "2": [], "3": ["0", "1"], "4": ["3"]},
            **{"names": None, "memory": [1, 2, 3, 4, 5], "output": [False, False, True, False, True]},
        },
    ),
    "an edge twice": ([(1, 2), (0, 2), (1, 2)], {}, {"reads": {"0": [], "1": [], "2": ["1", "0"]}}),
    "an edge of names twice": ([("a", "b"), ("a", "b")], {}, {"reads": {"a": [], "b": ["a"]}}),
    "no edge": ([], {"memory": [1, 2]}, {"memory": [1, 2]}),
    "nothing": ([], {}, {"memory": []}),
    "a node without edges": ([(0, 1)], {"compute": [1, 2, 3]}, {"compute": [1, 2, 3]}),
    "their number": ([(0, 1)], {"n_nodes": 5}, {"memory": [1] * 5}),
    "the first and the last without edges": ([(1, 3)], {"n_nodes": 4}, {"memory": [1] * 4}),
    "names": (
        [("b", "c"), ("a", "b")],
        {"memory": [1, 2, 3], "compute": [4, 5, 6]},
        {"names": ("a", "b", "c"), "memory": [3, 1, 2], "compute": [6, 4, 5]},
    ),
    "further arrays": (
        [(0, 1)],
        {"once": [True, False], "labels": Labels(names=("a", "b"))},
        {"once": [True, False], "names": ("a", "b")},
    ),
    "ids in any order": (
        [(2, 0), (0, 1), (2, 1)],
        {"memory": [10, 11, 12], "once": [1, 0, 0]},
        {"memory": [12, 10, 11], "once": [False, True, False], "reads": {"2": [], "0": ["2"], "1": ["0", "2"]}},
    ),
    "ids with gaps": (
        [(10, 20), (-3, 20), (20, 10**12)],
        {},
        {"reads": {"-3": [], "10": [], "20": ["10", "-3"], str(10**12): ["20"]}},
    ),
    "a mapping of ids": (
        [(0, 1), (1, 2)],
        {"memory": {0: 4, 1: 5, 2: 6}, "labels": Labels(names=tuple("abc"))},
        {"memory": [4, 5, 6], "names": ("a", "b", "c")},
    ),
    "a mapping of all nodes": ([(0, 1)], {"memory": {0: 1, 1: 2, 2: 3}, "n_nodes": 3}, {"memory": [1, 2, 3]}),
    "names with all arrays": (
        [("noise", "conv"), ("conv", "loss")],
        {
            "memory": [4, 8, 1],
            "compute": 2,
            "workspace": [0, 16, 0],
            "once": [1, 0, 0],
            "output": [1, 0, 1],
            "mark": [0, 2, 0],
        },
        {
            **{"names": ("noise", "conv", "loss"), "workspace": [0, 16, 0], "once": [True, False, False]},
            **{"output": [True, False, True], "mark": [0, 2, 0]},
        },
    ),
}


@pytest.mark.parametrize(("edges", "arrays", "facts"), FROM_EDGES.values(), ids=FROM_EDGES)
def test_from_edges_takes_ids_and_names(edges, arrays, facts):
    graph = ComputationGraph.from_edges(edges, **arrays)
    assert {name: FACTS[name](graph) for name in facts} == facts


@pytest.mark.parametrize("kind", [list, np.array, iter, lambda pairs: np.array(pairs, np.uint8)])
def test_edges_come_in_any_container(kind):
    graph = ComputationGraph.from_edges(kind([(0, 1), (0, 2), (1, 2)]))
    assert [graph.reads(v) for v in range(3)] == [[], [0], [0, 1]]


@pytest.mark.parametrize(
    ("edges", "options", "fault"),
    [
        ([(1, 2), (2, 1)], {}, {"source": "edges", "cycle": ["1", "2", "1"]}),
        ([(1, 1)], {}, {"cycle": ["1", "1"]}),
        ([(-1, 0)], {"n_nodes": 2}, {"lost": -1, "n": 1}),
        ([(0, 2)], {"n_nodes": 2}, {"lost": 2, "n": 1}),
        ([(0, 1)], {"n_nodes": 2.5}, {"what": "n_nodes", "number": 2.5}),
        ([(0, 1)], {"n_nodes": -1}, {"n": -1}),
        ([(0, 2**40)], {"memory": [1]}, {"n": 1099511627777}),
        ([(0, 1)], {"memory": [8]}, {"what": "memory", "per": "node", "actual": 1}),
        (
            [(1, 0)],
            {"forward_of": [-1, -1]},
            "forward_of cannot be given for nodes with names, or with ids that are not topological",
        ),
        ([(0, 1)], {"memory": [1, 2, 3], "compute": [1, 2]}, {"what": "compute", "actual": 2, "expected": 3}),
        ([(0, 1)], {"memory": -1}, {"what": "memory", "at": 0, "array": -1}),
        ([(0, 1, 2)], {}, "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...]"),
        ([0, 1], {}, "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...]"),
        ([(0, 1), (1, 2, 3)], {}, "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...]"),
        ([("a", "b"), ("b", "a")], {}, {"source": "edges", "cycle": ["a", "b", "a"]}),
        ([("a", "a")], {}, {"cycle": ["a", "a"]}),
        ([("a", "b")], {"memory": [1, 2, 3]}, {"what": "memory", "actual": 3, "expected": 2}),
        ([("a", "b")], {"n_nodes": 5}, "n_nodes"),
        (5, {}, "edges are not pairs (u, v) of node ids or names"),
        ([(0.5, 1.5)], {}, "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...]"),
        ([("a", "b")], {"forward_of": [-1, -1]}, "forward_of cannot be given for nodes with names"),
    ],
)
def test_from_edges_refuses(edges, options, fault):
    with refused(GraphError, fault):
        ComputationGraph.from_edges(edges, **options)


def test_ids_of_64_bits_are_kept():
    largest = 2**64 - 1
    for edges in (np.array([(largest, 7)], np.uint64), [(largest, 7)], [(10 * largest, 7)]):
        graph = ComputationGraph.from_edges(edges)
        assert graph.labels.names == (str(int(edges[0][0])), "7")


@given(graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_other_numbers_for_the_nodes_leave_the_graph(graph, random):
    """Sizes, costs and reads by name are those of the same edges under topological ids."""
    pairs = [(int(graph.producer[x]), v) for v in range(graph.n_nodes) for x in graph.reads(v)]
    ids = random.sample(range(10 * graph.n_nodes), graph.n_nodes)
    memory = {ids[v]: int(size) for v, size in enumerate(graph.node_memory)}
    named = {v for pair in pairs for v in pair}
    found = ComputationGraph.from_edges(
        [(ids[u], ids[v]) for u, v in pairs], memory={ids[v]: memory[ids[v]] for v in named}
    )
    assert set(found.node_names()) == {str(ids[v]) for v in named}
    for v in named:
        place = found.node_id(str(ids[v]))
        assert found.memory[place] == memory[ids[v]]
        assert {found.labels[x] for x in found.reads(place)} == {str(ids[u]) for u, w in pairs if w == v}


@pytest.mark.parametrize("key", [str, np.str_, lambda name: name], ids=["str", "np.str_", "as it is"])
def test_sizes_and_costs_come_as_mappings_of_names(key):
    edges = [("conv", "relu"), ("relu", "loss")]
    sizes = {key("loss"): 1, key("conv"): np.int32(8), key("relu"): 8.0}
    graph = ComputationGraph.from_edges(edges, sizes, {"conv": 20, "relu": 1, "loss": 1}, once={"relu": True})
    assert graph.memory.tolist() == [8, 8, 1]
    assert graph.compute.tolist() == [20, 1, 1]
    assert graph.once.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        ({"conv": 1, "relu": 1}, {"what": "memory", "missing": ["loss"], "n_known": 3}),
        ({}, {"what": "memory", "missing": ["conv", "relu", "loss"], "n_known": 3}),
        ({"conv": 1, "relu": 1, "los": 1}, {"what": "memory", "name": "los", "remedy": "; did you mean loss?"}),
        (dict.fromkeys(["conv", "relu", "loss", "x" * 10**6], 1), {"what": "memory"}),
        ({"conv": 1, "relu": None, "loss": 1}, {"what": "memory[1]"}),
        ({"conv": 1, "relu": "8 M5", "loss": 1}, {"what": "memory[1]"}),
    ],
)
def test_mappings_name_every_node_and_nothing_else(sizes, fault):
    with refused(GraphError, fault) as error:
        ComputationGraph.from_edges([("conv", "relu"), ("relu", "loss")], memory=sizes)
    assert len(str(error.value)) < 150


@pytest.mark.parametrize("kind", [float, np.float32, np.int8, np.uint64])
def test_whole_numbers_of_any_type_are_taken(kind):
    graph = ComputationGraph.from_edges(
        [(kind(0), kind(1))], [kind(4), kind(2)], np.array([kind(3), kind(5)], object), n_nodes=kind(2)
    )
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.reads(1)) == ([4, 2], [3, 5], [0])


@given(graphs(min_nodes=1))
def test_other_costs_leave_everything_else(graph):
    other = graph.with_costs(memory=graph.memory + 1, compute=3)
    assert other.memory.tolist() == [size + 1 for size in graph.memory.tolist()]
    assert other.compute.tolist() == [3] * graph.n_nodes
    assert replace(other, memory=graph.memory, compute=graph.compute, backward=graph.backward).hash == graph.hash
    for x, size in enumerate(graph.backward.grad_memory.tolist() if graph.backward is not None else ()):
        as_before = other.memory[x] if size == graph.memory[x] else size
        assert other.backward.grad_memory[x] == as_before


def test_other_costs_obey_the_laws_and_forget_the_derivation():
    graph = two_nodes()
    with raises(GraphError, what="memory", actual=3):
        graph.with_costs(memory=[1, 2, 3])
    with raises(GraphError, what="workspace", at=1, array=-1):
        graph.with_costs(workspace=[0, -1])


# ---------------------------------------------------------------- names and hash


NOTHING = Resident(memory=[], role=[], read_indptr=[0, 0, 0], read_indices=[], names=())


@pytest.mark.parametrize(
    "silent",
    [
        {"labels": Labels(names=("0", "1"))},
        {"labels": Labels(ops=("", ""))},
        {"labels": Labels(value_names={0: "0", 1: "1"})},
        {"mark": [0, 0]},
        {"resident": NOTHING},
    ],
)
def test_what_says_nothing_is_dropped(silent):
    graph, plain_graph = two_nodes(**silent), two_nodes()
    assert (graph.hash, repr(graph.labels)) == (plain_graph.hash, repr(plain_graph.labels))
    assert (graph.mark, graph.resident) == (None, None)


def test_names_of_further_values_that_only_repeat_the_rule_are_dropped():
    arrays = {"value_indptr": [0, 2], "read_indptr": [0, 0], "read_indices": []}
    named = ComputationGraph.from_arrays(**arrays, labels=Labels(value_names={0: "0", 1: "0:1"}))
    assert dict(named.labels.value_names) == {}


@given(any_graph)
def test_equal_graphs_hash_alike_whichever_way_they_came(graph):
    fields = {name: getattr(graph, name) for name in ARRAYS}
    rest = {name: getattr(graph, name) for name in ("forward_of", "backward", "resident", "mark", "labels")}
    assert ComputationGraph(**fields, **rest).hash == graph.hash
    assert ComputationGraph.from_arrays(**fields, **rest).hash == graph.hash
    assert replace(graph).hash == graph.hash
    assert graph.with_costs().hash == graph.hash


def test_edges_arrays_names_and_rows_make_the_same_graph():
    numbered = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    assert ComputationGraph.from_edges([("0", "1"), ("0", "2"), ("1", "2")]).hash == numbered.hash
    assert ComputationGraph.from_arrays(read_indptr=[0, 0, 1, 3], read_indices=[0, 0, 1]).hash == numbered.hash
    assert ComputationGraph.from_tables(tables_from(numbered)).hash == numbered.hash


def rich():
    """Two values of 0; 1 reads both, 2 reads 0:1 and 1."""
    return ComputationGraph.from_arrays(
        value_indptr=[0, 2, 3, 4],
        read_indptr=[0, 0, 2, 4],
        read_indices=[0, 1, 1, 2],
        memory=[1, 2, 3, 4],
        compute=[1, 2, 3],
        workspace=[0, 1, 2],
        once=[False, True, False],
        output=[False, False, True, True],
        mark=[0, 1, 2],
        backward=Backward([0, 1, 2, 2], [0, 1], [1, 2, -1, 4], [-1, 5, 6], [0, 0, 1]),
        resident=Resident([5, 6], [0, 1], [0, 1, 2, 2], [0, 1], ("x", "p")),
        labels=Labels(names=("a", "b", "c"), value_names={1: "mask"}),
    )


FEWER_READS = {"read_indptr": [0, 0, 1, 3], "read_indices": [0, 1, 2], "backward": None}
CHANGES = {
    "values": lambda g: {"value_indptr": [0, 1, 3, 4], **FEWER_READS},
    "row of a read": lambda g: FEWER_READS,
    "a read": lambda g: {"read_indices": [0, 1, 0, 2]},
    "order of reads": lambda g: {"read_indices": [1, 0, 1, 2]},
    "memory": lambda g: {"memory": [1, 2, 3, 5]},
    "compute": lambda g: {"compute": [1, 2, 4]},
    "workspace": lambda g: {"workspace": [1, 1, 2]},
    "once": lambda g: {"once": [False, False, False]},
    "output": lambda g: {"output": [True, False, True, True]},
    "mark": lambda g: {"mark": [1, 1, 2]},
    "no mark": lambda g: {"mark": None},
    "no rules": lambda g: {"backward": None},
    "a backward part": lambda g: {"backward": None, "forward_of": [-1, -1, 0]},
    "another owner": lambda g: {"backward": None, "forward_of": [-1, -1, 1]},
    "saved": lambda g: {"backward": replace(g.backward, saved_indices=[1, 1])},
    "saved rows": lambda g: {"backward": replace(g.backward, saved_indptr=[0, 2, 2, 2])},
    "grad_memory": lambda g: {"backward": replace(g.backward, grad_memory=[1, 2, 0, 4])},
    "grad_compute": lambda g: {"backward": replace(g.backward, grad_compute=[0, 5, 6])},
    "grad_workspace": lambda g: {"backward": replace(g.backward, grad_workspace=[1, 0, 1])},
    "no residents": lambda g: {"resident": None},
    "resident memory": lambda g: {"resident": replace(g.resident, memory=[5, 7])},
    "resident role": lambda g: {"resident": replace(g.resident, role=[0, 2])},
    "resident rows": lambda g: {"resident": replace(g.resident, read_indptr=[0, 1, 1, 2])},
    "resident reads": lambda g: {"resident": replace(g.resident, read_indices=[0, 0])},
    "resident name": lambda g: {"resident": replace(g.resident, names=("x", "q"))},
    "name": lambda g: {"labels": replace(g.labels, names=("a", "b", "d"))},
    "no names": lambda g: {"labels": replace(g.labels, names=None)},
    "value name": lambda g: {"labels": replace(g.labels, value_names={1: "mean"})},
    "no value name": lambda g: {"labels": replace(g.labels, value_names={})},
    "other value named": lambda g: {"labels": replace(g.labels, value_names={0: "mask"})},
}


def test_every_array_and_name_changes_the_hash():
    hashes = {what: replace(rich(), **change(rich())).hash for what, change in CHANGES.items()}
    assert len({rich().hash, *hashes.values()}) == 1 + len(CHANGES)


@pytest.mark.parametrize(
    "change",
    [{"ops": ("Conv", "", "ReLU")}, {"views": {"flat": "a"}}, {"compute_unit": "ns"}],
    ids=["ops", "views", "unit"],
)
def test_what_does_not_bind_a_plan_is_no_part_of_the_hash(change):
    assert replace(rich(), labels=replace(rich().labels, **change)).hash == rich().hash


@given(st.data())
def test_one_byte_more_is_another_graph(data):
    graph = data.draw(graphs(min_nodes=1))
    memory = graph.memory.copy()
    memory[data.draw(st.integers(0, graph.n_values - 1))] += 1
    assert graph.with_costs(memory=memory).hash != graph.hash
