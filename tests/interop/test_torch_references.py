"""What a plan is compared with: one pass, and the checkpoints that the model has already."""

from functools import partial

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import remat_algos as ra
from remat_algos.interop import torch as remat
from remat_algos.interop.torch.references import References, _by_regions
from tests.interop.torch_models import DOORS, assert_equal, planned_by, step_of
from tests.interop.torch_zoo import make
from tests.interop.torch_zoo.cases import Case

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
X = torch.linspace(-1, 1, 256 * 32).view(256, 32)


def keep_products(context, operator, *args, **kwargs):
    products = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    return CheckpointPolicy.MUST_SAVE if operator in products else CheckpointPolicy.PREFER_RECOMPUTE


SELECTIVE = partial(create_selective_checkpoint_contexts, keep_products)
KINDS = {
    "plain": {"use_reentrant": False},
    "reentrant": {"use_reentrant": True},
    "selective": {"use_reentrant": False, "context_fn": SELECTIVE},
}


class Checkpointed(nn.Module):
    """Blocks with a dropout, each in a checkpoint."""

    def __init__(self, kind="plain", blocks=3, nested=False):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, 32)) for _ in range(blocks)
        )
        self.kind, self.nested = kind, nested

    def forward(self, x):
        x = x.requires_grad_() if self.kind == "reentrant" and not torch.compiler.is_compiling() else x
        for block in self.blocks:
            call = partial(checkpoint, block, **KINDS[self.kind]) if self.nested else block
            x = x + checkpoint(call, x, **KINDS[self.kind])
        return x.square().mean()


QUICK = {("plain", "rematerialize"), ("reentrant", "rematerialize"), ("selective", "compile")}
"""Each kind of checkpoint, and each door; the others are slow."""


@pytest.mark.parametrize(
    ("kind", "door"),
    [
        pytest.param(kind, door, marks=() if (kind, door) in QUICK else pytest.mark.slow)
        for kind in KINDS
        for door in DOORS
    ],
)
def test_a_plan_is_no_worse_than_the_checkpoints_of_the_model(kind, door):
    model = Checkpointed(kind)
    x = X.clone().requires_grad_() if kind == "reentrant" else X
    expected = step_of(model, model, x)
    call, report_of = planned_by(door, model, (x,), "today")
    assert_equal(step_of(call, model, x), expected)
    today, plan = report_of().references.today, report_of().plan
    assert plan.peak_memory <= today.peak_memory < report_of().references.one_pass.peak_memory
    assert 0 < plan.overhead <= today.overhead
    assert "today" in str(report_of())


@pytest.mark.parametrize(("kind", "nested"), [("plain", False), ("selective", False), ("plain", True)])
def test_what_checkpoints_do_is_simulated(kind, nested):
    """Within 5 % of what eager PyTorch holds; of selective ones it keeps results that no gradient reads."""
    model = Checkpointed(kind, nested=nested)
    measured = remat.measure_peak(lambda: step_of(model, model, X), [*model.parameters(), X]).allocator
    model.zero_grad()
    today = References.of(remat.capture(model, (X,))).today
    assert (0.85 if kind == "selective" else 0.95) * measured <= today.peak_memory <= 1.05 * measured


