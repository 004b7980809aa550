"""The run of a GPU in parts: tried small on the processors and on a stub; what stops a part, and what is kept."""

import contextlib
import io
import json
import sys
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from docs import validation
from remat_algos.cost.devices import get_device
from remat_algos.errors import GraphError
from remat_algos.executor import tuning
from remat_algos.executor.mixing_costs import mixing_costs
from tests import cuda_stub
from tests.benchmarks import gpu_run
from tests.benchmarks.gpu_run import PARTS, PartOptions, PartResult


@pytest.fixture
def stub(monkeypatch):
    """CuPy, played by the C++ compiler; sizes are small."""
    module = cuda_stub.module()
    module.cuda.runtime.driverGetVersion = module.cuda.runtime.runtimeGetVersion = lambda: 13020
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(tuning.TIMED_WORDS, "cupy", (2**4, 2**6))
    for sizes in (gpu_run.SMALL_PEAK, gpu_run.COPIED_PEAK):
        monkeypatch.setitem(sizes, "cupy", 60_000)
    monkeypatch.setitem(gpu_run.BURN, "cupy", 1)
    monkeypatch.setattr(gpu_run, "BOTH_WAYS", 2**12)
    yield
    mixing_costs.cache_clear()


def test_the_parts_take_all_of_the_time():
    assert sum(share for _, share in PARTS.values()) == pytest.approx(1)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """(the file that a quick run on the processors wrote, what it printed)"""
    file, printed = tmp_path_factory.mktemp("quick") / "run.json", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert gpu_run.main(["--backend", "numpy", "--quick", "--seconds", "86400", "--output", str(file)]) == 0
    return file, printed.getvalue()


def test_a_quick_run_on_the_processors_finds_something_in_every_part(quick_run):
    file, printed = quick_run
    record = json.loads(file.read_text())
    assert record["measured_on"]["command"].endswith("gpu_run --backend numpy --seconds 86400 --quick")
    parts = record["parts"]
    assert {name: part["outcome"] for name, part in parts.items()} == dict.fromkeys(PARTS, "done")
    assert [r["holds"] for r in parts["small"]["records"][1:]] == [True, True]
    _, network = parts["networks"]["records"]
    assert (network["network"], network["budget"], network["holds"]) == ("resnet50, whole", "70%", True)
    assert json.loads((file.parent / "device_numpy.json").read_text()) == parts["calibrate"]["records"][0]
    about, skipped, copied = parts["copies"]["records"]
    assert "device" in about
    assert "skipped" in skipped
    assert copied["bytes_as_predicted"]
    assert 0 < copied["one_pass_predicted"] <= copied["plan_predicted"]
    assert [line.partition(":")[0] for line in printed.splitlines()] == [*PARTS, f"written {file}"]


def test_the_page_shows_what_each_part_of_a_run_found(quick_run):
    run = json.loads(quick_run[0].read_text())
    trained = {"model": "gpt", "method": "remat 50%", "predicted_peak": 2**30, "peak": 2**30 + 4, "seconds": 0.5}
    run["parts"]["torch"]["records"] = [{"torch": "2"}, trained | {"slowdown": 1.2}]
    run["parts"]["torch"]["records"].append({"model": "unet", "method": "eager", "error": "out of memory"})
    both = {"out": 5e10, "into": 4e10, "each_of_both": 3e10}
    run["parts"]["copies"]["records"].append(both)
    text = validation.page([], [run | {"backend": "cupy"}])
    assert validation.MISSING not in text
    assert "2 of 2 small plans took the predicted bytes" in text
    assert "| resnet50 | 70% | 368 |" in text
    assert "| gpt | remat 50% | 1 GiB | 1 GiB | 500.0 ms | 1.20 |" in text
    assert "| unet | eager |  | none: out of memory |  |  |" in text
    assert "50.0 GB/s out, 40.0 GB/s into, each 30.0 GB/s while the other runs" in text
    assert "| torch | GPT, ResNet-50, U-Net trained" in text
    missing = validation.page([], [run])
    assert validation.MISSING in missing
    assert missing.count("| not run |") == len(validation.PARTS)


def test_small_plans_and_copies_on_a_gpu(stub, tmp_path):
    options = PartOptions("cupy", quick=True, device_file=tmp_path / "device.json")
    about, *found = gpu_run.small(options)
    assert about["device"] == "a stub"
    assert [(r["holds"], r["same_as_numpy"]) for r in found] == [(True, True)] * 2
    _, both, skipped = gpu_run.copies(options)
    assert "run the part calibrate first" in skipped["skipped"]
    replace(get_device("A100 80GB"), link=gpu_run.ASSUMED).save(options.device_file)
    assert "this card" in list(gpu_run.copies(options))[-1]["skipped"]  # the file is of another one
    replace(get_device("A100 80GB"), name="a stub", link=gpu_run.ASSUMED).save(options.device_file)
    _, both, copied = gpu_run.copies(options)
    assert min(both.values()) > 0
    # The stub's clock is not that of the machine: each run of a node takes 2 ms.
    assert copied["bytes_as_predicted"]
    assert copied["loads"] > 0
    assert 0 < copied["one_pass_predicted"] <= copied["plan_predicted"]


