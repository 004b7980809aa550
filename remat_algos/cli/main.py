"""Entry point of `remat`: run a command, and convert errors to one sentence and an exit code."""

import argparse
import contextlib
import errno
import importlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from remat_algos import __version__
from remat_algos.cli import commands
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.output import nowhere, output_of, print_error, print_json, print_row, print_text, terminal_columns
from remat_algos.cli.shared_options import add, memory, owner_of_output
from remat_algos.errors import BudgetError, CapacityError, ClaimError, RematError, about
from remat_algos.wording import LONGEST_PATH, did_you_mean, first_line, shortened, shortened_path, spelled

REMEDIES = {
    errno.ENOSPC: "make room, or choose another folder",
    errno.EDQUOT: "make room, or choose another folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EMFILE: "raise the limit (ulimit -n), or use fewer processes",
    errno.ENOMEM: "try a smaller graph, or a machine with more",
}


VERSION_HELP = (
    "print the version and exit; `--version --verbose` also lists compiled kernels, the cache and installed libraries, "
    "`--json` prints all this as one JSON object"
)

HELPS = {
    "allocate": (
        "assign an address to every value of a schedule, or to every buffer of a table, in one arena or several"
    ),
    "animate": (
        "animate a plan: nodes light up as they run, values appear and disappear, a curve and a bar show live bytes"
    ),
    "bound": "compute a lower bound on the compute of every schedule within a budget, and show the step that proves it",
    "calibrate": "measure the speed of this machine or its GPU, so that node costs can be times",
    "compare": "run every solver at one budget, and list the plans side by side",
    "convert": "write a graph or a model in another format, and list what that format cannot represent",
    "diff": "compare two plans for one graph: values that only one of them recomputes, with bytes and cost",
    "explain": "explain why values are kept or recomputed: bytes, readers, and effect of the opposite decision",
    "fit": "find the largest batch size or depth that fits in memory",
    "frontier": "list the Pareto-optimal plans (compute over memory), from the lowest peak to no rematerialization",
    "models": "list the built-in models (model:NAME) with their sizes and options",
    "order": "find an order in which every node runs once and the peak is low",
    "policy": (
        "plan which values the checkpoint of each block of a model saves, within a budget, and compare with your "
        "current setting"
    ),
    "report": (
        "write a page that steps through a plan: graph, memory, schedule, and reasons why values are kept or recomputed"
    ),
    "run": "run a plan on NumPy or a GPU and compare memory, values and times with the prediction",
    "show": "describe a graph: nodes, values, bytes, compute, articulation values, peak without rematerialization",
    "simulate": "simulate an order, or a choice of nodes to keep: peak, its step, live values, cost",
    "solve": "find an order of execution with a peak within a budget and as little compute as possible",
    "sweep": (
        "run many jobs (graphs, budgets, solvers, seeds) on many cores or machines, and collect results in a folder"
    ),
    "unroll": "write or draw an order as the mirrored graph, which has one node for each run of a node",
    "verify": "simulate a plan, check its figures and prove its bound again; exit code 1 if a check fails",
    "width": "compute lower and upper bounds on the treewidth of a graph, and write a tree decomposition",
}


class _Operand(str):
    """A word after `--`, which is not an option."""


class _Parser(argparse.ArgumentParser):
    """A parser that reports its own errors in one sentence; errors of the library propagate."""

    def _parse_optional(self, arg_string: str) -> Any:
        return None if isinstance(arg_string, _Operand) else super()._parse_optional(arg_string)

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        text = str(text)
        try:
            return action.type(text) if callable(action.type) else text
        except (RematError, ValueError) as error:
            about(action.dest, error)
            raise

    def format_help(self) -> str:
        # Only parsers with a listing have this attribute; `add_listing` sets it.
        if listings := vars(self).get("listings"):
            from textwrap import fill

            width = terminal_columns() - 2
            self.description = fill(self.description or "", width)
            self.epilog = "\n\n".join(filter(None, [self.epilog, *(listing() for listing in listings)]))
            # This formatter keeps the line breaks of the listings.
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            listings.clear()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        # Shorten the message: argparse quotes arguments in full.
        message = shortened(message.removeprefix("argument "), 300)
        raise SystemExit(_print_error(f"{message}; see {shortened(self.prog)} --help", ExitCode.BAD_INPUT))


def main(arguments: Sequence[str] | None = None, started: float | None = None) -> int:
    """Run a command line and return an `ExitCode`; a time limit counts from `started` (`time.monotonic`)."""
    started = time.monotonic() if started is None else started
    _repair_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _print_warning  # type: ignore[assignment]
            code = _run(arguments, started)
        sys.stdout.flush()
        return code
    # The reader of the pipe has exited.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE


