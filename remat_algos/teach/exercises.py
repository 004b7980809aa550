"""Exercises on small random graphs; the package computes each answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.bounds.closure import closure_cut, overhead_bound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.questions.what_if import what_if
from remat_algos.schedule.emission import mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import timeline
from remat_algos.schedule.views import step_table
from remat_algos.search.solve import solve
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph, elimination_of
from remat_algos.structure.lower_sets import LowerSets, lower_set_family
from remat_algos.structure.treewidth import width_bounds
from remat_algos.text.markdown import markdown_table
from remat_algos.wording import one_line


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question about a small random graph, and its answer; both are Markdown.

    Parameters
    ----------
    topic : str
    seed : int
        Topic and seed determine the exercise.
    question, answer : str
        `str(exercise)` is a heading followed by the question; `answer` explains the steps.
    result : tuple
        The numbers and names that the question asks for, in the order in which it does so.

    Examples
    --------
    >>> sheet = exercise("boundaries", 1)
    >>> print(sheet.answer)
    A node of the set is on the boundary if a node outside the set reads it: a, b, c, of 8 + 3 + 4 = 15 bytes.
    >>> sheet.result
    (('a', 'b', 'c'), 15)
    """

    topic: str
    seed: int
    question: str
    answer: str
    result: tuple[Any, ...]

    def __repr__(self) -> str:
        return one_line(self, self.topic, f"seed {self.seed}")

    def __str__(self) -> str:
        return f"## {self.topic}, exercise {self.seed}\n\n{self.question}"

    @property
    def key(self) -> str:
        """The sheet with the answer below it."""
        return f"{self}\n\n**Answer.** {self.answer}"


@checked_arguments
def exercise(topic: str, seed: int = 0) -> Exercise:
    """Make an exercise on a small random graph, with its key.

    Parameters
    ----------
    topic : str
        "segments", "recursion", "lower sets", "boundaries", "schedule peak", "mirror counts", "live sets", "treewidth",
        "closure bound", "offsets", "offload timing" or "greedy choice".
    seed : int
        0 or more.

    Returns
    -------
    Exercise

    Raises
    ------
    ValueError
        If the topic is unknown or the seed is negative.

    Examples
    --------
    >>> print(exercise("offsets", 5).answer)
    The worst step needs 10 bytes. The smallest arena has 10 bytes: buffers 0 at 0, 1 at 6, 2 at 0, 3 at 0, 4 at 4.
    """
    if topic not in _TOPICS:
        raise ArgumentError("there is no topic {topic!r}; topics are {topics!l}", topic=topic, topics=list(_TOPICS))
    result, fields = _TOPICS[topic](np.random.default_rng(as_seed(seed)))
    question, _, answer = _sheets()[topic].format_map(fields).partition("\n\n**Answer.** ")
    return Exercise(topic, seed, question, answer, result)


Filling = tuple[tuple[Any, ...], dict[str, Any]]
"""The result of an exercise, and the fields of its question and answer."""


@cache
def _sheets() -> dict[str, str]:
    _, *sections = files("remat_algos.teach").joinpath("sheets.md").read_text("utf-8").split("\n## ")
    paragraphs = [[" ".join(each.split("\n")) for each in section.strip().split("\n\n")] for section in sections]
    return {topic: "\n\n".join(rest) for topic, *rest in paragraphs}


def _graph(rng: np.random.Generator, n: int, edges: Iterable[tuple[int, int]], equal: bool = False) -> ComputationGraph:
    """Build a graph with nodes a, b, c, ... of random compute and bytes; if `equal`, all have the same bytes."""
    memory, compute = np.resize(rng.integers(1, 10, 1 if equal else n), n), rng.integers(1, 10, n)
    labels = Labels(names=tuple(chr(ord("a") + v) for v in range(n)), compute_unit="us")
    return ComputationGraph.from_edges(sorted(edges), memory, compute, labels=labels)


def _chain(rng: np.random.Generator, n: int, equal: bool = False) -> ComputationGraph:
    return differentiate(_graph(rng, n, pairwise(range(n)), equal))


def _branches(rng: np.random.Generator, n: int) -> ComputationGraph:
    """Build a forward graph in which each node except the first reads one or two of the three nodes before it."""
    near = [rng.permutation(np.arange(max(0, v - 3), v))[: rng.integers(1, 3)].tolist() for v in range(1, n)]
    return _graph(rng, n, [(u, v) for v, reads in enumerate(near, 1) for u in reads])


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items)) or "-"


