"""Files: what is written is read back; what people write is understood; what is wrong is named."""

import contextlib
import io
import json
import pickle
import random
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.formats.graphs.json_text import from_json, to_json
from remat_algos.formats.graphs.npz_bytes import from_npz, to_npz
from remat_algos.formats.rows import tables_from
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident
from tests.oracles.plain import plain
from tests.raising import raises, refused
from tests.strategies import captured_graphs, graphs, training_graphs

UNEVEN = "ignore:.* without a (size|cost) :remat_algos.errors.GraphWarning"  # many files here give what matters only
pytestmark = pytest.mark.filterwarnings(UNEVEN)


def lines(text):
    """Lines that are parted by spaces here."""
    return text.replace(" ", "\n") + "\n"


def written(folder, **tables):
    """The path of X.nodes.csv, after writing the tables that are given."""
    for kind, text in {"edges": "src,dst", **tables}.items():
        if text is not None:
            data = text if isinstance(text, bytes) else lines(text).encode()
            Path(folder, f"X.{kind}.csv").write_bytes(data)
    return Path(folder, "X.nodes.csv")


@pytest.fixture
def read(tmp_path):
    """Reads a graph from tables."""
    return lambda **tables: read_graph(written(tmp_path, **tables))


@pytest.fixture
def read_text(tmp_path):
    """Reads a graph from one file."""

    def from_text(text, name="graph.txt"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_graph(file)

    return from_text


@contextlib.contextmanager
def notices():
    """The notices a user would see."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        texts = []
        yield texts
    assert all(notice.category is GraphWarning for notice in seen)
    texts += [str(notice.message) for notice in seen]


def named_reads(graph):
    """What each node reads, by name."""
    return {graph.labels[v]: [graph.value_name(x) for x in graph.reads(v)] for v in range(graph.n_nodes)}


def record(labels):
    return {
        "names": None if labels.names is None else tuple(labels.names),
        "value_names": dict(labels.value_names),
        "ops": labels.ops,
        "views": dict(labels.views),
        "compute_unit": labels.compute_unit,
        "compute_scale": labels.compute_scale,
    }


# ---------------------------------------------------------------- what is written is read back


@st.composite
def marked(draw, source):
    """Graphs with wishes on some nodes."""
    graph = draw(source)
    if draw(st.booleans()):
        wishes = [draw(st.sampled_from([0, 1] if once else [0, 1, 2])) for once in graph.once.tolist()]
        graph = replace(graph, mark=wishes if any(wishes) else None)
    return graph


@st.composite
def described(draw, source):
    """Graphs whose compute has a unit, and which remember a view."""
    graph = draw(source)
    views = {}
    if graph.n_values and draw(st.booleans()):
        views["a view"] = graph.value_name(draw(st.integers(0, graph.n_values - 1)))
    unit, scale = draw(st.sampled_from([("", 1), ("ns", 1), ("FLOPs", 1000)]))
    return replace(graph, labels=replace(graph.labels, views=views, compute_unit=unit, compute_scale=scale))


any_graph = marked(graphs() | training_graphs(max_nodes=16) | captured_graphs(max_nodes=16))


@pytest.mark.parametrize(("write", "read"), [(to_json, from_json), (to_npz, from_npz)], ids=["json", "npz"])
@given(graph=described(any_graph))
def test_reading_back_is_the_identity(write, read, graph):
    again = read(write(graph))
    assert plain(again) == plain(graph)
    assert again.hash == graph.hash
    assert record(again.labels) == record(graph.labels)
    assert again.derivation == graph.derivation
    assert write(again) == write(graph)


def rich():
    """b makes two values and reads an input and a parameter; c has a mark, a saved part and scratch bytes."""
    return ComputationGraph.from_arrays(
        value_indptr=[0, 1, 3, 4],
        read_indptr=[0, 0, 1, 3],
        read_indices=[0, 0, 2],
        memory=[8, 4, 2, 1],
        compute=[1, 2, 3],
        workspace=[0, 0, 5],
        once=[False, True, False],
        output=[True, False, False, True],
        mark=[0, 0, 1],
        backward=Backward([0, 0, 2, 3], [0, 2, 2], [8, 4, -1, 2], [-1, 7, -1], [0, 0, 3]),
        resident=Resident([5, 6, 7], [0, 1, 2], [0, 0, 2, 3], [0, 1, 2], ("x", "p", "s")),
        labels=Labels(names=("a", "b", "c"), value_names={2: "mask"}, ops=("", "Dropout", "Add"), views={"flat": "a"}),
    )


def test_a_compressed_npz_is_read_too():
    assert from_npz(npz_of(save=np.savez_compressed)).hash == rich().hash


def test_a_differentiated_file_remembers_where_it_comes_from():
    graph = differentiate(rich(), factor=1.5, loss="c")
    for again in (from_json(to_json(graph)), from_npz(to_npz(graph))):
        assert again.derivation.source_hash == rich().hash
        assert again.derivation.options == {
            "factor": 1.5,
            "parameter_gradients": False,
            "loss": ["c"],
            "keep_outputs": False,
        }


def test_writing_tables_over_others_leaves_no_table_of_the_old_graph(tmp_path):
    file = tmp_path / "X.nodes.csv"
    write_graph(rich(), file)
    graph = ComputationGraph.from_edges([("a", "b")])
    write_graph(graph, file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.edges.csv", "X.nodes.csv"]
    assert read_graph(file).hash == graph.hash


@pytest.mark.parametrize("name", ["graph.xyz", "graph", "graph.csv", "graph.json.gz"])
def test_unknown_endings_are_refused(tmp_path, name):
    endings = [".dot", ".gv", ".txt", ".edges", ".graphml", ".json", ".npz", ".gr"]
    with raises(GraphError, name=name, endings=endings, tables=".nodes.csv"):
        write_graph(rich(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_graph(rich(), tmp_path / "nowhere" / "graph.json")


# ---------------------------------------------------------------- tables


def parts_of(array):
    return lambda graph: None if getattr(graph, array) is None else getattr(graph, array).tolist()


def of_backward(array):
    return lambda graph: graph.backward and getattr(graph.backward, array).tolist()


def residents(graph):
    """The residents: name, bytes, place of the role."""
    found = graph.resident
    return found and list(zip(found.names, found.memory.tolist(), found.role.tolist(), strict=True))


ARRAYS = ("memory", "compute", "workspace", "once", "output", "mark", "forward_of", "owner")
OF_BACKWARD = ("grad_memory", "grad_compute", "grad_workspace")
FACTS = {
    **{array: parts_of(array) for array in ARRAYS},
    **{array: of_backward(array) for array in OF_BACKWARD},
    "reads": named_reads,
    "residents": residents,
    "resident_reads": lambda graph: [graph.resident.reads(v) for v in range(graph.n_nodes)],
    "saved": lambda graph: graph.backward and [graph.backward.saved(v) for v in range(graph.n_nodes)],
    "names": lambda graph: graph.labels.names,
    "ops": lambda graph: graph.labels.ops,
    "views": lambda graph: dict(graph.labels.views),
    "value_names": lambda graph: dict(graph.labels.value_names),
    "scale": lambda graph: graph.labels.compute_scale,
}


def case(nodes, edges="src,dst", values=None, **facts):
    """Tables, and what holds for their graph."""
    return {"nodes": nodes, "edges": edges, "values": values}, facts


A_B = {"a": [], "b": ["a"]}
READ = {
    "two nodes": case(
        "name,memory,compute,op conv,8,10,Conv relu,4,1,ReLU",
        "src,dst conv,relu",
        reads={"conv": [], "relu": ["conv"]},
        **{"memory": [8, 4], "compute": [10, 1], "ops": ("Conv", "ReLU")},
        **dict.fromkeys(("saved", "residents", "mark", "forward_of")),
    ),
    "nothing but names": case("name a b", memory=[1, 1], compute=[1, 1], workspace=[0, 0], output=[True, True]),
    "only ids": case("id 0 1", "src,dst 0,1", names=None, reads={"0": [], "1": ["0"]}),
    "only names": case("name 0 1", "src,dst 0,1", names=None, reads={"0": [], "1": ["0"]}),
    "ids and names": case("id,name 7,0 5,1", "src,dst 7,5", names=None, reads={"0": [], "1": ["0"]}),
    "a name is missing": case("id,name x,0 y,", "src,dst x,y", reads={"0": [], "y": ["0"]}),
    "an id is missing": case("name,id 0,x 1,", "src,dst x,1", names=None, reads={"0": [], "1": ["0"]}),
    "edges and views speak in ids": case(
        "id,name,view_of,compute 1,a,,1 2,v,1,0 3,b,,1", "src,dst 2,3", reads=A_B, views={"v": "a"}
    ),
    "values in a table of their own": case(
        "name,memory a,8 b, c,1",
        "src,dst a,b b,c b:2,c",
        "node,name,memory_bytes,output,grad_memory,saved b,,4,,,0 b,mask,2,1,-1,1 b,,3,,9,",
        reads={"a": [], "b": ["a"], "c": ["b", "b:2"]},
        memory=[8, 4, 2, 3, 1],
        output=[False, False, True, False, False],
        value_names={2: "mask"},
        grad_memory=[8, 4, -1, 9, 1],
        saved=[[0], [0, 2, 3], [1, 3, 4]],
    ),
    "values by the ids of their nodes": case(
        "id,name 5,b 6,c", "src,dst 5:1,6", "node,memory_bytes 5,4 5,2", reads={"b": [], "c": ["b:1"]}
    ),
    "residents": case(
        "name,memory,resident x,5,1 w,6,parameter s,7,state i,8,input a,1, b,1,0",
        "src,dst x,a w,a w,b a,b s,b",
        reads=A_B,
        residents=[("x", 5, 0), ("w", 6, 1), ("s", 7, 2), ("i", 8, 0)],
        resident_reads=[[0, 1], [1, 2]],
    ),
    "param_memory": case(
        "id,name,param_memory 1,a,0 2,b,6 3,c,1KiB",
        "src,dst 1,2 2,3",
        residents=[("param(b)", 6, 1), ("param(c)", 1024, 1)],
        resident_reads=[[], [0], [1]],
    ),
    **{
        f"the gradient saves inputs {inputs}, output {output}": case(
            f"name,grad_needs_inputs,grad_needs_output a,, b,{inputs},{output}", "src,dst a,b", saved=[[0], saved]
        )
        for inputs, output, saved in (
            *(("", "", [0, 1]), ("1", "1", [0, 1]), ("0", "1", [1])),
            *(("1", "0", [0]), ("0", "0", []), ("no", "", [1])),
        )
    },
    **{
        f"the flag {flag} of an edge before that of its node": case(
            "name,grad_needs_inputs a, b, c,0", f"src,dst,saved a,c,{flag} b,c,1", saved=[[0], [1], saved]
        )
        for flag, saved in (("", [1, 2]), ("0", [1, 2]), ("1", [0, 1, 2]))
    },
    "gradients": case(
        "name,memory,grad_memory,grad_compute,grad_workspace a,8,,, b,4,-1,5,2KiB c,2,3,0,",
        grad_memory=[8, -1, 3],
        grad_compute=[-1, 5, 0],
        grad_workspace=[0, 2048, 0],
    ),
    "nothing on gradients": case("name,memory a,1", saved=None),
    "a backward node of no one node": case(
        "name,gradient_of,backward a,, g,a, s,,1", "src,dst a,g g,s", forward_of=[-1, 0, -2], owner=[-1, 0, 0]
    ),
    "gradient_of": case("id,name,gradient_of 1,a, 2,g,1", "src,dst 1,2", forward_of=[-1, 0]),
    **{
        f"the flag {cell!r}": case(f"name,once,output a,{cell},1 b,,{cell}", once=[flag, False], output=[True, flag])
        for flag, cells in ((True, ("1", "true", "TRUE", "Yes")), (False, ("0", "false", "NO", "")))
        for cell in cells
    },
    **{
        f"the mark {cell!r}": case(f"name,mark a,keep b,{cell}", mark=[1, mark])
        for mark, cells in enumerate((("", "0"), ("keep", "Keep", "1"), ("recompute", "RECOMPUTE", "2")))
        for cell in cells
    },
    "no marks": case("name,mark a, b,0", mark=None),
    **{
        f"the size {text!r}": case(
            f"name,memory,workspace,resident,param_memory\na,{text},{text},,{text}\nx,{text},,1,\n".encode(),
            memory=[size],
            workspace=[size],
            residents=[("param(a)", size, 1), ("x", size, 0)],
        )
        for text, size in (
            *(("64", 64), ("4KiB", 4096), ("1.5 kB", 1500), ("2 MiB", 2 << 20), ("2MB", 2 * 10**6)),
            *(("1G", 10**9), ("7B", 7), ("1e3", 1000), ("0.3 B", 1), ("12.0", 12)),
        )
    },
    "spaces around cells": case(
        b" name , memory \n a , 8 \n b , 4 \n", b"src , dst\n a , b \n", reads=A_B, memory=[8, 4]
    ),
    **{
        f"lines that end in {end!r}": case(
            "name,memory||a,8|b,4||".replace("|", end).encode(), "src,dst|a,b|".replace("|", end).encode(), reads=A_B
        )
        for end in ("\n", "\r\n", "\r")
    },
    "capitals of columns": case("Name,MEMORY a,5 b,6", "Source,Target a,b", memory=[5, 6], reads=A_B),
    # decimals
    **{
        f"the costs {costs}": case("name,compute a,{} b,{}".format(*costs.split(" ")), compute=compute, scale=scale)
        for costs, scale, compute in (
            *(("1 2", 1, [1, 2]), ("1.0 2", 1, [1, 2]), ("1e3 2", 1, [1000, 2]), ("0.5 2", 10, [5, 20])),
            *(("0.5 1.25", 100, [50, 125]), ("0.000001 1", 10**6, [1, 10**6])),
        )
    },
    "costs of gradients": case("name,compute,grad_compute a,1,0.5 b,2,", compute=[10, 20], grad_compute=[5, -1]),
    "costs far below their unit": case(
        "name,compute a,0.00000049 b,0.0000015 c,0.0000025", compute=[49, 150, 250], scale=10**8
    ),
    # order and doubles
    "the earliest row first": case("name d c b a e", "src,dst a,b b,c a,c", names=("d", "a", "b", "c", "e")),
    "parallel edges": case("name a b", "src,dst a,b a,b", reads=A_B),
    "edges give the order of reads": case("name a b c", "src,dst b,c a,c", reads={"a": [], "b": [], "c": ["b", "a"]}),
    # views
    "a view": case("name,memory,view_of a,8, v,,a b,4,", "src,dst a,v v,b", reads=A_B, views={"v": "a"}),
    "a chain of views": case(
        "name,view_of w,v v,a a, b,", "src,dst w,b v,b a,b", reads=A_B, views={"w": "a", "v": "a"}
    ),
    "a view of a resident": case(
        "name,memory,resident,view_of x,5,1, v,,,x a,1,,",
        "src,dst v,a",
        reads={"a": []},
        resident_reads=[[0]],
        views={"v": "x"},
    ),
    "a view that is an output": case("name,view_of,output a,, v,a,1 b,,", "src,dst a,v a,b", output=[True, False]),
    "a base that only a view reads": case("name,view_of a, v,a", "src,dst a,v", output=[True]),
    "what a gradient saves of a view": case(
        "name,view_of a, v,a b,", "src,dst,saved a,v, v,b,1 a,b,0", reads=A_B, saved=[[0], [0, 1]]
    ),
    "values that are views in part": case(
        "name a s c d",
        "src,dst a,s s,c s:1,c s:2,d",
        "node,memory_bytes,view_of s,4, s,,a s,2,",
        reads={"a": [], "s": ["a"], "c": ["s", "a"], "d": ["s:2"]},
        views={"s:1": "a"},
        memory=[1, 4, 2, 1, 1],
    ),
    "a view of the node's own value": case(
        "name s c", "src,dst flat,c", "node,name,memory_bytes,view_of s,y,4, s,flat,,y", reads={"s": [], "c": ["y"]}
    ),
    "a node of nothing but views": case(
        "name,compute a,1 b,1 s,0 c,1",
        "src,dst s,c s:1,c",
        "node,memory_bytes,view_of s,,a s,,b",
        reads={"a": [], "b": [], "c": ["a", "b"]},
    ),
}


@pytest.mark.parametrize(("tables", "facts"), READ.values(), ids=READ)
def test_tables_are_read(read, tables, facts):
    graph = read(**tables)
    assert {name: FACTS[name](graph) for name in facts} == facts


@pytest.mark.parametrize("kind", ["nodes", "edges", "values"])
def test_any_of_the_tables_leads_to_the_others(tmp_path, kind):
    write_graph(rich(), tmp_path / "X.nodes.csv")
    assert read_graph(tmp_path / f"X.{kind}.csv").hash == rich().hash


def test_the_table_of_nodes_may_have_the_bare_name_as_text(tmp_path):
    file = written(tmp_path, nodes="name a b", edges="src,dst a,b")
    assert named_reads(read_graph(str(file.rename(tmp_path / "X.csv")))) == A_B


@pytest.mark.parametrize(
    ("table", "column", "alias", "cell"),
    [
        ("nodes", "memory", "memory_bytes", "7"),
        ("nodes", "compute", "time", "7"),
        ("nodes", "grad_needs_inputs", "bwd_needs_inputs", "0"),
        ("nodes", "grad_needs_output", "bwd_needs_output", "0"),
        ("nodes", "param_memory", "param_bytes", "7"),
        ("values", "memory_bytes", "memory", "7"),
    ],
)
def test_columns_have_other_names(read, table, column, alias, cell):
    def of(name):
        text = f"name,{name} a, b,{cell}" if table == "nodes" else f"node,{name} b,{cell}"
        return read(**({"nodes": "name a b", "edges": "src,dst a,b"} | {table: text})).hash

    without = read(nodes="name a b", edges="src,dst a,b").hash
    assert of(column) == of(alias) != without


@pytest.mark.parametrize("kind", ["nodes", "edges", "values"])
def test_unknown_columns_are_named_in_one_notice(tmp_path, kind):
    tables = {"nodes": "name,memory a,1 b,", "edges": "src,dst a,b", "values": "node,memory_bytes b,3"}
    first, *others = tables[kind].split(" ")
    tables[kind] = " ".join([f"{first},colour,shape", *(f"{row},red,4x4" for row in others)])
    with notices() as seen:
        assert read_graph(written(tmp_path, **tables)).memory.tolist() == [1, 3]
    assert seen == [f"X.{kind}.csv: ignored columns colour, shape"]


def test_parts_of_a_byte_round_up_with_one_notice(tmp_path):
    nodes = "name,memory,workspace,grad_memory,grad_workspace,param_memory a,0.1,1.5,1.5,1.5,1.5 b,2.5,2.5,0.5,2,2"
    with notices() as seen:
        graph = read_graph(written(tmp_path, nodes=nodes))
    assert (graph.memory.tolist(), graph.workspace.tolist()) == ([1, 3], [2, 3])
    assert (graph.backward.grad_memory.tolist(), graph.resident.memory.tolist()) == ([2, 1], [2, 2])
    assert seen == ["X.nodes.csv: fractional sizes were rounded up to whole bytes"]


def test_costs_are_shown_in_the_unit_of_the_file(read):
    graph = read(nodes="name,compute a,0.5 b,1.25")
    assert graph.labels.compute(50) == "0.5"
    graph = from_json(json_of(nodes=[{"compute": 15}], compute_scale=10, compute_unit="ms"))
    assert graph.labels.compute(15) == "1.5 ms"


def test_decimals_in_json_are_exact():
    graph = from_json(json_of(nodes=[{"name": "a", "compute": 0.1}, {"name": "b", "compute": 3}]))
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([1, 30], 10)


# ---------------------------------------------------------------- order


@given(graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_rows_in_any_order_make_a_graph_of_the_same_edges(graph, random):
    tables = tables_from(graph)
    again = ComputationGraph.from_tables(tables)
    assert again.node_names() == graph.node_names()
    random.shuffle(tables.nodes)
    again = ComputationGraph.from_tables(tables)
    assert named_reads(again) == named_reads(graph)
    place = {node.name: i for i, node in enumerate(tables.nodes)}
    done = set()
    for name in again.node_names():  # of all rows that could come next, the earliest
        ready = [row for row in place if row not in done and {owner(again, x) for x in named_reads(again)[row]} <= done]
        assert name == min(ready, key=place.get)
        done.add(name)


def owner(graph, value_name):
    return graph.labels[int(graph.producer[graph.value_id(value_name)])]


# ---------------------------------------------------------------- edge lists


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("A B\nA C\nB D\nC D\n", {"A": [], "B": ["A"], "C": ["A"], "D": ["B", "C"]}),
        ("10 100\n9 100\n2 9\n", {"2": [], "9": ["2"], "10": [], "100": ["10", "9"]}),
        ("2 3\n0 2\n1 2\n", {"0": [], "1": [], "2": ["0", "1"], "3": ["2"]}),
        ("b x\n10 9\n9 b\n", {"10": [], "9": ["10"], "b": ["9"], "x": ["b"]}),
        ("# from a paper\n\nA B # first\n  C\nA\tB\n", {"A": [], "B": ["A"], "C": []}),
        ("# u, v: v reads u\nA B\n", {"A": [], "B": ["A"]}),
    ],
)
@pytest.mark.parametrize("name", ["graph.txt", "graph", "graph.edges", "graph.csv"])
def test_an_edge_list_is_text_of_any_ending(read_text, text, reads, name):
    graph = read_text(text, name)
    assert list(named_reads(graph).items()) == list(reads.items())
    assert {*graph.memory.tolist(), *graph.compute.tolist()} == {1}


@pytest.mark.parametrize(
    ("edges", "nodes", "reads"),
    [
        ("A B\nA C\nB C\n", "name,memory\nC,3\nA,1\nB,2\n", {"A": [], "B": ["A"], "C": ["A", "B"]}),
        ("src,dst\nA,B\nA,C\nB,C\n", "name,memory\nC,3\nA,1\nB,2\n", {"A": [], "B": ["A"], "C": ["A", "B"]}),
        ('A" B\n', 'name,memory\n"A""",1\nB,2\n', {'A"': [], "B": ['A"']}),
    ],
)
def test_an_edge_list_may_have_a_table_of_nodes(tmp_path, edges, nodes, reads):
    (tmp_path / "edges.txt").write_text(edges)
    (tmp_path / "sizes.csv").write_text(nodes)
    graph = read_graph(tmp_path / "edges.txt", nodes=tmp_path / "sizes.csv")
    assert (named_reads(graph), graph.memory.tolist()) == (reads, [1, 2, 3][: graph.n_nodes])


