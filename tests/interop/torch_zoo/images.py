"""Images."""

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as f

from tests.interop.torch_zoo.cases import AOT_EAGER, case
from tests.interop.torch_zoo.layers import Attend, Loss, Residual, feed_forward


class ConvNeXtBlock(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.spread = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.body, self.drop = nn.Sequential(*feed_forward(width)), drop
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = (self.scale * self.body(self.spread(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        kept = torch.empty(len(x), 1, 1, 1).bernoulli_(1 - self.drop)
        return x + y * kept / (1 - self.drop)


@case("whole paths dropped, drawn in place")
def convnext_drop_path():
    blocks = [ConvNeXtBlock(24, 0.1 * i) for i in range(4)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
    return Loss(nn.Sequential(nn.Conv2d(3, 24, 4, 4), *blocks, *head)), (torch.randn(8, 3, 64, 64),)


class Windows(nn.Module):
    """Attention within windows, with a bias for each distance; every second time the windows are shifted."""

    def __init__(self, width=32, heads=2, window=4, shift=0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        places = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        offset = places[:, None] - places[None] + window - 1
        self.register_buffer("distance", offset[..., 0] * (2 * window - 1) + offset[..., 1], persistent=False)

    def forward(self, x):
        batch, height, wide, width = x.shape
        w = self.window
        x = x.roll((-self.shift, -self.shift), (1, 2))
        x = x.view(batch, height // w, w, wide // w, w, width).transpose(2, 3).reshape(-1, w * w, width)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.bias[self.distance].permute(2, 0, 1)
        x = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x.view(batch, height // w, wide // w, w, w, width).transpose(2, 3).reshape(batch, height, wide, width)
        return x.roll((self.shift, self.shift), (1, 2))


@case("windows by views and rolls, a bias gathered from a table")
def swin():
    blocks = (Residual(nn.LayerNorm(32), Windows(shift=2 * (i % 2))) for i in range(4))
    bodies = (Residual(*feed_forward(32)) for _ in range(4))
    layers = [layer for pair in zip(blocks, bodies, strict=True) for layer in pair]
    return Loss(nn.Sequential(*layers)), (torch.randn(4, 16, 16, 32),)


class Denoiser(nn.Module):
    """A U-Net that attends to a text, and knows how much noise there is."""

    def __init__(self, width=16):
        super().__init__()
        wide = 2 * width
        self.time = nn.Sequential(nn.Linear(width, wide), nn.SiLU(), nn.Linear(wide, wide))
        self.down = nn.ModuleList([nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, wide, 3, 2, 1)])
        self.norm, self.cross = nn.GroupNorm(4, wide), Attend(wide, 4, 24)
        self.middle = nn.Conv2d(wide, wide, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(wide, width, 4, 2, 1), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, clean, text, level):
        noise = torch.randn_like(clean)
        angle = level[:, None] * torch.arange(1, 9) / 8
        when = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x = clean * level.cos().view(-1, 1, 1, 1) + noise * level.sin().view(-1, 1, 1, 1)
        first = f.silu(self.down[0](x))
        y = f.silu(self.norm(self.down[1](first)) + when[:, :, None, None])
        seen = self.cross(y.flatten(2).transpose(1, 2), text).transpose(1, 2).view_as(y)
        y = self.up(f.silu(self.middle(y + seen)))
        return f.mse_loss(self.out(torch.cat([y, first], 1)), noise)


@case("cross attention, and noise drawn inside")
def unet_cross_attention():
    return Denoiser(), (torch.randn(4, 3, 32, 32), torch.randn(4, 12, 24), torch.rand(4))


def group_norm_block(inner, outer):
    layers = nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(4, outer), nn.ReLU(inplace=True)
    return nn.Sequential(*layers, Residual(nn.Conv2d(outer, outer, 3, padding=1), nn.GroupNorm(4, outer)), nn.ReLU())


@case("operators in place")
def resnet_group_norm():
    blocks = group_norm_block(3, 16), nn.MaxPool2d(2), group_norm_block(16, 32), nn.AdaptiveAvgPool2d(1)
    return Loss(nn.Sequential(*blocks)), (torch.randn(8, 3, 32, 32),)


@case("running statistics of each image")
def instance_norm():
    norm = partial(nn.InstanceNorm2d, affine=True, track_running_stats=True)
    layers = [nn.Conv2d(3, 16, 3), norm(16), nn.ReLU(), nn.Conv2d(16, 16, 3), norm(16), nn.ReLU()]
    return Loss(nn.Sequential(*layers)), (torch.randn(8, 3, 32, 32),)


class Capsules(nn.Module):
    """Routing by agreement, three times."""

    def __init__(self, inner=64, outer=10, width=8):
        super().__init__()
        self.first, self.votes = nn.Conv2d(1, 64, 9, 2), nn.Parameter(torch.randn(inner, outer, width, 8) / 8)

    def forward(self, x, target):
        primary = self.first(x).flatten(1).view(len(x), -1, 8)[:, : len(self.votes)]
        votes = torch.einsum("bip,iowp->biow", primary, self.votes)
        agreement = torch.zeros(votes.shape[:3])
        for _ in range(3):
            y = (agreement.softmax(2)[..., None] * votes).sum(1)
            norm = y.square().sum(-1, keepdim=True)
            y = norm / (1 + norm) * y / (norm + 1e-6).sqrt()
            agreement = agreement + torch.einsum("biow,bow->bio", votes, y)
        return f.cross_entropy(y.norm(dim=-1), target)


@case("a loop that is unrolled, einsum")
def capsules():
    return Capsules(), (torch.randn(8, 1, 28, 28), torch.randint(10, (8,)))


class VAE(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2 * width))
        self.decode = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 256))

    def forward(self, x):
        normal = self.encode(x).chunk(2, 1)
        code = torch.distributions.Normal(normal[0], f.softplus(normal[1]), validate_args=False)
        image = self.decode(code.rsample())
        other = torch.distributions.Normal(torch.zeros(()), torch.ones(()), validate_args=False)
        divergence = torch.distributions.kl_divergence(code, other).sum(1).mean()
        return f.binary_cross_entropy_with_logits(image, x, reduction="none").sum(1).mean() + divergence


@case("a sample of a distribution")
def vae():
    return VAE(), (torch.rand(128, 256),)


class Warped(nn.Module):
    """The image is moved by a transformation that is learned."""

    def __init__(self):
        super().__init__()
        self.where = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 32), nn.Tanh(), nn.Linear(32, 6))
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.PixelUnshuffle(2), nn.Conv2d(32, 12, 3), nn.PixelShuffle(2))

    def forward(self, x):
        change = self.where(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        moved = f.grid_sample(x, f.affine_grid(change, x.shape, align_corners=False), align_corners=False)
        larger = f.interpolate(self.body(moved), scale_factor=2, mode="bilinear")
        return larger.square().mean()


@case("interpolation on a grid, pixels shuffled", reference=AOT_EAGER)
def spatial_transformer():
    return Warped(), (torch.randn(8, 3, 32, 32),)
