"""Devices and links: their tables, files and names; element types and their sizes in bytes."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from remat_algos.cost import tuning
from remat_algos.cost.links import FORMS, MAX_RATE, Link, host_limit, plain_name
from remat_algos.errors import GraphError, extended
from remat_algos.files import json_of, read_text
from remat_algos.ir.arrays import brief
from remat_algos.result import Result, entries
from remat_algos.text.amounts import parse_bytes
from remat_algos.wording import did_you_mean

DTYPES: Mapping[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Element types, and the bytes of one element."""


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element of a type; raise GraphError if the type is not in `DTYPES`."""
    try:
        return DTYPES[dtype]
    except (KeyError, TypeError):  # TypeError: unhashable types
        raise unknown_name("dtype", dtype, DTYPES) from None


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of a contiguous tensor; the shape of a scalar is empty."""
    return math.prod(shape) * element_bytes(dtype)


def unknown_name(what: str, name: object, known: Iterable[str]) -> GraphError:
    """Return the error for an unknown name; it lists similar names first, then all known ones."""
    names = list(known)
    near = did_you_mean(name, names, 3)
    listed = f" (known: {', '.join(names)})" if near else f"; known: {', '.join(names)}"
    return GraphError("unknown {what!w} {name!r}{near!w}{known!w}", what=what, name=name, near=near, known=listed)


FORMAT, VERSION = "remat-device", 1

_KEYS = ("name", "flops", "bandwidth", "launch", "memory")
_MISSING = "; name a device of the table, or a file that `remat calibrate -o FILE` wrote"


@dataclass(frozen=True, slots=True)
class Device(Result):
    """Rates and memory of a device, for roofline costs.

    Parameters
    ----------
    name : str
    flops : mapping of str to float
        FLOP/s of dense matrix products, by element type; float32 is required.
    bandwidth : float
        Bytes per second that the device reads from and writes to its memory.
    launch : float
        Seconds that each operation takes in addition to its computation or memory traffic.
    memory : int
        Bytes.
    source : str
        Where the numbers come from.
    link : Link, optional
        Its link to the host.
    multiprocessors : int, optional
        Number of multiprocessors; each computes one tile of a product at a time.
    tile : int
        Side of a tile, in elements of the result.

    Raises
    ------
    GraphError
        If a number is missing or impossible.

    Examples
    --------
    >>> device = Device("mine", {"float32": 1e12, "float16": 8e12}, bandwidth=5e11, launch=1e-6, memory=2**34)
    >>> device.rate("float16") / device.rate("float32")
    8.0
    """

    name: str
    flops: Mapping[str, float]
    bandwidth: float
    launch: float
    memory: int
    source: str = ""
    link: Link | None = None
    multiprocessors: int | None = None
    tile: int = tuning.TILE

    __repr__ = brief

    def __post_init__(self) -> None:
        for key in ("name", "source"):
            if not isinstance(getattr(self, key), str):
                entry = getattr(self, key)
                raise GraphError('"{key!w}" of a device is ' + _shown(entry) + "; give a string", key=key, entry=entry)
        if not isinstance(self.flops, Mapping) or "float32" not in self.flops:
            raise GraphError(
                '"flops" of {name!r} has no float32; give FLOP/s by type: {{"float32": 1.5e13}}', name=self.name
            )
        for dtype in self.flops:
            element_bytes(dtype)
        rates = {dtype: self._positive(rate, f"flops of {dtype}") for dtype, rate in self.flops.items()}
        object.__setattr__(self, "flops", MappingProxyType(rates))
        object.__setattr__(self, "bandwidth", self._positive(self.bandwidth, "bandwidth"))
        object.__setattr__(self, "launch", self._positive(self.launch, "launch", or_zero=True))
        if not _is_count(self.memory, 2**63):
            raise self._wrong("memory", self.memory, "give a whole number of bytes above 0")
        for key in ("multiprocessors", "tile"):
            number = getattr(self, key)
            # Both are at most 2**20, so that a wave, multiprocessors * tile**2, stays below 2**60.
            if not _is_count(number, 2**20) and not (key == "multiprocessors" and number is None):
                raise self._wrong(key, number, "give a whole number above 0, or leave it out")
        if self.link is not None and not isinstance(self.link, Link):
            raise self._wrong("link", self.link, "give a Link")

    def __hash__(self) -> int:
        return hash((self.name, self.bandwidth, self.launch, self.memory))

    def _positive(self, number: Any, what: str, *, or_zero: bool = False) -> float:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 <= number < MAX_RATE or (number == 0 and not or_zero):
            expected = "a number, 0 or more" if or_zero else "a number above 0"
            raise self._wrong(what, number, f"give {expected}")
        return float(number)

    def _wrong(self, what: str, entry: Any, remedy: str) -> GraphError:
        template = '"{what!w}" of {name!r} is ' + _shown(entry) + "; " + remedy
        return GraphError(template, what=what, name=self.name, entry=entry)

    def rate(self, dtype: str) -> float:
        """Return the FLOP/s for an element type.

        A type without its own rate gets the rate of float32; float8 types get that of float16 if there is one. On GPUs
        the rate of float32 would be too high for float64, so the table contains rates for float64. Raise GraphError if
        the type is unknown.
        """
        element_bytes(dtype)
        wider = "float16" if dtype.startswith("float8") else "float32"
        return next(self.flops[name] for name in (dtype, wider, "float32") if name in self.flops)

    @property
    def wave(self) -> int:
        """Number of result elements that all multiprocessors compute at a time; raise GraphError if it is unknown.

        Examples
        --------
        >>> get_device("A100 80GB").wave == 108 * 64 * 64
        True
        """
        if self.multiprocessors is None:
            raise GraphError(
                'device {name!r} has no "multiprocessors"; add that key to its file, or use cost '
                '"roofline" or "measured"',
                name=self.name,
            )
        return self.multiprocessors * self.tile**2

    def record(self) -> dict[str, Any]:
        """Return the device as a dict, which is the content of a device file."""
        own = "" if self.link is None else "link"
        tiles = "" if self.multiprocessors is None else "multiprocessors tile"
        figures = entries(self, f"name flops bandwidth launch memory source {own} {tiles}")
        return {"format": FORMAT, "version": VERSION, **figures}


