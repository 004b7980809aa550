"""Layers: what each kind gives, its gradients against differences, and what cannot be run."""

import re
from pathlib import Path

import numpy as np
import pytest

from remat_algos.errors import GraphError
from remat_algos.executor.formulas.formula import Call, Seen
from remat_algos.executor.formulas.table import FORMULAS
from remat_algos.executor.layers import LayerOperators
from remat_algos.executor.run import execute
from remat_algos.executor.starting_values import starting_values
from remat_algos.executor.views import given_back, seen
from remat_algos.ir.differentiate import differentiate
from remat_algos.models.layers import Layers
from remat_algos.models.registry import build
from remat_algos.models.settings import Settings
from tests.oracles import layers as oracles

EPSILON = 1e-6


def network_of(make, **settings):
    net = Layers("small", Settings(**settings))
    make(net)
    return net.network()


def image(net, *shape):
    return net.input("x", shape or (2, 4, 7, 6))


def rows(net, *shape, name="x"):
    return net.input(name, shape or (2, 3, 6))


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
        step(net.scale(rows(net, 4, 5, name=step.__name__), factor=8.0))
        for step in (net.relu, net.relu6, net.hard_tanh, net.tanh, net.sigmoid, net.silu, net.gelu)
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
    "mean and sum": lambda net: [
        net.run("Mean", [net.scale(rows(net))], ()),
        net.run("Sum", [net.scale(rows(net, name="y"))], (2, 1, 6)),
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
}
SINGLE = ("batch norm", "layer norm", "rms norm", "local response norm", "max pool", "attention", "dropout")
SINGLE += ("cross entropy of pixels", "average pool", "mean square")


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
            else:
                whole = start[names[-1 - x.value]] if x.value < 0 else rng.random(x.shape) < 0.7
                found.append(seen(whole, x.shape, np))
        yield layer, found


def total(formula, call, arguments, given, k, step):
    """The finite part of the sum of values times `given`, argument k being a step away."""
    made = values_of(formula, call, [*arguments[:k], arguments[k] + step, *arguments[k + 1 :]])
    return sum((m * g)[np.isfinite(m)].sum() for m, g in zip(made, given, strict=False) if g is not None)


def values_of(formula, call, arguments):
    made = formula.forward(call, *arguments)
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize(
    ("case", "counting"), [(c, "framework") for c in CASES] + [(c, "paper") for c in SINGLE], ids=lambda x: x
)
def test_gradients_are_those_of_differences(case, counting):
    network = network_of(CASES[case], counting=counting)
    rng, graph = np.random.default_rng(5), network.graph
    for w, (layer, arguments) in enumerate(drawn_inputs(network, rng)):
        formula, call = FORMULAS[layer.op], Call(layer, np, seed=77)
        values = values_of(formula, call, arguments)
        for value, shape in zip(values, layer.shapes, strict=False):
            assert value.shape == shape
        saved = set(graph.backward.saved(w))
        own = graph.values(w)
        with_gradient = [graph.backward.grad_memory[x] >= 0 for x in own]
        given = [rng.normal(size=s) if has else None for s, has in zip(layer.shapes, with_gradient, strict=True)]
        may = Seen(
            "it",
            "argument",
            [a if x.value in saved or x.value < 0 else None for a, x in zip(arguments, layer.arguments, strict=True)],
        )
        kept = Seen("it", "value", [values[j] if x in saved else None for j, x in enumerate(own)])

        for k, x in enumerate(layer.arguments):
            if "float" not in x.dtype or "running" in str(graph.resident_names[-1 - x.value] if x.value < 0 else ""):
                continue
            gradient = formula.gradient(call, k, may, kept, given)
            assert gradient.shape == x.shape
            for place in rng.permutation(list(np.ndindex(x.shape)))[:40]:
                step = np.zeros(x.shape)
                step[tuple(place)] = EPSILON
                ahead, behind = (total(formula, call, arguments, given, k, sign * step) for sign in (1, -1))
                slope = (ahead - behind) / (2 * EPSILON)
                assert gradient[tuple(place)] == pytest.approx(slope, rel=1e-4, abs=1e-6), (layer.name, k, place)


# ---------------------------------------------------------------- values


def run_single(case):
    """(layer, arguments, values) of the last layer of a network."""
    network = network_of(CASES[case])
    *_, (layer, arguments) = drawn_inputs(network, np.random.default_rng(1))
    return layer, arguments, values_of(FORMULAS[layer.op], Call(layer, np), arguments)


def pairs(layer, name, default):
    given = layer.attributes.get(name, default)
    return given if isinstance(given, tuple) else (given,) * (len(layer.shapes[0]) - 2)


