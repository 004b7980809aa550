"""Graphs of JAX functions, and plans run in JAX: `capture`, `run`, `names`, `apply`.

f, args -> capture -> CapturedFunction -> solve(captured.graph) -> run, or apply under jax.jit
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
