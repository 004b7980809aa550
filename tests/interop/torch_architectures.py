"""Small models built as those of libraries are: stages, towers, experts, skip connections."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

IMAGE = torch.linspace(-1, 1, 32 * 3 * 32 * 32).view(32, 3, 32, 32)
TOKENS = torch.linspace(-1, 1, 64 * 16 * 16).view(64, 16, 16)


def conv(inside, outside, kernel=3, stride=1, groups=1):
    return nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)


class Bottleneck(nn.Module):
    """As in torchvision."""

    def __init__(self, inside, width, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(inside, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inside != 4 * width:
            self.downsample = nn.Sequential(conv(inside, 4 * width, 1, stride), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + skip)


class ResNet(nn.Module):
    def __init__(self, depths=(2, 3, 2), width=8):
        super().__init__()
        self.conv1, self.bn1, self.relu = conv(3, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inside = width
        for i, depth in enumerate(depths):
            blocks = []
            for j in range(depth):
                blocks.append(Bottleneck(inside, width << i, 2 if i and not j else 1))
                inside = 4 * (width << i)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(inside, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(self.avgpool(x).flatten(1))


class Vgg(nn.Module):
    """As in torchvision: one sequence of operators."""

    def __init__(self):
        super().__init__()
        layers, inside = [], 3
        for width in (8, 8, 0, 16, 16, 0, 32, 32, 0):
            if width:
                layers += [conv(inside, width), nn.ReLU(inplace=True)]
                inside = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(32 * 16, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def perceptron():
    return nn.Sequential(*(each for _ in range(6) for each in (nn.Linear(16, 16), nn.ReLU())), nn.Linear(16, 4))


class Twice(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        pairs = [(conv(a, outside), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)) for a in (inside, outside)]
        self.double_conv = nn.Sequential(*(each for pair in pairs for each in pair))

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), Twice(inside, outside))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(inside, outside, 2, 2), Twice(2 * outside, outside)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class UNet(nn.Module):
    """Children by name."""

    def __init__(self, width=8, depth=4):
        super().__init__()
        self.depth, self.inc = depth, Twice(3, width)
        for i in range(depth):
            setattr(self, f"down{i + 1}", Down(width << i, width << i + 1))
            setattr(self, f"up{i + 1}", Up(width << depth - i, width << depth - i - 1))
        self.outc = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(self.depth):
            skips.append(getattr(self, f"down{i + 1}")(skips[-1]))
        x = skips.pop()
        for i in range(self.depth):
            x = getattr(self, f"up{i + 1}")(x, skips.pop())
        return self.outc(x)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, width), conv(width, width)
        self.norm2, self.conv2 = nn.GroupNorm(4, width), conv(width, width)

    def forward(self, x):
        x = self.conv1(functional.silu(self.norm1(x))) + x
        return self.conv2(functional.silu(self.norm2(x))) + x


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.project, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        q, k, v = self.project(tokens).chunk(3, -1)
        found = self.out((q @ k.transpose(1, 2)).softmax(-1) @ v)
        return x + found.transpose(1, 2).reshape(x.shape)


class Diffused(nn.Module):
    """A part of a UNet that calls two lists in turn, as in diffusers."""

    def __init__(self, width, attends):
        super().__init__()
        self.resnets = nn.ModuleList(Residual(width) for _ in range(2))
        self.attentions = nn.ModuleList(Attend(width) for _ in range(2 * attends))

    def forward(self, x):
        for i, each in enumerate(self.resnets):
            x = each(x)
            x = self.attentions[i](x) if self.attentions else x
        return x


class Diffusion(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv_in = conv(3, width)
        self.down_blocks = nn.ModuleList(Diffused(width, i > 0) for i in range(2))
        self.mid_block = Diffused(width, True)
        self.up_blocks = nn.ModuleList(Diffused(width, i < 1) for i in range(2))
        self.conv_out = conv(width, 3)

    def forward(self, x):
        x, skips = self.conv_in(x), []
        for each in self.down_blocks:
            skips.append(each(x))
            x = functional.avg_pool2d(skips[-1], 2)
        x = self.mid_block(x)
        for each in self.up_blocks:
            x = each(functional.interpolate(x, scale_factor=2) + skips.pop())
        return self.conv_out(x)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv_dw, self.norm = conv(width, width, 7, groups=width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(self.conv_dw(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvNextStage(nn.Module):
    def __init__(self, inside, width, depth):
        super().__init__()
        self.downsample = nn.Identity()
        if inside != width:
            self.downsample = nn.Sequential(nn.GroupNorm(1, inside), nn.Conv2d(inside, width, 2, 2))
        self.blocks = nn.Sequential(*(ConvNextBlock(width) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(self.downsample(x))


class ConvNext(nn.Module):
    """As in timm."""

    def __init__(self, depths=(2, 2, 4), width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 2, 2), nn.GroupNorm(1, width))
        self.stages = nn.Sequential(
            *(ConvNextStage(width << max(i - 1, 0), width << i, depth) for i, depth in enumerate(depths))
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(width << len(depths) - 1, 10))

    def forward(self, x):
        return self.head(self.stages(self.stem(x)))


class Layer(nn.Module):
    def __init__(self, width=16, crosses=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.cross = nn.MultiheadAttention(width, 2, batch_first=True) if crosses else None
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, other=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x if self.cross is None else x + self.cross(x, other, other, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    """As in torchvision: stages and the merging of patches in one sequence."""

    def __init__(self, depths=(2, 3, 2), width=8):
        super().__init__()
        parts = [nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.Flatten(2), Turn(), nn.LayerNorm(width))]
        for i, depth in enumerate(depths):
            parts += [Merge(width << i - 1)] if i else []
            parts.append(nn.Sequential(*(Layer(width << i) for _ in range(depth))))
        wide = width << len(depths) - 1
        self.features, self.norm, self.head = nn.Sequential(*parts), nn.LayerNorm(wide), nn.Linear(wide, 10)

    def forward(self, x):
        return self.head(self.norm(self.features(x)).mean(1))


class Turn(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width)

    def forward(self, x):
        return self.reduction(self.norm(x.reshape(len(x), -1, 4 * x.shape[-1])))


def activated(inside, outside, kernel=3, stride=1, groups=1):
    return nn.Sequential(conv(inside, outside, kernel, stride, groups), nn.BatchNorm2d(outside), nn.ReLU6(inplace=True))


class Inverted(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.adds, wide = stride == 1 and inside == outside, 6 * inside
        parts = [activated(inside, wide, 1), activated(wide, wide, 3, stride, wide)]
        self.conv = nn.Sequential(*parts, conv(wide, outside, 1), nn.BatchNorm2d(outside))

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNet(nn.Module):
    """As in torchvision."""

    def __init__(self):
        super().__init__()
        widths = (8, 8, 8, 12, 12, 12, 16, 16, 16)
        blocks = [Inverted(a, b, 1 if a == b else 2) for a, b in pairwise(widths)]
        self.features = nn.Sequential(activated(3, 8, 3, 2), *blocks, activated(16, 64, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class EfficientNet(nn.Module):
    """As in timm and torchvision: sequences of sequences."""

    def __init__(self):
        super().__init__()
        self.conv_stem, self.bn1 = conv(3, 8, 3, 2), nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(
            nn.Sequential(Inverted(8, 8, 1)),
            nn.Sequential(Inverted(8, 12, 2), Inverted(12, 12, 1), Inverted(12, 12, 1)),
            nn.Sequential(Inverted(12, 16, 2), Inverted(16, 16, 1), Inverted(16, 16, 1)),
        )
        self.classifier = nn.Linear(16, 10)

    def forward(self, x):
        return self.classifier(self.blocks(functional.relu(self.bn1(self.conv_stem(x)))).mean((2, 3)))


class Dense(nn.Module):
    def __init__(self, inside, grows):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inside), conv(inside, grows)

    def forward(self, parts):
        return self.conv(functional.relu(self.norm(torch.cat(parts, 1))))


class DenseBlock(nn.ModuleDict):
    def __init__(self, inside, grows, count):
        super().__init__({f"denselayer{i + 1}": Dense(inside + i * grows, grows) for i in range(count)})

    def forward(self, x):
        parts = [x]
        for each in self.values():
            parts.append(each(parts))
        return torch.cat(parts, 1)


class DenseNet(nn.Module):
    """As in torchvision."""

    def __init__(self, count=3, grows=8):
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", conv(3, 8))
        inside = 8
        for i in range(3):
            self.features.add_module(f"denseblock{i + 1}", DenseBlock(inside, grows, count))
            inside += count * grows
            parts = nn.BatchNorm2d(inside), nn.ReLU(inplace=True), conv(inside, inside // 2, 1), nn.AvgPool2d(2)
            self.features.add_module(f"transition{i + 1}", nn.Sequential(*parts))
            inside //= 2
        self.classifier = nn.Linear(inside, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(functional.silu(self.up(x)))


class MoeLayer(nn.Module):
    """Attention, and experts of which each takes its part of the tokens."""

    def __init__(self, width=16, experts=8):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm1, self.norm2, self.gate = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = self.norm2(x)
        parts = (y * self.gate(y).softmax(-1).sum(-1, keepdim=True)).chunk(len(self.experts), 1)
        return x + torch.cat([each(part) for each, part in zip(self.experts, parts, strict=True)], 1)


class Stack(nn.Module):
    """One list of layers."""

    def __init__(self, layer, count):
        super().__init__()
        self.inside, self.layers, self.norm = (
            nn.Linear(16, 16),
            nn.ModuleList(layer() for _ in range(count)),
            nn.LayerNorm(16),
        )
        self.head = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x):
        x = self.inside(x)
        for each in self.layers:
            x = each(x)
        return self.head(self.norm(x))


class Translator(nn.Module):
    """An encoder and a decoder that is much smaller."""

    def __init__(self, count=6, fewer=1):
        super().__init__()
        self.encoder = nn.ModuleList(Layer() for _ in range(count))
        self.decoder = nn.ModuleList(Layer(crosses=True) for _ in range(fewer))

    def forward(self, x):
        other = x
        for each in self.encoder:
            other = each(other)
        for each in self.decoder:
            x = each(x, other)
        return x


class Tower(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.resblocks = nn.Sequential(*(Layer(width) for _ in range(count)))

    def forward(self, x):
        return self.resblocks(x)


class Clip(nn.Module):
    """Towers of two sizes; the wide one has nearly all parameters, the other the longer input."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 64)
        self.visual, self.transformer = Tower(16, 3), Tower(64, 3)

    def forward(self, x):
        return self.visual(x).mean((1, 2)) + self.transformer(self.project(x[:, :2])).mean((1, 2))


ARCHITECTURES = {
    "resnet": (ResNet, IMAGE),
    "vgg": (Vgg, IMAGE),
    "perceptron": (perceptron, TOKENS),
    "unet": (UNet, IMAGE),
    "diffusion": (Diffusion, IMAGE),
    "convnext": (ConvNext, IMAGE),
    "swin": (Swin, torch.linspace(-1, 1, 32 * 3 * 64 * 64).view(32, 3, 64, 64)),
    "mobilenet": (MobileNet, IMAGE),
    "efficientnet": (EfficientNet, IMAGE),
    "densenet": (DenseNet, IMAGE),
    "transformer": (lambda: Stack(Layer, 4), TOKENS),
    "one layer": (lambda: Stack(Layer, 1), TOKENS),
    "experts": (lambda: Stack(MoeLayer, 2), TOKENS),
    "experts, 4 layers": (lambda: Stack(MoeLayer, 4), TOKENS),
    "translator": (Translator, TOKENS),
    "clip": (Clip, TOKENS),
}
"""By name a model and its input."""
