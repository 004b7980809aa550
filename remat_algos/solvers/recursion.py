"""Schedules by recursion on separators, for `twremat` and `pathremat`."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Bool, Int32, as_whole, group_rows, row_of
from remat_algos.ir.graph import ComputationGraph, runs_once
from remat_algos.kernels.twremat import PLAIN, UNLIMITED, dependent_nodes, recursive_order
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import WORST, Candidate, Details, evaluated, rank
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.separators import SeparatorTree

Rank = tuple[int, int, int]
Choice = tuple[int, str, int]
"""The maximum number of bytes in a batch, the name of this maximum in the plan's details, and the recursion limit."""
Tree = tuple[SeparatorTree | None, Details]
"""Separators (None if the decomposition is too wide), and details on how they were chosen."""


class Part:
    """The needed nodes of a graph that a recursion may recompute, numbered from 0 in id order.

    A `simplified` part leaves out the weightless nodes, which have no bytes and depend on no node with bytes. They run
    once, before all other nodes. Nodes that compute outputs are never left out.
    """

    def __init__(self, graph: ComputationGraph, simplified: bool) -> None:
        self.graph = graph
        decided = graph.needed & ~_weightless(graph) if simplified else graph.needed
        self.weightless = np.flatnonzero(graph.needed & ~decided).astype(np.int32)
        self.nodes = np.flatnonzero(decided).astype(np.int32)
        number = np.full(graph.n_nodes, -1, np.int32)
        number[self.nodes] = np.arange(self.nodes.size, dtype=np.int32)
        indptr, sources = graph.predecessors
        reader = row_of(indptr)
        inside = decided[reader] & decided[sources]
        self.pred_indptr, self.pred = group_rows(number[reader[inside]], number[sources[inside]], self.nodes.size)
        self.memory = graph.node_memory[self.nodes]
        self.targets = number[np.unique(graph.producer[graph.output])]

    @property
    def largest(self) -> int:
        return int(self.memory.max(initial=0))

    @cached_property
    def undirected(self) -> UndirectedGraph:
        readers = row_of(self.pred_indptr)
        return UndirectedGraph.from_edges(self.nodes.size, np.stack([self.pred, readers], axis=1))

    def schedule(self, tree: SeparatorTree, recursion_limit: int, batch: int, longest: int) -> Schedule | None:
        """Return the schedule of a recursion on a separator tree; None if it has more than `longest` runs.

        Components of fewer than `recursion_limit` bags are run in one pass. In a visit to a component, up to `batch`
        bytes of values for later readers may be computed too: any number with `UNLIMITED`, none with `PLAIN`, as in the
        paper.

        The runs in a visit depend only on the separator, the targets and the nodes to run for the targets. If a later
        visit agrees in all three, it copies the runs of the earlier visit. The three are compared by two 64-bit hashes.
        A hash collision cannot lead to a wrong plan, since every schedule is simulated.
        """
        order = recursive_order(
            self.pred_indptr,
            self.pred,
            self.memory,
            self.targets,
            end=tree.end,
            child_indptr=tree.child_indptr,
            children=tree.children,
            owner=tree.owner,
            n_bags=tree.n_bags,
            recursion_limit=recursion_limit,
            batch=batch,
            longest=longest,
        )
        return None if order is None else self.completed(order)

    def completed(self, order: Int32) -> Schedule:
        """Return the schedule of the whole graph: weightless nodes, then `order`. Nodes of `runs_once` occur once."""
        graph = self.graph
        single = runs_once(graph)
        runs = np.concatenate([self.weightless, self.nodes[order]])
        if single.any():
            first = np.zeros(runs.size, bool)
            first[np.unique(runs, return_index=True)[1]] = True
            runs = runs[first | ~single[runs]]
        return emit(graph, runs)

    def one_pass(self) -> Schedule:
        return self.completed(np.arange(self.nodes.size, dtype=np.int32))


