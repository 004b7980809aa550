"""Random graphs of every feature, drawn quickly: forward, differentiated, with an optimizer's updates."""

import itertools

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident

OPERATIONS = ("", "Convolution", "ReLU", "BatchNorm", "Linear", "Dropout", "MatMul", "Add")
EXACT = 2**53  # sums of sizes stay below it; graphs that do not are refused
SIZES = ("unit", "small", "small", "zeros", "skew", "huge")


def random_graph(rng):
    """A small graph; GraphError where its sizes are drawn too large."""
    edges, n_nodes = _edges(rng)
    counts = [rng.choice((1, 1, 2, 3)) for _ in range(n_nodes)] if rng.random() < 0.35 else [1] * n_nodes
    ends = [0, *itertools.accumulate(counts)]
    reads = [[] for _ in range(n_nodes)]
    for u, v in edges:
        reads[v] += rng.sample(range(ends[u], ends[u + 1]), rng.randint(1, counts[u]))
    once = [rng.random() < 0.15 for _ in reads] if rng.random() < 0.3 else [False] * n_nodes
    memory = _sizes(rng, ends[-1], "over" if rng.random() < 0.02 else rng.choice(SIZES))
    train = rng.random() < 0.65
    graph = ComputationGraph.from_arrays(
        **_rows("read", reads),
        value_indptr=ends,
        memory=memory,
        compute=_sizes(rng, n_nodes, rng.choice(SIZES)),
        workspace=_sizes(rng, n_nodes, rng.choice(("small", "skew", "huge"))) if rng.random() < 0.3 else 0,
        once=once,
        output=_outputs(rng, ends[-1]) if rng.random() < 0.4 else None,
        mark=_marks(rng, once) if rng.random() < 0.25 else None,
        resident=_residents(rng, n_nodes) if rng.random() < 0.4 else None,
        backward=_backward(rng, ends, reads, memory) if train and rng.random() < 0.6 else None,
        labels=_labels(rng, n_nodes) if rng.random() < 0.5 else None,
    )
    if not train:
        return graph
    graph = differentiate(
        graph,
        factor=rng.choice((2, 2, 1, 0, 0.5, 3)),
        parameter_gradients=rng.random() < 0.3,
        keep_outputs=rng.random() < 0.2,
        encode=rng.random() < 0.1,
    )
    return _with_updates(rng, graph) if graph.resident is not None and rng.random() < 0.5 else graph


def _edges(rng):
    """Pairs u < v in the order of v, and the number of nodes."""
    shape = rng.choice(list(SHAPES))
    most = rng.choices((4, 8, 14, 40), (40, 48, 9, 3))[0]
    n = rng.randint(1, most)
    pairs = {(u, v) for u, v in SHAPES[shape](rng, n) if 0 <= u < v < n}
    return sorted(pairs, key=lambda pair: (pair[1], rng.random())), n


