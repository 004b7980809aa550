"""Graphs of JAX functions, and plans applied in JAX: `capture`, `run`, `names`, `apply`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
