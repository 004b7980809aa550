"""Loads the papers' algorithms of examples/by_the_book, each from its path, so that tests use them as oracles."""

import importlib.util
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "by_the_book"


@cache
def book(name):
    """The module of one file; without Numba the calling test is skipped."""
    pytest.importorskip("numba")
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
