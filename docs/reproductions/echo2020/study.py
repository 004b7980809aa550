"""Echo: footprints and overheads of recurrent, attention and residual networks, by recomputed layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from docs.reproductions.echo2020.ablations import Ablations, figure_17, modes_table, parts_table
from docs.reproductions.echo2020.depths import PUBLISHED_DEPTHS, table_4
from docs.reproductions.echo2020.footprints import (
    counting,
    footprints,
    largest,
    overheads,
    plot_footprints,
    sensitivity,
)
from docs.reproductions.echo2020.layer_breakdowns import LayerBreakdowns, by_layer, figures, structures
from docs.reproductions.echo2020.networks import (
    DEEP_SPEECH,
    DEVICE,
    NMT,
    NMT_DEEP,
    RESNET,
    TRANSFORMER,
    WORKLOADS,
    Workload,
)
from docs.reproductions.echo2020.occupancy import SIDES, growth, throughputs
from docs.reproductions.echo2020.runs import BASELINE, ECHO, MIRROR, STRATEGIES, NetworkRuns, SimulatedRun
from docs.reproductions.echo2020.strategy_order import claims_of_order
from docs.reproductions.page import Figure, Filling, Page, Table, gigabytes, in_gigabytes, percent
from docs.reproductions.quick import quick_page
from remat_algos.context import Progress
from remat_algos.cost.devices import get_device
from remat_algos.zoo.registry import build

AS_PUBLISHED = replace(TRANSFORMER, make=partial(build, "transformer_base"))
SHORT = "800 frames"
CONTEXT = 500_000_000  # bytes, as an example of what nvidia-smi counts besides
VARIANTS: list[tuple[Workload, str, dict[str, Any]]] = [  # settings that the paper does not give, or gives differently
    (NMT, "activations save their output only", {"inputs": False}),
    (NMT, "sentences of 50 words", {"steps": 50}),
    (DEEP_SPEECH, "activations save their output only", {"inputs": False}),
    (DEEP_SPEECH, SHORT, {"sequence": 800}),
    (DEEP_SPEECH, "5 layers of gated units", {"depth": 5, "gated": True}),
    (TRANSFORMER, "activations save their output only", {"inputs": False}),
    (AS_PUBLISHED, "as vaswani2017: less dropout, norms behind the sums", {}),
    (RESNET, "activations save their output only", {"inputs": False}),
    (RESNET, "norms behind convolutions (he2016)", {"preactivation": False}),
]

CLAIMS_NOTE = (
    "Overhead is the throughput lost in this table, as in the paper (section VI-B1), and in Figure 17; in the other "
    "tables it is the extra time."
)
ZOO_RULES = {"inputs": False, "float_masks": False}


def page(quick: bool, progress: Progress | None) -> Page:
    """The results of section VI; with `quick` the quick page of small networks at one batch size."""
    used = [each.smaller() if quick else each for each in (*WORKLOADS, NMT_DEEP)]
    cases = [NetworkRuns.of(each, batch, progress) for each in used for batch in each.batches]
    main = [next(c for c in cases if c.workload is each and c.batch == each.batch) for each in used[: len(WORKLOADS)]]
    ablations = [Ablations(case, progress) for case in main]
    without = [(each, each.without_dead_nodes(), each.without_bits()) for each in ablations]
    breakdowns = [LayerBreakdowns(case) for case in main]
    chosen = ablations[0].chosen()
    deepest = None if quick else table_4(progress)
    room = get_device(DEVICE).memory
    drawn = Figure(
        "figure15",
        "Footprints over batch sizes",
        partial(plot_footprints, cases, room),
        "Bytes of each strategy by batch size; the dashed line is the memory of the card.",
    )
    samples = throughputs(cases)
    others = None if quick else sensitivity(VARIANTS, main, progress)
    values: dict[str, Filling] = {
        "claims": None if quick else _claims(main, cases, without, chosen, breakdowns, deepest, progress),
        "order": None if deepest is None else claims_of_order(main, cases, breakdowns, deepest),
        "attention": percent(chosen["attention alone"].overhead),
        "footprints": footprints(cases),
        "figure15": drawn,
        "counting": counting(main),
        "device": DEVICE,
        "overheads": overheads(main),
        "growth": None if quick else growth(),
        "occupancy": samples,
        "occupancy_ratios": None if quick else _occupancy_ratios(samples),
        "layers": by_layer(breakdowns),
        "structures": structures(breakdowns),
        "layer_figures": figures([breakdowns[0], breakdowns[3]], ["figure16", "figure23"]),
        "figure17": figure_17(ablations[0], chosen),
        "parts": parts_table(without),
        "published_depths": ", ".join(map(str, PUBLISHED_DEPTHS)),
        "table4": deepest,
        "modes": modes_table(main),
        "sensitivity": others,
        **_words(main, others),
    }
    whole = Page.of("echo2020", values)
    return quick_page(whole, {each.label: each.reference for each in used}) if quick else whole


def _words(main: Sequence[NetworkRuns], others: Table | None) -> dict[str, str | None]:
    """Numbers of the text, by the names of the template."""
    nmt, speech = main[:2]
    both = nmt.baseline.footprint + CONTEXT, nmt.echo.footprint + CONTEXT
    words: dict[str, str | None] = {"with_context": f"{both[0] / both[1]:.2f}", "short_weights": None, "short": None}
    if others is not None:
        [(baseline, ratio)] = [(row[2], row[5]) for row in others.rows if row[1] == SHORT]
        words |= {"short_weights": f"{100 * speech.baseline.weights / baseline:.0f} %", "short": f"{ratio:.2f}"}
    return words


# ---------------------------------------------------------------- claims


def _by_zoo_rules(case: NetworkRuns, progress: Progress | None) -> NetworkRuns:
    """Runs of a network at the same batch, without the properties of the paper's framework."""
    workload = case.workload
    if workload.make is TRANSFORMER.make:
        workload = replace(workload, make=AS_PUBLISHED.make)
    return NetworkRuns.of(workload, case.batch, progress, **ZOO_RULES)


