"""Every page of the documentation, where it is built, in Chromium: nothing overflows, is missing or is too small."""

import re

import pytest

from tests.browser import DOCS

pytestmark = pytest.mark.skipif(
    not DOCS.exists(), reason="pages in a browser: NOT RUN, they are not built in build/docs"
)

NOT_READ = re.compile(r"(_|genindex|search)")
FAULTS = """(width) => {
    const faults = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const across = document.documentElement.scrollWidth;
    if (across > width) faults.push(`${across} px wide`);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement, box = element.getBoundingClientRect();
        const hidden = !walk.currentNode.data.trim() || !box.width || !box.height || element.closest("mjx-container");
        const size = parseFloat(getComputedStyle(element).fontSize);
        if (!hidden && size < 11) faults.push(`${size} px: ${walk.currentNode.data.trim().slice(0, 40)}`);
    }
    for (const image of document.images) {
        if (!image.complete || !image.naturalWidth || !image.alt.trim()) faults.push(image.src);
    }
    for (const broken of document.querySelectorAll("mjx-merror")) faults.push(broken.textContent);
    if (!document.title.trim()) faults.push("no title");
    return faults;
}"""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_nothing_overflows_is_missing_or_too_small(browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page, faults = context.new_page(), {}
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for path in sorted(DOCS.rglob("*.html")):
        name = path.relative_to(DOCS).as_posix()
        if NOT_READ.match(name):
            continue
        page.goto(path.as_uri())
        page.evaluate("globalThis.MathJax?.startup.promise.then(() => null)")
        page.evaluate(
            "Promise.all([...document.images].map((image) => { image.loading = 'eager'; return image.decode(); }))"
        )
        found = page.evaluate(FAULTS, width) + said
        said.clear()
        if found:
            faults[name] = found[:5]
    context.close()
    assert faults == {}
