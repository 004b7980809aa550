"""Bytes, compute and shares as people write and read them."""

import re
from decimal import ROUND_CEILING, Decimal

from remat_algos.errors import ArgumentError
from remat_algos.text.decimals import decimal
from remat_algos.wording import LETTERS, ROUNDS_UP, three_digits

UNSCALED = 100_000
_TIMES = ("ns", "us", "ms", "s")
_SCALED = {"FLOPs": "FLOP", "FLOP": "FLOP", "flops": "FLOP", "MACs": "MAC", "MAC": "MAC"}
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate(LETTERS, start=1):
    for _name in {_letter, _letter.upper(), _letter.lower()}:
        _UNITS[_name] = _UNITS[f"{_name}B"] = _UNITS[f"{_name}b"] = 1000**_power
        _UNITS[f"{_name}i"] = _UNITS[f"{_name}iB"] = _UNITS[f"{_name}ib"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Bytes of "4GiB", "1.5 MB" or "1024"; parts of a byte round up.

    Raises ValueError if the text is not a size.

    Examples
    --------
    >>> parse_bytes("4GiB"), parse_bytes("1.5 kB")
    (4294967296, 1500)
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise no_size(text)
    amount = Decimal(decimal(match[1])) * _UNITS[match[2]]
    if amount >= 2**63:
        raise ArgumentError("{text!r} is 2**63 bytes or more; give a smaller size", text=text)
    return int(amount.to_integral_value(ROUND_CEILING))


def no_size(entry: object) -> ValueError:
    """Return the error for an entry that is not a size."""
    return ArgumentError(
        "{entry!r} is not a size; write bytes, or a number with a unit such as 4GiB or 512MB",
        entry=str(entry) if isinstance(entry, str) else entry,  # NumPy's text too
    )


def format_compute(amount: float, unit: str = "") -> str:
    """Compute with its unit, in three digits: times in ns, us, ms or s, others in k, M, G, ... of the unit.

    Amounts below 100,000 stay as they are unless their unit is usually scaled.

    Examples
    --------
    >>> format_compute(2374000000000, "FLOPs"), format_compute(161), format_compute(2400000, "ns")
    ('2.37 TFLOP', '161', '2.4 ms')
    >>> format_compute(2374, "GFLOPs")
    '2.37 TFLOP'
    """
    if unit in _TIMES:
        names = _TIMES[_TIMES.index(unit) :]
    else:
        letters = ("", *LETTERS)
        if unit[:1] in LETTERS and unit[1:] in _SCALED:  # GFLOPs
            letters, unit = letters[letters.index(unit[0]) :], unit[1:]
        name, space = (_SCALED[unit], "") if unit in _SCALED else (unit, " ")
        names = tuple(f"{letter}{space if letter else ''}{name}".rstrip() for letter in letters)
        if unit not in _SCALED and abs(amount) < UNSCALED:
            names = names[:1]
    power = 0
    while power < len(names) - 1 and abs(amount) >= ROUNDS_UP * 1000**power:
        power += 1
    scaled = amount / 1000**power
    shown = f"{scaled:,.0f}" if scaled == int(scaled) else three_digits(scaled)
    return f"{shown} {names[power]}".rstrip()


def format_seconds(seconds: float) -> str:
    """Return a time in ns, us, ms or s, in three digits.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(75)
    ('12.3 ms', '75 s')
    """
    return format_compute(1e9 * seconds, "ns")


def percent(part: float, whole: float) -> str:
    """Percent of the whole.

    Examples
    --------
    >>> percent(64, 97), percent(0, 0)
    ('66.0 %', '0.0 %')
    """
    return f"{100 * part / whole if whole else 0:.1f} %"


def fine_percent(part: float, whole: float) -> str:
    """Percent of the whole, with one digit that is not 0 if it is below 0.1 %.

    Examples
    --------
    >>> fine_percent(64, 97), fine_percent(1, 30_000), fine_percent(0, 5)
    ('66.0 %', '0.003 %', '0 %')
    """
    share = 100 * part / whole if whole else 0
    return f"{share:.1f} %" if abs(share) >= 0.1 else f"{share:.1g} %"
