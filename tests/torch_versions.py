"""Test the adapter of PyTorch with versions of PyTorch, each in a fresh virtual environment.

`python -m tests.torch_versions 2.6 2.9 newest` installs each version and the package with its test extra, runs the
tests, and prints a table. `--eager` runs only the tests of what every version takes. pip installs from where its
configuration says. Exit codes: 0 if all tests pass, 1 if one fails, 3 if no test fails and a version cannot be
installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
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


class Result(NamedTuple):
    """A version of PyTorch, a part of the tests, and how many ended in which way."""

    version: str
    part: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""

    def __str__(self) -> str:
        counts = self.note or f"{self.passed:6d}  {self.failed:6d}  {self.skipped:7d}"
        return f"{self.version:14s}  {self.part:8s}  {counts}"


def install(python: Path, version: str) -> str:
    """Install a version of PyTorch and the package; return what pip says if that cannot be done, else nothing."""
    exact = version if "+" in version or version.count(".") > 1 else f"{version}.*"
    torch = "torch" if version == "newest" else f"torch=={exact}"
    for packages in ([torch], ["-e", f"{ROOT}[test]"]):
        command = [python, "-m", "pip", "install", "-q", "--no-cache-dir", *packages]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return ""


def printed(python: Path, code: str) -> str:
    """Return the last line that a program prints."""
    done = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def tests(python: Path, folder: Path, files: list[str], workers: str) -> tuple[int, int, int]:
    """Run tests; return how many pass, fail and are skipped. One that cannot be collected fails."""
    report = folder / "report.xml"
    command = [python, "-m", "pytest", "-q", "-rs", "-n", workers, "-p", "no:cacheprovider", f"--junitxml={report}"]
    code = subprocess.run([*command, *files], cwd=ROOT, check=False).returncode
    suites = ElementTree.parse(report).getroot().iter("testsuite") if report.exists() else ()
    counts = [[int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")] for suite in suites]
    total, failures, errors, skipped = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0, 0)
    failed = failures + errors
    return total - failed - skipped, failed or int(code != 0), skipped


def main(arguments: list[str] | None = None) -> int:
    """Install, test, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch_versions", description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="+", help="such as 2.6, 2.13.0+cpu, or newest")
    parser.add_argument("--eager", action="store_true", help="without the tests of the compiled backend")
    parser.add_argument("-n", "--workers", default="0", help="processes of pytest (default: 0, none beside it)")
    options = parser.parse_args(arguments)
    backend = sorted({str(file.relative_to(ROOT)) for file in ROOT.glob(TESTS)} - set(EAGER))
    results = []
    for version in options.versions:
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
            if reason := install(python, version):
                results.append(Result(version, "all", note=f"NOT RUN, it cannot be installed: {reason}"))
                continue
            full = printed(python, "import torch; print(torch.__version__)")
            results.append(Result(full, "eager", *tests(python, Path(folder), EAGER, options.workers)))
            if options.eager:
                continue
            refused = printed(python, "import remat_algos.interop.torch.private_names; print()")
            if refused.startswith("ImportError"):
                results.append(Result(full, "compiled", note=f"NOT RUN: {refused}"))
            else:
                results.append(Result(full, "compiled", *tests(python, Path(folder), backend, options.workers)))
    print(f"{'PyTorch':14s}  {'tests':8s}  passed  failed  skipped", *results, sep="\n")
    if any(result.failed for result in results):
        return 1
    return UNAVAILABLE if any(result.part == "all" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
