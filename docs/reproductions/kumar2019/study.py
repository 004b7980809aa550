"""Rematerialization by tree decompositions: widths, peaks and lengths of ResNets, feed-forward nets, Transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.growth import fitted, growth
from docs.reproductions.kumar2019.algorithm_order import claims_of_order
from docs.reproductions.kumar2019.algorithms import GREEDY, TWREMAT, length, measured, solved
from docs.reproductions.kumar2019.goals import goals, of_quick_goals, steps_to_ours, variants
from docs.reproductions.kumar2019.networks import (
    FFN,
    FFN_DEPTHS,
    OPTIMIZERS,
    QUICK_FFN_DEPTHS,
    QUICK_LABEL,
    QUICK_RESNET_DEPTHS,
    QUICK_TRANSFORMER,
    RESNET,
    RESNET_DEPTHS,
    RULED,
    TRANSFORMER,
    training_graph,
)
from docs.reproductions.kumar2019.plots import plot_lengths
from docs.reproductions.kumar2019.trade import Trade
from docs.reproductions.kumar2019.widths import (
    Widths,
    networks,
    postulate,
    quick_references,
    table_1,
)
from docs.reproductions.page import Figure, Filling, Page, Table
from docs.reproductions.quick import quick_page
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Progress
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import tuning
from remat_algos.solvers.methods.greedy_remat import walk
from remat_algos.wording import format_bytes

GIB = 1 << 30
LOW = 6  # the width of control-flow graphs of programs in C, which section 2 calls similarly low
TABLE_2 = {  # size, sentences; GiB and relative length of NoRemat, GreedyRemat, TWRemat; reduction by TWRemat
    "Transformer Base": ("base", 8, ((3.97, 1.21), (2.92, 1.27), (1.14, 10.61)), "3.48 times"),
    "Transformer Big": ("big", 16, ((13.25, 1.27), (10.12, 1.27), (2.89, 10.64)), "4.59 times"),
}


def page(quick: bool, progress: Progress | None) -> Page:
    """The results of section 4; with `quick` the quick page of small networks."""
    plain = RESNET + ("&bottleneck=false" if quick else "")
    resnets = _family("ResNet", plain, QUICK_RESNET_DEPTHS if quick else RESNET_DEPTHS, progress)
    ffns = _family("FFN", FFN, QUICK_FFN_DEPTHS if quick else FFN_DEPTHS, progress)
    transformers = _transformers(quick, progress)
    deep = next((case for case in resnets if case.size == RULED), resnets[-1])
    trade = Trade(deep, progress)
    zoo = networks(quick)
    of_resnets = variants(plain.format(resnets[1].size), quick, progress)
    stepped = [ffns[1]] if quick else [deep, ffns[1], next(iter(transformers.values()))]
    values: dict[str, Filling] = {
        "claims": None if quick else _claims(resnets, ffns, transformers, zoo, trade, of_resnets),
        "order": None if quick else _order(resnets, ffns, transformers, trade),
        "table1": table_1(quick),
        "postulate": postulate(zoo),
        "figure2_resnet": growth(
            "figure2_resnet", "ResNets, batch 32, 3 x 224 x 224", "depth", resnets, _since(resnets)
        ),
        "variants": of_resnets,
        **_words_on_variants(of_resnets),
        "beyond_twice": f"{_beyond(zoo)} of {len(zoo)}",
        **_to_the_letter(resnets[1], progress),
        "figure2_ffn": growth("figure2_ffn", "feed-forward networks", "depth", ffns),
        "figure3": _lengths({"ResNets": resnets, "Feed-forward networks": ffns}),
        "table2": _table_2(transformers, quick),
        "static": static([deep, ffns[-1], *transformers.values()]),
        "figure4": trade.parts(),
        "steps": steps_to_ours(stepped, progress),
        "goals": goals(quick, progress),
    }
    whole = Page.of("kumar2019", values)
    if not quick:
        return whole
    of_families = {case.label: plain.format(case.size) for case in resnets}
    of_families |= {case.label: FFN.format(case.size) for case in ffns}
    others = {QUICK_LABEL: QUICK_TRANSFORMER, **quick_references(), **of_quick_goals()}
    return quick_page(whole, of_families | others)


def _family(name: str, reference: str, depths: Sequence[int], progress: Progress | None) -> list[Case]:
    graphs = ((depth, training_graph(reference.format(depth))) for depth in depths)
    return [measured(f"{name}-{depth}", depth, graph, progress) for depth, graph in graphs]


def _transformers(quick: bool, progress: Progress | None) -> dict[tuple[str, str], Case]:
    """The Transformers by label and optimizer."""
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


def _to_the_letter(case: Case, progress: Progress | None) -> dict[str, str]:
    """GreedyRemat by the text alone, by the names of the template: at limits that it meets, at its lowest peak."""
    graph, once = case.graph, case.simulations[NO_REMAT]
    met, n_met, n_same = once, 0, 0
    for percents in range(99, 0, -1):
        limit = once.peak_memory * percents // 100
        by_text, by_xla = (walk(graph, once.schedule, limit, 1, moves=moves)[0] for moves in (False, True))
        simulation = simulate(graph, by_text)
        if simulation.peak_memory > limit:
            break
        met, n_met = simulation, n_met + 1
        n_same += np.array_equal(by_text.order, by_xla.order)
    told = f"{case.label}, {GREEDY} to the letter"
    found = solved(graph, "least", told, progress, solver="greedy_remat", max_block=1, moves=False, raw=True)
    return {
        "letter": case.label,
        "n_met": str(n_met),
        "n_same": str(n_same),
        "met": f"{100 - n_met} %",
        "met_peak": f"{once.peak_memory / met.peak_memory:.2f}",
        "met_length": f"{length(met):.2f}",
        "letter_peak": f"{case.peak(NO_REMAT) / found.peak_memory:.2f}",
        "letter_length": f"{length(found):.2f}",
        "xla_length": f"{length(case.simulations[GREEDY]):.2f}",
        "most_runs": str(tuning.MAX_WALK_RUNS),
    }


def _order(
    resnets: Sequence[Case], ffns: Sequence[Case], transformers: Mapping[tuple[str, str], Case], trade: Trade
) -> Table:
    """The claims of order between the three algorithms."""
    families = {"ResNets": resnets, "FFN": ffns, "Transformers": list(transformers.values())}
    return claims_of_order(families, {label: row[2] for label, row in TABLE_2.items()}, trade)


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
        ("width of the forward part", "section 2", "low, as 2 to 6 of other graphs", _of_forward_parts(widths)),
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
    against = max(rows[2][1] / rows[0][1] for _, _, rows, _ in TABLE_2.values())
    quoted = f"up to 10.6 times ({against:.2f} against its NoRemat)"
    yield "length of TWRemat, Transformers", "section 4.1", quoted, ", ".join(spread)


def _longest(cases: Mapping[tuple[str, str], Case], optimizer: str) -> float:
    return max(length(case.simulations[TWREMAT]) for (_, of), case in cases.items() if of == optimizer)


def _of_variants(table: Table) -> str:
    """The other ResNets in the table of variants, with the reduction by GreedyRemat on each."""
    at = list(table.columns).index(GREEDY)
    return ", ".join(f"{1 / row[at]:.2f} with {row[1]}" for row in table.rows[1:])


def _words_on_variants(table: Table) -> dict[str, str]:
    """The reduction by GreedyRemat on each ResNet of the table, the first apart, by the names of the template."""
    at = list(table.columns).index(GREEDY)
    first, *others = (f"{1 / row[at]:.2f}" for row in table.rows)  # the quick page has no others
    return {"first_variant": first, "other_variants": " and ".join([", ".join(others[:-1]), *others[-1:]])}


def _ratios(widths: Sequence[Widths]) -> str:
    return f"{_from_to([found.ratio for found in widths])}; {_beyond(widths)} of {len(widths)} provably more than 2"


def _beyond(widths: Sequence[Widths]) -> int:
    """How many training graphs provably have more than twice the width of their forward part."""
    return sum(found.proven > 2 for found in widths)


def _of_forward_parts(widths: Sequence[Widths]) -> str:
    """The widths that are low, then the others by network."""
    low = [each.forward.width for each in widths if each.forward.width <= LOW]
    high = [f"{each.model} {each.forward}" for each in widths if each.forward.width > LOW]
    return "; ".join([f"{min(low)} to {max(low)} on {len(low)} of {len(widths)}", *high])


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
    caption = "Lengths in times of one pass, by depth."
    return Table("figure3", title, columns, rows), Figure("figure3", title, partial(plot_lengths, panels), caption)


def _table_2(cases: Mapping[tuple[str, str], Case], quick: bool = False) -> Table:
    """GiB and lengths, the paper's rows above ours; with `quick` only ours."""
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


# ---------------------------------------------------------------- static


def static(cases: Sequence[Case]) -> Table:
    """Live peaks, and the size of an arena with fixed addresses.

    Parameters
    ----------
    cases : sequence of Case
    """
    columns: dict[str, Callable[[Any], str]] = {"network": str, "algorithm": str}
    columns |= {"live peak": format_bytes, "static allocation": format_bytes, "ratio": "{:.3f}".format}
    rows = []
    for case in cases:
        for name, simulation in case.simulations.items():
            solved = pack(Buffers.of(simulation), time_limit=0)
            solved.verify()
            peak = simulation.peak_memory
            rows.append((case.label, name, peak, solved.size, solved.size / max(1, peak)))
    return Table("static", "Peaks through a static allocation", columns, rows)
