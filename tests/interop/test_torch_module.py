"""A planned model is a module in the model's place, and gives what the model gives in each of its modes."""

import contextlib
import copy
import pickle
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from remat_algos.errors import GraphError, GraphWarning
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import capture_model
from remat_algos.interop.torch.storages import allocator_peak
from tests.interop.torch_models import DOORS, Made, assert_equal, planned_by, step_of
from tests.raising import raises

SLOW = pytest.mark.slow
X = torch.linspace(-1, 1, 32 * 16).view(32, 16)


class Net(nn.Module):
    """Of each kind of state: parameters, statistics, draws."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)
        self.drop, self.config = nn.Dropout(0.3), {"width": 16}

    def forward(self, x, *, scale=None, target=None):
        x = self.drop(self.norm(self.first(x)).sigmoid())
        x = self.last(x if scale is None else x * scale).tanh()
        return x.square().mean() if target is None else f.mse_loss(x, target)


def assert_same_step(planned, model, *args, **kwargs):
    reference = copy.deepcopy(model)
    expected = step_of(reference, reference, *args, **kwargs)
    assert_equal(step_of(planned, model, *args, **kwargs), expected)


# ---------------------------------------------------------------- a module


def test_it_is_a_module_with_the_parameters_of_the_model():
    model = Net()
    planned = remat.rematerialize(model, (X,), "60%")
    assert isinstance(planned, nn.Module)
    assert [name for name, _ in planned.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert all(one is other for one, other in zip(planned.parameters(), model.parameters(), strict=True))
    assert planned.state_dict().keys() == model.state_dict().keys()
    assert planned.first is model.first
    assert planned.config == {"width": 16}
    with pytest.raises(AttributeError, match="no attribute 'second'"):
        _ = planned.second


def test_what_is_loaded_or_moved_is_loaded_into_the_model():
    model, other = Net(), Net()
    planned = remat.rematerialize(model, (X,), "60%")
    planned.load_state_dict(other.state_dict())
    assert torch.equal(model.first.weight, other.first.weight)
    outer = nn.Sequential(planned)
    assert list(outer.state_dict()) == [f"0.{name}" for name in model.state_dict()]
    outer.load_state_dict(nn.Sequential(Net()).state_dict())
    assert_same_step(planned, model, X)
    planned.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda planned: pickle.loads(pickle.dumps(planned))])
def test_a_copy_has_parameters_of_its_own_and_plans_anew(copied):
    planned = remat.rematerialize(Net(), (X,), "60%")
    other = copied(planned)
    assert other.first.weight is not planned.first.weight
    with pytest.raises(GraphError, match="planned at its first call"):
        _ = other.plan
    assert_same_step(other, other.original, X)
    assert other.plan.schedule.order.tolist() == planned.plan.schedule.order.tolist()


def test_arguments_by_name():
    model, scale, target = Net(), torch.full((16,), 2.0), X.flip(0)
    planned = remat.rematerialize(model, (X,), "60%", keywords={"scale": scale, "target": target})
    assert_same_step(planned, model, X, scale=scale, target=target)
    with raises(GraphError, inputs=1, planned=3):
        planned(X)
    graph = remat.capture(model, (X,), keywords={"scale": scale, "target": target}).graph
    assert graph.hash == planned.plan.graph.hash


def test_numbers_among_the_results():
    class Two(Net):
        def forward(self, x):
            return super().forward(x), 3, None, {"name": "a"}

    for door in DOORS:
        call, _ = planned_by(door, Two(), (X,), "60%")
        assert call(X)[1:] == (3, None, {"name": "a"})


# ---------------------------------------------------------------- modes


def freeze(model):
    model.first.requires_grad_(False)


CHANGES = {
    "evaluation": lambda model: model.eval(),
    "evaluation of one layer": lambda model: model.norm.eval(),
    "frozen": freeze,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_mode_is_captured_anew(change):
    model = Net()
    planned = remat.rematerialize(model, (X,), "60%")
    assert_same_step(planned, model, X)
    first = planned.report
    change(model)
    model.zero_grad()
    assert_same_step(planned, model, X)
    assert planned.report is not first
    model.train().requires_grad_(True)
    assert_same_step(planned, model, X)
    assert planned.report is first


def test_train_and_eval_are_those_of_the_model():
    model = Net()
    planned = remat.rematerialize(model, (X,), "60%")
    planned.eval()
    assert (model.training, model.drop.training, planned.training) == (False, False, False)
    assert torch.equal(planned(X), model(X))
    model.train()
    assert planned.training


def test_another_type_is_captured_anew():
    class Cast(Net):
        def forward(self, x):
            return super().forward(x.to(self.first.weight.dtype)).float()

    model = Cast().eval()
    planned = remat.rematerialize(model, (X,), "60%")
    assert_same_step(planned, model, X)
    assert planned.double() is planned
    assert model.first.weight.dtype == torch.float64
    model.zero_grad()
    assert_same_step(planned, model, X)


def test_without_gradients_the_model_itself_runs():
    model = Net().eval()
    planned = remat.rematerialize(model, (X,), "60%")
    with torch.no_grad():
        assert torch.equal(planned(X[:8]), model(X[:8]))
        assert not planned(X).requires_grad
    model.requires_grad_(False)
    assert torch.equal(planned(X), model(X))


def test_autocast_is_part_of_the_mode():
    model = Net().eval()
    planned = remat.rematerialize(model, (X,), "60%")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(planned(X), model(X))
    assert torch.equal(planned(X), model(X))


# ---------------------------------------------------------------- recurrent layers


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(16, 16, 2, **options)

    def forward(self, x):
        result, state = self.layer(x[:8].view(2, 4, 16))
        states = state if isinstance(state, tuple) else (state,)
        return result.square().mean() + sum(each.square().mean() for each in states)


RECURRENT = {
    "plain": {},
    "dropout": {"dropout": 0.5},
    "dropout bidirectional": {"dropout": 0.5, "bidirectional": True},
    "batch_first bias": {"batch_first": True, "bias": False},
}
QUICK = {("dropout", nn.GRU), ("dropout bidirectional", nn.RNN), ("batch_first bias", nn.LSTM)}
"""Each kind of layer, and each option; the others are slow."""


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        pytest.param(options, kind, id=f"{kind.__name__} {name}", marks=() if (name, kind) in QUICK else SLOW)
        for name, options in RECURRENT.items()
        for kind in (nn.GRU, nn.RNN, nn.LSTM)
    ],
)
def test_recurrent_layers_are_captured_with_their_dropout(kind, options):
    torch.manual_seed(1)
    model = Recurrent(kind, **options)
    planned = remat.rematerialize(model, (X,), "100%")
    reference = copy.deepcopy(model)
    expected = step_of(reference, reference, X)
    for one, other in zip(step_of(planned, model, X), expected, strict=True):
        assert (one - other).abs().max() <= 1e-6 * other.abs().max()


# ---------------------------------------------------------------- the comparison


def test_a_capture_that_leaves_something_out_is_refused(monkeypatch):
    """PyTorch's own decomposition of a GRU has no dropout."""
    monkeypatch.setattr(capture_model, "recurrent_layers", contextlib.nullcontext)
    model = Recurrent(nn.GRU, dropout=0.5)
    with pytest.raises(GraphError, match=r"differs from the original model in .*\d.*check=False"):
        remat.rematerialize(model, (X,), "100%")
    assert remat.rematerialize(model, (X,), "100%", check=False).plan.peak_memory


