"""Bytes of shapes, devices, costs of nodes, and the page that describes them."""

import json
import os
import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.cost import calibration, tuning
from remat_algos.cost.backends import gpu_missing
from remat_algos.cost.calibration import Library, Timings, calibrate, measure
from remat_algos.cost.devices import DEVICES, DTYPES, Device, element_bytes, get_device, tensor_bytes
from remat_algos.cost.links import Link
from remat_algos.cost.node_costs import COSTS, DEFAULT_DEVICE, compute_costs, operator_costs
from remat_algos.errors import ArgumentError, BackendError, GraphError
from remat_algos.executor.array_backend import backend
from remat_algos.ir.differentiate import differentiate
from remat_algos.zoo.builder import Builder
from remat_algos.zoo.registry import build
from remat_algos.zoo.settings import Settings
from tests import cuda_stub
from tests.raising import raises

PAGE = (Path(__file__).parent.parent / "docs" / "costs.md").read_text(encoding="utf-8")
SLOW = Device("slow", {"float32": 2e9, "float16": 8e9}, bandwidth=1e9, launch=1e-6, memory=1000)
SMALL = Device("small", {"float32": 1e9}, bandwidth=1e9, launch=1e-6, memory=1000, multiprocessors=3, tile=2)
counts = st.integers(0, 2**50)


def said(error):
    """The sentence of an error, without line breaks in it."""
    assert "\n" not in str(error.value)
    return str(error.value)


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("shape", "dtype", "size"),
    [
        ((), "float64", 8),
        ((7,), "bool", 7),
        ((2, 3, 4), "float32", 96),  # 24 elements of 4 bytes
        ((2, 3, 4), "bfloat16", 48),
        ((5, 0, 4), "int64", 0),
        ((10**5, 10**5, 10**5), "float8_e4m3", 10**15),  # beyond 32 bits
    ],
)
def test_a_tensor_has_its_elements_bytes(shape, dtype, size):
    assert tensor_bytes(shape, dtype) == size


def test_elements_are_as_large_as_numpys_where_it_has_them():
    for dtype in DTYPES:
        if not dtype.startswith(("bfloat", "float8")):
            assert element_bytes(dtype) == np.dtype(dtype).itemsize


def test_an_unknown_dtype_is_refused_with_the_nearest():
    with raises(GraphError, what="dtype", name="Flaot16") as error:
        tensor_bytes((1,), "Flaot16")
    assert "float16" in error.value.fields["near"]


@pytest.mark.parametrize("dtype", [None, [], "zzz"])
def test_what_is_like_no_dtype_is_refused_without_a_guess(dtype):
    with raises(GraphError, name=dtype, near=""):
        element_bytes(dtype)


# ---------------------------------------------------------------- devices


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_every_device_of_the_table_has_all_numbers(device):
    assert get_device(device.name) is device
    assert set(device.flops) >= {"float64", "float32"}
    assert set(device.flops) <= set(DTYPES)
    assert device.rate("float64") <= device.rate("float32") <= device.rate("float16") <= device.rate("float8_e4m3")
    assert 1e11 < device.bandwidth < 1e13  # GPUs: hundreds of GB/s to some TB/s
    assert device.memory % 2**30 == 0
    assert device.launch == tuning.LAUNCH
    assert device.wave == device.multiprocessors * tuning.TILE**2
    assert re.match(r"NVIDIA, .*, 20[12]\d", device.source)


@pytest.mark.parametrize("spelled", ["A100 80GB", "a100 80gb", "a100-80gb", "A100_80GB", "a10080gb"])
def test_the_spelling_of_a_name_does_not_matter(spelled):
    assert get_device(spelled) is DEVICES["A100 80GB"]


def test_no_two_names_differ_in_spelling_only():
    assert len({re.sub(r"\W", "", name.lower()) for name in DEVICES}) == len(DEVICES)


def test_an_unknown_device_is_refused_with_the_nearest():
    with raises(GraphError, what="device", name="a100 90gb") as error:
        get_device("a100 90gb")
    assert error.value.fields["near"].startswith("; did you mean A100 80GB")


