"""GraphML, DOT, PACE, the lower-set authors' text and lone tables of edges; what kind of file it is; units of sizes."""

import random
import sys
import tempfile
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.formats.graph_files import left_out, read_graph, write_graph
from remat_algos.formats.graphs import dot_text, graphml
from remat_algos.formats.graphs.npz_bytes import to_npz
from remat_algos.formats.rows import tables_from
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.emission import baseline
from tests.fuzz import files
from tests.fuzz.campaign import Report
from tests.fuzz.mutations import mutated
from tests.oracles.plain import plain
from tests.raising import raises, refused
from tests.strategies import captured_graphs, graphs, subsets, training_graphs
from tests.test_formats_graphs import UNEVEN, described, marked, named_reads, notices, record, rich

pytestmark = pytest.mark.filterwarnings(UNEVEN)

ENDINGS = ["json", "npz", "nodes.csv", "graphml", "dot"]
DRAWN = ["graphml", "dot"]


@pytest.fixture
def read(tmp_path):
    """Reads a graph from one file."""

    def from_text(text, name):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_graph(tmp_path / name)

    return from_text


def in_dot(inside):
    return f"digraph {{ {inside} }}"


def in_graphml(inside, keys="", default="directed", header='<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'):
    return f'{header}{keys}<graph edgedefault="{default}">{inside}</graph></graphml>'


def element(kind, data, **given):
    """A node or an edge; an edge's `source` and `target` are u and v, data stand under the keys' ids."""
    given = " ".join(f'{name}="{text}"' for name, text in given.items())
    inside = "".join(f'<data key="{key}">{text}</data>' for key, text in data.items())
    return f"<{kind} {given}>{inside}</{kind}>"


def drawn(ending, nodes, edges=()):
    """A text of nodes {name: attributes} and edges (u, v, attributes)."""
    if ending == "dot":
        listed = lambda said: "".join(f'["{name}"="{text}"]' for name, text in said.items())  # noqa: E731
        lines = [f'"{name}" {listed(said)}' for name, said in nodes.items()]
        return in_dot("\n".join([*lines, *(f'"{u}" -> "{v}" {listed(said)}' for u, v, said in edges)]))
    inside = [element("node", said, id=name) for name, said in nodes.items()]
    inside += [element("edge", said, source=u, target=v) for u, v, said in edges]
    names = {name for said in (*nodes.values(), *(said for *_, said in edges)) for name in said}
    return in_graphml("".join(inside), "".join(f'<key id="{name}" for="all" attr.name="{name}"/>' for name in names))


# ---------------------------------------------------------------- what is written is read back

AWKWARD = "ab1 :;,.\"'\\<>&/|#{}[]()-=+%*é漢😀\u0301"
awkward = (st.text(AWKWARD, min_size=1, max_size=5) | st.sampled_from(["node", "edge", "a:1", "0", "\\n", "]]>"])).map(
    lambda text: text.strip() or "a"
)


@st.composite
def called(draw, source):
    """Graphs whose nodes, values, residents and operations have awkward names, all of them different."""
    graph = draw(source)
    resident, n = graph.resident, graph.n_nodes
    named = draw(subsets(range(graph.n_values), most=3))
    most = n + len(named) + (0 if resident is None else len(resident.names))
    names = draw(st.lists(awkward, min_size=most, max_size=most, unique=True))
    own = {x: names.pop() for x in named}
    ops = draw(st.lists(awkward, min_size=n, max_size=n))
    try:
        return replace(
            graph,
            labels=Labels(names=tuple(names[:n]), value_names=own, ops=tuple(ops)),
            resident=None if resident is None else replace(resident, names=tuple(names[n:])),
        )
    except GraphError:  # a name "a:1" beside the second value of a node "a"
        return graph


