"""Models of many kinds through both doors: bit-equal to what runs without a plan, and within their prediction."""

import pytest

from tests.benchmarks.torch_models import doors_of, run
from tests.interop.torch_zoo import CASES

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
FAST = ("checkpoint_dropout", "vmap")  # the others are slow
LOSS_GRADIENT = 4  # bytes, which `backward` holds
FAULTS = {("embedding_bag", "torch.compile"): "workspaces are measured with indices of zero"}
"""Name and door to a fault that is known."""


def marks_of(name, door):
    slow = () if name in FAST else (pytest.mark.slow,)
    fault = FAULTS.get((name, door))
    return slow if fault is None else (*slow, pytest.mark.xfail(strict=True, reason=fault))


@pytest.mark.parametrize(
    ("name", "door"),
    [pytest.param(name, door, marks=marks_of(name, door)) for name in CASES for door in doors_of(name)],
)
def test_a_model_is_bit_equal_and_within_its_prediction(name, door):
    if CASES[name].is_missing:
        pytest.skip(f"{CASES[name].library} is not installed")
    row = run(name, door)
    assert row.equal
    assert row.measured <= row.predicted + LOSS_GRADIENT, row


def test_at_least_forty_models_are_compared():
    assert len(CASES) >= 40
