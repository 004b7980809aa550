"""Models of PyTorch that plans are tried on, small versions of what people train, and steps with and without a plan."""

import math

import torch
from torch import nn
from torch.nn import functional as f

from remat_algos.interop import torch as remat


def conv_block(inner, outer, stride=1):
    return nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride=1):
        super().__init__()
        outer = 4 * width
        self.convs = nn.Sequential(
            *(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *conv_block(width, width, stride),
            *(nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)),
        )
        shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
        self.shortcut = nn.Sequential(*shortcut) if stride != 1 or inner != outer else nn.Identity()

    def forward(self, x):
        return torch.relu(self.convs(x) + self.shortcut(x))


class ResNet(nn.Module):
    """he2016, table 1: four stages of bottlenecks; (3, 4, 6, 3) is ResNet-50."""

    def __init__(self, depths=(3, 4, 6, 3), width=64, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages, inner = [], width
        for stage, depth in enumerate(depths):
            for place in range(depth):
                stages.append(Bottleneck(inner, width << stage, 2 if stage and not place else 1))
                inner = 4 * (width << stage)
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inner, classes)

    def forward(self, x, target):
        return f.cross_entropy(self.head(self.stages(self.stem(x)).mean((2, 3))), target)


class UNet(nn.Module):
    """Depth 3: down and up with the maps of the way down."""

    def __init__(self, width=16, depth=3, classes=2):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            nn.Sequential(conv_block(a, b), conv_block(b, b)) for a, b in zip([3, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * b, b, 2, 2) for b in reversed(widths[:-1]))
        self.join = nn.ModuleList(nn.Sequential(conv_block(2 * b, b), conv_block(b, b)) for b in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, target):
        maps = []
        for level, block in enumerate(self.down):
            x = block(f.max_pool2d(x, 2) if level else x)
            maps.append(x)
        for up, join, passed in zip(self.up, self.join, reversed(maps[:-1]), strict=True):
            x = join(torch.cat([up(x), passed], 1))
        return f.cross_entropy(self.head(x), target)


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.inner(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = f.dropout(scores.masked_fill(hidden, -math.inf).softmax(-1), self.dropout)
        return self.outer((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Experts(nn.Module):
    """Each token goes to the best two of the experts, of which each takes no more than its share and a half."""

    def __init__(self, width, experts=4, capacity=1.5):
        super().__init__()
        self.gate, self.capacity = nn.Linear(width, experts), capacity
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(experts)
        )

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights = self.gate(tokens).softmax(-1)
        best, chosen = weights.topk(2, -1)
        share = torch.zeros_like(weights).scatter(1, chosen, best)
        count = int(self.capacity * 2 * len(tokens) / len(self.experts))
        result = torch.zeros_like(tokens)
        for e, expert in enumerate(self.experts):
            weight, taken = share[:, e].topk(min(count, len(tokens)))
            result = result.index_add(0, taken, expert(tokens[taken]) * weight[:, None])
        return result.view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, dropout, experts):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads, dropout)
        dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.body, self.dropout = Experts(width) if experts else dense, dropout

    def forward(self, x):
        x = x + f.dropout(self.attention(self.norms[0](x)), self.dropout)
        return x + f.dropout(self.body(self.norms[1](x)), self.dropout)


class GPT(nn.Module):
    """Four blocks; with experts the mixture of experts."""

    def __init__(self, layers=4, width=128, heads=4, length=64, count=512, dropout=0.1, experts=False):
        super().__init__()
        self.words, self.places = nn.Embedding(count, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads, dropout, experts) for _ in range(layers)))
        self.norm, self.head, self.dropout = nn.LayerNorm(width), nn.Linear(width, count, bias=False), dropout

    def forward(self, tokens, target):
        x = f.dropout(self.words(tokens) + self.places, self.dropout)
        return f.cross_entropy(self.head(self.norm(self.blocks(x))).flatten(0, 1), target.flatten())


class LSTM(nn.Module):
    """A cell, unrolled."""

    def __init__(self, width=128, steps=32):
        super().__init__()
        self.steps = steps
        self.x, self.h, self.head = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width), nn.Linear(width, 1)

    def forward(self, x, target):
        h = c = torch.zeros_like(x[0])
        for t in range(self.steps):
            i, forget, g, o = (self.x(x[t]) + self.h(h)).chunk(4, -1)
            c = forget.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return (self.head(h).squeeze(-1) - target).square().mean()


def images(batch, size, classes, dense=False):
    shape = (batch, size, size) if dense else (batch,)
    return torch.randn(batch, 3, size, size), torch.randint(classes, shape)


class Made(nn.Module):
    """A module of these parts, whose forward pass is a function of it and the inputs."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def words(batch=8, length=64, count=512):
    return torch.randint(count, (batch, length)), torch.randint(count, (batch, length))


MODELS = {
    "resnet50": (ResNet, lambda: images(32, 64, 1000)),
    "unet": (UNet, lambda: images(4, 64, 2, dense=True)),
    "gpt": (GPT, words),
    "moe": (lambda: GPT(experts=True), words),
    "lstm": (LSTM, lambda: (torch.randn(32, 64, 128), torch.randn(64))),
}

SMALL = {
    "small unet": (lambda: UNet(width=8, depth=1), lambda: images(2, 32, 2, dense=True)),
    "small gpt": (lambda: GPT(layers=1, width=32, length=16, count=64), lambda: words(8, 16, 64)),
}


def make(name):
    """A model and its inputs, always the same."""
    torch.manual_seed(1)
    model, inputs = (MODELS | SMALL)[name]
    return model(), inputs()


# ---------------------------------------------------------------- steps with and without a plan

DOORS = ("rematerialize", "compile")


def planned_by(door, model, inputs, budget, **options):
    """What runs a model by a plan, and a function that gives its last report."""
    if door == "rematerialize":
        call = remat.rematerialize(model, inputs, budget, **options)
        return call, lambda: call.report
    backend = remat.backend(budget, **options)
    return torch.compile(model, backend=backend, dynamic=False), lambda: backend.reports[-1]


def step_of(call, model, *args, seed=3, **kwargs):
    """Loss, gradients and buffers of one step."""
    torch.manual_seed(seed)
    model.zero_grad()
    loss = call(*args, **kwargs)
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [loss.detach().clone(), *gradients, *(buffer.clone() for buffer in model.buffers())]


def assert_equal(one, other):
    assert len(one) == len(other)
    assert all(map(torch.equal, one, other))
