"""Plans for PyTorch models, and training within a memory budget."""

import lazy_loader

from remat_algos.interop.optional import require

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        require("torch", "torch")
    return _get(name)