def test_the_comparison_changes_nothing():
    model = Net()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    x = X.clone()
    remat.rematerialize(model, (x,), "60%")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(x, X)
    assert all(p.grad is None for p in model.parameters())


def test_python_that_counts_calls_is_refused():
    class Counted(Net):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) / self.calls

    with pytest.raises(GraphError, match="Python code depends on more than its inputs"):
        remat.rematerialize(Counted(), (X,), "60%")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 0.0])
def test_numbers_that_are_none_are_compared(value):
    class Odd(Net):
        def forward(self, x):
            return super().forward(x), torch.full((3,), value) * x[0, 0].sign()

    remat.rematerialize(Odd(), (X,), "60%")


def test_a_buffer_that_is_replaced_is_refused_and_as_it_was():
    """A capture sees what is written into a buffer, not another tensor in its place."""

    def average(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.layer(x).square().mean()

    model = Made(average, layer=nn.Linear(16, 16), mean=nn.Buffer(torch.zeros(16)))
    with pytest.raises(GraphError, match=r"in buffer mean: .* difference: \d"):
        remat.rematerialize(model, (X,), "60%")
    assert torch.equal(model.mean, torch.zeros(16))


def test_a_refused_capture_does_not_run(monkeypatch):
    model = Recurrent(nn.GRU, dropout=0.5).eval()
    planned = remat.rematerialize(model, (X,), "100%")
    monkeypatch.setattr(capture_model, "recurrent_layers", contextlib.nullcontext)
    planned.train()
    for _ in range(2):
        with pytest.raises(GraphError, match="the capture missed something"):
            planned(X)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=SLOW)])
