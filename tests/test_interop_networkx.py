"""Graphs and plans from and to networkx."""

import contextlib
import itertools
import json
import re
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.errors import GraphError, GraphWarning
from remat_algos.interop.networkx import from_networkx, to_networkx
from tests.raising import raises
from tests.strategies import graphs, training_graphs

networkx = pytest.importorskip("networkx")

EDGES = [("conv", "relu"), ("relu", "loss"), ("conv", "loss")]
SIZES = {"conv": 8, "relu": 4, "loss": 1}


def digraph(kind=networkx.DiGraph, **attributes):
    """conv -> relu -> loss, and conv -> loss, with sizes."""
    found = kind(EDGES, **attributes)
    networkx.set_node_attributes(found, SIZES, "memory")
    return found


# ---------------------------------------------------------------- in


def test_an_edge_says_that_its_head_reads_its_tail():
    graph = from_networkx(digraph())
    assert graph.labels.names == ("conv", "relu", "loss")
    assert [graph.reads(v) for v in range(3)] == [[], [0], [1, 0]]
    assert graph.memory.tolist() == [8, 4, 1]
    assert graph.compute.tolist() == [1, 1, 1]
    assert graph.output.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("edges", "names"),
    [([(3, "a"), ("a", 1)], ("3", "a", "1")), ([(3, 10), (1, 10)], None), ([("b", "c"), ("a", "c")], ("b", "a", "c"))],
)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_nodes_stand_in_their_order_and_numbers_alone_in_that_of_numbers(edges, names):
    assert from_networkx(networkx.DiGraph(edges)).labels.names == (names or ("1", "3", "10"))


WAYS = {
    "the name of an attribute": "memory",
    "a mapping": SIZES,
    "a callable": SIZES.get,
    "floats": {node: float(size) for node, size in SIZES.items()},
    "NumPy's numbers": {node: np.float32(size) for node, size in SIZES.items()},
    "exact numbers": {"conv": Decimal(8), "relu": Fraction(4), "loss": True + 0},
    "text with units": {"conv": "8 B", "relu": "4", "loss": " 1 B "},
}


@pytest.mark.parametrize("memory", WAYS.values(), ids=WAYS)
def test_sizes_come_in_many_ways(memory):
    assert from_networkx(digraph(), memory=memory).memory.tolist() == [8, 4, 1]


def test_costs_with_decimals_are_scaled_as_in_files():
    graph = from_networkx(digraph(), compute={"conv": 0.5, "relu": 2, "loss": np.float64(0.25)})
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([50, 200, 25], 100)


def test_one_number_serves_all_nodes():
    assert from_networkx(networkx.DiGraph(EDGES), memory=4096, compute=2).memory.tolist() == [4096] * 3


def test_attributes_are_called_as_columns_of_tables_are():
    found = digraph()
    found.nodes["conv"].update(op="Conv", workspace="1 kB", once=True, mark="keep", color="red", label="first")
    found.nodes["relu"].update(output=True)
    graph = from_networkx(found, compute=1)
    assert (graph.labels.op(0), graph.workspace[0], graph.once[0], graph.mark[0]) == ("Conv", 1000, True, 1)
    assert graph.output.tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["mem", "bytes", "size"])
def test_the_other_names_of_columns_serve_too(name):
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, SIZES, name)
    assert from_networkx(found).memory.tolist() == [8, 4, 1]


def test_a_size_beside_the_memory_is_that_of_a_picture():
    found = digraph()
    networkx.set_node_attributes(found, 300, "size")
    assert from_networkx(found, compute=1).memory.tolist() == [8, 4, 1]


@pytest.mark.parametrize("blank", ["", "  ", None])
@pytest.mark.parametrize("what", ["memory", "compute"])
def test_a_blank_amount_is_a_missing_one(blank, what):
    given = SIZES | {"relu": blank}
    attributes = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(attributes, given, what)
    for found, options in (
        (attributes, {}),
        (networkx.DiGraph(EDGES), {what: given}),
        (networkx.DiGraph(EDGES), {what: given.get}),
    ):
        with raises(GraphError, what=what, nodes=["'relu'"]):
            from_networkx(found, **options)


def test_a_graph_without_sizes_and_costs_has_ones():
    graph = from_networkx(networkx.DiGraph(EDGES))
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([1, 1, 1], [1, 1, 1])


