"""The pages that step through six plans: written with the documentation, linked from it, and as the table says."""

import re

import pytest

from docs import plans
from tests.test_report import data_of

DOCS = plans.UNET.parents[2] / "docs"


@pytest.fixture(scope="module")
def stepped():
    return {each.name: each for each in plans.stepped()}


def test_every_plan_has_a_page_and_a_row_of_the_table(stepped, tmp_path):
    assert [path.stem for path in plans.write(tmp_path)] == list(stepped)
    assert re.findall(rf'<a href="{plans.FOLDER}/(\w+).html">', plans.table()) == list(stepped)
    for name, each in stepped.items():
        first, second = data_of((tmp_path / f"{name}.html").read_text("utf-8"))["plans"]
        assert first["order"] == each.plan.schedule.order.tolist()
        assert second["order"] == each.other.schedule.order.tolist()


def test_links_of_other_pages_lead_to_plans(stepped):
    links = {
        name for page in DOCS.rglob("*.md") for name in re.findall(r"\.\./plans/(\w+)\.html", page.read_text("utf-8"))
    }
    assert links
    assert links <= set(stepped)
    assert "(plans.md)" in (DOCS / "index.md").read_text("utf-8")


def runs(each):
    """{name: number of runs} of the nodes that are recomputed."""
    graph, counts = each.plan.graph, each.plan.simulation.runs
    return {graph.labels[v]: int(count) for v, count in enumerate(counts) if count > 1}


def test_what_the_table_says_of_each_plan_is_so(stepped):
    assert runs(stepped["chain_segments"]) == dict.fromkeys("0134", 2)
    segments, recursion, optimum = (stepped[f"chain_{name}"] for name in ("segments", "recursion", "optimum"))
    assert recursion.plan.peak_memory == segments.plan.peak_memory - 1
    assert runs(recursion)["0"] == 3
    assert (runs(optimum)["0"], runs(optimum)["6"]) == (8, 2)
    assert optimum.plan.details["proof"] == "optimal"
    assert runs(stepped["residual_blocks"]) == dict.fromkeys("abc", 2)
    assert set(runs(stepped["ladder_twremat"])) == set("abc")
    unet = stepped["unet"].plan
    first, second = [step for step, name in enumerate(unet.schedule.names(unet.graph)) if name == "enc0.relu2"]
    turn = unet.schedule.names(unet.graph).index("grad(dec0.concat)")
    assert first < turn < second
