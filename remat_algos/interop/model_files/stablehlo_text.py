"""StableHLO modules as text, which `jax.jit(g).lower(*args).as_text()` writes."""

import re

from remat_algos.formats.registry import GraphFormat
from remat_algos.interop.optional import reading_needs
from remat_algos.ir.graph import ComputationGraph

_BEGIN = re.compile(r"(?:\s|//[^\n]*\n|#loc[^\n]*\n)*+module\b")


def _read(text: str, source: str) -> ComputationGraph:
    with reading_needs("jax", "StableHLO", source):
        from remat_algos.interop import stablehlo
    return stablehlo.capture(text.encode())


def _sniff(text: str, ending: str) -> bool:
    return ending in GRAPH_FORMAT.endings or (_BEGIN.match(text) is not None and "stablehlo." in text)


GRAPH_FORMAT = GraphFormat("StableHLO", _read, endings=(".mlir", ".stablehlo"), sniff=_sniff)
