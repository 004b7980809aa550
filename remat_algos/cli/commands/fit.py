"""remat fit: the largest model or batch that fits."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from remat_algos.cli.budget_argument import add_overhead, overhead_of, solvers_of
from remat_algos.cli.encode_argument import add_encode, encode_bits
from remat_algos.cli.exit_code import ExitCode
from remat_algos.cli.link_argument import add_link, link_of
from remat_algos.cli.output import add_json, print_json, print_reasons, print_table, print_text
from remat_algos.cli.search_argument import add_seed, add_time_limit, search_limits
from remat_algos.text.wording import listed, quoted, shortened

if TYPE_CHECKING:
    from remat_algos.ir.budget import Budget
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.questions.fit import Fit

HELP = "find the largest batch size or depth that fits in memory"
MAX_VALUE = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the model, the varied option, the memory to fit into."""
    parser.add_argument(
        "--model",
        metavar="NAME[?OPTION=VALUE&...]",
        required=True,
        help="a model or a family (remat models); gradients of parameters are counted only with "
        "parameter_gradients=true or an optimizer, such as optimizer=adam",
    )
    parser.add_argument("--vary", metavar="OPTION", required=True, help="numeric option to vary: batch, depth, ...")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        required=True,
        help="device memory for peak and residents together, such as 11GiB",
    )
    add_overhead(parser)
    add_link(parser)
    parser.add_argument("--solver", metavar="NAME,...", help="run only these solvers; auto: the best of all")
    parser.add_argument("--values", metavar="N,...", help="values to try (default: all that the family allows)")
    parser.add_argument("--most", type=int, metavar="N", help=f"largest value to try ({MAX_VALUE}, without --values)")
    add_time_limit(parser, "end SECONDS after the start with the largest values found so far")
    add_seed(parser)
    add_encode(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Search; 3 if no solver fits any value, 130 if interrupted, with the results so far."""
    from remat_algos.context import Stop
    from remat_algos.questions.fit import fit
    from remat_algos.zoo.reference import PREFIX
    from remat_algos.zoo.registry import read_reference

    refused: dict[int, str] = {}
    budget, solvers, link = _budget(arguments), solvers_of(arguments.solver, auto=True), link_of(arguments)
    model, options = read_reference(arguments.model)
    source = f"{PREFIX}{shortened(arguments.model.removeprefix(PREFIX))}"
    bits = encode_bits(arguments, source, is_training=options.get("optimizer", "none") != "none")
    values = _values(arguments, model, options)
    if not arguments.json:
        print_text(f"{source}: {arguments.vary} varies; {_counting(options)}")
        print_text(f"budget: {budget}")
    with search_limits(arguments) as limits:
        fits = fit(
            _builder(model, options, arguments.vary, refused, bits),
            budget,
            values=values,
            least=1 if values is None else values[0],
            most=arguments.most,
            solvers=solvers,
            link=link,
            **limits,
        )
    stop = reduce(or_, (entry.stop for entry in fits), Stop.DONE)
    if arguments.json:
        request = {"model": model, "options": options, "vary": arguments.vary, "budget": budget.record()}
        print_json({**request, **stop.record(), "solvers": [entry.record() for entry in fits]})
    else:
        _print(arguments.vary, fits, refused)
        if stop.reason:
            print_text(f"{stop.reason}; these are the largest values found so far")
    fitting = any(entry.value is not None for entry in fits)
    return ExitCode.of(stop, ExitCode.DONE if fitting else ExitCode.INFEASIBLE)


# ---------------------------------------------------------------- arguments


def _budget(arguments: argparse.Namespace) -> Budget:
    from remat_algos.ir.budget import Budget
    from remat_algos.text.units import parse_bytes

    try:
        parse_bytes(arguments.memory)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--memory: {error}") from error
    try:
        return Budget(overhead=overhead_of(arguments.overhead), device=arguments.memory)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"--overhead: {error}") from error


def _values(arguments: argparse.Namespace, model: str, options: Mapping[str, Any]) -> Sequence[int] | None:
    """The values to try; None for every number."""
    from remat_algos.zoo.registry import get_family

    _check_vary(arguments.vary, model, options)
    values = get_family(model).values(arguments.vary, model, options)
    if arguments.values is not None:
        try:
            values = sorted({int(word) for word in arguments.values.split(",") if word.strip()})
        except ValueError as error:
            message = (
                f"--values {shortened(arguments.values)}: give whole numbers with commas between, such as 16,32,64"
            )
            raise argparse.ArgumentTypeError(message) from error
    if values is not None and not values:
        raise argparse.ArgumentTypeError(
            f"--values {quoted(arguments.values)} names no number; give some, or leave it out"
        )
    if arguments.most is not None and (least := 1 if values is None else values[0]) > arguments.most:
        raise argparse.ArgumentTypeError(
            f"--most {shortened(arguments.most)}: the smallest value is {least}; give that or more"
        )
    return values


def _check_vary(vary: str, model: str, options: Mapping[str, Any]) -> None:
    """Check that the varied option is a number of the model, and that nothing else sets it."""
    from difflib import get_close_matches

    from remat_algos.zoo.registry import options_of

    known = options_of(model)
    numbers = [name for name, option in known.items() if option.own and option.kind.startswith("int")]
    if vary in numbers and vary not in options:
        return
    if vary in numbers:
        message = f"{shortened(vary)} both varies and is {shortened(options[vary])}; leave one out"
    elif vary in known:
        message = f"{shortened(vary)} is not a number; {shortened(model)} has {listed(numbers)}"
    else:
        near = get_close_matches(vary, numbers, n=2, cutoff=0.5)
        offer = f"did you mean {' or '.join(near)}?" if near else f"it has {listed(numbers)}"
        message = f"{shortened(model)} has no option {quoted(vary)} that is a number; {offer}"
    raise argparse.ArgumentTypeError(f"--vary {shortened(vary)}: {message}")


def _counting(options: Mapping[str, Any]) -> str:
    if options.get("parameter_gradients") is True or options.get("optimizer", "none") != "none":
        return "gradients of parameters are counted"
    return "gradients of parameters are not counted (parameter_gradients=true counts them)"


def _builder(
    model: str, options: Mapping[str, Any], vary: str, refused: dict[int, str], bits: int
) -> Callable[[int], ComputationGraph]:
    """A function from a value of the varied option to a training graph; `refused` gets the impossible ones.

    Encoding (elements of `bits` bits) comes before differentiation, so then the model must not have gradients.
    """
    from remat_algos.errors import GraphError
    from remat_algos.ir.differentiate import differentiate
    from remat_algos.zoo.registry import build

    of_parameters = bool(bits) and options.get("parameter_gradients") is True
    own = {"parameter_gradients": False} if of_parameters else {}

    def training(value: int) -> ComputationGraph:
        try:
            graph = build(model, **{**options, **own, vary: value}).graph
            if graph.is_training:
                return graph
            return differentiate(graph, parameter_gradients=of_parameters, encode=bits)
        except GraphError as error:
            refused[value] = str(error)
            raise GraphError(f"{shortened(vary)}={value}: {error} (--values names the values to try)") from error

    return training


# ---------------------------------------------------------------- output


def _print(vary: str, fits: Sequence[Fit], refused: Mapping[int, str]) -> None:
    overhead = "overhead in time" if any(entry.plan is not None and entry.plan.link for entry in fits) else "overhead"
    columns = ("solver", f"largest {vary}", "peak", "residents", "together", overhead, "too large")
    print_table(columns, map(_row, fits))
    print_reasons({entry.solver: entry.reason for entry in fits if entry.value is None and entry.reason})
    for value in sorted(refused.keys() & {entry.too_much for entry in fits}):
        print_text(f"{vary} {value} cannot be built: {refused[value]} (--values names the values to try)")


def _row(fits: Fit) -> tuple[str, ...]:
    from remat_algos.text.units import format_bytes, percent

    too_much = "" if fits.too_much is None else str(fits.too_much)
    if fits.plan is None:
        return (fits.solver, "none", "", "", "", "", too_much)
    peak, resident = fits.plan.peak_memory, fits.plan.graph.resident_memory
    sizes = (format_bytes(peak), format_bytes(resident), format_bytes(peak + resident))
    overhead = percent(fits.plan.overhead_in_time, fits.plan.graph.needed_compute)
    largest = f"{fits.value} or more" if fits.at_least else str(fits.value)
    method = fits.plan.method
    return (
        fits.solver if method == fits.solver else f"{fits.solver} ({method})",
        largest,
        *sizes,
        overhead,
        too_much,
    )
