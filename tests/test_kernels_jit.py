"""How Numba functions are made and cached."""

import errno
import importlib.util
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from remat_algos.kernels import _jit

from remat_algos.cache_folder import cache_folder

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the compiler is off")
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and permissions as on Unix")

ADD_UP = """
from remat_algos.kernels._jit import njit

@njit
def add_up(values):
    total = 0
    for value in values:
        total += value
    return total
"""
INTEGERS, FLOATS = np.arange(5), np.arange(5.0)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A home of the test's own; REMAT_CACHE_DIR is not set, and sources that change within a second are read anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in "REMAT_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA":
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    for name in "HOME", "USERPROFILE":
        monkeypatch.setenv(name, str(folder))
    forget()
    yield folder
    forget()


def kernels_folder():
    return cache_folder("numba", "compiled kernels")


def forget():
    """What this process remembers of folders and sources, as a new process would."""
    cache_folder.cache_clear()
    _jit._hash_at_import.cache_clear()


def load(folder, text=ADD_UP, name="kernel"):
    """A module of one kernel, imported anew."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(function):
    """How many signatures came from the cache."""
    return sum(function.stats.cache_hits.values())


def files(home):
    return sorted((home / ".cache" / "remat_algos" / "numba").glob("*"))


# ---------------------------------------------------------------- making


def add_up(values):
    total = 0
    for value in values:
        total += value
    return total


@pytest.mark.parametrize("options", [None, {}, {"boundscheck": True}], ids=str)
def test_njit_works_with_and_without_options(options):
    function = _jit.njit(add_up) if options is None else _jit.njit(**options)(add_up)
    assert function(INTEGERS) == 10


@compiled
def test_njit_makes_functions_that_release_the_lock():
    for function in _jit.njit(add_up), _jit.njit(boundscheck=True)(add_up):
        assert function.targetoptions["nogil"] is True
    assert function.targetoptions["boundscheck"] is True


def test_without_the_compiler_kernels_are_plain_functions(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert _jit.njit(add_up) is add_up


# ---------------------------------------------------------------- files of the cache


@compiled
def test_the_folder_is_made_by_the_first_call(home, tmp_path):
    function = load(tmp_path).add_up
    assert list(home.iterdir()) == []
    assert function(INTEGERS) == 10
    assert len(files(home)) == 1


@compiled
def test_each_signature_is_compiled_once(home, tmp_path):
    first = load(tmp_path).add_up
    assert (first(INTEGERS), first(FLOATS), hits(first)) == (10, 10.0, 0)
    forget()
    second = load(tmp_path).add_up
    assert (second(INTEGERS), second(FLOATS), hits(second)) == (10, 10.0, 2)
    assert len(files(home)) == 2


@compiled
@posix
@pytest.mark.parametrize(
    "fault",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.chmod(0o620),
        lambda file: file.chmod(0o602),
        Path.unlink,
    ],
    ids=["empty", "cut", "open to the group", "open to others", "removed"],
)
def test_a_file_that_cannot_be_used_is_compiled_anew(home, tmp_path, fault):
    assert load(tmp_path).add_up(INTEGERS) == 10
    fault(files(home)[0])
    found = []
    for _ in range(2):
        forget()
        function = load(tmp_path).add_up
        assert function(INTEGERS) == 10
        found.append(hits(function))
    assert found == [0, 1]


@compiled
def test_a_file_of_another_signature_is_compiled_anew(home, tmp_path):
    """Each is whole: a copy has put the code for floats where that for integers was."""
    function = load(tmp_path).add_up
    function(FLOATS)
    (floats,) = files(home)
    assert function(INTEGERS) == 10
    (integers,) = (file for file in files(home) if file != floats)
    shutil.copyfile(floats, integers)
    forget()
    function = load(tmp_path).add_up
    assert (function(INTEGERS), function(FLOATS), hits(function)) == (10, 10.0, 1)


CODE = pickle.dumps(("code of a kernel", 1.5, [10**30]))


def test_what_is_written_is_read(tmp_path):
    _jit._write(tmp_path / "a", CODE)
    assert _jit._read(tmp_path / "a") == pickle.loads(CODE)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: (data[:end] for end in range(len(data))),
        lambda data: (data[begin:] for begin in range(1, len(data))),
        lambda data: (data[:k] + bytes([data[k] ^ 1 << k % 8]) + data[k + 1 :] for k in range(len(data))),
        lambda data: (data[:k] + b"\0" * (len(data) - k) for k in range(len(data))),
        lambda data: (data + more for more in (b"\0", b".", data)),
        lambda data: (CODE, b"N.", b"text\n", b"\0" * 999),
    ],
    ids=[
        "cut at the end",
        "cut at the beginning",
        "a bit flipped",
        "zeros from a place on",
        "longer",
        "something else",
    ],
)
def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path, damaged):
    file = tmp_path / "a"
    _jit._write(file, CODE)
    whole, tried = file.read_bytes(), 0
    for data in damaged(whole):
        file.write_bytes(data)
        assert _jit._read(file) is None
        tried += 1
    assert tried > 2


@compiled
def test_a_folder_that_is_removed_meanwhile_is_no_trouble(home, tmp_path):
    function = load(tmp_path).add_up
    assert function(INTEGERS) == 10
    shutil.rmtree(home)
    assert function(FLOATS) == 10.0


@compiled
def test_a_full_disk_leaves_no_part_of_a_file(home, tmp_path, monkeypatch):
    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert load(tmp_path).add_up(INTEGERS) == 10
    assert files(home) == []


def times(n):
    return _jit.njit(lambda x: n * x)


@compiled
def test_closures_and_code_of_a_prompt_are_not_cached(home):
    names = {}
    exec(compile(ADD_UP, "<stdin>", "exec"), names)
    assert names["add_up"](INTEGERS) == 10
    assert [times(n)(2) for n in (3, 4)] == [6, 8]
    assert files(home) == []


@compiled
def test_code_with_an_address_of_its_process_is_not_cached(home, tmp_path):
    text = f"import numpy as np\n{ADD_UP}\nTABLE = np.arange(200_000)\n\n@njit\ndef at(i):\n    return TABLE[i]\n"
    assert load(tmp_path, text).at(7) == 7
    assert files(home) == []


# ---------------------------------------------------------------- what changes the code


def test_every_source_of_the_folder_counts(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    found = {_jit.source_hash(folder)}
    for name, text in ("a.py", "x"), ("b.py", "yz"), ("a.py", "xy"), ("b.py", "z"):
        (folder / name).write_text(text, encoding="utf-8")
        found.add(_jit.source_hash(folder))
    (folder / "b.py").rename(folder / "c.py")
    found.add(_jit.source_hash(folder))
    assert len(found) == 6
    shutil.copytree(folder, tmp_path / "copy")
    assert _jit.source_hash(folder) == _jit.source_hash(tmp_path / "copy")


@compiled
@pytest.mark.parametrize("change", [Path.touch, Path.mkdir], ids=["a new file", "unreadable"])
def test_sources_that_change_after_their_import_are_not_cached(home, tmp_path, change):
    function = load(tmp_path).add_up
    change(tmp_path / "callee.py")
    later = load(tmp_path, name="later").add_up  # what it calls may be older than what lies there
    assert (function(INTEGERS), later(INTEGERS)) == (10, 10)
    assert files(home) == []


CALLER = "from callee import inner, njit\n\n@njit\ndef outer(x):\n    return inner(x) + 1\n"
CALLEE = "from remat_algos.kernels._jit import njit\n\n@njit\ndef inner(x):\n    return x * {}\n"


@compiled
def test_a_callee_that_changes_in_another_file_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "caller.py").write_text(CALLER, encoding="utf-8")
    found = []
    for factor in 2, 3, 2:
        forget()
        monkeypatch.setitem(sys.modules, "callee", load(tmp_path, CALLEE.format(factor), "callee"))
        outer = load(tmp_path, CALLER, "caller").outer
        found.append((outer(10), hits(outer)))
    assert found == [(21, 0), (31, 0), (21, 1)]


@compiled
def test_the_bounds_check_works_with_a_warm_cache(tmp_path, monkeypatch):
    text = ADD_UP.replace("values:\n", "range(len(values) + 1):\n").replace("+= value", "+= 0 * values[value]")
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 0)
    assert load(tmp_path, text).add_up(INTEGERS) == 0
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    with pytest.raises(IndexError):
        load(tmp_path, text).add_up(INTEGERS)


@compiled
def test_options_are_part_of_the_name(tmp_path):
    assert load(tmp_path).add_up(INTEGERS) == 10
    checked = load(tmp_path).njit(boundscheck=True)(load(tmp_path).add_up.py_func)
    assert (checked(INTEGERS), hits(checked)) == (10, 0)


SETTINGS = (
    *("BOUNDSCHECK=0", "BOUNDSCHECK=1", "OPT=0", "OPT=2", "DEBUGINFO=1", "LOOP_VECTORIZE=0", "SLP_VECTORIZE=1"),
    *("ENABLE_AVX=0", "DISABLE_INTEL_SVML=1", "CPU_NAME=generic"),
)


@pytest.fixture
def name_under(monkeypatch, tmp_path):
    """Name of a file under an environment."""
    for name in list(os.environ):
        if name.startswith("NUMBA_") and name not in ("NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    cache = _jit._Cache(add_up, {})
    codegen = SimpleNamespace(magic_tuple=lambda: "a processor")

    def under(setting=None):
        with monkeypatch.context() as patch:
            if setting is not None:
                patch.setenv(*f"NUMBA_{setting}".split("="))
            numba.core.config.reload_config()
            return cache._file("a signature", codegen).name

    yield under
    monkeypatch.undo()
    numba.core.config.reload_config()


def test_settings_of_numba_are_part_of_the_name(name_under):
    assert len({name_under(), *map(name_under, SETTINGS)}) == 1 + len(SETTINGS)


def test_the_number_of_threads_is_no_part_of_the_name(name_under):
    assert name_under("NUM_THREADS=1") == name_under()


# ---------------------------------------------------------------- the folder


@posix
@pytest.mark.parametrize(
    ("variable", "value", "folder"),
    [
        ("REMAT_CACHE_DIR", "", "home/.cache/remat_algos/numba"),
        ("REMAT_CACHE_DIR", "relative", "relative/numba"),
        ("REMAT_CACHE_DIR", "{}/asked", "asked/numba"),
        ("XDG_CACHE_HOME", "{}/xdg", "xdg/remat_algos/numba"),
        ("XDG_CACHE_HOME", "relative", "home/.cache/remat_algos/numba"),  # ignored, says its specification
    ],
)
def test_where_the_folder_lies(tmp_path, monkeypatch, variable, value, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value.format(tmp_path))
    assert kernels_folder() == tmp_path / folder
    assert list((tmp_path / folder).iterdir()) == []


@posix
def test_what_is_made_is_for_its_user_alone(home, tmp_path):
    before = os.umask(0)
    try:
        folder = kernels_folder()
        _jit._write(folder / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600


NOT_PRIVATE = "'{}/asked/numba' is a link, or may be written by other users"


def link(folder):
    """In place of the folder, to one that is as private."""
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


@compiled
@posix
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (link, NOT_PRIVATE),
        (lambda folder: folder.chmod(0o720), NOT_PRIVATE),
        (lambda folder: folder.chmod(0o1702), NOT_PRIVATE),
        (lambda folder: folder.rmdir() or folder.touch(), "File exists: '{}/asked/numba'"),
    ],
    ids=["a link", "open to the group", "open to others", "a file"],
)
def test_a_folder_that_cannot_be_used_is_named_once(home, tmp_path, monkeypatch, change, reason):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "asked"))
    change(kernels_folder())
    forget()
    message = f"{re.escape(reason.format(tmp_path))}; set REMAT_CACHE_DIR to a folder that only you can write"
    with pytest.warns(RuntimeWarning, match=message):
        assert load(tmp_path).add_up(INTEGERS) == 10
    assert kernels_folder() is None  # a second warning would be an error
    assert list(home.iterdir()) == []


@posix
def test_what_belongs_to_another_user_is_not_used(home, tmp_path, monkeypatch):
    folder = kernels_folder()
    _jit._write(folder / "a", CODE)
    assert _jit._read(folder / "a") is not None
    forget()
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert _jit._read(folder / "a") is None
    with pytest.warns(RuntimeWarning, match="may be written by other users"):
        assert kernels_folder() is None


def test_a_user_without_a_home_has_no_cache_unless_one_is_named(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.warns(RuntimeWarning, match=r"not kept: Could not determine home directory\.; set REMAT_CACHE_DIR"):
        assert kernels_folder() is None
    forget()
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    assert kernels_folder() == tmp_path / "numba"


# ---------------------------------------------------------------- several processes

AT_ONCE = """
import os, time
import numpy as np
from kernel import add_up
while not os.path.exists("go"):
    time.sleep(0.01)
print([int(add_up(np.arange(5, dtype=kind))) for kind in ({})], sum(add_up.stats.cache_hits.values()), sep=";")
"""


def start(folder, kinds):
    """A process that compiles `add_up` for some types."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.Popen(
        [sys.executable, "-c", AT_ONCE.format(kinds)],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "REMAT_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.strip()


def test_two_processes_may_compile_at_once(tmp_path):
    """In opposite orders, so that both write different signatures of one function at the same time."""
    (tmp_path / "kernel.py").write_text(ADD_UP, encoding="utf-8")
    both = [start(tmp_path, kinds) for kinds in ("int, float", "float, int")]
    (tmp_path / "go").touch()
    assert [printed(process).partition(";")[0] for process in both] == ["[10, 10]"] * 2
    assert printed(start(tmp_path, "int, float")) == "[10, 10];2"
