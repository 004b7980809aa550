"""Functions that are found in a folder: whose registration stays, whatever is imported when."""

import importlib
import subprocess
import sys

import pytest

from remat_algos.registry import Registered, Registry

INIT = """
from remat_algos.registry import Registered, Registry
import toy_registry
TOYS = Registry(toy_registry)
"""
FILE = """
from toy_registry import TOYS, Registered
def one():
    "Of the folder."
TOYS.add(Registered(one))
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """The registry of a folder of one file."""
    folder = tmp_path / "toy_registry"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "one.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("toy_registry").TOYS
    for name in ("toy_registry.one", "toy_registry"):
        sys.modules.pop(name, None)


def register(toys, summary):
    def one():
        pass

    one.__doc__ = summary
    toys.add(Registered(one))


def summaries(toys: Registry):
    return [entry.summary for entry in toys.all()]


def test_what_a_user_registers_before_the_first_look_up_stays(toys):
    register(toys, "A user's.")
    assert toys.get("one").summary == "A user's."
    assert summaries(toys) == ["A user's."]


def test_what_a_user_registers_replaces_what_was_there(toys):
    assert summaries(toys) == ["Of the folder."]
    register(toys, "A user's.")
    register(toys, "The same user's.")
    assert summaries(toys) == ["The same user's."]


def test_a_file_that_is_imported_again_replaces_its_own_function(toys):
    toys.all()
    before = toys.get("one").function
    importlib.reload(sys.modules["toy_registry.one"])
    assert toys.get("one").function is not before


FIRST = """
import importlib
from remat_algos.solvers.registry import get_solver, list_solvers, solver

def chen_sqrt(*arguments):
    "A user's."

solver()(chen_sqrt)
importlib.import_module("remat_algos.solvers.methods.chen_sqrt")
print(get_solver("chen_sqrt").summary, *(entry.summary for entry in list_solvers() if entry.name == "chen_sqrt"))
"""


def test_a_user_may_replace_a_function_of_ours_before_any_other_use():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert done.stdout == "A user's. A user's.\n"