def _claims(
    main: Sequence[NetworkRuns],
    cases: Sequence[NetworkRuns],
    without: Sequence[tuple[Ablations, SimulatedRun, SimulatedRun]],
    chosen: Mapping[str, Any],
    layers: Sequence[LayerBreakdowns],
    depths: Table | None,
    progress: Progress | None,
) -> Table:
    """The numbers of the paper, and ours."""
    plain = [_by_zoo_rules(case, progress) for case in main]
    heads = ("quantity", "where", "paper", "ours", "by the zoo's rules")
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(heads, str)
    rows = [*_footprint_claims(main, plain), *_time_claims(main, plain)]
    others = [*_speech_claims(main, cases), *_batch_claims(cases), *_deep_claims(cases), *_throughput_claims(cases)]
    others += [*_layer_claims(layers), *_part_claims(without, chosen)]
    others += [] if depths is None else _depth_claims(depths)
    whole = [*rows, *((*row, "") for row in others)]
    return Table("claims", "Numbers of the paper", columns, whole, CLAIMS_NOTE)


def _footprint_claims(main: Sequence[NetworkRuns], plain: Sequence[NetworkRuns]) -> list[tuple[str, ...]]:
    """Footprints of each network and their ratios."""

    def bytes_of(case: NetworkRuns) -> str:
        return f"{', '.join(in_gigabytes(case.runs[name].footprint) for name in STRATEGIES)} GB"

    def ratio(case: NetworkRuns) -> str:
        return _times(case.ratio())

    def mirror_ratio(case: NetworkRuns) -> str:
        return _times(case.ratio(MIRROR))

    def mirror_against(case: NetworkRuns) -> str:
        return _times(case.mirror.footprint / case.baseline.footprint)

    def mirror_reduction(case: NetworkRuns) -> str:
        return percent(1 - case.mirror.footprint / case.baseline.footprint)

    quoted: list[tuple[int, str, str, str, Callable[[NetworkRuns], str]]] = [
        (0, "Baseline, Mirror, Echo", "section VI-B1, Figure 15a", "10.0, 7.4, about 3.0 GB", bytes_of),
        (0, "Baseline / Echo", "abstract, section VI-B1", "3.13 times", ratio),
        (0, "Mirror / Echo", "section VI-B1", "2.31 times", mirror_ratio),
        (0, "reduction by Mirror", "section III-D, Table I", "26 %", mirror_reduction),
        (1, "Mirror / Baseline", "section VI-C1, Figure 22(1a)", "more than 1", mirror_against),
        (2, "Baseline / Echo", "section VI-C2, no batch given", "1.59 times", ratio),
        (3, "Baseline / Echo", "section VI-C3, no batch given", "2.13 times", ratio),
        (3, "Mirror / Echo", "section VI-C3, no batch given", "1.57 times", mirror_ratio),
    ]
    rows: list[tuple[str, ...]] = [
        (f"{_at(main[i])}: {what}", where, paper, text(main[i]), text(plain[i]))
        for i, what, where, paper, text in quoted
    ]
    means = (_times(sum(case.ratio() for case in each) / len(each)) for each in (main, plain))
    return [
        *rows,
        ("the four networks: Baseline / Echo, arithmetic mean", "abstract, section VIII", "1.89 times", *means),
    ]


