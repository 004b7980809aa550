"""What each kind of layer gives, its gradients against differences, and how NumPy and CuPy share them."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn_from
from hypothesis import settings
from hypothesis import strategies as st

from examples.layers.formula import Call, Readable
from examples.layers.formulas import FORMULAS, formula_of
from examples.layers.tests import oracles
from examples.layers.tests.cases import CASES, SINGLE, drawn_inputs, network_of, rows, values_of

EPSILON = 1e-6


def total(formula, call, arguments, given, k, step):
    """The finite part of the sum of values times `given`, argument k being a step away."""
    made = values_of(formula, call, [*arguments[:k], arguments[k] + step, *arguments[k + 1 :]])
    return sum((m * g)[np.isfinite(m)].sum() for m, g in zip(made, given, strict=False) if g is not None)


@pytest.mark.parametrize(
    ("case", "counting"), [(c, "framework") for c in CASES] + [(c, "paper") for c in SINGLE], ids=lambda x: x
)
def test_gradients_are_those_of_differences(case, counting):
    network = network_of(CASES[case], counting=counting)
    rng, graph = np.random.default_rng(5), network.graph
    for w, (layer, arguments) in enumerate(drawn_inputs(network, rng)):
        formula, call = formula_of(layer.op), Call(layer, np, seed=77)
        values = values_of(formula, call, arguments)
        for value, shape in zip(values, layer.shapes, strict=False):
            assert value.shape == shape
        saved = set(graph.backward.saved(w))
        own = graph.values(w)
        with_gradient = [graph.backward.grad_memory[x] >= 0 for x in own]
        given = [rng.normal(size=s) if has else None for s, has in zip(layer.shapes, with_gradient, strict=True)]
        may = Readable(
            "it",
            "argument",
            [a if x.value in saved or x.value < 0 else None for a, x in zip(arguments, layer.arguments, strict=True)],
        )
        kept = Readable("it", "value", [values[j] if x in saved else None for j, x in enumerate(own)])

        for k, x in enumerate(layer.arguments if any(with_gradient) else ()):
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
    return layer, arguments, values_of(formula_of(layer.op), Call(layer, np), arguments)


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
        np.testing.assert_allclose(formula_of(layer.op).forward(Call(layer, np), np.ones(x.shape)), 1)
    _, (x,), (y,) = run_single("average pool to one")
    np.testing.assert_allclose(y[..., 0, 0], x.mean(axis=(2, 3)))


def test_cross_entropy_is_the_mean_of_minus_log_softmax():
    _, (x, t), (loss, probabilities) = run_single("cross entropy")
    e = np.exp(x)
    assert loss == pytest.approx(-np.log(e / e.sum(axis=1, keepdims=True))[np.arange(4), t].mean())
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_copies_turn_the_axes_that_models_turn():
    turned = {
        "parted heads": ("brhs->bhrs", (2, 3, 2, 3)),
        "channels behind": ("bcpq->bpqc", None),
        "channels in front": ("bpqc->bcpq", (2, 7, 6, 4)),
        "last axis in front": ("rch->hrc", None),
        "step by step": ("bcft->tbcf", None),
        "copy": ("abc->abc", None),
    }
    for case, (axes, shape) in turned.items():
        layer, (x,), (y,) = run_single(case)
        wanted = np.einsum(axes, x.reshape(shape or x.shape)).reshape(layer.shapes[0])
        np.testing.assert_array_equal(y, wanted, case)


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
    may = Readable("it", "argument", [words, None])
    np.testing.assert_allclose(formula_of("Embedding").gradient(Call(layer, np), 1, may, may, [given]), wanted)


def embedding_gradient(words, rows, count, xp=np):
    net = network_of(lambda net: net.embedding(net.input("words", words.shape, "int64"), count, rows.shape[-1]))
    may = Readable("it", "argument", [words, None])
    return formula_of("Embedding").gradient(Call(net.layers[0], xp), 1, may, may, [rows])


@st.composite
def sentences(draw):
    """(words, a row for each): few words, so that many are equal; one of them much commoner."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.integers(1, 200))
    words = rng.integers(0, 7, n)
    words[rng.random(n) < draw(st.sampled_from([0, 0.5, 1]))] = draw(st.integers(0, 6))
    return words, rng.normal(size=(n, 3)).astype(np.float32)