def test_a_lost_draw_is_seen_though_the_result_is_near(monkeypatch, seed):
    def loss(self, tokens):
        return f.cross_entropy(self.head(self.layer(self.words(tokens))[0]).flatten(0, 1), tokens.flatten())

    torch.manual_seed(seed)
    layers = {"words": nn.Embedding(50, 16), "layer": nn.GRU(16, 16, 2, dropout=0.5), "head": nn.Linear(16, 50)}
    model, tokens = Made(loss, **layers), torch.randint(50, (3, 4))
    assert remat.rematerialize(model, (tokens,), "100%").plan.peak_memory
    monkeypatch.setattr(capture_model, "recurrent_layers", contextlib.nullcontext)
    with pytest.raises(GraphError, match="the capture missed something"):
        remat.rematerialize(model, (tokens,), "100%")


def test_a_faster_way_without_gradients_is_no_difference():
    layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    masked = torch.arange(8)[None] >= torch.tensor([8, 5, 3, 8])[:, None]
    planned = remat.rematerialize(encoder, (X.view(4, 8, 16),), "100%", keywords={"src_key_padding_mask": masked})
    assert planned(X.view(4, 8, 16), src_key_padding_mask=masked).shape == (4, 8, 16)


# ---------------------------------------------------------------- inputs


def scaled_pair(self, pair, *, scale=None, shift=None):
    h = self.layer(pair["x"]) * pair["w"]
    return (h * scale + shift if scale is not None else h).sum()


def test_inputs_are_compared_where_they_stand():
    model, one, two = Made(scaled_pair, layer=nn.Linear(16, 16)), {"x": X, "w": 2 * X}, {"w": 2 * X, "x": X}
    planned = remat.rematerialize(model, (one,), "100%")
    assert torch.equal(planned(one), model(one))
    with raises(GraphError, name="0['w']", planned="0['x']"):
        planned(two)
    with raises(GraphError, name="0['x']", found="float32[8, 16] on cpu"):
        planned({"x": X[:8], "w": X[:8]})


def test_arguments_by_name_come_in_any_order():
    model, pair = Made(scaled_pair, layer=nn.Linear(16, 16)), {"x": X, "w": X}
    named = {"scale": torch.ones(16), "shift": torch.ones(32, 1)}
    planned = remat.rematerialize(model, (pair,), "100%", keywords=named)
    assert torch.equal(planned(pair, shift=named["shift"], scale=named["scale"]), model(pair, **named))
    with raises(GraphError, name="'skew'", planned="'shift'"):
        planned(pair, scale=named["scale"], skew=named["shift"])


def test_a_submodule_may_have_any_name():
    model = Made(lambda self, x: self.model(x) + self.head(x).mean(), model=Net(), head=nn.Linear(16, 1))
    planned = remat.rematerialize(model, (X,), "100%")
    assert planned.model is model.model
    assert planned.get_submodule("model.first") is model.model.first
    assert not hasattr(type(planned).__new__(type(planned)), "first")


def test_sparse_gradients_are_refused_in_words():
    layer = nn.EmbeddingBag(100, 8, sparse=True)
    tokens = torch.arange(20).view(4, 5)
    with pytest.raises(GraphError, match="is a sparse tensor; a plan needs dense ones: remove sparse=True"):
        remat.rematerialize(layer, (tokens,), "60%")
    embedding = nn.Sequential(nn.Embedding(100, 8, sparse=True), nn.Linear(8, 8))
    with pytest.raises(Exception, match="remove sparse=True"):
        torch.compile(embedding, backend=remat.backend("60%"), dynamic=False)(tokens).sum().backward()


