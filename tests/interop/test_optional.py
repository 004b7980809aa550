"""Libraries that are missing."""

import importlib
import sys

import pytest

from remat_algos.interop.optional import require


def test_a_missing_library_is_named_with_the_command_that_installs_it():
    remedy = r"nothing_here cannot be imported .*python -m pip install -e '\.\[jax\]'"
    with pytest.raises(ImportError, match=remedy):
        require("nothing_here.at_all", "jax")


def test_what_a_library_itself_misses_is_named_too(tmp_path, monkeypatch):
    (tmp_path / "half_a_library.py").write_text("import nothing_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"half_a_library cannot be imported .*nothing_here"):
        require("half_a_library", "torch")


def test_names_of_a_missing_library_are_said_with_the_command_that_installs_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("remat_algos.interop.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    adapter = importlib.import_module("remat_algos.interop.torch")
    with pytest.raises(ImportError, match=r"torch cannot be imported .*pip install -e '\.\[torch\]'"):
        adapter.rematerialize  # noqa: B018
