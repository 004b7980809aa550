"""Workspace of a block: bytes beyond its values while its nodes run without rematerialization."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int32, Int64
from remat_algos.ir.backward import Backward
from remat_algos.ir.csr import row_of, select_entries, to_lists
from remat_algos.ir.differentiate import PARAMETER
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.graph import needed_nodes


def workspaces(graph: ComputationGraph, rules: Backward, group: Int64, kept: Bool) -> tuple[Int64, Int64]:
    """Scratch bytes of each block and of its gradients: the peak inside, minus the bytes of the block itself.

    Inside, nodes run once in id order, and a value that is neither saved nor read outside is freed after its last read.
    Gradients run as `differentiate` orders them, with every output that has a gradient as a loss; the larger figure
    of those with and without gradients of parameters counts.

    Parameters
    ----------
    graph : ComputationGraph
        The forward part.
    rules : Backward
        Its gradients.
    group : int64[n]
        The block of each node.
    kept : bool[n_values]
        Values of the blocks; all others that gradients read are one value per block.

    Returns
    -------
    workspace, grad_workspace : int64[blocks]
        Of a block of one node, those of the node.
    """
    blocks = _Spans.of(group)
    alone = np.flatnonzero(np.bincount(group)[group] == 1)
    workspace, grad_workspace = np.zeros((2, int(group.max()) + 1), np.int64)
    workspace[group[alone]], grad_workspace[group[alone]] = graph.workspace[alone], rules.grad_workspace[alone]
    if blocks.block.size:
        workspace[blocks.block] = _scratch(graph, rules, kept, blocks)
        gradients = _Gradients.of(graph, rules, kept, blocks)
        scratch = gradients.scratch(with_parameters=False)
        if any(gradients.parameters):
            scratch = np.maximum(scratch, gradients.scratch(with_parameters=True))
        grad_workspace[blocks.block] = scratch
    return workspace, grad_workspace


def able(graph: ComputationGraph, rules: Backward) -> Bool:
    """bool[n]: nodes that can have a gradient: they read a value with a gradient, or a parameter."""
    flags = np.zeros(graph.n_nodes, bool)
    flags[row_of(graph.read_indptr)[(rules.grad_memory >= 0)[graph.read_indices]]] = True
    if graph.resident is not None:
        is_parameter = (graph.resident.role == PARAMETER)[graph.resident.read_indices]
        flags[row_of(graph.resident.read_indptr)[is_parameter]] = True
    return flags


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Blocks of several nodes, and all nodes from the first to the last of each.

    A single node in between moves before the block, but runs there in the original graph.
    """

    block: Int64  # [spans] its id
    first: Int64  # [spans]
    last: Int64  # [spans]
    span: Int64  # [n] index in these arrays, -1: none
    inside: Bool  # [n] whether a node is one of the block

    @classmethod
    def of(cls, group: Int64) -> _Spans:
        node = np.arange(group.size)
        block, first, size = np.unique(group, return_index=True, return_counts=True)
        last = np.zeros(block.size, np.int64)
        np.maximum.at(last, group, node)
        block, first, last = (array[size > 1] for array in (block, first, last))
        before = np.searchsorted(first, node, side="right") - 1
        span = np.where(node <= np.append(last, -1)[before], before, -1)
        return cls(block, first, last, span, size[group] > 1)


def _saved(graph: ComputationGraph, rules: Backward, selected: Bool) -> tuple[Int32, Int64]:
    """The selected values that gradients read, and the first node whose gradient does."""
    saver = row_of(rules.saved_indptr)
    entries = able(graph, rules)[saver] & selected[rules.saved_indices]
    values, first = np.unique(rules.saved_indices[entries], return_index=True)
    return values, saver[entries][first]


def _scratch(graph: ComputationGraph, rules: Backward, kept: Bool, blocks: _Spans) -> Int64:
    """int64[spans]: of the run forwards."""
    stays, last_use = graph.output.copy(), graph.producer.astype(np.int64)
    stays[rules.saved_indices[able(graph, rules)[row_of(rules.saved_indptr)]]] = True
    np.maximum.at(last_use, graph.read_indices, row_of(graph.read_indptr))
    freed = np.zeros(graph.n_nodes, np.int64)
    np.add.at(freed, last_use[~stays], graph.memory[~stays])
    after = np.cumsum(graph.node_memory - freed)  # live bytes after each node
    peak = after + freed + graph.workspace
    # live anyway: bytes at its start, its values, and those of nodes that move before it
    own = kept | np.isin(np.arange(graph.n_values), _saved(graph, rules, ~kept)[0])
    own &= blocks.inside[graph.producer] | stays | (last_use > graph.producer)
    bytes_of = np.zeros(blocks.block.size, np.int64)
    in_span = blocks.span[graph.producer]
    np.add.at(bytes_of, in_span[own & (in_span >= 0)], graph.memory[own & (in_span >= 0)])
    outside = np.append(after, 0)[blocks.first - 1] + bytes_of
    peaks = np.zeros(blocks.block.size, np.int64)
    np.maximum.at(peaks, blocks.span[blocks.span >= 0], peak[blocks.span >= 0])
    return np.maximum(peaks - outside, 0)


