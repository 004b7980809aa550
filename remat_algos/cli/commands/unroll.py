"""remat unroll: a schedule as a graph of its own."""

import argparse
from pathlib import Path
from typing import Any

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, files_of, graph_of
from remat_algos.cli.graph_output import name_endings
from remat_algos.cli.order_argument import add_order, check_order, simulated_mirror_counts, simulated_order
from remat_algos.cli.output import add_json, print_json, print_row, print_table, print_text, writable
from remat_algos.cli.plot_argument import add_plot, check_plot, draw
from remat_algos.text.wording import counted, shortened_path

HELP = "write or draw an order as the mirrored graph, which has a node for each run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the order or mirror counts, the output."""
    add_graph(parser)
    add_order(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=writable, help=f"write the mirrored graph: {name_endings()}"
    )
    add_plot(parser, pictures=("graph",))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Unroll, simulate the result, print its figures, write and draw it."""
    from remat_algos.formats.orders import Order
    from remat_algos.schedule.baseline import baseline
    from remat_algos.schedule.simulation import simulate
    from remat_algos.schedule.unrolling import unroll

    check_plot(arguments)
    check_order(arguments.order, arguments.mirror)
    _check_output(arguments)
    order = None if arguments.order is None else Order.read(arguments.order)
    graph, note = graph_of(arguments, order)
    if order is not None:
        simulation = simulated_order(graph, order)
    elif arguments.mirror is not None:
        simulation = simulated_mirror_counts(graph, arguments.mirror)
    else:
        simulation = simulate(graph, baseline(graph).schedule)  # here marks count
    unrolled = unroll(graph, simulation.schedule)
    record = _record(simulation, simulate(unrolled, range(unrolled.n_nodes)))
    written, left_out = _written(unrolled, arguments.output)
    if arguments.json:
        print_json(record | {"written": written, "left_out": left_out})
    else:
        print_text(note)
        print_table(("", ""), _rows(graph, record), headed=False)
        if written:
            print_row("written", f"{', '.join(written)}")
        if left_out:
            print_row("left out", f"{', '.join(left_out)}: the format cannot represent it")
    draw(arguments, "graph", unrolled, copies=~simulation.schedule.first_run)
    return ExitCode.DONE


def _check_output(arguments: argparse.Namespace) -> None:
    """Check that the ending is a format, and that no input is overwritten."""
    if arguments.output is None:
        return
    from remat_algos.formats.graph_files import files_written

    read = [
        *files_of(arguments),
        *(Path(file) for file in (arguments.order, arguments.mirror) if file is not None),
    ]
    sources = {file.resolve() for file in read}
    for file in files_written(arguments.output):
        if file.resolve() in sources:
            raise argparse.ArgumentTypeError(
                f"-o {shortened_path(arguments.output)} would overwrite {shortened_path(file)}; name another file"
            )


def _written(graph: Any, output: str | None) -> tuple[list[str], list[str]]:
    """The written files, and the properties that they cannot store."""
    if output is None:
        return [], []
    from remat_algos.formats.graph_files import files_written, left_out, write_graph

    write_graph(graph, output)
    return [str(file) for file in files_written(output) if file.exists()], left_out(graph, output)


def _record(simulation: Any, again: Any) -> dict[str, Any]:
    """Figures of the mirrored graph, simulated, and of the schedule."""
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
        "peak_memory": again.peak_memory,
        "resident_memory": graph.resident_memory,
        "compute": again.compute,
        "schedule": {
            "peak_memory": simulation.peak_memory,
            "compute": simulation.compute,
            "overhead": simulation.overhead,
        },
        "compute_unit": graph.labels.compute_unit,
        "compute_scale": graph.labels.compute_scale,
    }


def _rows(graph: Any, record: dict[str, Any]) -> list[tuple[str, str]]:
    from remat_algos.text.units import exact_bytes

    of_schedule = record["schedule"]
    parts = f"{record['forward_nodes']:,} forward, {record['backward_nodes']:,} backward"
    overhead = 100 * of_schedule["overhead"] / max(1, graph.needed_compute)
    of = f" of {counted(record['nodes_run_again'], 'node')}" if record["copies"] else ""
    peak, compute = exact_bytes(record["peak_memory"]), graph.labels.compute(record["compute"])
    return [
        ("nodes", f"{record['nodes']:,}: {parts}; {counted(record['reads'], 'read')}"),
        ("copies", f"{record['copies']:,}{of}"),
        ("peak", f"{peak}, {_beside(record, of_schedule, 'peak_memory')}"),
        ("compute", f"{compute}, {overhead:.1f} % more than one pass, {_beside(record, of_schedule, 'compute')}"),
    ]


def _beside(record: dict[str, Any], of_schedule: dict[str, int], figure: str) -> str:
    same = record[figure] == of_schedule[figure]
    return "as the schedule has" if same else f"where the schedule has {of_schedule[figure]:,}"
