"""When, at which commit, on what machine and beside what load a result was measured: said in one way everywhere.

`python -m tests.benchmarks.occasion onnx_order` runs examples/onnx_order.py and writes what it prints, and the
occasion, to docs/results/onnx_order.txt; so do torch_gpt and torch_offload.
"""

import datetime
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
PACKAGES = ("numpy", "scipy", "numba", "torch", "transformers", "jax", "onnx", "cupy-cuda12x", "cupy-cuda13x")
BUSY = 0.5  # load average from which on the machine was shared
BEGIN = "Measured on "


@dataclass(frozen=True, slots=True)
class Occasion:
    """Date, commit, processor, cores, versions, and the load average before; nothing that names the machine."""

    date: str
    commit: str
    processor: str
    cores: int
    python: str
    packages: dict[str, str]
    load: float

    @classmethod
    def now(cls, load: float | None = None) -> "Occasion":
        """This moment; before what is measured begins, or `load` is the load average of then."""
        return cls(
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            commit=commit(),
            processor=processor(),
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            packages={name: found for name in PACKAGES if (found := installed(name))},
            load=round(os.getloadavg()[0] if load is None else load, 1),
        )

    def record(self, command: str) -> dict[str, Any]:
        """What a JSON file holds under "measured_on": the command that wrote it, and all fields."""
        return {"command": command} | {name: getattr(self, name) for name in self.__slots__}

    def paragraph(self, command: str) -> str:
        """What a text file holds, in lines of up to 100 characters."""
        return fill(f"{BEGIN}{self} (`{command}`).", 100, break_on_hyphens=False, break_long_words=False)

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {found}" for name, found in self.packages.items())
        shared = "; other processes were running, which makes caches and times worse" if self.load > BUSY else ""
        return (
            f"{self.date} at commit {self.commit}, on {self.processor}, {self.cores} cores; Python {self.python}, "
            f"{packages}; load average {self.load:.1f} before{shared}"
        )


def commit() -> str:
    """The commit that is checked out, and whether files differ from it; outside a repository $REMAT_COMMIT."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD").strip()
        changed = [line[3:] for line in _git("status", "--porcelain", "--untracked-files=no").splitlines()]
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("REMAT_COMMIT", "unknown")
    return name + (" with changes" if any(map(_is_program, changed)) else "")


def processor() -> str:
    """The processor's own name, else the architecture's."""
    try:
        import cpuinfo  # comes with pytest-benchmark
    except ImportError:
        return platform.processor() or platform.machine()
    return str(cpuinfo.get_cpu_info().get("brand_raw") or platform.machine())


def installed(package: str) -> str:
    """Its version, "" if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _is_program(file: str) -> bool:
    """Whether a result may depend on it: pages, figures and results are written, and read by nothing measured."""
    return not file.startswith("docs/") or file.endswith(".py")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(names: list[str]) -> None:
    """Run examples and write what they print."""
    for name in names:
        occasion = Occasion.now()
        command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        said = occasion.paragraph(f"python -m tests.benchmarks.occasion {name}")
        (RESULTS / f"{name}.txt").write_text(f"{printed}\n{said}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
