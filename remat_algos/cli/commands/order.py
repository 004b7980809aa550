"""remat order: find an order of one pass with a low peak."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound, one_pass_bound
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import add, add_plot, search_clock, whole_number
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.files import write_whole
from remat_algos.result import Summary, entries
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.one_pass import lower_passes
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.amounts import percent
from remat_algos.wording import exact_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    group = parser.add_argument_group("search")
    beam = "beam width: node sets to keep per step (default: 64, less on large graphs; 0: use the id order)"
    group.add_argument("--beam", type=whole_number, metavar="N", help=beam)
    search = "improve the order of the beam search by moving nodes (default)"
    group.add_argument("--search", action=argparse.BooleanOptionalAction, default=True, help=search)
    limit = "stop SECONDS after the start, including reading and writing, with the best order found until then"
    add(parser, "time_limit", "seed", "output", time_limit=limit, output="write the order: a JSON list of node names")
    add_plot(parser, "memory")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Search, print the peaks and the bound, and write the order. Exit code 130: interrupted."""
    graph, note = graph_of(arguments)
    best = first = baseline(graph)
    print_text(note)
    with search_clock(arguments) as clock, until_stopped() as ended:
        random = np.random.SeedSequence(arguments.seed)
        for lower in lower_passes(graph, clock, random, beam=arguments.beam, search=arguments.search):
            best = lower
    if ended.stop.complete:
        clock.finish()
    bound, _ = one_pass_bound(graph, Clock(0) if ended.stop is Stop.INTERRUPTED else clock)
    written = arguments.output or None
    summary = _summary(best, first, bound, ended.stop, written)
    if written:
        write_whole(Path(written), f"{json.dumps(_steps(best), indent=1)}\n".encode())
    print_result(arguments, summary, schedule=_steps(best))
    draw(arguments, "memory", best)
    return ExitCode.of(ended.stop)


def _steps(simulation: Simulation) -> list[Any]:
    graph, schedule = simulation.graph, simulation.schedule
    return schedule.order.tolist() if graph.labels.names is None else schedule.names(graph)


def _summary(best: Simulation, first: Simulation, bound: int, stop: Stop, written: str | None) -> Summary:
    graph, base, peak, resident = best.graph, first.peak_memory, best.peak_memory, best.graph.resident_memory
    floor, optimal = least_peak_bound(graph)[0], peak <= bound
    node = graph.labels[int(best.schedule.order[best.peak_step])] if len(best.schedule) else ""
    at = f" at step {best.peak_step}, {node}" if node else ""
    proof = ": the order is optimal" if optimal else " of one pass"
    rows = [
        ("id order", f"peak {exact_bytes(base)}"),
        ("order", f"peak {exact_bytes(peak)}{at}"),
        ("share", f"{percent(peak, max(1, base))} of the peak in id order"),
        ("lower bound", f"{exact_bytes(bound)}, {percent(bound, max(1, base))}{proof}"),
        ("recomputing", f"no schedule goes below {exact_bytes(floor)}, {percent(floor, max(1, base))}"),
    ]
    if resident:
        rows.append(("resident", f"{exact_bytes(resident)}; with the peak {exact_bytes(peak + resident)}"))
    if not stop.complete:
        rows.append(("incomplete", "a longer search may find a lower peak"))
    if written:
        rows.append(("written", written))
    record = {
        **entries(first, "graph_hash=graph.source_hash peak_without_rematerialization=peak_memory"),
        "peak_memory": peak,
        "one_pass_bound": bound,
        "least_peak_bound": floor,
        "optimal": optimal,
        "resident_memory": resident,
        **stop.record(),
        "written": written,
    }
    return Summary(record, rows)