@pytest.mark.parametrize(
    ("rates", "dtype", "runs_as"),
    [
        ({"float32": 1, "float16": 2, "bfloat16": 3}, "bfloat16", "bfloat16"),
        ({"float32": 1, "float16": 2}, "bfloat16", "float32"),
        ({"float32": 1, "float16": 2}, "float8_e5m2", "float16"),
        ({"float32": 1}, "float8_e5m2", "float32"),
        ({"float32": 1}, "float64", "float32"),
        ({"float32": 1, "float16": 2}, "int8", "float32"),
    ],
)
def test_what_has_no_rate_of_its_own_runs_as_another_type(rates, dtype, runs_as):
    assert Device("d", rates, 1, 0, 1).rate(dtype) == rates[runs_as]


def test_a_rate_of_an_unknown_type_is_an_error():
    with raises(GraphError, what="dtype", name="float33"):
        SLOW.rate("float33")


@given(
    rates=st.dictionaries(st.sampled_from(sorted(DTYPES)), st.floats(1e-3, 1e20)),
    numbers=st.tuples(st.floats(1e-3, 1e20), st.floats(0, 1e3), st.integers(1, 2**62)),
    texts=st.tuples(st.text(), st.text()),
    tiles=st.just(()) | st.tuples(st.integers(1, 2**20 - 1), st.integers(1, 2**20 - 1)),
)
def test_a_device_comes_back_from_its_file(rates, numbers, texts, tiles, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "device.json"
    device = Device(texts[0], {"float32": 1.0} | rates, *numbers, texts[1], None, *tiles)
    device.save(file)
    assert get_device(file) == get_device(str(file)) == device
    assert hash(get_device(file)) == hash(device)
    assert json.loads(file.read_text("utf-8")) == device.record()


def test_the_rates_of_a_device_cannot_be_changed():
    rates = {"float32": 1.0}
    device = Device("d", rates, 1, 0, 1)
    rates["float32"] = 2.0
    assert device.rate("float32") == 1.0
    with pytest.raises(TypeError):
        device.flops["float32"] = 3.0


def test_a_file_without_ending_is_found_too_but_names_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "T4"):
        SLOW.save(name)
    assert get_device("mine") == get_device(Path("T4")) == get_device(f".{os.sep}T4") == SLOW
    assert get_device("T4") is DEVICES["T4"]


def test_a_device_that_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "device.json"
    SLOW.save(file)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        DEVICES["T4"].save(file)
    assert get_device(file) == SLOW
    assert list(tmp_path.iterdir()) == [file]


GOOD = SLOW.record()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {"place": "line 1, column 1"}),
        ('{"format": ', {"place": "line 1, column 12"}),
        ("[" * 10**5, {}),
        ("[]", {"wanted": "remat-device"}),
        ('{"format": "remat-graph"}', {"wanted": "remat-device"}),
        (GOOD | {"version": 2}, {"found": 2, "version": 1}),
        (GOOD | {"version": True}, {"found": True}),
        (GOOD | {"name": None}, {"key": "name", "entry": None}),
        (GOOD | {"name": 4}, {"key": "name", "entry": 4}),
        (GOOD | {"source": 4}, {"key": "source", "entry": 4}),
        (GOOD | {"flops": None}, {"name": "slow"}),
        (GOOD | {"flops": {"float16": 1}}, {"name": "slow"}),
        (GOOD | {"flops": {"float32": 1, "flout16": 1}}, {"what": "dtype", "name": "flout16"}),
        (GOOD | {"flops": {"float32": 0}}, {"what": "flops of float32", "entry": 0}),
        (GOOD | {"flops": {"float32": "1e12"}}, {"what": "flops of float32", "entry": "1e12"}),
        (GOOD | {"bandwidth": float("nan")}, {"name": "NaN"}),
        (GOOD | {"bandwidth": float("inf")}, {"name": "Infinity"}),
        (GOOD | {"bandwidth": 10**400}, {"text": str(10**400)}),
        (GOOD | {"bandwidth": True}, {"what": "bandwidth", "entry": True}),
        (GOOD | {"launch": None}, {"what": "launch", "entry": None}),
        (GOOD | {"launch": -1e-6}, {"what": "launch", "entry": -1e-6}),
        (GOOD | {"memory": 0}, {"what": "memory", "entry": 0}),
        (GOOD | {"memory": 1.5}, {"what": "memory", "entry": 1.5}),
    ],
)
def test_a_faulty_file_is_refused_with_its_name_and_what_is_wrong(text, fields, tmp_path):
    file = tmp_path / "device.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    with raises(GraphError, file=file) as error:
        get_device(file)
    inner = error.value.fields.get("error", error.value).fields
    assert {name: inner[name] for name in fields} == fields


