"""Training deep nets with sublinear memory cost: deep ResNets, a long LSTM, and what it costs in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import format_bytes
from remat_algos.models.families.resnet import stage_depths
from remat_algos.models.registry import build
from remat_algos.reproduce.case import NO_REMAT, Case
from remat_algos.reproduce.growth import fitted, growth
from remat_algos.reproduce.page import Page, Table, percent
from remat_algos.schedule.checkpoints import checkpoint_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.registry import Progress

DEPTHS, QUICK_DEPTHS = (50, 101, 152, 200, 302, 500, 1001), (62, 122)
RULED = 200  # from this depth on stages grow by one rule
STEPS, QUICK_STEPS = (8, 16, 32, 64, 128, 256), (4, 8)
DROP = "drop bn-relu"
SOLVERS = ("chen_sqrt", "chen_greedy", "chen_recursive")
SUBLINEAR = "chen_greedy"  # the paper's "sublinear plan" is found by its algorithm 3
GB, PAPER_STEPS = 1_000_000_000, 64
SAID = {"paper, before: 48 GB": (1000, 48 * GB), "paper, after: under 7 GB": (1000, 7 * GB)}
COSTS: Mapping[str, Mapping[str, str]] = {
    "FLOPs": {"cost": "flops"},
    "10 and 1": {"cost": "paper"},
    "roofline, Titan X": {"cost": "roofline", "device": "Titan X"},
}

INTRODUCTION = """\
Section 5 of the paper plans the memory of feature maps for ResNets of growing depth and for an unrolled LSTM, and \
times some of the plans on a Titan X. Here the same networks come from the zoo and each schedule is judged: its peak \
is the most bytes of forward values and gradients that are alive during any step, in float32. As in section 5.1, \
parameters and workspaces are not counted. Bytes are in powers of 1000. The paper's curves are pictures; what its \
text says in numbers stands beside ours. `remat reproduce chen2016` writes this page."""

SHARING = """\
The paper's plans come after "in-place" and "sharing" (section 3): an operation may write over its input, and values \
that are not alive together share a place. Our peaks free every value after its last read, which is what sharing \
reaches at best, but an input and its output always stand side by side. What a static plan of addresses adds, and what \
working in place takes away, comes with the allocators. The runtime totals of Figure 5 (nvidia-smi) hold the \
parameters, the workspaces of convolutions and the framework too: they cannot follow from the paper's own model, and \
are not compared."""

RESNETS = """\
Batch 32, 3 x 224 x 224, bottleneck blocks with pre-activation (He et al., the paper's reference 11). Columns: `all \
values` gives every value of the forward and the backward part a place of its own (the paper's "no optimization"); \
`no_remat` runs every operation once and frees what is not read any more; then come the lowest peaks that the solvers \
find; `drop bn-relu` keeps all but the outputs of batch norms and ReLUs, which run again. In the paper's "sublinear \
plan" algorithm 3, our `chen_greedy`, chooses what is kept."""

LSTMS = """\
Four layers of 1024 units, batch 64, an input of 50 numbers at each step, a softmax over 5000 classes at each step. \
Every step adds to the gradients of the same weights; the paper does so in place, "preventing allocate space for \
gradient at each timestamp". Ours are running sums as well, old and new side by side while one is made. In the first \
table they have no bytes, so that only feature maps and their gradients count; in the second they have, and are held \
from the first gradient to the last."""

STAGES = """\
The paper says "increasing the depth of each residual stage", and no numbers. Up to 200 layers the stages are the \
published ones, beyond it they follow the rule of the zoo: {}. The same depth can be divided otherwise; early stages \
have the larger feature maps, late ones more parameters, which are beside all peaks. The 7 GB of section 5.2 are of \
"GPU memory", perhaps with parameters, their gradients and workspaces."""

COUNTING = """\
`framework`: batch norms also save their statistics, and gradients read what the usual kernels read; so in all other \
tables. `paper`: one value per operation, and gradients read what the graphs of kusumoto2019 say. The peak holds \
gradients too; the column beside it has the forward values alone, at the step where they are most, which may be \
another."""

