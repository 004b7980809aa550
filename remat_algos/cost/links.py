"""Links between a device and its host: rates each way, latency, host memory, share of the rates that plans use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import checked_arguments
from remat_algos.cost import tuning
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int64, brief, by_fields, frozen
from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.text.amounts import parse_bytes

MAX_RATE = 1e30  # keeps sums finite
PER_SECOND = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}
"""Units of costs that are times, and the number of units per second."""
_KEYS = ("out", "into", "latency", "host", "name", "source", "share")
_RATE = re.compile(r"\s*(.*?)\s*/\s*s\s*")


class LinkTimes(NamedTuple("_Times", [("out_time", Int64), ("in_time", Int64)])):
    """The times to copy each value out and back in, int64[n_values], in units of compute; they include latency."""

    __slots__ = ()

    def __new__(cls, out_time: ArrayLike, in_time: ArrayLike) -> "LinkTimes":
        return super().__new__(cls, frozen(out_time, np.int64), frozen(in_time, np.int64))

    def divisor(self, graph: ComputationGraph) -> int:
        """Return the greatest common divisor of all costs and copy times, which divides the time of every plan."""
        return max(1, int(np.gcd.reduce(np.concatenate([graph.compute, *self]), initial=0)))

    def leaving(self, graph: ComputationGraph) -> Bool:
        """Mark values that a copy to the host can free, bool[n_values]. Raise ArgumentError if the times do not fit."""
        for times in self:
            if times.shape != (graph.n_values,) or (times < 0).any():
                raise ArgumentError(
                    "link times have the shape {shape}; give a time of 0 or more for each value", shape=times.shape
                )
        return graph.needed[graph.producer] & ~graph.output & (graph.memory > 0)


@dataclass(frozen=True, slots=True)
class Link:
    """Rates of copies between a device and its host, and the host memory that plans may use.

    Parameters
    ----------
    out : float
        Bytes per second of a store, from the device to the host.
    into : float
        Bytes per second of a load, from the host to the device.
    latency : float, optional
        Seconds that each copy takes in addition to moving its bytes; the default of 10 us is an assumption.
    host : int, optional
        Bytes of host memory that stored values may take; unlimited by default.
    name : str, optional
    source : str, optional
        Where the numbers come from.
    share : float or str, optional
        Share of the rates that plans use, above 0 and at most 1, such as 0.95 or "95%"; 0.9 by default. The time of a
        plan and its lower bound are computed for this share (`planned`).

    Raises
    ------
    GraphError
        If a number is impossible.

    Examples
    --------
    >>> link = Link(out=25e9, into=20e9, latency=0)
    >>> link.out / link.into
    1.25
    """

    out: float
    into: float
    latency: float = tuning.LATENCY
    host: int | None = None
    name: str = ""
    source: str = ""
    share: float = tuning.PLANNED_SHARE

    __repr__ = brief
    __reduce__ = by_fields

    def __str__(self) -> str:
        out, into = (f"{rate / 1e9:.6g} GB/s" for rate in (self.out, self.into))
        rates = f"{out} each way" if self.out == self.into else f"{out} out, {into} in"
        rates += f", planned at {100 * self.share:g} %" if self.share < 1 else ""
        return f"{self.name} ({rates})" if self.name and "/" not in self.name else f"a link of {rates}"

    def __post_init__(self) -> None:
        for key in ("name", "source"):
            if not isinstance(getattr(self, key), str):
                raise GraphError('"{key!w}" of a link is {entry!r}; give a string', key=key, entry=getattr(self, key))
        object.__setattr__(self, "out", self._checked("out", "bytes/s, a number above 0"))
        object.__setattr__(self, "into", self._checked("into", "bytes/s, a number above 0"))
        object.__setattr__(self, "latency", self._checked("latency", "seconds, a number, 0 or more", or_zero=True))
        if self.host is not None:
            whole = isinstance(self.host, Integral) and not isinstance(self.host, bool)
            if not whole or not 0 < self.host < 2**63:
                raise self._wrong("host", "give a whole number of bytes above 0, or leave it out")
            object.__setattr__(self, "host", int(self.host))
        object.__setattr__(self, "share", planned_share(self.share))

    def _wrong(self, what: str, remedy: str) -> GraphError:
        entry = getattr(self, what)
        template = '"{what!w}" of the link' + (" {name!r}" if self.name else "")
        template += " is " + ("missing" if entry is None else "{entry!r}") + "; " + remedy
        return GraphError(template, what=what, name=self.name, entry=entry)

    def _checked(self, what: str, expected: str, *, or_zero: bool = False) -> float:
        number = getattr(self, what)
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not 0 <= number < MAX_RATE or (number == 0 and not or_zero):
            raise self._wrong(what, f"give {expected}")
        return float(number)

    @classmethod
    def of(cls, link: "Link | str | Mapping[str, Any]", share: float | str | None = None) -> "Link":
        """Return a link from the table, a link with given rates, or the link in a record.

        Parameters
        ----------
        link : Link, str or mapping
            A name from the table, such as "pcie5"; case, blanks and hyphens are ignored. Or rates: "50GB/s" for both
            directions, "50GB/s,25GB/s" for stores and loads. Or a `record`; its rates and `host` may also be strings.
        share : float or str, optional
            Share of the rates that plans use, instead of the link's own.

        Raises
        ------
        GraphError
            If `link` is anything else, or a number is impossible.

        Examples
        --------
        >>> Link.of("PCIe 5").out, Link.of("50GB/s, 25GB/s").into
        (50000000000.0, 25000000000.0)
        """
        if share is not None:
            return replace(cls.of(link), share=planned_share(share))
        if isinstance(link, Link):
            return link
        if isinstance(link, Mapping):
            return _of_record(link)
        if not isinstance(link, str):
            raise GraphError("link is {link!r}; give {forms!w}", link=link, forms=FORMS)
        named = next((known for name, known in LINKS.items() if plain_name(name) == plain_name(link)), None)
        if named is not None:
            return named
        if "/" not in link:
            raise GraphError("unknown link {link!r}; give {forms!w}", link=link, forms=FORMS)
        rates = [_rate(part, link) for part in link.split(",")]
        if len(rates) > 2:
            raise GraphError(
                "{link!r} has {n_rates} rates; give one, or two (store, load)", link=link, n_rates=len(rates)
            )
        return cls(rates[0], rates[-1], name=link.strip())

    @checked_arguments
    def times(self, graph: ComputationGraph, down: bool = False) -> LinkTimes:
        """Return the time to copy each value out and in, in the compute unit of a graph.

        Parameters
        ----------
        graph : ComputationGraph
            Its costs are times.
        down : bool, optional
            Round down, as lower bounds require.

        Returns
        -------
        out_time, in_time : int64[n_values]
            Time of a store and of a load: latency + bytes / rate, computed exactly and then rounded up; 0 for values
            of 0 bytes, which are never copied.

        Raises
        ------
        GraphError
            If the costs of the graph are not times, or the sum of the copies is 2**53 units or more.

        See Also
        --------
        refined : The graph with a unit of cost so fine that no time is rounded.

        Examples
        --------
        >>> from remat_algos.ir.graph import ComputationGraph
        >>> from remat_algos.ir.parts import Labels
        >>> labels = Labels(compute_unit="us")
        >>> graph = ComputationGraph.from_edges([(0, 1)], memory=[2 * 10**6, 0], labels=labels)
        >>> out_time, in_time = Link(out=1e9, into=2e9, latency=1e-5).times(graph)
        >>> out_time.tolist(), in_time.tolist()
        ([2010, 0], [1010, 0])
        """
        per_second = units_per_second(graph)

        def both() -> LinkTimes:
            return LinkTimes(*(self._times(graph.memory, rate, per_second, down) for rate in (self.out, self.into)))

        times: LinkTimes = derived(graph, f"times over {self.figures[:3]}, {down}", both)
        return times

    @checked_arguments
    def refined(self, graph: ComputationGraph) -> ComputationGraph:
        """Return the graph with costs in ticks; its copy times are exact to 1e-9 of the shortest copy or cost."""
        return graph.refined(self.ticks(graph))

    @checked_arguments
    def ticks(self, graph: ComputationGraph) -> int:
        """Return the number of ticks per unit of a graph's costs for which every copy takes a whole number of ticks.

        If the total of all costs and copy times would reach 2**53 ticks, return a power of ten instead; `times` then
        rounds. It is the smallest power for which the shortest cost or copy takes at least 1e9 ticks. If the total
        would still reach 2**53 ticks, it is the largest power that keeps the total below this limit.

        Raises
        ------
        GraphError
            In the same cases as `times`.

        Examples
        --------
        >>> from remat_algos.ir.graph import ComputationGraph
        >>> from remat_algos.ir.parts import Labels
        >>> graph = ComputationGraph.from_edges([(0, 1)], memory=[10**6, 0], labels=Labels(compute_unit="ms"))
        >>> link = Link(out=50e9, into=50e9, latency=1e-5)
        >>> link.ticks(graph), link.times(link.refined(graph))[0].tolist()
        (100, [3, 0])
        """
        per_unit: int = derived(graph, f"ticks over {self.figures[:3]}", lambda: self._ticks(graph))
        return per_unit

    def _ticks(self, graph: ComputationGraph) -> int:
        total = int(graph.compute.sum()) + sum(int(each.sum()) for each in self.times(graph))
        most, exact, shortest = (LARGEST_SUM - 1) // max(1, total), 1, Fraction(LARGEST_SUM)
        sizes = np.unique(graph.memory[graph.memory > 0]).tolist()
        for rate in {self.out, self.into}:
            first, each, whole = self._line(rate, units_per_second(graph))
            for size in sizes:
                exact = lcm(exact, whole // gcd(whole, first + each * size))
                if exact > most:
                    break
            if sizes:
                shortest = min(shortest, Fraction(first + each * sizes[0], whole))
        if exact <= most:
            return exact
        ticks, shortest = 1, min(shortest, Fraction(int(graph.compute[graph.compute > 0].min(initial=LARGEST_SUM))))
        while ticks * shortest < tuning.FINE and 10 * ticks <= most:
            ticks *= 10
        return ticks

    def _line(self, rate: float, per_second: int) -> tuple[int, int, int]:
        """Return (a, b, c) such that a copy of x bytes takes (a + b x) / c units."""
        start, byte = _exact(self.latency) * per_second, per_second / _exact(rate)
        whole = start.denominator * byte.denominator
        return start.numerator * byte.denominator, byte.numerator * start.denominator, whole

    def _times(self, memory: Int64, rate: float, per_second: int, down: bool) -> Int64:
        """Return copy times computed in integers: in floats 20 may become 20.000000000000004, which rounds up to 21."""
        first, each, whole = self._line(rate, per_second)
        first += 0 if down else whole - 1
        if max(first + each * int(memory.max(initial=0)), whole) < 2**63:
            rounded = np.where(memory > 0, (first + each * memory) // whole, 0)
        else:
            sizes, place = np.unique(memory, return_inverse=True)
            times = [min((first + each * size) // whole, LARGEST_SUM) if size else 0 for size in sizes.tolist()]
            rounded = np.array(times, np.int64)[place.reshape(-1)]
        if rounded.sum(dtype=np.float64) >= LARGEST_SUM:
            raise GraphError(
                "copies at {rate:g} bytes/s take 2**53 units of compute or more; give a faster link, or costs in "
                "a coarser unit",
                rate=rate,
            )
        return frozen(rounded, np.int64)

    @property
    def planned(self) -> "Link":
        """The link at `share` of its rates; plans, their times and their bounds use this link.

        Examples
        --------
        >>> Link.of("pcie5").planned.out, Link.of("pcie5", share=1).planned.out
        (45000000000.0, 50000000000.0)
        """
        return self if self.share == 1 else self.at(self.share)

    def at(self, share: float) -> "Link":
        """Return a link with this share of the rates; the `share` of the new link is 1, so plans use its full rates."""
        share = planned_share(share)
        out, into = (float(_exact(rate) * _exact(share)) for rate in (self.out, self.into))
        name = f"{100 * share:g} % of {self.name}" if self.name and "/" not in self.name else ""
        return replace(self, out=out, into=into, share=1.0, name=name)

    @property
    def figures(self) -> tuple[float, float, float, int | None, float]:
        """All fields on which a plan depends: out, into, latency, host, share."""
        return self.out, self.into, self.latency, self.host, self.share

    def record(self) -> dict[str, Any]:
        """Return the link as a dict for JSON; `Link.of` accepts this dict."""
        return {key: getattr(self, key) for key in _KEYS}


def in_units(ticks: int, per_unit: int) -> int | float:
    """Convert ticks to units of `per_unit` ticks: a whole number, or a float from which the ticks can be recovered."""
    whole, rest = divmod(ticks, per_unit)
    return ticks / per_unit if rest else whole


def units_per_second(graph: ComputationGraph) -> int:
    """Return the number of units of a graph's costs per second; raise GraphError if the costs are not times."""
    unit = graph.labels.compute_unit
    if unit not in PER_SECOND:
        unit_text = "in {unit!r}" if unit else "without a unit"
        raise GraphError(
            "a link needs costs that are times, but those of this graph are "
            + unit_text
            + "; give costs in {known!l}: use a model with cost=roofline&device=a100-80gb or cost=measured, or "
            'capture it with device="a100-80gb" or a cost function in ns',
            unit=unit,
            known=list(PER_SECOND),
        )
    return PER_SECOND[unit] * graph.labels.compute_scale


