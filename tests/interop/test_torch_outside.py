"""Parts of a model that run outside every plan are said at the first call, once, with what helps."""

import copy
import warnings
from collections import Counter

import pytest
import torch
from torch import nn

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.interop import torch as remat
from remat_algos.interop.torch.outside import UnplannedPart
from remat_algos.interop.torch.private_names import record_breaks
from remat_algos.interop.torch.report import waiting_gradients
from remat_algos.interop.torch.storages import allocator_peak

X = torch.linspace(-1, 1, 8 * 16).view(8, 16)


def told_by(call, *shapes):
    """Our warnings of calls with as many rows."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for rows in shapes:
            call(X[:rows])
    return [each for each in told if issubclass(each.category, GraphWarning)]


class Model(nn.Module):
    """A layer between two others."""

    def __init__(self, between):
        super().__init__()
        self.first, self.between, self.last = nn.Linear(16, 16), between, nn.Linear(16, 16)

    def forward(self, x):
        h = self.between(self.first(x))
        return self.last(h[0] if isinstance(h, tuple) else h).square().mean()


def hooked():
    model = Model(nn.Sequential(nn.Linear(16, 16), nn.Tanh()))
    model.between.register_full_backward_hook(lambda module, inputs, outputs: None)
    return model


def steps_in_a_row(x):
    weight = torch.ones(16, 16)
    return weight - torch.func.grad(lambda weight: (x @ weight).square().mean())(weight)


class Logging(nn.Module):
    """Several lines that PyTorch does not capture."""

    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        x = x.cos()
        print(end="")
        return x * 2


CASES = {
    "rnn": (lambda: Model(nn.RNN(16, 16)), r"RNN\(16, 16\).*recurrent=True"),
    "only a GRU": (lambda: nn.Sequential(nn.GRU(16, 16)), r"plans no part.*GRU\(16, 16\).*recurrent=True"),
    "hook": (hooked, r"backwards hooks.*\(between\).*remove the hook"),
    "inner gradient": (lambda: steps_in_a_row, r"torch.func.grad.*loss.backward\(\)"),
    "two lines": (lambda: Model(Logging()), r"2 parts.*graph_break.*print"),
}


@pytest.mark.parametrize(("make", "match"), CASES.values(), ids=CASES)
def test_each_part_outside_is_said_once_at_the_users_line(make, match):
    call = torch.compile(make(), backend=remat.backend("100%"), dynamic=False)
    (told,) = told_by(call, 8, 8, 4)  # another shape is compiled again
    assert told.filename == __file__
    with pytest.warns(GraphWarning, match=match):
        warnings.warn(told.message, stacklevel=1)


@torch.compiler.set_stance("force_eager")
def test_a_call_of_which_nothing_is_captured_is_said():
    call = torch.compile(Model(nn.Tanh()), backend=remat.backend("100%"), dynamic=False)
    (told,) = told_by(call, 8, 8)
    assert "captured no part of its first call" in str(told.message)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_without_anything_outside_warns_of_nothing(frozen):
    model = Model(nn.Tanh()).requires_grad_(not frozen)
    call = torch.compile(model, backend=remat.backend("100%"), dynamic=False)
    assert told_by(call, 8, 4) == []
    with torch.no_grad():
        assert told_by(call, 8) == []


def test_graphs_above_the_budget_are_said_once():
    call = torch.compile(Model(nn.Tanh()), backend=remat.backend("1KiB"), dynamic=False)
    (told,) = told_by(call, 8, 4, 2)
    assert "no schedule within 1 KiB" in str(told.message)
    assert told.filename == __file__


BLOCKS = {
    "Sequential": lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
    "encoder": lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0),
    "Linear": lambda: nn.Linear(16, 16),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_classes_of_torch_are_planned_by_their_method_compile(make):
    net, planned = make(), remat.backend("100%")
    eager = copy.deepcopy(net)
    net.compile(backend=planned, dynamic=False)
    for each in (net, eager):
        each(X).square().mean().backward()
    for one, other in zip(net.parameters(), eager.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    (report,) = planned.reports
    assert not [name for name in report.plan.graph.labels.names if "__self__" in name]


def test_more_classes_of_torch_are_planned_than_a_frame_is_compiled():
    net, planned = (
        nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(10))),
        remat.backend("100%"),
    )
    for i, block in enumerate(net):
        if i % 2:
            block.compile(backend=planned, dynamic=False)
        else:
            net[i] = torch.compile(block, backend=planned, dynamic=False)
    assert told_by(net, 8) == []
    assert len(planned.reports) == 10


def test_hooks_that_a_planned_module_does_not_run_are_said():
    with pytest.warns(GraphWarning, match="full backward hooks of between do not run"):
        remat.rematerialize(hooked(), (X,), "100%")


LOSSES = {
    "cross_entropy": lambda out, y: nn.functional.cross_entropy(out, y),
    "nll_loss": lambda out, y: nn.functional.nll_loss(out.log_softmax(-1), y),
    "mse_loss": lambda out, y: nn.functional.mse_loss(out, y[:, None].expand_as(out).float()),
    "multi_margin_loss": lambda out, y: nn.functional.multi_margin_loss(out, y),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_model_on_meta_has_the_graph_that_it_has_on_the_cpu(loss):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)
            self.last.weight = self.first.weight

        def forward(self, x, y):
            return loss(self.last(self.norm(self.first(x)).relu()), y)

    def captured(device):
        with torch.device(device):
            model, inputs = Tied(), (torch.zeros(8, 16), torch.zeros(8, dtype=torch.long))
        graph = remat.capture(model, inputs).graph
        assert {each.device.type for each in model.parameters()} == {device}
        assert model.first.weight is model.last.weight
        return graph

    assert captured("meta").hash == captured("cpu").hash


def test_a_gradient_that_pytorch_does_not_have_is_an_error():
    library = torch.library.Library("remat_outside", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CPU")
    library.impl("twice", torch.empty_like, "Meta")

    class Model(nn.Linear):
        def forward(self, x):
            return torch.ops.remat_outside.twice(super().forward(x)).sum()

    with pytest.raises(GraphError, match="PyTorch has no gradient for remat_outside::twice, so "):
        remat.capture(Model(16, 16), (X,))


def deep(hooks):
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    for each in model.parameters() if hooks else ():
        each.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", None))
    return model


def accumulated(call):
    """Two backward parts without a reset of the gradients."""
    return lambda rows: [call(rows @ torch.ones(16, 64)).square().mean().backward() for _ in range(2)]


@pytest.mark.parametrize("hooks", [False, True])
def test_gradients_that_wait_for_the_end_are_said_once(hooks):
    told = told_by(accumulated(torch.compile(deep(hooks), backend=remat.backend("100%"), dynamic=False)), 8, 8)
    (told,) = [each for each in told if "wait for the end of the backward part" in str(each.message)]
    assert told.filename == __file__


def test_blocks_hand_their_gradients_over_as_eager_does():
    eager, model, planned = deep(False), deep(False), remat.backend("100%")
    for block in model:
        block.compile(backend=planned, dynamic=False)
    assert told_by(accumulated(model), 8, 8) == []
    for each in (eager, model):
        accumulated(each)(X)
        each.zero_grad()
    peaks = [allocator_peak(lambda each=each: accumulated(each)(X), [X]) for each in (eager, model)]
    assert peaks[1] <= 1.05 * peaks[0]


def test_gradients_that_wait_are_what_the_peak_has_of_them():
    """Layers of one row: the peak is that of all weights' gradients, of which one at a time would do."""
    planned = remat.backend("100%")
    torch.compile(deep(False), backend=planned, dynamic=False)(torch.ones(1, 64)).sum().backward()
    simulation = planned.reports[0].plan.simulation
    graph = simulation.graph
    gradients = graph.output & ~graph.forward[graph.producer]
    weight = 4 * 64 * 64
    assert 7 * weight <= waiting_gradients(simulation) <= int(graph.memory[gradients].sum()) - weight
    last = {x: i for i, v in enumerate(simulation.schedule.order) for x in (*graph.values(v), *graph.reads(v))}
    steps = range(simulation.memory_trace.size)
    late = [sum(int(graph.memory[x]) for x in last if gradients[x] and last[x] < step) for step in steps]
    assert waiting_gradients(simulation) == simulation.peak_memory - max(simulation.memory_trace - late)
    assert "of waiting gradients)" in planned.reports[0].summary()


