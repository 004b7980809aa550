"""remat verify: the problem of a plan, its claims compared with its simulation, and what cannot be checked."""

import argparse
from collections.abc import Iterator
from typing import Any

from remat_algos.allocate.allocators import PEAK, get_allocator
from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.output import print_result, print_text
from remat_algos.errors import ClaimError
from remat_algos.plan.check_claims import NEVER_CHECKED
from remat_algos.plan.plan import Plan, read_plan
from remat_algos.plan.record import RESERVED, SHOWN
from remat_algos.result import Summary
from remat_algos.wording import counted, exact_bytes, format_bytes, listed, shortened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser, help="the graph that the plan was made for")
    parser.add_argument("plan", metavar="PLAN", help="a plan written by remat solve -o")


def run(arguments: argparse.Namespace) -> None:
    """Verify the plan; 1 if a claim is false, or a bound not proven."""
    graph = read_source(arguments)
    try:
        plan = read_plan(arguments.plan, graph, strict=True)
    except ClaimError as error:
        print_result(arguments, Summary({"valid": False, "reason": str(error)}))
        raise
    record = plan.record()
    figures = plan.figures(("limit", *SHOWN, *RESERVED))
    problem = {name: record.get(name) for name in ("differentiate", "budget", "link", "allocator", "constraints")}
    not_checked = _not_checked(record)
    verdict = {"bound_proven": plan.bound is not None, "not_checked": not_checked}
    added = counted(plan.graph.n_nodes - graph.n_nodes, "gradient node") if plan.graph is not graph else "no gradients"
    verdict |= {"valid": True, "graph_hash": graph.source_hash, "problem": problem}
    print_result(arguments, Summary(figures | verdict))
    print_text(f"{arguments.graph}: {counted(graph.n_nodes, 'node')}; {added} added (as in the plan)")
    print_text(f"problem, from the plan: {'; '.join(_problem(plan))}")
    _print(plan)
    print_text(f"also in the file, not checked: {', '.join(not_checked)}")


def _problem(plan: "Plan") -> Iterator[str]:
    """Yield the entries of the plan that define its problem, for which its bound holds."""
    derivation = plan.graph.derivation
    if derivation is not None:
        options = derivation.options
        loss = options["loss"]
        yield f"gradients of {'every output' if loss is None else listed([shortened(each) for each in loss], 4)}"
        yield f"factor {options['factor']}"
        yield "parameter gradients" if options["parameter_gradients"] else "no parameter gradients"
        if options["keep_outputs"]:
            yield "outputs kept"
        if options.get("encode"):
            yield f"feature maps encoded, of {options['encode']} bits an element"
    yield f"budget {plan.budget}"
    if plan.link is not None:
        host = "" if plan.link.host is None else f", at most {exact_bytes(plan.link.host)} on the host"
        yield f"copies over {plan.link}{host}"
    if plan.reservation.allocator != PEAK:
        yield f"allocator {plan.reservation.allocator}"


def _print(plan: "Plan") -> None:
    simulation, reservation = plan.simulation, plan.reservation
    peak, resident = simulation.peak_memory, simulation.graph.resident_memory
    together = f", {format_bytes(peak + resident)} together with residents of {format_bytes(resident)}"
    noun = get_allocator(reservation.allocator).noun
    by = f"{noun} by {reservation.allocator}" if reservation.allocation is None else noun
    packs = f", {by} {format_bytes(reservation.memory)}" if noun else ""
    overhead = plan.graph.labels.compute(simulation.overhead)
    print_text(
        f"all figures are correct: {len(simulation.schedule)} steps, peak {format_bytes(peak)} "
        f"at step {simulation.peak_step}{packs}{together if resident else ''}, overhead {overhead}"
    )
    if plan.timeline is not None:
        waits = plan.graph.labels.compute(plan.timeline.waiting)
        print_text(
            f"time {plan.graph.labels.compute(plan.time)} over {plan.link}, of which compute waits {waits} for copies; "
            f"{format_bytes(simulation.host_peak)} on the host at most"
        )
    if plan.constraints is not None:
        print_text(f"constraints kept: {plan.constraints}")
    if plan.bound is not None:
        bound = plan.graph.labels.compute(plan.bound.amount)
        print_text(f"lower bound {bound} by {shortened(plan.bound.source)}: proven again")


def _not_checked(record: dict[str, Any]) -> list[str]:
    """Return the unchecked entries of a plan, with all details except the proof of the bound."""
    details = [f"details.{name}" for name in record["details"] if name != "bound"]
    return [*(name for name in NEVER_CHECKED if name != "details"), *details]
