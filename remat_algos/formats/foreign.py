"""Recognition of files that are not graphs for this package, by content, with advice on how to import them."""

import contextlib
import re
import zipfile
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


KINDS: tuple[tuple[Sniff, str, str], ...] = (
    (_archive(r"(^|/)constants\.pkl$"), "a TorchScript program", CAPTURE),
    (_archive(r"(^|/)(models/model\.json|serialized_exported_program\.json)$"), "a program of torch.export", CAPTURE),
    (_archive(r"(^|/)data\.pkl$"), "a checkpoint of PyTorch", CAPTURE),
    (_archive(r"^(model\.weights\.h5|metadata\.json)$"), "a model of Keras", EXPORT),
    (_archive(r"^xl/"), "an Excel workbook", TEXT),
    (_archive(r"^content\.xml$"), "an OpenDocument file", TEXT),
    (_archive(r"^word/"), "a Word document", WRITE),
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
    (_object(r'"format"\s*:\s*"remat-plan"'), "a plan", "give its graph, and the plan after it"),
    (_object(r'"traceEvents"\s*:|"ph"\s*:\s*"[XBEMi]"'), "the trace of a profiler", TIMES),
    (_object(r'"class_name"\s*:\s*"(Functional|Sequential|Model)"|"modelTopology"\s*:'), "a model of Keras", EXPORT),
    (_object(r'"nbformat"\s*:|"cell_type"\s*:'), "a notebook", RUN),
    (_object(r'"weight_map"\s*:'), "an index of weights", WEIGHTS),
    (_object(r'"architectures"\s*:\s*\['), "the configuration of a model", WEIGHTS),
    (_object(r'"arg_nodes"\s*:'), "a symbol of MXNet", EXPORT),
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
    (_holds(r"\A#!|\A(\"\"\"|import \w|from [\w.]+ import )"), "a program", RUN),
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
    return _File(Path(bare).suffix, data, data.decode("utf-8-sig", "replace"), names)
