"""The page docs/benchmarks.md, from what the benchmarks measured."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
COLUMNS = ("benchmark", "nodes", "reads", "median", "least", "wanted", "rounds", "more")
HEAD = """\
# Benchmarks

Times of whole calls in this process, and of whole processes where the command line is measured; a first round is not
counted. `median` and `least` are over the rounds, `wanted` is what the project asks of itself.
`python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page` writes this page.
"""
SIZES = {"nodes", "reads", "cores", "wanted_s"}  # of `extra_info`, those that are no notes


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark: where it stands, its name, and, once it has run, what it measured in seconds."""

    file: str
    name: str
    info: dict[str, object] = field(default_factory=dict)
    times: tuple[float, ...] = ()

    @classmethod
    def of(cls, node_id: str, info: dict[str, object] | None = None, times: Iterable[float] = ()) -> "Row":
        """From a test's id, `tests/benchmarks/test_files.py::test_read[x]`."""
        path, _, test = node_id.partition("::")
        return cls(Path(path).stem.removeprefix("test_"), test.removeprefix("test_"), info or {}, tuple(sorted(times)))

    def cells(self) -> tuple[str, ...]:
        """Under `COLUMNS`; without times those that need them are empty."""
        name, _, parameters = self.name.removesuffix("]").partition("[")
        title = name.replace("_", " ") + (f": {parameters.replace('-', ', ', 1)}" if parameters else "")
        if not self.times:
            return (title, *[""] * (len(COLUMNS) - 1))
        wanted = self.info.get("wanted_s")
        return (
            title,
            *(f"{self.info[size]:,}" if size in self.info else "" for size in ("nodes", "reads")),
            seconds(self.times[len(self.times) // 2]),
            seconds(self.times[0]),
            "" if wanted is None else seconds(float(str(wanted))),
            str(len(self.times)),
            ", ".join(note(key, value) for key, value in self.info.items() if key not in SIZES),
        )


def page(rows: Iterable[Row], where: str) -> str:
    """The whole page: a table for each file."""
    lines, file = [HEAD, f"Measured on {where}."], None
    for row in rows:
        if row.file != file:
            file = row.file
            lines += ["", f"## {file}", "", line(COLUMNS), line("---" for _ in COLUMNS)]
        lines.append(line(row.cells()))
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Processor, cores and versions; nothing that names the machine."""
    import cpuinfo  # comes with pytest-benchmark

    processor = cpuinfo.get_cpu_info().get("brand_raw") or platform.machine()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{processor}, {os.cpu_count()} cores; Python {platform.python_version()}, {packages}"


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def seconds(time: float) -> str:
    """Three digits and a unit."""
    unit, factor = next((u, f) for u, f in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if time * f >= 1 or u == "µs")
    return f"{time * factor:.3g} {unit}"


def note(key: str, value: object) -> str:
    """`peak_mib` 381 as "peak 381 MiB"; other units are `_s` and `_share`."""
    words, _, unit = key.rpartition("_")
    said = {
        "s": lambda: seconds(float(str(value))),
        "share": lambda: f"{float(str(value)):.1%}",
        "mib": lambda: f"{value:,} MiB",
    }.get(unit)
    if said is None:
        words, said = key, lambda: f"{value:,}" if isinstance(value, int) else str(value)
    return f"{words.replace('_', ' ')} {said()}"
