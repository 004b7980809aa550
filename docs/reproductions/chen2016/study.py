"""Training deep nets with sublinear memory cost: deep ResNets, a long LSTM, and what it costs in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from docs.reproductions.case import NO_REMAT, Case, named
from docs.reproductions.chen2016.networks import (
    DROP,
    LSTM_SOLVERS,
    RECURSIVE,
    RESNET_SOLVERS,
    SUBLINEAR,
    Solvers,
    blocks,
    lstm,
    lstm_case,
    lstm_reference,
    resnet,
    resnet_case,
    resnet_reference,
    scaled,
)
from docs.reproductions.chen2016.plan_order import claims_of_order
from docs.reproductions.chen2016.plans import (
    IN_PLACE,
    NO_OPTIMIZATION,
    SHARING,
    Allocated,
    allocations_table,
    memory_against_size,
    power,
)
from docs.reproductions.chen2016.time import ROOFLINE, Line, Timed, time_figure, time_table
from docs.reproductions.page import Filling, Page, Table, gigabytes, percent
from docs.reproductions.quick import quick_page
from remat_algos.context import Clock, Progress
from remat_algos.cost.devices import get_device
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.methods.chen_greedy import chen_greedy
from remat_algos.solvers.registry import Task, evaluated
from remat_algos.wording import format_bytes

DEPTHS, QUICK_DEPTHS = (50, 101, 152, 200, 302, 500, 1001), (62, 122)
STEPS, QUICK_STEPS = (8, 16, 32, 64, 128, 256), (4, 6)
PLAIN_SOLVERS = {strategy: RESNET_SOLVERS[strategy] for strategy in (SUBLINEAR, DROP)}
APPENDIX_A = {"grid": "paper", "rank_by": "allocation", "keep_last": False}
ADDITIONAL: Solvers = {"equal segments": ("chen_sqrt", {}), "search of appendix A": ("chen_greedy", APPENDIX_A)}
GB = 1_000_000_000
QUOTED = {"paper, before: 48 GB": (1000, 48 * GB), "paper, after: under 7 GB": (1000, 7 * GB)}
AS_PUBLISHED = ", counted as by kusumoto2019"
RESNETS_TITLE = "ResNets, batch 32, 3 x 224 x 224"
CLAIMS_NOTE = (
    "GB are 10^9 bytes. The GPU has 12 GiB, into which the parameters, their gradients and the shared blocks must fit. "
    "The section on Figure 5 explains how kusumoto2019 counts."
)
PAPER_STEPS = 64
RULED = 200  # from this depth on stages grow by one rule
SHARES = (0.15, 0.25, 0.4, 0.6)  # of the peak without rematerialization
COSTS: Mapping[str, Mapping[str, Any]] = {"FLOPs": {"cost": "flops"}, "time": ROOFLINE}
Row = tuple[str, str, str, str]


def page(quick: bool, progress: Progress | None) -> Page:
    """The results of section 5; with `quick` the quick page of fewer depths and steps."""
    depths, steps = (QUICK_DEPTHS, QUICK_STEPS) if quick else (DEPTHS, STEPS)
    resnets = [Allocated.of(resnet_case(depth, progress)) for depth in depths]
    plain = [
        Allocated.of(resnet_case(depth, progress, PLAIN_SOLVERS, AS_PUBLISHED, counting="paper")) for depth in depths
    ]
    lstms, weighted = ([Allocated.of(lstm_case(n, weights, progress)) for n in steps] for weights in (False, True))
    timed = {
        "ResNets, depth": [Timed.of(each.case, resnet) for each in resnets],
        "LSTM, steps": [Timed.of(each.case, lstm) for each in lstms],
    }
    quoted = None if quick else QUOTED
    lstm_of_paper, weighted_of_paper = of_paper_steps(lstms), of_paper_steps(weighted)
    values: dict[str, Filling] = {
        "claims": None if quick else claims(resnets, plain, lstms, weighted, timed),
        "order": None
        if quick
        else claims_of_order(
            {"ResNets": resnets, "LSTMs": lstms, "LSTMs with the gradients of the weights": weighted}, timed
        ),
        "figure5": memory_against_size("figure5", RESNETS_TITLE, "depth", resnets, since=since(resnets), quoted=quoted),
        "counting": _counting_table(resnets[-1], plain[-1]),
        "stages_of_depths": ", ".join(f"{each.size} is {_dashed(blocks(each.size))}" for each in resnets),
        "stages": None if quick else _stages_table(resnets[-1].size, progress),
        "steps": str(weighted_of_paper.size),
        "less_with_weights": f"{weighted_of_paper.memory[NO_OPTIMIZATION] / weighted_of_paper.memory[IN_PLACE]:.1f}",
        "less": f"{lstm_of_paper.memory[NO_OPTIMIZATION] / lstm_of_paper.memory[IN_PLACE]:.1f}",
        "weights_apart": _times_by_steps(lstms),
        "weights_counted": _times_by_steps(weighted),
        "as_published": None if quick else _near_the_text(plain),
        "weights": format_bytes(weighted_of_paper.case.parameter_memory),
        "figure6": memory_against_size("figure6", "LSTM, feature maps and their gradients", "steps", lstms),
        "figure6_weights": memory_against_size(
            "figure6_weights", "LSTM, with the gradients of the weights", "steps", weighted
        ),
        "allocations": allocations_table(_all_plans(resnets[-1].size, lstm_of_paper.size, progress)),
        "times": time_table([each for family in timed.values() for each in family]),
        **_straight_lines(timed, since(resnets)),
        "figure7": time_figure(timed),
        "costs": _costs_table(depths[0 if quick else -1], steps[0] if quick else PAPER_STEPS, progress),
    }
    whole = Page.of("chen2016", values)
    return quick_page(whole, _networks(depths, steps)) if quick else whole


def _networks(depths: Sequence[int], steps: Sequence[int]) -> dict[str, str]:
    """The networks run under each label."""
    return {f"ResNet-{depth}": resnet_reference(depth) for depth in depths} | {
        f"LSTM of {n} steps": lstm_reference(n) for n in steps
    }


def _straight_lines(timed: Mapping[str, Sequence[Timed]], start: int) -> dict[str, str]:
    """Deviations of the times from straight lines, by the names of the template."""
    words = {"from_depth": f" of {start} layers or more" if start else ""}
    for (name, size), cases, begin in zip(
        (("resnet", "layer"), ("lstm", "step")), timed.values(), (start, 0), strict=True
    ):
        for strategy, end in ((NO_REMAT, ""), (SUBLINEAR, "_sublinear")):
            line = Line.of_time(cases, strategy, begin)
            words |= {f"{name}_off{end}": percent(line.deviation), f"ms_of_{size}{end}": f"{1000 * line.slope:.2f}"}
    return words


# ---------------------------------------------------------------- tables


def _dashed(stages: Sequence[int]) -> str:
    return "-".join(map(str, stages))


def _stages_table(depth: int, progress: Progress | None) -> Table:
    """Memory of one depth, divided among the stages in several ways."""
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(("stages", "rule"), str)
    whole = "sublinear plan with parameters and their gradients"
    columns |= dict.fromkeys(("parameters", SHARING, DROP, SUBLINEAR, whole), gigabytes)  # beside the paper's 7 GB
    divisions = {"that of the zoo": blocks(depth)}
    divisions |= {f"in proportion to ResNet-{like}": scaled(blocks(like), depth) for like in (200, 152, 50)}
    rows = []
    for rule, stages in divisions.items():
        label = f" of stages {_dashed(stages)}"
        plans = Allocated.of(resnet_case(depth, progress, PLAIN_SOLVERS, label, stages=stages))
        memory = [plans.memory[name] for name in (SHARING, DROP, SUBLINEAR)]
        parameters = plans.case.parameter_memory
        rows.append((_dashed(stages), rule, parameters, *memory, memory[-1] + 2 * parameters))
    return Table("stages", f"Memory of {depth} layers", columns, rows)


def _counting_table(resnet: Allocated, plain: Allocated) -> Table:
    """Table of what gradients read, and its effect on each plan of the paper."""
    columns: dict[str, Callable[[Any], str]] = {"plan": str, "frameworks": gigabytes, "kusumoto2019": gigabytes}
    columns["paper"] = str
    quoted = {SHARING: "48 GB", SUBLINEAR: "under 7 GB"}
    rows = [(name, resnet.memory[name], memory, quoted.get(name)) for name, memory in plain.memory.items()]
    return Table("counting", f"{resnet.label}, counted in two ways", columns, rows)


def _all_plans(depth: int, steps: int, progress: Progress | None) -> list[tuple[Case, ComputationGraph]]:
    """A ResNet and an LSTM with further plans of the paper, and both priced by the roofline."""
    resnets = resnet_case(depth, progress, {**ADDITIONAL, **RESNET_SOLVERS})
    lstms = lstm_case(steps, False, progress, {**ADDITIONAL, **LSTM_SOLVERS})
    return [(resnets, resnet(depth, **ROOFLINE)), (lstms, lstm(steps, weights=False, **ROOFLINE))]


def _costs_table(depth: int, steps: int, progress: Progress | None) -> Table:
    networks = {
        f"ResNet-{depth}": partial(resnet, depth),
        f"LSTM of {steps} steps": partial(lstm, steps, weights=False),
    }
    return costs_table(networks, progress)


# ---------------------------------------------------------------- the numbers in the text of the paper


def since(resnets: Sequence[Allocated]) -> int:
    """The depth from which growth is fitted: from where one rule divides the layers, if the ResNets are deep enough."""
    return RULED if resnets[-1].size > RULED else 0


def of_paper_steps(lstms: Sequence[Allocated]) -> Allocated:
    """The LSTM as long as the paper's, or else the longest."""
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
        Counted as in frameworks, and as in the graphs of kusumoto2019.
    lstms, weighted : sequence of Allocated
        Without and with bytes for the gradients of the weights.
    timed : mapping of str to sequence of Timed
        Times of the ResNets, then of the LSTMs.
    """
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    rows = [
        *_of_resnets(resnets, plain),
        _deepest(),
        *_of_lstms(lstms, weighted),
        *_of_time(resnets, lstms, timed),
    ]
    return Table("claims", "Numbers in the paper's text", columns, rows, CLAIMS_NOTE)


def _of_resnets(resnets: Sequence[Allocated], plain: Sequence[Allocated]) -> list[Row]:
    label, start = resnets[-1].label, since(resnets)
    more = percent(resnets[-1].case.overhead(RECURSIVE))
    ranges = [f"{min(found):.2f} to {max(found):.2f} times" for found in map(_reductions, (resnets, plain))]
    return [
        (f"{label}, sharing", "abstract", "48 GB for 1,000 layers, plan not named", _both(resnets, plain, SHARING)),
        (
            f"{label}, sublinear plan",
            "abstract, section 5.2",
            "under 7 GB for 1,000 layers",
            _both(resnets, plain, SUBLINEAR),
        ),
        (
            "ResNets, no optimization against sharing",
            "section 5.2",
            "2 to 3 times",
            "; counted as by kusumoto2019 ".join(ranges),
        ),
        ("ResNets, growth of sharing", "Figure 5", "linear", f"depth^{power(resnets, SHARING, start):z.2f}"),
        (
            "ResNets, growth of the sublinear plan",
            "abstract, section 4.3, Figure 5",
            "O(√n), sub-linear",
            f"depth^{power(resnets, SUBLINEAR, start):z.2f}",
        ),
        (
            f"ResNets, growth of the recursive plan, and its FLOPs for {label}",
            "abstract, section 4.4",
            "O(log n) for O(n log n)",
            f"depth^{power(resnets, RECURSIVE, start):z.2f}; {more} more FLOPs",
        ),
    ]


def _dropped(resnet: Allocated, timed: Timed) -> Row:
    saved = percent(1 - resnet.memory[DROP] / resnet.memory[SHARING])
    more = (
        f"{percent(resnet.case.overhead(DROP))} more FLOPs, {percent(timed.more(DROP) or 0)} more time by the roofline"
    )
    found = f"{saved} less than sharing for {more}"
    return f"{resnet.label}, {DROP}", "section 4.2", "saves memory, little computation overhead", found


def _reductions(plans: Sequence[Allocated]) -> list[float]:
    return [each.reduction for each in plans]


def _both(resnets: Sequence[Allocated], plain: Sequence[Allocated], strategy: str) -> str:
    ours, published = (gigabytes(plans[-1].memory[strategy]) for plans in (resnets, plain))
    return f"{ours}; counted as by kusumoto2019 {published}"


def _deepest() -> Row:
    ours, published = (deepest(counting) for counting in ("framework", "paper"))
    found = f"{ours} layers; counted as by kusumoto2019 {published}"
    return "deepest ResNet that fits on the GPU, sharing", "section 5.2", "a 200 layer ResNet", found


@cache
def deepest(counting: str, memory: int = 0) -> int:
    """Layers of the deepest ResNet whose shared blocks, parameters and their gradients fit on a GPU.

    Parameters
    ----------
    counting : {"framework", "paper"}
    memory : int
        Bytes; by default those of the paper's Titan X.

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


