"""What is recorded of runs on a GPU, and the page that shows it."""

import json
import sys

import pytest

from docs import validation as page_module
from docs.zoo import SMALL
from remat_algos import plot
from remat_algos.executor import tuning
from remat_algos.executor.mixing_costs import mixing_costs
from remat_algos.solvers.registry import list_solvers
from remat_algos.zoo.registry import list_families
from tests import cuda_stub
from tests.benchmarks import gpu_validation
from tests.benchmarks.occasion import Occasion

SMALL_PEAKS = (60_000, 20_000)


@pytest.fixture
def stub(monkeypatch):
    """CuPy, played by the C++ compiler; sizes are small."""
    module = cuda_stub.module()
    module.cuda.runtime.driverGetVersion = module.cuda.runtime.runtimeGetVersion = lambda: 13020
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(gpu_validation.PEAKS, "cupy", SMALL_PEAKS)
    monkeypatch.setitem(gpu_validation.RESIDENTS, "cupy", 10**6)
    monkeypatch.setitem(tuning.TIMED_WORDS, "cupy", (2**4, 2**6))
    yield
    mixing_costs.cache_clear()


def test_three_validations_on_numpy_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(gpu_validation.PEAKS, "numpy", SMALL_PEAKS)
    file = tmp_path / "found.json"
    assert gpu_validation.main(["--backend", "numpy", "--most", "3", "--output", str(file)]) == 0
    record = json.loads(file.read_text())
    assert (record["backend"], len(record["validations"])) == ("numpy", 3)
    summary = record["summary"]
    assert (summary["validations"], summary["hold"], summary["bytes_apart"], summary["mismatches"]) == (3, 3, 0, 0)
    assert summary["replay_exact"] == summary["pool_inside"] == summary["pool_known"] == [0, 0]
    assert all(r["predicted_peak"] == r["measured_peak"] <= 4 * max(SMALL_PEAKS) for r in record["validations"])
    assert f"written {file}" in capsys.readouterr().out
    assert gpu_validation.main(["--backend", "numpy", "--seconds", "0", "--output", "-"]) == 0


def whole(**other):
    found = {"validations": 120, "hold": 120, "replay_exact": [120, 120], "same_as_numpy": [30, 30]}
    found |= {"pool_inside": [120, 120], "pool_known": [40, 40], "highest_peak": 41 * 10**9}
    found |= {"long_overheads": 10, "long_overheads_within_10_percent": 9}
    return found | other


def test_targets_say_what_was_met_and_what_counts():
    found = gpu_validation.targets(whole(), "cupy")
    assert {target["outcome"] for target in found.values()} == {"met"}
    for name, value, claim in (
        ("hold", 119, True),
        ("replay_exact", [119, 120], True),
        ("same_as_numpy", [29, 30], True),
        ("highest_peak", 39 * 10**9, True),
        ("pool_known", [39, 40], True),
        ("pool_inside", [119, 120], False),
        ("long_overheads_within_10_percent", 8, False),
    ):
        found = gpu_validation.targets(whole(**{name: value}), "cupy")
        assert [key for key, target in found.items() if target["outcome"] == "missed"] == [name]
        assert found[name]["claim"] is claim
        assert gpu_validation.missed({"targets": found}) == ([name] if claim else [])
    few = whole(validations=99, hold=99)
    assert gpu_validation.missed({"targets": gpu_validation.targets(few, "cupy")}) == ["validations"]
    assert gpu_validation.missed({"targets": gpu_validation.targets(few, "numpy")}) == []
    never = gpu_validation.targets(whole(long_overheads=0, long_overheads_within_10_percent=0), "cupy")
    assert never["long_overheads_within_10_percent"]["outcome"] == "not asked"


def test_a_claim_that_is_missed_is_the_exit_code(monkeypatch, capsys):
    of = whole(hold=119)
    of["targets"] = gpu_validation.targets(of, "cupy")
    monkeypatch.setattr(gpu_validation, "run", lambda *given: {"summary": of})
    assert gpu_validation.main(["--output", "-"]) == 1
    assert capsys.readouterr().out.endswith("missed: hold\n")


@pytest.mark.parametrize(
    ("note", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12",
            "535.104.05",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "580.65.06"),
        ("something else", None),
    ],
)
def test_the_driver_is_noted_by_the_system(note, version, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_validation, "VERSION", tmp_path / "version")
    assert gpu_validation.noted_driver() is None
    (tmp_path / "version").write_text(note)
    assert gpu_validation.noted_driver() == version


