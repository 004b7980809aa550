"""Models of PyTorch within a budget: bit-equal to eager, and within the predicted peak."""

import copy
import pickle
import re
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as f

import remat_algos as ra
from remat_algos.errors import BudgetError, GraphError, GraphWarning, PlanError
from remat_algos.interop import torch as remat
from remat_algos.interop.torch import compile_backends
from remat_algos.interop.torch.capture_model import read_joint_graph, tidy
from remat_algos.interop.torch.compile_backends import _partitioners
from remat_algos.search import plan_cache
from remat_algos.search.solve import answered
from remat_algos.wording import format_bytes
from tests.interop.torch_models import DOORS, MODELS, SMALL, Made, assert_equal, make, planned_by
from tests.raising import raises

SLOW = pytest.mark.slow
STATE = 5056  # bytes of a generator's state on the CPU


def two_steps(call, model, inputs, seed=3):
    """Losses, gradients and, at the end, buffers of two steps of SGD."""
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = call(*inputs)
        loss = loss if isinstance(loss, torch.Tensor) else sum(each.sum() for each in loss)
        loss.backward()
        seen += [loss.detach().clone(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        optimizer.step()
    return seen + [buffer.clone() for buffer in model.buffers()]


def assert_as_eager(call, model, inputs):
    """A model runs by a plan as without one."""
    eager = copy.deepcopy(model)
    assert_equal(two_steps(call, model, inputs), two_steps(eager, eager, inputs))


def check(model, inputs, budget="60%", *, solver="greedy_remat", reference=lambda model: model, **options):
    """Both ways give what the reference gives; the reports. The solver is a quick one: what runs is to be tried."""
    own = copy.deepcopy(model)
    expected, reports = two_steps(reference(own), own, inputs), []
    for door in DOORS:
        own = copy.deepcopy(model)
        call, report = planned_by(door, own, inputs, budget, solver=solver, **options)
        assert_equal(two_steps(call, own, inputs), expected)
        reports.append(report())
    return reports


def peaks_of(call, model, inputs):
    def step():
        model.zero_grad()
        call(*inputs).backward()

    model.zero_grad()
    return remat.measure_peak(step, [*model.parameters(), *model.buffers(), *inputs])


# ---------------------------------------------------------------- networks


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["100%", "70%", "50%", "40%", "least"])
@pytest.mark.parametrize("name", [*MODELS, *SMALL])
def test_networks_are_bit_equal_and_within_their_prediction(name, budget):
    model, inputs = make(name)
    report = check(model, inputs, budget, solver="auto")[0]
    call = remat.rematerialize(model, inputs, budget)
    assert_within(call, model, inputs, report)


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_are_bit_equal_and_within_their_prediction(name):
    model, inputs = make(name)
    report = check(model, inputs, "50%")[0]
    assert_within(remat.rematerialize(model, inputs, "50%", solver="greedy_remat"), model, inputs, report)


def assert_within(call, model, inputs, report):
    predicted, measured = report.plan.peak_memory, peaks_of(call, model, inputs).storages
    mutated = sum(buffer.untyped_storage().nbytes() for buffer in model.buffers())
    assert predicted - STATE * report.replayed - 2 * mutated - 1024 <= measured <= predicted + 4


SOLVED = [("small unet", "auto"), ("unet", "auto"), ("resnet50", "auto"), ("lstm", "auto")]


@pytest.mark.parametrize(
    ("name", "solver"),
    [("small unet", "greedy_remat"), *(pytest.param(*each, marks=SLOW) for each in SOLVED)],
)
def test_models_are_solved_once_for_both_ways(name, solver, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_cache, "cache_folder", lambda *names: tmp_path)
    solved = []
    monkeypatch.setattr(plan_cache, "answered", lambda *asked: solved.append(asked) or answered(*asked))
    model, inputs = make(name)
    backend = remat.backend("50%", solver=solver)
    torch.compile(model, backend=backend, dynamic=False)(*inputs)
    one, other = backend.reports[0].plan, remat.rematerialize(model, inputs, "50%", solver=solver).plan
    assert len(solved) == 1
    assert one.graph.hash != other.graph.hash  # residents have other places
    assert one.schedule.order.tolist() == other.schedule.order.tolist()
    assert (one.limit, one.peak_memory, one.overhead) == (other.limit, other.peak_memory, other.overhead)


@pytest.mark.parametrize(
    ("budget", "solver"),
    [("60%", "greedy_remat"), *(pytest.param(share, "auto", marks=SLOW) for share in ("70%", "60%", "50%"))],
)
def test_with_probed_workspaces_the_allocator_stays_within_the_budget(budget, solver):
    model, inputs = make("small unet")
    call = remat.rematerialize(model, inputs, budget, workspace=True, solver=solver)
    allocator = peaks_of(call, model, inputs).allocator
    assert 0.998 * call.plan.peak_memory <= allocator <= call.plan.peak_memory <= call.plan.limit


def test_tensors_whose_elements_share_a_place_are_measured():
    """The gradient of a sum, spread over what was added up, has strides of 0."""
    body = nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.BatchNorm2d(1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    model = Layers(nn.Sequential(body, nn.Flatten(), nn.Linear(1, 16)))
    inputs = (torch.randn(8, 16),)
    call = remat.rematerialize(model, inputs, "100%", workspace=True)
    assert peaks_of(call, model, inputs).allocator <= call.plan.peak_memory


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["unet", "gpt"])
def test_on_a_gpu_the_allocator_stays_within_the_prediction(name):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    model, inputs = make(name)
    model, inputs = model.cuda(), tuple(each.cuda() for each in inputs)
    with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        check(model, inputs, "50%")
        call = remat.rematerialize(model, inputs, "50%", workspace=True)
        allocator = peaks_of(call, model, inputs).allocator
    tensors = call.plan.graph.n_values + call.plan.graph.resident.memory.size
    assert allocator <= 1.01 * call.plan.peak_memory + 512 * tensors


# ---------------------------------------------------------------- rules, each of which was a fault once


class Layers(nn.Module):
    """Ten lines around the one that a test is about."""

    def __init__(self, body, width=16, norm=False):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.body = body

    def forward(self, x):
        for _ in range(3):
            x = self.body(self.norm(self.first(x)))
        return self.last(x).square().mean()


X = torch.linspace(-1, 1, 64 * 16).view(64, 16)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda x: torch.relu(x) + torch.relu(x), id="common subexpression"),
        pytest.param(lambda x: f.dropout(x, 0.3).sigmoid() * f.dropout(x, 0.3).tanh(), id="draws"),
        pytest.param(lambda x: torch.cat([a.t().t().sin() for a in x.chunk(4, 1)], 1), id="views of a tuple"),
        pytest.param(lambda x: torch.var_mean(x, 1, keepdim=True)[0] * x, id="a tuple, of which one part is read"),
        pytest.param(lambda x: x.expand(3, 64, 16).sigmoid().mean(0), id="an expanded view"),
        pytest.param(lambda x: x + torch.ones(16).cumsum(0), id="a constant"),
        pytest.param(lambda x: x.sort(1)[0].cumsum(1), id="indices"),
        pytest.param(lambda x: x.clone().add_(1).mul_(x), id="operators in place"),
    ],
)
@pytest.mark.parametrize("budget", [pytest.param("100%", marks=SLOW), pytest.param("70%", marks=SLOW), "least"])
def test_rules(body, budget):
    check(Layers(body), (X,), budget)


