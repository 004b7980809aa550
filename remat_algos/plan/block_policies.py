"""The cheapest policy per block within a budget.

Each kind of block gives a list of options: sets of operators whose outputs stay, with the bytes that they keep, the
cost of what runs again, and the bytes of the block's own part of the schedule. One dynamic program over the blocks
chooses among them by the bytes kept so far, and every choice is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError, BudgetError, PlanError
from remat_algos.ir.arrays import Bool, Int8, Int64, wrong_length
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.flow import maximum_flow
from remat_algos.plan.blocks import (
    DECISIONS,
    EAGER,
    KEEP,
    OFFLOAD,
    RECOMPUTE,
    Blocks,
    Holds,
    block_schedule,
    not_rerun,
    offloaded,
)
from remat_algos.plan.policy import Policy
from remat_algos.schedule.simulation import Simulation, simulate

ALL_SUBSETS = 8  # candidates of a block of which every subset is an option
MAX_OPTIONS = 200  # of one kind
STATES = 1 << 11  # of the dynamic program, after each block
ROUNDS = 12  # budgets of the dynamic program that are tried


@checked_arguments
def plan_policy(
    graph: ComputationGraph,
    budget: Budget | Amount,
    blocks: Blocks | str | Sequence[str],
    *,
    semantics: str = EAGER,
    link: AnyLink | None = None,
    holds: Holds | None = None,
) -> Policy:
    """Search for the cheapest policy per block whose peak stays within a budget.

    Each block is kept whole, or checkpointed: its operators run again right before its first gradient, except for
    those whose outputs stay. So do `torch.utils.checkpoint`, and the trainers built on it, without another runtime.

    Parameters
    ----------
    graph : ComputationGraph
        With a backward part (`differentiate`).
    budget : Budget, int or str
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, "least", or
        "least+0.1%"; `Budget(device="24GiB")` counts residents too.
    blocks : Blocks, str or sequence of str
        The blocks, or their module paths: "layers.*"; "layers.*,head" for several stacks; "layers.*|layers.*.mlp" to
        try one cut after the other and take the cheaper policy.
    semantics : {"eager", "graph"}
        What runs again: all operators that are not saved, up to the last tensor that a gradient needs, as in eager
        PyTorch; or only what gradients need, as in compiled graphs.
    link : Link, Device, mapping, str or path, optional
        The inputs of checkpointed blocks may then go to the host over this link. The costs of the graph must be times.
        Copies are synchronous: their time counts.
    holds : Holds, optional
        Lives beyond the reads of the graph; in eager PyTorch.

    Returns
    -------
    Policy
        The cheapest found. Its simulated peak is within the budget; `bound` says how much cheaper another could be.

    Raises
    ------
    PlanError
        If no block matches, blocks overlap, or no gradient reads what they compute.
    BudgetError
        With the lowest peak that was reached.
    ValueError
        For other semantics, holds of another graph, or an overhead budget.

    Examples
    --------
    >>> import remat_algos as ra
    >>> graph = ra.differentiate("model:llama_7b?depth=4&cost=roofline&device=h100-sxm")
    >>> policy = plan_policy(graph, "50%", "layers.*")
    >>> policy.peak_memory <= policy.limit, policy.treatments[0].decision
    (True, 'recompute')
    """
    asked = Budget.of(budget)
    if asked.overhead is not None:
        raise ArgumentError(
            "a policy has no overhead budget ({overhead!r}); give a memory budget", overhead=asked.overhead
        )
    if isinstance(blocks, str) and "|" in blocks:
        policy: Policy = cheapest(
            partial(plan_policy, graph, asked, part, semantics=semantics, link=link, holds=holds)
            for part in blocks.split("|")
        )
        return policy
    cut = blocks if isinstance(blocks, Blocks) else Blocks.of(graph, blocks)
    if not graph.is_training or (cut.trigger < 0).all():
        raise PlanError("no gradient reads what the blocks compute; give a graph with its backward part")
    for size in (holds.live_until.size, holds.released.size) if holds is not None else ():
        if size != graph.n_values:
            raise wrong_length("holds", size, graph.n_values, "value")
    search = _BlockSearch(graph, cut, semantics, None if link is None else get_link(link), holds)
    if asked.least or asked.above_lowest is not None:
        lowest = search.lowest()
        return lowest if asked.least else search.within(int(lowest.peak_memory * (1 + (asked.above_lowest or 0))))
    limit = asked.memory_limit(search.base.peak_memory, graph.resident_memory)
    return search.lowest() if limit is None else search.within(limit)


def cheapest(searches: Iterable[Callable[[], Any]]) -> Any:
    """Return the cheapest of several plans, without a limit that of the lowest peak; the lowest of their errors."""
    found, errors = [], []
    for search in searches:
        try:
            found.append(search())
        except BudgetError as error:
            errors.append(error)
    if not found:
        raise min(errors, key=lambda error: error.reached)
    return min(found, key=lambda each: (each.peak_memory if each.limit is None else 0, each.overhead))


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """Options of one block, none of which dominates another.

    `decision` int8[o] is a place in `DECISIONS`, `saved` bool[o, k] has the members whose outputs stay, `kept` int64[o]
    the bytes that stay from the forward to the backward part, `cost` int64[o] that of the reruns and copies, and `own`
    int64[o] the bytes at the worst step of the block's own forward and backward part, without what earlier blocks keep.
    """

    decision: Int8
    saved: Bool
    kept: Int64
    cost: Int64
    own: Int64

    def chosen(self, at: Int64) -> _Options:
        return _Options(self.decision[at], self.saved[at], self.kept[at], self.cost[at], self.own[at])

    def undominated(self) -> _Options:
        """Return the options of which no other is as good in bytes, cost and own bytes; the first of equal ones."""
        order = np.lexsort((self.decision, self.own, self.kept, self.cost))
        kept, cost, own = self.kept[order], self.cost[order], self.own[order]
        found = []
        while order.size:
            found.append(int(order[0]))
            left = (kept < kept[0]) | (own < own[0])
            order, kept, cost, own = order[left], kept[left], cost[left], own[left]
        return self.chosen(np.array(found))


class _BlockSearch:
    """Options of all blocks of a graph, and the choice among them."""

    def __init__(
        self, graph: ComputationGraph, blocks: Blocks, semantics: str, link: Link | None, holds: Holds | None
    ) -> None:
        self.graph, self.blocks, self.semantics, self.link, self.holds = graph, blocks, semantics, link, holds
        keep = [KEEP] * len(blocks)
        nothing = np.zeros(graph.n_nodes, bool)
        self.base = simulate(graph, block_schedule(graph, blocks, keep, nothing, semantics, holds))
        self.windows = _Windows(graph, blocks, self.base, semantics, holds)
        self.copies = np.zeros(graph.n_values, np.int64)
        if link is not None:
            self.copies = np.sum(link.planned.times(graph), axis=0)
        self.kinds: list[int] = []  # of blocks that also have the same operators to save
        self.owned = np.bincount(np.concatenate([*blocks.inputs]), minlength=graph.n_values) == 1

    @cached_property
    def options(self) -> list[_Options]:
        """The options of each block, in order."""
        sets: dict[Any, Bool] = {}
        found = []
        for b in range(len(self.blocks)):
            block = _BlockOptions(self, b)
            kind = (self.blocks.kinds[b], block.treated, *map(bytes, (block.free, block.forced, block.draws)))
            if kind not in sets:
                sets[kind] = block.subsets()
            found.append(block.options(sets[kind]))
            self.kinds.append(list(sets).index(kind))
        return found

    def policy(self, at: Int64, limit: int | None, order: Sequence[int] | None = None) -> Policy:
        """Return the policy of an option for each block; block b gets that of `order[b]`, an equal block."""
        saved = np.zeros(self.graph.n_nodes, bool)
        decisions = []
        for b, other in enumerate(range(len(self.blocks)) if order is None else order):
            option, i = self.options[other], int(at[other])
            decisions.append(DECISIONS[option.decision[i]])
            saved[self.blocks.members[b][option.saved[i]]] = True
        return Policy.of(
            self.graph,
            self.blocks,
            decisions,
            saved,
            semantics=self.semantics,
            holds=self.holds,
            limit=limit,
            link=self.link,
        )

    def in_order(self, at: Int64, limit: int | None) -> Policy:
        """Return the policy of a choice; equal blocks that keep least come first, if that needs no more bytes or cost.

        So equal treatments are neighbours.
        """
        found = self.policy(at, limit)
        most = found.peak_memory if limit is None else limit
        kinds = np.array(self.kinds)
        for left_out in (0, 1):  # the last block meets the peak first
            order = list(range(len(self.blocks)))
            for kind in np.unique(kinds).tolist():
                places = np.flatnonzero(kinds[: len(order) - left_out] == kind).tolist()
                rank = {b: (self.options[b].kept[at[b]], self.options[b].cost[at[b]]) for b in places}
                for b, other in zip(places, sorted(places, key=lambda b: (rank[b], b)), strict=True):
                    order[b] = other
            sorted_ = self.policy(at, limit, order)
            if sorted_.peak_memory <= most and sorted_.overhead <= found.overhead:
                return sorted_
        return found

    def figures(self, at: Int64) -> tuple[int, int]:
        """Simulated peak of a choice, and its cost."""
        key = at.tobytes()
        if key not in self.simulated:
            cost = sum(int(self.options[b].cost[i]) for b, i in enumerate(at.tolist()))
            self.simulated[key] = self.policy(at, None).peak_memory, cost
        return self.simulated[key]

    @cached_property
    def simulated(self) -> dict[bytes, tuple[int, int]]:
        """Peak and cost of the choices simulated so far."""
        return {}

    def choice(self, limit: int) -> Int64 | None:
        """The cheapest option of each block by the sums of the program; None if none fits.

        A state is a sum of bytes kept and its cost. Of more than `STATES`, the program goes on with the fewest bytes
        and the least cost in each of equal parts of the limit.
        """
        if self.windows.outside > limit:
            return None
        kept, cost = np.zeros(1, np.int64), np.zeros(1, np.int64)
        picks = []
        for options in self.options:
            last = np.searchsorted(kept, limit - options.own, "right")  # states that leave room for each option
            option = np.repeat(np.arange(last.size), last)
            before = np.arange(option.size) - np.repeat(np.cumsum(last) - last, last)
            sums, costs = kept[before] + options.kept[option], cost[before] + options.cost[option]
            order = _frontier(sums, costs)
            if order.size > STATES:
                cell = sums[order] * (STATES // 2) // (limit + 1)
                change = np.flatnonzero(np.diff(cell))
                order = order[np.unique(np.concatenate([[0], change, change + 1, [order.size - 1]]))]
            kept, cost = sums[order], costs[order]
            picks.append((option[order], before[order]))
        fitting = int(np.searchsorted(kept, limit - self.windows.head, "right"))
        if not fitting:
            return None
        at, chosen = fitting - 1, []
        for option, before in reversed(picks):
            chosen.append(int(option[at]))
            at = int(before[at])
        return np.array(chosen[::-1])

    def predicted(self, at: Int64) -> int:
        """The peak of a choice by the sums of the program."""
        pairs = list(zip(self.options, at.tolist(), strict=True))
        kept = np.cumsum([0, *(options.kept[i] for options, i in pairs)])
        own = [options.own[i] for options, i in pairs]
        return int(max(self.windows.outside, kept[-1] + self.windows.head, (kept[:-1] + own).max()))

    def within(self, limit: int) -> Policy:
        """Return the cheapest policy found whose simulated peak is within a limit.

        Blocks may lengthen each other's values, which the sums of the program miss: its limit moves until the simulated
        peak just fits.
        """
        best: tuple[tuple[int, int], Int64] | None = None
        room, step, fits, exceeds = limit, max(1, limit // STATES), -1, 4 * limit + 2
        for _ in range(ROUNDS):
            at = self.choice(room)
            peak, cost = (None, 0) if at is None else self.figures(at)
            if peak is None or peak <= limit:
                fits = room
                if peak is not None and at is not None and (best is None or (cost, peak) < best[0]):
                    best = (cost, peak), at
                if at is not None and peak == self.predicted(at):
                    break
                room += max(step, 0 if peak is None else limit - peak)
            else:
                exceeds = room
                room -= max(step, peak - limit)
            step *= 2
            if not fits < room < exceeds:
                room = (fits + exceeds) // 2
            if room <= fits:
                break
        if best is None:
            lowest = self.lowest()
            if lowest.peak_memory > limit:
                bound, nodes = least_peak_bound(self.graph)
                raise BudgetError(
                    "no policy per block has a peak of at most {limit!b}; the lowest found is {reached!b}",
                    reached=lowest.peak_memory,
                    lower_bound=bound,
                    nodes=nodes,
                    names=self.graph.labels.names_of(nodes),
                    limit=limit,
                )
            return lowest
        return self.in_order(best[1], limit)

    def lowest(self) -> Policy:
        """Return the policy of the lowest peak found."""
        low, high = 0, 2 * self.base.peak_memory
        best = np.zeros(len(self.blocks), np.int64)
        while high - low > max(1, self.base.peak_memory >> 12):
            middle = (low + high) // 2
            at = self.choice(middle)
            if at is None:
                low = middle
            else:
                high = middle
                best = min(best, at, key=self.figures)
        for _ in range(ROUNDS):
            at = self.choice(self.figures(best)[0] - 1)
            if at is None or self.figures(at) >= self.figures(best):
                break
            best = at
        return self.in_order(best, None)


class _Windows:
    """Steps of a graph in two parts, forward and backward, and the bytes of what no block treats.

    The backward part of a block lies between its trigger and that of the block before it.
    """

    def __init__(
        self, graph: ComputationGraph, blocks: Blocks, base: Simulation, semantics: str, holds: Holds | None
    ) -> None:
        needed = np.flatnonzero(graph.needed)
        forward = graph.forward[needed]
        self.n_forward, self.n_backward = int(forward.sum()), int((~forward).sum())
        self.place = np.full(graph.n_nodes, -1)  # in its part
        self.place[needed[forward]] = np.arange(self.n_forward)
        self.place[needed[~forward]] = np.arange(self.n_backward)
        lives = base.lifetimes
        made, self.end = lives.made_at, np.full(graph.n_values, -1)
        self.end[lives.value] = lives.end - 1  # the last step during which each value is live without checkpoints
        treated = np.zeros(graph.n_nodes, bool)
        for b, members in enumerate(blocks.members):
            treated[members] = blocks.trigger[b] >= 0 and b not in blocks.refusals
        steps = len(base.schedule)
        other = ~treated[graph.producer[lives.value]]
        delta = np.zeros(steps + 1, np.int64)
        np.add.at(delta, made[other], graph.memory[lives.value[other]])
        np.subtract.at(delta, lives.end[other], graph.memory[lives.value[other]])
        live = np.cumsum(delta)[:steps]
        trace = live + graph.workspace[base.schedule.order]
        starts = np.zeros(steps + 1, np.int64)
        np.add.at(starts, made[other], graph.memory[lives.value[other]])
        self.forward, self.backward = trace[: self.n_forward], trace[self.n_forward :]
        self.between = (live - starts[:steps])[self.n_forward :]  # live across the begin of each backward step
        starts = np.where(blocks.trigger >= 0, self.place[blocks.trigger], self.n_backward)
        first = np.array([self.place[members[0]] for members in blocks.members])
        ends = np.append(first[1:], self.place[blocks.members[-1][-1]] + 1)
        self.windows = []
        for b in range(len(blocks)):
            later = starts[starts > starts[b]]
            until = int(later.min(initial=self.n_backward))
            self.windows.append(((int(first[b]), int(ends[b])), (int(starts[b]), until)))
        head = trace[int(ends[-1]) : self.n_forward + int(starts.min(initial=self.n_backward))]
        self.head = int(head.max(initial=0))
        self.outside = int(self.forward[: int(first[0])].max(initial=0))


class _BlockOptions:
    """One block of a search: bytes and cost of sets of saved operators, many at once."""

    def __init__(self, search: _BlockSearch, b: int) -> None:
        graph, blocks, axis = search.graph, search.blocks, search.windows
        self.search, self.b, self.graph, self.eager = search, b, graph, search.semantics == EAGER
        self.members = blocks.members[b].astype(np.int64)
        self.count = self.members.size
        place = {v: i for i, v in enumerate(self.members.tolist())}
        self.end = int(np.searchsorted(self.members, blocks.rerun_end[b]))
        self.treated = blocks.trigger[b] >= 0 and b not in blocks.refusals
        self.forced = not_rerun(graph)[self.members]
        self.draws = np.isin(self.members, blocks.draws)
        self.free = ~np.isin(self.members, blocks.fixed) & ~self.forced & (np.arange(self.count) < self.end)
        self.memory = graph.node_memory[self.members]
        self.compute = graph.compute[self.members]
        self.forward_window, self.backward_window = axis.windows[b]
        indptr, readers = graph.readers
        self.values = []  # value, its member, members that read it, last forward place, backward places, leaves
        self.consumers: list[list[int]] = [[] for _ in range(self.count)]
        self.required, self.leaves = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for i, v in enumerate(self.members.tolist()):
            for x in graph.values(v):
                of = readers[indptr[x] : indptr[x + 1]]
                of = of[graph.needed[of]]
                forward, gradients = of[graph.forward[of]], of[~graph.forward[of]]
                inside = sorted(place[u] for u in forward.tolist() if u in place)
                self.leaves[i] |= len(inside) < forward.size
                self.required[i] |= gradients.size > 0
                self.consumers[i] += inside
                last = int(axis.place[forward].max(initial=axis.place[v]))
                self.values.append((x, i, inside, last, np.sort(axis.place[gradients])))
        self.inputs = []  # value, members that read it, backward places
        for x in blocks.inputs[b].tolist():
            of = readers[indptr[x] : indptr[x + 1]]
            gradients = of[graph.needed[of] & ~graph.forward[of]]
            self.inputs.append((x, sorted(place[u] for u in of.tolist() if u in place), np.sort(axis.place[gradients])))

    def rerun(self, saved: Bool) -> Bool:
        """bool[o, k]: members that run again."""
        stays = saved | self.forced
        if self.eager:
            return ~stays & (np.arange(self.count) < self.end)
        again = np.zeros(saved.shape, bool)
        for i in range(self.count - 1, -1, -1):
            if not self.leaves[i]:
                needed = again[:, self.consumers[i]].any(axis=1) | self.required[i]
                again[:, i] = needed & ~stays[:, i]
        return again

    def subsets(self) -> Bool:
        """bool[o, k]: sets of members whose outputs stay, those of least cost for the bytes that they keep."""
        candidates = np.flatnonzero(self.free & ((self.compute > 0) | self.draws | (not self.eager)))
        if not self.eager:
            candidates = candidates[~self.leaves[candidates]]
        if candidates.size <= ALL_SUBSETS:
            rows = np.arange(1 << candidates.size)[:, None] >> np.arange(candidates.size) & 1
            found = np.zeros((rows.shape[0], self.count), bool)
            found[:, candidates] = rows
            found = found[self._lawful(found)]
            if not self.eager:
                found &= self._read_again(found)
            return found[np.unique(found, axis=0, return_index=True)[1]]
        return self._knapsack(candidates) if self.eager else self._cuts(candidates)

    def _lawful(self, saved: Bool) -> Bool:
        """bool[o]: sets in which all draws after a saved one are saved too."""
        drawn = (saved | self.forced)[:, self.draws & self.eager]
        lawful: Bool = np.all(drawn[:, 1:] >= drawn[:, :-1], axis=1)
        return lawful

    def _knapsack(self, candidates: Int64) -> Bool:
        """Sets of eager members by bytes and cost; for each number of saved draws, which are the last ones."""
        drawn, others = candidates[self.draws[candidates]], candidates[~self.draws[candidates]]
        found = []
        for first in range(drawn.size + 1):
            sets = np.zeros((1, self.count), bool)
            sets[:, drawn[first:]] = True
            for i in others.tolist():
                more = sets.copy()
                more[:, i] = True
                sets = np.concatenate([sets, more])
                kept, cost = sets @ self.memory, -(sets @ self.compute)
                order = _frontier(kept, cost)
                if order.size > MAX_OPTIONS:
                    even = np.linspace(0, order.size - 1, MAX_OPTIONS // 2).round().astype(np.int64)
                    order = order[np.union1d(even, _hull(kept[order], cost[order]))]
                sets = sets[order]
            found.append(sets)
        rows: Bool = np.concatenate(found)
        return rows[self._lawful(rows)]

    def _read_again(self, saved: Bool) -> Bool:
        """bool[o, k]: members that gradients or reruns read."""
        again = self.rerun(saved)
        return np.stack([again[:, of].any(axis=1) | self.required[i] for i, of in enumerate(self.consumers)], axis=1)

    def _cuts(self, candidates: Int64) -> Bool:
        """Sets on the lower hull of bytes and cost, by minimum cuts at prices of a byte, and their neighbours."""

        def figures(saved: Bool) -> tuple[int, int]:
            return int(self.memory[saved].sum()), int(self.compute[self.rerun(saved[None])[0]].sum())

        ends = np.zeros((2, self.count), bool)
        ends[1, candidates] = True
        ends &= self._read_again(ends)
        found: dict[tuple[int, int], Bool] = {figures(row): row for row in ends}
        pending = [tuple(sorted(found))] if len(found) > 1 else []
        while pending and len(found) < MAX_OPTIONS:
            few, many = pending.pop()
            price = (few[1] - many[1]) / (many[0] - few[0]) if many[0] > few[0] and few[1] > many[1] else None
            row = None if price is None else self._cut(price)
            if row is None or price is None or (point := figures(row)) in found:
                continue
            if few[0] < point[0] < many[0] and point[1] < few[1] - price * (point[0] - few[0]) - 1e-9 * few[1]:
                found[point] = row
                pending += [(few, point), (point, many)]
        rows = np.stack(list(found.values()))
        flips = np.repeat(rows, candidates.size, axis=0)
        flipped = np.tile(candidates, len(rows))
        flips[np.arange(flipped.size), flipped] ^= True
        rows = np.concatenate([rows, flips])
        rows = rows & self._read_again(rows)
        return rows[_frontier(rows @ self.memory, self.rerun(rows) @ self.compute)]

    def _cut(self, price: float) -> Bool | None:
        """Members to save so that the cost of the reruns and the price of the bytes together are least.

        A member has a vertex on the source's side if it runs again, and one if something reads it then.
        """
        k, source, sink = self.count, 2 * self.count, 2 * self.count + 1
        scale = 2**48 / max(1.0, float(self.compute.sum()) + price * float(self.memory.sum()))
        runs, bytes_ = (np.rint(each * scale).astype(np.int64) for each in (self.compute, price * self.memory))
        always = int(runs.sum() + bytes_.sum()) + 1
        arcs = []
        for i in np.flatnonzero(~self.leaves).tolist():
            arcs += [(i, sink, always if self.forced[i] else int(runs[i]))]
            arcs += [(k + i, i, int(bytes_[i]) if self.free[i] or self.forced[i] else always)]
            arcs += [(j, k + i, always) for j in self.consumers[i]]
            arcs += [(source, k + i, always)] if self.required[i] else []
        tail, head, capacity = (np.array(column) for column in zip(*arcs, strict=True))
        flow, _, near, _ = maximum_flow(
            sink + 1, tail.astype(np.int32), head.astype(np.int32), capacity.astype(np.int64), source, sink
        )
        near = near.view(np.bool_)
        return None if flow >= always else near[k : 2 * k] & ~near[:k] & self.free & ~self.leaves

    def options(self, sets: Bool) -> _Options:
        """Bytes and costs of keeping the block and of sets of saved members."""
        rows = sets if self.treated else sets[:0]
        away = np.zeros(1 + len(rows), bool)
        stored = self.search.blocks.inputs[self.b][:0]
        if self.search.link is not None and self.treated:
            stored = offloaded(self.graph, self.search.blocks, self.b, self.search.owned)
        if stored.size:
            rows, away = np.concatenate([rows, rows]), np.arange(1 + 2 * len(rows)) > len(rows)
        rows = np.concatenate([np.zeros((1, self.count), bool), rows])
        again = self.rerun(rows)
        again[0] = False
        kept, own = self._bytes(rows | self.forced, again, away, set(stored.tolist()))
        cost = again @ self.compute + away * int(self.search.copies[stored].sum())
        decision = np.where(away, DECISIONS.index(OFFLOAD), DECISIONS.index(RECOMPUTE)).astype(np.int8)
        decision[0] = DECISIONS.index(KEEP)
        return _Options(decision, rows, kept, cost, own).undominated()

    def _bytes(self, saved: Bool, again: Bool, away: Bool, stored: set[int]) -> tuple[Int64, Int64]:
        """Bytes kept, and those at the worst step, of each row; the first row is the block without a checkpoint."""
        graph, axis, blocks, b, k = self.graph, self.search.windows, self.search.blocks, self.b, self.count
        (f0, f1), (k0, k1) = self.forward_window, self.backward_window
        n, rows = len(saved), np.arange(len(saved))
        width = k1 - k0 + k
        release = int(axis.place[blocks.release[b]]) if self.treated else -1
        start = np.full(n, k0)
        if not self.eager:
            first = np.full(n, k1)
            for _, i, _, _, gradients in self.values:
                if gradients.size:
                    first = np.where(again[:, i], np.minimum(first, gradients[0]), first)
            start = np.where(again.any(axis=1), first, k0)
        start = np.clip(start - k0, 0, k1 - k0)

        def of_step(step: Int64 | int) -> Int64:  # place in the window of a backward step; -1 before it
            ahead = np.asarray(step) - k0
            return np.where(ahead < 0, -1, np.minimum(np.where(ahead >= start, ahead + k, ahead), width - 1))

        def of_slot(slot: Int64 | int) -> Int64:
            return np.where(np.asarray(slot) < 0, -1, start + slot)

        forward, backward = np.zeros((n, f1 - f0 + 1), np.int64), np.zeros((n, width + 1), np.int64)
        kept = np.zeros(n, np.int64)

        def live(trace: Int64, low: Int64 | int, high: Int64 | int, size: Int64 | int) -> None:
            low = np.maximum(np.broadcast_to(low, n), 0)
            high = np.minimum(np.broadcast_to(high, n), trace.shape[1] - 2)
            amount = np.where(high >= low, size, 0)
            trace[rows, np.minimum(low, trace.shape[1] - 1)] += amount
            trace[rows, np.maximum(high, -1) + 1] -= amount

        checkpointed = rows > 0
        place = np.arange(k)
        before = np.maximum.accumulate(np.where(again, place, -1), axis=1)
        before = np.concatenate([np.full((n, 1), -1), before[:, :-1]], axis=1)  # the last rerun in front of each
        holds = self.search.holds if self.eager else None
        for x, i, inside, last, gradients in self.values:
            size = int(graph.memory[x])
            if not size:
                continue
            ends = int(axis.end[x]) - axis.n_forward
            slot = np.where(again[:, inside], np.array(inside, np.int64), -1).max(axis=1, initial=-1)
            if gradients.size:
                found = np.searchsorted(gradients, start + k0)
                earlier, latest = np.where(found > 0, gradients[found - 1], -1), int(gradients[-1])
            else:
                earlier, latest = np.full(n, -1), -1
            after = np.where(latest >= start + k0, of_step(latest), -1)
            until = np.where(again[:, i], earlier, latest)
            if holds is not None:
                held, released = int(holds.live_until[x]), int(holds.released[x])
                if held >= 0 and graph.forward[held]:
                    last = max(last, int(axis.place[held]))
                elif held >= 0:
                    until = np.maximum(until, axis.place[held])
                if released >= 0:
                    after = np.maximum(after, of_step(axis.place[released]))
                    until = np.where(again[:, i], until, np.maximum(until, axis.place[released]))
            if graph.output[x]:
                until = np.full(n, axis.n_backward - 1)
            if self.eager:
                stays = saved[:, i] & ~again[:, i] & checkpointed
                if i >= self.end:
                    until = np.where(stays, np.maximum(until, release), until)
                else:
                    slot = np.where(stays, np.maximum(slot, before[:, i]), slot)
                    until = np.where(stays, np.maximum(until, start + k0 - 1), until)
            until[0], slot[0] = ends, -1
            original = np.where(again[:, i], -1, slot)
            crosses = (until >= 0) | (original >= 0)
            kept += np.where(crosses, size, 0)
            live(forward, int(axis.place[self.members[i]]) - f0, np.where(crosses, f1, last) - f0, size)
            live(backward, 0, np.maximum(of_step(until), of_slot(original)), size)
            rerun_end = np.maximum(np.maximum(of_slot(i), of_slot(slot)), after)
            live(backward, of_slot(i), np.where(again[:, i], rerun_end, -1), size)
        for x, inside, gradients in self.inputs:
            size, ends = int(graph.memory[x]), int(axis.end[x]) - axis.n_forward
            gone = away & (x in stored)
            slot = np.where(again[:, inside], np.array(inside, np.int64), -1).max(axis=1, initial=-1)
            longer = np.where(checkpointed & self.treated, of_step(release) if self.eager else of_slot(slot), -1)
            if ends >= 0:
                base = of_step(ends)
                found = np.searchsorted(gradients, start + k0)  # gradients that read it before it is loaded
                earlier = np.where(found > 0, np.append(gradients, -1)[found - 1], -1)
                kept -= np.where(gone & (earlier < 0), size, 0)
                live(backward, of_step(earlier) + 1, np.where(gone, np.minimum(base, start - 1), -1), -size)
            else:
                base = np.full(n, -1)
                kept += np.where(~gone & (longer >= 0), size, 0)
                live(forward, ends + axis.n_forward + 1 - f0, np.where(~gone & (longer >= 0), f1, -1), size)
            live(backward, np.maximum(base + 1, np.where(gone, start, 0)), longer, size)
        for i, v in enumerate(self.members.tolist()):
            if graph.workspace[v]:
                live(backward, of_slot(i), np.where(again[:, i], of_slot(i), -1), int(graph.workspace[v]))
        at = np.arange(width)[None, :]
        at = np.where(at < start[:, None], at, np.maximum(at - k, start[:, None])) + k0
        inside = (np.arange(width)[None, :] >= start[:, None]) & (np.arange(width)[None, :] < start[:, None] + k)
        at = np.minimum(at, axis.n_backward - 1)
        others = np.where(inside, axis.between[at], axis.backward[at])
        own = (np.cumsum(backward[:, :-1], axis=1) + others).max(axis=1, initial=0)
        ahead = np.cumsum(forward[:, :-1], axis=1) + axis.forward[f0:f1]
        return kept, np.maximum(own, ahead.max(axis=1, initial=0))


def _frontier(kept: Int64, cost: Int64) -> Int64:
    """Places of the points that no other dominates, with rising bytes and falling cost."""
    order = np.lexsort((cost, kept))
    lower = np.minimum.accumulate(cost[order])
    return order[np.append(True, lower[1:] < lower[:-1])[: order.size]]


def _hull(kept: Int64, cost: Int64) -> Int64:
    """Places of the points on the lower hull; the points have rising bytes and falling cost."""
    found: list[int] = []
    points = list(zip(kept.tolist(), cost.tolist(), strict=True))
    for i, (x, y) in enumerate(points):
        while len(found) > 1:
            (x0, y0), (x1, y1) = points[found[-2]], points[found[-1]]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            found.pop()
        found.append(i)
    return np.array(found)
