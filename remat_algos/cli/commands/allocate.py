"""remat allocate: addresses for the buffers of a schedule."""

from __future__ import annotations

import argparse
from typing import Any

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.arenas import SplitAllocation, pack_arenas
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.sharing import colour, separate_storage, share_storage
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, one_pass, order_of
from remat_algos.cli.output import draw, print_result, print_table, print_text
from remat_algos.cli.shared_options import SETS, add, add_plot, searching, used_options, whole_number
from remat_algos.context import Clock, Stop
from remat_algos.errors import CapacityError, RematError
from remat_algos.formats.buffer_tables import read_buffers, read_in_place, write_allocation
from remat_algos.result import Summary, entries
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.amounts import parse_bytes
from remat_algos.wording import MAX_LISTED, counted, exact_bytes, format_bytes

METHODS = {
    "offsets": "arbitrary addresses, found by greedy orders and an exact search (default)",
    "sharing": "blocks, each used by several values one after the other (chen2016)",
    "colouring": "blocks, assigned by colouring the conflict graph",
    "separate": "a block for each value",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, optional=True)
    parser.add_argument(
        "order",
        metavar="PLAN",
        nargs="?",
        help="a plan, or an order as for remat simulate (default: every node runs once)",
    )
    table = (
        "table of buffers instead of GRAPH: columns id,lower,upper,size; optional: offset and arena, to fix a buffer"
    )
    parser.add_argument("--buffers", metavar="FILE.csv", help=table)
    group = parser.add_argument_group("addresses")
    methods = "; ".join(f"{name}: {what}" for name, what in METHODS.items())
    group.add_argument("--method", choices=tuple(METHODS), default="offsets", help=methods)
    group.add_argument(
        "--match-range",
        type=whole_number,
        metavar="N",
        help="with --method sharing: reuse a free block of up to N times the size (default: search for the best N)",
    )
    in_place = "let an operation overwrite an input at its last read, if the operation supports it"
    group.add_argument("--in-place", action="store_true", help=in_place)
    table = "with --in-place: table of further operations or values, with columns op,read or value,over"
    group.add_argument("--in-place-table", metavar="FILE.csv", help=table)
    add(group, "alignment")
    capacity = (
        "size of an arena, such as 1MiB; repeat the option for several arenas; exit code 3 if the buffers do not fit"
    )
    group.add_argument("--capacity", metavar="BYTES", type=parse_bytes, action="append", help=capacity)
    limit = "stop SECONDS after the start, with the best addresses found until then (default: 5 for --method offsets)"
    add(group, "time_limit", "seed", time_limit=limit, seed="random seed of --method offsets (default: 0)")
    add(parser, output="write the buffers with their offsets, as CSV")
    add_plot(parser, "addresses")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Allocate, verify, print and write. Exit code 3: the allocation exceeds the capacity; 130: the user interrupts."""
    _check(arguments)
    simulation = None
    if arguments.buffers is None:
        graph, simulation, _, note = order_of(arguments)
        simulation = simulation or one_pass(graph)
        buffers = _buffers(arguments, simulation)
    else:
        buffers = read_buffers(arguments.buffers)
        note = f"{arguments.buffers}: {counted(len(buffers), 'buffer')}{_fixed(buffers)}"
    print_text(note)
    clock = Clock()
    try:
        allocation = _allocated(arguments, buffers)
    except CapacityError as error:
        forced_by = [buffers.name(i) for i in error.buffers]
        reason = {"reason": str(error), "proven": error.proven, "forced_by": forced_by}
        print_result(arguments, Summary({"capacity": arguments.capacity, "fits": False, **reason}))
        raise
    seconds = clock.elapsed
    allocation.verify()
    if arguments.output:
        write_allocation(allocation, arguments.output)
    record = _record(arguments, allocation, simulation) | {"seconds": round(seconds, 6)}
    written = [("written", arguments.output)] if arguments.output else []
    print_result(arguments, Summary(record, _rows(record)), *written)
    if "addresses" in record and len(buffers) <= MAX_LISTED:
        print_text()
        print_table(("buffer", "arena", "offset", "bytes"), (each.values() for each in record["addresses"]))
    draw(arguments, "addresses", allocation, simulation=simulation)
    if record["interrupted"]:
        return ExitCode.INTERRUPTED
    return ExitCode.INFEASIBLE if record["fits"] is False else ExitCode.DONE


def _check(arguments: argparse.Namespace) -> None:
    if arguments.graph is None and arguments.buffers is None:
        raise RematError("there is nothing to allocate; give GRAPH, or --buffers FILE.csv")
    if arguments.buffers is not None:
        if arguments.graph is not None:
            raise RematError(
                "--buffers {buffers!p} replaces the graph; leave out {graph!p} or --buffers",
                buffers=arguments.buffers,
                graph=arguments.graph,
            )
        of_graphs = ("nodes", *SETS["gradients"][1], "in_place", "in_place_table")
        if options := used_options(arguments, of_graphs):
            raise RematError("--buffers replaces the graph; leave out {options!l}", options=options)
    if arguments.match_range is not None and arguments.method != "sharing":
        raise RematError(
            "--match-range {match_range} needs --method sharing; add it", match_range=arguments.match_range
        )
    if len(arguments.capacity or ()) > 1 and arguments.method != "offsets":
        raise RematError(
            "--method {method} supports one arena; give one --capacity, or --method offsets", method=arguments.method
        )


def _buffers(arguments: argparse.Namespace, simulation: Simulation) -> Buffers:
    from dataclasses import replace

    over = None
    if arguments.in_place or arguments.in_place_table is not None:
        table = None if arguments.in_place_table is None else read_in_place(arguments.in_place_table)
        over = find_overwrites(simulation, table)
    buffers = Buffers.of(simulation, over)
    if not (arguments.output or arguments.plot):
        return buffers
    graph, order, value = simulation.graph, simulation.schedule.order.tolist(), simulation.lifetimes.value.tolist()
    nodes, values = graph.node_names(), graph.value_names()
    names = [
        f"{values[value[i]] if i >= 0 else f'workspace({nodes[order[step]]})'}@{step}"
        for i, step in zip(buffers.instance.tolist(), buffers.begin.tolist(), strict=True)
    ]
    return replace(buffers, names=tuple(names))


def _allocated(arguments: argparse.Namespace, buffers: Buffers) -> Allocation | SplitAllocation:
    capacities = arguments.capacity or [None]
    with searching(arguments) as search:
        if arguments.method == "offsets":
            if len(capacities) > 1:
                return pack_arenas(buffers, capacities, **search)
            return pack(buffers, capacity=capacities[0], **search)
        del search["seed"], search["progress"]
        if arguments.method == "sharing":
            return share_storage(buffers, arguments.match_range, **search)
        if arguments.method == "colouring":
            return colour(buffers, **search)
        return separate_storage(buffers, alignment=arguments.alignment)


def _fixed(buffers: Buffers) -> str:
    offsets, arenas = int((buffers.offset >= 0).sum()), int(((buffers.arena >= 0) & (buffers.offset < 0)).sum())
    if offsets and offsets == len(buffers):
        column = "columns offset and arena" if (buffers.arena >= 0).any() else "column offset"
        return f", all at fixed offsets (remove the {column} to pack them again)"
    texts = [f", {offsets:,} at fixed offsets" if offsets else "", f", {arenas:,} in fixed arenas" if arenas else ""]
    return "".join(texts)


def _record(
    arguments: argparse.Namespace, allocation: Allocation | SplitAllocation, simulation: Simulation | None
) -> dict[str, Any]:
    buffers = allocation.buffers
    if isinstance(allocation, SplitAllocation):
        figures = _arenas_record(allocation)
    else:
        figures = _arena_record(allocation, (arguments.capacity or [None])[0])
    record = {
        **figures,
        **entries(allocation, "method alignment"),
        "buffers": len(buffers),
        "fixed": int((buffers.offset >= 0).sum()),
    }
    if simulation is None:
        return record
    return {
        "graph_hash": simulation.graph.source_hash,
        **record,
        "workspaces": int((buffers.instance < 0).sum()),
        "in_place": arguments.in_place or arguments.in_place_table is not None,
        "in_place_pairs": int((buffers.over >= 0).sum()),
        **entries(simulation, "judged_peak=peak_memory graph.resident_memory"),
    }


def _arena_record(allocation: Allocation, capacity: int | None) -> dict[str, Any]:
    return {
        **entries(allocation, "peak=size buffers.max_live bound proven"),
        "capacity": capacity,
        "fits": None if capacity is None else allocation.size <= capacity,
        "interrupted": allocation.stop is Stop.INTERRUPTED,
    }


def _arenas_record(split: SplitAllocation) -> dict[str, Any]:
    arenas = [
        {"capacity": capacity, "peak": part.size, "max_live": part.buffers.max_live, "buffers": len(part.buffers)}
        for part, capacity in zip(split.parts, split.capacities, strict=True)
    ]
    places = zip(split.arena.tolist(), split.offset.tolist(), split.buffers.size.tolist(), strict=True)
    return {
        "peak": sum(split.sizes),
        "max_live": split.buffers.max_live,
        "capacity": list(split.capacities),
        # A result that does not fit is an error.
        "fits": True,
        "interrupted": False,
        "arenas": arenas,
        "addresses": [
            {"id": split.buffers.name(i), "arena": arena, "offset": offset, "size": size}
            for i, (arena, offset, size) in enumerate(places)
        ],
    }


def _rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    peak, most = record["peak"], record["max_live"]
    over, several = record.get("in_place", False), "arenas" in record
    rows = []
    for i, arena in enumerate(record.get("arenas", ())):
        used = (
            f"{exact_bytes(arena['peak'])} of {format_bytes(arena['capacity'])}, {counted(arena['buffers'], 'buffer')}"
        )
        rows.append((f"arena {i}", f"{used}, max live {format_bytes(arena['max_live'])}"))
    if not several:
        ratio = f", {peak / most:.3f} of max live" if most else ""
        optimality = "the minimum" if record["proven"] else f"lower bound {format_bytes(record['bound'])}"
        rows.append(("arena", f"{exact_bytes(peak)}{ratio} ({optimality})"))
    counts = "an overwritten input and its output count once" if over else "live bytes at the worst step"
    rows.append(("max live", f"{exact_bytes(most)}: {counts}"))
    if "judged_peak" in record:
        counts = "an overwritten input and its output both count" if over else "the same"
        rows.append(("simulated", f"{exact_bytes(record['judged_peak'])}: {counts}"))
        if resident := record["resident_memory"]:
            together = f"together with the {'arenas' if several else 'arena'} {exact_bytes(peak + resident)}"
            rows.append(("resident", f"{exact_bytes(resident)}; {together}"))
    if (capacity := record["capacity"]) is not None and not several:
        fits = "it fits" if record["fits"] else f"it does not fit{', and cannot' if record['bound'] > capacity else ''}"
        rows.append(("capacity", f"{exact_bytes(capacity)}: {fits}"))
    aligned = f"; addresses are multiples of {record['alignment']}" if record["alignment"] > 1 else ""
    rows.append(("method", f"{record['method']}{aligned}"))
    workspaces = f", {counted(record['workspaces'], 'workspace')} among them" if "workspaces" in record else ""
    rows.append(("buffers", f"{record['buffers']:,}{workspaces}"))
    if over:
        rows.append(("in place", counted(record["in_place_pairs"], "pair")))
    if record["interrupted"]:
        rows.append(("stopped", "interrupted; this is the best allocation found so far"))
    return [*rows, ("seconds", f"{record['seconds']:.2f}")]
