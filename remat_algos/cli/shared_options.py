"""Options shared by several commands, in one table; the library parses and checks their values.

Errors of the library name a parameter (`errors.about`). Parameters have the names of their options, so `main` can begin
the message with the option.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from remat_algos.cli.output import TEXT, progress_line, terminal_columns
from remat_algos.context import Clock, check_seconds, time_left
from remat_algos.effort import DEFAULT, EFFORTS
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, RematError, about, extended
from remat_algos.text.amounts import parse_bytes
from remat_algos.wording import comma_separated, format_bytes

if TYPE_CHECKING:
    from remat_algos.cost.links import Link
    from remat_algos.ir.budget import Budget
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.registry import Registered
    from remat_algos.schedule.constraints import Constraints

AUTO = "auto"
PEAK = "peak"
TIMELINE = "timeline"
OF_SEARCH = ("solver", "solvers", "effort", "gap", "seed", "allocator", "alignment")
OF_SOLVING = ("budget", "overhead", "device", "link", "host", "link_share", "solver", "options", "time_limit")
INPUTS = ("order", "plan", "compare", "start", "mirror", "buffers", "in_place_table", "jobs")
"""Options that name files to read, in addition to the graph."""
PICTURES = ("memory", "schedule", "graph", "matrix")
LINKS = "pcie4, pcie5, nvlink-c2c, 50GB/s, 50GB/s,25GB/s (store, load), or a device file that has a link"
REGION = "NAME=PATTERN:BYTES"
# Column in which the summaries of a listing begin.
LISTING = 25
# Name that --overhead accepts for the unit of compute.
UNITS = "units"
AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(%|[A-Za-z]*)\s*")
STEPS = re.compile(r"(\d{0,18}):(\d{0,18})", re.ASCII)


def whole_number(text: str) -> int:
    """Parse a whole number of 0 or more; the library checks its range."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentError("{text!r} is not a whole number; give 0 or more", text=text)
    if len(text) > 1000:
        raise ArgumentError("a number of {digits:,} digits is too large; give a smaller one", digits=len(text))
    return int(text)


