"""The page docs/benchmarks.md, from what the benchmarks measured."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from docs.page_parts import table
from tests.benchmarks.wanted import SECONDS

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
RECORD = PAGE.parent / "results" / "benchmarks.txt"
COMMAND = "python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page"
SHOWN = ("files", "simulation", "startup")  # the record has the others
QUALITY, COPIES = "## quality", "## copies"
"""Headings of the last sections, each of which a command of its own writes."""
COLUMNS = ("benchmark", "nodes", "time", "more")
HEAD = """\
# Benchmarks

Times are the CPU times of whole calls, the fastest of several rounds after a warm-up round; for the command line, those
of whole processes. A time or figure is **missed** if it is above what the project wants (`tests/benchmarks/wanted.py`).
`python -m pytest tests/benchmarks --benchmark-only --write-benchmarks-page` writes this page, except for its last two
sections. [benchmarks.txt](results/benchmarks.txt) has the rows of the executor, models, single solvers and their parts:
lower bounds, chains, `echo`, live sets, lower sets, moments, offsets, pools, search, and separators.
"""
UNNOTED = {"nodes", "reads", "cores", "wanted_s", "not_run_here"}  # keys of `extra_info` that the page omits
UNNOTED |= {"plans_simulated", "method", "proven", "buffers", "lower_sets", "formula_overhead", "points"}
UNNOTED |= {"width_of_10_seeds", "lower_bound", "steps", "values", "actions", "bytes_of_a_set", "moves", "solves"}
AT_LEAST = {"times_faster", "overhead_percent"}  # figures that should be high


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark: where it stands, its name, and, once it has run, what it measured in seconds.

    Of `info`, `wanted_X` is what is asked of `X`, of the times if X is `s`; `not_run_here` holds figures of others.
    """

    file: str
    name: str
    info: dict[str, Any] = field(default_factory=dict)
    times: tuple[float, ...] = ()
    skipped: str = ""

    @classmethod
    def of(
        cls, node_id: str, info: dict[str, Any] | None = None, times: Iterable[float] = (), skipped: str = ""
    ) -> "Row":
        """From a test's id, `tests/benchmarks/test_files.py::test_read[x]`."""
        path, _, test = node_id.partition("::")
        info = {**(info or {}), **({"wanted_s": SECONDS[test]} if test in SECONDS else {})}
        return cls(
            Path(path).stem.removeprefix("test_"), test.removeprefix("test_"), info, tuple(sorted(times)), skipped
        )

    @property
    def title(self) -> str:
        """The name in words."""
        name, _, parameters = self.name.removesuffix("]").partition("[")
        return name.replace("_", " ") + (f": {parameters.replace('-', ', ', 1)}" if parameters else "")

    def missed(self) -> list[str]:
        """Which of its wanted figures it misses: keys of `info`, "s" for the time."""
        wanted = {key.removeprefix("wanted_"): limit for key, limit in self.info.items() if key.startswith("wanted_")}
        found = {"s": self.times[0], **self.info} if self.times else {}
        return [
            key
            for key, limit in wanted.items()
            if found and (found[key] < limit if key in AT_LEAST else found[key] > limit)
        ]

    def cells(self) -> tuple[str, ...]:
        """Under `COLUMNS`; without times those that need them are empty."""
        if not self.times:
            said = f"not run: {self.skipped}" if self.skipped else ""
            return (self.title, *[""] * (len(COLUMNS) - 2), said)
        missed, wanted = self.missed(), self.info.get("wanted_s")
        return (
            self.title,
            f"{self.info['nodes']:,}" if "nodes" in self.info else "",
            seconds(self.times[0]) + (f", **missed**: {seconds(wanted)}" if "s" in missed else ""),
            ", ".join([*self._notes(missed), *self._figures_of_others()]),
        )

    def _notes(self, missed: Collection[str]) -> list[str]:
        """Return the other figures, each with the wanted one if it misses that."""
        notes = []
        for key, value in self.info.items():
            if key in UNNOTED or key.startswith("wanted_"):
                continue
            words, amount = note(key, value)
            limit = self.info.get(f"wanted_{key}")
            wanted = f" (**missed**: {note(key, limit)[1]})" if key in missed else ""
            notes.append(f"{words} {amount}{wanted}")
        return notes

    def _figures_of_others(self) -> list[str]:
        return [f"{whose} {figure} (not run here)" for whose, figure in self.info.get("not_run_here", {}).items()]


def page(rows: Sequence[Row], where: str, skipped_files: Mapping[str, str] | None = None, others: str = "") -> str:
    """The whole page: a table for each file that is shown; before them, what was missed and what was not run."""
    missed = sum(bool(row.missed()) for row in rows)
    not_run = [f"{row.file}: {row.title} ({row.skipped})" for row in rows if row.skipped]
    not_run += [f"{file} ({reason})" for file, reason in (skipped_files or {}).items()]
    lines = [HEAD, f"Measured on {where}.", "", missed_line(missed, len(rows))]
    lines += ["", f"Not run: {'; '.join(not_run) or 'nothing'}."]
    lines += tables(row for row in rows if row.file in SHOWN)
    return "\n".join(lines) + "\n" + (f"\n{others}" if others else "")


def record_text(rows: Sequence[Row], where: str) -> str:
    """The tables that the page leaves out, and where they were measured."""
    lines = tables(row for row in rows if row.file not in SHOWN)
    return "\n".join([*lines[1:], "", f"Measured on {where} (`{COMMAND}`).", ""])


def tables(rows: Iterable[Row]) -> list[str]:
    """Lines of a table for each file."""
    lines = []
    for file, of_file in groupby(rows, lambda row: row.file):
        lines += ["", f"## {file}", "", table(COLUMNS, (row.cells() for row in of_file))]
    return lines


def missed_line(missed: int, rows: int) -> str:
    """Say how many rows of a table are above what is wanted."""
    return f"Missed: {missed} of {rows:,} rows, which are marked." if missed else "Missed: nothing."


def own_sections(text: str) -> str:
    """The sections of a page that commands of their own write, "" if it has none."""
    places = [place for heading in (QUALITY, COPIES) if (place := text.find(f"\n{heading}\n")) >= 0]
    return text[min(places) + 1 :] if places else ""


def write_section(section: str) -> None:
    """Put such a section in the place of the page's own of that heading, or at its end."""
    text = PAGE.read_text(encoding="utf-8")
    heading = section.partition("\n")[0]
    before, found, after = text.partition(f"\n{heading}\n")
    _, mark, rest = after.partition("\n## ")
    rest = f"\n## {rest}" if mark else ""
    text = f"{before if found else text}".rstrip("\n")
    PAGE.write_text(f"{text}\n\n{section}{rest}", encoding="utf-8")


def seconds(time: float) -> str:
    """Three digits and a unit."""
    unit, factor = next((u, f) for u, f in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if time * f >= 1 or u == "µs")
    return f"{time * factor:.3g} {unit}"


def note(key: str, value: object) -> tuple[str, str]:
    """`peak_mib` 381 as "peak", "381 MiB"; other units are `_s`, `_percent` and `_share`."""
    words, _, unit = key.rpartition("_")
    formats = {
        "s": lambda: seconds(float(str(value))),
        "percent": lambda: f"{value}%",
        "share": lambda: f"{float(str(value)):.1%}",
        "mib": lambda: f"{value:,} MiB",
    }
    if unit in formats:
        return words.replace("_", " "), formats[unit]()
    return key.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)
