"""Tables and edge lists as people bring them; what is misspelled is refused, what is missing is told."""

import gzip
import re
import string
from itertools import pairwise

import pytest

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.formats.graph_files import read_graph, read_with_notes
from tests.raising import raises, refused
from tests.test_formats_graphs import named_reads

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
NODES = "name,memory,compute\na,1000,1\nb,2000,2\nc,3000,3\nd,4000,4\n"
EDGES = "src,dst\na,b\na,c\nb,d\nc,d\n"


def lay(folder, **tables):
    """Write X.KIND.csv, or the files that are called by their whole names."""
    for name, text in tables.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def pair(folder, nodes=NODES, edges=EDGES, ending=".csv", pack=str.encode):
    """The path of the nodes of a pair of tables."""
    lay(folder, **{f"X.nodes{ending}": pack(nodes), f"X.edges{ending}": pack(edges)})
    return folder / f"X.nodes{ending}"


def zipped(text):
    return gzip.compress(text.encode())


# ---------------------------------------------------------------- separators, compression


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".tsv.gz"])
def test_separators_and_endings_are_found_out(tmp_path, mark, ending):
    def pack(text):
        text = text.replace(",", mark)
        return zipped(text) if ending.endswith(".gz") else text.encode()

    nodes = pair(tmp_path, ending=ending, pack=pack)
    for file in (nodes, nodes.with_name(f"X.edges{ending}")):
        graph = read_graph(file)
        assert named_reads(graph) == DIAMOND
        assert (graph.memory.tolist(), graph.compute.tolist()) == ([1000, 2000, 3000, 4000], [1, 2, 3, 4])


def test_one_table_of_a_pair_may_be_compressed(tmp_path):
    lay(tmp_path, **{"X.nodes.csv": NODES, "X.edges.csv.gz": zipped(EDGES)})
    assert named_reads(read_graph(tmp_path / "X.nodes.csv")) == DIAMOND
    assert named_reads(read_graph(tmp_path / "X.edges.csv.gz")) == DIAMOND


def test_the_table_of_the_same_ending_goes_first(tmp_path):
    pair(tmp_path)
    lay(tmp_path, **{"X.edges.csv.gz": zipped("src,dst\na,b\n"), "X.nodes.csv.gz": zipped(NODES)})
    assert named_reads(read_graph(tmp_path / "X.nodes.csv")) == DIAMOND
    assert named_reads(read_graph(tmp_path / "X.nodes.csv.gz"))["d"] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("g.txt.gz", "a b\na c\nb d\nc d\n"), ("g.gz", "a b\na c\nb d\nc d\n"), ("g.csv.gz", EDGES)),
        *(("g.txt.gz", EDGES.replace(",", "\t")), ("g.txt.gz", EDGES.replace(",", ";"))),
        ("g.dot.gz", "digraph { a -> b -> d; a -> c -> d }"),
    ],
)
def test_other_files_may_be_compressed(tmp_path, name, text):
    lay(tmp_path, **{name: zipped(text)})
    assert {node: set(reads) for node, reads in named_reads(read_graph(tmp_path / name)).items()} == {
        node: set(reads) for node, reads in DIAMOND.items()
    }


def test_quoted_cells_hold_separators(tmp_path):
    file = pair(tmp_path, 'name;memory\n"a;b, c";5\nd;6\n', 'src;dst\n"a;b, c";d\n')
    assert named_reads(read_graph(file)) == {"a;b, c": [], "d": ["a;b, c"]}


def test_rows_of_empty_cells_are_passed_over(tmp_path):
    file = pair(tmp_path, NODES + ",,\n,,\n", EDGES + ",\n")
    assert named_reads(read_graph(file)) == DIAMOND


# ---------------------------------------------------------------- decimal commas


def test_a_comma_is_a_decimal_comma_where_semicolons_separate(tmp_path):
    file = pair(tmp_path, "name;memory;compute\na;1,5 kB;0,25\nb;2.5 kB;1.5\nc;7;3\n", "src;dst\na;b\n")
    graph = read_graph(file)
    assert graph.memory.tolist() == [1500, 2500, 7]
    assert [graph.labels.compute(cost) for cost in graph.compute.tolist()] == ["0.25", "1.5", "3"]


