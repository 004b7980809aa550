"""PyTorch models, planned and run within a budget."""

import lazy_loader

from remat_algos.interop.optional import require

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        require("torch", "torch")  # or one sentence that says how to install it
    return _get(name)
