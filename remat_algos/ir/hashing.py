"""The identity of a graph, whatever file it came from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph


def graph_hash(graph: ComputationGraph) -> str:
    """SHA-256 of arrays and names."""
    digest = hashlib.sha256(b"remat-graph 1")

    def add(name: str, content: Any) -> None:
        data = content.tobytes() if isinstance(content, np.ndarray) else "\0".join(content or ()).encode()
        digest.update(f"\0{name} {len(data)}\0".encode() + data)

    for name in ("value_indptr", "read_indptr", "read_indices", "memory", "compute", "workspace", "once", "output"):
        add(name, getattr(graph, name))
    add("forward_of", graph.forward_of)
    add("mark", graph.mark)
    for part, names in (
        (graph.backward, ("saved_indptr", "saved_indices", "grad_memory", "grad_compute", "grad_workspace")),
        (graph.resident, ("memory", "role", "read_indptr", "read_indices", "names")),
    ):
        for name in names if part is not None else ():
            add(f"{type(part).__name__}.{name}", getattr(part, name))
    add("names", graph.labels.names)
    add("value_names", [f"{x} {name}" for x, name in sorted(graph.labels.value_names.items())])
    return digest.hexdigest()
