"""remat models: list the built-in models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from remat_algos.cli.output import print_result, print_table, print_text
from remat_algos.wording import format_bytes

if TYPE_CHECKING:
    from remat_algos.zoo.network import Network
    from remat_algos.zoo.registry import Family

WRITING = "remat convert 'model:NAME?OPTION=VALUE' FILE"
COLUMNS = ("family", "model", "batch", "nodes", "values", "parameters", "GMACs each", "activations")
OPTION_COLUMNS = ("option", "default", "values")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="a family or a model: list only these, with their options"
    )
    parser.epilog = (
        f'Column "GMACs each": 10^9 multiply-adds per example in one forward pass. {WRITING} writes a model to a file.'
    )


def run(arguments: argparse.Namespace) -> None:
    from remat_algos.result import Summary
    from remat_algos.zoo.registry import get_family

    chosen = list(_chosen(arguments.names))
    built = [(family, name, *_built(name)) for family, name in chosen]
    print_result(arguments, Summary({"models": [_record(*entry) for entry in built]}))
    print_table(COLUMNS, [_row(*entry) for entry in built])
    for name in dict.fromkeys(arguments.names):
        print_text(f"\n{name}: {get_family(name).summary}")
        print_table(OPTION_COLUMNS, _option_rows(name, own=True))
    if arguments.names:
        print_text("\noptions of every model")
        print_table(OPTION_COLUMNS, _option_rows(arguments.names[0], own=False))
    else:
        print_text("remat models NAME lists the options of a model or a family")


def _chosen(names: Sequence[str]) -> Iterator[tuple[Family, str]]:
    from remat_algos.zoo.registry import get_family, list_families

    seen: set[str] = set()
    for name in names or [family.name for family in list_families()]:
        family = get_family(name)
        for model in family.variants if name == family.name else [name]:
            if model not in seen:
                seen.add(model)
                yield family, model


def _built(name: str) -> tuple[int | None, Network]:
    from remat_algos.zoo.registry import build, options_of

    options = options_of(name)
    return options["batch"].default if "batch" in options else None, build(name)


def _row(family: Family, name: str, batch: int | None, network: Network) -> tuple[str, ...]:
    graph = network.graph
    each = f"{network.macs / (batch or 1) / 1e9:,.3f}"
    sizes = (f"{graph.n_nodes:,}", f"{graph.n_values:,}", f"{network.n_parameters:,}", each)
    return family.name, name, "" if batch is None else str(batch), *sizes, format_bytes(network.activation_memory)


def _record(family: Family, name: str, batch: int | None, network: Network) -> dict[str, Any]:
    from remat_algos.result import entries
    from remat_algos.zoo.registry import options_of

    sizes = "nodes=graph.n_nodes values=graph.n_values parameters=n_parameters macs flops"
    figures = entries(network, f"{sizes} activation_memory parameter_memory")
    options = {option.name: option.default for option in options_of(name).values()}
    return {"family": family.name, "model": name, "batch": batch, **figures, "options": options}


def _option_rows(model: str, own: bool) -> list[tuple[str, str, str]]:
    from remat_algos.zoo.registry import options_of

    options = [option for option in options_of(model).values() if option.own == own]
    return [(option.name, option.written, option.allowed) for option in options]
