"""Recomputation over lower sets: seven networks under all strategies, and time against batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from remat_algos.ir.units import format_bytes
from remat_algos.reproduce.batches import BatchCurves, batch_curves, plot_batches
from remat_algos.reproduce.kusumoto2019_networks import (
    CHEN,
    LIVENESS,
    MEMORY_CENTRIC,
    METHODS,
    PLANNED,
    REPORTED,
    TIME,
    VANILLA,
    Measured,
)
from remat_algos.reproduce.page import Figure, Page, Table, percent
from remat_algos.solvers.registry import Progress

QUICK = ("U-Net", "VGG19")
DEEP, WIDE = "ResNet152", "PSPNet"  # what the text of section 5.2 names

INTRODUCTION = """\
Section 5 of the paper compares the peaks of seven networks under each of its strategies on a Tesla K40c, and the time \
that they take as batches grow. Here the same networks come from the zoo, one value for each operation; gradients read \
what the graphs say that the authors published, a convolution costs 10 and anything else 1 (section 3). ApproxDP is \
`approximate_dp` over the paper's pruned family, ExactDP is `exact_dp`; TC is the least overhead and MC the most \
overhead by formula (1), each within the least budget of formula (2) that its family has a chain for. Chains are run \
to the letter (`keep_last=False, lazy=False`): the last block is discarded and run again, and blocks run again as \
wholes. Chen's is the plan that the authors ran (`chen_sqrt`, `candidates="boundary1"`). `liveness_dp` beside them is \
the lowest plan that we find on the same graphs. `remat reproduce kusumoto2019` writes this page."""

MEMORY_TEXT = """\
Peaks are what the judge finds, with liveness, and what the card holds beside it: parameters, images and labels, \
running statistics. The gradient of each parameter is held from the step that makes it. GB are powers of 1000. The \
paper's reductions are from its own vanilla column, ours from ours, which the next section explains."""

LIMITS = """\
GB cannot follow from the model everywhere. GoogLeNet differs most: its local response norms keep scales, and \
convolutions take workspaces, which the graphs do not have. The paper's GB are those of an allocator, which rounds \
sizes. Its batch sizes are those of its table, but the authors planned on published graphs of other batch sizes, whose \
sizes their program counts in units of 100 or 1000 bytes; its exact variant leaves transitions out, so that its least \
budgets are up to 3.1 % too high; and what it calls memory-centric is another thing than the paper says (below). Among \
chains that are equal by the formulas liveness decides, and which of them a program takes is chance."""

VANILLA_TEXT = """\
The paper says neither what a vanilla run frees nor whether the gradients of parameters count. Its column is met by a \
run whose tape holds all that gradients read until the backward pass is over, if operations whose gradients read \
nothing in frameworks, such as sums, concatenations and crops, hold nothing, and if the gradients of parameters count. \
So `tape` is our vanilla. In the published graphs such gradients read their inputs too (`tape, as published`); plans \
are made, run and judged on these. `liveness` is a single pass over them, values freed after their last read. It is \
below `tape` where that frees much (VGG19, U-Net), above it where the inputs of sums are held (ResNets, PSPNet)."""

MEMORY_CENTRIC_TEXT = """\
Section 4.4 says that a memory-centric plan has the most overhead within the least budget; the authors' program takes \
the least bytes kept, and of such chains the least overhead."""

LIVENESS_TEXT = """\
The same plans, if values are dropped only where the canonical strategy drops them (section 3); all gradients of \
parameters count from the start. Chen's plan, which knows nothing of formula (2), needs liveness most: without it, \
forward values and gradients of a whole block are held side by side. The paper's own table of this stands in its \
appendix, and is not compared here."""

LATTICE_TEXT = """\
Least budgets are exact. In budgets the pruned family is near the optimum, as the paper says; in overhead it can be \
far from it: the last column is the least T of all chains within the pruned family's budget. `T, all` stands at the \
smaller budget, where it may be larger than `T, pruned`."""

BATCH_TEXT = """\
Time is by a roofline of the paper's GPU (docs/costs.md) that takes the backward part for twice the forward part, so \
that one more forward pass is a third. The card has 11.4 GB, parameters and inputs included. Plans are made at the \
batch size of Table 1 and run at others. ApproxDP + TC has 10 GB for formula (2), whatever liveness leaves: this is \
what the authors' benchmark gives it by default, and why it ends before the memory does. ApproxDP + MC and Chen's are \
one plan for all sizes; `liveness_dp` is the cheapest plan that really fits. As in section 5.2, strategies that run \
nodes again begin where vanilla ends. The authors timed Python that interprets a schedule line by line, on kernels of \
cuDNN; a roofline knows neither."""


