"""remat unroll: convert a schedule to a graph with one node per run."""

import argparse

from remat_algos.cli.graph_argument import (
    WRITTEN,
    add_graph,
    check_apart,
    one_pass,
    order_of,
    write_files,
)
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import add, add_plot
from remat_algos.result import UNIT, Summary, entries
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.views import unroll
from remat_algos.wording import counted, exact_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add(parser, "order", "mirror", output=f"write the mirrored graph: {WRITTEN}")
    add_plot(parser, "graph")


def run(arguments: argparse.Namespace) -> None:
    """Unroll the schedule, simulate the new graph, print the peak and the compute, and write and draw the new graph."""
    check_apart(arguments)
    graph, simulation, _, note = order_of(arguments)
    simulation = simulation or one_pass(graph)
    unrolled = unroll(graph, simulation.schedule)
    summary = _summary(simulation, simulate(unrolled, range(unrolled.n_nodes)))
    written, rows = write_files(unrolled, arguments.output)
    print_text(note)
    print_result(arguments, summary, *rows, **written)
    draw(arguments, "graph", unrolled, copies=~simulation.schedule.first_run)


def _summary(simulation: Simulation, again: Simulation) -> Summary:
    graph, runs = again.graph, simulation.runs
    forward, copies, repeated = int(graph.forward.sum()), int((runs - (runs > 0)).sum()), int((runs > 1).sum())
    reads, labels = int(graph.read_indices.size), simulation.graph.labels
    of = f" of {counted(repeated, 'node')}" if copies else ""
    overhead = 100 * simulation.overhead / max(1, simulation.graph.needed_compute)
    peak = f"{exact_bytes(again.peak_memory)}, {_compared(again.peak_memory, simulation.peak_memory)}"
    compute = f"{labels.compute(again.compute)}, {overhead:.1f} % more than one pass"
    parts = f"{forward:,} forward, {graph.n_nodes - forward:,} backward"
    rows = [
        ("nodes", f"{graph.n_nodes:,}: {parts}; {counted(reads, 'read')}"),
        ("copies", f"{copies:,}{of}"),
        ("peak", peak),
        ("compute", f"{compute}, {_compared(again.compute, simulation.compute)}"),
    ]
    record = {
        "graph_hash": simulation.graph.source_hash,
        "unrolled_hash": graph.source_hash,
        "nodes": graph.n_nodes,
        "forward_nodes": forward,
        "backward_nodes": graph.n_nodes - forward,
        "copies": copies,
        "nodes_run_again": repeated,
        "reads": reads,
        **entries(again, "peak_memory graph.resident_memory compute"),
        "schedule": entries(simulation, "peak_memory compute overhead"),
        **entries(again, UNIT),
    }
    return Summary(record, rows)


def _compared(figure: int, of_schedule: int) -> str:
    return "the same as the schedule" if figure == of_schedule else f"but {of_schedule:,} in the schedule"