@pytest.mark.parametrize(
    ("mark", "cell"),
    [(";", "1.234,5"), (";", "1,234,567"), (";", ","), (",", '"1,5"'), (",", '"1,234"'), ("\t", "1,5")],
)
def test_marks_between_thousands_are_refused(tmp_path, mark, cell):
    file = pair(tmp_path, f"name{mark}compute\na{mark}1\nb{mark}{cell}\n", "src,dst\na,b\n")
    with pytest.raises(GraphError, match=r"line 3: compute of 'b': .* is not a cost; write a number"):
        read_graph(file)


# ---------------------------------------------------------------- names of columns


@pytest.mark.parametrize(
    "header",
    [
        *("id,memory,compute", "name,size,cost", "node,bytes,flops", "Node,mem,time", "NAME,Bytes,FLOPs"),
        "name,memory bytes,compute",
    ],
)
def test_columns_of_nodes_have_the_usual_names(tmp_path, header):
    graph = read_graph(pair(tmp_path, NODES.replace("name,memory,compute", header)))
    assert named_reads(graph) == DIAMOND
    assert (graph.memory.tolist(), graph.compute.tolist()) == ([1000, 2000, 3000, 4000], [1, 2, 3, 4])


@pytest.mark.parametrize("header", ["src,dst", "source;target", "from\tto", "Source,Target"])
def test_columns_of_edges_have_the_usual_names(tmp_path, header):
    edges = EDGES.replace("src,dst", header).replace(",", re.search(r"\W", header)[0])
    lay(tmp_path, **{"g.txt": edges, "X.edges.csv": edges, "X.nodes.csv": NODES})
    assert named_reads(read_graph(tmp_path / "g.txt")) == DIAMOND
    assert named_reads(read_graph(tmp_path / "X.nodes.csv")) == DIAMOND
    assert named_reads(read_graph(tmp_path / "g.txt", nodes=tmp_path / "X.nodes.csv")) == DIAMOND


def test_the_node_column_beside_names_is_what_edges_call_the_rows(tmp_path):
    graph = read_graph(pair(tmp_path, "node,name,memory\n1,conv,5\n2,relu,6\n", "src,dst\n1,2\n"))
    assert named_reads(graph) == {"conv": [], "relu": ["conv"]}


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("name,memory,size", {"line": 1, "first": "memory", "second": "size"}),
        ("name,time,FLOPs", {"line": 1, "first": "time", "second": "FLOPs"}),
        ("id,node,memory", {"line": 1, "first": "id", "second": "node"}),
        ("name,memory,memory", {"line": 1, "first": "memory"}),
    ],
)
def test_two_columns_of_one_meaning_are_refused(tmp_path, header, fault):
    with refused(GraphError, fault):
        read_graph(pair(tmp_path, f"{header}\na,1,1\n"))


# ---------------------------------------------------------------- typing errors


@pytest.mark.parametrize(
    ("header", "wrong", "near"),
    [
        ("name,memroy,compute", "memroy", "memory"),
        ("name,memery,compute", "memery", "memory"),
        ("name,memory,compte", "compte", "compute"),
        ("name,memory,cmputee", "cmputee", "compute"),
        ("name,memry_byts,compute", "memry_byts", "memory_bytes"),
        *(("nmae,memory,compute", "nmae", "name"), ("name,memory,tiem", "tiem", "time")),
        *(("name,sizes,compute", "sizes", "size"), ("name,memory,Flop", "flop", "flops")),
        ("name,memory,wrkspace", "wrkspace", "workspace"),
    ],
)
def test_a_typing_error_in_a_column_is_refused_with_the_near_name(tmp_path, header, wrong, near):
    with raises(GraphError, source="X.nodes.csv", line=1, given_name=wrong, near=near):
        read_graph(pair(tmp_path, NODES.replace("name,memory,compute", header)))


@pytest.mark.parametrize(("header", "near"), [("scr,dst", "src"), ("source,traget", "target"), ("form,to", "from")])
def test_a_typing_error_in_a_column_of_edges_is_refused(tmp_path, header, near):
    edges = EDGES.replace("src,dst", header)
    with pytest.raises(GraphError, match=rf"X\.edges\.csv, line 1: .*did you mean `{near}`\?|missing column `src`"):
        read_graph(pair(tmp_path, edges=edges))
    lay(tmp_path, **{"g.csv": edges})
    with pytest.raises(GraphError, match=rf"g\.csv, line 1: .*did you mean `{near}`\?|missing column `src`"):
        read_graph(tmp_path / "g.csv")


