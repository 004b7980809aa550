"""Links between a device and its host: what may be given, how long copies take, what is measured."""

import copy
import json
import pickle
import re
import sys
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.cost import calibration, tuning
from remat_algos.cost.calibration import Library, Timings, calibrate, measure
from remat_algos.cost.devices import Device, get_device, get_link
from remat_algos.cost.links import LINKS, Link
from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.zoo import build
from tests import cuda_stub
from tests.raising import raises
from tests.test_cost import Machine, fake_cupy

PAGE = (Path(__file__).parent.parent / "docs" / "costs.md").read_text(encoding="utf-8")
rates = st.floats(1e6, 1e13)
latencies = st.floats(0, 1e-2)
bytes_ = st.integers(0, 2**44)


def timed(memory, unit="ns", scale=1):
    """A graph of nodes without edges, whose costs are times."""
    labels = Labels(compute_unit=unit, compute_scale=scale)
    return ComputationGraph.from_edges([], memory=memory, n_nodes=len(memory), labels=labels)


# ---------------------------------------------------------------- what may be given


@pytest.mark.parametrize(
    ("text", "out", "into"),
    [
        ("pcie4", 25e9, 25e9),
        ("PCIe 5", 50e9, 50e9),
        ("pcie-5", 50e9, 50e9),
        ("NVLink_C2C", 450e9, 450e9),
        ("50GB/s", 50e9, 50e9),
        (" 1.5 GiB / s ", 1.5 * 2**30, 1.5 * 2**30),
        ("1000/s", 1000, 1000),
        ("1e9B/s", 1e9, 1e9),
        ("50GB/s,25GB/s", 50e9, 25e9),
        ("50GB/s, 512 MiB/s", 50e9, 2**29),
    ],
)
def test_a_link_is_given_by_its_name_or_its_rates(text, out, into):
    link = Link.of(text)
    assert (link.out, link.into, link.latency, link.host) == (out, into, tuning.LATENCY, None)
    assert get_link(text) == Link.of(link) == Link.of(link.record()) == link
    assert LINKS.get(link.name, link) == link


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        *((text, {"link": text}) for text in ("fast", "pcie6", "", "50GB", "50GBps", 50e9, None)),
        *((text, {"whole": text}) for text in ("-50GB/s", "nan/s", "inf/s", "50GB/h", "50GB/s,", "50GB/s,fast")),
        *((text, {"whole": text}) for text in ("400Gb/s", "400gb/s", "99999999999GB/s")),
        ("1/s,2/s,3/s", {"n_rates": 3}),
        ("0GB/s", {"what": "out", "name": "0GB/s", "entry": 0}),
        ("1/s,0/s", {"what": "into", "entry": 0}),
    ],
)
def test_what_is_no_link_is_refused(text, fields):
    for make in (Link.of, get_link):
        with raises(GraphError, **fields):
            make(text)


@pytest.mark.parametrize(
    ("key", "numbers"),
    [
        ("out", [0, -1, "fast"]),
        ("into", [float("inf"), 10**400, True, None]),
        ("latency", [-1e-6]),
        ("host", [0, -1, 1.5, 2**63]),
    ],
)
def test_impossible_numbers_are_refused(key, numbers):
    for number in numbers:
        with raises(GraphError, what=key, name="", entry=number):
            Link(**{"out": 1e9, "into": 1e9, key: number})
    with raises(GraphError, what=key, name="mine"):
        Link(**{"out": 1e9, "into": 1e9, "name": "mine", key: float("nan")})


@pytest.mark.parametrize(("key", "entry"), [("name", 4), ("source", None)])
def test_texts_of_a_link_are_texts(key, entry):
    with raises(GraphError, key=key, entry=entry):
        Link(1e9, 1e9, **{key: entry})


@pytest.mark.parametrize(
    ("host", "found"),
    [(None, 7), ("64GiB", 64 * 2**30), ("1.5 kB", 1500), (1000, 1000), (np.int64(5), 5)],
)
def test_a_limit_of_host_memory_replaces_the_links_own(host, found):
    link = get_link(Link(1e9, 1e9, host=7), host)
    assert (link.host, type(link.host)) == (found, int)


