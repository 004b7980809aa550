"""The benchmarks as asv runs them (`times/`)."""

import importlib.util
import json
from pathlib import Path

import pytest

TIMES = Path(__file__).parents[1] / "times"


@pytest.mark.slow
def test_asv_has_the_seconds_of_every_benchmark():
    assert json.loads((TIMES / "asv.conf.json").read_text(encoding="utf-8"))["benchmark_dir"] == "benchmarks"
    found = importlib.util.spec_from_file_location("seconds", TIMES / "benchmarks" / "seconds.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    (tests,) = module.track_seconds.params
    quick = "tests/benchmarks/test_simulation.py::test_differentiate_ten_thousand_nodes"
    assert quick in tests
    assert 0 < module.track_seconds(quick) < 10
