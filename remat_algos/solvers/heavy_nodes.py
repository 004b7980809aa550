"""Nodes that are too costly to recompute, by their operation or by their cost."""

import re
from collections.abc import Container, Sequence

import numpy as np

from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import kind_name, operation_kind, operation_kinds
from remat_algos.ir.labels import KEEP, RECOMPUTE
from remat_algos.wording import comma_separated

HEAVY = frozenset(kind.name for kind in operation_kinds() if kind.heavy)
Words = str | Sequence[str] | None


def recomputable_nodes(
    graph: ComputationGraph, only: Words = None, also: Words = None, heavy: Container[str] = HEAVY
) -> Bool:
    """bool[n]: needed forward nodes that echo may recompute; ValueError if a word names nothing in the graph.

    They are the nodes that are not heavy, restricted to `only` if given, and all nodes that `also` names, except nodes
    that must run only once. Marks of the graph override all of this. Words name operations, or layers: parts of the
    nodes' dotted names, with or without the digits at their end.

    Examples
    --------
    >>> from remat_algos.ir.labels import Labels
    >>> labels = Labels(names=("conv0", "norm0", "relu0"), ops=("Convolution", "BatchNorm", "ReLU"))
    >>> net = ComputationGraph.from_arrays(read_indptr=[0, 0, 1, 2], read_indices=[0, 1], labels=labels)
    >>> recomputable_nodes(net).tolist(), recomputable_nodes(net, only="ReLU", also="conv").tolist()
    ([False, True, True], [True, False, True])
    """
    allowed = ~heavy_nodes(graph, heavy)
    if only is not None:
        allowed &= named_nodes(graph, only, "only")
    if also is not None:
        allowed |= named_nodes(graph, also, "also")
    if graph.mark is not None:
        allowed = (allowed | (graph.mark == RECOMPUTE)) & (graph.mark != KEEP)
    return allowed & graph.forward & graph.needed & ~graph.once


def heavy_nodes(graph: ComputationGraph, heavy: Container[str] = HEAVY) -> Bool:
    """bool[n]: nodes with heavy kinds of operation, and of unknown operations those that cost more than the mean.

    By default convolutions and matrix products are heavy. The mean is over all needed forward nodes.
    """
    part = graph.forward & graph.needed
    # a whole number is above the mean if it is above the mean rounded down; cost times n may not fit into int64
    costly = graph.compute > int(graph.compute[part].sum()) // max(1, int(np.count_nonzero(part)))
    ops = graph.labels.ops
    if ops is None:
        return costly
    kinds = {op: operation_kind(op) for op in set(ops)}
    known = {op: kind.name in heavy for op, kind in kinds.items() if kind}
    return np.fromiter(
        (known.get(op, above_mean) for op, above_mean in zip(ops, costly.tolist(), strict=True)), bool, len(ops)
    )


def named_nodes(graph: ComputationGraph, words: str | Sequence[str], option: str) -> Bool:
    """bool[n]: forward nodes of the operations or layers that an option names; ValueError if a word matches nothing."""
    names = comma_separated(words)
    if not names:
        raise ArgumentError(
            "{option} is {words!r}, which names nothing; give operations or layers, or leave it out",
            option=option,
            words=words,
        )
    nodes = np.flatnonzero(graph.forward).tolist()
    ops = {v: kind_name(graph.labels.op(v)) for v in nodes}
    layers = {v: _layers(graph.labels[v]) for v in nodes} if graph.labels.names is not None else {}
    named = np.zeros(graph.n_nodes, bool)
    for word in names:
        kind = kind_name(word)
        matches = [v for v in nodes if ops[v] == kind or word in layers.get(v, ())]
        if not matches:
            operations = sorted({*filter(None, ops.values())})
            if not operations:
                raise ArgumentError(
                    "{option} names {word!r}, no operation or layer of this graph; it names no operations",
                    option=option,
                    word=word,
                )
            raise ArgumentError(
                "{option} names {word!r}, no operation or layer of this graph; it has the operations {operations!l}",
                option=option,
                word=word,
                operations=operations,
            )
        named[matches] = True
    return named


def _layers(name: str) -> set[str]:
    """Parts of a dotted name, with and without the digits at their end."""
    parts = name.split(".")
    return {*parts, *(re.sub(r"\d+$", "", part) for part in parts)}
