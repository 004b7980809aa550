"""Files: what is written is read back; what people write is understood; what is wrong is named."""

import contextlib
import io
import json
import pickle
import re
import tempfile
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
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
from tests.raising import raises
from tests.strategies import captured_graphs, graphs, training_graphs

UNEVEN = "ignore:.* without a (size|cost) :remat_algos.errors.GraphWarning"  # many files here give what matters only
pytestmark = pytest.mark.filterwarnings(UNEVEN)

ENDINGS = ("txt", "json", "npz", "nodes.csv", "edges.csv", "values.csv", "csv")


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
    with np.load(io.BytesIO(to_npz(rich()))) as held:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **held)
    assert from_npz(buffer.getvalue()).hash == rich().hash


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


def test_tables_without_several_values_are_two_files(tmp_path):
    write_graph(ComputationGraph.from_edges([("a", "b")]), tmp_path / "X.nodes.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.edges.csv", "X.nodes.csv"]


def test_writing_tables_over_others_leaves_no_table_of_the_old_graph(tmp_path):
    file = tmp_path / "X.nodes.csv"
    write_graph(rich(), file)
    graph = ComputationGraph.from_edges([("a", "b")])
    write_graph(graph, file)
    assert read_graph(file).hash == graph.hash


@pytest.mark.parametrize("name", ["graph.xyz", "graph", "graph.csv", "graph.json.gz"])
def test_unknown_endings_are_refused(tmp_path, name):
    message = f"{name}: unknown ending; use .dot, .gv, .txt, .edges, .graphml, .json, .npz, .gr or .nodes.csv"
    with pytest.raises(GraphError, match=re.escape(message)):
        write_graph(rich(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_graph(rich(), tmp_path / "nowhere" / "graph.json")


# ---------------------------------------------------------------- tables


def test_tables_of_two_nodes(read):
    graph = read(nodes="name,memory,compute,op conv,8,10,Conv relu,4,1,ReLU", edges="src,dst conv,relu")
    assert named_reads(graph) == {"conv": [], "relu": ["conv"]}
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.labels.ops) == ([8, 4], [10, 1], ("Conv", "ReLU"))
    assert (graph.backward, graph.resident, graph.mark, graph.forward_of) == (None,) * 4


def test_what_a_table_leaves_out_is_one(read):
    graph = read(nodes="name a b")
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.workspace.tolist()) == ([1, 1], [1, 1], [0, 0])
    assert graph.output.tolist() == [True, True]


@pytest.mark.parametrize("kind", ["nodes", "edges", "values"])
def test_any_of_the_tables_leads_to_the_others(tmp_path, kind):
    write_graph(rich(), tmp_path / "X.nodes.csv")
    assert read_graph(tmp_path / f"X.{kind}.csv").hash == rich().hash


def test_the_table_of_nodes_may_have_the_bare_name(tmp_path):
    file = written(tmp_path, nodes="name a b", edges="src,dst a,b")
    bare = file.rename(tmp_path / "X.csv")
    assert named_reads(read_graph(bare)) == {"a": [], "b": ["a"]}


def test_paths_may_be_text(tmp_path):
    assert read_graph(str(written(tmp_path, nodes="name a"))).n_nodes == 1


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
def test_columns_have_other_names(tmp_path, table, column, alias, cell):
    def of(name):
        tables = {"nodes": "name a b", "edges": "src,dst a,b"}
        tables[table] = f"name,{name} a, b,{cell}" if table == "nodes" else f"node,{name} b,{cell}"
        return read_graph(written(tmp_path, **tables)).hash

    plain_tables = written(tmp_path, nodes="name a b", edges="src,dst a,b")
    without = read_graph(plain_tables).hash
    assert of(column) == of(alias) != without


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ("id 0 1", "src,dst 0,1"),
        ("name 0 1", "src,dst 0,1"),
        ("id,name 7,0 5,1", "src,dst 7,5"),
        ("id,name x,0 y,", "src,dst x,y"),
        ("name,id 0,x 1,", "src,dst x,1"),
    ],
)
def test_rows_have_an_id_or_a_name_or_both(read, nodes, edges):
    graph = read(nodes=nodes, edges=edges)
    assert graph.labels.names in (None, ("0", "y"))
    assert [graph.reads(v) for v in range(2)] == [[], [0]]


def test_where_there_are_ids_edges_and_views_speak_in_ids(read):
    graph = read(nodes="id,name,view_of,compute 1,a,,1 2,v,1,0 3,b,,1", edges="src,dst 2,3")
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert dict(graph.labels.views) == {"v": "a"}
    with pytest.raises(GraphError, match=r"no row of X\.nodes\.csv has the id '[ab]'"):
        read(nodes="id,name 1,a 2,b", edges="src,dst a,b")


def test_values_of_a_node_stand_in_a_table_of_their_own(read):
    graph = read(
        nodes="name,memory a,8 b, c,1",
        edges="src,dst a,b b,c b:2,c",
        values="node,name,memory_bytes,output,grad_memory,saved b,,4,,,0 b,mask,2,1,-1,1 b,,3,,9,",
    )
    assert graph.value_indptr.tolist() == [0, 1, 4, 5]
    assert graph.memory.tolist() == [8, 4, 2, 3, 1]
    assert graph.output.tolist() == [False, False, True, False, False]
    assert named_reads(graph)["c"] == ["b", "b:2"]
    assert dict(graph.labels.value_names) == {2: "mask"}
    assert graph.backward.grad_memory.tolist() == [8, 4, -1, 9, 1]
    assert graph.backward.saved(1) == [0, 2, 3]


def test_values_go_by_the_ids_of_their_nodes(read):
    graph = read(nodes="id,name 5,b 6,c", edges="src,dst 5:1,6", values="node,memory_bytes 5,4 5,2")
    assert named_reads(graph) == {"b": [], "c": ["b:1"]}


def test_a_row_may_be_a_resident(read):
    graph = read(
        nodes="name,memory,resident x,5,1 w,6,parameter s,7,state i,8,input a,1, b,1,0",
        edges="src,dst x,a w,a w,b a,b s,b",
    )
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert graph.resident.names == ("x", "w", "s", "i")
    assert (graph.resident.memory.tolist(), graph.resident.role.tolist()) == ([5, 6, 7, 8], [0, 1, 2, 0])
    assert [set(graph.resident.reads(v)) for v in range(2)] == [{0, 1}, {1, 2}]


def test_param_memory_is_a_parameter_of_one_reader(read):
    graph = read(nodes="id,name,param_memory 1,a,0 2,b,6 3,c,1KiB", edges="src,dst 1,2 2,3")
    assert graph.resident.names == ("param(b)", "param(c)")
    assert (graph.resident.memory.tolist(), graph.resident.role.tolist()) == ([6, 1024], [1, 1])
    assert [graph.resident.reads(v) for v in range(3)] == [[], [0], [1]]


@pytest.mark.parametrize(
    ("inputs", "output", "saved"),
    [("", "", [0, 1]), ("1", "1", [0, 1]), ("0", "1", [1]), ("1", "0", [0]), ("0", "0", []), ("no", "", [1])],
)
def test_flags_of_a_node_say_what_its_gradient_reads(read, inputs, output, saved):
    graph = read(nodes=f"name,grad_needs_inputs,grad_needs_output a,, b,{inputs},{output}", edges="src,dst a,b")
    assert graph.backward.saved(1) == saved


