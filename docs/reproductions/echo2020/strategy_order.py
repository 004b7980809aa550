"""The claims of order of echo2020: Echo, Mirror and Baseline against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from docs.reproductions.echo2020.footprints import largest
from docs.reproductions.echo2020.layer_breakdowns import LayerBreakdowns
from docs.reproductions.echo2020.networks import DEEP_SPEECH, DEVICE, NMT, NMT_DEEP, Workload
from docs.reproductions.echo2020.runs import BASELINE, ECHO, MIRROR, STRATEGIES, NetworkRuns
from docs.reproductions.order import OrderClaim, Pairs, order_table
from docs.reproductions.page import Table, gigabytes, percent
from remat_algos.cost.devices import get_device

SMALL, LARGE = 8, 24  # batches of DeepSpeech2
NOTE = (
    "Overheads are throughput lost, as in the paper. Samples per second are by the roofline without occupancy. At the "
    "smallest depth the baseline fills the memory, so there may be no room for Mirror to add a layer."
)


def claims_of_order(
    main: Sequence[NetworkRuns], cases: Sequence[NetworkRuns], layers: Sequence[LayerBreakdowns], depths: Table
) -> Table:
    """A row for each claim.

    Parameters
    ----------
    main : sequence of NetworkRuns
        The four networks at the batches of the claims: NMT, DeepSpeech2, Transformer and ResNet-152.
    cases : sequence of NetworkRuns
        All networks at all batches.
    layers : sequence of LayerBreakdowns
        Of the four networks.
    depths : Table
        Table IV.
    """
    claims = [
        *_of_footprints(main, cases),
        *_of_overheads(main),
        *_of_batches(cases),
        *_of_layers(layers),
        *_of_depths(depths),
    ]
    return order_table(claims, NOTE)


def _pairs(cases: Sequence[NetworkRuns], one: str, other: str, of: Callable[[NetworkRuns, str], float]) -> Pairs:
    return {f"{case.workload.label} at {case.batch}": (of(case, one), of(case, other)) for case in cases}


def _footprint(case: NetworkRuns, name: str) -> int:
    return case.runs[name].footprint


def _overhead(case: NetworkRuns, name: str) -> float:
    return case.runs[name].throughput_lost


def _of_footprints(main: Sequence[NetworkRuns], cases: Sequence[NetworkRuns]) -> Iterator[OrderClaim]:
    where = "sections VI-B1, VI-C"
    quoted = {"NMT at 128": (7.4e9, 10e9)}
    echo = {BASELINE: {"NMT at 128": (3e9, 10e9)}, MIRROR: {"NMT at 128": (3e9, 7.4e9)}}
    for other, paper in echo.items():
        pairs = _pairs(main, ECHO, other, _footprint)
        yield OrderClaim(f"footprint: {ECHO} below {other}", where, "<", pairs, gigabytes, paper)
    text = f"footprint at every batch, NMT twice as deep included: {ECHO} never above {BASELINE}"
    yield OrderClaim(text, "sections IV-C, V-A", "<=", _pairs(cases, ECHO, BASELINE, _footprint), gigabytes)
    nmt, speech = main[:1], main[1:2]
    text = f"footprint of NMT: {MIRROR} below {BASELINE}"
    pairs = _pairs(nmt, MIRROR, BASELINE, _footprint)
    yield OrderClaim(text, "section VI-B1", "<", pairs, gigabytes, quoted)
    text = f"footprint of DeepSpeech2: {MIRROR} above {BASELINE}"
    yield OrderClaim(text, "section VI-C1", ">", _pairs(speech, MIRROR, BASELINE, _footprint), gigabytes)


def _of_overheads(main: Sequence[NetworkRuns]) -> Iterator[OrderClaim]:
    pairs, where = _pairs(main, ECHO, MIRROR, _overhead), "sections VI-B1, VI-C"
    quoted = {"NMT at 128": (0.01, 0.17)}
    yield OrderClaim(f"overhead: {ECHO} below {MIRROR}", where, "<", pairs, percent, quoted)
    pairs = {label: (echo, 0.02) for label, (echo, _) in _pairs(main[1:2], ECHO, MIRROR, _overhead).items()}
    yield OrderClaim(f"overhead of {ECHO} on DeepSpeech2: within 2 %", "section VI-C1", "<=", pairs, percent)


def _of_batches(cases: Sequence[NetworkRuns]) -> Iterator[OrderClaim]:
    room = get_device(DEVICE).memory

    def rate(workload: Workload, batch: int, name: str) -> float:
        [case] = [each for each in cases if each.workload.label == workload.label and each.batch == batch]
        return case.throughput(name)

    rates = [
        (NMT, 256, 128, 1.27, "section VI-B1"),
        (DEEP_SPEECH, 32, 8, 3.6, "section VI-C1"),
        (DEEP_SPEECH, 32, 24, 1.3, "section VI-C1"),
    ]
    for workload, larger, smaller, times, where in rates:
        label = workload.label
        text = f"samples per second, {label}: {ECHO} at {larger} above {BASELINE} at {smaller}"
        both = {label: (rate(workload, larger, ECHO), rate(workload, smaller, BASELINE))}
        yield OrderClaim(text, where, ">", both, "{:.3g}".format, {label: (times, 1.0)})
    ours = {"NMT twice as deep at 16": (rate(NMT_DEEP, 16, ECHO), rate(NMT_DEEP, 16, BASELINE))}
    text = f"samples per second, NMT twice as deep at 16: {ECHO} below {BASELINE}"
    yield OrderClaim(text, "section VI-B2", "<", ours, "{:.3g}".format, {"NMT twice as deep at 16": (0.86, 1.0)})
    fitting: list[tuple[Workload, str, Mapping[str, int], list[tuple[str, str]]]] = [
        (NMT, "section VI-B1", {BASELINE: 128, MIRROR: 128, ECHO: 256}, [(ECHO, BASELINE), (ECHO, MIRROR)]),
        (DEEP_SPEECH, "section VI-C1", {BASELINE: 24, ECHO: 32}, [(ECHO, BASELINE), (ECHO, MIRROR)]),
        (NMT_DEEP, "section VI-B2", {BASELINE: 16, MIRROR: 32, ECHO: 128}, [(ECHO, MIRROR), (MIRROR, BASELINE)]),
    ]
    for workload, where, paper, pairs in fitting:
        label = workload.label.replace(",", "")
        fits = {name: largest(cases, workload, name, room) or 0 for name in STRATEGIES}
        for one, other in pairs:
            quoted = {label: (paper[one], paper[other])} if other in paper else None
            text = f"largest batch of {label}: {one} above {other}"
            yield OrderClaim(text, where, ">", {label: (fits[one], fits[other])}, str, quoted)
    speech = {case.batch: case for case in cases if case.workload.label == DEEP_SPEECH.label}
    growth = {name: speech[LARGE].runs[name].footprint - speech[SMALL].runs[name].footprint for name in STRATEGIES}
    for other in (BASELINE, MIRROR):
        text = f"growth of the footprint of DeepSpeech2 from {SMALL} to {LARGE}: {ECHO} below {other}"
        both = {"DeepSpeech2": (growth[ECHO], growth[other])}
        yield OrderClaim(text, "section VI-C1", "<", both, gigabytes)


def _of_layers(layers: Sequence[LayerBreakdowns]) -> Iterator[OrderClaim]:
    nmt, _, _, resnet = layers
    for other in (BASELINE, MIRROR):
        names = ("attention", "RNN")
        both = {"NMT": (nmt.bytes_of(ECHO, names), nmt.bytes_of(other, names))}
        text = f"bytes of attention and RNN, NMT: {ECHO} below {other}"
        yield OrderClaim(text, "section VI-B1, Figure 16", "<", both, gigabytes)
    reduction = {"ResNet-152": (resnet.reduction(MIRROR, ("convolution",)), 0.0)}
    text = f"bytes of convolutions, ResNet-152: {ECHO} below {MIRROR}, as a reduction"
    yield OrderClaim(text, "section VI-C3, Figure 23", ">", reduction, percent, {"ResNet-152": (0.583, 0.0)})


def _of_depths(depths: Table) -> Iterator[OrderClaim]:
    count = len(STRATEGIES)

    def both(one: str, other: str, first: int) -> Mapping[str, tuple[float, float]]:
        at = [2 + first + STRATEGIES.index(name) for name in (one, other)]
        return {row[0]: (float(row[at[0]]), float(row[at[1]])) for row in depths.rows}

    for one, other, relation in ((ECHO, MIRROR, ">"), (MIRROR, BASELINE, ">=")):
        text = f"layers in 11 GiB: {one} {'above' if relation == '>' else 'at or above'} {other}"
        yield OrderClaim(text, "Table IV", relation, both(one, other, 0), "{:.0f}".format, both(one, other, count))
