"""Chromium, pages opened offline, and axe, for the tests of pages in a browser."""

from importlib.resources import files

import pytest

from tests.browser import CHROMIUM, QUIET


@pytest.fixture(scope="package")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="browser: NOT RUN, playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("browser: NOT RUN, there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def offline(browser):
    """Opens a file without a network; fails at the end after a message on the console, an error or a request."""
    faults, contexts = [], []

    def open_file(path, width=1280, scheme="light", at=""):
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not request.url.startswith("file:") else None)
        page.goto(path.as_uri() + at)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core (MPL-2.0), which finds faults of pages for readers with disabilities."""
    name = "axe_playwright_python"
    pytest.importorskip(name, reason="axe: NOT RUN, axe-playwright-python is not installed")
    return (files(name) / "axe.min.js").read_text("utf-8")
