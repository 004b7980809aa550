"""Networks of one layer or a few, and a small network of each family, for the layers that the executor runs."""

import numpy as np

from examples.layers.formula import Call
from examples.layers.formulas import formula_of
from examples.layers.starting_values import starting_values
from examples.layers.views import viewed
from remat_algos.ir.kinds import ACTIVATION, operation_kinds
from remat_algos.zoo.layers import Layers
from remat_algos.zoo.settings import Settings

IMAGES = {"batch": 2, "image": 32, "width": 4, "classes": 5}
TEXT = {"batch": 2, "sequence": 4, "depth": 1, "width": 8, "heads": 2, "words": 11}
SMALL_NETWORKS = {
    "feed_forward": {"batch": 3, "depth": 2, "width": 5, "features": 4},
    "vgg11_bn": IMAGES,
    "resnet18": IMAGES,
    "resnet20": {"batch": 2, "image": 8, "width": 2, "classes": 4},
    "resnet50": {**IMAGES, "stages": (1, 1, 1, 1), "preactivation": True},
    "mobilenet_v2": {"batch": 3, "image": 64, "width": 25, "classes": 4, "stages": (1, 1, 1, 1, 1, 1, 1)},
    "densenet121": {**IMAGES, "batch": 3, "image": 64, "stages": (1, 2, 1, 1)},
    "googlenet": {**IMAGES, "image": 64, "width": 10, "auxiliary": False},
    "pspnet50": {"batch": 1, "image": 49, "depth": 50, "width": 2, "classes": 3},
    "unet": {"batch": 1, "image": 44, "depth": 1, "width": 4},
    "ddpm_cifar10": {"batch": 1, "image": 4, "width": 32, "multipliers": (1, 1), "attended": (1,), "depth": 1},
    "lstm": {"batch": 2, "steps": 3, "depth": 2, "width": 4, "features": 3, "classes": 5},
    "nmt": {"batch": 2, "steps": 3, "depth": 1, "width": 4, "source_words": 9, "words": 7},
    "transformer_base": TEXT,
    "gpt2_small": {**TEXT, "positions": 6},
    "llama_7b": {**TEXT, "kv_heads": 1, "inner": 12},
    "deepspeech2": {"batch": 2, "sequence": 16, "depth": 1, "width": 6, "convolutions": 1, "classes": 4},
    "deepspeech2_1rnn": {"batch": 2, "sequence": 8, "width": 6, "classes": 4, "gated": True},
    "mixtral_8x7b": {**TEXT, "kv_heads": 1, "inner": 6, "experts": 3},
    "switch_base_8": {**TEXT, "depth": 2, "inner": 6, "experts": 3},
    "vit_b_16": {"batch": 2, "image": 8, "patch": 4, "depth": 1, "width": 8, "heads": 2, "classes": 3},
}


def network_of(make, **settings):
    net = Layers("small", Settings(**settings))
    make(net)
    return net.network()


def image(net, *shape):
    return net.input("x", shape or (2, 4, 7, 6))


def rows(net, *shape, name="x"):
    return net.input(name, shape or (2, 3, 6))


def experts(net, count, chosen, capacity):
    """Six rows, transformed by experts of which each takes some."""
    return net.routed(rows(net, 2, 3, 4), lambda part, name: net.linear(part, 4, name=name), count, chosen, capacity)


