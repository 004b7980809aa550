"""Graphs of JAX functions, and plans run in JAX: `capture`, `run`, `names`, `offloaded_names`, `apply`.

f, args -> capture -> CapturedFunction -> solve(captured.graph) -> run, or apply under jax.jit
"""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "captured": "CapturedFunction capture",
        "eager": "run",
        "policies": "apply names offloaded_names",
        "scans": "plan_scans",
    },
)
