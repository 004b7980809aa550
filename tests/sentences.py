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
SHORTEST = 2  # characters of a part of a template
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
    others: set[str]  # fields that other templates of the same call show

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
    of_module = assigned(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    for call, names in with_constants(tree, of_module):
        kind, before, place, own = made_by(call, file) or ("", "", len(call.args), set())
        every = [before + text for arg in call.args[place : place + 1] for text in templates(arg, names, call.lineno)]
        given = {keyword.arg for keyword in call.keywords}
        shown_by_any = {name for text in every for name, _, _ in shown(text)} if len(every) > 1 else set()
        for text in every:
            line = f"{file}, line {call.lineno}"
            yield Call(kind, text, (given | own) - {None, "skipped"}, None in given, line, shown_by_any)


def with_constants(node, names):
    """Each call below a node, with the texts that are assigned to names around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, names
        yield from with_constants(child, names | assigned(child) if isinstance(child, ast.FunctionDef) else names)


def assigned(function):
    """Values of the names that a function or module assigns, except those that grow."""
    found, grown = {}, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            grown.add(node.target.id)
    return {name: sorted(values, key=lambda value: value.lineno) for name, values in found.items() if name not in grown}


def templates(node, names, line):
    """The texts that an expression on a line may have; none if a part of it is no text of the sources.

    A name has the value of the last assignment above the line.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Name):
        above = [value for value in names.get(node.id, ()) if value.lineno < line]
        return templates(above[-1], names, above[-1].lineno) if above else []
    if isinstance(node, ast.IfExp):
        return [*templates(node.body, names, line), *templates(node.orelse, names, line)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        ends = templates(node.right, names, line)
        return [begin + end for begin in templates(node.left, names, line) for end in ends]
    return []


SOURCE, LINE, WHERE = "{source!p}: ", "{source!p}, line {line}: ", "{source!p}, {where!w}: "


def made_by(call, file):
    """Class, what stands before the template, the template's place, and more fields, of a call that makes a sentence.

    That is a class, `warn`, or a function that puts the place of a fault in front.
    """
    method, given = isinstance(call.func, ast.Attribute), {keyword.arg for keyword in call.keywords}
    name = call.func.attr if method else getattr(call.func, "id", None)
    if not method and name in PARAMETERS:
        return name, "", 0, set()
    if not method and name in ("warn", "warn_user"):
        return "GraphWarning", "", 0, set()
    if name == "fault" and file.parts[0] == "zoo":
        return "GraphError", "{model!w}: ", 0, {"model"}
    if name == "fault" and method and file.stem == "cg_text":
        return "GraphError", LINE, 0, {"source", "line"}
    if name == "fault" and not method:
        before = WHERE if "where" in given else LINE if "line" in given or len(call.args) > 2 else SOURCE
        return "GraphError", before, 1, {"source"} | ({"line"} if before == LINE else set())
    if name == "fail":
        at_line = not (call.args and isinstance(call.args[0], ast.Constant))
        return "GraphError", LINE if at_line else SOURCE, 1, {"source"} | ({"line"} if at_line else set())
    if name == "refuse" and not method and file.parts[0] == "allocate":
        return "AllocationError", "", 2, {"name"} | ({"under"} if "{under}" in ast.unparse(call) else set())
    if name == "refuse_used":
        return "RematError", "", 2, {"option"}
    if name in ("_fault", "freed") and file.stem == "orders":
        return "ScheduleError", SOURCE, 0, {"source"} | ({"name"} if name == "freed" else set())
    if name == "_fault" and file.stem == "buffer_tables":
        return "AllocationError", LINE, 2, {"source", "line"}
    if name == "_wrong" and file.stem == "json_text":
        return "GraphError", SOURCE + '"{key}" of {what!w} ', 1, {"source", "key", "what"}
    return None


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
        special = {"l": listed, "b": 3, "B": 3, "m": {name.upper(): 3}}
        fields[name] = special[letter] if letter in special else 3 if spec and not letter else name.upper()
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
    """True if the template is one or several texts of the sources, one after the other."""
    pieces = {}
    for text in every:
        if len(text) >= SHORTEST:
            pieces.setdefault(text[:SHORTEST], []).append(text)
    ends = {0}
    for at in range(len(entry.template)):
        if at in ends:
            near = pieces.get(entry.template[at : at + SHORTEST], ())
            ends |= {at + len(text) for text in near if entry.template.startswith(text, at)}
    return bool(entry.fields) and entry.kind in PARAMETERS and len(entry.template) in ends


if __name__ == "__main__":
    asked = sys.argv[1:]
    if asked and asked[0] != "record":
        sys.exit(__doc__)
    update(recorded(asked[1:]) if asked else {})