def test_files_that_cannot_be_read_are_told_with_a_remedy(tmp_path):
    with pytest.raises(
        GraphError, match=r"no such file: .*there\.json; name a device of the table, or a file that `remat"
    ):
        get_device(tmp_path / "not there.json")
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    with pytest.raises(GraphError, match=r"latin\.json: byte 10 is not UTF-8 text; save the file as UTF-8$"):
        get_device(tmp_path / "latin.json")


# ---------------------------------------------------------------- costs

OPS = ["Convolution", "Convolution2DFunction", "TransposedConvolution", "Linear", "ReLU", ""]


def test_the_papers_cost_is_ten_for_convolutions_alone():
    costs, unit = compute_costs(OPS, [0] * 6, [0] * 6, cost="paper")
    assert (costs.tolist(), unit) == ([10, 10, 1, 1, 1, 1], "")


def test_unit_costs_are_ones():
    costs, unit = compute_costs(OPS, range(6), range(6), cost="unit")
    assert (costs.tolist(), unit) == ([1] * 6, "")


def test_flops_are_what_was_given():
    costs, unit = compute_costs(OPS, range(6), [9] * 6)
    assert (costs.tolist(), unit) == ([0, 1, 2, 3, 4, 5], "FLOPs")


@pytest.mark.parametrize(
    ("dtype", "costs"),
    [
        # a launch of 1,000 ns each; 2 and 8 FLOPs, 1 byte in a ns
        ("float32", [1000 + 4000, 1000 + 500, 1000 + 3000, 0, 1000 + 1]),
        ("float16", [1000 + 1000, 1000 + 300, 1000 + 3000, 0, 1000 + 0]),
    ],
)
def test_a_roofline_is_the_launch_and_the_longer_of_work_and_traffic(dtype, costs):
    flops, moved = [8000, 1000, 2000, 0, 1], [500, 300, 3000, 0, 0]
    found, unit = compute_costs([""] * 5, flops, moved, cost="roofline", device=SLOW, dtype=dtype)
    # 1 FLOP in float32 is half a ns: 1000.5 rounds to even
    assert (found.tolist(), unit) == ([*costs[:4], 1000], "ns")


def test_what_does_anything_takes_a_nanosecond():
    fast = Device("fast", {"float32": 1e20}, 1e20, launch=0, memory=1)
    assert compute_costs([""] * 3, [1, 0, 0], [0, 1, 0], cost="roofline", device=fast)[0].tolist() == [1, 1, 0]


@given(st.lists(st.tuples(counts, counts), min_size=2, max_size=2), st.sampled_from(sorted(DEVICES)))
def test_more_flops_and_more_bytes_never_take_less_time(pair, name):
    (less, fewer), (more, most) = zip(*map(sorted, zip(*pair, strict=True)), strict=True)
    costs, _ = compute_costs(["", ""], [less, more], [fewer, most], cost="roofline", device=name)
    assert costs[0] <= costs[1]


@given(counts, counts, st.sampled_from(sorted(DEVICES)), st.sampled_from(sorted(DTYPES)))
def test_a_roofline_is_exact_to_a_nanosecond(flops, moved, name, dtype):
    device = DEVICES[name]
    work, traffic = (Fraction(flops) / Fraction(device.rate(dtype)), Fraction(moved) / Fraction(device.bandwidth))
    exact = 10**9 * (Fraction(device.launch) + max(work, traffic)) if flops or moved else 0
    cost = int(compute_costs([""], [flops], [moved], cost="roofline", device=name, dtype=dtype)[0][0])
    assert abs(cost - exact) <= Fraction(1, 2) + exact / 2**50


