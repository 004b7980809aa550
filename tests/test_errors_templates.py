"""Templates of errors and warnings, read from the sources: each names its fields, and no others."""

import ast
import inspect
from pathlib import Path
from string import Formatter

import pytest

import remat_algos
from remat_algos import errors
from remat_algos.wording import SHOWN, sentence

ROOT = Path(remat_algos.__file__).parent
PARAMETERS = {
    name: set(inspect.signature(kind.__init__).parameters) - {"self", "template", "fields"}
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.Sentence)
}


def templates(file):
    """(class, template, names that it is given, whether there may be more, line) of each call."""
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Name):
            name, first = call.func.id, call.args[0]
            known = name in PARAMETERS or name in ("warn", "warn_user")
            if known and isinstance(first, ast.Constant) and isinstance(first.value, str):
                given = {keyword.arg for keyword in call.keywords}
                yield name, first.value, given - {"skipped"}, None in given, call.lineno


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_template_shows_its_fields_and_no_others(file):
    for name, template, given, more, line in templates(file):
        own = PARAMETERS.get(name, set())
        if not given and not own:
            continue  # a sentence without fields is printed as it is
        parsed = list(Formatter().parse(template))
        shown = {field for _, field, _, _ in parsed if field is not None}
        assert shown <= given | own or more, (file, line, shown - given)
        assert given - own <= shown, (file, line, given - own - shown)
        assert {letter for _, _, _, letter in parsed} <= {None, *SHOWN}, (file, line)


def test_there_are_templates():
    assert sum(1 for file in FILES for _ in templates(file)) > 700


ANYTHING = ["x" * 200_000, "a\x1b[31mb\n", "{0}{x}", list(range(10**5)), 10**5000, b"\xff" * 999, Path("a/" * 999)]


@pytest.mark.parametrize("value", ANYTHING, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("letter", [None, *SHOWN])
def test_whatever_a_field_holds_the_sentence_is_short_and_printable(value, letter):
    if letter in ("l", "t") and not isinstance(value, str):
        pytest.skip("takes names")
    given = OSError(value) if letter == "e" else value
    text = sentence("x is {x!" + letter + "}" if letter else "x is {x}", {"x": given})
    assert text.isprintable()
    assert len(text) <= 1_100
    assert errors.GraphError("x is {x}", x=value).fields["x"] is value


def test_a_text_that_is_no_template_is_given_as_it_is():
    assert str(errors.GraphError("node {0} of {x}")) == "node {0} of {x}"
    assert str(errors.ScheduleError("node {x} fails", 3, 4)) == "node {x} fails"


@pytest.mark.parametrize("number", [10**5000, -(10**5000), 10**60], ids=["5,000 digits", "negative", "60 digits"])
def test_a_number_of_too_many_digits_is_short_in_words(number):
    for template in ("x is {x}", "x is {x:,}", "x is {x!w}", "{x:node}"):
        assert len(sentence(template, {"x": number})) < 1_100
    assert len(sentence("x is {x:,}", {"x": number})) < 60