def number(text: str) -> float:
    """Parse a number; the library checks its range."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentError("{text!r} is not a number; write it as 2 or 0.5", text=text) from None


def seconds(text: str) -> float:
    return check_seconds(number(text))


def library(function: str) -> Callable[..., Any]:
    """Return a wrapper that imports a function of the library at its first call, to keep `remat --help` fast."""
    return lambda *text: resolve_name(f"remat_algos.{function}")(*text)


def alignment(text: str) -> int:
    from remat_algos.allocate.allocation import check_alignment

    return check_alignment(parse_bytes(text))


def memory(text: str) -> str:
    """Check a memory budget; return the string unchanged."""
    _budget(memory=text)
    return text


def device(text: str) -> str:
    _budget(device=text)
    return text


def overhead(text: str) -> str:
    """Check an overhead budget; return the string unchanged. A number other than 0 without a unit is an error."""
    amount, unit = _amount(text)
    if amount and not unit and float(amount):
        raise ArgumentError(
            "overhead budget {text!r} is ambiguous; write '{share:g}%' (of one pass) or '{amount} units' (of compute)",
            text=text,
            share=float(amount) * (100 if float(amount) < 1 else 1),
            amount=amount,
        )
    _budget(overhead=amount if amount and unit != "%" else text)
    return text


def limit(text: str) -> Budget:
    """Parse a memory budget that does not need a search."""
    budget = _budget(memory=text)
    if budget.least or budget.above_lowest is not None:
        raise ArgumentError("{text!r} needs a search, which only remat solve does; give bytes, 4GiB or 50%", text=text)
    return budget


def limits(text: str) -> dict[str, Budget]:
    """Parse memory budgets separated by commas; return {text: budget}."""
    budgets = {word: limit(word) for word in comma_separated(text)}
    if not budgets:
        raise ArgumentError("{text!r} has no size; write bytes, 4GiB or 50%", text=text)
    return budgets


def solver(text: str) -> str:
    from remat_algos.solvers.registry import get_solver

    return text if text == AUTO else get_solver(text).name


def solvers(text: str) -> list[str]:
    return list(dict.fromkeys(solver(name.strip()) for name in text.split(",")))


def option(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, an option of a solver; the solver checks name and value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError("{text!r} has no value; write NAME=VALUE", text=text)
    return name, _value(value)


def allocator(text: str) -> str:
    from remat_algos.allocate.allocators import get_allocator

    return get_allocator(text).name


def region(text: str) -> tuple[str, tuple[str, str]]:
    name, _, rest = text.partition("=")
    pattern, _, limit = rest.rpartition(":")
    if not (name and pattern and limit):
        raise ArgumentError(
            "{text!r} is not a region; write {region!w}, such as encoder=*enc*:4GiB", text=text, region=REGION
        )
    return name, (pattern, limit)


def steps(text: str) -> tuple[str, str]:
    """Parse a range of steps A:B; an omitted limit is ""."""
    match = STEPS.fullmatch(text)
    if match is None:
        raise ArgumentError("{text!r} is not a range of steps; give a first step and an end, such as 0:100", text=text)
    return match[1], match[2]


def picture(path: str) -> str:
    """Check and return the path of a picture; "-" means text on standard output."""
    from remat_algos.plot.picture_file import picture_format

    if path == TEXT:
        return path
    picture_format(path)
    return writable(path)


def writable(path: str) -> str:
    """Check before the work starts that a path can be written; return the path."""
    file = Path(path)
    folder = (file.resolve() if file.is_symlink() else file).parent
    if file.is_dir():
        raise ArgumentError("{path!p} is a folder; name a file in it", path=path or ".")
    if file.exists() and not os.access(file, os.W_OK):
        raise ArgumentError("{path!p} cannot be written to; choose another file", path=path)
    if file.exists() and not file.is_file():
        # A pipe or a device.
        return path
    if not folder.is_dir():
        raise ArgumentError("{path!p}: there is no folder {folder!w}; create it first", path=path, folder=folder)
    if not os.access(folder, os.W_OK):
        raise ArgumentError(
            "{path!p}: the folder {folder!w} cannot be written to; choose another", path=path, folder=folder
        )
    return path


def _budget(**limits: str | None) -> Budget:
    from remat_algos.ir.budget import Budget

    return Budget(**limits)


def _amount(text: str) -> tuple[str, str]:
    """Split text into number and unit; both are "" if it does not start with a number."""
    match = AMOUNT.fullmatch(text)
    return (match[1], match[2]) if match else ("", "")


def _value(text: str) -> Any:
    """Parse a number, True, False or None, or a list if there are commas; anything else stays a string."""
    import ast

    if "," in text:
        return [_value(part) for part in text.split(",") if part]
    word = text.strip().capitalize()
    try:
        return ast.literal_eval(word if word in ("True", "False", "None") else text)
    except (ValueError, SyntaxError):
        return text


MODULES = "modules or nodes, given by name or by a pattern such as 'layers.*'; may be repeated"
OPTIONS: dict[str, tuple[Any, ...]] = {
    "json": ("", bool, "print only one JSON object"),
    "output": ("FILE", writable, "", {"flags": ("-o", "--output")}),
    "budget": (
        "SIZE",
        memory,
        "limit of the peak, not counting residents (parameters, inputs, optimizer states): bytes, 4GiB, 50%% (of the "
        "peak without rematerialization), or least (the lowest possible peak)",
    ),
    "overhead": (
        "COST",
        overhead,
        "limit of the extra compute: 30%% of one pass, or '120 units' in the graph's unit of compute",
    ),
    "device": ("SIZE", device, "limit of peak and residents together: bytes, or a size such as 16GiB"),
    "allocator": (
        "NAME",
        allocator,
        "limit the memory that this allocator (listed below) reserves (default: peak); with a pool, --budget 50%% "
        "means half of the memory reserved without rematerialization",
        {"default": PEAK},
    ),
    "alignment": ("BYTES", alignment, "alignment of addresses, a power of two (default: 1)", {"default": 1}),
    "solver": ("NAME", solver, "", {"default": AUTO}),
    "options": (
        "NAME=VALUE",
        option,
        "solver option; may be repeated",
        {"flags": ("-O", "--option"), "action": "append", "default": []},
    ),
    "solvers": ("NAME,...", solvers, "run only these solvers", {"flags": ("--solver",)}),
    "effort": (
        "",
        None,
        "amount of work for the solvers, the search and the lower bound (default: default)",
        {"choices": EFFORTS, "default": DEFAULT},
    ),
    "gap": (
        "POINTS",
        number,
        "stop at the first plan whose overhead is at most POINTS percentage points above the lower bound (0: stop only "
        "when the plan is proven optimal; default: depends on the effort and the size of the graph)",
    ),
    "time_limit": ("SECONDS", seconds, ""),
    "seed": ("", whole_number, "random seed (default: 0)", {"default": 0}),
    "link": (
        "LINK",
        library("cost.devices.get_link"),
        f"values may also be stored on the host and loaded back, over this link: {LINKS}",
    ),
    "host": ("SIZE", library("cost.links.host_limit"), "limit of the bytes stored on the host, such as 64GiB"),
    "link_share": (
        "SHARE",
        library("cost.links.planned_share"),
        "share of the link's rates to plan with (default: 90%%); if the link is slower than planned, compute waits",
    ),
    "max_runs": ("N", whole_number, "run each node at most N times"),
    "fixed_order": (
        "",
        bool,
        "keep the graph's order for the first runs of nodes; recomputations may be anywhere",
    ),
    "regions": (
        REGION,
        region,
        "limit the live bytes of nodes whose names match PATTERN, such as --region 'encoder=*enc*:4GiB'; "
        "may be repeated",
        {"flags": ("--region",), "action": "append", "default": []},
    ),
    "offload": (
        "NAME,...",
        comma_separated,
        f"with --link: offload only values of these {MODULES}",
        {"flags": ("--modules",), "action": "extend"},
    ),
    "stay": (
        "NAME,...",
        comma_separated,
        f"with --link: never offload values of these {MODULES}",
        {"action": "extend"},
    ),
    "min_copy": ("SIZE", parse_bytes, "with --link: never offload values smaller than this, such as 1MB"),
    "nodes": ("FILE", None, "table of sizes and costs for the nodes of an edge list"),
    "inference": ("", bool, "plan the graph without adding gradients"),
    "factor": ("", number, "cost of a gradient relative to its forward node (default: 2)"),
    "parameter_gradients": ("", bool, "also compute gradients of parameters"),
    "loss": ("NAME", None, "value to differentiate; may be repeated (default: all outputs)", {"action": "append"}),
    "encode": ("", bool, "store feature maps in one bit per element if gradients need no more (ReLU, dropout)"),
    "element_bits": ("N", whole_number, "with --encode: bits per unencoded element (default: from the model, else 32)"),
    "order": (
        "ORDER",
        None,
        "a plan, a list of names or ids, lines `compute X` and `free Y`, or npz with matrices R and S "
        "(default: the order of the graph)",
        {"flags": ("order",), "nargs": "?"},
    ),
    "mirror": (
        "FILE",
        None,
        "instead of ORDER: number of recomputations of each node (m in chen2016), as a table node,count or as JSON",
    ),
    "steps": ("A:B", steps, ""),
    "plot": ("FILE", picture, "draw a picture: FILE.png, .svg or .pdf, or - for text on standard output"),
}
"""key: option; value: metavar, parser (bool for a flag), help, and optional keyword arguments for argparse"""

SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "limits": ("budget (if several limits are given, all apply)", ("budget", "overhead", "device")),
    "reservation": ("memory that the budget limits", ("allocator", "alignment")),
    "copies": ("copies to the host (the costs of the graph must be times)", ("link", "host", "link_share")),
    "constraints": (
        "constraints (in addition to the budget)",
        ("max_runs", "fixed_order", "regions", "offload", "stay", "min_copy"),
    ),
    "gradients": (
        "gradients (if the graph has none)",
        ("inference", "factor", "parameter_gradients", "loss", "encode", "element_bits"),
    ),
}
"""key: group of options; value: its title in --help and its members"""


def add(parser: argparse._ActionsContainer, *options: str, **helps: str) -> None:
    """Add options and groups of options from the tables; `helps` replaces help strings by name."""
    own = [name for name in options if name not in SETS]
    for name in options:
        if name in SETS:
            title, members = SETS[name]
            group = parser.add_argument_group(title)
            own += members
            for member in members:
                _add(group, member, helps)
        else:
            _add(parser, name, helps)
    for name in helps.keys() - {*own}:
        _add(parser, name, helps)
    if "allocator" in {*own, *helps} and isinstance(parser, argparse.ArgumentParser):
        add_listing(parser, "allocators", library("allocate.allocators.list_allocators"))


def _add(group: argparse._ActionsContainer, name: str, helps: Mapping[str, str]) -> None:
    metavar, parser, text, *more = OPTIONS[name]
    settings = {"flags": (f"--{name.replace('_', '-')}",), "help": helps.get(name, text), **(more[0] if more else {})}
    flags = settings.pop("flags")
    settings |= {"action": "store_true"} if parser is bool else {"metavar": metavar or None, "type": parser}
    # argparse accepts no `dest` for positional arguments.
    if flags != (name,):
        settings["dest"] = name
    group.add_argument(*flags, **settings)


def add_plot(parser: argparse.ArgumentParser, *pictures: str) -> None:
    """Add --plot, and --picture if there are several pictures; the first one is the default."""
    add(parser, "plot")
    if len(pictures) > 1:
        parser.add_argument("--picture", choices=pictures, help=f"picture to draw (default: {pictures[0]})")


def add_listing(
    parser: argparse.ArgumentParser, title: str, entries: Callable[[], Iterable[Registered]], *, flag: str = ""
) -> None:
    """List registered functions below the options in --help; they are imported only when help is printed."""
    vars(parser).setdefault("listings", []).append(lambda: _listing(title, entries(), flag))


def _listing(title: str, entries: Iterable[Registered], flag: str) -> str:
    from textwrap import fill

    width, indent = terminal_columns() - 2, " " * LISTING
    lines = [f"{title}:"]
    for entry in entries:
        lines.append(fill(f"  {entry.name:<{LISTING - 3}} {entry.summary}", width, subsequent_indent=indent))
        options = ", ".join(f"{name}={default}" for name, default in entry.options.items()) if flag else ""
        lines += [fill(f"{indent}{flag} {options}", width, subsequent_indent=f"{indent}   ")] if options else []
    return "\n".join(lines)


def budget_of(arguments: argparse.Namespace, graph: ComputationGraph) -> Budget:
    """Return the budget. Raise RematError if there is none, a number lacks its %, or --overhead has an unknown unit."""
    from remat_algos.bounds.memory import least_peak_bound
    from remat_algos.schedule.emission import baseline_peak

    memory, device = arguments.budget, arguments.device
    if memory is None and arguments.overhead is None and device is None:
        base, bound = baseline_peak(graph), least_peak_bound(graph)[0]
        between = format_bytes((base + bound) // 2).replace(" ", "")
        raise RematError(
            "there is no budget; the peak without rematerialization is {peak!b}, the lower bound "
            "{bound!b}; give for example --budget 80%, --budget {between} or --budget least",
            peak=base,
            bound=bound,
            between=between,
        )
    size, largest = (memory or "").strip(), int(graph.node_memory.max(initial=0))
    # A number far below the bytes of one node probably means a percentage.
    if size.isdecimal() and int(size) <= 100 and int(size) * 10 <= largest:
        raise RematError(
            "--budget {size} is {size:byte}, but a single node needs {largest!b}; did you mean {size}%?",
            size=int(size),
            largest=largest,
        )
    unit, own = _amount(arguments.overhead or "")[1], graph.labels.compute_unit
    if unit not in ("", "%", UNITS) and unit.lower() != own.lower():
        remedy = "{own} or units" if own else "units, since the costs of the graph have no unit"
        raise RematError(
            "--overhead {overhead}: unknown unit {unit!r}; write " + remedy,
            overhead=arguments.overhead,
            unit=unit,
            own=own,
        )
    return _budget(memory=memory, overhead=overhead_of(arguments), device=device)


def overhead_of(arguments: argparse.Namespace) -> str | None:
    """Return the overhead of a budget without its unit."""
    text: str | None = arguments.overhead
    amount, unit = _amount(text or "")
    return amount if amount and unit != "%" else text


def link_of(arguments: argparse.Namespace, default: Link | None = None) -> Link | None:
    """Return the link of the command or the default, with the limit on host bytes, or None without a link."""
    from remat_algos.cost.devices import get_link

    link = default if arguments.link is None else arguments.link
    if link is None:
        refuse_used(arguments, ("host", "link_share"), "{option!w} needs --link; add it")
    if link is None and getattr(arguments, "picture", None) == TIMELINE:
        raise RematError("--picture timeline shows copies over time; give --link, such as pcie5")
    return None if link is None else get_link(link, arguments.host, arguments.link_share)


def constraints_of(arguments: argparse.Namespace, graph: ComputationGraph) -> Constraints | None:
    from remat_algos.schedule.constraints import Constraints

    regions: dict[str, tuple[str, str]] = {}
    for name, entry in arguments.regions:
        if name in regions:
            raise RematError("there are two --region {name}; give each region its own name", name=name)
        regions[name] = entry
    limits = {name: getattr(arguments, name) for name in SETS["constraints"][1]}
    return Constraints.of(graph, limits | {"regions": regions})


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the named solver; raise TypeError for unknown options and parameters of `solve`."""
    from remat_algos.solvers.registry import get_solver

    options = dict(arguments.options)
    if options and arguments.solver == AUTO:
        raise RematError("-O needs a named solver; add --solver NAME")
    if options:
        with _options(arguments):
            get_solver(arguments.solver).check_options(options)
    return options