@pytest.mark.parametrize("cost", COSTS)
def test_costs_of_nothing_and_of_many_are_whole_read_only_numbers(cost):
    device = SLOW if cost == "measured" else None
    for n in (0, 3):
        costs, _ = compute_costs(["Add"] * n, [5] * n, [5] * n, cost=cost, device=device, products=[5] * n)
        assert (costs.dtype, costs.shape, costs.flags.writeable) == (np.int64, (n,), False)


def test_a_roofline_is_of_the_default_device_unless_another_is_named():
    nodes = [["Add"], [10**9], [10**9]]
    default = compute_costs(*nodes, cost="roofline")[0]
    assert default.tolist() == compute_costs(*nodes, cost="roofline", device=DEFAULT_DEVICE)[0].tolist()
    assert default < compute_costs(*nodes, cost="roofline", device="k40c")[0]


def test_measured_costs_are_the_roofline_of_a_file(tmp_path):
    file = tmp_path / "device.json"
    SLOW.save(file)
    wanted = compute_costs(["Add"], [8000], [500], cost="roofline", device=SLOW)
    for device in (SLOW, file, str(file)):
        assert compute_costs(["Add"], [8000], [500], cost="measured", device=device) == wanted


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"cost": "rooflin"}, {"what": "cost", "name": "rooflin"}),
        ({"cost": "measured"}, {"device": None}),
        ({"cost": "measured", "device": "t4"}, {"device": "t4"}),
        ({"cost": "flops", "device": "T4"}, {"cost": "flops"}),
        ({"cost": "roofline", "device": "T5"}, {"what": "device", "name": "T5"}),
        ({"cost": "roofline", "dtype": "float31"}, {"what": "dtype", "name": "float31"}),
        ({"cost": "occupancy", "device": SLOW, "products": [1]}, {"name": "slow"}),
        ({"cost": "occupancy", "products": [-1]}, {"what": "products", "at": 0, "count": -1}),
    ],
)
def test_faulty_wishes_are_refused(options, fields):
    with raises(GraphError, **fields):
        compute_costs(["Add"], [1], [1], **options)


@pytest.mark.parametrize(
    ("flops", "moved", "sentence"),
    [
        ([1, -2], [0, 0], r"flops\[1\] is -2; give 0 or more"),
        ([1, 2], [-1, 0], r"bytes_moved\[0\] is -1; give 0 or more"),
        ([1, 2, 3], [0, 0], "flops has 3 entries, expected 2"),
        ([1.5, 2], [0, 0], r"flops\[0\] is 1.5; give whole numbers"),
    ],
)
def test_faulty_counts_are_told_with_their_place(flops, moved, sentence):
    with pytest.raises(GraphError, match=sentence):
        compute_costs(["Add", "Add"], flops, moved, cost="roofline")


# ---------------------------------------------------------------- occupancy


def both_costs(flops, moved, products, device):
    """By the roofline, and with occupancy."""
    return (
        compute_costs([""] * len(flops), flops, moved, cost=cost, device=device, products=products)[0].tolist()
        for cost in ("roofline", "occupancy")
    )


@pytest.mark.parametrize(
    ("flops", "moved", "elements", "roofline", "occupied"),
    [
        # a launch of 1,000 ns each; 1 FLOP and 1 byte in a ns; a wave is 3 tiles of 2 x 2
        (1200, 0, 12, 2200, 2200),  # one wave
        (1200, 0, 24, 2200, 2200),  # two
        (1200, 0, 4, 2200, 4600),  # one tile: a third of the device works
        (1200, 0, 1, 2200, 15400),  # a part of a tile takes as long as a tile
        (1300, 0, 13, 2300, 3400),  # two waves for one element more
        (400, 1000, 4, 2000, 2200),
        (400, 2000, 4, 3000, 3000),  # bound by memory
        (1200, 0, 0, 2200, 2200),  # no product
        (0, 0, 4, 0, 0),
        (0, 5, 4, 1005, 1005),
    ],
)
def test_products_compute_whole_waves_by_hand(flops, moved, elements, roofline, occupied):
    assert [*both_costs([flops], [moved], [elements], SMALL)] == [[roofline], [occupied]]