@pytest.mark.parametrize("column", ["type", "shape", "layer", "note", "mode", "idx", "x", "colour", "memory_format"])
def test_columns_of_other_meanings_are_ignored_with_a_notice(tmp_path, column):
    file = pair(tmp_path, f"name,memory,compute,{column}\na,1,1,1\nb,1,1,1\nc,1,1,1\nd,1,1,1\n")
    with pytest.warns(GraphWarning, match=f"ignored columns {column}"):
        assert named_reads(read_graph(file)) == DIAMOND


def test_a_column_like_one_that_is_given_is_ignored(tmp_path):
    file = pair(tmp_path, "name,memory,memorys,compute\na,5,9,1\nb,5,9,1\n", "src,dst\na,b\n")
    with pytest.warns(GraphWarning, match="ignored columns memorys"):
        assert read_graph(file).memory.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.dot", "digraph { a [memroy=4] a -> b }"),
        (
            "g.graphml",
            '<graphml><key id="k" for="node" attr.name="memroy" attr.type="string"/><graph edgedefault="directed">'
            '<node id="a"><data key="k">4</data></node></graph></graphml>',
        ),
    ],
)
def test_a_typing_error_in_an_attribute_is_refused(tmp_path, name, text):
    lay(tmp_path, **{name: text})
    with pytest.raises(GraphError, match=rf"{name}: attribute `memroy` is not known; did you mean `memory`\?"):
        read_graph(tmp_path / name)


def test_the_size_of_a_drawn_node_is_not_its_memory(tmp_path):
    lay(tmp_path, **{"g.dot": "digraph { a [size=40, mem=7] b [mem=1] a -> b }"})
    with pytest.warns(GraphWarning, match="ignored attributes size"):
        assert read_graph(tmp_path / "g.dot").memory.tolist() == [7, 1]


@pytest.mark.parametrize("number", ["1.024", "1,024", "12.000", "999,125", "1.024 kB", "-1,000"])
@pytest.mark.parametrize("column", ["memory", "compute", "workspace", "grad_memory"])
def test_a_mark_before_three_digits_is_refused_beside_semicolons(tmp_path, number, column):
    lay(tmp_path, **{"X.nodes.csv": f"name;{column}\na;1\nb;{number}\n", "X.edges.csv": "src;dst\na;b\n"})
    with raises(GraphError, line=3, column=column, name="b", cell=number):
        read_graph(tmp_path / "X.nodes.csv")


@pytest.mark.parametrize(
    ("number", "expected"), [("0,125", 0.125), ("0.125", 0.125), ("1,5", 1.5), ("1.5000", 1.5), ("1,0240", 1.024)]
)
def test_other_decimals_are_read_beside_semicolons(tmp_path, number, expected):
    lay(tmp_path, **{"X.nodes.csv": f"name;compute\na;1\nb;{number}\n", "X.edges.csv": "src;dst\na;b\n"})
    graph = read_graph(tmp_path / "X.nodes.csv")
    assert graph.compute[1] / graph.labels.compute_scale == expected


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv"])
@pytest.mark.parametrize("given", ["nodes", "edges"])
def test_a_table_of_nodes_may_be_called_x_csv(tmp_path, ending, given):
    """Whichever of the two tables is named."""
    mark = "\t" if ending == ".tsv" else ","
    nodes, pack = NODES.replace(",", mark), zipped if ending.endswith(".gz") else str.encode
    lay(tmp_path, **{f"X{ending}": pack(nodes), "X.edges.csv": EDGES.replace(",", mark)})
    assert named_reads(read_graph(tmp_path / (f"X{ending}" if given == "nodes" else "X.edges.csv"))) == DIAMOND


# ---------------------------------------------------------------- edge lists


@pytest.mark.parametrize(
    "text",
    [
        "a -> b\na -> c\nb -> d\nc -> d\n",
        "a->b\na->c\nb->d\nc ->d # the last\n",
        'a -> "b"\n"a" "c"\n"b"->d\n"c" -> "d"\n',
        "a b {}\na c {}\nb d {}\nc d {}\n",
        "# networkx\na b {}\na c\nb d\nc d\n",
    ],
)
def test_arrows_quotes_and_empty_data_are_read(tmp_path, text):
    lay(tmp_path, **{"g.txt": text})
    assert named_reads(read_graph(tmp_path / "g.txt")) == DIAMOND


