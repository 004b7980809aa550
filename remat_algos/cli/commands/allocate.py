"""remat allocate: addresses for the buffers of a schedule."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import GradientOptions, add_graph, files_of, graph_of
from remat_algos.cli.output import add_json, print_json, print_table, print_text, progress_line, writable
from remat_algos.cli.packing_argument import add_alignment, add_pack, size
from remat_algos.cli.plot_argument import add_plot, check_plot, draw
from remat_algos.cli.search_argument import whole_number
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from remat_algos.allocate.allocation import Allocation
    from remat_algos.allocate.buffers import Buffers
    from remat_algos.schedule.simulation import Simulation

HELP = "assign an address in one arena to every value of a schedule, or to every buffer of a table"
METHODS = {
    "offsets": "arbitrary addresses, by greedy orders and an exact search",
    "sharing": "blocks that values use in turn (chen2016)",
    "colouring": "blocks from a colouring of the conflict graph",
    "separate": "no sharing",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What needs addresses, how they are found, where they go."""
    add_graph(parser, optional=True)
    parser.add_argument(
        "order",
        metavar="PLAN",
        nargs="?",
        help="a plan, or an order as for remat simulate (default: every node runs once)",
    )
    parser.add_argument("--buffers", metavar="FILE.csv", help="table of buffers instead of GRAPH: id,lower,upper,size")
    group = parser.add_argument_group("addresses")
    methods = "; ".join(f"{name}: {what}" for name, what in METHODS.items())
    group.add_argument("--method", choices=tuple(METHODS), default="offsets", help=methods)
    group.add_argument(
        "--match-range",
        type=whole_number,
        metavar="N",
        help="for sharing: reuse free blocks of up to N times the size (default: search for the best N)",
    )
    in_place = "let an operation overwrite an input at its last read, where it can"
    group.add_argument("--in-place", action="store_true", help=in_place)
    table = "table of further operations or values for --in-place: op,read or value,over"
    group.add_argument("--in-place-table", metavar="FILE.csv", help=table)
    add_alignment(group)
    capacity = "size of the arena, such as 1MiB; exit code 3 if the buffers do not fit"
    group.add_argument("--capacity", metavar="BYTES", type=size, help=capacity)
    add_pack(group)
    parser.add_argument("-o", "--output", metavar="OUT.csv", type=writable, help="write the buffers with their offsets")
    add_plot(parser, pictures=("addresses",))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Allocate, verify, print the result and write it; 3 if the arena is above a capacity, 130 if interrupted."""
    from remat_algos.context import SearchContext
    from remat_algos.formats.buffer_tables import read_buffers, write_allocation

    check_plot(arguments.plot, json=arguments.json)
    _check(arguments)
    simulation = None
    if arguments.buffers is None:
        simulation, note = _simulated(arguments)
        buffers = _buffers(arguments, simulation)
    else:
        buffers = read_buffers(arguments.buffers)
        note = f"{arguments.buffers}: {counted(len(buffers), 'buffer')}"
    if not arguments.json:
        print_text(note)
    context = SearchContext()
    allocation = _allocated(arguments, buffers)
    seconds = context.elapsed
    allocation.verify()
    if arguments.output:
        write_allocation(_alone(allocation), arguments.output)
    record = _record(arguments, allocation, simulation) | {"seconds": round(seconds, 6)}
    if arguments.json:
        print_json(record)
    else:
        written = [("written", arguments.output)] if arguments.output else []
        print_table(("", ""), [*_rows(record), *written], headed=False)
    draw(arguments.plot, "addresses", allocation, json=arguments.json, simulation=simulation)
    if allocation.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.INFEASIBLE if record["fits"] is False else ExitCode.DONE


# ---------------------------------------------------------------- arguments


def _check(arguments: argparse.Namespace) -> None:
    """What no argument shows alone; before the work."""
    if arguments.graph is None and arguments.buffers is None:
        raise argparse.ArgumentTypeError("there is nothing to allocate; give GRAPH, or --buffers FILE.csv")
    sources = [] if arguments.graph is None else files_of(arguments.graph, arguments.nodes)
    if arguments.buffers is not None:
        if arguments.graph is not None:
            message = (
                f"--buffers {arguments.buffers} stands instead of a graph; leave out {arguments.graph}, or --buffers"
            )
            raise argparse.ArgumentTypeError(message)
        _check_bare(arguments)
    if arguments.match_range is not None and arguments.method != "sharing":
        raise argparse.ArgumentTypeError(
            f"--match-range {arguments.match_range} goes with --method sharing; give that too"
        )
    sources += [
        Path(file) for file in (arguments.order, arguments.buffers, arguments.in_place_table) if file is not None
    ]
    if arguments.output and Path(arguments.output).resolve() in {file.resolve() for file in sources}:
        raise argparse.ArgumentTypeError(f"-o {arguments.output} would overwrite an input file; name another file")
    if arguments.output and arguments.plot and Path(arguments.output).resolve() == Path(arguments.plot).resolve():
        raise argparse.ArgumentTypeError(f"-o and --plot are both {arguments.plot}; name two files")


def _check_bare(arguments: argparse.Namespace) -> None:
    """Buffers have neither a graph nor operations."""
    of_graphs = {
        "--nodes": arguments.nodes is not None,
        "--inference": arguments.inference,
        "--factor": arguments.factor is not None,
        "--parameter-gradients": arguments.parameter_gradients,
        "--loss": arguments.loss is not None,
        "--encode": arguments.encode,
        "--element-bits": arguments.element_bits is not None,
        "--in-place": arguments.in_place,
        "--in-place-table": arguments.in_place_table is not None,
    }
    if given := [option for option, there in of_graphs.items() if there]:
        remedy = "leave it out" if len(given) == 1 else "leave them out"
        raise argparse.ArgumentTypeError(f"{', '.join(given)} describe a graph, and --buffers has none; {remedy}")


def _simulated(arguments: argparse.Namespace) -> tuple[Simulation, str]:
    """The simulated schedule, and a line about what was read."""
    from remat_algos.cli.order_argument import simulated_order
    from remat_algos.formats.orders import Order
    from remat_algos.schedule.baseline import baseline
    from remat_algos.schedule.simulation import simulate

    order = None if arguments.order is None else Order.read(arguments.order)
    graph, note = graph_of(arguments.graph, arguments.nodes, GradientOptions.of(arguments), order, json=arguments.json)
    if order is not None:
        return simulated_order(graph, order), note
    return simulate(graph, baseline(graph).schedule), note  # here marks count


def _buffers(arguments: argparse.Namespace, simulation: Simulation) -> Buffers:
    """The buffers of the schedule, perhaps in place; for a file or a picture named by values and their steps."""
    from dataclasses import replace

    from remat_algos.allocate.buffers import Buffers
    from remat_algos.allocate.in_place import find_overwrites
    from remat_algos.formats.in_place_tables import read_in_place

    over = None
    if arguments.in_place or arguments.in_place_table is not None:
        table = None if arguments.in_place_table is None else read_in_place(arguments.in_place_table)
        over = find_overwrites(simulation, table)
    found = Buffers.of(simulation, over)
    if not (arguments.output or arguments.plot):
        return found
    graph, order, value = simulation.graph, simulation.schedule.order.tolist(), simulation.lifetimes.value.tolist()
    nodes, values = graph.node_names(), graph.value_names()
    names = [
        f"{values[value[i]] if i >= 0 else f'workspace({nodes[order[step]]})'}@{step}"
        for i, step in zip(found.instance.tolist(), found.begin.tolist(), strict=True)
    ]
    return replace(found, names=tuple(names))


def _allocated(arguments: argparse.Namespace, buffers: Buffers) -> Allocation:
    """Addresses by the chosen method."""
    from remat_algos.allocate.colouring import colour
    from remat_algos.allocate.offsets import pack
    from remat_algos.allocate.sharing import separate_storage, share_storage
    from remat_algos.context import time_left

    alignment, left = arguments.alignment or 1, time_left(arguments.time_limit, arguments.started)
    if arguments.method == "offsets":
        limit = {} if left is None else {"time_limit": left}
        with progress_line() as progress:
            return pack(
                buffers,
                capacity=arguments.capacity,
                alignment=alignment,
                seed=arguments.seed,
                progress=progress,
                **limit,
            )
    if arguments.method == "sharing":
        return share_storage(buffers, arguments.match_range, alignment=alignment, time_limit=left)
    if arguments.method == "colouring":
        return colour(buffers, alignment=alignment, time_limit=left)
    return separate_storage(buffers, alignment=alignment)


def _alone(allocation: Allocation) -> Allocation:
    """The allocation for a table without in-place chains: an overwritten buffer ends where the next one begins."""
    from dataclasses import replace

    from remat_algos.allocate.buffers import Buffers

    buffers = allocation.buffers
    bare = Buffers(buffers.begin, buffers.release_step, buffers.size, buffers.instance, names=buffers.names)
    return replace(allocation, buffers=bare)


# ---------------------------------------------------------------- output


def _record(arguments: argparse.Namespace, allocation: Allocation, simulation: Simulation | None) -> dict[str, Any]:
    """The JSON record."""
    buffers, capacity = allocation.buffers, arguments.capacity
    record = {
        "peak": allocation.size,
        "max_live": buffers.max_live,
        "bound": allocation.bound,
        "proven": allocation.proven,
        "capacity": capacity,
        "fits": None if capacity is None else allocation.size <= capacity,
        "method": allocation.method,
        "alignment": allocation.alignment,
        "buffers": len(buffers),
        "interrupted": allocation.interrupted,
    }
    if simulation is None:
        return record
    return {
        "graph_hash": simulation.graph.source_hash,
        **record,
        "workspaces": int((buffers.instance < 0).sum()),
        "in_place": arguments.in_place or arguments.in_place_table is not None,
        "in_place_pairs": int((buffers.over >= 0).sum()),
        "judged_peak": simulation.peak_memory,
        "resident_memory": simulation.graph.resident_memory,
    }


def _rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and texts of the table."""
    from remat_algos.text.units import exact_bytes, format_bytes

    arena, most, bound = record["peak"], record["max_live"], record["bound"]
    over = record.get("in_place", False)
    ratio = f", {arena / most:.3f} of max live" if most else ""
    known = "the minimum" if record["proven"] else f"lower bound {format_bytes(bound)}"
    counts = "an overwritten input and its output count once" if over else "live bytes at the worst step"
    rows = [("arena", f"{exact_bytes(arena)}{ratio} ({known})"), ("max live", f"{exact_bytes(most)}: {counts}")]
    if "judged_peak" in record:
        counts = "an overwritten input and its output both count" if over else "the same"
        rows.append(("simulated", f"{exact_bytes(record['judged_peak'])}: {counts}"))
        if resident := record["resident_memory"]:
            rows.append(
                ("resident", f"{exact_bytes(resident)}; together with the arena {exact_bytes(arena + resident)}")
            )
    if (capacity := record["capacity"]) is not None:
        fits = "it fits" if record["fits"] else f"it does not fit{', and cannot' if bound > capacity else ''}"
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
