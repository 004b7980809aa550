"""Settings and fixtures of all tests."""

import importlib.util
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from tests.command_line import lay_tables, runner

os.environ.pop("COLUMNS", None)  # errors are wrapped at it where it is set, as pytest-xdist does for its workers
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # half of the time of a command that a test starts

# Machines differ in speed: no deadline, and slow drawing is no failure. By default the examples are always the same,
# and no database of earlier failures adds to them; `random` and `thorough` draw others each time, or those of a seed.
settings.register_profile(
    "default",
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=8)  # where lines count, not cases
settings.register_profile("random", settings.get_profile("default"), max_examples=30, derandomize=False)  # or a seed's
settings.register_profile("thorough", settings.get_profile("random"), max_examples=200)  # asked for by name
settings.load_profile("default")


class MissingPydot(ModuleType):
    """Stands where pydot would, and skips a test that comes as far as asking it for something."""

    def __getattr__(self, name):
        if name.startswith("__"):  # pytest and inspect ask every module for these
            raise AttributeError(name)
        pytest.skip("pydot, which reads DOT, is not installed")


@pytest.fixture(scope="session", autouse=True)
def _dot_is_read_or_the_test_skipped():
    """Many tests come to read DOT somewhere on their way, in this process; none of them need say so."""
    if importlib.util.find_spec("pydot") is not None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pydot", MissingPydot("pydot"))
        yield


@pytest.fixture(scope="session")
def shared_graphs():
    """The folder of the four graphs that the lower-set authors published; it lies beside the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "graphs"
    if not folder.is_dir():
        pytest.skip("the folder shared/graphs does not lie beside the repository")
    return folder


@pytest.fixture
def plant(monkeypatch):
    """Register a solver for one test."""
    from remat_algos.solvers.registry import SOLVERS, Solver, any_graph, list_solvers

    list_solvers()

    def plant(function, **facts):
        known = {"paper": "", "needs": any_graph, "optimal_in": None, "portfolio": False} | facts
        solver = Solver(function, **known)
        monkeypatch.setitem(SOLVERS.entries, function.__name__, solver)
        return solver

    return plant


def shortened(level):
    """A level of effort with a small part of the work of all searches, and fewer last moments."""
    return replace(
        level,
        search_work=level.search_work // 30,
        search_work_of_node=level.search_work_of_node // 30,
        copies_work=level.copies_work // 10,
        live_sets=level.live_sets // 20,
        last_moments=min(level.last_moments, 2),
    )


@contextmanager
def shorter():
    """Searches and bounds do a small part of their usual work.

    For tests that are about what is done with a plan, and hold however good it is: one solve of a graph with few nodes
    takes seconds otherwise, nearly all of it in `search` and in the integer programs of the bounds.
    """
    from remat_algos import effort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effort, "TABLE", {name: shortened(each) for name, each in effort.TABLE.items()})
        yield


@pytest.fixture(scope="module")
def short_searches():
    """All tests of a module have `shorter` searches."""
    with shorter():
        yield


@pytest.fixture
def short_search():
    """One test has `shorter` searches."""
    with shorter():
        yield


@pytest.fixture
def remat(capsys):
    """Runs a command line in this process."""
    return runner(capsys)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the tables of the chain and of the graph with residents of `tests.command_line`."""
    monkeypatch.chdir(tmp_path)
    return lay_tables(tmp_path)
