"""Graph format of StableHLO text, which `jax.jit(g).lower(*args).as_text()` and `exported.mlir_module()` return."""

import re
from collections.abc import Mapping

from remat_algos.errors import GraphError
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.graph import ComputationGraph

_START = re.compile(r"(?:\s|//[^\n]*\n|#loc[^\n]*\n)*+module\b")


def _read(text: str, source: str, dims: Mapping[str, int] | None = None) -> ComputationGraph:
    try:
        from remat_algos.interop import stablehlo

        return stablehlo.capture(text.encode(), dims)
    except ImportError as error:
        raise GraphError("{source!p}: {error!e}", source=source, error=error) from error


def _sniff(text: str, ending: str) -> bool:
    return ending in GRAPH_FORMAT.endings or (_START.match(text) is not None and "stablehlo." in text)


GRAPH_FORMAT = GraphFormat("StableHLO", _read, endings=(".mlir", ".stablehlo"), begins=_START, sniff=_sniff, dims=True)
