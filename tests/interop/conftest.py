"""Plans are cached in a folder of the tests' own: those of earlier runs are not read, nor the user's removed."""

import pytest

from remat_algos.plan import plan_cache


@pytest.fixture(autouse=True, scope="module")
def _plans_are_cached_apart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "cache_folder", lambda *names: folder)
        yield