def _is_count(number: object, limit: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number < limit


def _shown(entry: object) -> str:
    return "missing" if entry is None else "{entry!r}"


# Columns: name, TFLOP/s by type, GB/s, GiB, number of multiprocessors, and the source at NVIDIA. Rates are those of
# dense matrix products. If a data sheet has only sparse rates, half of the sparse rate is listed. float32 is without
# TF32, and 16-bit types accumulate in float32, as in training. The float64 rate of the GeForce cards, T4 and L4 is 1/32
# or 1/64 of the float32 rate, as the CUDA C++ Programming Guide states for their compute capability. The number of
# multiprocessors is from the white paper of the architecture. On the Titan X, GTX 1080 Ti, K40c, T4 and L4 it is the
# number of cores (3072, 3584, 2880, 2560, 7424) divided by the cores per multiprocessor from the Programming Guide
# (128, 128, 192, 64, 128).
_TYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3", "int8")
_TABLE = """
Titan_X     0.206  6.6     -     -      -      - 336.5  12  24 GTX TITAN X specifications, 2015 (3072 x 2 x 1075 MHz)
GTX_1080_Ti 0.354 11.3     -     -      -      -   484  11  28 GTX 1080 Ti specifications, 2017 (3584 x 2 x 1582 MHz)
RTX_2080_Ti  0.42 13.4  53.8     -      -  215.2   616  11  68 Turing Architecture (white paper), 2018, reference card
K40c         1.43 4.29     -     -      -      -   288  12  15 Tesla K40 (board specification), 2013, base clock
P100          5.3 10.6  21.2     -      -      -   732  16  56 Tesla P100 (data sheet), 2016, for NVLink
V100_16GB     7.8 15.7   125     -      -      -   900  16  80 Tesla V100 (data sheet), 2018, for NVLink
T4          0.253  8.1    65     -      -    130   320  16  40 T4 (product brief), 2019
A100_40GB    19.5 19.5   312   312      -    624  1555  40 108 A100 (data sheet), 2021, SXM
A100_80GB    19.5 19.5   312   312      -    624  2039  80 108 A100 (data sheet), 2021, SXM
RTX_3090    0.556 35.6    71    71      -    284   936  24  82 Ampere GA102 GPU Architecture (white paper), 2021
RTX_4090     1.29 82.6 165.2 165.2  330.3  660.6  1008  24 128 Ada GPU Architecture (white paper), 2023
L4          0.473 30.3   121   121  242.5  242.5   300  24  58 L4 (data sheet), 2023, half of the sparse rates
H100_SXM     66.9 66.9 989.4 989.4 1978.9 1978.9  3350  80 132 H100 Architecture (white paper), 2023, SXM5
H200         66.9 66.9 989.4 989.4 1978.9 1978.9  4800 141 132 H200 (data sheet), 2024, SXM; rates of the H100
"""


def _of_row(row: str) -> Device:
    name, *numbers, source = row.split(maxsplit=len(_TYPES) + 4)
    *rates, bandwidth, gib, multiprocessors = numbers
    flops = {dtype: float(rate) * 1e12 for dtype, rate in zip(_TYPES, rates, strict=True) if rate != "-"}
    if "float8_e4m3" in flops:
        flops["float8_e5m2"] = flops["float8_e4m3"]
    return Device(
        name.replace("_", " "),
        flops,
        float(bandwidth) * 1e9,
        tuning.LAUNCH,
        int(gib) * 2**30,
        f"NVIDIA, {source}",
        multiprocessors=int(multiprocessors),
    )


DEVICES = {device.name: device for device in map(_of_row, _TABLE.strip().splitlines())}


def named_device(name: str) -> Device | None:
    """Return the device of this name in the table, or None. Case, blanks and hyphens in the name are ignored."""
    return next((device for known, device in DEVICES.items() if plain_name(known) == plain_name(name)), None)


def get_device(name_or_path: str | os.PathLike[str]) -> Device:
    """Return a device from the table, by name regardless of case, blanks and hyphens, or from a JSON file."""
    text = os.fspath(name_or_path)
    named = isinstance(name_or_path, str)
    known = named_device(text) if named else None
    if known is not None:
        return known
    if named and not text.endswith(".json") and os.sep not in text and not os.path.isfile(text):
        raise unknown_name("device", text, DEVICES)
    return _read(Path(text))


AnyLink = Link | Device | str | os.PathLike[str] | Mapping[str, Any]


def get_link(link: AnyLink, host: int | str | None = None, share: float | str | None = None) -> Link:
    """Return a link, which is specified by its name, rates or record (see `Link.of`), or by a device or a device file.

    `host` (bytes, "64GiB") and `share` (share of the rates that plans use, "95%") replace the link's own values. Raise
    GraphError if the string is not a link, or the device has none.
    """
    device = link if isinstance(link, Device) else None
    if isinstance(link, os.PathLike) or (isinstance(link, str) and (link.endswith(".json") or os.path.isfile(link))):
        device = _read(Path(link), f"; give {FORMS}, or the file of a device")
    if device is not None and device.link is None:
        raise GraphError(
            'device {name!r} has no link; add the key "link" to its file, measure it by `remat calibrate --backend '
            "cupy`, or give rates, such as 50GB/s",
            name=device.name,
        )
    chosen = device.link if device is not None and device.link is not None else Link.of(link)  # type: ignore[arg-type]
    if host is not None:
        chosen = replace(chosen, host=host_limit(host) if isinstance(host, str) else host)
    return chosen if share is None else Link.of(chosen, share)


def _read(file: Path, remedy: str = _MISSING) -> Device:
    try:
        record = json_of(read_text(file))
    except GraphError as error:
        raise GraphError(error.template + ("" if file.exists() else remedy), **error.fields) from error
    except ValueError as error:
        raise GraphError("{file!p}: {error!w}; is the file whole?", file=file, error=error) from error
    try:
        return _device(record)
    except GraphError as error:
        raise extended(error, "{file!p}: ", file=file) from error


def _device(record: Any) -> Device:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise GraphError('not a device: expected "format": "{wanted!w}"', wanted=FORMAT)
    if isinstance(record.get("version"), bool) or record.get("version") != VERSION:
        raise GraphError(
            "version {found!r} is not supported; this release reads version {version}",
            found=record.get("version"),
            version=VERSION,
        )
    fields: dict[str, Any] = {key: record.get(key) for key in _KEYS}
    if isinstance(fields["memory"], str):
        try:
            fields["memory"] = parse_bytes(fields["memory"])
        except ValueError as error:
            raise GraphError('"memory": {error!w}', error=error) from error
    link = record.get("link")
    tiles = {key: record[key] for key in ("multiprocessors", "tile") if key in record}
    return Device(**fields, source=record.get("source", ""), link=None if link is None else Link.of(link), **tiles)
