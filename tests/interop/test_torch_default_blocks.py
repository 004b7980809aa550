"""Blocks that plans of checkpoints have by default, for models built as those of libraries are."""

import re

import pytest
import torch
from torch import nn

from remat_algos.interop import torch as remat
from remat_algos.schedule.emission import baseline_peak
from tests.interop.torch_architectures import ARCHITECTURES, IMAGE, TOKENS, Layer, Stack

CHOSEN = {
    "resnet": ("layer*.*", 60),
    "vgg": ("features.*,classifier.*", 87),
    "perceptron": ("*", 101),
    "unet": ("inc,down*,up*", 49),
    "diffusion": (
        "down_blocks.*.resnets.*,down_blocks.*.attentions.*,mid_block.resnets.*,mid_block.attentions.*,"
        "up_blocks.*.resnets.*,up_blocks.*.attentions.*",
        42,
    ),
    "convnext": ("stem,stages.*.blocks.*,stages.*.downsample,head", 39),
    "swin": ("features.*,features.*.*", 33),
    "mobilenet": ("features.*,classifier", 31),
    "efficientnet": ("blocks.*.*", 42),
    "densenet": ("features.conv*,features.denseblock*.denselayer*,features.transition*", 60),
    "transformer": ("layers.*,head", 36),
    "one layer": ("layers.*.norm*,layers.*.attention,layers.*.mlp,head.*", 83),
    "experts": ("layers.*,head", 55),
    "experts, 4 layers": ("layers.*,head", 33),
    "translator": ("encoder.*,decoder.*", 26),
    "clip": ("visual.resblocks.*,transformer.resblocks.*", 43),
}
"""By architecture the paths of the blocks, numbers as *, and the lowest peak in percent of that without checkpoints."""


def chosen(model, inputs, **options):
    """Paths of the blocks of a plan, each once with * for numbers, and the lowest peak in percent."""
    plan = remat.plan_checkpoints(model, inputs, "least", loss=lambda result: result.square().mean(), **options)
    paths = dict.fromkeys(re.sub(r"\d+", "*", each.name) for each in plan.treatments)
    return ",".join(paths), 100 * plan.peak_memory / baseline_peak(plan.policy.graph)


@pytest.mark.parametrize("name", CHOSEN)
def test_blocks_divide_what_is_saved(name):
    make, x = ARCHITECTURES[name]
    torch.manual_seed(0)
    paths, lowest = chosen(make(), (x,))
    assert paths == CHOSEN[name][0]
    assert lowest <= CHOSEN[name][1]


class Nested(nn.Module):
    """Lists in containers that have no forward."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(Layer() for _ in range(2))})
        self.decoder = nn.ModuleList(nn.ModuleList([Layer(), Layer()]) for _ in range(2))

    def forward(self, x):
        for layers in (self.encoder["layers"], *self.decoder):
            for each in layers:
                x = each(x)
        return x


def test_containers_that_are_never_called_are_no_blocks():
    assert chosen(Nested(), (TOKENS,))[0] == "encoder.layers.*,decoder.*.*"


class Scale(nn.Module):
    """A parametrization with a list of modules of its own."""

    def __init__(self, width=16):
        super().__init__()
        self.parts = nn.Sequential(Layer(width), Layer(width))

    def forward(self, weight):
        return self.parts(weight[None])[0]


def parametrized(module, name="weight"):
    nn.utils.parametrize.register_parametrization(module, name, Scale())
    return module


class Weighted(nn.Module):
    """A model with a parametrized weight of its own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(16))
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)))
        parametrized(self)

    def forward(self, x):
        return self.layers(x @ self.weight)


@pytest.mark.parametrize(
    ("make", "paths"),
    [
        (lambda: nn.Sequential(*(parametrized(nn.Linear(16, 16)) for _ in range(3))), "*"),
        (lambda: Stack(lambda: nn.Sequential(parametrized(nn.Linear(16, 16)), nn.Tanh()), 3), "layers.*,head"),
        (lambda: Stack(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(16, 16)), 3), "layers.*,head"),
        (Weighted, "layers"),
    ],
    ids=["entries", "in entries", "weight norm", "of the model"],
)
def test_parametrizations_of_weights_are_no_blocks(make, paths):
    assert chosen(make(), (TOKENS,))[0] == paths


class Marked(nn.Module):
    """A stage that a trainer checkpoints whole, as in transformers."""

    gradient_checkpointing = False

    def __init__(self, layer, count=3):
        super().__init__()
        self.blocks = nn.ModuleList(layer() for _ in range(count))

    def forward(self, x):
        for each in self.blocks:
            x = each(x)
        return x


class MarkedLayer(Layer):
    gradient_checkpointing = False


@pytest.mark.parametrize(
    ("layer", "paths"), [(Layer, "layers.*"), (MarkedLayer, "layers.*.blocks.*")], ids=["stages", "layers of stages"]
)
def test_layers_that_a_trainer_checkpoints_are_the_blocks(layer, paths):
    model = Stack(lambda: Marked(layer), 3)
    assert chosen(model, (TOKENS,))[0] == paths


def test_other_blocks_than_those_of_a_trainer_must_need_a_third_less():
    model = nn.Sequential(nn.Sequential(*(Layer() for _ in range(4))), MarkedLayer())
    assert chosen(model, (TOKENS,))[0] == "*.*,*"


@pytest.mark.parametrize(
    ("make", "paths"),
    [
        (
            lambda t: t.ResNetModel(t.ResNetConfig(embedding_size=8, hidden_sizes=[32, 64], depths=[2, 3])),
            "embedder,encoder.stages.*.layers.*",
        ),
        (
            lambda t: t.SwinModel(
                t.SwinConfig(image_size=32, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4)
            ),
            "encoder.layers.*.blocks.*",
        ),
        (
            lambda t: t.ViTModel(
                t.ViTConfig(image_size=32, hidden_size=32, intermediate_size=64, num_attention_heads=2, patch_size=8)
            ),
            "layers.*",
        ),
    ],
    ids=["resnet", "swin", "vit"],
)
def test_models_of_transformers_have_their_layers(make, paths):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = make(transformers)

    def loss(result):
        return result.pooler_output.square().mean()

    plan = remat.plan_checkpoints(model, {"pixel_values": IMAGE}, "least", loss=loss)
    assert ",".join(dict.fromkeys(re.sub(r"\d+", "*", each.name) for each in plan.treatments)) == paths
