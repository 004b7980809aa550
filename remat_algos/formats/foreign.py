"""Recognition of files that are not graphs for this package, by content, with advice on how to import them."""

import contextlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SHOWN = 2**16  # bytes of a file that are looked at
GZIP = b"\x1f\x8b"
PICKLED = tuple(bytes([0x80, version]) for version in range(2, 6))
TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9"  # in the pickle that begins a checkpoint of earlier versions

CAPTURE = "capture the model: remat_algos.interop.torch.capture(model, inputs) (docs/torch.md)"
EXPORT = "export the model as ONNX, which is read (docs/onnx.md)"
WRITE = "write the graph as tables or JSON (docs/formats.md)"
RUN = "run it, and write the graph: ra.write_graph(graph, PATH)"
UNPACK = "unpack it and give a file in it"
LOWERED = "give jax.jit(g).lower(*args).as_text() in a file (docs/onnx.md)"
TEXT = "save the table as CSV (docs/formats.md)"
WEIGHTS = "it has no graph; capture the model (docs/torch.md, docs/jax.md) or export it as ONNX (docs/onnx.md)"
NETWORKX = "read it with networkx.{}, and give the digraph to ra.from_networkx (docs/bring.md)"
SCIPY = "read it with {}, and give ra.ComputationGraph.from_edges(np.transpose(matrix.nonzero())) (docs/bring.md)"
SAVE_ONNX = "save it in binary form: onnx.save(model, PATH) (docs/onnx.md)"
EDGES = "write a line `u v` for each edge, where v reads u (docs/formats.md)"
TIMES = 'it has no sizes and no edges; capture the model, with cost="profile" for measured times (docs/torch.md)'


@dataclass(frozen=True, slots=True)
class _File:
    """A file's ending in lower case, its first bytes, decompressed, and the names in an archive."""

    ending: str
    data: bytes
    text: str
    names: tuple[str, ...]


Sniff = Callable[[_File], bool]


def _begins(*marks: bytes, at: int = 0) -> Sniff:
    return lambda file: file.data[at:].startswith(marks)


def _holds(pattern: str) -> Sniff:
    return lambda file: b"\0" not in file.data and re.search(pattern, file.text, re.MULTILINE) is not None


def _object(pattern: str) -> Sniff:
    """A test for JSON with a pattern near its beginning."""
    return lambda file: file.text.lstrip()[:1] in ("{", "[") and re.search(pattern, file.text) is not None


def _archive(pattern: str) -> Sniff:
    """A test for a zip archive with a file of that name."""
    return lambda file: any(re.search(pattern, name) for name in file.names)


def _ends(*endings: str) -> Sniff:
    return lambda file: file.ending in endings


def _sparse_matrix(file: _File) -> bool:
    """True for the arrays that scipy.sparse.save_npz writes."""
    return {"format.npy", "shape.npy", "data.npy"} <= {*file.names}


def _other_archive(file: _File) -> bool:
    """True for a zip archive without NumPy arrays (.npy); the npz reader explains errors in archives with arrays."""
    return bool(file.names) and not any(name.endswith(".npy") for name in file.names)


def _old_checkpoint(file: _File) -> bool:
    return file.data.startswith(PICKLED) and TORCH_MAGIC in file.data[:20]


def _exported(file: _File) -> bool:
    return b"ML\xefR" in file.data


def _tensorflow(file: _File) -> bool:
    """True for a SavedModel (version, then meta graph) or a GraphDef (a node and its operator first)."""
    saved = re.match(rb"\x08\x01\x12[\x80-\xff]{1,5}[\x00-\x7f]\x0a", file.data)
    node = re.match(rb"\x0a.{1,3}?\x0a(.)", file.data, re.DOTALL)
    return saved is not None or (node is not None and (b"Const" in file.data or b"Placeholder" in file.data))


def _lines(file: _File) -> list[str]:
    """The lines that were read, without the last one if the file goes on after it."""
    lines = file.text.split("\n")
    return lines[:-1] if len(file.data) >= SHOWN else lines