CASES = {
    "convolution": lambda net: net.convolution(image(net), 6, 3),
    "stride and padding": lambda net: net.convolution(image(net), 6, (3, 2), stride=(2, 1), padding=1, bias=False),
    "dilation": lambda net: net.convolution(image(net), 2, 3, dilation=(2, 1), padding=1, stride=2),
    "groups": lambda net: net.convolution(image(net), 6, 3, groups=2, padding=1),
    "depthwise": lambda net: net.convolution(image(net), 4, 3, groups=4, stride=2),
    "one length": lambda net: net.convolution(rows(net, 2, 3, 9), 4, 3, stride=2, padding=1),
    "three lengths": lambda net: net.convolution(image(net, 1, 2, 3, 4, 3), 2, 2),
    "pixels": lambda net: net.convolution(image(net), 5, 1, stride=2),
    "transposed convolution": lambda net: net.transposed_convolution(image(net, 2, 3, 3, 4), 5, 2, stride=2),
    "transposed with overlap": lambda net: net.transposed_convolution(
        image(net, 1, 3, 3, 4), 2, (3, 4), stride=2, padding=1, bias=False
    ),
    "max pool": lambda net: net.max_pool(image(net), 2, 2),
    "max pool that overlaps": lambda net: net.max_pool(image(net), 3, 2, padding=1),
    "max pool that covers": lambda net: net.max_pool(image(net), (2, 3), (3, 2), cover=True),
    "average pool": lambda net: net.average_pool(image(net), 3, 2, padding=1),
    "average pool that covers": lambda net: net.average_pool(image(net), 2, 2, cover=True),
    "average pool to parts": lambda net: net.average_pool_to(image(net), 3, 4),
    "average pool to one": lambda net: net.average_pool_to(image(net), 1, 1),
    "upsample": lambda net: net.upsample(image(net), 9, 15),
    "upsample to the nearest": lambda net: net.upsample(image(net), 9, 15, linear=False),
    "linear": lambda net: net.linear(rows(net), 5),
    "linear without bias": lambda net: net.linear(rows(net), 5, bias=False),
    "matmul": lambda net: net.matmul(rows(net, 2, 3, 4), rows(net, 2, 4, 5, name="y")),
    "matmul of squares": lambda net: net.matmul(rows(net, 2, 3, 3), rows(net, 2, 3, 3, name="y"), transposed=True),
    "matmul of shared heads": lambda net: net.matmul(
        rows(net, 2, 4, 3, 5), rows(net, 2, 2, 6, 5, name="y"), transposed=True
    ),
    "embedding": lambda net: net.embedding(net.input("words", (3, 5), "int64"), 4, 6),
    "attention": lambda net: net.attention(*(rows(net, 2, 5, 8, name=s) for s in "qkv"), 2, fused=True),
    "attention with all": lambda net: net.attention(
        *(rows(net, 2, 5, n, name=side) for side, n in (("q", 8), ("k", 4), ("v", 4))),
        4,
        kv_heads=2,
        mask=net.input("mask", (5, 5), "bool"),
        bias=net.input("bias", (4, 1, 5)),
        fused=True,
    ),
    "attention as operations": lambda net: net.attention(
        *(rows(net, 2, 5, 8, name=s) for s in "qkv"), 2, mask=net.input("mask", (5, 5), "bool")
    ),
    "batch norm": lambda net: net.batch_norm(image(net)),
    "batch norm of rows": lambda net: net.batch_norm(rows(net, 6, 3)),
    "layer norm": lambda net: net.layer_norm(rows(net)),
    "group norm": lambda net: net.group_norm(image(net), 2),
    "rms norm": lambda net: net.rms_norm(rows(net)),
    "local response norm": lambda net: net.local_response_norm(image(net, 2, 7, 2, 3), 4),
    "activations": lambda net: [
        net.pointwise(kind.name, [net.scale(rows(net, 4, 5, name=f"x{k}"), factor=8.0)])
        for k, kind in enumerate(operation_kinds())
        if kind.layer == ACTIVATION
    ],
    "other functions": lambda net: [
        net.pointwise(op, [net.sigmoid(rows(net, 3, 4, name=op))]) for op in ("Exp", "Log", "Square", "Sqrt", "Rsqrt")
    ],
    "sums": lambda net: net.add(rows(net), rows(net, name="y"), rows(net, name="z")),
    "sum with repetition": lambda net: net.pointwise("Add", [rows(net), rows(net, 3, 1, name="y")]),
    "difference": lambda net: net.pointwise("Subtract", [rows(net), rows(net, 6, name="y")]),
    "products": lambda net: net.multiply(rows(net), rows(net, 1, 6, name="y")),
    "quotient": lambda net: net.pointwise("Divide", [rows(net), rows(net, 1, name="y")]),
    "square": lambda net: (lambda x: net.multiply(x, x))(rows(net)),
    "mask": lambda net: net.mask(rows(net, 3, 3), net.input("allowed", (3, 3), "bool")),
    "rotary": lambda net: net.pointwise("Rotary", [rows(net)]),
    "dropout": lambda net: net.dropout(rows(net)),
    "softmax": lambda net: net.softmax(rows(net)),
    "cross entropy": lambda net: net.softmax_cross_entropy(rows(net, 4, 5), net.input("t", (4,), "int64")),
    "cross entropy of pixels": lambda net: net.softmax_cross_entropy(image(net), net.input("t", (2, 7, 6), "int64")),
    "mean square": lambda net: net.mean_square(rows(net), rows(net, name="y")),
    "ctc loss": lambda net: net.ctc_loss(rows(net, 6, 3, 4), net.input("transcript", (3, 2), "int64")),
    "mean and sum": lambda net: [
        net.run("Mean", [net.scale(rows(net))], ()),
        net.run("Sum", [net.scale(rows(net, name="y"))], (2, 1, 6)),
        net.run("Mean", [net.scale(rows(net, 5, 3, name="z"))], (3,)),
    ],
    "concat": lambda net: net.concat(rows(net), rows(net, 2, 2, 6, name="y"), rows(net, name="z"), axis=1),
    "split": lambda net: net.split(rows(net), 3),
    "split of one": lambda net: net.split(rows(net), 1),
    "crop": lambda net: net.crop(image(net), 4, 3),
    "other pixels": lambda net: net.run("Slice", [image(net)], (2, 8, 4, 3)),
    "reshape": lambda net: net.reshape(image(net), 2, 168),
    "parted heads": lambda net: net.copy(rows(net), 2, 2, 3, 3),
    "joined heads": lambda net: net.copy(image(net), 2, 7, 24),
    "copy": lambda net: net.copy(rows(net), 6, 6),
    "channels behind": lambda net: net.copy(image(net), 2, 42, 4),
    "channels in front": lambda net: net.copy(rows(net, 2, 42, 4), 2, 4, 7, 6),
    "last axis in front": lambda net: net.copy(rows(net, 3, 4, 2), 2, 3, 4),
    "step by step": lambda net: net.copy(image(net), 12, 28),
    "experts": lambda net: experts(net, 3, 2, 100),
    "experts with little room": lambda net: experts(net, 4, 2, 40),
    "one of some experts": lambda net: experts(net, 3, 1, 150),
    "one expert": lambda net: experts(net, 1, 1, 50),
}
SINGLE = ("batch norm", "layer norm", "rms norm", "local response norm", "max pool", "attention", "dropout")
SINGLE += ("cross entropy of pixels", "average pool", "mean square", "ctc loss", "experts")


def wide(array):
    return array.astype(np.float64) if array.dtype == np.float32 else array


def drawn_inputs(network, rng):
    """float64 arrays for the arguments of each layer, apart from the others'."""
    start = starting_values(network, seed=3)
    names = network.graph.resident_names
    for layer in network.layers:
        found = []
        for x in layer.arguments:
            if "float" in x.dtype:
                found.append(
                    rng.uniform(0.3, 2, x.shape)
                    * (1 if layer.op in ("Sqrt", "Rsqrt", "Log") else rng.choice([-1, 1], x.shape))
                )
            elif x.dtype == "int32":
                found.append(drawn_places(network, rng))
            else:
                whole = start[names[-1 - x.value]] if x.value < 0 else rng.random(x.shape) < 0.7
                found.append(viewed(whole, x.shape, np))
        yield layer, found


def drawn_places(network, rng):
    """Where rows go that choose experts by chance."""
    route = next(layer for layer in network.layers if layer.op == "Route")
    return formula_of("Route").forward(Call(route, np), rng.random(route.arguments[0].shape))


def values_of(formula, call, arguments):
    made = formula.forward(call, *arguments)
    return made if isinstance(made, tuple) else (made,)