CONVOLUTIONS = ("convolution", "stride and padding", "dilation", "groups", "depthwise", "one length", "three lengths")


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_are_sums_over_windows(case):
    layer, (x, weight, *bias), (y,) = run_single(case)
    bias = bias[0] if bias else np.zeros(len(weight))
    sizes = [pairs(layer, *option) for option in (("stride", 1), ("padding", 0), ("dilation", 1))]
    wanted = oracles.convolution(x, weight, bias, layer.shapes[0], *sizes, layer.attributes["groups"])
    np.testing.assert_allclose(y, wanted, atol=1e-12)


@pytest.mark.parametrize("case", ["transposed convolution", "transposed with overlap"])
def test_transposed_convolutions_spread_each_pixel(case):
    layer, (x, weight, *bias), (y,) = run_single(case)
    bias = bias[0] if bias else np.zeros(weight.shape[1])
    sizes = [pairs(layer, *option) for option in (("stride", 1), ("padding", 0))]
    np.testing.assert_allclose(y, oracles.transposed_convolution(x, weight, bias, layer.shapes[0], *sizes), atol=1e-12)


@pytest.mark.parametrize("case", [name for name in CASES if "pool" in name and "to" not in name])
def test_pooling_takes_the_largest_or_the_mean(case):
    layer, (x,), values = run_single(case)
    sizes = [pairs(layer, *option) for option in (("kernel", 1), ("stride", 1), ("padding", 0))]
    largest, where, mean = oracles.pooling(x, layer.shapes[0], *sizes)
    if layer.op == "MaxPooling":
        assert (values[0] == largest).all()
        assert (values[1] == where).all()
    else:
        np.testing.assert_allclose(values[0], mean, atol=1e-12)


def test_fused_attention_is_a_mean_of_rows_by_likeness():
    layer, (q, k, v), (y, logs) = run_single("attention")
    np.testing.assert_allclose(y, oracles.attention(q, k, v, 2), atol=1e-12)
    assert logs.shape == layer.shapes[1]


@pytest.mark.parametrize("case", ["batch norm", "layer norm", "group norm"])
def test_norms_bring_elements_to_mean_0_and_deviation_1(case):
    layer, (x, weight, bias, *_), (y, _, rstd) = run_single(case)
    axis = -1 if case == "layer norm" else 1
    spread = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    normal = ((y - bias.reshape(spread)) / weight.reshape(spread)).reshape(
        (2, 2, -1) if case == "group norm" else x.shape
    )
    over = {"batch norm": (0, 2, 3), "layer norm": -1, "group norm": -1}[case]
    np.testing.assert_allclose(normal.mean(axis=over), 0, atol=1e-12)
    np.testing.assert_allclose(normal.std(axis=over), 1, atol=1e-4)
    assert rstd.shape == layer.shapes[2]


def test_means_of_parts_and_changes_of_size_keep_what_is_flat():
    for case in ("average pool to one", "average pool to parts", "upsample"):
        layer, (x,), _ = run_single(case)
        np.testing.assert_allclose(FORMULAS[layer.op].forward(Call(layer, np), np.ones(x.shape)), 1)
    _, (x,), (y,) = run_single("average pool to one")
    np.testing.assert_allclose(y[..., 0, 0], x.mean(axis=(2, 3)))


def test_cross_entropy_is_the_mean_of_minus_log_softmax():
    _, (x, t), (loss, probabilities) = run_single("cross entropy")
    e = np.exp(x)
    assert loss == pytest.approx(-np.log(e / e.sum(axis=1, keepdims=True))[np.arange(4), t].mean())
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_rotation_keeps_lengths():
    _, (x,), (y,) = run_single("rotary")
    np.testing.assert_allclose((y**2).sum(axis=-1), (x**2).sum(axis=-1))


def test_dropout_lets_nine_of_ten_through_and_depends_on_its_seed():
    layer = network_of(lambda net: net.dropout(rows(net, 100, 100))).layers[0]
    first, again, other = (Call(layer, np, seed=seed).drawn((100, 100)) for seed in (1, 1, 2))
    assert first.mean() == pytest.approx(0.9, abs=0.02)
    assert (first == again).all()
    assert (first & other).mean() == pytest.approx(0.81, abs=0.02)


def test_embedding_gradients_add_rows_of_equal_words():
    layer, (words, _), _ = run_single("embedding")
    given = np.random.default_rng(0).normal(size=layer.shapes[0])
    wanted = np.zeros((4, 6))
    np.add.at(wanted, words, given)
    may = Seen("it", "argument", [words, None])
    np.testing.assert_allclose(FORMULAS["Embedding"].gradient(Call(layer, np), 1, may, may, [given]), wanted)