def _early_pickle(file: _File) -> bool:
    """True for a pickle of protocol 0 or 1, which has no mark: its opcodes end with the file."""
    data = file.data.rstrip(b"\r\n")
    if not data.endswith(b".") and len(file.data) < SHOWN:
        return False
    import pickletools  # not needed by most runs

    end, marked = 0, False
    try:
        for code, _, place in pickletools.genops(data):
            end = (place or 0) + (code.name == "STOP")
            marked |= code.name == "MARK"  # lines of names that begin with c, V or P are opcodes with arguments too
    except Exception:  # of damaged opcodes and arguments, many kinds
        return len(file.data) >= SHOWN and end > SHOWN // 2 and marked
    return end == len(data)


def _metis(file: _File) -> bool:
    """True for the header `n m`, and a line for each of n vertices with its neighbors, each edge in both directions."""
    lines = [line for line in _lines(file) if not line.startswith("%")]
    if not all(line.replace(" ", "").replace("\t", "").strip().isdecimal() for line in lines if line.strip()):
        return False
    rows = [[int(word) for word in line.split() if len(word) < LONGEST_ID] for line in lines]
    header, rows = rows[0] if rows else [], rows[1:]
    while len(rows) > (header[0] if header else 0) and not rows[-1]:
        del rows[-1]
    if not 2 <= len(header) <= 4 or header[0] != len(rows) or header[1] == 0:
        return False
    of_vertices = (header[3] if len(header) == 4 else 1) if len(header) > 2 and header[2] // 10 % 10 else 0
    step = 2 if len(header) > 2 and header[2] % 10 else 1  # a weight after each neighbor
    pairs = Counter((u, v) for u, row in enumerate(rows, start=1) for v in row[of_vertices::step])
    return sum(pairs.values()) == 2 * header[1] and all(pairs[v, u] == count for (u, v), count in pairs.items())


def _tgf(file: _File) -> bool:
    """True for lines `id label`, a line `#`, and lines `id id label`."""
    lines = [line.split() for line in _lines(file) if line.strip()]
    if lines.count(["#"]) != 1:
        return False
    at = lines.index(["#"])
    nodes, edges = lines[:at], lines[at + 1 :]
    ids = {words[0] for words in nodes}
    labelled = all(len(words) < 2 or words[1] == words[0] or words[1] not in ids for words in nodes)
    return bool(nodes) and labelled and all(len(words) > 1 and {*words[:2]} <= ids for words in edges)


def _json_lines(file: _File) -> bool:
    """True for JSON objects or lists, one in each of several lines."""
    lines = [line for line in _lines(file) if line.strip()][:3]
    if len(lines) < 2 or not all(line.lstrip()[0] in "{[" for line in lines):
        return False
    with contextlib.suppress(ValueError, RecursionError):
        return all(isinstance(json.loads(line), dict | list) for line in lines)
    return False


def _log(file: _File) -> bool:
    """True if every line begins with a date, a time, or a level, and they are no edges."""
    lines = [line for line in _lines(file) if line.strip()]
    return bool(lines) and all(_LOGGED.match(line) for line in lines) and not _edges(file)


def _edges(file: _File) -> bool:
    """True if each line has two names, and some name stands in both columns."""
    pairs = [words for line in _lines(file) if (words := line.partition("#")[0].split())]
    return {*map(len, pairs)} == {2} and not {u for u, _ in pairs}.isdisjoint(v for _, v in pairs)


def _dockerfile(file: _File) -> bool:
    pattern = _COMMENTS + r"FROM[ \t]+\S[^\n]*\n(?s:.*)^(RUN|CMD|COPY|ENTRYPOINT|WORKDIR)\s"
    return _holds(pattern)(file) and not _edges(file)


