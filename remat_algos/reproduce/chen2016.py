"""Training deep nets with sublinear memory cost: deep ResNets, a long LSTM, and what it costs in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from remat_algos.context import Progress
from remat_algos.ir.graph import ComputationGraph
from remat_algos.reproduce.case import NO_REMAT, Case
from remat_algos.reproduce.chen2016_claims import PAPER_STEPS, claims, of_paper_steps, since
from remat_algos.reproduce.chen2016_costs import costs_table
from remat_algos.reproduce.chen2016_networks import (
    DROP,
    LSTM_SOLVERS,
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
from remat_algos.reproduce.chen2016_plans import (
    IN_PLACE,
    NO_OPTIMIZATION,
    SHARING,
    Allocated,
    allocations_table,
    memory_against_size,
)
from remat_algos.reproduce.chen2016_time import ROOFLINE, Line, Timed, time_figure, time_table
from remat_algos.reproduce.page import Page, Part, Table, gigabytes, percent
from remat_algos.reproduce.quick import quick_page
from remat_algos.text.units import format_bytes

DEPTHS, QUICK_DEPTHS = (50, 101, 152, 200, 302, 500, 1001), (62, 122)
STEPS, QUICK_STEPS = (8, 16, 32, 64, 128, 256), (4, 6)
PLAIN_SOLVERS = {strategy: RESNET_SOLVERS[strategy] for strategy in (SUBLINEAR, DROP)}
APPENDIX_A = {"grid": "paper", "rank_by": "allocation", "keep_last": False}
ADDITIONAL: Solvers = {"equal segments": ("chen_sqrt", {}), "search of appendix A": ("chen_greedy", APPENDIX_A)}
GB = 1_000_000_000
QUOTED = {"paper, before: 48 GB": (1000, 48 * GB), "paper, after: under 7 GB": (1000, 7 * GB)}
AS_PUBLISHED = ", counted as by kusumoto2019"
RESNETS_TITLE = "ResNets, batch 32, 3 x 224 x 224"

INTRODUCTION = """\
Section 5 of the paper plans the memory of feature maps for ResNets of growing depth and for an unrolled LSTM, and \
times some of the plans on a Titan X. Here the same networks come from the zoo, in float32, and a plan takes what a \
static allocation of its forward values and gradients takes, as in the paper. Parameters and workspaces are not \
counted (section 5.1). Numbers beside the paper's are in its unit, GB of 10^9 bytes; all other sizes are in binary \
units (1 GiB = 2^30 bytes). The paper's curves are pictures; the numbers in its text stand beside ours. `remat \
reproduce chen2016` writes this page."""

PLANS = """\
The plans are those of section 5.1, by their names there. `no optimization` gives every value of the forward and the \
backward part memory of its own. `in-place` lets sums, activations and their gradients write over a value that \
nothing reads later, and adds up a gradient that comes in parts in one place. `sharing` also reuses memory once its \
value is not needed any more (`share_storage`, with the best match range; docs/algorithms/sharing.md). `sublinear \
plan` is algorithm 3 (`chen_greedy`), and `drop bn-relu` recomputes batch norms and ReLUs (`drop_cheap`); both are \
allocated in the same way. So is `recursive plan`, that of section 4.4 (`chen_recursive`), which the paper does not \
measure. \
The runtime totals of Figure 5 (nvidia-smi) include the parameters, the workspaces of convolutions and the framework: \
they do not follow from the paper's own model, and are not compared."""

SEARCH = """\
The budget B of algorithm 3 is searched. Appendix A of the paper tries 0, then √(xy), then "a size 6 grid on [B/√2, \
√2 B]", and takes the plan for which the static allocator needs the minimum memory. Our `sublinear plan` differs in \
both points: it tries every budget that makes a difference (past 2,000 of them, a geometric grid), and takes the plan \
with the lowest simulated peak, which is then allocated. The paper does not say how its six budgets are spaced; the \
geometric spacing of `grid="paper"` is ours. The search of appendix A is an option of `chen_greedy` \
(docs/solvers/chen_greedy.md); its plans are in the table of Section 3 below. Of 1001 layers its plan needs slightly \
less when allocated, and more at the simulated peak; of the LSTM it needs more by both."""

