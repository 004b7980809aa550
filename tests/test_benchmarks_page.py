"""The page of benchmarks: what it says of each, and that it is what the benchmarks write."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import page as pages
from tests.benchmarks import quality
from tests.benchmarks.page import COPIES, PAGE, QUALITY, RECORD, Row, own_sections, page, record_text, write_section
from tests.benchmarks.wanted import SECONDS

ROOT = Path(__file__).parent.parent
FACTORS = {"s": 1, "ms": 1e-3, "µs": 1e-6}
UNMEASURED = ("Measured on", "Missed:", "Not run:")
ID = "tests/benchmarks/test_files.py::test_read_it"


def timed(text):
    """The page without the sections that commands of their own write."""
    return text.removesuffix(own_sections(text)).rstrip("\n") + "\n"


def outline(text):
    """The page without what was measured."""
    text = timed(text)
    lines = [line for line in text.splitlines() if not line.startswith(UNMEASURED)]
    heads = ("| benchmark |", "| ---")
    return [line.split(" | ")[0] if line[:1] == "|" and not line.startswith(heads) else line for line in lines]


@pytest.fixture(scope="module")
def ids():
    command = [sys.executable, "-m", "pytest", "tests/benchmarks", "--collect-only", "-q", "-p", "no:cacheprovider"]
    printed = subprocess.run(command, cwd=ROOT, check=True, timeout=120, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if "::test_" in line]


def test_the_page_is_what_the_benchmarks_write(ids):
    """`python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page` writes it."""
    assert len(ids) > 10
    rows = [Row.of(test) for test in ids]
    assert outline(PAGE.read_text(encoding="utf-8")) == outline(page(rows, "this machine"))
    assert outline(RECORD.read_text(encoding="utf-8")) == outline(record_text(rows, "this machine"))


def test_every_wanted_time_is_that_of_a_benchmark(ids):
    assert set(SECONDS) <= {test.partition("::")[2] for test in ids}


def test_the_page_has_its_date_and_commit_and_no_wanted_time_above_three_times_the_measured(ids):
    text = timed(PAGE.read_text(encoding="utf-8"))
    assert re.search(
        r"^Measured on \d{4}-\d\d-\d\d at commit [0-9a-f]{12}( with changes)?, on .+, \d+ cores", text, re.M
    )
    wanted = {(row.file, row.title): row.info["wanted_s"] for row in map(Row.of, ids) if "wanted_s" in row.info}
    assert len(wanted) > 40
    for section in f"\n{RECORD.read_text(encoding='utf-8')}{text}".split("\n## ")[1:]:
        for line in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[2:]:
            title, _, time, *_ = line.split(" | ")
            limit = wanted.pop((section.partition("\n")[0], title), 0)
            assert limit <= 3.05 * in_seconds(time.partition(",")[0]), title  # both are rounded
    assert not wanted


def in_seconds(text):
    number, unit = text.split()
    return float(number) * FACTORS[unit]


def test_a_row_holds_what_was_measured():
    info = {"nodes": 2000, "wanted_s": 2, "cores": 2, "peak_mib": 381, "overhead_share": 0.25, "budget": "20%"}
    row = Row.of(f"{ID}[a-b-c]", info, [0.003, 0.00012, 1.5])
    assert row.file == "files"
    more = "peak 381 MiB, overhead 25.0%, budget 20%"
    assert row.cells() == ("read it: a, b-c", "2,000", "120 µs", more)


def test_a_row_marks_what_it_misses():
    row = Row.of(ID, {"wanted_s": 2}, [2.5, 2.1])
    assert (row.missed(), row.cells()[2]) == (["s"], "2.1 s, **missed**: 2 s")
    info = {"peak_share": 0.44, "wanted_peak_share": 0.1, "times_faster": 500, "wanted_times_faster": 800, "width": 2}
    row = Row.of(ID, {**info, "wanted_width": 2}, [1.0])
    assert row.missed() == ["peak_share", "times_faster"]
    assert row.cells()[-1] == ("peak 44.0% (**missed**: 10.0%), times faster 500 (**missed**: 800), width 2")
    assert (
        Row.of(ID, {"wanted_s": 2}, [1.9, 2.5]).missed() == []
    )  # the least counts, since others may have run beside it
    assert Row.of(ID, {"wanted_s": 2}).missed() == []


def test_a_figure_of_others_is_named_as_not_run_here():
    row = Row.of(ID, {"not_run_here": {"echo2020:": "300 ms"}}, [0.5])
    assert row.cells()[-1] == "echo2020: 300 ms (not run here)"


def test_what_was_skipped_stands_in_its_row_and_in_the_list_above():
    rows = [Row.of(ID, skipped="no file"), Row.of(f"{ID}_slowly", {"wanted_s": 1}, [2.0, 3.0])]
    text = page(rows, "this machine", {"separators": "networkx is not installed"})
    assert "\nMissed: 1 of 2 rows, which are marked.\n" in text
    assert "\nNot run: files: read it (no file); separators (networkx is not installed).\n" in text
    assert "\n| read it |  |  | not run: no file |\n" in text
    nothing = page([Row.of(ID, {}, [1.0])], "this machine")
    assert "\nMissed: nothing.\n\nNot run: nothing.\n" in nothing


def test_the_section_on_quality_is_written_alone_and_kept_by_the_rest(monkeypatch, tmp_path):
    file = tmp_path / "page.md"
    monkeypatch.setattr(pages, "PAGE", file)
    whole = page([Row.of(ID, {}, [1.0])], "this machine")
    file.write_text(whole)
    for text in ("first", "second"):
        write_section(f"{QUALITY}\n\n{text}\n")
        assert file.read_text() == f"{whole}\n{QUALITY}\n\n{text}\n"
        assert timed(file.read_text()) == whole
    write_section(f"{COPIES}\n\nrows\n")
    write_section(f"{QUALITY}\n\nthird\n")
    kept = own_sections(file.read_text())
    assert kept == f"{QUALITY}\n\nthird\n\n{COPIES}\n\nrows\n"
    assert page([Row.of(ID, {}, [2.0])], "this machine", others=kept).endswith(f"\n\n{kept}")


# ---------------------------------------------------------------- quality


def solved(name="unet-50%", wanted="3.544", **figures):
    graph, _, budget = name.partition("-")
    record = {"row": name, "graph": graph, "nodes": 126, "budget": float(budget.partition("%")[0]), "wanted": wanted}
    record |= {"effort": "default", "note": "", "feasible": True, "overhead": 3.544, "bound": 3.5, "gap": 0.044}
    return record | {"seconds": 1.0, "method": "echo"} | figures


def test_a_solve_is_a_row_with_what_it_misses():
    assert quality.cells(solved()) == (
        *("unet", "126", "50 %", "3.544", "3.500", "0.044", "3.544", "1.0", "echo", "default", ""),
    )
    assert quality.cells(solved(overhead=3.546, bound=3.546, gap=0))[3:7] == (
        *("3.546", "3.546", "optimal", "3.544, **missed**"),
    )
    none = {key: value for key, value in solved(feasible=False).items() if key not in ("overhead", "bound", "gap")}
    assert quality.cells({**none, "proven": False})[3:7] == ("none", "", "", "3.544, **missed**")
    assert quality.cells({**none, "proven": True, "wanted": ""})[3:7] == ("impossible", "", "", "")


def test_a_solve_is_compared_with_each_solver_alone():
    record = quality.alone(quality.measure(quality.Row("unet", 50), effort="fast"))
    assert record["alone"] is not None
    assert record["overhead"] <= record["alone"]
    assert record["note"].startswith("alone: ")
    assert not quality.missed(record)
    assert quality.missed(record | {"overhead": record["alone"] + 0.01})


def test_a_figure_is_a_row_with_what_it_misses():
    exact = quality.figure("optima", "exact", 98.5, "%", 99, at_least=True)
    assert quality.cells(exact) == ("exact", "98.5 %", "at least 99, **missed**")
    assert quality.cells(quality.figure("optima", "no plan", 0, "", 0)) == ("no plan", "0", "at most 0")
    assert quality.missed(quality.figure("optima", "no plan", 1, "", 0))
    assert quality.cells(quality.figure("optima", "all", 3.5, "CPU s")) == ("all", "3.5 CPU s", "")


def test_the_seventeen_networks_are_summed_once_all_are_measured():
    half = [solved(f"{name}-50%", overhead=2.0 + i, gap=0.1 * i) for i, name in enumerate(quality.SEVENTEEN)]
    assert list(quality.sums(half[1:])) == []
    mean, bound, near = quality.sums(half)
    assert (mean["value"], bound["value"], near["value"]) == (10, 3.5, 6)


def test_the_section_lists_what_was_missed_and_is_written_only_if_it_is_whole():
    records = [solved(), solved("vit_b_16-25%", overhead=9), quality.figure("optima", "no plan", 1, "", 0)]
    text = quality.section(records, "this machine")
    assert text.startswith(f"{QUALITY}\n\nPlans of `solve` with its defaults")
    assert "\nMissed: 2 of 3 rows, which are marked.\n" in text
    assert not quality.is_whole(records)
    rows = [{"row": str(row)} for row in (*quality.ROWS, "optima: exact", "frontier-resnet50: seconds")]
    assert not quality.is_whole(rows)
    assert quality.is_whole([*rows, {"row": "frontier-stable_diffusion_unet: seconds"}])


def test_the_command_prints_records_and_compares_with_earlier_ones(capsys, tmp_path):
    assert quality.main(["--rows", "unet", "--effort", "fast", "--solver", "no_remat", "--json"]) == 1
    line = capsys.readouterr().out
    (tmp_path / "before.jsonl").write_text(line)
    assert '"feasible": false' in line
    quality.main(["--rows", "unet-50%", "--effort", "fast", "--before", str(tmp_path / "before.jsonl")])
    table, row = capsys.readouterr().out.splitlines()
    assert table.split()[:3] == ["graph", "nodes", "budget"]
    assert "before none in" in row
    quality.main(["--list", "--rows", "pspnet"])
    assert capsys.readouterr().out.split() == ["pspnet-50%", "pspnet-25%"]
    with pytest.raises(SystemExit):
        quality.main(["--rows", "nmz"])
    assert "no row matches 'nmz'; give a graph" in capsys.readouterr().err
