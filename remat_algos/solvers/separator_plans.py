"""Schedules by recursion on separators: what twremat and pathremat have in common."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from remat_algos.ir.arrays import Bool, Int32, as_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP
from remat_algos.ir.wording import shortened
from remat_algos.kernels import _twremat
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.selection import Plans
from remat_algos.structure.separators import SeparatorTree
from remat_algos.structure.undirected import UndirectedGraph

NODES_A_SECOND = 50_000  # that are decomposed
LIMITS = (1, 32, 128, 512)  # fewest bags of a component that is divided again
SHARES = {"zero": 0, "eighth": 1 / 8, "half": 1 / 2, "largest": 1}  # of the largest node, that a visit may bring ahead
VARIED = 2  # trees from which schedules of all these limits are made; they matter little beside the cache pass
LENGTH_LIMIT = 30.0
LONGEST = 2**31 - 1
WIDEST = 400  # of decompositions; wider ones take long to find, and their separators hold too much


class Part:
    """The needed nodes of a graph that a recursion decides about, numbered from 0 in id order.

    Parameters
    ----------
    graph : ComputationGraph
    simplified : bool
        Leave out what holds no bytes and rests on nothing that does, outputs apart: it is run first, once.
    """

    def __init__(self, graph: ComputationGraph, simplified: bool) -> None:
        self.graph = graph
        decided = graph.needed & ~_weightless(graph) if simplified else graph.needed
        self.ahead = np.flatnonzero(graph.needed & ~decided).astype(np.int32)
        self.nodes = np.flatnonzero(decided).astype(np.int32)
        number = np.full(graph.n_nodes, -1, np.int32)
        number[self.nodes] = np.arange(self.nodes.size, dtype=np.int32)
        indptr, sources = graph.predecessors
        reader = np.repeat(np.arange(graph.n_nodes), np.diff(indptr))
        inside = decided[reader] & decided[sources]
        self.pred = number[sources[inside]]
        counts = np.bincount(number[reader[inside]], minlength=self.nodes.size)
        self.pred_indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.memory = graph.node_memory[self.nodes]
        self.targets = number[np.unique(graph.producer[graph.output])]

    @property
    def largest(self) -> int:
        """Bytes of the largest node."""
        return int(self.memory.max(initial=0))

    @cached_property
    def undirected(self) -> UndirectedGraph:
        """Its nodes and who reads whom, without directions."""
        readers = np.repeat(np.arange(self.nodes.size), np.diff(self.pred_indptr))
        return UndirectedGraph.from_edges(self.nodes.size, np.stack([self.pred, readers], axis=1))

    def schedule(self, tree: SeparatorTree, recursion_limit: int, batch: int, longest: int) -> Schedule | None:
        """The schedule that a tree of separators makes; None if it would have more runs than `longest`.

        Parameters
        ----------
        tree : SeparatorTree
        recursion_limit : int
            Components of fewer bags are run in one pass.
        batch : int
            Bytes that a visit may bring beyond what is needed at once; `UNLIMITED`, or `PLAIN` as in the paper.
        longest : int
        """
        order = _twremat.schedule(
            self.pred_indptr,
            self.pred,
            self.memory,
            tree.end,
            tree.child_indptr,
            tree.children,
            tree.owner,
            tree.n_bags,
            self.targets,
            recursion_limit,
            batch,
            longest,
        )
        return None if order is None else self.completed(order)

    def completed(self, order: Int32) -> Schedule:
        """A schedule of the graph: what was left out runs ahead, what must run once the first time, updates late."""
        graph = self.graph
        firm = graph.once if graph.mark is None else graph.once | (graph.mark == KEEP)
        runs = np.concatenate([self.ahead, self.nodes[order]])
        if firm.any():
            first = np.zeros(runs.size, bool)
            first[np.unique(runs, return_index=True)[1]] = True
            runs = runs[first | ~firm[runs]]
        return Schedule(postponed(graph, runs))

    def one_pass(self) -> Schedule:
        """Every node once."""
        return self.completed(np.arange(self.nodes.size, dtype=np.int32))


def separator_plans(
    trees: Iterable[tuple["Trees", Part]],
    recursion_limit: int | None,
    batching: bool | None,
    length_limit: float,
) -> Plans:
    """All schedules that trees of separators make, those without recursion first.

    Parameters
    ----------
    trees : pairs of Trees and Part
    recursion_limit : int, optional
        By default several, and one pass without recursion.
    batching : bool, optional
        By default both.
    length_limit : float
        Runs for each needed node at which a schedule is given up.
    """
    check_options(recursion_limit, batching, length_limit)
    plans: list[Any] = []
    for number, (make_tree, part) in enumerate(trees):
        longest = int(min(length_limit * max(1, part.nodes.size), LONGEST))
        if recursion_limit is None and number == 0:
            plans.append((part.one_pass, {"recursion_limit": "all"}))
        most = part.nodes.size if number < VARIED else 1
        limits = [k for k in LIMITS if k <= max(1, most)] if recursion_limit is None else [recursion_limit]
        for batch, name in _batches(part, batching).items():
            for limit in limits:
                make = partial(_schedule, make_tree, part, limit, batch, longest)
                # a ChainMap, since the width is known only when the tree has been made
                plans.append((make, ChainMap({"batching": name, "recursion_limit": limit}, make_tree.details)))
    return plans


class Trees:
    """A tree of separators that is made when it is first asked for.

    Parameters
    ----------
    make : callable
        Makes the tree, and says what only then is known of it.
    details : dict
        What the plans from it say; what is known later is added.
    """

    def __init__(
        self, make: Callable[[], tuple[SeparatorTree, Mapping[str, Any]] | None], details: dict[str, Any]
    ) -> None:
        self._make = make
        self.details = details

    @cached_property
    def tree(self) -> SeparatorTree | None:
        """The tree; None where the graph is too wide for it to be of use."""
        made = self._make()
        if made is None:
            return None
        tree, known = made
        self.details.update(known)
        return tree


def check_options(recursion_limit: int | None, batching: bool | None, length_limit: float) -> None:
    """ValueError for options that say nothing."""
    if recursion_limit is not None and (as_whole(recursion_limit) or 0) < 1:
        raise ValueError(
            f"recursion_limit is {shortened(repr(recursion_limit))}; give a whole number of bags, 1 or more"
        )
    if batching not in (True, False, None):
        raise ValueError(f"batching is {shortened(repr(batching))}; use True, False or None")
    if not isinstance(length_limit, (int, float)) or not length_limit >= 1:
        raise ValueError(f"length_limit is {shortened(repr(length_limit))}; give runs for each node, 1 or more")


def _batches(part: Part, batching: bool | None) -> dict[int, str]:
    """Bytes that one visit may bring beyond what is needed at once, and the names of these rules."""
    found = {} if batching else {_twremat.PLAIN: "none"}
    if batching is not False:
        found |= {int(share * part.largest): name for name, share in reversed(SHARES.items())}
        found[_twremat.UNLIMITED] = "unlimited"
    return found


def _schedule(trees: Trees, part: Part, recursion_limit: int, batch: int, longest: int) -> Schedule | None:
    tree = trees.tree
    return None if tree is None else part.schedule(tree, recursion_limit, batch, longest)


def _weightless(graph: ComputationGraph) -> Bool:
    """Nodes without bytes that rest on none with bytes; outputs apart."""
    heavy = graph.node_memory > 0
    heavy[graph.producer[graph.output]] = True
    return _twremat.rests_on(*graph.predecessors, heavy.view(np.uint8)) == 0


def time_for(graph: ComputationGraph, time_limit: float | None) -> float | None:
    """The time limit; 0 where a decomposition, which cannot be stopped halfway, may well take longer."""
    return 0.0 if time_limit is not None and graph.n_nodes > NODES_A_SECOND * time_limit else time_limit
