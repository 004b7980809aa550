"""The kernels of kernels/cuda, compiled by CuPy on first use."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

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


@cache
def _built(raw_module: Any, device: int, file: str, names: tuple[str, ...]) -> list[Any]:
    source = files("remat_algos.kernels").joinpath("cuda", file).read_text(encoding="utf-8")
    module = raw_module(code=source)
    try:
        return [module.get_function(name) for name in names]
    except Exception as error:  # without a compiler, CuPy raises several kinds
        remedy = "install NVRTC: python -m pip install nvidia-cuda-nvrtc-cu12 (or nvidia-cuda-nvrtc), for your CUDA"
        raise BackendError(f"CuPy cannot compile kernels here ({first_line(error)}); {remedy}") from error
