"""Names of columns, keys and attributes: known ones are read, in their unit, or refused; none is lost in silence."""

import json
import warnings

import pytest

import remat_algos as ra
from remat_algos.errors import GraphError, GraphWarning
from remat_algos.formats.columns import COST_UNITS, SIZE_UNITS
from remat_algos.formats.graphs.json_text import NODE_KEYS, VALUE_KEYS
from remat_algos.formats.rows import NODE_COLUMNS
from remat_algos.text.amounts import parse_bytes
from tests.command_line import runner
from tests.raising import raises
from tests.test_formats_drawings import drawn as text_of

networkx = pytest.importorskip("networkx")

GRAPH = {"format": "remat-graph", "version": 1}


def table(folder, nodes, edges=None):
    """A graph of two nodes a -> b with these attributes, from tables."""
    names = list(dict.fromkeys(name for of in nodes for name in of))
    rows = [",".join(f'"{cell}"' for cell in ["name", *names])]
    rows += [",".join([node, *(str(of.get(name, "")) for name in names)]) for node, of in zip("ab", nodes, strict=True)]
    of_edge = edges or {}
    (folder / "g.nodes.csv").write_text("\n".join([*rows, ""]))
    (folder / "g.edges.csv").write_text(
        "\n".join([",".join(["src", "dst", *of_edge]), ",".join(["a", "b", *map(str, of_edge.values())]), ""])
    )
    return folder / "g.nodes.csv"


def node_link(folder, nodes, edges=None):
    found = [{"id": node, **of} for node, of in zip("ab", nodes, strict=True)]
    return saved(folder, {"nodes": found, "edges": [{"source": "a", "target": "b", **(edges or {})}]})


def own_json(folder, nodes, edges=None):
    found = [{"name": node, **of} for node, of in zip("ab", nodes, strict=True)]
    found[1] |= {"reads": ["a"], **(edges or {})}
    return saved(folder, {**GRAPH, "nodes": found})


def saved(folder, record):
    (folder / "g.json").write_text(json.dumps(record))
    return folder / "g.json"


def drawing(ending):
    def write(folder, nodes, edges=None):
        file = folder / f"g.{ending}"
        file.write_text(text_of(ending, dict(zip("ab", nodes, strict=True)), [("a", "b", edges or {})]))
        return file

    return write


def drawn(nodes, edges=None):
    digraph = networkx.DiGraph()
    digraph.add_nodes_from(zip("ab", nodes, strict=True))
    digraph.add_edge("a", "b", **(edges or {}))
    return digraph


FILES = {"table": table, "node-link": node_link, "JSON": own_json, "GraphML": drawing("graphml"), "DOT": drawing("dot")}
WAYS = {name: lambda folder, *of, write=write: ra.read_graph(write(folder, *of)) for name, write in FILES.items()}
WAYS["networkx"] = lambda _, *of: ra.from_networkx(drawn(*of))
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
every_file = pytest.mark.parametrize("write", FILES.values(), ids=FILES)


# ---------------------------------------------------------------- units


@every_way
@pytest.mark.parametrize(
    ("name", "cell", "size"),
    [
        *(("Memory (MB)", 8, 8_000_000), ("memory [KiB]", 1.5, 1536), ("memory_mb", "8", 8_000_000)),
        *(("memory_GiB", 2, 2**31), ("mem (bytes)", 7, 7), ("bytes (B)", 7, 7), ("Memory (in kB)", 2, 2000)),
        *(("Memory MB", 3, 3_000_000), ("memory_mb", "4 KiB", 4096)),
    ],
)
def test_the_unit_of_a_size_is_read_wherever_its_name_stands(way, name, cell, size, tmp_path):
    graph = way(tmp_path, [{name: cell, "compute": 1}, {name: 1, "compute": 1}])
    assert graph.memory[0] == size


@every_way
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("Compute [ms]", "ms"), ("time_us", "us"), ("Time (µs)", "us"), ("cost (seconds)", "s")),
        *(("flops (GFLOPs)", "GFLOPs"), ("FLOPs (G)", "GFLOPs"), ("GFLOPs", "GFLOPs"), ("compute_tflops", "TFLOPs")),
        ("Compute (cycles)", "cycles"),
    ],
)
def test_the_unit_of_a_cost_is_that_of_the_graph(way, name, unit, tmp_path):
    graph = way(tmp_path, [{name: 1.5, "memory": 1}, {name: 2, "memory": 1}])
    assert (graph.compute.tolist(), graph.labels.compute_scale) == ([15, 20], 10)
    assert graph.labels.compute_unit == unit


