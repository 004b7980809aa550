"""Runs the notebooks that need PyTorch and keeps their outputs in them: python docs/notebooks.py.

The build of these pages runs them too where PyTorch is installed; elsewhere it shows the outputs that are kept.
"""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import matplotlib

NOTEBOOKS = [Path(__file__).parent / "tutorials" / "6_pytorch.ipynb"]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell, and return its outputs as a notebook stores them: what it prints, and its last value."""
    lines = [line for line in source.splitlines() if not line.startswith("%")]
    body = ast.parse("\n".join(lines)).body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), namespace)
        if last:
            value = eval(compile(last, "cell", "eval"), namespace)
    text = {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
    return [text] * bool(text["text"]) + ([] if value is None else [shown(value)])


def shown(value: Any) -> dict[str, Any]:
    """A figure as SVG, anything else as text."""
    if hasattr(value, "savefig"):
        file = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": "remat_algos"}):
            value.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
        data = {"image/svg+xml": file.getvalue().splitlines(keepends=True), "text/plain": ["<Figure>"]}
    else:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def run(path: Path) -> None:
    """Run the cells of a notebook from its top, and write their outputs into it."""
    notebook, namespace = json.loads(path.read_text("utf-8")), {"__name__": "notebook"}
    for count, cell in enumerate(code_cells(notebook), 1):
        cell["outputs"] = run_cell("".join(cell["source"]), namespace)
        cell["execution_count"] = count
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    matplotlib.use("agg")
    for path in NOTEBOOKS:
        run(path)
