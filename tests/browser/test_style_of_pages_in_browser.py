"""The style of pages on a page of its own: signs that a box scrolls, headings, tables and blocks of letters."""

from itertools import pairwise

import pytest

from tests.test_docs_pages import DOCS

STYLE, SCRIPT = (DOCS / "_static" / name for name in ("wide.css", "accessible.js"))
SQUARE = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
WIDE = "x + " * 100
BODY = f"""<article role="main"><h2>a</h2><h3>b</h3><h4>c</h4><p>d</p>
<div class="math" style="white-space: nowrap">{WIDE}</div><figure><img alt="wide" src="square.svg"></figure>
<div class="highlight-text"><pre>{WIDE}</pre></div><div class="cell_output"><pre>{WIDE}</pre></div>
<table class="docutils"><tr><td class="text-right">2 (4 + 1) = 10</td><td class="long">a sentence</td>
<td style="width: 100%">much</td></tr></table></article>"""


@pytest.fixture
def opened(offline, tmp_path):
    (tmp_path / "square.svg").write_text(SQUARE, "utf-8")
    head = f"<title>t</title><style>:root {{ --code-font-size: 13px }} {STYLE.read_text('utf-8')}</style>"
    page = (
        f"<!DOCTYPE html><html lang='en'>{head}<body>{BODY}<script>{SCRIPT.read_text('utf-8')}</script></body></html>"
    )
    (tmp_path / "page.html").write_text(page, "utf-8")
    return lambda width: offline(tmp_path / "page.html", width)


@pytest.mark.parametrize("box", ["div.math", "figure"])
def test_formulas_and_pictures_fade_out_at_each_end_with_more_to_see(opened, box):
    page = opened(420)
    for left, ends in ((0, "right"), (40, "left right"), (10**5, "left")):
        page.evaluate(f"document.querySelector('{box}').scrollLeft = {left}")
        page.wait_for_function(f"document.querySelector('{box}').dataset.more === '{ends}'")
        mask = page.evaluate(f"getComputedStyle(document.querySelector('{box}')).maskImage")
        assert mask.count("rgba(0, 0, 0, 0)") == len(ends.split())
    assert not page.evaluate("'more' in document.querySelector('pre').dataset")  # it has a shadow


def test_headings_get_smaller_and_letters_of_outputs_have_one_size(opened):
    size = "getComputedStyle(document.querySelector({!r})).fontSize"
    sizes = [float(opened(1280).evaluate(size.format(each)).removesuffix("px")) for each in ("h2", "h3", "h4", "p")]
    assert all(larger > 1.07 * smaller for larger, smaller in pairwise(sizes))
    assert opened(1280).evaluate(size.format(".cell_output pre")) == "13px"


@pytest.mark.parametrize("width", [1280, 420])
def test_tables_in_letters_and_numbers_keep_their_lines(opened, width):
    page = opened(width)
    height = "document.querySelector({!r}).getClientRects()[0].height"
    assert page.evaluate(height.format(".highlight-text pre")) < 60
    assert page.evaluate(height.format("td.text-right")) < 40
    if width == 420:
        assert page.evaluate("document.querySelector('td.long').clientWidth") >= 100
