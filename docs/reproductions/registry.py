"""Papers, found in this folder."""

import importlib
import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType

import docs.reproductions as room
from docs.reproductions.page import Page
from remat_algos.context import Clock, Progress
from remat_algos.errors import GraphError
from remat_algos.wording import quoted

ONE_OF_MANY = 0.05  # share of the remaining progress for one measurement
MakePage = Callable[[bool, Progress | None], Page]
_PAPER = re.compile(r"[a-z]+[0-9]{4}")  # folders are named by the paper's key in docs/references.bib


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
    """The function that measures a paper: `page(quick, progress)`, with `quick` within seconds on small networks.

    The number of measurements is unknown: each counts as a small part of the remaining progress.

    Raises
    ------
    GraphError
        If the paper is unknown; similar names are suggested.
    """
    make: MakePage = _module(paper, ".study").page

    def page(quick: bool, progress: Progress | None) -> Page:
        if progress is None:
            return make(quick, None)
        clock = Clock(progress=progress)
        found = make(quick, _by_measurement(clock))
        clock.finish()
        return found

    return page


def _by_measurement(clock: Clock) -> Progress:
    """A callback for successive measurements: if its first number falls, the next one has begun."""
    last, report = 0.0, clock.within_stage(ONE_OF_MANY)

    def forward(done: int, total: int, what: str) -> None:
        nonlocal last, report
        if done / total < last:
            report = clock.within_stage(ONE_OF_MANY)
        last = done / total
        if report is not None:
            report(done, total, what)

    return forward


def _module(paper: str, file: str = "") -> ModuleType:
    known = list_papers()
    if paper not in known:
        near = get_close_matches(paper, known, n=3, cutoff=0.4)
        offer = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise GraphError(f"there is no reproduction of the paper {quoted(paper)}; {offer}")
    return importlib.import_module(f"{room.__name__}.{paper}{file}")