def written_again(graph, ending):
    """The graph after a trip through a file, and what the file has no place for."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"X.{ending}")
        write_graph(graph, file)
        return read_graph(file), left_out(graph, file)


def check_survival(graph, ending):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if graph.labels.compute_scale == 7 else "error")  # sevenths are rounded
        again, missing = written_again(graph, ending)
    if not any(what.startswith("the scale") for what in missing):
        assert again.hash == graph.hash
        assert plain(again) == plain(graph)
        before, after = record(graph.labels), record(again.labels)
        if missing:
            after["compute_unit"] = before["compute_unit"]
        assert after == before
    if not missing:
        assert again.derivation == graph.derivation


plain_graphs = marked(graphs(min_nodes=1) | training_graphs(max_nodes=12) | captured_graphs(max_nodes=12))
awkward_graphs = called(marked(graphs(min_nodes=1, max_nodes=8)))
SOURCES = {
    "plain": described(plain_graphs),
    "awkward names": described(awkward_graphs),
    "gradients of awkward names": called(graphs(min_nodes=1, max_nodes=6, seeded=True)).map(
        lambda graph: differentiate(graph, factor=1.5)
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("source", SOURCES)
def test_reading_back_any_format_is_the_identity(source, ending):
    """Fewer graphs in DOT, which pydot takes a long time to read."""

    @settings(max_examples=8 if ending == "dot" else 20)
    @given(graph=SOURCES[source])
    def survives(graph):
        check_survival(graph, ending)

    survives()


@given(graph=marked(graphs(min_nodes=1, max_nodes=8) | training_graphs(max_nodes=8)), route=st.permutations(ENDINGS))
@settings(max_examples=8)
def test_no_route_through_the_formats_loses_anything(graph, route):
    again = graph
    for ending in route:
        again, _ = written_again(again, ending)
    assert again.hash == graph.hash


@pytest.mark.parametrize("ending", [*ENDINGS, "gv"])
def test_every_part_survives_in_any_format(ending):
    check_survival(rich(), ending)
    check_survival(differentiate(replace(rich(), mark=None), parameter_gradients=True, keep_outputs=True), ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_first_value_that_is_a_view_survives(read, ending):
    values = '[{"view_of": "a"}, {"memory": 2, "grad_memory": -1}]'
    graph = read(
        '{"format": "remat-graph", "version": 1, "nodes": [{"name": "a", "saved": []},'
        f' {{"name": "s", "reads": ["a"], "saved": ["a"], "values": {values}}},'
        ' {"name": "c", "reads": ["s", "s:1"], "saved": ["s:1"]}]}',
        "g.json",
    )
    assert dict(graph.labels.views) == {"s": "a"}
    check_survival(graph, ending)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, []),
        ({"compute_unit": "ns"}, ["the unit of compute (ns)"]),
        ({"compute_scale": 10}, []),
        ({"compute_scale": 1000}, ["the scale of compute (1000)"]),
        ({"compute_scale": 7}, ["the scale of compute (7)"]),
    ],
)
def test_what_tables_have_no_place_for_is_named(changes, missing):
    graph = ComputationGraph.from_edges([("a", "b")], compute=[10, 25] if changes.get("compute_scale") == 10 else 20)
    graph = replace(graph, labels=replace(graph.labels, **changes))
    assert left_out(graph, "X.nodes.csv") == missing
    assert left_out(graph, "X.dot") == left_out(graph, "X.graphml") == left_out(graph, "X.json") == []
    for ending in ENDINGS:
        check_survival(graph, ending)


def test_tables_do_not_say_what_a_graph_was_differentiated_from():
    assert left_out(differentiate(rich()), "X.nodes.csv") == ["the record of its differentiation"]


@pytest.mark.parametrize("unit", ["a\0", "a\n", " us"])
def test_a_unit_that_not_every_format_can_hold_is_refused(unit):
    with pytest.raises(GraphError, match=r"compute_unit .* cannot be printed; give it a plain name"):
        ComputationGraph.from_edges([(0, 1)], labels=Labels(compute_unit=unit))


def test_tables_are_written_all_or_none(tmp_path):
    graph = ComputationGraph.from_edges([("a", "b")])
    write_graph(graph, tmp_path / "X.nodes.csv")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "X.values.csv").mkdir()  # no room for the third table
    with pytest.raises(OSError, match=r"X\.values\.csv"):
        write_graph(rich(), tmp_path / "X.nodes.csv")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


# ---------------------------------------------------------------- DOT

DOT = {
    "a chain": (in_dot("a -> b -> c"), {"a": [], "b": ["a"], "c": ["b"]}),
    "strict, with a name": ('strict digraph "my \\"net\\"" { a -> b; a -> b; }', {"a": [], "b": ["a"]}),
    "keywords in any case": ("STRICT DiGraph G { NODE [shape=box] a -> b }", {"a": [], "b": ["a"]}),
    "names like keywords": (in_dot('"node" -> "graph" -> nodes'), {"node": [], "graph": ["node"], "nodes": ["graph"]}),
    "a cluster": (
        in_dot("x; subgraph cluster_0 { label=y; style=filled; a -> b; subgraph { c } } b -> c; x -> a"),
        {"x": [], "a": ["x"], "b": ["a"], "c": ["b"]},
    ),
    "a port": (in_dot('a:f -> b:"g h":n -> c:s'), {"a": [], "b": ["a"], "c": ["b"]}),
    "comments": (
        "// one\n/* two\n { */ # three\ndigraph { // four\n# five { -> \na -> b /* -> c */ }\n// six",
        {"a": [], "b": ["a"]},
    ),
    "nothing between statements": (in_dot("a b a->b"), {"a": [], "b": ["a"]}),
    "statements of nothing": (in_dot("a;; b->a;"), {"b": [], "a": ["b"]}),
    "joined texts": (in_dot('"con" + "v" -> "re\\\nlu"'), {"conv": [], "relu": ["conv"]}),
    "quotes and backslashes": (
        in_dot('"a \\"b\\"" -> "c\\\\d" -> "e\\n"'),
        {'a "b"': [], "c\\d": ['a "b"'], "e\\n": ["c\\d"]},
    ),
    "a comment in quotes": (in_dot('"//a" -> "/*b" -> "#c"'), {"//a": [], "/*b": ["//a"], "#c": ["/*b"]}),
    "a name in angle brackets": (in_dot("<<i>a</i>> -> b"), {"<<i>a</i>>": [], "b": ["<<i>a</i>>"]}),
    "numbers": (in_dot("1 -> .5 -> 2.5"), {"1": [], ".5": ["1"], "2.5": [".5"]}),
    "other letters": (in_dot("é -> 漢字_1"), {"é": [], "漢字_1": ["é"]}),
    "first named first": (in_dot("z; b -> a"), {"z": [], "b": [], "a": ["b"]}),
    "arguments in order": (in_dot("a; b; c; b -> c; a -> c"), {"a": [], "b": [], "c": ["b", "a"]}),
}


@pytest.mark.parametrize(("text", "reads"), DOT.values(), ids=DOT)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_dot_means_what_graphviz_takes_it_for(read, text, reads):
    graph = read(text, "g.dot")
    assert named_reads(graph) == reads
    assert list(named_reads(graph)) == list(reads)


def test_dot_that_would_take_minutes_is_refused_at_once(read):
    text = in_dot(f"a -> b // {'x' * dot_text.MAX_READ}")
    with pytest.raises(
        GraphError, match=r"g\.dot: the DOT text has 250,\d+ characters, .* at most 250,000 are read; give .*GraphML"
    ):
        read(text, "g.dot")
    within = in_dot("a -> b") + " " * (dot_text.MAX_READ - len(in_dot("a -> b")))
    assert named_reads(read(within, "g.dot")) == {"a": [], "b": ["a"]}


def test_dot_that_is_not_read_again_is_written_with_a_warning(tmp_path):
    """A chain whose names have 1,000 letters: 100 nodes take 300,000 characters, 10 take 30,000."""
    long, short = (ComputationGraph.from_edges(list(pairwise(f"{i:01000}" for i in range(n)))) for n in (100, 10))
    with pytest.warns(GraphWarning, match=r"the DOT text has .* characters, .*; write JSON, npz or GraphML"):
        write_graph(long, tmp_path / "long.dot")
    assert (tmp_path / "long.dot").stat().st_size > dot_text.MAX_READ
    write_graph(short, tmp_path / "short.dot")
    assert read_graph(tmp_path / "short.dot").hash == short.hash


def sizes(graph):
    return dict(zip(graph.labels.names, graph.memory.tolist(), strict=True))


def test_defaults_hold_for_what_is_drawn_after_them(read):
    graph = read(
        in_dot("a; node [memory=8]; b; subgraph { node [memory=16]; a; b; c -> d; e [memory=2] } f; d [memory=4]"),
        "g.dot",
    )
    assert sizes(graph) == {"a": 1, "b": 8, "c": 16, "d": 4, "e": 2, "f": 8}


def test_defaults_of_edges_hold_too(read):
    graph = read(in_dot("a -> b; edge [saved=0]; b -> c; subgraph { edge [saved=1]; c -> d } d -> e"), "g.dot")
    saved = {graph.labels[v]: [graph.value_name(x) for x in graph.backward.saved(v)] for v in range(graph.n_nodes)}
    assert saved == {"a": ["a"], "b": ["a", "b"], "c": ["c"], "d": ["c", "d"], "e": ["e"]}


def test_attributes_may_be_parted_in_any_way(read):
    graph = read(in_dot("a [memory=4,compute=5, op = Conv once=1 workspace=6] a [output=1 mark=keep]"), "g.dot")
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.workspace.tolist()) == ([4], [5], [6])
    assert (graph.once.tolist(), graph.mark.tolist(), graph.labels.ops) == ([True], [1], ("Conv",))


def test_attributes_for_the_eye_are_named_in_one_notice(tmp_path):
    file = tmp_path / "g.dot"
    file.write_text(in_dot("rankdir=LR; node [shape=box]; a [label=<<b>x</b>>]; a -> b [color=red, label=y]"))
    with notices() as seen:
        assert read_graph(file).n_nodes == 2
    assert seen == [
        "g.dot: ignored attributes shape, label, color, rankdir",
        "g.dot: sizes not given: every value counts as 1 byte; an attribute memory gives them; costs not given: every "
        "node counts as 1; an attribute compute gives them (found: shape, label, color)",
    ]


NOT_DOT = "pydot cannot read it as one complete graph"
BRACES = "an arrow starts or ends at braces"
BAD_DOT = {
    **{
        text: (text, NOT_DOT)
        for text in (
            *("digraph {\n a -> b\n", "digraph { a [memory=", in_dot("a -> ;"), "digraph G a -> b", "A B\n"),
            *(in_dot("a -> b } c -> d"), in_dot("a -> b") + " digraph { b ->"),
            *('digraph {\n"a -> b }', in_dot("a/b -> c"), in_dot("a [name=b]")),
        )
    },
    **{text: (in_dot(text), BRACES) for text in ("a -> {b c}", "{a b} -> c", "a -> subgraph s { b -> c }")},
    "two graphs": ("digraph { a }\ndigraph { b }", {"graphs": 2}),
    "undirected": ("graph {\n a -- b }", "the graph is undirected; write"),
    "a size without quotes": (in_dot("a [memory=4KiB]"), {"name": "KiB"}),
    "a default without quotes": (in_dot("node [memory=1.5 MB]; a"), {"name": "MB"}),
    "a long attribute without value": (in_dot(f"a [x{'9' * 2000}]"), {"name": f"x{'9' * 2000}"}),
    "an attribute without value": (in_dot("a [once]"), {"name": "once"}),
    "too deep": (in_dot("{" * 5000), {"line": 1, "max_nested": 4}),
    "no node": (in_dot(""), "there are no nodes; add one"),
    "an empty name": (in_dot('a -> ""'), {"where": "node ''"}),
    "a line break in a name": (in_dot('"a\nb"'), {"name": "a\nb"}),
    "a scale that is no number": (in_dot("compute_scale=x; a -> b"), {"scale": "x"}),
    "a scale of decimals": (in_dot("compute_scale=10; a [compute=0.5]"), '"compute_scale" needs whole costs'),
    "a scale of 0": (in_dot("compute_scale=0; a -> b"), '"compute_scale" needs whole costs'),
    "a derivation that is no JSON": (in_dot("derivation=x; a -> b"), "derivation is not valid JSON; leave it"),
    "a derivation of nothing": (in_dot('derivation="[]"; a -> b'), '"derivation" is damaged'),
}


BAD_DRAWN = {
    "a cycle": (({"a": {}, "b": {}}, [("a", "b", {}), ("b", "a", {})]), {"cycle": ["a", "b", "a"]}),
    "a loop": (({"a": {}}, [("a", "a", {})]), {"cycle": ["a", "a"]}),
    "negative": (({"a": {"memory": -1}},), {"what": "memory", "amount": -1}),
    "a word": (({"a": {"compute": "x"}},), {"where": "node 'a'", "column": "compute"}),
    "no unit": (({"a": {"memory": "4 parsec"}},), {"where": "node 'a'", "column": "memory"}),
    "a flag": (({"a": {"once": "maybe"}},), {"where": "node 'a'", "column": "once"}),
    "a flag of an edge": (
        ({"a": {}, "b": {}}, [("a", "b", {"saved": "x"})]),
        {"where": "edge 'a' -> 'b'", "column": "saved"},
    ),
    "a role": (({"a": {"resident": "weight"}},), {"where": "node 'a'", "role": "weight"}),
    "a mark": (({"a": {"mark": "drop"}},), {"where": "node 'a'", "column": "mark"}),
    "two spellings": (({"a": {"memory": 4, "memory_bytes": 5}},), {"where": "node 'a'", "column": "memory"}),
    "a reader that is resident": (
        ({"a": {}, "x": {"resident": 1}}, [("a", "x", {})]),
        {"where": "edge 'a' -> 'x'", "dst": "x"},
    ),
    "a reader that is a value": (
        ({"a": {}, "m": {"value_of": "a"}, "b": {}}, [("b", "m", {})]),
        {"where": "edge 'b' -> 'm'", "dst": "m"},
    ),
    "a value of nothing": (({"a": {}, "m": {"value_of": "z"}},), {"where": "value 'm'", "key": "z"}),
    "a value of a value": (
        ({"a": {}, "m": {"value_of": "a"}, "k": {"value_of": "m"}},),
        {"where": "value 'k'", "key": "m"},
    ),
    "a view of nothing": (({"a": {}, "v": {"view_of": "z", "compute": 0}},), {"view": "v", "base": "z"}),
}


@pytest.mark.parametrize("ending", DRAWN)
@pytest.mark.parametrize(("parts", "fault"), BAD_DRAWN.values(), ids=BAD_DRAWN)
def test_what_is_wrong_with_attributes_is_named(read, ending, parts, fault):
    with refused(GraphError, fault):
        read(drawn(ending, *parts), f"g.{ending}")


# ---------------------------------------------------------------- attributes, in DOT and in GraphML


@pytest.mark.parametrize("ending", DRAWN)
def test_attributes_are_the_columns_of_tables(read, ending):
    nodes = {
        "x": {"memory": "6 MB", "resident": "input"},
        "a": {"memory_bytes": "8MB", "time": 10, "op": "Conv", "workspace": "2 MB", "param_memory": "7 kB"},
        "flat": {"view_of": "a", "compute": 0},
        "b": {"grad_needs_inputs": 0, "once": "yes", "grad_compute": 3, "grad_memory": "1kB"},
    }
    graph = read(drawn(ending, nodes, [("x", "a", {}), ("a", "flat", {}), ("flat", "b", {})]), f"g.{ending}")
    assert named_reads(graph) == {"a": [], "b": ["a"]}
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.once.tolist()) == (
        [8 * 10**6, 1],
        [10, 1],
        [False, True],
    )
    assert (graph.workspace.tolist(), graph.resident.memory.tolist()) == ([2 * 10**6, 0], [6 * 10**6, 7000])
    assert (graph.backward.saved(1), graph.backward.grad_memory.tolist()) == ([1], [8 * 10**6, 1000])
    assert dict(graph.labels.views) == {"flat": "a"}


@pytest.mark.parametrize("ending", DRAWN)
def test_further_values_are_nodes_that_name_theirs(read, ending):
    nodes = {
        "m": {"value_of": "d", "memory": 2, "grad_memory": -1, "saved": 1},
        "d": {"memory": 8, "saved": 0},
        "noise": {"value_of": "d", "memory": 3, "saved": 0},
        "c": {},
    }
    edges = [("d", "m", {}), ("m", "c", {}), ("noise", "c", {})]
    graph = read(drawn(ending, nodes, edges), f"g.{ending}")
    assert named_reads(graph) == {"d": [], "c": ["m", "noise"]}
    assert graph.memory.tolist() == [8, 2, 3, 1]
    assert graph.backward.saved(0) == [1]


@pytest.mark.parametrize("ending", DRAWN)
def test_a_first_value_may_have_a_name_of_its_own(read, ending):
    graph = read(drawn(ending, {"a": {"value": "y", "memory": 4}, "b": {}}, [("a", "b", {})]), f"g.{ending}")
    assert named_reads(graph) == {"a": [], "b": ["y"]}
    assert graph.memory.tolist() == [4, 1]


def test_ids_and_names_may_differ_in_graphml(read):
    nodes = {"n0": {"name": "conv"}, "n1": {"name": "grad conv", "gradient_of": "n0"}, "n2": {"view_of": "n0"}}
    graph = read(drawn("graphml", nodes, [("n0", "n1", {})]), "g.graphml")
    assert named_reads(graph) == {"conv": [], "grad conv": ["conv"]}
    assert graph.forward_of.tolist() == [-1, 0]
    assert dict(graph.labels.views) == {"n2": "conv"}


def test_attributes_of_the_whole(read):
    graph = read(in_dot("graph [compute_unit=us]; compute_scale=10; a [compute=15]"), "g.dot")
    assert graph.labels.compute(int(graph.compute[0])) == "1.5 us"


# ---------------------------------------------------------------- GraphML

PAIR = '<node id="a"/><node id="b"/><edge source="a" target="b"/>'


@pytest.mark.parametrize(
    "text",
    [
        in_graphml(PAIR),
        in_graphml(PAIR, header="<graphml>"),
        "<?xml version='1.0' encoding='UTF-8'?>\n" + in_graphml(PAIR),
        "<?xml version='1.0' encoding='ISO-8859-1'?>" + in_graphml(PAIR),
        "<?xml version='1.0' encoding='utf-16'?>" + in_graphml(PAIR),
        "<!-- a comment -->" + in_graphml("<desc>text</desc>" + PAIR),
        "\ufeff" + in_graphml(PAIR),
        in_graphml(PAIR + '<!-- <node id="c"/> -->'),
        in_graphml('<node id="a"><port name="p"/></node><node id="b"/><edge source="a" target="b" sourceport="p"/>'),
    ],
)
def test_graphml_comes_in_many_dresses(read, text):
    assert named_reads(read(text, "g.graphml")) == {"a": [], "b": ["a"]}


def test_keys_give_data_their_names_and_defaults(read):
    keys = (
        '<key id="d0" for="node" attr.name="memory" attr.type="int"><default>16</default></key>'
        '<key id="d1" for="edge" attr.name="saved" attr.type="boolean"><default>false</default></key>'
        '<key id="d2" for="node" attr.name="once" attr.type="boolean"><default/></key>'
        '<key id="d3" for="all" attr.name="compute" attr.type="double"/>'
    )
    nodes = (
        '<node id="a"><data key="d0">4</data><data key="d3">0.5</data></node><node id="b"><data key="d2">true</data>'
    )
    graph = read(in_graphml(f'{nodes}</node><edge source="a" target="b"/>', keys), "g.graphml")
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.once.tolist()) == ([4, 16], [5, 10], [False, True])
    assert graph.backward.saved(1) == [1]


YED = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
  <key attr.name="Description" attr.type="string" for="graph" id="d0"/>
  <key for="port" id="d1" yfiles.type="portgraphics"/>
  <key attr.name="memory" attr.type="string" for="node" id="d4"><default xml:space="preserve"/></key>
  <key for="node" id="d6" yfiles.type="nodegraphics"/>
  <key for="edge" id="d10" yfiles.type="edgegraphics"/>
  <graph edgedefault="directed" id="G">
    <data key="d0" xml:space="preserve"/>
    <node id="n0"><data key="d4" xml:space="preserve"><![CDATA[8 kB]]></data>
      <data key="d6"><y:ShapeNode><y:Geometry height="30.0"/><y:NodeLabel>conv 1<y:LabelModel/></y:NodeLabel>
      </y:ShapeNode></data></node>
    <node id="n1"><data key="d6"><y:ShapeNode><y:NodeLabel>SECOND</y:NodeLabel></y:ShapeNode></data></node>
    <edge id="e0" source="n0" target="n1"><data key="d10"><y:PolyLineEdge/></data></edge>
  </graph>
</graphml>"""


