"""The numbers in the text of chen2016, and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remat_algos.cost.devices import get_device
from remat_algos.reproduce.case import NO_REMAT, Case
from remat_algos.reproduce.chen2016_networks import SUBLINEAR, resnet_case
from remat_algos.reproduce.chen2016_plans import SHARING, Allocated, power
from remat_algos.reproduce.chen2016_time import Line, Timed
from remat_algos.reproduce.page import Table, gigabytes, percent

PAPER_STEPS = 64
RULED = 200  # from this depth on stages grow by one rule
NOTE = """\
GB are 10^9 bytes. On the GPU, which has 12 GiB, the parameters and their gradients lie beside the shared blocks. How \
kusumoto2019 counts is explained with the second table of Figure 5."""
Row = tuple[str, str, str, str]


def since(resnets: Sequence[Allocated]) -> int:
    """The depth from which growth is fitted: where one rule divides the layers, if the ResNets go so deep."""
    return RULED if resnets[-1].size > RULED else 0


def of_paper_steps(lstms: Sequence[Allocated]) -> Allocated:
    """The LSTM that is as long as the paper's, or the longest."""
    return next((each for each in lstms if each.size == PAPER_STEPS), lstms[-1])


def claims(
    resnets: Sequence[Allocated],
    plain: Sequence[Allocated],
    lstms: Sequence[Allocated],
    weighted: Sequence[Allocated],
    timed: Mapping[str, Sequence[Timed]],
) -> Table:
    """A row for each number.

    Parameters
    ----------
    resnets, plain : sequence of Allocated
        Counted as frameworks do, and as the graphs of kusumoto2019.
    lstms, weighted : sequence of Allocated
        Without and with bytes for the gradients of the weights.
    timed : mapping of str to sequence of Timed
        Of the ResNets, then of the LSTMs.
    """
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    rows = [
        *_of_resnets(resnets, plain),
        _deepest(),
        _of_lstms(of_paper_steps(lstms), of_paper_steps(weighted)),
        *_of_time(resnets, lstms, timed),
    ]
    return Table("claims", "Numbers in the paper's text", columns, rows, NOTE)


def _of_resnets(resnets: Sequence[Allocated], plain: Sequence[Allocated]) -> list[Row]:
    label, start = resnets[-1].label, since(resnets)
    ranges = [f"{min(found):.2f} to {max(found):.2f} times" for found in map(_reductions, (resnets, plain))]
    return [
        (f"{label}, sharing", "abstract", "48 GB for 1,000 layers", _both(resnets, plain, SHARING)),
        (f"{label}, sublinear plan", "section 5.2", "under 7 GB for 1,000 layers", _both(resnets, plain, SUBLINEAR)),
        (
            "ResNets, no optimization against sharing",
            "section 5.2",
            "2 to 3 times",
            "; counted as by kusumoto2019 ".join(ranges),
        ),
        ("ResNets, growth of sharing", "Figure 5", "linear", f"depth^{power(resnets, SHARING, start):z.2f}"),
        (
            "ResNets, growth of the sublinear plan",
            "Figure 5",
            "sub-linear",
            f"depth^{power(resnets, SUBLINEAR, start):z.2f}",
        ),
    ]


def _reductions(plans: Sequence[Allocated]) -> list[float]:
    return [each.reduction for each in plans]


def _both(resnets: Sequence[Allocated], plain: Sequence[Allocated], strategy: str) -> str:
    ours, published = (gigabytes(plans[-1].memory[strategy]) for plans in (resnets, plain))
    return f"{ours}; counted as by kusumoto2019 {published}"


def _deepest() -> Row:
    ours, published = (deepest(counting) for counting in ("framework", "paper"))
    found = f"{ours} layers; counted as by kusumoto2019 {published}"
    return "deepest ResNet that fits on the GPU, sharing", "section 5.2", "about 200 layers", found


def deepest(counting: str, memory: int = 0) -> int:
    """Layers of the deepest ResNet whose shared blocks, parameters and their gradients fit on a GPU.

    Parameters
    ----------
    counting : {"framework", "paper"}
    memory : int
        Bytes; by default the paper's Titan X has them.

    Examples
    --------
    >>> deepest("framework", 2_000_000_000)
    32
    """
    memory = memory or get_device("Titan X").memory
    low, high = 4, 400  # blocks: 14 layers and 1202
    while low + 1 < high:
        middle = (low + high) // 2
        case = resnet_case(3 * middle + 2, None, {}, counting=counting)
        total = Allocated.of(case).memory[SHARING] + 2 * case.parameter_memory
        low, high = (middle, high) if total <= memory else (low, middle)
    return 3 * low + 2


def _of_lstms(lstm: Allocated, weighted: Allocated) -> Row:
    times = [each.memory[SHARING] / each.memory[SUBLINEAR] for each in (lstm, weighted)]
    found = f"{times[0]:.1f} times; with the gradients of weights {times[1]:.1f} times"
    return f"{lstm.label}, sharing against the sublinear plan", "section 5.3", "more than 4 times", found


def _of_time(
    resnets: Sequence[Allocated], lstms: Sequence[Allocated], timed: Mapping[str, Sequence[Timed]]
) -> list[Row]:
    of_resnets, of_lstms = timed.values()
    size = of_paper_steps(lstms).size
    lstm = next(each for each in of_lstms if each.case.size == size)
    more = [
        f"{percent(each.more(SUBLINEAR) or 0)} by the roofline, {_flops(each.case)} FLOPs"
        for each in (of_resnets[-1], lstm)
    ]
    lines = [
        [Line.of_time(found, strategy, start).exponent for strategy in (NO_REMAT, SUBLINEAR)]
        for found, start in ((of_resnets, since(resnets)), (of_lstms, 0))
    ]
    growth = [
        f"{what}^{once:.2f}, sublinear plan {what}^{twice:.2f}"
        for what, (once, twice) in zip(("depth", "steps"), lines, strict=True)
    ]
    return [
        (f"{of_resnets[-1].case.label}, more time for the sublinear plan", "section 5.4", "30 %", more[0]),
        (f"{lstm.case.label}, more time for the sublinear plan", "section 5.4", "30 %", more[1]),
        ("ResNets, growth of the time", "Figure 7", "linear for both", growth[0]),
        ("LSTM, growth of the time", "Figure 7", "linear for both", growth[1]),
    ]


def _flops(case: Case) -> str:
    return percent(case.overhead(SUBLINEAR))
