"""How Numba functions are made and cached."""

import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest
from remat_algos.kernels import _jit

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the compiler is off")
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and permissions as on Unix")


def add_up(values):
    total = 0
    for value in values:
        total += value
    return total


# ---------------------------------------------------------------- making


@pytest.mark.parametrize("options", [None, {}, {"boundscheck": True}], ids=str)
def test_njit_works_with_and_without_options(monkeypatch, options):
    monkeypatch.setattr(_jit, "_CACHE", None)
    function = _jit.njit(add_up) if options is None else _jit.njit(**options)(add_up)
    assert function(np.arange(5)) == 10


def test_njit_serves_arrays_that_may_not_be_written(monkeypatch):
    monkeypatch.setattr(_jit, "_CACHE", None)
    values = np.arange(5)
    values.setflags(write=False)
    assert _jit.njit(add_up)(values) == 10


@compiled
def test_njit_makes_functions_that_let_go_of_the_lock(monkeypatch):
    monkeypatch.setattr(_jit, "_CACHE", None)
    for function in _jit.njit(add_up), _jit.njit(boundscheck=True)(add_up):
        assert function.targetoptions["nogil"] is True
        assert function.targetoptions["nopython"] is True
    assert function.targetoptions["boundscheck"] is True


@compiled
def test_njit_caches_in_its_own_folder_and_leaves_numbas_setting_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(_jit, "_CACHE", tmp_path / "cache")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "elsewhere")
    function = _jit.njit(add_up)
    assert Path(function.stats.cache_path).is_relative_to(tmp_path / "cache")
    assert numba.config.CACHE_DIR == "elsewhere"


@compiled
def test_njit_without_a_folder_caches_nothing(monkeypatch):
    monkeypatch.setattr(_jit, "_CACHE", None)
    function = _jit.njit(add_up)
    assert function.stats.cache_path is None
    assert function(np.arange(5)) == 10


def test_a_failure_leaves_numbas_setting_alone(monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "elsewhere")
    monkeypatch.setattr(numba, "njit", lambda **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _jit.njit(add_up)
    assert numba.config.CACHE_DIR == "elsewhere"


# ---------------------------------------------------------------- the name of the folder


@pytest.fixture
def kernels(tmp_path):
    """A copy of the kernels' Python sources."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    for source in Path(_jit.__file__).parent.glob("*.py"):
        shutil.copy(source, folder)
    return folder


def test_the_folder_is_named_by_every_kernel_source(kernels):
    names = {_jit.source_hash(kernels)}
    for source in sorted(kernels.glob("*.py")):
        text = source.read_text(encoding="utf-8")
        source.write_text(text + "\n# changed\n", encoding="utf-8")
        names.add(_jit.source_hash(kernels))
        source.write_text(text, encoding="utf-8")
    (kernels / "new.py").write_text("x = 1\n", encoding="utf-8")
    names.add(_jit.source_hash(kernels))
    (kernels / "new.py").rename(kernels / "other.py")
    names.add(_jit.source_hash(kernels))
    assert len(names) == 1 + len(list(kernels.glob("*.py"))) - 1 + 2


def test_equal_sources_have_equal_names_wherever_they_lie(kernels, tmp_path):
    shutil.copytree(kernels, tmp_path / "copy")
    assert _jit.source_hash(kernels) == _jit.source_hash(tmp_path / "copy") == _jit.source_hash()


def test_what_is_between_two_sources_counts(tmp_path):
    for name, texts in {"one": ("x", "yz"), "two": ("xy", "z")}.items():
        (tmp_path / name).mkdir()
        for file, text in zip(("a.py", "b.py"), texts, strict=True):
            (tmp_path / name / file).write_text(text, encoding="utf-8")
    assert _jit.source_hash(tmp_path / "one") != _jit.source_hash(tmp_path / "two")


def test_the_folder_is_named_by_numbas_version(monkeypatch):
    before = _jit.source_hash()
    monkeypatch.setattr(numba, "__version__", "0.1")
    assert _jit.source_hash() != before


def test_the_folder_is_named_by_the_bounds_check(monkeypatch):
    names = set()
    for setting in None, "0", "1":
        if setting is None:
            monkeypatch.delenv("NUMBA_BOUNDSCHECK", raising=False)
        else:
            monkeypatch.setenv("NUMBA_BOUNDSCHECK", setting)
        names.add(_jit.source_hash())
    assert len(names) == 3


# ---------------------------------------------------------------- where the folder lies


@pytest.fixture
def places(monkeypatch, tmp_path):
    """A home and a temporary folder of the test's own; nothing is asked for."""
    for name in "REMAT_CACHE_DIR", "XDG_CACHE_HOME":
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def unwritable(folder):
    """Nobody, not even root, makes a folder inside a file."""
    shutil.rmtree(folder)
    folder.write_text("a file", encoding="utf-8")


@posix
def test_the_folder_lies_among_the_users_caches(places, monkeypatch):
    name = f"numba-{_jit.source_hash()}"
    assert _jit.cache_folder() == places / "home" / ".cache" / "remat_algos" / name
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "xdg"))
    assert _jit.cache_folder() == places / "xdg" / "remat_algos" / name
    monkeypatch.setenv("REMAT_CACHE_DIR", str(places / "asked"))
    assert _jit.cache_folder() == places / "asked" / name
    assert (places / "asked" / name).is_dir()
    assert list((places / "asked" / name).iterdir()) == []


