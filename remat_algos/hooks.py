"""What `remat_algos/__init__.py` lends to inner packages from outer ones, which they do not import."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: importing the package must stay fast
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

draw: Callable[[Any], str | None] | None = None
"""Draws the notebook HTML of graphs, simulations, plans and frontiers."""

format_folders: tuple[str, ...] = ("remat_algos.formats.graphs",)
"""Packages whose files have a `GRAPH_FORMAT` each; `interop.model_files` is added."""


def html(subject: Any) -> str | None:
    """HTML for a notebook; None, for the text form, if nothing draws the subject."""
    return None if draw is None else draw(subject)
