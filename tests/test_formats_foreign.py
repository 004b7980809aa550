"""Files without a graph: those that are taken for graphs are named, by their content, with the way in."""

import gzip
import io
import pickle
import re
import signal
import sys
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.formats import GraphFormat, graph_files, register, registry
from remat_algos.formats.graphs.json_text import to_json
from tests.command_line import runner


def archive(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return out.getvalue()


def field(number, content):
    """One of protobuf, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))
META = field(1, field(1, b"a"))
RULE = "-" * 24
PROFILE = f"""{RULE}  {RULE}  {RULE}
                    Name    Self CPU %      Self CPU
{RULE}  {RULE}  {RULE}
             aten::addmm         50.4%     151.000us
{RULE}  {RULE}  {RULE}
Self CPU time total: 299.000us
"""

FILES = {  # name: content, what it is, a word of the way in
    "a.pt": (archive("a/data.pkl", "a/version"), "a checkpoint of PyTorch", "docs/torch.md"),
    "old.pth": (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "a checkpoint of PyTorch",
        "docs/torch.md",
    ),
    "table.txt": (PROFILE.encode(), "the table of a profiler", 'cost="profile"'),
    "saved_model.pb": (b"\x08\x01\x12\x80" + bytes([1]) + META, "a graph of TensorFlow", "docs/onnx.md"),
    "frozen.pb": (NODE + field(1, field(1, b"y") + field(2, b"Relu")), "a graph of TensorFlow", "docs/onnx.md"),
    "keras.json": (b'{"class_name": "Functional", "config": {"layers": []}}', "a model of Keras", "docs/onnx.md"),
    "keras 3.json": (b'{"module": "keras", "class_name": "Sequential"}', "a model of Keras", "docs/onnx.md"),
    "m.keras": (archive("metadata.json", "config.json", "model.weights.h5"), "a model of Keras", "docs/onnx.md"),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(9), "a model of Keras", "docs/onnx.md"),
    "b.xlsx": (archive("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook", "as CSV"),
}
READ = "give tables, or one of cg, DOT, edge list, GraphML, JSON, npz, PACE, ONNX, StableHLO"
OTHERS = {  # name: content, a part of what is said
    "p.png": (b"\x89PNG\r\n\x1a\n\0", READ),
    "p.pdf": (b"%PDF-1.4\n%\xe2\xe3", READ),
    "b.tar.gz": (gzip.compress(b"a.txt" + bytes(252) + b"ustar\0"), READ),
    **{f"{n}.pkl": (pickle.dumps({"a": 1}, protocol=n), READ) for n in range(6)},
    "g.yml": (b"nodes:\n  - a\n  - b\n", READ),
    "g.gml": (b"graph [\n  directed 1\n  node [\n    id 0\n  ]\n]\n", READ),
    "g.tgf": (b"1 conv\n2 relu\n#\n1 2 reads\n", READ),
    "g.mmd": (b"%% x\nflowchart LR\n  A --> B\n", READ),
    "print.txt": (b"Net(\n  (0): Linear(in_features=4)\n)\n", "line 1: 'Net(' is not the name of a node"),
    "b.zip": (archive("a.txt"), "not an npz graph"),
    "events.json": (b'[{"ph": "X", "name": "a", "ts": 1}]', 'not a graph: expected "format": "remat-graph"'),
    "plan.json": (b'{"format": "remat-plan", "version": 1}', 'not a graph: expected "format": "remat-graph"'),
    "p.svg": (b'<svg xmlns="x"></svg>', "there are 0 graphs in the file; export the graph as GraphML"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind_is_named_with_the_way_in(name, tmp_path):
    data, what, way = FILES[name]
    for file in (tmp_path / name, tmp_path / "model.bin"):  # the ending does not matter
        file.write_bytes(data)
        with pytest.raises(ra.GraphError) as caught:
            ra.read_graph(file)
        assert str(caught.value).startswith(f"{file.name} is {what}")
        assert way in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_file_without_a_graph_is_refused_in_one_sentence(name, tmp_path):
    data, said = OTHERS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ra.GraphError, match=re.escape(said)) as caught:
        ra.read_graph(tmp_path / name)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


PIECES = ["\n", "\r\n", " ", "\t", "a", "{", '"', "\n Name ", '"class_name" : ', "Self CPU ", "# of Calls", "\x08\x01"]
BEGINNINGS = ("", "{", "\n", "\n Name", "\x08\x01\x12", '{"class_name"', "a: b\n")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")
@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long_to_recognize(piece, tmp_path):
    """A pattern that backtracks takes minutes here, or for ever; one that does not takes some milliseconds."""

    def late(*_):
        raise TimeoutError(f"{beginning!r}, then {piece!r} many times")

    before = signal.signal(signal.SIGALRM, late)
    try:
        for beginning in BEGINNINGS:
            start = beginning + piece * graph_files.LETTERS_READ
            (tmp_path / "g").write_text(start[: graph_files.LETTERS_READ])
            signal.setitimer(signal.ITIMER_REAL, 5)
            graph_files.what_it_is(tmp_path / "g")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_folder_of_a_model_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "saved_model.pb").touch()
    with pytest.raises(ra.GraphError, match=r"^a is a graph of TensorFlow"):
        ra.read_graph(tmp_path / "a")
    with pytest.raises(ra.GraphError, match="is a directory; name a file in it"):
        ra.read_graph(tmp_path)


def test_a_table_of_nodes_of_another_kind_is_named_too(tmp_path):
    (tmp_path / "g.txt").write_text("a b\n")
    (tmp_path / "sizes.xlsx").write_bytes(FILES["b.xlsx"][0])
    with pytest.raises(ra.GraphError, match=r"^sizes\.xlsx is an Excel workbook; save the table as CSV"):
        ra.read_graph(tmp_path / "g.txt", nodes=tmp_path / "sizes.xlsx")


def test_a_file_above_the_limit_is_named_too(tmp_path, monkeypatch):
    (tmp_path / "m.h5").write_bytes(FILES["m.h5"][0])
    monkeypatch.setenv("REMAT_READ_LIMIT", "9")
    with pytest.raises(ra.GraphError, match="is a model of Keras"):
        ra.read_graph(tmp_path / "m.h5")


@pytest.mark.filterwarnings("ignore::remat_algos.errors.GraphWarning")
@pytest.mark.parametrize("name", ["g.json", "g.npz", "g.graphml", "g.nodes.csv"])
def test_a_damaged_graph_is_taken_for_nothing_else(name, tmp_path):
    ra.write_graph(ra.ComputationGraph.from_edges([("a", "b")]), tmp_path / name)
    data, said = (tmp_path / name).read_bytes(), []
    for cut in range(1, len(data), max(1, len(data) // 8)):
        (tmp_path / name).write_bytes(data[:cut])
        try:
            ra.read_graph(tmp_path / name)
        except ra.GraphError as error:
            said.append(str(error))
    assert len(said) > 3
    assert [text for text in said if f"{name} is a" in text] == []


def test_the_command_line_names_it_in_one_sentence(tmp_path, capsys):
    (tmp_path / "net.pt").write_bytes(FILES["a.pt"][0])
    said = runner(capsys)("show", tmp_path / "net.pt")
    assert said.code == 2
    sentence = " ".join(said.err.split())
    assert sentence.startswith("remat: net.pt is a checkpoint of PyTorch; capture the model: remat_algos.interop.torch")


def test_a_registered_format_reads_what_would_be_named(tmp_path, monkeypatch):
    known = registry.graph_formats()
    monkeypatch.setattr(registry, "_known", lambda: known)
    graph = ra.ComputationGraph.from_edges([("a", "b")])
    register(GraphFormat("HDF5", lambda data, _: graph, sniff=lambda data, _: data[1:4] == b"HDF", binary=True))
    (tmp_path / "m.h5").write_bytes(FILES["m.h5"][0])
    assert ra.read_graph(tmp_path / "m.h5") is graph


# ---------------------------------------------------------------- formats that other libraries read

ONNX = b"\x08\x08" + field(2, b"pytorch") + field(7, field(2, b"net")) + field(8, b"\x10\x11")
STABLEHLO = b"// lowered\nmodule @jit_f {\n  // stablehlo.add\n}\n"


@pytest.mark.parametrize(
    ("data", "library", "extra"), [(ONNX, "onnx", "onnx"), (STABLEHLO, "jaxlib", "jax")], ids=["ONNX", "StableHLO"]
)
def test_without_its_library_a_format_says_how_to_install_it(data, library, extra, tmp_path, monkeypatch, capsys):
    for module in [
        name for name in sys.modules if name.startswith(("remat_algos.interop.onnx", "remat_algos.interop.st"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    for name in ("onnx", "jax", "jaxlib", "jaxlib.mlir", "jaxlib.mlir.ir"):
        monkeypatch.setitem(sys.modules, name, None)  # as good as not installed
    (tmp_path / "model").write_bytes(data)
    said = runner(capsys)("show", tmp_path / "model")
    assert said.code == 2
    sentence = " ".join(said.err.split())
    assert sentence.startswith(f"remat: model: {library} cannot be imported (")
    assert sentence.endswith(f"; install it, from a checkout: python -m pip install -e '.[{extra}]'")


@pytest.mark.parametrize("name", [*FILES, *OTHERS])
def test_no_other_file_is_taken_for_a_model(name):
    data = {**FILES, **OTHERS}[name][0]
    for form in registry.graph_formats()[-2:]:
        content = data if form.binary else data.decode("utf-8", "replace")
        assert not registry.claims(form, content, "")


@given(st.binary(max_size=40))
def test_what_is_no_model_to_the_last_byte_is_no_onnx(data):
    """Nor is it a matter of chance: the fields that every model has must be there."""
    form = next(form for form in registry.graph_formats() if form.name == "ONNX")
    assert registry.claims(form, ONNX, "")
    assert registry.claims(form, b"", ".onnx")
    if data:
        assert not registry.claims(form, ONNX[:-1], "")
        assert not registry.claims(form, data, "") or b"\x3a" in data


def test_only_formats_with_open_dimensions_take_lengths(tmp_path):
    (tmp_path / "g.txt").write_text("a b\n")
    with pytest.raises(ra.GraphError, match="edge list files have no open dimensions; leave out \\?batch"):
        ra.read_graph(f"{tmp_path}/g.txt?batch=8")
    with pytest.raises(ra.GraphError, match="no such file"):
        ra.read_graph(f"{tmp_path}/none.onnx?batch=8")
    (tmp_path / "g.txt?batch=8").write_text("a b\nb c\n")  # a file may be called so
    assert ra.read_graph(f"{tmp_path}/g.txt?batch=8").n_nodes == 3


# ---------------------------------------------------------------- the line of Excel


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_that_states_the_separator_is_read(mark, end, tmp_path):
    def write(name, rows):
        lines = [f"sep={mark}", *(mark.join(row) for row in rows), ""]
        (tmp_path / name).write_bytes(end.join(lines).encode())

    write("g.nodes.csv", [("name", "memory", "compute"), ("a", "4", "1"), ("b", "8", "2")])
    write("g.edges.csv", [("src", "dst"), ("a", "b")])
    write("pairs.csv", [("src", "dst"), ("a", "b")])
    assert ra.read_graph(tmp_path / "g.nodes.csv").memory.tolist() == [4, 8]
    assert ra.read_graph(tmp_path / "pairs.csv").node_names() == ["a", "b"]
    assert ra.read_graph(tmp_path / "pairs.csv", nodes=tmp_path / "g.nodes.csv").compute.tolist() == [1, 2]


def test_the_stated_separator_counts_and_lines_are_those_of_the_file(tmp_path):
    (tmp_path / "g.edges.csv").write_text("sep=;\nsrc;dst\na;b\n")
    (tmp_path / "g.nodes.csv").write_text("SEP=;\nname;memory,compute\na;4\n")
    with pytest.warns(ra.errors.GraphWarning, match="memory,compute"), pytest.raises(ra.GraphError):
        ra.read_graph(tmp_path / "g.nodes.csv")
    (tmp_path / "g.nodes.csv").write_text("sep=;\nname;memory\na;4\nb;x\n")
    with pytest.raises(ra.GraphError, match=re.escape("g.nodes.csv, line 4: memory of 'b'")):
        ra.read_graph(tmp_path / "g.nodes.csv")


def test_a_graph_of_json_is_no_trace(tmp_path):
    """Names are anything, those of other formats too."""
    graph = ra.ComputationGraph.from_edges([("traceEvents", "class_name"), ("class_name", "Self CPU %")])
    (tmp_path / "g.json").write_text(to_json(graph))
    assert ra.read_graph(tmp_path / "g.json").node_names() == ["traceEvents", "class_name", "Self CPU %"]