def _adjacency(file: _File) -> bool:
    """True if each line has a name of its own and its neighbors, some more than one, which all have lines."""
    rows = [words for line in _lines(file) if (words := line.partition("#")[0].split())]
    names = {words[0] for words in rows}
    listed = all(names.issuperset(words) and words[0] not in words[1:] for words in rows)
    return listed and len(names) == len(rows) and max(map(len, rows), default=0) > 2


def _hashes(file: _File) -> bool:
    """True for `git log`, and for a hash of mixed digits and letters before each name or title."""
    lines = [line for line in _lines(file) if line.strip()]
    if lines and re.fullmatch(r"commit [0-9a-f]{40}( .*)?", lines[0].rstrip()):
        return True
    words = [re.match(r"([0-9a-f]{7,40})\s+(\S+)", line) for line in lines]
    hashes = {word[1] for word in words if word is not None}
    mixed = any(re.search("[a-f]", each) for each in hashes) and any(re.search("[0-9]", each) for each in hashes)
    return bool(lines) and all(words) and mixed and not {word[2] for word in words if word is not None} & hashes


LONGEST_ID = 12  # digits
PROGRAMS = (
    ".py",
    ".c",
    ".cc",
    ".cpp",
    ".cu",
    ".h",
    ".hpp",
    ".java",
    ".js",
    ".ts",
    ".rs",
    ".go",
    ".jl",
    ".r",
    ".sh",
    ".sql",
)
_LOGGED = re.compile(
    r"\[?\d{4}[-/]\d\d[-/]\d\d|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\[?(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
)
# Repetitions that others could share are possessive (*+): a file of blank lines or comments takes linear time.
_COMMENTS = r"\A(?:[ \t]*(?:#[^\n]*|%[^\n]*|//[^\n]*)?\n)*+[ \t]*+"


