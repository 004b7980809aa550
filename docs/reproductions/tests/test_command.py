"""The command `python -m docs.reproductions`: what it says, where it writes, and what it answers to bad input."""

import json
import re
from pathlib import Path

import pytest

from docs.reproductions import __main__ as command
from docs.reproductions import registry
from docs.reproductions.page import Figure, Page, Table
from docs.reproductions.tests.quick_pages import PAGES
from remat_algos.text.markdown import BAR
from remat_algos.wording import tabulated
from tests.command_line import Said

SIZES = Table("sizes", "Sizes of things", {"thing": str, "n": "{:,}".format}, [("a", 1000), ("b", None)], "By hand.")


def drawn():
    from docs.reproductions.growth import plot_growth

    return plot_growth([1, 2, 4], {"linear": [3, 6, 12]}, "n")


def toy(quick, progress):
    """A page that is made at once."""
    return Page("toy2000", "a toy", ["## Head", "quick" if quick else "whole", SIZES, Figure("f", "F", drawn, "It.")])


@pytest.fixture
def reproduce(monkeypatch, tmp_path, capsys):
    """Runs the command in this process, in an empty folder; chen2016 is a toy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("docs.reproductions.chen2016.study.page", toy)
    monkeypatch.setattr(command, "DOCS", tmp_path / "pages")

    def run(*words):
        capsys.readouterr()
        return Said(command.main(words), *capsys.readouterr())

    return run


FILES = ["toy2000.md", "toy2000_f.svg", "toy2000_sizes.csv"]
SHOWN = "toy2000: a toy\n\nHead\n\n{}\n\nSizes of things\nthing      n\na      1,000\nb\nBy hand.\n"


def test_the_papers_are_listed(reproduce):
    said = reproduce()
    assert (said.code, said.err) == (0, "")
    assert [line.split()[0] for line in said.lines if line[0] != " "] == ["paper", *registry.list_papers()]
    assert reproduce("--json").record["papers"].keys() == set(registry.list_papers())


def test_a_page_goes_beside_the_others(reproduce, tmp_path):
    said = reproduce("chen2016")
    shown, _, tail = said.out.partition("\nwritten      ")
    assert (said.code, shown, said.err) == (0, SHOWN.format("whole"), "")
    written = "".join(tail.split())
    assert written == f"{tmp_path}/pages/toy2000.md,and2filesnexttoit:tables(CSV)andfigures(SVG)"
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == FILES


def test_quick_only_says_it_unless_there_is_a_folder(reproduce, tmp_path):
    said = reproduce("chen2016", "--quick")
    assert (said.code, said.out, said.err) == (0, SHOWN.format("quick"), "")
    assert list(tmp_path.iterdir()) == []
    assert reproduce("chen2016", "--quick", "-o", "new").code == 0
    assert sorted(path.name for path in Path("new").iterdir()) == FILES


@pytest.mark.parametrize("paper", registry.list_papers())
def test_tables_of_whole_pages_fit_80_columns(paper):
    """Those of the committed page, as a terminal has them."""
    page = (PAGES / f"{paper}.md").read_text("utf-8")
    tables = re.findall(r"^\|.*\|\n\| -.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    heads = re.findall(r"^(\|.*\|)\n\| -", page, re.MULTILINE)
    assert len(tables) == len(heads) > 0
    for head, body in zip(heads, tables, strict=True):
        columns, *rows = [
            [cell.replace(BAR, "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in (head, *body.splitlines())
        ]
        assert [line for line in tabulated(columns, rows) if len(line) > 80] == []


def test_json_is_the_tables_and_what_was_written(reproduce):
    said = reproduce("chen2016", "-o", "new", "--json")
    assert said.record["tables"] == [
        {
            "name": "sizes",
            "title": "Sizes of things",
            "columns": ["thing", "n"],
            "rows": [["a", 1000], ["b", None]],
            "note": "By hand.",
        }
    ]
    assert [Path(file).name for file in said.record["written"]] == ["toy2000.md", "toy2000_sizes.csv", "toy2000_f.svg"]
    assert json.loads(said.out)["quick"] is False


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["chen2015"], "there is no reproduction of the paper 'chen2015'; did you mean chen2016"),
        (["--quick"], "name a paper; there are chen2016"),
        (["-o", "new"], "name a paper; there are chen2016"),
        (["chen2016", "-o", "file"], "file is a file; name a folder"),
        (["chen2016", "-o", "none/new"], "there is no folder"),
    ],
)
def test_bad_input_is_answered_before_any_work(reproduce, monkeypatch, words, complaint):
    monkeypatch.setattr("docs.reproductions.chen2016.study.page", None)
    Path("file").write_text("")
    said = reproduce(*words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert complaint in said.err
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_folder_that_cannot_be_made_is_said_before_any_work(reproduce, monkeypatch):
    def refused(*given, **more):
        raise FileNotFoundError(2, "No such file or directory", "new")

    monkeypatch.setattr("docs.reproductions.chen2016.study.page", None)
    monkeypatch.setattr(Path, "mkdir", refused)
    said = reproduce("chen2016", "--quick", "-o", "new")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.endswith("No such file or directory: 'new'\n")


def test_an_interrupt_leaves_nothing(reproduce, monkeypatch, tmp_path):
    def stopped(quick, progress):
        raise KeyboardInterrupt("interrupted; nothing was written")

    monkeypatch.setattr("docs.reproductions.chen2016.study.page", stopped)
    said = reproduce("chen2016", "-o", "new")
    assert (said.code, said.out, said.err) == (
        130,
        "",
        "python -m docs.reproductions: interrupted; nothing was written\n",
    )
    assert list(tmp_path.iterdir()) == []
