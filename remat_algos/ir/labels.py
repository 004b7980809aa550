"""What people call the nodes and values of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

KEEP, RECOMPUTE = 1, 2  # the user's marks on nodes

_NOTHING: Mapping[int, str] = MappingProxyType({})
_NO_VIEWS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Names of nodes and values, operations, views that were contracted, and the unit of compute.

    Without names a node is called by its id. Value 0 of a node is called as the node is, value k `v:k`,
    unless `value_names` says otherwise.

    Parameters
    ----------
    names : tuple of str, optional
        One per node, all different.
    value_names : mapping of int to str
        Names of values, by value id, where they differ from the rule.
    ops : tuple of str, optional
        The kind of operation of each node, "" where unknown.
    views : mapping of str to str
        Name of each view that was contracted, to the name of its base value or resident.
    compute_unit : str
        "ns", "FLOPs", ...; "" if unknown.
    compute_scale : int
        The graph's compute is this many times the number that was read.

    Examples
    --------
    >>> Labels(names=("conv", "relu"))[1]
    'relu'
    >>> Labels()[1]
    '1'
    """

    names: tuple[str, ...] | None = None
    value_names: Mapping[int, str] = field(default_factory=lambda: _NOTHING)
    ops: tuple[str, ...] | None = None
    views: Mapping[str, str] = field(default_factory=lambda: _NO_VIEWS)
    compute_unit: str = ""
    compute_scale: int = 1

    def __post_init__(self) -> None:
        for name in ("value_names", "views"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getitem__(self, node: int) -> str:
        return self.names[node] if self.names is not None else str(int(node))

    def value(self, value: int, node: int, place: int) -> str:
        """The name of a value that stands at `place` among those of its node."""
        if value in self.value_names:
            return self.value_names[value]
        return f"{self[node]}:{place}" if place else self[node]

    def op(self, node: int) -> str:
        """The kind of operation of a node, "" if unknown."""
        return self.ops[node] if self.ops is not None else ""

    def compute(self, amount: int) -> str:
        """Compute as it was read, with its unit."""
        shown = f"{amount / self.compute_scale:g}" if self.compute_scale != 1 else str(amount)
        return f"{shown} {self.compute_unit}" if self.compute_unit else shown
