"""What the command line loads before it answers, and where it finds its kernels."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

import remat_algos
from remat_algos.allocate.allocators import list_allocators
from remat_algos.cli.main import main
from remat_algos.formats import graphs, registry
from remat_algos.interop import model_files
from remat_algos.solvers.registry import list_solvers

PACKAGE = Path(remat_algos.__file__).parent
KERNELS = Path(find_spec("remat_algos.kernels").origin).parent
BUILD = "python -m pip install -e ."
SLOW = ("numba", "scipy", "cupy", "matplotlib", "networkx", "torch", "pydot")
LOADED = """
import json, sys
from remat_algos.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a chain of nine nodes and a plan for it."""
    place = tmp_path_factory.mktemp("chain")
    (place / "chain.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(8)))
    run(
        ["-m", "remat_algos", "solve", "chain.txt", "--budget", "least", "--solver", "chen_sqrt", "-o", "plan.json"],
        place,
    )
    return place


def run(words, folder, path=None, isolated=False):
    """Runs Python in a folder; isolated: without what site-packages adds, as `path` alone says."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "REMAT_TRACEBACK")}
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    command = [sys.executable, *(["-S"] if isolated else []), *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


SMALL = [
    ["--help"],
    ["--version"],
    ["solve", "--help"],
    ["show", "chain.txt"],
    ["solve", "chain.txt", "--budget", "90%", "--effort", "fast"],
    ["solve", "chain.txt", "--budget", "least", "--solver", "chen_sqrt", "--format", "actions"],
    ["compare", "chain.txt", "--budget", "90%", "--effort", "fast"],
    ["verify", "chain.txt", "plan.json"],
    ["simulate", "chain.txt", "plan.json"],
    ["simulate", "chain.txt", "plan.json", "--allocator", "cuda_caching", "--json"],
    ["explain", "chain.txt", "plan.json"],
    ["frontier", "chain.txt", "--effort", "fast", "--points", "5"],
    ["diff", "chain.txt", "plan.json", "plan.json"],
    ["allocate", "chain.txt", "plan.json", "--in-place"],
]
ONE_BY_ONE = """
import json, sys
from remat_algos.cli.main import main
told = []
for words in json.loads(sys.argv[1]):
    code = main(words)
    told.append([words, code, [name for name in json.loads(sys.argv[2]) if name in sys.modules]])
print(json.dumps(told), file=sys.stderr)
"""
"""Command lines one after the other; the last line of standard error says what was loaded when each had answered."""


def test_small_answers_load_nothing_that_is_slow(folder):
    done = run(["-c", ONE_BY_ONE, json.dumps(SMALL), json.dumps([*SLOW, "rich"])], folder)
    assert json.loads(done.stderr.splitlines()[-1]) == [[words, 0, []] for words in SMALL]
    assert done.stdout


HELP = [["--help"], ["--version"], ["convert", "--help"], ["models", "--help"]]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_does_not_load_what_is_slow(folder, words):
    code, loaded = json.loads(run(["-c", LOADED, *words], folder).stderr)
    assert code == 0
    assert {"numpy", "rich", *SLOW}.isdisjoint(loaded)
    assert [name for name in loaded if name.startswith("remat_algos.solvers")] == []


def test_help_lists_what_the_registries_hold(capsys):
    assert main(["solve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for entry in (*list_solvers(), *list_allocators()):
        assert f" {entry.name} {entry.summary}" in text
    for entry in list_solvers():
        options = ", ".join(f"{name}={default}" for name, default in entry.options.items())
        assert not options or f"-O {options}" in text


def test_help_names_the_formats_of_the_registry(capsys):
    rooms = graphs.__name__, model_files.__name__
    own = [form for form in registry.graph_formats() if form.read.__module__.startswith(rooms)]
    assert main(["convert", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"(tables, {', '.join(form.name for form in own)}; " in text
    assert all(f"X{ending}" in text for form in own if form.write is not None for ending in form.endings)


def test_importing_the_package_loads_nothing_else(folder):
    done = run(["-c", "import sys, remat_algos; print(*sorted(sys.modules))"], folder)
    loaded = done.stdout.split()
    assert "numpy" not in loaded
    assert [name for name in loaded if name.startswith("remat_algos.")] == ["remat_algos.forks", "remat_algos.hooks"]


# Kernels: not built, built in a checkout, installed. Each place is made of copies, and nothing else is on the path.


def needed():
    """Folders that hold what the core needs."""
    return sorted({Path(find_spec(name).origin).parents[1] for name in ("numpy", "rich", "lazy_loader")})


def leave_out(*patterns):
    return shutil.ignore_patterns("__pycache__", *patterns)


def checkout(place, built):
    """A checkout: the package, beside it kernels/, compiled or not, and setup.py."""
    compiled = [] if built else [f"*{suffix}" for suffix in EXTENSION_SUFFIXES]
    shutil.copytree(PACKAGE, place / "remat_algos", ignore=leave_out("kernels"))
    shutil.copytree(KERNELS, place / "kernels", ignore=leave_out(*compiled))
    (place / "setup.py").write_text("# what tells a checkout from an install\n")
    return place


def install(place):
    """An install that is no link: kernels inside the package."""
    shutil.copytree(PACKAGE, place / "remat_algos", ignore=leave_out("kernels"))
    shutil.copytree(KERNELS, place / "remat_algos" / "kernels", ignore=leave_out())
    return place


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory):
    """A checkout without compiled kernels."""
    return checkout(tmp_path_factory.mktemp("unbuilt"), built=False)


def places(folder, path):
    """Where the package and its kernels come from when Python runs in a folder."""
    ask = "import remat_algos, remat_algos.kernels.graph as k; print(remat_algos.__file__); print(k.__file__)"
    done = run(["-c", ask], folder, path, isolated=True)
    assert done.stderr == ""
    return [Path(line).parent for line in done.stdout.splitlines()]


@pytest.mark.parametrize("words", [["show", "chain.txt"], ["compare", "chain.txt"]], ids=" ".join)
def test_kernels_that_are_not_built_name_the_command_that_builds_them(folder, unbuilt, words):
    done = run(["-m", "remat_algos", *words], folder, [unbuilt, *needed()], isolated=True)
    assert done.returncode not in (0, 70)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith("remat: ")
    assert BUILD in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_works_before_kernels_are_built(folder, unbuilt, words):
    done = run(["-m", "remat_algos", *words], folder, [unbuilt, *needed()], isolated=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_from_python_kernels_that_are_not_built_name_the_command(folder, unbuilt):
    done = run(["-c", "import remat_algos as ra; ra.read_graph"], folder, [unbuilt, *needed()], isolated=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert BUILD in done.stderr.splitlines()[-1]


def test_kernels_that_are_not_built_are_listed_and_are_no_error(folder, unbuilt):
    done = run(["-m", "remat_algos", "--version", "--verbose"], folder, [unbuilt, *needed()], isolated=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for part in ("kernels 0 of 26 modules", "; not built: blocks, chain_table, ", "remat_algos are not built"):
        assert part in text


def test_a_command_imports_no_other_and_versions_import_no_library(folder):
    code, loaded = json.loads(run(["-c", LOADED, "--version", "--verbose"], folder).stderr)
    assert code == 0
    assert {"numpy", "rich", *SLOW}.isdisjoint(loaded)
    assert [name for name in loaded if name.startswith("remat_algos.kernels")] == []
    code, loaded = json.loads(run(["-c", LOADED, "show", "chain.txt", "--json"], folder).stderr.splitlines()[-1])
    assert [name for name in loaded if name.startswith("remat_algos.cli.commands.")] == [
        "remat_algos.cli.commands.show"
    ]
    assert [
        name for name in loaded if name.startswith("remat_algos.zoo.") and name != "remat_algos.zoo.reference"
    ] == []


def test_kernels_of_other_sources_name_the_command_that_builds_them(folder, tmp_path):
    place = checkout(tmp_path / "checkout", built=True)
    with open(place / "kernels" / "graph.pyx", "a", encoding="utf-8") as source:
        source.write("# changed\n")
    done = run(["-m", "remat_algos", "show", "chain.txt"], folder, [place, *needed()], isolated=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "do not match their sources" in done.stderr
    assert BUILD in done.stderr


def test_an_install_is_complete_in_itself(folder, tmp_path):
    installed = install(tmp_path / "site")
    assert places(folder, [installed, *needed()]) == [
        installed / "remat_algos",
        installed / "remat_algos" / "kernels",
    ]
    done = run(["-m", "remat_algos", "verify", "chain.txt", "plan.json"], folder, [installed, *needed()], isolated=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_checkout_that_shadows_an_install_finds_its_own_kernels(folder, tmp_path):
    installed, place = install(tmp_path / "site"), checkout(tmp_path / "checkout", built=True)
    shutil.copy(folder / "chain.txt", place)
    assert places(place, ["", installed, *needed()]) == [place / "remat_algos", place / "kernels"]
    done = run(
        ["-m", "remat_algos", "solve", "chain.txt", "--budget=least", "--solver=chen_sqrt"],
        place,
        [installed, *needed()],
        isolated=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gradient nodes added" in done.stdout


def test_a_folder_called_kernels_beside_an_install_is_not_taken_for_ours(folder, tmp_path):
    installed = install(tmp_path / "site")
    (installed / "kernels").mkdir()
    (installed / "kernels" / "__init__.py").write_text("raise ImportError('somebody else')\n")
    assert places(folder, [installed, *needed()])[1] == installed / "remat_algos" / "kernels"
