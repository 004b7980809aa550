"""remat simulate: simulate any order."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from remat_algos.cli.allocator_argument import add_allocator
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_graph, graph_of
from remat_algos.cli.link_argument import TIMELINE, add_link, check_timeline, link_of
from remat_algos.cli.order_argument import add_order, check_order, simulated_mirror_counts, simulated_order
from remat_algos.cli.output import add_json, print_json, print_picture, print_table, print_text
from remat_algos.cli.plot_argument import PICTURES, TEXT, add_plot, check_plot, draw
from remat_algos.cli.steps_argument import add_steps, steps_of
from remat_algos.text.wording import counted, listed, quoted, shortened

HELP = "simulate an order, or a choice of nodes to keep: the peak, its step, the values live there, the cost"
LISTED = 12
TABLES = ("text", "markdown", "csv")
NAMED = 8  # live values of a row of text
MAX_STEPS = 10_000  # of a table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph, the order or mirror counts, manual decisions."""
    add_graph(parser)
    add_order(parser)
    group = parser.add_argument_group("what if (other nodes: as in ORDER or --mirror if given, else the opposite)")
    group.add_argument("--keep", metavar="NAME,...", action="append", default=[], help="nodes to keep; they run once")
    group.add_argument("--recompute", metavar="NAME,...", action="append", default=[], help="nodes to recompute")
    parser.add_argument("--step", type=int, metavar="STEP", help="describe this step instead of the step of the peak")
    table = "print a table of all actions instead of the summary: markdown and csv name all live values, text"
    parser.add_argument(
        "--table", nargs="?", const=TABLES[0], type=_form, metavar="FORM", help=f"{table}, the default, {NAMED} a row"
    )
    add_steps(parser, "with --table:")
    matrices = (
        "print the matrices R and S (jain2020) instead: the nodes that each stage computes, and those that it keeps"
    )
    parser.add_argument("--matrix", nargs="?", const="text", choices=("text", "csv"), help=f"{matrices} (text)")
    parser.add_argument("--budget", metavar="SIZE", help="bytes, 4GiB or 50%%; exit code 3 if the peak is above it")
    add_allocator(
        parser,
        "print the memory that an allocator (below) uses and reserves; --budget limits the latter (default: peak)",
    )
    add_link(parser, "the time of ORDER over this link, if it loads values (default: that of the plan): ")
    add_plot(parser, (*PICTURES, TIMELINE))
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Simulate; 3 if the peak is above a given budget, or bytes on the host above a given limit."""
    from remat_algos.allocate.allocators.registry import get_allocator
    from remat_algos.cli.budget_argument import memory_limit
    from remat_algos.formats.orders import Order
    from remat_algos.questions.what_if import what_if
    from remat_algos.schedule.baseline import baseline
    from remat_algos.schedule.simulation import simulate
    from remat_algos.schedule.timeline import timeline

    check_plot(arguments)
    _check_table(arguments)
    check_order(arguments.order, arguments.mirror)
    order = None if arguments.order is None else Order.read(arguments.order)
    graph, note = graph_of(arguments, order)
    simulation = base = baseline(graph)
    if order is not None:
        simulation = simulated_order(graph, order)
    elif arguments.mirror is not None:
        simulation = simulated_mirror_counts(graph, arguments.mirror)
    given_order = order is not None or arguments.mirror is not None
    keep, recompute = (_names(graph, option, getattr(arguments, option)) for option in ("keep", "recompute"))
    if keep or recompute:
        start = simulation.schedule if given_order else None
        simulation = simulate(graph, what_if(graph, keep=keep, recompute=recompute, schedule=start))
    elif not given_order:
        simulation = simulate(graph, base.schedule)  # here marks count
    step = simulation.peak_step if arguments.step is None else arguments.step
    if arguments.step is not None and not 0 <= step < len(simulation.schedule):
        raise argparse.ArgumentTypeError(f"--step {shortened(step)}: steps are 0 to {len(simulation.schedule) - 1}")
    link = link_of(arguments, None if order is None else order.link)
    check_timeline(arguments.picture, link)
    of_plan = arguments.link is None or arguments.link_share is not None
    played = None if link is None else timeline(simulation, link.planned if of_plan else link)
    allocator = get_allocator(arguments.allocator)
    whole = allocator.base(graph)
    limit = memory_limit(arguments.budget, whole, graph.resident_memory)
    reserved = allocator.reserve(simulation)
    steps, beside, form = steps_of(arguments, simulation.schedule), None, arguments.table or arguments.matrix
    if form is not None:
        beside = None if form == "text" else sys.stderr
        if arguments.table is not None:
            _check_length(simulation, steps)
        print_text(note, file=beside)
        rows = reserved.rows(whole) + _budget_row(limit, reserved)
        if rows:
            print_table(("", ""), [_peak_row(simulation), *rows], headed=False, file=beside)
        if arguments.table is not None:
            _print_table(simulation, form, steps)
        else:
            _print_matrices(simulation, form)
    elif arguments.json:
        print_json(_record(simulation, step, base.peak_memory, limit, reserved) | _copies(simulation, played, link))
    else:
        print_text(note)
        _print(simulation, step, base.peak_memory, limit, reserved, whole, played, link)
    picture = arguments.picture or "memory"
    options: dict[str, Any] = {"limit": limit} if picture in ("memory", TIMELINE) else {}
    draw(arguments, picture, played if picture == TIMELINE else simulation, out=beside, **options)
    over = limit is not None and reserved.memory > limit
    over |= link is not None and link.host is not None and simulation.host_peak > link.host
    return ExitCode.INFEASIBLE if over else ExitCode.DONE


def _form(text: str) -> str:
    """A form of the table."""
    if text in TABLES:
        return text
    forms = f"the forms are {', '.join(TABLES[:-1])} and {TABLES[-1]}"
    raise argparse.ArgumentTypeError(
        f"{quoted(text)}: {forms}; after a bare --table give no file, or write --table=text"
    )


def _check_table(arguments: argparse.Namespace) -> None:
    """Check that --table or --matrix comes without --step, --json and a second text on standard output."""
    if arguments.steps is not None and arguments.table is None:
        raise argparse.ArgumentTypeError("--steps goes with --table; --step STEP describes one step")
    if arguments.table is not None and arguments.matrix is not None:
        raise argparse.ArgumentTypeError("--table and --matrix both use standard output; leave out one")
    for option in ("table", "matrix"):
        form = getattr(arguments, option)
        if form is None:
            continue
        if arguments.step is not None:
            raise argparse.ArgumentTypeError(f"--step describes one step, --{option} lists all; leave out one")
        if arguments.json:
            raise argparse.ArgumentTypeError(f"--json prints an object, --{option} a table; leave out one")
        if form != "text" and arguments.plot == TEXT:
            both = f"--{option} {shortened(form)} and --plot - both use standard output"
            raise argparse.ArgumentTypeError(f"{both}; name a file for the picture")


def _check_length(simulation: Any, steps: range | None) -> None:
    """Check that a table is not too long to be of use."""
    count = len(simulation.schedule) if steps is None else len(steps)
    if count > MAX_STEPS:
        raise argparse.ArgumentTypeError(
            f"--table lists {MAX_STEPS:,} steps at most, and these are {count:,}; choose some: --steps 0:{MAX_STEPS}"
        )


def _print_table(simulation: Any, form: str, steps: range | None) -> None:
    """Print a row for each action, as text, Markdown or CSV; the latter two row by row."""
    from remat_algos.formats.csv_tables import write_table
    from remat_algos.schedule.step_rows import COLUMNS, step_table
    from remat_algos.text.markdown import code, markdown_table
    from remat_algos.text.units import format_bytes

    rows = step_table(simulation, steps=steps, names=NAMED if form == "text" else None)
    if form == "csv":
        cells = ((row.step, row.action, row.name, _words(row.live), row.bytes, int(row.peak)) for row in rows)
        write_table(sys.stdout, COLUMNS, cells)
    elif form == "markdown":
        marked = (
            (
                *(str(row.step), row.action, code(row.name), ", ".join(map(code, row.live))),
                *(format_bytes(row.bytes), "peak" * row.peak),
            )
            for row in rows
        )
        for line in markdown_table(COLUMNS, marked, [name in ("step", "bytes") for name in COLUMNS]):
            print(line)
    else:
        shown = [
            (
                *(str(row.step), row.action, shortened(row.name), listed(row.live, total=row.n_live)),
                *(format_bytes(row.bytes), "peak" * row.peak),
            )
            for row in rows
        ]
        print_table(COLUMNS, shown)


def _print_matrices(simulation: Any, form: str) -> None:
    """Print R and S as a picture in text, or as CSV: a row for each entry that is 1 in one of them."""
    from remat_algos.formats.csv_tables import write_table
    from remat_algos.plot.characters import text
    from remat_algos.schedule.matrix_stages import stage_matrices

    if form == "text":
        print_picture(text("matrix", simulation))
        return
    found, labels = stage_matrices(simulation), simulation.graph.labels
    names = [labels[v] for v in found.nodes.tolist()]
    entries = zip(*(found.R | found.S).nonzero(), strict=True)
    cells = ((int(t), names[i], int(found.R[t, i]), int(found.S[t, i])) for t, i in entries)
    write_table(sys.stdout, ("stage", "node", "R", "S"), cells)


def _words(names: Sequence[str]) -> str:
    """Names between blanks; in a name a backslash stands before a blank and a backslash."""
    return " ".join(name.replace("\\", r"\\").replace(" ", r"\ ") for name in names)


def _names(graph: Any, option: str, texts: Sequence[str]) -> list[str]:
    """Names between commas; a name with a comma must be given alone."""
    found = []
    for words in texts:
        names = [words] if _known(graph, words) else [name.strip() for name in words.split(",") if name.strip()]
        if not names:
            raise argparse.ArgumentTypeError(
                f"--{shortened(option)} {quoted(words)} names no node; give names, or leave it out"
            )
        found += names
    return found


def _known(graph: Any, name: str) -> bool:
    from remat_algos.errors import GraphError

    try:
        graph.value_id(name)
    except GraphError:
        return False
    return True


def _live(simulation: Any, step: int) -> list[dict[str, Any]]:
    from remat_algos.schedule.live_set import live_set

    return [
        {"value": live.name, "memory": live.memory, "role": live.role, "made_at": live.made_at}
        for live in live_set(simulation, step)
    ]


def _record(simulation: Any, step: int, base: int, limit: int | None, reserved: Any) -> dict[str, Any]:
    graph, names = simulation.graph, simulation.schedule.names(simulation.graph)
    return {
        "graph_hash": graph.source_hash,
        "steps": len(simulation.schedule),
        "peak_memory": simulation.peak_memory,
        "peak_step": simulation.peak_step,
        "peak_node": names[simulation.peak_step] if names else None,
        "peak_without_rematerialization": base,
        "resident_memory": graph.resident_memory,
        "limit": limit,
        **reserved.record(),
        "compute": simulation.compute,
        "overhead": simulation.overhead,
        "compute_unit": graph.labels.compute_unit,
        "compute_scale": graph.labels.compute_scale,
        "nodes_run_again": int((simulation.runs > 1).sum()),
        "step": step,
        "breakdown": simulation.breakdown(step),
        "live": _live(simulation, step),
        "memory_trace": simulation.memory_trace.tolist(),
    }


def _copies(simulation: Any, played: Any, link: Any) -> dict[str, Any]:
    """Keys of a plan with a link, or of actions with loads."""
    if played is None:
        return {"host_peak": simulation.host_peak} if simulation.stores.size else {}
    return {
        "time": played.time,
        "overhead_in_time": played.overhead,
        "waits": played.waiting,
        "host_peak": simulation.host_peak,
        "link": link.record(),
        "share": played.link.out / link.out,
    }


def _fit(limit: int, reserved: Any) -> str:
    """The line about the budget: kept or not."""
    if reserved.memory <= limit:
        return "it fits"
    return "whether it fits depends on ties" if reserved.least <= limit else "it does not fit"


def _late_frees(simulation: Any) -> str:
    """How many values are freed late, and the peak without that."""
    from remat_algos.schedule.simulation import simulate
    from remat_algos.text.units import format_bytes

    rows, order = simulation.schedule.lingering, simulation.schedule.order
    peak = format_bytes(simulate(simulation.graph, order).peak_memory)
    return f"{counted(len(rows), 'value')} freed later than after the last read, which would give a peak of {peak}"


def _peak_row(simulation: Any) -> tuple[str, str]:
    from remat_algos.text.units import exact_bytes

    step, order = simulation.peak_step, simulation.schedule.order
    at = f" at step {step}, {shortened(simulation.graph.labels[int(order[step])])}" if order.size else ""
    return "peak", f"{exact_bytes(simulation.peak_memory)}{at}"


def _budget_row(limit: int | None, reserved: Any) -> list[tuple[str, str]]:
    from remat_algos.text.units import exact_bytes

    return [] if limit is None else [("budget", f"{exact_bytes(limit)}: {_fit(limit, reserved)}")]


def _print(
    simulation: Any, step: int, base: int, limit: int | None, reserved: Any, whole: int, played: Any, link: Any
) -> None:
    from remat_algos.plan.plan import time_rows
    from remat_algos.text.units import exact_bytes, format_bytes, percent

    graph, peak = simulation.graph, simulation.peak_memory
    names = simulation.schedule.names(graph)
    share = f"{percent(peak, base)} of the peak without rematerialization"
    rows = [_peak_row(simulation), ("share", share), *reserved.rows(whole), *_budget_row(limit, reserved)]
    if graph.resident_memory:
        together = exact_bytes(peak + graph.resident_memory)
        rows.append(("resident", f"{exact_bytes(graph.resident_memory)}; with the peak {together}"))
    overhead = percent(simulation.overhead, graph.needed_compute)
    rows.append(("compute", f"{graph.labels.compute(simulation.compute)}, {overhead} more than one pass"))
    if played is not None:
        rows += time_rows(played, link)
        if (host := played.link.host) is not None:
            fits = "it fits" if simulation.host_peak <= host else "it does not fit"
            rows.append(("host", f"{exact_bytes(simulation.host_peak)} of {exact_bytes(host)}: {fits}"))
    elif simulation.stores.size:
        loads = counted(len(simulation.schedule.loads), "load")
        rows.append(("copies", f"{loads}; {format_bytes(simulation.host_peak)} on the host at most"))
    if simulation.schedule.lingering.size and played is None and not simulation.stores.size:
        rows.append(("late frees", _late_frees(simulation)))
    again = counted(int((simulation.runs > 1).sum()), "node")
    extra = int((~simulation.schedule.first_run).sum())
    more = f" ({counted(extra, 'extra run')})" if extra else ""
    rows.append(("schedule", f"{counted(len(names), 'step')}; {again} recomputed{more}"))
    roles = {role: size for role, size in simulation.breakdown(step).items() if size}
    breakdown = ", ".join(f"{role} {format_bytes(size)}" for role, size in roles.items())
    if names:
        total = format_bytes(int(simulation.memory_trace[step]))
        rows.append((f"at step {step}", f"{shortened(names[step])} runs, {total} live: {breakdown or 'nothing'}"))
    print_table(("", ""), rows, headed=False)
    live = [entry for entry in _live(simulation, step) if entry["memory"]]
    if live:
        shown = [
            (shortened(e["value"]), format_bytes(e["memory"]), e["role"], str(e["made_at"])) for e in live[:LISTED]
        ]
        print_table(("live", "bytes", "role", "since step"), shown)
    if len(live) > LISTED:
        print_text(f"... {len(live) - LISTED} more, {format_bytes(sum(e['memory'] for e in live[LISTED:]))}")