def test_sizes_under_another_name_are_told_and_read_by_that_name():
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, SIZES, "out_kb")
    with pytest.warns(GraphWarning, match=r"has a size or a cost: .* may name an attribute \(found: out_kb\)"):
        from_networkx(found)
    assert from_networkx(found, memory="out_kb", compute=1).memory.tolist() == [8000, 4000, 1000]


def test_the_usual_attributes_are_not_read_beside_one_that_is_named():
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, SIZES, "kept")
    networkx.set_node_attributes(found, 7, "mem")
    networkx.set_node_attributes(found, "the same", "name")
    graph = from_networkx(found, memory="kept")
    assert (graph.memory.tolist(), graph.node_names()) == (list(SIZES.values()), list(SIZES))


def test_nodes_may_be_anything_hashable():
    nodes = [(0, "conv"), frozenset({1}), Fraction(1, 2), None.__class__, 7]
    graph = from_networkx(networkx.DiGraph(list(itertools.pairwise(nodes))), memory=dict.fromkeys(nodes, 2))
    assert graph.labels.names == tuple(map(str, nodes))


def test_integers_are_numbered_in_ascending_order_where_the_edges_leave_a_choice():
    assert from_networkx(networkx.DiGraph([(0, 2), (0, 1)])).labels.names is None
    assert from_networkx(networkx.DiGraph([(5, 3), (9, 3)])).labels.names == ("5", "9", "3")


def test_isolated_nodes_are_nodes():
    found = networkx.DiGraph()
    found.add_node("alone", memory=3)
    assert from_networkx(found).memory.tolist() == [3]


def test_parallel_edges_are_one_read():
    graph = from_networkx(digraph(networkx.MultiDiGraph))
    twice = digraph(networkx.MultiDiGraph)
    twice.add_edges_from(EDGES)
    assert from_networkx(twice).hash == graph.hash == from_networkx(digraph()).hash


def test_views_and_subgraphs_are_read():
    assert from_networkx(digraph().subgraph(["conv", "relu"])).labels.names == ("conv", "relu")
    assert from_networkx(digraph().reverse(copy=False)).labels.names == ("loss", "relu", "conv")


def cyclic():
    return networkx.DiGraph([*EDGES, ("loss", "conv")])


def named(**sizes):
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, sizes, "memory")
    return found


FAULTS = {
    "undirected": (networkx.Graph(EDGES), {}, GraphError, "undirected"),
    "cyclic": (cyclic(), {}, GraphError, "cycle: conv -> relu -> loss -> conv"),
    "a loop": (networkx.DiGraph([("a", "a")]), {}, GraphError, "cycle: a -> a"),
    "no graph": (EDGES, {}, TypeError, "found list"),
    "same text": (networkx.DiGraph([(1, "1")]), {}, GraphError, "nodes 1 and '1'"),
    "no node": (networkx.DiGraph(), {}, GraphError, "no nodes"),
    "an empty name": (networkx.DiGraph([("", "a")]), {}, GraphError, "node ''"),
    "a size missing": (named(conv=1, loss=1), {}, GraphError, "no memory for 'relu';"),
    "sizes missing": (named(conv=1), {}, GraphError, "no memory for 'relu', 'loss';"),
    "an entry missing": (digraph(), {"compute": {"conv": 1}}, GraphError, "no compute for 'relu', 'loss';"),
    "an unknown node": (digraph(), {"compute": {"conf": 1}}, GraphError, "did you mean conv?"),
    "an unknown attribute": (digraph(), {"memory": "size"}, GraphError, "'size' (found: memory)"),
    "no attributes": (networkx.DiGraph(EDGES), {"memory": "size"}, GraphError, "has the attribute 'size'"),
    "no size": (digraph(), {"memory": lambda node: "big"}, GraphError, "memory of 'conv'"),
    "below zero": (digraph(), {"memory": -1}, GraphError, "memory -1"),
    "NaN": (digraph(), {"memory": float("nan")}, GraphError, "memory of 'conv'"),
    "a list": (digraph(), {"memory": [1, 2, 3]}, TypeError, "memory is [1, 2, 3]"),
}