SIZE_COLUMNS = ("memory", "workspace", "grad_memory", "grad_workspace", "param_memory")


@pytest.mark.parametrize("column", SIZE_COLUMNS)
def test_every_unit_of_bytes_is_read_of_every_size(column, tmp_path):
    def read(name, cell):
        graph = ra.read_graph(table(tmp_path, [{"memory": 1, "compute": 1} | {name: cell}] * 2))
        return graph.hash

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for unit in ("b", "bytes", "kb", "mb", "gib", "tb"):
            expected = read(column, parse_bytes(f"3 {SIZE_UNITS[unit]}"))
            for name in (f"{column} ({unit.upper()})", f"{column} [{unit}]", f"{column}_{unit}"):
                if name.endswith("_b"):
                    continue
                if column == "memory":  # beside no other memory
                    graph = ra.read_graph(table(tmp_path, [{name: 3, "compute": 1}] * 2))
                    assert graph.memory[0] == parse_bytes(f"3 {SIZE_UNITS[unit]}")
                else:
                    assert read(name, 3) == expected


def test_minus_one_is_no_size_in_any_unit(tmp_path):
    graph = ra.read_graph(table(tmp_path, [{"memory": 1, "compute": 1, "grad_memory (MB)": x} for x in (-1, 2)]))
    assert graph.backward.grad_memory.tolist() == [-1, 2_000_000]


def test_a_decimal_comma_may_stand_in_a_column_with_a_unit(tmp_path):
    (tmp_path / "g.nodes.csv").write_text("name;Speicher;Memory (MB);compute\na;x;1,5;1\nb;y;2;1\n")
    (tmp_path / "g.edges.csv").write_text("src;dst\na;b\n")
    with pytest.warns(GraphWarning, match="ignored columns Speicher"):
        assert ra.read_graph(tmp_path / "g.nodes.csv").memory.tolist() == [1_500_000, 2_000_000]


@every_way
@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([{"Memory (pages)": 8}] * 2, "'pages' is not a unit of bytes; write bytes, KB, MB, GB, KiB, MiB or GiB"),
        ([{"memory": 1, "time_ms": 1, "grad_compute (us)": 2}] * 2, "costs are in ms, us; give all of them in one"),
        ([{"memory": 1, "compute": 1, "grad_compute_ms": 2}] * 2, "costs are in ms, no unit; give all of them in one"),
        ([{"memory": 1, "memory_mb": 1, "compute": 1}] * 2, "mean|occurs twice"),
    ],
)
def test_units_that_cannot_be_read_are_refused(way, nodes, told, tmp_path):
    with pytest.raises(GraphError, match=told) as error:
        way(tmp_path, nodes)
    assert "\n" not in str(error.value)


def test_a_unit_must_not_contradict_that_of_the_graph(tmp_path):
    nodes = [{"name": "a", "time_ms": 1, "memory": 1}]
    with raises(GraphError, units=["ms", "ns"]):
        ra.read_graph(saved(tmp_path, {**GRAPH, "compute_unit": "ns", "nodes": nodes}))
    assert ra.read_graph(saved(tmp_path, {**GRAPH, "compute_unit": "ms", "nodes": nodes})).labels.compute_unit == "ms"


def test_units_differ_in_more_than_spelling():
    assert all(spelled == spelled.lower() for spelled in (*SIZE_UNITS, *COST_UNITS))
    assert {COST_UNITS[word] for word in ("usec", "µs", "μs")} == {"us"}


def test_a_unit_in_the_name_of_an_attribute_of_ones_own_is_read_too():
    digraph = drawn([{"out_kb": 4, "fwd_ms": 1.5}, {"out_kb": 1, "fwd_ms": 2}])
    graph = ra.from_networkx(digraph, memory="out_kb", compute="fwd_ms")
    assert graph.memory.tolist() == [4000, 1000]
    assert (graph.compute.tolist(), graph.labels.compute_unit) == ([15, 20], "ms")


# ---------------------------------------------------------------- other names, other places


@pytest.mark.parametrize("alias", [*VALUE_KEYS["memory"], "memory"])
@pytest.mark.parametrize("place", ["node", "value"])
def test_json_takes_the_names_of_sizes_on_nodes_and_values(alias, place, tmp_path):
    entry = {alias: "8 kB"}
    nodes = [{"name": name, "compute": 1, **(entry if place == "node" else {"values": [entry]})} for name in "ab"]
    nodes[1]["reads"] = ["a"]
    assert ra.read_graph(saved(tmp_path, {**GRAPH, "nodes": nodes})).memory.tolist() == [8000, 8000]