RESNETS = """\
Batch 32, 3 x 224 x 224, bottleneck blocks with pre-activation (He et al., the paper's reference 11). Writing in \
place about halves the memory of the values, sharing halves it once more, and with both it still grows linearly with \
the depth; with the sublinear plan it does not."""

STAGES = """\
The paper says "increasing the depth of each residual stage", and no numbers. Up to 200 layers the stages are the \
published ones, beyond it they follow the rule of the zoo: {}. Other divisions of the same depth are possible; early \
stages have the larger feature maps, late ones more parameters. The 7 GB of section 5.2 are of "GPU memory", perhaps \
with the parameters and their gradients; counted that way (last column), the sublinear plan stays below 7 GB in every \
row but the last."""

COUNTING = """\
What gradients read decides what must stay in memory. `frameworks`: the gradient of a sum reads nothing, that of a \
ReLU reads the ReLU's output, and batch norms save their statistics too; all other tables count like this. \
`kusumoto2019`: one value per operation, and the gradient of a sum reads its inputs, as in the graphs of that paper. \
With the second count the memory without rematerialization, the savings of in-place and sharing, and the depth at \
which a Titan X is full agree with the text; with the first all three are better. The sublinear plan is far below 7 \
GB with both."""

ALLOCATIONS = """\
`peak` is the simulated peak: the maximum of the live bytes over the steps, where the inputs and the outputs of an \
operation never overlap; in the columns after it they may. `in place` counts a value that is written over another one \
only once: a lower bound for every allocation. `shared` is the paper's allocator, as in the tables above: blocks side \
by side, each as large as its largest value. Without rematerialization it needs hardly more than the lower bound. In \
the sublinear plan of a ResNet values of all stages share the blocks: at its worst step every block is in use, by \
values that are smaller than the block. `packed` assigns addresses in one arena (`pack`, its first greedy order), \
which removes almost all of this loss. `equal segments` is algorithm 1 (`chen_sqrt`). `search of appendix A` is \
algorithm 3 with the paper's own search, which picks the least `shared`; `sublinear plan` picks the least `peak` \
among more budgets. Overheads are in FLOPs, and in time by the roofline of a Titan X; `recursive plan` may run a node \
more than twice."""

LSTMS = """\
Four layers of 1024 units, batch 64, an input of 50 numbers at each step, a softmax over 5000 classes at each step. \
Every step adds to the gradients of the same weights; "inplace optimization in our experiment enables direct addition \
of weight gradient to a single memory cell, preventing allocate space for gradient at each timestamp". The same \
happens here: for {} steps in-place needs {} times less in the second table, and {} times less in the first, where \
the gradients of the weights have no bytes. In the second table these cells are {} of every plan but the first, which \
is why its sublinear plan is not 4 times below sharing at that length. The paper does not say whether they count."""

TIME = """\
A plan recomputes part of the forward pass; where the backward part takes twice as long as the forward part, one \
whole forward pass more is a third (section 4.3). Time is that of a roofline of the paper's GPU (docs/costs.md), \
which counts the bytes that batch norms and ReLUs move as well as FLOPs; `10 and 1` is 10 for a convolution or a \
matrix product, 1 for anything else. The first three plans run the same operations, so `sharing` represents them."""

LINEAR = """\
Time grows linearly with the workload with and without the sublinear plan, as in the paper. ResNets{}: a straight \
line is at most {} off the times by `sharing` and {} off those of the sublinear plan; a layer more takes {} ms and {} \
ms. LSTM: {} and {}; a step more takes {} ms and {} ms."""

