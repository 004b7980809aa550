"""Vectors, sets, graphs and tables."""

import math

import torch
from torch import nn
from torch.nn import functional as f
from torch.nn.utils import parametrizations

from tests.interop.torch_models import words
from tests.interop.torch_zoo.cases import case
from tests.interop.torch_zoo.layers import Loss, Residual, feed_forward


@case("dropout at each layer")
def mlp():
    layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2))]
    return Loss(nn.Sequential(*layers)), (torch.randn(512, 64),)


class DeepSets(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.all = nn.Sequential(nn.Linear(2 * width, width), nn.ELU(), nn.Linear(width, 1))

    def forward(self, points, present):
        each = self.each(points).masked_fill(~present[..., None], -math.inf)
        pooled = torch.cat([each.amax(1), each.masked_fill(~present[..., None], 0).sum(1)], -1)
        return self.all(pooled).square().mean()


@case("a maximum over what a mask leaves")
def deep_sets():
    return DeepSets(), (torch.randn(32, 50, 3), torch.arange(50) < torch.randint(1, 50, (32, 1)))


class Graph(nn.Module):
    """Messages along edges, weighted by a softmax over those that reach a node."""

    def __init__(self, width=32, layers=4):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * width, width + 1) for _ in range(layers))

    def forward(self, x, edges):
        source, target = edges
        for message in self.messages:
            y = message(torch.cat([x[source], x[target]], -1))
            score = y[:, -1].exp()
            total = torch.zeros(len(x)).index_add(0, target, score)
            weighted = y[:, :-1].tanh() * (score / total[target])[:, None]
            x = x + torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(weighted), weighted)
        return x.square().mean()


@case("gathers and scattered sums")
def gnn():
    return Graph(), (torch.randn(200, 32), torch.randint(200, (2, 1000)))


class DLRM(nn.Module):
    def __init__(self, fields=8, width=16):
        super().__init__()
        self.fields = nn.ModuleList(nn.EmbeddingBag(100, width, mode="sum") for _ in range(fields))
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = torch.tril_indices(fields + 1, fields + 1, -1)
        self.register_buffer("pairs", pairs, persistent=False)
        self.top = nn.Sequential(nn.Linear(width + pairs.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, rows, clicks):
        x = self.dense(numbers)
        each = torch.stack([x, *(table(row) for table, row in zip(self.fields, rows, strict=True))], 1)
        products = (each @ each.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return f.binary_cross_entropy_with_logits(self.top(torch.cat([x, products], 1))[:, 0], clicks)


@case("tables of embeddings and a constant buffer of indices")
def dlrm():
    return DLRM(), (torch.randn(256, 13), torch.randint(100, (8, 256, 3)), torch.rand(256).round())


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(200, 32, mode=mode) for mode in ("mean", "sum", "max"))
        self.head = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, tokens, starts, target):
        return f.cross_entropy(self.head(torch.cat([bag(tokens, starts) for bag in self.bags], 1)), target)


@case("dense gradients of means, sums and maxima")
def embedding_bag():
    return Bags(), (torch.randint(200, (500,)), torch.arange(0, 500, 5), torch.randint(4, (100,)))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2))

    def forward(self, anchor, near, far):
        return f.triplet_margin_loss(*(self.body(each).mean((2, 3)) for each in (anchor, near, far)))


@case("one network, and its statistics, three times")
def siamese():
    return Siamese(), tuple(torch.randn(3, 8, 3, 32, 32))


class MoCo(nn.Module):
    """A second encoder that follows the first, and a queue of its earlier results."""

    def __init__(self, width=32, length=64):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, width))
        self.key = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, width)).requires_grad_(False)
        self.register_buffer("queue", f.normalize(torch.randn(length, width)))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def forward(self, x, y):
        q = f.normalize(self.query(x), dim=1)
        with torch.no_grad():
            for one, other in zip(self.query.parameters(), self.key.parameters(), strict=True):
                other.mul_(0.9).add_(one, alpha=0.1)
            k = f.normalize(self.key(y), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().t()], 1) / 0.2
        with torch.no_grad():
            self.queue.index_copy_(0, (self.place + torch.arange(len(k))) % len(self.queue), k)
            self.place.add_(len(k)).remainder_(len(self.queue))
        return f.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