def by_recursion(
    graph: ComputationGraph,
    trees: Callable[[Part], Iterable[Tree]],
    n_trees: int,
    limit: int | None,
    clock: Clock,
    *,
    recursion_limit: int | None,
    batching: bool | None,
    length_limit: float,
) -> Iterator[Candidate]:
    """Yield the one-pass schedule, then a few schedules of all `n_trees` trees, then all schedules of the best ones."""
    _check_options(recursion_limit, batching, length_limit)
    whole, simple = Part(graph, simplified=False), Part(graph, simplified=True)
    parts = [simple, whole] if simple.weightless.size else [whole]
    if recursion_limit is None:
        yield Candidate(parts[0].one_pass(), {"recursion_limit": "all"})
    recursion = _Recursion(graph, limit, clock, length_limit)
    made: list[tuple[Rank, int, Part, Tree, list[Choice]]] = []
    count = 0
    clock.stage(n_trees * len(parts), "trees", part=0.6)
    for number, (part, tree) in enumerate((each, tree) for each in parts for tree in trees(each)):
        if len(parts) > 1 and part is whole:
            tree = tree[0], {**tree[1], "simplified": False}
        choices = _choices(part, recursion_limit, batching, number < tuning.VARIED_TREES)
        first = len(choices) if number < tuning.VARIED_TREES else tuning.FIRST_SCHEDULES
        yield from recursion.candidates(part, tree, choices[:first])
        made.append((recursion.best, number, part, tree, choices[first:]))
        count += len(choices)
        clock.progress(number + 1)
    every = limit is None or count * graph.n_nodes < tuning.ALL_TREES_STEPS
    best = len(made) if every else min(tuning.BEST_TREES, len(made))
    clock.stage(best, "trees")
    for done, (_, _, part, tree, choices) in enumerate(sorted(made, key=itemgetter(0, 1))[:best]):
        yield from recursion.candidates(part, tree, choices)
        clock.progress(done + 1)


class _Recursion:
    def __init__(self, graph: ComputationGraph, limit: int | None, clock: Clock, length_limit: float) -> None:
        self.graph = graph
        self.limit = limit
        self.clock = clock
        self.length_limit = length_limit
        self.ranks: dict[bytes, Rank] = {}
        self.best = WORST

    def candidates(self, part: Part, tree: Tree, choices: Sequence[Choice]) -> Iterator[Candidate]:
        self.best = WORST
        separators, details = tree
        # The kernel counts steps as int32.
        longest = int(min(self.length_limit * max(1, part.nodes.size), 2**31 - 1))
        for batch, name, recursion_limit in choices:
            self.clock.check()
            if separators is None:
                self.clock.skipped["of too wide a decomposition"] += 1
                continue
            schedule = part.schedule(separators, recursion_limit, batch, longest)
            if schedule is None:
                self.clock.skipped["longer than length_limit allows"] += 1
                continue
            key = hashlib.blake2b(schedule.order.tobytes(), digest_size=16).digest()
            if key not in self.ranks:
                chosen = {**details, "batching": name, "recursion_limit": recursion_limit}
                candidate = evaluated(self.graph, schedule, chosen)
                self.ranks[key] = WORST if candidate.simulation is None else rank(candidate.figures, self.limit)
                yield candidate
            self.best = min(self.best, self.ranks[key])


def _choices(part: Part, recursion_limit: int | None, batching: bool | None, varied: bool) -> list[Choice]:
    batches = {} if batching else {PLAIN: "none"}
    if batching is not False:
        batches |= {int(share * part.largest): name for name, share in reversed(tuning.BATCH_SHARES.items())}
        batches[UNLIMITED] = "unlimited"
    limits = [recursion_limit] if recursion_limit is not None else [1]
    if recursion_limit is None and varied:
        limits = [k for k in tuning.RECURSION_LIMITS if k <= max(1, part.nodes.size)]
    return [(batch, name, k) for batch, name in batches.items() for k in limits]


def _check_options(recursion_limit: int | None, batching: bool | None, length_limit: float) -> None:
    if recursion_limit is not None and (as_whole(recursion_limit) or 0) < 1:
        raise ArgumentError(
            "recursion_limit is {recursion_limit!r}; give a whole number of bags, 1 or more",
            recursion_limit=recursion_limit,
        )
    if batching not in (True, False, None):
        raise ArgumentError("batching is {batching!r}; use True, False or None", batching=batching)
    if not isinstance(length_limit, (int, float)) or not length_limit >= 1:
        raise ArgumentError(
            "length_limit is {length_limit!r}; give a number of runs per node, 1 or more", length_limit=length_limit
        )


def _weightless(graph: ComputationGraph) -> Bool:
    """Mark nodes that have no bytes and depend on no node with bytes, bool[n]; nodes with outputs are excluded."""
    heavy = graph.node_memory > 0
    heavy[graph.producer[graph.output]] = True
    return dependent_nodes(*graph.predecessors, heavy.view(np.uint8)) == 0
