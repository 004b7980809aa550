"""Pages in Chromium: its program and its settings, and the faults that axe finds."""

import os
import shutil
from pathlib import Path

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
DOCS = Path(__file__).parents[2] / "build" / "docs"
SERIOUS = ("serious", "critical")


def serious(page, axe):
    """Serious and critical faults: the rule and where."""
    page.evaluate(axe)
    faults = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in faults if each["impact"] in SERIOUS]