def _of_lstms(lstms: Sequence[Allocated], weighted: Sequence[Allocated]) -> list[Row]:
    apart, counted = of_paper_steps(lstms), of_paper_steps(weighted)
    label, powers = apart.label, [f"steps^{power(each, SUBLINEAR):z.2f}" for each in (weighted, lstms)]
    growth = f"{powers[0]}; without the gradients of weights {powers[1]}"
    found = f"{_less(counted)}; without the gradients of weights {_less(apart)}"
    return [
        (f"{label}, sharing against the sublinear plan", "section 5.3", "more than 4 times", found),
        ("LSTM, growth of the sublinear plan", "abstract, section 4.3", "O(√n)", growth),
    ]


def _less(lstm: Allocated) -> str:
    return f"{lstm.memory[SHARING] / lstm.memory[SUBLINEAR]:.1f} times"


def _times_by_steps(lstms: Sequence[Allocated]) -> str:
    """How much less memory the sublinear plan needs than sharing, at the paper's length and at greater ones."""
    first, *longer = [each for each in lstms if each.size >= of_paper_steps(lstms).size]
    words = [
        f"{_less(first)} less than sharing at {first.size} steps",
        *(f"{_less(each)} at {each.size}" for each in longer),
    ]
    return ", ".join(words)


def _near_the_text(plain: Sequence[Allocated]) -> str:
    """The figures of the count by kusumoto2019 that are near those of the text."""
    factors = _reductions(plain)
    saving = f"a saving of {min(factors):.2f} to {max(factors):.2f} times for 2 to 3 times"
    shared = plain[-1].memory[SHARING]
    return f"{gigabytes(shared)} ({format_bytes(shared)}) for 48, {saving}, {deepest('paper')} layers for 200"


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
        _dropped(resnets[-1], of_resnets[-1]),
        (f"{of_resnets[-1].case.label}, more time for the sublinear plan", "section 5.4", "30 %", more[0]),
        (f"{lstm.case.label}, more time for the sublinear plan", "section 5.4", "30 %", more[1]),
        ("ResNets, growth of the time", "Figure 7", "linear for both", growth[0]),
        ("LSTM, growth of the time", "Figure 7", "linear for both", growth[1]),
    ]


