"""Animations in Chromium: all parts move, and all pause under the pointer, whatever moves them."""

import pytest

import remat_algos as ra

STATES = """[...document.querySelectorAll("svg *")].map((element) => getComputedStyle(element))
    .filter((style) => style.animationName !== "none" && style.animationDuration !== "0s")
    .map((style) => style.animationPlayState)"""


@pytest.fixture(scope="module")
def picture():
    """The text of an animation in a page that is larger, and the number of its nodes."""
    chain = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(5)]))
    text = ra.plot.animation(ra.solve(chain, "least", solver="chen_sqrt")).svg()
    return f'<body style="margin:0">{text}<p>below</p></body>', chain.n_nodes


def test_all_parts_move_and_pause_under_the_pointer(browser, picture):
    text, nodes = picture
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(text)
    page.mouse.move(790, 590)
    # Nodes, the ring, the bar, the end of the curve, and the strip of captions.
    assert page.evaluate(STATES) == ["running"] * (nodes + 4)
    for x, y in ((100, 100), (300, 400), (610, 420), (40, 460)):
        page.mouse.move(x, y)
        assert page.evaluate(STATES) == ["paused"] * (nodes + 4)
    page.mouse.move(790, 590)
    assert page.evaluate(STATES) == ["running"] * (nodes + 4)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_less_motion_stands_still(browser, picture, scheme):
    context = browser.new_context(reduced_motion="reduce", color_scheme=scheme)
    page = context.new_page()
    page.set_content(picture[0])
    assert page.evaluate(STATES) == []
    context.close()