devices_with_tiles = st.builds(
    lambda device, multiprocessors, tile: replace(device, multiprocessors=multiprocessors, tile=tile),
    st.sampled_from([*DEVICES.values()]),
    st.integers(1, 200),
    st.integers(1, 300),
)


@given(counts, counts, st.integers(0, 2**40), devices_with_tiles)
def test_occupancy_never_makes_an_operation_faster(flops, moved, elements, device):
    [roofline], [occupied] = both_costs([flops], [moved], [elements], device)
    assert roofline <= occupied
    assert occupied == roofline or elements % device.wave


@given(counts, counts, st.integers(1, 1000), devices_with_tiles)
def test_whole_waves_take_the_time_of_the_roofline(flops, moved, waves, device):
    roofline, occupied = both_costs([flops], [moved], [waves * device.wave], device)
    assert roofline == occupied


@given(
    st.lists(st.integers(1, 4096), min_size=2, max_size=6),
    *[st.integers(1, 2**20)] * 3,
    devices_with_tiles,
)
def test_a_larger_batch_never_takes_less_time(batches, flops, moved, elements, device):
    """Per sample a product has the same FLOPs, bytes and elements."""
    rows = [[each * batch for batch in sorted(batches)] for each in (flops, moved, elements)]
    _, occupied = both_costs(*rows, device)
    assert occupied == sorted(occupied)


@given(st.integers(1, 2**30), st.integers(1, 2**30), devices_with_tiles)
def test_a_larger_tile_never_takes_less_time_for_one_tile(flops, elements, device):
    [_, occupied], [_, larger] = (
        [*both_costs([flops], [0], [min(elements, device.tile**2)], each)]
        for each in (device, replace(device, tile=2 * device.tile))
    )
    assert occupied <= larger


@pytest.mark.parametrize(("products", "word"), [(None, "needs products"), ([1, 2], "products has 2 entries")])
def test_occupancy_needs_the_elements_of_each_product(products, word):
    with pytest.raises(GraphError, match=word):
        compute_costs(["Add"], [1], [1], cost="occupancy", products=products)


@pytest.mark.parametrize("key", ["multiprocessors", "tile"])
@pytest.mark.parametrize("number", [0, -1, 1.5, "80", True, 2**20])
def test_impossible_numbers_of_tiles_are_told(key, number):
    with raises(GraphError, what=key, name="small", entry=number):
        replace(SMALL, **{key: number})


def test_a_file_without_multiprocessors_is_told_where_a_model_is_built(tmp_path):
    SLOW.save(tmp_path / "slow.json")
    with raises(GraphError, name="slow"):
        build("feed_forward", cost="occupancy", device=str(tmp_path / "slow.json"))


@pytest.mark.parametrize("name", ["resnet18", "transformer_base", "nmt"])
def test_waves_of_one_element_are_a_roofline(name):
    """Gradients too: two products of the FLOPs of a product are twice its cost."""
    options = {"nmt": {"steps": 3}, "resnet18": {"image": 32}}.get(name, {})
    one = replace(get_device("T4"), multiprocessors=1, tile=1)
    roofline, occupied = (build(name, cost=cost, device=one, **options).graph for cost in ("roofline", "occupancy"))
    assert roofline.compute.tolist() == occupied.compute.tolist()
    steps = [differentiate(graph, parameter_gradients=True).compute.tolist() for graph in (roofline, occupied)]
    assert steps[0] == steps[1]


def test_no_node_of_a_network_gets_faster_with_the_batch():
    steps = [
        differentiate(build("resnet18", image=32, batch=batch, cost="occupancy", device="T4").graph).compute
        for batch in (1, 2, 3, 5, 8, 13)
    ]
    assert (np.diff(steps, axis=0) >= 0).all()


