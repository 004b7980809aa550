"""remat models: the zoo."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.graph_argument import WRITTEN, add_output_form, write_out
from remat_algos.cli.output import print_json, print_table, print_text
from remat_algos.cli.shared_options import add, writable
from remat_algos.errors import RematError
from remat_algos.text.units import format_bytes
from remat_algos.wording import shortened

if TYPE_CHECKING:
    from remat_algos.zoo.network import Network
    from remat_algos.zoo.reference import Option
    from remat_algos.zoo.registry import Family

HELP = "list the built-in models (model:NAME) with their sizes and options; export writes one to a file"
EXPORT = "export"
COLUMNS = ("family", "model", "batch", "nodes", "values", "parameters", "GMACs each", "activations")
CITATION = re.compile(r",? \[\d+\]_")
OPTION_COLUMNS = ("option", "default", "values")
EXAMPLE = "remat models export resnet50 --batch 96 -o resnet50.json"


def add_arguments(parser: argparse.ArgumentParser, names: str = argparse.REMAINDER) -> None:
    """Add the arguments; those after `export` are read when the model is known."""
    parser.usage = "remat models [NAME ...] [--json]\n       remat models export NAME -o FILE [--OPTION VALUE ...]"
    listed = "a family or a model: list only these, with their options"
    parser.add_argument("names", metavar="NAME", nargs=names, help=listed)
    add(parser, "json")
    parser.epilog = "GMACs each: billions of multiply-adds per example in one forward pass"
    parser.set_defaults(parser=type(parser))


def run(arguments: argparse.Namespace) -> ExitCode:
    """List, or export."""
    words = arguments.names
    if words[:1] == [EXPORT]:
        return _export(words[1:], arguments)
    parser = arguments.parser(prog="remat models", description=HELP)
    add_arguments(parser, names="*")
    return _list(parser.parse_args(words, arguments))


# ---------------------------------------------------------------- list


def _list(arguments: argparse.Namespace) -> ExitCode:
    from remat_algos.zoo.registry import get_family

    chosen = list(_chosen(arguments.names))
    built = [(family, name, *_built(name)) for family, name in chosen]
    if arguments.json:
        print_json({"models": [_record(*entry) for entry in built]})
        return ExitCode.DONE
    print_table(COLUMNS, [_row(*entry) for entry in built])
    for name in dict.fromkeys(arguments.names):
        print_text(f"\n{name}: {CITATION.sub('', get_family(name).summary)}")
        print_table(OPTION_COLUMNS, _option_rows(name, own=True))
    if arguments.names:
        print_text("\noptions of every model")
        print_table(OPTION_COLUMNS, _option_rows(arguments.names[0], own=False))
    else:
        print_text("remat models NAME lists the options of a model or a family")
    return ExitCode.DONE


def _chosen(names: Sequence[str]) -> Iterator[tuple[Family, str]]:
    """The named families and models, each once; all if none is named."""
    from remat_algos.zoo.registry import get_family, list_families

    seen: set[str] = set()
    for name in names or [family.name for family in list_families()]:
        family = get_family(name)
        for model in family.variants if name == family.name else [name]:
            if model not in seen:
                seen.add(model)
                yield family, model


def _built(name: str) -> tuple[int | None, Network]:
    """A model with its default options, and its batch."""
    from remat_algos.zoo.registry import build, options_of

    options = options_of(name)
    return options["batch"].default if "batch" in options else None, build(name)


def _row(family: Family, name: str, batch: int | None, network: Network) -> tuple[str, ...]:
    graph = network.graph
    each = f"{network.macs / (batch or 1) / 1e9:,.3f}"  # of one example, as papers have it
    sizes = (f"{graph.n_nodes:,}", f"{graph.n_values:,}", f"{network.n_parameters:,}", each)
    return family.name, name, "" if batch is None else str(batch), *sizes, format_bytes(network.activation_memory)


def _record(family: Family, name: str, batch: int | None, network: Network) -> dict[str, Any]:
    from remat_algos.zoo.registry import options_of

    return {
        "family": family.name,
        "model": name,
        "batch": batch,
        "nodes": network.graph.n_nodes,
        "values": network.graph.n_values,
        "parameters": network.n_parameters,
        "macs": network.macs,
        "flops": network.flops,
        "activation_memory": network.activation_memory,
        "parameter_memory": network.parameter_memory,
        "options": {option.name: option.default for option in options_of(name).values()},
    }


def _option_rows(model: str, own: bool) -> list[tuple[str, str, str]]:
    from remat_algos.zoo.registry import options_of

    options = [option for option in options_of(model).values() if option.own == own]
    return [(option.name, option.written, option.allowed) for option in options]


# ---------------------------------------------------------------- export


def _export(words: Sequence[str], arguments: argparse.Namespace) -> ExitCode:
    """Read the options of the model named in the words, build it, write it."""
    from remat_algos.formats.graph_files import files_written
    from remat_algos.zoo.reference import split_reference, write_reference
    from remat_algos.zoo.registry import build, options_of

    named = _named(words)
    options = options_of(split_reference(named)[0]) if named is not None else {}
    exporter = _exporter(arguments.parser, options)
    chosen, unknown = exporter.parse_known_args(words, argparse.Namespace(json=arguments.json))
    model, given = split_reference(chosen.model)
    if unknown:
        raise RematError("{unknown!w}", unknown=_unknown(model, unknown[0], options))
    files_written(chosen.output)  # an unknown ending is refused before the work
    for name in options:
        texts = [*([given[name]] if name in given else []), *getattr(chosen, _place(name))]
        if len(texts) > 1:
            raise RematError(
                "{name} is given twice, as {texts!w}; leave one out",
                name=name,
                texts=" and ".join(map(shortened, texts)),
            )
        if texts:
            given[name] = texts[0]
    reference = write_reference(model, given)
    write_out(build(reference).graph, reference, chosen)
    return ExitCode.DONE


def _named(words: Sequence[str]) -> str | None:
    """The word that names a model or a family, else the first that is not an option."""
    from remat_algos.zoo.reference import PREFIX
    from remat_algos.zoo.registry import list_families, list_models

    known = {*list_models(), *(family.name for family in list_families())}
    plain = [
        word for before, word in pairwise(["", *words]) if not word.startswith("-") and before not in ("-o", "--output")
    ]
    models = (word for word in plain if word.removeprefix(PREFIX).partition("?")[0] in known)
    return next(models, plain[0] if plain else None)


def _exporter(kind: type[argparse.ArgumentParser], options: dict[str, Option]) -> argparse.ArgumentParser:
    parser = kind(
        prog="remat models export",
        usage="remat models export NAME -o FILE [--OPTION VALUE ...]",
        description="Write a model as a graph. With NAME, --help lists its options.",
        epilog=f"example: {EXAMPLE}",
    )
    parser.add_argument(
        "model", metavar="NAME", help="a model or a family (remat models lists them), or model:NAME?OPTION=VALUE"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=writable, required=True, help=WRITTEN)
    add_output_form(parser)
    groups = {own: parser.add_argument_group(title) for own, title in ((True, "model"), (False, "every model"))}
    for name, option in options.items():
        about = f"{option.allowed} (default: {option.written})".replace("%", "%%")
        groups[option.own].add_argument(
            _flag(name), dest=_place(name), metavar="VALUE", action="append", default=[], help=about
        )
    return parser


def _place(option: str) -> str:
    """The parser's attribute for an option of a model, distinct from its own."""
    return f"model.{option}"


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _unknown(model: str, word: str, options: dict[str, Option]) -> str:
    from difflib import get_close_matches

    known = ["--output", "--differentiate", "--json", *map(_flag, options)]
    near = get_close_matches(word.partition("=")[0], known, n=2, cutoff=0.5)
    offer = f"did you mean {' or '.join(near)}?" if near else f"see remat models export {shortened(model)} --help"
    return f"remat models export {shortened(model)} has no {shortened(word)}; {offer}"
