"""Bytes as people write them."""

import re
from decimal import ROUND_CEILING, Decimal

from remat_algos.ir.decimals import decimal
from remat_algos.ir.wording import shortened

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("kMGTPE", start=1):
    for _name in {_letter, _letter.upper(), _letter.lower()}:
        _UNITS[_name] = _UNITS[f"{_name}B"] = _UNITS[f"{_name}b"] = 1000**_power
        _UNITS[f"{_name}i"] = _UNITS[f"{_name}iB"] = _UNITS[f"{_name}ib"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Bytes of "4GiB", "1.5 MB" or "1024"; parts of a byte round up.

    Raises ValueError if the text is no size.

    Examples
    --------
    >>> parse_bytes("4GiB"), parse_bytes("1.5 kB")
    (4294967296, 1500)
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{shortened(text)!r} is no size; write bytes, or a number with a unit such as 4GiB or 512MB")
    amount = Decimal(decimal(match[1])) * _UNITS[match[2]]
    if amount >= 2**63:
        raise ValueError(f"{shortened(text)!r} is 2**63 bytes or more; give a smaller size")
    return int(amount.to_integral_value(ROUND_CEILING))


def format_bytes(amount: int) -> str:
    """Bytes in powers of 1000, for reading.

    Examples
    --------
    >>> format_bytes(2132279296), format_bytes(999)
    ('2.13 GB', '999 B')
    """
    for power, letter in zip(range(6, 0, -1), "EPTGMk", strict=True):
        unit = 1000**power
        if abs(amount) >= unit:
            scaled = amount / unit
            return f"{scaled:.0f} {letter}B" if abs(scaled) >= 100 else f"{scaled:.3g} {letter}B"
    return f"{amount} B"


def exact_bytes(amount: int) -> str:
    """The same, with all digits behind it.

    Examples
    --------
    >>> exact_bytes(2132279296), exact_bytes(999)
    ('2.13 GB (2,132,279,296 bytes)', '999 B')
    """
    return f"{format_bytes(amount)} ({amount:,} bytes)" if amount >= 1000 else format_bytes(amount)