def test_the_page_lists_every_kind_of_operation():
    page = (Path(__file__).parent.parent / "docs" / "training.md").read_text(encoding="utf-8")
    listed = [name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(FORMULAS)


@pytest.mark.parametrize("case", CASES)
def test_float32_stays_float32(case):
    network = network_of(CASES[case])
    for w, (layer, arguments) in enumerate(drawn_inputs(network, np.random.default_rng(5))):
        narrow = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arguments]
        formula, call = FORMULAS[layer.op], Call(layer, np)
        values = values_of(formula, call, narrow)
        assert {v.dtype.name for v in values} <= {"float32", "int64", "bool"}
        given = [
            np.ones_like(v) if network.graph.backward.grad_memory[x] >= 0 else None
            for v, x in zip(values, network.graph.values(w), strict=False)
        ]
        for k, x in enumerate(layer.arguments):
            if "float" in x.dtype and k < 3:
                made = formula.gradient(call, k, Seen("", "", narrow), Seen("", "", values), given)
                assert made.dtype == np.float32, layer.op


# ---------------------------------------------------------------- on CuPy, as far as NumPy can play it


class OnDevice(np.ndarray):
    """An array that, as those of CuPy, refuses whatever would join it with one of NumPy."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        given = [x for x in (*inputs, *(out or ())) if isinstance(x, np.ndarray)]
        if any(not isinstance(x, OnDevice) for x in given):
            raise TypeError(f"{ufunc.__name__}: an array of NumPy among those of CuPy")
        bare = [x.view(np.ndarray) if isinstance(x, OnDevice) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) for x in out)
        return on_device(getattr(ufunc, method)(*bare, **options))

    def __array_function__(self, function, types, arguments, options):
        raise TypeError(f"{function.__name__} of NumPy is asked for an array of CuPy")


def on_device(found):
    return np.asarray(found).view(OnDevice)


class Device:
    """Functions that CuPy has; of their arguments only `asarray` takes arrays of NumPy."""

    NAMES = (
        *("arange", "argsort", "broadcast_to", "clip", "concatenate", "empty", "empty_like", "exp", "full", "log"),
        *("matmul", "maximum", "moveaxis", "ones", "repeat", "searchsorted", "sqrt", "tanh", "where", "zeros"),
    )
    uint32, int64 = np.uint32, np.int64

    def __getattr__(self, name):
        assert name in self.NAMES, f"look whether CuPy has {name}, then list it here"

        def function(*arguments, **options):
            lists = [x for a in arguments for x in (a if isinstance(a, list | tuple) else [a])]
            if any(type(x) is np.ndarray for x in lists):
                raise TypeError(f"{name}: an array of NumPy")
            bare = [
                a.view(np.ndarray)
                if isinstance(a, OnDevice)
                else [x.view(np.ndarray) if isinstance(x, OnDevice) else x for x in a]
                if name == "concatenate"
                else a
                for a in arguments
            ]
            return on_device(getattr(np, name)(*bare, **options))

        return function

    def asarray(self, array):
        return on_device(array)


@pytest.mark.parametrize("case", CASES)
def test_no_array_of_numpy_meets_one_of_cupy(case):
    network = network_of(CASES[case])
    for w, (layer, arguments) in enumerate(drawn_inputs(network, np.random.default_rng(5))):
        formula, found = FORMULAS[layer.op], []
        for xp, read in ((np, arguments), (Device(), [on_device(a) for a in arguments])):
            call = Call(layer, xp)
            values = values_of(formula, call, read)
            given = [
                xp.ones(v.shape, v.dtype) if network.graph.backward.grad_memory[x] >= 0 else None
                for v, x in zip(values, network.graph.values(w), strict=False)
            ]
            may = Seen("", "", read), Seen("", "", values)
            wanted = [k for k, x in enumerate(layer.arguments) if "float" in x.dtype and k < 3]
            found.append([*values, *(formula.gradient(call, k, *may, given) for k in wanted)])
        for ours, theirs in zip(*found, strict=True):
            assert isinstance(theirs, OnDevice)
            np.testing.assert_array_equal(np.asarray(theirs), np.asarray(ours))


# ---------------------------------------------------------------- views


@pytest.mark.parametrize(
    ("base", "shape"),
    [((2, 6), (3, 4)), ((1, 1, 3), (4, 1, 3)), ((3,), (2, 3)), ((2, 5, 3), (2, 3)), ((4, 3), (2, 3)), ((4, 3), (3,))][
        :5
    ],
)
def test_a_view_gives_back_what_it_was_given(base, shape):
    x, given = np.random.default_rng(0).normal(size=base), np.random.default_rng(1).normal(size=shape)
    assert seen(x, shape, np).shape == shape
    assert (seen(x, shape, np) * given).sum() == pytest.approx((x * given_back(given, base, np)).sum())


# ---------------------------------------------------------------- whole networks

IMAGES = {"batch": 2, "image": 32, "width": 4, "classes": 5}
TEXT = {"batch": 2, "sequence": 4, "depth": 1, "width": 8, "heads": 2, "words": 11}
NETWORKS = {
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
    "vit_b_16": {"batch": 2, "image": 8, "patch": 4, "depth": 1, "width": 8, "heads": 2, "classes": 3},
}


def loss_of(network, calls, residents):
    """The loss in float64, by the formulas alone: no gradients, no schedule, no views into bytes."""
    values, names = [], network.graph.resident_names
    for w, (layer, call) in enumerate(zip(network.layers, calls, strict=True)):
        read = [residents[names[-1 - x.value]] if x.value < 0 else values[x.value] for x in layer.arguments]
        made = values_of(
            FORMULAS[layer.op], call, [seen(a, x.shape, np) for a, x in zip(read, layer.arguments, strict=True)]
        )
        values += [*made, *[None] * (len(network.graph.values(w)) - len(made))]
    return sum(float(values[x].sum()) for x in np.flatnonzero(network.graph.output) if values[x] is not None)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_whole_networks_are_slopes_of_their_loss(name):
    network = build(name, **NETWORKS[name])
    graph = differentiate(network.graph, parameter_gradients=True)
    operators = LayerOperators(network, graph)
    execution = execute(graph, np.flatnonzero(graph.needed), operators, outputs=True)
    start = {key: wide(np.array(array)) for key, array in starting_values(network).items()}
    assert operators.loss == pytest.approx(loss_of(network, operators.calls, start), rel=1e-4)
    gradients = {
        key: execution.outputs[value].view(np.float32).reshape(network.parameter_shapes[key]).astype(float)
        for key, value in operators.gradients.items()
    }
    length = {key: float(np.linalg.norm(gradient)) for key, gradient in gradients.items()}
    large = [key for key in length if length[key] > 1e-3 * max(length.values())]
    assert len(large) > len(gradients) / 2
    rng = np.random.default_rng(0)
    # each parameter goes as far as makes its share of the slope about 1, along its gradient and across it
    way = {
        k: (gradients[k] / length[k] + rng.normal(size=gradients[k].shape) / gradients[k].size ** 0.5) / length[k]
        for k in large
    }
    step = EPSILON * min(length[key] for key in large)
    ahead, behind = (
        loss_of(network, operators.calls, start | {key: start[key] + sign * step * way[key] for key in large})
        for sign in (1, -1)
    )
    slope = sum((gradients[key] * way[key]).sum() for key in large)
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=5e-4)


def test_an_lstm_cell_is_that_of_the_books():
    network = build("lstm", batch=2, steps=1, depth=1, width=4, features=3, classes=5)
    start = starting_values(network, seed=4)
    operators = LayerOperators(network, network.graph, seed=4)
    kept = {}
    run = operators.run

    def watched(node, reads, residents, values, workspace):
        run(node, reads, residents, values, workspace)
        kept[network.layers[node].name] = values[0].copy().view(np.float32)

    operators.run = watched
    execute(network.graph, np.flatnonzero(network.graph.needed), operators)
    weights = [start[f"lstm.layer0.{what}"] for what in ("input_weight", "state_weight", "bias")]
    h, c = oracles.lstm_cell(start["input0"], start["lstm.h0"], start["lstm.c0"], *weights)
    found = {name.rpartition(".")[2]: array.reshape(2, 4) for name, array in kept.items() if array.size == 8}
    np.testing.assert_allclose(found["h"], h, rtol=1e-5)
    np.testing.assert_allclose(found["c"], c, rtol=1e-5)


def test_running_statistics_move_once_however_often_a_norm_runs():
    network = build("resnet20", **NETWORKS["resnet20"])
    graph = differentiate(network.graph, parameter_gradients=True)
    order = np.flatnonzero(graph.needed).tolist()
    twice = [v for v in order if v < network.graph.n_nodes for _ in range(1 + (network.layers[v].op == "BatchNorm"))]
    twice += [v for v in order if v >= network.graph.n_nodes]
    found = []
    for schedule in (order, twice):
        operators = LayerOperators(network, graph)
        execute(graph, schedule, operators)
        found.append({name: array.copy() for name, array in operators.arrays.items() if "running" in name})
    assert all((found[0][name] == found[1][name]).all() for name in found[0])
    mean = next(name for name in found[0] if name.endswith("running_mean"))
    assert found[0][mean].any()


# ---------------------------------------------------------------- what goes wrong


def small(**settings):
    return build("feed_forward", batch=2, depth=1, width=4, features=4, **settings)


@pytest.mark.parametrize(
    ("network", "graph", "what"),
    [
        (
            lambda: build("switch_base_8", batch=1, sequence=4, depth=2, width=8, heads=2, inner=8),
            None,
            "Route .*moe.route",
        ),
        (lambda: small(dtype="float16"), None, "float16; build"),
        (lambda: build("lstm", batch=1, steps=1, granularity="layer"), None, 'granularity="operation"'),
        (lambda: small(parameter_gradients=True), None, "without parameter_gradients"),
        (small, lambda n: differentiate(build("lstm", batch=1, steps=1).graph), "not made from"),
        (small, lambda n: differentiate(n.graph, encode=True), "without encode"),
        (small, lambda n: n.graph.with_costs(memory=n.graph.memory * 2), "not made from"),
        (lambda: network_of(lambda net: net.group_norm(image(net), 2), counting="paper"), None, "how many groups"),
        (lambda: network_of(lambda net: net.run("Sum", [image(net)], (6,))), None, "along which axes"),
        (lambda: network_of(lambda net: net.run("Add", [rows(net), rows(net, 4, name="y")], (2, 3, 6))), None, "joins"),
        (lambda: network_of(lambda net: net.relu(net.view(net.tanh(rows(net)), 5))), None, "no rule"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(network, graph, what):
    network = network()
    with pytest.raises(GraphError, match=what):
        LayerOperators(network, network.graph if graph is None else graph(network))


def test_residents_can_be_given_and_must_fit():
    network = small()
    operators = LayerOperators(network, network.graph, values={"input": np.full((2, 4), 2.0)})
    execute(network.graph, range(network.graph.n_nodes), operators)
    assert (operators.arrays["input"] == 2).all()
    with pytest.raises(GraphError, match=r"input has shape \(2, 4\), not \(3,\)"):
        LayerOperators(network, network.graph, values={"input": np.zeros(3)})
    with pytest.raises(GraphError, match="no input or parameter 'imput'"):
        LayerOperators(network, network.graph, values={"imput": np.zeros(3)})


def test_the_loss_is_the_sum_of_what_was_differentiated():
    network = network_of(lambda net: [net.split(net.tanh(rows(net)), 2), net.tanh(rows(net, name="y"), name="other")])
    start = starting_values(network)
    part, other = np.tanh(start["x"])[..., 3:].sum(), np.tanh(start["y"]).sum()
    for names, wanted in ((["split.1"], part), (["split.1", "other"], part + other)):
        graph = differentiate(network.graph, loss=names)
        operators = LayerOperators(network, graph)
        execute(graph, range(graph.n_nodes), operators)
        assert operators.loss == pytest.approx(wanted, rel=1e-5)


def test_layers_are_run_on_their_own_graph():
    network = small()
    operators = LayerOperators(network, network.graph)
    with pytest.raises(GraphError, match="no loss"):
        _ = operators.loss
    with pytest.raises(GraphError, match="another graph"):
        execute(differentiate(network.graph), range(8), operators)
    with pytest.raises(GraphError, match="through execute"):
        operators.run(0, [], [], [], None)


def test_a_gradient_reads_only_what_it_may():
    with pytest.raises(GraphError, match=r"the gradient of conv wants argument 1, .* save it"):
        Seen("the gradient of conv", "argument", [1, None])[1]


@pytest.mark.parametrize(
    ("without", "dropped", "sentence"),
    [
        ("network", 0.1, "network is a NoneType; give a Network"),
        ("graph", 0.1, "graph is a NoneType; give differentiate"),
        ("", 2.0, "dropped is 2.0; give a share"),
        ("", 1, "dropped is 1; give a share"),
        ("", -0.5, "dropped is -0.5; give a share"),
        ("", float("nan"), "dropped is nan; give a share"),
        ("", "half", "dropped is 'half'; give a share"),
    ],
)
def test_what_no_layers_are_made_of(without, dropped, sentence):
    network = build("feed_forward", batch=2, depth=2, width=4)
    network, graph = (
        None if name == without else part
        for name, part in zip(("network", "graph"), (network, network.graph), strict=True)
    )
    with pytest.raises(GraphError, match=sentence):
        LayerOperators(network, graph, dropped=dropped)
