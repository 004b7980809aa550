"""Tables of strings: interpret column names, parse numbers in cells, and report errors with their location."""

import contextlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from remat_algos.errors import ArgumentError, GraphError, RematError, warn
from remat_algos.text.amounts import Reading, cost_of, size_of
from remat_algos.wording import quoted

SIZES = frozenset(("memory", "memory_bytes", "workspace", "grad_memory", "grad_workspace", "param_memory"))
COSTS = frozenset(("compute", "grad_compute"))

SIZE_UNITS = {"b": "", "byte": "", "bytes": ""} | {f"{x}{i}b": f"{x}{i}b" for x in "kmgtpe" for i in ("", "i")}
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
"""Units of costs in lower case, mapped to their `compute_unit`."""

_BRACKETS = re.compile(r"(.*?)[\s_-]*[(\[]\s*(?:in\s+)?([^()\[\]]+?)\s*[)\]]", re.IGNORECASE)


class Meaning(NamedTuple):
    """A column, and the unit that its name contains, or ""."""

    column: str
    unit: str = ""


def plain(name: str) -> str:
    """Normalize the name of a column: lower case, with underscores between words."""
    return re.sub(r"[\s-]", "_", name.strip().lower())


def split_unit(name: str) -> tuple[str, str, bool]:
    """Split a name such as "Memory (MB)" or "time_ms" into (plain name, unit, True if the unit is in brackets)."""
    bracketed = _BRACKETS.fullmatch(name.strip())
    if bracketed is not None:
        return plain(bracketed[1]), bracketed[2], True
    base, _, unit = plain(name).rpartition("_")
    return base, unit, False


def _spellings(name: str) -> list[str]:
    base, unit, _ = split_unit(name)
    return [name, base] if unit.lower() in SIZE_UNITS or unit.lower() in COST_UNITS else [name]


def meaning_of(name: str, column_of: Mapping[str, str]) -> Meaning | None:
    """Return the meaning of a name, or None; raise ValueError for a size in a unit other than bytes."""
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
        # "FLOPs (G)" means GFLOPs.
        prefixed = f"{spelled}{base}" if base in ("flops", "macs") else spelled
        return Meaning(column, COST_UNITS.get(prefixed) or COST_UNITS.get(spelled) or unit)
    if word.endswith("flops") and word in COST_UNITS and "flops" in column_of:
        return Meaning(column_of["flops"], COST_UNITS[word])
    return None


def with_unit(text: str, unit: str) -> str:
    """Append the unit of a column to a size, unless the size has its own unit, is empty or is -1."""
    return f"{text} {unit}" if unit and (text[-1:].isdigit() or text[-1:] == ".") and text[0] != "-" else text


def unit_of_costs(source: str, meanings: Iterable[Meaning], named: str = "") -> str:
    """Return the common unit of all costs; `named` is a unit stated for the graph. Raise GraphError if units differ."""
    pairs = {(meaning.column, meaning.unit) for meaning in meanings if meaning.column in COSTS}
    units = sorted({unit for _, unit in pairs if unit} | ({named} if named else set()))
    bare = {column for column, unit in pairs if not unit and not named}
    if len(units) > 1 or (units and "compute" in bare):
        found_units = [*units, *(["no unit"] if bare else [])]
        wrong = "{source!p}: costs are in {units!l}; give all of them in one unit"
        raise GraphError(wrong, source=source, units=found_units)
    return units[0] if units else ""


FLAGS = {
    "": None,
    "0": False,
    "1": True,
    "0.0": False,
    "1.0": True,
    "false": False,
    "true": True,
    "no": False,
    "yes": True,
}
MARKS = {"": 0, "0": 0, "keep": 1, "1": 1, "recompute": 2, "2": 2}

_DECIMAL_COMMA = re.compile(r"^(-?\d*),(\d[^,.]*)$")
# Ambiguous numbers: 1.024 and 1,024 can be decimals, or 1024 with a thousands separator.
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}(?![\d.,eE])")