def page(quick: bool, progress: Progress | None) -> Page:
    """What section 5 reports; with `quick` for the two smallest networks."""
    cases = [Measured(label, progress) for label in (QUICK if quick else REPORTED)]
    curves = {case.label: batch_curves(case.network, case.planner, case.lowered) for case in cases}
    caption = "Seconds of forward and backward part; the table above."
    draw = partial(plot_batches, curves)
    return Page(
        "kusumoto2019",
        "recomputation over lower sets",
        [
            INTRODUCTION,
            _claims(cases, curves),
            "## Peak memory (Table 1)",
            MEMORY_TEXT,
            *_peaks(cases),
            LIMITS,
            "## Vanilla",
            VANILLA_TEXT,
            _vanilla(cases),
            "## Memory-centric",
            MEMORY_CENTRIC_TEXT,
            _memory_centric(cases),
            "## Without liveness",
            LIVENESS_TEXT,
            *_without_liveness(cases),
            "## Lower sets",
            LATTICE_TEXT,
            _lattices(cases),
            "## Time and batch size (Figure 4)",
            BATCH_TEXT,
            _largest(curves),
            _times(curves),
            Figure("figure4", "Time against batch size", draw, caption),
        ],
    )


# ---------------------------------------------------------------- tables


def _claims(cases: Sequence[Measured], curves: Mapping[str, BatchCurves]) -> Table:
    """What the text of the paper says in numbers, and what is found here."""
    saved = [100 * case.reduction(case.totals[MEMORY_CENTRIC]) for case in cases]
    both = [(f"ExactDP + {kind}", f"ApproxDP + {kind}") for kind in ("MC", "TC")]
    ratios = [case.totals[exact] / case.totals[approximate] for case in cases for exact, approximate in both]
    theirs, ours = [case.paper.n_nodes for case in cases], [int(case.graph.forward.sum()) for case in cases]
    rows = [
        ("nodes", "Table 1", _listed(theirs), _listed(ours)),
        ("less peak memory, ApproxDP + MC", "abstract", "36 to 81 %", f"{min(saved):.0f} to {max(saved):.0f} %"),
        (
            "peaks of ExactDP against ApproxDP",
            "section 5.1",
            "did not differ much",
            f"{min(ratios):.2f} to {max(ratios):.2f} times",
        ),
        *_claims_of_time(curves),
    ]
    columns: Mapping[str, Callable[[Any], str]] = dict.fromkeys(("quantity", "where", "paper", "ours"), str)
    return Table("claims", "What the text says in numbers", columns, rows)


def _claims_of_time(curves: Mapping[str, BatchCurves]) -> Iterator[tuple[str, str, str, str]]:
    if DEEP in curves:
        what = f"{DEEP} at double the batch of vanilla, ApproxDP + TC against Chen's"
        yield what, "section 5.2", "1.16 times faster", _faster(curves[DEEP])
    if WIDE in curves:
        ends = curves[WIDE].largest
        ours = f"from {ends[VANILLA]} to {ends[TIME]}; `liveness_dp` to {ends[LIVENESS]}"
        yield f"largest batch of {WIDE}", "section 5.2", "from 2 to 8", ours


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _faster(found: BatchCurves) -> str:
    chen, time = found.slowdown(CHEN), found.slowdown(TIME)
    if chen is None or time is None:
        return f"no room at batch {found.doubled}"
    return f"{chen / time:.2f} times faster, at batch {found.doubled}"


def _peaks(cases: Sequence[Measured]) -> tuple[Table, Table]:
    """Table 1 in bytes and in shares, the paper's rows above ours."""
    total: dict[str, Callable[[Any], str]] = {"network": str, "batch": str, "by": str}
    total |= dict.fromkeys((*METHODS, LIVENESS), format_bytes)
    bytes_of, shares = [], []
    for case in cases:
        name = case.label, case.network.batch
        bytes_of.append((*name, "paper", *case.paper.totals.values(), None))
        bytes_of.append((*name, "ours", *(case.totals[method] for method in (*METHODS, LIVENESS))))
        saving = [method for method in METHODS if method != VANILLA]
        shares.append((*name, "paper", *(case.paper.reductions[method] for method in saving), None))
        shares.append((*name, "ours", *(case.reduction(case.totals[method]) for method in (*saving, LIVENESS))))
    share = {name: percent if name in METHODS or name == LIVENESS else str for name in total if name != VANILLA}
    return (
        Table("table1", "Peak memory, with what the card holds beside it", total, bytes_of),
        Table("table1_reductions", "Less than vanilla", share, shares),
    )


