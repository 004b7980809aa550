"""Rematerialization by tree decompositions: widths, peaks and lengths of ResNets, feed-forward nets, Transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Progress
from remat_algos.reproduce.case import NO_REMAT, Case
from remat_algos.reproduce.growth import fitted, growth
from remat_algos.reproduce.kumar2019_goals import goals, of_quick_goals, steps_to_ours, variants
from remat_algos.reproduce.kumar2019_plots import plot_lengths
from remat_algos.reproduce.kumar2019_runs import GREEDY, TWREMAT, length, measured, training_graph
from remat_algos.reproduce.kumar2019_static import STATIC, static
from remat_algos.reproduce.kumar2019_trade import Trade
from remat_algos.reproduce.kumar2019_widths import (
    POSTULATE,
    TABLE_1_TEXT,
    Widths,
    networks,
    postulate,
    quick_references,
    table_1,
)
from remat_algos.reproduce.page import Figure, Page, Part, Table
from remat_algos.reproduce.quick import quick_page

RESNET = "model:resnet?depth={}&optimizer=momentum"
FFN = "model:feed_forward?depth={}&batch=16384&optimizer=sgd"
TRANSFORMER = "model:transformer_{}?batch={}&sequence=256&words=33708&granularity=primitive&optimizer={}"
OPTIMIZERS = ("adam", "sgd")  # of the Transformers; the paper names none
RESNET_DEPTHS, QUICK_RESNET_DEPTHS = (50, 101, 152, 200, 302, 602), (10, 14)
FFN_DEPTHS, QUICK_FFN_DEPTHS = (50, 100, 200, 300, 400), (8, 16)
RULED = 200  # from this depth on stages grow by one rule
GIB = 1 << 30
TABLE_2 = {  # size, sentences; GiB and relative length of NoRemat, GreedyRemat, TWRemat; reduction by TWRemat
    "Transformer Base": ("base", 8, ((3.97, 1.21), (2.92, 1.27), (1.14, 10.61)), "3.48 times"),
    "Transformer Big": ("big", 16, ((13.25, 1.27), (10.12, 1.27), (2.89, 10.64)), "4.59 times"),
}

QUICK_LABEL = "transformer_base of 1 layer"
QUICK_TRANSFORMER = TRANSFORMER.format("base", 8, "adam") + "&depth=1"

INTRODUCTION = """\
Section 4 of the paper compares three algorithms on TensorFlow's graphs of ResNets, feed-forward networks (FFN) and \
Transformers. Here the networks come from the zoo, with their optimizers; every operation costs 1, as in the paper, \
so that the length of a schedule is the number of its runs, given in times of one pass. NoRemat is `no_remat`. \
GreedyRemat is `greedy_remat` that recomputes one operation at a time (`max_block=1`). TWRemat is algorithm 1 with \
the minimum fill-in order and Jordan's separators, to the letter but for the error that docs/algorithms/twremat.md \
shows. Both are without the passes of `solve`, GreedyRemat at its best memory limit. `greedy_remat` and `twremat` are \
our solvers with everything that they offer: longer blocks; several orders, batches; and the passes that `solve` \
applies to any schedule. Table 2 is in the paper's unit, GiB (2^30 bytes), as are all sizes here. `remat reproduce \
kumar2019` writes this page."""

PEAKS = """\
A peak is simulated: the maximum of the live bytes over the steps, with the inputs, values and workspace of each (the \
paper's U_i). The paper measures the peak of an optimal static allocation, which is never lower; the table after \
Table 2 shows how little it adds. Parameters are not counted in any peak; in TensorFlow they are nodes, and the paper \
does not say whether they count. An update of a parameter waits for the last run that reads it, which the paper does \
not require, and NoRemat runs all updates last: gradients of parameters stay in memory until then."""

DEPTH = """\
The paper's curves are pictures; the numbers in its text are in the first table. ResNets have batch 32, 3 x 224 x \
224, and bottleneck blocks with norms behind the convolutions, as version 1 of TensorFlow's model; up to 152 layers \
the stages are as published, from 200 on, where the fits of the exponents begin, they grow by one rule (docs/zoo.md). \
Deeper ones have more of the small values of the third stage, while the lowest peaks are due to the large values of \
the first. Hidden layers of the FFN have 1024 units; a batch of 16,384 makes values larger than the gradients of \
weights (64 MiB against 4 MiB). The paper gives no batch and no width."""

VARIANTS = """\
What an operation saves for its gradient decides what its recomputation can free. With norms in front \
(pre-activation) a ReLU is between a norm and a convolution, and to free its output one must recompute the norm too: \
two operations, which GreedyRemat never does. `counting=paper` lets gradients read all inputs and outputs of \
operations, as in the graphs of kusumoto2019. The paper's "about 2 times" for ResNets holds for the first and the \
third row, not for the other two."""