@pytest.mark.parametrize("alias", NODE_KEYS["reads"])
def test_json_takes_the_names_of_reads(alias, tmp_path):
    nodes = [{"name": "a", "memory": 1, "time": 1}, {"name": "b", alias: ["a"], "memory": 1, "cost": 1}]
    graph = ra.read_graph(saved(tmp_path, {**GRAPH, "nodes": nodes}))
    assert graph.reads(1) == [0]


@every_way
@pytest.mark.parametrize("alias", NODE_COLUMNS["compute"])
def test_the_names_of_costs_are_known_on_every_way_in(way, alias, tmp_path):
    assert way(tmp_path, [{"memory": 1, alias: 7}, {"memory": 1, alias: 8}]).compute.tolist() == [7, 8]


def test_json_nodes_take_all_that_their_one_value_has(tmp_path):
    node = {"name": "a", "memory": 8, "output": True, "grad_memory": -1, "compute": 1}
    other = {"name": "b", "view_of": "a", "compute": 0}
    graph = ra.read_graph(saved(tmp_path, {**GRAPH, "backward": "to come", "nodes": [node, other]}))
    assert (graph.memory.tolist(), graph.output.tolist()) == ([8], [True])
    assert graph.backward.grad_memory.tolist() == [-1]
    assert graph.labels.views == {"b": "a"}


READS_A = {"name": "b", "reads": ["a"], "memory": 1, "compute": 1}
A = {"name": "a", "memory": 1, "compute": 1}


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"nodes": [{**A, "outputs": ["x"]}]}, 'key `outputs` belongs to `"values"`, a list of objects; give it there'),
        ({"nodes": [{**A, "consumers": ["b"]}]}, 'key `consumers` belongs to the nodes that read it, as `"reads"`'),
        ({"nodes": [{**A, "resident": True}]}, 'key `resident` belongs to the `"residents"` of the graph'),
        ({"nodes": [{**A, "param_bytes": 4}]}, 'key `param_bytes` belongs to the `"residents"` of the graph'),
        ({"nodes": [{**A, "grad_needs_inputs": 0}]}, 'key `grad_needs_inputs` belongs to `"saved"`'),
        ({"nodes": [{**A, "views": {}}]}, "key `views` belongs to the graph"),
        ({"nodes": [{"id": "a", "memory": 1}]}, "key `id` is not known; did you mean `name`"),
        (
            {"nodes": [{**A, "values": [{}]}]},
            'node \'a\' has both "memory" and "values"; move "memory" into the values',
        ),
        ({"nodes": [{"name": "a", "values": [{"memory": 1, "compute": 2}]}]}, "key `compute` belongs to the node"),
        ({"nodes": [{"name": "a", "values": [{"memory": 1, "time_ms": 2}]}]}, "key `time_ms` belongs to the node"),
        ({"nodes": [{"name": "a", "values": [{"memory": 1, "inputs": []}]}]}, "key `inputs` belongs to the node"),
        ({"nodes": [A, READS_A], "edges": [["a", "b"]]}, 'key `edges` belongs to the nodes, as `"reads"`'),
        ({"nodes": [A], "memory": {"a": 4}}, "key `memory` belongs to the nodes"),
        ({"nodes": [A], "outputs": ["a"]}, 'key `outputs` belongs to the values of nodes, as `"output"`'),
        ({"nodes": [A], "parameters": []}, 'key `parameters` belongs to the `"residents"`'),
        ({"nodes": [A], "time_unit": "ms"}, 'key `time_unit` belongs to `"compute_unit"`'),
        ({"nodes": [A], "residents": [{"name": "w", "cost": 3}]}, "key `cost` belongs to a node"),
        ({"nodes": [{"name": "a", "memory": 1, "latency": 3}]}, "key `latency` is not known; did you mean `compute`"),
        ({"nodes": [{"name": "a", "memroy_mb": 1}]}, "key `memroy_mb` is not known; did you mean `memory`"),
        ({"nodes": [{**A, "reads": [], "inputs": ["a"]}]}, '"inputs" and another key both mean "reads"; keep one'),
    ],
)
def test_a_known_key_of_json_in_the_wrong_place_is_refused_with_the_right_one(record, told, tmp_path):
    with pytest.raises(GraphError) as error:
        ra.read_graph(saved(tmp_path, {**GRAPH, **record}))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("column", ["memory", "Memory (MB)", "time_ms", "workspace", "once", "output", "mark"])
