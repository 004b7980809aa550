"""remat show: describe a graph."""

import argparse
from typing import Any

from remat_algos.allocate.allocators import get_allocator
from remat_algos.bounds.memory import least_peak_bound, two_path_bound
from remat_algos.cli.graph_argument import add_graph, as_planned, graph_of, order_of
from remat_algos.cli.output import draw, print_result, print_text
from remat_algos.cli.shared_options import PEAK, add, add_plot, refuse_used
from remat_algos.errors import RematError
from remat_algos.formats.graph_files import network_of
from remat_algos.ir.parts import ROLES
from remat_algos.questions.breakdown import breakdown
from remat_algos.result import UNIT, Summary, entries
from remat_algos.schedule.emission import baseline
from remat_algos.structure.cuts import ForwardPart
from remat_algos.wording import counted, format_bytes, listed, shortened

NAMED = 8
BY = ("layer", "operation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    group = parser.add_argument_group("breakdown of memory and compute")
    parts = "print compute, and memory at the peak, by type of layer and by data structure; --plot draws it"
    group.add_argument("--breakdown", action="store_true", help=parts)
    group.add_argument(
        "--by", choices=BY, help=f"with --breakdown: group by type of layer or of operation (default: {BY[0]})"
    )
    plan = "with --breakdown: a plan or an order (default: without rematerialization)"
    group.add_argument("--plan", dest="order", metavar="ORDER", help=plan)
    add(
        parser,
        allocator="print the memory that this allocator (listed below) uses and reserves without rematerialization "
        "(default: peak)",
    )
    add_plot(parser, "graph", "memory", "breakdown")


def run(arguments: argparse.Namespace) -> None:
    """Describe the graph, or print the breakdown of its memory and compute."""
    if not arguments.breakdown:
        refuse_used(arguments, ("by", "order"), "{option!w} needs --breakdown; add it")
    if arguments.allocator != PEAK and arguments.breakdown:
        raise RematError(
            "--allocator {allocator} cannot be combined with --breakdown; leave out one of them",
            allocator=arguments.allocator,
        )
    if arguments.breakdown:
        return _break_down(arguments, arguments.picture or "breakdown")
    network = network_of(arguments.graph, arguments.nodes)
    graph, note = graph_of(arguments) if network is None else as_planned(network.graph, arguments)
    record, narrow, forcing = _record(graph)
    reserved = get_allocator(arguments.allocator).reserve(baseline(graph))
    record |= reserved.record()
    if network is not None:
        record["model"] = {"parameters": network.n_parameters, "macs": network.macs, "flops": network.flops}
    names = {
        "articulation_values": [graph.value_name(x) for x in narrow],
        "least_peak_nodes": [graph.labels[v] for v in forcing],
    }
    rows = [*_rows(record, graph, narrow, forcing), *reserved.rows()]
    print_text(note)
    print_result(arguments, Summary(record, rows), **names)
    picture = arguments.picture or "graph"
    draw(arguments, picture, graph if picture == "graph" else baseline(graph))


def _break_down(arguments: argparse.Namespace, picture: str) -> None:
    graph, simulation, order, note = order_of(arguments)
    simulation = simulation or baseline(graph)
    parts = breakdown(simulation, by=arguments.by or BY[0])
    step = parts.peak_step
    node = graph.labels[int(simulation.schedule.order[step])] if step >= 0 else None
    whole, peak, resident = map(format_bytes, (parts.footprint, parts.peak_memory, parts.resident_memory))
    print_text(
        f"{note}\nfootprint {whole}: peak {peak}{'' if order else ' without rematerialization'}, residents {resident}"
    )
    print_result(arguments, parts, graph_hash=graph.source_hash, peak_node=node)
    subjects = {"breakdown": parts, "graph": graph, "memory": simulation}
    draw(arguments, picture, subjects[picture])


def _record(graph: Any) -> tuple[dict[str, Any], list[int], list[int]]:
    """Return the JSON record (no long lists), articulation values, and the nodes that prove the bound on the peak."""
    simulation = baseline(graph)
    bound, forcing = least_peak_bound(graph)
    step, resident = simulation.peak_step, graph.resident
    narrow = sorted(set(ForwardPart.of(graph).alone.tolist()) - {-1})
    record = {
        "graph_hash": graph.source_hash,
        "nodes": graph.n_nodes,
        "forward_nodes": int(graph.forward.sum()),
        "backward_nodes": int((~graph.forward).sum()),
        "needed_nodes": int(graph.needed.sum()),
        "once_nodes": int(graph.once.sum()),
        "reads": int(graph.read_indices.size),
        "values": graph.n_values,
        "outputs": int(graph.output.sum()),
        "effects": int((graph.output & (graph.memory == 0)).sum()),
        "value_memory": int(graph.memory.sum()),
        "resident_memory": graph.resident_memory,
        "residents": {
            role: int(resident.memory[resident.role == i].sum()) for i, role in enumerate(ROLES) if resident is not None
        },
        "compute": graph.needed_compute,
        **entries(simulation, f"{UNIT} graph.depth"),
        "peak_without_rematerialization": simulation.peak_memory,
        "peak_step": step,
        "peak_node": graph.labels[int(simulation.schedule.order[step])] if step >= 0 else None,
        "least_peak_bound": bound,
    }
    return record, narrow, forcing


def _rows(record: dict[str, Any], graph: Any, narrow: list[int], forcing: list[int]) -> list[tuple[str, str]]:
    residents = ", ".join(f"{role} {format_bytes(size)}" for role, size in record["residents"].items() if size)
    alone = listed([graph.value_name(x) for x in narrow[:NAMED]], NAMED, len(narrow))
    forced_by = listed([graph.labels[v] for v in forcing[:NAMED]], NAMED, len(forcing))
    if not forcing:
        forced_by = "the last node that computes a result"
    elif forcing == two_path_bound(graph)[1]:
        forced_by = " or ".join(graph.labels[v] for v in forcing)
    effects = record["effects"]
    outputs = counted(record["outputs"] - effects, "output")
    outputs += f", {counted(effects, 'effect')} of 0 bytes" if effects else ""
    model = record.get("model")
    rows = [("model", f"{model['parameters']:,} parameters, {model['macs']:,} multiply-adds forward")] if model else []
    rows += [
        ("nodes", f"{record['nodes']:,}: {record['forward_nodes']:,} forward, {record['backward_nodes']:,} backward"),
        ("needed", f"{counted(record['needed_nodes'], 'node')}; {record['once_nodes']:,} must run only once"),
        ("values", f"{record['values']:,}, {counted(record['reads'], 'read')}, {outputs}"),
        ("bytes", f"{format_bytes(record['value_memory'])} in values"),
        ("resident", f"{format_bytes(record['resident_memory'])}" + (f": {residents}" if residents else "")),
        ("compute", f"{graph.labels.compute(record['compute'])} in one pass"),
        ("depth", f"{counted(record['depth'], 'node')} on the longest path"),
        (
            "articulation",
            f"{counted(len(narrow), 'value')}: {alone}" if narrow else "no value is the only live one at a cut",
        ),
    ]
    if record["peak_node"] is not None:
        peak = format_bytes(record["peak_without_rematerialization"])
        if record["resident_memory"]:
            together = record["peak_without_rematerialization"] + record["resident_memory"]
            peak += f" (with residents {format_bytes(together)})"
        rows.append(
            (
                "peak",
                f"{peak} without rematerialization, at step {record['peak_step']}, {shortened(record['peak_node'])}",
            )
        )
        rows.append(("lower bound", f"{format_bytes(record['least_peak_bound'])}: {forced_by}"))
    return rows