COSTS = """\
"We can also generalize this algorithm by considering the cost to run each operation to try to keep time consuming \
operations when possible" (section 4.3); the paper shows no numbers. `chen_greedy` with `weigh_cost` also keeps, \
inside segments, nodes whose compute per byte reaches a threshold, and tries up to 16 thresholds. Below are the \
cheapest plans within shares of the peak without rematerialization. The more outputs of convolutions a ResNet can \
keep, the fewer convolutions are recomputed; at 60 % hardly any is, and the rest is batch norms, ReLUs and sums, much \
as in `drop bn-relu`. In an LSTM there is little to gain: gradients read the gates and states, not the larger matrix \
products that they are computed from."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section 5 reports; with `quick` the quick page of fewer depths and steps."""
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
    parts: list[Part] = [
        *([] if quick else (INTRODUCTION, claims(resnets, plain, lstms, weighted, timed))),
        PLANS,
        SEARCH,
        "## ResNets of growing depth (Figure 5)",
        RESNETS,
        *memory_against_size("figure5", RESNETS_TITLE, "depth", resnets, since=since(resnets), quoted=quoted),
        COUNTING,
        _counting_table(resnets[-1], plain[-1]),
        *([] if quick else _divisions(resnets, progress)),
        "## LSTM of growing length (Figure 6)",
        _of_lstms(of_paper_steps(lstms), of_paper_steps(weighted)),
        *memory_against_size("figure6", "LSTM, feature maps and their gradients", "steps", lstms),
        *memory_against_size("figure6_weights", "LSTM, with the gradients of the weights", "steps", weighted),
        "## From the peak to addresses (Section 3)",
        ALLOCATIONS,
        allocations_table(_all_plans(resnets[-1].size, of_paper_steps(lstms).size, progress)),
        "## Time (Figure 7)",
        TIME,
        time_table([each for family in timed.values() for each in family]),
        _linear(timed, since(resnets)),
        time_figure(timed),
        "## Costs weighed (Section 4.3)",
        COSTS,
        _costs_table(depths[0 if quick else -1], steps[0] if quick else PAPER_STEPS, progress),
    ]
    if quick:
        return quick_page("chen2016", _networks(depths, steps), parts)
    return Page("chen2016", "training deep nets with sublinear memory cost", parts)


def _networks(depths: Sequence[int], steps: Sequence[int]) -> dict[str, str]:
    """What is run under each label."""
    return {f"ResNet-{depth}": resnet_reference(depth) for depth in depths} | {
        f"LSTM of {n} steps": lstm_reference(n) for n in steps
    }


# ---------------------------------------------------------------- texts with numbers


def _of_lstms(lstm: Allocated, weighted: Allocated) -> str:
    times = (f"{each.memory[NO_OPTIMIZATION] / each.memory[IN_PLACE]:.1f}" for each in (weighted, lstm))
    return LSTMS.format(weighted.size, *times, format_bytes(weighted.case.parameter_memory))


def _linear(timed: Mapping[str, Sequence[Timed]], start: int) -> str:
    """How near the times are to straight lines."""
    words = [f" from depth {start} on" if start else ""]
    for cases, begin in zip(timed.values(), (start, 0), strict=True):
        lines = [Line.of_time(cases, strategy, begin) for strategy in (NO_REMAT, SUBLINEAR)]
        words += [percent(line.deviation) for line in lines] + [f"{1000 * line.slope:.2f}" for line in lines]
    return LINEAR.format(*words)


# ---------------------------------------------------------------- tables


def _divisions(resnets: Sequence[Allocated], progress: Progress | None) -> tuple[str, Table]:
    """How layers are divided among the stages, which the paper leaves open, and what that changes."""
    stages = ", ".join(f"{each.size} is {_dashed(blocks(each.size))}" for each in resnets)
    return STAGES.format(stages), _stages_table(resnets[-1].size, progress)


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
    """What gradients read, and what follows for each plan of the paper."""
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
