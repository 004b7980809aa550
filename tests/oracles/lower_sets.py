"""Lower sets of the needed forward part, and formulas (1) and (2) of kusumoto2019, by trying all."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tests.oracles.plain import plain


@dataclass(frozen=True)
class Forward:
    """The V of the paper: needed forward nodes, what they read and what reads them among themselves."""

    nodes: frozenset
    predecessors: dict
    size: dict  # bytes of all values of a node
    cost: dict

    @cached_property
    def successors(self):
        return {u: {w for w in self.nodes if u in self.predecessors[w]} for u in self.nodes}

    def after(self, nodes):
        """d+(S)"""
        return {w for u in nodes for w in self.successors[u]}

    def before(self, nodes):
        """d-(S)"""
        return {u for w in nodes for u in self.predecessors[w]}

    def boundary(self, lower_set):
        return self.before(self.nodes - lower_set) & lower_set

    def memory(self, nodes):
        return sum(self.size[v] for v in nodes)

    def compute(self, nodes):
        return sum(self.cost[v] for v in nodes)


def forward(graph):
    """The needed forward part of a graph."""
    g = plain(graph)
    nodes = frozenset(g.needed()) & frozenset(g.forward())
    return Forward(
        nodes,
        predecessors={v: set(g.predecessors(v)) for v in nodes},
        size={v: sum(g.memory[x] for x in g.values[v]) for v in nodes},
        cost={v: g.compute[v] for v in nodes},
    )


# ---------------------------------------------------------------- families; {} and V are in each


def family(part, name):
    return {"exact": all_lower_sets, "wide": wide, "pruned": pruned}[name](part)


def all_lower_sets(part):
    """Of all sets of nodes those that hold what they read."""
    subsets = (frozenset(s) for k in range(len(part.nodes) + 1) for s in itertools.combinations(part.nodes, k))
    return {s for s in subsets if part.before(s) <= s}


def pruned(part):
    """L_v, the nodes that v rests on and v itself, for each v."""
    return {frozenset(), part.nodes} | {closed(part.before, v) for v in part.nodes}


def wide(part):
    """The pruned family, the prefixes of the order of the ids, and what is left without all that rests on v."""
    prefixes = {frozenset(u for u in part.nodes if u <= v) for v in part.nodes}
    return pruned(part) | prefixes | {part.nodes - closed(part.after, v) for v in part.nodes}


def closed(step, node):
    """All that is reached from a node by steps, the node included."""
    found = {node}
    while not step(found) <= found:
        found |= step(found)
    return frozenset(found)


def covers(part, lower_set):
    """The lower sets with one node more."""
    return {lower_set | {v} for v in part.nodes - lower_set if part.predecessors[v] <= lower_set}


# ---------------------------------------------------------------- a chain L_1 < .. < L_k = V


def chains(part, sets):
    """All chains of some sets from {}, which is left out, to V."""

    def longer(chain):
        last = chain[-1] if chain else frozenset()
        if last == part.nodes:
            yield chain
        for larger in sets:
            if last < larger:
                yield from longer([*chain, larger])

    return longer([])


def blocks(chain):
    """V_i"""
    return [after - before for before, after in itertools.pairwise([frozenset(), *chain])]


def kept(part, chain):
    """U_k"""
    return {v for lower_set in chain for v in part.boundary(lower_set)}


def overhead(part, chain, keep_last=False):
    """Formula (1); with `keep_last` the last block is not computed again."""
    again = blocks(chain)[:-1] if keep_last else blocks(chain)
    return part.compute({v for block in again for v in block} - kept(part, chain))


def terms(part, chain):
    """Formula (2), the four terms of each block."""
    return [
        (
            part.memory(kept(part, chain[:i])),
            2 * part.memory(block),
            part.memory(part.after(lower_set) - lower_set),
            part.memory(part.before(part.after(lower_set)) - lower_set),
        )
        for i, (block, lower_set) in enumerate(zip(blocks(chain), chain, strict=True))
    ]


def peak(part, chain):
    """Formula (2)."""
    return max((sum(row) for row in terms(part, chain)), default=0)


def cache(part, chain):
    """M(U_k)"""
    return part.memory(kept(part, chain))


# ---------------------------------------------------------------- all chains at once


class Outcome(NamedTuple):
    """The figures of a chain."""

    overhead: int  # formula (1)
    last: int  # what the last block has of it
    cache: int  # M(U_k)
    peak: int  # formula (2)

    def cost(self, keep_last=False):
        return self.overhead - self.last if keep_last else self.overhead


def outcomes(part, sets):
    """What the chains of some sets come to, each outcome once.

    A longer chain owes to its beginning no more than overhead, cache and peak: formula (1) is a sum over blocks, and a
    node joins U_i in the block that holds it or never.
    """
    reached = {frozenset(): {Outcome(0, 0, 0, 0)}}
    for larger in sorted(sets - {frozenset()}, key=len):
        edge, later = part.boundary(larger), part.after(larger)
        beside = part.memory(later - larger) + part.memory(part.before(later) - larger)
        reached[larger] = set()
        for smaller in [s for s in reached if s < larger]:
            block = larger - smaller
            again, cached = part.compute(block - edge), part.memory(edge & block)
            need = 2 * part.memory(block) + beside
            reached[larger] |= {
                Outcome(t + again, again if larger == part.nodes else 0, m + cached, max(p, m + need))
                for t, _, m, p in reached[smaller]
            }
    return reached[part.nodes]


def outcome(part, chain):
    """The figures of one chain, by the formulas."""
    whole = overhead(part, chain)
    return Outcome(whole, whole - overhead(part, chain, keep_last=True), cache(part, chain), peak(part, chain))


def least_budget(found):
    return min(outcome.peak for outcome in found)


def best(found, budget, strategy, keep_last=False):
    """The outcomes within a formula budget that are best."""
    value = {
        "time": lambda outcome: outcome.cost(keep_last),
        "memory": lambda outcome: -outcome.cost(keep_last),
        "cache": lambda outcome: (outcome.cache, outcome.cost(keep_last)),
    }[strategy]
    within = [outcome for outcome in found if outcome.peak <= budget]
    least = min(value(outcome) for outcome in within)
    return [outcome for outcome in within if value(outcome) == least]


def frontier(found, keep_last=False):
    """(cost, peak) that no other equals or beats in both, least cost first."""
    points = {(outcome.cost(keep_last), outcome.peak) for outcome in found}
    return sorted((t, p) for t, p in points if not any(s <= t and q <= p and (s, q) != (t, p) for s, q in points))


# ---------------------------------------------------------------- the square-root baseline of the authors


def single_boundary_chain(part, unit=1):
    """Lower sets {v and what it rests on} with the boundary {v} that pass a multiple of M(V) / k, and V."""
    sets = [lower_set for v in part.nodes for lower_set in [closed(part.before, v)] if part.boundary(lower_set) == {v}]
    sets.sort(key=lambda lower_set: (len(lower_set), sum(2**v for v in lower_set)))
    size = {v: part.size[v] // unit for v in part.nodes}
    step = max(1, sum(size.values()) // math.isqrt(len(sets) + 2))
    chain, multiple = [], step
    for lower_set in sets:
        memory = sum(size[v] for v in lower_set)
        if memory > multiple and all(before <= lower_set for before in chain):
            chain.append(lower_set)
            multiple = step * math.ceil(memory / step)
    return [*chain, part.nodes]
