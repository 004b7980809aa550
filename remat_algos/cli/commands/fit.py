"""remat fit: find the largest model or batch that fits in memory."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import encode_bits
from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import add, device, link_of, overhead_of, searching, whole_number
from remat_algos.errors import ArgumentError, GraphError, RematError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.questions.fit import fit
from remat_algos.wording import did_you_mean, listed, shortened
from remat_algos.zoo.reference import PREFIX
from remat_algos.zoo.registry import build, get_family, options_of, read_reference

MAX_VALUE = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="NAME[?OPTION=VALUE&...]",
        required=True,
        help="a model or a family of models (listed by remat models); gradients of parameters are counted only with "
        "parameter_gradients=true or an optimizer, such as optimizer=adam",
    )
    parser.add_argument("--vary", metavar="OPTION", required=True, help="numeric option to vary: batch, depth, ...")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        required=True,
        type=device,
        help="device memory for peak and residents together, such as 11GiB",
    )
    add(parser, "overhead", "copies", solvers="run only these solvers; auto combines several solvers")
    values = "values to try (default: all values that the family allows)"
    parser.add_argument("--values", metavar="N,...", type=_numbers, help=values)
    most = f"largest value to try (default: {MAX_VALUE}, or the largest of --values)"
    parser.add_argument("--most", type=whole_number, metavar="N", help=most)
    add(parser, time_limit="stop SECONDS after the start, with the largest values found until then")
    add(parser, "seed", "encode", "element_bits")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Search for the largest value. Exit code 3: no value fits with any solver; 130: interrupted."""
    budget, link = Budget(overhead=overhead_of(arguments), device=arguments.memory), link_of(arguments)
    model, options = read_reference(arguments.model)
    source = f"{PREFIX}{shortened(arguments.model.removeprefix(PREFIX))}"
    bits = encode_bits(arguments, source, is_training=options.get("optimizer", "none") != "none")
    values = _values(arguments, model, options)
    print_text(f"{source}: {arguments.vary} varies; {_counting(options)}")
    with searching(arguments) as search:
        result = fit(
            _builder(model, options, arguments.vary, bits),
            budget,
            values=values,
            least=1 if values is None else values[0],
            most=arguments.most,
            link=link,
            **search,
        )
    print_result(arguments, result, model=model, options=options, vary=arguments.vary)
    fitting = any(entry.value is not None for entry in result)
    return ExitCode.of(result.stop, ExitCode.DONE if fitting else ExitCode.INFEASIBLE)


def _numbers(text: str) -> list[int]:
    numbers = sorted({whole_number(word.strip()) for word in text.split(",") if word.strip()})
    if not numbers:
        raise ArgumentError("{text!r} contains no numbers; give some, such as 16,32,64, or leave it out", text=text)
    return numbers


def _values(arguments: argparse.Namespace, model: str, options: Mapping[str, Any]) -> Sequence[int] | None:
    _check_vary(arguments.vary, model, options)
    values = arguments.values or get_family(model).values(arguments.vary, model, options)
    if arguments.most is not None and (least := 1 if values is None else values[0]) > arguments.most:
        raise RematError(
            "--most {most}: the smallest value to try is {least}; give that or more", most=arguments.most, least=least
        )
    return values


def _check_vary(vary: str, model: str, options: Mapping[str, Any]) -> None:
    options_by_name = options_of(model)
    numbers = [name for name, option in options_by_name.items() if option.own and option.kind.startswith("int")]
    if vary in numbers and vary not in options:
        return
    if vary in numbers:
        raise RematError(
            "--vary {vary}: {vary} cannot both vary and be {given}; leave one out", vary=vary, given=options[vary]
        )
    if vary in options_by_name:
        raise RematError("--vary {vary}: {vary} is not a number; name one of {numbers!l}", vary=vary, numbers=numbers)
    raise RematError(
        "--vary {vary}: {model} has no option {vary!r} that is a number{near!w}",
        vary=vary,
        model=model,
        near=did_you_mean(vary, numbers, cutoff=0.5) or f"; it has {listed(numbers)}",
    )


def _counting(options: Mapping[str, Any]) -> str:
    if options.get("parameter_gradients") is True or options.get("optimizer", "none") != "none":
        return "gradients of parameters are counted"
    return "gradients of parameters are not counted (parameter_gradients=true counts them)"


def _builder(model: str, options: Mapping[str, Any], vary: str, bits: int) -> Callable[[int], ComputationGraph]:
    """Return a function from a value of the varied option to a training graph, encoded with `bits` per element."""
    of_parameters = bool(bits) and options.get("parameter_gradients") is True
    own = {"parameter_gradients": False} if of_parameters else {}

    def training(value: int) -> ComputationGraph:
        try:
            graph = build(model, **{**options, **own, vary: value}).graph
            if graph.is_training:
                return graph
            return differentiate(graph, parameter_gradients=of_parameters, encode=bits)
        except GraphError as error:
            raise GraphError(
                "{vary}={value}: {error!w} (--values sets the values to try)", vary=vary, value=value, error=error
            ) from error

    return training
