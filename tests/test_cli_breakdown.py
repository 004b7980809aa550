"""remat show --breakdown, and --encode wherever a command differentiates."""

import json

import pytest

from remat_algos.formats.graph_files import read_graph

pytestmark = pytest.mark.usefixtures("short_searches")

VGG = "model:vgg11?batch=1&image=64"
WITHOUT = "model:vgg11?batch=1&image=64&parameter_gradients=true"


def test_a_breakdown_adds_up(remat):
    found = json.loads(remat("show", VGG, "--breakdown", "--json").out)
    assert found["footprint"] == found["peak_memory"] + found["resident_memory"] == sum(found["structures"].values())
    assert sum(sum(row["memory"].values()) for row in found["types"]) == found["footprint"]
    assert found["types"][0]["type"] == "fully connected"


def test_a_breakdown_by_operation(remat):
    said = remat("show", VGG, "--breakdown", "--by", "operation")
    assert said.code == 0
    assert "MaxPooling" in said.out
    assert said.lines[2].startswith("footprint ")


def test_a_breakdown_of_a_plan_shows_what_is_run_again(remat, tmp_path):
    plan, picture = tmp_path / "plan.json", tmp_path / "plan.png"
    remat("solve", VGG, "--budget", "least", "--solver", "chen_sqrt", "-o", plan)
    said = remat("show", VGG, "--breakdown", "--plan", plan, "--plot", picture)
    assert (said.code, "recomputed" in said.out, picture.read_bytes()[:4]) == (0, True, b"\x89PNG")
    whole = json.loads(remat("show", VGG, "--breakdown", "--plan", plan, "--json").out)
    assert whole["peak_memory"] == json.loads(plan.read_text())["peak_memory"]
    assert remat("show", VGG, "--breakdown", "--plot", "-").out.count("by data structure") == 1


def test_encoded_graphs_are_planned_and_their_plans_hold(remat, tmp_path):
    plan = tmp_path / "plan.json"
    said = remat("solve", VGG, "--encode", "--budget", "95%", "-o", plan)
    assert said.code == 0
    assert "9 feature maps at 1 bit per element" in said.flat
    assert json.loads(plan.read_text())["differentiate"]["encode"] == 32
    assert remat("verify", VGG, plan).code == 0
    assert "9 feature maps" in remat("simulate", VGG, plan).flat
    assert remat("explain", VGG, plan).code == 0


def test_the_bits_are_those_of_the_model(remat, tmp_path):
    plan = tmp_path / "plan.json"
    remat("solve", f"{VGG}&dtype=float16", "--encode", "--budget", "100%", "-o", plan)
    assert json.loads(plan.read_text())["differentiate"]["encode"] == 16
    remat("solve", VGG, "--encode", "--element-bits", 8, "--budget", "100%", "-o", plan)
    assert json.loads(plan.read_text())["differentiate"]["encode"] == 8


def test_encoding_lowers_the_peak_and_says_where_nothing_is_to_be_had(remat):
    peaks = [
        json.loads(remat("show", VGG, *words, "--json").out)["peak_without_rematerialization"]
        for words in ((), ("--encode",))
    ]
    assert peaks[1] < peaks[0]
    assert "no feature map at 1 bit" in remat("show", "model:feed_forward?batch=1", "--encode").out


def test_encoded_graphs_can_be_written(remat, tmp_path):
    file = tmp_path / "vgg.json"
    assert "9 feature maps at 1 bit" in remat("convert", VGG, file, "--encode").out
    assert read_graph(file).value_id("stage1.relu1:sign")
    assert remat("convert", VGG, file, "--encode", "--differentiate").code == 0
    assert read_graph(file).derivation.options["encode"] == 32


def test_larger_batches_fit_where_feature_maps_are_bits(remat):
    words = ("--vary", "batch", "--memory", "1GiB", "--overhead", "0", "--solver", "no_remat", "--json")
    found = [
        json.loads(remat("fit", "--model", "vgg11?image=64&parameter_gradients=true", *words, *more).out)
        for more in ((), ("--encode",))
    ]
    before, after = (entry["solvers"][0]["value"] for entry in found)
    assert before <= after
