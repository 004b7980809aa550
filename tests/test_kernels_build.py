"""What setup.py refuses, what it builds again, and the stamp that it leaves."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(os.name != "posix", reason="plays a compiler by a script of the shell")


@pytest.fixture
def source(tmp_path):
    """What a build reads, with the smallest kernel alone."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "remat_algos").mkdir()
    for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md", "remat_algos/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("__init__.py", "_built.py", "bitsets.pxd", "graph.pxd", "types.pxd", "lifetimes.pyx"):
        shutil.copy(ROOT / "kernels" / name, tmp_path / "kernels" / name)
    return tmp_path


IN_PLACE = ["setup.py", "build_ext", "--inplace"]
EDITABLE = ["-c", "from setuptools import build_meta; build_meta.build_editable('build')"]  # as `pip install -e .` does


def build(source, command=IN_PLACE, **environment):
    """Run a command of Python that builds."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=source,
        env={**os.environ, "REMAT_CFLAGS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def pretended_cython(folder, version):
    """A folder with a package that says it is some version of Cython; None for one that is not there."""
    package = folder / "pretended" / "Cython"
    package.mkdir(parents=True)
    missing = "raise ModuleNotFoundError('No module named Cython')"
    (package / "__init__.py").write_text(missing if version is None else f"__version__ = '{version}'")
    (package / "Build.py").write_text("cythonize = None")
    return str(package.parent)


@pytest.mark.parametrize(("version", "said"), [(None, "needs Cython"), ("3.0.11", "this is 3.0.11")])
def test_a_build_without_its_cython_names_the_command_that_installs_it(source, version, said):
    done = build(source, PYTHONPATH=pretended_cython(source, version))
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert "python -m pip install 'Cython>=3.1'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


needs_cython = pytest.mark.skipif(find_spec("Cython") is None, reason="Cython is not installed")


@needs_cython
def test_a_build_without_a_compiler_says_so_and_is_unfinished(source):
    done = build(source, CC="no-such-compiler", CXX="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("building remat_algos needs a C and a C++ compiler")
    assert "Traceback" not in done.stderr
    assert (source / "kernels" / "_built.txt").read_text().split()[0] == "unfinished"


@needs_cython
def test_a_build_with_other_flags_compiles_again(source):
    log = source / "compiled.txt"
    compiler = source / "compiler"  # writes down what it is to compile, and makes an empty file of it
    compiler.write_text(
        f'#!/bin/sh\nfor word; do case "$word" in *.c) echo "$word" >> {log};; esac; done\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done\n'
    )
    compiler.chmod(0o755)
    tools = {"CC": str(compiler), "CXX": str(compiler), "LDSHARED": str(compiler), "LDCXXSHARED": str(compiler)}

    def compiled(command=IN_PLACE, **environment):
        log.write_text("")
        done = build(source, command, **tools, **environment)
        assert done.returncode == 0, done.stderr
        return sorted(Path(line).stem for line in log.read_text().split())

    assert compiled(EDITABLE) == ["_cyutility", "lifetimes"]
    assert compiled(EDITABLE) == []
    assert compiled() == []
    assert compiled(REMAT_CFLAGS="-DOTHER") == ["_cyutility", "lifetimes"]
    assert compiled(REMAT_CFLAGS="-DOTHER") == []
    (source / "kernels" / "_built.txt").write_text("1234 Cython 3.1.0 -O3 -g0 -DOTHER\n")  # by another Cython
    assert compiled(REMAT_CFLAGS="-DOTHER") == ["_cyutility", "lifetimes"]
    compiler.rename(source / "away")
    assert build(source, **tools, REMAT_CFLAGS="-DOTHER").returncode == 0  # there is nothing to compile
    (source / "kernels" / "lifetimes.pyx").touch()
    assert build(source, **tools, REMAT_CFLAGS="-DOTHER").returncode == 0  # the same source, newer
    with open(source / "kernels" / "lifetimes.pyx", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert build(source, **tools, REMAT_CFLAGS="-DOTHER").returncode == 1
    (source / "away").rename(compiler)
    assert compiled(REMAT_CFLAGS="-DOTHER") == ["lifetimes"]  # after a failure what was compiled stays
