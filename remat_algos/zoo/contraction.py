"""Contraction of a graph to one node per block, for granularity="layer"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import NO_PAIRS, NO_TRIPLES, Bool, Int8, Int32, Int64, group_rows, row_of
from remat_algos.ir.differentiate import PARAMETER, differentiate, everything_saved, gradient_pairs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Backward, Labels, Resident
from remat_algos.kernels.lifetimes import instance_lifetimes


def contract(graph: ComputationGraph, block: Sequence[str]) -> ComputationGraph:
    """Contract each block of a forward graph to one node, so that blocks are kept or recomputed as a whole.

    `block[v]` is the name of the block of node v, or "" if the node stays single. Consecutive nodes of a block become
    one node with the name of the block; several such groups of a block become `b`, `b#2`, and so on. The new node has
    the outputs of the block and the values read outside of it, with their old names, and one value `BLOCK:inner` with
    the bytes of all other values that gradients read. All other bytes become workspace. So the bytes that are live
    between forward and backward part stay the same, and the peak without rematerialization does not decrease.

    A `once` node stays single. If it reads no value, like a dropout mask, it moves before its block; otherwise it
    splits the block. A block that reads no value with a gradient is split before its first node with a gradient,
    because otherwise it would have no gradient at all. A gradient costs `factor` times the compute of its block. If
    some node of a block has a `grad_compute`, the gradient of every other node of the block costs twice the compute of
    that node.
    """
    if graph.forward_of is not None:
        raise GraphError("the graph has a backward part; contract its forward graph, then differentiate")
    if len(block) != graph.n_nodes:
        raise GraphError(
            'block has {n_block} entries, expected {n_nodes} (one per node, "" for no block)',
            n_block=len(block),
            n_nodes=graph.n_nodes,
        )
    if not any(block):
        return graph
    rules = graph.backward or everything_saved(graph)
    blocks = _Contraction.of(graph, rules, block)
    reader = row_of(graph.read_indptr)
    outer = blocks.group[reader] != blocks.home[graph.read_indices]
    read_indptr, read_indices = blocks.rows(reader[outer], blocks.value[graph.read_indices[outer]])
    backward = _backward(graph, rules, blocks) if graph.backward is not None or blocks.merged.any() else None
    contracted = ComputationGraph(
        value_indptr=blocks.value_indptr,
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=blocks.of_values(graph.memory, blocks.inner),
        compute=blocks.sums(graph.compute),
        workspace=blocks.sums(np.where(blocks.alone, graph.workspace, 0)),
        once=blocks.sums(graph.once) > 0,
        output=graph.output[blocks.origin] & (blocks.origin >= 0),
        backward=backward,
        resident=_resident(graph, blocks),
        mark=_mark(graph, blocks),
        labels=_labels(graph, blocks, block),
    )
    if backward is None:
        return contracted
    workspace, grad_workspace = _workspaces(replace(graph, backward=rules), contracted, blocks.group)
    return replace(
        contracted,
        workspace=contracted.workspace + workspace,
        backward=replace(backward, grad_workspace=backward.grad_workspace + grad_workspace),
    )


def able(graph: ComputationGraph, rules: Backward) -> Bool:
    """bool[n]: True for a node that can have a gradient: it reads a parameter or a value with a gradient."""
    flags = np.zeros(graph.n_nodes, bool)
    flags[row_of(graph.read_indptr)[(rules.grad_memory >= 0)[graph.read_indices]]] = True
    if graph.resident is not None:
        is_parameter = (graph.resident.role == PARAMETER)[graph.resident.read_indices]
        flags[row_of(graph.resident.read_indptr)[is_parameter]] = True
    return flags


@dataclass(frozen=True, slots=True, eq=False)
class _Contraction:
    """Map of nodes and values of the original graph ("old" ids) to those of the contracted graph ("new" ids)."""

    # Per old node: its block.
    group: Int64
    # Per block: number of nodes.
    size: Int64
    # Per old value: its block, and True if it stays a value.
    home: Int64
    kept: Bool
    # Per block: bytes of the inner value; -1 without an inner value.
    inner: Int64
    # Per new value: its old value; -1 for an inner value.
    origin: Int64
    # Row pointers from blocks to new values.
    value_indptr: Int64
    # Per old value: the new value that contains it; -1 if it disappears.
    value: Int32

    @classmethod
    def of(cls, graph: ComputationGraph, rules: Backward, block: Sequence[str]) -> _Contraction:
        group = _groups(graph, rules, block)
        size = np.bincount(group)
        home = group[graph.producer]
        kept = _kept(graph, group, size > 1)
        saver = row_of(rules.saved_indptr)
        hidden = np.unique(rules.saved_indices[able(graph, rules)[saver] & ~kept[rules.saved_indices]])
        inner = np.full(size.size, -1)
        inner[home[hidden]] = 0
        np.add.at(inner, home[hidden], graph.memory[hidden])
        old, with_inner = np.flatnonzero(kept), np.flatnonzero(inner >= 0)
        owner = np.append(home[old], with_inner)
        order = np.argsort(owner, kind="stable")
        origin = np.append(old, np.full(with_inner.size, -1))[order]
        value_indptr = np.searchsorted(owner[order], np.arange(size.size + 1))
        value = np.full(graph.n_values, -1, np.int32)
        value[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        value[hidden] = value_indptr[home[hidden] + 1] - 1
        return cls(group, size, home, kept, inner, origin, value_indptr, value)

    @property
    def merged(self) -> Bool:
        return self.size > 1

    @property
    def alone(self) -> Bool:
        return ~self.merged[self.group]

    def sums(self, amounts: Int64 | Bool) -> Int64:
        total = np.zeros(self.size.size, np.int64)
        np.add.at(total, self.group, amounts)
        return total

    def of_values(self, old: Int64, inner: Int64) -> Int64:
        """int64[n_new_values]: entries of `old` for values that stay, entries of `inner` for inner values of blocks."""
        owner = row_of(self.value_indptr)
        return np.where(self.origin >= 0, old[self.origin], inner[owner])

    def rows(self, node: Int64, entry: Int32) -> tuple[Int64, Int32]:
        """Group entries of nodes by block; return (indptr, distinct entries in order of first appearance)."""
        row = self.group[node]
        _, first = np.unique((row << 32) + entry, return_index=True)
        first.sort()
        return group_rows(row[first], entry[first], self.size.size)


def _groups(graph: ComputationGraph, rules: Backward, block: Sequence[str]) -> Int64:
    """int64[n]: block of each node, numbered in topological order."""
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(name, len(codes)) for name in block])
    alone = graph.once | (code == codes.get("", -1))
    moved = graph.once & (np.diff(graph.read_indptr) == 0)
    rest = np.flatnonzero(~moved)
    begins = np.ones(rest.size, bool)
    begins[1:] = (code[rest[1:]] != code[rest[:-1]]) | alone[rest[1:]] | alone[rest[:-1]]
    run = np.zeros(graph.n_nodes, np.int64)
    run[rest] = np.cumsum(begins)
    begins[np.searchsorted(rest, _first_fed(graph, rules, np.where(moved, 0, run)))] = True
    run[rest] = np.cumsum(begins)
    next_run = np.append(run[rest], run.max() + 1)[np.searchsorted(rest, np.flatnonzero(moved))]
    # Sort key: 2 * run for the nodes of a run, and one less for a `once` node that moves before this run.
    place = 2 * run
    place[moved] = 2 * next_run - 1
    order = np.argsort(place, kind="stable")
    group = np.empty(graph.n_nodes, np.int64)
    group[order] = np.cumsum((np.diff(place[order], prepend=0) > 0) | moved[order]) - 1
    return group


def _first_fed(graph: ComputationGraph, rules: Backward, run: Int64) -> Int64:
    """For each run that reads values with gradients only from itself, return the first node that reads such a value."""
    reader = row_of(graph.read_indptr)
    has_gradient = rules.grad_memory[graph.read_indices] >= 0
    reader, source = reader[has_gradient], graph.producer[graph.read_indices[has_gradient]]
    inside = run[source] == run[reader]
    runs, first = np.unique(run[reader[inside]], return_index=True)
    return reader[inside][first[~np.isin(runs, run[reader[~inside]])]]


def _kept(graph: ComputationGraph, group: Int64, merged: Bool) -> Bool:
    """bool[n_values]: True for a value that stays.

    These are outputs, values of single nodes, and values that a node outside their block reads.
    """
    home, reader = group[graph.producer], group[row_of(graph.read_indptr)]
    kept = graph.output | ~merged[home]
    kept[graph.read_indices[home[graph.read_indices] != reader]] = True
    last = np.zeros(merged.size, np.int64)
    np.maximum.at(last, group, np.arange(graph.n_nodes))
    # Every node needs a value. If a block would have none, keep the first value of its last node.
    without_value = ~np.isin(np.arange(merged.size), home[kept])
    kept[graph.value_indptr[last[without_value]]] = True
    return kept


def _backward(graph: ComputationGraph, rules: Backward, blocks: _Contraction) -> Backward:
    """Return the gradient rules of blocks; gradients of merged blocks get their workspace later."""
    saver = row_of(rules.saved_indptr)
    can = able(graph, rules)
    saves = (can | blocks.alone)[saver]
    saved_indptr, saved_indices = blocks.rows(saver[saves], blocks.value[rules.saved_indices[saves]])
    grad_compute = rules.grad_compute
    twice = np.where(grad_compute < 0, 2 * graph.compute, grad_compute) * can
    explicit = np.where(blocks.merged, blocks.sums(twice), blocks.sums(grad_compute))
    return Backward(
        saved_indptr=saved_indptr,
        saved_indices=saved_indices,
        grad_memory=blocks.of_values(rules.grad_memory, np.full(blocks.size.size, -1)),
        grad_compute=np.where(blocks.sums(grad_compute >= 0) > 0, explicit, -1),
        grad_workspace=blocks.sums(np.where(blocks.alone, rules.grad_workspace, 0)),
    )


def _resident(graph: ComputationGraph, blocks: _Contraction) -> Resident | None:
    resident = graph.resident
    if resident is None:
        return None
    reader = row_of(resident.read_indptr)
    read_indptr, read_indices = blocks.rows(reader, resident.read_indices)
    return replace(resident, read_indptr=read_indptr, read_indices=read_indices)


def _mark(graph: ComputationGraph, blocks: _Contraction) -> Int8 | None:
    if graph.mark is None:
        return None
    keep, recompute = (blocks.sums(graph.mark == mark) == blocks.size for mark in (KEEP, RECOMPUTE))
    return (KEEP * keep + RECOMPUTE * recompute).astype(np.int8)


def _labels(graph: ComputationGraph, blocks: _Contraction, block: Sequence[str]) -> Labels:
    first = np.unique(blocks.group, return_index=True)[1].tolist()
    node_names, value_names = graph.node_names(), graph.value_names()
    views = _views(graph, blocks.kept, node_names, value_names)
    block_names = ["" if graph.once[v] else block[v] for v in first]
    names_of_values = ["" if x < 0 else value_names[x] for x in blocks.origin.tolist()]
    names = _UniqueNames({*names_of_values, *graph.resident_names, *views})
    names.used.update(node_names[v] for v, name in zip(first, block_names, strict=True) if not name)
    own = [
        names.free(name, names_of_values[x]) if name else node_names[v]
        for v, name, x in zip(first, block_names, blocks.value_indptr.tolist(), strict=False)
    ]
    for x, home in zip(np.flatnonzero(blocks.origin < 0).tolist(), np.flatnonzero(blocks.inner >= 0), strict=True):
        names_of_values[x] = names.free(f"{own[home]}:inner")
    ops = ["Block" if merged else graph.labels.op(v) for v, merged in zip(first, blocks.merged.tolist(), strict=True)]
    return replace(
        graph.labels, names=tuple(own), value_names=dict(enumerate(names_of_values)), ops=tuple(ops), views=views
    )


def _views(
    graph: ComputationGraph, kept: Bool, node_names: Sequence[str], value_names: Sequence[str]
) -> dict[str, str]:
    if not graph.labels.views:
        return {}
    value = dict(zip(node_names, graph.value_indptr[:-1].tolist(), strict=True))
    value |= {name: x for x, name in enumerate(value_names)}
    views = {}
    for name, base in graph.labels.views.items():
        if base not in value:
            views[name] = base
        elif kept[value[base]]:
            views[name] = value_names[value[base]]
    return views


@dataclass(frozen=True, slots=True)
class _UniqueNames:
    """The names in use, and the last number appended to each name."""

    used: set[str]
    numbers: dict[str, int] = field(default_factory=dict)

    def free(self, name: str, own: str = "") -> str:
        """Return the name if it is free or belongs to the value `own`, else the next free one of name#2, name#3, ..."""
        candidate = name
        while candidate in self.used and candidate != own:
            self.numbers[name] = self.numbers.get(name, 1) + 1
            candidate = f"{name}#{self.numbers[name]}"
        self.used.add(candidate)
        return candidate