def _vanilla(cases: Sequence[Measured]) -> Table:
    """What a run without rematerialization may hold."""
    heads = ("paper", "tape", "tape, no gradients of parameters", "tape, as published", "liveness", "beside the peak")
    columns: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(heads, format_bytes)}
    columns["tape against the paper"] = percent
    rows = []
    for case in cases:
        paper, tape = case.paper.totals[VANILLA], case.totals[VANILLA]
        without, published = case.taped(parameter_gradients=False), case.taped(published=True)
        rows.append(
            (case.label, paper, tape, without, published, case.freed, case.beside(0), round(tape / paper - 1, 4))
        )
    return Table("vanilla", "Without rematerialization, with what the card holds beside it", columns, rows)


def _memory_centric(cases: Sequence[Measured]) -> Table:
    """Two meanings of memory-centric, within the same budgets."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "family": str}
    columns |= {"paper": format_bytes, "most overhead": format_bytes, "least kept": format_bytes}
    columns |= {"T, most overhead": str, "T, least kept": str}
    rows = []
    for case in cases:
        for method, (family, strategy) in PLANNED.items():
            if strategy == "memory":
                most, least = case.plans[method], case.planner.plan(family, "cache")
                peaks = case.paper.totals[method], case.beside(most.peak), case.beside(least.peak)
                rows.append((case.label, family, *peaks, most.formula_overhead, least.formula_overhead))
    return Table("memory_centric", "Memory-centric plans in two meanings", columns, rows)


def _without_liveness(cases: Sequence[Measured]) -> tuple[Table, Table]:
    """The plans of table 1, without liveness."""
    plans = (*PLANNED, CHEN)
    total: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys((*plans, VANILLA), format_bytes)}
    share: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(plans, percent)}
    bytes_of = [(case.label, *case.without_liveness.values(), case.totals[VANILLA]) for case in cases]
    shares = [(case.label, *map(case.reduction, case.without_liveness.values())) for case in cases]
    return (
        Table("without_liveness", "Peak memory without liveness, with what the card holds beside it", total, bytes_of),
        Table("without_liveness_reductions", "Less than vanilla, without liveness", share, shares),
    )


def _lattices(cases: Sequence[Measured]) -> Table:
    """How many lower sets, what their chains reach by the formulas."""
    columns: dict[str, Callable[[Any], str]] = dict.fromkeys(("network", "T(V)", "pruned sets", "all sets"), str)
    columns |= {"least budget, pruned": format_bytes, "least budget, all": format_bytes}
    columns |= dict.fromkeys(("T, pruned", "T, all", "T, all at the pruned budget"), str)
    rows = []
    for case in cases:
        planner, graph = case.planner, case.graph
        pruned, exact = planner.least_budget("pruned"), planner.least_budget("exact")
        sets = planner.n_lower_sets("pruned"), planner.n_lower_sets("exact")
        plans = case.plans[TIME], case.plans["ExactDP + TC"], planner.plan("exact", "time", pruned)
        whole = int(graph.compute[graph.forward].sum())
        rows.append((case.label, whole, *sets, pruned, exact, *(plan.formula_overhead for plan in plans)))
    note = "T is formula (1), of time-centric plans at the least budget of their family."
    return Table("lattices", "Lower sets and formulas", columns, rows, note)


def _largest(curves: Mapping[str, BatchCurves]) -> Table:
    """Where strategies end, and their time at double the batch of vanilla."""
    strategies = list(next(iter(curves.values())).seconds)
    columns: dict[str, Callable[[Any], str]] = {"network": str, **dict.fromkeys(strategies, str)}
    columns |= {f"{name}, doubled": "{:.3f}".format for name in strategies if name != VANILLA}
    rows = [
        (
            label,
            *(found.largest[name] for name in strategies),
            *(found.slowdown(name) for name in strategies if name != VANILLA),
        )
        for label, found in curves.items()
    ]
    note = "`doubled` is the time at double the largest batch of vanilla, in times of a pass without rematerialization."
    return Table("figure4_batches", "The largest batch of each strategy", columns, rows, note)


def _times(curves: Mapping[str, BatchCurves]) -> Table:
    """The points of figure 4."""
    strategies = list(next(iter(curves.values())).seconds)
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    columns |= dict.fromkeys(("one pass", *strategies), "{:.2f}".format)
    rows = [
        (label, batch, one_pass, *(found.seconds[name].get(batch) for name in strategies))
        for label, found in curves.items()
        for batch, one_pass in found.one_pass.items()
    ]
    note = "An empty cell: no room, or room for vanilla. `one pass` is vanilla as if there were always room."
    return Table("figure4", "Seconds of a forward and a backward pass", columns, rows, note)
