"""The page of a report clicked through in Chromium: play, step, scrub, point, compare, keys; light, dark and narrow."""

import os
import shutil

import pytest

import remat_algos as ra
from remat_algos.plot.stepping.report_page import report

sync_api = pytest.importorskip("playwright.sync_api", reason="browser: NOT RUN, playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="browser: NOT RUN, there is no Chromium")
SCRUBBED = """
    const scrub = document.getElementById("scrub");
    scrub.value = 12;
    scrub.dispatchEvent(new Event("input"));
"""
DRAWING = """(() => {
    const start = performance.now();
    for (let i = 0; i < 50; i++) remat.draw();
    return (performance.now() - start) / 50;
})()"""  # ms
DRAWN = "document.querySelector('canvas').toDataURL()"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    chain = ra.differentiate(ra.ComputationGraph.from_edges([(f"n{i}", f"n{i + 1}") for i in range(9)], memory=1000))
    (folder / "chain.html").write_text(report(ra.solve(chain, "60%"), title="a chain"), encoding="utf-8")
    net = ra.differentiate(ra.models.build("unet", cost="roofline", batch=8).graph)
    plan = ra.solve(net, "50%", link="pcie5", effort="fast")
    (folder / "copies.html").write_text(report(plan), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Opens a page, offline; fails at the end if anything was asked for, or any error came."""
    faults, contexts = [], []

    def open_page(name, width=1280, scheme="light", at=""):
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(request.url))
        page.goto((pages / f"{name}.html").as_uri() + at)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def step_of(page):
    return page.evaluate("remat.step")


def test_stepping_scrubbing_and_typing_agree(opened):
    page = opened("chain")
    said = [page.inner_text(".status >> nth=0")]
    page.click("text=▶")
    page.fill("#step", "7")
    assert step_of(page) == 7
    said.append(page.inner_text(".status >> nth=0"))
    page.evaluate(SCRUBBED)
    assert (step_of(page), page.input_value("#step")) == (12, "12")
    assert said[0].startswith("Step 0 of ")
    assert said[1].startswith("Step 7 of ")
    rows = page.locator("section >> nth=0").locator("tbody tr").count()
    assert f"; {rows} values, " in page.inner_text(".status >> nth=0")


def test_keys_step_jump_and_play(opened):
    page = opened("chain")
    last = page.evaluate("Number(document.getElementById('scrub').max)")
    page.focus("#scrub")
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last), ("Home", 0)):
        page.keyboard.press(key)
        assert step_of(page) == step
    page.select_option("#speed", "60")
    page.focus("#scrub")
    page.keyboard.press(" ")
    while page.evaluate("remat.playing"):  # a page that forbids eval cannot wait for an expression
        page.wait_for_timeout(50)
    assert step_of(page) == last
    assert page.inner_text("#play") == "Play"


def test_pointing_says_why_and_both_plans_are_there(opened):
    page = opened("chain")
    box = page.locator("canvas >> nth=0").bounding_box()
    assert page.locator("section h2").all_inner_texts()[1] == "no rematerialization"
    page.evaluate("remat.go(5)")
    before = page.evaluate(DRAWN)
    page.mouse.move(box["x"] + 42, box["y"] + 42)
    about = page.inner_text("#about")
    assert "live" in about or "kept" in about
    assert page.evaluate(DRAWN) != before
    page.fill("#node", "n4")
    page.keyboard.press("Enter")
    assert page.inner_text("#about h2") == "n4"
    assert page.locator("#about pre").count() == 2
    curve = page.locator("svg >> nth=0")
    curve.click(position={"x": curve.bounding_box()["width"] - 2, "y": 20})
    plan_steps = int(page.inner_text(".status >> nth=0").split(" of ")[1].split()[0])
    assert step_of(page) == plan_steps


def test_a_link_opens_a_step_and_a_node(opened):
    page = opened("chain", at="#step=5&node=n3")
    assert (step_of(page), page.inner_text("#about h2")) == (5, "n3")
    assert step_of(opened("chain", at="#step=2.5")) == 3
    assert step_of(opened("chain", at="#step=x")) == 0
    page.evaluate("remat.go(6)")
    page.wait_for_timeout(600)  # browsers limit how often an address may change
    assert page.url.endswith("#step=6&node=n3")


@pytest.mark.parametrize("name", ["chain", "copies"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (420, "light")])
def test_nothing_is_wider_than_the_screen(opened, name, width, scheme):
    page = opened(name, width, scheme)
    page.evaluate("remat.go(9)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("main").screenshot()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")


def test_copies_have_their_engines_and_the_bytes_of_the_host(opened):
    page = opened("copies")
    assert page.locator("path.lane").count() == 3
    steps = page.evaluate("Number(document.getElementById('scrub').max)")
    said = [page.evaluate(f"remat.go({step}), document.querySelector('.status').textContent") for step in range(steps)]
    assert any("loads " in each for each in said)
    assert all(" on the host" in each for each in said)
    page.evaluate("remat.go(0)")
    assert "loaded" not in page.inner_text("section >> nth=0 >> table")


def test_a_step_is_drawn_within_a_frame(opened):
    page = opened("copies")
    assert min(page.evaluate(DRAWING) for _ in range(3)) < 16
