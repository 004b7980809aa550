"""Every recorded result says when, at which commit, on what and beside what load it was measured."""

import dataclasses

import pytest

from tests.benchmarks import occasion as occasions
from tests.benchmarks.occasion import Occasion

NOW = Occasion("2026-11-27", "0123456789ab", "a processor", 2, "3.11.7", {"numpy": "2.4.6", "scipy": "1.17.1"}, 0.1)
SAID = (
    "2026-11-27 at commit 0123456789ab, on a processor, 2 cores; Python 3.11.7, numpy 2.4.6, scipy 1.17.1; "
    "load average 0.1 before"
)


def test_an_occasion_in_words():
    assert str(NOW) == SAID
    assert str(dataclasses.replace(NOW, load=3.21)) == SAID.replace("0.1 before", "3.2 before") + (
        "; other processes ran beside it, which makes caches and times worse"
    )


def test_an_occasion_in_files():
    assert NOW.record("python -m it") == {
        "command": "python -m it",
        "date": "2026-11-27",
        "commit": "0123456789ab",
        "processor": "a processor",
        "cores": 2,
        "python": "3.11.7",
        "packages": {"numpy": "2.4.6", "scipy": "1.17.1"},
        "load": 0.1,
    }
    assert " ".join(NOW.paragraph("python -m it").split()) == f"Measured on {SAID} (`python -m it`)."


def test_now_is_an_occasion():
    now = Occasion.now()
    assert now.cores >= 1
    assert set(now.packages) >= {"numpy", "scipy"}
    assert Occasion.now(3.21).load == 3.2


CHANGES = {
    "": "0123456789ab",
    " M docs/benchmarks.md\n M docs/results/packings.json\n": "0123456789ab",
    " M docs/zoo.py\n": "0123456789ab with changes",
    " M docs/zoo.md\n M remat_algos/text/units.py\n": "0123456789ab with changes",
}


@pytest.mark.parametrize("changed", CHANGES)
def test_the_commit_counts_as_changed_where_a_program_is(monkeypatch, changed):
    printed = {"rev-parse": "0123456789ab\n", "status": changed}
    monkeypatch.setattr(occasions, "_git", lambda command, *words: printed[command])
    assert occasions.commit() == CHANGES[changed]


def test_outside_a_repository_the_commit_is_the_one_given(monkeypatch, tmp_path):
    monkeypatch.setattr(occasions, "ROOT", tmp_path)
    monkeypatch.delenv("REMAT_COMMIT", raising=False)
    assert occasions.commit() == "unknown"
    monkeypatch.setenv("REMAT_COMMIT", "0123456789ab")
    assert occasions.commit() == "0123456789ab"
