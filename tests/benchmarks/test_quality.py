"""How good the plans of `solve` are: run by `python -m pytest tests/benchmarks -k quality`, which writes the tables."""

import pytest

from tests.benchmarks.quality import ROWS, SUMMARIES, measure

EACH = [pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.slow else []) for row in ROWS]


@pytest.mark.parametrize("row", EACH)
def test_quality(row, record_property):
    record_property("quality", [measure(row)])


@pytest.mark.parametrize("name", SUMMARIES)
def test_quality_of(name, record_property):
    record_property("quality", [*SUMMARIES[name]()])
