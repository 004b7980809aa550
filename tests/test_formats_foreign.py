"""Files that hold no graph which is read here are named, by their content, with the way in."""

import gzip
import io
import json
import pickle
import re
import signal
import struct
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.formats import GraphFormat, foreign, register, registry
from remat_algos.formats.graphs.json_text import to_json
from tests.command_line import runner


def archive(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return out.getvalue()


def array():
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


def field(number, content):
    """One of protobuf, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))
META = field(1, field(1, b"a"))
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
EVENTS = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 2}]}'
RULE = "-" * 24
PROFILE = f"""{RULE}  {RULE}  {RULE}
                    Name    Self CPU %      Self CPU
{RULE}  {RULE}  {RULE}
             aten::addmm         50.4%     151.000us
{RULE}  {RULE}  {RULE}
Self CPU time total: 299.000us
"""
SUMMARY = 'Model: "m"\n____\n Layer (type)   Output Shape   Param #\n====\n dense (Dense)   (None, 3)   12\n'


def pairs_below(n):
    """Edges u < v of n vertices."""
    return st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda edge: edge[0] < edge[1])


FILES = {  # name: content, what it is, a word of the way in
    "a.pt": (archive("a/data.pkl", "a/version"), "a checkpoint of PyTorch", "docs/torch.md"),
    "old.pth": (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "a checkpoint of PyTorch",
        "docs/torch.md",
    ),
    "script.pt": (archive("a/data.pkl", "a/constants.pkl"), "a TorchScript program", "docs/torch.md"),
    "a.pt2": (archive("a/archive_format", "a/models/model.json"), "a program of torch.export", "docs/torch.md"),
    "fx.txt": (b"graph():\n    %x : [num_users=1] = placeholder[target=x]\n", "a graph of torch.fx", "docs/torch.md"),
    "print.txt": (b"Net(\n  (0): Linear(in_features=4)\n)\n", "a printed module of PyTorch", "docs/torch.md"),
    "table.txt": (PROFILE.encode(), "the table of a profiler", 'cost="profile"'),
    "trace.json": (EVENTS, "the trace of a profiler", 'cost="profile"'),
    "trace.json.gz": (gzip.compress(EVENTS), "the trace of a profiler", 'cost="profile"'),
    "events.json": (b'[{"ph": "X", "name": "a", "ts": 1}]', "the trace of a profiler", 'cost="profile"'),
    "saved_model.pb": (b"\x08\x01\x12\x80" + bytes([1]) + META, "a graph of TensorFlow", "docs/onnx.md"),
    "frozen.pb": (NODE + field(1, field(1, b"y") + field(2, b"Relu")), "a graph of TensorFlow", "docs/onnx.md"),
    "graph.pbtxt": (b'node {\n  name: "x"\n  op: "Placeholder"\n}\n', "a graph of TensorFlow", "docs/onnx.md"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(9), "a TensorFlow Lite model", "docs/onnx.md"),
    "keras.json": (b'{"class_name": "Functional", "config": {"layers": []}}', "a model of Keras", "docs/onnx.md"),
    "old keras.json": (b'{"class_name": "Sequential", "config": []}', "a model of Keras", "docs/onnx.md"),
    "m.keras": (archive("metadata.json", "config.json", "model.weights.h5"), "a model of Keras", "docs/onnx.md"),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(9), "an HDF5 file, as Keras writes", "docs/onnx.md"),
    "summary.txt": (SUMMARY.encode(), "the summary of a model", "docs/torch.md"),
    "m.safetensors": (struct.pack("<Q", len(HEADER)) + HEADER + bytes(8), "a safetensors file of weights", "no graph"),
    "index.json": (b'{"metadata": {}, "weight_map": {}}', "an index of weights", "no graph"),
    "config.json": (b'{"architectures": ["GPT2LMHeadModel"]}', "the configuration of a model", "no graph"),
    "m.gguf": (b"GGUF" + bytes(20), "a GGUF file of weights", "no graph"),
    "m.npy": (array(), "an array of NumPy", "docs/formats.md"),
    **{f"{n}.pkl": (pickle.dumps({"a": 1}, protocol=n), "a pickle", "ra.write_graph") for n in range(6)},
    "long.pkl": (pickle.dumps(list(range(20_000)), protocol=0), "a pickle", "ra.write_graph"),
    "g.gml": (b"graph [\n  directed 1\n  node [\n    id 0\n  ]\n]\n", "a graph of GML", "networkx.read_gml"),
    "creator.gml": (b'Creator "yEd"\nVersion 2\ngraph\n[\n]\n', "a graph of GML", "networkx.read_gml"),
    "g.net": (b'*Vertices 2\n1 "a"\n2 "b"\n*Arcs\n1 2\n', "a network of Pajek", "networkx.read_pajek"),
    "g.gexf": (b'<?xml version="1.0"?>\n<gexf version="1.2"></gexf>', "a graph of GEXF", "networkx.read_gexf"),
    "g.lgr": (b"# x\nLEDA.GRAPH\nstring\nint\n-1\n", "a graph of LEDA", "networkx.read_leda"),
    "g.g6": (b">>graph6<<DQc\n", "a graph in graph6", "networkx.read_graph6"),
    "g.s6": (b":Fa@x^\n", "a graph in sparse6", "networkx.read_sparse6"),
    "g.mtx": (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n", "a matrix of MatrixMarket", "mmread"),
    "g.cnf": (b"c x\np cnf 3 1\n1 -3 0\n", "a formula of DIMACS", "docs/formats.md"),
    "g.col": (b"c x\np edge 3 2\ne 1 2\ne 2 3\n", "a graph of DIMACS", "u v"),
    "g.max": (b"p max 3 2\na 1 2 4\na 2 3 4\n", "a graph of DIMACS", "u v"),
    "g.metis": (b"% a path\n5 4\n2\n1 3\n2 4\n3 5\n4\n", "a graph of METIS", "u v"),
    "weights.metis": (b"3 3 011\n7 2 5 3 1\n7 1 5 3 2\n7 1 1 2 2\n", "a graph of METIS", "u v"),
    "g.tgf": (b"1 conv\n2 relu\n#\n1 2 reads\n", "a graph in the Trivial Graph Format", "labels"),
    "g.mmd": (b"%% x\nflowchart LR\n  A --> B\n", "a diagram of Mermaid", "u v"),
    "g.puml": (b"@startuml\nA -> B\n@enduml\n", "a diagram of PlantUML", "u v"),
    "g.jsonl": (b'{"a": 1}\n{"a": 2}\n', "several JSON texts, one a line", "docs/json.md"),
    "g.mal": (b"# x\n0 1\n1 {}\n1 0\n", "a multiline adjacency list", "networkx.read_multiline_adjlist"),
    "g.adj": (b"#/x.py\n# GMT\n#\n0 1 2\n1 2\n2\n", "an adjacency list", "networkx.read_adjlist"),
    "git.txt": (b"b26293b3 Fix\n6a58716d Whether\n", "a list of hashes", "docs/formats.md"),
    "log.txt": (b"INFO started\nINFO loaded\n", "a log", "docs/formats.md"),
    "times.txt": (b"2024-01-01 started\n2024-01-02 ended\n", "a log", "docs/formats.md"),
    "make.txt": (b"relu.o: conv.o\n", "a makefile", "u v"),
    "phony.txt": (b".PHONY: all\nall: prog\n\tgcc x\n", "a makefile", "u v"),
    "docker.txt": (b"FROM python\nRUN make\n", "a Dockerfile", "docs/formats.md"),
    "set.txt": (b'[graph]\nname="x"\n', "a file of settings", "docs/formats.md"),
    "g.yml": (b"nodes:\n  - a\n  - b\n", "YAML", "docs/formats.md"),
    "g.tex": (b"% x\n\\begin{document}\n\\end{document}\n", "a text of LaTeX", "docs/formats.md"),
    "g.bib": (b"@article{x,\n title={y}\n}\n", "a bibliography", "docs/formats.md"),
    "g.diff": (b"--- a/x\n+++ b/x\n", "a patch", "docs/formats.md"),
    "g.pem": (b"-----BEGIN KEY-----\nab\n", "a key or a certificate", "docs/formats.md"),
    "g.fa": (b">seq1\nACGT\n", "sequences of FASTA", "docs/formats.md"),
    "page.txt": (b"Title\n\n```\na b\n```\n", "a page of Markdown", "docs/formats.md"),
    "g.c": (b"#include <stdio.h>\nint main()\n", "a program", "run it"),
    "net.prototxt": (b'name: "net"\nlayer {\n  name: "data"\n}\n', "a network of Caffe", "docs/onnx.md"),
    "symbol.json": (b'{"nodes": [], "arg_nodes": [0]}', "a symbol of MXNet", "docs/onnx.md"),
    "tvm.json": (b'{"nodes": [], "arg_nodes": [0], "node_row_ptr": [0]}', "a graph of TVM", "docs/onnx.md"),
    "hlo.json": (b'{"hloModule": {"name": "f", "computations": []}}', "HLO as JSON", "as_text()"),
    "lite.json": (b'{"version": 3, "operator_codes": []}', "a TensorFlow Lite model as JSON", "docs/onnx.md"),
    "onnx.json": (b'{"irVersion": "8", "graph": {}}', "an ONNX model as JSON", "onnx.save"),
    "export.json": (b'{"graph_module": {"graph": {}}}', "a program of torch.export as JSON", "docs/torch.md"),
    "s.npz": (
        archive("indices.npy", "indptr.npy", "format.npy", "shape.npy", "data.npy"),
        "a sparse matrix",
        "load_npz",
    ),
    "ir.xml": (b'<?xml version="1.0"?>\n<net name="m"><layers/></net>', "a model of OpenVINO", "docs/onnx.md"),
    "m.mlirbc": (b"ML\xefR\rMLIR23.0.0git\0", "MLIR bytecode", "as_text()"),
    "exported.bin": (b"\x04\0\0\0\xf4ML\xefR\rStableHLO_v1.1\0", "what jax.export serializes", "mlir_module()"),
    "hlo.txt": (b"HloModule jit_f\n\nENTRY main {\n}\n", "HLO text", "as_text()"),
    "jaxpr.txt": (b"{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }\n", "a jaxpr", "as_text()"),
    "b.xlsx": (archive("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook", "as CSV"),
    "b.ods": (archive("mimetype", "content.xml"), "an OpenDocument file", "as CSV"),
    "b.xls": (b"\xd0\xcf\x11\xe0" + bytes(9), "an old Office document", "as CSV"),
    "b.parquet": (b"PAR1\x15\0", "a table in a binary format", "as CSV"),
    "b.sqlite": (b"SQLite format 3\0", "an SQLite database", "docs/torch.md"),
    "b.zip": (archive("a.txt"), "a zip archive", "unpack it"),
    "b.tar": (b"a.txt" + bytes(252) + b"ustar\0", "a tar archive", "unpack it"),
    "b.tar.gz": (gzip.compress(b"a.txt" + bytes(252) + b"ustar\0"), "a tar archive", "unpack it"),
    "b.xz": (b"\xfd7zXZ\0", "an archive", "unpack it"),
    "p.png": (b"\x89PNG\r\n\x1a\n\0", "a picture", "docs/formats.md"),
    "p.svg": (b'<svg xmlns="x"></svg>', "a picture", "docs/formats.md"),
    "p.pdf": (b"%PDF-1.4\n%\xe2\xe3", "a PDF document", "docs/formats.md"),
    "p.html": (b"<!DOCTYPE html><html></html>", "a web page", "docs/formats.md"),
    "p.py": (b"import torch\nprint(1)\n", "a program", "run it"),
    "p.ipynb": (b'{"cells": [], "nbformat": 4}', "a notebook", "run it"),
    "plan.json": (b'{"format": "remat-plan", "version": 1}', "a plan", "give its graph"),
    "buffers.csv": (b"id,lower,upper,size\na,0,3,3\n", "a table of buffers", "remat allocate"),
    "tree.td": (b"c tree\ns td 1 1 1\nb 1 1\n", "a tree decomposition", "give the graph"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind_is_named_with_the_way_in(name, tmp_path):
    data, what, way = FILES[name]
    for file in (tmp_path / name, tmp_path / "model.bin"):  # the ending does not matter
        if file.suffix == ".bin" and name.endswith((".json", ".csv")):  # what a text is
            continue
        file.write_bytes(data)
        with pytest.raises(ra.GraphError) as caught:
            ra.read_graph(file)
        assert str(caught.value).startswith(f"{file.name} is {what}")
        assert way in str(caught.value)
        assert "\n" not in str(caught.value)


def test_every_kind_that_is_known_has_a_file_here():
    named = {what for _, what, _ in foreign.KINDS}
    tried = {what for _, what, _ in FILES.values()}
    by_ending = {
        *("a Core ML model", "a model of another framework", "a Word document"),
        *("a page of text", "a file of molecules"),
    }
    assert {what for what in named - by_ending if not any(what.startswith(one) for one in tried)} == set()


BLANK = ["\n", "\r\n", "  \n", " ", "\t", "\f"]
COMMENTS = [*"#%c;-", "%%", "//", "<!--", "---\n", "# \n", "  #x\n", "%% \n", "c \n", "// \n", "[a]\n ;\n"]
WORDS = [*"a[{(", "a b\n", "a:", "a: \n", "a.o: ", ": ", "@a", "0 ", "return a \n", "class a", "layers ", "use "]
BEGINNINGS = ("", "[a]\n", "---\n", "c\n", "p a", "a: b\n", "FROM a\n", "graph\n", "{", "<?xml a>", "x(\n")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")
@pytest.mark.parametrize("piece", BLANK + COMMENTS + WORDS)
def test_no_text_takes_long_to_recognize(piece):
    """A pattern that backtracks takes minutes here, or for ever; one that does not takes some milliseconds."""

    def late(*_):
        raise TimeoutError(f"{stage}: {beginning!r}, then {piece!r} many times")

    before = signal.signal(signal.SIGALRM, late)
    try:
        for beginning in BEGINNINGS:
            text = (beginning + piece * foreign.SHOWN)[: foreign.SHOWN]
            file = foreign._File("", text.encode(), text.replace("\r\n", "\n"), ())
            for sniff, stage, _ in foreign.KINDS:  # noqa: B007 (late names it)
                signal.setitimer(signal.ITIMER_REAL, 5)
                sniff(file)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts)
    )
)
def test_every_pickle_without_a_mark_is_named(content):
    file = foreign._File("", data := pickle.dumps(content, protocol=0), data.decode("utf-8", "replace"), ())
    assert foreign._early_pickle(file)


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.sets(pairs_below(n), min_size=1))))
def test_every_graph_of_metis_is_named_and_no_edge_list_is(graph):
    n, edges = graph
    rows = [[str(v + 1) for v in range(n) if (u, v) in edges or (v, u) in edges] for u in range(n)]
    metis = "".join(f"{' '.join(words)}\n" for words in [[str(n), str(len(edges))], *rows])
    listed = "".join(f"{u} {v}\n" for u, v in sorted(edges))
    for text, named in ((metis, True), (listed, False)):
        assert foreign._metis(foreign._File("", text.encode(), text, ())) is named


def test_a_folder_of_a_model_is_named(tmp_path):
    for folder, file, what in (("a", "saved_model.pb", "a SavedModel"), ("b", "config.json", "a folder of weights")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).touch()
        with pytest.raises(ra.GraphError, match=f"^{folder} is {what}"):
            ra.read_graph(tmp_path / folder)
    with pytest.raises(ra.GraphError, match="is a directory; name a file in it"):
        ra.read_graph(tmp_path)


def test_a_table_of_nodes_of_another_kind_is_named_too(tmp_path):
    (tmp_path / "g.txt").write_text("a b\n")
    (tmp_path / "sizes.xlsx").write_bytes(FILES["b.xlsx"][0])
    with pytest.raises(ra.GraphError, match=r"^sizes\.xlsx is an Excel workbook; save the table as CSV"):
        ra.read_graph(tmp_path / "g.txt", nodes=tmp_path / "sizes.xlsx")


def test_a_file_above_the_limit_is_named_too(tmp_path, monkeypatch):
    (tmp_path / "m.safetensors").write_bytes(FILES["m.safetensors"][0])
    monkeypatch.setenv("REMAT_READ_LIMIT", "9")
    with pytest.raises(ra.GraphError, match="is a safetensors file"):
        ra.read_graph(tmp_path / "m.safetensors")


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
    register(GraphFormat("gguf", lambda data, _: graph, sniff=lambda data, _: data[:4] == b"GGUF", binary=True))
    (tmp_path / "m.gguf").write_bytes(FILES["m.gguf"][0])
    assert ra.read_graph(tmp_path / "m.gguf") is graph


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
    assert sentence.endswith(f"; install it: python -m pip install 'remat_algos[{extra}]'")


@pytest.mark.parametrize("name", FILES)
def test_no_other_file_is_taken_for_a_model(name):
    data, _, _ = FILES[name]
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


def test_other_tables_have_that_line_too(tmp_path):
    (tmp_path / "buffers.csv").write_text("sep=;\nid;lower;upper;size\na;0;3;3\n")
    assert ra.formats.read_buffers(tmp_path / "buffers.csv").size.tolist() == [3]


def test_a_graph_of_json_is_no_trace(tmp_path):
    """Names are anything, those of other formats too."""
    graph = ra.ComputationGraph.from_edges([("traceEvents", "class_name"), ("class_name", "Self CPU %")])
    (tmp_path / "g.json").write_text(to_json(graph))
    assert ra.read_graph(tmp_path / "g.json").node_names() == ["traceEvents", "class_name", "Self CPU %"]