def test_replicas_are_refused_in_words():
    planned = remat.rematerialize(Net(), (X,), "100%")
    with pytest.raises(GraphError, match="use DistributedDataParallel"):
        planned._replicate_for_data_parallel()


def test_a_module_may_have_several_names():
    """PyTorch's export leaves its own tensors in such a module."""
    model = Net()
    model.again = model.first
    assert_same_step(remat.rematerialize(model, (X,), "100%"), model, X)
    assert all(type(each) is nn.Parameter for each in model.parameters())


def test_a_weight_of_three_names_has_one_gradient():
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    model[2].weight = model[4].weight = model[0].weight
    planned = remat.rematerialize(model, (X,), "100%")
    graph = planned.plan.graph
    gradients = graph.output & ~graph.forward[graph.producer]
    assert int(graph.memory[gradients].sum()) == sum(each.nbytes for each in model.parameters())
    for call in (planned, model):
        model.zero_grad()
        call(X).square().mean().backward()
        if call is planned:
            found = [each.grad for each in model.parameters()]
    assert all(torch.equal(each.grad, one) for each, one in zip(model.parameters(), found, strict=True))


def test_parameters_that_the_forward_pass_writes_are_put_back():
    def momentum(self, x):
        with torch.no_grad():
            self.key.weight.mul_(0.9).add_(self.query.weight, alpha=0.1)
        return (self.query(x) - self.key(x)).square().mean()

    model = Made(momentum, query=nn.Linear(16, 16), key=nn.Linear(16, 16).requires_grad_(False))
    before = copy.deepcopy(model.state_dict())
    planned = remat.rematerialize(model, (X,), "100%")
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    reference = copy.deepcopy(model)
    planned(X).backward()
    reference(X).backward()
    assert torch.equal(model.key.weight, reference.key.weight)
    assert torch.equal(model.query.weight.grad, reference.query.weight.grad)


def test_branches_of_tensors_are_refused_in_words():
    def branches(self, x):
        y = self.first(x)
        return torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,)).square().mean()

    with raises(GraphError, name="cond"):
        remat.rematerialize(Made(branches, first=nn.Linear(16, 16)), (X,), "100%")


def test_an_operator_that_takes_no_drawn_numbers_is_not_measured():
    def volume(self, x):
        return (x @ self.w).square().mean() - torch.linalg.slogdet(self.w)[1]

    with pytest.warns(GraphWarning, match="could not be measured, so its time and workspace count as 0"):
        remat.rematerialize(Made(volume, w=nn.Parameter(torch.eye(16) + 0.01)), (X,), "100%", workspace=True)


class Uncompiled(nn.Module):
    """Blocks of one class, each of which runs the same graph with parameters of its own."""

    def __init__(self, n_blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(64) for _ in range(n_blocks))

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


@pytest.mark.filterwarnings("ignore:a graph runs again before")
def test_gradients_of_blocks_that_share_a_graph_count_for_each():
    model, backend, x = Uncompiled(6), remat.backend("100%"), torch.ones(2, 64)
    call = torch.compile(model, backend=backend, dynamic=False)
    call(x).sum().backward()
    model.zero_grad()
    peak = allocator_peak(lambda: call(x).sum().backward(), [x, *model.parameters()])
    assert len({report.place for report in backend.reports}) == 1
    assert peak <= backend.reports[-1].whole


@pytest.mark.parametrize("door", DOORS)
def test_what_a_graph_saves_counts_as_often_as_it_runs_before_its_backward_part(door):
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16), nn.Tanh())
    call, last = planned_by(door, model, (X,), "100%")
    for _ in range(3):  # one after the other
        call(X).sum().backward()
    once = last()
    assert once.whole == once.plan.peak_memory
    with pytest.warns(GraphWarning, match="runs again before the backward part of its previous call"):
        losses = [call(X).sum() for _ in range(3)]
    for loss in losses:
        loss.backward()
    assert last().whole >= once.whole + 2 * once.saved
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sum(call(X).sum() for _ in range(3)).backward()


def with_other_weights(self, x, inner=False):
    """Calls itself with other weights, as hypernetworks do."""
    if inner:
        return self.a(x).tanh()
    doubled = {"a.weight": self.a.weight * 2}
    return self.b(torch.func.functional_call(self, doubled, (x, True))).square().mean()


