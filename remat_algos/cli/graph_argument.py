"""Read and differentiate the graph of a command, simulate its ORDER argument, and write graphs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from remat_algos.cli.shared_options import add, check_overwrite, naming
from remat_algos.errors import RematError, ScheduleError, extended, warn
from remat_algos.wording import counted, shortened_path

if TYPE_CHECKING:
    from remat_algos.formats.orders import Order
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.schedule.simulation import Simulation

# Defaults of --factor (cost of a gradient relative to its forward node) and of the bits per encoded element.
FACTOR, BITS = 2, 32
FORMATS = "cg, DOT, edge list, GraphML, JSON, npz, PACE, ONNX, StableHLO"
"""Names of the formats, so that --help need not import them; a test compares them with the registry."""
WRITTEN = "X.nodes.csv (and other tables next to it), X.dot, X.gv, X.txt, X.edges, X.graphml, X.json, X.npz, X.gr"
"""Names of files that can be written."""


def add_source(parser: argparse.ArgumentParser, help: str | None = None, optional: bool = False) -> None:
    forms = f"a file (tables, {FORMATS}; see docs/formats.md), or model:NAME, a built-in model (listed by remat models)"
    parser.add_argument("graph", metavar="GRAPH", nargs="?" if optional else None, help=help or forms)
    add(parser, "nodes")


def add_graph(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    add_source(parser, optional=optional)
    add(parser, "gradients")


def read_source(arguments: argparse.Namespace) -> ComputationGraph:
    from remat_algos.formats.graph_files import read_with_notes

    return read_with_notes(arguments.graph, nodes=arguments.nodes)[0]


def read_noted(arguments: argparse.Namespace) -> tuple[ComputationGraph, list[str]]:
    """Return the graph in the file, and notes on missing sizes and costs; with --json the notes become warnings."""
    from remat_algos.formats.graph_files import read_with_notes

    graph, notes = read_with_notes(arguments.graph, nodes=arguments.nodes)
    if notes and arguments.json:
        fault = "; ".join(notes)
        warn("{graph!p}: {fault!w}", graph=arguments.graph, fault=fault)
        notes = []
    return graph, notes


def graph_of(arguments: argparse.Namespace, order: Order | None = None) -> tuple[ComputationGraph, str]:
    """Return the graph to plan and a description of its changes; a plan in `order` overrides the command line."""
    graph, notes = read_noted(arguments)
    whole, line = as_planned(graph, arguments, order)
    return whole, "; ".join([line, *notes])


def as_planned(
    graph: ComputationGraph, arguments: argparse.Namespace, order: Order | None = None
) -> tuple[ComputationGraph, str]:
    """Differentiate a graph unless --inference is given; return the graph and a line that describes the change."""
    size = f"{shortened_path(arguments.graph)}: {counted(graph.n_nodes, 'node')}"
    bits = encode_bits(arguments, arguments.graph, is_training=graph.is_training)
    if graph.is_training:
        return graph, f"{size}, with its own backward part; no gradients added"
    of_plan = order is not None and order.is_plan
    if order is not None and order.is_plan:
        whole = order.differentiated(graph)
        bits = whole.derivation.options.get("encode", 0) if whole.derivation is not None else 0
    else:
        whole = _differentiated(graph, arguments, bits)
    if whole is graph:
        return graph, f"{size}; no gradients added ({'as in the plan' if of_plan else '--inference'})"
    added = counted(whole.n_nodes - graph.n_nodes, "gradient node")
    why = "as in the plan" if of_plan else "--inference plans the graph as it is"
    return whole, f"{size}; {added} added ({why}){encoded(graph, bits)}"


def _differentiated(graph: ComputationGraph, arguments: argparse.Namespace, bits: int) -> ComputationGraph:
    from remat_algos.ir.differentiate import differentiate

    if arguments.inference:
        return graph
    with naming(arguments.graph):
        return differentiate(
            graph,
            factor=FACTOR if arguments.factor is None else arguments.factor,
            parameter_gradients=arguments.parameter_gradients,
            loss=arguments.loss,
            encode=bits,
        )


def encode_bits(arguments: argparse.Namespace, source: str, *, is_training: bool) -> int:
    """Return the bits per element if feature maps are encoded, else 0; the dtype of a model sets the default."""
    element_bits: int | None = arguments.element_bits
    if not arguments.encode:
        if element_bits is not None:
            raise RematError("--element-bits {element_bits} needs --encode; add it", element_bits=element_bits)
        return 0
    if getattr(arguments, "inference", False):
        raise RematError("--encode needs gradients; leave out --inference or --encode")
    if is_training:
        raise RematError("--encode: {source!p} has its own backward part; give the graph without it", source=source)
    if element_bits is not None:
        return element_bits
    from remat_algos.zoo.reference import is_reference

    if not is_reference(source):
        return BITS
    from remat_algos.cost.devices import element_bytes
    from remat_algos.zoo.registry import options_of, read_reference

    model, options = read_reference(source)
    return 8 * element_bytes(options.get("dtype", options_of(model)["dtype"].default))


def encoded(graph: ComputationGraph, bits: int) -> str:
    from remat_algos.ir.encode import n_encoded

    if not bits:
        return ""
    count = n_encoded(graph, bits)
    return f"; {counted(count, 'feature map') if count else 'no feature map'} at 1 bit per element"


def read_order(file: str | None) -> Order | None:
    """Read the order or the plan in a file. Return None if no file is given."""
    if file is None:
        return None
    from remat_algos.formats.orders import Order

    return Order.read(file)


def order_of(arguments: argparse.Namespace) -> tuple[ComputationGraph, Simulation | None, Order | None, str]:
    """Return the graph, the simulation of ORDER or --mirror, the ORDER, and a description of graph changes."""
    mirror = getattr(arguments, "mirror", None)
    if arguments.order is not None and mirror is not None:
        raise RematError(
            "--mirror {mirror!p} defines an order; leave out {order!p}", mirror=mirror, order=arguments.order
        )
    order = read_order(arguments.order)
    graph, note = graph_of(arguments, order)
    if order is not None:
        return graph, simulated(graph, order), order, note
    return graph, None if mirror is None else _mirrored(graph, mirror), None, note


def one_pass(graph: ComputationGraph) -> Simulation:
    """Simulate the schedule of `baseline`; raise ScheduleError if it violates a mark of the graph."""
    from remat_algos.schedule.emission import baseline
    from remat_algos.schedule.simulation import simulate

    return simulate(graph, baseline(graph).schedule)


def simulated(graph: ComputationGraph, order: Order) -> Simulation:
    """Simulate an order; errors name its file."""
    from remat_algos.schedule.simulation import simulate

    schedule = order.schedule(graph)
    try:
        return simulate(graph, schedule)
    except ScheduleError as error:
        forward = graph.is_training and graph.forward[schedule.order].all()
        remedy = "; the order has no gradients (--inference adds none)" if forward else ""
        raise extended(error, "{source!p}: ", remedy, source=order.source) from error


def _mirrored(graph: ComputationGraph, file: str) -> Simulation:
    from remat_algos.formats.orders import read_mirror_counts
    from remat_algos.schedule.emission import mirror_schedule
    from remat_algos.schedule.simulation import simulate

    counts = read_mirror_counts(graph, file)
    try:
        with naming(Path(file).name):
            return simulate(graph, mirror_schedule(graph, counts))
    except ScheduleError as error:
        raise extended(error, "{file!p}: ", file=Path(file).name) from error


def check_apart(arguments: argparse.Namespace) -> None:
    """Raise an error if no format has the extension of the output, or an output file is also an input."""
    from remat_algos.formats.graph_files import files_written

    for file in () if arguments.output is None else files_written(arguments.output):
        check_overwrite(arguments, file)


def write_files(graph: ComputationGraph, output: str | None) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Write a graph if `output` is given; return the written files and the lost properties, as a record and as rows."""
    from remat_algos.formats.graph_files import files_written, left_out, write_graph

    if output is None:
        return {"written": [], "left_out": []}, []
    write_graph(graph, output)
    written, missing = [str(file) for file in files_written(output) if file.exists()], left_out(graph, output)
    rows = [("written", ", ".join(written))]
    if missing:
        rows.append(("left out", f"{', '.join(missing)}: the format cannot represent it"))
    return {"written": written, "left_out": missing}, rows
