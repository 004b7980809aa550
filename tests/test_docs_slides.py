"""Outlines of the lectures: every slide has a title, three lines, and a picture of the tutorials or a formula."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

import remat_algos as ra
from docs import slides
from tests.test_docs_tutorials import page_cells, run_cell

SLIDES = [slide for lecture in slides.LECTURES.values() for slide in lecture]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("slides") / "new"
    slides.write(place)
    return place


def test_a_lecture_has_15_to_25_slides_each_with_a_title_three_lines_and_something_to_see(folder):
    for number, lecture in enumerate(slides.LECTURES.values(), 1):
        title, *parts = (folder / f"lecture_{number}.md").read_text("utf-8").split("\n## ")
        assert title.startswith(f"# Lecture {number}: ")
        assert 15 <= len(parts) == len(lecture) <= 25
        for part in parts:
            assert len(re.findall(r"^- \S.*[^.]$", part, re.MULTILINE)) == 3
            assert len(re.findall(r"^!\[.+\]\(.+\.svg\)$|^\$\$.+\$\$$", part, re.MULTILINE)) == 1


def test_titles_are_different_and_lines_fit_on_a_slide():
    assert len({slide.title for slide in SLIDES}) == len(SLIDES)
    assert all(len(line) <= 60 for slide in SLIDES for line in slide.lines)


def test_pictures_next_to_the_outlines_are_those_that_they_show(folder):
    shown = [
        name for n in (1, 2) for name in re.findall(r"\((.*\.svg)\)", (folder / f"lecture_{n}.md").read_text("utf-8"))
    ]
    assert len(shown) == len(set(shown)) >= 20
    assert {path.name for path in folder.glob("*.svg")} == set(shown)
    for name in shown:
        assert ElementTree.fromstring((folder / name).read_text("utf-8")).tag.endswith("svg")


def test_numbers_on_slides_are_those_of_the_tutorial():
    namespace = {"__name__": "tutorial"}
    printed = "".join(run_cell(cell, namespace) for cell in page_cells(slides.TUTORIALS / "4_search.md"))
    lines = " ".join(line for slide in SLIDES for line in slide.lines)
    orders = re.findall(r"^order .*, peak (\d+)$", printed, re.MULTILINE)
    once, twice = re.findall(r"^at most \d: peak (\d+)", printed, re.MULTILINE)
    thrice = ra.simulate(namespace["six"], [0, 1, 3, 4, 0, 1, 5, 0, 2]).peak_memory
    assert f"The peak is {orders[0]} bytes or {orders[1]}, by the order" in lines
    assert f"At most one run: peak {once}; at most two: {twice}" in lines
    assert f"Three runs of node 0: peak {thrice}" in lines
    assert f"{len(namespace['plans']):,} plans" in lines
