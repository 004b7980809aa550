"""Recomputation over lower sets: seven networks under all strategies, and time against batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from docs.reproductions.kusumoto2019.batches import BatchCurves, batch_curves, plot_batches
from docs.reproductions.kusumoto2019.canonical_plans import CanonicalPlan, PaperNetwork
from docs.reproductions.kusumoto2019.method_order import claims_of_order
from docs.reproductions.kusumoto2019.networks import (
    CHEN,
    EXACT_CENTRIC,
    LIVENESS,
    MEMORY_CENTRIC,
    METHODS,
    PLANNED,
    REPORTED,
    TIME,
    VANILLA,
    Measured,
)
from docs.reproductions.page import Figure, Filling, Page, Table, gigabytes, in_gigabytes, percent
from docs.reproductions.quick import quick_page
from remat_algos.context import Progress
from remat_algos.ir.differentiate import differentiate
from remat_algos.structure.lower_sets import LowerSets
from remat_algos.wording import format_bytes

QUICK = (
    PaperNetwork("unet of 188 pixels", "unet", 2, {"image": 188, "depth": 2, "width": 8}),
    PaperNetwork("resnet18 of 64 pixels", "resnet18", 8, {"image": 64}),
)
TIMES, WIDER = (1, 1.02, 1.05, 1.1, 1.25, 1.5), 1.05  # of the minimum budget; what the text names
DEEP, WIDE = "ResNet152", "PSPNet"  # named in the text of section 5.2


def page(quick: bool, progress: Progress | None) -> Page:
    """The results of section 5; with `quick` the quick page of two small networks."""
    if quick:
        cases = [Measured(network, progress) for network in QUICK]
    else:
        cases = [Measured.of_table_1(label, progress) for label in REPORTED]
    curves = {case.label: batch_curves(case.network, case.planner, case.lowered) for case in cases}
    sets, formulas = _lattices(cases)
    peaks, reductions = _peaks(cases)
    caption = "Seconds of the forward and the backward part, by batch size."
    values: dict[str, Filling] = {
        "claims": None if quick else _claims(cases, curves),
        "order": None if quick else claims_of_order(cases, curves),
        **_words_on_vgg19(cases),
        **_words_on_vanilla(cases),
        "table1": peaks,
        "reductions": reductions,
        "vanilla": _vanilla(cases),
        "memory_centric": _memory_centric(cases),
        "larger_budgets": _larger_budgets(cases),
        "without_liveness": _without_liveness(cases),
        "lattices": sets,
        "formulas": formulas,
        "largest_batches": _largest(curves),
        "times": _times(curves),
        "figure4": Figure("figure4", "Time against batch size", partial(plot_batches, curves), caption),
    }
    whole = Page.of("kusumoto2019", values)
    return quick_page(whole, {each.label: each.reference for each in QUICK}) if quick else whole


def _words_on_vgg19(cases: Sequence[Measured]) -> dict[str, str]:
    """The numbers of the paragraph on VGG19, by the names of the template; a quick page has no such paragraph."""
    case = next((each for each in cases if each.label == "VGG19"), cases[0])
    least, larger = _centric(case, 1), _centric(case, WIDER)
    below = sum(_centric(each, WIDER).peak < each.plans[CHEN].peak for each in cases)
    kept = [int(case.graph.node_memory[plan.chain.kept(case.graph)].sum()) for plan in (least, larger)]
    return {
        "above_chen": _above_chen(cases, MEMORY_CENTRIC),
        "exact_above_chen": _above_chen(cases, EXACT_CENTRIC),
        "vgg19": percent(case.reduction(case.totals[MEMORY_CENTRIC])),
        "vgg19_chen": percent(case.reduction(case.totals[CHEN])),
        "vgg19_lowest": percent(case.reduction(case.totals[LIVENESS])),
        "vgg19_wider": percent(case.reduction(case.beside(larger.peak))),
        "wider": f"{100 * (WIDER - 1):.0f} %",
        "wider_below_chen": f"{below} of {len(cases)}",
        "vgg19_blocks": f"{len(least.chain)} blocks and keeps {format_bytes(kept[0])}",
        "vgg19_wider_blocks": f"{len(larger.chain)} blocks and keeps {format_bytes(kept[1])}",
    }


def _above_chen(cases: Sequence[Measured], method: str) -> str:
    """The networks on which the peak of a method is above that of Chen's plan, and by how much."""
    above = [(each.label, each.totals[method] / each.totals[CHEN] - 1) for each in cases]
    return ", ".join(f"{label} by {percent(more)}" for label, more in above if more > 0) or "no network"


