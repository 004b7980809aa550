"""What follows from the rows and entries of a result."""

import json
from dataclasses import dataclass

import numpy as np

import remat_algos as ra
from remat_algos.result import Result, entries


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
