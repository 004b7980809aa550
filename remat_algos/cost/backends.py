"""Backends that run plans: NumPy on the processors, CuPy on a GPU. `gpu_missing` returns why CuPy is unavailable."""

from __future__ import annotations

import importlib
import os
import platform
import warnings
from typing import Any

from remat_algos.errors import BackendError
from remat_algos.wording import first_line, install_command

BACKENDS = ("numpy", "cupy")
CUDA_PARTS = "install the missing parts of CUDA: python -m pip install 'cupy-cuda13x[ctk]' (or cuda12x)"
"""The remedy if CuPy cannot compile kernels or multiply matrices: its plain wheels lack NVRTC and cuBLAS."""


def processors() -> str:
    """Return a description of this machine's processors."""
    return f"{platform.processor() or platform.machine()} with {os.cpu_count()} processors"


def usable_cupy() -> Any:
    """Return CuPy after a test computation on its GPU; raise BackendError if that fails."""
    cupy, missing = _cupy()
    if missing is not None:
        raise BackendError("backend cupy cannot run here: {missing!w}", missing=missing)
    return cupy


def gpu_missing() -> str | None:
    """Return the reason why CuPy cannot use a GPU, as one sentence with the remedy, or None if it can.

    Returns
    -------
    str, optional

    Examples
    --------
    >>> reason = gpu_missing()
    >>> reason is None or "; " in reason
    True
    """
    return _cupy()[1]


def _cupy() -> tuple[Any, str | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cupy = importlib.import_module("cupy")
    except Exception as error:  # not only ImportError
        if isinstance(error, ImportError) and error.name == "cupy":
            return None, f"CuPy is not installed; run {install_command('cuda12')} in a checkout (or cuda13)"
        reason = first_line(error)
        return None, f"CuPy cannot be loaded ({reason}); install it again for the CUDA version of this machine"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        if "NoDevice" not in str(error):
            reason = first_line(error)
            return None, f"CuPy finds no CUDA driver that it can use ({reason}); install one, or use backend numpy"
        count = 0
    if count == 0:
        return None, "CuPy finds no CUDA device; run on a machine with an NVIDIA GPU, or use backend numpy"
    try:
        array = cupy.zeros(1, "uint8")
        int(array[0])  # a listed device may fail
    except Exception as error:
        return None, f"the CUDA device cannot compute ({first_line(error)}); free it, or use backend numpy"
    try:
        array.fill(1)  # compiles a kernel, unlike zeros
        int(array[0])
    except Exception as error:
        return None, f"CuPy cannot build kernels here ({first_line(error)}); {CUDA_PARTS}"
    return cupy, None