@pytest.mark.parametrize("host", ["0", 0, -5, "-5", "lots"])
def test_a_faulty_limit_of_host_memory_is_refused(host):
    with pytest.raises(GraphError, match='"host" of the link'):
        get_link("pcie5", host)


def test_a_link_is_copied_pickled_and_compared_by_its_fields():
    link = Link(np.float32(1e9), 10**9, latency=0, host=np.int64(5))
    assert (type(link.out), type(link.into), type(link.latency)) == (float, float, float)
    assert copy.deepcopy(link) == pickle.loads(pickle.dumps(link)) == link
    assert len({link, copy.copy(link), Link.of("pcie5"), Link.of("PCIE5")}) == 2


# ---------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("unit", "scale", "out", "into"),
    [
        ("ns", 1, [10_001, 10_020, 2_010_000, 0], [10_001, 10_010, 1_010_000, 0]),
        ("us", 1, [11, 11, 2010, 0], [11, 11, 1010, 0]),
        ("us", 10, [101, 101, 20_100, 0], [101, 101, 10_100, 0]),
        ("ms", 1, [1, 1, 3, 0], [1, 1, 2, 0]),
        ("s", 1000, [1, 1, 3, 0], [1, 1, 2, 0]),
    ],
)
def test_times_by_hand(unit, scale, out, into):
    graph = timed([1, 1000, 10**8, 0], unit, scale)
    out_time, in_time = Link(out=50e9, into=100e9, latency=1e-5).times(graph)
    assert (out_time.tolist(), in_time.tolist()) == (out, into)
    assert out_time.dtype == in_time.dtype == np.int64
    assert not out_time.flags.writeable
    assert not in_time.flags.writeable


@given(rates, rates, latencies, st.lists(bytes_, min_size=1, max_size=5), st.sampled_from(["ns", "us", "ms", "s"]))
def test_times_are_exact_and_rounded_up(out, into, latency, memory, unit):
    per_second = {"ns": 10**9, "us": 10**6, "ms": 1000, "s": 1}[unit]

    def exact(size, rate):
        seconds = Fraction(repr(latency)) + size / Fraction(repr(rate))
        return ceil(per_second * seconds) if size else 0

    link, graph = Link(out, into, latency), timed(memory, unit)
    expected = [[exact(size, rate) for size in memory] for rate in (out, into)]
    if max(map(sum, expected)) < 2**52:
        assert [times.tolist() for times in link.times(graph)] == expected


@given(bytes_, bytes_, st.floats(1e9, 1e13), st.floats(1e9, 1e13), latencies, latencies)
def test_more_bytes_a_lower_rate_and_a_longer_latency_never_take_less_time(a, b, rate, other, latency, longer):
    graph = timed(sorted((a, b)))
    fast = Link(max(rate, other), max(rate, other), min(latency, longer)).times(graph)[0]
    slow = Link(min(rate, other), max(rate, other), max(latency, longer)).times(graph)
    assert fast[0] <= fast[1]
    assert (fast <= slow[0]).all()
    assert (slow[1] <= slow[0]).all()


@given(rates, latencies, st.lists(bytes_, min_size=1, max_size=5))
def test_a_copy_of_two_takes_no_longer_than_two_copies(rate, latency, memory):
    link = Link(rate, rate, latency)
    parts, whole = link.times(timed(memory, "us"))[0], link.times(timed([sum(memory)], "us"))[0]
    assert whole[0] <= parts.sum()


def test_ticks_that_cannot_be_exact_are_a_billion_in_the_shortest_cost():
    graph = ComputationGraph.from_edges([(0, 1)], memory=[8, 8], compute=[2, 2], labels=Labels(compute_unit="ns"))
    assert Link(out=1_000_000_001, into=1_000_000_007, latency=1e-8).ticks(graph) == 10**9


def test_values_of_a_node_have_times_of_their_own():
    network = build("feed_forward", cost="roofline", device="a100-80gb")
    graph = getattr(network, "graph", network)
    out_time, in_time = Link.of("pcie5").times(graph)
    assert out_time.shape == in_time.shape == graph.memory.shape
    assert (out_time[graph.memory > 0] > 10_000).all()


