"""How Numba functions are made and cached."""

import errno
import getpass
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from remat_algos.kernels import _jit

from remat_algos import kernels

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
def places(monkeypatch, tmp_path):
    """A home and a temporary folder of the test's own; no folder is asked for."""
    for name in "REMAT_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA":
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    forget()
    yield tmp_path
    forget()


def forget():
    """What this process remembers of folders and sources, as a new process would."""
    _jit.cache_folder.cache_clear()
    _jit._hash_at_import.cache_clear()


def load(folder, text=ADD_UP, name="kernel"):
    """A module of one kernel, imported anew."""
    file = folder / f"{name}.py"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(function):
    """How many signatures came from the cache."""
    return sum(function.stats.cache_hits.values())


def files(places):
    return sorted((places / "home" / ".cache" / "remat_algos" / "numba").glob("*"))


def unwritable(folder):
    """Nobody, not even root, makes a folder inside a file."""
    shutil.rmtree(folder)
    folder.write_text("a file", encoding="utf-8")


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


def test_njit_serves_arrays_that_may_not_be_written():
    values = np.arange(5)
    values.setflags(write=False)
    assert _jit.njit(add_up)(values) == 10


@compiled
def test_njit_makes_functions_that_let_go_of_the_lock():
    for function in _jit.njit(add_up), _jit.njit(boundscheck=True)(add_up):
        assert function.targetoptions["nogil"] is True
        assert function.targetoptions["nopython"] is True
    assert function.targetoptions["boundscheck"] is True


# ---------------------------------------------------------------- files of the cache


@compiled
@posix
def test_the_folder_is_made_by_the_first_call(places):
    function = load(places).add_up
    assert list((places / "home").iterdir()) == []
    assert function(INTEGERS) == 10
    (file,) = files(places)
    assert file.name.startswith("add_up-")
    assert file.stat().st_mode & 0o077 == 0


@compiled
def test_each_signature_is_compiled_once(places):
    first = load(places).add_up
    assert (first(INTEGERS), first(FLOATS), hits(first)) == (10, 10.0, 0)
    forget()
    second = load(places).add_up
    assert (second(INTEGERS), second(FLOATS), hits(second)) == (10, 10.0, 2)
    assert len(files(places)) == 2


@compiled
def test_options_are_part_of_the_name(places):
    assert load(places).add_up(INTEGERS) == 10
    checked = load(places).njit(boundscheck=True)(load(places).add_up.py_func)
    assert (checked(INTEGERS), hits(checked)) == (10, 0)


@compiled
def test_numbas_own_cache_is_left_alone(places, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(places / "elsewhere"))
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "Nonsense", raising=False)
    function = load(places).add_up
    assert function(INTEGERS) == 10
    assert Path(function.stats.cache_path) == files(places)[0].parent
    assert not (places / "elsewhere").exists()


def damage(file):
    file.write_bytes(file.read_bytes()[:-1])


def empty(file):
    file.write_bytes(b"")


def loosen(file):
    file.chmod(0o660)


def give_another_name(file):
    """As if two signatures had the same name."""
    kept = file.read_bytes()
    forget()
    other = load(file.parents[4]).add_up
    assert other(FLOATS) == 10.0
    (new,) = set(file.parent.iterdir()) - {file}
    file.write_bytes(new.read_bytes())
    assert file.read_bytes() != kept


@compiled
@posix
@pytest.mark.parametrize("fault", [damage, empty, loosen, give_another_name, Path.unlink])
def test_a_file_that_is_not_what_it_should_be_is_compiled_anew(places, fault):
    assert load(places).add_up(INTEGERS) == 10
    fault(files(places)[0])
    forget()
    function = load(places).add_up
    assert (function(INTEGERS), hits(function)) == (10, 0)
    forget()
    function = load(places).add_up
    assert (function(INTEGERS), hits(function)) == (10, 1)


@compiled
def test_a_folder_that_is_removed_meanwhile_is_no_trouble(places):
    function = load(places).add_up
    assert function(INTEGERS) == 10
    shutil.rmtree(places / "home")
    assert function(FLOATS) == 10.0


@compiled
def test_a_full_disk_is_no_trouble(places, monkeypatch):
    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert load(places).add_up(INTEGERS) == 10
    assert files(places) == []


@compiled
def test_a_month_without_use_removes_a_file(places):
    function = load(places).add_up
    assert function(INTEGERS) == 10
    (old,) = files(places)
    part = old.with_name("killed.part")
    part.write_bytes(b"")
    long_ago = time.time() - 31 * 24 * 3600
    for file in old, part:
        os.utime(file, (long_ago, long_ago))
    forget()
    assert load(places).add_up(INTEGERS) == 10  # a use
    assert files(places) == [old, part]
    assert function(FLOATS) == 10.0
    assert old in files(places)
    assert part not in files(places)
    assert len(files(places)) == 2


