"""remat bound: lower bounds on the compute of schedules within a budget."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remat_algos.bounds.bound import RESULTS, TWO_PATHS, LowerBound
from remat_algos.bounds.closure import closure_cut
from remat_algos.bounds.rising import BoundCurve, bound_curve
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import LINKS, add, add_plot, limits, link_of, search_clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.result import UNIT, Result, entries
from remat_algos.schedule.emission import baseline_peak
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import counted, exact_bytes, format_bytes, listed

if TYPE_CHECKING:
    from fractions import Fraction


KINDS_SHOWN = 8
NAMES_SHOWN = 4
# Minimum and maximum significant digits of the price per byte.
PRICE_DIGITS, FLOAT_DIGITS = 4, 17
# Sums below WHOLE_FROM units are printed with DECIMALS decimal places.
DECIMALS, WHOLE_FROM = 3, 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    sizes = (
        "limits of the peak, not counting residents (parameters, inputs, optimizer states): bytes, 4GiB or 50%% (of "
        "the peak without rematerialization)"
    )
    parser.add_argument("--budget", required=True, metavar="SIZE,...", type=limits, help=sizes)
    add(parser, "copies", link=f"bound the time of plans that may also copy values over this link: {LINKS}")
    limit = "stop SECONDS after the start, including reading, with the largest bound found until then"
    add(parser, "effort", time_limit=limit)
    add_plot(parser, "bounds")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compute bounds and print their proofs. Exit code 3: no schedule fits any budget; 130: interrupted."""
    link = link_of(arguments)
    graph, note = graph_of(arguments)
    base = baseline_peak(graph)
    bytes_of = {text: budget.memory_limit(base, graph.resident_memory) for text, budget in arguments.budget.items()}
    print_text(note)
    if link is not None:
        print_text(f"times with copies over {link}")
    with search_clock(arguments) as clock:
        planned = None if link is None else link.planned
        curve = bound_curve(graph, list(bytes_of.values()), clock, effort=arguments.effort, link=planned)
    print_result(arguments, BoundTable(curve, bytes_of), **({} if link is None else {"link": link.record()}))
    draw(arguments, "bounds", curve)
    infeasible = curve.bounds and all(bound.infeasible for bound in curve.bounds)
    return ExitCode.of(curve.stop, ExitCode.INFEASIBLE if infeasible else ExitCode.DONE)


@dataclass(frozen=True, slots=True, eq=False)
class BoundTable(Result):
    """Bounds for budgets, or one bound with its proof; `limits` maps budgets, as the user wrote them, to bytes."""

    curve: BoundCurve
    limits: dict[str, int]

    COLUMNS = ("budget", "of base", "lower bound", "source", "proved at a run of")

    @property
    def columns(self) -> tuple[str, ...]:
        return () if len(self.curve.limits) == 1 else self.COLUMNS

    def rows(self) -> Iterator[tuple[str, ...]]:
        curve, graph, one_pass = self.curve, self.curve.graph, self.curve.graph.needed_compute
        if not self.columns:
            yield from _rows(curve)
            return
        for limit, bound in zip(curve.limits, curve.bounds, strict=True):
            extra = "no schedule fits" if bound.infeasible else f"+{fine_percent(bound.amount - one_pass, one_pass)}"
            steps = (" or " if bound.source == TWO_PATHS else ", ").join(graph.labels[v] for v in bound.nodes)
            if bound.source == RESULTS:
                steps = "the last node that computes a result"
            source = "" if bound.infeasible else bound.source
            yield format_bytes(limit), percent(limit, baseline_peak(graph)), extra, source, steps

    def notes(self) -> Iterator[str]:
        if self.curve.stop.reason:
            yield "incomplete: these lower bounds are valid, but a longer search may raise them"

    def record(self) -> dict[str, Any]:
        """Return the JSON record: for each budget its bound, and the nodes that the cut keeps and recomputes."""
        curve, graph = self.curve, self.curve.graph
        entry_of = {
            limit: (bound, closure)
            for limit, bound, closure in zip(curve.limits, curve.bounds, curve.closures, strict=True)
        }
        return {
            "graph_hash": graph.source_hash,
            "peak_without_rematerialization": baseline_peak(graph),
            "one_pass": graph.needed_compute,
            **entries(curve, f"{UNIT} stop.complete"),
            "bounds": [
                {"budget": text, "limit": limit, **_entry(graph, *entry_of[limit])}
                for text, limit in self.limits.items()
            ],
        }


