"""Kinds of operations: what each saves, may overwrite, costs and computes; one file per family."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