def _words_on_vanilla(cases: Sequence[Measured]) -> dict[str, str]:
    """How near `tape` comes to the paper's column: on the network where it is farthest, and on the others."""
    off = {each.label: abs(_off(each) or 0.0) for each in cases}
    farthest = max(off, key=lambda label: off[label])
    rest = max((share for label, share in off.items() if label != farthest), default=0.0)
    return {
        "tape_near": f"{percent(rest)} on {len(off) - 1} networks",
        "tape_far": f"{percent(off[farthest])} on {farthest}",
    }


# ---------------------------------------------------------------- tables


def _claims(cases: Sequence[Measured], curves: Mapping[str, BatchCurves]) -> Table:
    """The numbers in the text of the paper, and ours."""
    saved = [100 * case.reduction(case.totals[MEMORY_CENTRIC]) for case in cases]
    both = [(f"ExactDP + {kind}", f"ApproxDP + {kind}") for kind in ("MC", "TC")]
    ratios = [case.totals[exact] / case.totals[approximate] for case in cases for exact, approximate in both]
    papers = [case.paper.totals for case in cases if case.paper is not None]
    quoted = [total[exact] / total[approximate] for total in papers for exact, approximate in both]
    theirs = [case.paper.n_nodes for case in cases if case.paper is not None]
    ours = [int(case.graph.forward.sum()) for case in cases]
    rows = [
        ("nodes", "Table 1", _listed(theirs), _listed(ours)),
        ("reduction of the peak, ApproxDP + MC", "abstract", "36 to 81 %", f"{min(saved):.0f} to {max(saved):.0f} %"),
        (
            "peaks of ExactDP against ApproxDP",
            "section 5.1",
            f"did not differ much (its Table 1: {_times_of(quoted)})",
            _times_of(ratios),
        ),
        (
            "overhead of ApproxDP + TC against ExactDP + TC at the same budget",
            "section 5.1",
            "did not differ much",
            _overheads_at_equal_budgets(cases),
        ),
        *_claims_of_time(curves),
    ]
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    return Table("claims", "Numbers in the paper's text", columns, rows)


def _claims_of_time(curves: Mapping[str, BatchCurves]) -> Iterator[tuple[str, str, str, str]]:
    if DEEP in curves:
        what = f"{DEEP} at double the batch of vanilla, ApproxDP + TC against Chen's"
        yield what, "section 5.2", "1.16 times faster", _faster(curves[DEEP])
    if WIDE in curves:
        ends = curves[WIDE].largest
        longest = f"to {ends[TIME]} ({TIME}), to {ends[MEMORY_CENTRIC]} ({MEMORY_CENTRIC})"
        ours = f"from {ends[VANILLA]} {longest}; `liveness_dp` to {ends[LIVENESS]}"
        yield f"largest batch of {WIDE}", "section 5.2", "from 2 to 8", ours


def _overheads_at_equal_budgets(cases: Sequence[Measured]) -> str:
    """Both programs within the minimum budget of the pruned family: T of formula (1), and what is executed."""
    pairs = [
        (case.plans[TIME], case.planner.plan("exact", "time", case.planner.least_budget("pruned"))) for case in cases
    ]
    formula = [pruned.formula_overhead / exact.formula_overhead for pruned, exact in pairs]
    executed = [pruned.overhead / exact.overhead for pruned, exact in pairs]
    return f"T {_times_of(formula)}; executed {_times_of(executed)}"


def _times_of(ratios: Sequence[float]) -> str:
    least, most = (f"{ratio:.{1 if ratio >= 10 else 2}f}" for ratio in (min(ratios), max(ratios)))
    return f"{least} to {most} times"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _faster(curve: BatchCurves) -> str:
    chen, time = curve.slowdown(CHEN), curve.slowdown(TIME)
    if chen is None or time is None:
        return f"does not fit at batch {curve.doubled}"
    return f"{chen / time:.2f} times faster, at batch {curve.doubled}"