def in_a_range(self, x):
    """Marks a range for the profiler."""
    with torch.profiler.record_function("range"):
        return self.b(self.a(x).tanh()).square().mean()


def catching(self, x):
    """Catches an error of a submodule."""
    try:
        x = self.a(x[:, :8])
    except RuntimeError:
        x = x.tanh()
    return self.b(x).square().mean()


@pytest.mark.parametrize("forward", [with_other_weights, in_a_range, catching])
def test_what_models_do_is_captured(forward):
    model = Made(forward, a=nn.Linear(16, 16), b=nn.Linear(16, 16))
    assert_same_step(remat.rematerialize(model, (X,), "100%"), model, X)


def test_a_model_is_as_it_was_after_a_capture_that_fails():
    def lazy(self, x):
        if "scale" not in self._buffers:
            self.register_buffer("scale", x.detach().std())
        return (self.a(x) / self.scale).square().mean()

    model = Made(lazy, a=nn.Linear(16, 16))
    with pytest.raises(GraphError, match="the number of its results"):
        remat.rematerialize(model, (X,), "100%")
    model(X).backward()


def test_other_threads_may_call_modules_during_a_capture():
    other, stop = nn.Tanh(), threading.Event()

    def call():
        while not stop.is_set():
            other(X)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(3):
            assert "first.addmm" in remat.capture(Net(), (X,)).graph.node_names()
    finally:
        stop.set()
        thread.join()


class Queue(nn.Module):
    """Reads its input and a buffer by operators that are cheap to run again."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.register_buffer("queue", torch.linspace(0, 1, 16))

    def forward(self, x):
        y = (x + self.queue).exp()
        for layer in self.layers:
            y = layer(y).tanh()
        return y.square().mean()


@pytest.mark.parametrize("door", DOORS)
def test_an_input_that_changes_before_it_is_read_again_is_named(door):
    model, x = Queue(), X.clone()
    call, _ = planned_by(door, model, (x,), "least")
    call(x).backward()
    for tensor, name in ((x, "(input 0|l_x_)"), (model.queue, "(queue|l_self_buffers_queue_)")):
        loss = call(x)
        tensor.mul_(2)
        with pytest.raises(GraphError, match=rf"^{name} was changed in place between .* recomputes add.* from it"):
            loss.backward()
        del loss
    call(x).backward()  # changed beforehand


OUTSIDE = torch.linspace(1, 2, 16)


class Constants(nn.Module):
    """Reads tensors that are attributes, items of a list, and globals; the mask through a view."""

    def __init__(self):
        super().__init__()
        self.layer, self.mask = nn.Linear(16, 16), torch.triu(torch.ones(32, 16, dtype=torch.bool), 1)
        self.scales = [torch.linspace(0, 1, 16), torch.linspace(1, 0, 16)]

    def forward(self, x):
        for scale in self.scales:
            x = torch.tanh(self.layer(x)).masked_fill(self.mask[:, :], 0.0) * scale[None] + OUTSIDE
        return x.square().mean()


def test_tensors_that_are_no_buffers_are_constants_of_the_graph():
    model = Constants()
    graph = remat.capture(model, (X,)).graph
    tensors = (*model.parameters(), X, model.mask, *model.scales, OUTSIDE)
    assert graph.resident_memory == sum(each.untyped_storage().nbytes() for each in tensors)
    planned, reference = remat.rematerialize(model, (X,), "60%", solver="greedy_remat"), copy.deepcopy(model)
    for _ in range(2):
        planned(X).backward()
        reference(X).backward()
        assert torch.equal(model.layer.weight.grad, reference.layer.weight.grad)
        for each in (model, reference):  # a constant may change between steps
            each.scales[0].mul_(2)


def test_a_constant_that_would_lose_its_gradient_or_be_written_into_is_refused():
    model = Constants()
    model.scales[1].requires_grad_()
    with pytest.raises(GraphError, match=r"shape \(16,\) that requires a gradient and is neither parameter nor input"):
        remat.capture(model, (X,))

    class Counted(Constants):
        def forward(self, x):
            self.scales[0].add_(1)
            return super().forward(x)

    counted = Counted()
    with pytest.raises(GraphError, match="neither input, parameter nor buffer; register it"):
        remat.capture(counted, (X,))
