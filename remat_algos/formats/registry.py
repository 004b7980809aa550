"""Formats of graphs, found by looking into the folder `graphs`."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from remat_algos.formats import graphs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables


@dataclass(frozen=True, slots=True, eq=False)
class GraphFormat:
    """How graphs are recognized, read and written in one format, a file per graph.

    Parameters
    ----------
    name : str
        As messages call it.
    read : callable
        From a text, of `binary` formats bytes, and the name of the file for messages, to rows or to the graph.
    write : callable, optional
        From a graph to a text or bytes; without it the format is only read.
    endings : tuple of str
        Names of files end so: an ending selects the format where a graph is written, and where the content of a file
        could be of several formats.
    sniff : callable, optional
        Whether a content, text or bytes, can be of no other format; also gets the ending of the file.
    binary : bool
    edges_only : bool
        Files hold no sizes and costs: a table of nodes may give them.
    size_from, cost_from : str
        What gives sizes and costs in a file, for messages.
    """

    name: str
    read: Callable[[Any, str], Tables | ComputationGraph]
    write: Callable[[ComputationGraph], str | bytes] | None = None
    endings: tuple[str, ...] = ()
    sniff: Callable[[Any, str], bool] | None = None
    binary: bool = False
    edges_only: bool = False
    size_from: str = "a memory column"
    cost_from: str = "a compute column"


_FORMATS: dict[str, GraphFormat] = {}


def register(form: GraphFormat) -> None:
    """Let graphs be read and written in a format; an earlier one of the same name is replaced.

    Parameters
    ----------
    form : GraphFormat

    Examples
    --------
    A format whose files hold as many nodes of a chain as they have characters.

    >>> def read(text, source):
    ...     return ComputationGraph.from_edges([(i, i + 1) for i in range(len(text) - 1)])
    >>> register(GraphFormat("tally", read, endings=(".tally",)))
    >>> "tally" in [form.name for form in graph_formats()]
    True
    >>> del _FORMATS["tally"]
    """
    _FORMATS[form.name] = form


def graph_formats() -> list[GraphFormat]:
    """The registered formats, by name.

    Returns
    -------
    list of GraphFormat

    Examples
    --------
    >>> [form.name for form in graph_formats() if ".npz" in form.endings]
    ['npz']
    """
    for folder in graphs.__path__:
        for file in sorted(os.listdir(folder)):
            if file.endswith(".py") and not file.startswith("_"):
                importlib.import_module(f"{graphs.__name__}.{file.removesuffix('.py')}")
    return [_FORMATS[name] for name in sorted(_FORMATS, key=str.lower)]
