"""Tests of adapters: plans are cached in a folder of their own, and tests of PyTorch do not share compilations."""

from pathlib import Path

import pytest

from remat_algos.search import plan_cache

IGNORED = (
    "ignore::DeprecationWarning:torch",
    "ignore::UserWarning:torch",
    # A model of ten lines cannot keep to most budgets; the test uses its plan with the lowest peak.
    "ignore:.*the plan with the lowest peak runs",
    "ignore:.*gradients that wait for the end",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name.startswith("test_torch"):
            item.add_marker(pytest.mark.filterwarnings(*IGNORED), append=False)
            item.fixturenames.insert(0, "own_compilations")


@pytest.fixture
def own_compilations():
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True, scope="module")
def _plans_are_cached_apart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "cache_folder", lambda *names: folder)
        yield