@posix
def test_the_folder_is_for_its_user_alone(places):
    assert _jit.cache_folder().stat().st_mode & 0o077 == 0


@posix
def test_an_unwritable_home_gives_way_to_the_temporary_folder(places):
    unwritable(places / "home")
    folder = _jit.cache_folder()
    assert folder.parent == places / "temporary"
    assert f"-{os.getuid()}-" in folder.name
    assert folder.name.endswith(_jit.source_hash())
    assert folder.stat().st_mode & 0o077 == 0


@posix
def test_an_unwritable_asked_folder_gives_way_to_the_temporary_folder(places, monkeypatch):
    (places / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("REMAT_CACHE_DIR", str(places / "file"))
    assert _jit.cache_folder().parent == places / "temporary"


@posix
def test_nothing_writable_is_no_cache(places):
    unwritable(places / "home")
    unwritable(places / "temporary")
    assert _jit.cache_folder() is None


@posix
def test_a_full_disk_is_no_cache(places, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert _jit.cache_folder() is None


@posix
def test_no_temporary_folder_is_no_cache(places, monkeypatch):
    def nowhere():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    unwritable(places / "home")
    assert _jit.cache_folder() is None


@posix
def test_an_empty_setting_asks_for_nothing(places, monkeypatch):
    monkeypatch.chdir(places)
    monkeypatch.setenv("REMAT_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert _jit.cache_folder().is_relative_to(places / "home" / ".cache")


@posix
def test_no_home_is_no_trouble(places, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert _jit.cache_folder().parent == places / "temporary"


@posix
def test_a_user_without_a_name_is_no_trouble(places, monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    unwritable(places / "home")
    assert _jit.cache_folder().parent == places / "temporary"


@posix
def test_a_folder_of_somebody_else_is_not_used(places, monkeypatch):
    assert _jit.cache_folder() is not None
    monkeypatch.setattr(os, "getuid", lambda: places.stat().st_uid + 1)
    assert _jit.cache_folder() is None


@posix
def test_a_folder_that_everybody_may_write_is_not_used(places):
    first = _jit.cache_folder()
    first.chmod(0o777)
    second = _jit.cache_folder()
    assert second.parent == places / "temporary"
    second.chmod(0o757)
    assert _jit.cache_folder() is None


# ---------------------------------------------------------------- a whole life, in processes of their own


def run(folder, code, **environment):
    """What a program prints that finds the package `planted` in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "REMAT_CACHE_DIR": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


ASK = """
from planted.a import outer
answer = outer(10)
stats = getattr(outer, "stats", None)
print(answer, bool(stats and sum(stats.cache_hits.values())))
"""
A = "from planted._jit import njit\nfrom planted.b import inner\n\n@njit\ndef outer(x):\n    return inner(x) + 1\n"
B = "from planted._jit import njit\n\n@njit\ndef inner(x):\n    return x * {}\n"


@pytest.fixture
def planted(tmp_path):
    """A package of two kernels in two files, of which `a` calls `b`."""
    package = tmp_path / "planted"
    package.mkdir()
    shutil.copy(_jit.__file__, package / "_jit.py")
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "a.py").write_text(A, encoding="utf-8")
    (package / "b.py").write_text(B.format(2), encoding="utf-8")
    return tmp_path


def test_a_callee_that_changes_in_another_file_is_noticed(planted):
    callee = planted / "planted" / "b.py"
    assert run(planted, ASK) == ["21", "False"]
    callee.write_text(B.format(3), encoding="utf-8")
    assert run(planted, ASK) == ["31", "False"]
    callee.write_text(B.format(2), encoding="utf-8")
    assert run(planted, ASK) == ["21", "True"]
    assert len(list((planted / "cache").iterdir())) == 2


def test_without_the_compiler_kernels_are_plain_functions(planted):
    kind = "print(type(outer).__name__)\n"
    assert run(planted, ASK + kind, NUMBA_DISABLE_JIT="1") == ["21", "False", "function"]


OVER_THE_END = """
import numpy as np
from planted.a import outer
try:
    print(outer(np.ones(2)))
except IndexError:
    print("IndexError")
"""


def test_the_bounds_check_works_with_a_warm_cache(planted):
    callee = "from planted._jit import njit\n\n@njit\ndef inner(x):\n    return x[2] * 0\n"
    (planted / "planted" / "b.py").write_text(callee, encoding="utf-8")
    assert run(planted, OVER_THE_END) != ["IndexError"]
    assert run(planted, OVER_THE_END, NUMBA_BOUNDSCHECK="1") == ["IndexError"]


def test_kernels_run_where_nothing_is_writable(planted):
    (planted / "file").write_text("", encoding="utf-8")
    nowhere = str(planted / "file")
    answer = run(planted, f"import tempfile\ntempfile.tempdir = {nowhere!r}\n{ASK}", REMAT_CACHE_DIR=nowhere)
    assert answer == ["21", "False"]