def _exact(number: float) -> Fraction:
    """Return the decimal that a float prints as: 1e-5 is 1/100000, although its binary value is slightly larger."""
    return Fraction(repr(number))


def plain_name(name: str) -> str:
    """Return a name in lower case, with blanks, hyphens and underscores removed, for comparison."""
    return name.lower().translate(str.maketrans("", "", " -_"))


def _rate(text: str, whole: str) -> int:
    match = _RATE.fullmatch(text)
    if match is None:
        raise GraphError("{whole!r} is not a rate; give {forms!w}", whole=whole, forms=FORMS)
    if match[1].endswith("b"):
        raise GraphError("{whole!r} looks like bits per second; write bytes: 50GB/s", whole=whole)
    try:
        return parse_bytes(match[1])
    except ValueError as error:
        raise GraphError("{whole!r} is not a rate; give {forms!w}", whole=whole, forms=FORMS) from error


def _of_record(record: Mapping[str, Any]) -> Link:
    fields = {key: record[key] for key in _KEYS if key in record}
    for key in ("out", "into"):
        fields[key] = _rate(fields[key], fields[key]) if isinstance(fields.get(key), str) else fields.get(key)
    if isinstance(fields.get("host"), str):
        fields["host"] = host_limit(fields["host"])
    return Link(**fields)


