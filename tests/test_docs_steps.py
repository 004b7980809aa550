"""The pages on which algorithms step, as texts: complete, without requests, short, and linked."""

import json
import re

import pytest

from docs.steps import pages as steps

DOCS = steps.FOLDER.parent
NAMES = sorted(steps.PAGES)
SCRIPTS = sorted(path.name for path in steps.FOLDER.glob("*.js"))
SHARED = {"graph.js", "pictures.js", "player.js"}


def source(name):
    return (steps.FOLDER / name).read_text(encoding="utf-8")


def lines_of(view):
    """The names of the lines of pseudo code of a view."""
    program = re.search(r"program: \[\n(.*?)\n  \],\n", view, re.DOTALL)[1]
    return re.findall(r'^    \["(\w+)", ', program, re.MULTILINE)


def test_each_page_has_an_algorithm_and_a_view_and_no_file_is_left_over():
    assert set(SCRIPTS) == SHARED | {f"{name}{kind}.js" for name in NAMES for kind in ("", "_view")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_writes_only_text(name):
    text = source(name)
    assert text.count("\n") <= (200 if name == "player.js" else 150)
    assert text.startswith('"use strict";\n')
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|fetch|XMLHttp|import\b|</", text)


@pytest.mark.parametrize("name", NAMES)
def test_every_line_that_an_algorithm_names_is_in_its_pseudo_code(name):
    lines = lines_of(source(f"{name}_view.js"))
    named = re.findall(r'(?:frame|run|gradient)\("(\w+)"', source(f"{name}.js")) + (
        ["run", "free"] if name == "live_sets" else []
    )
    assert named
    assert set(named) <= set(lines)
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_file_with_its_data_inline(name, monkeypatch):
    monkeypatch.setitem(steps.PAGES, name, steps.PAGES[name] | {"lead": "</script><b>"})
    text = steps.page(name)
    assert "default-src 'none'" in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import|url\((?!#)", text)
    assert text.count("</script>") == text.count("<script") == 6
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert data["lead"] == "</script><b>"
    for example in data["examples"]:
        assert example["options"].keys() == {option["name"] for option in data["options"]}


def test_the_page_of_the_documentation_lists_all_in_at_most_500_words():
    text = (DOCS / "steps.md").read_text(encoding="utf-8")
    assert re.findall(r'href="steps/(\w+)\.html"', text) == list(steps.PAGES)
    assert re.findall(r"\(screenshots/steps_(\w+)\.png\)", text) == list(steps.PAGES)
    assert all((DOCS / "screenshots" / f"steps_{name}.png").exists() for name in NAMES)
    assert len(text.split()) <= 500
    theory = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "theory").glob("*.md"))
    assert sorted(re.findall(r'href="\.\./steps/(\w+)\.html"', theory)) == NAMES
    assert "\nsteps\n" in (DOCS / "index.md").read_text(encoding="utf-8")
