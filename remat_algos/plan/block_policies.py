"""The cheapest policy per block within a budget.

Each kind of block has a list of options; an option is a set of operators whose outputs stay in memory. Simulations, in
which every block takes one of its options, measure the bytes that each option keeps, the peak during the block's own
part of the schedule, and the cost of recomputation. A dynamic program chooses one option per block; its state is the
number of bytes kept by earlier blocks. A simulation then checks each choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.effort import UNLIMITED
from remat_algos.errors import ArgumentError, BudgetError, PlanError
from remat_algos.ir.arrays import Bool, Int8, Int64, wrong_length
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.flow import maximum_flow
from remat_algos.plan import tuning
from remat_algos.plan.blocks import (
    DECISIONS,
    EAGER,
    KEEP,
    OFFLOAD,
    RECOMPUTE,
    Blocks,
    Holds,
    block_schedule,
    member_reads,
    needed_again,
    not_rerun,
    offloaded,
)
from remat_algos.plan.policy import Policy, every_nth
from remat_algos.schedule.simulation import Simulation, simulate


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

    Each block is kept, or checkpointed: its operators, except those whose outputs stay, are recomputed right before its
    first gradient. `torch.utils.checkpoint` and the trainers built on it do the same, so no other runtime is needed.

    Parameters
    ----------
    graph : ComputationGraph
        With a backward part (`differentiate`).
    budget : Budget, int or str
        Bytes of the peak, without residents: 4_000_000, "4GiB", "50%" of the peak without rematerialization, "least",
        or "least+0.1%"; `Budget(device="24GiB")` includes residents.
    blocks : Blocks, str or sequence of str
        The blocks, or their module paths: "layers.*"; "layers.*,head" for several stacks; "layers.*|layers.*.mlp" to
        try both divisions into blocks and return the cheaper policy.
    semantics : {"eager", "graph"}
        Which operators are recomputed. "eager": all that are not saved, up to the last tensor that a gradient needs, as
        in eager PyTorch. "graph": only those that gradients need, as in compiled graphs.
    link : Link, Device, mapping, str or path, optional
        With a link, inputs of checkpointed blocks may go to the host. The costs of the graph must be times. Copies are
        synchronous, so their time is added.
    holds : Holds, optional
        How long eager PyTorch keeps values after their last read in the graph.

    Returns
    -------
    Policy
        The cheapest policy found. Its simulated peak is within the budget; `bound` is a lower bound on its cost.

    Raises
    ------
    PlanError
        If no block matches, blocks overlap, or gradients read no value of a block.
    BudgetError
        If no policy fits. The error reports the lowest peak that was found.
    ValueError
        If `semantics` is unknown, `holds` is for another graph, or the budget limits overhead.

    Examples
    --------
    >>> import remat_algos as ra
    >>> graph = ra.differentiate("model:llama_7b?depth=4&cost=roofline&device=h100-sxm")
    >>> policy = plan_policy(graph, "50%", "layers.*")
    >>> policy.peak_memory <= policy.limit, policy.treatments[0].decision
    (True, 'recompute')
    """
    requested = Budget.of(budget)
    if requested.overhead is not None:
        raise ArgumentError(
            "a policy cannot have an overhead budget ({overhead!r}); give a memory budget", overhead=requested.overhead
        )
    if isinstance(blocks, str) and "|" in blocks:
        policy: Policy = cheapest(
            partial(plan_policy, graph, requested, part, semantics=semantics, link=link, holds=holds)
            for part in blocks.split("|")
        )
        return policy
    cut = blocks if isinstance(blocks, Blocks) else Blocks.of(graph, blocks)
    if not graph.is_training or (cut.trigger < 0).all():
        raise PlanError("no gradient reads what the blocks compute; give a graph with its backward part")
    if holds is not None and holds.live_until.size != graph.n_values:
        raise wrong_length("holds", holds.live_until.size, graph.n_values, "value")
    over = None if link is None else get_link(link)
    search = _BlockSearch(Policy.of(graph, cut, [KEEP] * len(cut), semantics=semantics, holds=holds, link=over), cut)
    if requested.least or requested.above_lowest is not None:
        lowest = search.lowest()
        if requested.least:
            return lowest
        return search.within(int(lowest.peak_memory * (1 + (requested.above_lowest or 0))))
    limit = requested.memory_limit(search.base.peak_memory, graph.resident_memory)
    return search.lowest() if limit is None else search.within(limit)


