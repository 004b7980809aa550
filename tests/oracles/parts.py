"""Schedules that compute one output after another, each from the inputs on and for itself, as a person would by hand.

Only the outputs before it stay live. Where parts meet late nothing else fits near the lowest peak; within any limit it
is an upper bound on the optimum.
"""

import itertools

import numpy as np

from remat_algos.ir.graph import ComputationGraph


def one_by_one(graph, lowest):
    """(peak, compute) over all orders of the outputs, by `lowest`, which gives those of the graph of one output."""
    outputs = np.flatnonzero(graph.output).tolist()
    alone = {output: lowest(ancestors(graph, output)) for output in outputs}
    compute = sum(compute for _, compute in alone.values())
    return min(_peak(graph, order, alone) for order in itertools.permutations(outputs)), compute


def _peak(graph, outputs, alone):
    live, peak = 0, 0
    for output in outputs:
        peak = max(peak, live + alone[output][0])
        live += int(graph.memory[output])
    return peak


def ancestors(graph, output):
    """The graph of one output, of nodes of one value each."""
    nodes = {output}
    for v in range(output, -1, -1):
        if v in nodes:
            nodes |= set(graph.reads(v))
    order = sorted(nodes)
    edges = [(order.index(u), i) for i, v in enumerate(order) for u in sorted(set(graph.reads(v)))]
    memory, compute = graph.memory[order], graph.compute[order]
    return ComputationGraph.from_edges(edges, memory=memory, compute=compute, n_nodes=len(order))
