"""Budgets, solvers and their options on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from remat_algos.text.wording import listed, quoted, shortened

if TYPE_CHECKING:
    from remat_algos.ir.budget import Budget
    from remat_algos.ir.graph import ComputationGraph

UNITS = "units"  # of compute, whatever the unit
HUNDRED = 100
FAR_BELOW = 10  # a budget of at most so few bytes, with a node this many times larger, was meant as a share


def add_budget(parser: argparse.ArgumentParser) -> None:
    """--budget, --overhead, --device."""
    group = parser.add_argument_group("budget (all limits that are given apply)")
    group.add_argument(
        "--budget",
        metavar="SIZE",
        help="limit of the peak without residents: bytes, 4GiB, 50%% (of the peak without rematerialization), or least "
        "for the lowest peak",
    )
    add_overhead(group)
    group.add_argument("--device", metavar="SIZE", help="limit of peak and residents together: bytes or 16GiB")


def add_overhead(parser: argparse._ActionsContainer) -> None:
    """--overhead."""
    parser.add_argument(
        "--overhead",
        metavar="COST",
        help="limit of the extra compute: 30%% of one pass, or an amount such as '120 units', in the unit of the graph",
    )


def add_solver(parser: argparse.ArgumentParser, help: str, default: str | None = "auto") -> None:
    """--solver and its options."""
    parser.add_argument("--solver", default=default, metavar="NAME", help=help)
    parser.add_argument(
        "-O",
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="solver option; may be repeated",
    )


def budget_of(arguments: argparse.Namespace) -> Budget:
    """The given budget; `check_budget` checks it against a graph."""
    from remat_algos.ir.budget import Budget

    cost = overhead_of(arguments.overhead)
    try:
        return Budget(memory=arguments.budget, overhead=cost, device=arguments.device)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def is_budget(word: str) -> bool:
    """True if --budget takes this word."""
    from remat_algos.ir.budget import Budget

    try:
        Budget(memory=word)
    except ValueError:
        return False
    return True


def overhead_of(text: str | None) -> str | None:
    """The value of --overhead without the word `units`; a bare number is refused."""
    if text is None:
        return None
    number, unit = _split(text)
    if number is None or unit == "%" or not float(number):
        return text
    if not unit:
        share = f"{float(number) * (HUNDRED if float(number) < 1 else 1):g}%"
        remedy = f"write {share} of one pass, or '{shortened(number)} {UNITS}'"
        raise argparse.ArgumentTypeError(f"overhead budget {quoted(text)} could be compute or a share; {remedy}")
    return number


def check_budget(budget: Budget, overhead: str | None, graph: ComputationGraph) -> None:
    """Check that a budget is given, not a share without its sign, and that the unit of --overhead is the graph's."""
    from remat_algos.bounds.memory import least_peak_bound
    from remat_algos.schedule.baseline import baseline_peak
    from remat_algos.text.units import format_bytes
    from remat_algos.text.wording import counted

    if budget.memory is None and budget.overhead is None and budget.device is None:
        base, bound = baseline_peak(graph), least_peak_bound(graph)[0]
        between = format_bytes((base + bound) // 2).replace(" ", "")
        raise argparse.ArgumentTypeError(
            f"no budget is given; the peak without rematerialization is {format_bytes(base)}, the lower bound "
            f"{format_bytes(bound)}; give --budget 80%, --budget {between} or --budget least, for example"
        )
    size, largest = str(budget.memory).strip(), int(graph.node_memory.max(initial=0))
    if size.isdecimal() and int(size) <= HUNDRED and int(size) * FAR_BELOW <= largest:
        raise argparse.ArgumentTypeError(
            f"--budget {int(size)} is {counted(int(size), 'byte')}, and one node alone has {format_bytes(largest)}; "
            f"did you mean {int(size)}%?"
        )
    unit, own = _split(overhead or "")[1], graph.labels.compute_unit
    if unit not in ("", "%", UNITS) and unit.lower() != own.lower():
        named = f"{shortened(own)} or {UNITS}" if own else f"{UNITS}, since the graph names none"
        raise argparse.ArgumentTypeError(
            f"--overhead {shortened(overhead)}: unit {quoted(unit)} is unknown; write {named}"
        )


def _split(text: str) -> tuple[str | None, str]:
    """A leading number and the rest; (None, "") without one."""
    import re

    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(%|[A-Za-z]*)\s*", text)
    return (match[1], match[2]) if match else (None, "")


def memory_limit(size: str | None, base: int, resident: int) -> int | None:
    """Bytes of --budget for a given order."""
    from remat_algos.ir.budget import Budget

    try:
        budget = Budget(size)
        if budget.least:
            raise ValueError(f"--budget {shortened(size)}: an order has the peak that it has; give bytes, 4GiB or 50%")
        return budget.memory_limit(base, resident)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def solvers_of(text: str | None, *, auto: bool = False) -> list[str] | None:
    """The names of --solver NAME,..., which may include "auto"; None for all."""
    from remat_algos.solvers.registry import get_solver

    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "auto" in names and not auto:
        raise argparse.ArgumentTypeError("--solver auto: all solvers are compared if none is named; leave it out")
    try:
        for name in names:
            if name != "auto":
                get_solver(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return list(dict.fromkeys(names))


def options_of(solver: str, words: Sequence[str]) -> dict[str, Any]:
    """Options NAME=VALUE of a solver, checked against its signature."""
    from remat_algos.solvers.registry import get_solver

    if solver == "auto":
        if words:
            raise argparse.ArgumentTypeError("-O goes with a named solver; give --solver too")
        return {}
    try:
        known = get_solver(solver).options
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    options = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            wrong = f"{shortened(solver)} has no option {shortened(name)}" if equals else "write NAME=VALUE"
            offer = f"{shortened(solver)} has the options {listed(list(known)) or 'none'}"
            raise argparse.ArgumentTypeError(f"-O {shortened(word)}: {wrong}; {offer}")
        options[name] = _value(value)
    return options


def _value(text: str) -> Any:
    """A number, True, False or None as in Python, a list if there are commas, else text."""
    import ast

    if "," in text:
        return [_value(part) for part in text.split(",") if part]
    try:
        return ast.literal_eval(
            text.strip().capitalize() if text.strip().lower() in ("true", "false", "none") else text
        )
    except (ValueError, SyntaxError):
        return text