@pytest.mark.parametrize(("flag", "saved"), [("", [1, 2]), ("0", [1, 2]), ("1", [0, 1, 2])])
def test_the_flag_of_an_edge_goes_before_that_of_its_node(read, flag, saved):
    graph = read(
        nodes="name,grad_needs_inputs a, b, c,0",
        edges=f"src,dst,saved a,c,{flag} b,c,1",
    )
    assert graph.backward.saved(2) == saved


def test_gradients_have_sizes_costs_and_scratch_bytes(read):
    graph = read(nodes="name,memory,grad_memory,grad_compute,grad_workspace a,8,,, b,4,-1,5,2KiB c,2,3,0,")
    assert graph.backward.grad_memory.tolist() == [8, -1, 3]
    assert graph.backward.grad_compute.tolist() == [-1, 5, 0]
    assert graph.backward.grad_workspace.tolist() == [0, 2048, 0]


def test_without_a_word_on_gradients_there_are_no_rules(read):
    assert read(nodes="name,memory a,1").backward is None


def test_a_backward_node_need_not_be_a_gradient_of_one_node(read):
    graph = read(nodes="name,gradient_of,backward a,, g,a, s,,1", edges="src,dst a,g g,s")
    assert graph.forward_of.tolist() == [-1, 0, -2]
    assert graph.owner.tolist() == [-1, 0, 0]


def test_gradient_of_makes_a_backward_part(read):
    graph = read(nodes="id,name,gradient_of 1,a, 2,g,1", edges="src,dst 1,2")
    assert graph.forward_of.tolist() == [-1, 0]
    assert graph.is_training


@pytest.mark.parametrize(
    ("cell", "flag"),
    [*((cell, True) for cell in ("1", "true", "TRUE", "Yes")), *((cell, False) for cell in ("0", "false", "NO", ""))],
)
def test_flags_are_spelled_in_several_ways(read, cell, flag):
    graph = read(nodes=f"name,once,output a,{cell},1 b,,{cell}")
    assert (graph.once.tolist(), graph.output.tolist()) == ([flag, False], [True, flag])


@pytest.mark.parametrize(
    ("cell", "mark"),
    [("keep", 1), ("Keep", 1), ("1", 1), ("recompute", 2), ("RECOMPUTE", 2), ("2", 2), ("", 0), ("0", 0)],
)
def test_marks_are_spelled_in_several_ways(read, cell, mark):
    graph = read(nodes=f"name,mark a,keep b,{cell}")
    assert graph.mark.tolist() == [1, mark]


def test_tables_without_marks_have_none(read):
    assert read(nodes="name,mark a, b,0").mark is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4KiB", 4096),
        ("1.5 kB", 1500),
        ("2 MiB", 2 << 20),
        ("2MB", 2 * 10**6),
        ("1G", 10**9),
        ("7B", 7),
        ("1e3", 1000),
        ("0.3 B", 1),
        ("12.0", 12),
    ],
)
def test_sizes_have_units(read, text, size):
    nodes = f"name,memory,workspace,resident,param_memory\na,{text},{text},,{text}\nx,{text},,1,\n".encode()
    graph = read(nodes=nodes)
    assert (graph.memory.tolist(), graph.workspace.tolist()) == ([size], [size])
    assert sorted(graph.resident.memory.tolist()) == [size, size]