def test_a_table_of_nodes_brings_its_values(tmp_path):
    (tmp_path / "edges.txt").write_text("b:1 c\n")
    (tmp_path / "N.nodes.csv").write_text(lines("name b c"))
    (tmp_path / "N.values.csv").write_text(lines("node,memory_bytes b,1 b,2"))
    assert named_reads(read_graph(tmp_path / "edges.txt", nodes=tmp_path / "N.nodes.csv")) == {"b": [], "c": ["b:1"]}


@pytest.mark.parametrize("name", ["g.txt", "g.json", "X.nodes.csv"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, name):
    written(tmp_path)
    text = {"g.txt": "A B\n", "g.json": json_of(), "X.nodes.csv": "name,memory\nA,1\nB,1\n"}[name]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_graph(tmp_path / name).n_nodes == 2


def test_the_first_value_may_be_the_view(read):
    graph = read(nodes="name a s c", edges="src,dst a,s s,c s:1,c", values="node,memory_bytes,view_of s,,a s,2,")
    assert named_reads(graph) == {"a": [], "s": ["a"], "c": ["a", "s:1"]}
    assert graph.value_id("s") == graph.value_id("a")
    again = from_json(to_json(graph))
    assert named_reads(again) == named_reads(graph)
    assert again.hash == graph.hash


def test_views_in_json():
    nodes = [
        {"name": "a", "compute": 3},
        {"name": "v", "compute": 0, "reads": ["a"], "values": [{"view_of": "a"}]},
        {"name": "b", "reads": ["v", "w"]},
    ]
    graph = from_json(json_of(nodes=nodes, views={"w": "v"}))
    assert named_reads(graph) == A_B
    assert dict(graph.labels.views) == {"v": "a", "w": "a"}


# ---------------------------------------------------------------- what is wrong is named: tables

AB = "name a b"
BAD_TABLES = {
    "cycle": ({"nodes": AB, "edges": "src,dst a,b b,a"}, {"cycle": ["a", "b", "a"]}),
    "longer cycle": ({"nodes": "name d c b a", "edges": "src,dst a,b b,c c,a b,d"}, {"cycle": ["b", "c", "a", "b"]}),
    "loop": ({"nodes": AB, "edges": "src,dst a,a"}, {"cycle": ["a", "a"]}),
    "cycle through a view": (
        {"nodes": "name,view_of a, v,b b,", "edges": "src,dst a,b v,a"},
        {"cycle": ["a", "b", "a"]},
    ),
    "unknown source": ({"nodes": AB, "edges": "src,dst a,b c,b"}, {"line": 3, "key": "c"}),
    "unknown reader": ({"nodes": AB, "edges": "src,dst a,c"}, {"line": 2, "key": "c"}),
    "edge to a resident": ({"nodes": "name,resident a, x,1", "edges": "src,dst a,x"}, {"line": 2, "dst": "x"}),
    "edge to a value": (
        {"nodes": AB, "edges": "src,dst b,a:1", "values": "node,memory_bytes a,1 a,2"},
        {"line": 2, "dst": "a:1"},
    ),
    "two ids": ("id,name 1,a 1,b", {"line": 3, "key": "1"}),
    "two names": ("id,name 1,a 2,a", {"line": 3, "name": "a"}),
    "a name twice": ("name a b a", {"line": 4, "key": "a"}),
    "resident and node": ("id,name,resident 1,a,1 2,a,", {"line": 3, "name": "a"}),
    "resident and parameter": (
        "name,memory,resident,param_memory param(a),7,parameter, a,1,,5",
        {"line": 3, "name": "param(a)"},
    ),
    "two values": ({"nodes": AB, "values": "node,name,memory_bytes a,y,1 b,y,1"}, {"line": 3, "name": "y"}),
    "value like a node": ({"nodes": AB, "values": "node,name,memory_bytes a,b,1"}, {"line": 2, "name": "b"}),
    "no name": ("name,memory a,1 ,2", "the row has neither id nor name; give"),
    # numbers
    **{
        f"{column} {amount}": (f"name,{column} a,1 b,{amount}", {"line": 3, "name": "b", "what": column})
        for column in ("memory", "compute", "workspace", "grad_memory", "grad_compute", "grad_workspace")
        for amount in (-7, -0.5, 10**30)
    },
    **{
        f"{column} {amount}": (f"name,{column} a,1 b,{amount}", {"line": 3, "name": "b", "what": column})
        for column in ("memory", "compute")
        for amount in (-1, "1e999999", "1e1000000", "1e9999999", "1e99999999999999999999", "9" * 5000)
    },
    "negative resident": ("name,memory,resident x,-1,1 a,1,", {"line": 2, "what": "memory", "name": "x"}),
    "negative value": ({"nodes": AB, "values": "node,memory_bytes b,-1"}, {"line": 3, "what": "memory", "name": "b"}),
    "not a number": ("name,memory a,1 b,nan", {"line": 3, "column": "memory"}),
    "infinite": ("name,compute a,1 b,inf", {"line": 3, "column": "compute"}),
    "a word": ("name,compute a,1 b,x", {"line": 3, "column": "compute"}),
    "a unit for costs": ("name,compute a,1 b,1MB", {"line": 3, "column": "compute"}),
    "no unit": ("name,memory a,1 b,7parsec", {"line": 3, "column": "memory"}),
    "huge compute beside a decimal": ("name,compute a,0.5 b,1e999999", {"line": 3, "what": "compute", "name": "b"}),
    "a huge number of units": (b"name,memory\na,1\nb,1e999999 GiB\n", {"line": 3, "column": "memory"}),
    "sum of memory": (f"name,memory a,{2**52} b,{2**52}", {"line": 3, "what": "memory", "name": "b"}),
    "sum of compute": (f"name,compute a,{2**52} b,{2**52}", {"line": 3, "what": "compute", "name": "b"}),
    "sum of residents": (f"name,memory,resident a,1, x,{2**53},1", {"line": 3, "what": "memory", "name": "x"}),
    "huge resident": (f"name,memory,resident a,1, x,{10**30},1", {"line": 3, "what": "memory", "name": "x"}),
    "huge param_memory": (f"name,param_memory a,{10**30}", {"line": 2, "what": "memory", "name": "param(a)"}),
    # words
    "flag": ("name,once a,1 b,maybe", {"line": 3, "column": "once", "cell": "maybe"}),
    "output": ("name,output a,2", {"line": 2, "column": "output", "cell": "2"}),
    "saved": ({"nodes": AB, "edges": "src,dst,saved a,b,x"}, {"line": 2, "column": "saved", "cell": "x"}),
    "mark": ("name,mark a,drop", {"line": 2, "column": "mark", "cell": "drop"}),
    "role": ("name,resident a,weight", {"line": 2, "role": "weight"}),
    "mark and once": ("name,mark,once a,recompute,1", {"node": "a"}),
    "gradient of nothing": ("name,gradient_of a, b,z", {"line": 3, "node": "b", "value": "z"}),
    "gradient of a gradient": ("name,gradient_of a, g,a h,g", {"at": 2, "forward_of": 1}),
    # views
    "unknown base": ("name,view_of a, v,z", {"view": "v", "base": "z"}),
    "view of itself": ("name,view_of a, v,v", {"cycle": ["v", "v"]}),
    "views go round": ("name,view_of a, v,w w,u u,v", {"cycle": ["v", "w", "u", "v"]}),
    "view with compute": ("name,view_of,compute a,,1 v,a,2", {"line": 3, "node": "v"}),
    "view with workspace": ("name,view_of,workspace a,,1 v,a,2", {"line": 3, "node": "v"}),
    # the shape of the tables
    "no nodes": ("name,memory", "there are no nodes; add one"),
    "empty nodes": (b"", "the file is empty"),
    "blank nodes": (b" \n\n\t\n", "the file is empty"),
    "empty edges": ({"nodes": AB, "edges": b""}, "the file is empty"),
    "no nodes file": ({}, "no such file"),
    "no edges file": ({"nodes": AB, "edges": None}, {"name": "X.nodes.csv"}),
    "no name column": ("memory 1", {"line": 1, "column": "name", "found": ["memory"]}),
    "no header": ({"nodes": AB, "edges": "a,b"}, {"line": 1, "column": "src", "found": ["a", "b"]}),
    "no dst": ({"nodes": AB, "edges": "src a"}, {"line": 1, "column": "dst", "found": ["src"]}),
    "no node column": (
        {"nodes": AB, "values": "memory_bytes 1"},
        {"line": 1, "column": "node", "found": ["memory_bytes"]},
    ),
    "no sizes": ({"nodes": AB, "values": "node a"}, {"line": 1, "column": "memory_bytes", "found": ["node"]}),
    "column twice": ("name,memory,memory_bytes a,1,1", {"line": 1, "first": "memory", "second": "memory_bytes"}),
    "missing cell": ("name,memory a,1 b", {"line": 3, "found": 1}),
    "a cell more": ({"nodes": AB, "edges": "src,dst a,b,c"}, {"line": 2, "found": 3}),
    "open quote": ({"nodes": b'name\n"a\n'}, "not a CSV line (unexpected end of data)"),
    "text after a quote": (b'name\n"a"b\n', "not a CSV line (',' expected after '\"')"),
    "a cell without end": (b"name\n" + b"a" * 200000, "not a CSV line (field larger than field"),
    "values of no node": ({"nodes": AB, "values": "node,memory_bytes a,1 z,1"}, {"line": 3, "key": "z"}),
    "values of a resident": (
        {"nodes": "name,resident a, x,1", "values": "node,memory_bytes x,1"},
        {"line": 2, "key": "x"},
    ),
    "memory in two places": (
        {"nodes": "name,memory a,1", "values": "node,memory_bytes a,1"},
        {"line": 2, "column": "memory", "key": "a"},
    ),
    # the bytes
    "latin-1": ("name caf\xe9".encode("latin-1"), {"start": 8}),
    "utf-16": ("name a".encode("utf-16"), "the text is UTF-16; save the file as"),
    "utf-16 edges": ({"nodes": AB, "edges": "src,dst".encode("utf-16")}, "the text is UTF-16; save the file as"),
    "junk": (bytes(range(256)), {"binary": "npz nor ONNX"}),
    "a name that cannot be printed": (b"name\na\x07\n", {"name": "a\x07"}),
}


@pytest.mark.parametrize(("tables", "fault"), BAD_TABLES.values(), ids=BAD_TABLES)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_what_is_wrong_with_tables_is_named(read, tables, fault):
    with refused(GraphError, fault):
        read(**(tables if isinstance(tables, dict) else {"nodes": tables}))


@pytest.mark.parametrize(
    ("text", "name", "fault"),
    [
        ("A B C\n", "g.txt", {"line": 1, "n_words": 3}),
        ("A B\nB A\n", "g.txt", {"cycle": ["A", "B", "A"]}),
        ("", "g.txt", "the file is empty"),
        ("# nothing\n", "g.txt", "the file is empty; write an edge `u v`"),
        ("A\x07 B\n", "g.txt", {"name": "A\x07"}),
        ("name,memory\na,1\n", "lone.csv", {"name": "lone.csv"}),
        (bytes(range(256)), "g.txt", {"binary": "npz nor ONNX"}),
        ("A é\n".encode("latin-1"), "g.txt", {"start": 2}),
        ("A B\n".encode("utf-16"), "g.txt", "the text is UTF-16; save the file as"),
        ("A B\n".encode("utf-16-le"), "g.txt", {"binary": "npz nor ONNX"}),
        (pickle.dumps(rich().memory), "g.npz", {"binary": "npz nor ONNX"}),
    ],
)
def test_what_is_wrong_with_a_text_is_named(read_text, text, name, fault):
    with refused(GraphError, fault):
        read_text(text, name)


def test_long_numbers_are_names_like_any_other(read_text):
    assert read_text(f"{'9' * 5000} 1\n").n_nodes == 2


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(GraphError, match=r"no such file: .*nowhere\.json"):
        read_graph(tmp_path / "nowhere.json")
    with pytest.raises(GraphError, match="is a directory; name a file in it"):
        read_graph(tmp_path)
    (tmp_path / "edges.txt").write_text("a b\n")
    with pytest.raises(GraphError, match=r"no such file: .*sizes\.csv"):
        read_graph(tmp_path / "edges.txt", nodes=tmp_path / "sizes.csv")


def test_an_edge_list_that_its_table_does_not_know_is_named(tmp_path):
    (tmp_path / "edges.txt").write_text("a z\n")
    (tmp_path / "sizes.csv").write_text(lines("name a"))
    with raises(GraphError, nodes="sizes.csv", key="z"):
        read_graph(tmp_path / "edges.txt", nodes=tmp_path / "sizes.csv")


# ---------------------------------------------------------------- what is wrong is named: JSON


def json_of(**changes):
    nodes = [{"name": "a"}, {"name": "b", "reads": ["a"]}]
    return json.dumps({"format": "remat-graph", "version": 1, "nodes": nodes} | changes)


def node(**fields):
    """JSON of two nodes, the second with these fields."""
    return json_of(nodes=[{"name": "a", **{k: v for k, v in SAVED.items() if k in fields}}, {"name": "b", **fields}])


SAVED = {"saved": []}
VIEWS = {"views": {"v": "a"}}
BAD_JSON = {
    "truncated": (json_of()[:-20], "not valid JSON at line 1, column 75"),
    "cut in a string": (json_of()[:14], "not valid JSON at line 1, column 12"),
    "not json": ("{nodes}", "not valid JSON at line 1, column 2"),
    "a list": ("[]", 'not a graph: expected "format"'),
    "another format": (json_of(format="remat-other"), 'not a graph: expected "format"'),
    "no format": ("{}", 'not a graph: expected "format"'),
    "another version": (json_of(version=2), {"version": 2}),
    "no version": ('{"format": "remat-graph"}', "version None is not supported; this"),
    "nested": ("[" * 100000, "objects and lists are nested deeper"),
    "nested whole": ("[" * 100000 + "]" * 100000, "objects and lists are nested deeper"),
    "nested objects": ('{"a":' * 100000, "objects and lists are nested deeper"),
    "5000 digits": (json_of(compute_unit=1).replace("1}", "9" * 5000 + "}"), "the number"),
    "NaN": (node(compute=float("nan")), "NaN is not a number; is the file whole?"),
    "Infinity": (node(compute=float("inf")), "Infinity is not a number; is the file"),
    "-Infinity": (node(compute=float("-inf")), "-Infinity is not a number; is the file"),
    "no nodes": ('{"format": "remat-graph", "version": 1}', {"key": "nodes"}),
    **{
        f"{key} {entry!r}": (json_of(**{key: entry}), {"key": key})
        for key, entry in (
            *(("nodes", {}), ("residents", {}), ("backward", 1), ("compute_unit", None), ("compute_scale", "x")),
            *(("compute_scale", True), ("views", []), ("derivation", [])),
        )
    },
    "a node": (json_of(nodes=["a"]), {"what": "node 0", "kind": "str 'a'"}),
    "a resident": (json_of(residents=[1]), {"what": "resident 0", "kind": "int '1'"}),
    "backward word": (json_of(backward="maybe"), {"backward": "maybe"}),
    "compute_scale 0": (json_of(compute_scale=0), '"compute_scale" needs whole costs'),
    "decimals": (json_of(compute_scale=10, nodes=[{"compute": 0.5}]), '"compute_scale" needs whole costs'),
    "a view": (json_of(views={"v": 1}), '"views" must map names to names'),
    "view of nothing": (json_of(views={"v": "z"}), {"view": "v", "base": "z"}),
    "view called like a node": (json_of(views={"b": "a"}), {"name": "b"}),
    "views go round": (json_of(views={"v": "w", "w": "v"}), {"cycle": ["v", "w", "v"]}),
    "half a derivation": (json_of(derivation={"source_hash": ""}), '"derivation" is damaged'),
    "numbers": (json_of(derivation={"source_hash": 1, "options": "x"}), '"derivation" is damaged'),
    # fields of a node
    **{
        f"{key} {entry!r} of a node": (node(**{key: entry}), {"key": key, "what": "node 'b'"})
        for key, entry in (
            *(("op", ["Conv"]), ("compute", "x"), ("compute", None), ("compute", True), ("workspace", [])),
            *(("workspace", "big"), ("once", 1), ("mark", "keep"), ("reads", "a"), ("reads", [0]), ("values", {})),
            *(("saved", "a"), ("saved", [1]), ("grad_compute", "x"), ("grad_workspace", True), ("gradient_of", 1)),
        )
    },
    "name": (node(name=1), {"key": "name", "what": "node 1"}),
    "empty name": (node(name=""), {"name": ""}),
    "half a character": (node(name="\ud800"), "a string has half of a surrogate pair"),
    "a name twice": (node(name="a"), {"name": "a"}),
    "mark 3": (node(mark=3), {"node": "b", "mark": 3}),
    "huge mark": (node(mark=10**30), {"what": "mark"}),
    "reads of nothing": (node(reads=["z"]), {"node": "b", "value": "z"}),
    "cycle": (node(reads=["b"]), {"cycle": ["b", "b"]}),
    "a value": (node(values=[7]), {"what": "node 'b'", "kind": "int '7'"}),
    "no value": (node(values=[]), {"node": "b"}),
    "saved of nothing": (node(saved=["z"]), {"node": "b", "value": "z"}),
    "saved of another": (node(saved=["a"]), {"name": "b", "saved": 0}),
    "saved on some": (json_of(nodes=[{"name": "a", "saved": []}, {"name": "b"}]), {"lacking": "b"}),
    "gradient of nothing": (node(gradient_of="z"), {"node": "b", "value": "z"}),
    # amounts
    **{
        f"{key} {entry}": (node(**SAVED, **{key: entry}), {"what": key, "name": "b"})
        for key in ("memory", "compute", "workspace", "grad_memory", "grad_compute", "grad_workspace")
        for entry in (-7, 10**30)
    },
    # fields of a value
    **{
        f"{key} {entry!r} of a value": (node(values=[{key: entry}]), {"key": key, "what": "node 'b'"})
        for key, entry in (
            *(("name", 1), ("memory", "x"), ("memory", True), ("memory", None), ("output", 1), ("grad_memory", "x")),
            ("view_of", 1),
        )
    },
    "view with compute": (node(compute=1, values=[{"view_of": "a"}]), {"node": "b"}),
    "number without end": (
        json_of(compute_unit="@").replace('"@"', "1e99999999999999999999"),
        {"key": "compute_unit", "found": "int '9223372036854775808'"},
    ),
    "number beyond decimals": (node(compute="@").replace('"@"', "1e9999999"), {"what": "compute", "name": "b"}),
    # fields of a resident
    **{
        f"{key} {entry!r} of a resident": (
            json_of(residents=[{"name": "x"} | {key: entry}]),
            {"key": key, "what": "resident 0"},
        )
        for key, entry in (("name", 1), ("memory", "x"), ("role", 1), ("readers", "a"), ("readers", [1]))
    },
    "resident without name": (json_of(residents=[{}]), {"key": "name", "what": "resident 0"}),
    "resident called like a node": (json_of(residents=[{"name": "a"}]), {"name": "a"}),
    **{
        f"resident of {size}": (json_of(residents=[{"name": "x", "memory": size}]), {"kind": "resident", "name": "x"})
        for size in (-1, 10**30)
    },
    "resident role word": (json_of(residents=[{"name": "x", "role": "weight"}]), {"resident": "x", "role": "weight"}),
    "unknown reader": (json_of(residents=[{"name": "x", "readers": ["z"]}]), {"resident": "x", "reader": "z"}),
}


@pytest.mark.parametrize(("text", "fault"), BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_wrong_with_json_is_named(read_text, text, fault):
    with refused(GraphError, fault):
        read_text(text, "g.json")


# ---------------------------------------------------------------- what is wrong is named: npz


def entries(graph):
    with np.load(io.BytesIO(to_npz(graph))) as held:
        return dict(held)


def about(**changes):
    """The entry with the names, with these changes."""
    held = json.loads(bytes(entries(rich())["remat_graph"])) | changes
    return {"remat_graph": np.frombuffer(json.dumps(held).encode(), np.uint8)}


def npz_of(changes=(), without=(), save=np.savez):
    held = {name: array for name, array in (entries(rich()) | dict(changes)).items() if name not in without}
    buffer = io.BytesIO()
    save(buffer, **held)
    return buffer.getvalue()


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def with_raw_entry(name, data):
    """An npz of which one entry has these bytes."""
    with zipfile.ZipFile(io.BytesIO(to_npz(rich()))) as archive:
        files = {held: archive.read(held) for held in archive.namelist()}
    return zipped(files | {f"{name}.npy": data})


def npy(header):
    """The start of an npy file with this header."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def in_directory(offset, data, archive):
    """An archive whose records say something else at this place of the local header; the directory has it 2 later."""
    for mark, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = archive.find(mark)
        archive = archive[: at + offset + shift] + data + archive[at + offset + shift + len(data) :]
    return archive


def broken_inside():
    """A compressed npz with a spoilt block."""
    data = bytearray(npz_of(save=np.savez_compressed))
    data[60:100] = b"\xff" * 40
    return bytes(data)


SHAPE = "{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }"
BAD_NPZ = {
    "truncated": to_npz(rich())[:-100],
    "cut in half": to_npz(rich())[:1000],
    "four bytes": b"PK\x03\x04",
    "no archive": b"PK\x03\x04" + b"junk" * 50,
    "empty archive": zipped({"a": b""}),
    **{
        f"no {name}": npz_of(without=[name])
        for name in ("remat_graph", "memory", "resident.role", "backward.grad_memory")
    },
    **{
        f"names of {text[:9]!r}": npz_of({"remat_graph": np.frombuffer(text, np.uint8)})
        for text in (b"{}", b"[1]", b"{", b"[" * 100000, b"9" * 5000, b'"\xe9"')
    },
    **{
        f"{name} {entry!r}": npz_of(about(**{name: entry}))
        for name, entry in (
            *(("version", 2), ("names", [1, 2, 3]), ("names", 1), ("names", ["a", None, "c"]), ("names", ["a"])),
            *(("ops", 1), ("ops", [1, 2, 3]), ("value_names", ["mask"]), ("value_names", [["a", "b"]])),
            *(("value_names", [[99, "b"]]), ("views", 1), ("views", {"v": 1}), ("compute_unit", 1)),
            *(("compute_scale", "x"), ("compute_scale", 0), ("resident_names", None), ("resident_names", [1, 2, 3])),
            *(("derivation", "x"), ("derivation", {"x": 1})),
        )
    },
    **{
        f"memory of {kind}": npz_of({"memory": array})
        for kind, array in {
            "two dimensions": np.ones((2, 2), np.int64),
            "text": np.array(["a"] * 4),
            "fractions": np.array([0.5] * 4),
        }.items()
    },
    **{
        f"compute of {kind}": npz_of({"compute": array})
        for kind, array in {
            "no numbers": np.array([np.nan] * 3),
            "negative numbers": np.array([-1] * 3),
            "unsigned": np.array([2**64 - 1] * 3, np.uint64),
            "dates": np.array([1] * 3, "M8[s]"),
            "records": np.zeros(3, [("a", "i8")]),
            "no records": np.zeros(0, [("a", "i8")]),
            "one node": np.array([1]),
        }.items()
    },
    **{
        f"{name} {entries}": npz_of({name: np.array(entries, np.int64)})
        for name, entries in (
            *(("value_indptr", [0, 3, 1, 4]), ("value_indptr", [0, 1, 3, -4]), ("value_indptr", [0, 1, 3, 2**62])),
            *(("value_indptr", []), ("read_indptr", [0, 0, 1, 9]), ("read_indptr", []), ("read_indices", [0, 0, 77])),
            *(("resident.read_indptr", [0, 9]), ("backward.saved_indptr", [0, 9]), ("forward_of", [-1])),
        )
    },
    "no dimension": npz_of({"read_indices": np.int64(1)}),
    "one size for too many values": npz_of({"value_indptr": np.array([0, 1, 3, 2**62]), "memory": np.int64(1)}),
    "no array": with_raw_entry("memory", b"not an array"),
    "an array without data": with_raw_entry("memory", npy(SHAPE % 4)),
    "an array too large for memory": with_raw_entry("memory", npy(SHAPE % 10**15)),
    "an array too large for anything": with_raw_entry("memory", npy(SHAPE % 10**30)),
    "a header of signs": with_raw_entry("memory", npy("-" * 9000)),
    "a header of brackets": with_raw_entry("memory", npy("(" * 9000)),
    "a header of python 2": with_raw_entry("memory", npy(SHAPE % "4L")),
    "a header in quotes": with_raw_entry("memory", npy('"""')),
    "a header that is a list": with_raw_entry("memory", npy("[]")),
    "an unknown type": with_raw_entry("memory", npy(SHAPE.replace("<i8", "<q17") % 4)),
    "a secret": in_directory(6, b"\x01\x00", to_npz(rich())),
    "an unknown compression": in_directory(8, b"\x63\x00", to_npz(rich())),
    "a spoilt block": broken_inside(),
}


@pytest.mark.parametrize("data", BAD_NPZ.values(), ids=BAD_NPZ)
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
def test_what_is_no_npz_graph_is_refused(read_text, data):
    with pytest.raises(GraphError):
        read_text(data, "g.npz")


@pytest.mark.parametrize("name", sorted({*entries(rich())} - {"remat_graph"}))
@pytest.mark.parametrize("shape", [(), (1, -1), (-1, 1)], ids=str)
def test_an_array_of_an_npz_graph_has_one_dimension(read_text, name, shape):
    array = entries(rich())[name]
    array = array.reshape(shape) if shape else array[0]
    with pytest.raises(GraphError, match=rf"^g.npz: not an npz graph \({name} has {array.ndim} dimensions"):
        read_text(npz_of({name: array}), "g.npz")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("truncated", r"g.npz: not an npz graph \(.*\); is the file whole\?"),
        ("no remat_graph", r"g.npz: not an npz graph \(there is no 'remat_graph'\)"),
        ("no memory", r"g.npz: not an npz graph \(there is no 'memory'\)"),
        ("version 2", "g.npz: version 2 is not supported; this release reads version 1"),
        ("names ['a']", "names has 1 entry, expected 3"),
        ("compute of negative numbers", r"compute\[0\] is -1"),
    ],
)
def test_what_is_wrong_with_npz_is_named(read_text, what, message):
    with pytest.raises(GraphError, match=message):
        read_text(BAD_NPZ[what], "g.npz")


