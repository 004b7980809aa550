"""Registry of graph formats: the modules in `graphs`, formats that need other libraries, and registered formats."""

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
    """A graph format with one file per graph, and functions to recognize, read and write it.

    Parameters
    ----------
    name : str
        Name in messages.
    read : callable
        Function of the content (text, or bytes if `binary`) and the file name, which messages contain. It returns rows
        or a graph; if `edges_only`, it must return rows.
    write : callable, optional
        Function that converts a graph to text or bytes; without it the format can only be read.
    endings : tuple of str
        File name extensions, in lower case. They select the format for writing, and for reading if the content matches
        several formats.
    begins : re.Pattern, optional
        Pattern that the start of the content must match. Other content is passed to `sniff` only if the file has one of
        the extensions.
    sniff : callable, optional
        Function of the content and the file name extension; it returns True if the content has this format. If `sniff`
        is missing, `begins` decides. If both are missing, the extension decides.
    binary : bool
        Content is bytes instead of text.
    dims : bool
        `read` also takes `dims`, a mapping of the dimension lengths that follow the path, as in FILE?batch=8.
    edges_only : bool
        Files contain no sizes and costs; a table of nodes can add them.
    size_from, cost_from : str
        Descriptions of where a file contains sizes and costs, for messages.

    Raises
    ------
    ValueError
        If `endings` is not a tuple of extensions such as ".json", or `begins` is not a pattern for text (for bytes if
        `binary`).
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
            wrong = "`begins` of format {name} is {begins!r}; give re.compile({example}), a pattern of {kind}"
            raise ArgumentError(wrong, name=self.name, begins=self.begins, example=example, kind=kind.__name__)


def claims(form: GraphFormat, content: str | bytes, ending: str) -> bool:
    """Return True if a format recognizes a file, by its content or, failing that, by its extension."""
    if form.begins is None and form.sniff is None:
        return ending in form.endings
    begins = form.begins is None or form.begins.match(content) is not None
    if form.sniff is None:
        return begins
    return (begins or ending in form.endings) and form.sniff(content, ending)


@checked_arguments
def register(form: GraphFormat) -> None:
    """Register a format for reading and writing graphs; it replaces a format of the same name.

    If several formats recognize a file, the newest is used; binary formats are tried first.

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
    """List the formats in the order in which they are tried: registered formats, newest first, then the package's own.

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
    packages = map(importlib.import_module, hooks.format_folders)
    files = (f"{package.__name__}.{name}" for package in packages for name in modules_in(package))
    return [importlib.import_module(file).GRAPH_FORMAT for file in files]
