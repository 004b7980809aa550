"""The build: kernels/*.pyx become remat_algos.kernels.*; everything else stands in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

# -march=native and the like: for source builds on one's own machine, never for wheels that travel.
extra_flags = os.environ.get("REMAT_CFLAGS", "").split()

extensions = [
    Extension(f"remat_algos.kernels.{source.stem}", [str(source)], extra_compile_args=["-O3", *extra_flags])
    for source in sorted(Path("kernels").glob("_*.pyx"))
]

setup(
    options={"build_ext": {"parallel": os.cpu_count()}},  # a kernel takes a compiler some ten seconds
    packages=[*find_packages(include=["remat_algos", "remat_algos.*"]), "remat_algos.kernels"],
    package_dir={"remat_algos": "remat_algos", "remat_algos.kernels": "kernels"},
    package_data={"remat_algos": ["py.typed"], "remat_algos.kernels": ["*.pyx", "*.pxi"]},
    exclude_package_data={"": ["*.c", "*.cpp", "*.nbi", "*.nbc"]},
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    ),
)
