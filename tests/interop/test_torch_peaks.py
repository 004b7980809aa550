"""The predicted peak of a plan is that of the real step, for blocks of every kind and for random ones."""

import contextlib
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as f
from torch.utils.checkpoint import checkpoint

from remat_algos.interop.torch.checkpoints import CheckpointPlan, _selected, plan_checkpoints
from remat_algos.interop.torch.eager_capture import capture_step
from remat_algos.plan.policy import Policy
from tests.interop.test_torch_eager_capture import random_policy
from tests.interop.torch_step_peak import step_peak

WIDTH = 16
AUTOCAST = partial(torch.autocast, "cpu", torch.bfloat16)


class Part(nn.Module):
    """A block with a norm and two layers, which a function calls."""

    def __init__(self, function):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(2 * WIDTH))
        self.function = function

    def forward(self, x):
        return x + self.down(self.scale * self.function(self, self.up(self.norm(x))))


class Parts(nn.Module):
    def __init__(self, *functions):
        super().__init__()
        self.layers, self.head = nn.ModuleList(map(Part, functions)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).square().mean()


def gelu(part, y):
    return f.gelu(y)


def detached_branch(part, y):
    """Autograd saves values of a branch that no gradient reaches; the norm of DoRA is like that."""
    norm = (part.up.weight.sin().exp() * 2).detach().square().sum(1).sqrt()
    return y.tanh() / norm


def unused_branch(part, y):
    other = f.gelu(y.sin()).exp()
    assert other.requires_grad
    return y.sigmoid()


def without_gradients(part, y):
    with torch.no_grad():
        scale = 1 + y.abs().amax(-1, keepdim=True) + y.square().mean(0)
    return y / scale


def spread(part, y):
    """Gradients are summed where a small factor was spread, after the product freed what it unpacked."""
    gate = y.mean(-1, keepdim=True).sigmoid()
    return (part.scale - 1) * (y - part.up.bias) * gate + (1 - gate) * y


def in_place(part, y):
    return f.dropout(y.mul(2).add_(1).relu_(), 0.1)


def views(part, y):
    first, second = y.chunk(2, -1)
    return torch.cat([second.sin(), first.transpose(0, 1).contiguous().transpose(0, 1)], -1)


def reuse(part, y):
    return y * y.sigmoid() * y.tanh() + y


def tuples(part, y):
    values, places = y.sort(-1)
    top, _ = values.max(-1, keepdim=True)
    return values.gather(-1, places) / (1 + top.abs())


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate = x.sigmoid()
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, gradient):
        x, gate = ctx.saved_tensors
        return gradient * gate * (1 + x * (1 - gate))


def own_function(part, y):
    return Swish.apply(y)


def loop(part, y):
    state, found = torch.zeros_like(y[0]), []
    for each in y.unbind(0)[:8]:
        state = torch.tanh(each + state)
        found.append(state)
    return torch.cat([torch.stack(found), y[8:]])


def layers_twice(part, y):
    """The first gradients of the weights are views, into which the engine adds nothing."""
    return part.up(part.norm(part.down(y)))


def checkpoint_inside(part, y):
    return checkpoint(lambda z: f.gelu(z.sin()), y, use_reentrant=False)


KINDS = [
    gelu, detached_branch, unused_branch, without_gradients, spread, in_place, views, reuse, tuples, own_function, loop,
    layers_twice, checkpoint_inside,
]  # fmt: skip


def assert_peaks(model, x, context=contextlib.nullcontext, seed=0):
    """Random policies have the peak of real steps, storage by storage."""
    rng = np.random.default_rng(seed)
    with context():
        captured = capture_step(model, (x,))
    for _ in range(2):
        decisions, stays, _ = random_policy(captured, rng)
        decisions = ["keep" if b in captured.blocks.refusals else each for b, each in enumerate(decisions)]
        # the rest of a block does not run again, so a plan has no reason to save it
        for members, end in zip(captured.blocks.members, captured.blocks.rerun_end, strict=True):
            stays[members[members >= end]] = False
        policy = Policy.of(captured.graph, captured.blocks, decisions, stays, holds=captured.holds)
        with CheckpointPlan(_selected(policy, captured)).apply(model):
            assert step_peak(model, (x,), context) == policy.peak_memory


@pytest.mark.parametrize("autocast", [False, True], ids=["plain", "autocast"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_policy_has_the_peak_of_the_step(kind, autocast):
    context = AUTOCAST if autocast else contextlib.nullcontext
    assert_peaks(Parts(*[kind] * 3), torch.randn(32, WIDTH), context, KINDS.index(kind))


@pytest.mark.parametrize(
    ("make", "takes"),
    [
        (lambda: (Parts(gelu), torch.randn(32, WIDTH)), False),
        (lambda: (Parts(gelu).bfloat16(), torch.randn(32, WIDTH).bfloat16()), True),
        (lambda: (nn.Sequential(nn.Conv1d(4, 4, 3), nn.ReLU()), torch.randn(2, 4, 8)), True),
    ],
    ids=["linear", "bfloat16", "convolution"],
)
def test_the_report_says_that_scratch_memory_of_the_cpu_is_not_counted(make, takes):
    model, x = make()
    plans = [plan_checkpoints(model, (x,), "100%", loss=torch.sum, workspace=each) for each in (False, True)]
    assert ["oneDNN allocates" in " ".join(str(plan).split()) for plan in plans] == [takes, False]
