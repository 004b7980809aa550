"""Every recorded result says when, at which commit, on what and beside what load it was measured."""

import dataclasses
import json
import re

import pytest

from remat_algos.solvers.registry import AUTO, list_solvers
from tests.benchmarks import occasion as occasions
from tests.benchmarks.occasion import BEGIN, RESULTS, ROOT, Occasion

NOW = Occasion("2026-11-27", "0123456789ab", "a processor", 2, "3.11.7", {"numpy": "2.4.6", "scipy": "1.17.1"}, 0.1)
SAID = (
    "2026-11-27 at commit 0123456789ab, on a processor, 2 cores; Python 3.11.7, numpy 2.4.6, scipy 1.17.1; "
    "load average 0.1 before"
)


def test_an_occasion_in_words():
    assert str(NOW) == SAID
    assert str(dataclasses.replace(NOW, load=3.21)) == SAID.replace("0.1 before", "3.2 before") + (
        "; other processes were running, which makes caches and times worse"
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
    " M docs/zoo.md\n M remat_algos/text/amounts.py\n": "0123456789ab with changes",
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


# ---------------------------------------------------------------- what is recorded

# Measured at two commits, without the load, or in parts.
OTHERS = {"compiled_first_calls.txt", "compiled_later_calls.txt", "copies.txt", "quality.txt", "sweeps.txt"}
FILES = sorted({path.name for path in RESULTS.iterdir() if not path.name.startswith("device_")} - OTHERS)
SAYS = re.compile(
    r"Measured on \d{4}-\d\d-\d\d at commit [0-9a-f]{12}( with changes)?, on .+, \d+ cores; Python 3\.\d+\.\d+, "
    r"numpy [\d.]+, .+; load average \d+\.\d before.* \(`(?P<command>python -m [\w.]+)[\w. /-]*`\)\."
)


@pytest.mark.parametrize("name", FILES)
def test_a_record_says_when_and_where_it_was_measured_and_by_which_command(name):
    text = (RESULTS / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        fields = json.loads(text)["measured_on"]
        command = fields.pop("command")
        text = f"{BEGIN}{Occasion(**fields)} (`{command}`)."
    said = SAYS.search(" ".join(text.split()))
    assert said
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("artifact.md", "contributing.md")]
    assert any(f"`{said['command']}" in page for page in pages)


def of_validation(record):
    """Solvers with a plan, and those of which it says that they could make none."""
    skipped = {words.partition(":")[0] for words in record["summary"]["skipped"]}
    return (skipped | {each["solver"] for each in record["validations"]}) - {AUTO}


def of_random_dags(record):
    rows = {row["solver"].partition(",")[0] for row in record["rows"]} - {AUTO}
    return rows | set(record["without_rows"])


SOLVERS_OF = {
    "packings.json": lambda record: set(record["summary"]["solvers"]),
    "kumar2019_random_dags.json": of_random_dags,
    **{name: of_validation for name in FILES if name.startswith("validation_")},
}


@pytest.mark.parametrize("name", SOLVERS_OF)
def test_a_record_of_all_solvers_has_those_of_the_registry(name):
    """A new solver makes it fail: run the command of "measured_on" again."""
    record = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    assert SOLVERS_OF[name](record) == {solver.name for solver in list_solvers()}