@compiled
def test_values_of_a_closure_are_part_of_the_code(places):
    text = f"{ADD_UP}\ndef times(n):\n    return njit(lambda x: n * x)\n"
    module = load(places, text)
    assert [module.times(n)(2) for n in (3, 4)] == [6, 8]
    assert files(places) == []


@compiled
def test_code_of_a_prompt_is_not_cached(places):
    names = {}
    exec(compile(ADD_UP, "<stdin>", "exec"), names)
    assert names["add_up"](INTEGERS) == 10
    assert files(places) == []


@compiled
def test_a_kernel_that_cannot_be_cached_says_so(places):
    text = f"import numpy as np\n{ADD_UP}\nTABLE = np.arange(200_000)\n\n@njit\ndef at(i):\n    return TABLE[i]\n"
    with pytest.warns(UserWarning, match=r"kernel\.at holds a pointer or a large global array"):
        assert load(places, text).at(7) == 7
    assert files(places) == []


@compiled
def test_threads_may_call_at_once(places):
    function = load(places).add_up
    found = []
    calls = [
        threading.Thread(target=lambda values: found.append(function(values)), args=(values,))
        for values in (INTEGERS, FLOATS) * 4
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert found == [10] * 8
    assert len(files(places)) == 2


# ---------------------------------------------------------------- what changes the code


def test_every_source_of_the_folder_counts(places):
    folder = places / "kernels"
    folder.mkdir()
    found = {_jit.source_hash(folder)}
    for name, text in ("a.py", "x"), ("b.py", "yz"), ("a.py", "xy"), ("b.py", "z"):
        (folder / name).write_text(text, encoding="utf-8")
        found.add(_jit.source_hash(folder))
    (folder / "b.py").rename(folder / "c.py")
    found.add(_jit.source_hash(folder))
    assert len(found) == 6
    shutil.copytree(folder, places / "copy")
    assert _jit.source_hash(folder) == _jit.source_hash(places / "copy")
    assert _jit.source_hash(places / "nowhere") is None


@compiled
def test_kernels_are_cached_by_the_sources_of_kernels():
    assert _jit._Cache(_jit.source_hash, {}).file.parent == Path(kernels.__file__).parent


@compiled
def test_sources_that_are_edited_after_their_import_are_not_cached(places):
    function = load(places).add_up
    (places / "callee.py").write_text("x = 1", encoding="utf-8")
    assert function(INTEGERS) == 10
    assert files(places) == []
    later = load(places, name="later").add_up  # what it calls may be older than what lies there
    assert later(INTEGERS) == 10
    assert files(places) == []


SETTINGS = (
    *("BOUNDSCHECK=0", "BOUNDSCHECK=1", "OPT=0", "OPT=2", "DEBUGINFO=1", "LOOP_VECTORIZE=0", "SLP_VECTORIZE=1"),
    *("ENABLE_AVX=0", "DISABLE_INTEL_SVML=1", "CPU_NAME=generic"),
)


@pytest.fixture
def settings(monkeypatch):
    """Hash of the settings under an environment."""
    for name in list(os.environ):
        if name.startswith("NUMBA_") and name not in ("NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS"):
            monkeypatch.delenv(name)

    def hash_under(setting=None):
        with monkeypatch.context() as patch:
            if setting is not None:
                patch.setenv(*f"NUMBA_{setting}".split("="))
            numba.core.config.reload_config()
            return _jit._settings()

    yield hash_under
    monkeypatch.undo()
    numba.core.config.reload_config()


def test_the_settings_of_numba_count(settings):
    assert len({settings(), *map(settings, SETTINGS)}) == 1 + len(SETTINGS)


def test_settings_that_leave_the_code_as_it_is_do_not_count(settings):
    assert {*map(settings, ("CACHE_DIR=x", "THREADING_LAYER=workqueue", "CUDA_LOG_SIZE=1"))} == {settings()}


# ---------------------------------------------------------------- where the folder lies


@posix
def test_the_folder_lies_among_the_users_caches(places, monkeypatch):
    assert _jit.cache_folder() == places / "home" / ".cache" / "remat_algos" / "numba"
    for name, folder in {
        "XDG_CACHE_HOME": places / "xdg" / "remat_algos" / "numba",
        "REMAT_CACHE_DIR": places / "asked" / "numba",
    }.items():
        monkeypatch.setenv(name, str(places / name.split("_")[0].lower().replace("remat", "asked")))
        forget()
        assert _jit.cache_folder() == folder
        assert list(folder.iterdir()) == []


@posix
def test_what_is_made_is_for_its_user_alone(places):
    before = os.umask(0)
    try:
        folder = _jit.cache_folder()
    finally:
        os.umask(before)
    for made in folder, *list(folder.parents)[:2]:
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@posix
def test_settings_that_name_no_folder_ask_for_none(places, monkeypatch):
    monkeypatch.chdir(places)
    monkeypatch.setenv("REMAT_CACHE_DIR", "")
    for value in "", "relative":  # as the XDG specification has it
        forget()
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert _jit.cache_folder().is_relative_to(places / "home" / ".cache")


TEMPORARY = f"remat_algos-{os.getuid() if hasattr(os, 'getuid') else ''}"


@posix
def test_an_unwritable_home_gives_way_to_the_temporary_folder(places):
    unwritable(places / "home")
    assert _jit.cache_folder() == places / "temporary" / TEMPORARY / "numba"


@posix
def test_a_folder_that_may_not_be_written_gives_way(places, monkeypatch):
    folder = _jit.cache_folder()
    usual = os.access  # by which root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder and usual(path, mode))
    forget()
    assert _jit.cache_folder() == places / "temporary" / TEMPORARY / "numba"


@posix
def test_no_home_is_no_trouble(places, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert _jit.cache_folder().is_relative_to(places / "temporary")


@posix
def test_a_user_without_a_name_is_no_trouble(places, monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    unwritable(places / "home")
    assert _jit.cache_folder().is_relative_to(places / "temporary")


@posix
def test_nothing_writable_is_no_cache(places):
    unwritable(places / "home")
    unwritable(places / "temporary")
    assert _jit.cache_folder() is None
    assert load(places).add_up(INTEGERS) == 10


@posix
def test_no_temporary_folder_is_no_cache(places, monkeypatch):
    def nowhere():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    unwritable(places / "home")
    assert _jit.cache_folder() is None


# ---------------------------------------------------------------- folders that other users could write


def link(folder):
    """In place of the folder, to one that is as private."""
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


def writable_by(mode):
    def change(folder):
        folder.chmod(0o700 | mode)

    change.__name__ = f"writable_by_{mode:o}"
    return change


@posix
@pytest.mark.parametrize("change", [link, writable_by(0o020), writable_by(0o002), writable_by(0o1022)])
def test_a_folder_that_another_user_could_write_is_not_used(places, change):
    first = _jit.cache_folder()
    change(first)
    forget()
    second = _jit.cache_folder()
    assert second == places / "temporary" / TEMPORARY / "numba"
    change(second)
    forget()
    assert _jit.cache_folder() is None


@posix
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_folder_that_another_user_could_exchange_is_not_used(places, mode):
    above = places / "home" / ".cache"
    above.mkdir()
    above.chmod(0o700 | mode)
    assert _jit.cache_folder().is_relative_to(places / "temporary")
    assert list(above.iterdir()) == []
    above.chmod(0o1700 | mode)  # with the sticky bit, entries belong to their owners
    forget()
    assert _jit.cache_folder().is_relative_to(above)


@posix
def test_a_link_on_the_way_is_followed_to_its_end(places):
    real = places / "large" / "disk"
    real.mkdir(parents=True)
    (places / "home" / ".cache").symlink_to("../large/disk")
    assert _jit.cache_folder() == places / "home" / ".cache" / "remat_algos" / "numba"
    assert (real / "remat_algos" / "numba").is_dir()
    (places / "large").chmod(0o777)
    forget()
    assert _jit.cache_folder().is_relative_to(places / "temporary")


@posix
@pytest.mark.parametrize("target", [".cache", "nowhere"])
def test_a_link_that_leads_nowhere_gives_way(places, target):
    (places / "home" / ".cache").symlink_to(target)
    assert _jit.cache_folder().is_relative_to(places / "temporary")


@posix
def test_a_folder_of_another_user_is_not_used(places, monkeypatch):
    assert _jit.cache_folder() is not None
    (places / "temporary" / f"remat_algos-{os.getuid() + 1}" / "numba").mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: places.stat().st_uid + 1)
    forget()
    assert _jit.cache_folder() is None


@posix
@pytest.mark.parametrize(
    ("mode", "owner", "target", "way"),
    [
        (stat.S_IFDIR | 0o700, 1000, True, True),
        (stat.S_IFDIR | 0o755, 1000, True, True),
        (stat.S_IFDIR | 0o755, 0, False, True),
        (stat.S_IFDIR | 0o755, 1001, False, False),
        (stat.S_IFDIR | 0o775, 1000, False, False),
        (stat.S_IFDIR | 0o757, 1000, False, False),
        (stat.S_IFDIR | 0o1777, 0, False, True),
        (stat.S_IFDIR | 0o1777, 1000, False, True),
        (stat.S_IFDIR | 0o1777, 1001, False, False),
        (stat.S_IFLNK | 0o777, 1000, False, True),
        (stat.S_IFLNK | 0o777, 0, False, True),
        (stat.S_IFLNK | 0o777, 1001, False, False),
    ],
)
def test_who_may_write_the_folder_and_the_way_to_it(monkeypatch, mode, owner, target, way):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    status = SimpleNamespace(st_mode=mode, st_uid=owner)
    assert (_jit._refusal(status) == "") is target
    assert (_jit._refusal(status, way=True) == "") is way


OPEN = "may be written by other users (`chmod go-w` ends that)"


@posix
@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda asked: asked.write_text(""), "/numba: Not a directory"),
        (lambda asked: asked.mkdir() or asked.chmod(0o775), f": {OPEN}"),
        (lambda asked: (asked / "numba").mkdir(parents=True) or (asked / "numba").chmod(0o770), f"/numba: {OPEN}"),
        (lambda asked: asked.mkdir() or (asked / "numba").symlink_to(asked), "/numba: is a link"),
    ],
    ids=["a file", "open", "open within", "a link within"],
)
def test_an_asked_folder_that_cannot_be_used_is_named_once(places, monkeypatch, prepare, reason):
    prepare(places / "asked")
    monkeypatch.setenv("REMAT_CACHE_DIR", str(places / "asked"))
    start = f"REMAT_CACHE_DIR={places / 'asked'} is not used and compiled kernels are not kept: {places / 'asked'}"
    with pytest.warns(RuntimeWarning, match=re.escape(f"{start}{reason}; set it to a folder that only you can write")):
        assert _jit.cache_folder() is None
    assert _jit.cache_folder() is None  # a second warning would be an error
    assert not (places / "home" / ".cache").exists()


