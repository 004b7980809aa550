"""Hypothesis strategies: graphs, training graphs, sound schedules, chains of lower sets."""

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident
from tests.oracles.plain import plain

MORE = settings(max_examples=5 * settings().max_examples // 3)
"""For laws that are quick to test: 25 examples by default, and more than of others in every profile."""

FEATURES = ("several values", "once", "outputs", "residents", "workspace", "labels", "backward")


@st.composite
def graphs(draw, max_nodes=12, min_nodes=0, room=None, seeded=False):
    """Forward graphs, of at most `room` nodes and reads together.

    With `seeded` the last node's first value is an output and has a gradient.
    """
    features = draw(st.sets(st.sampled_from(FEATURES)))
    size = draw(st.integers(min_nodes, max_nodes))
    most_values = 3 if "several values" in features else 1
    ends, reads = draw(structures(size, most_values, 3 * size if room is None else room - size))
    n_nodes, n_values = len(reads), ends[-1]
    seed = ends[-2] if seeded else None
    return ComputationGraph.from_arrays(
        **rows("read", reads),
        value_indptr=ends,
        memory=draw(numbers(n_values, 9)),
        compute=draw(numbers(n_nodes, 5)),
        workspace=draw(numbers(n_nodes, 5)) if "workspace" in features else 0,
        once=draw(flags(n_nodes)) if "once" in features else None,
        output=draw(outputs(n_values, seed)) if "outputs" in features and n_nodes else None,
        resident=draw(residents(n_nodes)) if "residents" in features else None,
        labels=draw(labels(n_nodes, n_values)) if "labels" in features else None,
        backward=draw(backwards(ends, reads, seed)) if "backward" in features else None,
    )


@st.composite
def structures(draw, n_nodes, most_values, most_reads):
    """Ends of the values of each node, and the earlier values that each node reads."""
    ends, reads = [0], []
    for _ in range(n_nodes):
        reads.append(draw(subsets(range(ends[-1]), most=min(3, most_reads))))
        most_reads -= len(reads[-1])
        ends.append(ends[-1] + (draw(st.integers(1, most_values)) if most_values > 1 else 1))
    return ends, reads


@st.composite
def outputs(draw, n_values, seed):
    flags = [False] * n_values
    for x in draw(subsets(range(n_values), least=1)) + ([] if seed is None else [seed]):
        flags[x] = True
    return flags


@st.composite
def residents(draw, n_nodes):
    roles = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    reads = [draw(subsets(range(len(roles)))) for _ in range(n_nodes)]
    names = [f"p{i}" for i in range(len(roles))]
    return Resident(memory=draw(numbers(len(roles), 9)), role=roles, **rows("read", reads), names=names)


@st.composite
def labels(draw, n_nodes, n_values):
    """Nodes have small letters, some values a name of their own."""
    names = draw(st.lists(st.text("abc", min_size=1, max_size=4), min_size=n_nodes, max_size=n_nodes, unique=True))
    ops = st.lists(st.sampled_from(["", "Conv", "ReLU"]), min_size=n_nodes, max_size=n_nodes).map(tuple)
    named = draw(subsets(range(n_values)))
    return Labels(names=tuple(names), value_names={x: f"X{x}" for x in named}, ops=draw(st.none() | ops))


@st.composite
def backwards(draw, ends, reads, seed):
    n_nodes = len(reads)
    grad_memory = draw(numbers(ends[-1], 9, least=-1))
    if seed is not None:
        grad_memory[seed] = max(grad_memory[seed], 0)
    return Backward(
        **rows("saved", [draw(subsets([*reads[v], *range(ends[v], ends[v + 1])])) for v in range(n_nodes)]),
        grad_memory=grad_memory,
        grad_compute=draw(numbers(n_nodes, 5, least=-1)),
        grad_workspace=draw(numbers(n_nodes, 5)),
    )


@st.composite
def training_graphs(draw, max_nodes=24, parameter_gradients=None):
    """Differentiated graphs of 2 to `max_nodes` nodes in all.

    Nothing is filtered: one in ten has too many gradients and is drawn again with fewer nodes, in the end with one.
    """
    for most in (max_nodes // 2, max_nodes // 3, max_nodes // 4):
        graph = draw(graphs(max_nodes=max(1, most), min_nodes=1, room=max_nodes - 1, seeded=True))
        options = draw(differentiation(graph))
        if parameter_gradients is not None:
            options["parameter_gradients"] = parameter_gradients
        training = differentiate(graph, **options)
        if training.n_nodes <= max_nodes:
            return training
    return differentiate(ComputationGraph.from_arrays(read_indptr=[0, 0], read_indices=[], memory=draw(numbers(1, 9))))


@st.composite
def captured_graphs(draw, max_nodes=24):
    """Training graphs, some of whose backward nodes belong to no one forward node."""
    graph = draw(training_graphs(max_nodes))
    forward_of = graph.forward_of.copy()
    forward_of[draw(subsets(np.flatnonzero(~graph.forward).tolist(), least=1))] = -2
    return replace(graph, forward_of=forward_of, derivation=None)


@st.composite
def differentiation(draw, graph):
    """Options of `differentiate` for a graph with a value that has a gradient."""
    g = plain(graph)
    losses = [name for name, memory in zip(g.value_names, g.grad_memory, strict=True) if memory != -1]
    return {
        "factor": draw(st.sampled_from([2, 0, 1, 1.5])),
        "parameter_gradients": draw(st.booleans()),
        "loss": draw(st.none() | st.lists(st.sampled_from(losses), min_size=1, max_size=2, unique=True)),
        "keep_outputs": draw(st.booleans()),
    }


@st.composite
def stage_chains(draw, max_stages=3):
    """Differentiated graphs whose forward part is a chain of nodes, pairs, triangles and diamonds."""
    reads, last = [], []
    for _ in range(draw(st.integers(2, max_stages))):
        v, kind = len(reads), draw(st.sampled_from(["node", "pair", "triangle", "diamond"]))
        reads += {"node": [last], "pair": [last, [v]], "triangle": [last, [v, *last]]}.get(
            kind, [last, last, [v, v + 1]]
        )
        last = [len(reads) - 1]
    n = len(reads)
    backward = None
    if draw(st.booleans()):
        saved = rows("saved", [draw(subsets([*read, v])) for v, read in enumerate(reads)])
        backward = Backward(**saved, grad_memory=draw(numbers(n, 9)), grad_compute=[-1] * n, grad_workspace=[0] * n)
    graph = ComputationGraph.from_arrays(
        **rows("read", reads),
        memory=draw(numbers(n, 9)),
        compute=draw(numbers(n, 5)),
        workspace=draw(numbers(n, 5)) if draw(st.booleans()) else 0,
        once=draw(flags(n)) if draw(st.booleans()) else None,
        backward=backward,
    )
    return differentiate(graph, factor=draw(st.sampled_from([2, 0, 1])), keep_outputs=draw(st.booleans()))


@st.composite
def unit_chains(draw, max_nodes=7):
    """Differentiated chains of nodes of equal size and cost."""
    n = draw(st.integers(3, max_nodes))
    reads = [[v - 1] if v else [] for v in range(n)]
    backward = None
    if draw(st.booleans()):
        backward = Backward(**rows("saved", reads), grad_memory=[2] * n, grad_compute=[-1] * n, grad_workspace=[0] * n)
    graph = ComputationGraph.from_arrays(**rows("read", reads), memory=2, compute=3, backward=backward)
    return differentiate(graph, factor=draw(st.sampled_from([2, 0, 1])))


def without_once(graph):
    """The graph whose nodes may all run again."""
    return replace(graph, once=np.zeros(graph.n_nodes, bool), derivation=None)


@st.composite
def orders(draw, graph):
    """Sound schedules: needed nodes in any order, between them others, and nodes again."""
    g = plain(graph)
    needed, order = g.needed(), []
    spare = draw(st.integers(0, 2 * len(g.nodes)))
    while True:
        ready = [v for v in g.nodes if all(u in order for u in g.predecessors(v))]
        fresh = [v for v in ready if v in needed and v not in order]
        others = [v for v in ready if v not in fresh and not (g.once[v] and v in order)] if spare else []
        if not fresh + others:
            return order
        node = draw(st.sampled_from(fresh + others))
        spare -= node in others
        order.append(node)


@st.composite
def lower_set_chains(draw, graph):
    """Growing lower sets of the forward part, each larger than the one before; the last holds all of it."""
    g = plain(graph)
    last, block = draw(st.integers(0, len(g.nodes))), {}
    for v in g.forward():
        block[v] = max([draw(st.integers(0, last)), *(block[u] for u in g.predecessors(v))])
    return [{v for v in block if block[v] <= end} for end in sorted(set(block.values()))]


def numbers(count, most, least=0):
    return st.lists(st.integers(least, most), min_size=count, max_size=count)


def flags(count):
    return st.lists(st.booleans(), min_size=count, max_size=count)


def subsets(items, least=0, most=None):
    """Some of the items, in any order."""
    if not items:
        return st.just([])
    return st.lists(st.sampled_from(items), min_size=least, max_size=most, unique=True)


def rows(name, lists):
    """Lists of ids as the two arrays of compressed rows."""
    indptr = np.cumsum([0] + [len(row) for row in lists])
    return {f"{name}_indptr": indptr, f"{name}_indices": [x for row in lists for x in row]}
