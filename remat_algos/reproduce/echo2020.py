"""Echo: footprints and overheads of recurrent, attention and residual networks, by layers that run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from remat_algos.cost.devices import get_device
from remat_algos.ir.units import format_bytes
from remat_algos.models.registry import build
from remat_algos.reproduce import echo2020_depths, echo2020_layers, echo2020_trade
from remat_algos.reproduce.echo2020_footprints import (
    COUNTING,
    TIME,
    counting,
    footprints,
    largest,
    overheads,
    plot_footprints,
    sensitivity,
)
from remat_algos.reproduce.echo2020_networks import (
    DEEP_SPEECH,
    DEVICE,
    NMT,
    NMT_DEEP,
    RESNET,
    TRANSFORMER,
    WORKLOADS,
    Workload,
)
from remat_algos.reproduce.echo2020_runs import BASELINE, ECHO, MIRROR, STRATEGIES, Measured
from remat_algos.reproduce.echo2020_trade import Trade
from remat_algos.reproduce.page import Figure, Page, Table, percent
from remat_algos.solvers.registry import Progress

AS_PUBLISHED = replace(TRANSFORMER, make=partial(build, "transformer_base"))
VARIANTS: list[tuple[Workload, str, dict[str, Any]]] = [  # what the paper does not say, or says otherwise
    (NMT, "activations save their output only", {"inputs": False}),
    (NMT, "sentences of 50 words", {"steps": 50}),
    (DEEP_SPEECH, "activations save their output only", {"inputs": False}),
    (DEEP_SPEECH, "800 frames", {"sequence": 800}),
    (DEEP_SPEECH, "5 layers of gated units", {"depth": 5, "gated": True}),
    (TRANSFORMER, "activations save their output only", {"inputs": False}),
    (AS_PUBLISHED, "as vaswani2017: less dropout, norms behind the sums", {}),
    (RESNET, "activations save their output only", {"inputs": False}),
    (RESNET, "norms behind convolutions (he2016)", {"preactivation": False}),
]

INTRODUCTION = """\
Section VI of the paper trains NMT, DeepSpeech2, Transformer and ResNet-152 in MXNet 0.12 on an RTX 2080 Ti, without \
rematerialization (Baseline), with MXNet's mirror option (Mirror), and with Echo. Here the networks come from the \
zoo, no GPU runs, and every schedule is judged and laid out in memory. Echo is `echo` on the network with 1-bit \
feature maps (`encode`), Mirror is `drop_cheap(keep="mxnet")`, less what is said below; both as they come, without \
the passes of `solve`. Fused kernels (the paper's hand-tuned Echo), energy, BLEU and several GPUs are out of scope. \
`remat reproduce echo2020` writes this page."""

FOOTPRINT = """\
A footprint is the sum of what the paper's profile counts. Weights: parameters, their gradients and the states of \
the optimizer (Adam has two, momentum one), bound from the start. Inputs. And the arena of feature maps, other \
values, gradients and workspaces, by the allocator that the paper had: operations work in place, blocks are shared \
along the schedule, the best match range counts. The paper reads memory from nvidia-smi too, which shows the context \
of CUDA, the libraries and the rounding of the pool; none of them is here."""

FRAMEWORK = """\
Three habits of MXNet 0.12 count, and are rebuilt here. With cuDNN the gradient of an activation reads its input as \
well as its output (`activation-inl.h`), so the attention of NMT keeps two tensors of batch x words x words x width, \
not one. Masks of dropout are tensors of float32. And the gradient of a node that is not mirrored reads the first \
run of its inputs, not their mirrors (NNVM's `gradient.cc`), so Mirror keeps what gradients of convolutions and \
fully connected layers read: the paper's Figure 14c. The first two hold for all three strategies, the third for \
Mirror alone."""