def test_spaces_around_cells_and_columns_are_ignored(read):
    graph = read(nodes=b" name , memory \n a , 8 \n b , 4 \n", edges=b"src , dst\n a , b \n")
    assert named_reads(graph) == {"a": [], "b": ["a"]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blank_lines_and_line_ends_of_other_systems_are_ignored(read, end):
    nodes, edges = "name,memory||a,8|b,4||", "src,dst|a,b|"
    graph = read(nodes=nodes.replace("|", end).encode(), edges=edges.replace("|", end).encode())
    assert named_reads(graph) == {"a": [], "b": ["a"]}


def test_unknown_columns_are_named_in_one_notice(tmp_path):
    file = written(tmp_path, nodes="name,colour,memory,shape a,red,1,4x4 b,blue,2,2x2", edges="src,dst a,b")
    with notices() as seen:
        graph = read_graph(file)
    assert graph.memory.tolist() == [1, 2]
    assert seen == ["X.nodes.csv: ignored columns colour, shape"]


def test_capitals_of_columns_do_not_matter(tmp_path):
    graph = read_graph(written(tmp_path, nodes="Name,MEMORY a,5 b,6", edges="Source,Target a,b"))
    assert graph.memory.tolist() == [5, 6]
    assert named_reads(graph) == {"a": [], "b": ["a"]}


@pytest.mark.parametrize("kind", ["edges", "values"])
def test_unknown_columns_of_the_other_tables_are_named_too(tmp_path, kind):
    tables = {"nodes": "name,memory a,1 b,", "edges": "src,dst a,b", "values": "node,memory_bytes b,3"}
    rows = tables[kind].split(" ")
    tables[kind] = " ".join([f"{rows[0]},colour", *(f"{row},red" for row in rows[1:])])
    with notices() as seen:
        read_graph(written(tmp_path, **tables))
    assert seen == [f"X.{kind}.csv: ignored columns colour"]


# ---------------------------------------------------------------- decimals


@pytest.mark.parametrize(
    ("costs", "scale", "compute"),
    [
        ("1 2", 1, [1, 2]),
        ("1.0 2", 1, [1, 2]),
        ("1e3 2", 1, [1000, 2]),
        ("0.5 2", 10, [5, 20]),
        ("0.5 1.25", 100, [50, 125]),
        ("0.000001 1", 10**6, [1, 10**6]),
    ],
)
def test_decimal_costs_are_scaled_until_they_are_whole(read, costs, scale, compute):
    a, b = costs.split(" ")
    graph = read(nodes=f"name,compute a,{a} b,{b}")
    assert (graph.compute.tolist(), graph.labels.compute_scale) == (compute, scale)
    assert graph.labels.compute(compute[0]) == f"{float(a):,g}"


def test_costs_of_gradients_are_scaled_with_the_others(read):
    graph = read(nodes="name,compute,grad_compute a,1,0.5 b,2,")
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([10, 20], 10)
    assert graph.backward.grad_compute.tolist() == [5, -1]


def test_costs_far_below_their_unit_are_exact(read):
    graph = read(nodes="name,compute a,0.00000049 b,0.0000015 c,0.0000025")
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([49, 150, 250], 10**8)


def test_parts_of_a_byte_round_up_with_one_notice(tmp_path):
    nodes = "name,memory,workspace,grad_memory,grad_workspace,param_memory a,0.1,1.5,1.5,1.5,1.5 b,2.5,2.5,0.5,2,2"
    with notices() as seen:
        graph = read_graph(written(tmp_path, nodes=nodes))
    assert (graph.memory.tolist(), graph.workspace.tolist()) == ([1, 3], [2, 3])
    assert (graph.backward.grad_memory.tolist(), graph.resident.memory.tolist()) == ([2, 1], [2, 2])
    assert seen == ["X.nodes.csv: sizes with parts of a byte were rounded up"]


def test_decimals_in_json_are_exact():
    graph = from_json(json_of(nodes=[{"name": "a", "compute": 0.1}, {"name": "b", "compute": 3}]))
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([1, 30], 10)


def test_whole_costs_in_json_may_be_scaled_already():
    graph = from_json(json_of(nodes=[{"compute": 15}], compute_scale=10, compute_unit="ms"))
    assert graph.labels.compute(15) == "1.5 ms"


# ---------------------------------------------------------------- order and doubles


def test_rows_are_numbered_topologically_earliest_first(read):
    graph = read(nodes="name d c b a e", edges="src,dst a,b b,c a,c")
    assert graph.labels.names == ("d", "a", "b", "c", "e")


@given(graphs(min_nodes=1))
def test_a_topological_file_keeps_its_order(graph):
    again = ComputationGraph.from_tables(tables_from(graph))
    assert [again.labels[v] for v in range(again.n_nodes)] == [graph.labels[v] for v in range(graph.n_nodes)]


@given(graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_rows_in_any_order_make_a_graph_of_the_same_edges(graph, random):
    tables = tables_from(graph)
    random.shuffle(tables.nodes)
    again = ComputationGraph.from_tables(tables)
    assert named_reads(again) == named_reads(graph)
    place = {node.name: i for i, node in enumerate(tables.nodes)}
    names = [again.labels[v] for v in range(again.n_nodes)]
    done = set()
    for name in names:  # of all rows that could come next, the earliest
        ready = [row for row in place if row not in done and {owner(again, x) for x in named_reads(again)[row]} <= done]
        assert name == min(ready, key=place.get)
        done.add(name)


def owner(graph, value_name):
    return graph.labels[int(graph.producer[graph.value_id(value_name)])]


def test_parallel_edges_are_one(read):
    graph = read(nodes="name a b", edges="src,dst a,b a,b")
    assert graph.reads(1) == [0]


def test_reads_follow_the_order_of_the_edges(read):
    assert read(nodes="name a b c", edges="src,dst b,c a,c").reads(2) == [1, 0]


# ---------------------------------------------------------------- edge lists


def test_an_edge_list_is_text(read_text):
    graph = read_text("A B\nA C\nB D\nC D\n")
    assert named_reads(graph) == {"A": [], "B": ["A"], "C": ["A"], "D": ["B", "C"]}
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([1] * 4, [1] * 4)


def test_numeric_ids_go_by_value(read_text):
    graph = read_text("10 100\n9 100\n2 9\n")
    assert graph.labels.names == ("2", "9", "10", "100")
    assert read_text("2 3\n0 2\n1 2\n").labels.names is None


def test_names_go_by_their_first_appearance(read_text):
    assert read_text("b x\n10 9\n9 b\n").labels.names == ("10", "9", "b", "x")


def test_comments_blank_lines_and_lone_nodes(read_text):
    graph = read_text("# from a paper\n\nA B # first\n  C\nA\tB\n")
    assert named_reads(graph) == {"A": [], "B": ["A"], "C": []}


def test_a_comment_may_hold_a_comma(read_text):
    assert read_text("# u, v: v reads u\nA B\n").n_nodes == 2


def test_an_edge_list_may_have_any_ending(read_text):
    for name in ("graph", "graph.edges", "graph.csv"):
        assert read_text("A B\n", name).n_nodes == 2


@pytest.mark.parametrize("edges", ["A B\nA C\nB C\n", "src,dst\nA,B\nA,C\nB,C\n"])
def test_an_edge_list_may_have_a_table_of_nodes(tmp_path, edges):
    (tmp_path / "edges.txt").write_text(edges)
    (tmp_path / "sizes.csv").write_text("name,memory\nC,3\nA,1\nB,2\n")
    graph = read_graph(tmp_path / "edges.txt", nodes=tmp_path / "sizes.csv")
    assert named_reads(graph) == {"A": [], "B": ["A"], "C": ["A", "B"]}
    assert graph.memory.tolist() == [1, 2, 3]


def test_a_table_of_nodes_brings_its_values(tmp_path):
    (tmp_path / "edges.txt").write_text("b:1 c\n")
    (tmp_path / "N.nodes.csv").write_text(lines("name b c"))
    (tmp_path / "N.values.csv").write_text(lines("node,memory_bytes b,1 b,2"))
    assert named_reads(read_graph(tmp_path / "edges.txt", nodes=tmp_path / "N.nodes.csv")) == {"b": [], "c": ["b:1"]}


def test_names_of_an_edge_list_with_a_table_may_hold_quotes(tmp_path):
    (tmp_path / "edges.txt").write_text('A" B\n')
    (tmp_path / "nodes.csv").write_text('name\n"A"""\nB\n')
    graph = read_graph(tmp_path / "edges.txt", nodes=tmp_path / "nodes.csv")
    assert named_reads(graph) == {'A"': [], "B": ['A"']}


@pytest.mark.parametrize("name", ["g.txt", "g.json", "X.nodes.csv"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, name):
    written(tmp_path)
    text = {"g.txt": "A B\n", "g.json": json_of(), "X.nodes.csv": "name,memory\nA,1\nB,1\n"}[name]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_graph(tmp_path / name).n_nodes == 2


# ---------------------------------------------------------------- views


def test_a_view_vanishes_and_its_readers_read_the_base(read):
    graph = read(nodes="name,memory,view_of a,8, v,,a b,4,", edges="src,dst a,v v,b")
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert dict(graph.labels.views) == {"v": "a"}
    assert graph.value_id("v") == graph.value_id("a")


def test_a_chain_of_views_ends_at_what_has_bytes(read):
    graph = read(nodes="name,view_of w,v v,a a, b,", edges="src,dst w,b v,b a,b")
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert dict(graph.labels.views) == {"w": "a", "v": "a"}


def test_a_view_of_a_resident_is_a_read_of_the_resident(read):
    graph = read(nodes="name,memory,resident,view_of x,5,1, v,,,x a,1,,", edges="src,dst v,a")
    assert named_reads(graph) == {"a": []}
    assert graph.resident.reads(0) == [0]
    assert dict(graph.labels.views) == {"v": "x"}


def test_a_view_that_is_an_output_makes_its_base_one(read):
    graph = read(nodes="name,view_of,output a,, v,a,1 b,,", edges="src,dst a,v a,b")
    assert graph.output.tolist() == [True, False]


def test_a_base_that_only_a_view_reads_is_a_default_output(read):
    graph = read(nodes="name,view_of a, v,a", edges="src,dst a,v")
    assert graph.output.tolist() == [True]


def test_what_a_gradient_saves_of_a_view_it_saves_of_the_base(read):
    graph = read(nodes="name,view_of a, v,a b,", edges="src,dst,saved a,v, v,b,1 a,b,0")
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert graph.backward.saved(1) == [0, 1]


def test_values_of_a_node_may_be_views_in_part(read):
    graph = read(
        nodes="name a s c d",
        edges="src,dst a,s s,c s:1,c s:2,d",
        values="node,memory_bytes,view_of s,4, s,,a s,2,",
    )
    assert named_reads(graph) == {"a": [], "s": ["a"], "c": ["s", "a"], "d": ["s:2"]}
    assert dict(graph.labels.views) == {"s:1": "a"}
    assert graph.memory.tolist() == [1, 4, 2, 1, 1]


def test_a_node_may_view_its_own_value(read):
    graph = read(nodes="name s c", edges="src,dst flat,c", values="node,name,memory_bytes,view_of s,y,4, s,flat,,y")
    assert named_reads(graph) == {"s": [], "c": ["y"]}


def test_the_first_value_may_be_the_view(read):
    graph = read(nodes="name a s c", edges="src,dst a,s s,c s:1,c", values="node,memory_bytes,view_of s,,a s,2,")
    assert named_reads(graph) == {"a": [], "s": ["a"], "c": ["a", "s:1"]}
    again = from_json(to_json(graph))
    assert named_reads(again) == named_reads(graph)
    assert again.hash == graph.hash


def test_a_node_of_nothing_but_views_vanishes(read):
    graph = read(
        nodes="name,compute a,1 b,1 s,0 c,1", edges="src,dst s,c s:1,c", values="node,memory_bytes,view_of s,,a s,,b"
    )
    assert named_reads(graph) == {"a": [], "b": [], "c": ["a", "b"]}


def test_views_in_json():
    nodes = [
        {"name": "a", "compute": 3},
        {"name": "v", "compute": 0, "reads": ["a"], "values": [{"view_of": "a"}]},
        {"name": "b", "reads": ["v", "w"]},
    ]
    graph = from_json(json_of(nodes=nodes, views={"w": "v"}))
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert dict(graph.labels.views) == {"v": "a", "w": "a"}


# ---------------------------------------------------------------- what is wrong is named: tables

AB = "name a b"
BAD_TABLES = {
    "cycle": ({"nodes": AB, "edges": "src,dst a,b b,a"}, "X.nodes.csv: the graph has a cycle: a -> b -> a; remove one"),
    "longer cycle": (
        {"nodes": "name d c b a", "edges": "src,dst a,b b,c c,a b,d"},
        r"the graph has a cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c); remove one of these edges",
    ),
    "loop": ({"nodes": AB, "edges": "src,dst a,a"}, "the graph has a cycle: a -> a; remove one"),
    "cycle through a view": (
        {"nodes": "name,view_of a, v,b b,", "edges": "src,dst a,b v,a"},
        "the graph has a cycle: a -> b -> a",
    ),
    "unknown source": (
        {"nodes": AB, "edges": "src,dst a,b c,b"},
        "X.edges.csv, line 3: no row of X.nodes.csv has the id 'c'",
    ),
    "unknown reader": (
        {"nodes": AB, "edges": "src,dst a,c"},
        "X.edges.csv, line 2: no row of X.nodes.csv has the id 'c'",
    ),
    "edge to a resident": (
        {"nodes": "name,resident a, x,1", "edges": "src,dst a,x"},
        "X.edges.csv, line 2: 'x' is a resident, and residents read nothing",
    ),
    "edge to a value": (
        {"nodes": AB, "edges": "src,dst b,a:1", "values": "node,memory_bytes a,1 a,2"},
        "X.edges.csv, line 2: 'a:1' is a value; edges lead to nodes",
    ),
    "two ids": ("id,name 1,a 1,b", "X.nodes.csv, line 3: two rows have the id '1'; give each its own"),
    "two names": ("id,name 1,a 2,a", "X.nodes.csv, line 3: two rows are called 'a'; give each its own name"),
    "a name twice": ("name a b a", "X.nodes.csv, line 4: two rows have the id 'a'"),
    "resident and node": ("id,name,resident 1,a,1 2,a,", "X.nodes.csv, line 3: two rows are called 'a'"),
    "resident and parameter": (
        "name,memory,resident,param_memory param(a),7,parameter, a,1,,5",
        r"X.nodes.csv, line \d: two rows are called 'param\(a\)'; give each its own name",
    ),
    "two values": (
        {"nodes": AB, "values": "node,name,memory_bytes a,y,1 b,y,1"},
        "X.nodes.csv, line 3: two values are called 'y'; give each its own name",
    ),
    "value like a node": ({"nodes": AB, "values": "node,name,memory_bytes a,b,1"}, "two (rows|values).* 'b'"),
    "no name": ("name,memory a,1 ,2", "X.nodes.csv, line 3: the row has neither id nor name; give it one"),
    # numbers
    "negative memory": ("name,memory a,1 b,-1", "X.nodes.csv, line 3: node 'b' has memory -1"),
    "negative part of a byte": ("name,memory a,1 b,-0.5", "X.nodes.csv, line 3: node 'b' has memory -0.5"),
    "negative compute": ("name,compute a,1 b,-1", "X.nodes.csv, line 3: node 'b' has compute -1"),
    "negative part of a cost": ("name,compute a,1 b,-0.5", "X.nodes.csv, line 3: node 'b' has compute -0.5"),
    "negative workspace": ("name,workspace a,1 b,-7", "X.nodes.csv, line 3: node 'b' has workspace -7"),
    "negative grad_memory": ("name,grad_memory a,1 b,-7", "X.nodes.csv, line 3: .*'b'.*grad_memory"),
    "negative grad_compute": ("name,grad_compute a,1 b,-7", "X.nodes.csv, line 3: .*'b'.*grad_compute"),
    "negative grad_workspace": ("name,grad_workspace a,1 b,-7", "X.nodes.csv, line 3: .*'b'.*grad_workspace"),
    "negative resident": ("name,memory,resident x,-1,1 a,1,", "X.nodes.csv, line 2: resident 'x' has memory -1; "),
    "negative value": ({"nodes": AB, "values": "node,memory_bytes b,-1"}, "node 'b' has memory -1"),
    "not a number": ("name,memory a,1 b,nan", "X.nodes.csv, line 3: memory of 'b'.* 'nan'.*; write"),
    "infinite": ("name,compute a,1 b,inf", "line 3: compute of 'b': 'inf' is not a cost; write a number"),
    "a word": ("name,compute a,1 b,x", "line 3: compute of 'b': 'x' is not a cost; write a number"),
    "a unit for costs": ("name,compute a,1 b,1MB", "compute of 'b': '1MB' is not a cost; write a number"),
    "no unit": ("name,memory a,1 b,7parsec", "X.nodes.csv, line 3: memory of 'b': '7parsec' is not a size"),
    "huge memory": ("name,memory a,1 b,1e999999", r"X.nodes.csv, line 3: the sum of memory reaches 2..53 at node 'b'"),
    "huge compute": ("name,compute a,1 b,1e999999", "line 3: the sum of compute reaches 2..53 at node 'b'"),
    "huge compute beside a decimal": (
        "name,compute a,0.5 b,1e999999",
        "line 3: the sum of compute reaches 2..53 at node 'b'",
    ),
    "more than a decimal can hold": ("name,memory a,1 b,1e1000000", "line 3: .*node 'b'"),
    "a cost that no decimal can hold": ("name,compute a,1 b,1e9999999", "line 3: .*node 'b'"),
    "an exponent without end": ("name,memory a,1 b,1e99999999999999999999", "line 3: .*'b'"),
    "a huge number of units": (b"name,memory\na,1\nb,1e999999 GiB\n", "X.nodes.csv, line 3: memory of 'b'"),
    "5000 digits": (f"name,memory a,1 b,{'9' * 5000}", "X.nodes.csv, line 3: .*'b'"),
    "sum of memory": (f"name,memory a,{2**52} b,{2**52}", "line 3: the sum of memory reaches 2..53 at node 'b'"),
    "sum of compute": (f"name,compute a,{2**52} b,{2**52}", "line 3: the sum of compute reaches 2..53 at node 'b'"),
    "sum of residents": (f"name,memory,resident a,1, x,{2**53},1", r"2..53 at resident 'x'"),
    "huge resident": (f"name,memory,resident a,1, x,{10**30},1", "resident"),
    "huge param_memory": (f"name,param_memory a,{10**30}", "resident"),
    "huge grad_memory": (f"name,grad_memory a,1 b,{10**30}", "grad_memory"),
    "huge grad_compute": (f"name,grad_compute a,1 b,{10**30}", "grad_compute"),
    "huge grad_workspace": (f"name,grad_workspace a,1 b,{10**30}", "grad_workspace"),
    # words
    "flag": ("name,once a,1 b,maybe", "X.nodes.csv, line 3: once .* 'maybe'; write 0 or 1"),
    "output": ("name,output a,2", "X.nodes.csv, line 2: output .* '2'; write 0 or 1"),
    "saved": ({"nodes": AB, "edges": "src,dst,saved a,b,x"}, "X.edges.csv, line 2: saved .* 'x'; write 0 or 1"),
    "mark": ("name,mark a,drop", "X.nodes.csv, line 2: mark .* 'drop'; write keep, recompute or nothing"),
    "role": ("name,resident a,weight", "X.nodes.csv, line 2: resident .* 'weight'"),
    "mark and once": ("name,mark,once a,recompute,1", "'?a'? is marked once and recompute; remove one mark"),
    "gradient of nothing": ("name,gradient_of a, b,z", "X.nodes.csv, line 3: .*'b'.*'z', which is no node"),
    "gradient of a gradient": (
        "name,gradient_of a, g,a h,g",
        "forward_of.2. is 1, expected a node of the forward part",
    ),
    # views
    "unknown base": ("name,view_of a, v,z", "X.nodes.csv.*: 'v' is a view of 'z', which is no node, value or"),
    "view of itself": ("name,view_of a, v,v", "X.nodes.csv.*: views form a cycle: v -> v; give one of them"),
    "views go round": ("name,view_of a, v,w w,u u,v", "views form a cycle: v -> w -> u -> v"),
    "view with compute": (
        "name,view_of,compute a,,1 v,a,2",
        "X.nodes.csv, line 3: 'v' is a view with compute or workspace; set both to 0",
    ),
    "view with workspace": ("name,view_of,workspace a,,1 v,a,2", "'v' is a view with compute or workspace"),
    # the shape of the tables
    "no nodes": ("name,memory", "X.nodes.csv: there are no nodes; add one"),
    "empty nodes": (b"", "X.nodes.csv: the file is empty"),
    "blank nodes": (b" \n\n\t\n", "X.nodes.csv: the file is empty"),
    "empty edges": ({"nodes": AB, "edges": b""}, "X.edges.csv: the file is empty"),
    "no nodes file": ({}, r"no such file: .*X.nodes.csv"),
    "no edges file": ({"nodes": AB, "edges": None}, r"no such file: .*X.edges.csv; X.nodes.csv needs it"),
    "no name column": ("memory 1", r"X.nodes.csv, line 1: missing column `name` \(found: memory\)"),
    "no header": ({"nodes": AB, "edges": "a,b"}, r"X.edges.csv, line 1: missing column `src` \(found: a, b\)"),
    "no dst": ({"nodes": AB, "edges": "src a"}, r"X.edges.csv, line 1: missing column `dst` \(found: src\)"),
    "no node column": (
        {"nodes": AB, "values": "memory_bytes 1"},
        r"X.values.csv, line 1: missing column `node` \(found: memory_bytes\)",
    ),
    "no sizes": (
        {"nodes": AB, "values": "node a"},
        r"X.values.csv, line 1: missing column `memory_bytes` \(found: node\)",
    ),
    "column twice": (
        "name,memory,memory_bytes a,1,1",
        "X.nodes.csv, line 1: columns `memory` and `memory_bytes` mean the same; keep",
    ),
    "missing cell": ("name,memory a,1 b", r"X.nodes.csv, line 3: expected 2 cells, found 1"),
    "a cell more": ({"nodes": AB, "edges": "src,dst a,b,c"}, "X.edges.csv, line 2: expected 2 cells, found 3"),
    "open quote": ({"nodes": b'name\n"a\n'}, "X.nodes.csv, line 2: not a CSV line"),
    "text after a quote": (b'name\n"a"b\n', "X.nodes.csv, line 2: not a CSV line"),
    "a cell without end": (b"name\n" + b"a" * 200000, "X.nodes.csv, line 2: not a CSV line"),
    "values of no node": (
        {"nodes": AB, "values": "node,memory_bytes a,1 z,1"},
        "X.values.csv, line 3: node 'z' is not in X.nodes.csv; add it there",
    ),
    "values of a resident": (
        {"nodes": "name,resident a, x,1", "values": "node,memory_bytes x,1"},
        "X.values.csv, line 2: node 'x' is not in X.nodes.csv",
    ),
    "memory in two places": (
        {"nodes": "name,memory a,1", "values": "node,memory_bytes a,1"},
        "X.nodes.csv, line 2: node 'a' has rows in X.values.csv; leave its memory empty here",
    ),
    # the bytes
    "latin-1": ("name caf\xe9".encode("latin-1"), "X.nodes.csv: byte 8 is not UTF-8 text"),
    "utf-16": ("name a".encode("utf-16"), "X.nodes.csv: the text is UTF-16; save the file as UTF-8"),
    "utf-16 edges": ({"nodes": AB, "edges": "src,dst".encode("utf-16")}, "X.edges.csv: the text is UTF-16"),
    "junk": (bytes(range(256)), "X.nodes.csv: neither text nor npz"),
    "a name that cannot be printed": (b"name\na\x07\n", "'a.x07' is not a valid name"),
}


@pytest.mark.parametrize(("tables", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_what_is_wrong_with_tables_is_named(read, tables, message):
    with pytest.raises(GraphError, match=message):
        read(**(tables if isinstance(tables, dict) else {"nodes": tables}))


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("A B C\n", "g.txt", "g.txt, line 1: expected two names per line, found 3"),
        ("A B\nB A\n", "g.txt", "g.txt: the graph has a cycle: A -> B -> A; remove one of these edges"),
        ("", "g.txt", "g.txt: the file is empty"),
        ("# nothing\n", "g.txt", "g.txt: the file is empty; write an edge `u v` per line"),
        ("A\x07 B\n", "g.txt", "'A\\x07' is not a valid name"),
        ("name,memory\na,1\n", "lone.csv", "lone.csv is a table of nodes without edges; call it X.nodes.csv"),
        (bytes(range(256)), "g.txt", "g.txt: neither text nor npz nor ONNX"),
        ("A é\n".encode("latin-1"), "g.txt", "g.txt: byte 2 is not UTF-8 text; save the file as UTF-8"),
        ("A B\n".encode("utf-16"), "g.txt", "g.txt: the text is UTF-16; save the file as UTF-8"),
        ("A B\n".encode("utf-16-le"), "g.txt", "g.txt: neither text nor npz"),
        (pickle.dumps(rich().memory), "g.npz", "g.npz: neither text nor npz"),
    ],
)
def test_what_is_wrong_with_a_text_is_named(read_text, text, name, message):
    with pytest.raises(GraphError, match=re.escape(message)):
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
    "truncated": (json_of()[:-20], r"g.json: not valid JSON at line 1, column \d+ .*; is the file whole\?"),
    "cut in a string": (json_of()[:14], "g.json: not valid JSON at line 1"),
    "not json": ("{nodes}", "g.json: not valid JSON at line 1, column 2"),
    "a list": ("[]", 'g.json: not a graph: expected "format": "remat-graph"'),
    "another format": (json_of(format="remat-other"), 'g.json: not a graph: expected "format": "remat-graph"'),
    "no format": ("{}", 'g.json: not a graph: expected "format"'),
    "another version": (json_of(version=2), "g.json: version 2 is not supported; this release reads version 1"),
    "no version": ('{"format": "remat-graph"}', "g.json: version None is not supported"),
    "nested": ("[" * 100000, "g.json: objects and lists are nested deeper than 64 levels"),
    "nested whole": ("[" * 100000 + "]" * 100000, "g.json: objects and lists are nested deeper than 64 levels"),
    "nested objects": ('{"a":' * 100000, "g.json: objects and lists are nested deeper than 64 levels"),
    "5000 digits": (json_of(compute_unit=1).replace("1}", "9" * 5000 + "}"), "g.json: the number 9999999999"),
    "NaN": (node(compute=float("nan")), "g.json: NaN is not a number"),
    "Infinity": (node(compute=float("inf")), "g.json: Infinity is not a number"),
    "-Infinity": (node(compute=float("-inf")), "g.json: -Infinity is not a number"),
    "no nodes": ('{"format": "remat-graph", "version": 1}', 'g.json: the graph has no "nodes"'),
    "nodes": (json_of(nodes={}), '"nodes" of the graph is dict .*, expected a list'),
    "a node": (json_of(nodes=["a"]), "node 0 is str 'a', expected an object"),
    "residents": (json_of(residents={}), '"residents" of the graph is dict'),
    "a resident": (json_of(residents=[1]), "resident 0 is int '1', expected an object"),
    "backward": (json_of(backward=1), '"backward" of the graph is int'),
    "backward word": (json_of(backward="maybe"), "\"backward\" is 'maybe'; use none, to come, present"),
    "compute_unit": (json_of(compute_unit=None), '"compute_unit" of the graph is null, expected text'),
    "compute_scale": (json_of(compute_scale="x"), '"compute_scale" of the graph is str'),
    "compute_scale 0": (json_of(compute_scale=0), '"compute_scale" needs whole costs'),
    "compute_scale true": (json_of(compute_scale=True), '"compute_scale" of the graph is bool'),
    "compute_scale with decimals": (
        json_of(compute_scale=10, nodes=[{"compute": 0.5}]),
        '"compute_scale" needs whole costs; leave it out, and decimals are scaled',
    ),
    "views": (json_of(views=[]), '"views" of the graph is list'),
    "a view": (json_of(views={"v": 1}), '"views" must map names to names'),
    "view of nothing": (json_of(views={"v": "z"}), "g.json: 'v' is a view of 'z', which is no node, value or resident"),
    "view called like a node": (json_of(views={"b": "a"}), "g.json: a view and a node or value are both called 'b'"),
    "views go round": (json_of(views={"v": "w", "w": "v"}), "g.json: views form a cycle: v -> w -> v"),
    "derivation": (json_of(derivation=[]), '"derivation" of the graph is list'),
    "half a derivation": (json_of(derivation={"source_hash": ""}), '"derivation" is not as it was'),
    "derivation of numbers": (json_of(derivation={"source_hash": 1, "options": "x"}), "derivation"),
    # fields of a node
    "name": (node(name=1), "\"name\" of node 1 is int '1', expected text"),
    "empty name": (node(name=""), "'' is not a valid name"),
    "half a character": (node(name="\ud800"), "a text in it has half of a character .a lone surrogate"),
    "a name twice": (node(name="a"), "g.json: two rows are called 'a'; give each its own name"),
    "op": (node(op=["Conv"]), "\"op\" of node 'b' is list"),
    "compute": (node(compute="x"), "\"compute\" of node 'b': 'x' is not a cost; write a number"),
    "no compute": (node(compute=None), "\"compute\" of node 'b' is null, expected a number"),
    "true compute": (node(compute=True), "\"compute\" of node 'b' is bool"),
    "negative compute": (node(compute=-1), "g.json: node 'b' has compute -1; sizes and costs are 0 or more"),
    "huge compute": (node(compute=10**30), "g.json: the sum of compute reaches 2..53 at node 'b'"),
    "workspace": (node(workspace=[]), "\"workspace\" of node 'b' is list"),
    "workspace text": (node(workspace="big"), "\"workspace\" of node 'b': 'big' is not a size; write bytes"),
    "once": (node(once=1), "\"once\" of node 'b' is int '1', expected true or false"),
    "mark": (node(mark="keep"), "\"mark\" of node 'b' is str 'keep', expected a whole number"),
    "mark 3": (node(mark=3), r"0, 1.*2 \(recompute\)"),
    "huge mark": (node(mark=10**30), "mark"),
    "reads": (node(reads="a"), "\"reads\" of node 'b' is str"),
    "reads of numbers": (node(reads=[0]), "\"reads\" of node 'b' contains something that is not a valid name"),
    "reads of nothing": (node(reads=["z"]), "g.json: node 'b' reads 'z', which is no node, value or resident"),
    "cycle": (node(reads=["b"]), "g.json: the graph has a cycle: b -> b"),
    "values": (node(values={}), "\"values\" of node 'b' is dict"),
    "a value": (node(values=[7]), "node 'b' is int '7', expected an object"),
    "no value": (node(values=[]), "g.json: node 'b' has no value; give it one of 0 bytes"),
    "saved": (node(saved="a"), "\"saved\" of node 'b' is str"),
    "saved of numbers": (node(saved=[1]), "\"saved\" of node 'b' contains something that is not a valid name"),
    "saved of nothing": (node(saved=["z"]), "g.json: node 'b' .*'z', which is no node, value or resident"),
    "saved of another": (node(saved=["a"]), "the gradient of b saves value 0, which the node neither reads nor makes"),
    "saved on some": (json_of(nodes=[{"name": "a", "saved": []}, {"name": "b"}]), "\"saved\" is missing for node 'b'"),
    "grad_compute": (node(grad_compute="x"), "\"grad_compute\" of node 'b': 'x' is not a cost; write a number"),
    "grad_workspace": (node(grad_workspace=True), "\"grad_workspace\" of node 'b' is bool"),
    "gradient_of": (node(gradient_of=1), "\"gradient_of\" of node 'b' is int"),
    "gradient of nothing": (node(gradient_of="z"), "g.json: .*'b'.*'z', which is no node"),
    # fields of a value
    "value name": (node(values=[{"name": 1}]), "\"name\" of node 'b' is int"),
    "value memory": (node(values=[{"memory": "x"}]), "\"memory\" of node 'b': 'x' is not a size"),
    "value memory true": (node(values=[{"memory": True}]), "\"memory\" of node 'b' is bool"),
    "value memory null": (node(values=[{"memory": None}]), "\"memory\" of node 'b' is null"),
    "value memory negative": (node(values=[{"memory": -1}]), "g.json: node 'b' has memory -1"),
    "value memory huge": (node(values=[{"memory": 2**53}]), "g.json: the sum of memory reaches 2..53 at node 'b'"),
    "value output": (node(values=[{"output": 1}]), "\"output\" of node 'b' is int"),
    "value grad_memory": (node(values=[{"grad_memory": "x"}]), "\"grad_memory\" of node 'b': 'x' is not a size"),
    "value grad_memory huge": (node(saved=[], values=[{"grad_memory": 10**30}]), "grad_memory"),
    "grad_compute huge": (node(saved=[], grad_compute=10**30), "grad_compute"),
    "grad_workspace huge": (node(saved=[], grad_workspace=10**30), "grad_workspace"),
    "value view_of": (node(values=[{"view_of": 1}]), "\"view_of\" of node 'b' is int"),
    "view with compute": (
        node(compute=1, values=[{"view_of": "a"}]),
        "g.json: 'b' is a view with compute or workspace; set both to 0",
    ),
    "number without end": (json_of(compute_unit="@").replace('"@"', "1e99999999999999999999"), "g.json"),
    "number beyond decimals": (node(compute="@").replace('"@"', "1e9999999"), "g.json: .*'b'"),
    # fields of a resident
    "resident without name": (json_of(residents=[{}]), 'resident 0 has no "name"'),
    "resident name": (json_of(residents=[{"name": 1}]), '"name" of resident 0 is int'),
    "resident called like a node": (json_of(residents=[{"name": "a"}]), "g.json: two rows are called 'a'"),
    "resident memory": (
        json_of(residents=[{"name": "x", "memory": "x"}]),
        "\"memory\" of resident 0: 'x' is not a size",
    ),
    "resident memory negative": (json_of(residents=[{"name": "x", "memory": -1}]), "resident 'x' has memory -1"),
    "resident memory huge": (json_of(residents=[{"name": "x", "memory": 10**30}]), "resident"),
    "resident role": (json_of(residents=[{"name": "x", "role": 1}]), '"role" of resident 0 is int'),
    "resident role word": (json_of(residents=[{"name": "x", "role": "weight"}]), "resident 'x' has role 'weight'"),
    "readers": (json_of(residents=[{"name": "x", "readers": "a"}]), '"readers" of resident 0 is str'),
    "readers of numbers": (
        json_of(residents=[{"name": "x", "readers": [1]}]),
        '"readers" of resident 0 contains something',
    ),
    "unknown reader": (
        json_of(residents=[{"name": "x", "readers": ["z"]}]),
        "g.json: resident 'x' is read by 'z', which is no node",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_wrong_with_json_is_named(read_text, text, message):
    with pytest.raises(GraphError, match=message):
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
    "no remat_graph": npz_of(without=["remat_graph"]),
    "no memory": npz_of(without=["memory"]),
    "half the residents": npz_of(without=["resident.role"]),
    "half the rules": npz_of(without=["backward.grad_memory"]),
    "another version": npz_of(about(version=2)),
    "no version": npz_of({"remat_graph": np.frombuffer(b"{}", np.uint8)}),
    "a list of names": npz_of({"remat_graph": np.frombuffer(b"[1]", np.uint8)}),
    "no json": npz_of({"remat_graph": np.frombuffer(b"{", np.uint8)}),
    "nested json": npz_of({"remat_graph": np.frombuffer(b"[" * 100000, np.uint8)}),
    "json of 5000 digits": npz_of({"remat_graph": np.frombuffer(b"9" * 5000, np.uint8)}),
    "latin-1 names": npz_of({"remat_graph": np.frombuffer(b'"\xe9"', np.uint8)}),
    "names that are numbers": npz_of(about(names=[1, 2, 3])),
    "names that are a number": npz_of(about(names=1)),
    "names with None": npz_of(about(names=["a", None, "c"])),
    "too few names": npz_of(about(names=["a"])),
    "ops that are a number": npz_of(about(ops=1)),
    "ops that are numbers": npz_of(about(ops=[1, 2, 3])),
    "value names that are no pairs": npz_of(about(value_names=["mask"])),
    "value names without number": npz_of(about(value_names=[["a", "b"]])),
    "value name of nothing": npz_of(about(value_names=[[99, "b"]])),
    "views that are a number": npz_of(about(views=1)),
    "views of numbers": npz_of(about(views={"v": 1})),
    "unit that is a number": npz_of(about(compute_unit=1)),
    "scale that is text": npz_of(about(compute_scale="x")),
    "scale of nothing": npz_of(about(compute_scale=0)),
    "residents without names": npz_of(about(resident_names=None)),
    "residents of numbers": npz_of(about(resident_names=[1, 2, 3])),
    "derivation that is text": npz_of(about(derivation="x")),
    "derivation of something else": npz_of(about(derivation={"x": 1})),
    "two dimensions": npz_of({"memory": np.ones((2, 2), np.int64)}),
    "no dimension": npz_of({"read_indices": np.int64(1)}),
    "text": npz_of({"memory": np.array(["a"] * 4)}),
    "fractions": npz_of({"memory": np.array([0.5] * 4)}),
    "not numbers": npz_of({"compute": np.array([np.nan] * 3)}),
    "negative": npz_of({"compute": np.array([-1] * 3)}),
    "unsigned": npz_of({"compute": np.array([2**64 - 1] * 3, np.uint64)}),
    "dates": npz_of({"compute": np.array([1] * 3, "M8[s]")}),
    "records": npz_of({"compute": np.zeros(3, [("a", "i8")])}),
    "no records": npz_of({"compute": np.zeros(0, [("a", "i8")])}),
    "short": npz_of({"compute": np.array([1])}),
    "row pointers that fall": npz_of({"value_indptr": np.array([0, 3, 1, 4])}),
    "row pointers below 0": npz_of({"value_indptr": np.array([0, 1, 3, -4])}),
    "row pointers without end": npz_of({"value_indptr": np.array([0, 1, 3, 2**62])}),
    "one size for too many values": npz_of({"value_indptr": np.array([0, 1, 3, 2**62]), "memory": np.int64(1)}),
    "no row pointers": npz_of({"value_indptr": np.zeros(0, np.int64)}),
    "read row pointers of another graph": npz_of({"read_indptr": np.array([0, 0, 1, 9])}),
    "no read row pointers": npz_of({"read_indptr": np.zeros(0, np.int64)}),
    "reads of nothing": npz_of({"read_indices": np.array([0, 0, 77])}),
    "resident row pointers": npz_of({"resident.read_indptr": np.array([0, 9])}),
    "saved row pointers": npz_of({"backward.saved_indptr": np.array([0, 9])}),
    "a part of another size": npz_of({"forward_of": np.array([-1])}),
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
        ("another version", "g.npz: version 2 is not supported; this release reads version 1"),
        ("too few names", "names has 1 entry, expected 3"),
        ("negative", r"compute\[0\] is -1"),
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


def harmless(folder, name):
    """Nothing but a GraphError may come out; what is read is a graph that can be written and read again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = read_graph(Path(folder, name))
        except GraphError:
            return
        assert from_npz(to_npz(graph)).hash == graph.hash
        assert from_json(to_json(graph)).hash == graph.hash


TABLES = {
    "nodes": b"id,name,memory,compute,once,resident,mark,view_of,grad_memory,param_memory,gradient_of\n"
    b"1,a,8KiB,0.5,1,,keep,,,4,\n2,v,,0,,,,1,,,\nx,x,5,0,,parameter,,,,,\n3,b,,1e3,,,,,,,\n4,c,1.5,2,,,2,,-1,,\n",
    "edges": b"src,dst,saved\n1,2,\n2,3,1\nx,3,\n3,4,0\n3:1,4,\n",
    "values": b"node,name,memory_bytes,output,saved\n3,,4,,1\n3,mask,2,1,0\n",
}
SEEDS = {"g.json": to_json(rich()).encode(), "g.npz": to_npz(rich()), "g.txt": b"# u v\nA B\n1 2\nB C\n"}


def with_tables(folder, **changed):
    for kind, data in (TABLES | changed).items():
        Path(folder, f"X.{kind}.csv").write_bytes(data)


@settings(max_examples=60)
@given(st.binary(max_size=120), st.sampled_from([b"", b"PK\x03\x04", b"{", b"\xef\xbb\xbf", b"\xff\xfe"]))
def test_any_bytes_are_read_or_refused(junk, start):
    with tempfile.TemporaryDirectory() as folder:
        with_tables(folder)
        for ending in ENDINGS:
            Path(folder, f"X.{ending}").write_bytes(start + junk)
            harmless(folder, f"X.{ending}")
            if ending.endswith(".csv"):
                with_tables(folder)


@settings(max_examples=100)
@given(st.text("ab,\n\r\t \"'#0.-_:1e[]{}", max_size=60))
def test_any_text_is_read_or_refused(text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "g.txt").write_bytes(text.encode())
        harmless(folder, "g.txt")


@st.composite
def mutations(draw, data):
    """The bytes after one to four accidents."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        junk = draw(st.binary(max_size=4) | st.sampled_from([b",", b"\n", b'"', b"9" * 20, b"-", b"e9", b"\0"]))
        accident = draw(st.sampled_from(["flip", "cut", "end", "double"]))
        if accident == "flip":
            data = data[:at] + junk + data[at + len(junk) :]
        elif accident == "cut":
            data = data[:at] + data[at + length :]
        elif accident == "double":
            data = data[: at + length] + data[at:]
        else:
            data = data[:at] if draw(st.integers(0, 9)) == 0 else data[:at] + junk + data[at:]
    return data


@settings(max_examples=100)
@pytest.mark.parametrize("name", SEEDS)
@given(data=st.data())
def test_spoilt_files_are_read_or_refused(name, data):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(data.draw(mutations(SEEDS[name])))
        harmless(folder, name)


@settings(max_examples=80)
@pytest.mark.parametrize("kind", TABLES)
@given(data=st.data())
def test_spoilt_tables_are_read_or_refused(kind, data):
    with tempfile.TemporaryDirectory() as folder:
        with_tables(folder, **{kind: data.draw(mutations(TABLES[kind]))})
        harmless(folder, "X.nodes.csv")


CELLS = ["", "0", "1", "-1", "2", "0.5", "-0.5", "1e30", "1e999999", "1e9999999", "nan", "1 GiB", "yes", "a", "b", "x"]
CELLS += ["1", "2", "3", "4", "3:1", "mask", "keep", "recompute", "input", "\ud7ff", "9" * 20, "9" * 5000, " a ", '""']


@settings(max_examples=100)
@given(st.data())
def test_tables_with_strange_cells_are_read_or_refused(data):
    kind = data.draw(st.sampled_from(list(TABLES)))
    rows = [row.split(",") for row in TABLES[kind].decode().splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(rows[data.draw(st.integers(0, 1)) :]))
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.sampled_from(CELLS))
    with tempfile.TemporaryDirectory() as folder:
        with_tables(folder, **{kind: "\n".join(map(",".join, rows)).encode()})
        harmless(folder, "X.nodes.csv")


STRANGE = [None, True, -1, 0, 3, 2**31, 2**53, 10**30, 0.5, -0.5, 1e300]
STRANGE += ["", "a", "b", "x", "flat", " ", "4 GiB", "to come"]
STRANGE += [[], [1], ["a"], [["a"]], {}, {"a": "b"}, {"name": "a"}, "\ud800", "present", "HUGE", "ENDLESS"]


@st.composite
def replaced(draw, record):
    """The record with one of its parts replaced by something strange."""
    if isinstance(record, dict | list) and record and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(list(record) if isinstance(record, dict) else range(len(record))))
        changed = record.copy()
        if isinstance(record, dict) and not draw(st.integers(0, 9)):
            del changed[key]
        else:
            changed[key] = draw(replaced(record[key]))
        return changed
    return draw(st.sampled_from(STRANGE))


@settings(max_examples=100)
@pytest.mark.parametrize("seed", ["forward", "training"])
@given(data=st.data())
def test_json_with_strange_parts_is_read_or_refused(seed, data):
    graph = rich() if seed == "forward" else differentiate(rich())
    held = json.loads(to_json(graph))
    for _ in range(data.draw(st.integers(1, 2))):
        held = data.draw(replaced(held))
    text = json.dumps(held).replace('"HUGE"', "1e9999999").replace('"ENDLESS"', "1e99999999999999999999")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "g.json").write_text(text)
        harmless(folder, "g.json")


ODD_ARRAYS = [np.int64(1), np.zeros(0), np.zeros((1, 1)), np.array([np.nan]), np.array(["a"]), np.array([1j])]
ODD_ARRAYS += [np.array([2**63], np.uint64), np.array([-(2**63)]), np.zeros(0, [("a", "i8")]), np.zeros(3, "M8[s]")]
ODD_ARRAYS += [np.zeros(4, bool), np.arange(4)]


@settings(max_examples=80)
@pytest.mark.parametrize("seed", ["forward", "training"])
@given(data=st.data())
def test_npz_with_strange_parts_is_read_or_refused(seed, data):
    held = entries(rich() if seed == "forward" else differentiate(rich()))
    name = data.draw(st.sampled_from(list(held)))
    if name == "remat_graph":
        about = data.draw(replaced(json.loads(bytes(held[name]))))
        held[name] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    elif data.draw(st.booleans()):
        held[name] = data.draw(st.sampled_from(ODD_ARRAYS))
    else:
        at, number = data.draw(st.integers(0, len(held[name]))), data.draw(st.sampled_from([-1, 0, 1, 3, 2**30]))
        held[name] = np.insert(held[name].astype(np.int64), at, number)[: data.draw(st.sampled_from([None, -1]))]
    buffer = io.BytesIO()
    np.savez(buffer, **held)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "g.npz").write_bytes(buffer.getvalue())
        harmless(folder, "g.npz")


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
