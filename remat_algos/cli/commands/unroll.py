"""remat unroll: convert a schedule to a graph with one node per run."""

import argparse
from typing import Any

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
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.views import unroll
from remat_algos.wording import counted, exact_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the order or mirror counts, the output."""
    add_graph(parser)
    add(parser, "order", "mirror", output=f"write the mirrored graph: {WRITTEN}")
    add_plot(parser, "graph")


def run(arguments: argparse.Namespace) -> None:
    """Unroll, simulate the result, print its figures, write and draw it."""
    check_apart(arguments)
    graph, simulation, _, note = order_of(arguments)
    simulation = simulation or one_pass(graph)
    unrolled = unroll(graph, simulation.schedule)
    record = _record(simulation, simulate(unrolled, range(unrolled.n_nodes)))
    written, rows = write_files(unrolled, arguments.output)
    print_text(note)
    print_result(arguments, Summary(record, _rows(graph, record)), *rows, **written)
    draw(arguments, "graph", unrolled, copies=~simulation.schedule.first_run)


def _record(simulation: Any, again: Any) -> dict[str, Any]:
    """Return the figures of the simulated mirrored graph and of the schedule."""
    graph, runs = again.graph, simulation.runs
    return {
        "graph_hash": simulation.graph.source_hash,
        "unrolled_hash": graph.source_hash,
        "nodes": graph.n_nodes,
        "forward_nodes": int(graph.forward.sum()),
        "backward_nodes": int((~graph.forward).sum()),
        "copies": int((runs - (runs > 0)).sum()),
        "nodes_run_again": int((runs > 1).sum()),
        "reads": int(graph.read_indices.size),
        **entries(again, "peak_memory graph.resident_memory compute"),
        "schedule": entries(simulation, "peak_memory compute overhead"),
        **entries(again, UNIT),
    }


def _rows(graph: Any, record: dict[str, Any]) -> list[tuple[str, str]]:
    of_schedule = record["schedule"]
    parts = f"{record['forward_nodes']:,} forward, {record['backward_nodes']:,} backward"
    overhead = 100 * of_schedule["overhead"] / max(1, graph.needed_compute)
    of = f" of {counted(record['nodes_run_again'], 'node')}" if record["copies"] else ""
    peak, compute = exact_bytes(record["peak_memory"]), graph.labels.compute(record["compute"])
    return [
        ("nodes", f"{record['nodes']:,}: {parts}; {counted(record['reads'], 'read')}"),
        ("copies", f"{record['copies']:,}{of}"),
        ("peak", f"{peak}, {_compared(record, of_schedule, 'peak_memory')}"),
        ("compute", f"{compute}, {overhead:.1f} % more than one pass, {_compared(record, of_schedule, 'compute')}"),
    ]


def _compared(record: dict[str, Any], of_schedule: dict[str, int], figure: str) -> str:
    same = record[figure] == of_schedule[figure]
    return "the same as the schedule" if same else f"but {of_schedule[figure]:,} in the schedule"