SETTINGS = """\
The paper gives hardly any sizes. NMT is Sockeye for IWSLT15 English-Vietnamese with two layers on each side, 512 \
units and sentences of 100 words, Sockeye's longest, which decide the footprint. For English-German the paper says \
twice the layers; we take 1024 units and 32,000 words of each language. DeepSpeech2 has seven layers of 1760 clipped \
ReLUs both ways, and 1600 frames, the longest bucket of MXNet's example. Transformer is Sockeye's recipe: base size, \
100 words, norms in front of sublayers, dropout also on the shares of attention and behind the ReLU. ResNet-152 is \
that of MXNet's example, pre-activation. The last section shows what other choices do."""

WHY = """\
The last column is by the rules of the zoo, with nothing of the paper's framework rebuilt. It was measured first. Its \
ratios of Baseline to Echo lie far below the paper's, and because of that we looked up what MXNet 0.12 and Sockeye do \
(next section), which is in the column before it. So the near figures there agree with those habits, and are no blind \
test. In bytes NMT's Baseline stays below the paper's. Echo costs less than Mirror throughout, but by less than \
there. Echo's overhead on NMT misses by much, and in this model it could not be 1 %: running the sum and the tanh of \
attention again at each step takes {attention} of a pass by the roofline, and without it most of the reduction is \
gone (Figure 17). The cells of the LSTMs cost more than that and bring less. The paper has timed 1 % and does not say \
how the GPU does it; in FLOPs ours is next to nothing. DeepSpeech2's weights are less of the footprint than there; \
shorter sequences than ours would make them more (last section).

Other figures miss too. Mirror takes a little less than Baseline on DeepSpeech2, and not more. RNN alone brings less \
of NMT's reduction than in the paper, attention more: our footprint has two tensors per step of attention, and less \
of the cells. Fully connected layers that run again as well make the footprint larger, not smaller: the stash \
shrinks, but what runs again is held beside it, and `echo` does not look at that. NMT twice as deep fits at larger \
batches without rematerialization and with Mirror than there; its sizes are ours. In Table IV the paper does not say \
its batch of ResNets; Mirror and Echo go less deep than there."""

ZOO_RULES = {"inputs": False, "float_masks": False}

SENSITIVITY = """\
Batch sizes are those of the claims. Where gradients of activations read outputs only, as in MXNet since Echo was \
merged, the baseline is smaller and Echo nearly the same, so the ratio is lower. The zoo's Transformer has no \
dropout on the shares of attention and behind the ReLU, so there are far fewer masks to turn into bits."""

OPERATORS = """\
The paper's pass takes under 300 ms for graphs of 15.9 thousand operators. Ours is linear too; it is timed in \
[benchmarks](../benchmarks.md), since nothing on this page may depend on a clock."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section VI reports; with `quick` on small networks at one batch size."""
    used = [each.smaller() if quick else each for each in (*WORKLOADS, NMT_DEEP)]
    cases = [Measured.of(each, batch, progress) for each in used for batch in each.batches]
    main = [next(c for c in cases if c.workload is each and c.batch == each.batch) for each in used[: len(WORKLOADS)]]
    trades = [(trade, trade.without_dead_nodes(), trade.without_bits()) for trade in (Trade(c, progress) for c in main)]
    layers = [echo2020_layers.Layers(case) for case in main]
    chosen = trades[0][0].chosen()
    depths = None if quick else echo2020_depths.table_4(progress)
    room = get_device(DEVICE).memory
    drawn = Figure(
        "figure15",
        "Footprints over batch sizes",
        partial(plot_footprints, cases, room),
        "The table above; dashed, what the card has.",
    )
    plain = [_by_zoo_rules(case, progress) for case in main]
    claims = _claims(main, plain, cases, trades, chosen, layers, depths[1] if depths else None)
    return Page(
        "echo2020",
        "recomputation chosen by a compiler",
        [
            INTRODUCTION,
            claims,
            WHY.format(attention=percent(chosen["attention alone"].overhead)),
            "## What is counted",
            FOOTPRINT,
            FRAMEWORK,
            SETTINGS,
            "## Footprints over batch sizes (Figures 15, 18 and 22, Table I)",
            footprints(cases),
            drawn,
            COUNTING,
            counting(main),
            "## Time",
            TIME.format(DEVICE),
            overheads(main),
            OPERATORS,
            "## Where memory and time go (Figures 4, 5, 16, 21 and 23)",
            echo2020_layers.TEXT,
            echo2020_layers.by_layer(layers),
            echo2020_layers.structures(layers),
            *echo2020_layers.figures([layers[0], layers[3]], ["figure16", "figure23"]),
            "## What each part brings (Figure 17)",
            echo2020_trade.figure_17(trades[0][0], chosen),
            echo2020_trade.DEAD,
            echo2020_trade.BITS,
            echo2020_trade.parts_table(trades),
            *(("## Deeper networks (Table IV)", *depths) if depths else ()),
            "## Ways to choose",
            echo2020_trade.MODES_TEXT,
            echo2020_trade.modes_table(main),
            *(() if quick else ("## Where the paper is silent", SENSITIVITY, sensitivity(VARIANTS, main, progress))),
        ],
    )


