"""Dynamic programs over chains of lower sets.

A chain is a path of steps L -> L' through a family of lower sets, from the empty set to the whole forward part. Its
cost is the sum of the costs of its steps. Its peak is the maximum over its steps of the bytes cached by earlier steps
plus the bytes that the step needs. The costs and bytes of steps come from formulas (1) and (2) of kusumoto2019, or from
the simulation of blocks (`block_figures`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, check_indptr, frozen, group_rows, indptr_of, is_count, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import lower_set_dp as kernel
from remat_algos.kernels.blocks import BlockGraph, PairFigures, block_borders
from remat_algos.kernels.lower_sets import lower_set_figures
from remat_algos.kernels.rules import Rule
from remat_algos.rules import RuleKind
from remat_algos.schedule.emission import clamp_counts
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import pareto
from remat_algos.structure.lower_sets import LowerSetFamily

UNUSABLE = 2**62
"""Peak of a pair whose block exceeds `max_peak` or `max_recompute`, or whose peak depends on the rest of the chain."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockFigures:
    """Bytes and compute of the block V' = L' - L for each pair of lower sets L -> L', int64[p] each.

    `peak` is the number of bytes at the block's worst step, without the bytes that earlier blocks cache; it is
    `UNUSABLE` if the pair alone does not determine it. `cached` is the number of bytes of the block that stay live
    while later blocks run. `recompute` is the compute of the nodes recomputed for the block's gradients.
    """

    peak: Int64
    cached: Int64
    recompute: Int64