TRANSFORMERS = """\
The paper trains TensorFlow's model "with all hyperparameters set to recommended defaults" (section 4), which are \
batches of 2,048 words for base and 4,096 for big, a vocabulary of 33,708 words, and sentences of 256 words at most; \
so 8 and 16 sentences of 256 words here, in primitive operations. The paper names no optimizer for the Transformer; \
those defaults train with Adam, which Table 1 has too. The rows with plain gradient descent (sgd) show the effect of \
the optimizer: Adam's updates are many element-wise nodes that run once, so one pass is longer, and TWRemat's length \
is a smaller multiple of it. The scores of all words of the vocabulary and their gradients are the largest values, \
and some of them are in memory together in any schedule: `lower bound` is for every schedule. So the ratios of this \
table depend on the loss as much as on the algorithms; with fewer words they grow (last section). The paper does not \
say what its relative lengths are relative to; it is not NoRemat, which has 1.21 and 1.27. Against NoRemat, as in its \
Figure 3, TWRemat's are 8.77 and 8.38. Ours are in times of one pass, which is NoRemat."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section 4 reports; with `quick` the quick page of small networks."""
    plain = RESNET + ("&bottleneck=false" if quick else "")
    resnets = _family("ResNet", plain, QUICK_RESNET_DEPTHS if quick else RESNET_DEPTHS, progress)
    ffns = _family("FFN", FFN, QUICK_FFN_DEPTHS if quick else FFN_DEPTHS, progress)
    transformers = _transformers(quick, progress)
    deep = next((case for case in resnets if case.size == RULED), resnets[-1])
    trade = Trade(deep, progress)
    zoo = networks(quick)
    of_resnets = variants(plain.format(resnets[1].size), quick, progress)
    parts: list[Part] = [
        INTRODUCTION,
        *([] if quick else [_claims(resnets, ffns, transformers, zoo, trade, of_resnets)]),
        PEAKS,
        "## Graphs and widths (Table 1)",
        TABLE_1_TEXT,
        table_1(quick),
        POSTULATE,
        postulate(zoo),
        "## Memory against depth (Figure 2)",
        DEPTH,
        *growth("figure2_resnet", "ResNets, batch 32, 3 x 224 x 224", "depth", resnets, _since(resnets)),
        VARIANTS,
        of_resnets,
        *growth("figure2_ffn", "feed-forward networks", "depth", ffns),
        "## Length against depth (Figure 3)",
        *_lengths({"ResNets": resnets, "Feed-forward networks": ffns}),
        "## Transformers (Table 2)",
        TRANSFORMERS,
        _table_2(transformers, quick),
        STATIC,
        static([deep, ffns[-1], *transformers.values()]),
        "## Memory against length (Figure 4)",
        *trade.parts(),
        "## From the paper's algorithm to ours",
        *steps_to_ours([ffns[1]] if quick else [deep, ffns[1], next(iter(transformers.values()))], progress),
        "## Aims of this project",
        *goals(quick, progress),
    ]
    if quick:
        of_families = {case.label: plain.format(case.size) for case in resnets}
        of_families |= {case.label: FFN.format(case.size) for case in ffns}
        others = {QUICK_LABEL: QUICK_TRANSFORMER, **quick_references(), **of_quick_goals()}
        return quick_page("kumar2019", of_families | others, parts)
    return Page("kumar2019", "rematerialization by tree decompositions", parts)


def _family(name: str, reference: str, depths: Sequence[int], progress: Progress | None) -> list[Case]:
    graphs = ((depth, training_graph(reference.format(depth))) for depth in depths)
    return [measured(f"{name}-{depth}", depth, graph, progress) for depth, graph in graphs]


def _transformers(quick: bool, progress: Progress | None) -> dict[tuple[str, str], Case]:
    """By label and optimizer."""
    references = {
        (label, optimizer): TRANSFORMER.format(size, batch, optimizer)
        for label, (size, batch, *_) in TABLE_2.items()
        for optimizer in OPTIMIZERS
    }
    if quick:
        references = {(QUICK_LABEL, "adam"): QUICK_TRANSFORMER}
    return {
        key: measured(", ".join(key), 0, training_graph(reference), progress) for key, reference in references.items()
    }


def _since(resnets: Sequence[Case]) -> int:
    return RULED if resnets[-1].size > RULED else 0


# ---------------------------------------------------------------- tables


def _claims(
    resnets: Sequence[Case],
    ffns: Sequence[Case],
    transformers: Mapping[tuple[str, str], Case],
    widths: Sequence[Widths],
    trade: Trade,
    of_resnets: Table,
) -> Table:
    """The words and numbers in the text of the paper, and ours."""
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    rows = [
        ("width of the training graph against its forward part", "section 2", "at most 2 times", _ratios(widths)),
        ("growth of NoRemat", "section 4.1, Figure 2", "linear", _powers(resnets, ffns, NO_REMAT)),
        ("growth of GreedyRemat", "section 4.1, Figure 2", "linear", _powers(resnets, ffns, GREEDY)),
        ("growth of TWRemat", "section 4.1, Figure 2", "sublinear", _powers(resnets, ffns, TWREMAT)),
        (
            "reduction of the peak by GreedyRemat, ResNets",
            "section 4.1",
            "about 2 times",
            f"{_times(resnets, GREEDY)}; {_of_variants(of_resnets)}",
        ),
        ("reduction of the peak by GreedyRemat, FFN", "section 4.1", "very little", _times(ffns, GREEDY)),
        ("reduction of the peak by TWRemat, both", "section 4.1", "up to 10 times", _times([*resnets, *ffns], TWREMAT)),
        *_transformer_claims(transformers),
        ("length of GreedyRemat", "section 4.2, Figure 3", "marginally longer", _spread([*resnets, *ffns], GREEDY)),
        ("length of TWRemat", "section 4.2, Figure 3", "3 to 4 times", _spread([*resnets, *ffns], TWREMAT)),
        (f"{trade.case.label}, TWRemat(n)", "section 4.3, Figure 4", "NoRemat", trade.whole),
    ]
    return Table("claims", "Numbers in the paper's text", columns, rows)