# ---------------------------------------------------------------- claims


def _by_zoo_rules(case: Measured, progress: Progress | None) -> Measured:
    """The same network and batch with nothing of the paper's framework rebuilt."""
    workload = case.workload
    if workload.make is TRANSFORMER.make:
        workload = replace(workload, make=AS_PUBLISHED.make)
    return Measured.of(workload, case.batch, progress, **ZOO_RULES)


def _claims(
    main: Sequence[Measured],
    plain: Sequence[Measured],
    cases: Sequence[Measured],
    trades: Sequence[tuple[Trade, Any, Any]],
    chosen: Mapping[str, Any],
    layers: Sequence[echo2020_layers.Layers],
    depths: Table | None,
) -> Table:
    """What the paper says in numbers, and what is found here."""
    heads = ("quantity", "where", "paper", "ours", "by the zoo's rules")
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(heads, str)
    rows = [*_footprint_claims(main, plain), *_batch_claims(main, cases), *_time_claims(main, plain)]
    others = [*_layer_claims(layers), *_part_claims(trades, chosen)]
    others += [] if depths is None else _depth_claims(depths)
    return Table("claims", "What the paper says in numbers", columns, [*rows, *((*row, "") for row in others)])


def _footprint_claims(main: Sequence[Measured], plain: Sequence[Measured]) -> list[tuple[str, ...]]:
    """Of each network: footprints and how many times less they are."""

    def bytes_of(case: Measured) -> str:
        return ", ".join(format_bytes(case.runs[name].footprint) for name in STRATEGIES)

    def less(case: Measured) -> str:
        return _times(case.less())

    def less_than_mirror(case: Measured) -> str:
        return _times(case.less(MIRROR))

    def mirror_against(case: Measured) -> str:
        return _times(case.mirror.footprint / case.baseline.footprint)

    said: list[tuple[int, str, str, str, Callable[[Measured], str]]] = [
        (0, "Baseline, Mirror, Echo", "Table I, Figure 15a", "10.0, 7.4, about 3.0 GB", bytes_of),
        (0, "Baseline / Echo", "section VI-B", "3.13 times", less),
        (0, "Mirror / Echo", "section VI-B", "2.31 times", less_than_mirror),
        (1, "Baseline / Echo", "abstract", "1.56 times", less),
        (1, "Mirror / Baseline", "section VI-C1", "more than 1", mirror_against),
        (2, "Baseline / Echo", "section VI-C2", "1.59 times", less),
        (3, "Baseline / Echo", "section VI-C3", "2.13 times", less),
        (3, "Mirror / Echo", "section VI-C3", "1.57 times", less_than_mirror),
    ]
    return [
        (f"{_at(main[i])}: {what}", where, paper, text(main[i]), text(plain[i])) for i, what, where, paper, text in said
    ]