def test_small_plans_are_those_of_solvers_that_can_serve(monkeypatch):
    def refuse_every_second(case, backend):
        if asked.append(case) or len(asked) % 2:
            raise GraphError("no")
        return {"peak": case.peak}

    asked = []
    monkeypatch.setattr(gpu_run, "result", refuse_every_second)
    found = list(islice(gpu_run.small_results("numpy"), 20))
    assert (len(found), len(asked)) == (20, 40)
    assert {record["peak"] for record in found} == {gpu_run.SMALL_PEAK["numpy"]}
    assert not any(case.whole for case in asked)


def part(name, tmp_path, backend="numpy", limit=60.0):
    found, kept = PartResult(), []
    options = PartOptions(backend, quick=True, device_file=tmp_path / "device.json")
    gpu_run.run_part(name, options, limit, found, lambda: kept.append(len(found.records)))
    return found, kept


def test_a_part_whose_time_is_over_is_stopped_and_the_others_go_on(tmp_path):
    found, kept = part("small", tmp_path, limit=0.02)
    assert (found.outcome, found.records, kept) == ("stopped", [], [0])


def test_a_part_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found, _ = part("small", tmp_path, backend="cupy")
    assert found.outcome.startswith("failed: gpu_run: ")
    assert found.records == []


@pytest.fixture
def any_day(monkeypatch):
    """Occasions that read nothing of the machine."""
    occasion = SimpleNamespace(record=lambda command: {"command": command})
    monkeypatch.setattr(gpu_run, "Occasion", SimpleNamespace(now=lambda: occasion))


@pytest.mark.usefixtures("any_day")
def test_whoever_finds_a_fault_ends_with_exit_code_1(monkeypatch, tmp_path, capsys):
    def plan(method, loss, *difference):
        record = {"model": "gpt", "method": method, "loss": loss}
        return record | ({"gradient_difference": difference[0]} if difference else {})

    eager, broken = plan("eager", 1.0), {"model": "gpt", "method": "remat 50%", "error": "no"}
    for faults, code in (
        ([], 1),  # a part without a record
        ([{"holds": True}], 0),
        ([{"holds": False}], 1),
        ([{"pool_known": True, "pool_inside": False}], 1),
        ([{"pool_known": False, "pool_inside": False}], 0),
        ([eager, plan("remat 50%", 1.0001, 0.0)], 0),
        ([eager, plan("remat 50%", 1.01, 0.0)], 1),
        ([eager, plan("remat 50%", 1.0)], 1),  # no gradient was compared
        ([eager, plan("inductor, remat 50%", 2.0, 0.001)], 0),
        ([eager, plan("inductor, remat 50%", 1.0, 0.5)], 1),
        ([eager, plan("remat 50%", 1.0, float("nan"))], 1),
        ([eager, broken], 1),  # none of our plans ran
        ([eager, plan("remat 50%", 1.0, 0.0), broken | {"method": "inductor, remat 50%"}], 0),
        ([{"skipped": "no torch"}], 1),
        ([{"bytes_as_predicted": False}], 1),
        ([{"same_as_numpy": False}], 1),
    ):

        def play(name, options, limit, found, keep, faults=faults):
            found.outcome, found.records = "done", list(faults)
            keep()

        monkeypatch.setattr(gpu_run, "run_part", play)
        assert gpu_run.main(["--output", str(tmp_path / "run.json")]) == code
    capsys.readouterr()


@pytest.mark.usefixtures("any_day")
def test_a_part_is_run_again_and_the_others_keep_what_they_found(monkeypatch, tmp_path, capsys):
    played = []

    def play(name, options, limit, found, keep):
        played.append(name)
        found.outcome, found.records = "done", [{"at": len(played)}]
        keep()

    monkeypatch.setattr(gpu_run, "run_part", play)
    output = tmp_path / "run.json"
    gpu_run.main(["--output", str(output)])
    assert gpu_run.main(["--output", str(output), "--only", "torch", "copies"]) == 0
    assert gpu_run.main(["--output", str(tmp_path / "new.json"), "--only", "torch"]) == 0
    capsys.readouterr()
    assert played == [*PARTS, "torch", "copies", "torch"]
    parts = json.loads(output.read_text())["parts"]
    assert [part["records"][0]["at"] for part in parts.values()] == [1, 2, 6, 4, 7]
