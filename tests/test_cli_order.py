"""remat order."""

import json

import pytest

from remat_algos.bounds.memory import one_pass_bound
from remat_algos.formats.graph_files import read_graph, write_graph
from remat_algos.schedule.emission import baseline_peak
from tests.test_schedule_one_pass import LAYERED


@pytest.fixture
def folder(folder):
    """The folder of the chain with a layered graph without names."""
    write_graph(LAYERED, "layered.npz")
    return folder


def test_an_order_that_meets_the_bound_is_optimal(remat, folder):
    said = remat("order", "chain.nodes.csv", "--inference")
    assert said.code == 0
    assert [line.split("  ")[0] for line in said.lines[1:]][:3] == ["id order", "order", "share"]
    assert any(line.endswith("100.0 %: the order is optimal") for line in said.lines)
    record = remat("order", "chain.nodes.csv", "--json").record
    assert record["optimal"]
    assert record["complete"]
    assert record["schedule"][0] == read_graph("chain.nodes.csv").labels[0]


@pytest.mark.parametrize("form", ["chain.nodes.csv", "layered.npz"])
def test_the_written_order_is_simulated_with_the_same_peak(remat, folder, form):
    words = ("--inference", "--time-limit", "0.5", "-o", "order.json", "--json")
    record = remat("order", form, *words).record
    assert record["written"] == "order.json"
    assert json.loads((folder / "order.json").read_text()) == record["schedule"]
    simulated = remat("simulate", form, "order.json", "--inference", "--json").record
    for figure in ("peak_memory", "peak_without_rematerialization", "resident_memory", "graph_hash"):
        assert simulated[figure] == record[figure]
    assert simulated["overhead"] == 0


def test_the_search_goes_below_the_beam_and_the_beam_below_the_id_order(remat, folder):
    words = ("order", "layered.npz", "--inference", "--json")
    ids, beam, searched = (
        remat(*words, *more).record for more in (("--no-search", "--beam", "0"), ("--no-search",), ("--seed", "1"))
    )
    assert ids["peak_memory"] == baseline_peak(LAYERED) == ids["peak_without_rematerialization"]
    assert one_pass_bound(LAYERED)[0] == ids["one_pass_bound"] < searched["peak_memory"]
    assert searched["peak_memory"] < beam["peak_memory"] < ids["peak_memory"]
    assert not searched["optimal"]


def test_a_time_limit_leaves_an_incomplete_search(remat, folder):
    said = remat("order", "layered.npz", "--inference", "--time-limit", "0.05")
    assert said.code == 0
    assert "incomplete" in said.out


def test_no_nodes_are_an_order_too(remat, folder):
    (folder / "empty.json").write_text(json.dumps({"format": "remat-graph", "version": 1, "nodes": []}))
    assert remat("order", "empty.json", "--inference").code == 0
    assert remat("order", "empty.json", "--inference", "--json").record["schedule"] == []


def test_the_order_is_drawn(remat, folder):
    drawn = remat("order", "resident.nodes.csv", "--plot", "-").out
    assert "step" in drawn
    assert "107 B; with the peak" in drawn
