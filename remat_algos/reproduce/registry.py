"""Papers, found by looking into this folder."""

import importlib
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType

import remat_algos.reproduce as room
from remat_algos.context import Progress
from remat_algos.errors import GraphError
from remat_algos.reproduce.page import Page
from remat_algos.text.wording import quoted

MakePage = Callable[[bool, Progress | None], Page]
_PAPER = re.compile(r"[a-z]+[0-9]{4}")  # a folder is called as its paper in docs/references.bib


def list_papers() -> list[str]:
    """Keys of the papers whose tables and figures can be made.

    Examples
    --------
    >>> "chen2016" in list_papers()
    True
    """
    names = ((folder, name) for folder in room.__path__ for name in os.listdir(folder) if _PAPER.fullmatch(name))
    return sorted(name for folder, name in names if os.path.exists(os.path.join(folder, name, "study.py")))


def summary(paper: str) -> str:
    """The first line of the docstring of its folder."""
    return (_module(paper).__doc__ or "").split("\n")[0]


def get_page(paper: str) -> MakePage:
    """The function that measures a paper: `page(quick, progress)`, with `quick` on small networks, in seconds.

    Raises
    ------
    GraphError
        If there is no such paper; the nearest names are suggested.
    """
    page: MakePage = _module(paper, ".study").page
    return page


def _module(paper: str, file: str = "") -> ModuleType:
    known = list_papers()
    if paper not in known:
        near = get_close_matches(paper, known, n=3, cutoff=0.4)
        offer = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise GraphError(f"there is no reproduction of the paper {quoted(paper)}; {offer}")
    return importlib.import_module(f"{room.__name__}.{paper}{file}")
