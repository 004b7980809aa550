"""Modules for optional frameworks are not collected where the framework is missing."""

import importlib.util

FRAMEWORKS = {"torch": "torch", "jax": "jax*", "onnx": "onnx*", "jaxlib": "stablehlo*"}
"""Library, and the modules in remat_algos/interop that import it when they are loaded."""

collect_ignore = [
    "tests/sweep_solvers.py",  # solvers that go wrong are registered where it is imported
    "tests/benchmarks/asv/tracked",  # it lists all tests of benchmarks where it is imported
]
if importlib.util.find_spec("transformers") is None:
    collect_ignore += ["tests/benchmarks/torch_checkpoints.py", "tests/benchmarks/torch_llama.py"]

collect_ignore_glob = [
    pattern
    for library, module in FRAMEWORKS.items()
    if importlib.util.find_spec(library) is None
    for pattern in (
        f"remat_algos/interop/{module}",
        f"remat_algos/interop/{module}/*",
        f"tests/interop/{module}_*",
        f"tests/interop/test_{module}*.py",
        f"tests/benchmarks/{module}_*.py",
    )
]