def _named(graph: ComputationGraph, nodes: Iterable[int]) -> list[str]:
    return [graph.labels[v] for v in nodes]


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return "\n".join(markdown_table(heads, [tuple(map(str, row)) for row in rows], [head != "reads" for head in heads]))


def _of_graph(graph: ComputationGraph) -> dict[str, Any]:
    nodes = np.flatnonzero(graph.forward).tolist()
    rows = [(graph.labels[v], _listed(_named(graph, graph.reads(v))), graph.memory[v], graph.compute[v]) for v in nodes]
    table = _table(("node", "reads", "bytes", "compute"), rows)
    return {"table": f"{table}\n\n{_sheets()['gradients']}" if graph.is_training else table}


def _of_run(run: Simulation) -> dict[str, Any]:
    graph = run.graph
    row = next(row for row in step_table(run) if row.peak)
    memory = dict(zip(graph.value_names(), graph.memory.tolist(), strict=True))
    live = _listed(f"{name} ({memory[name]})" for name in row.live)
    peak = f"The peak is at {row.name}, where these values are live, with their bytes: {live}; in sum {row.bytes}."
    return {**_of_graph(graph), "order": f"The order is {' '.join(run.schedule.names(graph))}.", "peak": peak}


# ---------------------------------------------------------------- topics


def segments(rng: np.random.Generator) -> Filling:
    n = int(rng.integers(6, 10))
    graph = _chain(rng, n)
    ends = sorted(rng.permutation(np.arange(1, n - 1))[: rng.integers(1, 3)].tolist())
    run = simulate(graph, what_if(graph, keep=_named(graph, [*ends, *range(ends[-1] + 1, n)])))
    extra = len(run.schedule) - graph.n_nodes
    return (run.peak_memory, extra), {**_of_run(run), "ends": _listed(_named(graph, ends)), "extra": extra}


def recursion(rng: np.random.Generator) -> Filling:
    depth = int(rng.integers(2, 5))
    graph = _chain(rng, 2**depth - 1, equal=True)
    plan = solve(graph, solver="chen_recursive", splits=1, depth=depth, candidates="all", keep_last=True, raw=True)
    runs = int(plan.simulation.runs[graph.forward].sum())
    return (plan.peak_memory, runs), {**_of_run(plan.simulation), "depth": depth, "runs": runs}


def lower_sets(rng: np.random.Generator) -> Filling:
    graph = _branches(rng, int(rng.integers(4, 7)))
    sets = [f"{{{', '.join(_named(graph, row))}}}" for row in lower_set_family(graph).sets()]
    return (len(sets),), {**_of_graph(graph), "count": len(sets), "sets": _listed(sets)}


def boundaries(rng: np.random.Generator) -> Filling:
    graph = _branches(rng, int(rng.integers(5, 8)))
    inside = {int(rng.integers(1, graph.n_nodes - 1)), 0}
    for v in range(graph.n_nodes - 1, -1, -1):
        if v in inside:
            inside |= set(graph.reads(v))
    sets = LowerSets.of(graph, [sorted(inside), range(graph.n_nodes)])
    boundary = [v for v in sorted(inside) if sets.kept(graph)[v]]
    sizes = graph.memory[boundary].tolist()
    fields = {"inside": _listed(_named(graph, sorted(inside))), "boundary": _listed(_named(graph, boundary))}
    fields |= {"summands": " + ".join(map(str, sizes)), "total": str(sum(sizes))}
    return (tuple(_named(graph, boundary)), sum(sizes)), {**_of_graph(graph), **fields}


def schedule_peak(rng: np.random.Generator) -> Filling:
    graph = differentiate(_branches(rng, 4))
    run = simulate(graph, what_if(graph, recompute=_named(graph, [int(rng.integers(0, 3))])))
    return (run.peak_memory, run.peak_step + 1), {**_of_run(run), "step": run.peak_step + 1}


def mirror_counts(rng: np.random.Generator) -> Filling:
    graph = _chain(rng, 5)
    counts = [*rng.integers(0, 2, 4).tolist(), 0]
    run = simulate(graph, mirror_schedule(graph, [*counts, *[0] * (graph.n_nodes - 5)]))
    fields = {**_of_run(run), "counts": _listed(counts), "steps": len(run.schedule)}
    return (len(run.schedule), run.peak_memory), fields