def _rows(curve: BoundCurve) -> Iterator[tuple[str, str]]:
    graph, labels, one_pass = curve.graph, curve.graph.labels, curve.graph.needed_compute
    (limit,), (bound,), (closure,) = curve.limits, curve.bounds, curve.closures
    names = listed([labels[v] for v in bound.nodes], NAMES_SHOWN)
    first = f"the first run{'s' if len(bound.nodes) > 1 else ''} of {names}"
    yield "limit", exact_bytes(limit)
    if bound.infeasible:
        live = f"{format_bytes(bound.forced)} are" if bound.forced else "more bytes than the limit are"
        if bound.source == TWO_PATHS:
            first = f"a run of {' or '.join(labels[v] for v in bound.nodes)}"
        elif bound.source == RESULTS:
            first = "the first run of the last node that computes a result"
        yield "lower bound", f"no schedule fits: {live} live at {first}"
        return
    if bound.amount <= one_pass:
        yield "lower bound", f"{labels.compute(one_pass)}, one pass"
        return
    extra = f"{fine_percent(bound.amount - one_pass, one_pass)} more than one pass"
    yield "lower bound", f"{labels.compute(bound.amount)}, {extra} ({bound.source})"
    yield "proved at", first
    if closure is not bound and closure.prices is not None:
        extra = fine_percent(closure.amount - one_pass, one_pass)
        yield "closure", f"{extra} more than one pass, at the first run of {labels[closure.nodes[0]]}"
    yield from _cut_rows(graph, limit, closure)


def _cut_rows(graph: ComputationGraph, limit: int, closure: LowerBound) -> Iterator[tuple[str, str]]:
    from fractions import Fraction

    labels, cut = graph.labels, closure_cut(graph, closure)
    if cut is None or closure.prices is None:
        return
    kept, compute = int(graph.memory[cut.kept].sum()), int(graph.compute[cut.recomputed].sum())
    kinds = _kinds(graph, graph.producer[cut.kept].tolist())
    forced = "values read or computed there, outputs, and values that cannot be recomputed"
    yield "must be live", f"{format_bytes(cut.forced)}: {forced}"
    yield "kept", f"{counted(cut.kept.size, 'value')}, {format_bytes(kept)}{kinds}"
    again = f"{counted(cut.recomputed.size, 'node')}, {labels.compute(compute)}"
    yield "recomputed", f"{again}{_kinds(graph, cut.recomputed.tolist())}"
    if cut.run_before.size:
        kinds = _kinds(graph, cut.run_before.tolist())
        yield "run before", f"{counted(cut.run_before.size, 'node')} that {labels[cut.node]} does not need{kinds}"
    price = Fraction(closure.prices.byte) / labels.compute_scale
    sentence, total = _sum(Fraction(compute, labels.compute_scale), limit - int(cut.forced) - kept, price)
    # The bound is rounded up to a whole number of units.
    overhead = labels.compute(closure.amount - graph.needed_compute)
    yield "bound", sentence + ("" if total == overhead else f", so at least {overhead}")


def _sum(compute: Fraction, left: int, price: Fraction) -> tuple[str, str]:
    from fractions import Fraction

    exact = compute - left * price
    places = 0 if abs(exact) >= WHOLE_FROM else DECIMALS
    digits = PRICE_DIGITS
    while digits < FLOAT_DIGITS:
        rounded = compute - left * Fraction(f"{float(price):.{digits}g}")
        if round(rounded, places) == round(exact, places):
            break
        digits += 1
    total, recomputed = (_decimal(amount) for amount in (round(exact, places), compute))
    unused = f"- {left:,} B unused" if left >= 0 else f"+ {-left:,} B too many"
    return f"{recomputed} recomputed {unused} x {float(price):.{digits}g} for a byte = {total}", total


def _decimal(amount: Fraction | int) -> str:
    whole = f"{float(amount):,.{DECIMALS * 2}f}"
    return f"{int(amount):,}" if amount == int(amount) else whole.rstrip("0")


def _kinds(graph: ComputationGraph, nodes: Sequence[int]) -> str:
    if graph.labels.ops is None or not nodes:
        return ""
    counts = Counter(graph.labels.op(v) or "other" for v in nodes).most_common()
    more = sum(count for _, count in counts[KINDS_SHOWN:])
    shown = [f"{kind} {count}" for kind, count in counts[:KINDS_SHOWN]] + ([f"other kinds {more}"] if more else [])
    return f": {', '.join(shown)}"


def _entry(graph: ComputationGraph, bound: LowerBound, closure: LowerBound) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "feasible": not bound.infeasible,
        "bound": bound.amount,
        "overhead": bound.amount - graph.needed_compute,
        "source": bound.source,
        **bound.record(graph),
    }
    cut = None if bound.infeasible else closure_cut(graph, closure)
    if bound.infeasible:
        entry["forced_memory"] = bound.forced or None
    if cut is not None:
        entry["closure"] = {
            "bound": closure.amount,
            **closure.record(graph),
            "forced_memory": int(cut.forced),
            "kept": [graph.value_name(x) for x in cut.kept.tolist()],
            "recomputed": [graph.labels[v] for v in cut.recomputed.tolist()],
            "run_before": [graph.labels[v] for v in cut.run_before.tolist()],
        }
    return entry