def _flops(case: Case) -> str:
    return percent(case.overhead(SUBLINEAR))


# ---------------------------------------------------------------- costs weighed


def costs_table(networks: Mapping[str, Callable[..., ComputationGraph]], progress: Progress | None) -> Table:
    """The cheapest plans of algorithm 3 within some peaks, by memory alone and with costs weighed."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "peak of at most": percent}
    rows: dict[tuple[str, float], list[float | None]] = {(label, share): [] for label in networks for share in SHARES}
    for what, cost in COSTS.items():
        for weighed in (False, True):
            columns[f"more {what}{', costs weighed' if weighed else ''}"] = percent
            for label, graph_of in networks.items():
                told = named(progress, f"{label}, {what}")
                for share, found in zip(SHARES, overheads(graph_of(**cost), SHARES, weighed, told), strict=True):
                    rows[label, share].append(found)
    return Table("costs", "Overhead of the cheapest plan", columns, [(*key, *cells) for key, cells in rows.items()])


def overheads(
    graph: ComputationGraph, shares: Sequence[float], weighed: bool, progress: Progress | None = None
) -> list[float | None]:
    """Minimum compute beyond one pass within each share of the peak without rematerialization; None if nothing fits.

    Parameters
    ----------
    graph : ComputationGraph
    shares : sequence of float
    weighed : bool
        `weigh_cost` of `chen_greedy`.
    progress : callable, optional
    """
    candidates = chen_greedy(graph, Task(), Clock(progress=progress), weigh_cost=weighed)
    points = {evaluated(graph, found.schedule).figures for found in candidates}
    base, one_pass = baseline_peak(graph), max(1, graph.needed_compute)
    within = ([compute for peak, compute in points if peak <= share * base] for share in shares)
    return [round((min(costs) - graph.needed_compute) / one_pass, 4) if costs else None for costs in within]