@pytest.mark.parametrize(
    ("label", "names"), [("relu", ["conv 1", "relu"]), ("conv 1", ["n0", "n1"]), ("", ["n0", "n1"])]
)
def test_labels_of_yed_are_names_where_each_is_different(tmp_path, label, names):
    file = tmp_path / "g.graphml"
    file.write_text(YED.replace("SECOND", label).replace('<node id="n1">', '<node id="n1"><data key="d4">1</data>'))
    with notices() as seen:
        graph = read_graph(file)
    assert sizes(graph) == dict(zip(names, [8000, 1], strict=True))
    drawn_only = ["x, y", *(["label"] if names[0] == "n0" else []), "Description"]
    assert seen == [f"g.graphml: ignored attributes {', '.join(drawn_only)}"]


A_NODE = '<node id="a"/>'
BAD_GRAPHML = {
    "undirected": (in_graphml(PAIR, default="undirected"), "the graph is undirected; set edgedefault="),
    "an undirected edge": (in_graphml(PAIR.replace("target", 'directed="false" target')), "directed=false edge found"),
    "no word of direction": (in_graphml(PAIR).replace("edgedefault", "x"), "the graph is undirected"),
    "nested": (in_graphml(PAIR.replace(A_NODE, '<node id="a"><graph edgedefault="directed"/></node>')), {"graphs": 2}),
    "two graphs": (in_graphml(A_NODE + "</graph><graph>"), {"graphs": 2}),
    "no graph": ("<graphml/>", {"graphs": 0}),
    "another kind of XML": ("<table/>", {"graphs": 0}),
    "no node": (in_graphml(""), "there are no nodes; add one"),
    "a hyperedge": (in_graphml("<hyperedge/>"), "(GraphML reader doesn't support hyperedges)"),
    "no id": (in_graphml(A_NODE + "<node/>"), {"place": 2}),
    "an id twice": (in_graphml(A_NODE * 2), {"key": "a"}),
    "an id twice and an unknown end": (in_graphml(A_NODE * 2 + '<edge source="a" target="b"/>'), {"key": "a"}),
    "a name twice": (drawn("graphml", {"a": {"name": "x"}, "b": {"name": "x"}}), {"source": "g.graphml", "name": "x"}),
    "no target": (in_graphml(A_NODE + '<edge source="a"/>'), {"place": 1, "u": "a", "v": None}),
    "an unknown end": (in_graphml(A_NODE + '<edge source="z" target="a"/>'), {"place": 1, "u": "z", "v": "a"}),
    "cut short": (in_graphml(PAIR)[:-20], {"at": 1, "column": 114, "reason": "unclosed token"}),
    "an entity": (in_graphml('<node id="&lol;"/>'), {"at": 1, "column": 86, "reason": "undefined entity"}),
}


