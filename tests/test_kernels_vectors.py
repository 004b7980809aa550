"""The dense loops of kernels, as compiled for each unit of this processor, beside NumPy."""

import sys

import numpy as np
import pytest

from tests.benchmarks import compiled

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the options of the compiler are those of GCC"),
    pytest.mark.skipif(compiled.compiler() is None, reason="there is no C compiler"),
]
LENGTHS = [*range(1, 70), 127, 1000]


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    return compiled.libraries(tmp_path_factory.mktemp("loops"))


def runs(units, loop, n):
    """What each unit returns for one round, with the arguments afterwards."""
    for library in units.values():
        values = compiled.arguments(loop, n)
        yield compiled.call(library, loop, values, 1), *values


def test_rows_are_combined_entry_by_entry(units):
    for n in LENGTHS:
        row, other, by, most = compiled.arguments("rows_raise", n)
        for _, found, *_ in runs(units, "rows_raise", n):
            assert found.tolist() == np.maximum(row, np.minimum(other - by, most)).tolist()
        row, left, right, cost = compiled.arguments("rows_lower", n)
        for _, found, *_ in runs(units, "rows_lower", n):
            assert found.tolist() == np.minimum(row, cost + left + right).tolist()
        row, by = compiled.arguments("add", n)
        for _, found, _ in runs(units, "add", n):
            assert found.tolist() == (row + by).tolist()


def test_the_first_entry_below_a_bound_is_found(units):
    for n in LENGTHS:
        for place in {0, n // 2, n - 1, n}:
            row = np.full(n, np.inf)
            row[place:] = np.arange(n - place)
            for library in units.values():
                assert compiled.call(library, "first_below", [row, 0.5], 1) == place
                assert compiled.call(library, "first_below", [row, 0.0], 1) == n


def test_blocks_have_their_maximum_and_what_is_above_a_limit(units):
    block, by = compiled.arguments("fold", 128)
    for top, found, _ in runs(units, "fold", 128):
        assert top == found.max()
        assert found.tolist() == (block + by).tolist()
    block, limit = compiled.arguments("excess", 128)
    for above, *_ in runs(units, "excess", 128):
        assert above == np.maximum(block - limit, 0).sum()


def test_bits_are_counted(units):
    (words,) = compiled.arguments("count_bits", 1000)
    for found, *_ in runs(units, "count_bits", 1000):
        assert found == sum(int(word).bit_count() for word in words)
