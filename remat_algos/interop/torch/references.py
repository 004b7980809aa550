"""Reference schedules to compare a plan with: one pass in a good order, and the model's own checkpoints."""

from dataclasses import dataclass

import numpy as np

from remat_algos.interop.torch.capture_model import Captured
from remat_algos.interop.torch.private_names import checkpoint_region
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.structure.reachability import ancestors
from remat_algos.text.amounts import percent
from remat_algos.wording import exact_bytes

Region = tuple[int, ...]
"""Numbers of the nested regions of `torch.utils.checkpoint` around an operator, outermost first."""


@dataclass(frozen=True, slots=True)
class References:
    """Two reference schedules of a captured graph.

    `one_pass` runs each node once, in the graph's order or in that of a beam search, whichever has the lower peak; a
    budget in percent refers to this peak. `today` is the schedule of the model's own `torch.utils.checkpoint`, which
    recomputes each region once, without operators that no gradient needs. `today` is None if there is no region.
    """

    one_pass: Simulation
    today: Simulation | None

    @property
    def as_is(self) -> Simulation:
        """Schedule of the model without a plan."""
        return self.one_pass if self.today is None else self.today

    def better(self, plan: Plan | None, limit: int | None) -> Simulation | None:
        """Return the best reference if it is within the limit and better than the plan. Otherwise return None."""

        def rank(peak: int, overhead: float) -> tuple[int, float]:
            return peak if limit is None else max(peak - limit, 0), overhead

        best = min(self.as_is, self.one_pass, key=lambda each: rank(each.peak_memory, each.overhead))
        fits = limit is None or best.peak_memory <= limit
        ranked = rank(best.peak_memory, best.overhead)
        return best if fits and (plan is None or ranked < rank(plan.peak_memory, plan.overhead_in_time)) else None

    def rows(self) -> list[tuple[str, str]]:
        graph = self.one_pass.graph
        order = "the model's order" if self.one_pass.peak_memory == baseline_peak(graph) else "a beam search's order"
        rows = [("one pass", f"{exact_bytes(self.one_pass.peak_memory)} in {order}; shares refer to this")]
        if self.today is not None:
            more = percent(self.today.overhead, graph.needed_compute)
            rows.append(
                ("today", f"{exact_bytes(self.today.peak_memory)} at {more} overhead, by torch.utils.checkpoint")
            )
        return rows

    @classmethod
    def of(cls, model: Captured) -> "References":
        graph = model.graph
        passes = (baseline(graph), simulate(graph, lowest_pass(graph)))
        regions = [((), False) if each is None else checkpoint_region(each.meta) for each in model.operators]
        order = _by_regions(graph, model.boundary, regions)
        return cls(
            min(passes, key=lambda each: each.peak_memory),
            None if order is None else simulate(graph, order),
        )


def _by_regions(graph: ComputationGraph, boundary: int, regions: list[tuple[Region, bool]]) -> list[int] | None:
    """Return the model's own schedule: each region is recomputed before the first backward node that reads its values.

    Return None if nothing is recomputed. If forward operators outside of a region read one of its values, the value
    is recomputed only with an outer region that also contains these operators. An outer region is recomputed before its
    inner ones.
    """
    stored = graph.memory > 0
    reads = [sorted({int(graph.producer[x]) for x in graph.reads(v) if stored[x]}) for v in range(graph.n_nodes)]
    forward = ancestors(graph, boundary)
    order = np.flatnonzero(forward).tolist()
    depth = _depths(graph, order, reads, regions)
    later = [v for v in np.flatnonzero(graph.needed).tolist() if not forward[v] and not depth[v]]
    needed = sorted({u for v in later for u in reads[v] if depth[u]})
    if not needed:
        return None

    def recomputed(region: Region) -> list[int]:
        def inside(u: int) -> bool:
            return depth[u] >= len(region) and regions[u][0][: len(region)] == region

        nodes, pending = set[int](), list(filter(inside, needed))
        while pending:
            u = pending.pop()
            if u not in nodes:
                nodes.add(u)
                pending += filter(inside, reads[u])
        return sorted(nodes)

    ran, done = set(order), set[Region]()
    # Visit backward nodes first: a forward node that is not recomputed runs when one of them needs it.
    for v in [v for v in later if v > boundary] + later:
        waiting = [v]
        while waiting:
            u = waiting[-1]
            before = [w for w in reads[u] if not depth[w] and w not in ran]
            for w in reads[u] if not depth[u] else ():
                for region in [regions[w][0][:d] for d in range(1, depth[w] + 1)]:
                    if region not in done:
                        done.add(region)
                        before += recomputed(region)
            waiting += reversed(before)
            if not before:
                waiting.pop()
                if depth[u] or u not in ran:
                    order.append(u)
                    ran.add(u)
    return order


def _depths(
    graph: ComputationGraph, order: list[int], reads: list[list[int]], regions: list[tuple[Region, bool]]
) -> list[int]:
    """Return, for each node, how many of its regions recompute it, counted from the outermost region."""
    marks = zip(regions, graph.once, strict=True)
    depth = [len(region) if again and not once else 0 for (region, again), once in marks]
    for v in graph.producer[graph.output & (graph.memory > 0)].tolist():
        depth[v] = 0
    for v in order:
        for u in reads[v]:
            depth[u] = min(depth[u], _common(regions[u][0], regions[v][0]))
    return depth


def _common(one: Region, other: Region) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
