"""ResNet, VGG, DenseNet, GoogLeNet and MobileNetV2: what is published of them, their shapes, their structure."""

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.published import PUBLISHED
from remat_algos import GraphError, differentiate, simulate
from remat_algos.zoo import registry
from remat_algos.zoo.families.mobilenet_v2 import scaled
from remat_algos.zoo.families.resnet import stage_depths
from remat_algos.zoo.registry import get_family
from tests.raising import raises

FAMILIES = ("resnet", "resnet_cifar", "vgg", "densenet", "googlenet", "mobilenet_v2")
VARIANTS = [name for family in FAMILIES for name in get_family(family).variants]


@cache
def build(name, **options):
    return registry.build(name, **options)


def ops(network):
    return [layer.op for layer in network.layers]


def shapes(network, *names):
    shape_of = {layer.name: layer.shapes[0] for layer in network.layers}
    return [shape_of[name] for name in names]


# ---------------------------------------------------------------- parameters and multiply-adds

PARAMETERS = {  # of those that docs/published.py does not have in all digits
    "resnet200": 64_666_152,
    # he2016, table 6: 0.27, 0.46, 0.66, 0.85, 1.7 and 19.4 M; he2016identity: 1.7 M and, without norms, 10.2 M
    "resnet20": 269_722,
    "resnet32": 464_154,
    "resnet44": 658_586,
    "resnet56": 853_018,
    "resnet110": 1_727_962,
    "resnet1202": 19_421_274,
    "resnet164": 1_703_258,
    "resnet1001": 10_327_706,
    "densenet264": 33_337_704,  # torchvision's rule
    # kusumoto2019's graph; torchvision with its auxiliary classifiers
    "googlenet": 13_378_280,
    "googlenet_bn": 13_004_888,
}


def test_every_variant_has_its_count():
    exact = {name for name, given in PUBLISHED.items() if given.parameters.replace(",", "").isdigit()}
    assert set(PARAMETERS) == set(VARIANTS) - exact


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_published_ones(name):
    assert build(name, batch=1).n_parameters == PARAMETERS[name]


def test_multiply_adds_of_googlenet_are_those_of_torchvision():
    assert build("googlenet_bn", batch=1).macs == pytest.approx(1.498e9, rel=0.01)


@pytest.mark.parametrize(("depth", "giga"), [(50, 3.8), (101, 7.6), (152, 11.3)])
def test_the_stride_of_the_paper_gives_the_multiply_adds_of_the_paper(depth, giga):
    """he2016, table 1, prints one decimal; 3.86 is 3.8 there."""
    macs = build(f"resnet{depth}", batch=1, stride_first=True).macs
    assert abs(macs / 1e9 - giga) < 0.1


@pytest.mark.parametrize(("width", "mega"), [(50, 97), (75, 209), (130, 509), (140, 582)])
def test_widths_of_mobilenet_have_the_multiply_adds_of_its_authors_table(width, mega):
    assert build("mobilenet_v2", batch=1, width=width).macs == pytest.approx(mega * 1e6, rel=0.01)


@pytest.mark.parametrize("n", [3, 18])
def test_a_basic_network_for_cifar_counts_as_by_hand(n):
    """Stem; 2 n convolutions of each stage, the first reads half as many channels; norms; the linear layer."""
    stem = 3 * 9 * 16 + 2 * 16
    first = 2 * n * (16 * 9 * 16 + 2 * 16)
    second = 16 * 9 * 32 + (2 * n - 1) * 32 * 9 * 32 + 2 * n * 2 * 32
    third = 32 * 9 * 64 + (2 * n - 1) * 64 * 9 * 64 + 2 * n * 2 * 64
    assert build(f"resnet{6 * n + 2}", batch=1).n_parameters == stem + first + second + third + 64 * 10 + 10


def test_the_published_count_of_resnet1001_leaves_norms_out():
    shape_of = build("resnet1001", batch=1).parameter_shapes
    norms = sum(shape[0] for name, shape in shape_of.items() if "norm" in name)
    # a block of bottleneck width b has norms of 4 b, b and b channels; the first of a stage reads the stage before
    by_hand = 2 * (111 * 6 * (16 + 32 + 64) + (16 - 64) + (64 - 128) + (128 - 256) + 256)
    assert norms == by_hand == 149_216
    assert round((PARAMETERS["resnet1001"] - norms) / 1e6, 1) == 10.2


def test_a_biased_stem_has_a_bias_more():
    assert build("resnet50", batch=1, biased_stem=True).n_parameters == 25_557_032 + 64