def _transformer_claims(cases: Mapping[tuple[str, str], Case]) -> Iterator[tuple[str, str, str, str]]:
    for label, (*_, quoted) in TABLE_2.items():
        ours = [f"{_times([case], TWREMAT)} ({optimizer})" for (of, optimizer), case in cases.items() if of == label]
        yield f"reduction of the peak by TWRemat, {label}", "section 4.1", quoted, ", ".join(ours)
    spread = [f"up to {_longest(cases, optimizer):.2f} times ({optimizer})" for optimizer in OPTIMIZERS]
    yield "length of TWRemat, Transformers", "section 4.1", "up to 10.6 times", ", ".join(spread)


def _longest(cases: Mapping[tuple[str, str], Case], optimizer: str) -> float:
    return max(length(case.simulations[TWREMAT]) for (_, of), case in cases.items() if of == optimizer)


def _of_variants(table: Table) -> str:
    """The other ResNets in the table of variants, with what GreedyRemat saves on each."""
    at = list(table.columns).index(GREEDY)
    return ", ".join(f"{1 / row[at]:.2f} with {row[1]}" for row in table.rows[1:])


def _ratios(widths: Sequence[Widths]) -> str:
    beyond = sum(found.proven > 2 for found in widths)
    return f"{_from_to([found.ratio for found in widths])}; {beyond} of {len(widths)} provably more than 2"


def _powers(resnets: Sequence[Case], ffns: Sequence[Case], strategy: str) -> str:
    power = fitted(resnets, strategy, _since(resnets))
    return f"ResNet depth^{power:z.2f}, FFN depth^{fitted(ffns, strategy):z.2f}"


def _times(cases: Sequence[Case], strategy: str) -> str:
    return _from_to([case.peak(NO_REMAT) / case.peak(strategy) for case in cases])


def _spread(cases: Sequence[Case], strategy: str) -> str:
    return _from_to([length(case.simulations[strategy]) for case in cases])


def _from_to(numbers: Sequence[float]) -> str:
    low, high = f"{min(numbers):.2f}", f"{max(numbers):.2f}"
    return f"{low} times" if low == high else f"{low} to {high} times"


def _lengths(families: Mapping[str, Sequence[Case]]) -> tuple[Table, Figure]:
    """Figure 3, its table and its picture."""
    strategies = [name for name in next(iter(families.values()))[0].simulations if name != NO_REMAT]
    columns: dict[str, Callable[[Any], str]] = {"family": str, "depth": str}
    columns |= dict.fromkeys(strategies, "{:.2f}".format)
    rows = [
        (family, case.size, *(length(case.simulations[name]) for name in strategies))
        for family, cases in families.items()
        for case in cases
    ]
    panels = {
        family: {name: [(case.size, length(case.simulations[name])) for case in cases] for name in strategies}
        for family, cases in families.items()
    }
    title = "Length of the schedules with the lowest peaks, in times of one pass"
    caption = "The table above."
    return Table("figure3", title, columns, rows), Figure("figure3", title, partial(plot_lengths, panels), caption)


def _table_2(cases: Mapping[tuple[str, str], Case], quick: bool = False) -> Table:
    """GiB and lengths, the paper's rows above ours; with `quick` there are none of the paper."""
    strategies = list(next(iter(cases.values())).simulations)
    columns: dict[str, Callable[[Any], str]] = {"network": str, "optimizer" if quick else "by": str}
    for name in strategies:
        columns |= {name: "{:.2f} GiB".format, f"{name}, length": "{:.2f}".format}
    columns["lower bound"] = "{:.2f} GiB".format
    rows: list[tuple[Any, ...]] = []
    for (label, optimizer), case in cases.items():
        if label in TABLE_2 and optimizer == OPTIMIZERS[0]:
            quoted = [cell for pair in TABLE_2[label][2] for cell in pair]
            rows.append((label, "paper", *quoted, *[None] * (len(columns) - 2 - len(quoted))))
        ours = [(_gib(case.peak(name)), length(case.simulations[name])) for name in strategies]
        bound = _gib(least_peak_bound(case.graph)[0])
        by = optimizer if quick else f"ours, {optimizer}"
        rows.append((label, by, *(cell for pair in ours for cell in pair), bound))
    return Table("table2", "Transformers, peak memory in GiB and length (Table 2)", columns, rows)


def _gib(amount: int) -> float:
    return round(amount / GIB, 4)
