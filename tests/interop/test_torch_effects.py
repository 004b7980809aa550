"""Calls that have effects: each runs once, in the order of the model, and results are those of eager PyTorch."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from remat_algos.interop import torch as remat
from tests.interop.torch_models import DOORS, assert_equal, planned_by

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
WIDTH, ROWS = 8, 32
CALLS: list[str] = []


@torch.library.custom_op("remat_test::note", mutates_args=())
def note(x: torch.Tensor, name: str) -> None:
    CALLS.append(name)


@note.register_fake
def _(x, name):
    return None


effects = torch._higher_order_ops.effects
effects._register_effectful_op(torch.ops.remat_test.note.default, effects._EffectType.ORDERED)


@torch.library.custom_op("remat_test::fill", mutates_args={"into"})
def fill(into: torch.Tensor, x: torch.Tensor) -> None:
    CALLS.append("fill")
    into.copy_(x)


@torch.library.custom_op("remat_test::accumulate", mutates_args={"total", "count"})
def accumulate(total: torch.Tensor, count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total.add_(x)
    count.add_(1)
    return x.sum()


@accumulate.register_fake
def _(total, count, x):
    return x.new_empty(())


class Inverse(torch.autograd.Function):
    """Effects in the backward part."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient @ torch.linalg.inv(gram(x))


def gram(x):
    return x.T @ x + torch.eye(WIDTH)


def one_hot(x):
    chosen = f.one_hot(x.argmax(-1), WIDTH).float()
    return (x * chosen).relu()


def assertion(x):
    torch._assert_async(x.detach().isfinite().all(), "finite")
    return x.tanh()


def experts(x):
    """A mixture of two of four experts, by hand."""
    chosen = x[:, :4].softmax(-1).topk(2)
    mask = f.one_hot(chosen.indices, 4).permute(2, 1, 0)
    parts = [(x.roll(i, 1).tanh() * (mask[i] * chosen.values.T).sum(0)[:, None]) for i in range(4)]
    return sum(parts)


def noted(x):
    note(x, "first")
    y = x.sin()
    note(y, "second")
    return y.exp()


def filled(x):
    into = torch.zeros_like(x)
    fill(into, x.detach().abs())
    return x * into


def accumulated(x):
    total, count = torch.zeros_like(x), torch.zeros(())
    return x * total.cos() + accumulate(total, count, x.detach()) * count + x * total


STEPS = {each.__name__: each for each in (one_hot, assertion, experts, noted, filled, accumulated)} | {
    "cholesky": lambda x: x @ torch.linalg.cholesky(gram(x)),
    "two of them": lambda x: torch.linalg.solve(torch.linalg.cholesky(gram(x)), x.T).T.sin(),
    "effects in both parts": lambda x: Inverse.apply(x @ torch.linalg.inv(gram(x))),
}


class Net(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.first, self.second, self.step = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), step

    def forward(self, x):
        return self.step(self.second(self.step(self.first(x)).tanh()).sin()).square().mean()


def trained(call, model, x):
    CALLS.clear()
    loss = call(x)
    loss.backward()
    return [loss.detach(), *(each.grad for each in model.parameters())], list(CALLS)


@pytest.mark.parametrize("name", STEPS)
def test_effects_run_once_and_results_are_those_of_eager(name):
    torch.manual_seed(0)
    model, x = Net(STEPS[name]), torch.randn(ROWS, WIDTH)
    eager = copy.deepcopy(model)
    expected, calls = trained(eager, eager, x)
    for door in DOORS:
        own = copy.deepcopy(model)
        call, _ = planned_by(door, own, (x,), "50%", solver="greedy_remat")
        actual, own_calls = trained(call, own, x)
        assert_equal(actual, expected)
        assert own_calls == calls


def test_the_boundary_waits_for_an_effect_and_the_effect_runs_once():
    graph = remat.capture(Net(assertion), (torch.randn(ROWS, WIDTH),)).graph
    names = graph.node_names()
    effects = [v for v, name in enumerate(names) if "_assert_async" in name]
    assert len(effects) == 2
    assert graph.once[effects].all()
    assert graph.needed[effects].all()
    assert set(graph.reads(names.index("boundary"))) & set(graph.values(effects[1]))


def test_the_sizes_of_an_opaque_call_are_those_of_its_results():
    model = remat.capture(Net(accumulated), (torch.randn(ROWS, WIDTH),))
    graph = model.graph
    opaque = [v for v, each in enumerate(model.operators) if each is not None and "functionalized" in str(each.target)]
    assert len(opaque) == 2
    for v in opaque:
        assert graph.once[v]
        assert sorted(graph.memory[list(graph.values(v))].tolist()) == [4, 4, 4 * ROWS * WIDTH]