def _peaks(cases: Sequence[Measured]) -> tuple[Table, Table]:
    """Table 1 in bytes and in shares, the paper's rows above ours."""
    total: dict[str, Callable[[Any], str]] = {"network": str, "batch": str, "by": str}
    total |= dict.fromkeys((*METHODS, LIVENESS), in_gigabytes)
    bytes_of, shares = [], []
    for case in cases:
        name = case.label, case.network.batch
        saving = [method for method in METHODS if method != VANILLA]
        if case.paper is not None:
            bytes_of.append((*name, "paper", *case.paper.totals.values(), None))
            shares.append((*name, "paper", *(case.paper.reductions[method] for method in saving), None))
        bytes_of.append((*name, "ours", *(case.totals[method] for method in (*METHODS, LIVENESS))))
        shares.append((*name, "ours", *(case.reduction(case.totals[method]) for method in (*saving, LIVENESS))))
    share = {name: percent if name in METHODS or name == LIVENESS else str for name in total if name != VANILLA}
    return (
        Table("table1", "Peak memory with resident bytes, in GB of 10^9 bytes (Table 1)", total, bytes_of),
        Table("table1_reductions", "Reduction of the peak against vanilla (Table 1)", share, shares),
    )


def _vanilla(cases: Sequence[Measured]) -> Table:
    """Several ways to count a run without rematerialization."""
    heads = ("paper", "tape", "tape, no gradients of parameters", "tape, as published", "liveness", "resident")
    columns: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(heads, gigabytes)}
    columns["tape against the paper"] = percent
    rows = []
    for case in cases:
        paper = _of_paper(case, VANILLA)
        without, published = case.taped(parameter_gradients=False), case.taped(published=True)
        tapes = case.totals[VANILLA], without, published
        rows.append((case.label, paper, *tapes, case.freed, case.beside(0), _off(case)))
    return Table("vanilla", "Without rematerialization, with resident bytes, in GB of 10^9 bytes", columns, rows)


def _off(case: Measured) -> float | None:
    """Vanilla against that of table 1, if the network is there."""
    paper = _of_paper(case, VANILLA)
    return None if paper is None else round(case.totals[VANILLA] / paper - 1, 4)


def _of_paper(case: Measured, method: str) -> int | None:
    """Bytes in table 1, if the network is there."""
    return case.paper.totals[method] if case.paper is not None else None


def _memory_centric(cases: Sequence[Measured]) -> Table:
    """Table of two meanings of memory-centric, within the same budgets."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "family": str}
    columns |= {"paper": gigabytes, "maximum overhead": gigabytes, "minimum kept": gigabytes}
    columns |= dict.fromkeys(("T, maximum overhead", "executed", "T, minimum kept", "executed, minimum kept"), str)
    rows = []
    for case in cases:
        for method, (family, strategy) in PLANNED.items():
            if strategy == "memory":
                most, least = case.plans[method], case.planner.plan(family, "cache")
                peaks = _of_paper(case, method), case.beside(most.peak), case.beside(least.peak)
                overheads = (cost for plan in (most, least) for cost in (plan.formula_overhead, plan.overhead))
                rows.append((case.label, family, *peaks, *overheads))
    return Table("memory_centric", "Memory-centric plans in two meanings, in GB of 10^9 bytes", columns, rows)


def _centric(case: Measured, times: float) -> CanonicalPlan:
    """ApproxDP + MC within a multiple of the minimum budget."""
    return case.planner.plan("pruned", "memory", int(times * case.planner.least_budget("pruned")))


def _larger_budgets(cases: Sequence[Measured]) -> Table:
    """Reductions by memory-centric plans within larger budgets than the minimum, beside Chen's."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "paper": percent}
    columns |= dict.fromkeys((*(f"{times:g} times" for times in TIMES), CHEN), percent)
    rows = []
    for case in cases:
        quoted = case.paper.reductions[MEMORY_CENTRIC] if case.paper is not None else None
        ours = (case.reduction(case.beside(_centric(case, times).peak)) for times in TIMES)
        rows.append((case.label, quoted, *ours, case.reduction(case.totals[CHEN])))
    return Table(
        "larger_budgets", f"Reduction by {MEMORY_CENTRIC} within multiples of the minimum budget", columns, rows
    )