TIME = """\
A plan runs part of the forward pass a second time; where the backward part takes twice as long as the forward part, \
one whole forward pass more is a third (section 4.3). The overhead is that of the plans above, compute beyond one \
pass by three measures: FLOPs; 10 for a convolution and 1 for anything else; a roofline of the paper's GPU \
(docs/costs.md), which counts the bytes that batch norms and ReLUs move. `chen_recursive` may run a node more than \
twice (section 4.4)."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section 5 reports; with `quick` for fewer depths and steps."""
    steps = QUICK_STEPS if quick else STEPS
    resnets = [_resnet_case(depth, progress) for depth in (QUICK_DEPTHS if quick else DEPTHS)]
    plain = _resnet_case(resnets[-1].size, progress, [SUBLINEAR], ", counted as the paper", counting="paper")
    lstms, weighted = ([_lstm_case(n, weights, progress) for n in steps] for weights in (False, True))
    return Page(
        "chen2016",
        "training deep nets with sublinear memory cost",
        [
            INTRODUCTION,
            _claims(resnets, plain, lstms, weighted),
            SHARING,
            "## ResNets of growing depth (Figure 5)",
            RESNETS,
            *growth("figure5", "ResNets, batch 32, 3 x 224 x 224", "depth", resnets, _since(resnets), SAID),
            *([] if quick else _divisions(resnets, progress)),
            COUNTING,
            _counting_table(resnets[-1], plain),
            "## LSTM of growing length (Figure 6)",
            LSTMS,
            *growth("figure6", "LSTM, feature maps and their gradients", "steps", lstms),
            *growth("figure6_weights", "LSTM, with the gradients of the weights", "steps", weighted),
            "## Time (Figure 7)",
            TIME,
            _time_table("figure7_resnet", "ResNets", resnets, _resnet),
            _time_table("figure7_lstm", "LSTM", lstms, _lstm),
        ],
    )


def _divisions(resnets: Sequence[Case], progress: Progress | None) -> tuple[str, Table]:
    """How layers are divided among the stages, which the paper leaves open, and what that changes."""
    stages = ", ".join(f"{case.size} is {_dashed(_blocks(case.size))}" for case in resnets)
    return STAGES.format(stages), _stages_table(resnets[-1].size, progress)


# ---------------------------------------------------------------- networks


def _resnet(depth: int, stages: Sequence[int] | None = None, **settings: Any) -> ComputationGraph:
    size = {"depth": depth} if stages is None else {"stages": stages}
    options = {**size, "batch": 32, "image": 224, "preactivation": True}
    return differentiate(build("resnet", workspace=0, **options, **settings).graph)


def _resnet_case(
    depth: int, progress: Progress | None, solvers: Sequence[str] = SOLVERS, label: str = "", **settings: Any
) -> Case:
    graph = _resnet(depth, **settings)
    schedules = {DROP: _drop_bn_relu(graph)}
    return Case.of(f"ResNet-{depth}{label}", depth, graph, solvers, schedules=schedules, progress=progress)


def _drop_bn_relu(graph: ComputationGraph) -> Schedule:
    """Everything kept but what batch norms and ReLUs make."""
    return checkpoint_schedule(graph, ~np.isin(np.array(graph.labels.ops), ("BatchNorm", "ReLU")))


def _lstm(steps: int, weights: bool = True, **settings: Any) -> ComputationGraph:
    """With gradients of the weights; without bytes for them unless `weights`."""
    options = {"steps": steps, "batch": 64, "depth": 4, "width": 1024, "features": 50, "classes": 5000}
    graph = build("lstm", workspace=0, **options, **settings).graph
    if not weights and graph.resident is not None:
        graph = replace(graph, resident=replace(graph.resident, memory=np.zeros_like(graph.resident.memory)))
    return differentiate(graph, parameter_gradients=True)


def _lstm_case(steps: int, weights: bool, progress: Progress | None) -> Case:
    return Case.of(f"LSTM of {steps} steps", steps, _lstm(steps, weights), SOLVERS, progress=progress)


def scaled(blocks: Sequence[int], depth: int) -> tuple[int, ...]:
    """Blocks of each stage in the same proportions, for `depth` layers in all; the third takes what rounding leaves.

    Examples
    --------
    >>> scaled((3, 24, 36, 3), 1001)
    (15, 121, 182, 15)
    """
    wanted = (depth - 2) // 3  # a block has three convolutions; two layers stand before and behind
    found = [round(wanted * n / sum(blocks)) for n in blocks]
    found[2] += wanted - sum(found)
    return tuple(found)


# ---------------------------------------------------------------- tables


