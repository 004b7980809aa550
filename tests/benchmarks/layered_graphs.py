"""Random layered graphs after the published description of those that planners of recomputation are compared on.

Layers of uneven width; narrow reads from layer to layer, 14 % skips; sizes from four normal classes; uniform costs.
`layered` of `optima.py` and `layered_dag` of the zoo are other rules.
"""

import math
import random
from itertools import pairwise

import numpy as np

from remat_algos.ir.graph import ComputationGraph

UNEVENNESS = 0.75  # of the widths: sigma
DENSITY = 0.2  # of the reads between neighbouring layers: rho
SKIPS = 0.14  # of all reads
CLASSES = ((0.10, 0.21, 0.10), (0.33, 0.80, 0.34), (0.33, 2.10, 0.81), (0.24, 4.21, 1.18))  # weight, mean, deviation
SMALLEST = 0.005  # of the sizes as drawn
COSTS = 1000

Layers = list[list[int]]
Edges = set[tuple[int, int]]


def layered_graph(n_nodes: int, width: float, seed: int) -> ComputationGraph:
    """A forward graph whose last node is its only output.

    Parameters
    ----------
    n_nodes : int
    width : float
        The parameter w: the mean layer has about sqrt(n w / (1 - w)) nodes.
    seed : int

    Examples
    --------
    >>> graph = layered_graph(250, 0.43, seed=0)
    >>> graph.n_nodes, graph.read_indices.size, graph.needed_compute, int(graph.output.sum())
    (250, 1053, 122188, 1)
    """
    rng = random.Random(seed)
    layers = _layers(rng, n_nodes, width)
    edges = Edges()
    for first, second in pairwise(layers):
        edges |= _reads(rng, first, second)
    edges |= _skips(rng, layers, round(len(edges) * SKIPS / (1 - SKIPS)) if len(layers) >= 4 else 0)
    memory = _sizes(rng, n_nodes)
    compute = [0, *(rng.randrange(COSTS) for _ in range(n_nodes - 1))]
    output = np.arange(n_nodes) == n_nodes - 1
    return ComputationGraph.from_edges(sorted(edges), memory, compute, n_nodes=n_nodes, output=output)


def _layers(rng: random.Random, n_nodes: int, width: float) -> Layers:
    """Node ids by layer: one node, layers of a width that is drawn, one node."""
    depth = math.ceil(math.sqrt(n_nodes * (1 / width - 1)))
    narrowest = math.ceil((1 - UNEVENNESS) * n_nodes / depth)
    widest = math.floor((1 + UNEVENNESS) * n_nodes / depth)
    layers, used = [[0]], 1
    while used < n_nodes - 1:
        count = min(rng.randint(narrowest, widest), n_nodes - 1 - used)
        layers.append(list(range(used, used + count)))
        used += count
    return [*layers, [n_nodes - 1]]


def _reads(rng: random.Random, first: list[int], second: list[int]) -> Edges:
    """Each node of the larger layer is joined to a few side by side in the smaller, so that each node has one."""
    large, small, forward = (first, second, True) if len(first) >= len(second) else (second, first, False)
    count = int(DENSITY * len(first) * len(second) + (1 - DENSITY) * max(len(first), len(second)))
    degrees = [count // len(large)] * len(large)
    for i in rng.sample(range(len(large)), count - sum(degrees)):
        degrees[i] += 1
    pairs = set()
    for i, degree in enumerate(degrees):
        degree = min(max(degree, 1), len(small))
        middle = i * (len(small) - 1) / (len(large) - 1) if len(large) > 1 else (len(small) - 1) / 2
        begin = min(max(round(middle - (degree - 1) / 2), 0), len(small) - degree)
        pairs |= {(i, j) for j in range(begin, begin + degree)}
    for j in set(range(len(small))) - {j for _, j in pairs}:
        pairs.add((round(j * (len(large) - 1) / max(1, len(small) - 1)), j))
    return {(large[i], small[j]) if forward else (small[j], large[i]) for i, j in pairs}


def _skips(rng: random.Random, layers: Layers, count: int) -> Edges:
    """Reads over one layer or more, from about the same place in it; the last layer has none."""
    skips = Edges()
    for _ in range(count):
        from_layer = rng.randrange(0, len(layers) - 3)
        tails, heads = layers[from_layer], layers[rng.randrange(from_layer + 2, len(layers) - 1)]
        place = rng.random()
        other = min(0.999, place + 0.2 * rng.random())
        skips.add((tails[int(place * len(tails))], heads[int(other * len(heads))]))
    return skips


def _sizes(rng: random.Random, count: int) -> list[int]:
    """Bytes, multiples of 10."""
    sizes: list[int] = []
    weights = [weight for weight, _, _ in CLASSES]
    while len(sizes) < count:
        _, mean, deviation = CLASSES[rng.choices(range(len(CLASSES)), weights)[0]]
        size = rng.gauss(mean, deviation)
        if size > SMALLEST:
            sizes.append(10 * max(1, round(100 * size)))
    return sizes
