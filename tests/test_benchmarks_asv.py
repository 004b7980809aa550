"""The benchmarks as asv runs them (`tests/benchmarks/asv`)."""

import importlib.util
import json
from pathlib import Path

import pytest

ASV = Path(__file__).parent / "benchmarks" / "asv"


@pytest.mark.slow
def test_asv_has_the_seconds_of_every_benchmark():
    assert json.loads((ASV / "asv.conf.json").read_text(encoding="utf-8"))["benchmark_dir"] == "tracked"
    found = importlib.util.spec_from_file_location("seconds", ASV / "tracked" / "seconds.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    (tests,) = module.track_seconds.params
    quick = "tests/benchmarks/test_simulation.py::test_differentiate_ten_thousand_nodes"
    assert quick in tests
    assert 0 < module.track_seconds(quick) < 10
