"""Where a differentiated graph comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Derivation:
    """Where a differentiated graph comes from: the hash of its source, and the options of `differentiate`."""

    source_hash: str
    options: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"source_hash": self.source_hash, "options": dict(self.options)}