class Touch:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("entry", ["memory", "remat_graph", "something_else"])
def test_pickles_in_npz_are_refused_and_not_executed(tmp_path, read_text, entry):
    trap = np.empty(1, object)
    trap[0] = Touch(tmp_path / "touched")
    with pytest.raises(GraphError, match=r"g.npz: not an npz graph \(Object arrays cannot be loaded"):
        read_text(npz_of({entry: trap}), "g.npz")
    assert not (tmp_path / "touched").exists()


# ---------------------------------------------------------------- any bytes


def harmless(file):
    """Nothing but a GraphError may come out; what is read is a graph that can be written and read again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = read_graph(file)
        except GraphError:
            return
        assert from_npz(to_npz(graph)).hash == graph.hash
        assert from_json(to_json(graph)).hash == graph.hash


TABLES = {
    "nodes": "id,name,memory,compute,once,resident,mark,view_of,grad_memory,param_memory,gradient_of "
    "1,a,8KiB,0.5,1,,keep,,,4, 2,v,,0,,,,1,,, x,x,5,0,,parameter,,,,, 3,b,,1e3,,,,,,, 4,c,1.5,2,,,2,,-1,,",
    "edges": "src,dst,saved 1,2, 2,3,1 x,3, 3,4,0 3:1,4,",
    "values": "node,name,memory_bytes,output,saved 3,,4,,1 3,mask,2,1,0",
}
STARTS = [b"", b"PK\x03\x04", b"{", b"\xef\xbb\xbf", b"\xff\xfe"]
CELLS = ["", "0", "1", "-1", "2", "0.5", "-0.5", "1e30", "1e999999", "1e9999999", "nan", "1_GiB", "yes", "a", "b", "x"]
CELLS += ["3", "4", "3:1", "mask", "keep", "recompute", "input", "9" * 20, "9" * 5000, "\ud7ff", '""']
ODD_ARRAYS = [np.int64(1), np.zeros(0), np.zeros((1, 1)), np.array([np.nan]), np.array(["a"]), np.array([1j])]
ODD_ARRAYS += [np.array([2**63], np.uint64), np.array([-(2**63)]), np.zeros(0, [("a", "i8")]), np.zeros(3, "M8[s]")]
ODD_ARRAYS += [np.zeros(4, bool), np.arange(4)]


@pytest.mark.parametrize("start", STARTS, ids=repr)
@pytest.mark.parametrize(
    "ending", ["nodes.csv", "edges.csv", "values.csv", "txt", "edges", "json", "npz", "graphml", "dot", "gv", "gr"]
)
def test_any_bytes_are_read_or_refused(tmp_path, ending, start):
    junk = np.random.default_rng(len(ending) + len(start))
    for length in (0, 1, 7, 30, 120):
        written(tmp_path, **TABLES)
        file = tmp_path / f"X.{ending}"
        file.write_bytes(start + junk.bytes(length))
        harmless(file)


@pytest.mark.parametrize("kind", TABLES)
def test_tables_with_strange_cells_are_read_or_refused(tmp_path, kind):
    draw = random.Random(kind)
    for _ in range(100):
        rows = [row.split(",") for row in TABLES[kind].split(" ")]
        for _ in range(draw.randint(1, 3)):
            row = draw.choice(rows[draw.randint(0, 1) :])
            row[draw.randrange(len(row))] = draw.choice(CELLS)
        harmless(written(tmp_path, **TABLES | {kind: " ".join(map(",".join, rows))}))


@pytest.mark.parametrize("seed", [rich, lambda: differentiate(rich())], ids=["forward", "training"])
def test_npz_with_strange_parts_is_read_or_refused(tmp_path, seed):
    held = entries(seed())
    for name, array in held.items():
        cut = [] if name == "remat_graph" else [array[:-1], np.append(array, -1), np.append(2**30, array)]
        for odd in ODD_ARRAYS + cut:
            np.savez(tmp_path / "g.npz", **held | {name: odd})
            harmless(tmp_path / "g.npz")


# ---------------------------------------------------------------- the lower-set authors' graphs


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_edges", "compute", "memory", "parameters"),
    [
        ("vgg19", 46, 45, 190, 4004508676, 574668960),
        ("unet", 60, 63, 231, 11781604356, 124401416),
        ("resnet50", 176, 191, 653, 4605604868, 102228384),
        ("googlenet", 134, 162, 665, 1273252884, 53513120),
    ],
)
def test_published_graphs_have_their_published_sums(shared_graphs, name, n_nodes, n_edges, compute, memory, parameters):
    with notices() as seen:
        graph = read_graph(shared_graphs / f"{name}.nodes.csv")
    assert (graph.n_nodes, graph.read_indices.size) == (n_nodes, n_edges)
    assert (graph.needed_compute, int(graph.memory.sum()), graph.resident_memory) == (compute, memory, parameters)
    assert seen == [f"{name}.nodes.csv: ignored columns is_param, raw_id, input_bytes"]
