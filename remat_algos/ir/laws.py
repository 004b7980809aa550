"""What holds of every graph, checked once where it is made."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, check_indptr, check_sizes
from remat_algos.ir.backward import Backward
from remat_algos.ir.labels import RECOMPUTE, GradientNames, Labels
from remat_algos.ir.wording import shortened
from remat_algos.kernels import _graph

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph


def check(graph: ComputationGraph) -> None:
    """GraphError, with the rule and the place, unless the arrays make a graph."""
    _check_arrays(graph)
    _check_reads(graph)
    _check_parts(graph)
    _check_labels(graph)


def plain_labels(labels: Labels, value_indptr: Int64) -> Labels:
    """Labels without names that only repeat ids or the rule, so that equal graphs hash alike, and without empty ops."""
    names = labels.names
    if not isinstance(names, GradientNames | None):
        names = tuple(names)
        names = None if all(name == str(v) for v, name in enumerate(names)) else names
    ops = tuple(op.strip() for op in labels.ops) if labels.ops is not None and any(labels.ops) else None
    plain = replace(labels, names=names, ops=ops, value_names={})
    own = {}
    if names is None or len(names) == value_indptr.size - 1:
        owners = np.searchsorted(value_indptr, list(labels.value_names), side="right") - 1
        for (x, name), v in zip(labels.value_names.items(), owners.tolist(), strict=True):
            inside = 0 <= v < value_indptr.size - 1
            if not inside or name != plain.value(x, v, x - int(value_indptr[v])):
                own[x] = name
    return replace(plain, value_names=own)


def _check_arrays(graph: ComputationGraph) -> None:
    n, n_values = graph.n_nodes, graph.n_values
    for name, size in (("compute", n), ("workspace", n), ("once", n), ("output", n_values)):
        if getattr(graph, name).shape[0] != size:
            raise GraphError(f"{name} has {getattr(graph, name).shape[0]} entries; {size} are wanted")
    for what, given in (("names", graph.labels.names), ("ops", graph.labels.ops)):
        if given is not None and len(given) != n:
            raise GraphError(f"there are {len(given)} {what} for {n} nodes")
    check_indptr(graph.value_indptr, n, n_values, "value_indptr")
    if n and np.diff(graph.value_indptr).min() < 1:
        raise GraphError(f"node {int(np.argmin(np.diff(graph.value_indptr)))} has no value; give it one of 0 bytes")
    check_indptr(graph.read_indptr, n, graph.read_indices.shape[0], "read_indptr")
    for name in ("memory", "compute", "workspace"):
        check_sizes(getattr(graph, name), name)
    if n and not graph.output.any():
        raise GraphError("no value is an output, so nothing would have to run; mark one")


def _check_reads(graph: ComputationGraph) -> None:
    code, node, value = _graph.check_reads(graph.read_indptr, graph.read_indices, graph.producer)
    if code == 1:
        raise GraphError(f"node {shortened(graph.labels[node])} reads value {value}; there are {graph.n_values}")
    if code == 2:
        raise GraphError(f"node {shortened(graph.labels[node])} reads value {value} twice; name it once")
    if code == 3:
        source = int(graph.producer[value])
        raise GraphError(f"edge ({source}, {node}) goes backwards; number the nodes topologically")


def _check_parts(graph: ComputationGraph) -> None:
    if graph.mark is not None:
        if graph.n_nodes and not 0 <= graph.mark.min() <= graph.mark.max() <= RECOMPUTE:
            raise GraphError("a mark is 0, 1 (keep) or 2 (recompute)")
        contradiction = np.flatnonzero(graph.once & (graph.mark == RECOMPUTE))
        if contradiction.size:
            raise GraphError(f"node {shortened(graph.labels[contradiction[0]])} is marked once and recompute; drop one")
    for part in (graph.backward, graph.resident):
        rows = part.grad_compute.shape[0] if isinstance(part, Backward) else part and part.read_indptr.shape[0] - 1
        if part is not None and rows != graph.n_nodes:
            raise GraphError(f"{type(part).__name__} has {rows} rows; the graph has {graph.n_nodes} nodes")
    if graph.backward is not None:
        if graph.forward_of is not None:
            raise GraphError("a graph with a backward part cannot be differentiated again; leave `backward` out")
        _check_saved(graph, graph.backward)
    if graph.forward_of is not None:
        _check_forward_of(graph, graph.forward_of)


def _check_saved(graph: ComputationGraph, backward: Backward) -> None:
    if backward.grad_memory.shape[0] != graph.n_values:
        raise GraphError(f"grad_memory has {backward.grad_memory.shape[0]} entries; {graph.n_values} are wanted")
    saved, node = backward.saved_indices, np.repeat(np.arange(graph.n_nodes), np.diff(backward.saved_indptr))
    if saved.size and not 0 <= saved.min() <= saved.max() < graph.n_values:
        raise GraphError(f"a gradient saves a value that is not there; there are {graph.n_values}")
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr))
    own = graph.producer[saved] == node
    read = np.isin(node * graph.n_values + saved, reader * graph.n_values + graph.read_indices)
    if not (own | read).all():
        at = int(np.argmin(own | read))
        raise GraphError(
            f"the gradient of {shortened(graph.labels[int(node[at])])} saves value {saved[at]}, "
            "which the node neither reads nor makes"
        )


def _check_forward_of(graph: ComputationGraph, forward_of: Int32) -> None:
    owners = forward_of[forward_of >= 0]
    if owners.size and (owners.max() >= graph.n_nodes or (forward_of[owners] >= 0).any()):
        raise GraphError("forward_of names a node that is not in the forward part")
    if forward_of.size and forward_of.min() < -1:
        raise GraphError("forward_of is -1 in the forward part, else a node")
    from_backward = (forward_of >= 0)[graph.producer][graph.read_indices]
    reader = np.repeat(forward_of < 0, np.diff(graph.read_indptr))
    if (from_backward & reader).any():
        at = int(np.argmax(from_backward & reader))
        node = int(np.searchsorted(graph.read_indptr, at, side="right")) - 1
        raise GraphError(f"forward node {shortened(graph.labels[node])} reads a value of the backward part")


def _check_labels(graph: ComputationGraph) -> None:
    labels, n = graph.labels, graph.n_nodes
    if not all(op.isprintable() for op in labels.ops or ()):
        raise GraphError("an op cannot be printed; give it a plain name")
    if labels.compute_unit != labels.compute_unit.strip() or not labels.compute_unit.isprintable():
        raise GraphError(f"compute_unit {shortened(labels.compute_unit)!r} cannot be printed; give it a plain name")
    if _distinct_by_rule(graph):
        return
    if any(not 0 <= x < graph.n_values for x in labels.value_names):
        raise GraphError(f"a name is given to a value that is not there; there are {graph.n_values}")
    names = graph.node_names()
    node_of = {name: v for v, name in enumerate(names)}
    residents = graph.resident_names
    for name in (*node_of, *labels.value_names.values(), *residents, *labels.views):
        if not name or name != name.strip() or not name.isprintable():
            raise GraphError(f"{shortened(name)!r} is no name: it is empty, ends in white space, or cannot be printed")
    if len(node_of) != n:
        twice = next(name for v, name in enumerate(names) if node_of[name] != v)
        raise GraphError(f"two nodes are called {shortened(twice)!r}; give each a name of its own")
    seen = set()
    for x, name in enumerate(graph.value_names() if labels.value_names or not graph.single_valued else ()):
        own_first = name in node_of and x == graph.value_indptr[node_of[name]]
        if name in seen or (name in node_of and not own_first):
            raise GraphError(f"the name {shortened(name)!r} stands for two things; give each value a name of its own")
        seen.add(name)
    for name in residents:
        if name in node_of or name in seen:
            raise GraphError(f"{shortened(name)!r} is a resident and a node or value; give each a name of its own")
        seen.add(name)
    _check_views(graph, node_of, seen)


def _distinct_by_rule(graph: ComputationGraph) -> bool:
    """Whether no two names can be the same: they are ids alone, or those of a graph that was checked, and gradients."""
    labels, names = graph.labels, graph.labels.names
    others = (labels.value_names, labels.views, graph.resident_names)
    if not isinstance(names, GradientNames):
        return names is None and not any(others)
    source = names.graph
    return names.distinct and others == (source.labels.value_names, source.labels.views, source.resident_names)


def _check_views(graph: ComputationGraph, node_of: Mapping[str, int], seen: Container[str]) -> None:
    """Bases are known; a view may be called as a node is only where that is not the name of a value."""
    for name, base in graph.labels.views.items():
        if base not in node_of and base not in seen:
            raise GraphError(
                f"{shortened(name)!r} is a view of {shortened(base)!r}, which is no node, value or resident"
            )
        first = graph.value_name(int(graph.value_indptr[node_of[name]])) if name in node_of else None
        if name in seen or first == name:
            raise GraphError(f"{shortened(name)!r} is a view and something else; give each a name of its own")