LAUGHS = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
HARMFUL = {
    "billion laughs": "<?xml version='1.0'?>\n" + LAUGHS + in_graphml('<node id="&b;"/>'),
    "a declaration in a comment": in_graphml(PAIR + "<!-- <!DOCTYPE x> -->"),
    "an entity alone": in_graphml(PAIR + "<!ENTITY x 'y'>"),
    "in small letters": "<!doctype graphml>" + in_graphml(PAIR),
    "of a public DTD": '<!DOCTYPE graphml SYSTEM "http://graphml.graphdrawing.org/dtds/graphml.dtd">'
    + in_graphml(PAIR),
}


@pytest.fixture
def no_parser(monkeypatch):
    """Any parsing of XML fails the test."""
    monkeypatch.setattr(graphml.ElementTree, "fromstring", lambda *_: pytest.fail("the parser has seen it"))


@pytest.mark.usefixtures("no_parser")
@pytest.mark.parametrize("name", ["g.graphml", "g.txt", "X.nodes.csv"])
@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_declarations_are_refused_before_a_parser_sees_them(read, text, name):
    with pytest.raises(
        GraphError, match=r"<!(?i:DOCTYPE|ENTITY) on line \d is not allowed, because entities can fill memory; remo"
    ):
        read(text, name)


@pytest.mark.usefixtures("no_parser")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037"])
def test_declarations_in_another_encoding_are_refused_too(read, encoding):
    with pytest.raises(GraphError, match=r"save (it|the file) as UTF-8|neither text nor npz|words"):
        read(HARMFUL["billion laughs"].encode(encoding), "g.graphml")


