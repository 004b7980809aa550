"""Types of layers, from the names and operations of nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32
from remat_algos.ir.csr import row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.resident import ROLES
from remat_algos.operations.kind import OTHER, operation_kind
from remat_algos.text.wording import shortened

BY = ("layer", "operation")
OPTIMIZER = "optimizer"

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("embedding", "embeddings", "embed", "embed_tokens"), "embedding"),
    **dict.fromkeys(("attention", "attn", "self_attention", "self_attn", "cross_attention"), "attention"),
    **dict.fromkeys(("rnn", "lstm", "gru", "cell"), "RNN"),
    **dict.fromkeys(("mlp", "ff", "feed_forward", "moe", "expert", "experts"), "feed forward"),
    **dict.fromkeys(("head", "heads", "classifier", "logits", "output", "loss"), "output"),
}
"""Types by a part of the name of a node, between dots and without its number; the first row that fits counts."""

INNER: Mapping[str, str] = dict.fromkeys(("self", "source", "cross"), "attention")
"""The same for parts that are not the first one."""

_RANK = {name: rank for rank, name in enumerate(dict.fromkeys([*WORDS.values(), *INNER.values()]))}


def layer_type(name: str, op: str, by: str = "layer") -> str:
    """The type of the layer that a forward node belongs to; by "operation", the kind of its operation.

    Examples
    --------
    >>> layer_type("encoder.layer3.self.q_proj", "Linear"), layer_type("layer1.0.conv2", "Conv2d")
    ('attention', 'convolution')
    >>> layer_type("layer1.0.conv2", "Conv2d", by="operation")
    'Convolution'
    """
    kind = operation_kind(op)
    if by == "operation":
        return (kind.name if kind is not None else op) or OTHER
    parts = [re.sub(r"\d+$", "", part) for part in name.lower().split(".")]
    found = [WORDS[part] for part in parts if part in WORDS]
    found += [INNER[part] for part in parts[1:] if part in INNER]
    if found:
        return min(found, key=_RANK.__getitem__)
    return kind.layer if kind is not None else OTHER


def layer_types(graph: ComputationGraph, by: str = "layer") -> tuple[str, ...]:
    """The type of each node; a gradient has that of the node whose gradient it computes, an update "optimizer".

    Parameters
    ----------
    graph : ComputationGraph
    by : {"layer", "operation"}
        "layer": as the papers group them (RNN, attention, embedding, output, convolution, ...), by `WORDS` in names as
        those of the zoo, then by the kind of operation.

    Raises
    ------
    GraphError
        If `by` is something else.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.labels import Labels
    >>> labels = Labels(names=("conv", "norm"), ops=("Convolution", "BatchNorm"))
    >>> layer_types(differentiate(ComputationGraph.from_edges([(0, 1)], labels=labels)))
    ('convolution', 'batch norm', 'batch norm', 'batch norm')
    """
    if by not in BY:
        raise GraphError(f"by is {shortened(repr(by))}, expected {' or '.join(BY)}")
    labels, forward = graph.labels, graph.forward
    types = [layer_type(labels[v], labels.op(v), by) if forward[v] else "" for v in range(graph.n_nodes)]
    of, updates = derivative_of(graph), optimizer_nodes(graph)
    for v in np.flatnonzero(~forward).tolist():
        types[v] = OPTIMIZER if updates[v] else types[of[v]]
    return tuple(types)


def derivative_of(graph: ComputationGraph) -> Int32:
    """int32[n]: the forward node whose gradient a backward node computes, -1 in the forward part.

    The last whose output gradients it reads; `forward_of` is the node that the result belongs to.
    """
    if graph.forward_of is None:
        return np.full(graph.n_nodes, -1, np.int32)
    found, owner = graph.forward_of.copy(), graph.forward_of[graph.producer[graph.read_indices]]
    reader = row_of(graph.read_indptr)
    backward = (owner >= 0) & (graph.forward_of[reader] >= 0) & ~parameter_gradients(graph)[reader]
    np.maximum.at(found, reader[backward], owner[backward])
    return found


def parameter_gradients(graph: ComputationGraph) -> Bool:
    """bool[n]: nodes called `grad(p)` or `grad(p)@w` for a parameter p, as `differentiate` calls them."""
    found = np.zeros(graph.n_nodes, bool)
    if graph.resident is None or graph.forward_of is None:
        return found
    parameter = ROLES.index("parameter")
    wanted = {f"grad({p}" for p, r in zip(graph.resident.names, graph.resident.role, strict=True) if r == parameter}
    names = graph.node_names()
    for v in np.flatnonzero(~graph.forward).tolist():
        name = names[v]
        found[v] = (name[:-1] in wanted and name[-1] == ")") or (")@" in name and name.partition(")@")[0] in wanted)
    return found


def optimizer_nodes(graph: ComputationGraph) -> Bool:
    """bool[n]: backward nodes that are no gradients, where there are gradients of parameters."""
    found = np.zeros(graph.n_nodes, bool)
    if not parameter_gradients(graph).any():
        return found
    names = graph.node_names()
    for v in np.flatnonzero(~graph.forward).tolist():
        found[v] = not names[v].startswith("grad(")
    return found