def test_gradients_of_values_compute_their_own_tiles_and_those_of_weights_none():
    """A layer of 4 x 6 = 24 outputs, two waves of 12 elements; the gradient of its 4 x 2 = 8 inputs is one wave."""
    net = Builder("small", Settings(cost="occupancy", device=SMALL))
    hidden = net.run("ReLU", [net.input("x", (4, 2))], (4, 2), name="hidden")
    weight = net.parameter("weight", (6, 2))
    net.run("Linear", [hidden, weight], (4, 6), name="layer", macs=1200, bytes_moved=0)
    backward = net.network().graph.backward
    # the product takes 1,000 + 2,400 ns, the gradient of its input 1,000 + 2,400 * 12 / 8, that of the weight 3,400
    assert net.network().graph.compute.tolist()[1] == 3400
    assert backward.grad_compute.tolist() == [-1, 4600 + 3400]


# ---------------------------------------------------------------- calibration


def test_times_become_rates_by_hand():
    timings = Timings(
        products={"float32": {10: [4e-6, 2e-6], 20: [1e-5, 9e-6]}, "float16": {10: [1e-6]}},
        streams=[(1000, [2e-6, 1e-6]), (1000, [5e-7])],
        launches=[3e-6, 1e-6, 8e-6],
    )
    device = timings.device("mine", 2**30, "by hand")
    # the best of 2 * 10^3 / 2 us and 2 * 20^3 / 9 us
    assert device.flops == {"float32": pytest.approx(16000 / 9e-6), "float16": pytest.approx(2000 / 1e-6)}
    assert device.bandwidth == pytest.approx(1000 / 5e-7)
    assert device.launch == 3e-6
    assert (device.name, device.memory, device.source) == ("mine", 2**30, "by hand")


def test_a_clock_that_stands_still_is_no_division_by_zero():
    device = Timings({"float32": {10: [0.0]}}, [(8, [0.0])], [0.0]).device("d", 1, "")
    assert (device.rate("float32"), device.bandwidth, device.launch) == (pytest.approx(2e12), pytest.approx(8e9), 0.0)


class Machine:
    """An array library on a machine of known rates, and its clock."""

    def __init__(self, flops, bandwidth, launch):
        self.flops, self.bandwidth, self.launch = flops, bandwidth, launch
        self.now, self.waiting, self.orders = 0.0, 0.0, []

    def ones(self, shape, dtype):
        return SimpleNamespace(shape=shape, nbytes=tensor_bytes(shape if isinstance(shape, tuple) else (shape,), dtype))

    def empty_like(self, array):
        return array

    def dot(self, left, right, out):
        self.orders.append(left.shape[0])
        self.waiting += 2 * left.shape[0] ** 3 / self.flops

    def copyto(self, target, source):
        self.waiting += 2 * (source.nbytes + target.nbytes) / self.bandwidth

    def multiply(self, source, factor, out):
        self.waiting += (source.nbytes + out.nbytes) / self.bandwidth

    def negative(self, source, out):
        self.waiting += self.launch

    def finish(self):
        self.now, self.waiting = self.now + self.waiting, 0.0


@pytest.mark.parametrize(("flops", "largest"), [(5e8, 256), (1e9, 512), (1e11, 2048), (1e15, 8192)])
def test_a_machine_of_known_rates_is_measured_as_that(flops, largest, monkeypatch):
    machine = Machine(flops=flops, bandwidth=3e10, launch=2e-6)
    monkeypatch.setattr(calibration, "perf_counter", lambda: machine.now)
    library = Library(machine, machine.finish, "machine", 2**30, "")
    device = measure(library, ["float32"], repeats=5, size=8192).device("machine", 1, "")
    assert device.rate("float32") == pytest.approx(flops, rel=1e-6)
    assert device.bandwidth == pytest.approx(3e10, rel=1e-6)
    assert device.launch == pytest.approx(2e-6, rel=1e-6)
    # 6 products of the next order, 8 times as long, would take over 2 s; 1e15: it would be over 8192
    assert max(machine.orders) == largest


@pytest.mark.parametrize("size", [1, 100, 256, 500, 600])
def test_no_matrix_is_larger_than_asked(size, monkeypatch):
    machine = Machine(flops=1e15, bandwidth=3e10, launch=2e-6)
    monkeypatch.setattr(calibration, "perf_counter", lambda: machine.now)
    measure(Library(machine, machine.finish, "", 1, ""), ["float32"], repeats=1, size=size)
    assert max(machine.orders) == {500: 256, 600: 512}.get(size, size)