def _layers(rng, n):
    width = rng.randint(1, 5)
    return [(u, v) for v in range(n) for u in range((v // width - 1) * width, v // width * width) if rng.random() < 0.6]


def _dag(rng, n):
    share = rng.choice((0.05, 0.15, 0.4, 0.9))
    return [(u, v) for v in range(n) for u in range(v - 12, v) if rng.random() < share]


SHAPES = {
    "alone": lambda rng, n: [],
    "chain": lambda rng, n: [(v - 1, v) for v in range(n)],
    "tree": lambda rng, n: [(rng.randrange(v), v) for v in range(1, n)],
    "tree to one": lambda rng, n: [(u, rng.randrange(u + 1, n)) for u in range(n - 1)],
    "layers": _layers,
    "dag": _dag,
    "parts": lambda rng, n: [(v - rng.randint(1, 3), v) for v in range(n) if rng.random() < 0.6],
    "fan out": lambda rng, n: [*((0, v) for v in range(n)), (1, n - 1)],
    "fan in": lambda rng, n: [(u, n - 1) for u in range(n)],
    "ladder": lambda rng, n: [(v - k, v) for v in range(n) for k in (1, 2, 3) if k == 1 or rng.random() < 0.4],
    "u-net": lambda rng, n: [pair for v in range(n) for pair in ((v - 1, v), (n - 1 - v, v))],
}


def _sizes(rng, count, kind):
    draw = {
        "unit": lambda: 1,
        "small": lambda: rng.randint(0, 9),
        "zeros": lambda: rng.choice((0, 0, 0, 1, 5)),
        "skew": lambda: rng.choice((1, 2, 1000, 10**6)),
        "huge": lambda: rng.randint(0, EXACT // (6 * max(1, count))),
        "over": lambda: rng.choice((EXACT - 1, EXACT, 2**62, 2**63 - 1, -1)),
    }[kind]
    return [draw() for _ in range(count)]


def _outputs(rng, n_values):
    flags = [rng.random() < 0.15 for _ in range(n_values)]
    flags[rng.randrange(n_values)] = True
    return flags


def _marks(rng, once):
    return [rng.choice((0, 0, 0, 1, 0 if single else 2)) for single in once]


def _residents(rng, n_nodes):
    roles = [rng.randrange(3) for _ in range(rng.randint(1, 4))]
    reads = [sorted(rng.sample(range(len(roles)), rng.choice((0, 0, 1, min(2, len(roles)))))) for _ in range(n_nodes)]
    names = tuple(f"resident{i}" for i in range(len(roles)))
    return Resident(memory=_sizes(rng, len(roles), "small"), role=roles, names=names, **_rows("read", reads))


def _backward(rng, ends, reads, memory):
    pools = [[*own, *range(ends[v], ends[v + 1])] for v, own in enumerate(reads)]
    return Backward(
        **_rows("saved", [sorted(rng.sample(pool, rng.randint(0, len(pool)))) for pool in pools]),
        grad_memory=[size if rng.random() < 0.85 else rng.choice((-1, 0, 3)) for size in memory],
        grad_compute=[rng.choice((-1, -1, 0, 7)) for _ in reads],
        grad_workspace=[rng.choice((0, 0, 5)) for _ in reads],
    )


def _labels(rng, n_nodes):
    operations = tuple(rng.choice(OPERATIONS) for _ in range(n_nodes)) if rng.random() < 0.7 else None
    names = tuple(f"n{v}" for v in range(n_nodes))
    return Labels(names=names, ops=operations, compute_unit=rng.choice(("", "us")))


def _with_updates(rng, graph):
    """An update of each parameter and state: it reads a gradient, runs once, and makes an output of no bytes."""
    resident, gradients = graph.resident, np.flatnonzero(~graph.forward).tolist()
    changed = np.flatnonzero(resident.role != 0).tolist() if gradients else []
    if not changed:
        return graph
    sources = [rng.choice(gradients) for _ in changed]
    count = len(changed)

    def longer(array, more):
        return np.concatenate([array, np.asarray(more, array.dtype)])

    labels = graph.labels
    ends = np.arange(1, count + 1)
    return ComputationGraph(
        value_indptr=longer(graph.value_indptr, graph.n_values + ends),
        read_indptr=longer(graph.read_indptr, graph.read_indices.size + ends),
        read_indices=longer(graph.read_indices, graph.value_indptr[sources]),
        memory=longer(graph.memory, [0] * count),
        compute=longer(graph.compute, [1] * count),
        workspace=longer(graph.workspace, [0] * count),
        once=longer(graph.once, [True] * count),
        output=longer(graph.output, [True] * count),
        forward_of=longer(graph.forward_of, graph.forward_of[sources]),
        mark=None if graph.mark is None else longer(graph.mark, [0] * count),
        resident=Resident(
            memory=resident.memory,
            role=resident.role,
            read_indptr=longer(resident.read_indptr, resident.read_indices.size + ends),
            read_indices=longer(resident.read_indices, changed),
            names=resident.names,
        ),
        labels=Labels(
            names=(*graph.node_names(), *(f"update({resident.names[r]})" for r in changed)),
            ops=None if labels.ops is None else (*labels.ops, *[""] * count),
            compute_unit=labels.compute_unit,
        ),
    )


def _rows(name, lists):
    """Lists of ids as the two arrays of compressed rows."""
    indptr = [0, *itertools.accumulate(len(row) for row in lists)]
    return {f"{name}_indptr": indptr, f"{name}_indices": [x for row in lists for x in row]}
