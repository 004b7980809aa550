"""One word for one idea: names that exist once, and none of the words of a stop list."""

import ast
import io
import itertools
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "remat_algos"
KERNELS = ROOT / "kernels"

# Folders whose files are named for something outside them, so a name there may stand elsewhere once.
NAMED_FOR_ANOTHER = {
    "cli/commands": "a command is named for the function that it calls: remat fit, questions/fit.py",
    "plot/pictures": "a picture is named for what it draws: plot/pictures/frontier.py, questions/frontier.py",
    "formats/graphs": "a format is named for its file extension or its community",
    "bounds": "a bound is named for what it bounds: bounds/closure.py, cost/node_costs.py",
}
EVERYWHERE = {
    "__init__": "every package has one",
    "tuning": "every room has one table of the numbers that change its results",
    "registry": "every registry of solvers, allocators, models and papers is found under one name",
    "study": "every paper has one",
    "networks": "every paper has its own",
}

# Names that still exist twice. Entries only go.
CLASSES_LEFT = {}


def python_files():
    return sorted(PACKAGE.rglob("*.py"))


def relative(path):
    return path.relative_to(ROOT).as_posix()


def words_of(identifier):
    """The words of a name: snake_case and CamelCase are both split.

    >>> words_of("_LeastHTMLBudget_2")
    ['least', 'html', 'budget']
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


# ---------------------------------------------------------------- the stop list


STOP_WORDS = (  # words that say less than the field's own, the better ones, and names that stay
    (
        "held",
        "live (values), resident (inputs, parameters, states), reserved (taken from the device by an allocator)",
        "",
    ),
    ("judge judges judged", "simulate, evaluate", ""),
    ("say says said tell tells told", "print, report, format; message, text", ""),
    ("ask asks asked asking", "request, requested; read", ""),
    ("want wants wanted", "required, target, expected", ""),
    ("given", "the name of what it is; specified, explicit", ""),
    ("found", "result, match, or the name of what it is", ""),
    ("made", "computed, produced, allocated", "made_at"),
    ("taken", "used, occupied", ""),
    ("turned", "flipped, reversed, transposed", ""),
    ("least", "minimum, lower bound", "LEAST least least_budget least_peak_bound least_reserved at_least"),
    ("most", "maximum, limit", "most"),
    ("settle settled", "fix, fixed; assign", ""),
    ("strange", "external", ""),
    ("further", "extra, auxiliary", ""),
    ("vain", "failed", ""),
    ("thing things", "item, value, or the name of what it is", ""),
    ("maker", "builder, factory", ""),
    ("nobody somebody", "none; caller, reader", ""),
    ("watch watched", "deadline; monitor, monitored", ""),
)
STOP = {word: frozenset(stay.split()) for words, _, stay in STOP_WORDS for word in words.split()}


def offending(names):
    """Those of some names that have a word of the stop list."""
    return sorted({name for name in names for word in words_of(name) if word in STOP and name not in STOP[word]})


def names_of_module(path):
    """Names that a Python file gives: itself, functions, classes, parameters, attributes and constants."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield path.stem
    for node in tree.body:
        yield from (name.id for name in ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) and _set(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (name.id for line in node.body for name in ast.walk(line) if _field(line) and _set(name))
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _set(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _field(node):
    return isinstance(node, ast.Assign | ast.AnnAssign)


def names_of_kernel(path):
    """Names of a Cython file: all of its tokens that are names, locals too."""
    yield path.stem
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    yield from (token.string for token in tokens if token.type == tokenize.NAME)


def offences():
    """Every file that uses a word of the stop list in a name, with these names."""
    files = {path: names_of_module(path) for path in [*python_files(), *KERNELS.glob("*.py")]}
    files |= {path: names_of_kernel(path) for kind in ("pyx", "pxd") for path in KERNELS.glob(f"*.{kind}")}
    found = {relative(path): offending(names) for path, names in sorted(files.items())}
    return {file: names for file, names in found.items() if names}


def test_the_stop_list_is_read():
    assert {"held", "judged", "thing"} <= STOP.keys()
    assert all(word == word.lower() for word in STOP)


def test_a_word_of_the_list_is_refused_in_a_name():
    assert offending(["_held_bytes", "JudgedOrder", "upheld", "n_nodes"]) == ["JudgedOrder", "_held_bytes"]


@pytest.mark.parametrize("word", sorted(STOP))
def test_an_exception_is_a_name_with_that_word(word):
    assert all(word in words_of(name) for name in STOP[word])


def test_no_name_has_a_word_that_is_not_used():
    found = offences()
    sentences = [f"{file}: {', '.join(names)}" for file, names in found.items()]
    assert not sentences, "words of STOP_WORDS:\n" + "\n".join(sentences)


# ---------------------------------------------------------------- names that exist once


def classes():
    """Class name, without a leading underscore, to the files that define it."""
    found = defaultdict(list)
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(relative(path))
    return found


def test_a_class_name_exists_once():
    assert {name: files for name, files in classes().items() if len(files) > 1} == CLASSES_LEFT


# Numbers that change results stand in effort.py, or in the table of their room.
TABLES = {PACKAGE / "effort.py", *PACKAGE.rglob("tuning.py")}
TRADE = re.compile(r"\b(Higher|Lower|More|Wider|Closer to 1|Hotter|Hotter later rounds|Colder)( \w+)?: \w")
OUTSIDE_TABLES = 175
"""Numbers that have a name outside of the tables; they only become fewer."""


def constants(files=None):
    """(name, value as it is written, file) of each number, or tuple of numbers, that a module names."""
    for path in python_files() if files is None else files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            value = getattr(node, "value", None)
            for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = zip(target.elts, value.elts, strict=False)
                for name, number in pairs:
                    if isinstance(name, ast.Name) and name.id.isupper() and is_number(number):
                        yield name.id, ast.unparse(number), relative(path)


def is_number(node):
    """Whether an expression is a number, a sum, product or power of numbers, or a tuple of such."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def test_a_name_of_a_number_has_one_value_in_the_package():
    values = defaultdict(lambda: defaultdict(list))
    for name, value, file in constants():
        values[name][value].append(file)
    assert len(values) > 200
    assert {name: dict(files) for name, files in values.items() if len(files) > 1} == {}


def test_numbers_that_change_results_stand_in_tables():
    outside = list(constants(set(python_files()) - TABLES))
    assert len(outside) == OUTSIDE_TABLES, "name it in the tuning.py of its room, or write it where it is used"


def entries(path):
    """(name, comment above it) of each entry of a table; entries without a line between them share theirs."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.Assign):
            above = node.lineno - 1
            while lines[above - 1] and not lines[above - 1].startswith("#"):
                above -= 1
            comment = list(itertools.takewhile(lambda line: line.startswith("# "), reversed(lines[:above])))
            for name in (name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)):
                yield name.id, " ".join(line[2:] for line in reversed(comment))


@pytest.mark.parametrize("table", sorted(TABLES - {PACKAGE / "effort.py"}), ids=lambda path: path.parent.name)
def test_an_entry_of_a_table_says_what_it_trades(table):
    found = dict(entries(table))
    assert found
    assert [name for name, comment in found.items() if not TRADE.search(comment)] == []


@pytest.mark.parametrize("table", sorted(TABLES - {PACKAGE / "effort.py"}), ids=lambda path: path.parent.name)
def test_an_entry_of_a_table_is_used(table):
    text = "\n".join(path.read_text(encoding="utf-8") for path in table.parent.rglob("*.py") if path != table)
    assert [name for name, _ in entries(table) if not re.search(rf"\btuning\.{name}\b", text)] == []


def test_a_limit_of_effort_says_what_it_limits():
    text = (PACKAGE / "effort.py").read_text(encoding="utf-8")
    (limits,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    lines, fields = text.splitlines(), [node for node in limits.body if isinstance(node, ast.AnnAssign)]
    assert {field.target.id for field in fields} >= {"search_work", "gap"}
    assert [field.target.id for field in fields if not lines[field.lineno - 2].startswith("    # ")] == []


def test_a_module_name_exists_once():
    found = defaultdict(list)
    for path in python_files():
        folder = path.parent.relative_to(PACKAGE).as_posix()
        if path.stem not in EVERYWHERE:
            found[path.stem].append(folder)
    twice = {name: folders for name, folders in found.items() if sum(f not in NAMED_FOR_ANOTHER for f in folders) > 1}
    assert twice == {}


def test_every_exception_of_module_names_is_needed():
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in python_files()}
    assert NAMED_FOR_ANOTHER.keys() <= folders