def test_names_with_spaces_stand_in_quotes(tmp_path):
    lay(tmp_path, **{"g.txt": '"conv 1, first" "a -> b # c"\n"a -> b # c" x # "d e"\n"lone node"\n'})
    graph = read_graph(tmp_path / "g.txt")
    assert named_reads(graph) == {
        "conv 1, first": [],
        "a -> b # c": ["conv 1, first"],
        "x": ["a -> b # c"],
        "lone node": [],
    }


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a b c", {"line": 2, "n_words": 3}),
        ("a b 4", {"line": 2, "n_words": 3}),
        ("a b c d", {"line": 2, "n_words": 4}),
        ("a b {'weight': 3}", {"line": 2, "n_words": 4}),
        *(("a -> b -> c", {"line": 2, "n_words": 3}), ("a -- b", {"line": 2, "second": "--"})),
        *(("a ->", {"line": 2, "n_words": 1}), ("-> b", {"line": 2, "n_words": 1})),
        *(("a b ->", {"line": 2, "n_words": 2}), ('a ""', {"line": 2, "n_words": 1})),
        ('a "b', "a quotation mark is not closed; write"),
    ],
)
def test_other_lines_are_refused_with_the_remedy(tmp_path, line, fault):
    lay(tmp_path, **{"g.txt": f"x y\n{line}\n"})
    with refused(GraphError, fault):
        read_graph(tmp_path / "g.txt")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("A --> B\nB --> C\n", {"line": 1, "second": "-->"}),
        ("body {\nred\n}\n", {"line": 1, "name": "{"}),
        ("x y\n- item\n", {"line": 2, "name": "-"}),
        ("key: value\n", {"line": 1, "name": "key:"}),
        ("a=1\nb=2\n", {"line": 1, "name": "a=1"}),
        ("numpy>=2.0\n", {"line": 1, "name": "numpy>=2.0"}),
        ("(define x)\n", {"line": 1, "name": "(define"}),
        ("set -e\ncd build\nmake --all\n", {"line": 3, "name": "--all"}),
        ("Hello world.\n", {"line": 1, "name": "world."}),
        ("% konect\n1 2\n", {"line": 1, "name": "%"}),
        ("conv\nrelu\n", "no line has two names, so there is no"),
        ("conv 4096\nrelu 4096\n", {"found": "names and numbers"}),
        ("4096\tsrc/a\n8192\tsrc/b\n", {"found": "names and numbers"}),
        ("conv 4MB\nrelu 8MB\n", {"found": "names and numbers"}),
        ("1 loss\n2 loss\n3 loss\n", {"found": "names and numbers"}),
        *(
            (f"{header}\n{rows}", "the two columns are names and numbers")
            for header in ("layer bytes", "op us", "tensor size", "kernel time_ms", "what how_much")
            for rows in ("conv 4096\nrelu 8192\n", "1 conv\n2 relu\n3 loss\n")
        ),
        ("0.0 1.5\n0.1 1.7\n", {"found": "decimals"}),
        ("CCO ethanol\nC propane\nO water\n", "the two columns are pairs without any common name"),
        ("name memory\nconv 4\nrelu 8\n", {"line": 1, "u": "name", "v": "memory"}),
        ("op\ttime_ms\nconv\t4\nrelu\t8\n", {"line": 1, "u": "op", "v": "time_ms"}),
    ],
)
def test_a_text_is_no_edge_list_because_nothing_else_fits(tmp_path, text, fault):
    lay(tmp_path, **{"g.txt": text})
    with refused(GraphError, fault):
        read_graph(tmp_path / "g.txt")


NAMES = (
    "a",
    "10",
    "é",
    "[CLS]",
    "x[red]a[/red]",
    "<eos>",
    "conv(k=3)",
    "grad(a)@b",
    "layers.0/conv:1",
    "%0",
    "-x",
    "+1",
    "a-b",
)


