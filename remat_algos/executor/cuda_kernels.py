"""The kernels of kernels/cuda, compiled by CuPy on first use."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from remat_algos.cost.backends import CUDA_PARTS
from remat_algos.errors import BackendError
from remat_algos.text.wording import first_line


def cuda_kernels(cupy: Any, file: str, *names: str) -> list[Any]:
    """Kernels of a file, built once for each device.

    Parameters
    ----------
    cupy : module
    file : str
        In kernels/cuda.
    *names : str

    Returns
    -------
    list of cupy.RawKernel

    Raises
    ------
    BackendError
        If there is no compiler.

    Examples
    --------
    >>> class Here:  # in place of CuPy
    ...     cuda = type("cuda", (), {"runtime": type("runtime", (), {"getDevice": lambda: 0})})
    ...     RawModule = lambda code: type("Module", (), {"get_function": lambda self, name: name})()
    >>> cuda_kernels(Here, "mixing.cu", "mix", "checksum")
    ['mix', 'checksum']
    """
    return _built(cupy.RawModule, cupy.cuda.runtime.getDevice(), file, names)


def try_kernels(cupy: Any) -> None:
    """Build the kernels of every file and launch one of each; BackendError if the device does not do what they say."""
    (checksum,) = cuda_kernels(cupy, "mixing.cu", "checksum")
    (keep_busy,) = cuda_kernels(cupy, "busy.cu", "keep_busy")
    found, word = cupy.zeros(1, "uint32"), cupy.zeros(4, "uint8")
    word.fill(1)
    try:
        keep_busy((1,), (1,), (np.int64(0),))
        checksum((1,), (32,), (word, np.int64(4), found))
        total = int(found[0])
    except Exception as error:
        message = f"the CUDA device does not run kernels ({first_line(error)}); free it, or use backend numpy"
        raise BackendError(message) from error
    if total == 0:
        raise BackendError("the CUDA device runs kernels without effect; reinstall CuPy, or use backend numpy")


@cache
def _built(raw_module: Any, device: int, file: str, names: tuple[str, ...]) -> list[Any]:
    source = files("remat_algos.kernels").joinpath("cuda", file).read_text(encoding="utf-8")
    module = raw_module(code=source)
    try:
        return [module.get_function(name) for name in names]
    except Exception as error:  # without a compiler, CuPy raises several kinds
        raise BackendError(f"CuPy cannot build kernels here ({first_line(error)}); {CUDA_PARTS}") from error