def _speech_claims(main: Sequence[NetworkRuns], cases: Sequence[NetworkRuns]) -> list[tuple[str, str, str, str]]:
    """Numbers of DeepSpeech2 at several batches."""
    speech = _by_batch(cases, main[1].workload.label)
    return [
        (
            "DeepSpeech2, batch 8, 16, 24: Baseline / Echo",
            "section I, no batch given",
            "1.56 times",
            f"{', '.join(f'{speech[batch].ratio():.2f}' for batch in (8, 16, 24))} times",
        ),
        (
            "DeepSpeech2, batch 8: Baseline / Echo",
            "section VI-C1, Figure 22(1a)",
            "no significant reduction",
            _times(speech[8].ratio()),
        ),
        (
            "DeepSpeech2, batch 8 to 24: growth of Baseline, Mirror, Echo",
            "section VI-C1, Figure 22(1a)",
            "Echo's much slower",
            f"{', '.join(f'{_growth(speech, name):.2f}' for name in STRATEGIES)} times; {_added(speech)} GB more",
        ),
    ]


def _deep_claims(cases: Sequence[NetworkRuns]) -> list[tuple[str, str, str, str]]:
    """Numbers of NMT twice as deep at several batches."""
    deep, room = _by_batch(cases, NMT_DEEP.label), get_device(DEVICE).memory
    fits = [largest(cases, NMT_DEEP, name, room) for name in STRATEGIES]
    behind = 1 - deep[16].throughput(ECHO) / deep[16].throughput(BASELINE)
    return [
        (
            "NMT twice as deep, batch 16: Baseline",
            "section VI-B2, Figure 18a",
            "more than 8 GB",
            gigabytes(deep[16].baseline.footprint),
        ),
        (
            "NMT twice as deep, batch 128: Echo",
            "section VI-B2, Figure 18a",
            "9.6 GB",
            gigabytes(deep[128].echo.footprint),
        ),
        (
            "NMT twice as deep, largest batch of 16, 32, 64, 128 in 11 GiB: Baseline, Mirror, Echo",
            "section VI-B2, Figure 18a",
            "16, 32, 128",
            ", ".join(map(str, fits)),
        ),
        (
            "NMT twice as deep, batch 16: throughput of Echo behind Baseline",
            "section VI-B2, Figure 18b",
            "14 %",
            percent(behind),
        ),
    ]


def _by_batch(cases: Sequence[NetworkRuns], label: str) -> dict[int, NetworkRuns]:
    return {case.batch: case for case in cases if case.workload.label == label}