@pytest.mark.parametrize(("found", "options", "error", "words"), FAULTS.values(), ids=FAULTS)
def test_what_is_no_graph_is_refused(found, options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        from_networkx(found, **options)


def test_a_misspelt_attribute_is_not_taken_for_a_missing_one():
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, SIZES, "memroy")
    with pytest.raises(GraphError, match=r"networkx graph: attribute `memroy` is not known; did you mean `memory`\?"):
        from_networkx(found)


# ---------------------------------------------------------------- out, and back


@given(graphs(min_nodes=1) | training_graphs(max_nodes=12))
def test_a_graph_comes_back_as_it_was(graph):
    """Names, values, views, residents, gradients and all: the hash covers them."""
    back = from_networkx(to_networkx(graph))
    assert back.hash == graph.hash
    assert back.labels.compute_unit == graph.labels.compute_unit
    assert back.labels.compute_scale == graph.labels.compute_scale


@given(graphs(min_nodes=1), st.sampled_from(["edges", "links", "adjacency"]))
def test_a_graph_comes_back_through_the_json_of_networkx(tmp_path_factory, graph, kind):
    found = to_networkx(graph)
    data = networkx.adjacency_data(found) if kind == "adjacency" else networkx.node_link_data(found, edges=kind)
    file = tmp_path_factory.mktemp("json") / "graph.json"
    file.write_text(json.dumps(data))
    back = to_networkx(ra.read_graph(file))  # networkx lists edges by their tails, so that reads may change places
    assert dict(back.nodes) == dict(found.nodes)
    assert {edge[:2]: edge[2] for edge in back.edges(data=True)} == {e[:2]: e[2] for e in found.edges(data=True)}


def test_a_plan_gives_each_node_its_decision():
    training = ra.differentiate(from_networkx(networkx.path_graph(8, networkx.DiGraph)))
    plan = ra.solve(training, 7)
    found = ra.to_networkx(plan)
    for name, runs in zip(training.node_names(), plan.simulation.runs.tolist(), strict=True):
        said = found.nodes[name]
        assert (said["runs"], said["kept"], said["recomputed"]) == (runs, runs == 1, runs > 1)
        assert (said["memory"], type(said["memory"])) == (1, int)
    assert any(said["recomputed"] for _, said in found.nodes(data=True))
    assert found.graph["peak_memory"] == plan.peak_memory == 7
    assert found.graph["total_compute"] == plan.simulation.compute
    assert (found.graph["overhead"], found.graph["method"]) == (plan.overhead, plan.method)
    assert networkx.is_directed_acyclic_graph(found)
    assert from_networkx(found).hash == training.hash


def test_the_callers_nodes_take_the_place_of_their_text():
    own = networkx.DiGraph([((0, 0), (0, 1)), ((0, 1), (1, 1))])
    plan = ra.solve(ra.differentiate(from_networkx(own)), "100%")
    found = to_networkx(plan, nodes=own)
    assert set(own) < set(found)
    assert found.nodes[0, 1]["runs"] == 1
    assert found.has_edge((0, 0), (0, 1))
    assert "grad((0, 1))" in found


def test_costs_come_back_in_the_unit_that_was_read():
    graph = from_networkx(digraph(), compute={"conv": 0.5, "relu": 2, "loss": 0.25})
    assert to_networkx(graph).nodes["conv"]["compute"] == 0.5
    assert from_networkx(to_networkx(graph)).hash == graph.hash


def test_the_costs_of_a_plan_are_in_the_unit_of_its_nodes():
    graph = from_networkx(networkx.DiGraph([("a", "b"), ("a", "c"), ("b", "c")]), compute={"a": 0.5, "b": 2, "c": 0.25})
    found = to_networkx(ra.simulate(graph, [0, 1, 0, 2]))
    costs = [(said["compute"], said["runs"]) for _, said in found.nodes(data=True)]
    assert found.graph["total_compute"] == sum(cost * runs for cost, runs in costs) == 3.25
    assert found.graph["overhead"] == 0.5


# ---------------------------------------------------------------- JSON


def written(tmp_path, data):
    file = tmp_path / "g.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return file


def test_nodes_of_json_are_called_as_those_of_networkx(tmp_path):
    found = networkx.DiGraph([((0, (1, 2)), 5), (5, "x")])
    graph = ra.read_graph(written(tmp_path, networkx.node_link_data(found)))
    assert graph.labels.names == from_networkx(found).labels.names == ("(0, (1, 2))", "5", "x")


