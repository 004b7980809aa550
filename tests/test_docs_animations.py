"""The animations of the first pages: in a picture element, and with the numbers that the script finds."""

import re
from xml.etree import ElementTree

import pytest

from docs import animations
from docs.page_parts import part
from tests.test_animation import heights_of

PICTURES = sorted((animations.DOCS / "figures").glob("animated_*.svg"))


@pytest.fixture(scope="module")
def found():
    return animations.plans()


def test_the_numbers_are_what_the_script_finds(found):
    """`python docs/animations.py` writes them."""
    for page, mark, lines in animations.blocks(found):
        assert part(mark).search(page.read_text("utf-8"))[0] == lines, page


def test_each_plan_has_a_picture_and_all_are_small(found):
    assert {path.stem for path in PICTURES} == {"_".join(("animated", *names)) for names in found}
    assert sum(path.stat().st_size for path in PICTURES) < 400_000


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_element_shows_them(path, found):
    """There scripts do not run, and nothing else is loaded."""
    text = path.read_text("utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"<script|<foreignObject|<image|\shref=|@import|\son\w+=|url\((?!#)", text)
    _, name, word = path.stem.split("_")
    assert f"peak {animations.format_bytes(found[name, word].peak_memory)}" in text
    assert "prefers-color-scheme:dark" in text
    assert "prefers-reduced-motion" in text


def test_pictures_of_a_graph_share_scale_and_clock(found):
    for name, _, _ in animations.graphs():
        texts = [path.read_text("utf-8") for path in PICTURES if path.stem.split("_")[1] == name]
        assert len(texts) == len(animations.METHODS)
        assert len({str(heights_of(text)) for text in texts}) == 1
        assert len({re.search(r"animation:([\d.]+s) step-end", text)[1] for text in texts}) == 1
        assert all(len(heights_of(text)) >= 3 for text in texts)


def test_search_is_never_above_the_others_in_compute_within_the_budget(found):
    limits = [found["unet", word] for word in ("segments", "recursion", "search")]
    assert all(plan.peak_memory <= plan.limit for plan in limits)
    assert min(limits, key=lambda plan: plan.overhead) is limits[-1]
    chain = [found["chain", word].peak_memory for word in animations.METHODS]
    assert chain == sorted(chain, reverse=True)
