"""The page of benchmarks: what it says of each, and that it is what the benchmarks write."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import page as pages
from tests.benchmarks.page import PAGE, Row, occasion, page
from tests.benchmarks.wanted import SECONDS

ROOT = Path(__file__).parent.parent
FACTORS = {"s": 1, "ms": 1e-3, "µs": 1e-6}
UNMEASURED = ("Measured on", "Missed:", "Not run:")
ID = "tests/benchmarks/test_files.py::test_read_it"


def outline(text):
    """The page without what was measured."""
    lines = [line for line in text.splitlines() if not line.startswith(UNMEASURED)]
    heads = ("| benchmark |", "| ---")
    return [line.split(" | ")[0] if line[:1] == "|" and not line.startswith(heads) else line for line in lines]


@pytest.fixture(scope="module")
def ids():
    command = [sys.executable, "-m", "pytest", "tests/benchmarks", "--collect-only", "-q", "-p", "no:cacheprovider"]
    printed = subprocess.run(command, cwd=ROOT, check=True, timeout=120, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if "::" in line]


def test_the_page_is_what_the_benchmarks_write(ids):
    """`python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page` writes it."""
    assert len(ids) > 10
    assert outline(PAGE.read_text(encoding="utf-8")) == outline(page([Row.of(test) for test in ids], "this machine"))


def test_every_wanted_time_is_that_of_a_benchmark(ids):
    assert set(SECONDS) <= {test.partition("::")[2] for test in ids}


def test_the_page_has_its_date_and_commit_and_no_wanted_time_above_three_times_the_measured():
    text = PAGE.read_text(encoding="utf-8")
    assert re.search(
        r"^Measured on \d{4}-\d\d-\d\d at commit [0-9a-f]{12}( with changes)?, on .+, \d+ cores", text, re.M
    )
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    wanted = [(row[0], row[4], row[5].partition(",")[0]) for row in rows if row[5].strip()[:1].isdigit()]
    assert len(wanted) > 40
    for name, least, limit in wanted:
        assert in_seconds(limit) <= 3.05 * in_seconds(least), name  # both are rounded


def in_seconds(text):
    number, unit = text.split()
    return float(number) * FACTORS[unit]


def test_a_row_holds_what_was_measured():
    info = {"nodes": 2000, "wanted_s": 2, "cores": 2, "peak_mib": 381, "overhead_share": 0.25, "budget": "20%"}
    row = Row.of(f"{ID}[a-b-c]", info, [0.003, 0.00012, 1.5])
    assert row.file == "files"
    more = "peak 381 MiB, overhead 25.0%, budget 20%"
    assert row.cells() == ("read it: a, b-c", "2,000", "", "3 ms", "120 µs", "2 s", "3", more)


def test_a_row_marks_what_it_misses():
    row = Row.of(ID, {"wanted_s": 2}, [2.5, 2.1])
    assert (row.missed(), row.cells()[5]) == (["s"], "2 s, **missed**")
    info = {"peak_share": 0.44, "wanted_peak_share": 0.1, "times_faster": 500, "wanted_times_faster": 800, "width": 2}
    row = Row.of(ID, {**info, "wanted_width": 2}, [1.0])
    assert row.missed() == ["peak_share", "times_faster"]
    assert row.cells()[-1] == (
        "peak 44.0% (wanted 10.0%, **missed**), times faster 500 (wanted 800, **missed**), width 2 (wanted 2)"
    )
    assert (
        Row.of(ID, {"wanted_s": 2}, [1.9, 2.5]).missed() == []
    )  # the least counts, since others may have run beside it
    assert Row.of(ID, {"wanted_s": 2}).missed() == []


def test_a_row_of_one_round_has_no_median_and_says_so():
    assert Row.of(ID, {}, [0.5]).cells() == ("read it", "", "", "", "500 ms", "", "one", "")


def test_a_figure_of_others_is_named_as_not_run_here():
    row = Row.of(ID, {"not_run_here": {"echo2020:": "300 ms"}}, [0.5])
    assert row.cells()[-1] == "echo2020: 300 ms (not run here)"


def test_what_was_skipped_stands_in_its_row_and_in_the_list_above():
    rows = [Row.of(ID, skipped="no file"), Row.of(f"{ID}_slowly", {"wanted_s": 1}, [2.0, 3.0])]
    text = page(rows, "this machine", {"separators": "networkx is not installed"})
    assert "\nMissed: files: read it slowly.\n" in text
    assert "\nNot run: files: read it (no file); separators (networkx is not installed).\n" in text
    assert "\n| read it |  |  |  |  |  |  | not run: no file |\n" in text
    nothing = page([Row.of(ID, {}, [1.0])], "this machine")
    assert "\nMissed: nothing.\n\nNot run: nothing.\n" in nothing


def test_a_busy_machine_is_named(monkeypatch):
    monkeypatch.setattr(pages, "commit", lambda: "0123456789ab with changes")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d at commit 0123456789ab with changes, on .+ cores; Python .+", occasion(0.1))
    assert "other processes" not in occasion(0.4)
    assert occasion(3.21).endswith(
        "; other processes ran beside it (load average 3.2 before), which makes caches and times worse"
    )


def test_the_commit_counts_as_changed_where_a_file_is_other_than_the_page(monkeypatch):
    printed = {"rev-parse": "0123456789ab\n", "status": " M docs/benchmarks.md\n"}
    monkeypatch.setattr(pages, "_git", lambda command, *words: printed[command])
    assert pages.commit() == "0123456789ab"
    printed["status"] += " M remat_algos/text.py\n"
    assert pages.commit() == "0123456789ab with changes"
