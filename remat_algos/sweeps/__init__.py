"""Sweeps: solve many jobs on any executor, and collect their results in one folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