def _workspaces(fine: ComputationGraph, coarse: ComputationGraph, group: Int64) -> tuple[Int64, Int64]:
    """Return the workspace of each block and of its gradient, such that contraction does not lower the peak.

    The workspace is the peak while the nodes of the block run, minus the bytes of the new node; 0 for a single node.
    Both graphs are differentiated, with every output that has a gradient as a loss, and simulated in id order. This is
    done with and without gradients of parameters, and the larger workspace counts.
    """
    span = _spans(group)
    home = np.full(coarse.n_nodes, -1)
    home[group] = span
    workspace, grad_workspace = np.zeros((2, coarse.n_nodes), np.int64)
    resident = fine.resident
    learned = resident is not None and bool((resident.role == PARAMETER).any())
    for parameter_gradients in (False, True)[: 1 + learned]:
        nodes, blocks = (_IdOrderSteps.of(graph, parameter_gradients) for graph in (fine, coarse))
        # True for steps of merged blocks, False for single nodes inside the id range of a block.
        own = home[blocks.owner] == blocks.owner
        for scratch, backward in ((workspace, False), (grad_workspace, True)):
            inside = nodes.rise(coarse.n_nodes, span, nodes.backward == backward)
            without = blocks.rise(coarse.n_nodes, home, blocks.backward == backward, own & ~blocks.seed)
            np.maximum(scratch, np.where(without >= 0, inside - without, 0), out=scratch)
    return workspace, grad_workspace