@dataclass(frozen=True, slots=True)
class _Gradients:
    """The gradients of a graph in lists; ids of parameters follow those of values."""

    values: list[range]
    reads: list[list[int]]  # values that have a gradient
    parameters: list[list[int]]
    size: list[int]  # -1: no gradient
    workspace: list[int]
    active: list[bool]  # nodes that lead to a loss
    seeded: list[bool]
    awaited: list[int]  # bytes of a loss that is live only for its seed
    freed: list[int]  # bytes of values that the gradient of a node is the last to read
    kept: list[bool]
    blocks: _Spans

    @classmethod
    def of(cls, graph: ComputationGraph, rules: Backward, kept: Bool, blocks: _Spans) -> _Gradients:
        has_gradient, size = rules.grad_memory >= 0, rules.grad_memory.tolist()
        parameters: list[list[int]] = [[]] * graph.n_nodes
        if graph.resident is not None:
            size += graph.resident.memory.tolist()
            is_parameter = graph.resident.role == PARAMETER
            indptr, indices = select_entries(
                graph.resident.read_indptr, graph.resident.read_indices, is_parameter[graph.resident.read_indices]
            )
            parameters = to_lists(indptr, indices + graph.n_values)
        reads = select_entries(graph.read_indptr, graph.read_indices, has_gradient[graph.read_indices])
        seeds = graph.output & has_gradient
        active = needed_nodes(graph.value_indptr, *reads, graph.producer, seeds.view(np.uint8)).view(np.bool_)
        awaited = np.where(seeds, graph.memory, 0)
        awaited[rules.saved_indices[(active & able(graph, rules))[row_of(rules.saved_indptr)]]] = 0
        freed = np.zeros(graph.n_nodes, np.int64)
        saved, first_saver = _saved(graph, rules, ~graph.output)
        np.add.at(freed, first_saver, graph.memory[saved])
        return cls(
            values=[range(begin, end) for begin, end in pairwise(graph.value_indptr.tolist())],
            reads=to_lists(*reads),
            parameters=parameters,
            size=size,
            workspace=rules.grad_workspace.tolist(),
            active=active.tolist(),
            seeded=seeds.tolist() + [False] * len(graph.resident_names),
            awaited=awaited.tolist(),
            freed=freed.tolist(),
            kept=kept.tolist(),
            blocks=blocks,
        )

    def scratch(self, *, with_parameters: bool) -> Int64:
        """int64[spans]: of the gradients of blocks."""
        begun, live = [False] * len(self.size), sum(self.freed)
        span, place = self.blocks.span.tolist(), {v: i for i, v in enumerate(self.blocks.last.tolist())}
        peaks, room = [0] * len(place), [0] * len(place)
        for v in reversed(range(len(self.values))):
            if v in place:
                room[place[v]] = self._block(place[v], begun, live, with_parameters)
            if not self.active[v]:
                continue  # it leads to no loss
            targets = self.reads[v] + self.parameters[v] if with_parameters else self.reads[v]
            live, peak, of_seeds = self._run(begun, live, self.values[v], targets, self.workspace[v])
            live -= self.freed[v] + (sum(self.size[y] for y in self.values[v] if begun[y]) if targets else 0)
            if span[v] >= 0:
                peaks[span[v]] = max(peaks[span[v]], peak, of_seeds)
        return np.maximum(np.subtract(peaks, room), 0)

    def _block(self, span: int, begun: list[bool], live: int, with_parameters: bool) -> int:
        """Peak of the gradients of a block without workspace; seeds have no workspace."""
        ends = self.blocks.first[span], self.blocks.last[span] + 1
        nodes = [v for v in range(*ends) if self.blocks.inside[v]]
        own = dict.fromkeys(x for v in nodes for x in self.values[v])
        targets = [x for x in dict.fromkeys(x for v in nodes for x in self.reads[v]) if x not in own]
        if with_parameters:
            targets += sorted({p for v in nodes for p in self.parameters[v]})
        own_kept = [x for x in own if self.kept[x]]
        new = [x for x in (*own_kept, *targets) if not begun[x]]
        _, peak, _ = self._run(begun, live, own_kept, targets, 0)
        for x in new:
            begun[x] = False
        return peak if targets else LARGEST_SUM

    def _run(
        self, begun: list[bool], live: int, own: Iterable[int], targets: Sequence[int], workspace: int
    ) -> tuple[int, int, int]:
        """Live bytes after the gradients of a node, their peak, and the peak of seeds."""
        peak = of_seeds = 0
        for x, scratch in (*((y, -1) for y in own), *((x, workspace) for x in targets)):
            if self.seeded[x] and not begun[x]:
                of_seeds = max(of_seeds, live + self.size[x])
                live += self.size[x] - self.awaited[x]
                begun[x] = True
            if scratch >= 0:
                peak = max(peak, live + self.size[x] + scratch)  # the earlier sum is live until the new one is computed
                live += 0 if begun[x] else self.size[x]
                begun[x] = True
        return live, peak, of_seeds