class Twofold(nn.Module):
    """Blocks in checkpoints, and halves of them in one each."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(8))

    def half(self, first, x):
        for block in self.blocks[first : first + 4]:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x

    def forward(self, x):
        for first in (0, 4):
            x = checkpoint(self.half, first, x, use_reentrant=False)
        return x.square().mean()


@pytest.mark.parametrize("door", DOORS)
def test_checkpoints_within_checkpoints_are_simulated(door):
    model = Twofold()
    measured = remat.measure_peak(lambda: step_of(model, model, X), [*model.parameters(), X]).allocator
    expected = step_of(model, model, X)
    model.zero_grad()
    call, report_of = planned_by(door, model, (X,), "today", solver="greedy_remat")
    assert_equal(step_of(call, model, X), expected)
    today = report_of().references.today
    assert 0.9 * measured <= today.peak_memory <= 1.1 * measured
    runs = today.runs[[name.startswith("blocks.1.0.addmm") for name in today.graph.node_names()]]
    assert runs.tolist() == [3]


def test_a_backend_of_ones_own_sees_the_checkpoints():
    """PyTorch marks them by numbers there."""
    partitioner = remat.partition_fn("today")
    keep = lambda module, inputs: make_boxed_func(module)  # noqa: E731
    model = Checkpointed(blocks=2)
    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=keep, partition_fn=partitioner)
    step_of(torch.compile(model, backend=backend, dynamic=False), model, X)
    (report,) = partitioner.reports
    assert report.plan.peak_memory <= report.references.today.peak_memory < report.references.one_pass.peak_memory


def test_both_doors_see_the_same_checkpoints():
    reports = []
    for door in DOORS:
        model = Checkpointed()
        call, report_of = planned_by(door, model, (X,), "100%")
        step_of(call, model, X)
        reports.append(report_of().references.today)
    assert reports[0].peak_memory == reports[1].peak_memory
    assert reports[0].overhead == reports[1].overhead


def test_after_a_region_nothing_is_marked():
    model = nn.Sequential(Checkpointed(blocks=1))
    captured = remat.capture(model, (X,))
    marked = [each.name for each in captured.operators if each is not None and each.meta.get("ac_graph_id") is not None]
    assert "addmm_1" in marked
    assert "mean" not in marked


def test_a_model_without_checkpoints_is_as_it_is():
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    planned = remat.rematerialize(model, (X,), "today")
    assert planned.report.references.today is None
    assert planned.plan.peak_memory == planned.report.references.one_pass.peak_memory
    assert repr(planned).startswith("Rematerialized(budget 'today'")


def test_a_share_is_of_the_lowest_order_of_one_pass():
    """Long lines that end in a number, of which the model makes all before it reads one."""

    class Lines(nn.Module):
        def forward(self, x):
            lines = [x * i for i in range(2, 12)]
            return sum(line.mean() for line in lines)

    with torch.no_grad():
        x = torch.ones(64, 64)
    model = Lines()
    weight = nn.Parameter(torch.ones(()))
    model.register_parameter("weight", weight)
    report = remat.rematerialize(nn.Sequential(Scaled(), model), (x,), "100%").report
    own = report.references.one_pass.peak_memory
    graph = report.plan.graph
    assert own < ra.simulate(graph, list(range(graph.n_nodes))).peak_memory
    assert report.plan.limit == own
    assert "in a beam search's order" in " ".join(str(report).split())


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.scale


# ---------------------------------------------------------------- published models


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5", "whisper", "vit", "mixtral", "mamba"])
def test_published_models_are_no_worse_than_with_their_checkpoints(name):
    pytest.importorskip("transformers", reason="transformers is not installed")
    check_published(make(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen2", "GPTNeoX", "Phi"])
def test_more_published_models(name):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    sizes["num_key_value_heads"] = 2
    config = getattr(transformers, f"{name}Config")(**sizes, vocab_size=100, use_cache=False)
    tokens = torch.randint(3, 100, (4, 24))
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    check_published(Case(model, (), {"input_ids": tokens, "labels": tokens}))


def check_published(case):
    """Within today's peak and compute, and equal to what PyTorch runs of the same graph."""
    case.model.gradient_checkpointing_enable()

    def step(call):
        torch.manual_seed(3)
        case.model.zero_grad()
        call(*case.inputs, **case.keywords).loss.backward()
        return [parameter.grad.clone() for parameter in case.model.parameters() if parameter.grad is not None]

    torch.compiler.reset()
    expected = step(torch.compile(case.model, backend="aot_eager", dynamic=False))
    planned = remat.rematerialize(case.model, case.inputs, "today", keywords=case.keywords)
    assert all(map(torch.equal, step(planned), expected))
    today, plan = planned.report.references.today, planned.plan
    assert plan.peak_memory <= today.peak_memory < planned.report.references.one_pass.peak_memory
    assert plan.overhead < today.overhead


# ---------------------------------------------------------------- regions of a graph


def test_what_gradients_alone_need_does_not_start_a_region_early():
    """Indices that a router keeps for the backward part stand in the forward part, and no result rests on them."""

    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.ModuleList(nn.Linear(32, 8) for _ in range(4))
            self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

        def forward(self, x):
            for gate, block in zip(self.gates, self.blocks, strict=True):
                x = checkpoint(self.route, gate, block, x, use_reentrant=False)
            return x.square().mean()

        def route(self, gate, block, x):
            weights, _ = gate(x).softmax(-1).topk(2)
            return x + block(x).tanh() * weights.sum(-1, keepdim=True).exp()

    references = References.of(remat.capture(Routed(), (X,)))
    order = references.today.schedule.order.tolist()
    boundary = order.index(references.one_pass.graph.node_names().index("boundary"))
    assert len(set(order[:boundary])) == boundary  # nothing runs again before it
    assert references.today.peak_memory < 0.7 * references.one_pass.peak_memory


@pytest.mark.parametrize("size", [1, 2, 3])
def test_regions_run_again_once_and_what_leaves_them_stays(size):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8 - 1)]))
    n_forward = int(graph.forward.sum())
    boundary = n_forward  # the first gradient stands for it
    regions = [((v // size,), True) if v < n_forward else ((), False) for v in range(graph.n_nodes)]
    order = _by_regions(graph, boundary, regions)
    if size == 1:  # every value leaves its region
        assert order is None
        return
    simulation = ra.simulate(graph, order)
    assert simulation.runs.max() == 2
    again = {v for v in range(graph.n_nodes) if simulation.runs[v] == 2}
    leaves = {v for v in range(n_forward) if (v + 1) % size == 0}
    assert again
    assert again.isdisjoint(leaves)
    assert simulation.peak_memory < ra.simulate(graph, list(range(graph.n_nodes))).peak_memory


def test_without_regions_there_is_no_order():
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(4 - 1)]))
    assert _by_regions(graph, int(graph.forward.sum()), [((), False)] * graph.n_nodes) is None
