"""Names of outer packages that `remat_algos/__init__.py` sets for inner packages, which do not import them."""

from __future__ import annotations

# Not imported from `typing`, which would slow down the import of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

draw: Callable[[Any], str | None] | None = None
"""Draws the notebook HTML of graphs, simulations, plans and frontiers."""

format_folders: tuple[str, ...] = ("remat_algos.formats.graphs",)
"""Packages in which every module defines a `GRAPH_FORMAT`."""


def html(subject: Any) -> str | None:
    """Return HTML for a notebook; None if the subject is shown as text."""
    return None if draw is None else draw(subject)
