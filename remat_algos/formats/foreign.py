"""Files that are often taken for graphs and are none, recognized by content, with advice on how to import them."""

import contextlib
import re
import zipfile
from pathlib import Path

SHOWN = 2**16
"""Bytes of a file that are looked at."""

PICKLED = tuple(bytes([0x80, version]) for version in range(2, 6))
TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9"
"""In the pickle that begins a checkpoint of early versions of PyTorch."""

CHECKPOINT = (
    "a checkpoint of PyTorch; capture the model: remat_algos.interop.torch.capture(model, inputs) (docs/torch.md)"
)
EXPORT = "export the model as ONNX, which is read (docs/onnx.md)"
KERAS = f"a model of Keras; {EXPORT}"
TENSORFLOW = f"a graph of TensorFlow; {EXPORT}: python -m tf2onnx.convert"
WORKBOOK = "an Excel workbook; save the table as CSV (docs/formats.md)"
PROFILE = (
    "the table of a profiler; it has no sizes and no edges; "
    'capture the model, with cost="profile" for measured times (docs/torch.md)'
)

IN_ARCHIVES = {"data.pkl": CHECKPOINT, "model.weights.h5": KERAS, "workbook.xml": WORKBOOK}
BEGINNINGS = {
    rb"\x89HDF\r\n\x1a\n": KERAS,
    rb'(?s)\s*\{.*"class_name"\s*:\s*"(Functional|Sequential|Model)"': KERAS,
    # A SavedModel has its version, then a meta graph; a GraphDef a node, which begins with its name.
    rb"\x08\x01\x12[\x80-\xff]{1,5}[\x00-\x7f]\x0a": TENSORFLOW,
    rb"(?s)\x0a.{1,3}?\x0a(?=.*(Const|Placeholder))": TENSORFLOW,
    rb"(?s).*(Self (CPU|CUDA|XPU|device)( time)?( %| total|:)|\n *Name\b[^\n]*# of Calls)": PROFILE,
}


def what_it_is(path: Path) -> str | None:
    """The kind of a file that could not be read as a graph, and how to import it; None if unknown.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "model.bin"
    >>> _ = file.write_bytes(b"\\x89HDF\\r\\n\\x1a\\n")
    >>> what_it_is(file)
    'a model of Keras; export the model as ONNX, which is read (docs/onnx.md)'
    """
    try:
        if path.is_dir():
            return TENSORFLOW if (path / "saved_model.pb").exists() else None
        with open(path, "rb") as stream:
            data = stream.read(SHOWN)
    except OSError:
        return None
    if data.startswith(b"PK"):
        with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:  # a damaged one raises what it likes
            names = {name.rpartition("/")[2] for name in archive.namelist()}
            return next((kind for name, kind in IN_ARCHIVES.items() if name in names), None)
    if data.startswith(PICKLED) and TORCH_MAGIC in data[:20]:
        return CHECKPOINT
    return next((kind for beginning, kind in BEGINNINGS.items() if re.match(beginning, data)), None)
