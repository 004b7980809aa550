"""Where a differentiated graph comes from."""

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
        """From the result of `record`; GraphError, with the file, for anything else."""
        if (
            not isinstance(record, dict)
            or record.keys() != {"source_hash", "options"}
            or not isinstance(record["source_hash"], str)
            or not isinstance(record["options"], dict)
        ):
            raise GraphError(f'{source}: "derivation" is not as it was written, expected "source_hash" and "options"')
        options = {name: float(o) if isinstance(o, Decimal) else o for name, o in record["options"].items()}
        return cls(record["source_hash"], options)

    def record(self) -> dict[str, Any]:
        """The JSON record."""
        return {"source_hash": self.source_hash, "options": dict(self.options)}
