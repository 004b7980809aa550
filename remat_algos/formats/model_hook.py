"""Hook for formats of models that other libraries read, so that this package does not import `interop`."""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: this is loaded with the package, which loads nothing that takes time
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

folder: Callable[[], ModuleType] | None = None
"""The package whose files have a `GRAPH_FORMAT` each; set by `remat_algos/__init__.py`."""