def test_json_says_decimals_units_and_flags(tmp_path):
    nodes = [{"id": "a", "memory": "4 kB", "compute": 0.5, "once": True}, {"id": "b", "bytes": 8, "compute": 1}]
    graph = ra.read_graph(
        written(tmp_path, {"nodes": nodes, "links": [{"source": "a", "target": "b", "weight": None}]})
    )
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([4000, 8], [5, 10])
    assert graph.once.tolist() == [True, False]


@pytest.mark.parametrize("write", [networkx.node_link_data, networkx.adjacency_data])
def test_a_size_in_json_is_the_memory(tmp_path, write):
    found = networkx.DiGraph(EDGES)
    networkx.set_node_attributes(found, SIZES, "size")
    networkx.set_node_attributes(found, 1, "compute")
    assert ra.read_graph(written(tmp_path, write(found))).memory.tolist() == [8, 4, 1]
    networkx.set_node_attributes(found, SIZES, "memory")
    networkx.set_node_attributes(found, 300, "size")
    with pytest.warns(GraphWarning, match="ignored attributes size"):
        assert ra.read_graph(written(tmp_path, write(found))).memory.tolist() == [8, 4, 1]


def test_other_attributes_of_json_are_told(tmp_path):
    data = {"nodes": [{"id": 0, "color": "red", "memory": 8}], "edges": []}
    with pytest.warns(GraphWarning, match=r"g\.json: ignored attributes color"):
        assert ra.read_graph(written(tmp_path, data)).n_nodes == 1


NODE = {"id": "a"}
BROKEN = {
    "undirected": ({"directed": False, "nodes": [NODE], "edges": []}, "the graph is undirected, expected directed"),
    "no id": ({"nodes": [{}], "edges": []}, "node 0 has no `id`; add one"),
    "an id twice": ({"nodes": [NODE, NODE], "edges": []}, "two nodes have the id 'a'; give each its own id"),
    "nodes that are no list": ({"nodes": {}, "edges": []}, "`nodes` is not a list of objects"),
    "nodes that are no objects": ({"nodes": [1], "edges": []}, "`nodes` is not a list of objects"),
    "edges that are no objects": ({"nodes": [NODE], "links": [["a", "a"]]}, "`links` is not a list of objects"),
    "no source": ({"nodes": [NODE], "edges": [{"target": "a"}]}, "edge 0 of `edges` has no `source` and `target`"),
    "an unknown node": (
        {"nodes": [NODE], "edges": [{"source": "a", "target": "b"}]},
        "an edge has 'b', which is not a node; add it to `nodes`",
    ),
    "too few rows": ({"nodes": [NODE], "adjacency": []}, "must be a list of 1 row, one per node"),
    "rows of nothing": ({"nodes": [NODE], "adjacency": [[{}]]}, "an edge of node 'a' has no `id`"),
    "rows that are no lists": ({"nodes": [NODE], "adjacency": [{}]}, ", one per node"),
    "a cycle": ({"nodes": [NODE], "edges": [{"source": "a", "target": "a"}]}, "the graph has a cycle: a -> a"),
    "a misspelt attribute": ({"nodes": [{"id": "a", "memroy": 1}], "edges": []}, "did you mean `memory`?"),
    "a list for a size": ({"nodes": [{"id": "a", "memory": [1]}], "edges": []}, "memory of 'a'"),
    "neither edges nor rows": ({"nodes": [NODE]}, 'not a graph: expected "format": "remat-graph", or "nodes" with'),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_json_is_named(tmp_path, data, message):
    with pytest.raises(GraphError, match=re.escape(message)) as error:
        ra.read_graph(written(tmp_path, data))
    assert str(error.value).startswith("g.json")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "source", "target", "memory", "nodes"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
@given(JUNK, JUNK, st.sampled_from(["edges", "links", "adjacency"]), JUNK)
def test_any_json_is_a_graph_or_a_sentence(tmp_path_factory, nodes, edges, kind, said):
    data = {"nodes": nodes, kind: edges, "graph": said}
    with contextlib.suppress(GraphError):
        assert ra.read_graph(written(tmp_path_factory.mktemp("json"), data)).n_nodes == len(nodes)


def test_networkx_may_be_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"install it, from a checkout: python -m pip install -e '\.\[graphs\]'"):
        ra.to_networkx(ra.ComputationGraph.from_edges([("a", "b")]))