def _batch_claims(main: Sequence[Measured], cases: Sequence[Measured]) -> list[tuple[str, ...]]:
    """What grows with the batch."""
    room = get_device(DEVICE).memory
    speeches = [case for case in cases if case.workload.label == main[1].workload.label]
    fits = [largest(cases, NMT_DEEP, name, room) for name in STRATEGIES]
    return [
        (
            "DeepSpeech2, all batches: Baseline / Echo",
            "Figure 22",
            "more with the batch",
            _spread([c.less() for c in speeches]),
            "",
        ),
        (
            "largest batch of 16, 32, 64, 128 in 11 GB, NMT twice as deep: Baseline, Mirror, Echo",
            "section VI-B2, Figure 18a",
            "16, 32, 128",
            ", ".join(map(str, fits)),
            "",
        ),
    ]


def _time_claims(main: Sequence[Measured], plain: Sequence[Measured]) -> list[tuple[str, ...]]:
    said = [
        ("Table I, section VI-B", "17 %, 1 %"),
        ("section VI-C1", "5 times Echo's, within 2 %"),
        ("section VI-C2", "3.0 times Echo's"),
        ("section VI-C3", "1.67 times Echo's"),
    ]
    return [
        (f"{_at(case)}: overhead of Mirror, Echo", where, paper, _overheads(case), _overheads(other))
        for (where, paper), case, other in zip(said, main, plain, strict=True)
    ]


def _layer_claims(layers: Sequence[echo2020_layers.Layers]) -> list[tuple[str, str, str, str]]:
    nmt, speech, _, resnet = layers
    both = ("attention", "RNN")
    return [
        ("NMT: time of fully connected layers", "Figure 5", "50 %", percent(nmt.time("Linear", "MatMul"))),
        (
            "NMT: attention and RNN, less than in Baseline, Mirror",
            "section VI-B1, Figure 16",
            "81.4 %, 68.6 %",
            f"{percent(nmt.less(BASELINE, both))}, {percent(nmt.less(MIRROR, both))}",
        ),
        (f"{_at(speech.measured)}: weights", "Figure 21", "40 %", percent(speech.share("weights"))),
        (
            "ResNet-152: what convolutions make, less than in Mirror",
            "section VI-C3, Figure 23",
            "58.3 %",
            percent(resnet.made_less("Convolution")),
        ),
    ]


def _part_claims(
    trades: Sequence[tuple[Trade, Any, Any]], chosen: Mapping[str, Any]
) -> list[tuple[str, str, str, str]]:
    nmt, undead, _ = trades[0]
    transformer, _, plain = trades[2]
    alone = ", ".join(percent(nmt.share(chosen[name])) for name in ("RNN alone", "attention alone"))
    more = chosen["and fully connected"]
    connected = f"{percent(nmt.share(more) - 1)} at {percent(more.overhead)}"
    return [
        ("NMT: reduction by RNN alone, attention alone", "Figure 17", "21.1 %, 70.2 %", alone),
        ("NMT: fully connected layers too, more reduction", "Figure 17", "1.8 % at 20.2 %", connected),
        ("NMT: reduction by dead nodes", "section VI-B1", "35.4 %", percent(1 - nmt.share(undead))),
        ("Transformer: reduction by 1-bit dropout", "section VI-C2", "38 %", percent(1 - transformer.share(plain))),
    ]


def _depth_claims(depths: Table) -> list[tuple[str, str, str, str]]:
    return [
        (f"{name}: layers in 11 GB", "Table IV", ", ".join(map(str, said)), ", ".join(map(str, found)))
        for name, _, *cells in depths.rows
        for found, said in [(cells[: len(STRATEGIES)], cells[len(STRATEGIES) :])]
    ]


def _at(case: Measured) -> str:
    return f"{case.workload.label}, batch {case.batch}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def _spread(ratios: Sequence[float]) -> str:
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return f"{low} times" if low == high else f"{low} to {high} times"


def _overheads(case: Measured) -> str:
    return f"{percent(case.mirror.overhead)}, {percent(case.runs[ECHO].overhead)}"
