"""Notebooks that readers download stand alone: a link to another page is plain text, and the download link is gone."""

import json
import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)\s]+\)")
DOWNLOAD = re.compile(r"\{nb-download\}`[^`]*`: this page as a notebook(?:; it (needs)|\. )")


def standalone(text: str) -> str:
    """The text of a page as a notebook without the other pages shows it."""
    return LINK.sub(r"\1", DOWNLOAD.sub(lambda match: "This notebook needs" if match[1] else "", text))


def rewrite(path: Path) -> None:
    """Let a notebook stand alone."""
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = standalone("".join(cell["source"]))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def setup(app):
    def rewrite_all(app, error):
        for path in Path(app.outdir, "_downloads").glob("*/*.ipynb"):
            rewrite(path)

    app.connect("build-finished", rewrite_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