def live_sets(rng: np.random.Generator) -> Filling:
    plan = solve(_branches(rng, 6), "least", solver="live_set_search")
    return (plan.peak_memory,), _of_run(plan.simulation)


def treewidth(rng: np.random.Generator) -> Filling:
    edges = [(int(rng.integers(0, v)), v) for v in range(1, 6)]
    edges += [(u, v) for v in range(6) for u in range(v) if (u, v) not in edges and rng.random() < 0.25]
    graph, order = UndirectedGraph.from_edges(6, edges), rng.permutation(6).tolist()
    removals, best = elimination_of(graph, order), width_bounds(graph)
    bags = TreeDecomposition.of(removals)
    around = [f"{v}: {_listed(sorted({*bags.bag(i)} - {v}))}" for i, v in enumerate(order)]
    fields = {"edges": _listed(f"{u}-{v}" for u, v in sorted(edges)), "order": _listed(order), "width": removals.width}
    fields |= {"best": _listed(best.elimination.order), "treewidth": best.lower_bound, "removals": "; ".join(around)}
    return (removals.width, best.lower_bound), fields


def closure_bound(rng: np.random.Generator) -> Filling:
    graph = _chain(rng, 5)
    limit = (least_peak_bound(graph)[0] + simulate(graph, range(graph.n_nodes)).peak_memory) // 2
    bound = overhead_bound(graph, limit)
    overhead, cut = bound.amount - graph.needed_compute, closure_cut(graph, bound)
    reason = "At every first run all values that are read later fit."
    if cut is not None and bound.prices is not None:
        ids = {"read": cut.forced_values, "kept": cut.kept, "recomputed": cut.recomputed}
        fields = {key: _listed(_named(graph, nodes)) for key, nodes in ids.items()}
        price = Fraction(bound.prices.byte).limit_denominator(99)
        fields |= {"node": graph.labels[cut.node], "price": str(price), "bytes": str(cut.forced)}
        reason = _sheets()["minimum cut"].format_map(fields)
    return (overhead,), {**_of_graph(graph), "limit": limit, "reason": reason, "overhead": overhead}


def offsets(rng: np.random.Generator) -> Filling:
    begin = np.sort(rng.integers(0, 5, 5))
    buffers = Buffers(begin, begin + rng.integers(1, 4, 5), rng.integers(1, 10, 5))
    packed = pack(buffers)
    rows = zip(range(5), buffers.begin, buffers.end - 1, buffers.size, strict=True)
    places = _listed(f"{i} at {offset}" for i, offset in enumerate(packed.offset))
    fields = {"table": _table(("buffer", "first step", "last step", "bytes"), rows), "places": places}
    return (buffers.max_live, packed.size), {**fields, "buffers": buffers, "packed": packed}


def offload_timing(rng: np.random.Generator) -> Filling:
    graph = _chain(rng, 4)
    load = int(rng.integers(4, 6))
    schedule = Schedule(np.arange(graph.n_nodes, dtype=np.int32), np.array([[load, 0]], np.int32))
    # Copying a byte takes a microsecond, which is also the unit of the costs.
    line = timeline(simulate(graph, schedule), Link(1e6, 1e6, latency=0))
    fields = {"load": graph.labels[load], "line": line, "begins": _listed(line.begin)}
    return (line.time, line.waiting), {**_of_graph(graph), **fields}


def greedy_choice(rng: np.random.Generator) -> Filling:
    graph = _chain(rng, 4)
    names = _named(graph, range(4))
    peaks = [simulate(graph, what_if(graph, recompute=[name])).peak_memory for name in names]
    prices = [Fraction(int(graph.compute[v]), int(graph.memory[v])) for v in range(4)]
    greedy, best = (min(range(4), key=figures.__getitem__) for figures in (prices, peaks))
    table = _table(("recomputed", "compute per byte", "peak"), zip(names, prices, peaks, strict=True))
    fields = {"greedy": names[greedy], "best": names[best], "peaks": table}
    return (names[greedy], peaks[greedy], peaks[best]), {**_of_graph(graph), **fields}


_FILL: tuple[Callable[[np.random.Generator], Filling], ...] = (
    *(segments, recursion, lower_sets, boundaries, schedule_peak, mirror_counts, live_sets, treewidth),
    *(closure_bound, offsets, offload_timing, greedy_choice),
)
_TOPICS = {fill.__name__.replace("_", " "): fill for fill in _FILL}