def _growth(by_batch: Mapping[int, NetworkRuns], name: str) -> float:
    """Footprint of a strategy at batch 24, relative to that at batch 8."""
    return by_batch[24].runs[name].footprint / by_batch[8].runs[name].footprint


def _added(by_batch: Mapping[int, NetworkRuns]) -> str:
    """Bytes that the footprint of each strategy grows by from batch 8 to 24."""
    more = (by_batch[24].runs[name].footprint - by_batch[8].runs[name].footprint for name in STRATEGIES)
    return ", ".join(map(in_gigabytes, more))


def _batch_claims(cases: Sequence[NetworkRuns]) -> list[tuple[str, str, str, str]]:
    """The largest batches of NMT and DeepSpeech2 that fit, of those that are measured."""
    room = get_device(DEVICE).memory
    quoted = [(NMT, "section VI-B1", "128, 128, 256"), (DEEP_SPEECH, "section VI-C1, Figure 22(1)", "24, below 32, 32")]
    return [
        (
            f"{each.label}, largest batch of {', '.join(map(str, each.batches))} in 11 GiB: {', '.join(STRATEGIES)}",
            where,
            paper,
            ", ".join(str(largest(cases, each, name, room)) for name in STRATEGIES),
        )
        for each, where, paper in quoted
    ]


def _time_claims(main: Sequence[NetworkRuns], plain: Sequence[NetworkRuns]) -> list[tuple[str, ...]]:
    quoted = [
        ("sections III-D, VI-B1", "17 %, 1 %; 18 times Echo's"),
        ("section VI-C1", "5 times Echo's, within 2 %"),
        ("section VI-C2, no batch given", "3.0 times Echo's"),
        ("section VI-C3, no batch given", "1.67 times Echo's"),
    ]
    return [
        (f"{_at(case)}: overhead of Mirror, Echo", where, paper, _overheads(case), _overheads(other))
        for (where, paper), case, other in zip(quoted, main, plain, strict=True)
    ]


def _larger_batch(cases: Sequence[NetworkRuns]) -> float:
    """Samples per second of NMT with Echo at a batch of 256, relative to Baseline at 128."""
    nmt = _by_batch(cases, NMT.label)
    return nmt[256].throughput(ECHO) / nmt[128].throughput(BASELINE)


def _occupancy_ratios(samples: Table) -> str:
    """A sentence on the ratios of the paper, without occupancy and with each size of tiles."""
    kinds = {"": "", **{f", tiles of {side}": f" with tiles of {side}" for side in SIDES}}
    heads = list(samples.columns)
    rate = {(row[0], row[1], head): row[i] for row in samples.rows for i, head in enumerate(heads)}
    quoted = [(NMT, 256, 128), (DEEP_SPEECH, 32, 8), (DEEP_SPEECH, 32, 24)]
    words = [
        f"{each.label}, {ECHO} at {larger} against {BASELINE} at {smaller}: "
        + ", ".join(
            f"{rate[each.label, larger, ECHO + kind] / rate[each.label, smaller, BASELINE + kind]:.2f}{of}"
            for kind, of in kinds.items()
        )
        for each, larger, smaller in quoted
    ]
    return f"These ratios, without occupancy and with it: {'; '.join(words)}."


def _throughput_claims(cases: Sequence[NetworkRuns]) -> list[tuple[str, str, str, str]]:
    """Samples per second, by the roofline."""
    nmt, speech = (_by_batch(cases, each.label) for each in (NMT, DEEP_SPEECH))
    both = ", ".join(f"{nmt[NMT.batch].throughput(name):.0f}" for name in (BASELINE, MIRROR))
    larger = _larger_batch(cases)
    against = [speech[32].throughput(ECHO) / speech[batch].throughput(BASELINE) for batch in (8, 24)]
    return [
        (
            f"NMT, batch {NMT.batch}: samples per second of Baseline, Mirror",
            "Table I, no batch given",
            "1192, 983",
            both,
        ),
        ("NMT: samples per second, Echo at 256 / Baseline at 128", "section VI-B1", "1.27 times", _times(larger)),
        (
            "DeepSpeech2: samples per second, Echo at 32 / Baseline at 8, at 24",
            "section VI-C1, Figure 22(1b)",
            "3.6, 1.3 times",
            f"{against[0]:.2f}, {_times(against[1])}",
        ),
    ]


