"""The table of sentences, `tests/sentences.txt`: templates of errors and warnings, with fields and what they print.

    python -m tests.sentences                       templates that are new get made-up fields, those that are gone go
    python -m tests.sentences record [ARGUMENTS]    the same, with fields of errors that tests raise

`record` runs pytest with the arguments, the whole suite without any. An entry whose template is still there keeps its
fields, so recording again changes nothing else. Of several errors the one with the shortest plain fields is taken.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import numpy as np

import remat_algos
from remat_algos import errors
from remat_algos.wording import sentence, spelled

PACKAGE = Path(remat_algos.__file__).parent
TABLE = Path(__file__).with_suffix(".txt")
FOLDER = "REMAT_TEST_SENTENCES"  # where processes that record leave what they saw
MADE = "made up: "
PARAMETERS = {
    name: set(inspect.signature(kind.__init__).parameters) - {"self", "template", "fields"}
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.Sentence)
}
"""Fields that the class itself names."""


class Call(NamedTuple):
    """A place in the sources that makes a sentence."""

    kind: str
    template: str
    fields: set[str]
    more: bool  # fields by `**`
    place: str

    def key(self):
        return self.kind, self.template, bool(self.fields or self.more or PARAMETERS[self.kind])


class Entry(NamedTuple):
    """A row of the table: a template without fields is what it prints."""

    kind: str
    template: str
    fields: dict[str, object]
    made: bool

    def __str__(self):
        head = f"{self.kind}: {self.template}\n"
        given = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return head + (f"    {MADE if self.made else ''}{given}\n    {self.prints()}\n" if given else "")

    def prints(self):
        return sentence(self.template, self.fields)


@cache
def trees():
    return {file.relative_to(PACKAGE): ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")}


@cache
def calls():
    """Each call that makes a sentence of a template, which stands there or is a constant of the module."""
    return [call for file, tree in trees().items() for call in calls_in(tree, file)]


def calls_in(tree, file):
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Attribute):
            # `net.fault(...)` of a network is a GraphError with its name in front
            if file.parts[0] == "zoo" and call.func.attr == "fault" and isinstance(call.args[0], ast.Constant):
                given = {keyword.arg for keyword in call.keywords} | {"model"}
                template, place = "{model!w}: " + call.args[0].value, f"{file}, line {call.lineno}"
                yield Call("GraphError", template, given - {None}, None in given, place)
        elif isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Name):
            name, first = call.func.id, call.args[0]
            first = constants.get(first.id, first) if isinstance(first, ast.Name) else first
            known = name in PARAMETERS or name in ("warn", "warn_user")
            if known and isinstance(first, ast.Constant) and isinstance(first.value, str):
                given = {keyword.arg for keyword in call.keywords}
                kind = name if name in PARAMETERS else "GraphWarning"
                place = f"{file}, line {call.lineno}"
                yield Call(kind, first.value, given - {None, "skipped"}, None in given, place)


def texts():
    """Every text of the sources: templates may be given to a class that a variable holds."""
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def shown(template):
    """(name, letter, how it is formatted) of each field of a template."""
    parsed = Formatter().parse(template)
    return [(name, letter, spec) for _, name, spec, letter in parsed if name is not None]


def read():
    """The entries of the table, by class and template."""
    entries = {}
    for text in filter(None, TABLE.read_text(encoding="utf-8").split("\n\n")) if TABLE.exists() else ():
        entry = parsed(text)
        entries[entry.kind, entry.template] = entry
    return entries


def parsed(text):
    head, *rest = text.strip("\n").split("\n")
    kind, template = head.split(": ", 1)
    if not rest:
        return Entry(kind, template, {}, False)
    given = rest[0].strip()
    keywords = ast.parse(f"f({given.removeprefix(MADE)})", mode="eval").body.keywords
    fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords}
    return Entry(kind, template, fields, given.startswith(MADE))


# ---------------------------------------------------------------- recording


def plain(value):
    """A field as a literal, without the folders of this machine; ValueError if it has none."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Path | BaseException):
        value = spelled(value)
    if isinstance(value, str):
        value = re.sub(rf"({tempfile.gettempdir()}|{PACKAGE.parent})/([\w.,+=-]+/)*", "", value)
    elif isinstance(value, list | tuple):
        value = type(value)(map(plain, value))
    if type(value)(ast.literal_eval(repr(value))) != value:
        raise ValueError
    return value


def cost(entry):
    """Short first; empty and odd characters are worse than long."""
    text = repr(entry.fields)
    return (
        (not text.isascii() or "\\" in text, "" in entry.fields.values() or [] in entry.fields.values()),
        len(text),
        text,
    )


seen = {}


def note(error, template, fields):
    """Remember the best fields of each template in this process."""
    named = [name for name, _, _ in shown(template)]
    if len(repr(fields)) < 1000 and set(named) <= set(fields):
        entry = Entry(type(error).__name__, template, {name: plain(fields[name]) for name in named}, False)
        known = seen.get(entry[:2])
        if known is None or cost(entry) < cost(known):
            seen[entry[:2]] = entry


def pytest_configure(config):
    """As a plugin of pytest: watch the errors that are made."""
    plainly = errors.Sentence.__init__

    def watched(self, template, /, **fields):
        plainly(self, template, **fields)
        # tests put anything into fields
        with suppress(Exception):
            note(self, template, fields)

    errors.Sentence.__init__ = watched


def pytest_unconfigure(config):
    if FOLDER in os.environ:
        Path(os.environ[FOLDER], f"{os.getpid()}.txt").write_text("\n".join(map(str, seen.values())), encoding="utf-8")


def recorded(arguments):
    """The best entry of each template that tests make."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.sentences", "-p", "no:cacheprovider", *arguments]
        subprocess.run(command, env={**os.environ, FOLDER: folder}, cwd=PACKAGE.parent, check=False)
        for file in sorted(Path(folder).iterdir()):
            for text in filter(None, file.read_text(encoding="utf-8").split("\n\n")):
                entry = parsed(text)
                if entry[:2] not in found or cost(entry) < cost(found[entry[:2]]):
                    found[entry[:2]] = entry
    return found


def invented(kind, template, filled):
    """An entry whose fields say their own names."""
    fields = {}
    for name, letter, spec in shown(template) if filled else ():
        listed = [f"{name.upper()} {i}" for i in "12"]
        fields[name] = listed if letter == "l" else 3 if spec and not letter else name.upper()
    return Entry(kind, template, fields, bool(fields))


def update(found):
    """Write the table anew.

    It has every call of the sources, and what was found where a variable holds the class. An entry keeps its fields.
    """
    known, every = read(), texts()
    wanted = {call.key() for call in calls()}
    named = {key[:2] for key in wanted}
    wanted |= {(*key, True) for key, entry in (known | found).items() if key not in named and belongs(entry, every)}
    entries = []
    for kind, template, filled in sorted(wanted):
        old, new = known.get((kind, template)), found.get((kind, template))
        entries.append(new if new and (old is None or old.made) else old or invented(kind, template, filled))
    TABLE.write_text("\n".join(map(str, entries)), encoding="utf-8")
    print(f"{len(entries)} sentences, {sum(entry.made for entry in entries)} of them with made-up fields")


def belongs(entry, every):
    """True if the template is a text of the sources, perhaps behind the place of the fault."""
    ends = tuple(text for text in every if len(text) > 20)
    return bool(entry.fields) and entry.kind in PARAMETERS and entry.template.endswith(ends)


if __name__ == "__main__":
    asked = sys.argv[1:]
    if asked and asked[0] != "record":
        sys.exit(__doc__)
    update(recorded(asked[1:]) if asked else {})
