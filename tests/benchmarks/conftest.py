"""`--write-benchmarks-page`: what the benchmarks measure becomes docs/benchmarks.md."""

import pytest

from tests.benchmarks.page import PAGE, Row, machine, page

ROWS = pytest.StashKey[list[Row]]()


def pytest_addoption(parser):
    parser.addoption("--write-benchmarks-page", action="store_true", help="write docs/benchmarks.md")


def pytest_configure(config):
    config.stash[ROWS] = []


@pytest.fixture(autouse=True)
def row(request, benchmark):
    """A benchmark that has run is a row of the page."""
    yield
    if benchmark.stats is not None:
        request.config.stash[ROWS].append(Row.of(request.node.nodeid, benchmark.extra_info, benchmark.stats.stats.data))


def pytest_sessionfinish(session, exitstatus):
    """Nothing is written after a failure: a page lacks no row without saying so."""
    rows = session.config.stash[ROWS]
    if session.config.getoption("--write-benchmarks-page") and exitstatus == 0 and rows:
        PAGE.write_text(page(rows, machine()), encoding="utf-8")
