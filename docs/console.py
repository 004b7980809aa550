"""The `console` blocks of these pages: what stands behind `$` is run, what follows is what it prints.

`python docs/console.py` writes into every page what the commands print now; a test compares.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
GRAPHS = DOCS.parent / "examples" / "graphs"
README = DOCS.parent / "README.md"
EXTENDS = DOCS / "contributing.md"  # its blocks are run by contributing.py, in a project that has its examples
MARKED = re.compile(r"^<!-- file: ([^\s,]+).*? -->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WRITTEN = re.compile(
    r"^```\{code-cell\}\n(?::tags: [^\n]*\n\n)?%%writefile (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(  # last column of `remat compare` and `remat sweep`
    r" +(?:\d+\.\d\d|time|\(s\)|cpu|[\d.]+ [mu]?s)(?= *$)", re.MULTILINE
)


def prepare(folder, text=""):
    """The graph of the README, the example graphs and the files that a page shows, as its reader has them."""
    text = README.read_text("utf-8") + text
    for name, content in MARKED.findall(text) + WRITTEN.findall(text):
        (folder / name).write_text(content, "utf-8")
    for path in GRAPHS.glob("*.csv"):
        shutil.copy(path, folder)


def transcript(block, folder, environment=os.environ):
    """The commands of a block, each followed by what it prints."""
    environment = {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = []
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        run = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            encoding="utf-8",
        )
        printed.append(f"$ {command}\n{run.stdout}")
    return "".join(printed)


def renewed(text):
    """A page whose commands, run one after the other in one folder, show what they print now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, text)
        return BLOCK.sub(lambda block: f"```console\n{transcript(block[1], folder)}```", text)


def timeless(text):
    """The same page, whatever time its commands took."""
    return SECONDS.sub(" 0.00", text)


if __name__ == "__main__":
    for page in [README, *sorted({*DOCS.rglob("*.md")} - {EXTENDS})]:
        old = page.read_text("utf-8")
        new = renewed(old)
        if timeless(new) != timeless(old):
            page.write_text(new, "utf-8")
            print(page.relative_to(DOCS.parent))
