"""Graph formats, found in the folder `graphs` and in the folder of formats that other libraries read."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from remat_algos import hooks
from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import Tables
from remat_algos.registry import modules_in

_ENDING = re.compile(r"\.[^.\s/\\A-Z]+")


@dataclass(frozen=True, slots=True, eq=False)
class GraphFormat:
    """One format of graphs, a file per graph: how it is recognized, read and written.

    Parameters
    ----------
    name : str
        Name in messages.
    read : callable
        From a text (bytes if `binary`), and the name of the file for messages, to rows or to the graph; to rows if
        `edges_only`.
    write : callable, optional
        From a graph to a text or bytes; without it the format is only read.
    endings : tuple of str
        File name endings, in any case: they select the format in which a graph is written, and decide if the content
        could be of several formats.
    begins : re.Pattern, optional
        Pattern at the beginning of contents. Other contents are not sniffed, unless the file has one of the endings.
    sniff : callable, optional
        True if a content, text or bytes, can be of no other format; also gets the ending of the file. Without it
        `begins` decides, and without both the ending alone.
    binary : bool
    dims : bool
        `read` also takes `dims`, a mapping of lengths after the path: FILE?batch=8.
    edges_only : bool
        Files hold no sizes and costs: a table of nodes may give them.
    size_from, cost_from : str
        Source of sizes and costs in a file, for messages.

    Raises
    ------
    ValueError
        If `endings` is not a tuple of endings such as ".json", or `begins` not a pattern of text, or of bytes if the
        format is binary.
    """

    name: str
    read: Callable[..., Tables | ComputationGraph]
    write: Callable[[ComputationGraph], str | bytes] | None = None
    endings: tuple[str, ...] = ()
    begins: re.Pattern[Any] | None = field(default=None, repr=False)
    sniff: Callable[[Any, str], bool] | None = None
    binary: bool = False
    dims: bool = False
    edges_only: bool = False
    size_from: str = "a memory column"
    cost_from: str = "a compute column"

    def __post_init__(self) -> None:
        endings = self.endings if isinstance(self.endings, tuple) else [None]
        if not all(isinstance(ending, str) and _ENDING.fullmatch(ending) for ending in endings):
            wrong = (
                "the endings of format {name} are {endings!r}; give a tuple of endings in lower case, each with its "
                'only dot in front, such as (".json",)'
            )
            raise ArgumentError(wrong, name=self.name, endings=self.endings)
        kind = bytes if self.binary is True else str
        if self.begins is not None and not isinstance(getattr(self.begins, "pattern", None), kind):
            example = 'b"MAGIC"' if kind is bytes else 'r"magic\\b"'
            wrong = "what format {name} begins with is {begins!r}; give re.compile({example}), a pattern of {kind}"
            raise ArgumentError(wrong, name=self.name, begins=self.begins, example=example, kind=kind.__name__)


def claims(form: GraphFormat, content: str | bytes, ending: str) -> bool:
    """True if a file is of that format and no other; by its ending, if the content does not decide."""
    if form.begins is None and form.sniff is None:
        return ending in form.endings
    begins = form.begins is None or form.begins.match(content) is not None
    if form.sniff is None:
        return begins
    return (begins or ending in form.endings) and form.sniff(content, ending)


@checked_arguments
def register(form: GraphFormat) -> None:
    """Register a format for reading and writing graphs; an earlier one of the same name is replaced.

    If several formats could read a content or write an ending, the newest does; binary formats are tried first.

    Parameters
    ----------
    form : GraphFormat

    Raises
    ------
    TypeError
        If `form` is not a GraphFormat.

    Examples
    --------
    The number of characters in a file is the number of nodes of a chain.

    >>> def read(text, source):
    ...     return ComputationGraph.from_edges([(i, i + 1) for i in range(len(text) - 1)])
    >>> register(GraphFormat("tally", read, endings=(".tally",)))
    >>> graph_formats()[0].name
    'tally'
    >>> del _known()[0]
    """
    known = _known()
    known[:] = [form, *(other for other in known if other.name != form.name)]


def graph_formats() -> list[GraphFormat]:
    """The formats in the order in which they are tried: registered ones, the newest first, then the package's own.

    Returns
    -------
    list of GraphFormat

    Examples
    --------
    >>> [form.name for form in graph_formats() if ".npz" in form.endings]
    ['npz']
    """
    return list(_known())


@cache
def _known() -> list[GraphFormat]:
    """Return the `GRAPH_FORMAT` of each file of the folders, until `register` adds others."""
    packages = map(importlib.import_module, hooks.format_folders)
    files = (f"{package.__name__}.{name}" for package in packages for name in modules_in(package))
    return [importlib.import_module(file).GRAPH_FORMAT for file in files]
