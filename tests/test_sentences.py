"""Sentences of errors and warnings: each template names its fields, and the table says what it prints."""

import re
from pathlib import Path

import pytest

from remat_algos import errors
from remat_algos.wording import SHOWN, sentence
from tests.sentences import PARAMETERS, TABLE, belongs, calls, read, shown, texts

AGAIN = "run `python -m tests.sentences record` with the tests that raise it"


@pytest.fixture(scope="module")
def table():
    return read()


def test_every_template_stands_in_the_table(table):
    assert {call[:2] for call in calls()} - table.keys() == set(), AGAIN


def test_no_template_in_the_table_is_gone(table):
    made, every = {call[:2] for call in calls()}, texts()
    assert [key for key, entry in table.items() if key not in made and not belongs(entry, every)] == [], AGAIN


def test_each_template_prints_its_sentence(table):
    assert len(table) > 700
    assert "\n".join(map(str, table.values())) == TABLE.read_text(encoding="utf-8"), AGAIN


def test_no_template_is_one_field_alone():
    """A text built beforehand would be cut, and programs would find nothing else in the fields."""
    alone = re.compile(r"\{\w+(!\w)?(:[^{}]*)?\}")
    assert [call.place for call in calls() if alone.fullmatch(call.template)] == []


def faults(call):
    """Fields that the template names and is not given, those that it does not show, and letters that do not exist."""
    own, given = PARAMETERS[call.kind], call.fields
    if not given and not own:
        return  # a sentence without fields is printed as it is
    names, letters = ({each[i] for each in shown(call.template)} for i in (0, 1))
    yield from (
        set() if call.more else names - given - own,
        given - own - names - call.others,
        letters - {None, *SHOWN},
    )


def test_a_template_shows_its_fields_and_no_others():
    assert len(calls()) > 700
    assert [(call.place, fault) for call in calls() for fault in faults(call) if fault] == []


ANYTHING = [
    "x" * 200_000,
    "a\x1b[31mb\n",
    "{0}{x}",
    list(range(10**5)),
    ["x" * 100] * 100,
    10**5000,
    b"\xff" * 999,
    Path("a/" * 999),
]


@pytest.mark.parametrize("value", ANYTHING, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("letter", [None, *SHOWN])
def test_whatever_a_field_holds_the_sentence_is_short_and_printable(value, letter):
    if letter == "t" and not isinstance(value, str):
        pytest.skip("takes a name")
    if letter in ("l", "f", "c") and not isinstance(value, str | list):
        pytest.skip("takes names")
    given = OSError(value) if letter == "e" else value
    text = sentence("x is {x!" + letter + "}" if letter else "x is {x}", {"x": given})
    assert text.isprintable()
    assert len(text) <= (1_100 if letter in ("w", "t", "c") else 500)
    assert errors.GraphError("x is {x}", x=value).fields["x"] is value


def test_a_text_that_is_no_template_is_given_as_it_is():
    assert str(errors.GraphError("node {0} of {x}")) == "node {0} of {x}"
    assert str(errors.ScheduleError("node {x} fails", 3, 4)) == "node {x} fails"


@pytest.mark.parametrize("number", [10**5000, -(10**5000), 10**60], ids=["5,000 digits", "negative", "60 digits"])
def test_a_number_of_too_many_digits_is_short_in_words(number):
    for template in ("x is {x}", "x is {x:,}", "x is {x!w}", "{x:node}"):
        assert len(sentence(template, {"x": number})) < 1_100
    assert len(sentence("x is {x:,}", {"x": number})) < 60
