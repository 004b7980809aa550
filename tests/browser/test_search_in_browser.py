"""The search box of the built pages: a word that a reader types brings the page that answers it first."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

from tests.browser import DOCS

pytestmark = pytest.mark.skipif(
    not DOCS.exists(), reason="search of the documentation: NOT RUN, it is not built in build/docs"
)

# Queries of a newcomer, and pages of which one is among the first three results.
WANTED = {
    "gradient checkpointing": ("torch_training.html",),
    "activation checkpointing": ("torch_training.html",),
    "lower bound": ("faq.html#how-good-is-the-plan",),
    "gap": ("faq.html#how-good-is-the-plan",),
    "rematerialization": ("index.html",),
    "offload": ("offload.html",),
    "infeasible": ("faq.html#why-is-my-budget-infeasible",),
    "FSDP": ("torch_training.html#fsdp2",),
    "ONNX": ("onnx.html#onnx",),
    "JAX": ("jax.html",),
    "dynamic programming": ("theory/lower_sets.html",),
    "treewidth": ("tutorials/3_separators.html#bags-and-width",),
    "which solver": ("solvers/index.html#which-solver",),
    "out of memory": ("faq.html#what-do-i-do-when-training-runs-out-of-memory",),
    "CUDA out of memory": ("faq.html#what-do-i-do-when-training-runs-out-of-memory",),
    "FullyShardedDataParallel": ("torch_training.html#fsdp2",),
    "torch": ("torch_training.html", "torch.html"),
    "bound": ("faq.html#how-good-is-the-plan",),
    "budget": ("faq.html#what-does-the-budget-count",),
    "add a solver": ("contributing.html#a-solver-is-one-file",),
    "choose a solver": ("solvers/index.html#which-solver",),
    "make a graph": ("bring.html#an-edge-list-or-tables",),
    "edge list": ("bring.html#an-edge-list-or-tables",),
    "largest batch": ("cli.html#remat-fit",),
    "mixed precision": ("torch_training.html#autocast",),
    "install": ("index.html#install",),
    "git clone": ("index.html#install",),
    "license": ("index.html#install",),
    "glossary": ("notation.html",),
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Print nothing."""


@pytest.fixture(scope="module", params=["disk", "server"])
def address(request):
    """The address of the documentation, opened from disk or served."""
    if request.param == "disk":
        yield DOCS.as_uri()
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=DOCS)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(browser):
    opened = browser.new_page()
    yield opened
    opened.close()


@pytest.mark.parametrize("query", WANTED)
def test_the_wanted_page_is_among_the_first_three_results(page, address, query):
    page.goto(f"{address}/search.html?q={quote(query)}")
    page.wait_for_function("document.querySelector('.search-summary')?.textContent.startsWith('Search finished')")
    links = page.eval_on_selector_all("ul.search li > a", "links => links.map(a => a.getAttribute('href'))")
    assert set(links[:3]) & set(WANTED[query])
