"""The build: kernels/*.pyx become remat_algos.kernels.*; everything else stands in pyproject.toml.

REMAT_CFLAGS adds flags for the compiler: -march=native and the like for your own machine, never for wheels that travel.
REMAT_CHECKED=1 builds with bounds checks, AddressSanitizer and UndefinedBehaviorSanitizer: see docs/contributing.md.
"""

import hashlib
import os
import runpy
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

try:
    import Cython
    from Cython.Build import cythonize
except ModuleNotFoundError:
    raise SystemExit("building remat_algos needs Cython; run `python -m pip install 'Cython>=3.1'`") from None
if tuple(map(int, Cython.__version__.split(".")[:2])) < (3, 1):
    raise SystemExit(
        f"building remat_algos needs Cython 3.1 or newer, and this is {Cython.__version__}; "
        "run `python -m pip install 'Cython>=3.1'`"
    )

CHECKED = os.environ.get("REMAT_CHECKED", "") not in ("", "0")
THIS = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
BUILD = f"build/{'checked' if CHECKED else 'plain'}-cython-{Cython.__version__}-{THIS}"  # no tool notices other options
SANITIZERS = ["-fsanitize=address,undefined"]

flags, link_flags = [], []
if os.name == "posix" and CHECKED:  # Python's own -fwrapv would hide overflow
    flags = ["-O1", "-g1", "-fno-omit-frame-pointer", *SANITIZERS, "-fno-sanitize=vptr", "-fno-wrapv"]
    flags += ["-D_GLIBCXX_ASSERTIONS"]
    link_flags = SANITIZERS
elif os.name == "posix":
    flags = ["-O3", "-g0"]  # Python's own flags say -g, a third of the time
if os.name == "posix":
    flags.append("-ffp-contract=off")  # sums of floats are the same on every machine
flags += os.environ.get("REMAT_CFLAGS", "").split()

built = runpy.run_path("kernels/_built.py")
SHARED = f"remat_algos.kernels.{built['SHARED']}"
options = ["Cython", Cython.__version__, *flags, f"setup.py-{THIS}"]
stamp = Path("kernels", built["STAMP"])


def in_place():
    """True if this run only needs kernels beside their sources, and these are there, built in the same way."""
    elsewhere = {"build", "sdist", "bdist_wheel", "install", "--build-lib", "-b", "--force", "-f"}
    if elsewhere & {*sys.argv[1:]} or ("build_ext" in sys.argv and not {"--inplace", "-i"} & {*sys.argv}):
        return False
    return built["build_fault"](Path("kernels")) is None and stamp.read_text(encoding="utf-8").split()[1:] == options


CURRENT = in_place()  # Cython's own files are newer in each isolated environment, and would have all compiled again


class BuildKernels(build_ext):
    """Leaves a stamp of the sources beside what it compiled, and says what to do where nothing compiles."""

    def run(self):
        if CURRENT:
            return
        here = Path(self.get_ext_fullpath(SHARED)).parent / built["STAMP"]
        before = here.read_text(encoding="utf-8").split() if here.exists() else []
        self.force = self.force or before[1:] != options  # objects of other flags do not go with these
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_text(" ".join(["unfinished", *([] if self.force else options)]), encoding="utf-8")
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            compilers = [
                (os.environ.get(name) or sysconfig.get_config_var(name) or usual).split()[0]
                for name, usual in (("CC", "cc"), ("CXX", "c++"))
            ]
            if os.name == "posix" and not all(map(shutil.which, compilers)):
                raise SystemExit(
                    f"building remat_algos needs a C and a C++ compiler ({' and '.join(compilers)} were looked for); "
                    "install one, such as `apt install g++` or `xcode-select --install`"
                ) from None
            raise SystemExit(f"the kernels of remat_algos were not built: {error}") from None
        here.write_text(" ".join([built["source_hash"](Path("kernels")), *options]), encoding="utf-8")


# `from remat_algos.kernels.bitsets cimport ...` is looked for in a folder of that name.
declarations = Path(BUILD, "cimport", "remat_algos", "kernels")
declarations.mkdir(parents=True, exist_ok=True)
for file in Path("kernels").glob("*.pxd"):
    shutil.copy2(file, declarations)

extensions = [
    Extension(f"remat_algos.kernels.{source.stem}", [str(source)], extra_compile_args=flags, extra_link_args=link_flags)
    for source in sorted(Path("kernels").glob("*.pyx"))
]
extensions.append(Extension(SHARED, [f"{built['SHARED']}.c"], extra_compile_args=flags, extra_link_args=link_flags))

setup(
    cmdclass={"build_ext": BuildKernels},
    options={"build": {"build_base": BUILD}, "build_ext": {"parallel": os.cpu_count()}},
    packages=[*find_packages(include=["remat_algos", "remat_algos.*"]), "remat_algos.kernels"],
    package_dir={"remat_algos": "remat_algos", "remat_algos.kernels": "kernels"},
    package_data={
        "remat_algos": ["py.typed", "**/*.pyi", "plot/pictures/report.*s", "teach/sheets.md"],
        "remat_algos.kernels": ["*.pyx", "*.pxd", "cuda/*.cu"],
    },
    exclude_package_data={"": ["*.c", "*.cpp"]},
    ext_modules=extensions
    if CURRENT
    else cythonize(
        extensions,
        build_dir=f"{BUILD}/cython",
        include_path=[f"{BUILD}/cimport"],
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "show_performance_hints": not CHECKED,
            "auto_pickle": False,  # objects that kernels hold between calls are of one process
            "boundscheck": CHECKED,
            "initializedcheck": CHECKED,
            "wraparound": False,
            "cdivision": not CHECKED,
        },
    ),
)