def _layer_claims(layers: Sequence[LayerBreakdowns]) -> list[tuple[str, str, str, str]]:
    nmt, speech, _, resnet = layers
    both = ("attention", "RNN")
    return [
        (
            "NMT: time of fully connected layers",
            "section III-C, Figure 5",
            "50 %",
            percent(nmt.time("Linear", "MatMul")),
        ),
        (
            "NMT: attention and RNN, reduction against Baseline, Mirror",
            "section VI-B1, Figure 16",
            "81.4 %, 68.6 %",
            f"{percent(nmt.reduction(BASELINE, both))}, {percent(nmt.reduction(MIRROR, both))}",
        ),
        (
            "NMT: attention and RNN, weights of all layers, shares of Baseline",
            "sections I, III-B, Figure 4",
            "most, not most",
            f"{percent(nmt.layer_share(both))}, {percent(nmt.share('weights'))}",
        ),
        (f"{_at(speech.runs)}: weights", "section VI-C1, Figure 21", "40 %", percent(speech.share("weights"))),
        (
            "ResNet-152: convolutions, reduction against Mirror",
            "section VI-C3, Figure 23",
            "58.3 %",
            f"{percent(resnet.reduction(MIRROR, ('convolution',)))}; their outputs alone "
            + percent(resnet.output_reduction("Convolution")),
        ),
    ]


def _part_claims(
    without: Sequence[tuple[Ablations, SimulatedRun, SimulatedRun]], chosen: Mapping[str, Any]
) -> list[tuple[str, str, str, str]]:
    nmt, no_dead, _ = without[0]
    transformer, _, no_bits = without[2]
    alone = ", ".join(percent(nmt.share(chosen[name])) for name in ("RNN alone", "attention alone"))
    more = chosen["and fully connected"]
    connected = f"{percent(nmt.share(more) - 1)} of Echo's reduction at {percent(more.throughput_lost)}"
    return [
        ("NMT: reduction by RNN alone, attention alone", "section VI-B1, Figure 17", "21.1 %, 70.2 %", alone),
        (
            "NMT: recomputing fully connected layers too",
            "section VI-B1, Figure 17",
            "1.8 %, not said of what, at 20.2 %",
            connected,
        ),
        ("NMT: reduction by dead nodes", "section VI-B1", "35.4 %", percent(1 - nmt.share(no_dead))),
        (
            "Transformer: reduction by 1-bit dropout",
            "section VI-C2",
            "38 %",
            percent(1 - transformer.share(no_bits)),
        ),
    ]


def _depth_claims(depths: Table) -> list[tuple[str, str, str, str]]:
    rows, more = [], []
    for name, _, *cells in depths.rows:
        ours, quoted = cells[: len(STRATEGIES)], cells[len(STRATEGIES) :]
        found = _listed(ours)
        if name == "ResNet":
            found += f"; of the published depths {_listed([max(d for d in PUBLISHED_DEPTHS if d <= n) for n in ours])}"
        rows.append((f"{name}: layers in 11 GiB", "Table IV", _listed(quoted), found))
        more.append(ours[STRATEGIES.index(ECHO)] / ours[STRATEGIES.index(BASELINE)])
    what, found = (
        "Transformer, ResNet: layers of Echo in times of Baseline's",
        ", ".join(f"{each:.2f}" for each in more),
    )
    return [*rows, (what, "sections I, VI-C3", "1.83, 4.0 times", f"{found} times")]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _at(case: NetworkRuns) -> str:
    return f"{case.workload.label}, batch {case.batch}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def _overheads(case: NetworkRuns) -> str:
    return f"{percent(case.mirror.throughput_lost)}, {percent(case.echo.throughput_lost)}"