@pytest.mark.parametrize("budget", [pytest.param("100%", marks=SLOW), "60%", pytest.param("least", marks=SLOW)])
def test_statistics_that_the_runtime_writes_are_read_before(budget):
    check(Layers(torch.relu, norm=True), (X,), budget)


def test_a_buffer_that_is_read_changed_and_read_again():
    def counted(self, x):
        x = (self.linear(x) * self.scale.clone()).sigmoid()
        self.scale.add_(0.5)
        return (x * self.scale.clone()).square().sum()

    check(Made(counted, linear=nn.Linear(16, 16), scale=nn.Buffer(torch.ones(16))), (X,), "least")


def test_tied_weights():
    one, two = nn.Linear(16, 16), nn.Linear(16, 16)
    two.weight = one.weight
    check(Made(lambda self, x: self.two(self.one(x).tanh()).square().sum(), one=one, two=two), (X,), "80%")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


def test_an_autograd_function_of_ones_own():
    check(Layers(lambda x: Cube.apply(x)), (X,), "70%")


def test_a_loss_outside_and_two_outputs():
    class Two(Layers):
        def forward(self, x):
            h = self.first(self.first(x).tanh()).tanh()
            return h, self.last(h).view(-1)

    check(Two(None), (X,), "80%")


def test_draws_run_once_on_demand():
    body = nn.Sequential(nn.Dropout(0.3), nn.Sigmoid(), nn.Dropout(0.3), nn.Sigmoid())
    replayed = check(Layers(body), (X,), "least")
    once = check(Layers(body), (X,), "least", rng="once")
    assert sum(report.replayed for report in once) == 0
    assert all(report.plan.graph.once.sum() >= 2 for report in (*once, *replayed))


