"""Compiled kernels: functions and classes that take arrays and return arrays."""

from pathlib import Path

from remat_algos.kernels._built import build_fault

if fault := build_fault(Path(__file__).parent):
    raise ImportError(
        f"{fault}; in the folder with setup.py run `python -m pip install -e .` "
        "(or `python setup.py build_ext --inplace`)"
    )
