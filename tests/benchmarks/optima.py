"""Small graphs and their proven optima at up to six limits each, found by two methods.

`python -m tests.benchmarks.optima --golden` searches for them anew and writes tests/golden/optima.json, in
about four minutes; without `--golden` it prints a table of the file: kinds, sizes, overheads.

The methods: `live_set_search`, and an oracle that shares no code with it: Dijkstra over all sets of live values
(tests/oracles/live_sets.py) on graphs of up to 18 values, best first over such sets (tests/oracles/best_first.py) on
larger ones.
"""

import json
import math
import random
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.methods.live_set_search import OPTIMAL
from remat_algos.solvers.registry import list_candidates
from tests.oracles import best_first, live_sets
from tests.oracles.plain import plain
from tests.small_graphs import small_graphs

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "optima.json"
LIMITS = 6
MOST_DIJKSTRA = 18  # values
MOST_STATES = 200_000  # of the kernel's search, on larger graphs, so that the oracle in Python comes to an end
SHARES = range(98, 28, -1)  # of the peak of one pass, in %

Edges = set[tuple[int, int]]


# ---------------------------------------------------------------- graphs


def graphs() -> Iterator[tuple[str, ComputationGraph]]:
    """Names and graphs; unless the name says `forward` with their gradients."""
    rng = np.random.default_rng(20)
    for n in (7, 9, 12, 16, 20, 25):
        yield f"chain {n}", training(rng, n, line(n))
    yield "unit chain 10", differentiate(ComputationGraph.from_edges(sorted(line(10)), n_nodes=10))
    yield "uneven chain 14", training(rng, 14, line(14), high=100)
    for n in (8, 10, 14, 18, 22):
        yield f"residual {n}", training(rng, n, line(n) | {(v, v + 2) for v in range(0, n - 2, 2)})
    for n in (6, 8):
        yield f"dense skip {n}", training(rng, n, line(n) | {(u, v) for v in range(n) for u in range(max(0, v - 4), v)})
    for n in (7, 9, 12, 16):
        yield f"u-shape {n}", training(rng, n, line(n) | {(v, n - 1 - v) for v in range(n // 2 - 1)})
    for n in (4, 6, 8):
        yield f"two towers {n}", training(rng, 2 * n + 1, towers(n))
    yield "skip chain 9", training(rng, 9, line(9) | {(0, 4), (2, 7)})
    for n in (7, 8, 9, 10, 12):
        yield f"near dag {n}", training(rng, n, dag(rng, n, 3))
    for n in (7, 8, 9, 10):
        yield f"far dag {n}", training(rng, n, dag(rng, n, n))
    for n, seed in ((13, 7), (16, 7)):
        yield f"forward dag {n}", weighted(np.random.default_rng(seed), n, dag(np.random.default_rng(seed), n, 6))
    for n, seed in ((14, 2), (18, 6), (22, 5)):
        yield f"forward layered {n}", layered(n, seed)
    yield "attention 1", training(rng, 8, attention(1))
    yield "attention 2", training(rng, 15, attention(2))
    for steps in (2, 3):
        yield f"lstm {steps}", training(rng, 4 * steps + 1, lstm(steps))
    yield from small_graphs(36, 12, 26)


def line(n: int) -> Edges:
    return {(v, v + 1) for v in range(n - 1)}


def towers(n: int) -> Edges:
    """Two chains of n nodes from node 0, joined by the last node."""
    left, right = [0, *range(1, n)], [0, *range(n, 2 * n)]
    both = {*pairwise(left), *pairwise(right)}
    return {*both, (n - 1, 2 * n), (2 * n - 1, 2 * n)}


def attention(layers: int) -> Edges:
    """x, then for each layer query, key, value, scores, context, sum with x, and two nodes of a feed-forward part."""
    edges, x, v = Edges(), 0, 1
    for _ in range(layers):
        query, key, value, scores, context, total, hidden = range(v, v + 7)
        edges |= {(x, query), (x, key), (x, value), (query, scores), (key, scores), (scores, context), (value, context)}
        edges |= {(context, total), (x, total), (total, hidden)}
        x, v = hidden, v + 7
    return edges


def lstm(steps: int) -> Edges:
    """An input, then for each step gates, cell, output gate's product and what is read out."""
    edges, hidden, cell = Edges(), 0, 0
    for step in range(steps):
        gates, state, out, read = range(4 * step + 1, 4 * step + 5)
        edges |= {(hidden, gates), (gates, state), (state, out), (gates, out), (out, read)}
        if step:
            edges.add((cell, state))
        hidden, cell = out, state
    return edges | {(4 * step, 4 * steps) for step in range(1, steps)}


def dag(rng: np.random.Generator, n: int, reach: int) -> Edges:
    """Each node reads one or two of the `reach` before it; what nobody reads is read by the last."""
    edges = {(int(rng.integers(max(0, v - reach), v)), v) for v in range(1, n) for _ in range(2)}
    return edges | {(u, n - 1) for u in range(n - 1) if u not in {tail for tail, _ in edges}}


def weighted(rng: np.random.Generator, n: int, edges: Edges, high: int = 9) -> ComputationGraph:
    memory, compute = rng.integers(1, high, (2, n), endpoint=True)
    return ComputationGraph.from_edges(sorted(edges), memory, compute, n_nodes=n)


def training(rng: np.random.Generator, n: int, edges: Edges, high: int = 9) -> ComputationGraph:
    return differentiate(weighted(rng, n, edges, high))


def layered(n: int, seed: int, w: float = 0.4, sigma: float = 0.75, rho: float = 0.2) -> ComputationGraph:
    """Layers of uneven width, narrow reads to the next layer, 14 % skips; sizes of four classes, uniform costs."""
    r = random.Random(seed)
    depth = math.ceil(math.sqrt(n * (1 / w - 1)))
    low, high = math.ceil((1 - sigma) * n / depth), math.floor((1 + sigma) * n / depth)
    layers, used = [[0]], 1
    while used < n - 1:
        width = min(r.randint(low, high), n - 1 - used)
        layers.append(list(range(used, used + width)))
        used += width
    layers.append([n - 1])
    edges = Edges()
    for first, second in pairwise(layers):
        count = int(rho * len(first) * len(second) + (1 - rho) * max(len(first), len(second)))
        edges |= {(r.choice(first), v) for v in second} | {(u, r.choice(second)) for u in first}
        edges |= {(r.choice(first), r.choice(second)) for _ in range(count - max(len(first), len(second)))}
    for _ in range(int(0.14 * len(edges))):
        tail = r.randrange(len(layers) - 2)
        edges.add((r.choice(layers[tail]), r.choice(layers[r.randrange(tail + 2, len(layers))])))
    sizes = [max(1, round(r.gauss(*r.choice([(4, 1), (16, 4), (64, 8), (128, 16)])))) for _ in range(n)]
    return ComputationGraph.from_edges(sorted(edges), sizes, [r.randint(1, 60) for _ in range(n)], n_nodes=n)


# ---------------------------------------------------------------- the file


def golden() -> list[dict[str, Any]]:
    """For each graph: name, reads, memory, compute, outputs, and [limit, minimum compute or None] at six limits."""
    found: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["graphs"]
    return found


def graph_of(entry: dict[str, Any]) -> ComputationGraph:
    """The graph of an entry; all its nodes are forward, and have one value each."""
    reads = entry["reads"]
    return ComputationGraph.from_arrays(
        read_indptr=np.cumsum([0, *map(len, reads)]),
        read_indices=[u for row in reads for u in row],
        memory=entry["memory"],
        compute=entry["compute"],
        output=np.isin(np.arange(len(reads)), entry["outputs"]),
    )


def entry_of(name: str, graph: ComputationGraph) -> dict[str, Any]:
    """An entry without optima."""
    g = plain(graph)
    return {"name": name, "reads": g.reads, "memory": g.memory, "compute": g.compute, "outputs": sorted(g.outputs)}


def searched(graph: ComputationGraph, limit: int, max_states: int | None = None) -> tuple[int | None, bool, int]:
    """(minimum compute or None, whether that is proved, number of sets) by `live_set_search`."""
    last = list_candidates(graph, "live_set_search", limit, max_states=max_states)[-1]
    states = last.details.get("states", 0)
    if last.figures[0] > limit:
        return None, (last.peak_bound or 0) > limit, states
    return last.figures[1], last.details.get("proof") == OPTIMAL, states


def small_limits(graph: ComputationGraph) -> list[int]:
    """One below the minimum peak, which has no schedule, and five from there to the peak of one pass."""
    lowest = live_sets.least_peak(graph)[0]
    others = np.linspace(lowest, max(lowest, baseline_peak(graph) - 1), LIMITS - 1).astype(int)
    return [lowest - 1, *np.unique(others).tolist()]


def large_limits(graph: ComputationGraph) -> list[int]:
    """The highest and the lowest share that a short search proves, and four between them; one without a schedule."""
    limits: list[int] = []
    for share in SHARES:
        limit = baseline_peak(graph) * share // 100
        if limit in limits:
            continue
        compute, proved, states = searched(graph, limit, MOST_STATES)
        if not proved or states > MOST_STATES:
            break
        limits.append(limit)
        if compute is None:
            break
    places = np.unique(np.linspace(0, len(limits) - 1, LIMITS).round().astype(int))
    return [limits[place] for place in places][::-1]


def search() -> None:
    """Write the golden file: the limits that it has stay."""
    entries, known = [], {entry["name"]: entry for entry in golden()} if GOLDEN.exists() else {}
    for name, graph in graphs():
        entry = entry_of(name, graph)
        graph, begin = graph_of(entry), time.perf_counter()
        small = graph.n_values <= MOST_DIJKSTRA
        limits, optima = small_limits(graph) if small else large_limits(graph), list[Any]()
        if name in known:
            limits = [limit for limit, _ in known[name]["optima"]]
        for limit in limits:
            compute, proved, states = searched(graph, limit)
            if small:
                second = live_sets.least_compute(graph, limit)
                other = None if second is None else second[0]
            else:
                other = best_first.least_compute(graph, limit, None if compute is None else compute + 1)
            if not proved or compute != other:
                raise AssertionError(f"{name}, limit {limit}: {compute} (proved: {proved}), by the oracle {other}")
            optima.append([limit, compute])
            print(f"{name:<20} {graph.n_nodes:>3} {limit:>6} {compute!s:>6} {states:>8}", flush=True)
        entry |= {"optima": optima, "second_method": "live_sets" if small else "best_first"}
        entries.append(entry)
        print(f"{name:<20} {time.perf_counter() - begin:.1f} s", flush=True)
    made_by = (
        "python -m tests.benchmarks.optima --golden: live_set_search, and the oracle of tests/oracles that is named"
    )
    rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    GOLDEN.write_text(f'{{"made_by": {json.dumps(made_by)}, "graphs": [\n{rows}\n]}}\n', encoding="utf-8")


def main() -> None:
    if "--golden" in sys.argv[1:]:
        search()
    print(f"{'graph':<20} {'nodes':>5}  overhead in % of one pass at each limit in % of the peak of one pass")
    for entry in golden():
        graph = graph_of(entry)
        peak, one_pass = baseline_peak(graph), graph.needed_compute
        cells = [
            f"{100 * limit / peak:.0f}: "
            + ("none" if compute is None else f"{100 * (compute - one_pass) / one_pass:.1f}")
            for limit, compute in entry["optima"]
        ]
        print(f"{entry['name']:<20} {graph.n_nodes:>5}  " + "; ".join(cells))


if __name__ == "__main__":
    main()
