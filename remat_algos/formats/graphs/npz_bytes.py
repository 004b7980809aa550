"""Graphs as npz files with NumPy arrays and one JSON string; reading a file never executes code."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.files import MAX_EXPANSION, expanded_limit, json_of, read_limit, too_large
from remat_algos.formats.columns import fault
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Derivation, Labels, Resident
from remat_algos.wording import first_line

VERSION = 1
ARRAYS = ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output")
OPTIONAL_ARRAYS = ("forward_of", "mark")
BACKWARD = ("saved_indptr", "saved_indices", "grad_memory", "grad_compute", "grad_workspace")
REST = (
    *("version", "names", "value_names", "ops", "views", "compute_unit", "compute_scale", "resident_names"),
    "derivation",
)
RESIDENT = ("memory", "role", "read_indptr", "read_indices")


@checked_arguments
def to_npz(graph: ComputationGraph) -> bytes:
    """Return the graph as bytes of an npz file, suitable for millions of nodes and for other processes.

    Parameters
    ----------
    graph : ComputationGraph

    Returns
    -------
    bytes

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B")])
    >>> from_npz(to_npz(graph)).hash == graph.hash
    True
    """
    arrays = {name: getattr(graph, name) for name in ARRAYS}
    arrays |= {name: getattr(graph, name) for name in OPTIONAL_ARRAYS if getattr(graph, name) is not None}
    if graph.backward is not None:
        arrays |= {f"backward.{name}": getattr(graph.backward, name) for name in BACKWARD}
    if graph.resident is not None:
        arrays |= {f"resident.{name}": getattr(graph.resident, name) for name in RESIDENT}
    labels = graph.labels
    rest = {
        "version": VERSION,
        "names": None if labels.names is None else list(labels.names),
        "value_names": [[x, name] for x, name in labels.value_names.items()],
        "ops": labels.ops,
        "views": dict(labels.views),
        "compute_unit": labels.compute_unit,
        "compute_scale": labels.compute_scale,
        "resident_names": graph.resident.names if graph.resident is not None else None,
        "derivation": graph.derivation.record() if graph.derivation is not None else None,
    }
    arrays["remat_graph"] = np.frombuffer(json.dumps(rest).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def load_arrays(data: bytes, source: str, names: Collection[str] | None = None) -> dict[str, Any]:
    """Read all arrays of an npz file, or those in `names`; raise GraphError if they are too large."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        texts = [member for member in members if member.filename == "remat_graph.npy"]
        if any(member.file_size > expanded_limit(member.compress_size) for member in texts):
            packed = "the names are compressed by more than a factor of {times}; write the graph without compression"
            raise fault(source, packed, times=MAX_EXPANSION)
        if sum(member.file_size for member in members) > read_limit():
            raise too_large(source)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: np.asarray(arrays[name]) for name in arrays.files if names is None or name in names}


@checked_arguments
def from_npz(data: bytes, source: str = "npz") -> ComputationGraph:
    """Read a graph from bytes of `to_npz`; no code in them is executed.

    Parameters
    ----------
    data : bytes
    source : str
        Name of the bytes in messages.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    GraphError
        If the bytes are not such an npz file.

    Examples
    --------
    >>> from_npz(to_npz(ComputationGraph.from_edges([("A", "B")]))).labels.names
    ('A', 'B')
    """
    return ComputationGraph.from_arrays(**_parse(data, source))


def _parse(data: bytes, source: str) -> dict[str, Any]:
    try:
        stored = load_arrays(data, source)
        rest = json_of(bytes(stored.pop("remat_graph")))
        return _arguments(stored, rest, source)
    except GraphError:
        raise
    except Exception as error:
        reason = f"there is no {first_line(error)}" if isinstance(error, KeyError) else first_line(error)
        raise fault(source, "not an npz graph ({reason!w}); is the file whole?", reason=reason) from error


def _arguments(stored: dict[str, Any], rest: dict[str, Any], source: str) -> dict[str, Any]:
    if rest["version"] != VERSION:
        wrong = "version {version!r} is not supported; this release reads version {known}"
        raise fault(source, wrong, version=rest["version"], known=VERSION)
    expected = {*ARRAYS, *OPTIONAL_ARRAYS, *(f"backward.{name}" for name in BACKWARD)}
    unknown = [*stored.keys() - expected - {f"resident.{name}" for name in RESIDENT}, *rest.keys() - set(REST)]
    if unknown:
        raise fault(source, "{unknown!r} is not part of an npz graph; remove it", unknown=min(unknown))
    for name, array in stored.items():
        # NumPy would broadcast a scalar.
        if array.ndim != 1:
            raise ArgumentError("{name} has {ndim} dimensions, expected 1", name=name, ndim=array.ndim)
    if any(array.dtype.kind not in "biu" for array in stored.values()):
        raise ArgumentError("an array contains numbers of another type; give whole numbers")
    arguments: dict[str, Any] = {name: stored[name] for name in ARRAYS}
    arguments |= {name: stored.get(name) for name in OPTIONAL_ARRAYS}
    if "backward.saved_indptr" in stored:
        arguments["backward"] = Backward(**{name: stored[f"backward.{name}"] for name in BACKWARD})
    if "resident.memory" in stored:
        parts = {name: stored[f"resident.{name}"] for name in RESIDENT}
        arguments["resident"] = Resident(**parts, names=_texts(rest["resident_names"]))
    scale = rest["compute_scale"]
    if type(scale) is not int or scale < 1:
        raise ArgumentError("compute_scale is not a whole number of 1 or more")
    arguments["labels"] = Labels(
        names=_texts(rest["names"]) if rest["names"] is not None else None,
        value_names={int(x): name for x, name in rest["value_names"] if _texts([name])},
        ops=_texts(rest["ops"]) if rest["ops"] is not None else None,
        views=dict(zip(_texts(rest["views"]), _texts(rest["views"].values()), strict=True)),
        compute_unit=_texts([rest["compute_unit"]])[0],
        compute_scale=scale,
    )
    arguments["derivation"] = Derivation.of(rest["derivation"], source) if rest["derivation"] is not None else None
    return arguments


def _texts(entries: Iterable[Any]) -> tuple[str, ...]:
    texts = tuple(entries)
    if not all(isinstance(text, str) for text in texts):
        raise ArgumentError("a name is not text")
    return texts


GRAPH_FORMAT = GraphFormat("npz", from_npz, to_npz, (".npz",), begins=re.compile(b"PK\x03\x04"), binary=True)
