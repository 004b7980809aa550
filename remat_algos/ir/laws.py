"""Invariants of graphs, checked once in the constructor."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, check_sizes, wrong_length
from remat_algos.ir.backward import Backward
from remat_algos.ir.csr import check_indptr, row_of
from remat_algos.ir.labels import RECOMPUTE, GradientNames, Labels
from remat_algos.kernels.graph import check_reads
from remat_algos.text.wording import counted, shortened

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph


def check(graph: ComputationGraph) -> None:
    """GraphError, with the rule and the place, unless the arrays are a valid graph."""
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
            raise wrong_length(name, getattr(graph, name).shape[0], size, "value" if name == "output" else "node")
    for what, given in (("names", graph.labels.names), ("ops", graph.labels.ops)):
        if given is not None and len(given) != n:
            raise wrong_length(what, len(given), n, "node")
    check_indptr(graph.value_indptr, n, n_values, "value_indptr")
    if n and np.diff(graph.value_indptr).min() < 1:
        raise GraphError(f"node {int(np.argmin(np.diff(graph.value_indptr)))} has no value; give it one of 0 bytes")
    check_indptr(graph.read_indptr, n, graph.read_indices.shape[0], "read_indptr")
    for name in ("memory", "compute", "workspace"):
        check_sizes(getattr(graph, name), name)
    if n and not graph.output.any():
        raise GraphError("no value is an output, so no node needs to run; mark at least one")


def _check_reads(graph: ComputationGraph) -> None:
    code, node, value = check_reads(graph.read_indptr, graph.read_indices, graph.producer)
    if code == 1:
        raise GraphError(f"node {_node(graph, node)} reads value {value}, expected {_values(graph)}")
    if code == 2:
        raise GraphError(f"node {_node(graph, node)} reads value {value} twice; list it once")
    if code == 3:
        source = int(graph.producer[value])
        remedy = "number the nodes topologically, or use from_edges, which does"
        raise GraphError(f"edge ({source}, {node}) goes backwards; {remedy}")


def _check_parts(graph: ComputationGraph) -> None:
    if graph.mark is not None:
        if graph.n_nodes and not 0 <= graph.mark.min() <= graph.mark.max() <= RECOMPUTE:
            at = int(np.argmax((graph.mark < 0) | (graph.mark > RECOMPUTE)))
            raise GraphError(f"mark[{at}] is {graph.mark[at]}, expected 0, 1 (keep) or 2 (recompute)")
        contradiction = np.flatnonzero(graph.once & (graph.mark == RECOMPUTE))
        if contradiction.size:
            raise GraphError(f"node {_node(graph, contradiction[0])} is marked once and recompute; remove one mark")
    for part in (graph.backward, graph.resident):
        if part is None:
            continue
        rows = part.grad_compute.shape[0] if isinstance(part, Backward) else part.read_indptr.shape[0] - 1
        if rows != graph.n_nodes:
            has = f"{type(part).__name__} has {counted(rows, 'row')}"
            raise GraphError(f"{has}, expected {graph.n_nodes} (one per node)")
    if graph.backward is not None:
        if graph.forward_of is not None:
            raise GraphError("a graph with a backward part cannot be differentiated again; leave `backward` out")
        _check_saved(graph, graph.backward)
    if graph.forward_of is not None:
        _check_forward_of(graph, graph.forward_of)


def _check_saved(graph: ComputationGraph, backward: Backward) -> None:
    if backward.grad_memory.shape[0] != graph.n_values:
        raise wrong_length("grad_memory", backward.grad_memory.shape[0], graph.n_values, "value")
    saved, node = backward.saved_indices, row_of(backward.saved_indptr)
    if saved.size and not 0 <= saved.min() <= saved.max() < graph.n_values:
        at = int(np.argmax((saved < 0) | (saved >= graph.n_values)))
        raise GraphError(f"saved_indices[{at}] is {saved[at]}, expected {_values(graph)}")
    reader = row_of(graph.read_indptr)
    own = graph.producer[saved] == node
    read = np.isin(node * graph.n_values + saved, reader * graph.n_values + graph.read_indices)
    if not (own | read).all():
        at = int(np.argmin(own | read))
        raise GraphError(
            f"the gradient of {_node(graph, node[at])} saves value {saved[at]}, which the node neither reads nor makes"
        )


def _check_forward_of(graph: ComputationGraph, forward_of: Int32) -> None:
    outside = (forward_of < -1) | (forward_of >= graph.n_nodes)
    if not outside.any():
        outside = (forward_of >= 0) & (forward_of[forward_of] >= 0)  # -1 reads the last entry, and is left out
    if outside.any():
        at = int(np.argmax(outside))
        expected = "expected a node of the forward part, or -1 in that part"
        raise GraphError(f"forward_of[{at}] is {forward_of[at]}, {expected}")
    from_backward = (forward_of >= 0)[graph.producer][graph.read_indices]
    reader = np.repeat(forward_of < 0, np.diff(graph.read_indptr))
    if (from_backward & reader).any():
        at = int(np.argmax(from_backward & reader))
        node = int(np.searchsorted(graph.read_indptr, at, side="right")) - 1
        raise GraphError(f"node {_node(graph, node)} of the forward part reads a value of the backward part")


def _node(graph: ComputationGraph, node: int) -> str:
    """A node as messages call it."""
    return shortened(graph.labels[int(node)])


def _values(graph: ComputationGraph) -> str:
    """The ids that values have."""
    return f"values from 0 to {graph.n_values - 1}"


def _check_labels(graph: ComputationGraph) -> None:
    labels, n = graph.labels, graph.n_nodes
    if not all(op.isprintable() for op in labels.ops or ()):
        op = next(op for op in labels.ops or () if not op.isprintable())
        raise GraphError(f"op {shortened(op)!r} has characters that cannot be printed; remove them")
    if labels.compute_unit != labels.compute_unit.strip() or not labels.compute_unit.isprintable():
        unit = shortened(labels.compute_unit)
        raise GraphError(f"compute_unit {unit!r} has spaces around it, or cannot be printed; give it a plain name")
    if _distinct_by_rule(graph):
        return
    for x in labels.value_names:
        if not 0 <= x < graph.n_values:
            raise GraphError(f"value_names has value {x}, expected {_values(graph)}")
    names = graph.node_names()
    node_of = {name: v for v, name in enumerate(names)}
    residents = graph.resident_names
    for name in (*node_of, *labels.value_names.values(), *residents, *labels.views):
        if not name or name != name.strip() or not name.isprintable():
            raise GraphError(
                f"{shortened(name)!r} is not a valid name: it is empty, has spaces around it, or cannot be printed"
            )
    if len(node_of) != n:
        twice = next(name for v, name in enumerate(names) if node_of[name] != v)
        raise GraphError(f"two nodes are called {shortened(twice)!r}; give each its own name")
    seen = set()
    for x, name in enumerate(graph.value_names() if labels.value_names or not graph.single_valued else ()):
        own_first = name in node_of and x == graph.value_indptr[node_of[name]]
        if name in seen or (name in node_of and not own_first):
            raise GraphError(f"two values are called {shortened(name)!r}; give each its own name")
        seen.add(name)
    for name in residents:
        if name in node_of or name in seen:
            raise GraphError(f"a resident and a node or value are both called {shortened(name)!r}; rename one")
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
            raise GraphError(f"a view and a node or value are both called {shortened(name)!r}; rename one")
