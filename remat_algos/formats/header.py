"""The meaning of a column's, key's or attribute's name: the column, and the unit of its numbers."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from remat_algos.errors import ArgumentError, GraphError

SIZES = frozenset(("memory", "memory_bytes", "workspace", "grad_memory", "grad_workspace", "param_memory"))
COSTS = frozenset(("compute", "grad_compute"))

SIZE_UNITS = {"b": "", "byte": "", "bytes": ""} | {f"{x}{i}b": f"{x}{i}b" for x in "kmgtpe" for i in ("", "i")}
"""Units of sizes in lower case, as `parse_bytes` reads them."""
_WORK_UNITS = {
    f"{prefix.lower()}{word}": f"{prefix}{unit}"
    for prefix in ("", *"kMGTPE")
    for unit, words in (("FLOPs", ("flops", "flop")), ("MACs", ("macs", "mac")))
    for word in words
}
COST_UNITS = _WORK_UNITS | {
    word: unit
    for unit, words in {
        "ns": "ns nsec nsecs nanosecond nanoseconds",
        "us": "us µs μs usec usecs microsecond microseconds",
        "ms": "ms msec msecs millisecond milliseconds",
        "s": "s sec secs second seconds",
    }.items()
    for word in words.split()
}
"""Units of costs in lower case, to `compute_unit`."""

_BRACKETS = re.compile(r"(.*?)[\s_-]*[(\[]\s*(?:in\s+)?([^()\[\]]+?)\s*[)\]]", re.IGNORECASE)


class Meaning(NamedTuple):
    """A column, and the unit in its name, or ""."""

    column: str
    unit: str = ""


def plain(name: str) -> str:
    """The name of a column in lower case, with underscores between its words."""
    return re.sub(r"[\s-]", "_", name.strip().lower())


def split_unit(name: str) -> tuple[str, str, bool]:
    """A plain name without the part in final brackets or after its last underscore; that part; True for brackets.

    Examples
    --------
    >>> split_unit("Peak Memory (MB)"), split_unit("time_ms")
    (('peak_memory', 'MB', True), ('time', 'ms', False))
    """
    bracketed = _BRACKETS.fullmatch(name.strip())
    if bracketed is not None:
        return plain(bracketed[1]), bracketed[2], True
    base, _, unit = plain(name).rpartition("_")
    return base, unit, False


def spellings(name: str) -> list[str]:
    """A name, and the name without a known unit."""
    base, unit, _ = split_unit(name)
    return [name, base] if unit.lower() in SIZE_UNITS or unit.lower() in COST_UNITS else [name]


def meaning_of(name: str, column_of: Mapping[str, str]) -> Meaning | None:
    """The meaning of a name, given the columns of plain names; None if unknown.

    Raises ValueError for a size whose unit, in brackets, is not one of bytes. A cost may have any unit.

    Examples
    --------
    >>> columns = {"memory": "memory", "mem": "memory", "time": "compute", "flops": "compute"}
    >>> [tuple(meaning_of(name, columns)) for name in ("Mem", "memory_MiB", "Time [us]", "GFLOPs", "time (cycles)")]
    [('memory', ''), ('memory', 'mib'), ('compute', 'us'), ('compute', 'GFLOPs'), ('compute', 'cycles')]
    >>> meaning_of("memory_format", columns)
    """
    word = plain(name)
    if word in column_of:
        return Meaning(column_of[word])
    base, unit, bracketed = split_unit(name)
    column, spelled = column_of.get(base), unit.lower()
    if column in SIZES:
        if spelled in SIZE_UNITS and (bracketed or spelled != "b"):
            return Meaning(column, SIZE_UNITS[spelled])
        if bracketed:
            raise ArgumentError("{unit!r} is not a unit of bytes; write bytes, KB, MB, GB, KiB, MiB or GiB", unit=unit)
    if column in COSTS and (bracketed or spelled in COST_UNITS):
        prefixed = f"{spelled}{base}" if base in ("flops", "macs") else spelled  # FLOPs (G)
        return Meaning(column, COST_UNITS.get(prefixed) or COST_UNITS.get(spelled) or unit)
    if word.endswith("flops") and word in COST_UNITS and "flops" in column_of:
        return Meaning(column_of["flops"], COST_UNITS[word])
    return None


def with_unit(text: str, unit: str) -> str:
    """A size with the unit of its column, unless it has its own or is empty or -1."""
    return f"{text} {unit}" if unit and (text[-1:].isdigit() or text[-1:] == ".") and text[0] != "-" else text


def unit_of_costs(source: str, meanings: Iterable[Meaning], named: str = "") -> str:
    """The single unit of all costs, also if the graph has it `named`; GraphError if there are several.

    Costs of gradients without a unit take that of the others.
    """
    found = {(meaning.column, meaning.unit) for meaning in meanings if meaning.column in COSTS}
    units = sorted({unit for _, unit in found if unit} | ({named} if named else set()))
    bare = {column for column, unit in found if not unit and not named}
    if len(units) > 1 or (units and "compute" in bare):
        found_units = [*units, *(["no unit"] if bare else [])]
        raise GraphError(
            "{source!w}: costs are in {units!l}; give all of them in one unit", source=source, units=found_units
        )
    return units[0] if units else ""


def check_place(where: str, unknown: Iterable[str], elsewhere: Mapping[str, Mapping[str, str]], what: str) -> None:
    """Raise GraphError for a name that is unknown here but known elsewhere (plain names to columns, by place)."""
    for name in unknown:
        for place, column_of in elsewhere.items():
            if meaning_of(name, column_of) is not None:
                raise GraphError(
                    "{where!w}: {what!w} `{name}` belongs to {place!p}; give it there, or remove it",
                    where=where,
                    what=what,
                    name=name,
                    place=place,
                )
