"""Sizes and costs are read alike wherever a graph comes from."""

import json
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.errors import GraphError, GraphWarning
from remat_algos.ir.parts import Backward, Resident
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

networkx = pytest.importorskip("networkx")
Graph = ra.ComputationGraph
ROUNDED = "ignore:.*rounded:remat_algos.errors.GraphWarning"


def from_table(memory, compute, folder):
    (folder / "g.nodes.csv").write_text(f"name,memory,compute\na,{memory},{compute}\nb,1,1\n")
    (folder / "g.edges.csv").write_text("src,dst\na,b\n")
    return ra.read_graph(folder / "g.nodes.csv")


def from_json(memory, compute, _):
    plain = {"memory": memory, "compute": compute}
    plain = {what: float(x) if isinstance(x, Decimal | np.number) else x for what, x in plain.items()}
    a = {"name": "a", "compute": plain["compute"], "values": [{"memory": plain["memory"]}]}
    b = {"name": "b", "compute": 1, "reads": ["a"], "values": [{"memory": 1}]}
    return ra.formats.from_json(json.dumps({"format": "remat-graph", "version": 1, "nodes": [a, b]}))


def from_networkx(memory, compute, _):
    digraph = networkx.DiGraph([("a", "b")])
    digraph.nodes["a"].update(memory=memory, compute=compute)
    digraph.nodes["b"].update(memory=1, compute=1)
    return ra.from_networkx(digraph)


def from_rows(memory, compute, _):
    rows = [NodeRow("a", compute=compute, values=[ValueRow(memory)]), NodeRow("b", reads=["a"], values=[ValueRow(1)])]
    return Graph.from_tables(Tables(rows))


