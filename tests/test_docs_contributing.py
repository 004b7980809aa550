"""The examples of the page for contributors, each in a copy of the project."""

import re

import pytest

from docs import console, contributing
from docs.page_parts import line, part

EXAMPLES = contributing.examples()
PAGE = contributing.PAGE.read_text(encoding="utf-8")
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


def rows():
    """Files of each line of the table, by column."""
    table = part("files").search(PAGE)[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {name: [set(re.findall(r"`(\S+)`", cell)) for cell in cells] for name, *cells in lines}


def test_the_page_shows_all_that_can_be_added():
    assert {example.name for example in EXAMPLES} == {"solver", "file format"}


@each
def test_an_example_works_in_a_copy_of_the_project(example, tmp_path):
    """`python docs/contributing.py` writes what its commands print now."""
    folder = contributing.copy(tmp_path)
    example.apply(folder)
    assert contributing.doctests(example, folder) == ""
    for shown, printed in contributing.commands(example, folder):
        assert console.timeless(printed) == console.timeless(shown)


@each
def test_the_table_lists_what_the_page_shows(example):
    new, changed, _ = rows()[example.name]
    assert (new, changed) == ({*example.added}, {*example.changed})


@pytest.mark.slow
@each
def test_the_table_lists_what_an_example_touches(example):
    """Its tests run too; `python docs/contributing.py` writes the table."""
    row = line(contributing.row(example.name, *contributing.touched(example)))
    assert row in PAGE


def test_each_hunk_of_a_diff_has_one_place():
    assert contributing.patched("a\nb\nc\n", " a\n+new\n@@\n-c\n", "file") == "a\nnew\nb\n"
    for wrong in " x\n+new\n", " a\n+new\n":
        with pytest.raises(AssertionError, match=r"file has [02] places"):
            contributing.patched("a\na\n", wrong, "file")
