"""The tutorial on PyTorch: its cells run, print what the notebook keeps, and accept the answers of the solutions."""

import json
import re

import matplotlib.pyplot as plt
import torch

from docs import notebooks
from tests.test_docs_tutorials import FOLDER, TO_FILL_IN, page_cells


def printed(outputs):
    return "".join(line for output in outputs if output["output_type"] == "stream" for line in output["text"])


def test_the_cells_print_what_is_kept_and_accept_the_answers():
    """`python docs/notebooks.py` keeps it."""
    solutions = {"answers": {}}
    for cell in page_cells(FOLDER / "solutions.md", heading="Tutorial 6"):
        notebooks.run_cell(cell, solutions)
    answers, exercises, namespace = solutions["answers"], 0, {"__name__": "notebook"}
    notebook = json.loads((FOLDER / "6_pytorch.ipynb").read_text(encoding="utf-8"))
    kept = "".join(printed(cell["outputs"]) for cell in notebooks.code_cells(notebook))
    same_version = re.search("^PyTorch (.*)$", kept, re.MULTILINE)[1] == torch.__version__
    for cell in notebooks.code_cells(notebook):
        source = "".join(cell["source"])
        outputs = notebooks.run_cell(source, dict(namespace) if TO_FILL_IN in source else namespace)
        plt.close("all")
        if same_version:
            assert printed(outputs) == printed(cell["outputs"]), source
            assert [output["output_type"] for output in outputs] == [kind["output_type"] for kind in cell["outputs"]]
        if TO_FILL_IN in source:
            exercises += 1
            filled_in = source.replace(TO_FILL_IN, f"prediction = {answers[f'6.{exercises}']}")
            assert printed(notebooks.run_cell(filled_in, namespace)) == "right\n", source
    assert exercises == len(answers)
