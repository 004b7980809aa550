"""Rematerialization by tree decompositions: widths, peaks and lengths of ResNets, feed-forward nets, Transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.reproduce.case import NO_REMAT, Case
from remat_algos.reproduce.growth import fitted, growth
from remat_algos.reproduce.kumar2019_goals import goals, steps_to_ours, variants
from remat_algos.reproduce.kumar2019_plots import plot_lengths
from remat_algos.reproduce.kumar2019_runs import GREEDY, TWREMAT, length, measured, training_graph
from remat_algos.reproduce.kumar2019_static import STATIC, static
from remat_algos.reproduce.kumar2019_trade import Trade
from remat_algos.reproduce.kumar2019_widths import POSTULATE, TABLE_1_TEXT, Widths, networks, postulate, table_1
from remat_algos.reproduce.page import Figure, Page, Table
from remat_algos.solvers.registry import Progress

RESNET = "model:resnet?depth={}&optimizer=momentum"
FFN = "model:feed_forward?depth={}&batch=16384&optimizer=sgd"
TRANSFORMER = "model:transformer_{}?batch={}&sequence=256&words=33708&granularity=primitive&optimizer=sgd"
RESNET_DEPTHS, QUICK_RESNET_DEPTHS = (50, 101, 152, 200, 302, 602), (10, 14)
FFN_DEPTHS, QUICK_FFN_DEPTHS = (50, 100, 200, 300, 400), (8, 16)
RULED = 200  # from this depth on stages grow by one rule
GIB = 1 << 30
TABLE_2 = {  # size, sentences; GiB and relative length of NoRemat, GreedyRemat, TWRemat; how much less TWRemat takes
    "Transformer Base": ("base", 8, ((3.97, 1.21), (2.92, 1.27), (1.14, 10.61)), "3.48 times"),
    "Transformer Big": ("big", 16, ((13.25, 1.27), (10.12, 1.27), (2.89, 10.64)), "4.59 times"),
}

INTRODUCTION = """\
Section 4 of the paper compares three algorithms on TensorFlow's graphs of ResNets, feed-forward networks (FFN) and \
Transformers. Here the networks come from the zoo, with their optimizers; every operation costs 1, as in the paper, so \
that the length of a schedule is the number of its runs, given in times of one pass. NoRemat is `no_remat`. \
GreedyRemat is `greedy_remat` that runs one operation again at a time (`max_block=1`). TWRemat is algorithm 1 with the \
order of least fill-in and Jordan's separators, to the letter but for the error that docs/algorithms/twremat.md \
shows. Both are as they come, GreedyRemat at the memory limit that serves it best. `greedy_remat` and `twremat` beside \
them are our solvers with all that they have: longer blocks; several orders, batches; and the passes that `solve` runs \
over any schedule. `remat reproduce kumar2019` writes this page."""

PEAKS = """\
A peak is what the judge finds: the most bytes that are alive during a step, with its inputs, values and workspace \
(the paper's U_i). The paper measures the peak of an optimal static allocation, which is never less; how little it \
adds stands behind Table 2. Parameters are beside all peaks; in TensorFlow they are nodes, and the paper does not say \
whether they count. An update of a parameter waits for the last run that reads it, which the paper does not ask for, \
and NoRemat runs all updates last: gradients of parameters are held until then."""

DEPTH = """\
The paper's curves are pictures; what its text says in numbers stands in the first table. ResNets have batch 32, \
3 x 224 x 224, and bottleneck blocks with norms behind the convolutions, as version 1 of TensorFlow's model; up to 152 \
layers the stages are as published, from 200 on they grow by one rule (docs/zoo.md), from where exponents are fitted. \
Deeper ones have more of the small values of the third stage, while the lowest peaks are those of the large values of \
the first. Hidden layers of the FFN have 1024 units; a batch of 16,384 makes values larger than the gradients of \
weights (64 MiB against 4 MiB). The paper gives no batch and no width."""

VARIANTS = """\
What an operation saves for its gradient decides what running it again can free. With norms in front (pre-activation) \
a ReLU stands between a norm and a convolution, and to free its output one must run the norm again too: two \
operations, which GreedyRemat never does. `counting=paper` lets gradients read all inputs and outputs of operations, \
as the graphs of kusumoto2019 do."""

TRANSFORMERS = """\
The paper takes the "recommended defaults" of TensorFlow's model, which are batches of 2,048 words for base and 4,096 \
for big, a vocabulary of 33,708 words, and sentences of 256 words at most; so 8 and 16 sentences of 256 words here, in \
primitive operations. The scores of all words of the vocabulary and their gradients are the largest values, and some \
of them stand side by side in any schedule: `no lower` is a bound for all. So the ratios of this table are of the loss \
as much as of the algorithms; with fewer words they grow (last section). To what the paper's relative lengths are \
relative is not said; it is not NoRemat, which has 1.21 and 1.27. Against NoRemat, as in its Figure 3, TWRemat's are \
8.77 and 8.38. Ours are in times of one pass, which is NoRemat."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section 4 reports; with `quick` for small networks."""
    plain = RESNET + ("&bottleneck=false" if quick else "")
    resnets = _family("ResNet", plain, QUICK_RESNET_DEPTHS if quick else RESNET_DEPTHS, progress)
    ffns = _family("FFN", FFN, QUICK_FFN_DEPTHS if quick else FFN_DEPTHS, progress)
    transformers = _transformers(quick, progress)
    deep = next((case for case in resnets if case.size == RULED), resnets[-1])
    trade = Trade(deep, progress)
    zoo = networks(quick)
    return Page(
        "kumar2019",
        "rematerialization by tree decompositions",
        [
            INTRODUCTION,
            _claims(resnets, ffns, transformers, zoo, trade),
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
            variants(quick, progress),
            *growth("figure2_ffn", "feed-forward networks", "depth", ffns),
            "## Length against depth (Figure 3)",
            *_lengths({"ResNets": resnets, "Feed-forward networks": ffns}),
            "## Transformers (Table 2)",
            TRANSFORMERS,
            _table_2(transformers),
            STATIC,
            static([deep, ffns[-1], *transformers]),
            "## Memory against length (Figure 4)",
            *trade.parts(),
            "## From the paper's algorithm to ours",
            *steps_to_ours([ffns[1]] if quick else [deep, ffns[1], transformers[0]], progress),
            "## What the project asks of itself",
            *goals(quick, progress),
        ],
    )


def _family(name: str, reference: str, depths: Sequence[int], progress: Progress | None) -> list[Case]:
    graphs = ((depth, training_graph(reference.format(depth))) for depth in depths)
    return [measured(f"{name}-{depth}", depth, graph, progress) for depth, graph in graphs]


def _transformers(quick: bool, progress: Progress | None) -> list[Case]:
    references = {
        label: TRANSFORMER.format(size, batch) + ("&depth=1" if quick else "")
        for label, (size, batch, *_) in TABLE_2.items()
    }
    if quick:
        references.popitem()
    return [measured(label, 0, training_graph(reference), progress) for label, reference in references.items()]


def _since(resnets: Sequence[Case]) -> int:
    return RULED if resnets[-1].size > RULED else 0


# ---------------------------------------------------------------- tables


def _claims(
    resnets: Sequence[Case], ffns: Sequence[Case], transformers: Sequence[Case], widths: Sequence[Widths], trade: Trade
) -> Table:
    """What the text of the paper says in words and numbers, and what is found here."""
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    rows = [
        ("width of the training graph, of that of its forward part", "section 2", "at most 2 times", _ratios(widths)),
        ("growth of NoRemat", "section 4.1, Figure 2", "linear", _powers(resnets, ffns, NO_REMAT)),
        ("growth of GreedyRemat", "section 4.1, Figure 2", "linear", _powers(resnets, ffns, GREEDY)),
        ("growth of TWRemat", "section 4.1, Figure 2", "sublinear", _powers(resnets, ffns, TWREMAT)),
        ("GreedyRemat, less memory, ResNets", "section 4.1", "about 2 times", _times(resnets, GREEDY)),
        ("GreedyRemat, less memory, FFN", "section 4.1", "very little", _times(ffns, GREEDY)),
        ("TWRemat, less memory, both", "section 4.1", "up to 10 times", _times([*resnets, *ffns], TWREMAT)),
        *_transformer_claims(transformers),
        ("length of GreedyRemat", "section 4.2, Figure 3", "marginally longer", _spread([*resnets, *ffns], GREEDY)),
        ("length of TWRemat", "section 4.2, Figure 3", "3 to 4 times", _spread([*resnets, *ffns], TWREMAT)),
        (f"{trade.case.label}, TWRemat(n)", "section 4.3, Figure 4", "NoRemat", trade.whole),
    ]
    return Table("claims", "What the text says in numbers", columns, rows)


def _transformer_claims(cases: Sequence[Case]) -> Iterator[tuple[str, str, str, str]]:
    for case in cases:
        yield f"{case.label}, TWRemat, less memory", "section 4.1", TABLE_2[case.label][-1], _times([case], TWREMAT)


def _ratios(widths: Sequence[Widths]) -> str:
    beyond = sum(found.proven > 2 for found in widths)
    return f"{_from_to([found.ratio for found in widths])}; {beyond} of {len(widths)} provably more than 2"


def _powers(resnets: Sequence[Case], ffns: Sequence[Case], strategy: str) -> str:
    power = fitted(resnets, strategy, _since(resnets))
    return f"ResNet depth^{power:.2f}, FFN depth^{fitted(ffns, strategy):.2f}"


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
    title = "Length of the schedules of Figure 2, in times of one pass"
    caption = "The table above."
    return Table("figure3", title, columns, rows), Figure("figure3", title, partial(plot_lengths, panels), caption)


def _table_2(cases: Sequence[Case]) -> Table:
    """GiB and lengths, the paper's rows above ours."""
    strategies = list(cases[0].simulations)
    columns: dict[str, Callable[[Any], str]] = {"network": str, "by": str}
    for name in strategies:
        columns |= {name: "{:.2f} GiB".format, f"{name}, length": "{:.2f}".format}
    columns["no lower"] = "{:.2f} GiB".format
    rows: list[tuple[Any, ...]] = []
    for case in cases:
        said = [cell for pair in TABLE_2[case.label][2] for cell in pair]
        rows.append((case.label, "paper", *said, *[None] * (len(columns) - 2 - len(said))))
        ours = [(_gib(case.peak(name)), length(case.simulations[name])) for name in strategies]
        bound = _gib(least_peak_bound(case.graph)[0])
        rows.append((case.label, "ours", *(cell for pair in ours for cell in pair), bound))
    return Table("table2", "Transformers, peak memory and length", columns, rows)


def _gib(amount: int) -> float:
    return round(amount / GIB, 4)
