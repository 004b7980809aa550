"""Hook for the notebook HTML of graphs, simulations and plans, so that their types import no plotting."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: this is loaded with the package, which loads nothing that takes time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

draw: Callable[[Any], str | None] | None = None
"""Set by `remat_algos/__init__.py`."""


def html(subject: Any) -> str | None:
    """HTML for a notebook; None where nothing draws it, and the notebook shows its line."""
    return None if draw is None else draw(subject)
