"""The examples of docs/contributing.md, each applied to a copy of the project.

Usage: python docs/contributing.py

It applies every example, writes what its commands print, runs its tests, and writes which files it adds and changes
into the table of the page. Takes some minutes.

`<!-- adds: PATH -->` stands before the content of a new file, `<!-- changes: PATH -->` before a diff whose hunks are
separated by `@@`. Then come, run with the copy in place of the project: `python` blocks, as doctests; `console` blocks;
`sh` blocks, which write files and run the tests that ask for them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from remat_algos.kernels._built import STAMP, source_hash

from docs import console
from docs.page_parts import fill, table

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGE = DOCS / "contributing.md"
COPIED = ("remat_algos", "kernels", "docs", "tests", "examples", "README.md", "LICENSE", "pyproject.toml", "setup.py")
COPIED += ("conftest.py",)
NO_SOURCES = shutil.ignore_patterns(
    "__pycache__", "*.pyx", "*.cpp"
)  # of kernels only what is compiled: a build is of new ones
WRITTEN = ("__pycache__", "build", ".pytest_cache", ".hypothesis", ".benchmarks")  # folders of tools
FILE = re.compile(r"^<!-- (adds|changes): (\S+) -->\n(`{3,})\w*\n(.*?)^\3$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A section of the page that adds something to the project.

    `added` has the content of new files, `changed` the diffs of files that are there, by path.
    """

    title: str
    text: str
    added: dict[str, str]
    changed: dict[str, str]

    @property
    def name(self):
        """What is added: "A solver is one file" adds a solver."""
        return re.match(r"An? ([\w ]+?)(?: is one file)?$", self.title)[1]

    def apply(self, folder):
        """Add and change the files in a copy of the project."""
        for path, content in self.added.items():
            file = folder / path
            assert not file.exists(), path
            file.parent.mkdir(exist_ok=True)
            file.write_text(content, "utf-8")
        for path, diff in self.changed.items():
            file = folder / path
            file.write_text(patched(file.read_text("utf-8"), diff, path), "utf-8")


def examples(text=None):
    """The sections of the page that show files."""
    text = PAGE.read_text("utf-8") if text is None else text
    inside = [range(*file.span()) for file in FILE.finditer(text)]  # files have headings of their own
    heads = [head.start() for head in re.finditer(r"^## ", text, re.MULTILINE)]
    begins = [at for at in heads if not any(at in span for span in inside)]
    found = []
    for begin, end in pairwise([*begins, len(text)]):
        files = FILE.findall(text[begin:end])
        if files:
            added, changed = (
                {path: content for kind, path, _, content in files if kind == wanted} for wanted in ("adds", "changes")
            )
            title = text[begin + len("## ") :].partition("\n")[0]
            found.append(Example(title, text[begin:end], added, changed))
    return found


def patched(text, diff, path):
    """A text after a diff; each hunk must fit one place."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        assert text.count(old) == 1, f"{path} has {text.count(old)} places for\n{old}"
        text = text.replace(old, new)
    return text


def copy(folder):
    """The project without the sources of its Cython kernels, which are there as they were compiled."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=NO_SOURCES, copy_function=_copy_file)
        else:
            shutil.copy(source, folder / name)
    stamp = folder / "kernels" / STAMP  # of the sources that are there
    stamp.write_text(" ".join([source_hash(stamp.parent), *stamp.read_text("utf-8").split()[1:]]) + "\n", "utf-8")
    return folder


def _copy_file(source, target):
    """Compiled kernels are large: a link does."""
    os.symlink(source, target) if source.endswith(".so") else shutil.copyfile(source, target)


def environment(folder):
    """Of processes that use the copy."""
    return {**os.environ, "PYTHONPATH": str(folder), "REMAT_CACHE_DIR": str(folder / "build" / "cache")}


def doctests(example, folder):
    """Run the Python of a section, top to bottom; what fails is printed by the doctest."""
    blocks = "\n".join(re.findall(r"^```python\n(>>>.*?)^```$", example.text, re.DOTALL | re.MULTILINE))
    with tempfile.TemporaryDirectory() as place:
        console.prepare(Path(place))
        Path(place, "page.txt").write_text(blocks, "utf-8")
        command = [sys.executable, "-W", "error", "-m", "doctest", "page.txt"]
        run = subprocess.run(command, cwd=place, env=environment(folder), stdout=subprocess.PIPE, encoding="utf-8")
    return run.stdout


def commands(example, folder):
    """The `console` blocks of a section, and what they print now."""
    with tempfile.TemporaryDirectory() as place:
        console.prepare(Path(place))
        return [
            (block, console.transcript(block, Path(place), environment(folder)))
            for block in console.BLOCK.findall(example.text)
        ]


def shell(example, folder):
    """Run the lines of the `sh` blocks of a section in the copy; CalledProcessError if one fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in "".join(SHELL.findall(example.text)).splitlines():
        subprocess.run(line, shell=True, cwd=folder, env={**environment(folder), "PATH": path}, check=True)


def files(folder):
    """Content of every file in the copy, what tools leave apart."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".so" and not set(path.relative_to(folder).parts) & {*WRITTEN, STAMP}
    }


def touched(example):
    """(new files, changed files, those that commands wrote) of an example, found by comparing the copy."""
    with tempfile.TemporaryDirectory() as name:
        folder = copy(Path(name))
        before = files(folder)
        example.apply(folder)
        by_hand = {*example.added, *example.changed}
        shell(example, folder)
        after = files(folder)
    found = {path for path in after if after[path] != before.get(path)}
    assert by_hand <= found, by_hand - found
    new, changed = ([path for path in by_hand if (path in before) is known] for known in (False, True))
    return sorted(new), sorted(changed), sorted(found - by_hand)


def row(name, *columns):
    """The cells of a row of the table."""
    return [name, *(f"{len(paths)}: {', '.join(f'`{path}`' for path in paths)}" if paths else "" for paths in columns)]


def renewed(text):
    """The page with what its commands print now."""
    for example in examples(text):
        with tempfile.TemporaryDirectory() as name:
            example.apply(copy(Path(name)))
            for old, new in commands(example, Path(name)):
                text = text.replace(f"```console\n{old}```", f"```console\n{new}```")
    return text


def main():
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
    rows = [row(example.name, *touched(example)) for example in examples()]
    lines = table(("to add", "new files", "changed files", "written by commands"), rows)
    fill(PAGE, "files", f"{lines}\n")
    print(lines)


if __name__ == "__main__":
    main()
