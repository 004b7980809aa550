"""Dead links of built pages are found, one sentence each."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import downloads, links

TUTORIALS = Path(links.__file__).parent / "tutorials"
DOWNLOADED = [path for path in sorted(TUTORIALS.iterdir()) if "{nb-download}" in path.read_text("utf-8")]
ALIVE = """<p id="here"><a href="#here">1</a> <a href="other%20page.html#there">2</a> <img src="a.svg">
<a href="sub/">3</a> <a href="https://example.org/#x">4</a> <a href="#">5</a>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "page.html").write_text(ALIVE)
    (tmp_path / "other page.html").write_text('<h1 id="there"></h1>')
    (tmp_path / "sub" / "index.html").write_text('<a href="../page.html#here">up</a>')
    (tmp_path / "a.svg").write_text("<svg/>")
    return tmp_path


def test_links_that_lead_somewhere_are_no_fault(site):
    assert list(links.dead_links(site)) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ('<a href="gone.html">', "there is no such file"),
        ('<img src="gone.svg">', "there is no such file"),
        ('<a href="#gone">', "the page has no such anchor"),
        ('<a href="page.html#gone">', "the page has no such anchor"),
    ],
)
def test_a_dead_link_is_one_sentence_and_exit_code_1(site, link, why):
    (site / "other page.html").write_text(f'<h1 id="there"></h1>\n{link}')
    target = link.split('"')[1]
    assert list(links.dead_links(site)) == [f"other page.html:2: {target} is a dead link: {why}"]
    command = [sys.executable, str(Path(links.__file__)), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (1, 1, "")


def as_notebook(page):
    """A page as a notebook, its text and code in one cell each."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return json.loads(text)
    kinds = ("markdown", "code")
    parts = re.split(r"^```\{code-cell\}\n(?::tags: .*\n)?|^```$", text, flags=re.MULTILINE)
    return {"cells": [{"cell_type": kinds[i % 2], "source": part} for i, part in enumerate(parts)]}


@pytest.mark.parametrize("page", DOWNLOADED, ids=lambda page: page.stem)
def test_a_downloaded_notebook_has_no_link_to_a_page(page, tmp_path):
    copy = tmp_path / "_downloads" / "hash" / f"{page.stem}.ipynb"
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(as_notebook(page)), encoding="utf-8")
    assert any("is a dead link" in line for line in links.dead_links(tmp_path))
    downloads.rewrite(copy)
    assert list(links.dead_links(tmp_path)) == []
    before, after = as_notebook(page)["cells"], json.loads(copy.read_text("utf-8"))["cells"]
    assert [cell for cell in after if cell["cell_type"] == "code"] == [
        cell for cell in before if cell["cell_type"] == "code"
    ]
    text = "".join(cell["source"] for cell in after if cell["cell_type"] == "markdown")
    assert "This notebook needs" in text or page.stem == "solutions"
