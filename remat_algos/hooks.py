"""Hooks that `remat_algos/__init__.py` sets, since inner packages do not import outer ones."""

from __future__ import annotations

# Defined here, since importing it from `typing` would slow down the import of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

draw: Callable[[Any], str | None] | None = None
"""Returns the notebook HTML of graphs, simulations, plans and frontiers."""

format_folders: tuple[str, ...] = ("remat_algos.formats.graphs",)
"""Packages in which every module defines a `GRAPH_FORMAT`."""


def html(subject: Any) -> str | None:
    """Return HTML for a notebook, or None if the notebook is to show text."""
    return None if draw is None else draw(subject)
