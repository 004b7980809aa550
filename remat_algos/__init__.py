"""Plan which values to drop and recompute, so that training a neural network fits in memory.

    edge list -> ComputationGraph -> solver -> Schedule -> Simulation -> Plan

Examples
--------
>>> import remat_algos as ra
>>> graph = ra.ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)])
>>> plan = ra.solve(ra.differentiate(graph), "100%")
>>> plan.simulation.peak_memory
6
"""

from __future__ import annotations

import functools as _functools
import importlib as _importlib
import os as _os

import lazy_loader as _lazy_loader

from remat_algos import hooks as _hooks
from remat_algos.forks import wait_at_forks as _wait_at_forks

# Defined here, since importing it from `typing` would slow down the import of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from typing import Any as _Any

__version__ = "0.1.0"

_get, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)

# These functions also accept a path or model:NAME instead of a graph. This module reads the graph, because inner
# packages such as `plan` do not import the file formats.
_READING = ("differentiate", "encode", "solve", "plan_policy", "compare", "frontier", "verify", "simulate", "what_if")

# A checkout contains its kernels next to this package instead of inside it. In the root of a checkout, Python imports
# this copy rather than an installed package, so the kernels must be found from here.
_root = _os.path.dirname(_os.path.dirname(_os.path.realpath(__file__)))
if all(map(_os.path.exists, (f"{_root}/kernels/__init__.py", f"{_root}/setup.py"))):
    __path__.append(_root)
del _root


def _html(subject: object) -> str | None:
    text: str | None = _importlib.import_module(f"{__name__}.plot.html").html(subject)
    return text


def _reading(function: _Callable[..., _Any]) -> _Callable[..., _Any]:
    """Wrap a function that takes a graph, so that it also accepts the path of a graph file."""

    @_functools.wraps(function)
    def read_first(graph: _Any, *arguments: _Any, **options: _Any) -> _Any:
        if isinstance(graph, str | _os.PathLike):
            graph = _importlib.import_module(f"{__name__}.formats.graph_files").read_graph(graph)
        return function(graph, *arguments, **options)

    read_first.__module__ = __name__  # so that pickle finds it
    return read_first


_wait_at_forks()
_hooks.draw = _html
_hooks.format_folders = (f"{__name__}.formats.graphs", f"{__name__}.interop.model_files")


def __getattr__(name: str) -> object:
    try:
        found = _get(name)
    except AttributeError as error:
        rooms = (f"{__name__}.{room}" for room in __all__ if _os.path.isdir(f"{_os.path.dirname(__file__)}/{room}"))
        homes = (f"{room}.{name}" for room in rooms if name in _importlib.import_module(room).__all__)
        if name.startswith("_") or not (home := next(homes, "")):
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it is {home}") from error
    if name in _READING:
        found = globals()[name] = _reading(found)
    return found