@pytest.fixture
def small(monkeypatch):
    """Arrays that fit into a cache, so that tests are quick."""
    monkeypatch.setattr("remat_algos.cost.tuning.STREAM_BYTES", 2**12)
    monkeypatch.setattr("remat_algos.cost.tuning.COPY_SIZES", (2**10, 2**12))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_this_machine_can_be_measured(dtype, small):
    device = calibrate(dtype=dtype, repeats=1, size=8)
    assert set(device.flops) == {"float32", dtype}
    assert device.memory == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert device.source == f"measured by remat calibrate with NumPy {np.__version__}"


def fake_cupy(devices):
    properties = {"name": b"Some GPU", "totalGlobalMem": 2**34, "multiProcessorCount": 46}
    runtime = SimpleNamespace(
        getDeviceCount=lambda: devices,
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: properties,
        deviceSynchronize=lambda: None,
    )
    functions = ("zeros", "empty_like", "dot", "copyto", "multiply", "negative")
    cuda = SimpleNamespace(runtime=runtime, alloc_pinned_memory=cuda_stub.PinnedMemory)
    return SimpleNamespace(
        cuda=cuda,
        __version__="13.0",
        ones=lambda shape, dtype: np.ones(shape, dtype).view(cuda_stub.Array),
        **{name: getattr(np, name) for name in functions},
    )


def test_a_gpu_is_measured_through_cupy(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(devices=1))
    device = calibrate(backend="cupy", repeats=1, size=8)
    assert (device.name, device.memory, device.multiprocessors) == ("Some GPU", 2**34, 46)
    assert device.source == device.link.source == "measured by remat calibrate with CuPy 13.0"


@pytest.mark.gpu
def test_the_gpu_here_can_be_measured():
    reason = gpu_missing()
    if reason is not None:
        pytest.skip(reason)
    device = calibrate(backend="cupy", dtype="float16")
    assert device.rate("float16") > device.rate("float32") / 2
    assert device.memory >= backend("cupy").xp.cuda.runtime.memGetInfo()[1]
    assert min(device.link.out, device.link.into) > 1e9  # PCIe 3 and later: 5 GB/s and more
    assert 0 <= device.link.latency < 1e-3


