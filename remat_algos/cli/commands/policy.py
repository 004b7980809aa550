"""remat policy: choose blocks to checkpoint by a budget or a plan, and compare the choice with the current setting."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import Any

from remat_algos.cli.graph_argument import add_graph, graph_of, read_source
from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import LINKS, add, check_solved, link_of
from remat_algos.errors import ArgumentError, RematError
from remat_algos.ir.budget import Budget
from remat_algos.plan.block_policies import plan_policy
from remat_algos.plan.blocks import SEMANTICS, Blocks
from remat_algos.plan.plan import Plan
from remat_algos.plan.policy import Policy, every_nth
from remat_algos.result import entries
from remat_algos.schedule.emission import baseline_peak
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import exact_bytes

EVERY = re.compile(r"every_n=([1-9]\d{0,8})", re.ASCII)


def every(text: str) -> int:
    """Parse the n of every_n=n."""
    match = EVERY.fullmatch(text)
    if match is None:
        raise ArgumentError("{text!r} is not a setting; write every_n=2 to checkpoint every second block", text=text)
    return int(match[1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    plan = "a plan for the graph, written by remat solve -o: find the policy nearest to it"
    parser.add_argument("plan", metavar="PLAN", nargs="?", help=plan)
    add(parser, "budget", "device")
    blocks = (
        "module paths of the blocks, such as 'layers.*', where * is one part of a name; separate several "
        "stacks of blocks by commas, and alternative choices of blocks by | to get the cheapest policy of all"
    )
    parser.add_argument("--blocks", metavar="PATTERN", required=True, help=blocks)
    semantics = (
        "recompute all unsaved values of a block (eager, the default), or only those that gradients need (graph)"
    )
    parser.add_argument("--semantics", choices=SEMANTICS, default=SEMANTICS[0], help=semantics)
    against = (
        "also show the cost of your current setting: every_n=2 checkpoints every second block of each stack and saves "
        "nothing inside it; with several choices in --blocks, the first one is used"
    )
    parser.add_argument("--against", metavar="SETTING", type=every, help=against)
    add(parser, "copies", link=f"inputs of checkpointed blocks may also be copied to the host over this link: {LINKS}")
    add(parser, output="write the policy as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Find the best policy for the budget or the one closest to the plan; print it and the current setting."""
    link, semantics, cuts = link_of(arguments), arguments.semantics, arguments.blocks.split("|")
    if arguments.plan is None:
        graph, note = graph_of(arguments)
        plan = None
    else:
        check_solved(arguments, arguments.plan)
        plan = Plan.load(arguments.plan, read_source(arguments))
        if len(cuts) > 1:
            raise RematError("--blocks has {count} choices separated by |; with PLAN, give only one", count=len(cuts))
        graph, note, link = plan.graph, "", plan.link
    limited = arguments.budget is not None or arguments.device is not None
    if plan is None and not limited and arguments.against is None:
        raise RematError("give PLAN, --budget SIZE, or --against every_n=2, whose peak then becomes the budget")
    blocks = Blocks.of(graph, cuts[0])
    current = None
    if arguments.against is not None:
        current = Policy.of(graph, blocks, every_nth(blocks, arguments.against), semantics=semantics)
    find = partial(plan_policy, graph, blocks=arguments.blocks, semantics=semantics, link=link)
    within_peak = None if current is None else find(current.peak_memory)
    if plan is not None:
        policy = plan.policy(blocks, semantics)
    elif limited:
        budget = Budget(arguments.budget, device=arguments.device)
        policy = find(budget)
    else:
        assert within_peak is not None
        policy = within_peak
    rows, record = list[tuple[str, str]](), dict[str, Any]()
    if plan is not None:
        rows.append(("plan", f"{_figures(plan)} ({plan.method})"))
        record["plan"] = plan.figures()
    if current is not None and within_peak is not None:
        with_blocks = f", with blocks {cuts[0]}" if len(cuts) > 1 else ""
        rows.append((f"every_n={arguments.against}", f"{_figures(current)}{with_blocks}"))
        rows.append(("", f"{_overhead(within_peak)} with the policy within that peak"))
        record["against"] = {
            "every_n": arguments.against,
            "blocks": cuts[0],
            **entries(current, "peak_memory overhead"),
            "policy_overhead": within_peak.overhead,
        }
    if arguments.output:
        policy.save(arguments.output)
        rows.append(("written", arguments.output))
    if note:
        print_text(note)
    print_result(arguments, policy, *rows, **record)


def _figures(run: Plan | Policy) -> str:
    peak = f"{exact_bytes(run.peak_memory)}, {percent(run.peak_memory, baseline_peak(run.graph))} of one pass"
    return f"{peak}; {_overhead(run)}"


def _overhead(run: Plan | Policy) -> str:
    amount = run.overhead if isinstance(run, Policy) else run.overhead_in_time
    return f"{fine_percent(amount, run.graph.needed_compute)} more compute"
