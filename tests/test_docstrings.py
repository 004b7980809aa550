"""The documentation of the public names agrees with their signatures.

Numpydoc sections and doctests are asked of the public face alone: names that a `.pyi` file exports, and the public
methods of exported classes. For internals one sentence is enough.
"""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from tests.public import PUBLIC

ROOT = Path(__file__).parents[1] / "remat_algos"

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc is not installed")
ClassDoc, FunctionDoc = docscrape.ClassDoc, docscrape.FunctionDoc

FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
MEMBERS = {
    f"{owner}.{name}": thing
    for owner, cls in CLASSES.items()
    for name, thing in vars(cls).items()
    if not name.startswith("_")
    and (inspect.isroutine(thing) or isinstance(thing, property | classmethod | staticmethod))
}


def function_of(member):
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


def documented(section):
    """Names of the parameters in a section; one line may name several."""
    return [name for parameter in section for name in parameter.name.split(", ")]


def taken(function):
    """Names of the parameters of a signature, stars as docstrings write them."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(function).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in parameters if p.name not in ("self", "cls")]


def raised(function):
    """Errors that stand behind `raise` in the function itself; pages call those of arguments as Python does."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    own = {"ArgumentError": "ValueError", "ArgumentTypeError": "TypeError"}
    return {own.get(call.id, call.id) for call in calls if isinstance(call, ast.Name) and call.id[0].isupper()}


def sections(name, thing):
    return ClassDoc(thing) if name in CLASSES else FunctionDoc(function_of(thing))


def test_everything_public_has_one_sentence_in_the_first_line():
    summaries = {name: (inspect.getdoc(function_of(thing)) or "") for name, thing in (PUBLIC | MEMBERS).items()}
    assert [name for name, text in summaries.items() if not re.fullmatch(r"\S.*[.:]", text.partition("\n")[0])] == []


def test_documented_parameters_are_those_of_the_signature():
    for name, thing in (PUBLIC | MEMBERS).items():
        if name in CLASSES and ("__init__" not in vars(thing) or getattr(thing, "_is_protocol", False)):
            continue  # an error that takes its text, a protocol of which nothing is made
        names = documented(sections(name, thing)["Parameters"])
        if names or name not in MEMBERS:  # the summary of a short method says it all
            assert names == taken(function_of(thing)), name


def test_functions_say_what_they_return_and_raise_and_have_an_example():
    for name, function in FUNCTIONS.items():
        doc, returns = FunctionDoc(function), inspect.signature(function).return_annotation
        assert bool(doc["Returns"] or doc["Yields"]) == (returns not in (None, "None")), name
        documented_errors = set(re.findall(r"\w+", " ".join(entry.type for entry in doc["Raises"])))
        assert raised(function) <= documented_errors, name
        assert ">>>" in "\n".join(doc["Examples"]), name


def test_entries_of_a_section_are_indented_like_the_section():
    entry = re.compile(r"^ +(\w+ : .*|\w+(Error|Warning))$", re.MULTILINE)
    for path in sorted(ROOT.rglob("*.py")):
        documents = ast.Module, ast.ClassDef, ast.FunctionDef
        nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, documents)]
        for text in filter(None, map(ast.get_docstring, nodes)):
            deeper = entry.search(re.split(r"^Examples\n-", text, flags=re.MULTILINE)[0])
            assert deeper is None, (path.name, deeper[0])


def test_drawings_keep_their_lines():
    """A block below `:` is a quotation, whose lines Sphinx joins; a drawing is below `::`."""
    drawing = re.compile(r"^( *)\S.*[^:\n]:\n\n\1 +(?![ >]).*", re.MULTILINE)
    texts = {name: inspect.getdoc(function_of(thing)) or "" for name, thing in (PUBLIC | MEMBERS).items()}
    assert {name: found[0] for name, text in texts.items() if (found := drawing.search(text))} == {}
