"""The source of a differentiated graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from remat_algos.errors import GraphError


@dataclass(frozen=True, slots=True)
class Derivation:
    """The hash of its source, and the options of `differentiate`."""

    source_hash: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, record: Any, source: str) -> Derivation:
        """Read the result of `record`; GraphError, with the file, for anything else."""
        if (
            not isinstance(record, dict)
            or record.keys() != {"source_hash", "options"}
            or not isinstance(record["source_hash"], str)
            or not isinstance(record["options"], dict)
        ):
            raise GraphError(
                '{source!w}: "derivation" is not as it was written, expected "source_hash" and "options"', source=source
            )
        return cls(record["source_hash"], _without_decimals(record["options"]))

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {"source_hash": self.source_hash, "options": dict(self.options)}


def _without_decimals(entry: Any) -> Any:
    """A JSON entry with nested decimals as floats."""
    if isinstance(entry, dict):
        return {name: _without_decimals(each) for name, each in entry.items()}
    if isinstance(entry, list):
        return [_without_decimals(each) for each in entry]
    return float(entry) if isinstance(entry, Decimal) else entry
