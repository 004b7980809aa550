"""Networks for echo: the cases of the notes by number, and a family of random ones."""

import numpy as np

from remat_algos.context import Clock
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels
from remat_algos.solvers.methods.echo import Choice, echo, recomputable_nodes
from remat_algos.solvers.registry import Task
from tests.strategies import rows as rows_of

SEED, COUNT = 2020, 1000


def echoed(graph, **options):
    """The one candidate of echo."""
    [candidate] = echo(graph, Task(), Clock(), **options)
    return candidate


def network(rows, loss=True):
    """A training graph of rows (name, bytes, reads, values that its gradient reads); capitals are heavy.

    Every end feeds a heavy loss of no bytes that saves nothing, because seeds read real sinks.
    """
    if loss:
        read = {name for row in rows for name in row[2].split()}
        rows = [*rows, ("Loss", 0, " ".join(row[0] for row in rows if row[0] not in read), "")]
    place = {row[0]: i for i, row in enumerate(rows)}
    reads, saved = ([[place[name] for name in row[k].split()] for row in rows] for k in (2, 3))
    ops = tuple("Linear" if name[0].isupper() else "Tanh" for name in place)
    return differentiate(forward_graph(reads, saved, [row[1] for row in rows], Labels(names=tuple(place), ops=ops)))


def forward_graph(reads, saved, memory, labels):
    n = len(reads)
    return ComputationGraph.from_arrays(
        **rows_of("read", reads),
        memory=memory,
        backward=Backward(**rows_of("saved", saved), grad_memory=memory, grad_compute=[-1] * n, grad_workspace=[0] * n),
        labels=labels,
    )


def elementwise(first, n):
    """e1, .., en after a heavy node, of 4 bytes; each gradient reads the output of its node."""
    return [(f"e{i}", 4, f"e{i - 1}" if i > 1 else first, f"e{i}") for i in range(1, n + 1)]


def attention(steps):
    """Figure 8: one large tensor is added to small ones."""
    rows = [("X", steps, "", "")]
    for t in range(steps):
        rows += [(f"Y{t}", 1, "", ""), (f"add{t}", steps, f"X Y{t}", ""), (f"tanh{t}", steps, f"add{t}", f"tanh{t}")]
    return rows


def decoder(steps):
    """Figure 8 in its network: a heavy end per step, from which the next step comes."""
    rows = [("X", steps, "", ""), ("Y0", 1, "", "")]
    for t in range(steps):
        rows += [(f"Y{t}", 1, f"End{t - 1}", f"End{t - 1}")] if t else []
        rows += [(f"add{t}", steps, f"X Y{t}", ""), (f"tanh{t}", steps, f"add{t}", f"tanh{t}")]
        rows += [(f"End{t}", 1, f"tanh{t} Y{t}", f"tanh{t} Y{t}")]
    return rows


def diamonds(k):
    """a, b = f(c), c = add(a, b), and again."""
    rows, c = [("H", 1, "", "")], "H"
    for i in range(k):
        rows += [(f"a{i}", 1, c, f"a{i}"), (f"b{i}", 1, c, f"b{i}"), (f"c{i}", 1, f"a{i} b{i}", "")]
        c = f"c{i}"
    return rows


X_Y = [("X", 4, "", ""), ("Y", 4, "", "")]
ADD_TANH = [("add", 4, "X Y", ""), ("tanh", 4, "add", "tanh")]
CASES = {
    "T1, n = 4": [("H", 4, "", ""), *elementwise("H", 4)],
    "T1, n = 6": [("H", 4, "", ""), *elementwise("H", 6)],
    "T2": [*X_Y, *ADD_TANH],
    **{f"T3, T = {steps}": attention(steps) for steps in (1, 2, 3, 5, 8)},
    "T5": [("X", 4, "", ""), ("y", 4, "X", "y"), ("z", 4, "y", "z"), ("FC", 4, "z", "z")],
    "T6": [("H", 4, "", ""), *elementwise("H", 4), ("FC", 4, "e4", "e4"), ("t", 4, "FC", "t")],
    "T7": [("H", 3, "", ""), ("v1", 3, "H", ""), ("v2", 2, "v1 H", "v2")],
    "T7b": [("H", 3, "", ""), ("v1", 1, "H", "v1"), ("v2", 4, "H v1", "")],
    "T8": [("H", 1, "", ""), ("a", 4, "H", "a"), ("b", 4, "a", "b"), ("c", 4, "a b", "a b"), ("G", 4, "c", "c")],
    "T9": diamonds(40),
    "T10": [*X_Y, ("W2", 4, "X", "X"), *ADD_TANH],
}


def random_networks(count=COUNT):
    """The committed family: 2 to 12 forward nodes of 1 to 9 bytes, some heavy, gradients that read at random."""
    rng = np.random.default_rng(SEED)
    for _ in range(count):
        n, density, heaviness = int(rng.integers(2, 12, endpoint=True)), rng.uniform(0.15, 0.6), rng.uniform(0.1, 0.5)
        reads = [[u for u in range(v) if rng.random() < density] for v in range(n)]
        saved = [[*(u for u in reads[v] if rng.random() < 0.4), *([v] if rng.random() < 0.5 else [])] for v in range(n)]
        ops = tuple("Linear" if rng.random() < heaviness else "Tanh" for _ in range(n))
        yield differentiate(forward_graph(reads, saved, rng.integers(1, 9, n, endpoint=True), Labels(ops=ops)))


def mirror_all(graph):
    """(bytes, nodes recomputed) where all that is cheap is recomputed."""
    maps = Choice.of(graph).maps
    choice = Choice.recomputing(maps, maps.recomputable)
    return choice.figures["stash"], choice.figures["rerun"]


def recomputable(graph, **options):
    return set(np.flatnonzero(recomputable_nodes(graph, **options)).tolist())


def nodes(flags):
    return set(np.flatnonzero(flags).tolist())


def tensors(maps):
    """The graph G of the files echo_*.py in examples/by_the_book, and its heavy nodes, from feature maps."""
    graph = maps.graph
    rows = [graph.value_indptr, *maps.readers()]
    arrays = [maps.read_indptr, maps.value, *rows, np.where(graph.output, 0, graph.memory)]
    return (*(np.array(row, np.int64) for row in arrays), np.array(maps.read_back)), ~maps.recomputable