SYNONYMS = {
    **dict.fromkeys(("nbytes", "footprint", "bytesize"), "memory"),
    **dict.fromkeys(("duration", "latency", "runtime", "elapsed", "macs"), "compute"),
}
"""key: word that suggests a column but is not accepted as its name; value: column"""

Known = Mapping[str, tuple[str, ...]]
"""key: column; value: its other names"""


@dataclass(slots=True, eq=False)
class ColumnTable:
    """The stripped cells of each column. Errors name the line of a row (`lines`) or its kind (`noun`) and its name."""

    source: str
    columns: Mapping[str, list[str]]
    lines: list[int] | None = None
    noun: str = "row"
    header: Sequence[str] = ()
    decimal_comma: bool = False
    units: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, str]], source: str, known: Known, noun: str) -> "ColumnTable":
        present = {key for record in records for key in record}
        return cls(
            source,
            {column: [record.get(column, "").strip() for record in records] for column in known if column in present},
            noun=noun,
        )

    def __len__(self) -> int:
        return len(self.lines) if self.lines is not None else max(map(len, self.columns.values()), default=0)

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def line(self, row: int) -> int:
        """Return the line number of a row in the file; 0 without lines."""
        return self.lines[row] if self.lines is not None else 0

    def fail(self, row: int, template: str, **fields: Any) -> NoReturn:
        if self.lines is not None:
            raise fault(self.source, template, self.lines[row], **fields)
        ends = " -> ".join(quoted(self.columns[c][row]) for c in ("src", "dst") if c in self)
        raise fault(self.source, template, where=f"{self.noun} {ends or quoted(self._name(row))}", **fields)

    def texts(self, column: str) -> list[str]:
        """Return the cells of a column; all are "" if the column is missing."""
        return self.columns.get(column) or [""] * len(self)

    def flags(self, column: str) -> list[bool | None]:
        """Parse a column of flags (0, 1 or words); empty cells become None."""
        return self._looked_up(column, FLAGS, "write 0 or 1")

    def marks(self) -> list[int]:
        """Parse the column of marks, "keep" and "recompute", to their numbers."""
        return self._looked_up("mark", MARKS, "write keep, recompute or nothing")

    def numbers(self, column: str, default: Any = None) -> list[Any]:
        """Parse a column of whole numbers and decimals; empty cells get the default."""
        return self._numbers(column, default, cost_of)

    def sizes(self, column: str, default: Any = None) -> list[Any]:
        """Parse a column of bytes with optional units; empty cells get the default."""
        return self._numbers(column, default, size_of)

    def _looked_up(self, column: str, meanings: Mapping[str, Any], remedy: str) -> list[Any]:
        if column not in self.columns:
            return [meanings[""]] * len(self)
        results = [meanings.get(text.lower(), meanings) for text in self.columns[column]]
        if meanings in results:
            row = results.index(meanings)
            what = "{column} of {name!r} is {cell!r}; {remedy!w}"
            self.fail(row, what, column=column, name=self._name(row), cell=self.columns[column][row], remedy=remedy)
        return results

    def _numbers(self, column: str, default: Any, read: Reading) -> list[Any]:
        if column not in self.columns:
            return [default] * len(self)
        texts = self.columns[column]
        if self.decimal_comma:
            self._check_thousands(column, texts)
            texts = [_DECIMAL_COMMA.sub(r"\1.\2", text) for text in texts]
        if read is size_of and column in self.units:
            texts = [with_unit(text, self.units[column]) for text in texts]
        joined = "".join(texts)
        try:
            # int() would accept underscores, and digits outside ASCII.
            if "_" in joined or not joined.isascii():
                raise ValueError
            return [int(text) if text else default for text in texts]
        # Some cells have decimals or units: parse each.
        except ValueError:
            return [self._number(row, column, text, default, read) for row, text in enumerate(texts)]

    def _check_thousands(self, column: str, texts: Sequence[str]) -> None:
        """Raise GraphError for 1.024 or 1,024 in a table with decimal commas: both may mean 1024, or about 1."""
        for row, text in enumerate(texts):
            if _THOUSANDS.match(text):
                self.fail(
                    row,
                    "{column} of {name!r} is {cell!r}, which is ambiguous; write {whole}, or {decimal} for the decimal",
                    column=column,
                    name=self._name(row),
                    cell=text,
                    whole=re.sub("[.,]", "", text),
                    decimal=re.sub(r"([.,][0-9]+)", r"\g<1>0", text, count=1),
                )

    def _number(self, row: int, column: str, text: str, default: Any, read: Reading) -> Any:
        if not text:
            return default
        try:
            return read(text)
        except ValueError as error:
            self.fail(row, "{column} of {name!r}: {error!w}", column=column, name=self._name(row), error=error)

    def _name(self, row: int) -> str:
        cells = (self.columns[c][row] for c in ("name", "id", "node", "dst") if c in self)
        return next(filter(None, cells), "")


