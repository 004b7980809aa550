"""Text for messages and reports: counts with nouns, lists, quoted names, wrapped lines, tables."""

import json
import pickle
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate
from numbers import Number
from typing import Any

LONGEST_NAME = 40  # characters of a shortened name
LONGEST_PATH = 200  # characters of a path
LONGEST_ENTRY = 80  # characters of a JSON entry
LARGEST_WRITTEN = 10**40  # larger ones lose middle digits
LONGEST_TYPED = 1000  # characters of a typed name
MAX_LISTED = 40  # names in a list
LONGEST_LIST = 400  # characters
LONGEST_COMPARED = 200  # longer names get no suggestion
LONGEST_CYCLE = 20  # names in a shown path
ROUNDS_UP = 999.5  # rounds to 1000
LETTERS = "kMGTPE"
_LAYOUT = re.compile(r"\n +")


def counted(number: int, noun: str) -> str:
    """Return a count with its noun: "1 node", "1,200 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_bytes(amount: int) -> str:
    """Return bytes in a binary unit with three digits: "1.99 GiB", "1023 B"."""
    if abs(amount) < 1024:
        return f"{amount} B"
    power = 1
    while power < len(LETTERS) and abs(amount) >= ROUNDS_UP * 1024**power:
        power += 1
    return f"{three_digits(amount / 1024**power)} {LETTERS[power - 1].upper()}iB"


def exact_bytes(amount: int) -> str:
    """Return bytes in a binary unit, followed by all digits: "1.99 GiB (2,132,279,296 bytes)"."""
    return f"{format_bytes(amount)} ({amount:,} bytes)" if amount >= 1024 else format_bytes(amount)


def three_digits(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def listed(names: Sequence[str], limit: int = MAX_LISTED, total: int | None = None) -> str:
    """Return the first names and the number of the others, out of `total` if it is set: "a and 1,999 more"."""
    shown = names[:limit]
    more = (len(names) if total is None else total) - len(shown)
    return ", ".join(map(shortened, shown)) + (f" and {more:,} more" if more > 0 else "")


def comma_separated(text: object) -> list[str]:
    """Return the words of an option, which is a string with commas or several such strings; [] for other types."""
    if not isinstance(text, str | Iterable) or getattr(text, "shape", None) == ():
        return []
    texts = [text] if isinstance(text, str) else map(str, text)
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def printable(text: str) -> str:
    """Return text on one line; unprintable characters are escaped, and a line break with its indent becomes a space."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in _LAYOUT.sub(" ", text))


def spelled(value: object, spell: Callable[[Any], str] = str) -> str:
    """Return a value as text, or its type such as "<int>" if it has too many digits or printing fails."""
    try:
        return spell(value)
    except Exception:
        return f"<{type(value).__name__}>"


def shortened(name: object, limit: int = LONGEST_NAME) -> str:
    """Return a name for a message: printable, and of at most `limit` characters; longer names lose their middle."""
    text = spelled(name)
    # Cut before escaping, since escaping only lengthens the text.
    if len(text) > 2 * limit:
        text = f"{text[:limit]}…{text[-limit:]}"
    text = printable(text)
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"


def quoted(value: object, limit: int = LONGEST_NAME) -> str:
    """Return the repr of a value for a message: printable, and of at most `limit` characters."""
    return shortened(spelled(value, repr), limit)


def typed(name: str) -> str:
    """Return a name in double quotes that users can copy from a message: complete up to 1,000 characters."""
    return shortened(json.dumps(name, ensure_ascii=False), LONGEST_TYPED)


def shortened_path(path: object) -> str:
    """Return a path for a message: printable, and of at most 200 characters."""
    return shortened(path, LONGEST_PATH)


def first_line(error: BaseException) -> str:
    """Return the message of another library's error: its first line without a final period, at most 200 characters."""
    lines = spelled(error).strip().splitlines()
    return shortened(lines[0].rstrip("."), LONGEST_PATH) if lines else type(error).__name__


def install_command(extra: str) -> str:
    """Return the command that installs an extra from a checkout. The package itself is not on a package index."""
    return f"python -m pip install -e '.[{extra}]'"


def one_line(subject: object, *facts: str) -> str:
    """Return the repr of one of our objects: "<list: 2 entries, sum 7>"."""
    return f"<{type(subject).__name__}: {printable(', '.join(filter(None, facts)))}>"