def _without_liveness(cases: Sequence[Measured]) -> tuple[Table, Table]:
    """The plans of table 1, without liveness."""
    plans = (*PLANNED, CHEN)
    total: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys((*plans, VANILLA), format_bytes)}
    share: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(plans, percent)}
    bytes_of = [(case.label, *case.without_liveness.values(), case.totals[VANILLA]) for case in cases]
    shares = [(case.label, *map(case.reduction, case.without_liveness.values())) for case in cases]
    return (
        Table("without_liveness", "Peak memory without liveness, with resident bytes", total, bytes_of),
        Table("without_liveness_reductions", "Reduction against vanilla, without liveness", share, shares),
    )


def _lattices(cases: Sequence[Measured]) -> tuple[Table, Table]:
    """Numbers of lower sets; and budgets and overheads of their chains, by the formulas and executed."""
    counts: dict[str, Callable[[Any], str]] = dict.fromkeys(("network", "T(V)", "pruned sets", "all sets"), str)
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(("network", "chains of"), str)
    columns |= {"budget, formula (2)": format_bytes, "executed, no liveness": format_bytes, "executed": format_bytes}
    columns |= {"of the budget": percent, "T, formula (1)": str, "T, executed": str}
    sizes, rows = [], []
    for case in cases:
        planner, graph = case.planner, case.graph
        lean = differentiate(case.network.forward())  # formula (2) counts no gradients of parameters
        pruned, exact = planner.least_budget("pruned"), planner.least_budget("exact")
        sizes.append((case.label, case.one_pass, planner.n_lower_sets("pruned"), planner.n_lower_sets("exact")))
        plans = {
            ("pruned sets", pruned): case.plans[TIME],
            ("all sets", exact): case.plans["ExactDP + TC"],
            ("all sets, at the budget of the pruned", pruned): planner.plan("exact", "time", pruned),
        }
        for (family, budget), plan in plans.items():
            peak = CanonicalPlan(lean, LowerSets.of(lean, plan.chain.sets(graph))).peak
            peaks = plan.peak_without_liveness(lean), peak, round(peak / budget, 4)
            rows.append((case.label, family, budget, *peaks, plan.formula_overhead, plan.overhead))
    note = (
        "Time-centric plans at the minimum budget of their family; without the gradients of parameters, which formula "
        f"(2) does not count. In execution, {_excess(rows)}."
    )
    return (
        Table("lattices", "Lower sets", counts, sizes),
        Table("formulas", "Formulas (1) and (2), and what is executed", columns, rows, note),
    )


def _excess(rows: Sequence[tuple[Any, ...]]) -> str:
    """By how much runs exceed the formulas, of rows of the table of formulas."""
    words = []
    for at, of, what in ((7, 6, "the overhead is above T"), (4, 2, "the peak is above the budget")):
        more = [row[at] / row[of] - 1 for row in rows if row[at] > row[of]]
        words.append(f"{what} in {len(more)} of {len(rows)} rows{f', by up to {percent(max(more))}' if more else ''}")
    bare = [row[3] / row[2] - 1 for row in rows if row[3] > row[2]]
    most = f", by up to {percent(max(bare))}" if bare else ""
    return f"{'; '.join(words)}, and without liveness in {len(bare)} of {len(rows)}{most}"


def _largest(curves: Mapping[str, BatchCurves]) -> Table:
    """The largest batches, and the time at double the batch of vanilla."""
    strategies = list(next(iter(curves.values())).seconds)
    columns: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(strategies, str)}
    columns |= {f"{name}, doubled": "{:.3f}".format for name in strategies if name != VANILLA}
    rows = [
        (
            label,
            *(curve.largest[name] for name in strategies),
            *(curve.slowdown(name) for name in strategies if name != VANILLA),
        )
        for label, curve in curves.items()
    ]
    note = "`doubled` is the time at double the largest batch of vanilla, in times of a pass without rematerialization."
    return Table("figure4_batches", "The largest batch of each strategy", columns, rows, note)


def _times(curves: Mapping[str, BatchCurves]) -> Table:
    """The points of figure 4."""
    strategies = list(next(iter(curves.values())).seconds)
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    columns |= dict.fromkeys(("one pass", *strategies), "{:.2f}".format)
    rows = [
        (label, batch, one_pass, *(curve.seconds[name].get(batch) for name in strategies))
        for label, curve in curves.items()
        for batch, one_pass in curve.one_pass.items()
    ]
    note = "Empty cells: the batch does not fit, or vanilla fits. `one pass` is the time of vanilla if it fitted."
    return Table("figure4", "Seconds of a forward and a backward pass", columns, rows, note)