def test_an_encoding_that_would_uncover_a_declaration_is_not_followed(read):
    hidden = in_graphml(PAIR).replace("<graphml", "+ADwAIQ-DOCTYPE x [+ADwAIQ-ENTITY a 'b'+AD4]+AD4<graphml", 1)
    with pytest.raises(GraphError, match="not valid XML at line 1"):
        read("<?xml version='1.0' encoding='utf-7'?>" + hidden, "g.graphml")


@pytest.mark.parametrize("between", ["<default/>", "<default></default>", "<!-- -->", "<?x?>"])
def test_a_declaration_in_pieces_is_never_put_together(read, between):
    pieces = LAUGHS.replace("<!DOC", f"<!DOC{between}").replace("<!ENT", f"<!ENT{between}")
    with pytest.raises(GraphError, match="not valid XML at line 1"):
        read(pieces + in_graphml('<node id="&b;"/>'), "g.graphml")


@pytest.mark.parametrize(("inside", "message"), [("", "there are 0 graphs"), (in_graphml(PAIR), "networkx can read")])
def test_deep_nesting_does_no_harm(read, inside, message):
    with pytest.raises(GraphError, match=message):
        read("<graphml>" + "<a>" * 100_000 + "</a>" * 100_000 + inside + "</graphml>", "g.graphml")


@pytest.mark.parametrize("kind", ["int", "long", "double", "boolean", "string", "no such type"])
def test_data_are_read_as_they_are_written_whatever_their_key_says(read, kind):
    keys = "".join(
        f'<key id="{name}" for="node" attr.name="{name}" attr.type="{kind}"/>' for name in ("memory", "compute")
    )
    nodes = element("node", {"memory": "4 KiB", "compute": "0.1"}, id="a")
    graph = read(in_graphml(nodes, keys), "g.graphml")
    assert (graph.memory.tolist(), graph.compute.tolist(), graph.labels.compute_scale) == ([4096], [1], 10)


@pytest.mark.parametrize("ids", [("", ""), ("e1", "e0"), ("0", "0"), ("0", "1"), ("7", "9")])
def test_arguments_stand_in_the_order_of_the_edges(read, ids):
    nodes = "".join(element("node", {}, id=name) for name in "abc")
    edges = "".join(
        element("edge", {}, source=u, target="c", **({"id": key} if key else {}))
        for u, key in zip("ba", ids, strict=True)
    )
    assert named_reads(read(in_graphml(nodes + edges), "g.graphml"))["c"] == ["b", "a"]


# ---------------------------------------------------------------- other programs