def test_what_nodes_have_is_refused_on_edges_of_tables(column, tmp_path):
    file = table(tmp_path, [{"memory": 1, "compute": 1}] * 2, {column: 1})
    with raises(GraphError, owner="the table of nodes (--nodes FILE)"):
        ra.read_graph(file)


@pytest.mark.parametrize("column", ["compute", "time_us", "once", "param_memory", "grad_compute"])
def test_what_nodes_have_is_refused_on_values_of_tables(column, tmp_path):
    file = table(tmp_path, [{"memory": "", "compute": 1}] * 2)
    (tmp_path / "g.values.csv").write_text(f"node,memory,{column}\na,1,1\nb,2,1\n")
    with raises(GraphError, name=column, owner="the table of nodes"):
        ra.read_graph(file)


def test_what_values_and_edges_have_is_refused_on_nodes_of_tables(tmp_path):
    with raises(GraphError, name="saved", owner="the table of edges or of values"):
        ra.read_graph(table(tmp_path, [{"memory": 1, "compute": 1, "saved": 1}] * 2))


@pytest.mark.parametrize("way", [WAYS[name] for name in ("node-link", "GraphML", "DOT", "networkx")])
@pytest.mark.parametrize("name", ["memory", "bytes", "time", "flops_g", "memory_mb", "workspace"])
def test_sizes_that_only_edges_have_are_refused(way, name, tmp_path):
    name = "GFLOPs" if name == "flops_g" else name
    with raises(GraphError, what="attribute", name=name, owner="nodes"):
        way(tmp_path, [{}, {}], {name: 5})


def test_an_npz_file_with_parts_of_other_names_is_refused(tmp_path):
    import numpy as np

    ra.write_graph(ra.ComputationGraph.from_edges([(0, 1)]), tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "g.npz", **arrays, marks=np.zeros(2, np.int8))
    with raises(GraphError, source="g.npz", unknown="marks"):
        ra.read_graph(tmp_path / "g.npz")


# ---------------------------------------------------------------- nothing is lost in silence


@every_way
@pytest.mark.parametrize("name", ["activation", "weight", "out_mb", "peak_bytes", "tensor", "memory_format"])
def test_names_that_may_be_meant_for_sizes_are_told_where_no_size_is_found(way, name, tmp_path):
    with pytest.warns(GraphWarning) as warned:
        graph = way(tmp_path, [{name: 4}, {name: 5}])
    assert graph.memory.tolist() == [1, 1]
    assert any("size" in str(each.message) and f"(found: {name})" in str(each.message) for each in warned)
    assert all("\n" not in str(each.message) for each in warned)


@every_way
def test_where_there_are_no_names_nothing_is_told(way, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert way(tmp_path, [{}, {}]).memory.tolist() == [1, 1]
        assert ra.ComputationGraph.from_edges([(0, 1)]).memory.tolist() == [1, 1]


def test_names_beside_sizes_and_costs_of_networkx_are_the_users(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = ra.from_networkx(drawn([{"memory": 4, "compute": 1, "color": "red"}] * 2, {"weight": 2}))
        assert graph.memory.tolist() == [4, 4]
        again = ra.from_networkx(ra.to_networkx(ra.solve(graph, "100%")))
        assert again.hash == graph.hash


@pytest.mark.parametrize("what", ["memory", "compute"])
def test_of_networkx_each_of_sizes_and_costs_is_told(what):
    other = {"memory": "compute", "compute": "memory"}[what]
    with pytest.warns(GraphWarning, match=rf"has a (size|cost): each counts as 1; {what}=NAME may .*\(found: thing\)"):
        ra.from_networkx(drawn([{other: 4, "thing": 1}] * 2))


@every_file
def test_the_command_line_tells_it_in_its_first_lines(write, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, [{"activation": 4}, {"activation": 5}]).name
    said = runner(capsys)("show", file)
    first = " ".join(" ".join(said.lines[:6]).split())
    assert "sizes not given: every value counts as 1 byte" in first
    assert "(found: activation)" in first
    assert "ignored" in said.err
    assert "activation" in said.err


def test_unknown_keys_of_json_are_told_once(tmp_path):
    nodes = [{"name": "a", "memory": 8, "compute": 1, "shape": [2], "layer": 1}, {**READS_A, "shape": [1]}]
    with pytest.warns(GraphWarning) as warned:
        ra.read_graph(saved(tmp_path, {**GRAPH, "author": "me", "nodes": nodes}))
    assert [str(each.message) for each in warned] == ["g.json: ignored keys author, shape, layer"]
