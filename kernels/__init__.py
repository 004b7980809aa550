"""Compiled loops: arrays in, arrays out."""

from importlib.util import find_spec

if find_spec("remat_algos.kernels._lifetimes") is None:
    raise ImportError(
        "the kernels of remat_algos are not built; in the folder with setup.py run "
        "`python -m pip install -e .` (or `python setup.py build_ext --inplace`)"
    )