def test_what_networkx_writes_is_read(tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_node("conv 1", memory=8, compute=0.5, once=True)
    graph.add_node('re"lu', memory="4KiB", grad_needs_inputs=0)
    graph.add_edge("conv 1", 're"lu', saved=True)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    again = read_graph(tmp_path / "g.graphml")
    assert sizes(again) == {"conv 1": 8, 're"lu': 4096}
    assert (again.compute.tolist(), again.once.tolist(), again.backward.saved(1)) == ([5, 10], [True, False], [0, 1])


@given(graph=awkward_graphs)
@settings(max_examples=20)
def test_networkx_reads_what_is_written(graph):
    networkx = pytest.importorskip("networkx")
    with tempfile.TemporaryDirectory() as folder:
        write_graph(graph, Path(folder, "g.graphml"))
        seen = networkx.read_graphml(Path(folder, "g.graphml"))
    names, residents = graph.node_names(), graph.resident.names if graph.resident is not None else ()
    further = [graph.value_name(x) for x in range(graph.n_values) if x not in graph.value_indptr]
    assert set(seen.nodes) == {*names, *residents, *further}
    assert [seen.nodes[name].get("op", "") for name in names] == [graph.labels.op(v) for v in range(graph.n_nodes)]
    reads = [(names[graph.producer[x]], names[v]) for v in range(graph.n_nodes) for x in graph.reads(v)]
    assert all(networkx.has_path(seen, u, v) for u, v in reads)


def test_what_pydot_prints_leaves_standard_output_alone(read, capsys):
    with pytest.raises(GraphError, match=r"pydot cannot read it .*\(line:1, col:21\)\); correct it, or give"):
        read("digraph { a -> b; b -> ", "g.dot")
    assert capsys.readouterr().out == ""


def test_dot_without_pydot_is_one_sentence(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot.dot_parser", None)  # as good as not installed
    with pytest.raises(GraphError, match=r"^g\.dot: reading DOT needs pydot; install it: .*pydot$"):
        read(in_dot("a -> b"), "g.dot")


def test_dot_with_an_old_pydot_is_one_sentence(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot.dot_parser", ModuleType("pydot.dot_parser"))
    with pytest.raises(GraphError, match=r"^g\.dot: reading DOT needs pydot 4 or newer; update it: .* -U pydot$"):
        read(in_dot("a -> b"), "g.dot")


@pytest.fixture
def pydot():
    """pydot, whose import and parser warn of what pyparsing no longer likes."""
    return pytest.importorskip("pydot", reason="pydot is not installed")


def test_pydot_reads_what_is_written(tmp_path, pydot):
    write_graph(rich(), tmp_path / "g.dot")
    (seen,) = pydot.graph_from_dot_file(tmp_path / "g.dot")
    assert {node.get_name() for node in seen.get_nodes()} == {
        f'"{name}"' for name in ("x", "p", "s", "a", "b", "mask", "c", "flat")
    }
    assert {(edge.get_source(), edge.get_destination()) for edge in seen.get_edges()} >= {
        ('"a"', '"b"'),
        ('"mask"', '"c"'),
    }
    assert seen.get_node('"b"')[0].get("memory") == "4"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_what_pydot_writes_is_read(tmp_path, pydot):
    graph = pydot.Dot("net", graph_type="digraph", strict=True)
    graph.add_node(pydot.Node("my conv", memory="4 KiB"))
    cluster = pydot.Cluster("block")
    cluster.add_edge(pydot.Edge("my conv", "node"))
    graph.add_subgraph(cluster)
    (tmp_path / "g.dot").write_text(graph.to_string())
    assert sizes(read_graph(tmp_path / "g.dot")) == {"my conv": 4096, "node": 1}


# ---------------------------------------------------------------- PACE


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("c a path\np tw 4 3\n1 2\n3 2\nc half way\n\n4 3\n", {"1": [], "2": ["1"], "3": ["2"], "4": ["3"]}),
        ("p tw 3 1\n3 1\n", {"1": [], "2": [], "3": ["1"]}),
        ("p tw 2 3\n1 2\n2 1\n1 2\n", {"1": [], "2": ["1"]}),
    ],
    ids=["from the smaller to the larger node", "nodes without edges", "a repeated edge counts in the header only"],
)
def test_pace_is_read(read, text, reads):
    graph = read(text, "g.gr")
    assert (named_reads(graph), {*graph.memory.tolist(), *graph.compute.tolist()}) == (reads, {1})


@given(st.data())
def test_a_pace_file_says_the_edges_of_its_graph(data):
    n = data.draw(st.integers(1, 8))
    ends = st.sampled_from([(u, v) for u in range(1, n + 1) for v in range(1, n + 1) if u != v] or [None])
    edges = data.draw(st.lists(ends, max_size=12 if n > 1 else 0))
    text = "".join([f"p tw {n} {len(edges)}\n", *(f"{u} {v}\n" for u, v in edges)])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "g.gr").write_text(text)
        graph = read_graph(Path(folder, "g.gr"))
    found = {(int(u), int(v)) for v, reads in named_reads(graph).items() for u in reads}
    assert found == {(min(edge), max(edge)) for edge in edges}
    assert graph.labels.names == tuple(str(v) for v in range(1, n + 1))


# ---------------------------------------------------------------- the lower-set authors' text

CG = """8 4
0 64 /conv/W
1 40 _
2 30 0
3 20 _
4 8 1
5 6 /conv/W2
6 64 /conv/b
7 4 /spare
forward
2 1
1 _
0 _
3
LinearFunction
{"rank": 1}
forward
3 1
2 _
0 _
6 _
1
Convolution2DFunction
{"rank": 0}
backward
3 1
3 gradient
1 input
0 input
1
LinearFunction
{}
backward
2 3
1 gradient
1 output
2
0
6
Convolution2DFunction
{}
"""


def test_a_cg_text_is_a_graph_with_residents_and_gradient_rules(read):
    graph = read(CG, "cg_net.txt")
    assert named_reads(graph) == {"Convolution2DFunction_1": [], "LinearFunction_3": ["Convolution2DFunction_1"]}
    assert graph.labels.ops == ("Convolution2DFunction", "LinearFunction")
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([40, 20], [10, 1])
    assert [graph.backward.saved(v) for v in range(2)] == [[0], [0]]
    assert graph.resident.names == ("/conv/W", "input_0", "input_1", "/conv/W2", "/conv/b", "/spare")
    assert graph.resident.memory.tolist() == [64, 30, 8, 6, 64, 4]
    assert graph.resident.role.tolist() == [1, 0, 0, 1, 1, 1]
    assert [graph.resident.reads(v) for v in range(2)] == [[0, 1, 4], [0]]


def changed(old, new, count=1):
    assert old in CG
    return CG.replace(old, new, count)


