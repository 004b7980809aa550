"""Names of the parts of a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from remat_algos.errors import GraphError
from remat_algos.text.wording import shortened


class Names:
    """Unique full names, inside scopes and blocks.

    Parameters
    ----------
    model : str
        Name of the network.

    Examples
    --------
    >>> net = Names("small")
    >>> with net.scope("encoder"):
    ...     net.named("conv"), net.named("conv")
    ('encoder.conv', 'encoder.conv_2')
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._scope: list[str] = []
        self._block: list[str] = [""]
        self._counts: dict[str, int] = {}  # uses of each name
        self._used: set[str] = set()  # names of residents and values

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """Operations inside are named NAME.x, and are one node if `granularity` is "layer"."""
        with self.scope(name):
            self._block.append(".".join(self._scope))
            try:
                yield
            finally:
                self._block.pop()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Operations inside are named NAME.x."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def named(self, name: str) -> str:
        """A unique full name: `name` inside the current scopes, with a number if it is in use."""
        return self._unique(".".join((*self._scope, name)))

    def _unique(self, full: str) -> str:
        times = self._counts.get(full, 0)
        self._counts[full] = times + 1
        return self._unique(f"{full}_{times + 1}") if times else full

    def _claim(self, name: str) -> str:
        """Claim a full name chosen by a caller, perhaps from `named`."""
        if name in self._used:
            raise GraphError(
                f"{self.model}: the name {shortened(name)} is taken; give another one, or read the tensor that has it"
            )
        self._counts[name] = 1
        return name
