"""Test the adapter of PyTorch with versions of PyTorch, each in a fresh virtual environment.

`python -m tests.torch_versions 2.6 2.9 newest` installs each version and the package with its test extra, runs the
tests, and prints a row of a table for each part of the tests. `--eager` runs only the tests of what every version
takes. pip installs from where its configuration says. Exit codes: 0 if all tests pass, 1 if one fails or does not end
in time, 3 if no test fails and a version cannot be installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/interop/test_torch*.py"
EAGER = [
    f"tests/interop/test_torch_{name}.py" for name in ("checkpoints", "eager_capture", "plan_checkpoints", "versions")
]
"""Files of tests that need no private names of PyTorch; the other files of `TESTS` are about the compiled backend."""
UNAVAILABLE = 3

# The first line is the version, the second what the compiled backend says of a version outside its window.
PROBE = """
import torch
print(torch.__version__)
try:
    import remat_algos.interop.torch.private_names
except ImportError as error:
    print(error)
"""


class SuiteResult(NamedTuple):
    """A version of PyTorch, a part of the tests, and how many ended in which way, or a note if none was counted."""

    version: str
    part: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""

    def __str__(self) -> str:
        counts = self.note or f"{self.passed:6d}  {self.failed:6d}  {self.skipped:7d}"
        return f"{self.version:14s}  {self.part:8s}  {counts}"


class StepError(Exception):
    """A command that fails or takes too long, with the last line that it prints."""


def run(limit: float, *command: str | Path) -> list[str]:
    """Return the lines that a command prints, or raise StepError."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise StepError(f"not done after {limit:g} s") from None
    if done.returncode:
        # The last line of pip is sometimes only an address of its manual.
        said = [line for line in done.stderr.splitlines() if line.strip() and "://" not in line]
        raise StepError(said[-1] if said else f"exit code {done.returncode}")
    return done.stdout.splitlines()


def install(python: Path, version: str, limit: float) -> None:
    """Install a version of PyTorch and the package; raise StepError if that cannot be done."""
    exact = version if "+" in version or version.count(".") > 1 else f"{version}.*"
    torch = "torch" if version == "newest" else f"torch=={exact}"
    # One step, so that PyTorch's own limits on other packages are kept.
    run(limit, python, "-m", "pip", "install", "-q", "--no-cache-dir", torch, "-e", f"{ROOT}[test]")


def tests(python: Path, folder: Path, files: list[str], workers: str, limit: float) -> tuple[int, int, int]:
    """Run tests; return how many pass, fail and are skipped. One that cannot be collected fails."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "-rs", "-n", workers, "-p", "no:cacheprovider", f"--junitxml={report}"]
    try:
        code = subprocess.run([*command, *files], cwd=ROOT, check=False, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        raise StepError(f"not done after {limit:g} s") from None
    suites = ElementTree.parse(report).getroot().iter("testsuite") if report.exists() else ()
    counts = [[int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")] for suite in suites]
    total, failures, errors, skipped = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0, 0)
    failed = failures + errors
    return total - failed - skipped, failed or int(code != 0), skipped


def results_of(version: str, options: argparse.Namespace) -> Iterator[SuiteResult]:
    """Install a version in a fresh environment, and yield the result of each part of the tests."""
    parts = {"eager": EAGER}
    if not options.eager:
        parts["compiled"] = sorted({str(file.relative_to(ROOT)) for file in ROOT.glob(TESTS)} - set(EAGER))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder, with_pip=True)
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        try:
            install(python, version, options.limit)
        except StepError as error:
            yield SuiteResult(version, "all", note=f"NOT RUN, it cannot be installed: {error}")
            return
        try:
            full, *refused = run(options.limit, python, "-W", "ignore", "-c", PROBE)
        except StepError as error:
            yield SuiteResult(version, "all", failed=1, note=f"FAILED, it cannot be imported: {error}")
            return
        for part, files in parts.items():
            if part == "compiled" and refused:
                yield SuiteResult(full, part, note=f"NOT RUN: {refused[-1]}")
                continue
            try:
                yield SuiteResult(full, part, *tests(python, folder, files, options.workers, options.limit))
            except StepError as error:
                yield SuiteResult(full, part, failed=1, note=f"FAILED: {error}")


def main(arguments: list[str] | None = None) -> int:
    """Install and test versions, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch_versions", description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="+", help="such as 2.6, 2.13.0+cpu, or newest")
    parser.add_argument("--eager", action="store_true", help="without the tests of the compiled backend")
    parser.add_argument("-n", "--workers", default="0", help="processes of pytest (default: 0, none beside it)")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each installation and each part")
    options = parser.parse_args(arguments)
    results = []
    for version in options.versions:
        for result in results_of(version, options):
            results.append(result)
            print(result, flush=True)
    print(f"\n{'PyTorch':14s}  {'tests':8s}  passed  failed  skipped", *results, sep="\n")
    if any(result.failed for result in results):
        return 1
    return UNAVAILABLE if any(result.part == "all" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
