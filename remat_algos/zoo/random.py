"""Synthetic graphs: chains, ladders, parallel chains, U-shapes, random layered graphs."""

import math

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels

# Maximum random size and maximum random cost.
LARGEST_AMOUNT = 100


@checked_arguments
def chain(n: int, memory: ArrayLike = 1, compute: ArrayLike = 1) -> ComputationGraph:
    """Build a forward graph of n nodes in a chain."""
    _check_minimum(0, n=n)
    indptr = np.maximum(np.arange(n + 1) - 1, 0)
    indices = np.arange(max(n - 1, 0))
    return ComputationGraph.from_arrays(read_indptr=indptr, read_indices=indices, memory=memory, compute=compute)


@checked_arguments
def ladder(length: int, skip: bool = False) -> ComputationGraph:
    """Build a chain with its backward part: L + 1 forward nodes, a loss, L + 1 backward nodes. Sizes and costs are 1.


    f0 -> f1 -> ... -> fL -> loss        b(i) reads b(i+1), the loss for i = L, and f(i);
    |     |            |       |         with `skip` f(i) also reads f(i-2)
    b0 <- b1 <- ... <- bL <----+
    """
    _check_minimum(0, length=length)
    loss, last = length + 1, 2 * length + 2
    node, forward = np.arange(1, last + 1), np.arange(loss)
    edges = [(node - 1, node), (forward, last - forward)]
    if skip:
        edges.append((forward[:-2], forward[2:]))
    forward_of = np.full(last + 1, -1, np.int32)
    forward_of[last - forward] = forward
    names = [*(f"f{i}" for i in range(loss)), "loss", *(f"b{i}" for i in range(length, -1, -1))]
    return ComputationGraph.from_edges(
        np.concatenate([np.stack(pairs, axis=1) for pairs in edges]),
        forward_of=forward_of,
        labels=Labels(names=tuple(names)),
    )


@checked_arguments
def parallel_chains(chains: int, length: int, seed: int | None = None) -> ComputationGraph:
    """Build a forward graph of parallel chains between a fork and a join, numbered chain by chain.


             +-> 1 -> 2 -+
        0 ---+-> 3 -> 4 -+--> 7        parallel_chains(3, 2)
             +-> 5 -> 6 -+

    With a `seed`, sizes and costs are random between 1 and 100; by default all are 1.
    """
    _check_minimum(1, chains=chains, length=length)
    join = chains * length + 1
    inner = np.arange(1, join)
    source = np.where((inner - 1) % length == 0, 0, inner - 1)
    ends = np.arange(length, join, length)
    amounts = np.ones((2, join + 1), np.int64)
    if seed is not None:
        amounts = np.random.default_rng(as_seed(seed)).integers(1, LARGEST_AMOUNT, amounts.shape, endpoint=True)
    return ComputationGraph.from_arrays(
        read_indptr=np.concatenate([[0], np.arange(join), [join - 1 + chains]]),
        read_indices=np.concatenate([source, ends]),
        memory=amounts[0],
        compute=amounts[1],
    )


@checked_arguments
def u_shape(
    depth: int, width: int = 2, *, memory: int | None = None, compute: int = 1, skip: bool = True
) -> ComputationGraph:
    r"""Build a forward graph of an encoder and a decoder that are connected at each level.


    e0 ----------------> d0        level 0: `memory` bytes per value
      \-> e1 ----> d1 --/          level 1: half as many
           \-> b --/               ...


    There are `depth` levels above the bottom, each with a chain of `width` nodes on both sides. `memory` is by default
    2**depth, so that values at the bottom have 1 byte. With `skip` the decoder also reads the encoder of its level.
    """
    _check_minimum(0, depth=depth)
    _check_minimum(1, width=width)
    down = np.arange(depth)
    level = np.repeat(np.concatenate([down, [depth], down[::-1]]), width)
    n = level.size
    decoder = (np.arange(n) // width > depth) & (np.arange(n) % width == 0) & skip
    counts = np.minimum(np.arange(n), 1) + decoder
    indptr = indptr_of(counts)
    indices = np.empty(indptr[-1], np.int32)
    indices[indptr[1:-1]] = np.arange(n - 1)
    indices[indptr[1:][decoder] - 1] = (level[decoder] + 1) * width - 1
    sides = [*(f"e{i}" for i in range(depth)), "b", *(f"d{i}" for i in range(depth - 1, -1, -1))]
    top = 2**depth if memory is None else memory
    sizes = np.array([top >> i for i in range(depth + 1)])
    return ComputationGraph.from_arrays(
        read_indptr=indptr,
        read_indices=indices,
        memory=sizes[level],
        compute=compute,
        labels=Labels(names=tuple(f"{side}.{i}" for side in sides for i in range(width))),
    )


@checked_arguments
def layered_dag(
    n_nodes: int,
    *,
    width: int | None = None,
    reads: tuple[int, int] = (2, 3),
    reach: int = 1000,
    seed: int = 0,
) -> ComputationGraph:
    """Build a random forward graph in layers of `width` nodes, with random sizes and costs between 1 and 100.

    A node v reads between `reads[0]` and `reads[1]` values: one of the previous layer, and others of nodes with ids
    from v - reach to v - 1. The nodes of a layer read different values of the previous layer, so every node is read,
    except in the last two layers. `width` is by default the rounded square root of `n_nodes`, or less if `reach`
    requires that.
    """
    fewest, highest = reads
    _check_minimum(0, n_nodes=n_nodes)
    if not 1 <= fewest <= highest:
        raise GraphError("reads is {reads!w}; give (minimum, maximum), both 1 or more", reads=reads)
    if width is None:
        width = max(1, min(round(math.sqrt(n_nodes)), (reach + 1) // 2, reach + 1 - highest))
    _check_minimum(1, width=width)
    if reach < (needed := width - 1 + max(width, highest)):
        raise GraphError(
            "reach is {reach}; for layers of {width} nodes and {highest} reads give {needed} or more",
            reach=reach,
            width=width,
            highest=highest,
            needed=needed,
        )
    rng = np.random.default_rng(as_seed(seed))
    node = np.arange(n_nodes)
    layer_start = node - node % width
    first = np.maximum(node - reach, 0)
    available = np.maximum(layer_start - first, 0)
    counts = np.minimum(rng.integers(fewest, highest, n_nodes, endpoint=True), available)
    layers = -(-n_nodes // width)
    previous = rng.permuted(np.tile(np.arange(width), (layers, 1)), axis=1).ravel()[:n_nodes]
    columns = _distinct(layer_start - width + previous - first, available, highest, rng)
    read = np.arange(highest) < counts[:, np.newaxis]
    memory, compute = rng.integers(1, LARGEST_AMOUNT, (2, n_nodes), endpoint=True)
    return ComputationGraph.from_arrays(
        read_indptr=indptr_of(counts),
        read_indices=(first[:, np.newaxis] + columns)[read],
        memory=memory,
        compute=compute,
    )


def _distinct(first: Int64, available: Int64, n_columns: int, rng: np.random.Generator) -> Int64:
    """int64[n, n_columns]: rows of distinct numbers; row i begins with `first[i]` and stays below `available[i]`."""
    columns = np.empty((first.size, n_columns), np.int64)
    columns[:, 0] = first
    for k in range(1, n_columns):
        drawn = rng.integers(0, np.maximum(available - k, 1))
        for used in np.sort(columns[:, :k], axis=1).T:
            drawn += drawn >= used
        columns[:, k] = drawn
    return columns


def _check_minimum(minimum: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < minimum:
            raise GraphError("{name!w} is {number}; give {minimum} or more", name=name, number=number, minimum=minimum)
