"""The difference between two plans: nodes that only one recomputes, and values that only one offloads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.ir.arrays import Int64, brief
from remat_algos.plan.plan import Plan
from remat_algos.result import Result
from remat_algos.wording import counted, format_bytes, listed, shortened

DIFFERENCES_NAMED = 12


@dataclass(frozen=True, slots=True, eq=False)
class Difference(Result):
    """The differences between two plans for one graph in their runs and copies; `names` are the names of the plans."""

    plan: Plan
    other: Plan
    names: tuple[str, str] = ("first", "second")

    __repr__ = brief

    def __post_init__(self) -> None:
        check_same_graph([self.plan, self.other])

    @property
    def has_link(self) -> bool:
        return self.plan.link is not None or self.other.link is not None

    @property
    def more_runs(self) -> Int64:
        """int64[n]: number of runs of each node in the first plan, minus the number in the other plan."""
        return self.plan.simulation.runs - self.other.simulation.runs

    @property
    def first_step(self) -> int | None:
        """The first step at which the orders or the loads differ, or None if the schedules are equal."""
        steps = [step for step in (self._first_run, self._first_load) if step is not None]
        return min(steps, default=None)

    @property
    def _first_load(self) -> int | None:
        ours, theirs = ({(step, x) for step, x in plan.schedule.loads.tolist()} for plan in (self.plan, self.other))
        return min((step for step, _ in ours ^ theirs), default=None)

    @property
    def _first_run(self) -> int | None:
        ours, theirs = self.plan.schedule.order, self.other.schedule.order
        shared = min(ours.size, theirs.size)
        differing = np.flatnonzero(ours[:shared] != theirs[:shared])
        if differing.size:
            return int(differing[0])
        return None if ours.size == theirs.size else shared

    def values(self, sign: int) -> list[int]:
        """Return the values that only the first plan (1) or only the other plan (-1) offloads, the largest first."""
        plan, other = (self.plan, self.other) if sign > 0 else (self.other, self.plan)
        values = np.setdiff1d(plan.simulation.stores, other.simulation.stores)
        return values[np.argsort(-plan.graph.memory[values], kind="stable")].tolist()

    def nodes(self, sign: int) -> list[int]:
        """Return the nodes that the first plan (1) or the other plan (-1) runs more often, by decreasing bytes."""
        nodes = np.flatnonzero(self.more_runs * sign > 0)
        return nodes[np.argsort(-self.plan.graph.node_memory[nodes], kind="stable")].tolist()

    def record(self) -> dict[str, Any]:
        graph = self.plan.graph
        ours, theirs = self.plan.simulation.runs, self.other.simulation.runs
        plans = (self.plan, self.other)
        copies: dict[str, Any] = {}
        if self.has_link:
            copies = {
                "time": [plan.time for plan in plans],
                "host_peak": [plan.simulation.host_peak for plan in plans],
                "offloaded": [[graph.value_name(x) for x in self.values(sign)] for sign in (1, -1)],
            }
        return {
            "graph_hash": graph.source_hash,
            "peak_memory": [self.plan.peak_memory, self.other.peak_memory],
            "compute": [self.plan.simulation.compute, self.other.simulation.compute],
            "overhead": [self.plan.overhead, self.other.overhead],
            "steps": [len(self.plan.schedule), len(self.other.schedule)],
            "first_step": self.first_step,
            **copies,
            "nodes": [
                {
                    "node": graph.labels[v],
                    "runs": [int(ours[v]), int(theirs[v])],
                    "memory": int(graph.node_memory[v]),
                    "compute": int(graph.compute[v]),
                }
                for v in [*self.nodes(1), *self.nodes(-1)]
            ],
        }

    @property
    def columns(self) -> tuple[str, ...]:
        return ("", *self.names, "difference")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the figures of both plans with their difference."""
        plans = (self.plan, self.other)
        graph = self.plan.graph
        again = [int((plan.simulation.runs > 1).sum()) for plan in plans]
        yield ("peak", *_compared([plan.peak_memory for plan in plans], format_bytes))
        yield ("compute", *_compared([plan.simulation.compute for plan in plans], graph.labels.compute))
        if self.has_link:
            yield ("time", *_compared([plan.time for plan in plans], graph.labels.compute))
            yield ("host peak", *_compared([plan.simulation.host_peak for plan in plans], format_bytes))
            yield ("offloaded values", *_compared([plan.simulation.stores.size for plan in plans], str))
        yield ("steps", *_compared([len(plan.schedule) for plan in plans], str))
        yield ("recomputed nodes", *_compared(again, str))
        yield ("solver", self.plan.method, self.other.method, "")

    def notes(self) -> Iterator[str]:
        """Yield the nodes that each plan runs more often, with their bytes and cost."""
        graph = self.plan.graph
        if self.first_step is None:
            yield "the same schedule"
            return
        for name, other, sign in zip(self.names, reversed(self.names), (1, -1), strict=True):
            values = self.values(sign)
            if values:
                named = listed([shortened(graph.value_name(x)) for x in values], DIFFERENCES_NAMED)
                size = format_bytes(int(graph.memory[values].sum()))
                yield f"{name} offloads {counted(len(values), 'value')} that {other} does not: {size}, {named}"
        if not self.more_runs.any():
            if self._first_run is not None:
                yield f"every node runs equally often; the orders differ from step {self._first_run} on"
            return
        for name, other, sign in zip(self.names, reversed(self.names), (1, -1), strict=True):
            nodes = self.nodes(sign)
            if not nodes:
                continue
            extra = self.more_runs * sign
            cost = int((extra[nodes] * graph.compute[nodes]).sum())
            yield (
                f"{name} runs {counted(len(nodes), 'node')} more often than {other}: "
                f"{format_bytes(int(graph.node_memory[nodes].sum()))}, {graph.labels.compute(cost)} more compute"
            )
            for v in nodes[:DIFFERENCES_NAMED]:
                each = f"{format_bytes(int(graph.node_memory[v]))}, {graph.labels.compute(int(graph.compute[v]))}"
                yield f"    {shortened(graph.labels[v])}  {each}" + (f", {extra[v]} times more" if extra[v] > 1 else "")
            if len(nodes) > DIFFERENCES_NAMED:
                yield f"    ... {len(nodes) - DIFFERENCES_NAMED} more"


def check_same_graph(plans: Sequence[Plan]) -> None:
    if len({(plan.graph.source_hash, plan.graph.hash) for plan in plans}) > 1:
        raise PlanError(
            "the plans were made for different graphs, or differentiated differently; they cannot be compared"
        )


@checked_arguments
def difference(plan: Plan, other: Plan) -> Difference:
    """Compare the kept and recomputed nodes of two plans, in bytes and cost.

    Parameters
    ----------
    plan, other : Plan
        Plans for the same graph, differentiated in the same way.

    Returns
    -------
    Difference

    Raises
    ------
    PlanError
        If the plans were made for different graphs.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.search.solve import solve
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = difference(solve(chain, 7, solver="chen_greedy"), solve(chain, 9, solver="chen_greedy"))
    >>> [[chain.labels[v] for v in found.nodes(sign)] for sign in (1, -1)]
    [['0', '1'], []]
    """
    return Difference(plan, other)


def _compared(amounts: Sequence[float], shown: Any) -> tuple[str, str, str]:
    change = amounts[1] - amounts[0]
    sign = "+" if change > 0 else "-" if change < 0 else ""
    return shown(amounts[0]), shown(amounts[1]), f"{sign}{shown(abs(change))}"