def test_googlenet_without_its_further_classifiers():
    """Each of them: 1 x 1 to 128, 4 x 4 x 128 to 1024, to 1000; they read 512 and 528 channels."""
    heads = sum(channels * 128 + 128 for channels in (512, 528)) + 2 * (2048 * 1024 + 1024 + 1024 * 1000 + 1000)
    assert build("googlenet", batch=1, auxiliary=False).n_parameters == 13_378_280 - heads == 6_998_552
    assert build("googlenet_bn", batch=1, auxiliary=False).n_parameters == 6_624_904  # torchvision's documentation


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    ("name", "n_nodes"),
    [
        # kusumoto2019, table 1
        ("resnet50", 176),
        ("resnet152", 516),
        ("vgg19", 46),
        ("densenet161", 568),
        ("googlenet", 134),
        # stem 4, basic blocks of 7, three projections with a norm, the last 4
        ("resnet18", 4 + 8 * 7 + 3 * 2 + 4),
        # stem 4, blocks of 10 without norm and ReLU in front of the first, four projections, norm and ReLU, the last 4
        ("resnet200", 4 + 66 * 10 - 2 + 4 + 2 + 4),
        # stem 3, blocks of 7, two slices, the last 4
        ("resnet20", 3 + 9 * 7 + 2 + 4),
        # stem 1, blocks of 10, three projections, norm and ReLU, the last 4
        ("resnet164", 1 + 54 * 10 + 3 + 2 + 4),
        # a norm for each of 16 convolutions
        ("vgg19_bn", 46 + 16),
        # stem 3; 17 blocks of 8, the first without the expansion's 3, 10 of them with a sum; last 3; head 5
        ("mobilenet_v2", 3 + 17 * 8 - 3 + 10 + 3 + 5),
        # two norms less, 59 more, and two dropouts; ReLUs of 9 x 4 branches instead of 9
        ("googlenet_bn", 134 - 2 + 59 + 2 + 9 * 3),
    ],
)
def test_nodes_are_those_of_the_architecture(name, n_nodes):
    assert build(name, dropout="single").graph.n_nodes == n_nodes


@pytest.mark.parametrize(("name", "dropouts"), [("vgg19", 2), ("googlenet", 1), ("mobilenet_v2", 1), ("resnet50", 0)])
def test_each_dropout_has_a_mask(name, dropouts):
    masked, single = build(name), build(name, dropout="single")
    assert ops(masked).count("DropoutMask") == ops(single).count("Dropout") == dropouts
    assert masked.graph.n_nodes == single.graph.n_nodes + dropouts


@pytest.mark.parametrize(
    ("name", "n_nodes"),
    [
        ("resnet50", 16 + 4),  # blocks, pool, flatten, fc, loss
        ("vgg19", 4 + 1 + 2 + 2),  # later stages, flatten, hidden layers, fc, loss
        ("densenet121", 58 + 3 + 3 + 4),  # layers, transitions, concat, norm, ReLU, pool, flatten, fc, loss
        ("googlenet", 9 + 2 + 2 + 2 + 5),  # inceptions, pools, heads, sums, pool, dropout, flatten, fc, loss
        ("mobilenet_v2", 17 + 1 + 5),  # blocks, last, pool, dropout, flatten, fc, loss
    ],
)
def test_a_block_is_a_node(name, n_nodes):
    """The first block is two: its convolution reads the image, which has no gradient, and stands apart."""
    assert build(name, dropout="single", granularity="layer").graph.n_nodes == 2 + n_nodes


# ---------------------------------------------------------------- shapes


def test_the_stride_is_on_the_second_convolution_or_on_the_first():
    first, second = "layer2.0.conv1", "layer2.0.conv2"
    assert shapes(build("resnet50", batch=1), first, second) == [(1, 128, 56, 56), (1, 128, 28, 28)]
    assert shapes(build("resnet50", batch=1, stride_first=True), first, second) == [(1, 128, 28, 28)] * 2


def test_shapes_of_an_odd_image():
    """129 is halved, rounded up, by windows with padding: 65, 33, then 17, 9, 5; projections agree."""
    network = build("resnet18", batch=1, image=129)
    assert [shape[2] for shape in shapes(network, *(f"layer{stage}.1.relu" for stage in (1, 2, 3, 4)))] == [
        33,
        17,
        9,
        5,
    ]


