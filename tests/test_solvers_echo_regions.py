"""Regions of echo: their sums, their reasons, and how `explain` prints them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from remat_algos.formats.graphs.json_text import to_json
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.plan.plan import Plan
from remat_algos.plan.verify import verify
from remat_algos.questions.explain import explain
from remat_algos.search.solve import solve
from remat_algos.solvers.methods.echo import MODES, find_echo_regions
from tests.echo_cases import CASES, decoder, echoed, network, recomputable
from tests.strategies import training_graphs

each_mode = pytest.mark.parametrize("mode", MODES)


@each_mode
@given(graph=training_graphs(max_nodes=24))
def test_regions_share_nothing_and_add_up(mode, graph):
    regions, details = find_echo_regions(graph, mode), echoed(graph, mode=mode).details
    members = [v for region in regions for v in region.nodes]
    assert sorted(members) == sorted(recomputable(graph))
    again = [region for region in regions if region.decision == "recompute"]
    assert sum(region.rerun for region in again) == details["rerun"]
    assert sum(r.released - r.allocated for r in again) == details["stash_without"] - details["stash"]
    assert all(0 <= r.released <= r.feature_maps and r.allocated >= 0 and r.overhead >= 0 for r in regions)
    assert mode != "exact" or graph.mark is not None or all(r.released > r.allocated for r in again)


def test_every_region_has_a_reason():
    rows = [*CASES["T1, n = 4"], ("G", 4, "e4", ""), ("f", 9, "G", "f"), ("J", 1, "f", ""), ("g", 1, "J", "")]
    graph = network(rows)
    decisions = {region.name(graph): (region.decision, region.reason) for region in find_echo_regions(graph)}
    assert decisions == {
        "e1 .. e4": ("recompute", "its values are recomputed from 4 B"),
        "f": ("recompute", "its values are recomputed from 4 B"),
        "g": ("keep", "no gradient reads its values"),
    }
    [region] = find_echo_regions(network(CASES["T2"]))
    assert (region.released, region.allocated, region.overhead) == (4, 8, 2)
    assert region.reason == "recomputing it would stash 8 B, no less than its feature maps"
    # "paper" counts X as released, though no recomputation needs a
    [region] = find_echo_regions(
        network([("X", 10, "", ""), ("Y", 1, "", ""), ("a", 1, "X Y", ""), ("b", 5, "Y", "b")]), "paper"
    )
    assert (region.decision, region.reason) == ("keep", "mode paper expects to allocate no less than it would release")
    [region] = find_echo_regions(network(CASES["T7b"]), "paper")
    assert region.reason == "mode paper expects to release more than it allocates"
    marked = network(CASES["T2"])
    marked = replace(marked, mark=np.isin(np.arange(marked.n_nodes), [2, 3]) * RECOMPUTE, derivation=None)
    assert [region.reason for region in find_echo_regions(marked)] == ["marked to be recomputed"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = network([*decoder(5)], loss=False)
    (tmp_path / "net.json").write_text(to_json(graph), encoding="utf-8")
    solve(graph, solver="echo", mode="paper").save("plan.json")
    solve(graph, solver="no_remat").save("plain.json")
    return graph


def test_explain_prints_the_regions_of_echo(remat, files):
    regions = find_echo_regions(files, "paper")
    printed = remat("explain", "net.json", "plan.json")
    assert (printed.code, printed.err) == (0, "")
    at = next(i for i, line in enumerate(printed.lines) if line.startswith("region "))
    head, row, reason, last = (*printed.lines[at : at + 3], " ".join(printed.lines[at + 3 :]))
    columns = ["region", "nodes", "recomputed", "released", "allocated", "overhead", "decision"]
    assert re.split(r" {2,}", head) == columns
    assert reason == f"add0 .. tanh4: {regions[0].reason}"
    assert re.split(r" {2,}", row)[:5] == ["add0 .. tanh4", "10", "10", "25 B", "5 B"]
    assert last.startswith("1 region, 1 recomputed: 20 B of 30 B of feature maps saved, for ")
    record = remat("explain", "net.json", "plan.json", "--json").record
    assert record["regions"] == [region.record(files) for region in regions]
    assert record["regions_left_out"] == 0
    record = remat("explain", "net.json", "plan.json", "--json", "--most", 0).record
    assert (record["regions"], record["regions_left_out"]) == ([], 1)


def test_explain_has_a_plan_made_by_a_solver(remat, files):
    printed = remat("explain", "net.json", "--solver", "echo", "-O", "only=Tanh", "--json")
    assert (printed.code, printed.err, len(printed.record["regions"])) == (0, "", 1)
    printed = remat("explain", "net.json", "--solver", "chen_sqrt")
    assert (printed.code, printed.err, "region" in printed.out) == (0, "", False)
    assert "region" not in remat("explain", "net.json", "plain.json").out
    assert "region" not in remat("explain", "net.json", "plan.json", "--value", "X").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "give PLAN, or --solver NAME to compute one"),
        ("plan.json --solver echo", "--solver is for solving, but plan.json is already solved"),
        ("plan.json -O mode=exact", "-O is for solving, but plan.json is already solved"),
        ("--solver nobody", "unknown solver 'nobody'"),
        ("--solver echo -O fast=1", "echo has no option 'fast'; its options are mode, only, also"),
        ("--solver echo -O only=Warp", "only names 'Warp', which is neither an operation nor a layer"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(remat, files, words, sentence):
    printed = remat("explain", "net.json", *words.split())
    assert (printed.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert sentence in printed.err


def test_options_of_a_plan_that_echo_does_not_have_leave_out_its_report(files):
    plan = solve(files, solver="echo")
    for options, reason in ({"mode": "fast"}, "mode is 'fast'"), ({"speed": 3}, "echo has no option speed"):
        explanation = explain(replace(plan, options=options))
        assert explanation.report is None
        assert f"echo has no report on this plan: {reason}" in " ".join(str(explanation).split())
        assert "regions" not in explanation.record()
        assert reason in explanation.record()["no_report"]


@pytest.mark.parametrize("mode", ["literal", "mxnet"])
def test_a_plan_of_a_mode_of_the_reproduction_is_read_and_verified(remat, files, mode):
    record = json.loads(Path("plan.json").read_text("utf-8"))
    record["options"]["mode"] = record["details"]["mode"] = mode
    Path("plan.json").write_text(json.dumps(record), encoding="utf-8")
    assert verify(files, Plan.load("plan.json", files)).peak_memory == record["peak_memory"]
    assert remat("verify", "net.json", "plan.json").code == 0
    printed = remat("explain", "net.json", "plan.json")
    assert (printed.code, printed.err) == (0, "")
    reason = f"mode is '{mode}', which is part of the reproduction of echo2020; use exact or paper"
    assert reason in " ".join(printed.out.split())