def block_figures(
    graph: ComputationGraph,
    words: NDArray[np.uint64],
    indptr: Int64,
    target: Int32,
    *,
    lazy: bool,
    keep_last: bool = True,
    max_peak: int | None = None,
    max_recompute: int | None = None,
    chains: bool = False,
    check: Callable[[int], None] | None = None,
) -> BlockFigures:
    """Compute the peak, the cached bytes and the recomputed compute of the block between each pair of lower sets.

    Take a chain {} = L_0 < L_1 < .. < L_k whose pairs are all usable, on a graph without updates. The simulated peak of
    its `canonical_schedule` is at most the maximum over its blocks of `peak` plus the `cached` bytes of the blocks
    before it. Its overhead is at most the sum of `recompute`. These figures depend on the pair alone, so they assume
    the worst case for the other blocks. If a gradient of the block reads a value from outside L', the node of this
    value may be kept or recomputed. If a node outside L' reads a kept value, the value stays live to the end.

    The rows of `words` are the lower sets, as in `LowerSets.words`. Row i of `target` (CSR) lists proper supersets of
    set i. Pairs above `max_peak` or `max_recompute` get `UNUSABLE`. With `chains`, the two maxima apply to whole chains
    from the first set. So for each pair L -> L', `max_peak` is reduced by the minimum number of bytes that a chain
    ending at L caches, and `max_recompute` by the minimum compute that such a chain recomputes. Each set must then come
    before its supersets. `check` is called about ten times a second with the number of completed pairs; it may raise.
    """
    if words.shape[1:] != ((graph.n_nodes + 63) // 64,):
        raise GraphError(
            "lower sets of shape {shape!w} do not fit {n_nodes} nodes", shape=words.shape, n_nodes=graph.n_nodes
        )
    indptr, target = frozen(indptr, np.int64, "indptr"), frozen(target, np.int32, "target")
    _check_pairs(len(words), indptr, target, chains=chains)
    if check is not None:
        check(0)
    inside = _inside(graph, words)
    owner = _owners(graph, inside)
    rows, whole = _rows(words, inside)
    pinned = _total(np.where(graph.output, graph.memory, 0), graph.producer, owner, inside.size)
    boundary, after, beside, pinned = block_borders(rows, *_edges(graph, inside), pinned)
    pairs, keep_all = _pair_figures(graph, inside, owner, lazy), (whole & keep_last).view(np.uint8)
    cached_before, recompute_before = (np.full(len(words) if chains else 0, -1) for _ in range(2))
    cached_before[:1] = recompute_before[:1] = 0
    if check is not None:
        check(0)
    pieces, size = [], max(1, min(tuning.PAIRS_PER_CHECK, tuning.VISITS_PER_CHECK // inside.size))
    for begin in range(0, max(1, target.size), size):
        end = min(begin + size, target.size)
        piece = np.clip(indptr, begin, end) - begin
        figures = pairs.figures(
            rows,
            boundary=boundary,
            after=after,
            beside=beside,
            pinned=pinned,
            indptr=piece,
            target=target[begin:end],
            keep_all=keep_all,
            max_peak=UNUSABLE if max_peak is None else max_peak,
            max_recompute=UNUSABLE if max_recompute is None else max_recompute,
            cached_before=cached_before,
            recompute_before=recompute_before,
        )
        pieces.append(figures)
        if check is not None:
            check(end)
    peak, cached, recompute = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    return BlockFigures(np.where(peak < 0, UNUSABLE, peak), cached, recompute)


def _check_pairs(n_sets: int, indptr: Int64, target: Int32, *, chains: bool) -> None:
    check_indptr(indptr, n_sets, target.size, "indptr")
    if target.size and not 0 <= target.min() <= target.max() < n_sets:
        raise GraphError("target names an unknown lower set; lower sets are 0 to {last}", last=n_sets - 1)
    if chains and (target <= row_of(indptr)).any():
        raise GraphError("the family must be sorted for chains, each set before its supersets")


def _inside(graph: ComputationGraph, words: NDArray[np.uint64]) -> Bool:
    """Mark nodes of the sets and needed forward nodes, bool[m]. The last entry is the extra node of `_owners`."""
    union = np.bitwise_or.reduce(words, axis=0, initial=0).astype(np.uint64)
    covered = np.unpackbits(union.view(np.uint8), bitorder="little")[: graph.n_nodes].view(np.bool_)
    covered = covered | (graph.needed & graph.forward)
    return np.append(covered[: int(np.flatnonzero(covered).max(initial=-1)) + 1], True)


def _owners(graph: ComputationGraph, inside: Bool) -> Int32:
    """Return `graph.owner`, int32[n]. An extra node m - 1 owns the gradients of nodes that are not in `inside`."""
    outside = np.ones(graph.n_nodes, bool)
    outside[: inside.size - 1] = ~inside[:-1]
    return np.where(~graph.forward & outside[graph.owner], inside.size - 1, graph.owner).astype(np.int32)


def _rows(words: NDArray[np.uint64], inside: Bool) -> tuple[NDArray[np.uint64], Bool]:
    """Return the sets as rows of m bits, and a mask of the rows that contain every node in `inside`."""
    whole = np.packbits(inside, bitorder="little")
    whole = np.append(whole, np.zeros(-whole.size % 8, np.uint8)).view(np.uint64)
    rows = np.zeros((len(words), whole.size), np.uint64)
    rows[:, : words.shape[1]] = words[:, : whole.size]
    more = np.zeros_like(whole)
    more[-1] = np.uint64(1) << np.uint64((inside.size - 1) % 64)
    is_whole = ((rows | more) == whole).all(axis=1)
    rows[is_whole] |= more
    return rows, is_whole


def _edges(graph: ComputationGraph, inside: Bool) -> tuple[Int32, Int32]:
    indptr, source = graph.predecessors
    reader = row_of(indptr, np.int32)
    within = np.append(inside[:-1], np.zeros(graph.n_nodes - inside.size + 1, bool))
    inner = within[reader] & within[source]
    return reader[inner], source[inner]


def _total(amount: Int64, node: Int32, owner: Int32, m: int) -> Int64:
    """Sum amounts by node, int64[m]; the amount of a gradient counts for its owner."""
    total = np.zeros(m, np.int64)
    np.add.at(total, np.where(owner[node] >= 0, owner[node], node)[amount > 0], amount[amount > 0])
    return total


def _pair_figures(graph: ComputationGraph, inside: Bool, owner: Int32, lazy: bool) -> PairFigures:
    """Build the kernel from the arrays of the graph, without the reads of nodes that are not needed."""
    m, n_values, producer = inside.size, graph.n_values, graph.producer
    reader = row_of(graph.read_indptr, np.int32)
    reader, value = reader[graph.needed[reader]], graph.read_indices[graph.needed[reader]]
    of_forward, by_gradient = graph.forward[producer[value]], ~graph.forward[reader]
    read_forward, changes = of_forward & ~graph.output[value], ~of_forward & ~graph.output[value]
    own = np.bincount(value[read_forward & by_gradient & (owner[reader] == producer[value])], minlength=n_values) > 0
    gradient_reads = np.bincount(value[by_gradient], minlength=n_values) > 0
    first = of_forward & ~by_gradient
    gradients = np.flatnonzero(graph.needed & ~graph.forward).astype(np.int32)
    claims = read_forward & by_gradient
    runs, fixed, never = (np.append(flags[: m - 1], False) for flags in (graph.needed, *_marked(graph)))
    row, row_indptr, row_values = _shared(*group_rows(reader[read_forward], value[read_forward], graph.n_nodes))
    upstream_indptr, upstream_values = group_rows(reader[changes], value[changes], graph.n_nodes)
    owned_indptr, owned_indices = group_rows(owner[gradients], gradients, m)
    reader_indptr, reader_indices = group_rows(value[first], reader[first], n_values)
    claim_indptr, claim_indices = _claims(graph, producer[value[claims]], owner[reader[claims]])
    external_indptr, external_indices = _external(
        graph, reader[~of_forward], owner, producer[value[~of_forward]], m - 1
    )
    block_graph = BlockGraph(
        graph.arrays,
        owner=owner,
        row=row,
        row_indptr=row_indptr,
        row_values=row_values,
        upstream_indptr=upstream_indptr,
        upstream_values=upstream_values,
        owned_indptr=owned_indptr,
        owned_indices=owned_indices,
        reader_indptr=reader_indptr,
        reader_indices=reader_indices,
        claim_indptr=claim_indptr,
        claim_indices=claim_indices,
        external_indptr=external_indptr,
        external_indices=external_indices,
        runs=(runs & inside).view(np.uint8),
        fixed=fixed.view(np.uint8),
        never=never.view(np.uint8),
        awaited=_total(np.where(own, graph.memory, 0), producer, owner, m),
        gradient_reads=gradient_reads.view(np.uint8),
        lazy=lazy,
    )
    return PairFigures(block_graph)


def _shared(indptr: Int64, indices: Int32) -> tuple[Int32, Int64, Int32]:
    """Deduplicate rows: return the index of each node's distinct row, and the distinct rows in CSR form."""
    rows: dict[bytes, int] = {}
    row = [rows.setdefault(indices[begin:end].tobytes(), len(rows)) for begin, end in pairwise(indptr.tolist())]
    ends = indptr_of([len(content) // indices.itemsize for content in rows])
    return np.array(row, np.int32), ends, np.frombuffer(b"".join(rows), indices.dtype)


def _external(graph: ComputationGraph, reader: Int32, owner: Int32, read: Int32, beside: int) -> tuple[Int64, Int32]:
    """List the owners of the gradients that each gradient of a node u reads, except u and the successors of u."""
    n = np.int64(graph.n_nodes + 1)
    mine, other = owner[reader].astype(np.int64), owner[read]
    indptr, succ = graph.successors
    follow = row_of(indptr) * n + succ
    external = (mine != other) & (other != beside)
    external[external] = ~_among(mine[external] * n + other[external], follow)
    return group_rows(reader[external], other[external], graph.n_nodes)


def _marked(graph: ComputationGraph) -> tuple[Bool, Bool]:
    """Mark the nodes that every chain keeps and the nodes that no chain keeps, as `canonical_schedule` does."""
    pinned = np.ones(graph.n_nodes, bool)
    pinned[graph.producer[~graph.output]] = False
    kept = clamp_counts(graph, np.ones(graph.n_nodes, np.int64)) == 0
    missing = clamp_counts(graph, np.zeros(graph.n_nodes, np.int64)) > 0
    return kept | pinned, missing & ~pinned


def _claims(graph: ComputationGraph, node: Int32, owner: Int32) -> tuple[Int64, Int32]:
    """For each node v, list the nodes among v and its predecessors whose backward nodes read a value of v."""
    n, indptr, source = graph.n_nodes, *graph.predecessors
    near: Int64 = np.append(row_of(indptr) * (n + 1) + source, np.arange(n) * (n + 2))
    pairs = np.sort(node * np.int64(n + 1) + owner)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]]
    pairs = pairs[_among(pairs, near)]
    return group_rows(pairs // (n + 1), (pairs % (n + 1)).astype(np.int32), n)


def _among(keys: Int64, others: Int64) -> Bool:
    """Mark the keys that are in `others`. Sorting is ten times faster here than the hashing of np.isin."""
    others = np.sort(others)
    if not others.size:
        return np.zeros(keys.size, bool)
    return others[np.searchsorted(others, keys).clip(max=others.size - 1)] == keys


OBJECTIVES = RuleKind("objective", ("cost", "kept", "peak"), {"compute": ("cost",)})


def objective_values(objective: Rule, rows: NDArray[np.float64], n_runs: int) -> Int64:
    """Return the values of an objective for rows (cost, kept, peak), rounded to whole numbers, int64[k].

    The objective of a plan is the sum of at most `n_runs` of these values. This sum must be an exact double.
    """
    with OBJECTIVES.faults(objective):
        values = objective.values(rows)
    most = 2**53 // max(1, n_runs)
    wrong = np.flatnonzero(~((values >= 0) & (values < most)))
    if wrong.size:
        raise ArgumentError(
            "the objective {name} is {value!w} for {arguments!w}; return 0 or more, and less than {most:,}",
            name=objective.name,
            value=f"{values[wrong[0]]:.17g}",
            arguments=OBJECTIVES.listed(objective, rows[wrong[0]]),
            most=most,
        )
    whole_values: Int64 = np.rint(values).astype(np.int64)
    if values.any() and not whole_values.any():
        raise ArgumentError(
            "all values of the objective {name} round to 0; the largest is {largest:.3g}, so scale it",
            name=objective.name,
            largest=float(values.max()),
        )
    return whole_values


def objective_rows(details: Mapping[str, Any], among: str) -> Iterator[tuple[str, str]]:
    """Yield the row of a text report with the objective of a plan and its value, if the plan has one."""
    name, value, error = (details.get(key) for key in ("objective", "objective_value", "objective_error"))
    if isinstance(name, str) and is_count(value):
        claim = f"at most {error:,} above the minimum" if is_count(error) and error else "the minimum"
        claim = claim if is_count(error) else "with rounded sizes or costs the minimum"
        yield "objective", f"{name} {value:,}, {claim} over {among}"


@dataclass(frozen=True, slots=True)
class Point:
    """A chain with its cost and peak; the chain is a list of rows of the family, without row 0.

    `rounded` is the unit to which costs were rounded in the search for the chain, 0 if the search was exact.
    """

    cost: int
    peak: int
    rows: list[int]
    rounded: int = 0


class ChainProgram:
    """Finds the best chains of a lower-set family under one cost model; all costs are multiples of `unit`."""

    def __init__(self, steps: kernel.ChainSteps, max_peak: int, max_cost: int, unit: int, clock: Clock) -> None:
        self.steps = steps
        self.max_peak = max_peak
        self.max_cost = max_cost
        self.unit = max(1, unit)
        self.clock = clock

    @classmethod
    def by_formulas(
        cls,
        family: LowerSetFamily,
        clock: Clock,
        *,
        keep_last: bool,
        kept: bool = False,
        objective: Rule | None = None,
    ) -> "ChainProgram":
        """Use formula (2) as the peak and formula (1) as the cost. With `kept`, the compute of kept nodes is the cost.

        With an objective, the cost of a step is the value of the objective for three numbers: the term of formula (1),
        the bytes that the step adds to the cache, and the bytes that its block needs.
        """
        graph, nodes = family.graph, family.nodes
        memory, compute = graph.node_memory[nodes], graph.compute[nodes]
        figures = _set_figures(family, memory, compute, clock)
        steps = kernel.ChainSteps(
            family.words,
            memory=memory,
            compute=compute,
            **figures,
            covers=family.covers,
            kept=kept,
            keep_last=keep_last,
        )
        if len(family) ** 2 <= 2 * tuning.MAX_STORED_STEPS:
            steps.store(*family.pairs)
        if objective is None:
            return cls(steps, 2 * int(memory.sum()), int(compute.sum()), _common_unit(compute), clock)
        if not steps.stored_all:
            raise ArgumentError(
                "with an objective, a family may have {most:,} lower sets, and this one has {sets:,}; use "
                "approximate_dp, or a smaller graph",
                sets=len(family),
                most=math.isqrt(2 * tuning.MAX_STORED_STEPS),
            )
        costs = objective_values(objective, steps.stored_figures(), len(nodes))
        steps.set_costs(costs.astype(float))
        max_cost = int(costs.max(initial=0)) * min(len(family), len(nodes))
        return cls(steps, 2 * int(memory.sum()), max_cost, _common_unit(costs), clock)

    @classmethod
    def by_blocks(cls, family: LowerSetFamily, figures: BlockFigures, max_peak: int, clock: Clock) -> "ChainProgram":
        """Use the figures of simulated blocks; omit steps that need more than `max_peak` bytes."""
        memory = family.graph.node_memory[family.nodes]
        zeros = np.zeros(len(family), np.int64)
        steps = kernel.ChainSteps(
            family.words,
            memory=memory,
            compute=memory,
            set_memory=zeros,
            cost=zeros,
            beside=zeros,
            boundary_indptr=np.zeros(len(family) + 1, np.int64),
            boundary=np.zeros(0, np.int32),
            covers=None,
            kept=False,
            keep_last=True,
        )
        adds, cost = figures.cached, figures.recompute
        steps.store_figures(*family.pairs, need=figures.peak, adds=adds, cost=cost, max_need=max_peak)
        usable = figures.recompute[figures.peak <= max_peak]
        return cls(steps, max_peak, int(usable.max(initial=0)) * len(family), _common_unit(usable), clock)

    def least_budget(self, below: int | None = None) -> int:
        """Return the minimum peak over all chains; `below` is the peak of some chain, if one is already known."""
        if self.steps.size < 2:
            return 0
        search = kernel.MinimumBudget(self.steps, (self.max_peak if below is None else below) + 1)
        self._run(search)
        return int(search.budget)

    def cheapest(self, budget: int, max_cost: int | None = None) -> Point | None:
        """Return the cheapest chain within a budget; None if every chain within it costs more than `max_cost`.

        If the cheapest chain costs more than `COST_LEVELS` units, costs are rounded to a larger unit, which the result
        reports as `rounded`. The chain may then exceed the optimal cost by up to one such unit per block.
        """
        if self.steps.size < 2:
            return Point(0, 0, [])
        max_cost = self.max_cost if max_cost is None else min(max_cost, self.max_cost)
        lower_bound = kernel.cost_bound(self.steps, budget) if self.steps.stored_all else 0
        if not 0 <= lower_bound <= max_cost:
            return None
        levels = int(np.clip(tuning.TABLE_BYTES // (8 * self.steps.size), 64, tuning.COST_LEVELS))
        cap, before, work_before = min(max(tuning.FIRST_CAP * self.unit, lower_bound), max_cost), 0, 0
        while True:
            unit = self._unit(cap, levels)
            rounded = unit if unit != self.unit else 0
            # A chain has at most n steps, and rounding errs by at most half a unit per step.
            table = kernel.MinimumCost(
                self.steps, budget, unit, cap // unit + bool(rounded) * (self.steps.nodes // 2 + 1)
            )
            self._run(table)
            if table.best() >= 0:
                point = self.point(table.chain(), rounded)
                return point if not rounded or point.cost <= max_cost else None
            if cap >= max_cost:
                return None
            factor = 2.0
            # Choose the next cap so that the work, extrapolated from the last two tables, grows by about `WORK_GROWTH`.
            if before:
                power = math.log(max(2.0, table.work / work_before)) / math.log(cap / before)
                factor = min(2.0, max(1.1, tuning.WORK_GROWTH ** (1 / power)))
            before, work_before = cap, max(1, table.work)
            cap = min(max(cap + self.unit, int(cap * factor)), max_cost)

    def minimum_cache(self, budget: int, max_cache: int | None = None) -> Point | None:
        """Return the chain within a budget that caches the fewest bytes; None if all cache more than `max_cache`."""
        if self.steps.size < 2:
            return Point(0, 0, [])
        search = kernel.MinimumCache(self.steps, budget, self.max_peak if max_cache is None else max_cache)
        self._run(search)
        rows = search.chain()
        return None if rows is None else self.point(rows)

    def frontier(self) -> list[Point]:
        if self.steps.size < 2:
            return [Point(0, 0, [])]
        points = self._between_budgets() if self.steps.stored_all else self._one_by_one()
        return pareto(points, lambda point: (point.peak, point.cost))

    def point(self, rows: list[int], rounded: int = 0) -> Point:
        cost, peak = self.steps.figures(np.array([0, *rows], np.int64))
        return Point(cost, peak, rows, rounded)

    def _unit(self, cost: int, levels: int) -> int:
        """Return the smallest unit for which `cost` is at most `levels` units."""
        return self.unit * max(1, math.ceil(cost / (levels * self.unit)))

    def _run(self, search: Any) -> None:
        self.clock.stage(self.steps.size, "lower sets", part=tuning.TABLE_PROGRESS)
        while not search.advance(tuning.WORK_PER_CHECK):
            self.clock.progress(search.current)
        self.clock.progress(self.steps.size)

    def _one_by_one(self) -> Iterator[Point]:
        budget = self.max_peak
        while (point := self.cheapest(budget)) is not None:
            yield point
            budget = point.peak - 1

    def _between_budgets(self) -> Iterator[Point]:
        """Yield all Pareto points by label setting. A budget range with too many cost levels is first split in half."""
        least = self.least_budget()
        lowest = self.cheapest(least) or Point(0, 0, [])
        levels = int(np.clip(tuning.TABLE_BYTES // (16 * self.steps.size), 64, tuning.COST_LEVELS // 2))
        unit = self._unit(lowest.cost + 1, levels)
        rounded = unit if unit != self.unit else 0
        # Rounding may add one unit per step.
        dearest = lowest.cost // unit + bool(rounded) * len(lowest.rows)
        table = kernel.Completion(self.steps, self.max_peak, unit, dearest)
        waiting = [(least, dearest + 1, self.max_peak, table.best())]
        while waiting:
            low, dear, high, cheap = waiting.pop()
            if dear <= cheap or cheap < 0:
                continue
            if dear - cheap > max(4, dearest // tuning.LABEL_PARTS) and high - low > 1:
                middle = (low + high) // 2
                between = kernel.Completion(self.steps, middle, unit, dear - 1).best()
                between = dear if between < 0 else between
                waiting += [(low, dear, middle, between), (middle, between, high, cheap)]
                self.clock.check()
                continue
            labels = kernel.MinimumPeaks(kernel.Completion(self.steps, high, unit, dear - 1))
            self._run(labels)
            for rows in labels.chains():
                yield self.point(rows, rounded)


def _set_figures(family: LowerSetFamily, memory: Int64, compute: Int64, clock: Clock) -> dict[str, NDArray[Any]]:
    """Return the terms of the formulas for each set; compute them in pieces and check the deadline between pieces."""
    clock.stage(len(family), "lower sets", part=tuning.TABLE_PROGRESS)
    clock.check()
    edges = dict(zip(("pred_indptr", "pred", "succ_indptr", "succ"), family.edges, strict=True))
    pieces = []
    for begin in range(0, len(family), tuning.SETS_PER_CHECK):
        words = family.words[begin : begin + tuning.SETS_PER_CHECK]
        pieces.append(lower_set_figures(words, **edges, memory=memory, compute=compute))
        clock.progress(begin + len(words))
    memory_of, cost, beside, indptr, boundary = (list(arrays) for arrays in zip(*pieces, strict=True))
    ends = np.cumsum([0, *(each[-1] for each in indptr)])
    indptr = [each[1:] + end for each, end in zip(indptr, ends[:-1], strict=True)]
    return {
        "set_memory": np.concatenate(memory_of),
        "cost": np.concatenate(cost),
        "beside": np.concatenate(beside),
        "boundary_indptr": np.concatenate([[0], *indptr]),
        "boundary": np.concatenate(boundary),
    }


def _common_unit(costs: Int64) -> int:
    return int(np.gcd.reduce(costs, initial=0))
