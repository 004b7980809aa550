"""Budgets, solvers and their options on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.ir.budget import Budget


def add_budget(parser: argparse.ArgumentParser) -> None:
    """--budget, --overhead, --device."""
    group = parser.add_argument_group("budget; all that are given hold")
    group.add_argument(
        "--budget",
        metavar="SIZE",
        help="peak, residents apart: bytes, 4GiB, 50%% of the peak without rematerialization, or least",
    )
    group.add_argument("--overhead", metavar="COST", help="compute beyond one pass: a number, or 30%% of the pass")
    group.add_argument("--device", metavar="SIZE", help="peak and residents together: bytes or 16GiB")


def add_search(parser: argparse.ArgumentParser) -> None:
    """--time-limit, --seed."""
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS", help="solvers stop soon after")
    parser.add_argument("--seed", type=whole_number, default=0, help="for solvers that use chance (0)")


def budget_of(arguments: argparse.Namespace) -> Budget:
    """The budget that was asked for."""
    from remat_algos.ir.budget import Budget

    given = {"memory": arguments.budget, "overhead": arguments.overhead, "device": arguments.device}
    try:
        return Budget(**given)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def memory_limit(size: str | None, base: int, resident: int) -> int | None:
    """Bytes of --budget, where it stands alone."""
    from remat_algos.ir.budget import Budget

    try:
        budget = Budget(size)
        if budget.least:
            raise ValueError(f"--budget {size}: an order has the peak that it has; give bytes, 4GiB or 50%")
        return budget.memory_limit(base, resident)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def solvers_of(arguments: argparse.Namespace, *, auto: bool = False) -> list[str] | None:
    """The names of --solver NAME,..., perhaps "auto" among them; None for all."""
    from remat_algos.solvers.registry import get_solver

    if arguments.solver is None:
        return None
    names = [name.strip() for name in arguments.solver.split(",")]
    if "auto" in names and not auto:
        raise argparse.ArgumentTypeError("--solver auto: all solvers are asked if none is named; leave it out")
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
            listed = ", ".join(known) or "none"
            wrong = f"{solver} has no option {name}" if equals else "write NAME=VALUE"
            raise argparse.ArgumentTypeError(f"-O {word}: {wrong}; {solver} has the options {listed}")
        options[name] = _value(value)
    return options


def _value(text: str) -> Any:
    """A number, True, False or None as Python writes them, a list where there are commas, else text."""
    import ast

    if "," in text:
        return [_value(part) for part in text.split(",") if part]
    try:
        return ast.literal_eval(
            text.strip().capitalize() if text.strip().lower() in ("true", "false", "none") else text
        )
    except (ValueError, SyntaxError):
        return text


def whole_number(text: str) -> int:
    """0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number; give 0 or more")
    return int(text)


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give seconds, more than 0")
    return seconds
