"""What notebooks show: HTML of plans, simulations and graphs."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.plot import html
from remat_algos.questions.frontier import Frontier
from tests.strategies import training_graphs

CHAIN = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=4096))
PLAN = ra.solve(CHAIN, "80%")
SWEPT = ra.frontier(CHAIN, solvers=["chen_sqrt", "greedy_remat"])


class Page(HTMLParser):
    """The elements of a page, its text outside pictures; fails where they are not closed in turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.kinds, self.ids, self.uses, self.said = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.kinds.append(tag)
        self.open.append(tag)
        for name, value in attributes:
            assert not name.startswith("on")
            self.ids += [value] if name == "id" else []
            self.uses += re.findall(r"url\(#([^)]*)\)", value or "")
            self.uses += [value[1:]] if name.endswith("href") else []

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "svg" not in self.open:
            self.said += data


SHOWN = {
    "plan": (PLAN, str(PLAN)),
    "simulation": (PLAN.simulation, repr(PLAN.simulation)),
    "graph": (CHAIN, repr(CHAIN)),
}
SHOWN |= {"frontier": (SWEPT, "")}  # its title says what the line would


@pytest.mark.parametrize(("shown", "said"), SHOWN.values(), ids=SHOWN)
def test_a_page_is_a_text_and_a_picture_which_has_a_name_for_screen_readers(shown, said):
    text = shown._repr_html_()
    assert text == shown._repr_html_()
    page = Page(text)
    assert page.kinds.count("svg") == 1
    assert page.said.strip() == said
    root = ElementTree.fromstring(re.search("<svg.*</svg>", text, re.DOTALL)[0])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "max-width: 100%" in root.get("style")
    assert root.get("role") == "img"
    assert root.get("aria-label") == (said or repr(shown)).splitlines()[0]


LINES = {
    "nothing": [],
    "thousands": [(i, i + 1) for i in range(5_000)],
    "dense": [(i, j) for i in range(60) for j in range(i + 1, 60)],
}


@pytest.mark.parametrize("edges", LINES.values(), ids=LINES)
def test_a_graph_that_shows_nothing_when_drawn_is_its_line(edges):
    graph = ra.ComputationGraph.from_edges(edges)
    page = Page(graph._repr_html_())
    assert page.kinds == ["div", "pre"]
    assert page.said == repr(graph)


def test_a_plan_of_any_size_is_drawn():
    chain = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(5_000)])
    text = ra.solve(ra.differentiate(chain), solver="no_remat")._repr_html_()
    assert "<svg" in text
    assert len(text) < 2_000_000


def test_a_plan_of_a_network_is_small():
    """`remat solve model:resnet50` has 368 nodes."""
    plan = ra.solve(ra.differentiate(ra.zoo.build("resnet50").graph), "50%", solver="greedy_remat")
    assert len(plan._repr_html_()) < 300_000


def test_the_style_of_the_pages_knows_the_pictures():
    """On dark pages they are light on dark, on narrow ones they scroll."""
    style = (Path(__file__).parents[1] / "docs" / "_static" / "wide.css").read_text(encoding="utf-8")
    assert style.count('svg[role="img"]') == 4
    assert '<svg style="max-width: 100%' in PLAN._repr_html_()
    assert ' role="img" ' in PLAN._repr_html_()


def test_a_frontier_without_plans_has_its_axes():
    empty = ra.ComputationGraph.from_edges([], n_nodes=0)
    assert "<svg" in Frontier(empty, {"none": ()}, 0, 0, 0)._repr_html_()


def test_pictures_on_a_page_share_no_ids_and_no_style():
    pages = [Page(subject._repr_html_()) for subject in (PLAN, CHAIN, SWEPT)]
    assert len({name for page in pages for name in page.ids}) == sum(len(page.ids) for page in pages)
    for page in pages:
        assert set(page.uses) <= set(page.ids)
        assert not {"style", "script", "metadata"} & set(page.kinds)


ODD = ["<script>alert(1)</script>", "--><b>x</b>", "]]>", '"onload="alert(1)', "a&b", "$x^2$", "n" * 10**5]


@pytest.mark.parametrize("name", ODD, ids=["script", "comment", "cdata", "attribute", "entity", "formula", "long"])
def test_names_are_only_text(name):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([("first", name), (name, "last")], memory=4096))
    for subject in (graph, ra.solve(graph, "100%", solver="no_remat")):
        page = Page(subject._repr_html_())
        assert not {"script", "b"} & set(page.kinds)
        assert len(page.said) < 2_000


@settings(max_examples=4)
@given(training_graphs(max_nodes=8), st.data())
def test_any_graph_and_its_run_are_pages(graph, data):
    Page(graph._repr_html_())
    Page(ra.simulate(graph, range(graph.n_nodes))._repr_html_())


def test_other_objects_are_shown_as_their_line():
    assert html.html(PLAN.schedule) is None
