"""U-Net, PSPNet, diffusion U-Nets, vision Transformers and Deep Speech 2 are the published networks."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.zoo.registry import build
from tests.raising import raises


def shapes(network, op):
    """Of the first value of each operation of a kind."""
    return [layer.shapes[0] for layer in network.layers if layer.op == op]


def sides(network, op):
    return [shape[2] for shape in shapes(network, op)]


# ---------------------------------------------------------------- published numbers

PARAMETERS = [
    ("unet", {}, 31_030_658),  # by the arithmetic of the test below
    ("unet", {"wide_last": True}, 31_100_354),  # 124,401,416 bytes in the graph of kusumoto2019
    ("pspnet", {}, 68_072_166),  # the authors' later code, hszhao/semseg, auxiliary head among them
    ("pspnet50", {"classes": 150}, 49_180_908),  # the same, for ADE20K
    ("vit_b_16", {"image": 384}, 86_859_496),  # torchvision's documentation, as the following
    ("vit_l_16", {"image": 512}, 305_174_504),
    ("vit_h_14", {"image": 518}, 633_470_440),
    ("ddpm_cifar10", {}, 35_746_307),  # 35.7 M, ho2020, appendix B
    ("ddpm_lsun", {}, 113_673_219),  # 114 M, there
    ("stable_diffusion_unet", {}, 859_520_964),  # "860M UNet", its authors' page
]


@pytest.mark.parametrize(("model", "options", "parameters"), PARAMETERS)
def test_parameters_are_the_published_ones(model, options, parameters):
    assert build(model, batch=1, **options).n_parameters == parameters


MACS = [
    ("vit_b_16", {}, 17.564e9),  # torchvision's documentation, as the following; its "GFLOPS" are multiply-adds
    ("vit_h_14", {}, 167.295e9),
    ("vit_b_16", {"image": 384}, 55.484e9),
    ("vit_l_16", {"image": 512}, 361.986e9),
    ("vit_h_14", {"image": 518}, 1016.717e9),
]


@pytest.mark.parametrize(("model", "options", "macs"), MACS)
@pytest.mark.parametrize("fused", [False, True])
def test_multiply_adds_are_the_published_ones(model, options, macs, fused):
    assert build(model, batch=1, fused=fused, **options).macs == pytest.approx(macs, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "options", "nodes"),
    [("unet", {}, 60), ("unet", {"wide_last": True}, 60), ("pspnet", {}, 385)],  # kusumoto2019, table 1
)
def test_nodes_are_those_of_the_lower_set_authors(model, options, nodes):
    assert build(model, dropout="single", **options).graph.n_nodes == nodes


# ---------------------------------------------------------------- U-Net


def test_unet_has_the_sizes_of_its_figure():
    network = build("unet", batch=1)
    down, up = [570, 568, 282, 280, 138, 136, 66, 64, 30, 28], [54, 52, 102, 100, 198, 196, 390, 388]
    assert sides(network, "Convolution") == [*down, *up, 388]
    assert sides(network, "MaxPooling") == [284, 140, 68, 32]
    assert sides(network, "Slice") == sides(network, "TransposedConvolution") == [56, 104, 200, 392]
    assert [shape[1] for shape in shapes(network, "Concat")] == [1024, 512, 256, 128]


def test_unet_parameters_are_the_sum_over_its_figure():
    widths = [1, 64, 128, 256, 512, 1024]
    down = sum(9 * a * b + b + 9 * b * b + b for a, b in pairwise(widths))
    up = sum(4 * 2 * b * b + b + 9 * 2 * b * b + b + 9 * b * b + b for b in widths[1:-1])
    assert build("unet", batch=1).n_parameters == down + up + (64 * 2 + 2)


def test_unet_dropout_stands_on_the_two_lowest_levels():
    network = build("unet", batch=1)
    assert shapes(network, "DropoutMask") == shapes(network, "Dropout") == [(1, 512, 64, 64), (1, 1024, 28, 28)]


@given(image=st.integers(16, 48), depth=st.integers(1, 3), width=st.integers(1, 4), classes=st.integers(1, 3))
def test_a_padded_unet_scores_each_pixel_that_halving_leaves(image, depth, width, classes):
    network = build(
        "unet", batch=1, image=image, depth=depth, width=width, classes=classes, padding=True, dropout="single"
    )
    left = image >> depth << depth  # what does not divide is cropped
    assert network.layers[-2].shapes == ((1, classes, left, left),)
    odd = sum((image >> level) % 2 for level in range(depth))
    assert (len(shapes(network, "Slice")) == 0) == (odd == 0)


# ---------------------------------------------------------------- PSPNet


def test_pspnet_keeps_an_eighth_of_the_image():
    network = build("pspnet", batch=1)
    sizes = dict(
        zip((layer.name for layer in network.layers), (layer.shapes[0] for layer in network.layers), strict=True)
    )
    # 713 -> (713 - 1) / 2 + 1 = 357 -> 179 -> 90, then strides of 1
    assert sizes["layer0.conv1"] == (1, 64, 357, 357)
    assert sizes["layer0.pool"] == (1, 128, 179, 179)
    assert sizes["layer1.2.relu3"] == (1, 256, 179, 179)
    assert sizes["layer2.3.relu3"] == (1, 512, 90, 90)
    assert sizes["layer3.22.relu3"] == (1, 1024, 90, 90)
    assert sizes["layer4.2.relu3"] == (1, 2048, 90, 90)
    assert [sizes[f"ppm.{k}.conv"] for k in range(4)] == [(1, 512, k, k) for k in (1, 2, 3, 6)]
    assert sizes["pyramid"] == (1, 4096, 90, 90)
    assert sizes["cls.upsample"] == sizes["aux.upsample"] == (1, 19, 713, 713)


def test_pspnet_nodes_are_those_of_its_parts():
    stem, block, projections = 3 * 3 + 1, 10, 4 * 2
    pyramid, head, losses = 4 * 5 + 1, 6, 4  # two losses, a share, their sum
    for depth, blocks in ((35, 11), (50, 16), (101, 33)):
        network = build("pspnet", batch=1, image=65, width=4, depth=depth, dropout="single")
        assert network.graph.n_nodes == stem + blocks * block + projections + pyramid + 2 * head + losses


# ---------------------------------------------------------------- diffusion U-Nets


def test_ddpm_attends_at_16_and_in_the_middle():
    network = build("ddpm_cifar10", batch=1)
    scores = [layer.shapes[0] for layer in network.layers if layer.name.endswith("attention.scores")]
    assert scores == [(1, 1, 256, 256)] * 2 + [(1, 1, 16, 16)] + [(1, 1, 256, 256)] * 3


def test_ddpm_reads_every_kept_tensor_once_on_the_way_up():
    # kept: 128 of the stem, per level two blocks, and three images that were halved
    kept = [128, 128, 128, 128, 256, 256, 256, 256, 256, 256, 256, 256]
    below = [256] * 10 + [128] * 2
    joined = [shape[1] for shape in shapes(build("ddpm_cifar10", batch=1), "Concat")]
    assert joined == [a + b for a, b in zip(below, reversed(kept), strict=True)]


def test_stable_diffusion_looks_at_the_text_at_every_level_but_the_last():
    network = build("stable_diffusion_unet", batch=1)
    scores = [layer.shapes[0] for layer in network.layers if layer.name.endswith("attn2.attention.scores")]
    down = [(1, 8, side * side, 77) for side in (64, 64, 32, 32, 16, 16)]
    up = [(1, 8, side * side, 77) for side in (16, 16, 16, 32, 32, 32, 64, 64, 64)]
    assert scores == [*down, (1, 8, 64, 77), *up]


def test_ddpm_multiply_adds_are_those_of_its_parts():
    # One level of one block of 32 channels at 8 x 8, without attention but in the middle; biases do not count.
    network = build("diffusion_unet", batch=1, image=8, depth=1, width=32, multipliers=(1,), attended=None)
    pixels, c = 64, 32
    time = c * 4 * c + 4 * c * 4 * c
    block = 2 * 9 * c * c * pixels + 4 * c * c
    wide = (9 * 2 * c * c + 9 * c * c + 2 * c * c) * pixels + 4 * c * c  # reads 64 channels, has a shortcut
    attention = 4 * c * c * pixels + 2 * pixels * pixels * c
    ends = 2 * 9 * 3 * c * pixels
    assert network.macs == time + 3 * block + 2 * wide + attention + ends


# ---------------------------------------------------------------- vision Transformers


@given(
    depth=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 4]),
    size=st.integers(1, 6),
    patch=st.integers(1, 5),
    rows=st.integers(1, 4),
    classes=st.integers(1, 9),
    fused=st.booleans(),
)
def test_vit_parameters_follow_the_formula(depth, heads, size, patch, rows, classes, fused):
    width, tokens = heads * size, rows * rows + 1
    network = build(
        "vit",
        batch=2,
        image=patch * rows,
        patch=patch,
        depth=depth,
        width=width,
        heads=heads,
        classes=classes,
        fused=fused,
    )
    ends = 3 * patch**2 * width + width + width + tokens * width + 2 * width + classes * (width + 1)
    assert network.n_parameters == ends + depth * (12 * width**2 + 13 * width)
    linear = 12 * width**2 * tokens + 2 * tokens**2 * width
    assert network.macs == 2 * (3 * patch**2 * width * rows**2 + depth * linear + classes * width)


def test_vit_scores_are_values_unless_the_attention_is_fused():
    # 12 heads, 14 x 14 + 1 = 197 tokens
    assert shapes(build("vit_b_16", batch=1), "Softmax") == [(1, 12, 197, 197)] * 12
    fused = build("vit_b_16", batch=1, fused=True)
    assert shapes(fused, "Softmax") == []
    assert shapes(fused, "Attention") == [(1, 197, 768)] * 12


def test_vit_dropout_is_there_on_request():
    assert shapes(build("vit_b_16", batch=1), "Dropout") == []
    with_dropout = build("vit_b_16", batch=1, dropout_layers=True)
    assert len(shapes(with_dropout, "Dropout")) == 1 + 12 * 4  # positions; attention, its output, two linear layers


# ---------------------------------------------------------------- Deep Speech 2


@pytest.mark.parametrize(
    ("model", "layers", "width", "connected"),
    [
        ("deepspeech2_1rnn", 1, 2400, 3),
        ("deepspeech2_3rnn", 3, 1880, 1),
        ("deepspeech2_5rnn", 5, 1510, 1),
        ("deepspeech2_7rnn", 7, 1280, 1),
    ],
)
def test_deepspeech2_has_the_parameters_of_its_first_table(model, layers, width, connected):
    # "38 million" each (amodei2016, table 1): a convolution, one input matrix and two state matrices per layer.
    weights = 161 * 11 * width + 3 * layers * width**2 + connected * width**2 + 29 * width
    norms = 2 * width * (1 + layers + connected)
    parameters = build(model, batch=1, sequence=2).n_parameters
    assert parameters == weights + norms + 29
    assert parameters == pytest.approx(38.7e6, rel=0.02)


def test_deepspeech2_has_the_68_million_of_the_largest_data():
    # amodei2016: two convolutions over time and frequency, 7 recurrent layers, 68 million parameters.
    h, features = 1760, 32 * 41  # 161 -> 81 -> 41 frequencies
    front = 32 * 41 * 11 + 32 * 32 * 21 * 11 + 4 * 32
    recurrent = (features * h + 2 * h * h + 2 * h) + 6 * (3 * h * h + 2 * h)
    parameters = build("deepspeech2", batch=1, sequence=2).n_parameters
    assert parameters == front + recurrent + (h * h + 2 * h) + (29 * h + 29)
    assert round(parameters / 1e6) == 68


@given(sequence=st.integers(1, 9), depth=st.integers(1, 3), gated=st.booleans())
def test_each_step_of_deepspeech2_runs_both_ways(sequence, depth, gated):
    network = build("deepspeech2", batch=2, sequence=sequence, depth=depth, width=4, gated=gated)
    steps = math.ceil(sequence / 2)  # the first convolution takes every second frame
    per_step, per_layer = (13, 6) if gated else (3, 6)  # linear, norm, split; two concats, a sum
    front, back = 2 * 3 + 1, 3 + 2
    assert network.graph.n_nodes == front + depth * (per_layer + 2 * steps * per_step) + back
    gates = 3 if gated else 1
    states = 2 * depth * steps * 2 * gates * 4 * 4  # both ways, batch 2, width 4
    assert sum(layer.macs for layer in network.layers if layer.name.endswith("from_state")) == states


def test_the_backward_way_reads_the_last_step_first():
    network = build("deepspeech2", batch=1, sequence=5, depth=1, width=4)
    graph, names = network.graph, network.graph.node_names()
    split = names.index("rnn0.input.split")
    parts = graph.value_indptr[split] + np.arange(3)
    for way, expected in (("forwards", parts), ("backwards", parts[::-1])):
        adds = [names.index(f"rnn0.{way}.{step}.add") for step in range(3)]
        assert [graph.read_indices[graph.read_indptr[add]] for add in adds] == expected.tolist()
    last = [f"rnn0.backwards.{step}.clip" for step in (2, 1, 0)]  # made in the order of the sequence again
    concat = names.index("rnn0.sum.concat_2")
    read = graph.read_indices[graph.read_indptr[concat] : graph.read_indptr[concat + 1]]
    assert [names[graph.producer[x]] for x in read] == last


def test_deepspeech2_has_up_to_three_convolutions():
    network = build("deepspeech2", batch=1, sequence=8, depth=1, width=4, convolutions=3)
    assert shapes(network, "Convolution") == [(1, 32, 81, 4), (1, 32, 41, 4), (1, 96, 21, 4)]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("model", "options", "fields"),
    [
        ("unet", {"image": 12, "depth": 2}, {"window": 3, "length": 2}),
        ("pspnet", {"depth": 34}, {"depth": 34, "min_depth": 35}),
        ("pspnet", {"depth": 51}, {"depth": 51}),
        ("pspnet", {"depth": 2}, {"depth": 2}),
        ("pspnet", {"image": 40}, {"lengths": (6, 6), "shape": (5, 5)}),
        ("ddpm_cifar10", {"image": 36}, {"image": 36, "halvings": 3, "value": 8}),
        ("ddpm_cifar10", {"attended": (3,)}, {"unknown": 3, "factors": [1, 2, 4, 8]}),
        ("ddpm_cifar10", {"attended": (2, 16)}, {"unknown": 16}),
        ("ddpm_cifar10", {"width": 48}, {"channels": 48, "groups": 32}),
        ("ddpm_cifar10", {"heads": 3}, {"width": 256, "heads": 3}),
        ("ddpm_cifar10", {"multipliers": (1, 0)}, {"name": "multipliers"}),
        ("vit_b_16", {"image": 230}, {"image": 230, "patch": 16}),
        ("vit_b_16", {"heads": 7}, {"width": 768, "heads": 7}),
        ("deepspeech2", {"convolutions": 4}, {"convolutions": 4}),
    ],
)
def test_impossible_wishes_are_refused(model, options, fields):
    with raises(GraphError, model=model, **fields):
        build(model, batch=1, **options)