@pytest.mark.parametrize("unit", ["FLOPs", "", "nanoseconds"])
def test_costs_that_are_no_times_are_refused(unit):
    with raises(GraphError, unit=unit):
        Link.of("pcie5").times(timed([1], unit))


@pytest.mark.parametrize(("rate", "memory"), [(1e-300, [1]), (1, [2**52]), (1e3, [10**10] * 1000)])
def test_copies_that_take_for_ever_are_told(rate, memory):
    with raises(GraphError, rate=rate):
        Link(1e12, rate).times(timed(memory))


# ---------------------------------------------------------------- devices

CARD = Device("card", {"float32": 1e12}, 1e11, 1e-6, 2**30)


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("pcie5", LINKS["pcie5"]),
        ("5GB/s,4GB/s", Link(5e9, 4e9, name="5GB/s,4GB/s")),
        ({"out": 5e9, "into": 4e9}, Link(5e9, 4e9)),
        ({"out": "5GB/s", "into": 4e9, "latency": 0, "host": "1GiB"}, Link(5e9, 4e9, 0, 2**30)),
        (
            {"out": 5e9, "into": 4e9, "host": None, "name": "a", "source": "b", "more": 1},
            Link(5e9, 4e9, name="a", source="b"),
        ),
        (None, None),
    ],
)
def test_a_file_of_a_device_may_state_a_link(link, found, tmp_path):
    file = tmp_path / "card.json"
    file.write_text(json.dumps(CARD.record() | {"link": link}), "utf-8")
    device = get_device(file)
    assert device.link == found
    device.save(file)
    assert get_device(file) == device
    if found is not None:
        assert get_link(file) == get_link(str(file)) == get_link(device) == found


@pytest.mark.parametrize(
    ("link", "fields"),
    [
        ("fast", {"link": "fast"}),
        (5, {"link": 5}),
        ({}, {"what": "out", "entry": None}),
        ({"out": 5e9}, {"what": "into", "entry": None}),
        ({"out": 5e9, "into": "4GB"}, {"whole": "4GB"}),
        ({"out": 5e9, "into": 0}, {"what": "into", "entry": 0}),
        ({"out": 5e9, "into": 4e9, "host": 0}, {"what": "host", "entry": 0}),
        ({"out": 5e9, "into": 4e9, "host": "0"}, {"text": "0"}),
        ({"out": 5e9, "into": 4e9, "latency": "1"}, {"what": "latency", "entry": "1"}),
    ],
)
def test_a_faulty_link_of_a_file_is_refused_with_the_file(link, fields, tmp_path):
    file = tmp_path / "card.json"
    file.write_text(json.dumps(CARD.record() | {"link": link}), "utf-8")
    with raises(GraphError, file=file) as error:
        get_link(file)
    inner = error.value.fields.get("error", error.value).fields
    assert {name: inner[name] for name in fields} == fields


def test_a_device_without_a_link_is_refused(tmp_path):
    CARD.save(tmp_path / "card.json")
    assert "link" not in json.loads((tmp_path / "card.json").read_text("utf-8"))
    for link in (CARD, tmp_path / "card.json"):
        with raises(GraphError, name="card"):
            get_link(link)
    with pytest.raises(GraphError, match=r"no such file: there\.json"):
        get_link("there.json")
    with raises(GraphError, what="link", entry="pcie5"):
        Device("card", {"float32": 1e12}, 1e11, 1e-6, 2**30, link="pcie5")


# ---------------------------------------------------------------- calibration


class LinkedMachine(Machine):
    """A machine with a link of known rates; it is its own array and its own host memory."""

    ptr = 0

    def __init__(self, out, into, latency):
        super().__init__(1e12, 1e12, 1e-6)
        self.link = Link(out, into, latency)

    def ones(self, shape, dtype):
        array = super().ones(shape, dtype)
        array.data = self
        return array

    def copy_to_host_async(self, host, size):
        self.waiting += self.link.latency + size / self.link.out

    def copy_from_host_async(self, host, size):
        self.waiting += self.link.latency + size / self.link.into


