"""What a model is called with and what it returns, what its Python does, and checkpoints in it."""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from tests.interop.torch_zoo.cases import AOT_EAGER, case
from tests.interop.torch_zoo.layers import Loss, Residual, feed_forward


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.heads = nn.Sequential(*(Residual(*feed_forward(32)) for _ in range(3))), nn.Linear(32, 6)

    def forward(self, x):
        x = self.body(x)
        boxes, scores = self.heads(x).split((4, 2), -1)
        return {"boxes": boxes, "scores": scores.softmax(-1), "features": x.detach()}


@case("three results in a mapping, two of them parts of one tensor; the loss is outside")
def several_outputs():
    return Two(), (torch.randn(16, 20, 32),)


@case("gradients of an input")
def input_gradients():
    layers = [layer for _ in range(5) for layer in (nn.Linear(64, 64), nn.Softplus())]
    return Loss(nn.Sequential(*layers)), (torch.randn(256, 64, requires_grad=True),)


class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(Residual(*feed_forward(64)) for _ in range(4)))

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.body(x).float().square().mean()


@case("operators in bfloat16", reference=AOT_EAGER)
def autocast():
    return Cast(), (torch.randn(16, 16, 64),)


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(*(Residual(*feed_forward(32)) for _ in range(2))) for _ in range(2))

    def forward(self, x):
        x = self.parts[0](x)
        if x.abs().amax().item() > 1e6:
            x = x / 2
        x = self.parts[1](x)
        if x.abs().amax().item() > 1e6:
            x = x / 2
        return x.square().mean()


@case("Python that looks at two numbers, three graphs", one_graph=False)
def graph_breaks():
    return Breaks(), (torch.randn(16, 16, 32),)


class BreaksInLoop(Breaks):
    def forward(self, x):
        for part in self.parts:
            x = part(x)
            if x.abs().amax().item() > 1e6:
                x = x / 2
        return x.square().mean()


@case("Python that looks at a number in a loop, of which PyTorch captures the blocks alone", one_graph=False)
def graph_breaks_in_a_loop():
    return BreaksInLoop(), (torch.randn(16, 16, 32),)


# ---------------------------------------------------------------- checkpoints


class Checkpointed(nn.Module):
    def __init__(self, blocks, context_fn=None, use_reentrant=False):
        super().__init__()
        self.first, self.blocks = nn.Linear(32, 32), nn.ModuleList(blocks)
        self.options = {"use_reentrant": use_reentrant}
        if context_fn:
            self.options["context_fn"] = context_fn

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x.square().mean()


def dropped_blocks(count=3):
    return [nn.Sequential(Residual(*feed_forward(32), nn.Dropout(0.2))) for _ in range(count)]


@case("dropout inside")
def checkpoint_dropout():
    return Checkpointed(dropped_blocks()), (torch.randn(16, 16, 32),)


@case("dropout inside, use_reentrant=True")
def checkpoint_reentrant():
    return Checkpointed(dropped_blocks(), use_reentrant=True), (torch.randn(16, 16, 32),)


@case("statistics, written once in a step; eager writes them twice", reference=AOT_EAGER)
def checkpoint_batch_norm():
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()) for _ in range(3)]
    return Checkpointed(blocks), (torch.randn(256, 32),)


def keep_products(context, operator, *args, **kwargs):
    kept = operator in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


@case("a policy that keeps products")
def checkpoint_selective():
    contexts = partial(create_selective_checkpoint_contexts, keep_products)
    return Checkpointed(dropped_blocks(), contexts), (torch.randn(16, 16, 32),)