@case("parameters and a queue that the forward pass writes into")
def moco_queue():
    return MoCo(), (torch.randn(16, 48), torch.randn(16, 48))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(100, 64), nn.Linear(64, 100, bias=False)
        self.body = nn.Sequential(*(Residual(*feed_forward(64)) for _ in range(3)))
        self.head.weight = self.words.weight

    def forward(self, tokens, target):
        return f.cross_entropy(self.head(self.body(self.words(tokens))).flatten(0, 1), target.flatten())


@case("one weight as embedding and as head")
def tied_weights():
    return Tied(), words(8, 32, 100)


class RoundedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (x * scale).round() / scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return torch.where((x * scale).abs() < 8, gradient, 0), None


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
        self.register_buffer("scale", torch.tensor(4.0))

    def forward(self, x):
        for layer in self.layers:
            x = RoundedGradient.apply(layer(x), self.scale).tanh()
        return x.square().mean()


@case("a gradient that is not that of what ran")
def autograd_function():
    return Quantized(), (torch.randn(256, 64),)


def normalized(norm, *layers):
    return nn.Sequential(*(part for layer in layers for part in (norm(layer), nn.LeakyReLU(0.2))))


@case("buffers of a power iteration, written and read in each call")
def spectral_norm():
    layers = nn.Conv2d(3, 16, 3, 2), nn.Conv2d(16, 32, 3, 2), nn.Conv2d(32, 32, 3, 2)
    return Loss(normalized(parametrizations.spectral_norm, *layers)), (torch.randn(8, 3, 32, 32),)


@case("weights that are computed from others")
def weight_norm():
    layers = (nn.Conv1d(16, 16, 3, padding=1) for _ in range(4))
    return Loss(normalized(parametrizations.weight_norm, *layers)), (torch.randn(16, 16, 64),)


class Ensemble(nn.Module):
    """Eight networks with stacked parameters."""

    def __init__(self, count=8, width=32):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(count, width, width) / 6 for _ in range(4))

    def forward(self, x):
        def one(*weights):
            y = x
            for weight in weights:
                y = (y @ weight).tanh()
            return y

        return torch.vmap(one)(*self.weights).mean(0).square().mean()


@case("torch.vmap over stacked weights")
def vmap():
    return Ensemble(), (torch.randn(128, 32),)


class Potential(nn.Module):
    """Forces as the gradient of an energy, inside the forward pass."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(9, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, places, forces):
        found = -torch.func.grad(lambda x: self.energy(x).sum())(places)
        return f.mse_loss(found, forces)


@case("a gradient inside the forward pass, by torch.func.grad")
def forces():
    return Potential(), (torch.randn(128, 9), torch.randn(128, 9))


class Flow(nn.Module):
    """Affine couplings, and the determinants of an invertible layer."""

    def __init__(self, width=16, depth=4):
        super().__init__()
        half = width // 2
        self.couplings = nn.ModuleList(
            nn.Sequential(nn.Linear(half, 64), nn.ReLU(), nn.Linear(64, width)) for _ in range(depth)
        )
        self.mixes = nn.ParameterList(torch.linalg.qr(torch.randn(width, width))[0] for _ in range(depth))

    def forward(self, x):
        total = 0
        for coupling, mix in zip(self.couplings, self.mixes, strict=True):
            one, two = (x @ mix).chunk(2, 1)
            scale, shift = coupling(one).chunk(2, 1)
            x = torch.cat([one, two * scale.tanh().exp() + shift], 1)
            total = total + scale.tanh().sum(1) + torch.linalg.slogdet(mix)[1]
        return (x.square().sum(1) / 2 - total).mean()


@case("log-determinants")
def normalizing_flow():
    return Flow(), (torch.randn(256, 16),)


class ODE(nn.Module):
    def __init__(self, width=32, steps=6):
        super().__init__()
        self.steps, self.rate = steps, nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))

    def forward(self, x):
        h = 1 / self.steps
        for _ in range(self.steps):
            k1 = self.rate(x)
            k2 = self.rate(x + h / 2 * k1)
            k3 = self.rate(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + self.rate(x + h * k3))
        return x.square().mean()


@case("one network 24 times, in steps of Runge and Kutta")
def neural_ode():
    return ODE(), (torch.randn(128, 32),)
