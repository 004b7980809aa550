"""`--write-benchmarks-page`: what the benchmarks measure becomes docs/benchmarks.md."""

import os
import resource
import time
from pathlib import Path

import pytest

from tests.benchmarks import quality
from tests.benchmarks.occasion import Occasion
from tests.benchmarks.page import PAGE, RECORD, Row, own_sections, page, record_text, write_section

ROWS = pytest.StashKey[list[Row]]()
SKIPPED_FILES = pytest.StashKey[dict[str, str]]()
LOAD = pytest.StashKey[float]()
QUALITY_FILE = Path(__file__).with_name("test_quality.py")


def pytest_addoption(parser):
    parser.addoption("--write-benchmarks-page", action="store_true", help="write docs/benchmarks.md")


def pytest_configure(config):
    config.stash[ROWS] = []
    config.stash[SKIPPED_FILES] = {}
    config.stash[LOAD] = os.getloadavg()[0]


def cpu_seconds():
    """Of this process and of those that it has waited for: what runs beside them does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def pytest_collection_modifyitems(config, items):
    """The benchmark of quality takes minutes: it runs only where an option or an argument names it."""
    named = any("quality" in word for word in (config.option.keyword, *config.args))
    left_out = [] if named else [item for item in items if item.path == QUALITY_FILE]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.path != QUALITY_FILE]
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=cpu_seconds))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A file whose libraries are not installed."""
    report = yield
    if report.skipped:
        collector.config.stash[SKIPPED_FILES][Path(report.nodeid).stem.removeprefix("test_")] = reason(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A benchmark that has run, or was skipped, is a row of the page."""
    report = yield
    benchmark = item.funcargs.get("benchmark")
    if report.skipped and "benchmark" in getattr(item, "fixturenames", ()):
        item.config.stash[ROWS].append(Row.of(item.nodeid, skipped=reason(report)))
    elif call.when == "call" and benchmark is not None and benchmark.stats is not None:
        times = benchmark.stats.stats.data
        item.config.stash[ROWS].append(Row.of(item.nodeid, benchmark.extra_info, times))
    return report


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """The tables of quality; where no row is missing they become its section of the page."""
    reports = terminalreporter.stats.get("passed", [])
    properties = [each for report in reports if report.when == "call" for each in report.user_properties]
    records = [record for name, several in properties if name == "quality" for record in several]
    if not records:
        return
    records += quality.sums(records)
    terminalreporter.section("quality")
    terminalreporter.write_line(quality.aligned(quality.COLUMNS, quality.WIDTHS))
    for record in records:
        terminalreporter.write_line(quality.text(record))
    if exitstatus == 0 and quality.is_whole(records):
        where = str(Occasion.now(config.stash[LOAD]))
        write_section(quality.section(records, where))
        quality.RECORD.write_text(quality.record_text(records, where), encoding="utf-8")
        terminalreporter.write_line(f"written to {PAGE}")


def reason(report):
    """Why it was skipped."""
    return report.longrepr[2].removeprefix("Skipped: ")


def pytest_sessionfinish(session, exitstatus):
    """Nothing is written after a failure: a page lacks no row without saying so."""
    stash = session.config.stash
    if session.config.getoption("--write-benchmarks-page") and exitstatus == 0 and stash[ROWS]:
        kept = own_sections(PAGE.read_text(encoding="utf-8"))
        where = str(Occasion.now(stash[LOAD]))
        PAGE.write_text(page(stash[ROWS], where, stash[SKIPPED_FILES], kept), encoding="utf-8")
        RECORD.write_text(record_text(stash[ROWS], where), encoding="utf-8")