def _claims(resnets: Sequence[Case], plain: Case, lstms: Sequence[Case], weighted: Sequence[Case]) -> Table:
    """What the text of the paper says in numbers, and what is found here."""
    deepest = resnets[-1]
    freed = [case.unshared / case.peak(NO_REMAT) for case in resnets]
    at = next((i for i, case in enumerate(lstms) if case.size == PAPER_STEPS), -1)
    lstm, whole = lstms[at], weighted[at]
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    rows = [
        (
            f"{deepest.label} without rematerialization",
            "abstract",
            "48 GB for 1,000 layers",
            _counted_both_ways(deepest, plain, NO_REMAT),
        ),
        (
            f"{deepest.label}, sublinear plan",
            "section 5.2",
            "under 7 GB for 1,000 layers",
            _counted_both_ways(deepest, plain, SUBLINEAR),
        ),
        (
            "ResNets, all values against values freed",
            "section 5.2, freed and in place",
            "2 to 3 times",
            f"{min(freed):.2f} to {max(freed):.2f} times",
        ),
        ("ResNets, growth without rematerialization", "Figure 5", "linear", _power(resnets, NO_REMAT)),
        ("ResNets, growth of the sublinear plan", "section 5.2", "sub-linear", _power(resnets, SUBLINEAR)),
        (
            f"{lstm.label}, without rematerialization against the sublinear plan",
            "Figure 6, freed and in place",
            "more than 4 times",
            f"{_times(lstm)}; with the gradients of weights {_times(whole)}",
        ),
        (
            "more time for the sublinear plan",
            "section 5.4, on a Titan X",
            "about 30 %",
            f"{percent(deepest.overhead(SUBLINEAR))} more FLOPs; LSTM {percent(lstm.overhead(SUBLINEAR))}",
        ),
    ]
    return Table("claims", "What the text says in numbers", columns, rows)


def _since(resnets: Sequence[Case]) -> int:
    """The depth from which exponents are fitted: where one rule divides the layers, if the ResNets go so deep."""
    return RULED if resnets[-1].size > RULED else 0


def _power(resnets: Sequence[Case], strategy: str) -> str:
    return f"depth^{fitted(resnets, strategy, _since(resnets)):.2f}"


def _counted_both_ways(case: Case, plain: Case, strategy: str) -> str:
    return f"{format_bytes(case.peak(strategy))}; counted as by kusumoto2019 {format_bytes(plain.peak(strategy))}"


def _times(case: Case) -> str:
    return f"{case.peak(NO_REMAT) / case.peak(SUBLINEAR):.1f} times"


def _blocks(depth: int) -> tuple[int, ...]:
    return stage_depths("resnet", depth, bottleneck=True)


def _dashed(stages: Sequence[int]) -> str:
    return "-".join(map(str, stages))


def _stages_table(depth: int, progress: Progress | None) -> Table:
    """The same depth, differently divided among the stages."""
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(("stages", "rule"), str)
    columns |= dict.fromkeys(("parameters", NO_REMAT, SUBLINEAR, DROP), format_bytes)
    divisions = {"that of the zoo": _blocks(depth)}
    divisions |= {f"in proportion to ResNet-{like}": scaled(_blocks(like), depth) for like in (200, 152, 50)}
    rows = []
    for rule, stages in divisions.items():
        case = _resnet_case(depth, progress, [SUBLINEAR], f" of stages {_dashed(stages)}", stages=stages)
        peaks = [case.peak(strategy) for strategy in case.simulations]
        rows.append((_dashed(stages), rule, case.parameter_memory, *peaks))
    return Table("stages", f"Peak memory of {depth} layers", columns, rows)


def _counting_table(deepest: Case, plain: Case) -> Table:
    """What counts as memory, and what gradients read."""
    columns: dict[str, Callable[[Any], str]] = {"counting": str, "strategy": str}
    columns |= {"peak": format_bytes, "forward values at most": format_bytes, "overhead in FLOPs": percent}
    rows = [
        (counting, strategy, case.peak(strategy), case.forward_peak(strategy), case.overhead(strategy))
        for counting, case in (("framework", deepest), ("paper", plain))
        for strategy in case.simulations
    ]
    return Table("counting", f"{deepest.label}, batch 32, 3 x 224 x 224", columns, rows)


def _time_table(name: str, title: str, cases: Sequence[Case], graph_of: Callable[..., ComputationGraph]) -> Table:
    """Overheads of the same schedules by several costs."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "strategy": str, "peak of no_remat": percent}
    columns |= dict.fromkeys(COSTS, percent)
    rows: list[tuple[Any, ...]] = []
    for case in cases:
        priced = [graph_of(case.size, **settings) for settings in COSTS.values()]
        for strategy in case.simulations:
            if strategy != NO_REMAT:
                share = round(case.peak(strategy) / case.peak(NO_REMAT), 4)
                rows.append((case.label, strategy, share, *(case.overhead(strategy, graph) for graph in priced)))
    return Table(name, f"Overhead of the plans: {title}", columns, rows)