@pytest.mark.parametrize(
    "text",
    [
        *("A B\n", "1 0\n", "A X\nB Y\n", "0 1\n2 3\n4 5\n", "x 1\n1 2\n", "0 1\n0 2\n1 2\n2\n"),
        "# n m\n#\n3 2\n1 2\n",
        "A B\nB C\n#\nA C\n",
        "## part\nA B\n\n\n### part\nB C",
        "".join(f"{u} {v}\n" for u, v in pairwise(NAMES)),
        *('"a = b" "{"\n"{" "key:"\n', '"1" loss\n"2" loss\n"3" loss\n', '"a" b\nc d\ne f\n'),
        *("ERROR INFO\nINFO WARN\n", "FROM x\nx RUN\nRUN y\n", "1.1 1.2\n1.2 1.3\n"),
        "0.000000000000000000e+00 1.000000000000000000e+00\n1.000000000000000000e+00 2.000000000000000000e+00\n",
    ],
)
def test_edge_lists_of_all_kinds_are_read(tmp_path, text):
    lay(tmp_path, **{"g.txt": text})
    lines = [line.partition("#")[0] for line in text.splitlines()]
    names = [re.findall(r'"[^"]*"|\S+', line) for line in lines]
    graph = read_graph(tmp_path / "g.txt")
    edges = {(u.strip('"'), v.strip('"')) for u, v in (words for words in names if len(words) == 2)}
    assert {(graph.value_name(x), graph.labels[v]) for v in range(graph.n_nodes) for x in graph.reads(v)} == edges


@pytest.mark.parametrize("header", ["source target", "from to", "Source\ntarget"])
def test_a_header_of_words_is_no_edge(tmp_path, header):
    lay(tmp_path, **{"g.txt": f"{header}\na b\nb c\n"})
    if "\n" in header:
        assert read_graph(tmp_path / "g.txt").n_nodes == 5
        return
    with pytest.raises(GraphError, match=rf"g\.txt, line 1: `{header}` names columns, not nodes; remove the line"):
        read_graph(tmp_path / "g.txt")


@pytest.mark.parametrize(
    "text", ["source target\n", "source target\ntarget x\n", "source a\na target\nsource target\n"]
)
def test_nodes_may_be_called_source_and_target(tmp_path, text):
    lay(tmp_path, **{"g.txt": text})
    assert "target" in read_graph(tmp_path / "g.txt").labels.names


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a,b\nb,c\n", {"line": 1, "column": "src", "found": ["a", "b"]}),
        ("a;b\nb;c\n", {"line": 1, "column": "src", "found": ["a", "b"]}),
        ("src,dst,bytes\na,b,4\n", {"line": 1, "what": "column", "name": "bytes"}),
        ("src,dst\na,b\nb\n", {"line": 3, "found": 1}),
        ("name,mem\na,4\n", {"name": "g.csv"}),
    ],
)
def test_tables_that_are_no_edge_list_are_refused_with_the_remedy(tmp_path, text, fault):
    lay(tmp_path, **{"g.csv": text})
    with refused(GraphError, fault):
        read_graph(tmp_path / "g.csv")


# ---------------------------------------------------------------- what a file does not give

NO_SIZES = "sizes not given: every value counts as 1 byte; {} gives them"
NO_COSTS = "costs not given: every node counts as 1; {} gives them"
GR = "p tw 3 1\n1 2\n"


def notes_of(folder, name, **files):
    lay(folder, **files)
    return read_with_notes(folder / name)[1]


@pytest.mark.parametrize(
    ("name", "text", "by"),
    [
        ("g.txt", "a b\n", ["--nodes or a memory column", "--nodes or a compute column"]),
        ("g.csv", "src,dst\na,b\n", ["--nodes or a memory column", "--nodes or a compute column"]),
        ("g.dot", "digraph { a -> b }", ["an attribute memory", "an attribute compute"]),
        (
            "g.json",
            '{"format": "remat-graph", "version": 1, "nodes": [{"name": "a"}, {"name": "b", "reads": ["a"]}]}',
            ['"memory"', '"compute"'],
        ),
    ],
)
def test_sizes_and_costs_that_no_value_has_are_told(tmp_path, name, text, by):
    assert notes_of(tmp_path, name, **{name: text}) == [NO_SIZES.format(by[0]), NO_COSTS.format(by[1])]