BAD_CG = {
    "cut short": (CG[:-40], "expected an input, found the end; is"),
    "an odd number of records": (changed("8 4\n", "8 3\n"), {"line": 1, "n_records": 3}),
    "more than promised": (CG + "forward\n", "expected the end of the file; correct"),
    "ids out of order": (changed("2 30 0", "3 30 0"), {"line": 4, "x": 2}),
    "no label": (changed("3 20 _", "3 20"), {"line": 5, "x": 3}),
    "no number": (changed("3 20 _", "3 x _"), {"line": 5, "x": 3}),
    "a word for a record": (changed("forward\n3", "forwards\n3"), {"line": 17, "found": "forwards"}),
    "a backward record too early": (changed("forward\n3", "backward\n3"), {"line": 17, "found": "backward"}),
    "a variable that is not there": (changed("\n3\nLinear", "\n9\nLinear"), {"line": 14, "last": 7, "word": "9"}),
    "an input that is not there": (changed("2 _\n0 _", "8 _\n0 _"), {"line": 19, "last": 7, "word": "8"}),
    "a kind that is not there": (changed("1 output", "1 outputs"), "expected an input, as `id kind`; kinds"),
    "two outputs": (changed("2 1\n1 _\n0 _\n3", "2 2\n1 _\n0 _\n3\n4"), {"line": 10, "n": 2}),
    "no attributes": (changed('{"rank": 1}', "rank"), {"line": 16, "found": "rank"}),
    "made twice": (changed("\n3\nLinear", "\n1\nLinear"), {"line": 17, "x": 1}),
    "a parameter that is made": (changed("\n3\nLinear", "\n0\nLinear"), {"line": 10, "x": 0}),
    "made by nobody": (changed("7 4 /spare", "7 4 _"), {"line": 9, "x": 7}),
    "gradient of another": (changed("3 gradient", "1 gradient"), {"line": 25, "x": 3}),
    "another operation": (CG[::-1].replace("noitcnuFraeniL", "UleR", 1)[::-1], {"line": 25, "x": 3}),
    "saves what it does not read": (
        changed("1 gradient\n1 output", "1 gradient\n3 input"),
        {"saved": 1, "name": "Convolution2DFunction_1"},
    ),
    "two of one label": (changed("/conv/W2", "/conv/W"), {"line": 7, "name": "/conv/W"}),
}


BAD = {
    **{("g.dot", what): row for what, row in BAD_DOT.items()},
    **{("g.graphml", what): row for what, row in BAD_GRAPHML.items()},
    **{("cg.txt", what): row for what, row in BAD_CG.items()},
}


@pytest.mark.parametrize(("name", "text", "fault"), [(name, *row) for (name, _), row in BAD.items()], ids=map(str, BAD))
def test_what_is_wrong_with_a_file_is_named(read, name, text, fault):
    with refused(GraphError, fault) as error:
        read(text, name)
    assert name in str(error.value)


PUBLISHED = [("vgg19", 2132279296), ("unet", 7803387904), ("resnet50", 3468165120), ("googlenet", 871841804)]


@pytest.mark.parametrize(("name", "peak"), PUBLISHED)
@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
def test_a_published_cg_text_is_the_published_table(shared_graphs, name, peak):
    graph = read_graph(shared_graphs / f"cg_{name}.txt")
    table = read_graph(shared_graphs / f"{name}.nodes.csv")

    def by_name(graph):
        return {
            graph.labels[v]: (
                *(graph.labels.op(v), int(graph.memory[v]), int(graph.compute[v])),
                *(sorted(map(graph.value_name, reads)) for reads in (graph.reads(v), graph.backward.saved(v))),
            )
            for v in range(graph.n_nodes)
        }

    assert by_name(graph) == by_name(table)
    resident = graph.resident
    assert int(resident.memory[resident.role == 1].sum()) == table.resident_memory
    tables, place = tables_from(graph), {name: v for v, name in enumerate(table.labels.names)}
    tables.nodes.sort(key=lambda node: place[node.name])
    in_order = ComputationGraph.from_tables(tables)
    assert in_order.labels.names == table.labels.names
    assert baseline(differentiate(in_order)).peak_memory == baseline(differentiate(table)).peak_memory == peak


# ---------------------------------------------------------------- what kind of file it is