# ---------------------------------------------------------------- a whole life, in processes of their own


def start(folder, code, **environment):
    """A program that finds the package `planted` in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "REMAT_CACHE_DIR": str(folder / "cache"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.split()


def run(folder, code, **environment):
    return printed(start(folder, code, **environment))


ASK = """
from planted.a import outer
answer = outer(10)
stats = getattr(outer, "stats", None)
print(answer, bool(stats and sum(stats.cache_hits.values())))
"""
IMPORT = "from remat_algos.kernels._jit import njit\n"
A = f"{IMPORT}from planted.b import inner\n\n@njit\ndef outer(x):\n    return inner(x) + 1\n"
B = f"{IMPORT}\n@njit\ndef inner(x):\n    return x * {{}}\n"


@pytest.fixture
def planted(places):
    """A package of two kernels in two files, of which `a` calls `b`."""
    package = places / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "a.py").write_text(A, encoding="utf-8")
    (package / "b.py").write_text(B.format(2), encoding="utf-8")
    return places


def test_a_callee_that_changes_in_another_file_is_noticed(planted):
    callee = planted / "planted" / "b.py"
    assert run(planted, ASK) == ["21", "False"]
    callee.write_text(B.format(3), encoding="utf-8")
    assert run(planted, ASK) == ["31", "False"]
    callee.write_text(B.format(2), encoding="utf-8")
    assert run(planted, ASK) == ["21", "True"]


AT_ONCE = """
import os, sys, time
from planted.a import outer
while not os.path.exists("go"):
    time.sleep(0.01)
print([outer(x) for x in ({})], sum(outer.stats.cache_hits.values()), sep=";")
"""


def test_two_processes_may_compile_at_once(planted):
    """In opposite orders, so that both write different signatures of one function at the same time."""
    both = [start(planted, AT_ONCE.format(values)) for values in ("1, 2.5", "2.5, 1")]
    (planted / "go").touch()
    assert ["".join(printed(process)).partition(";")[0] for process in both] == ["[3,6.0]", "[6.0,3]"]
    assert "".join(run(planted, AT_ONCE.format("1, 2.5"))) == "[3,6.0];2"
    assert [file.suffix for file in (planted / "cache" / "numba").iterdir()] == [".nbc"] * 4


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
    callee = f"{IMPORT}\n@njit\ndef inner(x):\n    return x[2] * 0\n"
    (planted / "planted" / "b.py").write_text(callee, encoding="utf-8")
    assert run(planted, OVER_THE_END) != ["IndexError"]
    assert run(planted, OVER_THE_END, NUMBA_BOUNDSCHECK="1") == ["IndexError"]
