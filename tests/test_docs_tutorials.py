"""A reader of one tutorial alone can answer its exercises: the rules of the pages, typed in, are right."""

import contextlib
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import remat_algos as ra

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("[0-9]_*.md"))
KINDS = ("predict", "construct a counterexample", "prove", "implement")
HEADING = re.compile(r"^\*\*Exercise (\d+)\*\* \(([a-z ]+), (★{1,3})\)\.", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}\n(?::tags: [^\n]*\n)?(.*?)^```$", re.DOTALL | re.MULTILINE)
TO_FILL_IN = "prediction = ..."
TO_IMPLEMENT = re.compile(r"def \w+\((.*)\):\n( +)\"\"\".*\"\"\"\n +return \.\.\.\n")


def page_cells(path, heading=""):
    """The code of the cells of a page, or of its section; the lines for the kernel are left out."""
    text = path.read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    return [re.sub(r"^%.*$", "", cell, flags=re.MULTILINE) for cell in CELL.findall(text)]


def run_cell(cell, namespace):
    """Run a cell, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(cell, namespace)
    plt.close("all")
    return printed.getvalue()


@pytest.fixture(scope="module")
def solutions():
    """What the page of solutions computes; its cells fail where a rule and the simulator differ."""
    namespace = {"__name__": "solutions"}
    for cell in page_cells(FOLDER / "solutions.md"):
        run_cell(cell, namespace)
    return namespace


def exercises_of(path):
    """Number, kind and stars of each exercise of a tutorial, a page or a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    assert len(re.findall("Exercise", text)) == len(HEADING.findall(text))
    return HEADING.findall(text)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_answers_by_the_rules_are_right_in_the_tutorial(path, solutions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "tutorial"}
    names = iter([f"{path.stem[0]}.{number}" for number, kind, _ in exercises_of(path) if kind != "prove"])
    for cell in page_cells(path):
        if TO_FILL_IN not in cell and not TO_IMPLEMENT.search(cell):
            run_cell(cell, namespace)
            continue
        name = next(names)
        assert run_cell(cell, dict(namespace)).startswith("Replace ...")
        namespace["solution"] = solutions["answers"][name]
        filled_in = cell.replace(TO_FILL_IN, "prediction = solution")
        filled_in = TO_IMPLEMENT.sub(lambda match: match[0].replace("...\n", f"solution({match[1]})\n"), filled_in)
        assert run_cell(filled_in, namespace) == "right\n", name
    assert list(names) == []


def test_every_exercise_has_a_kind_stars_and_one_solution():
    text = (FOLDER / "solutions.md").read_text(encoding="utf-8")
    kinds = []
    for path in [*TUTORIALS, FOLDER / "6_pytorch.ipynb"]:
        exercises = exercises_of(path)
        section = text.partition(f"\n## Tutorial {path.stem[0]}:")[2].partition("\n## ")[0]
        numbers = [number for number, *_ in exercises]
        assert numbers == [str(n + 1) for n in range(len(exercises))]
        assert re.findall(r"^\*\*(\d+)\.\*\*", section, re.MULTILINE) == numbers, path.stem
        kinds += [kind for _, kind, _ in exercises]
    assert set(kinds) == set(KINDS)


def test_the_rules_for_chains_hold_beyond_the_exercises(solutions):
    random = np.random.default_rng(1)
    for _ in range(60):
        n = int(random.integers(2, 12))
        ends = sorted({*random.integers(1, n, 3).tolist(), n})
        lengths = np.diff([0, *ends]).tolist()
        run = solutions["segments"]([1] * n, lengths)
        assert (run.peak_memory, len(run.schedule) - 2 * n) == solutions["rule_2"](lengths)
        sizes = random.integers(1, 9, n).tolist()
        assert solutions["segments"](sizes, lengths).peak_memory == solutions["rule_4"](sizes, lengths)
    for d in (2, 3, 4):
        plan = solutions["recursion"](2**d - 1, d)
        assert (plan.peak_memory, len(plan.schedule) - 2**d + 1) == solutions["rule_3"](d)


def test_the_rules_for_other_graphs_hold_beyond_the_exercises(solutions):
    random = np.random.default_rng(2)
    for _ in range(30):
        lengths = random.integers(1, 4, int(random.integers(1, 4))).tolist()
        family = ra.structure.lower_set_family(solutions["fork"](lengths))
        assert len(family) == solutions["number_of_sets"](lengths)
        order = [*range(7), *random.integers(0, 7, 6).tolist(), 7]
        ladder = solutions["ladder"](4)
        assert solutions["peak_by_hand"](ladder, order) == ra.simulate(ladder, order).peak_memory
    for b in range(1, 40):
        assert solutions["levels"](b) == solutions["rule_of_levels"](b)
