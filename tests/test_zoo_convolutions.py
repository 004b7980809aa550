"""Sizes of images against slow oracles."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from tests.test_zoo_layers import vocabulary


@st.composite
def windows(draw):
    """Length, kernel, stride, padding, dilation of which the window fits."""
    kernel, dilation, padding = (draw(st.integers(least, 4)) for least in (1, 1, 0))
    span = dilation * (kernel - 1) + 1
    return draw(st.integers(max(1, span - 2 * padding), span + 12)), kernel, draw(st.integers(1, 5)), padding, dilation


@given(windows(), windows())
def test_a_convolution_has_as_many_places_as_a_sum_over_the_padded_image(rows, columns):
    lengths, kernel, stride, padding, dilation = zip(rows, columns, strict=True)
    net = vocabulary()
    x = net.input("x", (1, 2, *lengths))
    y = net.convolution(x, 3, kernel, stride=stride, padding=padding, dilation=dilation)
    for n, k, s, p, d, places in zip(lengths, kernel, stride, padding, dilation, y.shape[2:], strict=True):
        holed = np.zeros(d * (k - 1) + 1)
        holed[::d] = 1
        assert places == np.correlate(np.zeros(n + 2 * p), holed, "valid")[::s].size
    assert net.network().macs == prod(y.shape) * 2 * prod(kernel)


def slow_places(length, kernel, stride, padding, cover):
    """Windows set one after another; with `cover` until all is covered, but none begins behind the image."""
    padded, begin, places, reached = length + 2 * padding, 0, 0, 0
    while begin + kernel <= padded or (cover and reached < padded and begin < length + padding):
        begin, places, reached = begin + stride, places + 1, begin + kernel
    return places


@given(windows(), st.booleans())
def test_pooling_has_as_many_places_as_windows_can_be_set(window, cover):
    length, kernel, stride, padding, _ = window
    padding = min(padding, kernel // 2)  # frameworks allow no more
    length = max(length, kernel - 2 * padding)
    net = vocabulary()
    x = net.input("x", (1, 1, length))
    y = net.max_pool(x, kernel, stride, padding=padding, cover=cover)
    assert y.shape[2] == slow_places(length, kernel, stride, padding, cover)
    assert net.average_pool(x, kernel, stride, padding=padding, cover=cover).shape == y.shape


@pytest.mark.parametrize(
    ("length", "padding", "covering"),
    [
        (112, 0, 56),  # GoogLeNet: (112 - 3) / 2 = 54.5 rounded up, and 1
        (4, 1, 3),  # a fourth window of Chainer's cover_all would begin at 6 of 1 + 4 + 1
    ],
)
def test_pooling_that_covers_is_that_of_ceil_mode(length, padding, covering):
    net = vocabulary()
    assert net.max_pool(net.input("x", (1, 1, length)), 3, 2, padding=padding, cover=True).shape[2] == covering


@given(windows())
def test_a_convolution_takes_back_what_a_transposed_one_has_made_larger(window):
    length, kernel, stride, padding, _ = window
    net = vocabulary()
    x = net.input("x", (1, 2, length))
    if (length - 1) * stride + kernel <= 2 * padding:
        with pytest.raises(GraphError, match="less padding"):
            net.transposed_convolution(x, 3, kernel, stride=stride, padding=padding)
        return
    y = net.transposed_convolution(x, 3, kernel, stride=stride, padding=padding)
    assert net.convolution(y, 2, kernel, stride=stride, padding=padding).shape == x.shape