@pytest.mark.parametrize(("out", "into", "latency"), [(25e9, 25e9, 1e-5), (300e9, 375e9, 2e-6), (6e9, 3e9, 0)])
def test_a_link_of_known_rates_is_measured_as_that(out, into, latency, monkeypatch):
    machine = LinkedMachine(out, into, latency)
    monkeypatch.setattr(calibration, "perf_counter", lambda: machine.now)
    library = Library(machine, machine.finish, "", 1, "", pinned=lambda size: machine)
    link = measure(library, ["float32"], repeats=3, size=8).device("machine", 1, "a test").link
    assert (link.out, link.into) == (pytest.approx(out, rel=1e-6), pytest.approx(into, rel=1e-6))
    assert (link.latency, link.source) == (pytest.approx(latency, abs=1e-11), "a test")


@pytest.mark.parametrize(
    ("copies", "out", "into", "latency"),
    [
        # 1 us, and 1 or 2 ns a byte; the fastest of each size counts
        (({1000: [9e-6, 2e-6], 2000: [3e-6]}, {1000: [3e-6], 2000: [5e-6]}), 1e9, 5e8, 1e-6),
        # a latency below 0 would fit these: it is 0, and the rates fit as well as they can
        (({1000: [1e-6], 2000: [3e-6]}, {1000: [1e-6], 2000: [3e-6]}), 1e9 * 13 / 15, 1e9 * 13 / 15, 0),
        # times that do not grow, and a clock that stands still: the largest copy in a nanosecond
        (({1000: [1e-6], 2000: [1e-6]}, {1000: [1e-6], 2000: [1e-6]}), 2e12, 2e12, 1e-6),
        (({1000: [0.0], 2000: [0.0]}, {1000: [0.0], 2000: [0.0]}), 2e12, 2e12, 1e-9),
    ],
)
def test_copies_become_a_link_by_hand(copies, out, into, latency):
    link = Timings({"float32": {10: [1e-6]}}, [(8, [1e-9])], [1e-6], copies).device("d", 1, "").link
    assert (link.out, link.into) == (pytest.approx(out, rel=1e-3), pytest.approx(into, rel=1e-3))  # four digits
    assert link.latency == pytest.approx(latency, abs=1e-12)


@pytest.fixture
def small(monkeypatch):
    """Arrays that fit into a cache, so that tests are quick."""
    monkeypatch.setattr("remat_algos.cost.tuning.STREAM_BYTES", 2**12)
    monkeypatch.setattr("remat_algos.cost.tuning.COPY_SIZES", (2**10, 2**14))


def test_a_gpu_has_its_link_measured(small, monkeypatch):
    sizes = []
    monkeypatch.setattr(cuda_stub.ctypes, "memmove", lambda target, source, size: sizes.append(size))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(devices=1))
    link = calibrate(backend="cupy", repeats=2, size=8).link
    assert link.out > 0
    assert link.into > 0
    # 16 in a row, twice and once before; each way
    assert sizes == [size for _ in range(2) for size in (2**10, 2**14) for _ in range(3 * 16)]


def test_where_no_link_can_be_measured_there_is_none(small, monkeypatch):
    assert calibrate(repeats=1, size=8).link is None
    cupy = fake_cupy(devices=1)

    def refuse(size):
        raise RuntimeError("cudaErrorMemoryAllocation: out of memory")

    cupy.cuda.alloc_pinned_memory = refuse
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    device = calibrate(backend="cupy", repeats=1, size=8)
    assert (device.name, device.link) == ("Some GPU", None)


# ---------------------------------------------------------------- the page


def test_the_page_shows_every_link_as_it_is():
    section = PAGE.partition("\n## Links\n")[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    described = [[link.name, f"{link.out / 1e9:g}", link.source] for link in LINKS.values()]
    assert [row for row in table if row[0] in LINKS] == described
    assert all(
        link.out == link.into and link.latency == tuning.LATENCY and link.host is None for link in LINKS.values()
    )
    keys = {key for row in table for key in re.findall(r"^`(\w+)`|, `(\w+)`", row[0]) for key in key if key}
    assert keys == set(Link(1, 1).record())
