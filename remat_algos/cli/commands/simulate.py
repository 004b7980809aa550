"""remat simulate: simulate an order or manual decisions."""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from remat_algos.allocate.allocators import get_allocator
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import add_graph, one_pass, order_of
from remat_algos.cli.output import draw, print_picture, print_result, print_table, print_text
from remat_algos.cli.shared_options import (
    LINKS,
    PICTURES,
    TIMELINE,
    add,
    add_plot,
    limit,
    link_of,
    steps_of,
    whole_number,
)
from remat_algos.errors import GraphError, RematError
from remat_algos.formats.csv_tables import write_table
from remat_algos.questions.what_if import what_if
from remat_algos.result import UNIT, Summary, entries
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import Timeline, timeline
from remat_algos.schedule.views import COLUMNS, live_set, stage_matrices, step_table
from remat_algos.text.amounts import percent
from remat_algos.text.markdown import code, markdown_table
from remat_algos.wording import comma_separated, counted, exact_bytes, format_bytes, listed, shortened

LISTED = 12
TABLES = ("text", "markdown", "csv")
NAMED = 8  # live values per row
MAX_PRINTED_STEPS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add(parser, "order", "mirror")
    group = parser.add_argument_group("what if (other nodes follow ORDER or --mirror, or get the opposite decision)")
    group.add_argument("--keep", metavar="NAME,...", action="append", default=[], help="nodes to keep: they run once")
    group.add_argument("--recompute", metavar="NAME,...", action="append", default=[], help="nodes to recompute")
    step = "describe this step instead of the step of the peak"
    parser.add_argument("--step", type=whole_number, metavar="STEP", help=step)
    table = "print a table of all actions instead of the summary; a row of markdown or csv lists all live values"
    parser.add_argument(
        "--table",
        nargs="?",
        const=TABLES[0],
        type=_form,
        metavar="FORM",
        help=f"{table}, a row of text (default) at most {NAMED}",
    )
    add(parser, steps="with --table: only steps A to B - 1 (default: all)")
    matrices = (
        "print the matrices R and S (jain2020) instead: the nodes that each stage computes, and the nodes that it keeps"
    )
    parser.add_argument(
        "--matrix", nargs="?", const="text", choices=("text", "csv"), help=f"{matrices} (default: text)"
    )
    budget = "limit of the peak: bytes, 4GiB or 50%%; exit code 3 if the peak exceeds it"
    parser.add_argument("--budget", metavar="SIZE", type=limit, help=budget)
    allocator = (
        "print the memory that this allocator (listed below) uses and reserves; --budget limits the reserved memory "
        "(default: peak)"
    )
    timed = f"compute times with copies over this link, if ORDER loads values (default: the plan's link): {LINKS}"
    add(parser, "allocator", "copies", allocator=allocator, link=timed)
    add_plot(parser, *PICTURES, TIMELINE)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Simulate. Exit code 3: the peak exceeds the budget, or the bytes on the host exceed their limit."""
    _check_table(arguments)
    form = arguments.table or arguments.matrix
    graph, simulation, order, note = order_of(arguments)
    base = baseline(graph)
    keep, recompute = (_names(graph, option, getattr(arguments, option)) for option in ("keep", "recompute"))
    if keep or recompute:
        start = None if simulation is None else simulation.schedule
        simulation = simulate(graph, what_if(graph, keep=keep, recompute=recompute, schedule=start))
    elif simulation is None:
        simulation = one_pass(graph)
    step = simulation.peak_step if arguments.step is None else arguments.step
    if arguments.step is not None and not 0 <= step < len(simulation.schedule):
        raise RematError("--step {step}: steps are 0 to {last}", step=step, last=len(simulation.schedule) - 1)
    link = link_of(arguments, None if order is None else order.link)
    of_plan = arguments.link is None or arguments.link_share is not None
    timed = None if link is None else timeline(simulation, link, link.share if of_plan else 1.0)
    allocator = get_allocator(arguments.allocator)
    whole = allocator.base(graph)
    budget = arguments.budget
    limit = None if budget is None else budget.memory_limit(whole, graph.resident_memory)
    reserved = allocator.reserve(simulation)
    steps = steps_of(arguments, len(simulation.schedule))
    if form is not None:
        if arguments.table is not None:
            _check_length(simulation, steps)
        print_text(note)
        rows = reserved.rows(whole) + _budget_row(limit, reserved)
        if rows:
            print_result(arguments, Summary({}, [_peak_row(simulation), *rows]))
        with contextlib.redirect_stdout(arguments.stdout):
            if arguments.table is not None:
                _print_table(simulation, form, steps)
            else:
                _print_matrices(simulation, form)
    else:
        record = _record(simulation, step, base.peak_memory, limit, reserved) | _copies(simulation, timed)
        rows = _rows(simulation, step, base.peak_memory, limit, reserved, whole, timed)
        print_text(note)
        print_result(arguments, Summary(record, rows))
        _print_live(simulation, step)
    picture = arguments.picture or "memory"
    options: dict[str, Any] = {"limit": limit} if picture in ("memory", TIMELINE) else {}
    draw(arguments, picture, timed if picture == TIMELINE else simulation, **options)
    over = limit is not None and reserved.memory > limit
    over |= link is not None and link.host is not None and simulation.host_peak > link.host
    return ExitCode.INFEASIBLE if over else ExitCode.DONE


def _form(text: str) -> str:
    if text in TABLES:
        return text
    raise RematError(
        "{text!r} is not a form of table: {forms!l}; if it is a file, write --table=text before it",
        text=text,
        forms=TABLES,
    )


def _check_table(arguments: argparse.Namespace) -> None:
    if arguments.steps is not None and arguments.table is None:
        raise RematError("--steps needs --table; --step STEP describes one step")
    for one, other in (("table", "matrix"), *((a, b) for a in ("table", "matrix") for b in ("step", "json"))):
        if all(getattr(arguments, name) not in (None, False) for name in (one, other)):
            raise RematError("--{one!w} and --{other!w} cannot be combined; leave out one", one=one, other=other)


def _check_length(simulation: Any, steps: range | None) -> None:
    count = len(simulation.schedule) if steps is None else len(steps)
    if count > MAX_PRINTED_STEPS:
        raise RematError(
            "--table lists at most {max_steps:,} steps, but there are {count:,}; choose some: --steps 0:{max_steps}",
            max_steps=MAX_PRINTED_STEPS,
            count=count,
        )


def _print_table(simulation: Any, form: str, steps: range | None) -> None:
    rows = step_table(simulation, steps=steps, names=NAMED if form == "text" else None)
    if form == "csv":
        cells = ((row.step, row.action, row.name, _words(row.live), row.bytes, int(row.peak)) for row in rows)
        write_table(sys.stdout, COLUMNS, cells)
        return
    named = (
        (row, shortened(row.name), listed(row.live, total=row.n_live))
        if form == "text"
        else (row, code(row.name), ", ".join(map(code, row.live)))
        for row in rows
    )
    shown = (
        (str(row.step), row.action, name, live, format_bytes(row.bytes), "peak" * row.peak) for row, name, live in named
    )
    if form == "text":
        print_table(COLUMNS, shown)
        return
    for line in markdown_table(COLUMNS, shown, [name in ("step", "bytes") for name in COLUMNS]):
        print(line)


def _print_matrices(simulation: Any, form: str) -> None:
    from remat_algos.plot.characters import text

    if form == "text":
        print_picture(text("matrix", simulation))
        return
    matrices, labels = stage_matrices(simulation), simulation.graph.labels
    names = [labels[v] for v in matrices.nodes.tolist()]
    entries = zip(*(matrices.R | matrices.S).nonzero(), strict=True)
    cells = ((int(t), names[i], int(matrices.R[t, i]), int(matrices.S[t, i])) for t, i in entries)
    write_table(sys.stdout, ("stage", "node", "R", "S"), cells)


def _words(names: Sequence[str]) -> str:
    """Join names by spaces; spaces and backslashes in a name are escaped by a backslash."""
    return " ".join(name.replace("\\", r"\\").replace(" ", r"\ ") for name in names)


def _names(graph: Any, option: str, texts: Sequence[str]) -> list[str]:
    names = []
    for words in texts:
        try:
            graph.value_id(words)
            new = [words]
        except GraphError:
            new = comma_separated(words)
        if not new:
            raise RematError(
                "--{option} {words!r} names no node; give names, or leave it out", option=option, words=words
            )
        names += new
    return names


def _record(simulation: Any, step: int, base: int, limit: int | None, reserved: Any) -> dict[str, Any]:
    graph, names = simulation.graph, simulation.schedule.names(simulation.graph)
    return {
        "graph_hash": graph.source_hash,
        "steps": len(simulation.schedule),
        **entries(simulation, "peak_memory peak_step"),
        "peak_node": names[simulation.peak_step] if names else None,
        "peak_without_rematerialization": base,
        "resident_memory": graph.resident_memory,
        "limit": limit,
        **reserved.record(),
        **entries(simulation, f"compute overhead {UNIT}"),
        "nodes_run_again": int((simulation.runs > 1).sum()),
        "step": step,
        "breakdown": simulation.breakdown(step),
        "live": [entries(live, "value=name memory role made_at") for live in live_set(simulation, step)],
        "memory_trace": simulation.memory_trace.tolist(),
    }


def _copies(simulation: Any, timed: Timeline | None) -> dict[str, Any]:
    if timed is None:
        return {"host_peak": simulation.host_peak} if simulation.stores.size else {}
    times = entries(timed, "time overhead_in_time=overhead waits=waiting simulation.host_peak")
    return times | entries(timed, "link share")


def _fit(limit: int, reserved: Any) -> str:
    if reserved.memory <= limit:
        return "it fits"
    return "it may fit, depending on ties" if reserved.least <= limit else "it does not fit"


def _late_frees(simulation: Any) -> str:
    rows, order = simulation.schedule.lingering, simulation.schedule.order
    peak = format_bytes(simulate(simulation.graph, order).peak_memory)
    return f"{counted(len(rows), 'value')} freed later than after the last read; without this the peak would be {peak}"


def _peak_row(simulation: Any) -> tuple[str, str]:
    step, order = simulation.peak_step, simulation.schedule.order
    at = f" at step {step}, {shortened(simulation.graph.labels[int(order[step])])}" if order.size else ""
    return "peak", f"{exact_bytes(simulation.peak_memory)}{at}"


def _budget_row(limit: int | None, reserved: Any) -> list[tuple[str, str]]:
    return [] if limit is None else [("budget", f"{exact_bytes(limit)}: {_fit(limit, reserved)}")]


def _rows(
    simulation: Any, step: int, base: int, limit: int | None, reserved: Any, whole: int, timed: Timeline | None
) -> list[tuple[str, str]]:
    graph, peak = simulation.graph, simulation.peak_memory
    names = simulation.schedule.names(graph)
    share = f"{percent(peak, base)} of the peak without rematerialization"
    rows = [_peak_row(simulation), ("share", share), *reserved.rows(whole), *_budget_row(limit, reserved)]
    if graph.resident_memory:
        together = exact_bytes(peak + graph.resident_memory)
        rows.append(("resident", f"{exact_bytes(graph.resident_memory)}; with the peak {together}"))
    overhead = percent(simulation.overhead, graph.needed_compute)
    rows.append(("compute", f"{graph.labels.compute(simulation.compute)}, {overhead} more than one pass"))
    if timed is not None:
        rows += timed.rows()
        if timed.link is not None and (host := timed.link.host) is not None:
            fits = "it fits" if simulation.host_peak <= host else "it does not fit"
            rows.append(("host", f"{exact_bytes(simulation.host_peak)} of {exact_bytes(host)}: {fits}"))
    elif simulation.stores.size:
        loads = counted(len(simulation.schedule.loads), "load")
        rows.append(("copies", f"{loads}; {format_bytes(simulation.host_peak)} on the host at most"))
    if simulation.schedule.lingering.size and timed is None and not simulation.stores.size:
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
    return rows


def _print_live(simulation: Any, step: int) -> None:
    live = [each for each in live_set(simulation, step) if each.memory]
    if live:
        shown = [(shortened(x.name), format_bytes(x.memory), x.role, str(x.made_at)) for x in live[:LISTED]]
        print_table(("live", "bytes", "role", "since step"), shown)
    if len(live) > LISTED:
        print_text(f"... {len(live) - LISTED} more, {format_bytes(sum(x.memory for x in live[LISTED:]))}")
