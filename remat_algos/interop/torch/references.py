"""What a plan is compared with: one pass in the best order, and what the model does today."""

from dataclasses import dataclass

import numpy as np

from remat_algos.bounds.moments import ancestors
from remat_algos.interop.torch.joint import Captured
from remat_algos.interop.torch.private import checkpoint_region
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.schedule.baseline import baseline, baseline_peak
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.units import exact_bytes, percent


@dataclass(frozen=True, slots=True)
class References:
    """Two schedules of a captured graph.

    Parameters
    ----------
    one_pass : Simulation
        Of the order of the graph and that of a beam search, the one of the lower peak: shares are of that.
    today : Simulation or None
        What `torch.utils.checkpoint` does in the model: each region runs again once, as far as gradients need it; None
        where the model has no such region.
    """

    one_pass: Simulation
    today: Simulation | None

    @property
    def as_is(self) -> Simulation:
        """What runs without a plan."""
        return self.one_pass if self.today is None else self.today

    def better(self, plan: Plan | None, limit: int | None) -> Simulation | None:
        """A reference that fits where a plan does not, or computes less; None if there is none.

        Parameters
        ----------
        plan : Plan or None
            None: no plan was found.
        limit : int or None
            Bytes; None: the lowest peak is wanted.
        """

        def rank(simulation: Simulation) -> tuple[int, int]:
            above = simulation.peak_memory if limit is None else max(simulation.peak_memory - limit, 0)
            return above, simulation.overhead

        best = min(self.as_is, self.one_pass, key=rank)
        fits = limit is None or best.peak_memory <= limit
        return best if fits and (plan is None or rank(best) < rank(plan.simulation)) else None

    def rows(self) -> list[tuple[str, str]]:
        """Lines of a report."""
        graph = self.one_pass.graph
        order = "of the model" if self.one_pass.peak_memory == baseline_peak(graph) else "that a beam search found"
        rows = [("one pass", f"{exact_bytes(self.one_pass.peak_memory)} in the order {order}; shares are of this")]
        if self.today is not None:
            more = percent(self.today.overhead, graph.needed_compute)
            rows.append(
                ("today", f"{exact_bytes(self.today.peak_memory)} at {more} overhead, by torch.utils.checkpoint")
            )
        return rows

    @classmethod
    def of(cls, model: Captured) -> "References":
        """Those of a model."""
        graph = model.graph
        passes = (baseline(graph), simulate(graph, lowest_pass(graph)))
        regions = [(None, False) if each is None else checkpoint_region(each.meta) for each in model.operators]
        order = _by_regions(graph, model.boundary, regions)
        return cls(
            min(passes, key=lambda each: each.peak_memory),
            None if order is None else simulate(graph, order),
        )


def _by_regions(graph: ComputationGraph, boundary: int, regions: list[tuple[int | None, bool]]) -> list[int] | None:
    """Ids in order, with what is recomputed of a region before the first that reads it; None if nothing is.

    What other operators of the forward part read of a region is not recomputed.
    """
    stored = graph.memory > 0  # other values only order draws
    reads = [sorted({int(graph.producer[x]) for x in graph.reads(v) if stored[x]}) for v in range(graph.n_nodes)]
    forward = ancestors(graph, boundary)
    order = np.flatnonzero(forward).tolist()
    kept = graph.once | np.array([not again for _, again in regions])
    kept[graph.producer[graph.output & stored]] = True
    for v in order:
        kept[[u for u in reads[v] if regions[u][0] != regions[v][0]]] = True

    later = [v for v in np.flatnonzero(graph.needed).tolist() if not forward[v] and kept[v]]
    recomputed: dict[int | None, set[int]] = {}  # of each region, what others need of it
    pending = [u for v in later for u in reads[v]]
    while pending:
        u = pending.pop()
        nodes = recomputed.setdefault(regions[u][0], set())
        if not kept[u] and u not in nodes:
            nodes.add(u)
            pending += reads[u]
    if not any(recomputed.values()):
        return None

    ran = set(order)
    for v in [v for v in later if v > boundary] + later:  # what only gradients need runs before the first of these
        waiting = [v]
        while waiting:
            u = waiting[-1]
            before = [w for w in reads[u] if kept[w] and w not in ran]
            for w in reads[u]:
                if not kept[w]:
                    before += sorted(recomputed.pop(regions[w][0], ()))
            waiting += reversed(before)
            if not before:
                waiting.pop()
                if not kept[u] or u not in ran:
                    order.append(u)
                    ran.add(u)
    return order
