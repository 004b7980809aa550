"""`Budget`: limits on the memory of a plan and on its overhead."""

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.text.amounts import ABSURD, decimal, parse_bytes

LEAST = "least"
NEAR_LOWEST = f"{LEAST}+0.1%"
"""Framework adapters replace "least" by this budget, since the last 0.1 % of memory can cost a third of the compute."""
_SHARE = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})\s*%\s*")
_NEAR_LOWEST = re.compile(LEAST + r"\s*\+" + _SHARE.pattern)
_BARE_DECIMAL = re.compile(r"\s*[0-9]*\.[0-9]*\s*")
Amount = int | str


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on memory and compute; all specified limits apply.

    Parameters
    ----------
    memory : int or str, optional
        Limit on the peak without inputs, parameters and states: bytes, a string such as "4GiB", or "50%" of the peak
        without rematerialization. "least" is the lowest peak that the solver finds. "least+0.1%" allows 0.1 % more than
        that, within which compute is minimized. With an allocator, the limit is on its reserved bytes.
    overhead : int or str, optional
        Limit on the overhead, the compute in excess of one pass: in the graph's unit, or "30%" of one pass.
    device : int or str, optional
        Limit on the sum of the peak and the resident bytes: bytes or "16GiB".

    Raises
    ------
    TypeError
        If a limit is a float, since 0.5 could mean bytes or a share.
    ValueError
        If a string is invalid.

    Examples
    --------
    >>> Budget(memory="50%").memory_limit(base=101, resident=8)
    50
    >>> Budget(memory=64, device="40").memory_limit(base=101, resident=8)
    32
    """

    memory: Amount | None = None
    overhead: Amount | None = None
    device: Amount | None = None

    def __post_init__(self) -> None:
        for name, example in (("memory", '"50%"'), ("overhead", '"30%"'), ("device", '"16GiB"')):
            amount = getattr(self, name)
            if amount is None or isinstance(amount, str):
                continue
            number: Any = None if isinstance(amount, bool) else amount
            try:
                # Clip limits above 64 bits: they have no effect, and some JSON readers do not accept longer numbers.
                object.__setattr__(self, name, min(operator.index(number), ABSURD - 1))
            except TypeError:
                wrong = "{name!w} budget is {amount!r}; give whole numbers or text such as {example!w}"
                raise ArgumentTypeError(wrong, name=name, amount=amount, example=example) from None
        if self.above_lowest is None:
            self.memory_limit(0, 0)
        self.overhead_limit(0, 1)

    @classmethod
    def of(cls, budget: "Budget | Amount | None") -> "Budget":
        """Convert an argument to a budget; a number or a string is a limit on memory."""
        return budget if isinstance(budget, Budget) else cls(memory=budget)

    @property
    def least(self) -> bool:
        """True if the memory limit is "least", the lowest peak."""
        return isinstance(self.memory, str) and self.memory.strip().lower() == LEAST

    @property
    def above_lowest(self) -> Fraction | None:
        """The tolerance above the lowest peak: 1/1000 for "least+0.1%", or None for other budgets."""
        near = _NEAR_LOWEST.fullmatch(self.memory.strip().lower()) if isinstance(self.memory, str) else None
        return None if near is None else Fraction(near[1]) / 100

    @checked_arguments
    def memory_limit(self, base: int, resident: int) -> int | None:
        """Return the limit in bytes, or None. Percentages of `base`, the peak of one pass, are rounded down."""
        if self.above_lowest is not None:
            wrong = "only solve accepts the memory budget {memory!r}; give bytes, a share, or {least!r} here"
            raise ArgumentError(wrong, memory=self.memory, least=LEAST)
        limits = []
        if self.memory is not None and not self.least:
            limits.append(_amount(self.memory, base, "memory"))
        if self.device is not None:
            if isinstance(self.device, str) and "%" in self.device:
                wrong = "device budget {device!r} is a share; give bytes, such as 16GiB"
                raise ArgumentError(wrong, device=self.device)
            limits.append(_amount(self.device, base, "device") - resident)
        return min(limits) if limits else None

    @checked_arguments
    def overhead_limit(self, one_pass: int, scale: int) -> int | None:
        """Return the allowed overhead in units of the graph. A numeric limit is multiplied by `scale`."""
        if self.overhead is None:
            return None
        if isinstance(self.overhead, int):
            return int(_positive(self.overhead, "overhead")) * scale
        share = _SHARE.fullmatch(self.overhead)
        if share is not None:
            return int(Fraction(share[1]) * one_pass / 100)
        try:
            number = decimal(self.overhead.strip())
            if number >= ABSURD:
                raise ArgumentError("larger than any cost")
        except ValueError as error:
            wrong = "overhead budget {amount!r} is not a number of 0 or more; write 120, or 30% (of one pass)"
            raise ArgumentError(wrong, amount=self.overhead) from error
        return int(_positive(Fraction(number), "overhead") * scale)

    def __str__(self) -> str:
        parts = [f"{name} {getattr(self, name)}" for name in ("memory", "overhead", "device")]
        return ", ".join(part for part in parts if not part.endswith("None")) or "none"

    def record(self) -> dict[str, Amount | None]:
        """Return the JSON record."""
        return {"memory": self.memory, "overhead": self.overhead, "device": self.device}


def _positive(amount: int | Fraction, what: str) -> int | Fraction:
    if amount < 0:
        raise ArgumentError("{what!w} budget is {amount}; give 0 or more", what=what, amount=amount)
    return amount


def _amount(amount: Amount, base: int, what: str) -> int:
    if isinstance(amount, int):
        return int(_positive(amount, what))
    share = _SHARE.fullmatch(amount)
    if share is not None:
        return int(Fraction(share[1]) * base / 100)
    if _BARE_DECIMAL.fullmatch(amount):
        wrong = (
            '{what!w} budget {amount!r} could be bytes or a share; write bytes without decimals, or a share as "50%"'
        )
        raise ArgumentError(wrong, what=what, amount=amount)
    try:
        return parse_bytes(amount)
    except ValueError as error:
        hint = f"; write a share as 50%, and the lowest peak as {LEAST}" if what == "memory" else ""
        raise ArgumentError("{what!w} budget: {error!w}{hint!w}", what=what, error=error, hint=hint) from error


def even_limits(floor: int, base: int, count: int) -> list[int]:
    """Return `floor` and about `count` larger limits up to `base`: multiples of a step that divides `base / count`."""
    parts = count * max(1, round(base / max(1, base - floor)))
    above = (base * i // parts for i in range(floor * parts // max(1, base) + 1, parts + 1))
    return list(dict.fromkeys([floor, *above]))