def test_the_cases_are_enough_and_mixed():
    found = list(gpu_validation.cases("cupy"))
    families = {family.name for family in list_families()}
    assert len(found) == len(set(found)) == len(families) * len(list_solvers()) + 9 > 160
    first = found[:100]
    assert {case.network for case in first} == families | {"resnet50", "unet", "gpt2_small"}
    assert found[len(families)] == gpu_validation.Case("resnet50", "auto", "70%", 64 * 10**9, whole=True)
    assert {case.solver for case in first} == {solver.name for solver in list_solvers()} | {"auto"}
    assert {case.budget for case in first} == {*gpu_validation.BUDGETS, *gpu_validation.SHARES}
    assert max(case.peak for case in first) >= 40 * 10**9


@pytest.mark.parametrize(("family", "peak"), [("vgg", 3 * 10**8), ("lstm", 2 * 10**7), ("resnet", 40 * 10**9)])
def test_a_network_is_about_as_large_as_asked(family, peak):
    graph, batch, by = gpu_validation.sized(family, SMALL[family], peak, 8 * 10**9)
    assert peak / 2.5 < gpu_validation.baseline_peak(graph) < 2 * peak
    assert batch == 1 or by == 1
    graph, _, _ = gpu_validation.sized(family, SMALL[family], peak, 10**5)
    assert graph.resident_memory <= 10**5 + 4 * 1000  # each rounded up


def test_whole_networks_fit_a_device_of_80_gigabytes_without_rematerialization():
    for case in gpu_validation.whole_networks("cupy")[:3]:
        graph, batch, by = gpu_validation.sized(case.network, {}, case.peak, gpu_validation.RESIDENTS["cupy"])
        assert graph.n_nodes > 120
        assert batch > 1
        assert by == 1
        assert 50 * 2**30 < gpu_validation.baseline_peak(graph) + graph.resident_memory < 70 * 2**30


def test_a_run_on_a_gpu_is_recorded_and_shown(stub, tmp_path):
    record = gpu_validation.run("cupy", 4, 60, say=lambda line: None)
    summary = record["summary"]
    assert (summary["hold"], summary["same_as_numpy"]) == (4, [4, 4])
    assert summary["replay_exact"][1] == summary["pool_inside"][1] == 4
    assert {"device", "driver", "cuda_driver", "cuda_runtime", "cupy", "memory", "numpy", "python"} <= set(record)
    text = page_module.page([("validation_stub", json.loads(json.dumps(record)))])
    assert page_module.NOTHING not in text
    assert "### a stub" in text
    assert "CUDA 13.2 (driver)" in text
    assert "| as predicted | 4 |" in text
    assert all(f"| {result['network']} | 1 | 1 |" in text for result in record["validations"])
    plot.save(page_module.figure(record), tmp_path / "both.svg")
    assert (tmp_path / "both.svg").stat().st_size > 1000


def test_the_page_is_what_the_script_writes():
    records = page_module.recorded()
    runs = [run for _, run in page_module.recorded("gpu_run_*.json")]
    assert (page_module.DOCS / "validation.md").read_text("utf-8") == page_module.page(records, runs)
    assert all((page_module.DOCS / "figures" / f"{name}.svg").exists() for name, _ in page_module.on_gpu(records))


def test_of_a_run_on_numpy_the_page_says_how_near_the_times_came():
    summary = {"long_overheads": 28, "long_overheads_within_10_percent": 9, "long_overheads_median_apart": 0.187}
    summary |= {"validations": 60, "hold": 60, "networks": 22, "solvers": 2}
    summary |= {"skipped": {"revolve: no chain": 3, "milp: 65 nodes": 1, "milp: 66 nodes": 1, "echo: none": 1}}
    now = Occasion("2026-11-27", "0123456789ab", "a processor", 2, "3.11.7", {"numpy": "2.4.6"}, 3.1).record(
        "python it"
    )
    record = {"backend": "numpy", "measured_on": now, "summary": summary, "validations": [{"solver": "echo"}]}
    text = page_module.page([("validation_here", record)])
    words = " ".join(text.split())
    assert "In one run, `python it`, 60 of 60 plans passed, of 2 solvers on 22 networks. There is" in words
    assert "no plan of `milp` and `revolve`, which served no network that was tried. 9 of 28 overheads" in words
    assert "half of them within 19 %. Such shares depend on what else the machine does: it was 2026-11-27 at" in words
    assert "2 cores; Python 3.11.7, numpy 2.4.6; load average 3.1 before; other processes were running" in words
    assert page_module.NOTHING in text
    assert page_module.NOTHING in page_module.page([])