def used_options(arguments: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the options in `names` that differ from their defaults."""
    options = [each for each in arguments.actions if each.dest in names]
    return [each.option_strings[0] for each in options if getattr(arguments, each.dest) != each.default]


def refuse_used(arguments: argparse.Namespace, names: Iterable[str], template: str, **fields: Any) -> None:
    """Raise RematError if an option in `names` is used; `{option}` in the template is the first of them."""
    if used := used_options(arguments, names):
        raise RematError(template, option=used[0], **fields)


def check_solved(arguments: argparse.Namespace, plan: str) -> None:
    """Raise RematError if an option for solving is used together with a plan."""
    refuse_used(
        arguments, OF_SOLVING, "{option} is for solving, but {plan!p} is already solved; leave it out", plan=plan
    )


@contextlib.contextmanager
def searching(arguments: argparse.Namespace, *, keeps: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the options of a search, with the remaining time and a progress line; errors name the graph file or -O."""
    own = {name: getattr(arguments, name) for name in OF_SEARCH if name in arguments}
    remedy = "; leave out --inference" if getattr(arguments, "inference", False) else ""
    with progress_line(keeps=keeps) as progress, _options(arguments), naming(getattr(arguments, "graph", ""), remedy):
        left = time_left(arguments.time_limit, arguments.started)
        yield own | {"progress": progress} | ({} if left is None else {"time_limit": left})


@contextlib.contextmanager
def search_clock(arguments: argparse.Namespace) -> Iterator[Clock]:
    """Yield the clock of a search, with a progress line."""
    with progress_line() as progress:
        yield Clock(time_left(arguments.time_limit, arguments.started), progress)


@contextlib.contextmanager
def naming(file: str, remedy: str = "") -> Iterator[None]:
    """Prefix errors about a graph with its file, except errors about an option."""
    try:
        yield
    except GraphError as error:
        if not file or hasattr(error, "parameter"):
            raise
        raise extended(error, "{file!p}: ", remedy, file=file) from error


@contextlib.contextmanager
def _options(arguments: argparse.Namespace) -> Iterator[None]:
    """If the command has options of a solver, let errors of the solver name -O."""
    try:
        yield
    except (ArgumentError, ArgumentTypeError) as error:
        if not getattr(arguments, "options", None) or hasattr(error, "parameter"):
            raise
        about("options", error)
        if str(error).startswith((f"{arguments.solver} ", f"{arguments.solver}: ")):
            raise
        raise extended(error, "{solver}: ", solver=arguments.solver) from error


def steps_of(arguments: argparse.Namespace, count: int) -> range | None:
    """Return the range of --steps in a schedule of `count` steps, or None for all steps."""
    if arguments.steps is None:
        return None
    from remat_algos.schedule.views import step_remedy

    begin, end = arguments.steps
    steps = range(int(begin or 0), int(end) if end else count)
    if not steps or steps.stop > count:
        raise RematError(
            "--steps is {begin}:{end}, but {step_remedy!w}", begin=begin, end=end, step_remedy=step_remedy(count)
        )
    return steps


def owner_of_output(arguments: argparse.Namespace) -> str | None:
    """Return the option that writes to standard output, if any. Raise RematError if two do, or if files conflict."""
    plot, picture, output = (getattr(arguments, name, None) for name in ("plot", "picture", "output"))
    if picture is not None and plot is None:
        raise RematError("--picture {picture} needs --plot; give a file, or - for text", picture=picture)
    owners = ["--td -"] if getattr(arguments, "td", None) == TEXT else []
    owners += ["--plot -"] if plot == TEXT else []
    owners += ["--json"] if arguments.json else []
    owners += ["--format"] if getattr(arguments, "format", None) and not output else []
    for name in ("table", "matrix"):
        form = getattr(arguments, name, None)
        owners += [f"--{name} {form}"] if form in ("csv", "markdown") else []
    if len(owners) > 1:
        filed = [owner.split()[0] for owner in owners[:2] if owner.startswith(("--td", "--plot", "--format"))]
        raise RematError(
            "{one} and {other} both use standard output; leave out one"
            + (", or name a file for {filed}" if filed else ""),
            one=owners[0],
            other=owners[1],
            filed=filed[0] if filed else "",
        )
    if plot and output and Path(output).resolve() == Path(plot).resolve():
        raise RematError("-o and --plot are both {plot!p}; name two files", plot=plot)
    for written in (getattr(arguments, name, None) for name in ("output", "plot", "td")):
        if written and Path(written).exists():
            check_overwrite(arguments, written)
    return owners[0] if owners and owners[0] != "--plot -" else None


def check_overwrite(arguments: argparse.Namespace, written: str | Path) -> None:
    """Raise RematError if the command reads the file that it writes."""
    from remat_algos.formats.graph_files import files_read

    graph = getattr(arguments, "graph", None)
    read = [] if graph is None else files_read(graph, arguments.nodes)
    for name in INPUTS:
        named = getattr(arguments, name, None)
        read += [Path(file) for file in (named if isinstance(named, list) else [named]) if isinstance(file, str)]
    if Path(written).resolve() in {file.resolve() for file in read}:
        raise RematError("{written!p} would overwrite an input file; name another file", written=written)
