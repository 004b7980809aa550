"""Budgets and bytes as people write them."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.ir.budget import Budget
from remat_algos.text.amounts import format_compute, parse_bytes
from remat_algos.wording import format_bytes
from tests.raising import raises, refused

# ---------------------------------------------------------------- bytes


def rows(texts_of):
    """Pairs of a text and what it means, from the texts of each meaning."""
    return [(text, meaning) for meaning, texts in texts_of.items() for text in texts]


SIZES = {
    0: ("0",),
    1: ("1.", "0.1"),
    7: ("7B",),
    500: (".5 kB",),
    1000: ("1k", "1K", "1kB", "1KB", "1kb", "1Kb", "1e3", "1e-3 MB"),
    1001: ("1.0001 kB", "1.001 kB"),
    1024: ("1024", "1Ki", "1KiB", "1kiB", "1kib"),
    1500: (" 1.5 kB ",),
    1536: ("1.5KiB",),
    10**6: ("1M", "1MB", "1mb", "1E3 kB"),
    2**20: ("1MiB", "1mib"),
    **{10 ** (3 * k): (f"1{letter}B",) for k, letter in enumerate("GTPE", start=3)},
    **{2 ** (10 * k): (f"1{letter}iB",) for k, letter in enumerate("GTPE", start=3)},
    9211842821808707339: ("7.99EiB",),
    2**63 - 1: (str(2**63 - 1),),
}


@pytest.mark.parametrize(("text", "size"), rows(SIZES))
def test_bytes_have_units_and_parts_of_a_byte_round_up(text, size):
    assert parse_bytes(text) == size


NO_SIZES = {
    "is not a size": (
        *("", " ", "MB", "-1", "-1 MB", "+1", "1 2", "1,5 MB", "1_000", "0x10", "nan", "inf", "4 GBB", "4 iB", "4XB"),
        *("50%", "7 b"),
    ),
    r"is 2\*\*63 bytes or more|is not a number": (
        *("8 EiB", "1e19", "1e999", "9" * 30, "1e999999 GiB", "1e1000000", "1e99999999999999999999"),
    ),
}


@pytest.mark.parametrize(("text", "words"), rows(NO_SIZES))
def test_what_is_no_size_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_bytes(text)


@given(st.fractions(0, 1000, max_denominator=1000), st.sampled_from(["kB", "MiB", "GB"]))
def test_sizes_round_up_exactly(amount, unit):
    text = f"{float(amount):.3f}"
    exact = Fraction(text) * {"kB": 1000, "MiB": 2**20, "GB": 10**9}[unit]
    assert parse_bytes(f"{text} {unit}") == -(-exact.numerator // exact.denominator)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0 B"), (999, "999 B"), (1023, "1023 B"), (1024, "1 KiB"), (1500, "1.46 KiB"), (-1500, "-1.46 KiB")),
        *((999 * 2**10, "999 KiB"), (1023 * 2**10, "0.999 MiB"), (2**20 - 1, "1 MiB"), (123_456_789, "118 MiB")),
        *((2132279296, "1.99 GiB"), (7 * 2**40, "7 TiB"), (2**53, "8 PiB"), (2**63 - 1, "8 EiB")),
    ],
)
def test_bytes_are_shown_in_binary_units_and_three_digits(size, text):
    assert format_bytes(size) == text


@given(st.integers(0, 2**62))
def test_shown_bytes_are_read_back_to_half_a_percent(size):
    shown = format_bytes(size)
    assert abs(parse_bytes(shown) - size) <= max(1, size / 190)
    assert len(re.sub("[^0-9]", "", shown.partition(" ")[0]).lstrip("0")) <= (4 if size < 1024 else 3)


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        *((0, "", "0"), (161, "", "161"), (99_999, "", "99,999"), (2_374_000, "", "2.37 M"), (16.1, "", "16.1")),
        *((999, "FLOPs", "999 FLOP"), (2_374_000_000_000, "FLOPs", "2.37 TFLOP"), (999_600, "FLOPs", "1 MFLOP")),
        *(
            (999, "ns", "999 ns"),
            (2_400_000, "ns", "2.4 ms"),
            (12 * 10**12, "ns", "12,000 s"),
            (-1500, "ns", "-1.5 us"),
        ),
        *((1500, "us", "1.5 ms"), (12, "work", "12 work"), (1_234_567, "work", "1.23 M work")),
    ],
)
def test_compute_is_scaled_as_its_unit_is(amount, unit, text):
    assert format_compute(amount, unit) == text


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("memory", "limit"),
    [
        *((None, None), (0, 0), (64, 64), (2**70, 2**63 - 1), ("64", 64), ("1.5 kB", 1500), ("1GiB", 2**30)),
        *(("0%", 0), ("50%", 50), (" 50 % ", 50), ("100%", 101), ("200%", 202), ("99.9%", 100), (".5%", 0)),
        *(("1.%", 1), ("33.3%", 33), ("least", None), (" Least ", None), ("LEAST", None)),
    ],
)
def test_memory_is_bytes_or_a_share_or_the_least(memory, limit):
    budget = Budget(memory=memory)
    assert budget.memory_limit(base=101, resident=7) == limit
    assert budget.least == (isinstance(memory, str) and memory.strip().lower() == "least")
    assert budget.overhead_limit(100, 1) is None


@pytest.mark.parametrize(
    ("share", "base", "limit"),
    [
        *(("33.3%", 1000, 333), ("33.3%", 1001, 333), ("33.4%", 2**53 - 1, 3008404551083490), ("10%", 9, 0)),
        *(("0.1%", 10**15 + 999, 10**12), ("99.99999999999999999999%", 2**53 - 1, 2**53 - 2)),
        *(("100%", 2**53 - 1, 2**53 - 1), ("57%", 100, 57), ("1.1%", 1000, 11)),
        ("29%", 100, 29),  # 0.29 * 100 is 28.999999999999996 in floats
    ],
)
def test_shares_round_down_exactly(share, base, limit):
    assert Budget(memory=share).memory_limit(base, 0) == limit
    assert Budget(overhead=share).overhead_limit(base, 1) == limit
    assert Budget(overhead=share).overhead_limit(base, 1000) == limit


@given(st.integers(0, 10**6), st.integers(0, 2**53))
def test_any_share_is_exact(thousandths, base):
    share = f"{thousandths // 1000}.{thousandths % 1000:03d}%"
    assert Budget(memory=share).memory_limit(base, 0) == thousandths * base // 100_000


# ---------------------------------------------------------------- device


@pytest.mark.parametrize(
    ("memory", "device", "limit"),
    [
        *((None, 40, 33), (None, "1kB", 993), (None, 7, 0), (None, 5, -2), (64, "40", 33), (20, 40, 20)),
        *(("50%", 40, 33), ("10%", 40, 10), ("least", 40, 33)),
    ],
)
def test_the_device_holds_the_residents_too_and_the_tighter_bound_counts(memory, device, limit):
    budget = Budget(memory=memory, device=device)
    assert (budget.memory_limit(base=101, resident=7), budget.least) == (limit, memory == "least")


# ---------------------------------------------------------------- overhead


@pytest.mark.parametrize(
    ("overhead", "scale", "limit"),
    [
        *((None, 1, None), (0, 1, 0), (120, 1, 120), (120, 10, 1200), ("120", 10, 1200), ("1.5", 10, 15)),
        *(("1.55", 10, 15), ("0.5", 1, 0), ("1e2", 1, 100), (" 12 ", 1, 12), ("30%", 1, 60), ("30%", 10, 60)),
        *(("33.3%", 1, 67), ("0%", 1, 0), ("250%", 1, 507)),
    ],
)
def test_overhead_is_in_the_unit_that_was_read_or_a_share_of_one_pass(overhead, scale, limit):
    assert Budget(overhead=overhead).overhead_limit(one_pass=203, scale=scale) == limit


# ---------------------------------------------------------------- what is given


@pytest.mark.parametrize("part", ["memory", "overhead", "device"])
@pytest.mark.parametrize("number", [np.int64(64), np.int32(64), np.uint8(64), np.array(64)])
def test_whole_numbers_of_numpy_are_whole_numbers(part, number):
    budget = Budget(**{part: number})
    assert getattr(budget, part) == 64
    assert type(getattr(budget, part)) is int


@pytest.mark.parametrize(("part", "example"), [("memory", "50%"), ("overhead", "30%"), ("device", "16GiB")])
@pytest.mark.parametrize(
    "given", [0.5, 64.0, np.float64(0.5), float("nan"), True, False, [64], (), b"64", Fraction(1, 2)]
)
def test_floats_flags_and_the_like_are_type_errors_with_an_example(part, example, given):
    with pytest.raises(TypeError, match=rf'{part} budget is .*; give whole numbers or text such as "{example}"'):
        Budget(**{part: given})


@pytest.mark.parametrize("given", [np.bool_(True), np.array([64]), np.array(0.5)])
def test_other_things_of_numpy_are_type_errors(given):
    with pytest.raises(TypeError):
        Budget(memory=given)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"memory": -1}, {"what": "memory", "amount": -1}),
        ({"device": -1}, {"what": "device", "amount": -1}),
        ({"overhead": -1}, {"what": "overhead", "amount": -1}),
        ({"memory": "half"}, "write a share as 50%"),
        *(
            ({"memory": text}, {"what": "memory"})
            for text in ("-50%", "half", "", "%", "50%%", "1e2%", "nan%", "8EiB", "1e999999 GiB")
        ),
        ({"device": "50%"}, {"device": "50%"}),
        ({"device": "least"}, {"what": "device"}),
        ({"overhead": "-5"}, {"what": "overhead"}),
        ({"overhead": ""}, "overhead budget '' is not a number"),
        *(({"overhead": text}, {"amount": text}) for text in ("least", "-5%", "1/0", "nan", "inf", "5 s")),
    ],
)
def test_text_that_is_no_budget_is_refused(parts, fault):
    with refused(ArgumentError, fault):
        Budget(**parts)


def test_what_is_no_budget_makes_a_number_or_text_bound_the_memory():
    budget = Budget(memory=64, overhead="30%")
    assert Budget.of(budget) is budget
    assert Budget.of(64) == Budget(memory=64)
    assert Budget.of("50%") == Budget(memory="50%")
    assert Budget.of(None) == Budget()
    with raises(ArgumentTypeError, example='"50%"'):
        Budget.of(0.5)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(), "none"),
        (Budget(memory="50%"), "memory 50%"),
        (Budget(memory=64, overhead="30%", device="1GiB"), "memory 64, overhead 30%, device 1GiB"),
        (Budget(overhead=0), "overhead 0"),
    ],
)
def test_a_budget_is_shown_as_it_was_asked(budget, text):
    assert str(budget) == text


def test_the_record_of_a_budget_makes_it_again():
    budget = Budget(memory=np.int64(64), overhead="30%")
    assert budget.record() == {"memory": 64, "overhead": "30%", "device": None}
    assert Budget(**budget.record()) == budget


@pytest.mark.parametrize(("text", "share"), [("least+0.1%", 1000), ("Least + 5 %", 20), (" least+ 100%", 1)])
def test_a_share_above_the_lowest_peak(text, share):
    budget = Budget(text)
    assert budget.above_lowest == Fraction(1, share)
    assert not budget.least
    with raises(ArgumentError, least="least"):
        budget.memory_limit(100, 0)


@pytest.mark.parametrize("text", ["least+", "least+1", "least-1%", "least+1%%", "lowest+1%", "least+x%", "least+-1%"])
def test_what_is_no_share_above_the_lowest_peak(text):
    with raises(ArgumentError, what="memory"):
        Budget(text)
