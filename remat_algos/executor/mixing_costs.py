"""Times of synthetic operators: measured for a few sizes, then estimated for every node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from remat_algos.executor import tuning
from remat_algos.executor.array_backend import backend as backend_of
from remat_algos.executor.array_backend import free_memory
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.executor.run import execute
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule

SOURCES, READS, LONGER_RUN = 4, (1, 2, 4), 8

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MixingCosts:
    """Linear model of the time of a node of `SyntheticOperators`.

    The coefficients are in seconds. `call` is the cost of each result, each workspace, and each input of a result.
    `written` is the cost of each word of a result. `read` is the cost of each word that a result reads. `wrapped` is an
    additional cost per word of a result, for every input that is shorter and repeated. `summed` is the cost per word of
    an input that is longer than the result. `residual` is the largest relative deviation from measured times.
    """

    call: float
    written: float
    read: float
    wrapped: float
    summed: float
    residual: float

    def of_nodes(self, graph: ComputationGraph) -> Seconds:
        return _deeds(graph) @ np.array([self.call, self.written, self.read, self.wrapped, self.summed])


@cache
def mixing_costs(backend: str) -> MixingCosts:
    """Measure synthetic operators on a backend, once per process. This takes at most a second."""
    from scipy.optimize import nnls  # type: ignore[import-untyped]

    graph = _yardstick(_sizes(backend))
    operators, schedule = SyntheticOperators(graph), Schedule(np.arange(graph.n_nodes, dtype=np.int32))
    n = tuning.TIMED_RUNS + 1
    runs = [execute(graph, schedule, operators, backend=backend, timed=True).seconds for _ in range(n)]
    samples = np.array(runs[1:], np.float64)  # without the warm-up
    deeds, kind = np.unique(_deeds(graph), axis=0, return_inverse=True)
    seconds = np.array([np.median(samples[:, kind.ravel() == k]) for k in range(len(deeds))])
    shares = deeds / np.maximum(seconds, 1e-9)[:, None]
    found, _ = nnls(shares, np.ones(seconds.size))
    call, written, read, wrapped, summed = found.tolist()
    return MixingCosts(call, written, read, wrapped, summed, residual=float(np.abs(shares @ found - 1).max()))


def _sizes(backend: str) -> tuple[int, ...]:
    free = free_memory(backend_of(backend))
    most = tuning.TIMED_WORDS[backend][-1] if free is None else max(1, free // (4 * tuning.TIMED_ROOM))
    return tuple(min(size, most) for size in tuning.TIMED_WORDS[backend])


def _yardstick(words: tuple[int, ...]) -> ComputationGraph:
    memory: list[int] = []
    edges: list[tuple[int, int]] = []
    # Each size occurs twice, because the first nodes of a size also touch new memory, which takes time.
    for size in (size for size in words for _ in range(2)):
        first = len(memory)
        memory += [4 * size] * SOURCES
        for reads in READS:
            edges += [(first + k, len(memory)) for k in range(reads)]
            memory.append(4 * size)
        short = len(memory)
        edges.append((first, short))
        memory.append(4 * (size // LONGER_RUN - 1))
        for reads in READS[:2]:
            edges += [(first + k, len(memory)) for k in range(reads - 1)] + [(short, len(memory))]
            memory.append(4 * size)
    output = np.zeros(len(memory), bool)
    output[-1] = True  # all others are freed earlier
    return ComputationGraph.from_edges(edges, memory=memory, output=output)


def _deeds(graph: ComputationGraph) -> NDArray[np.float64]:
    """Return the work in one run of each node, float64[n, 5]: calls, and words written, read, wrapped and summed."""
    found = np.zeros((graph.n_nodes, 5))
    resident = graph.resident
    for v in range(graph.n_nodes):
        inputs = _words(graph.memory[graph.reads(v)])
        if resident is not None:
            inputs = np.concatenate([inputs, _words(resident.memory[resident.reads(v)])])
        inputs = inputs[inputs > 0]
        results = _words(graph.memory[graph.values(v)])
        longer = inputs[None, :] > results[:, None]
        scratch = 2 * int(_words(graph.workspace[v : v + 1])[0])
        found[v] = (
            results.size * (1 + inputs.size) + 2 * (scratch > 0),
            results.sum() + scratch,
            np.minimum(inputs[None, :], results[:, None]).sum(),
            ((inputs[None, :] < results[:, None]) * results[:, None]).sum(),
            (longer * inputs[None, :]).sum(),
        )
    return found


def _words(nbytes: Int64) -> Int64:
    return -(-nbytes // 4)
