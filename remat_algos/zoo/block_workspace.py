"""Workspace of a block: live bytes of its nodes beyond its values while they run without rematerialization."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from remat_algos.ir.arrays import NO_PAIRS, NO_TRIPLES, Bool, Int64
from remat_algos.ir.differentiate import PARAMETER, differentiate, gradient_pairs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import Labels
from remat_algos.kernels.lifetimes import instance_lifetimes


def workspaces(fine: ComputationGraph, coarse: ComputationGraph, group: Int64) -> tuple[Int64, Int64]:
    """Scratch bytes of each block and of its gradients: the peak inside, minus the bytes of the block itself.

    Both graphs are differentiated, with every output that has a gradient as a loss, and simulated in id order. The
    workspace of a block is how much higher the bytes of its nodes rise from its first step on than its own.
    The larger figure of those with and without gradients of parameters counts.

    Parameters
    ----------
    fine : ComputationGraph
        The forward part, with its `backward`.
    coarse : ComputationGraph
        The same with a node for each block; blocks of several nodes have no workspace yet.
    group : int64[n]
        The block of each node.

    Returns
    -------
    workspace, grad_workspace : int64[blocks]
        0 for a block of one node.
    """
    span = _spans(group)
    home = np.full(coarse.n_nodes, -1)
    home[group] = span
    workspace, grad_workspace = np.zeros((2, coarse.n_nodes), np.int64)
    resident = fine.resident
    learned = resident is not None and bool((resident.role == PARAMETER).any())
    for parameter_gradients in (False, True)[: 1 + learned]:
        nodes, blocks = (_IdOrderSteps.of(graph, parameter_gradients) for graph in (fine, coarse))
        own = home[blocks.owner] == blocks.owner  # no single node in between
        for scratch, backward in ((workspace, False), (grad_workspace, True)):
            inside = nodes.rise(coarse.n_nodes, span, nodes.backward == backward)
            # a seed has no workspace
            without = blocks.rise(coarse.n_nodes, home, blocks.backward == backward, own & ~blocks.seed)
            np.maximum(scratch, np.where(without >= 0, inside - without, 0), out=scratch)
    return workspace, grad_workspace


def _spans(group: Int64) -> Int64:
    """int64[n]: the block of several nodes whose span contains the node, or -1.

    A single node in between moves before the block, but runs there in the fine graph.
    """
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
    """A differentiated graph simulated in id order; an entry for each step."""

    owner: Int64  # the forward node that runs, whose gradient runs, or whose value is the loss of a seed
    backward: Bool
    seed: Bool
    live: Int64  # bytes
    before: Int64  # bytes that are live both before and during the step

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
        """int64[blocks]: the highest live bytes of a block's steps, less those before its first; -1 without steps.

        home : int64[n] the block of each forward node, -1: none; part : bool[steps]
        counted : bool[steps] the steps that may be the highest; by default all.
        """
        steps = np.flatnonzero(part & (home[self.owner] >= 0))
        highest, before = np.full((2, n_blocks), -1, np.int64)
        before[home[self.owner[steps[::-1]]]] = self.before[steps[::-1]]  # the first step is written last
        if counted is not None:
            steps = steps[counted[steps]]
        np.maximum.at(highest, home[self.owner[steps]], self.live[steps])
        return np.where(highest >= 0, highest - before, -1)