def did_you_mean(name: object, known: Iterable[str], limit: int = 2, cutoff: float = 0.6) -> str:
    """Return the end of a message about an unknown name: "; did you mean conv1?", or "" if no known name is similar."""
    text = spelled(name).lower()
    if len(text) > LONGEST_COMPARED:
        return ""
    by_spelling = {each.lower(): each for each in known}
    near = [
        shortened(by_spelling[match], LONGEST_TYPED) for match in get_close_matches(text, by_spelling, limit, cutoff)
    ]
    return f"; did you mean {' or '.join(near)}?" if near else ""


class _Filling(string.Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion is not None:
            return SHOWN[conversion](value)
        known = isinstance(value, Number) and (not isinstance(value, int) or abs(value) < LARGEST_WRITTEN)
        return value if known else shortened(value)

    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, str):  # shortened by `convert_field`
            return value
        return counted(value, spec) if len(spec) > 1 and spec.replace(" ", "").isalpha() else format(value, spec)


def _list(names: Sequence[str]) -> str:
    ends = accumulate(len(shortened(name)) + len(", ") for name in names[:MAX_LISTED])
    return listed(names, max(1, sum(end <= LONGEST_LIST for end in ends)))


def _path(names: Sequence[str]) -> str:
    shown = [shortened(name) for name in names]
    if len(shown) > LONGEST_CYCLE:
        shown[LONGEST_CYCLE // 2 : -LONGEST_CYCLE // 2] = ["..."]
    return " -> ".join(shown)


def _listed_sizes(sizes: Mapping[str, int]) -> str:
    return listed([f"{name} ({format_bytes(size)})" for name, size in sizes.items()])


SHOWN: dict[str, Callable[[Any], str]] = {
    "r": quoted,
    "p": shortened_path,
    "t": typed,
    "e": first_line,
    "l": _list,
    "w": lambda text: shortened(text, LONGEST_TYPED),
    "j": lambda entry: shortened(spelled(entry, json.dumps), LONGEST_ENTRY),
    "b": lambda size: shortened(spelled(size, format_bytes)),
    "B": lambda size: shortened(spelled(size, exact_bytes), LONGEST_TYPED),
    "f": lambda names: listed(names, 3),
    "c": _path,
    "m": lambda sizes: spelled(sizes, _listed_sizes),
}
"""Conversions of fields, by the letter after `!`."""


def sentence(template: str, fields: Mapping[str, Any]) -> str:
    """Fill in a template; fields are made printable and shortened to 40 characters unless a conversion says otherwise.

    `{x!r}` is a repr, `{x!p}` a path of up to 200 characters, `{x!t}` a quoted name to copy, `{x!e}` the first line of
    an error. `{x!l}` is a list of names of up to 400 characters, `{x!f}` its first three names, `{x!c}` names along a
    path. `{x!w}` is text of this package (up to 1,000 characters), `{x!j}` JSON (up to 80). `{x!b}` is bytes in three
    digits, `{x!B}` bytes with all digits, `{x!m}` a mapping of names to bytes. `{x:node}` is a count with its noun, "3
    nodes". A template with a stray brace or an unknown field is returned unchanged.
    """
    try:
        named = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError:
        return template
    return _Filling().vformat(template, (), fields) if fields and named <= fields.keys() else template


def sendable(value: object) -> object:
    """Return the value, or its text if it cannot be pickled."""
    try:
        pickle.dumps(value)
    except Exception:
        return spelled(value)
    return value


COLUMNS = 80  # default width of text
GAP = "  "
# Parts at which a long word may be broken: the options of `model:NAME?a=1&b=2`.
WORD = re.compile(r"[^&?]*[&?](?=\w)|.+")
# Cells that count as numbers.
AMOUNT = re.compile(r"(-?[0-9][0-9.,]*( ?(%|[KMGTPE]?i?B|[kMGTPE]|[kMGTPE]?FLOP|[nmu]?s))?)?")


def wrapped(text: str, width: int = COLUMNS, *, first: str = "", indent: str = "", options: bool = False) -> list[str]:
    """Return lines of at most `width` characters, broken between words; `options` also breaks after `?` and `&`."""
    lines, line, begun = [], printable(first), False
    for word in printable(text).split(" "):
        parts = WORD.findall(word) if options and len(word) > width else [word]
        for gap, part in zip((" ", *[""] * len(parts)), parts, strict=False):
            if begun and len(line) + len(gap) + len(part) > width:
                lines.append(line.rstrip())
                line, begun = indent, False
            line, begun = f"{line}{gap}{part}" if begun else line + part, begun or bool(part)
    return [*lines, line.rstrip()]


def folded(text: str, width: int = COLUMNS) -> list[str]:
    """Split text into lines, and wrap each at the width. Continuation lines are indented."""
    lines = []
    for line in text.split("\n"):
        begin = " " * (len(line) - len(line.lstrip(" ")))
        lines += wrapped(line.lstrip(" "), width, first=begin, indent=f"{begin}    ")
    return lines


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Return lines of names and their common reason, "a, b: too large"; names without a reason are left out."""
    return [
        f"{', '.join(shortened(name) for name in reasons if reasons[name] == reason)}: {reason}"
        for reason in dict.fromkeys(reasons.values())
        if reason
    ]


def _narrowest(word: str, limit: int) -> int:
    """Return the minimum width of a word in a table; a word longer than `limit` may be broken after `?` and `&`."""
    return len(word) if len(word) <= limit else max(limit, *map(len, WORD.findall(word)))


def labelled(rows: Iterable[tuple[str, str]], width: int = COLUMNS) -> list[str]:
    """Return lines in two columns: labels, and the text for each label. Long text wraps within its column."""
    rows = [(printable(label), text) for label, text in rows]
    margin = max((len(label) for label, _ in rows), default=0) + 2
    return [
        line for label, text in rows for line in wrapped(text, width, first=label.ljust(margin), indent=" " * margin)
    ]


def tabulated(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = COLUMNS) -> list[str]:
    """Return the lines of a table; columns of numbers are right-aligned.

    In a table that is too wide, headings wrap first, and then cells with text. If that is not enough, the table is
    split into tables below each other, each with the first column.
    """
    columns = [printable(head) for head in columns]
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    numeric = [all(AMOUNT.fullmatch(row[i]) for row in cells) for i in range(len(columns))]
    at_least, widths = [], []
    for i, head in enumerate(columns):
        texts = [row[i] for row in cells]
        longest = max(map(len, texts), default=0)
        words = (_narrowest(word, width // 2) for text in texts for word in text.split())
        word = longest if numeric[i] else max(words, default=0)
        head_word = max(map(len, head.split()), default=0)
        at_least.append(max(head_word, word))
        widths.append(max(longest, len(head)))
    if _line_width(widths) > width:  # wrap headings first
        widths = [max(at_least[i], max((len(row[i]) for row in cells), default=0)) for i in range(len(columns))]
    while _line_width(widths) > width and any(map(int.__gt__, widths, at_least)):
        widest = max(range(len(widths)), key=lambda i: (widths[i] > at_least[i], widths[i]))
        widths[widest] -= 1
    lines: list[str] = []
    for part in _parts(widths, width):
        lines += [""] if lines else []
        lines += _row_lines([columns[i] for i in part], part, widths, numeric, bottom=True)
        for row in cells:
            lines += _row_lines([row[i] for i in part], part, widths, numeric)
    return lines


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table: all, or as many as fit next to the first column."""
    parts = [[0]]
    for i in range(1, len(widths)):
        if len(parts[-1]) > 1 and _line_width([widths[j] for j in (*parts[-1], i)]) > width:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _row_lines(
    row: Sequence[str], part: Sequence[int], widths: Sequence[int], numeric: Sequence[bool], *, bottom: bool = False
) -> list[str]:
    """Return the lines of one row; shorter cells start at the first line, or with `bottom` end at the last line."""
    texts = [wrapped(cell, widths[i], options=True) for cell, i in zip(row, part, strict=True)]
    height = max(map(len, texts))
    lines = []
    for k in range(height):
        line = []
        for text, i in zip(texts, part, strict=True):
            place = k - (height - len(text) if bottom else 0)
            cell = text[place] if 0 <= place < len(text) else ""
            line.append(cell.rjust(widths[i]) if numeric[i] else cell.ljust(widths[i]))
        lines.append(GAP.join(line).rstrip())
    return lines