def cheapest(searches: Iterable[Callable[[], Any]]) -> Any:
    """Return the cheapest of several plans, or the one with the lowest peak if there is no limit."""
    plans, errors = [], []
    for search in searches:
        try:
            plans.append(search())
        except BudgetError as error:
            errors.append(error)
    if not plans:
        raise min(errors, key=lambda error: error.reached)
    return min(plans, key=lambda each: (each.peak_memory if each.limit is None else 0, each.overhead))


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """The options of one block, one entry per option.

    `decision`, int8[o], is an index into `DECISIONS`. `saved`, bool[o, k], marks the operators of the block whose
    outputs stay in memory. `host`, int64[o], is the bytes of inputs that go to a host of limited memory. The other
    fields, int64[o], come from simulations. `kept` is the number of bytes by which the forward part of the block raises
    the live bytes. `own` is the peak during its forward and backward parts, minus the bytes that are live before the
    forward part. `cost` is the cost of recomputation and copies.
    """

    decision: Int8
    saved: Bool
    host: Int64
    kept: Int64
    own: Int64
    cost: Int64

    def pair(self, at: int) -> tuple[int, Bool]:
        return int(self.decision[at]), self.saved[at]

    def undominated(self) -> _Options:
        """Return the options that no other option dominates, and the first two options, since `uniform` needs them."""
        figures = np.stack([self.kept, self.own, self.host])
        order = np.lexsort((*figures, self.cost))
        places = [0, 1][: order.size]
        while order.size:
            places.append(int(order[0]))
            order = order[(figures[:, order] < figures[:, order[:1]]).any(axis=0)]
        at = np.unique(places)
        return _Options(*(getattr(self, each.name)[at] for each in fields(self)))


