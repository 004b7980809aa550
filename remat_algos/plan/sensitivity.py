"""Sensitivity of the overhead to the costs of nodes: its spread over sampled costs, and the nodes behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remat_algos.arguments import check_kind
from remat_algos.errors import PlanError
from remat_algos.ir.arrays import Float64, brief, sealed
from remat_algos.plan.cost_noise import DEVIATION, SAMPLES, CostNoise, quantile, runs_beyond_pass
from remat_algos.plan.difference import check_same_graph
from remat_algos.plan.plan import Plan
from remat_algos.text.units import fine_percent, format_bytes, percent
from remat_algos.text.wording import counted, shortened

NAMED = 5  # nodes of a plan that are printed
RECORDED = 50  # in the JSON record


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """The overheads of plans for one graph under sampled costs.

    Parameters
    ----------
    plans : tuple of Plan
    noise : CostNoise
    overheads : float64[n_plans, samples]
        Of each plan under each sample, as a share of one pass at these costs; computed.
    """

    plans: tuple[Plan, ...]
    noise: CostNoise
    overheads: Float64 = field(init=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", tuple(self.plans))
        for plan in self.plans:
            check_kind(plan, Plan, "plan")
        if not self.plans:
            raise PlanError("there is no plan; give one or more for the same graph")
        check_same_graph(self.plans)
        overheads = self.noise.overheads(self.plans[0].graph, [plan.simulation for plan in self.plans])
        object.__setattr__(self, "overheads", sealed(overheads))

    @property
    def quantiles(self) -> Float64:
        """float64[n_plans]: the 90 % quantile of the overhead."""
        return quantile(self.overheads)

    @property
    def best_shares(self) -> Float64:
        """float64[n_plans]: the share of samples in which no other plan has a lower overhead; of equals each counts."""
        return (self.overheads == self.overheads.min(axis=0)).mean(axis=1)

    def variance_shares(self, i: int) -> Float64:
        """float64[n]: the share of each node's cost in the variance of plan i's overhead, to first order.

        If its cost rises, a node that runs more often than the average, by cost, raises the overhead; a node that runs
        once lowers it, being a larger part of one pass. Zeros if the overhead does not depend on the costs.
        """
        plan = self.plans[i]
        graph = plan.graph
        extra, nominal = runs_beyond_pass(plan.simulation), _share(plan.overhead, graph.needed_compute)
        squares = ((extra - nominal * graph.needed) * graph.compute.astype(np.float64)) ** 2
        total = squares.sum()
        return squares / total if total else squares

    def nodes(self, i: int, limit: int = NAMED) -> list[int]:
        """The nodes whose cost matters most for the overhead of plan i, by `variance_shares`."""
        shares = self.variance_shares(i)
        return [v for v in np.argsort(-shares, kind="stable")[:limit].tolist() if shares[v] > 0]

    def record(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The JSON record."""
        graph = self.plans[0].graph
        figures = zip(self._names(names), self.plans, self.quantiles.tolist(), self.best_shares.tolist(), strict=True)
        entries = []
        for i, (name, plan, at_quantile, best) in enumerate(figures):
            extra, shares = runs_beyond_pass(plan.simulation), self.variance_shares(i)
            nodes = [
                {
                    "node": graph.labels[v],
                    "extra_runs": int(extra[v]),
                    "extra_compute": int(extra[v] * graph.compute[v]),
                    "variance_share": float(shares[v]),
                }
                for v in self.nodes(i, RECORDED)
            ]
            entries.append(
                {
                    "plan": name,
                    "peak_memory": plan.peak_memory,
                    "overhead": plan.overhead,
                    "nominal": _share(plan.overhead, graph.needed_compute),
                    "mean": float(self.overheads[i].mean()),
                    "quantile": at_quantile,
                    "worst": float(self.overheads[i].max()),
                    "best_share": best,
                    "nodes": nodes,
                }
            )
        return {
            "graph_hash": graph.source_hash,
            "noise": self.noise.deviation,
            "samples": self.noise.samples,
            "seed": self.noise.seed,
            "plans": entries,
        }

    def rows(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, ...]]:
        """Figures of each plan; the first row is the headings."""
        yield ("plan", "peak", "overhead", "mean", "90 %", "worst", "best in")
        figures = zip(self._names(names), self.plans, self.overheads, self.quantiles, self.best_shares, strict=True)
        for name, plan, overheads, at_quantile, best in figures:
            one_pass = plan.graph.needed_compute
            shown = (fine_percent(share, 1) for share in (overheads.mean(), at_quantile, overheads.max()))
            peak, nominal = format_bytes(plan.peak_memory), fine_percent(plan.overhead, one_pass)
            yield (shortened(name), peak, nominal, *shown, percent(best, 1))

    def lines(self, names: Sequence[str] | None = None) -> Iterator[str]:
        """The nodes of each plan whose cost matters most for its overhead."""
        graph = self.plans[0].graph
        for i, (name, plan) in enumerate(zip(self._names(names), self.plans, strict=True)):
            nodes, extra, shares = self.nodes(i), runs_beyond_pass(plan.simulation), self.variance_shares(i)
            if not nodes:
                yield f"{name}: its overhead does not depend on the costs"
                continue
            yield f"{name}: nodes whose cost matters most for the overhead"
            for v in nodes:
                compute = graph.labels.compute(int(extra[v] * graph.compute[v]))
                again = f"{counted(int(extra[v]), 'extra run')}, {compute} more compute"
                part = f"{percent(shares[v], 1)} of the variance"
                yield f"    {shortened(graph.labels[v])}  {again if extra[v] else 'not recomputed'}, {part}"

    def _names(self, names: Sequence[str] | None) -> Sequence[str]:
        return [f"plan {i + 1}" for i in range(len(self.plans))] if names is None else names

    def __str__(self) -> str:
        return "\n".join(["  ".join(row).rstrip() for row in self.rows()] + list(self.lines()))


def sensitivity(
    plans: Sequence[Plan], *, noise: float = DEVIATION, samples: int | None = None, seed: int = 0
) -> Sensitivity:
    """Compute the overhead of plans under uncertain costs of nodes.

    Parameters
    ----------
    plans : sequence of Plan
        For the same graph, differentiated the same way.
    noise : float
        Standard deviation of each cost as a share of it, above 0 and at most 1 (`CostNoise`).
    samples : int, optional
        By default 4,096, fewer on graphs of more than 2,048 nodes.
    seed : int

    Returns
    -------
    Sensitivity
        Of each plan the overheads under all samples, their mean, quantile and maximum, how often it is the best, and
        the nodes behind it.

    Raises
    ------
    PlanError
        If the plans were made for different graphs.
    ValueError
        For a noise or a number of samples that cannot be used.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.plan.solve import solve
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> result = sensitivity([solve(chain, 9, solver="chen_sqrt")])
    >>> [(chain.labels[v], result.variance_shares(0)[v].round(2).item()) for v in result.nodes(0, 3)]
    [('0', 0.44), ('4', 0.44), ('grad(7)', 0.01)]
    """
    if samples is None and plans:
        return Sensitivity(tuple(plans), CostNoise.of(plans[0].graph, noise, seed))
    return Sensitivity(tuple(plans), CostNoise(noise, SAMPLES if samples is None else samples, seed))


def _share(overhead: int, one_pass: int) -> float:
    return overhead / one_pass if one_pass else 0.0