def aliases(known: Known) -> dict[str, str]:
    return {alias: column for column, others in known.items() for alias in (column, *others)}


def fault(source: str, template: str, line: int = 0, where: str = "", **fields: Any) -> GraphError:
    """Return a GraphError about a file; its message contains the line or another location."""
    if line:
        return GraphError("{source!p}, line {line}: " + template, source=source, line=line, **fields)
    if where:
        return GraphError("{source!p}, {where!w}: " + template, source=source, where=where, **fields)
    return GraphError("{source!p}: " + template, source=source, **fields)


@contextlib.contextmanager
def faults_as(kind: type[RematError]) -> Iterator[None]:
    """Convert each GraphError to an error of the class `kind`."""
    try:
        yield
    except GraphError as error:
        raise kind(error.template, **error.fields) from error


def warn_ignored(source: str, names: Iterable[str], what: str = "columns") -> None:
    ignored = list(dict.fromkeys(names))
    if ignored:
        warn("{source!p}: ignored {what} {ignored!l}", source=source, what=what, ignored=ignored)


def meanings(source: str, names: Iterable[str], known: Known, what: str, **place: Any) -> dict[str, Meaning | None]:
    """Return the meaning of each name, or None if it is unknown; `place` is the location for a GraphError."""
    column_of = aliases(known)
    by_name: dict[str, Meaning | None] = {}
    for name in names:
        try:
            by_name[name] = meaning_of(name, column_of)
        except ValueError as error:
            raise fault(source, "{what} `{name}`: {error!w}", **place, what=what, name=name, error=error) from error
    return by_name


def check_unknown(
    source: str,
    unknown: Iterable[str],
    known: Known,
    present: Container[str | None],
    elsewhere: Mapping[str, Mapping[str, str]],
    what: str,
    line: int = 0,
    where: str = "",
) -> None:
    """Raise GraphError for an unknown name that is misspelt, or that `elsewhere` maps to another table."""
    for name in unknown:
        for owner, column_of in elsewhere.items():
            if meaning_of(name, column_of) is not None:
                misplaced = "{what} `{name}` belongs to {owner!p}; give it there, or remove it"
                raise fault(source, misplaced, line, where, what=what, name=name, owner=owner)
    names = {
        name: column
        for column, others in known.items()
        # A table needs only one of `id` and `name`.
        if column not in present and not (column == "id" and "name" in present)
        for name in (column, *others)
    }
    for given_name in unknown:
        near = next((name for word in _spellings(given_name) for name in names if _near(word, name)), None)
        if near is not None:
            misspelt = "{what} `{given_name}` is not known; did you mean `{near}`? Rename it, or remove it"
            raise fault(source, misspelt, line, where, what=what, given_name=given_name, near=near)


def _near(word: str, name: str) -> bool:
    """Return True if a word is probably a misspelt name, or is a synonym of the name."""
    allowed = 2 if min(len(name), len(word)) > 5 else 1 if len(name) > 3 else 0
    return SYNONYMS.get(word.lower()) == name or 0 < _distance(word, name, allowed) <= allowed


def _distance(a: str, b: str, limit: int) -> int:
    """Return the edit distance of two words, with swaps of adjacent letters; exact only up to `limit`."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before, row = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        last, before, row = before, row, [i]
        for j, other in enumerate(b, start=1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and (letter, a[i - 2]) == (b[j - 2], other):
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]
