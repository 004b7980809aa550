"""Small random graphs of the kinds on which searches differ most: towers, encoders, butterflies, stacks, pyramids.

>>> sorted(KINDS)[:3]
['butterfly', 'chain', 'dag']
>>> small_graph("towers", 3, 20).n_nodes <= small_graph("towers", 3, 60).n_nodes
True
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from tests.strategies import rows

Reads = list[list[int]]  # of each node, the nodes before it that it reads
TABLES = ("unit", "small", "skew")  # of sizes and costs


def small_graph(kind: str, seed: int, nodes: int) -> ComputationGraph:
    """A graph of one of `KINDS`, of up to so many nodes with its gradients; `forward dag` and the like have none."""
    forward = kind.startswith("forward")
    for n in range(nodes if forward else nodes // 2 + 1, 3, -1):
        rng = random.Random(f"{kind} {seed}")
        reads = KINDS[kind](rng, n)
        figures = [_figures(rng, len(reads)) for _ in range(2)]
        graph = _graph(reads, *figures) if forward else differentiate(_graph(reads, *figures))
        if graph.n_nodes <= nodes:
            break
    return graph


def small_graphs(count: int, least: int, most: int, *, first: int = 0) -> Iterator[tuple[str, ComputationGraph]]:
    """Names and graphs: the kinds in turn, from seed `first` on, with sizes between two numbers of nodes."""
    for i in range(count):
        kind, seed = sorted(KINDS)[i % len(KINDS)], first + i
        nodes = random.Random(seed).randint(least, most)
        yield f"{kind} {seed} {nodes}", small_graph(kind, seed, nodes)


def graph_of(reads: Reads, **arrays: Any) -> ComputationGraph:
    """A graph from what each node reads, as lists of values."""
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


def training_chain(n: int, **arrays: Any) -> ComputationGraph:
    """Nodes that each read the one before, and their gradients."""
    return differentiate(ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], n_nodes=n, **arrays))


def towers_in_turn(seed: int, length: int) -> ComputationGraph:
    """Two chains that only a loss joins, their nodes in turn by id, with gradients."""
    rng, n = random.Random(f"in turn {seed}"), 2 * length
    reads = [[], [], *([v - 2] for v in range(2, n)), [n - 2, n - 1]]
    figures = [[rng.randint(1, 9) for _ in reads] for _ in range(2)]
    return differentiate(_graph(reads, *figures))


def _graph(reads: Reads, memory: list[int], compute: list[int]) -> ComputationGraph:
    edges = [(u, v) for v, row in enumerate(reads) for u in dict.fromkeys(row)]
    return ComputationGraph.from_edges(edges, memory, compute, n_nodes=len(reads))


def _figures(rng: random.Random, n: int) -> list[int]:
    table = rng.choice(TABLES)
    if table == "unit":
        return [1] * n
    return [rng.randint(1, 9) if table == "small" else int(2 ** rng.uniform(0, 7)) for _ in range(n)]


def _line(reads: Reads, n: int, start: int | None = None) -> int:
    """Add a chain of n nodes, and return its last."""
    for _ in range(n):
        reads.append([] if start is None else [start])
        start = len(reads) - 1
    return len(reads) - 1 if start is None else start


def _join(reads: Reads, ends: list[int]) -> int:
    reads.append(ends)
    return len(reads) - 1


def _chain(rng: random.Random, n: int) -> Reads:
    reads = Reads()
    _line(reads, n)
    return reads


def _residual(rng: random.Random, n: int) -> Reads:
    """A chain in which some nodes also read the one two or three before."""
    return [[v - 1] * (v > 0) + [v - step for step in (2, 3) if v >= step and rng.random() < 0.3] for v in range(n)]


def _towers(rng: random.Random, n: int) -> Reads:
    """Two to four independent chains of equal or unequal lengths, and a loss."""
    count, reads = rng.randint(2, 4), Reads()
    equal = rng.random() < 0.5
    lengths = [max(1, round((n - 1) / count * (1 if equal else rng.uniform(0.4, 1.6)))) for _ in range(count)]
    source = _line(reads, 1) if rng.random() < 0.5 else None
    _join(reads, [_line(reads, length, source) for length in lengths])
    return reads


def _encoders(rng: random.Random, n: int) -> Reads:
    """A binary tree of chains, joined in pairs up to the root."""
    leaves, reads = 4 if n >= 10 else 2, Reads()
    length = max(1, n // (2 * leaves - 1))
    level = [_line(reads, max(1, length + rng.randint(-1, 1))) for _ in range(leaves)]
    while len(level) > 1:
        level = [_line(reads, max(0, length - 1), _join(reads, level[i : i + 2])) for i in range(0, len(level), 2)]
    return reads


def _siamese(rng: random.Random, n: int) -> Reads:
    """A trunk, two copies of a stack on it, and a loss that reads several of their stages."""
    reads, third = Reads(), max(1, (n - 2) // 3)
    trunk = _line(reads, max(1, n - 2 - 2 * third))
    ends, middles = [], []
    for _ in range(2):
        middles.append(_line(reads, max(1, third // 2), trunk))
        ends.append(_line(reads, third - third // 2, middles[-1]))
    _join(reads, ends + middles * (rng.random() < 0.5))
    return reads


def _late_fusion(rng: random.Random, n: int) -> Reads:
    """Two or three chains, joined, and a head behind them."""
    count, reads = rng.randint(2, 3), Reads()
    head = max(1, n // 4)
    ends = [_line(reads, max(1, (n - head - 1) // count + rng.randint(-1, 1))) for _ in range(count)]
    _line(reads, head, _join(reads, ends))
    return reads


def _butterfly(rng: random.Random, n: int) -> Reads:
    """Layers of four nodes, each of which reads two of the layer before, as in a fast Fourier transform."""
    reads: Reads = [[], [], [], []]
    for layer in range(max(1, n // 4 - 1)):
        step = 1 if layer % 2 else 2
        reads += [[4 * layer + i, 4 * layer + (i ^ step)] for i in range(4)]
    _join(reads, [*range(len(reads) - 4, len(reads))])
    return reads


def _twice(rng: random.Random, n: int) -> Reads:
    """A stack traversed twice: the second traversal reads the stages of the first."""
    half = max(1, n // 2)
    return [[v - 1] * (v > 0) for v in range(half)] + [[half + v - 1, v] for v in range(half)]


def _window(rng: random.Random, n: int) -> Reads:
    """Each node reads all of the two to four before it."""
    reach = rng.randint(2, 4)
    return [[*range(max(0, v - reach), v)] for v in range(n)]


def _pyramid(rng: random.Random, n: int) -> Reads:
    """Rows that shorten by one; each node reads its two neighbours of the row before."""
    width = 2
    while (width + 1) * (width + 2) // 2 <= n:
        width += 1
    reads: Reads = [[] for _ in range(width)]
    for row in range(width - 1, 0, -1):
        begin = len(reads) - row - 1
        reads += [[begin + i, begin + i + 1] for i in range(row)]
    return reads


def _u_shape(rng: random.Random, n: int) -> Reads:
    """A chain whose second half also reads the mirrored stages of the first."""
    return [[v - 1] * (v > 0) + [n - 1 - v] * (v > n // 2) for v in range(n)]


def _dag(rng: random.Random, n: int) -> Reads:
    """Each node reads one to three of the last few; the last one reads what nobody has read."""
    reach = rng.choice((3, 6, n))
    reads = [[rng.randrange(max(0, v - reach), v) for _ in range(rng.randint(1, 3))] if v else [] for v in range(n - 1)]
    read = {u for row in reads for u in row}
    return [*reads, [u for u in range(n - 1) if u not in read]]


KINDS: Mapping[str, Callable[[random.Random, int], Reads]] = {
    "butterfly": _butterfly,
    "chain": _chain,
    "dag": _dag,
    "encoders": _encoders,
    "forward dag": _dag,
    "forward pyramid": _pyramid,
    "late fusion": _late_fusion,
    "pyramid": _pyramid,
    "residual": _residual,
    "siamese": _siamese,
    "towers": _towers,
    "twice": _twice,
    "u-shape": _u_shape,
    "window": _window,
}