def test_autocast_is_that_of_the_same_graph_uncompiled():
    class Cast(Layers):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x).float()

    check(Cast(torch.relu), (X,), "70%", reference=partial(torch.compile, backend="aot_eager", dynamic=False))


# ---------------------------------------------------------------- torch.compile


def test_the_backend_has_a_name_that_needs_no_import():
    assert "remat" in torch.compiler.list_backends(exclude_tags=())
    model = Layers(torch.relu)
    call = torch.compile(model, backend="remat", options={"budget": "80%", "effort": "fast"}, dynamic=False)
    assert_as_eager(call, model, (X,))


@pytest.mark.parametrize("place", [0, 1], ids=["plan per block", "compiled"])
def test_the_lines_of_the_readme(place):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2

    class Loss(Layers):
        def forward(self, x, y):
            return super().forward(x) + y.mean()

    net = Loss(torch.relu)
    before = copy.deepcopy(net.state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    names = {"torch": torch, "net": net, "model": net, "x": X, "y": X, "inputs": (X, X), "optimizer": optimizer}
    exec(blocks[place], names)
    if place == 0:
        assert names["plan"].peak_memory > 0
        names["loss"] = net(X, X)
        names["loss"].backward()
        optimizer.step()
    assert isinstance(names["loss"], torch.Tensor)
    assert not all(torch.equal(before[name], now) for name, now in net.state_dict().items())


class Broken(Layers):
    """Two graphs: Python looks at a number between them."""

    def forward(self, x):
        h = self.first(self.first(self.first(x).sigmoid()).sigmoid()).sigmoid()
        if h.sum() > 0:
            h = h * 2
        return self.last(self.last(self.last(h).sigmoid()).sigmoid()).square().sum()


def test_a_graph_break_makes_two_plans():
    model, backend = Broken(None), remat.backend("80%", solver="greedy_remat")
    assert_as_eager(torch.compile(model, backend=backend, dynamic=False), model, (X,))
    assert len(backend.reports) == 2
    assert backend.reports[0].place[0] < backend.reports[1].place[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_gpt2_of_transformers_within_half_of_each_graph():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=500, n_positions=64, bos_token_id=0, eos_token_id=0, use_cache=False
    )
    eager = transformers.GPT2LMHeadModel(config).train()
    model, tokens = copy.deepcopy(eager), torch.randint(0, 500, (4, 64))
    backend = remat.backend("50%")
    compiled = torch.compile(model, backend=backend, dynamic=False)

    def loss_of(call):
        return lambda tokens: call(input_ids=tokens, labels=tokens).loss

    assert_equal(two_steps(loss_of(compiled), model, (tokens,)), two_steps(loss_of(eager), eager, (tokens,)))
    assert len({report.place[0] for report in backend.reports}) == 2
    assert peaks_of(loss_of(compiled), model, (tokens,)).allocator <= backend.reports[-1].whole


def test_a_budget_in_bytes_is_for_all_graphs_together():
    model, backend = Broken(None), remat.backend("100KiB")
    call = torch.compile(model, backend=backend, dynamic=False)
    two_steps(call, model, (X,))
    first, second = backend.reports
    assert first.plan.limit == 100 * 1024
    assert second.plan.limit == 100 * 1024 - first.saved
    model.zero_grad()
    from remat_algos.interop.torch.storages import allocator_peak

    allocator = allocator_peak(lambda: call(X).backward(), [*model.parameters(), X])
    assert allocator <= second.whole + 8  # the condition, and the gradient of the loss, which is resident


def test_other_shapes_have_plans_of_their_own():
    model, backend = Layers(torch.relu), remat.backend("100%")
    call = torch.compile(model, backend=backend, dynamic=False)
    for batch in (8, 16, 24):
        assert torch.equal(call(X[:batch]), model(X[:batch]))
    assert len(backend.reports) == 3
    assert len({report.place[0] for report in backend.reports}) == 1


class Outside(Layers):
    """What stands between two layers is no part of a graph."""

    def __init__(self, between):
        super().__init__(None)
        self.lstm = between

    def forward(self, x):
        h = self.first(x).sigmoid()
        h = self.lstm(h)
        return self.last(h[0] if isinstance(h, tuple) else h).square().sum()


@torch.compiler.disable
def not_captured(x):
    return x.sin()


@pytest.mark.parametrize("between", [lambda: nn.LSTM(16, 16), lambda: nn.GRU(16, 16), lambda: not_captured])
def test_what_runs_outside_the_graphs_is_said(between):
    model, backend = Outside(between()), remat.backend("100%")
    call = torch.compile(model, backend=backend, dynamic=False)
    with pytest.warns(
        GraphWarning, match=r"1 part of the model runs outside .* h = self.lstm\(h\) \(test_torch.py, line \d+\)"
    ) as said:
        call(X).backward()
    (warning,) = [each for each in said if "outside the plans" in str(each.message)]
    assert warning.filename == __file__
    (line,) = backend.reports[0].graph_breaks
    assert line.startswith("h = self.lstm(h)")
    assert "not planned: h = self.lstm(h)" in str(backend.reports[0])
    with warnings.catch_warnings(record=True) as said:
        call(X[:8])  # another shape, of which it was said
    assert not [each for each in said if "outside the plans" in str(each.message)]


def test_a_graph_that_ends_where_python_decides_leaves_nothing_out(recwarn):
    backend = remat.backend("100%")
    torch.compile(Broken(None), backend=backend, dynamic=False)(X).backward()
    assert backend.reports[-1].graph_breaks == ()
    assert not [each for each in recwarn if "outside the plans" in str(each.message)]


@pytest.mark.filterwarnings("ignore:1 part of the model runs outside")
def test_graphs_that_keep_to_their_limits_may_be_above_the_budget_together():
    """Gradients of the last graph are there while the first one is at its peak."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(16, 2048), nn.Tanh(), nn.Linear(2048, 16))
            self.last = nn.Linear(16, 2048)

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.last(x).square().mean()

    x = torch.linspace(-1, 1, 16).view(1, 16)
    free = remat.backend("100%")
    torch.compile(Halves(), backend=free, dynamic=False)(x).backward()
    first, last = free.reports
    needed = max(first.plan.peak_memory, first.saved + last.plan.peak_memory)
    assert free.reports[-1].whole > needed
    torch.compiler.reset()
    bound = remat.backend(needed)
    with pytest.warns(GraphWarning, match="the graphs of the model together peak at .*, above"):
        torch.compile(Halves(), backend=bound, dynamic=False)(x).backward()


@pytest.mark.parametrize("kind", [nn.LSTM, pytest.param(nn.GRU, marks=SLOW)])
@pytest.mark.parametrize("by_name", [False, pytest.param(True, marks=SLOW)])
@torch._dynamo.config.patch(allow_rnn=False)
def test_recurrent_layers_are_planned_where_the_option_says_so(kind, by_name):
    options = {"budget": "100%", "recurrent": True}
    model, backend = Outside(kind(16, 16, 2, dropout=0.5)), remat.backend(**options)
    eager = copy.deepcopy(model)
    call = torch.compile(model, backend=backend, dynamic=False)
    if by_name:
        call = torch.compile(model, backend="remat", options=options, dynamic=False)
    x = X[:8].view(2, 4, 16)
    for one, other in zip(two_steps(call, model, (x,)), two_steps(eager, eager, (x,)), strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()
    (report,) = remat.reports() if by_name else backend.reports
    assert report.graph_breaks == ()
    assert not torch._dynamo.config.allow_rnn


@pytest.mark.parametrize(("gradients", "rows"), [(True, 16), (False, 8)], ids=["another shape", "an evaluation"])
@torch._dynamo.config.patch(recompile_limit=3)
def test_the_last_compilation_of_a_frame_is_said(gradients, rows):
    call = torch.compile(Layers(torch.relu), backend=remat.backend("100%"), dynamic=False)
    call(X[:8])
    call(X[:12])
    with torch.set_grad_enabled(gradients), pytest.warns(GraphWarning, match="the last of 3 times: with another shape"):
        call(X[:rows])


def test_inductor_captures_recurrent_layers_with_their_dropout_and_fixes_sizes(monkeypatch):
    """No code is generated: the modules run as they are."""
    compile_fx, config = compile_backends.inductor()
    uncompiled = partial(compile_fx, inner_compile=lambda module, inputs, **options: module)
    monkeypatch.setattr(compile_backends, "inductor", lambda: (uncompiled, config))
    backend = remat.backend("100%", compiler="inductor")
    with torch._dynamo.config.patch(allow_rnn=True):
        model = Outside(nn.GRU(16, 16, 2, dropout=0.5))
        torch.compile(model, backend=backend, dynamic=True)(X[:8].view(2, 4, 16))
    draws = [node for node in backend.reports[0].plan.graph.labels.ops if "bernoulli" in node or "dropout" in node]
    assert draws


def test_compiled_code_is_measured_as_it_runs():
    model, backend = Layers(torch.relu), remat.backend("60%")
    call = torch.compile(model, backend=backend, dynamic=False)

    def step():
        model.zero_grad()
        call(X).backward()

    step()
    model.zero_grad()
    for _ in range(2):  # it is compiled still
        measured = remat.measure_peak(step, [*model.parameters(), X])
        assert measured.storages is None
        assert measured.allocator <= backend.reports[0].whole + 8


def test_a_graph_without_gradients_is_run_as_it_is():
    model, backend = Layers(torch.relu), remat.backend("80%")
    call = torch.compile(model, backend=backend, dynamic=False)
    with torch.no_grad():
        assert torch.equal(call(X), model(X))
    assert backend.reports == []


def test_what_a_device_has_left():
    model = Layers(torch.relu)
    options = {"device": "1MiB", "reserve": "16KiB"}
    assert_as_eager(torch.compile(model, backend="remat", options=options, dynamic=False), model, (X,))
    (report,) = _partitioners[id(options)][1].reports
    assert report.plan.limit == (1024 - 16) * 1024 - report.plan.graph.resident_memory


@pytest.mark.parametrize(
    ("optimizer", "copies", "accumulate"),
    [
        ("sgd", 0, False),
        ("momentum", 1, True),
        ("adamw", 2, False),
        pytest.param("sgd", 0, True, marks=SLOW),
        pytest.param("momentum", 1, False, marks=SLOW),
        pytest.param("adamw", 2, True, marks=SLOW),
    ],
)
def test_a_device_has_room_for_the_optimizer(optimizer, copies, accumulate):
    model = Layers(torch.relu)
    budget = ra.Budget(device="1MiB")
    report = remat.rematerialize(model, (X,), budget, optimizer=optimizer, accumulate=accumulate).report
    parameters = sum(each.nbytes for each in model.parameters())
    beside = (copies + accumulate) * parameters
    assert report.beside == beside
    assert report.plan.limit == 2**20 - report.plan.graph.resident_memory - beside
    assert report.device_memory == report.plan.peak_memory + report.plan.graph.resident_memory + beside <= 2**20
    assert f"optimizer {format_bytes(beside)}" in " ".join(str(report).split())


# ---------------------------------------------------------------- inductor


@pytest.mark.slow
def test_inductor_runs_a_plan_and_what_it_allocates_is_measured():
    model, inputs = make("gpt")
    eager, backend = copy.deepcopy(model), remat.backend("50%", compiler="inductor")
    call = torch.compile(model, backend=backend, dynamic=False)
    for one, other in zip(two_steps(call, model, inputs), two_steps(eager, eager, inputs), strict=True):
        assert (one - other).abs().max() <= 1e-4 * other.abs().max()

    def step():
        model.zero_grad()
        call(*inputs).backward()

    model.zero_grad()
    attempts = backend.fit(step, [*model.parameters(), *inputs])
    assert attempts[-1].measured <= attempts[0].limit
    assert backend.reports[-1].replayed == 0


def test_inductor_refuses_models_that_write_into_their_buffers():
    call = torch.compile(
        Layers(torch.relu, norm=True), backend=remat.backend("80%", compiler="inductor"), dynamic=False
    )
    with pytest.raises(Exception, match="the model writes into its buffers"):
        call(X)


# ---------------------------------------------------------------- capture and lower


def test_a_captured_graph_is_what_every_tool_takes(tmp_path):
    captured = remat.capture(Layers(nn.Dropout(0.2), norm=True), (X,))
    captured.save(tmp_path / "model.json")
    graph = ra.read_graph(tmp_path / "model.json")
    assert graph.hash == captured.graph.hash
    assert "random draws: 3" in str(captured)


def test_a_model_without_numbers_can_be_captured():
    with torch.device("meta"):
        captured = remat.capture(Layers(nn.Dropout(0.2)), (torch.empty(64, 16),))
    assert captured.graph.hash == remat.capture(Layers(nn.Dropout(0.2)), (X,)).graph.hash


def test_with_occupancy_products_compute_whole_waves():
    """64 x 16 results of 108 x 64 x 64 in a wave; other operators stay as they are."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    roofline, occupied = (remat.capture(model, (X,), cost=cost).graph for cost in ("roofline", "occupancy"))
    products = [op in ("aten.addmm.default", "aten.mm.default") for op in occupied.labels.ops]
    assert (occupied.compute != roofline.compute).tolist() == products
    assert occupied.compute[0] == round(5000 + 2 * 64 * 16 * 16 * (108 * 64 * 64 / 1024) / 19_500)


def test_a_model_without_gradient_is_captured_as_its_forward_part():
    captured = remat.capture(nn.Sequential(nn.ReLU(), nn.Tanh()), (X,))
    assert captured.num_forward == 1
    assert captured.graph.node_names() == ["relu", "tanh", "boundary"]


def test_captured_models_can_be_copied_and_pickled():
    captured = remat.capture(Layers(torch.relu), (X,))
    assert copy.deepcopy(captured).graph.hash == captured.graph.hash
    loaded = pickle.loads(pickle.dumps(captured))
    assert loaded.graph.hash == captured.graph.hash
    with pytest.raises(PlanError, match="capture the model again"):
        remat.lower(loaded, range(loaded.graph.n_nodes))


def test_a_lowered_module_is_the_joint_graph_in_another_order():
    model = Layers(torch.tanh)
    captured = remat.capture(model, (X,))
    plan = ra.solve(captured.graph, "least", solver="greedy_remat")
    inputs = [*model.parameters(), X, torch.ones(())]
    with torch.no_grad():
        results = remat.lower(captured, plan.simulation)(*inputs)
    loss = model(X)
    loss.backward()
    assert torch.equal(results[0], loss)
    assert_equal([g for g in results[1:] if g is not None], [p.grad for p in model.parameters()])


# ---------------------------------------------------------------- bad input


def test_other_inputs_than_planned_for():
    call = remat.rematerialize(Layers(torch.relu), (X,), "80%")
    with raises(GraphError, name="0", found="float32[8, 16] on cpu", planned="float32[64, 16] on cpu"):
        call(X[:8])
    with raises(GraphError, inputs=2, planned=1):
        call(X, X)


def test_python_that_depends_on_data_is_for_torch_compile():
    with pytest.raises(GraphError, match=r"use torch.compile\(model, backend='remat'"):
        remat.rematerialize(Broken(None), (X,), "80%")


class Sized(Layers):
    """Its Python reads sizes, and its views have them."""

    def forward(self, x):
        n = x.shape[0]
        h = f.dropout(self.first(x), 0.3).reshape(n // 2, 2 * 16).sigmoid().view(n, 16)
        return self.last(h + torch.ones(n, 1)).square().sum() / n


@pytest.mark.parametrize(
    ("dynamic", "sizes"),
    [
        (None, (8, 12, 8)),
        (True, (8, 12, 8)),
        *(pytest.param(dynamic, (8, 12, 64, 12), marks=SLOW) for dynamic in (None, True)),
    ],
)
def test_sizes_are_those_of_a_call_and_others_are_planned_anew(dynamic, sizes):
    model, backend = Sized(None), remat.backend("80%", solver="greedy_remat")
    call = torch.compile(model, backend=backend, dynamic=dynamic)
    for rows in sizes:
        assert_as_eager(call, model, (X[:rows],))
    peaks = [report.plan.peak_memory for report in backend.reports]
    assert sorted(peaks) == peaks
    assert len(set(peaks)) == len(peaks) == len(set(sizes))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_depend_on_data_are_refused_in_words():
    call = torch.compile(lambda x: x[x > 0].sin().sum(), backend=remat.backend("80%"))
    with pytest.raises(Exception, match="has a dynamic shape"):
        call(X.clone().requires_grad_())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_tensors_of_a_subclass_are_planned_as_their_parts():
    from torch.testing._internal.two_tensor import TwoTensor

    class Pairs(nn.Module):
        """Results, a buffer that is written into, and gradients from outside are pairs."""

        def __init__(self):
            super().__init__()
            self.layers = Layers(torch.sigmoid)
            self.register_buffer("total", TwoTensor(torch.zeros(16), torch.ones(16)))

        def forward(self, x):
            y = self.layers(x) * self.total.cos().sum()
            self.total.add_(x.detach().sum(0))
            return y.exp(), x.sin() * self.total.sin()

    def trained(call, model):
        pair = TwoTensor(X, X + 1).requires_grad_()
        loss = sum(each.sum() for each in call(pair))
        loss.backward()
        return [each for t in (loss, pair.grad, model.total) for each in (t.a, t.b)] + [
            getattr(each.grad, part) for each in model.parameters() for part in ("a", "b")
        ]

    eager, model = Pairs(), Pairs()
    model.load_state_dict(eager.state_dict())
    call = torch.compile(model, backend=remat.backend("80%", solver="greedy_remat"), dynamic=False)
    for _ in range(2):
        assert_equal(trained(call, model), trained(eager, eager))


def joint_of(target):
    """A joint graph of one operator, as a backend of one's own may pass it."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(8, device="meta")
    y = graph.call_function(target, (x,))
    y.meta["val"] = torch.ones(8, device="meta")
    graph.output([y]).meta["desc"] = [None]
    return torch.fx.GraphModule({}, graph)


def test_an_operator_that_writes_into_its_arguments_is_refused():
    with pytest.raises(GraphError, match=r"\(aten.relu_.default\) writes into its arguments; use the operator that"):
        tidy(joint_of(torch.ops.aten.relu_.default), True)


def test_collectives_run_once():
    library = torch.library.Library("c10d_functional", "FRAGMENT")
    library.define("remat_test(Tensor x) -> Tensor")

    def price(operators):
        return [1] * len(operators), [0] * len(operators), "ns"

    model = read_joint_graph(tidy(joint_of(torch.ops.c10d_functional.remat_test.default), True), 1, price)
    assert model.graph.once.tolist() == [True, True]  # it, and the boundary
    plain = read_joint_graph(tidy(joint_of(torch.ops.aten.relu.default), True), 1, price)
    assert plain.graph.once.tolist() == [False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, 'give a budget, such as {"budget": "8GiB"} or {"device": "16GiB"'),
        ({"budget": 0.5}, "whole numbers or text"),
        ({"budget": "50%", "solvr": "auto"}, "'solvr' is not an option; did you mean solver\\?"),
        ({"budget": "50%", "rng": "again"}, "rng is 'again'; give 'replay' or 'once'"),
        ({"device": "1GiB", "reserve": "2GiB"}, "exceeds the device budget"),
        ({"budget": "1GiB", "accumulate": True}, "reserve and accumulate need a device budget"),
        ({"device": "1GiB", "optimizer": "lamb"}, "optimizer is 'lamb'; give one of sgd, momentum, adam, adamw"),
        ({"budget": "1GiB", "reserve": "2GiB"}, "reserve and accumulate need a device budget"),
        ({"budget": "50%", "compiler": "xla"}, "use 'eager' or 'inductor'"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        torch.compile(Layers(torch.relu), backend="remat", options=options or {"effort": "fast"}, dynamic=False)


def test_a_budget_below_the_floor_runs_the_least_peak_with_a_warning():
    model = Layers(torch.relu)
    with pytest.warns(GraphWarning, match="the plan with the lowest peak runs"):
        call = remat.rematerialize(model, (X,), 1024)
    assert_as_eager(call, model, (X,))
    with pytest.raises(BudgetError):
        remat.rematerialize(model, (X,), 1024, infeasible="raise")


def test_a_graph_without_gradient_cannot_be_rematerialized():
    with pytest.raises(GraphError, match="there is nothing to plan"):
        remat.rematerialize(nn.ReLU(), (X,), "80%")


def test_gradients_of_gradients_are_refused_by_torch():
    call = remat.rematerialize(Layers(torch.tanh), (X.clone().requires_grad_(),), "100%")
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"create_graph=False"):
        torch.autograd.grad(call(x), x, create_graph=True)