def test_isolated_nodes_are_told(tmp_path):
    assert notes_of(tmp_path, "g.gr", **{"g.gr": GR})[2:] == ["1 node without edges (3)"]
    assert notes_of(tmp_path, "g.txt", **{"g.txt": "a b\nc\nd\ne\n"})[2:] == ["3 nodes without edges (c, d and 1 more)"]
    assert notes_of(tmp_path, "h.txt", **{"h.txt": "a\n"})[2:] == []


def test_single_sizes_and_costs_that_are_missing_are_told(tmp_path):
    nodes = "name,memory,compute,view_of,resident\na,,1,,\nb,5,,,\nc,,,,\nv,,,a,\nw,,,,parameter\nd,5,1,,\n"
    edges = "src,dst\na,b\nv,c\nw,c\nb,d\nc,d\n"
    assert notes_of(tmp_path, "X.nodes.csv", **{"X.nodes.csv": nodes, "X.edges.csv": edges}) == [
        "2 nodes without a size (a, c) count as 1 byte",
        "2 nodes without a cost (b, c) count as 1",
    ]
    assert notes_of(tmp_path, "X.nodes.csv", **{"X.nodes.csv": nodes.replace("a,,1", "a,7,1")})[0] == (
        "1 node without a size (c) counts as 1 byte"
    )


def test_sizes_may_stand_in_the_table_of_values(tmp_path):
    files = {
        "X.nodes.csv": "name,memory,compute\na,,1\nb,4,1\n",
        "X.edges.csv": "src,dst\na,b\n",
        "X.values.csv": "node,memory_bytes\na,3\na,5\n",
    }
    assert notes_of(tmp_path, "X.nodes.csv", **files) == []
    files["X.values.csv"] = "node,memory_bytes\na,3\na,\n"
    assert notes_of(tmp_path, "X.nodes.csv", **files) == ["1 node without a size (a) counts as 1 byte"]


def test_where_all_is_given_nothing_is_told(tmp_path):
    assert read_with_notes(pair(tmp_path))[1] == []
    lay(tmp_path, **{"g.txt": "a b\na c\nb d\nc d\n"})
    assert read_with_notes(tmp_path / "g.txt", nodes=tmp_path / "X.nodes.csv")[1] == []


@pytest.mark.parametrize(
    ("node", "near"),
    [
        ('{"name": "a", "values": [{"memroy": 4}]}', "memory"),
        ('{"name": "a", "worksapce": 3}', "workspace"),
        ('{"name": "a", "compte": 3}', "compute"),
    ],
)
def test_a_misspelled_key_of_json_is_refused_with_the_near_name(tmp_path, node, near):
    lay(tmp_path, **{"g.json": f'{{"format": "remat-graph", "version": 1, "nodes": [{node}]}}'})
    with pytest.raises(GraphError, match=rf"g\.json, node 'a'.*did you mean `{near}`\?|g\.json, node 0.*`{near}`\?"):
        read_graph(tmp_path / "g.json")


@pytest.mark.parametrize("letter", string.ascii_letters + "({[]})._0")
def test_a_long_edge_list_is_no_other_format(tmp_path, letter):
    """Letters are opcodes of pickle, and a list of more than 64 KiB is looked at in part."""
    lay(tmp_path, **{"g.txt": "".join(f'"{letter}{i}" "{letter}{i + 1}"\n' for i in range(9_000))})
    assert read_graph(tmp_path / "g.txt").n_nodes == 9_001
    if letter.isalnum():
        lay(tmp_path, **{"g.txt": "".join(f"{letter}{i} {letter}{i + 1}\n" for i in range(9_000))})
        assert read_graph(tmp_path / "g.txt").n_nodes == 9_001


@pytest.mark.parametrize(
    ("size", "decimal"), [("1.024kB", "1.0240kB"), ("1,000 KiB", "1,0000 KiB"), ("1.024MB", "1.0240MB")]
)
def test_the_remedy_for_a_mark_between_thousands_can_be_typed(tmp_path, size, decimal):
    lay(tmp_path, **{"X.nodes.csv": f"name;memory\na;{size}\n", "X.edges.csv": "src;dst\n"})
    with pytest.raises(GraphError, match=re.escape(f"or {decimal} for the decimal")):
        read_graph(tmp_path / "X.nodes.csv")
    lay(tmp_path, **{"X.nodes.csv": f"name;memory\na;{decimal}\n"})
    assert read_graph(tmp_path / "X.nodes.csv").n_nodes == 1
