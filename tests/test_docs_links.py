"""Dead links of built pages are found, one sentence each."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs import links

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
