"""Ranking of candidates: within a limit, and by Pareto dominance in memory and compute."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.graph import ComputationGraph


def cost_per_byte(graph: ComputationGraph) -> NDArray[np.float64]:
    """float64[n]: compute that keeping a node saves, per byte of all its values; infinite if they have no bytes."""
    memory = graph.node_memory
    cost = np.full(graph.n_nodes, np.inf)
    return np.divide(graph.compute / float(graph.labels.compute_scale), memory, out=cost, where=memory > 0)


Item = TypeVar("Item")
WORST = (2, 2**63, 2**63)
"""The rank of no candidate."""


def rank(
    figures: tuple[int, int], limit: int | None, compute_limit: int | None = None, *, lowest: bool = False
) -> tuple[int, int, int]:
    """Sort key: schedules that fit by (compute, peak), then those above the compute limit, then above the memory limit.

    The first number is 0 if the schedule fits. Without a limit, or with `lowest`, the lowest peak comes first.

    Examples
    --------
    >>> sorted([(5, 9), (7, 6), (6, 7)], key=lambda figures: rank(figures, 6))
    [(6, 7), (5, 9), (7, 6)]
    """
    peak, compute = figures
    if limit is not None and peak > limit:
        return 2, peak, compute
    if compute_limit is not None and compute > compute_limit:
        return 1, compute, peak
    return (0, peak, compute) if lowest or limit is None else (0, compute, peak)


class ParetoSet(Generic[Item]):
    """Items that do not dominate each other in peak and compute: peaks rise, computes fall; the first of equals stays.

    Examples
    --------
    >>> kept = ParetoSet(lambda figures: figures)
    >>> [kept.add(figures) for figures in [(5, 9), (6, 9), (7, 6), (7, 5)]], kept.items
    ([True, False, True, True], [(5, 9), (7, 5)])
    """

    def __init__(self, figures: Callable[[Item], tuple[int, float]]) -> None:
        self.figures = figures
        self.items: list[Item] = []

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: Item) -> bool:
        """Add an item unless another dominates or equals it, and drop those that it dominates; True if it was added."""
        peak, compute = self.figures(item)
        end = begin = bisect_right(self.items, peak, key=lambda kept: self.figures(kept)[0])
        if begin and self.figures(self.items[begin - 1])[1] <= compute:
            return False
        while begin and self.figures(self.items[begin - 1])[0] == peak:
            begin -= 1
        while end < len(self.items) and self.figures(self.items[end])[1] >= compute:
            end += 1
        self.items[begin:end] = [item]
        return True


def pareto(items: Iterable[Item], figures: Callable[[Item], tuple[int, float]]) -> list[Item]:
    """Items that no other dominates, peaks rising; the first of equals."""
    kept = ParetoSet(figures)
    for item in items:
        kept.add(item)
    return kept.items