def _repair_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, nowhere())
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: Sequence[str], started: float) -> int:
    chosen = argparse.Namespace(json=False, actions=[])
    try:
        _parse(arguments, chosen)
        chosen.started = started
        with output_of(chosen, owner_of_output(chosen)):
            return int(chosen.run(chosen) or ExitCode.DONE)
    except SystemExit as stop:  # by argparse
        return int(stop.code or 0)
    except BudgetError as error:
        if chosen.json:
            bound = {"lower_bound": error.lower_bound, "nodes": list(error.names or error.nodes)}
            print_json({"feasible": False, "reason": str(error), "reached": error.reached, **bound})
        return _print_error(str(error), ExitCode.INFEASIBLE)
    except CapacityError as error:
        return _print_error(str(error), ExitCode.INFEASIBLE)
    except ClaimError as error:
        return _print_error(str(error), ExitCode.FALSE_CLAIM)
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "try another file or folder")
        place = shortened_path(error.filename or "output")
        return _print_error(f"{place}: {error.strerror or first_line(error)}; {remedy}", ExitCode.BAD_INPUT)
    except KeyboardInterrupt as stop:
        return _print_error(str(stop) or "interrupted", ExitCode.INTERRUPTED)
    except MemoryError as error:
        own = str(error) if str(error).startswith("not enough memory") else ""
        usual = f"not enough memory for remat {_command(arguments)}; try a smaller graph, or a machine with more memory"
        return _print_error(own or usual, ExitCode.BAD_INPUT)
    except Exception as error:
        if isinstance(error, RematError | ImportError) or hasattr(error, "parameter"):
            return _print_error(_with_option(error, chosen.actions), ExitCode.BAD_INPUT)
        if os.environ.get("REMAT_TRACEBACK"):
            raise
        message = f"{type(error).__name__}: {shortened(' '.join(spelled(error).split()), LONGEST_PATH)}"
        return _print_error(
            f"this is a bug in remat, not in your input ({message}); REMAT_TRACEBACK=1 shows where", ExitCode.BUG
        )


def _parse(arguments: Sequence[str], chosen: argparse.Namespace) -> None:
    """Parse a command and its options into `chosen`; import only the module of this command."""
    command = _command(arguments)
    if command is None or arguments[0] in ("-h", "--help", "--version"):
        _overview(arguments)
    if command not in HELPS:
        near = did_you_mean(command, HELPS) or f"; there are {', '.join(HELPS)}"
        raise RematError("unknown command {command!r}{near!w} (see remat --help)", command=command, near=near)
    parser, chosen.run = _parser(command)
    chosen.actions = parser._actions
    words = list(arguments)
    words.remove(command)
    # argparse ignores `--` if options and positional arguments alternate.
    if "--" in words:
        end = words.index("--")
        words[end:] = map(_Operand, words[end + 1 :])
    try:
        _, unknown = parser.parse_known_intermixed_args(words, chosen)
    except AttributeError as error:
        if isinstance(error.__context__, KeyboardInterrupt | SystemExit):
            # After an early interrupt, argparse of Python 3.11 raises AttributeError: raise the original error.
            raise error.__context__ from None
        raise
    if unknown:
        options = [word for action in chosen.actions for word in action.option_strings]
        near = did_you_mean(unknown[0].partition("=")[0], options)
        if "--budget" in options:
            with contextlib.suppress(ValueError):
                near = f"; a budget is written --budget {shortened(memory(unknown[0]))}"
        see = f"see remat {shortened(command)} --help"
        remedy = f"{near} ({see})" if near else f"; {see}"
        raise RematError(
            "remat {command} has no {words}{remedy!w}", command=command, words=" ".join(unknown), remedy=remedy
        )


def _parser(command: str) -> tuple[_Parser, Callable[[argparse.Namespace], int | None]]:
    parser = _Parser(prog=f"remat {command}", description=HELPS[command])
    module = importlib.import_module(f"{commands.__name__}.{command}")
    module.add_arguments(parser)
    add(parser, "json")
    return parser, module.run


def _overview(arguments: Sequence[str]) -> NoReturn:
    parser = _Parser(
        prog="remat",
        description="Plan which values to drop and recompute, so that training a neural network fits in memory.",
    )
    parser.add_argument("--version", action="store_true", help=VERSION_HELP)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text in HELPS.items():
        subparsers.add_parser(name, help=text)
    if "--version" in arguments:
        if unknown := [word for word in arguments if word not in ("--version", "--verbose", "--json")]:
            parser.error(f"remat --version has no {shortened(' '.join(unknown))}")
        _print_version(verbose="--verbose" in arguments, as_json="--json" in arguments)
    else:
        parser.parse_args(arguments or ["--help"])
    raise SystemExit(ExitCode.DONE)


def _with_option(error: Exception, actions: Sequence[argparse.Action]) -> str:
    """Return the message of an error; a message about a parameter begins with the name of its option."""
    parameter = getattr(error, "parameter", "")
    option = next((each.option_strings[0] for each in actions if each.dest == parameter and each.option_strings), None)
    if option is None:
        return str(error)
    # Replace the subject of the library's message (a parameter, its entry, or a limit of a budget) by the option.
    subject = rf"((memory|overhead|device) budget|(the )?{parameter}|{parameter.removesuffix('s')})(?=[ :])"
    begin = re.match(subject, str(error))
    return f"{option}{str(error)[begin.end() :]}" if begin else f"{option}: {error}"


def _command(arguments: Sequence[str]) -> str | None:
    return next((word for word in arguments if not word.startswith("-")), None)


def _print_version(*, verbose: bool, as_json: bool) -> None:
    record: dict[str, Any] = {"version": __version__}
    if verbose:
        from remat_algos.cli.installation import installation, installation_rows

        record = installation()
    if as_json:
        print_json(record)
        return
    print_text(f"remat {__version__}")
    for label, text in installation_rows(record) if verbose else ():
        print_row(label, text)


def _print_error(message: str, code: ExitCode) -> int:
    print_error(f"remat: {message}")
    return code


def _print_warning(message: Warning | str, *_: object) -> None:
    print_error(f"remat: note: {message}")
