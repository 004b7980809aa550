"""Operators, which run nodes: the protocol, and synthetic operators that reveal any wrong byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, SupportsInt, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.executor.mixing import Mixer, mixer
from remat_algos.ir.arrays import frozen
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES

_INPUT = ROLES.index("input")


@runtime_checkable
class Operators(Protocol):
    """Run the nodes of a graph; `execute` calls `run` for one node at a time.

    Arrays are uint8; view them as their real dtype. Keep no array after the call, since its memory is freed.
    """

    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        """Prepare a run before bytes are counted: compile kernels, allocate scratch."""

    def residents(self, backend: Backend) -> list[Array]:
        """Return all inputs, parameters and states in order of id. Each run calls this once."""

    def run(
        self,
        node: int,
        reads: Sequence[Array],
        residents: Sequence[Array],
        values: Sequence[Array],
        workspace: Array | None,
    ) -> None:
        """Run a node.

        Parameters
        ----------
        node : int
        reads : tuple of uint8[...]
            Arrays that the node reads, in argument order.
        residents : tuple of uint8[...]
            Residents that the node reads, in order of id.
        values : tuple of uint8[...]
            Arrays to write its values to, completely: `values[k][...] = result`, or through a view. In an arena, one
            may be the same array as an entry of `reads`, which it then overwrites in place.
        workspace : uint8[...], optional
            Scratch array.
        """

    def checksum(self, array: Array) -> SupportsInt:
        """Return a uint32 checksum, or an object that `int()` converts to the checksum when a GPU has computed it."""


def check_operators(operators: object) -> None:
    """Raise TypeError for a class, or for an object that lacks any method of `Operators`."""
    if not isinstance(operators, Operators) or isinstance(operators, type):
        raise ArgumentTypeError(
            "operators are {operators!r}; give an object with the methods of Operators: prepare, residents, run and "
            "checksum",
            operators=operators,
        )


class SyntheticOperators:
    """Operators that mix the bits of all their inputs, bit-identical on NumPy and CUDA.

    Every word of a value depends on its position, the node, the value, the seed, and all inputs and residents of the
    node. The workspace is filled before and after the values are computed. A node that updates parameters or states
    adds to all of them.

    Parameters
    ----------
    graph : ComputationGraph
    seed : int
    iters : int or int64[n]
        Rounds of mixing for each node: integer work.
    burn : int or int64[n]
        Float multiply-adds for each word: floating-point work. Their results are discarded.

    Raises
    ------
    ValueError
        If `iters` or `burn` is negative, or exceeds an int32.
    TypeError
        If `seed` is not an integer.

    Examples
    --------
    >>> from remat_algos.executor.run import execute
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=8)
    >>> sums = [execute(chain, [0, 1, 2], SyntheticOperators(chain, seed=seed)).checksums for seed in (0, 0, 1)]
    >>> (sums[0] == sums[1]).all(), (sums[0] == sums[2]).any()
    (np.True_, np.False_)
    """

    @checked_arguments
    def __init__(self, graph: ComputationGraph, *, seed: int = 0, iters: ArrayLike = 1, burn: ArrayLike = 0) -> None:
        n = graph.n_nodes
        self._graph = graph
        self._iters, self._burn = _rounds("iters", iters, n), _rounds("burn", burn, n)
        self._seed = seed
        self._number, self._scratch = self._numbers(1, graph.n_values), self._numbers(2, n)
        self._first: list[int] = graph.value_indptr.tolist()
        self._changes = _changes(graph)
        self._mixer: Mixer | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_mixer": None}  # `prepare` creates it again

    @checked_arguments
    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        """Compile the kernels, or allocate scratch; raise GraphError if the operators belong to another graph."""
        if graph is not self._graph and graph.hash != self._graph.hash:
            raise GraphError("these operators were made for another graph; make them for the graph of this run")
        resident = graph.resident
        max_inputs = int(np.diff(graph.read_indptr).max(initial=0))
        if resident is not None:
            max_inputs += int(np.diff(resident.read_indptr).max(initial=0))
        self._mixer = mixer(backend, max_inputs)

    @checked_arguments
    def residents(self, backend: Backend) -> list[Array]:
        """Return residents with the sizes of the graph, filled from the seed."""
        resident = self._graph.resident
        arrays = [] if resident is None else [backend.empty(size) for size in resident.memory.tolist()]
        for array, number in zip(arrays, self._numbers(3, len(arrays)), strict=True):
            self._mix(array, number, [], 1, 0)
        return arrays

    def run(
        self,
        node: int,
        reads: Sequence[Array],
        residents: Sequence[Array],
        values: Sequence[Array],
        workspace: Array | None,
    ) -> None:
        """Mix all inputs into each value."""
        mix, iters, burn = self._mix, self._iters[node], self._burn[node]
        numbers, first = self._number, self._first[node]
        if workspace is not None:
            mix(workspace, self._scratch[node], [], 1, 0)
        inputs = [*reads, *residents] if residents else reads
        if any(value is read for value in values for read in reads):
            self._run_in_place(node, inputs, values)
        else:
            for k, value in enumerate(values, first):
                mix(value, numbers[k], inputs, iters, burn)
        for k in self._changes.get(node, ()):
            mix(residents[k], self._scratch[node], reads, iters, burn, True)
        if workspace is not None:
            mix(workspace, self._scratch[node], [], 1, 0)

    def checksum(self, array: Array) -> SupportsInt:
        """Return uint32: the sum of all words of the array, each times an odd number that depends on its position."""
        return self._mixer.checksum(array)  # type: ignore[union-attr]

    def _mix(self, out: Array, number: int, inputs: Sequence[Array], iters: int, burn: int, add: bool = False) -> None:
        self._mixer.mix(out, number, inputs, iters, burn, add)  # type: ignore[union-attr]

    def _numbers(self, kind: int, count: int) -> list[int]:
        """Return `count` uint32 numbers of a kind from 0 to 3. All numbers differ if `count` is at most 2**30."""
        numbers = np.arange(count, dtype=np.uint32) + np.uint32(kind << 30)
        # Each step is invertible, so distinct numbers stay distinct.
        for part in (0, self._seed & 0xFFFFFFFF, self._seed >> 32 & 0xFFFFFFFF):
            numbers = (numbers ^ np.uint32(part)) * np.uint32(0x85EBCA6B)
            numbers ^= numbers >> 13
        return numbers.tolist()

    def _run_in_place(self, node: int, inputs: Sequence[Array], values: Sequence[Array]) -> None:
        """Run a node. Values that overwrite inputs are computed last; if there are several, the inputs are copied."""
        over = [any(value is read for read in inputs) for value in values]
        if sum(over) > 1:
            inputs = [read.copy() if any(value is read for value in values) else read for read in inputs]
        for late in (False, True):
            for k, value in enumerate(values):
                if over[k] is late:
                    self._mix(value, self._number[self._first[node] + k], inputs, self._iters[node], self._burn[node])


def _rounds(name: str, rounds: ArrayLike, n: int) -> list[int]:
    """Return the rounds of each node; kernels count them in an int32."""
    array = frozen(rounds, np.int64, name, n)
    wrong = array[(array < 0) | (array > 2**31 - 1)]
    if wrong.size:
        raise ArgumentError(
            "{name!w} is {wrong}; give a number from 0 to {max_rounds}", name=name, wrong=wrong[0], max_rounds=2**31 - 1
        )
    by_node: list[int] = array.tolist()
    return by_node


def _changes(graph: ComputationGraph) -> dict[int, list[int]]:
    """Map each node that updates residents to the positions of these residents among all residents that it reads."""
    if graph.resident is None:
        return {}
    role = graph.resident.role
    return {
        v: [k for k, r in enumerate(graph.resident.reads(v)) if role[r] != _INPUT]
        for v in np.flatnonzero(graph.updates).tolist()
    }