def planned_share(share: float | str) -> float:
    """Convert a share such as 0.9 or "90%" to a float above 0 and at most 1; raise GraphError for anything else."""
    number = share
    if isinstance(share, str):
        text, sign, rest = share.strip().partition("%")
        try:
            number = float("nan") if rest else float(Fraction(text.strip()) / (100 if sign else 1))
        except (ValueError, ZeroDivisionError, OverflowError):
            number = float("nan")
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 < number <= 1:
        raise GraphError(
            '"share" of the link is {share!r}; give more than 0% and at most 100%, such as 90%', share=share
        )
    return float(number)


def host_limit(text: str) -> int:
    """Parse a limit of host memory in bytes; raise GraphError if it is not a size above 0."""
    try:
        amount = parse_bytes(text)
    except ValueError as error:
        raise GraphError('"host" of the link: {error!w}', error=error) from error
    if amount == 0:
        raise GraphError('"host" of the link is {text!r}; give bytes above 0, or leave it out', text=text)
    return amount


# Columns: name, GB/s each way, and the source. Rates of PCI Express are the rates that copies from and to pinned memory
# reach. These are about 80 % of the 31.5 and 63.0 GB/s of 16 lanes, since packets contain headers. The rate of
# NVLink-C2C is from the data sheet; copies are slower.
_TABLE = """
pcie4       25 PCI-SIG, PCI Express Base Specification 4.0, 2017, 16 lanes: 80 % of 31.5 GB/s
pcie5       50 PCI-SIG, PCI Express Base Specification 5.0, 2019, 16 lanes: 80 % of 63.0 GB/s
nvlink-c2c 450 NVIDIA, GH200 Grace Hopper Superchip (data sheet), 2023: half of 900 GB/s both ways
"""


def _of_row(row: str) -> Link:
    name, rate, source = row.split(maxsplit=2)
    return Link(float(rate) * 1e9, float(rate) * 1e9, name=name, source=source)


LINKS = {link.name: link for link in map(_of_row, _TABLE.strip().splitlines())}
FORMS = f"{', '.join(LINKS)}, a rate such as 50GB/s, or two such as 50GB/s,25GB/s (store, load)"
