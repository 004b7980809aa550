"""remat verify: the claims of a plan compared with its simulation, and claims that cannot be checked."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.output import add_json, print_json, print_text

if TYPE_CHECKING:
    from remat_algos.plan.plan import Plan

HELP = "simulate a plan, check its figures and prove its bound again; exit code 1 if one is wrong"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the graph and the plan."""
    add_source(parser, help="the graph that the plan was made for")
    parser.add_argument("plan", metavar="PLAN", help="a plan written by remat solve -o")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Verify the plan; 1 if a claim is false."""
    from remat_algos.errors import ClaimError
    from remat_algos.plan.plan import read_plan
    from remat_algos.text.wording import counted

    graph = read_source(arguments)
    try:
        plan, doubts = read_plan(arguments.plan, graph)
    except ClaimError as error:
        if arguments.json:
            print_json({"valid": False, "reason": str(error)})
        raise
    if arguments.json:
        claims = ["peak_memory", "resident_memory", "compute", "overhead", "limit"]
        claims += ["bound", "bound_scope", "bound_source", "gap"]
        claims += ["time", "overhead_in_time", "host_peak"] if plan.link is not None else []
        record = plan.record()
        figures = {name: record[name] for name in claims} | plan.reservation.record()
        proven = plan.bound is not None and plan.bound.proven
        verdict = {"bound_proven": proven, "not_checked": _not_checked(plan, doubts)}
        print_json({"valid": True, "graph_hash": graph.source_hash, **figures, **verdict})
    else:
        added = (
            counted(plan.graph.n_nodes - graph.n_nodes, "gradient node") if plan.graph is not graph else "no gradients"
        )
        print_text(f"{arguments.graph}: {counted(graph.n_nodes, 'node')}; {added} added (as in the plan)")
        _print(plan, doubts)
    return ExitCode.DONE


def _print(plan: "Plan", doubts: Mapping[str, str]) -> None:
    from remat_algos.allocate.allocators.registry import get_allocator
    from remat_algos.text.units import format_bytes
    from remat_algos.text.wording import shortened

    simulation = plan.simulation
    resident = simulation.graph.resident_memory
    together = format_bytes(simulation.peak_memory + resident)
    together = f", {together} together with residents of {format_bytes(resident)}" if resident else ""
    reservation, noun = plan.reservation, get_allocator(plan.reservation.allocator).noun
    by = f"{noun} by {reservation.allocator}" if reservation.allocation is None else noun
    packs = f", {by} {format_bytes(reservation.memory)}" if noun else ""
    overhead = plan.graph.labels.compute(simulation.overhead)
    open_claims = "bound" in doubts or "packed_memory" in doubts
    which = "what was checked is correct" if open_claims else "all figures are correct"
    print_text(
        f"{which}: {len(simulation.schedule)} steps, peak {format_bytes(simulation.peak_memory)} "
        f"at step {simulation.peak_step}{packs}{together}, overhead {overhead}"
    )
    if plan.timeline is not None:
        waits = plan.graph.labels.compute(int(plan.timeline.waits.sum()))
        print_text(
            f"time {plan.graph.labels.compute(plan.time)} over {plan.link}, of which compute waits {waits} for copies; "
            f"{format_bytes(simulation.host_peak)} on the host at most"
        )
    if plan.constraints is not None:
        print_text(f"constraints kept: {plan.constraints}")
    if plan.bound is not None:
        by = "proven again" if plan.bound.proven else "claimed, not proven here"
        bound = plan.graph.labels.compute(plan.bound.compute)
        print_text(f"lower bound {bound} by {shortened(plan.bound.source)}: {by}")
    print_text(f"also in the file, not checked: {', '.join(_not_checked(plan, doubts))}")


def _not_checked(plan: "Plan", doubts: Mapping[str, str]) -> list[str]:
    """The unchecked entries of the plan, with all details except the proof of the bound."""
    from remat_algos.plan.claims import NEVER_CHECKED

    details = [f"details.{name}" for name in plan.record()["details"] if name != "bound"]
    return [*doubts, *(name for name in NEVER_CHECKED if name != "details"), *details]
