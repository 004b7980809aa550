"""CPU seconds of each test of tests/benchmarks, which asv keeps per commit and machine.

asv does not find tests of pytest-benchmark, so each is run by itself, and what it measures is what is tracked.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-only")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def tests():
    """Ids of the tests that are benchmarks, as pytest lists them."""
    command = [*PYTEST, "--collect-only", "tests/benchmarks"]
    listed = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "::" in line]


def track_seconds(test):
    """The median of a test; nan where a library that it needs is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "measured.json")
        command = [*PYTEST, f"--benchmark-json={file}", test]
        subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        measured = json.loads(file.read_text(encoding="utf-8"))["benchmarks"] if file.stat().st_size else []
    return measured[0]["stats"]["median"] if measured else float("nan")


track_seconds.params = [tests()]
track_seconds.param_names = ["test"]
track_seconds.unit = "seconds"
track_seconds.version = "1"  # raise it where the figures of before can no longer be compared