def test_gradients_that_wait_are_not_mentioned_where_activations_are_the_peak():
    planned = remat.backend("100%")
    torch.compile(deep(False), backend=planned, dynamic=False)(torch.ones(4096, 64)).sum().backward()
    assert "wait" not in planned.reports[0].summary()


@pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < "2.13",
    reason="before PyTorch 2.13 the places of functions that are left out are not recorded",
)
@pytest.mark.parametrize(
    ("reasons", "joined"),
    [
        ({"one": 2}, ["one", "one"]),
        ({"one": 1, "two": 1}, ["one", "two"]),
        ({"one": 1, "two": 1, "three": 1}, ["", ""]),
    ],
)
def test_a_reason_is_given_only_where_its_place_is_clear(monkeypatch, reasons, joined):
    counted = torch._dynamo.utils.counters
    monkeypatch.setitem(counted, "unimplemented", Counter())
    end = record_breaks(recurrent=False)
    for line in (3, 7):
        text = f"forward (model.py:{line}): an error was suppressed during compilation"
        torch._dynamo.eval_frame.dynamo_tls.skip_reasons.append(text)
    counted["unimplemented"].update(reasons)
    breaks = end()
    assert [each.reason for each in breaks] == joined
    parts = [str(UnplannedPart.of(each, None)) for each in breaks]
    assert parts == [
        f"forward (model.py, line {line}): {reason or 'PyTorch gives no reason'}"
        for line, reason in zip((3, 7), joined, strict=True)
    ]
