"""What follows from the rows and entries of a result; nothing else of the package prints itself in a way of its own."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import remat_algos as ra
from remat_algos.result import Result, Summary, entries

PACKAGE = Path(ra.__file__).parent
PARTS = {"record", "rows", "lines", "text", "__str__"}
# Parts of results, and values that have a JSON form or are written as one word: none is printed alone.
VALUES = {"Budget", "Constraints", "Decision", "Link", "Offload", "SearchReport"}


@dataclass(frozen=True, slots=True, eq=False)
class Sizes(Result):
    """Bytes by name."""

    sizes: dict
    total: np.ndarray

    ENTRIES = "sizes whole=total shape=total.shape"
    COLUMNS = ("name", "bytes")

    def rows(self):
        for name, size in self.sizes.items():
            yield name, f"{size:,}"

    def notes(self):
        yield "in\nall 1,008"


SIZES = Sizes({"x": 1000, "<y>": 8}, np.array([1008]))


def test_text_notebook_and_file_follow(tmp_path):
    assert str(SIZES).splitlines() == ["name  bytes", "x     1,000", "<y>       8", "in\\nall 1,008"]
    assert "&lt;y&gt;       8" in SIZES._repr_html_()
    SIZES.save(tmp_path / "sizes.json")
    assert json.loads((tmp_path / "sizes.json").read_text()) == SIZES.record()
    assert SIZES.record() == {"sizes": {"x": 1000, "<y>": 8}, "whole": [1008], "shape": [1]}


def test_an_entry_with_a_record_is_that_record():
    plan = ra.solve(ra.differentiate(ra.ComputationGraph.from_edges([(0, 1), (1, 2)])), "100%", solver="no_remat")
    assert entries(plan, "budget peak=simulation.peak_memory")["budget"] == plan.budget.record()


def test_comparisons_print_their_table():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    found = ra.compare(graph, 7, solvers=["no_remat", "chen_greedy"])
    assert {"chen_greedy", "no_remat"} <= {line.partition(" ")[0] for line in str(found).splitlines()}
    assert repr(found).startswith("<Comparison")


@dataclass(frozen=True)
class Table(Result):
    peaks: tuple[int, ...] = (3, 14)
    COLUMNS = ("solver", "peak", "spare", "runs")
    ENTRIES = "largest=peaks"

    def heading(self):
        return ["two solvers"]

    def rows(self):
        return [(f"s{peak}", f"{peak} B", "", "0") for peak in self.peaks]

    def notes(self):
        return ["a long note " * 10]


def test_the_text_is_heading_table_and_notes_without_empty_columns():
    lines = Table().lines()
    assert [line.split() for line in lines[:4]] == [
        ["two", "solvers"],
        ["solver", "peak"],
        ["s3", "3", "B"],
        ["s14", "14", "B"],
    ]
    assert all(len(line) <= 80 for line in lines)
    assert lines[4].startswith("a long note")
    assert "\n".join(lines) == str(Table())
    assert Table().record() == {"largest": [3, 14]}


def test_a_table_without_rows_has_no_headings():
    assert Table(()).lines()[:2] == ["two solvers", *Table().lines()[4:5]]


def test_rows_of_the_caller_are_aligned_with_labels_and_below_a_table():
    summary = Summary({"peak": 3}, [("lower bound", "3 B")])
    assert summary.lines(("written", "a.json")) == ["lower bound  3 B", "written      a.json"]
    assert summary.record() == {"peak": 3}
    assert Table().lines(("written", "a.json"))[-1] == "written  a.json"


def classes():
    for file in PACKAGE.rglob("*.py"):
        for each in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(each, ast.ClassDef):
                yield each


def test_classes_with_a_record_and_a_text_are_results():
    found = set()
    for each in classes():
        parts = {inner.name for inner in each.body if isinstance(inner, ast.FunctionDef)} & PARTS
        results = {base.id for base in each.bases if isinstance(base, ast.Name)} & {"Result"}
        if "record" in parts and len(parts) > 1 and not results and each.name != "Result":
            found.add(each.name)
    assert found == VALUES
