"""Values that a plan stores on the host: equal to eager, in the predicted bytes, and never read or freed too early."""

import copy
import random
import weakref
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as f
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import remat_algos as ra
from remat_algos.cost.devices import Device
from remat_algos.cost.links import Link
from remat_algos.errors import GraphError, OutOfMemoryError
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import calls, planning
from remat_algos.interop.torch.costs import price
from remat_algos.interop.torch.lowering import split
from remat_algos.interop.torch.storages import _Storages
from remat_algos.plan import plan as plans
from remat_algos.schedule.schedule import with_copies
from remat_algos.wording import format_bytes
from tests.interop.test_torch import check, peaks_of, two_steps
from tests.interop.test_torch_lowering import Drawn, drawn_inputs, drawn_order, with_drawn_copies
from tests.interop.torch_models import assert_equal, make

FAST = Link(out=1e15, into=1e15, latency=0)  # nothing waits, so that small models have plans with copies
DEVICE = Device("device", {"float32": 1e13}, bandwidth=1.5e12, launch=4e-6, memory=2**34)
COUNT = 8  # bytes of the count of batches, which its buffer has taken over
LOSS = 4  # bytes of the gradient of the loss, which `backward` holds


class Body(nn.Module):
    """Views of views, a tuple, dropout, a buffer that is written, and what both of two gradients read."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.last, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.BatchNorm1d(width)

    def forward(self, x):
        for _ in range(2):
            left, right = torch.tanh(self.first(x)).t().chunk(2)
            x = f.dropout(torch.cat([left.t() * right.t(), left.sin().t()], 1), 0.3)
            x = self.norm(x).sigmoid()
        return self.last(x).square().mean()


X = torch.linspace(-1, 1, 64 * 32).view(64, 32)


def offloaded(report):
    """The values that a plan stores."""
    return report.plan.simulation.stores


# ---------------------------------------------------------------- what a plan with copies gives


@pytest.mark.parametrize("rng", ["replay", "once"])
def test_models_are_bit_equal_and_reach_what_is_predicted(rng):
    model = Body()
    for report in check(model, (X,), "50%", link=FAST, device=DEVICE, rng=rng):
        graph = report.plan.graph
        assert report.plan.peak_memory <= report.plan.limit
        copied_once = graph.once[graph.producer[offloaded(report)]]
        assert copied_once.size
        assert rng == "replay" or copied_once.any()  # what dropout drew comes back, and is not drawn again
    call = remat.rematerialize(model, (X,), "50%", link=FAST, device=DEVICE, rng=rng, solver="greedy_remat")
    peaks, predicted = peaks_of(call, model, (X,)), call.plan.peak_memory
    # The peak may come after the forward part, where PyTorch has written new buffers back and released the results.
    written = sum(buffer.untyped_storage().nbytes() for buffer in model.buffers())
    assert predicted - written - 64 <= peaks.storages <= predicted + LOSS


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["70%", "50%"])
@pytest.mark.parametrize("name", ["small unet", "small gpt", "unet", "gpt", "lstm"])
def test_networks_are_bit_equal_and_within_their_prediction(name, budget):
    model, inputs = make(name)
    assert all(offloaded(report).size for report in check(model, inputs, budget, link="200GB/s", device=DEVICE))
    call = remat.rematerialize(model, inputs, budget, link="200GB/s", device=DEVICE, solver="greedy_remat")
    mutated = sum(buffer.untyped_storage().nbytes() for buffer in model.buffers())
    storages = peaks_of(call, model, inputs).storages
    assert call.plan.peak_memory - 2 * mutated - 1024 <= storages <= call.plan.peak_memory + LOSS


def everything_leaves(graph):
    """One pass in which each value that the backward part reads is on the host before, and loaded for each read."""
    backward = (~graph.forward).argmax()
    readers = [(v, x) for v in range(backward + 1, graph.n_nodes) for x in graph.reads(v)]
    may = graph.forward[graph.producer] & ~graph.output & (graph.memory > 0)
    return with_copies(graph, ra.Schedule(range(graph.n_nodes)), [(v, x) for v, x in readers if may[x]])


@pytest.fixture
def all_leave(monkeypatch):
    """Plans in which everything leaves, of costs that are times."""

    def plan(request, graph, references, above):
        found = ra.solve(graph, "100%", effort="fast")
        return replace(found, simulation=ra.simulate(graph, everything_leaves(graph)), link=FAST, details={})

    def price_on_device(operators, cost, workspace, device):
        return price(operators, cost, workspace, DEVICE)

    monkeypatch.setattr(planning, "price", price_on_device)
    monkeypatch.setattr(planning.TrainingRequest, "plan", plan)


@pytest.fixture
def on_host(monkeypatch):
    """The bytes that copies take on the host, now and at most."""
    used, real = {"now": 0, "most": 0}, calls._host_memory

    def released(size):
        used["now"] -= size

    def host_memory(size, device):
        memory = real(size, device)
        used["now"] += size
        used["most"] = max(used.values())
        weakref.finalize(memory.untyped_storage(), released, size)
        return memory

    monkeypatch.setattr(calls, "_host_memory", host_memory)
    return used


@pytest.mark.usefixtures("all_leave")
def test_values_leave_the_device_between_the_two_parts_and_come_back_twice(on_host):
    model = Body()
    report = check(model, (X,))[0]
    simulation = report.plan.simulation
    assert len(simulation.schedule.loads) > len(offloaded(report)) > 9
    assert on_host["now"] == 0
    call = remat.rematerialize(model, (X,), "100%", check=False)
    with _Storages([*model.parameters(), *model.buffers(), X]) as device:
        loss = call(X)
        assert device.live == report.saved - COUNT
        assert on_host["now"] == simulation.host_trace[simulation.graph.labels.names.index("boundary")] > 0
        loss.backward()
    assert report.plan.peak_memory - 512 <= device.peak <= report.plan.peak_memory + LOSS
    assert on_host == {"now": 0, "most": simulation.host_peak}


@pytest.mark.filterwarnings("ignore:.*runs again before")
def test_a_model_may_run_twice_before_its_backward_part(request):
    model = Body()
    other = copy.deepcopy(model)
    keep = remat.rematerialize(other, (X,), "100%", check=False)
    request.getfixturevalue("all_leave")
    leave = remat.rematerialize(model, (X,), "100%", check=False)
    results = []
    for call in (keep, leave):
        torch.manual_seed(1)
        loss = call(X) + call(X * 2)
        loss.backward()
        results.append([loss, *(p.grad for p in call.parameters())])
    assert_equal(*results)


@pytest.mark.usefixtures("all_leave")
@pytest.mark.parametrize("at", [2, 12])
def test_a_step_that_is_interrupted_may_be_repeated(at, monkeypatch, on_host):
    model = Body()
    eager = copy.deepcopy(model)
    expected = two_steps(eager, eager, (X,))
    call = remat.rematerialize(model, (X,), "100%", check=False)
    begin, count = calls._start_copy, iter(range(10**6))

    def interrupted(*arguments):
        if next(count) == at:
            raise KeyboardInterrupt
        begin(*arguments)

    state = copy.deepcopy(model.state_dict())
    monkeypatch.setattr(calls, "_start_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(X).backward()
    assert on_host["now"] == 0
    model.load_state_dict(state)
    assert_equal(two_steps(call, model, (X,)), expected)


# ---------------------------------------------------------------- streams and events, without a GPU


class Stream:
    """A stream of a device that records, in place of working, which copies have ended before what follows in it."""

    def __init__(self, device=None):
        self.ended = set()

    def wait_stream(self, other):
        self.ended |= other.ended

    def wait_event(self, ended):
        self.ended |= ended

    def record_event(self):
        return frozenset(self.ended)


class Device(TorchDispatchMode):
    """A device on which copies are late: notes what reads or frees memory before its copy has ended."""

    Stream = Stream

    def __init__(self, monkeypatch):
        super().__init__()
        self.compute, self.count, self.faults = Stream(), 0, []
        self.copied = {}  # storage on the host: the last copy of it
        self.arriving = {}  # storage on the device: its copy
        self._begin, self._copying = calls._start_copy, False
        monkeypatch.setattr(calls, "HOST", ())
        monkeypatch.setattr(calls, "_streams", {})
        monkeypatch.setattr(calls, "_start_copy", self.begin)
        monkeypatch.setattr(calls, "_host_memory", lambda size, device: torch.zeros(size, dtype=torch.uint8))
        monkeypatch.setattr(torch, "get_device_module", lambda device: self)

    def current_stream(self, device):
        return self.compute

    def get_rng_state(self, device):
        return torch.get_rng_state()

    def set_rng_state(self, state, device):
        torch.set_rng_state(state)

    @contextmanager
    def stream(self, stream):
        assert self.copied.get(self.source, 0) in {0, *stream.ended}, "loaded before it was stored"
        yield
        self.count += 1
        stream.ended.add(self.count)

    def begin(self, way, device, source, into):
        self.source, self._copying = source.untyped_storage()._cdata, True
        self._begin(way, device, source, into)
        self._copying = False
        here = into if way else source
        (self.arriving if way else self.copied)[into.untyped_storage()._cdata] = self.count
        weakref.finalize(here.untyped_storage(), self.free, here.untyped_storage()._cdata, self.count)

    def free(self, storage, copy):
        self.arriving.pop(storage, None)
        if copy not in self.compute.ended:
            self.faults.append(f"memory of copy {copy} was free before it had ended")

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        given = [each for each in tree_leaves((args, kwargs or {})) if isinstance(each, torch.Tensor)]
        if not self._copying and not any(each.alias_info for each in operator._schema.returns):
            late = {self.arriving.get(each.untyped_storage()._cdata, 0) for each in given} - {0, *self.compute.ended}
            self.faults += [f"{operator} reads copy {each} before it has ended" for each in late]
        return operator(*args, **(kwargs or {}))


def halves(seed):
    """The forward and the backward part of a random schedule with copies, with what they are called with."""
    torch.manual_seed(seed)
    captured, rng = remat.capture(Drawn(seed), (torch.randn(8, 8),)), random.Random(seed)
    order = drawn_order(captured.graph, rng)
    simulation = ra.simulate(captured.graph, with_drawn_copies(captured, order, rng))
    forward, backward = (planning.box(module, ()) for module in split(captured, simulation))
    return forward, backward, *drawn_inputs(captured), captured.num_forward


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_read_or_freed_before_its_copy_has_ended(seed, monkeypatch):
    forward, backward, inputs, tangents, num_forward = halves(seed)
    with Device(monkeypatch) as device:
        saved = forward([*inputs])[num_forward:]
        backward([*saved, *tangents])
        del saved
        forward([*inputs])  # and no backward part
    assert device.count
    assert device.faults == []


@pytest.mark.parametrize("seed", range(3))
def test_after_an_error_no_memory_is_free_before_its_copy_has_ended(seed, monkeypatch):
    forward, backward, inputs, tangents, num_forward = halves(seed)
    with Device(monkeypatch) as device:
        saved = forward([*inputs])[num_forward:]
        monkeypatch.setattr(calls, "_wait", lambda device, copied: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            backward([*saved, *tangents])
        del saved
    assert device.faults == []


def test_these_faults_are_found(monkeypatch):
    x = torch.ones(8)
    with Device(monkeypatch) as device:
        y = x + 1
        (host,) = calls.store(y)
        (back,) = calls.load(y.device, host)
        back.exp()
        del y, back
    assert [fault.split(" copy ")[0] for fault in device.faults] == ["aten.exp.default reads", *2 * ["memory of"]]


# ---------------------------------------------------------------- what cannot be done


@pytest.mark.usefixtures("all_leave")
def test_a_hook_that_replaces_what_is_saved_is_refused():
    call = remat.rematerialize(Body(), (X,), "100%", check=False)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
        loss = call(X)
    with pytest.raises(GraphError, match="remove the hook, or plan without a link"):
        loss.backward()


@pytest.mark.usefixtures("all_leave")
def test_an_earlier_fault_is_not_taken_for_a_full_host(monkeypatch):
    def empty(size, dtype):
        raise RuntimeError("CUDA error: an illegal instruction was encountered")

    call = remat.rematerialize(Body(), (X,), "100%", check=False)
    monkeypatch.setattr(calls.np, "empty", empty)
    with pytest.raises(RuntimeError, match="an illegal instruction"):
        call(X)


@pytest.mark.usefixtures("all_leave")
def test_a_full_host_is_told(monkeypatch):
    def empty(size, dtype):
        raise MemoryError

    call = remat.rematerialize(Body(), (X,), "100%", check=False)
    monkeypatch.setattr(calls.np, "empty", empty)
    with pytest.raises(
        OutOfMemoryError, match="bytes of host memory, which are not available; limit the link's host bytes"
    ):
        call(X)


@pytest.mark.parametrize(
    ("budget", "options", "message"),
    [
        ("50%", {"link": "pcie9", "device": DEVICE}, "unknown link 'pcie9'"),
        ("50%", {"link": "pcie5", "cost": "flops"}, 'cost "flops" gives no times without a device'),
        ("50%", {"link": "pcie5"}, "set device to a name such as"),
        ("50%", {"link": "pcie5", "compiler": "inductor"}, "copies would not overlap with them; remove the link"),
    ],
)
def test_what_does_not_go_with_a_link_is_told_at_once(budget, options, message):
    with pytest.raises((GraphError, ValueError), match=message):
        remat.backend(budget, **options)


def test_the_limit_of_the_host_is_kept_and_the_report_counts_copies():
    link = {"out": "1000GB/s", "into": "1000GB/s", "latency": 0, "host": 16384}
    model = torch.compile(
        Body(),
        backend="remat",
        options={"budget": "70%", "link": link, "device": DEVICE, "solver": "greedy_remat"},
        dynamic=False,
    )
    model(X).backward()
    report = remat.reports()[0]
    simulation = report.plan.simulation
    assert 0 < simulation.host_peak <= 16384
    count = len(offloaded(report))
    assert f"{count} value{'s' * (count > 1)} offloaded" in report.summary()
    text = " ".join(str(report).split())
    moved = int(simulation.graph.memory[offloaded(report)].sum())
    assert f"stored ({format_bytes(moved)}), {len(simulation.schedule.loads)} load" in text
    assert f"{format_bytes(simulation.host_peak)} on the host at most" in text


def test_without_a_link_no_time_is_computed(monkeypatch):
    monkeypatch.setattr(plans, "timeline", None)
    report = remat.rematerialize(Body(), (X,), "70%", check=False, solver="greedy_remat").report
    assert "offloaded" not in report.summary() + str(report)


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["unet", "gpt"])
def test_on_a_gpu_results_are_equal_and_the_allocator_stays_within_the_prediction(name):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    model, inputs = make(name)
    model, inputs = model.cuda(), tuple(each.cuda() for each in inputs)
    with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        assert all(offloaded(report).size for report in check(model, inputs, "50%", link="200GB/s", device=DEVICE))
        call = remat.rematerialize(model, inputs, "50%", link="200GB/s", device=DEVICE, workspace=True)
        allocator = peaks_of(call, model, inputs).allocator
    tensors = call.plan.graph.n_values + call.plan.graph.resident.memory.size
    assert allocator <= 1.01 * call.plan.peak_memory + 512 * tensors


@pytest.mark.gpu
@pytest.mark.usefixtures("all_leave")
def test_on_a_gpu_all_values_may_leave():
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    check(Body(512).cuda(), (torch.randn(4096, 512, device="cuda"),))


def test_a_device_without_streams_is_refused_when_the_plan_is_lowered(monkeypatch):
    monkeypatch.setattr(torch, "get_device_module", lambda device: object())
    with pytest.raises(GraphError, match="PyTorch has no streams for copies on device 'mps'; plan without a link"):
        calls.check_streams(torch.device("mps"))
    calls.check_streams(torch.device("cpu"))
