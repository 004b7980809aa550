"""CTC loss: the chance of a transcript is that of all its alignments, and the gradient is its slope."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.layers.formula import Call, Readable
from examples.layers.formulas import formula_of
from examples.layers.losses import NEVER
from examples.layers.starting_values import starting_values
from examples.layers.tests import oracles
from examples.layers.tests.cases import network_of
from remat_algos.zoo.registry import build

FORMULA = formula_of("CTCLoss")
STEP = 1e-6


def call_of(steps, batch, classes, length):
    network = network_of(
        lambda net: net.ctc_loss(net.input("x", (steps, batch, classes)), net.input("t", (batch, length), "int64"))
    )
    return Call(network.layers[0], np)


def gradient_of(call, x, targets, alpha=None, scale=1.0):
    values = [None] if alpha is None else [None, alpha]
    return FORMULA.gradient(call, 0, Readable("", "", [x, targets]), Readable("", "", values), [scale])


@st.composite
def transcripts(draw):
    """(call, scores, targets), with at least as many steps as labels: repeated ones may leave no alignment."""
    length = draw(st.integers(1, 3))
    steps, batch, classes = draw(st.integers(length, 5)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.normal(size=(steps, batch, classes)) * draw(st.sampled_from([0.1, 1, 10]))
    return call_of(steps, batch, classes, length), x, rng.integers(1, classes, (batch, length))


@given(transcripts())
@settings(max_examples=60, deadline=None)
def test_the_loss_is_that_of_all_alignments(drawn):
    call, x, targets = drawn
    loss, alpha = FORMULA.forward(call, x, targets)
    assert loss == pytest.approx(oracles.ctc_loss(x, targets), rel=1e-9)
    assert alpha.shape == call.layer.shapes[1]


@given(transcripts())
@settings(max_examples=60, deadline=None)
def test_the_gradient_is_the_slope_of_the_loss_over_all_alignments(drawn):
    call, x, targets = drawn
    if not np.isfinite(FORMULA.forward(call, x, targets)[0]):
        return
    gradient = gradient_of(call, x, targets)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = STEP
        slope = (oracles.ctc_loss(x + step, targets) - oracles.ctc_loss(x - step, targets)) / (2 * STEP)
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


@given(transcripts())
@settings(max_examples=30, deadline=None)
def test_examples_of_a_batch_do_not_hear_of_one_another(drawn):
    call, x, targets = drawn
    alone = call_of(x.shape[0], 1, x.shape[2], targets.shape[1])
    together = gradient_of(call, x, targets) * len(targets)
    apart = [gradient_of(alone, x[:, b : b + 1], targets[b : b + 1]) for b in range(len(targets))]
    np.testing.assert_allclose(together, np.concatenate(apart, axis=1), rtol=1e-9, atol=1e-12)


def test_what_the_forward_pass_kept_and_what_is_made_anew_give_the_same_bits():
    call = call_of(7, 3, 5, 3)
    x = np.random.default_rng(0).normal(size=(7, 3, 5)).astype(np.float32)
    targets = np.random.default_rng(1).integers(1, 5, (3, 3))
    alpha = FORMULA.forward(call, x, targets)[1]
    assert gradient_of(call, x, targets, alpha).tobytes() == gradient_of(call, x, targets).tobytes()


def test_what_cannot_be_aligned_has_an_infinite_loss_and_no_slope():
    """Equal labels need a blank between them, for which two steps have no room."""
    call, x = call_of(2, 2, 3, 2), np.random.default_rng(0).normal(size=(2, 2, 3))
    targets = np.array([[1, 1], [1, 2]])
    loss, alpha = FORMULA.forward(call, x, targets)
    assert loss == np.inf
    assert alpha.min() > 2 * NEVER  # no infinities, whose differences are no numbers
    gradient = gradient_of(call, x, targets)
    assert (gradient[:, 0] == 0).all()
    assert np.isfinite(gradient[:, 1]).all()
    assert gradient[:, 1].any()


def test_a_label_that_cannot_be_is_as_if_it_were_not_there():
    call, wider = call_of(4, 2, 3, 2), call_of(4, 2, 4, 2)
    x, targets = np.random.default_rng(0).normal(size=(4, 2, 3)), np.array([[1, 2], [2, 2]])
    within = np.insert(x, 3, -np.inf, axis=2)
    assert FORMULA.forward(wider, within, targets)[0] == FORMULA.forward(call, x, targets)[0]
    np.testing.assert_array_equal(
        gradient_of(wider, within, targets), np.insert(gradient_of(call, x, targets), 3, 0, axis=2)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_a_label_that_is_needed_cannot_be_the_loss_is_infinite_and_there_is_no_slope(dtype):
    call, x = call_of(4, 2, 3, 2), np.random.default_rng(0).normal(size=(4, 2, 3)).astype(dtype)
    targets = np.array([[1, 2], [2, 2]])
    x[:, 0, 1], x[2, 0] = -np.inf, -np.inf  # one that is never there, and a step at which nothing is
    loss, alpha = FORMULA.forward(call, x, targets)
    assert loss == np.inf
    assert np.isfinite(alpha).all()
    gradient = gradient_of(call, x, targets)
    assert not gradient[:, 0].any()
    assert np.isfinite(gradient).all()


def test_long_sentences_neither_vanish_nor_overflow_in_float32():
    call = call_of(500, 2, 29, 60)
    rng = np.random.default_rng(0)
    x, targets = rng.normal(size=(500, 2, 29)) * 20, rng.integers(1, 29, (2, 60))
    narrow = FORMULA.forward(call, x.astype(np.float32), targets)
    wide = FORMULA.forward(call, x, targets)
    assert narrow[0].dtype == np.float32
    assert narrow[0] == pytest.approx(wide[0], rel=1e-5)
    gradient = gradient_of(call, x.astype(np.float32), targets, narrow[1])
    np.testing.assert_allclose(gradient, gradient_of(call, x, targets), atol=1e-3)
    assert abs(gradient.sum(axis=-1)).max() < 1e-5  # scores of a step may all be raised: nothing changes


def test_a_transcript_that_is_drawn_has_no_blank():
    network = build("deepspeech2", batch=4, sequence=80, depth=1, width=4, classes=3)
    assert set(starting_values(network)["transcript"].ravel()) == {1, 2}
