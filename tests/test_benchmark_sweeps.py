"""Results of the project that sweeps make (`tests/benchmarks/swept.py`)."""

from collections import Counter
from functools import partial

import pytest

from remat_algos.sweeps.driver import sweep
from remat_algos.sweeps.jobs import SweepJob
from tests.benchmarks import packings, random_dags, swept

JOBS = [SweepJob("model:vgg11", budget, "chen_sqrt", "fast") for budget in ("80%", "5%")]


@pytest.fixture
def at(tmp_path, monkeypatch):
    """The commit, to be set; sweeps are kept in another folder than those of the project."""

    def set_commit(name):
        monkeypatch.setattr(swept, "commit", lambda: name)
        monkeypatch.setattr(swept, "_begun", set())

    monkeypatch.setattr(swept, "ROOT", tmp_path)
    set_commit("0123456789ab")
    return set_commit


def test_the_sweep_of_a_commit_goes_on_and_that_of_changed_files_begins_anew(at):
    def times(commit, *names):
        at(commit)
        return [swept.swept(JOBS, name).records[0]["cpu_seconds"] for name in names]

    first = times("0123456789ab", "it")
    assert times("0123456789ab", "it") == first
    changed = times("0123456789ab with changes", "it", "it")
    assert changed[0] == changed[1] != first[0]
    assert times("0123456789ab with changes", "it") != changed[:1]
    assert times("ba9876543210", "it") != times("0123456789ab", "it")


def test_a_job_that_fails_is_an_error(at, monkeypatch):
    monkeypatch.setattr(swept, "sweep", partial(sweep, timeout=1e-3, retries=1))
    with pytest.raises(RuntimeError, match=r"2 jobs failed, 0 are left; .*it took more than 0\.001 s"):
        swept.swept(JOBS, "it")


def test_each_schedule_is_packed_once(at, monkeypatch):
    monkeypatch.setattr(packings, "list_models", lambda: ["vgg11", "resnet18"])
    monkeypatch.setattr(packings, "SOLVER_SECONDS", 60.0)
    counts = {name: Counter() for name in ("no_remat", "chen_sqrt", "chen_recursive", "revolve")}
    found = list(packings.schedules(counts))
    assert all(sum(each.values()) == 2 for each in counts.values())
    assert counts["revolve"] == {"no schedule": 2}
    assert len(found) == sum(each["packed"] for each in counts.values()) > 2
    orders = [(model, simulation.schedule.order.tobytes()) for model, _, simulation in found]
    assert len(set(orders)) == len(orders)
    assert {model for model, _, _ in found} == {"vgg11", "resnet18"}


def test_the_recorded_ratios_are_those_of_a_sweep(at, monkeypatch):
    """Of the first graphs of each family."""
    monkeypatch.setattr(random_dags, "COUNT", 1)
    optima = random_dags.golden()
    monkeypatch.setattr(random_dags, "golden", lambda: {family: each[:1] for family, each in optima.items()})
    rows = list(random_dags.rows())
    assert {row["family"] for row in rows} == set(random_dags.FAMILIES)
    exact = {(row["family"], row["solver"]): row["exact"] for row in rows}
    assert all(exact[family, name] == 1 for family in random_dags.FAMILIES for name in ("auto", "live_set_search"))
    assert all(row["mean_ratio"] >= 1 for row in rows)