class _BlockSearch:
    """The search for the best choice (one option per block); `keeping` is the policy that keeps all blocks."""

    def __init__(self, keeping: Policy, blocks: Blocks) -> None:
        graph, link = keeping.graph, keeping.link
        self.keeping, self.graph, self.blocks, self.base = keeping, graph, blocks, keeping.simulation
        self.reads = member_reads(graph, blocks)
        self.treated = (blocks.trigger >= 0) & ~np.isin(np.arange(len(blocks)), [*blocks.refusals])
        self.taker = np.full(graph.n_values, -1)  # for each input, its block
        for b, inputs in enumerate(blocks.inputs):
            self.taker[inputs] = b
        self.copies = np.zeros(graph.n_values, np.int64)
        if link is not None:
            self.copies = np.sum(link.planned.times(graph), axis=0)
        self.host = UNLIMITED if link is None or link.host is None else link.host
        # The backward part of a block begins at `trigger`, its first gradient, and ends before the next trigger.
        needed = np.flatnonzero(graph.needed)
        backward = needed[~graph.forward[needed]]
        begin = np.where(blocks.trigger >= 0, np.searchsorted(backward, blocks.trigger), backward.size)
        begins = np.unique(np.append(begin, backward.size))
        until = begins[np.searchsorted(begins, begin, "right").clip(max=begins.size - 1)]
        ahead = np.append(needed[graph.forward[needed]][-1:], backward)
        # The last node before the backward part of each block, and the last node of that part.
        self.ahead = ahead[begin], ahead[until]
        trace, bounds, live, (begin, _) = self._parts(self.base)
        self.start, self.outside = int(live[0]), int(trace[: bounds[0]].max(initial=0))
        self.head = int(trace[bounds[-1] : begin.min()].max(initial=0) - live[-1])
        self.kinds: list[int] = []  # the kind of each block
        self.simulated: dict[bytes, tuple[int, int]] = {}  # (peak, cost) of each choice

    @cached_property
    def options(self) -> list[_Options]:
        graph, blocks = self.graph, self.blocks
        decisions = [KEEP if self.keeping.link is None or not treated else OFFLOAD for treated in self.treated]
        sets: dict[Any, Bool] = {}
        listed = []
        for b, away in enumerate(offloaded(graph, blocks, decisions, self.keeping.semantics)):
            block, members = _SavedSets(self, b), blocks.members[b]
            marks = block.free, block.forced, block.draws, graph.memory[away]
            kind = (blocks.kinds[b], self.treated[b], *map(bytes, marks))
            if kind not in sets:
                sets[kind] = block.sets() if self.treated[b] else np.zeros((0, members.size), bool)
            self.kinds.append(list(sets).index(kind))
            count = len(sets[kind])
            decision = np.repeat(np.arange(3, dtype=np.int8), [1, count, count if away.size else 0])
            saved = np.concatenate([np.zeros((1, members.size), bool), sets[kind], sets[kind]])[: decision.size]
            size = graph.memory[away].sum() if self.host < UNLIMITED else 0
            listed.append((decision, saved, (decision == DECISIONS.index(OFFLOAD)) * size))
        counts = np.array([decision.size for decision, _, _ in listed])
        figures = np.zeros((3, len(listed), counts.max()), np.int64)
        for i in range(int(counts.max())):
            at = np.minimum(i, counts - 1)
            choice = [(decision[j], saved[j]) for (decision, saved, _), j in zip(listed, at.tolist(), strict=True)]
            figures[:, np.arange(at.size), at] = self._figures(self.simulation(choice))
        options = [_Options(*each, *figures[:, b, : counts[b]]) for b, each in enumerate(listed)]
        # A dominated option may be the best one in combination with certain options of other blocks. So no option is
        # removed if all combinations are tried.
        return options if prod(counts.tolist()) <= tuning.MAX_COMBINATIONS else [each.undominated() for each in options]

    @cached_property
    def combinations(self) -> list[Int64]:
        """All choices that fit into host memory, cheapest first; empty if there are more than `MAX_COMBINATIONS`."""
        counts = [options.cost.size for options in self.options]
        if prod(counts) > tuning.MAX_COMBINATIONS:
            return []
        every = np.array(list(product(*map(range, counts))))
        host, cost = (
            np.sum([getattr(options, name)[at] for options, at in zip(self.options, every.T, strict=True)], axis=0)
            for name in ("host", "cost")
        )
        order = np.argsort(cost, kind="stable")
        return list(every[order[host[order] <= self.host]])

    def _parts(self, simulation: Simulation) -> tuple[Int64, Int64, Int64, tuple[Int64, Int64]]:
        """Return the memory trace, bounds of forward parts, live bytes at those bounds, bounds of backward parts."""
        order, lives = simulation.schedule.order, simulation.lifetimes
        step = np.empty(self.graph.n_nodes, np.int64)
        step[order[::-1]] = np.arange(order.size)[::-1]
        members = self.blocks.members
        bounds = step[[*(block[0] for block in members), members[-1][-1]]]
        bounds[-1] += 1
        made = np.append(0, np.cumsum(self.graph.memory[lives.value]))[lives.instance_indptr]
        live = simulation.memory_trace - self.graph.workspace[order] - np.diff(made)
        begin, until = (step[nodes] + 1 for nodes in self.ahead)
        return simulation.memory_trace, bounds, live[bounds], (begin, until)

    def _figures(self, simulation: Simulation) -> Int64:
        trace, bounds, live, backward = self._parts(simulation)
        worst = [
            max(trace[i:j].max(initial=0), trace[k:end].max(initial=0))
            for i, j, k, end in zip(bounds, bounds[1:], *backward, strict=False)
        ]
        loads = simulation.schedule.loads[:, 1]
        cost = np.zeros(len(self.blocks) + 1, np.int64)  # last: nodes outside of blocks
        np.add.at(cost, self.reads.block, np.maximum(simulation.runs - 1, 0) * self.graph.compute)
        np.add.at(cost, self.taker[loads], self.copies[loads])
        return np.stack([np.diff(live), worst - live[:-1], cost[:-1]])

    def _decided(self, choice: Iterable[tuple[int, Bool]]) -> tuple[list[str], Bool]:
        saved = np.zeros(self.graph.n_nodes, bool)
        decisions = []
        for members, (decision, stays) in zip(self.blocks.members, choice, strict=True):
            decisions.append(DECISIONS[decision])
            saved[members[stays]] = True
        return decisions, saved

    def simulation(self, choice: Iterable[tuple[int, Bool]]) -> Simulation:
        run_as = self.keeping.semantics, self.keeping.holds
        return simulate(self.graph, block_schedule(self.graph, self.blocks, *self._decided(choice), *run_as))

    def policy(self, at: Int64, limit: int | None, order: Sequence[int] | None = None) -> Policy:
        """Return the policy of a choice; block b gets the option of block `order[b]`, a block of the same kind."""
        order = range(len(self.blocks)) if order is None else order
        return Policy.of(
            self.graph,
            self.blocks,
            *self._decided(self.options[b].pair(at[b]) for b in order),
            semantics=self.keeping.semantics,
            holds=self.keeping.holds,
            limit=limit,
            link=self.keeping.link,
        )

    def in_order(self, at: Int64, limit: int | None) -> Policy:
        """Return the policy of a choice; sort blocks of a kind by the bytes that they keep if that costs nothing."""
        unsorted = self.policy(at, limit)
        most = unsorted.peak_memory if limit is None else limit
        kinds = np.array(self.kinds)
        # The second try does not move the last block, since its option often determines the peak.
        for left_out in (0, 1):
            order = list(range(len(self.blocks)))
            for kind in np.unique(kinds).tolist():
                places = np.flatnonzero(kinds[: len(order) - left_out] == kind).tolist()
                rank = {b: (self.options[b].kept[at[b]], self.options[b].cost[at[b]]) for b in places}
                for b, other in zip(places, sorted(places, key=lambda b: (rank[b], b)), strict=True):
                    order[b] = other
            sorted_ = self.policy(at, limit, order)
            if sorted_.peak_memory <= most and sorted_.overhead <= unsorted.overhead:
                return sorted_
        return unsorted

    def figures(self, at: Int64) -> tuple[int, int]:
        key = at.tobytes()
        if key not in self.simulated:
            cost = sum(int(options.cost[i]) for options, i in zip(self.options, at, strict=True))
            choice = (options.pair(i) for options, i in zip(self.options, at, strict=True))
            self.simulated[key] = self.simulation(choice).peak_memory, cost
        return self.simulated[key]

    def uniform(self) -> Iterator[Int64]:
        """Yield a choice for each n: every n-th block of each stack is checkpointed, and no outputs are saved."""
        for n in range(1, len(self.blocks) + 1):
            recomputed = np.array(every_nth(self.blocks, n)) == RECOMPUTE
            yield (recomputed & self.treated).astype(np.int64)

    def choice(self, limit: int) -> Int64 | None:
        if self.outside > limit:
            return None
        kept, cost, host = np.array([[self.start], [0], [0]])
        picks = []
        for options in self.options:
            fits = (kept <= (limit - options.own)[:, None]) & (host <= (self.host - options.host)[:, None])
            option, before = np.nonzero(fits)
            kept, cost, host = (
                sums[before] + own[option]
                for sums, own in ((kept, options.kept), (cost, options.cost), (host, options.host))
            )
            coarse = host.any() and np.unique(host).size > tuning.HOST_PARTS
            part = host * tuning.HOST_PARTS // (self.host + 1) if coarse else host
            order = _frontier(kept, cost, part)
            # In each range of bytes, keep the state with the fewest bytes and the state with the lowest cost.
            if order.size > tuning.MAX_BLOCK_STATES:
                cells = tuning.MAX_BLOCK_STATES // 2 // np.unique(part[order]).size
                cell = part[order] * cells + kept[order] * cells // (limit + 1)
                change = np.flatnonzero(np.diff(cell))
                order = order[np.unique(np.concatenate([[0], change, change + 1, [order.size - 1]]))]
            kept, cost, host = kept[order], cost[order], host[order]
            picks.append((option[order], before[order]))
        fitting = np.flatnonzero(kept <= limit - self.head)
        if not fitting.size:
            return None
        at, chosen = fitting[np.argmin(cost[fitting])], []
        for option, before in reversed(picks):
            chosen.append(int(option[at]))
            at = before[at]
        return np.array(chosen[::-1])

    def predicted(self, at: Int64) -> int:
        pairs = list(zip(self.options, at.tolist(), strict=True))
        kept = np.cumsum([self.start, *(options.kept[i] for options, i in pairs)])
        own = [options.own[i] for options, i in pairs]
        return int(max(self.outside, kept[-1] + self.head, (kept[:-1] + own).max()))

    def near(self, limit: int) -> Iterator[Int64]:
        """Yield choices of the dynamic program for several limits, in search of the largest one whose choice fits."""
        # Predictions are not exact, since a block may extend lifetimes of values in another block.
        room, step, fits, exceeds = limit, max(1, limit // tuning.MAX_BLOCK_STATES), -1, 4 * limit + 2
        for _ in range(tuning.BUDGET_ROUNDS):
            at, peak = self.choice(room), limit
            if at is not None:
                yield at
                peak = self.figures(at)[0]
            if peak <= limit:
                fits = room
                if at is not None and peak == self.predicted(at):
                    return
                room += max(step, limit - peak)
            else:
                exceeds = room
                room -= max(step, peak - limit)
            step *= 2
            if not fits < room < exceeds:
                room = (fits + exceeds) // 2
            if room <= fits:
                return

    def within(self, limit: int) -> Policy:
        tried = self.combinations or sorted([*self.near(limit), *self.uniform()], key=lambda at: self.figures(at)[::-1])
        best = next((at for at in tried if self.figures(at)[0] <= limit), None)
        if best is not None:
            return self.in_order(best, limit)
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

    def lowest(self) -> Policy:
        if self.combinations:
            return self.in_order(min(self.combinations, key=self.figures), None)
        low, high = 0, 2 * self.base.peak_memory
        best = min([np.zeros(len(self.blocks), np.int64), *self.uniform()], key=self.figures)
        while high - low > max(1, self.base.peak_memory >> 12):
            middle = (low + high) // 2
            at = self.choice(middle)
            if at is None:
                low = middle
            else:
                high = middle
                best = min(best, at, key=self.figures)
        for _ in range(tuning.BUDGET_ROUNDS):
            at = self.choice(self.figures(best)[0] - 1)
            if at is None or self.figures(at) >= self.figures(best):
                break
            best = at
        return self.in_order(best, None)


class _SavedSets:
    """Sets of nodes of one block whose outputs may stay in memory: sets that save much recomputation for few bytes."""

    def __init__(self, search: _BlockSearch, b: int) -> None:
        graph, blocks, reads = search.graph, search.blocks, search.reads
        members = blocks.members[b]
        self.eager = search.keeping.semantics == EAGER
        self.reached = members < blocks.rerun_end[b]
        self.forced = not_rerun(graph)[members]
        self.draws = np.isin(members, blocks.draws)
        self.free = ~np.isin(members, blocks.fixed) & ~self.forced & self.reached
        self.memory, self.compute = graph.node_memory[members], graph.compute[members]
        self.workspace = graph.workspace[members]
        self.required, self.leaves = reads.required[members], reads.leaves[members]
        self.inside = np.searchsorted(members, reads.inside[reads.block[reads.inside[:, 0]] == b])
        # In compiled graphs, values that nodes outside of the block read stay live in any case: saving costs no bytes.
        if not self.eager:
            self.free &= ~self.leaves

    def _again(self, saved: Bool) -> Bool:
        """Return bool[o, k]: the members that are recomputed, for each set of saved members."""
        allowed = ~(saved | self.forced)
        if self.eager:
            return allowed & self.reached
        return needed_again(self.required[:, None], (allowed & ~self.leaves).T, self.inside).T

    def _read(self, saved: Bool) -> Bool:
        """Return `saved`, bool[o, k]. For compiled graphs, omit members that no gradient or recomputation reads."""
        if self.eager:
            return saved
        again = self._again(saved)
        read = np.repeat(self.required[None], len(saved), axis=0)
        for maker, reader in self.inside.tolist():
            read[:, maker] |= again[:, reader]
        return saved & read

    def sets(self) -> Bool:
        candidates = np.flatnonzero(self.free & ((self.memory + self.compute + self.workspace > 0) | self.draws))
        if candidates.size <= tuning.ALL_SUBSETS:
            rows = np.arange(1 << candidates.size)[:, None] >> np.arange(candidates.size) & 1
            subsets = np.zeros((rows.shape[0], self.free.size), bool)
            subsets[:, candidates] = rows
            subsets = self._read(subsets[self._lawful(subsets)])
        else:
            subsets = self._hull_and_neighbours(candidates)
            # Recomputing these members costs nothing, but their workspace may raise the peak.
            costless = self.free & (self.compute == 0) & (self.workspace > 0)
            subsets = np.concatenate([np.zeros((1, self.free.size), bool), subsets, self._read(subsets | costless)])
        return subsets[np.sort(np.unique(subsets, axis=0, return_index=True)[1])]

    def _lawful(self, saved: Bool) -> Bool:
        """Return bool[o]: False for sets that save a random operator but not all later random operators of a block."""
        drawn = (saved | self.forced)[:, self.draws & self.eager]
        lawful: Bool = np.all(drawn[:, 1:] >= drawn[:, :-1], axis=1)
        return lawful

    def _hull_and_neighbours(self, candidates: Int64) -> Bool:
        """Return sets on the lower convex hull of bytes and cost, and undominated sets near them."""
        # In eager PyTorch, if the output of a random operator is saved, the outputs of all later random operators in
        # the block must be saved too. So there is one hull for each number of saved random operators.
        drawn = np.flatnonzero(self.draws & self.free & self.eager)
        rows = np.concatenate([self._hull(drawn[:i], drawn[i:]) for i in range(drawn.size + 1)])
        for _ in range(tuning.HULL_CHANGES):
            changed = np.repeat(rows, candidates.size, axis=0)
            changed[np.arange(len(changed)), np.tile(candidates, len(rows))] ^= True
            rows = np.concatenate([rows, changed])
            rows = self._read(rows[self._lawful(rows)])
            order = _frontier(rows @ self.memory, self._again(rows) @ self.compute)
            rows = rows[order[np.unique(np.linspace(0, order.size - 1, tuning.MAX_OPTIONS).round().astype(np.int64))]]
        return rows

    def _hull(self, never: Int64, always: Int64) -> Bool:
        """Return the sets that contain `always`, exclude `never`, and are the cheapest at some price per byte."""

        def cheapest(price: float) -> tuple[tuple[int, int], Bool]:
            row = self.free & (self.compute > price * self.memory) if self.eager else self._cut(price)
            row[never], row[always] = False, True
            return (int(self.memory[row].sum()), int(self.compute[self._again(row[None])[0]].sum())), row

        few, many = cheapest(float(self.compute.sum() + 1)), cheapest(0)
        rows = dict([few, many])
        pending = [(few[0], many[0])]
        while pending and len(rows) < tuning.MAX_OPTIONS:
            (fewer, dear), (more, cheap) = pending.pop()
            if fewer < more and cheap < dear:
                point, row = cheapest((dear - cheap) / (more - fewer))
                if point not in rows:
                    rows[point] = row
                    pending += [((fewer, dear), point), (point, (more, cheap))]
        return np.stack(list(rows.values()))

    def _cut(self, price: float) -> Bool:
        """Return the members to save: a minimum cut minimizes recomputation cost plus `price` times the saved bytes."""
        # Each member i has two vertices. Vertex i is on the source side if the member is recomputed, vertex k + i if it
        # is read.
        k = self.free.size
        source, sink = 2 * k, 2 * k + 1
        scale = 2**48 / max(1.0, float(self.compute.sum()) + price * float(self.memory.sum()))
        runs, bytes_ = (np.rint(each * scale).astype(np.int64) for each in (self.compute, price * self.memory))
        always = int(runs.sum() + bytes_.sum()) + 1
        arcs = [(j, k + i, always) for i, j in self.inside.tolist() if not self.leaves[i]]
        for i in np.flatnonzero(~self.leaves).tolist():
            arcs += [(i, sink, always if self.forced[i] else int(runs[i]))]
            arcs += [(k + i, i, int(bytes_[i]) if self.free[i] or self.forced[i] else always)]
            arcs += [(source, k + i, always)] if self.required[i] else []
        tail, head, capacity = (np.array(column) for column in zip(*arcs, strict=True))
        _, _, near, _ = maximum_flow(
            sink + 1, tail.astype(np.int32), head.astype(np.int32), capacity.astype(np.int64), source, sink
        )
        near = near.view(np.bool_)
        return near[k : 2 * k] & ~near[:k] & self.free


def _frontier(kept: Int64, cost: Int64, part: Int64 | int = 0) -> Int64:
    """Return the indices of the undominated points of each part, sorted by part, then by increasing bytes."""
    part, places = np.broadcast_to(part, kept.shape), np.arange(kept.size)
    # First divide the range of bytes into cells, and remove points that a point in a lower cell dominates. So fewer
    # points have to be sorted.
    if kept.size and not part.any():
        cell = (kept - kept.min()) * tuning.MAX_BLOCK_STATES // (kept.max() - kept.min() + 1)
        least = np.full(tuning.MAX_BLOCK_STATES + 1, cost.max() + 1)
        np.minimum.at(least, cell + 1, cost)
        places = np.flatnonzero(cost < np.minimum.accumulate(least)[cell])
    order = places[np.lexsort((cost[places], kept[places], part[places]))]
    lower = np.minimum.accumulate(cost[order] - part[order] * (cost.max(initial=0) + 1))
    return order[np.append(True, lower[1:] < lower[:-1])[: order.size]]
