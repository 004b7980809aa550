"""Networks with real shapes, and synthetic graphs."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.models import random as random
    from remat_algos.models.registry import build, list_models

__all__ = ["build", "list_models"]


def __getattr__(name: str) -> Any:
    if name == "random":
        return importlib.import_module(f"{__name__}.random")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.registry"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "random"})
