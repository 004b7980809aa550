"""remat calibrate: what it says and writes."""

import json
import sys

import pytest

from remat_algos.cli.main import main
from remat_algos.cost import calibration
from remat_algos.cost.calibration import Timings
from remat_algos.cost.devices import get_device, get_link

# 2 * 1000^3 FLOPs in 10 ms, 4 MB in 1 ms, a launch in 1.25 us
TIMINGS = Timings({"float32": {1000: [0.01]}, "float16": {1000: [0.002]}}, [(4 * 10**6, [0.001])], [1.25e-6])


@pytest.fixture
def asked(monkeypatch):
    """What is asked to be measured; the times are always the same."""
    types = []

    def measure(library, dtypes, repeats, size):
        types.extend(dtypes)
        products = {dtype: TIMINGS.products[dtype] for dtype in types}
        return Timings(products, TIMINGS.streams, TIMINGS.launches)

    monkeypatch.setattr(calibration, "measure", measure)
    monkeypatch.setattr(calibration, "processors", lambda: "Some CPU with 4 processors")
    monkeypatch.setattr(calibration.os, "sysconf", lambda name: 4096)
    monkeypatch.setattr(calibration.np, "__version__", "2.0.0")
    return types


@pytest.fixture
def calibrate(capsys, tmp_path, monkeypatch):
    """Runs remat calibrate in this process: its exit code, what it said, and its complaint."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main(["calibrate", *words])
        return (code, *capsys.readouterr())

    return run


SAID = [
    "device     Some CPU with 4 processors",
    "float32    200.0 GFLOP/s in matrix products, 0.005 ns per FLOP",
    "bandwidth  3.73 GiB/s, 0.25 ns per byte",
    "launch     1.25 us",
    "memory     16 MiB",  # 4096 pages of 4096 bytes
    "source     measured by remat calibrate with NumPy 2.0.0",
]


def test_it_says_what_was_measured_and_how_to_keep_it(asked, calibrate, tmp_path):
    code, out, err = calibrate()
    assert out.splitlines() == [*SAID, "to use these figures, write them to a file: remat calibrate -o my_device.json"]
    assert (code, err, asked, list(tmp_path.iterdir())) == (0, "", ["float32"], [])


def test_it_writes_a_device_and_says_how_to_use_it(asked, calibrate, tmp_path):
    code, out, err = calibrate("-o", "here.json", "--dtype", "float16")
    assert out.splitlines() == [
        *SAID[:2],
        "float16    1,000.0 GFLOP/s in matrix products, 0.001 ns per FLOP",
        *SAID[2:],
        "written    here.json",
        "use it     remat show 'model:resnet50?cost=measured&device=here.json'",
    ]
    assert (code, err, asked) == (0, "", ["float32", "float16"])
    device = get_device("here.json")
    assert dict(device.flops) == {"float32": pytest.approx(2e11), "float16": pytest.approx(1e12)}
    assert (device.bandwidth, device.launch, device.memory) == (pytest.approx(4e9), 1.25e-6, 4096**2)


def test_a_measured_link_is_printed_written_and_used(calibrate, monkeypatch):
    # 10 us and 25 GB/s out, 20 GB/s into the device
    copies = tuple({size: [1e-5 + size / rate] for size in (10**4, 10**7)} for rate in (25e9, 20e9))
    measured = Timings({"float32": {1000: [0.01]}}, TIMINGS.streams, TIMINGS.launches, copies)
    monkeypatch.setattr(calibration, "measure", lambda *_: measured)
    code, out, err = calibrate("-o", "here.json")
    assert "\nlink       25.0 GB/s out, 20.0 GB/s into, 10.00 us a copy\n" in out
    assert (code, err) == (0, "")
    link = get_link("here.json")
    assert (link.out, link.into, link.latency) == (pytest.approx(25e9), pytest.approx(20e9), pytest.approx(1e-5))
    assert (link.host, link.source[:9]) == (None, "measured ")
    assert json.loads(calibrate("--json")[1])["link"] == link.record()


@pytest.mark.parametrize("words", [(), ("-o", "here.json")])
def test_json_is_the_device_and_the_file(words, asked, calibrate, tmp_path):
    code, out, err = calibrate("--json", *words)
    record = json.loads(out)
    assert record.pop("written") == (words[1] if words else None)
    assert record["ns_per_flop"] == {"float32": pytest.approx(0.005)}
    assert (record["ns_per_byte"], record["ns_per_launch"]) == (pytest.approx(0.25), pytest.approx(1250))
    assert (code, err) == (0, "")
    (tmp_path / "said.json").write_text(json.dumps(record))
    assert get_device("said.json").bandwidth == pytest.approx(4e9)
    assert not words or get_device("here.json") == get_device("said.json")


def test_without_cupy_nothing_is_measured(asked, calibrate, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = calibrate("--backend", "cupy")
    assert (code, out, asked, err.count("\n")) == (2, "", [], 1)
    assert "CuPy is not installed" in err


def test_this_machine_is_measured(calibrate, monkeypatch):
    monkeypatch.setattr("remat_algos.cost.tuning.STREAM_BYTES", 2**12)
    monkeypatch.setattr("remat_algos.cost.tuning.PRODUCT_SECONDS", 0.0)
    code, out, err = calibrate("-o", "here.json", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["flops"]["float32"] == get_device("here.json").rate("float32") > 0