@pytest.mark.parametrize(
    ("cupy", "sentence"),
    [
        (None, "backend cupy cannot run here: CuPy is not installed; run python -m pip install -e '."),
        (fake_cupy(devices=0), "backend cupy cannot run here: CuPy finds no CUDA device; run on a machine with an"),
    ],
    ids=["no CuPy", "no GPU"],
)
def test_without_a_gpu_it_says_what_to_do(cupy, sentence, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(BackendError) as error:
        calibrate(backend="cupy")
    assert said(error).startswith(sentence)


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_a_gpu_without_libraries_says_what_to_install(error, small, monkeypatch):
    """The wheels of CuPy hold neither the compiler of kernels nor the products of matrices."""

    def dot(*_, out):
        raise error('Failure finding "libcublas.so.13"\n  somewhere')

    cupy = fake_cupy(devices=1)
    cupy.dot = dot
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(BackendError) as raised:
        calibrate(backend="cupy", repeats=1, size=8)
    assert said(raised).startswith(
        'CuPy 13.0 cannot be measured here (Failure finding "libcublas.so.13"); install the missing'
    )


@pytest.mark.parametrize(
    ("options", "error", "fields"),
    [
        ({"backend": "cupi"}, GraphError, {"what": "backend", "name": "cupi"}),
        ({"dtype": "float23"}, GraphError, {"what": "dtype", "name": "float23"}),
        ({"dtype": "bfloat16"}, GraphError, {"dtype": "bfloat16"}),
        ({"repeats": 0}, ArgumentError, {"repeats": 0}),
        ({"size": 0}, ArgumentError, {"size": 0}),
    ],
)
def test_what_cannot_be_measured_is_refused(options, error, fields):
    with raises(error, **fields):
        calibrate(**options)


# ---------------------------------------------------------------- the page


def rows(heading):
    """Cells of the first table under a heading, without its head."""
    text = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_shows_every_device_as_it_is():
    types = ("float64", "float32", "float16", "bfloat16", "float8_e4m3", "int8")
    wanted = [
        [
            device.name,
            *(f"{device.flops[dtype] / 1e12:g}" if dtype in device.flops else "" for dtype in types),
            f"{device.bandwidth / 1e9:g}",
            f"{device.memory // 2**30}",
            f"{device.multiprocessors}",
            device.source,
        ]
        for device in DEVICES.values()
    ]
    assert rows("Devices") == wanted
    assert all(d.flops.get("float8_e4m3") == d.flops.get("float8_e5m2") for d in DEVICES.values())
    assert f"{tuning.LAUNCH * 1e6:g} &micro;s" in PAGE
    assert f"the default is `{DEFAULT_DEVICE}`" in PAGE


def test_the_page_describes_every_cost_and_type():
    described = [row[0].strip("`") for row in rows("Devices")]
    assert len(described) == len(DEVICES)
    assert re.findall(r"^\| `(\w+)` \|", PAGE.partition("\n## ")[0], re.MULTILINE) == list(COSTS)
    assert ", ".join(dtype for dtype in DTYPES) in PAGE


def test_the_file_on_the_page_is_read_and_its_keys_are_described(tmp_path):
    text = re.search(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]
    (tmp_path / "card.json").write_text(text, "utf-8")
    device = get_device(tmp_path / "card.json")
    rates, link = {"float32": 15e12, "float16": 60e12}, Link(26e9, 24e9, 8e-6, 2**36)
    assert device == Device("my card", rates, 5e11, 4e-6, 2**34, "its data sheet", link, 46, 128)
    keys = {key for row in rows("A device of your own") for key in re.findall(r"`(\w+)`", row[0])}
    assert keys == set(json.loads(text)) == set(device.record())


# ---------------------------------------------------------------- operators of captured models


def test_operators_cost_what_a_function_gives_in_whole_nanoseconds():
    costs, unit = operator_costs(lambda flops, moved: flops / 4 + moved, [10, 11, 0], [1, 2, 0], [0, 1, 0])
    assert (costs.tolist(), unit) == ([4, 5, 0], "ns")


def test_operators_are_counted_in_flops():
    costs, unit = operator_costs("flops", [10, 0], [1, 2], [5, 0])
    assert (costs.tolist(), unit) == ([10, 0], "FLOPs")


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "3", None])
def test_a_cost_function_that_gives_no_cost_is_refused(amount):
    with pytest.raises(GraphError, match=r"cost function returned .*; give ns, a number of 0 or more"):
        operator_costs(lambda flops, moved: amount, [1], [1], [0])


@pytest.mark.parametrize(
    ("cost", "error", "message"),
    [
        ("rofline", GraphError, "unknown cost 'rofline'; did you mean roofline?"),
        (3, TypeError, 'cost has type int; give "roofline", "occupancy", "flops" or a function of FLOPs and bytes'),
    ],
)
def test_an_unknown_cost_of_operators_is_refused(cost, error, message):
    with pytest.raises(error, match=re.escape(message)):
        operator_costs(cost, [1], [1], [0])


def test_types_of_operators_are_checked():
    by_type = [
        operator_costs("roofline", [10**12], [1], [1], device="h100-sxm", dtypes=dtypes)[0].tolist()
        for dtypes in (None, [""], ["float32"], ["bfloat16"])
    ]
    assert by_type[0] == by_type[1] == by_type[2] > by_type[3]
    with raises(GraphError, name="bfloat61"):
        operator_costs("roofline", [1], [1], [0], device="h100-sxm", dtypes=["bfloat61"])


def test_operators_compute_whole_waves_of_an_a100():
    """A product of 64 x 64 elements is one tile of 108."""
    flops = [10**9, 10**9, 0]
    costs, unit = operator_costs("occupancy", flops, [0, 0, 1500], [64 * 64, 108 * 64 * 64, 0])
    assert (costs.tolist(), unit) == ([5000 + round(108 * 1e9 / 19_500), 5000 + round(1e9 / 19_500), 5001], "ns")
