"""remat verify: check the claims of a plan by simulation; print the solved problem and the unchecked entries."""

import argparse
from collections.abc import Iterator
from typing import Any

from remat_algos.allocate.allocators import PEAK
from remat_algos.cli.graph_argument import add_source, read_source
from remat_algos.cli.output import print_result, print_text
from remat_algos.errors import ClaimError
from remat_algos.plan.check_claims import NEVER_CHECKED
from remat_algos.plan.plan import Plan, read_plan
from remat_algos.plan.record import RESERVED, SHOWN
from remat_algos.result import Summary
from remat_algos.wording import counted, exact_bytes, listed, shortened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser, help="the graph that the plan was made for")
    parser.add_argument("plan", metavar="PLAN", help="a plan written by remat solve -o")


def run(arguments: argparse.Namespace) -> None:
    """Verify the plan. Exit code 1: a claim is false, or a bound is not proven."""
    graph = read_source(arguments)
    try:
        plan = read_plan(arguments.plan, graph, strict=True)
    except ClaimError as error:
        print_result(arguments, Summary({"valid": False, "reason": str(error)}))
        raise
    record = plan.record()
    problem = {name: record.get(name) for name in ("differentiate", "budget", "link", "allocator", "constraints")}
    not_checked = _not_checked(record)
    verdict = {"valid": True, "bound_proven": plan.bound is not None, "not_checked": not_checked}
    figures = plan.figures(("limit", *SHOWN, *RESERVED)) | verdict
    added = counted(plan.graph.n_nodes - graph.n_nodes, "gradient node") if plan.graph is not graph else "no gradients"
    print_text(f"{arguments.graph}: {counted(graph.n_nodes, 'node')}; {added} added (as in the plan)")
    bound = "" if plan.bound is None else ", and the lower bound was proven again"
    rows = [("problem", "; ".join(_problem(plan))), ("verified", f"all figures are correct{bound}"), *plan.rows()]
    shown = Summary(figures, [*rows, ("not checked", f"also in the file: {', '.join(not_checked)}")])
    print_result(arguments, shown, graph_hash=graph.source_hash, problem=problem)


def _problem(plan: "Plan") -> Iterator[str]:
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
            yield f"feature maps encoded, {options['encode']} bits per element"
    yield f"budget {plan.budget}"
    if plan.link is not None:
        host = "" if plan.link.host is None else f", at most {exact_bytes(plan.link.host)} on the host"
        yield f"copies over {plan.link}{host}"
    if plan.reservation.allocator != PEAK:
        yield f"allocator {plan.reservation.allocator}"


def _not_checked(record: dict[str, Any]) -> list[str]:
    details = [f"details.{name}" for name in record["details"] if name != "bound"]
    return [*(name for name in NEVER_CHECKED if name != "details"), *details]