def _spans(group: Int64) -> Int64:
    """int64[n]: the merged block whose range of ids contains the node, or -1 without one."""
    node = np.arange(group.size)
    first = np.full(group.max() + 1, group.size)
    last = np.zeros(first.size, np.int64)
    np.minimum.at(first, group, node)
    np.maximum.at(last, group, node)
    several = np.flatnonzero(first < last)
    several = several[np.argsort(first[several])]
    before = np.append(several, -1)[np.searchsorted(first[several], node, side="right") - 1]
    return np.where((before >= 0) & (node <= last[before]), before, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _IdOrderSteps:
    """Simulation of a differentiated graph in id order; each array has one entry per step."""

    # Forward node to which the step belongs.
    owner: Int64
    backward: Bool
    # True for the gradient of a loss.
    seed: Bool
    # live: bytes live during the step. before: how many of them were live before it.
    live: Int64
    before: Int64

    @classmethod
    def of(cls, graph: ComputationGraph, parameter_gradients: bool) -> _IdOrderSteps:
        bare = replace(graph, compute=np.zeros(graph.n_nodes, np.int64), mark=None, labels=Labels())
        owner, training = np.arange(graph.n_nodes), bare
        seed = np.zeros(graph.n_nodes, bool)
        if graph.backward is not None and (graph.output & (graph.backward.grad_memory >= 0)).any():
            training = differentiate(bare, parameter_gradients=parameter_gradients)
            target, reader = gradient_pairs(bare, parameter_gradients=parameter_gradients)
            of_loss = graph.producer[np.where(reader < 0, target, 0)]
            owner = np.append(owner, np.where(reader < 0, of_loss, reader))
            seed = np.append(seed, reader < 0)
        order = np.flatnonzero(training.needed)
        *_, live = instance_lifetimes(training.arrays, order.astype(np.int32), NO_PAIRS, NO_TRIPLES, NO_PAIRS)
        before = live - (training.node_memory + training.workspace)[order]
        return cls(owner[order], order >= graph.n_nodes, seed[order], live, before)

    def rise(self, n_blocks: int, home: Int64, part: Bool, counted: Bool | None = None) -> Int64:
        """Return blocks' maximum live bytes at `counted` steps of `part`, minus the live bytes before the block."""
        steps = np.flatnonzero(part & (home[self.owner] >= 0))
        highest, before = np.full((2, n_blocks), -1, np.int64)
        # Write in reverse order, so that the first step of each block is written last.
        before[home[self.owner[steps[::-1]]]] = self.before[steps[::-1]]
        if counted is not None:
            steps = steps[counted[steps]]
        np.maximum.at(highest, home[self.owner[steps]], self.live[steps])
        return np.where(highest >= 0, highest - before, -1)
