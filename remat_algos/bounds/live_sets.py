"""The search over live sets: its graph, the lowest peak of one pass, and lower bounds on the overhead still to come."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Bool, Int32, Int64, gather_rows, indptr_of, row_of
from remat_algos.ir.graph import ComputationGraph, updates_and_readers
from remat_algos.ir.parts import KEEP
from remat_algos.kernels.graph import GraphArrays

PRICE_BITS = 16  # fraction bits of need and shares
MAX_COMPUTE = 2**36  # total, so that sums of need and shares fit in 64 bits

PROVEN_NODES = 30  # needed nodes up to which the search usually ends
MAX_STATES, MAX_STATES_OF_MORE = 4_000_000, 200_000
"""Sets of executed nodes: on graphs of up to `PROVEN_NODES` needed nodes, on larger ones."""
PORTION = 20_000  # sets between deadline checks


def useful_values(graph: ComputationGraph) -> Bool:
    """bool[n_values]: values that a needed node reads, and outputs."""
    read = graph.read_indices[graph.needed[row_of(graph.read_indptr)]]
    useful = graph.output.copy()
    useful[read] = True
    return useful


@dataclass(frozen=True, eq=False)
class LiveSetGraph:
    """Renumbered needed nodes and useful values of a graph.

    `own` are the bytes that a run adds: all values of the node, even unused ones, and its workspace. `spoiled` has, for
    each node, a row of the nodes that must not run after it.
    """

    value_indptr: Int64
    read_indptr: Int64
    read_indices: Int32
    memory: Int64
    own: Int64
    compute: Int64
    once: NDArray[np.uint8]
    output: NDArray[np.uint8]
    spoiled_indptr: Int64
    spoiled: Int32

    @cached_property
    def reads(self) -> list[list[int]]:
        """Values that each node reads."""
        return [self.read_indices[begin:end].tolist() for begin, end in pairwise(self.read_indptr.tolist())]

    @cached_property
    def values(self) -> list[range]:
        """Values of each node."""
        return [range(*ends) for ends in pairwise(self.value_indptr.tolist())]

    def start(self, limit: int, ceiling: int, *, lowest: bool = False) -> Any:
        """Create the search of the kernel, a `LiveSetSearch`."""
        from remat_algos.kernels.live_sets import LiveSetSearch  # 2 ms

        arrays = GraphArrays(
            value_indptr=self.value_indptr,
            read_indptr=self.read_indptr,
            read_indices=self.read_indices,
            memory=self.memory,
            output=self.output,
            compute=self.compute,
            once=self.once,
        )
        spoiled = self.spoiled_indptr, self.spoiled
        return LiveSetSearch(arrays, self.own, *spoiled, limit=limit, ceiling=ceiling, lowest=lowest)


def live_set_graph(graph: ComputationGraph, nodes: Int32) -> LiveSetGraph:
    """Renumber needed nodes and useful values."""
    useful, place = useful_values(graph), np.full(graph.n_nodes, -1, np.int32)
    place[nodes] = np.arange(nodes.size)
    value = np.cumsum(useful) - 1
    read_indptr, read = gather_rows(graph.read_indptr, graph.read_indices, nodes)
    once = graph.once if graph.mark is None else graph.once | (graph.mark == KEEP)
    spoiled_indptr, spoiled = _readers_of_what_changes(graph, place, nodes.size)
    return LiveSetGraph(
        value_indptr=indptr_of(np.bincount(place[graph.producer[useful]], minlength=nodes.size)),
        read_indptr=read_indptr,
        read_indices=value[read].astype(np.int32),
        memory=graph.memory[useful],
        own=graph.node_memory[nodes] + graph.workspace[nodes],
        compute=graph.compute[nodes],
        once=once[nodes].view(np.uint8),
        output=graph.output[useful].view(np.uint8),
        spoiled_indptr=spoiled_indptr,
        spoiled=spoiled,
    )


def lowest_one_pass(
    graph: ComputationGraph, above: int, known: int, look: Callable[[], object] | None = None
) -> tuple[int, Int32 | None]:
    """Return a lower bound on the peak of every order of one pass, and an order that meets it if one is below `known`.

    If no node may run twice, a set of live values follows from a down-set of executed nodes. These are searched
    best-first by the lowest peak that leads to each, with up to 30 needed nodes nearly always to the end. `above` is a
    known lower bound, `known` an upper bound. Marks of the graph are ignored.
    """
    from remat_algos.kernels.live_sets import EXHAUSTED, FULL, MAX_VALUES, SOLVED  # 2 ms

    nodes = np.flatnonzero(graph.needed).astype(np.int32)
    if above >= known or nodes.size > MAX_VALUES or int(useful_values(graph).sum()) > MAX_VALUES:
        return above, None
    once = replace(graph, mark=None, once=np.ones(graph.n_nodes, bool))
    search = live_set_graph(once, nodes).start(known - 1, known, lowest=True)
    verdict, most = None, MAX_STATES if nodes.size <= PROVEN_NODES else MAX_STATES_OF_MORE
    while verdict not in (SOLVED, EXHAUSTED, FULL) and search.n_states < most:
        verdict = search.advance(PORTION, most)
        if look is not None:
            look()
    if verdict == SOLVED:
        return int(search.key), nodes[search.order()]
    return (known if verdict == EXHAUSTED else max(above, min(known, int(search.key)))), None


def _readers_of_what_changes(graph: ComputationGraph, place: Int32, n_nodes: int) -> tuple[Int64, Int32]:
    """Rows of the nodes that read a parameter or a state before each update of it."""
    update, reader = (place[nodes] for nodes in updates_and_readers(graph))
    needed = (update >= 0) & (reader >= 0)
    return indptr_of(np.bincount(update[needed], minlength=n_nodes)), np.ascontiguousarray(reader[needed])


@dataclass(frozen=True, slots=True, eq=False)
class MomentPotential:
    """Before the first run of a node, the overhead still to come is at least `need` minus shares, in units of 2**-16.

    The share of a node, int64[n], is subtracted if it has to run after the set, except for the moment's own node, whose
    run after the moment is no overhead. A share is at most the node's compute: so the potential never falls by more
    than the cost of a move.
    """

    node: int
    need: int
    share: Int64


def moment_potentials(
    graph: LiveSetGraph, limit: int, count: int, look: Callable[[], object] = bool
) -> list[MomentPotential]:
    """Return at most `count` potentials, of moments that prove most when each of the nodes is about to run.

    For each node the linear program of the closure bound is solved for its dual: a price for each byte that is live at
    the moment, for each value that is read later, and for each read of a node that runs again. Prices are rounded to
    whole numbers; the proof is computed from these, so nothing depends on the precision of the program.

    Let v be the node, k(x) = 1 where value x is live when v first runs, and r(u) = 1 where u runs after that. A value x
    of node u that is read later has k(x) + r(u) >= 1, priced y(x); a node w that runs later and reads x has k(x) + r(u)
    >= r(w), priced z(x, w); the sum of memory(x) k(x) is at most the room left by what must be live, priced p. If y(x)
    and all z(x, w) are together at most p memory(x), then for all such k, r

        sum of f(u) r(u) >= sum of y(x) - p room,

    where f(u) is the sum of y and z over the values of u, minus z over its reads: its share, at most its compute.
    """
    found = list[MomentPotential]()
    if int(graph.compute.sum()) > MAX_COMPUTE:
        return found
    for node in range(len(graph.reads)):
        look()
        moment = _Moment.of(graph, limit, node)
        if moment is not None:
            found.extend(moment.potentials())
    return _chosen(graph, found, count)


def _chosen(graph: LiveSetGraph, candidates: list[MomentPotential], count: int) -> list[MomentPotential]:
    """Choose potentials greedily by their gain in the sum over all nodes of the largest need.

    A potential counts for the nodes before which its own need not have run: potentials of neighbouring nodes prove
    nearly the same, and later ones hold longer.
    """
    ancestors = list[set[int]]()
    producer = {x: u for u, values in enumerate(graph.values) for x in values}
    for reads in graph.reads:
        direct = {producer[x] for x in reads}
        ancestors.append(direct.union(*(ancestors[u] for u in direct)))
    largest, chosen = [0] * len(ancestors), list[MomentPotential]()

    def gain(each: MomentPotential) -> int:
        return sum(
            max(0, each.need - most) for most, before in zip(largest, ancestors, strict=True) if each.node not in before
        )

    while len(chosen) < count and (best := max(candidates, key=gain, default=None)) is not None and gain(best) > 0:
        chosen.append(best)
        for v, before in enumerate(ancestors):
            if best.node not in before:
                largest[v] = max(largest[v], best.need)
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Moment:
    """The first run of a node: its ancestors, their values that may be live, and those that are read later."""

    graph: LiveSetGraph
    node: int
    room: int
    ancestors: list[int]
    producer: dict[int, int]  # by value that may be live
    later: list[int]  # values that are read later
    again: list[tuple[int, int]]  # (value, ancestor that reads it)

    @classmethod
    def of(cls, graph: LiveSetGraph, limit: int, node: int) -> "_Moment | None":
        producer = {x: u for u, values in enumerate(graph.values) for x in values}
        ancestors, after = set[int](), set(graph.values[node])
        todo = [producer[x] for x in graph.reads[node]]
        while todo:
            u = todo.pop()
            if u not in ancestors:
                ancestors.add(u)
                todo += [producer[x] for x in graph.reads[u]]
        later = set[int]()
        for w in range(node + 1, len(graph.reads)):
            if after.intersection(graph.reads[w]):
                after.update(graph.values[w])
                later.update(graph.reads[w])
        free = {x: u for u in sorted(ancestors) for x in graph.values[u] if not graph.output[x]}
        for x in graph.reads[node]:
            free.pop(x, None)
        live = {x for u in ancestors for x in graph.values[u] if x not in free}
        room = limit - int(graph.own[node]) - sum(int(graph.memory[x]) for x in live)
        asked = sorted(later.intersection(free))
        if room < 0 or not asked or sum(int(graph.memory[x]) for x in free) <= room:
            return None
        again = [(x, w) for w in sorted(ancestors) for x in graph.reads[w] if x in free]
        return cls(graph, node, room, sorted(ancestors), free, asked, again)

    def potentials(self) -> Iterator[MomentPotential]:
        """Yield the potential of the best prices, if it proves anything."""
        prices = self._prices()
        if prices is None:
            return
        later, again = prices
        graph, unit = self.graph, 1 << PRICE_BITS
        priced, share = dict.fromkeys(self.producer, 0), dict.fromkeys(self.ancestors, 0)
        for x, price in zip(self.later, later, strict=True):
            priced[x] += price
            share[self.producer[x]] += price
        for (x, w), price in zip(self.again, again, strict=True):
            priced[x] += price
            share[self.producer[x]] += price
            share[w] -= price
        if any(priced[x] and not graph.memory[x] for x in priced):
            return
        byte = max((Fraction(priced[x], int(graph.memory[x])) for x in priced if priced[x]), default=Fraction(0))
        need = sum(later) - -(-byte.numerator * self.room // byte.denominator)
        shares = np.zeros(len(graph.reads), np.int64)
        for u in self.ancestors:
            if not graph.once[u]:  # a node that has run once never has to run again
                most = int(graph.compute[u]) * unit
                need -= max(0, share[u] - most)
                shares[u] = min(max(share[u], 0), most)
        if need > 0:
            yield MomentPotential(self.node, need, shares)

    def _prices(self) -> tuple[list[int], list[int]] | None:
        """Prices of values that are read later and of reads by recomputed nodes, rounded down."""
        from scipy.optimize import linprog  # type: ignore[import-untyped]
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        graph, n_later = self.graph, len(self.later)
        row = {x: i for i, x in enumerate(self.producer)}
        most = {u: len(row) + i for i, u in enumerate(self.ancestors)}  # rows: a share is at most the compute
        least = {u: len(row) + len(most) + i for i, u in enumerate(self.ancestors)}  # and at least 0
        entries = list[tuple[int, int, float]]()

        def add(column: int, x: int) -> None:
            u = self.producer[x]
            entries.extend([(row[x], column, 1.0), (most[u], column, 1.0), (least[u], column, -1.0)])

        for column, x in enumerate(self.later):
            add(column, x)
        for column, (x, w) in enumerate(self.again, n_later):
            add(column, x)
            entries.extend([(most[w], column, -1.0), (least[w], column, 1.0)])
        last = n_later + len(self.again)
        entries.extend((row[x], last, -float(graph.memory[x])) for x in row)
        rows, columns, numbers = zip(*entries, strict=True)
        total = 1.0 + float(graph.compute.sum())
        above = [0.0] * len(row)
        above += [total if graph.once[u] else float(graph.compute[u]) for u in self.ancestors] + [0.0] * len(least)
        matrix = csr_array((numbers, (rows, columns)), shape=(len(above), last + 1))
        goal = np.concatenate([np.full(n_later, -1.0), np.zeros(len(self.again)), [float(self.room)]])
        result = linprog(goal, A_ub=matrix, b_ub=above, bounds=(0, None), method="highs")
        if result.x is None or result.fun >= 0:
            return None
        whole = np.floor(np.maximum(result.x, 0) * (1 << PRICE_BITS)).astype(np.int64).tolist()
        return whole[:n_later], whole[n_later:last]
