"""The page of a report clicked through in Chromium: play, step, scrub, point, compare, keys; light, dark and narrow.

Of the documentation, where it is built, ten pages and more are read by axe.
"""

import re

import pytest

import remat_algos as ra
from remat_algos.plot.pictures.report import report
from remat_algos.zoo.random import layered_dag
from tests.browser import DOCS, serious

sync_api = pytest.importorskip("playwright.sync_api", reason="browser: NOT RUN, playwright is not installed")
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
FRAMES = """() => new Promise((done) => {
    const begun = performance.now();
    let frames = 0;
    const count = (moment) => {
        if (moment - begun > 2000) { remat.stop(); done(1000 * frames / (moment - begun)); }
        else { frames += 1; requestAnimationFrame(count); }
    };
    document.getElementById("speed").value = "60";
    remat.start();
    requestAnimationFrame(count);
})"""  # frames in a second while the plan plays
# One page of each kind, and all plans.
PAGES = (
    *("index", "start", "cli", "benchmarks", "api/solvers", "solvers/general", "theory/offsets"),
    *("theory/segments", "theory/live_sets", "papers/kusumoto2019"),
    *("tutorials/2_lower_sets", "papers/twelve_nodes", "faq", "steps", "plans"),
    *(f"plans/{name}" for name in ("chain_segments", "chain_recursion", "chain_optimum")),
    *(f"plans/{name}" for name in ("residual_blocks", "ladder_twremat", "unet")),
)
COLOURS = """(() => {
    const canvas = document.querySelector("canvas"), copy = document.createElement("canvas"), found = [];
    copy.width = canvas.width; copy.height = canvas.height;
    const context = copy.getContext("2d");
    context.drawImage(canvas, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) found.push(...pixels.slice(i, i + 3));
    return found;
})()"""  # of the pixels
SHAPES = ("area", "other")
DRAWN = "document.querySelector('canvas').toDataURL()"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    chain = ra.differentiate(ra.ComputationGraph.from_edges([(f"n{i}", f"n{i + 1}") for i in range(9)], memory=1000))
    (folder / "chain.html").write_text(report(ra.solve(chain, "60%"), title="a chain"), encoding="utf-8")
    segments, recursion = (ra.solve(chain, "least", solver=name) for name in ("chen_sqrt", "chen_recursive"))
    (folder / "two.html").write_text(report(segments, recursion), encoding="utf-8")
    net = ra.differentiate(ra.zoo.build("unet", cost="roofline", batch=8).graph)
    plan = ra.solve(net, "50%", link="pcie5", effort="fast")
    (folder / "copies.html").write_text(report(plan), encoding="utf-8")
    (folder / "simulation.html").write_text(report(plan.simulation), encoding="utf-8")
    net = ra.differentiate(ra.zoo.build("resnet50").graph)
    (folder / "resnet50.html").write_text(report(ra.solve(net, "50%", solver="chen_sqrt")), encoding="utf-8")
    large = ra.differentiate(layered_dag(1_000, reach=100, seed=1))
    page = report(ra.solve(large, "70%", solver="greedy_remat"))
    assert "application/zlib" in page
    (folder / "large.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def opened(offline, pages):
    """Opens a report, and waits until its data are there: compressed data take a moment."""

    def open_report(name, *size, **options):
        page = offline(pages / f"{name}.html", *size, **options)
        page.wait_for_selector("#plans section >> nth=1")
        return page

    return open_report


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
    played = sync_api.expect(page.locator("#play"))  # the page forbids eval, so no expression can be awaited
    played.to_have_text("Play")
    assert step_of(page) == last


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
    page.wait_for_url("**#step=6&node=n3")  # browsers limit how often an address may change


def test_an_unknown_name_is_told_in_the_status_line(opened):
    page = opened("chain", at="#step=5&node=m3")
    status = page.locator("[role=status].status")
    assert status.inner_text() == 'No node is named "m3".'
    page.click("text=▶")
    assert status.inner_text().startswith("Step 6 of ")
    page.fill("#node", "m4")
    page.keyboard.press("Enter")
    assert status.inner_text() == 'No node is named "m4".'
    assert page.get_attribute("#node", "aria-invalid") == "true"


def test_each_plan_has_a_button_to_its_peak(opened):
    page = opened("two")
    for place, button in enumerate(page.locator(".peak").all()):
        button.click()
        status = page.inner_text(f".status >> nth={place}")
        assert status.startswith(f"Step {button.inner_text().split()[-1]} of ")
        assert ", the peak" in status


def test_both_curves_are_on_one_axis_and_equal_runs_coincide(opened):
    page = opened("two")
    paths = [page.get_attribute(f"section >> nth={place} >> path.{name}", "d") for place in (0, 1) for name in SHAPES]
    assert paths[0].removesuffix("V200Z") == paths[3]
    assert paths[2].removesuffix("V200Z") == paths[1]
    labels = [page.locator(f"section >> nth={place} >> .axis.up span").all_inner_texts() for place in (0, 1)]
    assert labels[0] == labels[1]
    assert len(labels[0]) >= 3
    assert labels[0][0] == "0 B"
    said, waits = [], 0
    for _ in range(page.evaluate("Number(document.getElementById('scrub').max)")):
        said.append(page.locator(".status").all_inner_texts())
        waits += any(text.startswith("Waits") for text in said[-1])
        page.click("text=▶")
    gradients = [[re.findall(r"(?<= computes )grad\(n\d\)", text) for text in both] for both in said]
    assert all(a == b for a, b in gradients)
    assert waits > 0
    tick = next(tick for tick, both in enumerate(said) if both[0].startswith("Waits"))
    page.evaluate(f"document.getElementById('scrub').value = {tick}")
    page.dispatch_event("#scrub", "input")
    page.wait_for_url("**&other=*")
    address = page.url
    page.evaluate("remat.go(0)")
    page.wait_for_url("**#step=0")
    page.goto(address)
    sync_api.expect(page.locator("#scrub")).to_have_value(str(tick))


@pytest.mark.parametrize("name", ["chain", "copies", "two"])
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


@pytest.mark.parametrize("name", ["copies", "large"])
def test_a_step_is_drawn_within_a_frame(opened, name):
    page = opened(name)
    assert min(page.evaluate(DRAWING) for _ in range(5)) < 16


def test_two_thousand_nodes_play_smoothly(opened):
    page = opened("large")
    assert max(page.evaluate(FRAMES) for _ in range(4)) >= 20  # of 57 on two quiet cores; others may use them


def test_nodes_that_stay_drawn_look_as_if_all_were_drawn(opened):
    page = opened("chain")
    for step in (*range(12), 3):
        page.evaluate(f"remat.go({step})")
    stayed = page.evaluate(COLOURS)
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    fresh = page.evaluate(COLOURS)
    assert max(abs(a - b) for a, b in zip(stayed, fresh, strict=True)) < 64  # edges of shapes are blended
    assert max(stayed) - min(stayed) > 200


def test_a_simulation_with_loads_has_them_in_its_legend(opened):
    assert "loaded from the host" in opened("simulation").inner_text(".legend >> nth=0")
    assert "loaded from the host" not in opened("chain").inner_text(".legend >> nth=0")


def test_what_is_said_goes_away_and_hides_nothing_that_is_pointed_at(opened):
    page = opened("chain")
    curve = page.locator("svg >> nth=0").bounding_box()
    page.mouse.move(curve["x"] + 40, curve["y"] + 40)
    assert page.inner_text(".hint >> nth=0").startswith("step ")
    page.mouse.move(2, 2)
    assert page.inner_text(".hint >> nth=0") == ""
    graph = page.locator("canvas >> nth=0").bounding_box()
    page.mouse.move(graph["x"] + 42, graph["y"] + 42)
    assert page.inner_text("#announced") == ""
    for view in page.locator("canvas").all():
        view.scroll_into_view_if_needed()
        box = view.bounding_box()
        x, y = box["x"] + 42, box["y"] + min(42, box["height"] / 2)
        page.mouse.move(x, y)
        about = page.locator("#about").bounding_box()
        assert not about["y"] <= y <= about["y"] + about["height"]
    page.fill("#node", "n4")
    page.keyboard.press("Enter")
    assert "n4" in page.evaluate("document.getElementById('announced').textContent")
    page.keyboard.press("Escape")
    assert not page.is_visible("#about")


@pytest.mark.parametrize("name", ["chain", "two", "resnet50", "copies"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")])
def test_axe_finds_nothing_serious(opened, axe, name, width, scheme):
    page = opened(name, width, scheme, at="#step=9")
    assert serious(page, axe) == []
    page.evaluate("remat.choose(3)")
    assert serious(page, axe) == []


@pytest.mark.skipif(not DOCS.exists(), reason="axe on the documentation: NOT RUN, it is not built in build/docs")
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")])
def test_axe_finds_nothing_serious_in_the_documentation(browser, axe, name, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto((DOCS / f"{name}.html").as_uri())
    page.evaluate("globalThis.MathJax?.startup.promise.then(() => null)")
    assert serious(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
