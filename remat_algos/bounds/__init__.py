"""Lower bounds that hold for every schedule."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.bounds.compute import ComputeBound, closure_cut, overhead_bound

__all__ = ["ComputeBound", "closure_cut", "overhead_bound"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.compute"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