def test_shortcuts_of_basic_blocks_for_cifar_have_no_parameters():
    network = build("resnet20", batch=2)
    slices = [layer for layer in network.layers if layer.op == "Slice"]
    assert [(layer.name, layer.shapes) for layer in slices] == [
        ("layer2.0.downsample", ((2, 32, 16, 16),)),
        ("layer3.0.downsample", ((2, 64, 8, 8),)),
    ]
    assert not any(layer.parameters or layer.macs for layer in slices)


def test_a_layer_of_densenet_reads_all_before_it_in_its_block():
    network = build("densenet121", batch=1)
    graph, names = network.graph, network.graph.node_names()
    reads = graph.read_indices[slice(*graph.read_indptr[names.index("block2.layer4.concat") :][:2])]
    made_by = [names[graph.producer[x]] for x in reads]
    assert made_by == ["transition1.pool", *(f"block2.layer{k}.conv2" for k in (1, 2, 3))]


def test_shapes_of_googlenet():
    """The sums of the last channels of the branches; pooling covers the image: 112, 56, 28, 14, 7."""
    network = build("googlenet", batch=1)
    relus = [f"inc{name}.relu" for name in ("3a", "3b", "4a", "4e", "5b")]
    assert shapes(network, "stem.pool1", "stem.pool2", *relus, "head4a.pool", "pool4") == [
        (1, 64, 56, 56),
        (1, 192, 28, 28),
        (1, 64 + 128 + 32 + 32, 28, 28),
        (1, 128 + 192 + 96 + 64, 28, 28),
        (1, 192 + 208 + 48 + 64, 14, 14),
        (1, 256 + 320 + 128 + 128, 14, 14),
        (1, 384 + 384 + 128 + 128, 7, 7),
        (1, 512, 4, 4),
        (1, 832, 7, 7),
    ]


def test_a_depthwise_convolution_of_mobilenet():
    network = build("mobilenet_v2", batch=1)
    depthwise = next(layer for layer in network.layers if layer.name == "stage2.0.depthwise")
    assert depthwise.shapes == ((1, 6 * 16, 56, 56),)
    assert depthwise.macs == 9 * 6 * 16 * 56 * 56


# ---------------------------------------------------------------- depth and width


@given(blocks=st.integers(4, 3000), bottleneck=st.booleans())
def test_every_depth_has_its_blocks_in_four_stages(blocks, bottleneck):
    depth = 2 + blocks * (3 if bottleneck else 2)
    stages = stage_depths("resnet", depth, bottleneck)
    assert sum(stages) == blocks
    assert min(stages) >= 1
    assert len(stages) == 4


@pytest.mark.parametrize(
    ("depth", "bottleneck", "stages"),
    [
        (18, False, (2, 2, 2, 2)),  # he2016, table 1
        (34, False, (3, 4, 6, 3)),
        (50, True, (3, 4, 6, 3)),
        (101, True, (3, 4, 23, 3)),
        (152, True, (3, 8, 36, 3)),
        (200, True, (3, 24, 36, 3)),  # he2016identity
        (14, True, (1, 1, 1, 1)),
        (1001, True, (3, 131, 196, 3)),  # 327 blocks as 2 : 3
    ],
)
def test_stages_of_a_depth(depth, bottleneck, stages):
    assert stage_depths("resnet", depth, bottleneck) == stages


def test_stages_stand_for_a_depth():
    named = build("resnet", batch=1, stages=(3, 24, 36, 3))
    assert named.n_parameters == build("resnet", batch=1, depth=200).n_parameters == 64_673_832


@pytest.mark.parametrize("bottleneck", [True, False])
def test_deeper_networks_hold_more(bottleneck):
    """Each depth of `grows` is one, and takes more bytes: a block has half the bytes of one in the stage before."""
    depths = get_family("resnet").values("depth", "resnet", {"bottleneck": bottleneck})
    held = [
        sum(Fraction(n, 2**stage) for stage, n in enumerate(stage_depths("resnet", depth, bottleneck)))
        for depth in depths
    ]
    assert ({50, 53, 200} if bottleneck else {18, 34, 36}) < set(depths)
    assert all(before < after for before, after in pairwise(held))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("resnet", {"image": 32, "width": 8}),
        ("resnet_cifar", {"image": 8}),
        ("resnet_cifar", {"image": 8, "bottleneck": True, "preactivation": True}),
        ("vgg", {"image": 32, "width": 8}),
        ("densenet", {"image": 32, "width": 4}),
    ],
)
def test_values_of_deeper_networks_take_more_bytes(family, options):
    depths = get_family(family).values("depth", family, options)[:6]
    held = [build(family, batch=1, depth=depth, **options).activation_memory for depth in depths]
    assert all(before < after for before, after in pairwise(held))


