"""File formats: of graphs, orders, mirror counts, buffers, tree decompositions."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.formats.graphs.json_text import from_json, to_json
    from remat_algos.formats.graphs.npz_bytes import from_npz, to_npz
    from remat_algos.formats.registry import GraphFormat, graph_formats, register

_HOMES = {
    "GraphFormat": "registry",
    "from_json": "graphs.json_text",
    "from_npz": "graphs.npz_bytes",
    "graph_formats": "registry",
    "register": "registry",
    "to_json": "graphs.json_text",
    "to_npz": "graphs.npz_bytes",
}

__all__ = ["GraphFormat", "from_json", "from_npz", "graph_formats", "register", "to_json", "to_npz"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