WAYS = {
    "ids": lambda memory, compute, _: Graph.from_edges([(0, 1)], memory=[memory, 1], compute=[compute, 1]),
    "names": lambda memory, compute, _: Graph.from_edges([("a", "b")], memory=[memory, 1], compute=[compute, 1]),
    "mappings": lambda memory, compute, _: Graph.from_edges(
        [("a", "b")], memory={"a": memory, "b": 1}, compute={"a": compute, "b": 1}
    ),
    "arrays": lambda memory, compute, _: Graph.from_arrays(
        read_indptr=[0, 0, 1], read_indices=[0], memory=[memory, 1], compute=[compute, 1]
    ),
    "with_costs": lambda memory, compute, _: Graph.from_edges([(0, 1)]).with_costs(
        memory=[memory, 1], compute=[compute, 1]
    ),
    "rows": from_rows,
    "networkx": from_networkx,
    "table": from_table,
    "JSON": from_json,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.mark.filterwarnings(ROUNDED)
@every_way
@pytest.mark.parametrize(
    ("memory", "compute", "scale"),
    [
        (120.5, 33.5, 10),
        ("120.5", "33.5", 10),
        ("4MiB", "7", 1),
        ("1.5 kB", 0.25, 100),
        (np.float32(0.1), np.float64(1e-6), 10**6),
        (Decimal("8.01"), Decimal("2.50"), 10),
        (1e3, 12.0, 1),
        ("1e3", "1e-3", 1000),
        (2**40, 3, 1),
    ],
)
def test_one_number_is_one_number_on_every_way_in(way, memory, compute, scale, tmp_path):
    graph = way(memory, compute, tmp_path)
    expected = from_table(memory, compute, tmp_path)
    assert graph.memory.tolist() == expected.memory.tolist()
    assert graph.compute.tolist() == expected.compute.tolist()
    assert graph.labels.compute_scale == expected.labels.compute_scale == scale


@every_way
@pytest.mark.parametrize(
    ("memory", "compute", "told"),
    [
        ("4 parsec", 1, "'4 parsec' is not a size; write bytes, or a number with a unit such as 4GiB or 512MB"),
        (1, "12 ms", "'12 ms' is not a cost; write a number"),
        ("1_000", 1, "'1_000' is not a size; write bytes"),
        (1, "x" * 500, "xxx…xxx.*' is not a cost; write a number"),
        (-0.5, 1, r"-0\.5.*sizes and costs are 0 or more"),
        (1, -2, "-2.*sizes and costs are 0 or more"),
        (2**60, 1, r"the sum of memory (is|reaches) 2\*\*53"),
    ],
)
def test_what_is_no_amount_is_told_in_one_sentence(way, memory, compute, told, tmp_path):
    with pytest.raises(GraphError, match=told) as error:
        way(memory, compute, tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("way", [way for name, way in WAYS.items() if name not in ("table", "JSON")])
@pytest.mark.parametrize("entry", [True, np.True_, float("nan"), float("inf"), b"4", Fraction(1, 3), 1j, [1], {}])
def test_what_is_no_number_is_told_and_never_counted(way, entry, tmp_path):
    for memory, compute in ((entry, 1), (1, entry)):
        with pytest.raises(GraphError) as error:
            way(memory, compute, tmp_path)
        assert "\n" not in str(error.value)


@every_way
def test_parts_of_a_byte_are_rounded_up_with_one_notice(way, tmp_path):
    with pytest.warns(GraphWarning, match="fractional sizes were rounded up to whole bytes") as warned:
        assert way(120.5, 1, tmp_path).memory.tolist() == [121, 1]
    assert len(warned) == 1


@pytest.mark.filterwarnings(ROUNDED)
@given(
    st.lists(st.integers(0, 10**9) | st.floats(0, 1e9) | st.decimals(0, 10**9, places=3), min_size=2, max_size=2),
    st.lists(
        st.integers(0, 10**6) | st.just(0.0) | st.floats(1, 1e6) | st.decimals(1, 10**6, places=3),
        min_size=2,
        max_size=2,
    ),
)
def test_ids_names_and_networkx_make_one_graph(memory, compute):
    first = Graph.from_edges([(0, 1)], memory=memory, compute=compute)
    named = Graph.from_edges([("a", "b")], memory=memory, compute=compute)
    digraph = networkx.DiGraph([("a", "b")])
    other = ra.from_networkx(digraph, dict(zip("ab", memory, strict=True)), dict(zip("ab", compute, strict=True)))
    for graph in (named, other):
        assert graph.memory.tolist() == first.memory.tolist()
        assert graph.compute.tolist() == first.compute.tolist()
        assert graph.labels.compute_scale == first.labels.compute_scale


@pytest.mark.parametrize("entry", ["2 kB", 2000, 2000.0])
def test_one_amount_serves_all(entry):
    graph = Graph.from_edges([(0, 1)], memory=entry, compute=0.5, workspace=entry)
    assert (graph.memory.tolist(), graph.workspace.tolist()) == ([2000, 2000], [2000, 2000])
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([5, 5], 10)
    with pytest.raises(GraphError, match=r"^memory: 'x' is not a size"):
        Graph.from_edges([(0, 1)], memory="x")


def test_costs_of_gradients_follow_the_scale_of_costs():
    backward = Backward([0, 0, 1], [0], ["2 kB", -1], [3, -1], ["1 kB", 0])
    resident = Resident(["4 kB"], [0], [0, 1, 1], [0], ("x",))
    parts = {"backward": backward, "resident": resident}
    graph = Graph.from_arrays(read_indptr=[0, 0, 1], read_indices=[0], compute=[1.5, 2], **parts)
    assert graph.backward.grad_compute.tolist() == [30, -1]
    assert (graph.backward.grad_memory.tolist(), graph.backward.grad_workspace.tolist()) == ([2000, -1], [1000, 0])
    assert graph.resident.memory.tolist() == [4000]
    other = graph.with_costs(compute=[15, 20.25])
    assert (other.compute.tolist(), other.labels.compute_scale) == ([1500, 2025], 1000)
    assert other.backward.grad_compute.tolist() == [3000, -1]


def test_costs_of_gradients_that_a_scale_makes_too_large_are_refused():
    backward = Backward([0, 0, 0], [], [1, 1], [2**52, 0], [0, 0])
    with pytest.raises(GraphError, match=r"the sum of grad_compute is 2\*\*53 or more"):
        Graph.from_arrays(read_indptr=[0, 0, 1], read_indices=[0], compute=[1e-6, 2], backward=backward)


def test_a_scale_that_is_named_needs_whole_costs():
    rows = [NodeRow("a", compute=1.5)]
    rows[0].values.append(ValueRow())
    with pytest.raises(GraphError, match='"compute_scale" needs whole costs'):
        Graph.from_tables(Tables(rows, compute_scale=10))


def test_whole_arrays_are_taken_without_a_loop(monkeypatch):
    from remat_algos.ir import arrays

    monkeypatch.setattr(arrays, "_read", None)
    for kind in (np.int64, np.int32, np.uint8, np.float64, np.float32):
        graph = Graph.from_edges([(0, 1)], memory=np.array([8, 4], kind), compute=np.array([2, 1], kind))
        assert (graph.memory.tolist(), graph.compute.tolist()) == ([8, 4], [2, 1])


@pytest.mark.filterwarnings(ROUNDED)
def test_the_builder_reads_bytes_as_files_do():
    net = ra.zoo.Layers("small", ra.zoo.Settings(workspace=120.5))
    assert net.workspace_limit == 121
    x = net.input("x", (8, 16))
    net.run("ReLU", [x], x.shape, name="y", workspace="4MiB", grad_workspace=0.5, flops=1e6)
    graph = net.network().graph
    assert graph.workspace.tolist() == [2**22]
    assert graph.backward.grad_workspace.tolist() == [1]
    assert graph.compute.tolist() == [10**6]


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ({"workspace": "much"}, "small: workspace of y: 'much' is not a size"),
        ({"grad_workspace": True}, "small: grad_workspace of y: True is not a size"),
        ({"flops": 1.5}, "small: flops of y is 1.5; give a whole number"),
        ({"macs": "many"}, "small: macs of y: 'many' is not a cost"),
    ],
)
def test_what_the_builder_cannot_read_is_told(work, told):
    net = ra.zoo.Layers("small", ra.zoo.Settings())
    x = net.input("x", (8, 16))
    with pytest.raises(GraphError, match=re.escape(told)):
        net.run("ReLU", [x], x.shape, name="y", **work)