@drawn_from(sentences())
@settings(max_examples=60, deadline=None)
def test_embedding_gradients_of_whole_numbers_are_exact_sums(drawn):
    words, rows = drawn[0], np.round(drawn[1] * 100)
    wanted = np.zeros((7, 3), np.float32)
    np.add.at(wanted, words, rows)
    np.testing.assert_array_equal(embedding_gradient(words, rows, 7), wanted)


@drawn_from(sentences())
@settings(max_examples=60, deadline=None)
def test_the_bits_of_a_word_do_not_depend_on_what_stands_between(drawn):
    words, rows = drawn
    together = embedding_gradient(words, rows, 7)
    for word in set(words.tolist()):
        alone = embedding_gradient(words[words == word], rows[words == word], 7)
        assert alone[word].tobytes() == together[word].tobytes()


def test_a_word_that_fills_the_page_takes_as_many_rounds_as_it_can_be_halved():
    class Counting:
        asked = 0

        def __getattr__(self, name):
            Counting.asked += name == "flatnonzero"
            return getattr(np, name)

    words, rows = np.zeros(5000, np.int64), np.full((5000, 2), 0.1, np.float32)
    found = embedding_gradient(words, rows, 4, Counting())
    assert Counting.asked == 2 * 13
    np.testing.assert_allclose(found[0], 5000 * np.float64(np.float32(0.1)), rtol=1e-6)


def test_the_page_lists_every_kind_of_operation():
    page = (Path(__file__).parents[3] / "docs" / "layers.md").read_text(encoding="utf-8")
    table = page.partition("\n## All kinds of operations\n")[2]
    assert set(FORMULAS) <= set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def differentiable(layer, given):
    """Arguments that can have a gradient; running statistics, which stand behind, have none."""
    some = any(gradient is not None for gradient in given)
    return [k for k, x in enumerate(layer.arguments) if some and "float" in x.dtype and k < 3]


@pytest.mark.parametrize("case", CASES)
def test_float32_stays_float32(case):
    network = network_of(CASES[case])
    for w, (layer, arguments) in enumerate(drawn_inputs(network, np.random.default_rng(5))):
        narrow = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arguments]
        formula, call = formula_of(layer.op), Call(layer, np)
        values = values_of(formula, call, narrow)
        assert {v.dtype.name for v in values} <= {"float32", "int64", "int32", "bool"}
        given = [
            np.ones_like(v) if network.graph.backward.grad_memory[x] >= 0 else None
            for v, x in zip(values, network.graph.values(w), strict=False)
        ]
        for k in differentiable(layer, given):
            made = formula.gradient(call, k, Readable("", "", narrow), Readable("", "", values), given)
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
        "arange argsort broadcast_to clip concatenate cumsum empty empty_like exp flatnonzero full isnan log logaddexp "
        "matmul maximum minimum moveaxis ones repeat searchsorted sqrt tanh where zeros"
    )
    uint32, int64 = np.uint32, np.int64

    def __getattr__(self, name):
        assert name in self.NAMES.split(), f"look whether CuPy has {name}, then list it here"

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
        formula, found = formula_of(layer.op), []
        for xp, read in ((np, arguments), (Device(), [on_device(a) for a in arguments])):
            call = Call(layer, xp)
            values = values_of(formula, call, read)
            given = [
                xp.ones(v.shape, v.dtype) if network.graph.backward.grad_memory[x] >= 0 else None
                for v, x in zip(values, network.graph.values(w), strict=False)
            ]
            may = Readable("", "", read), Readable("", "", values)
            made = [formula.gradient(call, k, *may, given) for k in differentiable(layer, given)]
            found.append([*values, *made])
        for ours, theirs in zip(*found, strict=True):
            assert isinstance(theirs, OnDevice)
            np.testing.assert_array_equal(np.asarray(theirs), np.asarray(ours))