JSON_PAIR = '{"format": "remat-graph", "version": 1, "nodes": [{"name": "a"}, {"name": "b", "reads": ["a"]}]}'
KINDS = {
    "JSON": JSON_PAIR,
    "DOT": "// a comment\nstrict digraph G { a -> b }",
    "GraphML": "<?xml version='1.0'?>\n" + in_graphml(PAIR),
    "an edge list": "# edges\na b\n",
    "a table of edges": "src,dst\na,b\n",
}
NAMES = ["g.txt", "g", "g.json", "g.csv", "X.nodes.csv", "X.edges.csv", "g.npz", "g.dot", "g.graphml", "g.gr"]
BY_NAME = {("an edge list", name) for name in ("X.nodes.csv", "X.edges.csv", "g.dot", "g.graphml", "g.gr")}
BY_NAME |= {("a table of edges", "X.nodes.csv"), ("a table of edges", "X.edges.csv")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_name_does_not_matter_where_the_content_speaks(tmp_path, read, kind, name):
    (tmp_path / "X.values.csv").write_text("node,memory_bytes\n")
    if (kind, name) in BY_NAME:
        with pytest.raises(GraphError, match=rf"{name}|X.(edges|nodes).csv"):
            read(KINDS[kind], name)
    else:
        assert named_reads(read(KINDS[kind], name)) == {"a": [], "b": ["a"]}


@pytest.mark.parametrize("name", NAMES)
def test_npz_pace_and_cg_are_known_by_their_content(read, name):
    assert read(to_npz(rich()), name).hash == rich().hash
    assert named_reads(read("c x\np tw 2 1\n2 1\n", name)) == {"1": [], "2": ["1"]}
    assert read(CG, name).n_nodes == 2


@pytest.mark.parametrize("second", ["0 3 # skip", "0 3 {}"])
@pytest.mark.parametrize("first", ["0 1", "1 2"])
def test_a_list_of_edges_is_no_cg_text(read, first, second):
    wanted = {tuple(line.split()[:2]) for line in (first, second)}
    graph = read(f"{first}\n{second}\n", "g.txt")
    assert {(u, v) for v, reads in named_reads(graph).items() for u in reads} == wanted


MISREAD = [
    ("A\n", "g.json", "not valid JSON at line 1, column 1"),
    ("[1, 2]", "g.json", 'not a graph: expected "format"'),
    ("src;dst\na;b\n", "g.csv", None),
    ("src\tdst\na\tb\n", "g.csv", None),
    ("src dst\na b\n", "g.txt", "separate the columns by commas"),
    ("src|dst\na|b\n", "g.txt", "separate the columns by commas"),
    ("name,memory\na,1\n", "g.csv", {"name": "g.csv"}),
    ("name,memory\na,1\n", "g.txt", {"name": "g.txt"}),
    ("A B\n", "g.dot", "pydot cannot read it as one complete graph"),
    ("A B\n", "g.graphml", {"column": 1}),
    ("digraph { a -> b }\n", "g.edges", None),
    ("p x\n", "g.txt", None),
    ("src,dst\na,\n", "g.csv", "an edge needs both src and dst; write"),
    ("src,dst,saved\na,b,x\n", "g.csv", {"line": 2, "column": "saved", "cell": "x"}),
    ("src,dst\na,b\nb,a\n", "g.csv", {"cycle": ["a", "b", "a"]}),
    ("src,dst\n", "g.csv", "there are no nodes; add one"),
]


@pytest.mark.parametrize(("text", "name", "fault"), MISREAD)
def test_a_misreading_is_one_sentence(read, text, name, fault):
    if fault is None:
        assert read(text, name).n_nodes == 2
    else:
        with refused(GraphError, fault):
            read(text, name)


def test_a_lone_table_of_edges_is_an_edge_list(tmp_path, read):
    graph = read("dst,src\nb,a\nc,b\nc,a\n", "edges.csv")
    assert named_reads(graph) == {"a": [], "b": ["a"], "c": ["b", "a"]} or graph.labels.names[0] == "b"
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([1] * 3, [1] * 3)
    assert read("src,dst\n10,9\n9,2\n", "Y.csv").labels.names == ("10", "9", "2")
    with pytest.raises(GraphError, match=r"no such file: .*Y.nodes.csv"):  # mislaid, not left out
        read("src,dst\n10,9\n9,2\n", "Y.edges.csv")
    assert read("src,dst,saved\na,b,0\n", "g.csv").backward.saved(1) == [1]


def test_a_lone_table_of_edges_may_have_other_columns(tmp_path):
    (tmp_path / "g.csv").write_text("src,dst,weight\na,b,3\n")
    with notices() as seen:
        assert read_graph(tmp_path / "g.csv").n_nodes == 2
    assert seen[0] == "g.csv: ignored columns weight"
    assert seen[1].startswith("g.csv: sizes not given: every value counts as 1 byte; ")
    assert seen[1].endswith("(found: weight)")


def test_a_pace_file_may_have_a_table_of_nodes(tmp_path):
    (tmp_path / "g.gr").write_text("p tw 3 2\n2 1\n2 3\n")
    (tmp_path / "sizes.csv").write_text("id,memory\n1,5\n2,6\n3,7\n")
    graph = read_graph(tmp_path / "g.gr", nodes=tmp_path / "sizes.csv")
    assert (named_reads(graph), graph.memory.tolist()) == ({"1": [], "2": ["1"], "3": ["2"]}, [5, 6, 7])


@pytest.mark.parametrize("name", ["g.json", "g.dot", "g.npz"])
def test_a_graph_with_sizes_of_its_own_takes_no_table(tmp_path, name):
    write_graph(rich(), tmp_path / name)
    (tmp_path / "sizes.csv").write_text("id,memory\n1,5\n")
    with raises(GraphError, source=name, nodes="sizes.csv"):
        read_graph(tmp_path / name, nodes=tmp_path / "sizes.csv")


def test_values_may_have_ids_of_their_own(tmp_path):
    (tmp_path / "X.nodes.csv").write_text("id,name\n1,d\n2,c\n")
    (tmp_path / "X.edges.csv").write_text("src,dst\n7,2\n1,2\n")
    (tmp_path / "X.values.csv").write_text("node,id,name,memory\n1,,,8\n1,7,mask,2\n")
    assert named_reads(read_graph(tmp_path / "X.nodes.csv")) == {"d": [], "c": ["mask", "d"]}
    (tmp_path / "X.values.csv").write_text("node,id,name,memory\n1,,,8\n1,2,mask,2\n")
    with raises(GraphError, source="X.values.csv", line=3, key="2"):
        read_graph(tmp_path / "X.nodes.csv")


# ---------------------------------------------------------------- any text

TABLES = {
    "X.nodes.csv": b"id,name,memory,compute,once,resident,mark,view_of,grad_memory,param_memory,gradient_of\n"
    b"1,a,8KiB,0.5,1,,keep,,,4,\n2,v,,0,,,,1,,,\nx,x,5,0,,parameter,,,,,\n3,b,,1e3,,,,,,,\n4,c,1.5,2,,,2,,-1,,\n",
    "X.edges.csv": b"src,dst,saved\n1,2,\n2,3,1\nx,3,\n3,4,0\n3:1,4,\n",
    "X.values.csv": b"node,name,memory_bytes,output,saved\n3,,4,,1\n3,mask,2,1,0\n",
}
GROUPS = b'digraph "x" { node [memory=4]; subgraph s { a -> b; a -> c:f } /* */ "d" + "e" -> <<b>f</b>> // x\n}'


def seeds():
    """Files of a graph, the one that is read first."""
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("dot", "graphml", "json", "npz"):
            write_graph(rich(), Path(folder, f"g.{ending}"))
        for ending in ("json", "npz"):
            write_graph(differentiate(rich()), Path(folder, f"training.{ending}"))
        found = {file.name: {file.name: file.read_bytes()} for file in Path(folder).iterdir()}
    texts = {
        "g.txt": b"# u v\nA B\n1 2\nB C\n",
        "g.gr": b"c x\np tw 3 2\n1 2\n3 2\n",
        "cg.txt": CG.encode(),
        "h.dot": GROUPS,
    }
    return found | {name: {name: text} for name, text in texts.items()} | {"X.nodes.csv": TABLES}


SEEDS = seeds()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEDS)
def test_spoilt_files_are_read_or_refused(tmp_path, name):
    """With the mutations and the checks of `python -m tests.fuzz files`."""
    rng, report = random.Random(name), Report()
    for _ in range(15 if name.endswith(".dot") else 150):
        contents = dict(SEEDS[name])
        file = rng.choice(list(contents))
        contents[file] = mutated(rng, file, contents[file])
        for written, data in contents.items():
            (tmp_path / written).write_bytes(data)
        files.check(report, name, lambda folder: read_graph(folder / name), tmp_path, contents)
    assert [(fault.kind, fault.detail) for fault in report.faults] == []


@settings(max_examples=100)
@given(st.text("ab1 \n;,'\"\\[]{}=->:+/*#<.", max_size=40), st.sampled_from(["g.txt", "g.dot"]))
def test_any_text_is_read_or_refused(text, name):
    report = Report()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = text if name == "g.txt" else f"digraph{{{text}}}"
        Path(folder, name).write_text(content)
        files.check(report, name, lambda folder: read_graph(folder / name), Path(folder), {name: content})
    assert [(fault.kind, fault.detail) for fault in report.faults] == []