@given(channels=st.integers(1, 2000), width=st.integers(1, 400))
def test_scaled_channels_are_near_multiples_of_eight(channels, width):
    exact = Fraction(channels * width, 100)
    made = scaled(channels, width)
    assert made % 8 == 0
    assert made >= max(8, exact * 9 / 10)
    assert made < exact + 8 or made == 8


@pytest.mark.parametrize("name", ["resnet18", "resnet20", "vgg11"])
def test_twice_the_width_is_four_times_the_work_behind_the_image(name):
    """All convolutions and linear layers but those that read the image or give the scores."""
    options = {"batch": 1, "image": 32, "classes": 10}
    width = get_family(name).options["width"]
    narrow, wide = (build(name, width=width * k, **options) for k in (1, 2))
    pairs = [(a.macs, b.macs) for a, b in zip(narrow.layers, wide.layers, strict=True) if a.macs]
    assert pairs[0][1] == 2 * pairs[0][0]
    assert pairs[-1][1] == 2 * pairs[-1][0]
    assert all(b == 4 * a for a, b in pairs[1:-1])


# ---------------------------------------------------------------- what all have

TINY = {
    "resnet": {"image": 32, "width": 8, "depth": 14},
    "resnet_cifar": {"image": 8, "depth": 8},
    "vgg": {"image": 32, "width": 4, "depth": 11},
    "densenet": {"image": 32, "width": 4, "stages": (2, 3)},
    "googlenet": {"image": 79, "width": 10},
    "mobilenet_v2": {"image": 32, "width": 25},
}
TINY_TOO = [
    ("resnet", {**TINY["resnet"], "bottleneck": False, "preactivation": True}),
    ("resnet_cifar", {**TINY["resnet_cifar"], "depth": 11, "bottleneck": True, "preactivation": True}),
    ("resnet_cifar", {**TINY["resnet_cifar"], "preactivation": True}),
    ("vgg", {**TINY["vgg"], "norm": True}),
    ("googlenet", {**TINY["googlenet"], "norm": True}),
    ("googlenet", {**TINY["googlenet"], "image": 47, "auxiliary": False}),
]


@pytest.mark.parametrize(("name", "options"), TINY_TOO, ids=str)
def test_options_that_no_model_has_differentiate_and_run(name, options):
    network = registry.build(name, batch=2, **{"classes": 10, **options})
    training = differentiate(network.graph)
    peak = simulate(training, np.arange(training.n_nodes)).peak_memory
    assert network.graph.memory.max() < peak <= training.memory.sum() + training.workspace.max()


@pytest.mark.parametrize("name", TINY)
def test_twice_the_batch_is_twice_the_bytes_of_images(name):
    """All values but losses and statistics are of each image."""
    small, large = (
        registry.build(name, batch=batch, **{"classes": 10, **TINY[name]}, counting="paper").layers for batch in (3, 6)
    )
    for a, b in zip(small, large, strict=True):
        assert (b.shapes[0] == a.shapes[0] == ()) or b.shapes[0] == (6, *a.shapes[0][1:])
        assert b.macs == 2 * a.macs


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [
        ("resnet", {"depth": 1000}, {"depth": 1000, "lower": 998, "upper": 1001}),
        ("resnet", {"depth": 3}, {"lower": 14, "upper": 17}),
        ("resnet18", {"depth": 19}, {"lower": 18, "upper": 20}),
        ("resnet_cifar", {"depth": 21}, {"lower": 20, "upper": 26}),
        ("resnet164", {"depth": 1}, {"lower": 11, "upper": 20}),
        ("vgg", {"depth": 15}, {"depth": 15}),
        ("vgg", {"depth": 10}, {"depth": 10}),
        ("densenet", {"depth": 100}, {"depth": 100, "known": [121, 161, 169, 201, 264]}),
        ("mobilenet_v2", {"stages": (1, 2)}, {"n_stages": 2}),
        ("vgg19", {"image": 16}, {"name": "stage5.pool"}),
        ("googlenet", {"image": 78}, {"name": "head4a.pool"}),
        ("googlenet", {"image": 46, "auxiliary": False}, {"name": "pool4"}),
    ],
)
def test_impossible_wishes(name, options, fields):
    with raises(GraphError, model=name, **fields):
        build(name, batch=1, **options)