KINDS: tuple[tuple[Sniff, str, str], ...] = (
    (_archive(r"(^|/)constants\.pkl$"), "a TorchScript program", CAPTURE),
    (_archive(r"(^|/)(models/model\.json|serialized_exported_program\.json)$"), "a program of torch.export", CAPTURE),
    (_archive(r"(^|/)data\.pkl$"), "a checkpoint of PyTorch", CAPTURE),
    (_archive(r"^(model\.weights\.h5|metadata\.json)$"), "a model of Keras", EXPORT),
    (_archive(r"^xl/"), "an Excel workbook", TEXT),
    (_archive(r"^content\.xml$"), "an OpenDocument file", TEXT),
    (_archive(r"^word/"), "a Word document", WRITE),
    (_sparse_matrix, "a sparse matrix of SciPy", SCIPY.format("scipy.sparse.load_npz")),
    (_other_archive, "a zip archive", UNPACK),
    (_begins(b"\x89HDF\r\n\x1a\n"), "an HDF5 file, as Keras writes", EXPORT),
    (_begins(b"GGUF"), "a GGUF file of weights", WEIGHTS),
    (_begins(b"\0\0\0{", at=5), "a safetensors file of weights", WEIGHTS),
    (_begins(b"\x93NUMPY"), "an array of NumPy", WRITE),
    (_old_checkpoint, "a checkpoint of PyTorch", CAPTURE),
    (_begins(*PICKLED), "a pickle", "loading one runs its code; write the graph: ra.write_graph(graph, PATH)"),
    (_begins(b"TFL3", at=4), "a TensorFlow Lite model", EXPORT),
    (_tensorflow, "a graph of TensorFlow", f"{EXPORT}: python -m tf2onnx.convert"),
    (_ends(".mlmodel"), "a Core ML model", EXPORT),
    (_ends(".caffemodel", ".pdmodel", ".engine", ".trt"), "a model of another framework", EXPORT),
    (_begins(b"SQLite format 3\0"), "an SQLite database", TIMES),
    (_begins(b"PAR1", b"ARROW1", b"FEA1"), "a table in a binary format", TEXT),
    (_begins(b"\xd0\xcf\x11\xe0"), "an old Office document", TEXT),
    (_begins(b"%PDF"), "a PDF document", WRITE),
    (_begins(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*"), "a picture", WRITE),
    (_begins(b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe"), "a program", WRITE),
    (_begins(b"7z\xbc\xaf", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"Rar!"), "an archive", UNPACK),
    (_begins(b"ustar", at=257), "a tar archive", UNPACK),
    (_begins(b"ML\xefR"), "MLIR bytecode", LOWERED),
    (_exported, "what jax.export serializes", "give the text of its module: exported.mlir_module()"),
    (_early_pickle, "a pickle", "loading one runs its code; write the graph: ra.write_graph(graph, PATH)"),
    (
        _holds(r"\A(?:\s*(?:#[^\n]*|(?:Creator|Version|comment)\b[^\n]*)\n)*\s*graph\s*\["),
        "a graph of GML",
        NETWORKX.format("read_gml"),
    ),
    (
        _holds(r"(?i)" + _COMMENTS + r"\*(vertices|network|arcs|arcslist|edges|edgeslist|matrix)\b"),
        "a network of Pajek",
        NETWORKX.format("read_pajek"),
    ),
    (_holds(r"\A\s*(<\?xml[^>]*>\s*)?<gexf\b"), "a graph of GEXF", NETWORKX.format("read_gexf")),
    (_holds(_COMMENTS + r"LEDA\.GRAPH"), "a graph of LEDA", NETWORKX.format("read_leda")),
    (_holds(r"\A>>graph6<<"), "a graph in graph6", NETWORKX.format("read_graph6")),
    (_holds(r"\A>>sparse6<<|\A:[?-~]+\s*\Z"), "a graph in sparse6", NETWORKX.format("read_sparse6")),
    (_holds(r"\A%%MatrixMarket\b"), "a matrix of MatrixMarket", SCIPY.format("scipy.io.mmread")),
    (_holds(r"\A(?:(?:c[^\n]*|[ \t]*)\n)*+p[ \t]+(cnf|wcnf)\b"), "a formula of DIMACS", WRITE),
    (
        _holds(r"\A(?:(?:c[^\n]*|[ \t]*)\n)*+p[ \t]+(?!tw\b)[a-z]+[ \t]+\d+[ \t]+\d+[ \t]*$"),
        "a graph of DIMACS",
        EDGES,
    ),
    (_metis, "a graph of METIS, which has no directions", EDGES),
    (
        _tgf,
        "a graph in the Trivial Graph Format",
        "remove the lines up to `#` and the labels of edges, or write tables",
    ),
    (
        _holds(
            r"\A(?:---\n[\s\S]*?\n---[ \t]*\n)?(?:[ \t]*(?:%%[^\n]*)?\n)*+[ \t]*+"
            r"((graph|flowchart)[ \t]+(TB|TD|BT|RL|LR)\b"
            r"|(sequence|class|state|er)Diagram(-v2)?\b|(mindmap|gantt|gitGraph)\s*$)"
        ),
        "a diagram of Mermaid",
        EDGES,
    ),
    (_holds(r"\A\s*@start\w+"), "a diagram of PlantUML", EDGES),
    (_json_lines, "several JSON texts, one a line", "give one of them in a file of its own (docs/json.md)"),
    (_holds(_COMMENTS + r"\S+ \d+\n\S+ \{"), "a multiline adjacency list", NETWORKX.format("read_multiline_adjlist")),
    (_adjacency, "an adjacency list", NETWORKX.format("read_adjlist")),
    (_hashes, "a list of hashes, as of Git", WRITE),
    (_log, "a log", WRITE),
    (_holds(_COMMENTS + r"[\w./%$(){}-]+[ \t]*:(?![=\w/])[^\n]*\n\t\S|^\.PHONY\s*:"), "a makefile", EDGES),
    (
        _holds(
            _COMMENTS + r"([\w./%-]+\.\w+[ \t]*:([ \t]+[\w./%$()-]+)*[ \t]*$"
            r"|[\w./%-]+[ \t]*:[ \t][^\n]*\n(?s:.*)\w\.(o|c|cc|cpp|h|so)\s)"
        ),
        "a makefile",
        EDGES,
    ),
    (_dockerfile, "a Dockerfile", WRITE),
    (
        _holds(_COMMENTS + r"\[[^\[\]\n]+\][ \t]*\n(?:[ \t]*(?:[#;][^\n]*)?\n)*+[ \t]*+[\w.\"-]+[ \t]*="),
        "a file of settings",
        WRITE,
    ),
    (_holds(_COMMENTS + r"\[\[[\w. -]+\]\][ \t]*$"), "a file of settings", WRITE),
    (
        _holds(r"\A(%YAML|---[ \t]*$)|" + _COMMENTS + r"[\w -]+:([ \t][^\n]*)?\n(\s*+- |[ \t]*+[\w -]+:(\s|\Z))"),
        "YAML",
        WRITE,
    ),
    (_holds(_COMMENTS + r"\\(documentclass|usepackage|begin|input|chapter|section)\b"), "a text of LaTeX", WRITE),
    (_holds(_COMMENTS + r"@[A-Za-z]+\s*\{"), "a bibliography", WRITE),
    (_holds(r"\A(diff --git |--- [^\n]+\n\+\+\+ )"), "a patch", WRITE),
    (_holds(r"\A-----BEGIN "), "a key or a certificate", WRITE),
    (_holds(r"\A>\S[^\n]*\n[A-Za-z*-]+\s*$"), "sequences of FASTA", WRITE),
    (_holds(r"^```|^[-*] \[[ x]\] "), "a page of Markdown", WRITE),
    (_object(r'"format"\s*:\s*"remat-plan"'), "a plan", "give its graph, and the plan after it"),
    (_object(r'"traceEvents"\s*:|"ph"\s*:\s*"[XBEMi]"'), "the trace of a profiler", TIMES),
    (_object(r'"class_name"\s*:\s*"(Functional|Sequential|Model)"|"modelTopology"\s*:'), "a model of Keras", EXPORT),
    (_object(r'"nbformat"\s*:|"cell_type"\s*:'), "a notebook", RUN),
    (_object(r'"weight_map"\s*:'), "an index of weights", WEIGHTS),
    (_object(r'"architectures"\s*:\s*\['), "the configuration of a model", WEIGHTS),
    (_object(r'"node_row_ptr"\s*:|"tvm_version"\s*:'), "a graph of TVM", EXPORT),
    (_object(r'"arg_nodes"\s*:'), "a symbol of MXNet", EXPORT),
    (_object(r'"(hlo_module|hloModule|computations)"\s*:'), "HLO as JSON", LOWERED),
    (_object(r'"(operator_codes|operatorCodes)"\s*:'), "a TensorFlow Lite model as JSON", EXPORT),
    (_object(r'"(irVersion|ir_version|opsetImport|opset_import)"\s*:'), "an ONNX model as JSON", SAVE_ONNX),
    (_object(r'"graph_module"\s*:'), "a program of torch.export as JSON", CAPTURE),
    (_object(r"^\s*\{\s*lambda\b"), "a jaxpr", LOWERED),
    (
        _holds(r"Self (CPU|CUDA|XPU|device)( time)?( %| total|:)|^ *Name\b.*# of Calls"),
        "the table of a profiler",
        TIMES,
    ),
    (_holds(r"Layer \(type[):]|^Total params:"), "the summary of a model", CAPTURE),
    (
        _holds(r"\A\s*graph\(|\AExportedProgram:|= (placeholder|call_module|call_function)\[target="),
        "a graph of torch.fx as text",
        CAPTURE,
    ),
    (_holds(r"\A\s*\w+\(\n\s+\(\w+\): \w+\("), "a printed module of PyTorch", CAPTURE),
    (_holds(r"\A\s*HloModule\b"), "HLO text", LOWERED),
    (_holds(r"^[ \t]*layers?[ \t]*\{"), "a network of Caffe", EXPORT),
    (_holds(r"\A\s*node\s*\{\s*name:"), "a graph of TensorFlow as text", EXPORT),
    (_holds(r"\A\s*(<\?xml[^>]*>\s*)?<net\b"), "a model of OpenVINO", EXPORT),
    (_holds(r"\A\s*(<\?xml[^>]*>\s*)?(<!--[\s\S]*?-->\s*)?(<!DOCTYPE svg[^>]*>\s*)?<svg\b"), "a picture", WRITE),
    (_holds(r"(?i)\A\s*(<!DOCTYPE html|<html\b)"), "a web page", WRITE),
    (_holds(r"\A(?=[^\n]*\blower\b)[^\n]*\bupper\b"), "a table of buffers", "give it to remat allocate"),
    (_holds(r"\A(c[^\n]*\n)*s td \d"), "a tree decomposition", "give the graph: PACE .gr (docs/formats.md)"),
    (
        _holds(
            r"\A#!|\A(\"\"\"|import \w|from [\w.]+ import )"
            r"|\A\s*(#include\s*[<\"]|#define\s|#pragma\s|package\s+[\w.]+;?\s*\n|use\s+[\w:]+;|using\s+[\w.]+;)"
            r"|^[ \t]*(def \w+\(|class \w+[(:]|fn \w+\(|func \w+\(|function \w*\(|return\b[^\n]*;[ \t]*$)"
        ),
        "a program",
        RUN,
    ),
    (_ends(".log"), "a log", WRITE),
    (_ends(".md", ".markdown", ".rst"), "a page of text", WRITE),
    (_ends(".tex", ".bib"), "a text of LaTeX", WRITE),
    (_ends(".yaml", ".yml"), "YAML", WRITE),
    (_ends(".toml", ".ini", ".cfg", ".conf", ".properties", ".env"), "a file of settings", WRITE),
    (_ends(".smi", ".smiles", ".mol", ".sdf", ".xyz", ".pdb"), "a file of molecules", WRITE),
    (_ends(".mk", ".mak"), "a makefile", EDGES),
    (_ends(".mmd", ".mermaid"), "a diagram of Mermaid", EDGES),
    (_ends(*PROGRAMS), "a program", RUN),
)
"""Test, kind of file and advice; the first match counts."""


def what_it_is(path: Path) -> str | None:
    """The kind of a file that could not be read as a graph, and how to import it; None if unknown.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "model.bin"
    >>> _ = file.write_bytes(b"GGUF" + bytes(20))
    >>> what_it_is(file)
    'a GGUF file of weights; it has no graph; capture the model (docs/torch.md, docs/jax.md) or export it as ONNX \
(docs/onnx.md)'
    """
    try:
        if path.is_dir():
            return _folder(path)
        file = _seen(path)
    except OSError:
        return None
    return next((f"{what}; {way}" for sniff, what, way in KINDS if sniff(file)), None)


def _folder(path: Path) -> str | None:
    if (path / "saved_model.pb").exists():
        return f"a SavedModel of TensorFlow; {EXPORT}: python -m tf2onnx.convert"
    if (path / "config.json").exists() or any(path.glob("*.safetensors")):
        return f"a folder of weights; {WEIGHTS}"
    return None


def _seen(path: Path) -> _File:
    with open(path, "rb") as stream:
        data = stream.read(SHOWN)
    if data.startswith(GZIP):
        import gzip  # not needed by most runs
        import zlib

        with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) as whole:
            data = whole.read(SHOWN)
    names: tuple[str, ...] = ()
    if data.startswith(b"PK"):
        with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:  # a damaged one raises what it likes
            names = tuple(archive.namelist())
    bare = path.name.lower().removesuffix(".gz")
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return _File(Path(bare).suffix, data, text, names)
