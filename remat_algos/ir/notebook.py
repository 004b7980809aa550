"""Hook for the notebook HTML of graphs, simulations, plans and frontiers, so that their types import no plotting."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: importing the package must stay fast
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

draw: Callable[[Any], str | None] | None = None
"""Set by `remat_algos/__init__.py`."""


def html(subject: Any) -> str | None:
    """HTML for a notebook; None, for the text form, if nothing draws the subject."""
    return None if draw is None else draw(subject)
